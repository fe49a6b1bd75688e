"""The fast path of a call: tables for the native dispatcher, where the interpreter is one it knows."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from tilejit import config
from tilejit.runtime import arena
from tilejit.runtime.blob import Blob, LoadedBlob
from tilejit.runtime.dispatch_abi import MAX_ARGS, MAX_RANK, Entry, Guard, Kind, State
from tilejit.runtime.native_type import attach

_NUMPY_DENSE, _NUMPY_ALIGNED, _NUMPY_WRITEABLE = 0x1, 0x100, 0x400
_INLINE = 8
"""Specialisations the native code looks through; further ones are found by the Python dispatcher."""


def wanted() -> bool:
    """The setting, read live."""
    return bool(config.FASTPATH.value)


@dataclass(frozen=True, slots=True)
class TensorGuard:
    """What an argument must be for a specialisation: an array of one framework, dense, with these extents."""

    sample: object
    """An argument that fits; its framework and dtype object are what is compared."""
    extents: tuple[int | None, ...]
    symbols: tuple[int | None, ...]
    """Number of the dynamic symbol of each extent, where it has one."""
    item_size: int
    is_output: bool
    slot: int


@dataclass(frozen=True, slots=True)
class ScalarGuard:
    """A scalar that was specialised: this very value."""

    value: object


@dataclass(frozen=True, slots=True)
class Specialisation:
    """A compiled kernel behind its guards."""

    kernel: int
    guards: tuple[TensorGuard | ScalarGuard, ...]
    needs_arena: bool
    threads: int
    brief: bool
    """Over so soon that it keeps the GIL."""
    failed: Callable[[int, tuple[int, ...]], None] = field(repr=False)
    keep_alive: object = field(repr=False)


class FastPath:
    """Tables that let native code guard a call and run the kernel; it leaves everything else to `slow`."""

    def __init__(self, code: Blob, slow: Callable[..., object], arg_count: int) -> None:
        self._slow = slow
        self._failed = self._raise
        self._entries: list[Specialisation] = []
        self._blocks: list[ctypes.Array[ctypes.c_int64]] = []
        self._state = (ctypes.c_int64 * int(State.SIZE))()
        self._table = (ctypes.c_int64 * _INLINE)()
        self._drift = (ctypes.c_int64 * 2)()
        self._watched: object = None
        self._fill_state(arg_count)
        self._code = _loaded(code)

    def serve(self, kernel: object) -> None:
        """Take the calls of `kernel`, an instance of NativeCallable, from now on. The kernel must keep this object."""
        attach(kernel, self._code.address("tj_dispatch"), ctypes.addressof(self._state))

    def _fill_state(self, arg_count: int) -> None:
        state = self._state
        state[State.ARG_COUNT] = arg_count if arg_count <= MAX_ARGS else -1
        state[State.ENTRIES] = ctypes.addressof(self._table)
        state[State.DRIFT] = ctypes.addressof(self._drift)
        state[State.SLOW] = id(self._slow)
        state[State.FAILED] = id(self._failed)
        state[State.NUMPY_TYPE] = id(np.ndarray)
        state[State.NONE] = id(None)
        state[State.FLOAT_TYPE] = id(float)
        state[State.TRUE] = id(True)
        state[State.ARENA] = ctypes.addressof(_shared_arena())

    # what it knows --------------------------------------------------------------------------------------------------------

    def add(self, specialisation: Specialisation) -> bool:
        """Serve this specialisation natively from now on; False when it has something the guards cannot express."""
        block = self._encode(specialisation, len(self._entries))
        if block is None:
            return False
        self._entries.append(_without_samples(specialisation))
        self._blocks.append(block)
        shown = self._blocks[-_INLINE:]
        for position, entry in enumerate(reversed(shown)):
            self._table[position] = ctypes.addressof(entry)
        self._state[State.ENTRY_COUNT] = len(shown)
        return True

    def clear(self) -> None:
        """Forget all specialisations."""
        self._state[State.ENTRY_COUNT] = 0
        self._entries.clear()
        self._blocks.clear()

    def watch(self, words: Sequence[tuple[int, int]], keep_alive: object) -> None:
        """Go to `slow` as soon as one of these memory words (address, content) changes; `keep_alive` owns the memory."""
        flat = [number for pair in words for number in pair]
        self._watched = keep_alive
        self._drift = (ctypes.c_int64 * max(2, len(flat)))(*flat)
        self._state[State.DRIFT] = ctypes.addressof(self._drift)
        self._state[State.DRIFT_COUNT] = len(words)

    @property
    def hits(self) -> int:
        """Calls that never reached Python."""
        return self._state[State.HITS]

    # encoding -------------------------------------------------------------------------------------------------------------

    def _encode(self, specialisation: Specialisation, number: int) -> ctypes.Array[ctypes.c_int64] | None:
        rows: list[int] = [0] * int(Entry.GUARDS)
        rows[Entry.KERNEL] = specialisation.kernel
        rows[Entry.ID] = number
        rows[Entry.ARENA_NEEDED] = int(specialisation.needs_arena)
        rows[Entry.THREADS] = specialisation.threads
        rows[Entry.BRIEF] = int(specialisation.brief)
        symbols = [n for guard in specialisation.guards if isinstance(guard, TensorGuard) for n in guard.symbols if n is not None]
        rows[Entry.SYMBOLS] = max(symbols, default=-1) + 1
        for guard in specialisation.guards:
            row = _scalar_row(guard) if isinstance(guard, ScalarGuard) else self._tensor_row(guard)
            if row is None:
                return None
            rows += row
        return (ctypes.c_int64 * len(rows))(*rows)

    def _tensor_row(self, guard: TensorGuard) -> list[int] | None:
        kind, dtype = self._classify(guard.sample)
        rank = len(guard.extents)
        if kind is None or rank > MAX_RANK:
            return None
        row = [0] * int(Guard.SIZE)
        flags = _NUMPY_DENSE | _NUMPY_ALIGNED | (_NUMPY_WRITEABLE if guard.is_output else 0)
        for slot, value in (
            (Guard.KIND, int(kind)), (Guard.DTYPE, dtype), (Guard.RANK, rank), (Guard.FLAGS, flags if kind is Kind.NUMPY else 0),
            (Guard.ITEM_SIZE, guard.item_size), (Guard.IS_OUTPUT, int(guard.is_output)), (Guard.SLOT, guard.slot),
        ):  # fmt: skip
            row[slot] = value
        for axis in range(MAX_RANK):
            extent = guard.extents[axis] if axis < rank else None
            symbol = guard.symbols[axis] if axis < rank else None
            row[Guard.EXTENTS + axis] = -1 if extent is None else extent
            row[Guard.SYMBOLS + axis] = -1 if symbol is None else symbol
        return row

    def _classify(self, sample: object) -> tuple[Kind | None, int]:
        """How the dispatcher recognises arrays like `sample`."""
        if type(sample) is np.ndarray:
            return Kind.NUMPY, id(sample.dtype)
        torch = sys.modules.get("torch")
        if torch is None or type(sample) is not torch.Tensor:
            return None, 0
        exchange = _torch_exchange(torch.Tensor)
        if exchange is None or not _is_c_attribute(torch.Tensor, "requires_grad"):
            return None, 0
        self._state[State.TORCH_TYPE] = id(torch.Tensor)
        self._state[State.TORCH_EXCHANGE] = exchange
        self._state[State.REQUIRES_GRAD], self._state[State.REQUIRES_GRAD_CLOSURE] = _attribute_getter(torch.Tensor, "requires_grad")
        view = (ctypes.c_int64 * 6)()
        if ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(exchange)(sample, ctypes.addressof(view)) != 0:
            return None, 0
        return Kind.TORCH, (view[2] >> 32) & 0xFFFFFFFF

    def _raise(self, entry: int, status: int, *values: int) -> None:
        self._entries[entry].failed(status, values)


def _without_samples(specialisation: Specialisation) -> Specialisation:
    """The same without the caller's arrays: only what the tables point at must live on, their dtypes."""
    guards = tuple(replace(guard, sample=getattr(guard.sample, "dtype", None)) if isinstance(guard, TensorGuard) else guard for guard in specialisation.guards)
    return replace(specialisation, guards=guards)


