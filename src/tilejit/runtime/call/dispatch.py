"""The fast path of a call: tables for the native dispatcher, where the interpreter is one it knows."""

from __future__ import annotations

import ctypes
import itertools
import math
import os
import struct
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from tilejit import config
from tilejit.dtypes import DType, integer_range
from tilejit.runtime.artifact.blob import Blob, LoadedBlob
from tilejit.runtime.call import arena, interrupt
from tilejit.runtime.call.dispatch_abi import HERE, MAX_ARGS, MAX_NEW, MAX_RANK, Entry, Guard, Kind, New, State
from tilejit.runtime.call.guards import ArgumentGuard, CallForm, FixedGuard, NewTensor, RuntimeGuard, ScalarGuard, TensorGuard
from tilejit.runtime.call.memory import word_at
from tilejit.runtime.call.native_type import attach

NUMPY_DENSE, NUMPY_ALIGNED, NUMPY_WRITEABLE = 0x1, 0x100, 0x400
"""Flags of an array."""
_SHOWN = 64
"""Specialisations the native code looks through, frequent ones first; further ones are found by a dict in Python (warm.py)."""
_CLEARED_HERE = 1 << 16
"""Bytes of a new tensor up to which the dispatcher clears it itself."""
_KEPT = 1024
"""Specialisations after which the tables start anew: a kernel called with ever new shapes must not grow without end."""


def wanted() -> bool:
    """The setting, read live."""
    return bool(config.FASTPATH.value)


@dataclass(frozen=True, slots=True)
class Specialisation:
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


