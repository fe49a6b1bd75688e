"""The rows of the native dispatcher's tables: a call behind its guards, as 64-bit slots (dispatch_abi.py)."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tilejit.dtypes import DType, integer_range
from tilejit.runtime.call.dispatch_abi import HERE, MAX_NEW, MAX_RANK, NUMPY_DENSE, NUMPY_WRITEABLE, Guard, Kind, New, Row
from tilejit.runtime.call.dispatch_tensors import TensorKinds
from tilejit.runtime.call.guards import ArgumentGuard, FixedGuard, NewTensor, RuntimeGuard, ScalarGuard, TensorGuard

_CLEARED_HERE = 1 << 16
"""Bytes of a new tensor up to which the dispatcher clears it itself."""


@dataclass(frozen=True, slots=True)
class NativeCall:
    """A compiled kernel behind its guards."""

    kernel: int
    guards: tuple[ArgumentGuard | None, ...]
    """One for each parameter; None: it is not given."""
    needs_arena: bool
    threads: int
    team: int
    """Address of the thread pool's state, or 0."""
    brief: bool
    """Over so soon that it keeps the GIL."""
    failed: Callable[[int, tuple[int, ...]], None] = field(repr=False)
    keep_alive: object = field(repr=False)
    new: tuple[NewTensor, ...] = ()
    """Tensors that the call makes and returns."""
    config: object = None
    """The very object given as `config=`."""
    table: int = 0
    """Address of a launch table, for kernels that run on a GPU."""
    device: int = HERE
    """Where the tensors must be."""


@dataclass(frozen=True, slots=True)
class CallRow:
    """A native call in the tables."""

    block: ctypes.Array[ctypes.c_int64]
    failed: Callable[[int, tuple[int, ...]], None]
    kept: tuple[object, ...]


def row_of(call: NativeCall, number: int, kinds: TensorKinds) -> CallRow | None:
    """A row for calls like this one; None: it has something the guards cannot express."""
    rows: list[int] = [0] * int(Row.GUARDS)
    rows[Row.KERNEL] = call.kernel
    rows[Row.ID] = number
    rows[Row.ARENA_NEEDED] = int(call.needs_arena)
    rows[Row.THREADS] = call.threads
    rows[Row.TEAM] = call.team
    rows[Row.BRIEF] = int(call.brief)
    rows[Row.TABLE] = call.table
    symbols = {n for guard in call.guards if isinstance(guard, TensorGuard) for n in guard.symbols if n is not None}
    rows[Row.SYMBOLS] = max(symbols, default=-1) + 1
    constants = [guard.value for guard in call.guards if isinstance(guard, ScalarGuard)]  # compared by identity
    kept: list[object] = [call.keep_alive, call.config, constants]
    new = _new_rows(call, symbols, kept, kinds)
    if new is None:
        return None
    rows[Row.NEW_COUNT], rows[Row.NEW] = len(call.new), ctypes.addressof(new)
    for guard in call.guards:
        row = _tensor_row(guard, kept, call.device, kinds) if isinstance(guard, TensorGuard) else _scalar_row(guard)
        if row is None:
            return None
        rows += row
    rows += _object_row(call.config) if call.config is not None else _absent_row()
    return CallRow((ctypes.c_int64 * len(rows))(*rows), call.failed, (*kept, new))


def _new_rows(call: NativeCall, symbols: set[int], kept: list[object], kinds: TensorKinds) -> ctypes.Array[ctypes.c_int64] | None:
    """The tensors that the call makes, in the framework of its arguments; None: native code cannot make them."""
    samples = [guard.sample for guard in call.guards if isinstance(guard, TensorGuard)]
    frameworks = {kinds.classify(sample, [])[0] for sample in samples}
    if call.new and (len(frameworks) != 1 or None in frameworks or len(call.new) > MAX_NEW):
        return None
    flat: list[int] = []
    for tensor in call.new:
        fixed = [extent for extent in tensor.shape if extent is not None]
        size = math.prod(fixed) * tensor.dtype.get_byte() if len(fixed) == len(tensor.shape) else None
        small = size is not None and size <= _CLEARED_HERE and call.device == HERE
        make = _maker(samples[0], tensor.dtype, small)
        unknown = any(extent is None and symbol not in symbols for extent, symbol in zip(tensor.shape, tensor.symbols, strict=True))
        if make is None or unknown or len(tensor.shape) > MAX_RANK:
            return None
        kept.append(make)
        function, second, third, positional, names = make
        known = 0 if names is None else _torch_number(tensor.dtype, kinds)
        if known is None:
            return None
        row = [0] * int(New.SIZE)
        row[New.DTYPE], row[New.DEVICE], row[New.ITEM_SIZE] = known, call.device, tensor.dtype.get_byte()
        row[New.FUNCTION], row[New.SECOND], row[New.THIRD] = id(function), id(second), id(third)
        row[New.POSITIONAL], row[New.NAMES] = positional, 0 if names is None else id(names)
        row[New.CLEAR_BYTES] = size if size is not None and small and names is not None else 0
        row[New.KIND], row[New.RANK], row[New.SLOT] = int(Kind.NUMPY if names is None else Kind.TORCH), len(tensor.shape), tensor.slot
        for axis, (extent, symbol) in enumerate(zip(tensor.shape, tensor.symbols, strict=True)):
            row[New.EXTENTS + axis] = extent or 0
            row[New.SYMBOLS + axis] = -1 if extent is not None or symbol is None else symbol
        flat += row
    return (ctypes.c_int64 * max(1, len(flat)))(*flat)


