"""Warm calls: hands compiled specialisations to the native dispatcher and to a dict, and takes them back when something changed."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from tilejit import config as settings
from tilejit.errors import ArtifactError, TilejitError
from tilejit.jit.captures import Baseline
from tilejit.jit.code import blob_of, entry_of_blob
from tilejit.jit.disk import store
from tilejit.jit.fingerprint import sources_changed, toolchain
from tilejit.runtime.arrays import data_address
from tilejit.runtime.bindings import Word, dict_word
from tilejit.runtime.blob import Blob
from tilejit.runtime.compiled import CompiledEntry, CompiledProgram
from tilejit.runtime.dispatch import ArgumentGuard, FastPath, RuntimeGuard, ScalarGuard, Specialisation, TensorGuard, wanted
from tilejit.runtime.native import NativeEntry, thread_count
from tilejit.runtime.native_type import attach, supported

_KNOWN = 4096
"""Signatures that the Python path remembers; with more it starts anew."""
_PLAIN = (bool, int, type(None))


class _Known:
    """A specialisation as one signature calls it: everything that does not change from call to call is there already."""

    __slots__ = ("compiled", "entry", "native", "pairs", "places", "positions", "slots")

    def __init__(self, compiled: CompiledProgram, entry: CompiledEntry, native: NativeEntry, arguments: Mapping[str, object]) -> None:
        self.compiled, self.entry, self.native = compiled, entry, native
        infos = {param.name: number for number, param in enumerate(compiled.param_infos)}
        self.positions = tuple(position for _, position in sorted((infos[name], position) for position, name in enumerate(arguments) if name in infos))
        """Which of the arguments are parameters of the code."""
        values = tuple(arguments.values())
        found = entry.quick_slots(self.chosen(values))
        self.slots: list[int] | None = found if all(type(value) is np.ndarray for value in values) else None
        """The argument block but for the addresses; None unless all arguments are NumPy arrays that need no copy."""
        places = slot_places(native)
        self.places = tuple(places[name] for name in arguments if name in places)
        written = {param.name for param in compiled.param_infos if param.direction != "In"}
        sizes = {name: value.nbytes for name, value in arguments.items() if isinstance(value, np.ndarray)}
        self.pairs = tuple(
            (places[a], sizes[a], places[b], sizes[b]) for a, b in itertools.combinations(sizes, 2) if a in written or b in written
        )  # fmt: skip
        """Addresses and sizes of what must not overlap."""

    def chosen(self, args: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(args[position] for position in self.positions)


class WarmCalls:
    """The short ways of one kernel: native code, and a dict in Python where that is not to be had or does not know the signature."""

    def __init__(self, kernel: object, slow: Callable[..., object], runtime: Sequence[bool]) -> None:
        self._kernel = kernel
        self._slow = slow
        self._runtime = tuple(runtime)
        """For each parameter whether it is a scalar that stays a parameter of the compiled code."""
        self._path: FastPath | None = None
        self._attached = False
        self._served: set[tuple[object, ...]] = set()
        self._known: dict[tuple[object, ...], _Known] = {}
        self._settings: list[object] = []
        self._baseline: Baseline | None = None
        self._python_hits = 0

    @property
    def hits(self) -> int:
        """Calls that never reached Python."""
        return self._path.hits if self._path is not None else 0

    @property
    def all_hits(self) -> int:
        """Calls that took one of the short ways."""
        return self.hits + self._python_hits

    # calling ------------------------------------------------------------------------------------------------------------------

    def run(self, args: tuple[object, ...]) -> bool:
        """Run the kernel if this very signature was called before and nothing changed since; False: it is for the long way."""
        known = self._known.get(self._key(args)) if self._known else None
        if known is None or settings.snapshot() != self._settings or (self._baseline is not None and not self._baseline.holds()):
            return False
        if self._attached and self._path is not None and not self._path.watching():
            return False  # the long way watches anew, so that the next call is native again
        slots = known.entry.quick_slots(known.chosen(args)) if known.slots is None else _filled(known, known.slots, args)
        if slots is None:
            return False
        self._python_hits += 1
        try:
            known.native.run_slots(slots)
        except TilejitError as error:
            known.compiled.relocate(error)
            raise
        return True

    def _key(self, args: tuple[object, ...]) -> tuple[object, ...]:
        """Equal for calls that run the same code; empty: not a plain call. Arrays with equal keys need the same checks and copies."""
        key: list[object] = []
        array = np.ndarray
        for value in args:
            if type(value) is not array:
                return self._mixed_key(args)
            key += value.dtype, value.shape, value.flags.num  # type: ignore[attr-defined]
        return tuple(key)

    def _mixed_key(self, args: tuple[object, ...]) -> tuple[object, ...]:
        if len(args) != len(self._runtime):
            return ()
        key: list[object] = []
        for value, stays in zip(args, self._runtime, strict=True):
            kind = type(value)
            if stays:
                key.append(kind)
            elif kind is float:
                key.append(value.hex())  # type: ignore[attr-defined]
            elif kind in _PLAIN:
                key += kind, value
            elif kind is np.ndarray or (kind.__module__ == "torch" and kind.__name__ == "Tensor"):
                key += kind, value.dtype, value.shape  # type: ignore[attr-defined]
            else:
                return ()
        return tuple(key)

    # learning -----------------------------------------------------------------------------------------------------------------

    def serve(self, compiled: CompiledProgram, arguments: Mapping[str, object], baseline: Baseline | None, seen: list[object]) -> None:
        """Let calls like this one take a short way. `seen` is what the settings were before it."""
        entry = next(iter(compiled.entries.values()))
        native = entry.native
        if native is None or compiled.signature.results:
            return  # what a kernel returns is allocated by Python
        if seen != self._settings:
            self.forget()  # the same arguments may mean another program under other settings
            self._settings = seen
        self._baseline = baseline
        words = watched_words(baseline)
        if settings.snapshot() != seen or (baseline is not None and not baseline.holds()):
            return  # changed by another thread meanwhile: the words are not those of this program
        key = self._key(tuple(arguments.values()))
        if key:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[key] = _Known(compiled, entry, native, arguments)
        self._serve_natively(compiled, native, arguments, words, baseline)

    def _serve_natively(
        self, compiled: CompiledProgram, native: NativeEntry, arguments: Mapping[str, object], words: list[Word] | None, baseline: Baseline | None
    ) -> None:
        path = self._started() if words is not None and wanted() else None
        if path is None or words is None:
            self.stop()
            return
        path.watch(words, (baseline, os.environ))
        token = (id(compiled), *(type(value) for value in arguments.values()))
        if token not in self._served and path.add(specialisation_of(compiled, native, arguments)):
            self._served.add(token)
        path.serve(self._kernel)
        self._attached = True

    def stop(self) -> None:
        """Every call goes through Python again. The tables stay: another thread may be in a call that uses them."""
        if self._attached:
            attach(self._kernel, 0, 0)
            self._attached = False

    def forget(self) -> None:
        """Drop the specialisations."""
        self._served.clear()
        self._known.clear()
        if self._path is not None:
            self._path.clear()

    def _started(self) -> FastPath | None:
        if self._path is None and supported():
            code = dispatcher_code()
            self._path = None if code is None else FastPath(code, self._slow, len(self._runtime))
        return self._path


def _filled(known: _Known, template: list[int], args: tuple[object, ...]) -> list[int] | None:
    """The argument block of a call; None when two arguments overlap that must not."""
    slots = template.copy()
    for slot, value in zip(known.places, args):
        slots[slot] = data_address(value)  # type: ignore[arg-type]
    for a, size, b, other in known.pairs:
        if slots[a] < slots[b] + other and slots[b] < slots[a] + size:
            return None
    return slots


def slot_places(native: NativeEntry) -> dict[str, int]:
    """Where each parameter starts in the argument block."""
    places: dict[str, int] = {}
    position = 0
    for param in native.params:
        places[param.name] = position
        position += 1 if param.shape is None else 1 + 2 * len(param.shape)
    return places


def specialisation_of(compiled: CompiledProgram, native: NativeEntry, arguments: Mapping[str, object]) -> Specialisation:
    """Guards for arguments like these, in the order of the call."""
    slots = slot_places(native)
    infos = {param.name: param for param in compiled.param_infos}
    symbols = {name: number for number, name in enumerate(compiled.signature.symbols)}
    guards: list[ArgumentGuard] = []
    for name, value in arguments.items():
        info = infos.get(name)
        if info is None:
            guards.append(ScalarGuard(value))
        elif info.shape is None:
            guards.append(RuntimeGuard(info.dtype, slots[name]))
        else:
            extents = tuple(dim if isinstance(dim, int) else None for dim in info.shape)
            numbers = tuple(symbols[dim] if isinstance(dim, str) else None for dim in info.shape)
            guards.append(TensorGuard(value, extents, numbers, info.dtype.get_byte(), info.direction != "In", slots[name]))

    def failed(status: int, values: tuple[int, ...]) -> None:
        try:
            native.failed(status, values)
        except TilejitError as error:
            compiled.relocate(error)
            raise

    return Specialisation(native.address, tuple(guards), native.needs_arena, thread_count(), native.brief, failed, (native, compiled))


def watched_words(baseline: Baseline | None) -> list[Word] | None:
    """Memory words that change when a captured value or a setting does; None when no words can tell."""
    words = [] if baseline is None else baseline.words()
    if words is None:
        return None
    # Settings are read live: they live in the environment, which is a dict like any other.
    environment = cast("dict[str, object]", cast("Any", os.environ)._data)
    return [*words, dict_word(environment)]


_code: list[Blob | None] = []


def dispatcher_code() -> Blob | None:
    """The dispatcher's machine code: from the disk cache, else generated and kept there; None where it cannot be made."""
    if not _code:
        _code.append(_load_or_make())
    return _code[0]


def _load_or_make() -> Blob | None:
    fields: dict[str, object] = {"kernel": "native dispatcher", **toolchain()}
    key = hashlib.sha256(repr(sorted(fields.items())).encode()).hexdigest()
    found = store().get(key)
    if found is not None:
        try:
            return blob_of(found)
        except ArtifactError as error:
            store().reject(key, str(error))
    from tilejit.compiler import build_dispatcher

    blob = build_dispatcher()
    if blob is not None and not sources_changed():
        store().put(entry_of_blob(key, fields, blob))
    return blob