class FastPath:
    """Tables that let native code guard a call and run the kernel; it leaves everything else to `slow`."""

    def __init__(self, code: Blob, slow: Callable[..., object], form: CallForm) -> None:
        self._slow = slow
        names = list(form.runtime)
        self._interned = [sys.intern(name) if form.named else None for name in names] + ["config" if form.config else None]
        self._names = (ctypes.c_int64 * len(self._interned))(*(0 if name is None else id(name) for name in self._interned))
        self._order = (ctypes.c_int64 * len(self._interned))(*range(len(self._interned)))
        inputs = [names.index(name) for name in form.inputs or ()]
        self._input_order = (ctypes.c_int64 * max(1, len(inputs)))(*inputs)
        self._entries: dict[int, _Row] = {}
        self._retired: dict[int, _Row] = {}
        self._failed = _raiser(self._entries, self._retired)
        self._numbers = itertools.count()
        self._state = (ctypes.c_int64 * int(State.SIZE))()
        self._table = (ctypes.c_int64 * _SHOWN)()
        self._drift = (ctypes.c_int64 * 1)()
        self._words: Sequence[tuple[int, int]] = ()
        self._watched: object = None
        self._fill_state(form.positional, len(inputs) if form.inputs is not None else -1)
        self._code = _loaded(code)

    def address(self, symbol: str) -> int:
        """A function of the dispatcher's code."""
        return self._code.address(symbol)

    def serve(self, kernel: object) -> None:
        """Take the calls of `kernel`, an instance of NativeCallable, from now on. The kernel must keep this object."""
        attach(kernel, self._code.address("tj_dispatch"), ctypes.addressof(self._state))

    def _fill_state(self, positional: int, inputs: int) -> None:
        state = self._state
        fits = len(self._interned) <= MAX_ARGS
        state[State.ARG_COUNT] = len(self._interned) if fits else 0
        state[State.POSITIONAL] = positional if fits else -1
        state[State.NAMES], state[State.ORDER] = ctypes.addressof(self._names), ctypes.addressof(self._order)
        state[State.INPUT_COUNT], state[State.INPUT_ORDER] = inputs, ctypes.addressof(self._input_order)
        state[State.ENTRIES] = ctypes.addressof(self._table)
        state[State.DRIFT] = ctypes.addressof(self._drift)
        state[State.SLOW] = id(self._slow)
        state[State.FAILED] = id(self._failed)
        state[State.NUMPY_TYPE] = id(np.ndarray)
        state[State.NONE] = id(None)
        state[State.FLOAT_TYPE], state[State.INT_TYPE] = id(float), id(int)
        state[State.TRUE] = id(True)
        state[State.INTERRUPT] = interrupt.ADDRESS
        state[State.ARENA] = ctypes.addressof(_shared_arena())

    # what it knows --------------------------------------------------------------------------------------------------------

    def add(self, specialisation: Specialisation) -> bool:
        """Serve this specialisation natively from now on; False when it has something the guards cannot express."""
        if len(self._entries) >= _KEPT:
            self.clear()
        number = next(self._numbers)
        row = self._encode(specialisation, number)
        if row is None:
            return False
        self._entries[number] = row
        shown = list(itertools.islice(reversed(self._entries.values()), _SHOWN))
        for position, entry in enumerate(shown):
            self._table[position] = ctypes.addressof(entry.block)
        self._state[State.ENTRY_COUNT] = len(shown)
        self._let_go()
        return True

    def grad_noted(self) -> None:
        """The callers know that results carry no gradient."""
        self._state[State.GRAD_NOTED] = 1

    def clear(self) -> None:
        """Forget all specialisations. What kernels of other threads still run on is kept until they are done."""
        self._state[State.ENTRY_COUNT] = 0
        self._retired.update(self._entries)
        self._entries.clear()
        self._let_go()

    def _let_go(self) -> None:
        if self._state[State.IN_FLIGHT] == 0:
            self._retired.clear()

    def watch(self, words: Sequence[tuple[int, int]], keep_alive: object) -> None:
        """Go to `slow` as soon as one of these memory words (address, content) changes; `keep_alive` owns the memory."""
        flat = [len(words), *(number for pair in words for number in pair)]
        drift = (ctypes.c_int64 * len(flat))(*flat)
        # One store switches over: another thread may be called between any two of these lines.
        self._state[State.DRIFT] = ctypes.addressof(drift)
        self._state[State.ARENA] = ctypes.addressof(_shared_arena())
        self._drift, self._words, self._watched = drift, tuple(words), keep_alive

    def watching(self) -> bool:
        """Whether every watched word is as it was."""
        return all(word_at(address) == content for address, content in self._words)

    @property
    def hits(self) -> int:
        """Calls that never reached Python."""
        return self._state[State.HITS]

    # encoding -------------------------------------------------------------------------------------------------------------

    def _encode(self, specialisation: Specialisation, number: int) -> _Row | None:
        rows: list[int] = [0] * int(Entry.GUARDS)
        rows[Entry.KERNEL] = specialisation.kernel
        rows[Entry.ID] = number
        rows[Entry.ARENA_NEEDED] = int(specialisation.needs_arena)
        rows[Entry.THREADS] = specialisation.threads
        rows[Entry.TEAM] = specialisation.team
        rows[Entry.BRIEF] = int(specialisation.brief)
        rows[Entry.TABLE] = specialisation.table
        symbols = {n for guard in specialisation.guards if isinstance(guard, TensorGuard) for n in guard.symbols if n is not None}
        rows[Entry.SYMBOLS] = max(symbols, default=-1) + 1
        kept: list[object] = [specialisation.keep_alive, specialisation.config]
        new = self._new_rows(specialisation, symbols, kept)
        if new is None:
            return None
        rows[Entry.NEW_COUNT], rows[Entry.NEW] = len(specialisation.new), ctypes.addressof(new)
        for guard in specialisation.guards:
            row = self._tensor_row(guard, kept, specialisation.device) if isinstance(guard, TensorGuard) else _scalar_row(guard)
            if row is None:
                return None
            rows += row
        rows += _object_row(specialisation.config) if specialisation.config is not None else _absent_row()
        return _Row((ctypes.c_int64 * len(rows))(*rows), specialisation.failed, (*kept, new))

    def _new_rows(self, specialisation: Specialisation, symbols: set[int], kept: list[object]) -> ctypes.Array[ctypes.c_int64] | None:
        """The tensors that the call makes, in the framework of its arguments; None: native code cannot make them."""
        samples = [guard.sample for guard in specialisation.guards if isinstance(guard, TensorGuard)]
        kinds = {self._classify(sample, [])[0] for sample in samples}
        if specialisation.new and (len(kinds) != 1 or len(specialisation.new) > MAX_NEW):
            return None
        flat: list[int] = []
        for tensor in specialisation.new:
            fixed = [extent for extent in tensor.shape if extent is not None]
            size = math.prod(fixed) * tensor.dtype.get_byte() if len(fixed) == len(tensor.shape) else None
            small = size is not None and size <= _CLEARED_HERE and specialisation.device == HERE
            make = _maker(samples[0], tensor.dtype, small)
            unknown = any(extent is None and symbol not in symbols for extent, symbol in zip(tensor.shape, tensor.symbols, strict=True))
            if make is None or unknown or len(tensor.shape) > MAX_RANK:
                return None
            kept.append(make)
            function, second, third, positional, names = make
            row = [0] * int(New.SIZE)
            row[New.FUNCTION], row[New.SECOND], row[New.THIRD] = id(function), id(second), id(third)
            row[New.POSITIONAL], row[New.NAMES] = positional, 0 if names is None else id(names)
            row[New.CLEAR_BYTES] = size if size is not None and small and names is not None else 0
            row[New.KIND], row[New.RANK], row[New.SLOT] = int(Kind.NUMPY if names is None else Kind.TORCH), len(tensor.shape), tensor.slot
            for axis, (extent, symbol) in enumerate(zip(tensor.shape, tensor.symbols, strict=True)):
                row[New.EXTENTS + axis] = extent or 0
                row[New.SYMBOLS + axis] = -1 if extent is not None or symbol is None else symbol
            flat += row
        return (ctypes.c_int64 * max(1, len(flat)))(*flat)

    def _tensor_row(self, guard: TensorGuard, kept: list[object], device: int) -> list[int] | None:
        kind, dtype = self._classify(guard.sample, kept)
        rank = len(guard.extents)
        if kind is None or rank > MAX_RANK:
            return None
        row = [0] * int(Guard.SIZE)
        flags = NUMPY_DENSE | NUMPY_ALIGNED | (NUMPY_WRITEABLE if guard.is_output else 0)
        for slot, value in (
            (Guard.KIND, int(kind)), (Guard.NOTED, int(kind)), (Guard.DTYPE, dtype), (Guard.RANK, rank), (Guard.FLAGS, flags if kind is Kind.NUMPY else 0),
            (Guard.ITEM_SIZE, guard.item_size), (Guard.IS_OUTPUT, int(guard.is_output)), (Guard.SLOT, guard.slot),
            (Guard.DEVICE, device), (Guard.FLAT, int(guard.flat)),
        ):  # fmt: skip
            row[slot] = value
        for axis in range(MAX_RANK):
            extent = guard.extents[axis] if axis < rank else None
            symbol = guard.symbols[axis] if axis < rank else None
            row[Guard.EXTENTS + axis] = -1 if extent is None else extent
            row[Guard.SYMBOLS + axis] = -1 if symbol is None else symbol
        return row

    def _classify(self, sample: object, kept: list[object]) -> tuple[Kind | None, int]:
        """How the dispatcher recognises arrays like `sample`. The sample itself is not kept: it is the caller's memory."""
        if type(sample) is np.ndarray:
            kept.append(sample.dtype)  # compared by its address, which must not go to another dtype
            return Kind.NUMPY, id(sample.dtype)
        torch = sys.modules.get("torch")
        if torch is None or type(sample) is not torch.Tensor or not self._know_torch(torch.Tensor):
            return None, 0
        view = (ctypes.c_int64 * 6)()
        exchange = self._state[State.TORCH_EXCHANGE]
        if ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(exchange)(sample, ctypes.addressof(view)) != 0:
            return None, 0
        if view[1] != HERE:
            from tilejit.runtime.torch import plain_tensor_like

            plain = plain_tensor_like(sample)
            if plain is None:
                return None, 0
            self._state[State.TORCH_DEVICE_KEYS] = plain.keys
        dtype = (view[2] >> 32) & 0xFFFFFFFF
        # Packed elements are unpacked by Python.
        return (Kind.TORCH, dtype) if dtype >> 16 == 1 else (None, 0)

    def _know_torch(self, tensor_type: type) -> bool:
        from tilejit.runtime.torch import grad_mode_function, plain_tensor

        exchange, plain = _torch_exchange(tensor_type), plain_tensor()
        if exchange is None or plain is None or not _is_c_attribute(tensor_type, "requires_grad"):
            return False
        state = self._state
        state[State.TORCH_EXCHANGE] = exchange
        state[State.REQUIRES_GRAD], state[State.REQUIRES_GRAD_CLOSURE] = _attribute_getter(tensor_type, "requires_grad")
        state[State.TORCH_IMPL_AT], state[State.TORCH_KEYS_AT], state[State.TORCH_KEYS] = plain.impl_at, plain.keys_at, plain.keys
        state[State.TORCH_GRAD_AT], state[State.TORCH_VERSIONS_AT], state[State.TORCH_VERSION_AT] = plain.grad_at, plain.versions_at, plain.version_at
        state[State.GRAD_MODE] = grad_mode_function()
        state[State.TORCH_DEVICE_KEYS] = state[State.TORCH_DEVICE_KEYS] or plain.keys
        state[State.TORCH_TYPE] = id(tensor_type)  # last: tensors are looked at from here on
        return True