def _scalar_row(guard: ScalarGuard) -> list[int] | None:
    row = [0] * int(Guard.SIZE)
    if type(guard.value) is float:
        row[Guard.KIND], row[Guard.VALUE] = int(Kind.FLOAT), struct.unpack("<q", struct.pack("<d", guard.value))[0]
    elif guard.value is None or type(guard.value) in (bool, int):
        row[Guard.KIND], row[Guard.VALUE] = int(Kind.OBJECT), id(guard.value)
    else:
        return None
    return row


# ----------------------------------------------------------------------------------------------------------------------
# CPython's C API


def _is_c_attribute(cls: type, name: str) -> bool:
    found = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
    return isinstance(found, types.GetSetDescriptorType)


def _attribute_getter(cls: type, name: str) -> tuple[int, int]:
    """C function and closure of an attribute that a C type implements (PyGetSetDescrObject and PyGetSetDef of CPython)."""
    descriptor = next(vars(base)[name] for base in cls.__mro__ if name in vars(base))
    definition = ctypes.c_int64.from_address(id(descriptor) + 40).value
    return ctypes.c_int64.from_address(definition + 8).value, ctypes.c_int64.from_address(definition + 32).value


def _torch_exchange(tensor_type: type) -> int | None:
    """Address of torch's "fill a DLTensor without owning" function, in versions that have DLPack's C exchange."""
    capsule = getattr(tensor_type, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return None
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(get(capsule, b"dlpack_exchange_api"), ctypes.POINTER(ctypes.c_uint64))
    major = table[0] & 0xFFFFFFFF
    return table[5] if major == 1 and table[5] else None


_code_cache: dict[int, LoadedBlob] = {}
_arena_slots: list[tuple[int, arena.Arena, ctypes.Array[ctypes.c_int64]]] = []


def _loaded(code: Blob) -> LoadedBlob:
    """The dispatcher's code, mapped once per process."""
    if id(code) not in _code_cache:
        python = {name: cast("int", ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value) for name in code.externals}
        _code_cache[id(code)] = LoadedBlob(code, python)
    return _code_cache[id(code)]


def _shared_arena() -> ctypes.Array[ctypes.c_int64]:
    """Base and end of the scratch memory that fast calls share, one at a time; a second one goes the slow way."""
    if not _arena_slots or _arena_slots[0][0] != os.getpid():
        memory = arena.Arena(config.ARENA_BYTES.value)
        slots = (ctypes.c_int64 * 2)(memory.base, memory.end)
        _arena_slots[:] = [(os.getpid(), memory, slots)]
    return _arena_slots[0][2]
