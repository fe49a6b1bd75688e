"""Calls compiled code: packs the argument block, releases the GIL, turns a failure code into an error."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Sequence
from typing import Protocol

from tilejit import config
from tilejit.dtypes import DType
from tilejit.runtime import abi, arena
from tilejit.runtime.arrays import ArrayView, allocate, first_array, view_of
from tilejit.runtime.failures import Failure, raise_failure
from tilejit.runtime.signature import Bound, ParamInfo

_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
_WORD = (1 << 64) - 1


class Code(Protocol):
    """Loaded machine code that can tell where its functions are."""

    def address(self, name: str) -> int: ...


class NativeEntry:
    """One callable function of loaded code."""

    def __init__(self, code: Code, symbol: str, params: Sequence[ParamInfo], failures: Sequence[Failure], results: Sequence[ParamInfo] = ()) -> None:
        self._code = code  # keeps the code mapped
        self._function = _ENTRY(code.address(symbol))
        self._dtypes = [param.dtype for param in params]
        self._failures = tuple(failures)
        self._results = tuple(results)
        # Results come back in the slots after the arguments; the last one is the code's own.
        self._result_slots = sum(1 + 2 * len(result.shape or ()) for result in results) + 1 if results else 0

    def run(self, arguments: Sequence[Bound], num_threads: int | None = None) -> tuple[object, ...]:
        """Run on checked arguments; the new arrays and scalars that the kernel returns."""
        slots = pack(arguments, self._dtypes)
        first_result = len(slots)
        block = (ctypes.c_uint64 * max(1, first_result + self._result_slots))(*slots)
        context = (ctypes.c_int64 * abi.CONTEXT_SLOTS)()
        scratch = arena.this_thread()
        context[abi.ARENA_BASE] = scratch.base
        context[abi.ARENA_END] = scratch.end
        context[abi.THREADS] = num_threads or thread_count()
        code = self._function(ctypes.addressof(block), ctypes.addressof(context))
        if code != 0:
            raise_failure(self._failures[code - 1], [context[abi.FAILURE_VALUES + i] for i in range(4)])
        return self._returned(block, first_result, first_array(arguments)) if self._results else ()

    def _returned(self, block: Sequence[int], slot: int, like: ArrayView | None) -> tuple[object, ...]:
        """Copies of what lies in the scratch memory of the call, in the caller's framework."""
        out: list[object] = []
        for result in self._results:
            if result.shape is None:
                out.append(scalar_value(block[slot], result.dtype))
                slot += 1
                continue
            where = abi.TensorSlots(slot, len(result.shape))
            shape = tuple(block[where.extent(axis)] for axis in range(where.rank))
            strides = tuple(_signed(block[where.stride(axis)]) for axis in range(where.rank))
            inside = ArrayView(None, "other", shape, strides, result.dtype, block[where.address], False)
            new = allocate(like, shape, result.dtype)
            outside = view_of(new)
            assert outside is not None
            outside.numpy()[...] = inside.numpy()
            out.append(new)
            slot = where.end
        return tuple(out)


def pack(arguments: Sequence[Bound], dtypes: Sequence[DType]) -> list[int]:
    """The 64-bit slots of the argument block (see abi.py)."""
    slots: list[int] = []
    for argument, dtype in zip(arguments, dtypes, strict=True):
        if isinstance(argument, ArrayView):
            slots.append(argument.address)
            slots += argument.shape
            slots += [stride & _WORD for stride in argument.strides]
        else:
            slots.append(scalar_bits(argument, dtype))
    return slots


def scalar_bits(value: int | float | bool, dtype: DType) -> int:
    """The bits of a scalar argument, zero-extended."""
    if not dtype.is_float:
        return int(value) & ((1 << max(8, dtype.bits)) - 1)
    if dtype.name == "FP32":
        return struct.unpack("<I", struct.pack("<f", _to_single(value)))[0]
    import numpy as np

    return int.from_bytes(np.asarray(value, dtype.numpy).tobytes(), "little")


def scalar_value(bits: int, dtype: DType) -> int | float | bool:
    """The number whose bits a slot holds."""
    if dtype.name == "BOOL":
        return bool(bits & 1)
    if dtype.is_integer:
        bits &= (1 << max(8, dtype.bits)) - 1
        return bits - (1 << dtype.bits) if dtype.is_signed and bits >> (dtype.bits - 1) else bits
    import numpy as np

    return float(np.frombuffer(bits.to_bytes(8, "little"), dtype.numpy, count=1)[0])


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _to_single(value: float) -> float:
    """`value` if a float32 can hold it, else infinity: what every other conversion to float32 does."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return value


def thread_count() -> int:
    """Threads a call may use: the setting, torch's count if torch is loaded, else the CPUs this process may use."""
    chosen = config.NUM_THREADS.value
    if chosen:
        return chosen
    if "torch" in sys.modules:
        from tilejit.runtime import torch

        return torch.thread_count()
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
