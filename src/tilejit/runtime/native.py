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
from tilejit.runtime.arrays import ArrayView
from tilejit.runtime.failures import Failure, raise_failure
from tilejit.runtime.signature import Bound, ParamInfo

_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
_WORD = (1 << 64) - 1


class Code(Protocol):
    """Loaded machine code that can tell where its functions are."""

    def address(self, name: str) -> int: ...


class NativeEntry:
    """One callable function of loaded code."""

    def __init__(self, code: Code, symbol: str, params: Sequence[ParamInfo], failures: Sequence[Failure]) -> None:
        self._code = code  # keeps the code mapped
        self._function = _ENTRY(code.address(symbol))
        self._dtypes = [param.dtype for param in params]
        self._failures = tuple(failures)

    def run(self, arguments: Sequence[Bound], num_threads: int | None = None) -> None:
        """Run on checked arguments."""
        slots = pack(arguments, self._dtypes)
        block = (ctypes.c_uint64 * max(1, len(slots)))(*slots)
        context = (ctypes.c_int64 * abi.CONTEXT_SLOTS)()
        scratch = arena.this_thread()
        context[abi.ARENA_BASE] = scratch.base
        context[abi.ARENA_END] = scratch.end
        context[abi.THREADS] = num_threads or thread_count()
        code = self._function(ctypes.addressof(block), ctypes.addressof(context))
        if code != 0:
            raise_failure(self._failures[code - 1], [context[abi.FAILURE_VALUES + i] for i in range(4)])


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