def _tensor_row(guard: TensorGuard, kept: list[object], device: int, kinds: TensorKinds) -> list[int] | None:
    kind, dtype = kinds.classify(guard.sample, kept)
    rank = len(guard.extents)
    if kind is None or rank > MAX_RANK:
        return None
    row = [0] * int(Guard.SIZE)
    flags = NUMPY_DENSE | (NUMPY_WRITEABLE if guard.is_output else 0)
    for slot, value in (
        (Guard.KIND, int(kind)), (Guard.NOTED, int(kind)), (Guard.DTYPE, dtype), (Guard.RANK, rank), (Guard.FLAGS, flags if kind is Kind.NUMPY else 0),
        (Guard.ITEM_SIZE, guard.item_size), (Guard.IS_OUTPUT, int(guard.is_output)), (Guard.SLOT, guard.slot),
        (Guard.DEVICE, device), (Guard.FLAT, int(guard.flat)), (Guard.BETWEEN, guard.between),
    ):  # fmt: skip
        row[slot] = value
    for axis in range(MAX_RANK):
        extent = guard.extents[axis] if axis < rank else None
        symbol = guard.symbols[axis] if axis < rank else None
        row[Guard.EXTENTS + axis] = -1 if extent is None else extent
        row[Guard.SYMBOLS + axis] = -1 if symbol is None else symbol
    return row


def _maker(sample: object, dtype: DType, small: bool) -> tuple[object, object, object, int, tuple[str, ...] | None] | None:
    """Function, second and third argument, how many go by position, and the names of the others: makes a tensor of zeros like those of
    the sample; one of torch that is small is left for the caller to clear, which takes torch longer than making it."""
    if type(sample) is np.ndarray:
        return None if dtype.numpy_name is None else (np.zeros, dtype.numpy, None, 2, None)
    from tilejit.runtime import torch

    found = torch.new_call(dtype, sample, cleared=not small)
    return None if found is None else (*found, 1, ("dtype", "device"))


def _torch_number(dtype: DType, kinds: TensorKinds) -> int | None:
    """The data type of a new tensor, as that of an argument is known."""
    from tilejit.runtime import torch

    kind, number = kinds.classify(torch.sample_of(dtype), [])
    return None if kind is None else number


def _scalar_row(guard: ScalarGuard | RuntimeGuard | FixedGuard | None) -> list[int] | None:
    if guard is None or isinstance(guard, FixedGuard):
        return _absent_row(guard)
    return _runtime_row(guard) if isinstance(guard, RuntimeGuard) else _constant_row(guard.value)


def _absent_row(guard: FixedGuard | None = None) -> list[int]:
    row = [0] * int(Guard.SIZE)
    row[Guard.SLOT], row[Guard.VALUE] = (-1, 0) if guard is None else (guard.slot, guard.number)
    row[Guard.KIND] = row[Guard.NOTED] = int(Kind.ABSENT)
    return row


def _object_row(value: object) -> list[int]:
    """Exactly this object."""
    row = [0] * int(Guard.SIZE)
    row[Guard.SLOT], row[Guard.VALUE] = -1, id(value)
    row[Guard.KIND] = row[Guard.NOTED] = int(Kind.OBJECT)
    return row


def _constant_row(value: object) -> list[int] | None:
    row = [0] * int(Guard.SIZE)
    row[Guard.SLOT] = -1
    if type(value) is float:
        row[Guard.KIND] = row[Guard.NOTED] = int(Kind.FLOAT)
        row[Guard.VALUE] = struct.unpack("<q", struct.pack("<d", value))[0]
    elif value is None or type(value) in (bool, str, bytes, tuple):
        return _object_row(value)  # of a text or tuple: this very one; equal ones take the way through Python
    elif type(value) is int and _SMALLEST <= value <= _LARGEST:
        row[Guard.KIND] = row[Guard.NOTED] = int(Kind.INTEGER)
        row[Guard.EXTENTS] = row[Guard.EXTENTS + 1] = value
    else:
        return None
    return row


def _runtime_row(guard: RuntimeGuard) -> list[int] | None:
    row = [0] * int(Guard.SIZE)
    row[Guard.SLOT] = guard.slot
    dtype = guard.dtype
    if dtype.name in ("FP32", "FP64"):
        row[Guard.NOTED], row[Guard.KIND] = int(Kind.FLOAT), int(Kind.REAL32 if dtype.name == "FP32" else Kind.REAL64)
    elif dtype.is_integer and dtype.bits >= 8:
        low, high = integer_range(dtype)
        row[Guard.NOTED] = row[Guard.KIND] = int(Kind.INTEGER)
        row[Guard.EXTENTS], row[Guard.EXTENTS + 1] = max(low, _SMALLEST), min(high, _LARGEST)
        row[Guard.DTYPE] = -1 if dtype.bits == 64 else (1 << dtype.bits) - 1
    else:
        return None
    return row


_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1