@dataclass(frozen=True, slots=True)
class _Row:
    """A specialisation in the tables."""

    block: ctypes.Array[ctypes.c_int64]
    failed: Callable[[int, tuple[int, ...]], None]
    kept: tuple[object, ...]


def _raiser(entries: Mapping[int, _Row], retired: Mapping[int, _Row]) -> Callable[..., None]:
    """Raises the failure of a kernel. It does not know the path, so that dropping a path frees its code at once."""

    def failed(entry: int, status: int, *values: int) -> None:
        (entries.get(entry) or retired[entry]).failed(status, values)

    return failed


def _maker(sample: object, dtype: DType, small: bool) -> tuple[object, object, object, int, tuple[str, ...] | None] | None:
    """Function, second and third argument, how many go by position, and the names of the others: makes a tensor of zeros like those of
    the sample; one of torch that is small is left for the caller to clear, which takes torch longer than making it."""
    if type(sample) is np.ndarray:
        return None if dtype.numpy_name is None else (np.zeros, dtype.numpy, None, 2, None)
    from tilejit.runtime import torch

    found = torch.new_call(dtype, sample, cleared=not small)
    return None if found is None else (*found, 1, ("dtype", "device"))


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
    elif value is None or type(value) is bool:
        return _object_row(value)
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
    return _exchange_function(tensor_type, 5)


