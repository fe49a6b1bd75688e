"""The native dispatcher of a callable: which calls it takes, what it watches, when it leaves them to Python."""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from tilejit import config as settings
from tilejit import float_mode
from tilejit.errors import TilejitError
from tilejit.runtime.artifact.blob import Blob, LoadedBlob
from tilejit.runtime.call import arena, interrupt
from tilejit.runtime.call.dispatch_abi import MAX_ARGS, State
from tilejit.runtime.call.dispatch_rows import CallRow, NativeCall, row_of
from tilejit.runtime.call.dispatch_tensors import TensorKinds
from tilejit.runtime.call.guards import CallForm, first_tensor, guards_of, new_tensors
from tilejit.runtime.call.memory import word_at
from tilejit.runtime.call.native import Placed
from tilejit.runtime.call.native_type import attach
from tilejit.runtime.config import RunConfig
from tilejit.runtime.locks import new_lock

if TYPE_CHECKING:
    from tilejit.runtime.artifact.entry import CompiledEntry

_SHOWN = 64
"""Calls the native code looks through, frequent ones first; further ones are found by a dict in Python (warm.py)."""
KEPT = 1024
"""Calls after which the tables start anew: a kernel called with ever new shapes must not grow without end."""


_tables = new_lock()
"""Whoever changes tables: what they show must be alive after every step, since other threads call between any two of them."""


def wanted() -> bool:
    """The setting, read live."""
    return bool(settings.FASTPATH.value)


class Dispatcher:
    """Tables that let native code guard a call and run the kernel; it leaves everything else to `slow`."""

    def __init__(self, code: Blob, slow: Callable[..., object], form: CallForm) -> None:
        self._slow = slow
        names = list(form.runtime)
        self._interned = [sys.intern(name) if form.named else None for name in names] + ["config" if form.config else None]
        self._names = (ctypes.c_int64 * len(self._interned))(*(0 if name is None else id(name) for name in self._interned))
        self._order = (ctypes.c_int64 * len(self._interned))(*range(len(self._interned)))
        inputs = [names.index(name) for name in form.inputs or ()]
        self._input_order = (ctypes.c_int64 * max(1, len(inputs)))(*inputs)
        self._rows: dict[int, CallRow] = {}
        self._retired: dict[int, CallRow] = {}
        self._failed = _raiser(self._rows, self._retired)
        self._numbers = itertools.count()
        self._state = (ctypes.c_int64 * int(State.SIZE))()
        self._kinds = TensorKinds(self._state)
        self._table = (ctypes.c_int64 * _SHOWN)()
        self._drift = (ctypes.c_int64 * 2)()
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
        state[State.ROWS] = ctypes.addressof(self._table)
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

    def add(self, call: NativeCall) -> bool:
        """Serve this call natively from now on; False when it has something the guards cannot express."""
        if len(self._rows) >= KEPT:
            self.clear()
        number = next(self._numbers)
        row = row_of(call, number, self._kinds)
        if row is None:
            return False
        with _tables:
            self._rows[number] = row
            shown = list(itertools.islice(reversed(self._rows.values()), _SHOWN))
            for position, known in enumerate(shown):
                self._table[position] = ctypes.addressof(known.block)
            self._state[State.ROW_COUNT] = len(shown)
            self._let_go()
        return True

    def grad_noted(self) -> None:
        """The callers know that results carry no gradient."""
        self._state[State.GRAD_NOTED] = 1

    def clear(self) -> None:
        """Forget all calls. What kernels of other threads still run on is kept until they are done."""
        with _tables:
            self._state[State.ROW_COUNT] = 0
            self._retired.update(self._rows)
            self._rows.clear()
            self._let_go()

    def _let_go(self) -> None:
        if self._state[State.IN_FLIGHT] == 0:
            self._retired.clear()

    def watch(self, words: Sequence[tuple[int, int]], keep_alive: object, ask: Callable[[], bool] | None = None) -> None:
        """Go to `slow` as soon as one of these memory words (address, content) changes, or `ask` says No; `keep_alive` owns the memory."""
        flat = [len(words), 0 if ask is None else id(ask), *(number for pair in words for number in pair)]
        drift = (ctypes.c_int64 * len(flat))(*flat)
        with _tables:
            # One store switches over: another thread may be called between any two of these lines.
            self._state[State.DRIFT] = ctypes.addressof(drift)
            self._state[State.ARENA] = ctypes.addressof(_shared_arena())
            self._state[State.FLOAT_MODE] = float_mode.bits()
            self._drift, self._words, self._watched = drift, tuple(words), (keep_alive, ask)

    def watching(self) -> bool:
        """Whether every watched word is as it was."""
        return all(word_at(address) == content for address, content in self._words)

    @property
    def hits(self) -> int:
        """Calls that never reached Python."""
        return self._state[State.HITS]


def native_call_of(
    entry: CompiledEntry, path: Dispatcher, arguments: Mapping[str, object], form: CallForm, config: RunConfig | None
) -> NativeCall | None:
    """Calls like this one for the native dispatcher. None: they are not for it."""
    placed = entry.native or entry.runner
    if not isinstance(placed, Placed) or (config is not None and config.stream is not None):
        return None
    start = placed.natively(first_tensor(entry, arguments), path.address, config.num_threads if config is not None else None)
    new = new_tensors(entry, placed, arguments)
    if start is None or new is None:
        return None

    def failed(status: int, values: tuple[int, ...]) -> None:
        try:
            start.failed(status, values)
        except TilejitError as error:
            entry.relocate(error)
            raise

    given = dict(zip(arguments, guards_of(entry, placed, arguments, form), strict=True))
    guards = tuple(given.get(name) for name in form.runtime)
    return NativeCall(
        start.kernel, guards, start.needs_arena, start.threads, start.team, start.brief, failed, start.keep_alive, tuple(new), config, start.table, start.device
    )


def _raiser(rows: Mapping[int, CallRow], retired: Mapping[int, CallRow]) -> Callable[..., None]:
    """Raises the failure of a kernel. It does not know the path, so that dropping a path frees its code at once."""

    def failed(number: int, status: int, *values: int) -> None:
        (rows.get(number) or retired[number]).failed(status, values)

    return failed


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
    """Base and end of the scratch memory that native calls share, one at a time; a second one goes the long way."""
    size = settings.ARENA_BYTES.value
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