def torch_stream() -> int | None:
    """Address of torch's function (device type, device number, address of the stream) that tells the stream it works on now."""
    torch = sys.modules.get("torch")
    return None if torch is None else _exchange_function(torch.Tensor, 6)


def _exchange_function(tensor_type: type, position: int) -> int | None:
    capsule = getattr(tensor_type, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return None
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
    table = ctypes.cast(get(capsule, b"dlpack_exchange_api"), ctypes.POINTER(ctypes.c_uint64))
    major = table[0] & 0xFFFFFFFF
    return table[position] if major == 1 and table[position] else None


_code_cache: dict[int, LoadedBlob] = {}
_arenas: dict[int, tuple[arena.Arena, ctypes.Array[ctypes.c_int64]]] = {}
"""By size, as the setting names it."""


def _loaded(code: Blob) -> LoadedBlob:
    """The dispatcher's code, mapped once per process."""
    if id(code) not in _code_cache:
        python = {name: cast("int", ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value) for name in code.externals}
        _code_cache[id(code)] = LoadedBlob(code, python)
    return _code_cache[id(code)]


def _shared_arena() -> ctypes.Array[ctypes.c_int64]:
    """Base and end of the scratch memory that fast calls share, one at a time; a second one goes the slow way."""
    size = config.ARENA_BYTES.value
    if size not in _arenas:
        memory = arena.Arena(size)
        _arenas[size] = memory, (ctypes.c_int64 * 2)(memory.base, memory.end)
    return _arenas[size][1]


def _free_arenas() -> None:
    """A call that used an arena when the process forked does not go on in the child."""
    for memory, slots in _arenas.values():
        slots[0] = memory.base


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_arenas)
