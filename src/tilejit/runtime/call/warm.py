"""Warm calls: hands compiled specialisations to the native dispatcher and to a dict, and takes them back when something changed."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from tilejit import config as settings
from tilejit.errors import TilejitError
from tilejit.runtime.arrays import devices_of
from tilejit.runtime.call.bindings import Word, dict_word
from tilejit.runtime.call.dispatch import FastPath, Specialisation, wanted
from tilejit.runtime.call.guards import ArgumentGuard, CallForm, FixedGuard, NewTensor, RuntimeGuard, ScalarGuard, TensorGuard
from tilejit.runtime.call.layout import supported
from tilejit.runtime.call.memory import WORDS
from tilejit.runtime.call.native import NativeEntry, Placed
from tilejit.runtime.call.native_type import attach
from tilejit.runtime.call.signature import ParamInfo
from tilejit.runtime.call.straight import MISS, Launch, Start, StraightCall, straight_call
from tilejit.runtime.config import RunConfig
from tilejit.runtime.targets import row_of

if TYPE_CHECKING:
    from tilejit.runtime.artifact.blob import Blob
    from tilejit.runtime.artifact.compiled import CompiledEntry

_DISPATCHER = ("tilejit.jit.disk.pieces", "dispatcher_code")
"""Who has the machine code of the dispatcher: it may have to be generated, so it is asked only when a call was seen more than once."""
_CHANGES = 32
"""How often the words that are watched may be others before native code is given up for a kernel."""
_KNOWN = 4096
"""Signatures that the Python path remembers; with more it starts anew."""
_PLAIN = (bool, int, type(None))


class Watch(Protocol):
    """What a specialisation stands on besides its arguments, and whether that is as it was."""

    @property
    def asked(self) -> frozenset[tuple[str, str]]: ...

    def holds(self) -> bool: ...

    def renew(self) -> bool: ...

    def stays(self) -> bool: ...

    def words(self) -> list[Word] | None: ...


class WarmCalls:
    """The short ways of one callable: native code, and functions written for each signature where that is not to be had or does not know it."""

    def __init__(self, kernel: object, slow: Callable[..., object], form: CallForm) -> None:
        self._kernels = [weakref.ref(kernel)]
        self._slow = slow
        self._form = form
        self._names, self._runtime = tuple(form.runtime), tuple(form.runtime.values())
        self._path: FastPath | None = None
        self._attached = False
        self._served: set[tuple[object, ...]] = set()
        self._written: dict[tuple[object, ...], StraightCall] = {}
        self._known: dict[tuple[object, ...], StraightCall] = {}
        self._latest: StraightCall | None = None
        self._settings = SettingsWatch()
        self.watches: list[Watch] = []
        """What the specialisations that are served stand on."""
        self._python_hits = 0
        self._watched: list[Word] | None = None
        self._changes = 0

    def answer_for(self, kernel: object) -> None:
        """Take the calls of another object too: it means the same."""
        self._kernels.append(weakref.ref(kernel))

    @property
    def hits(self) -> int:
        """Calls that never reached Python."""
        return self._path.hits if self._path is not None else 0

    @property
    def all_hits(self) -> int:
        """Calls that took one of the short ways."""
        return self.hits + self._python_hits

    # calling ------------------------------------------------------------------------------------------------------------------

    def run(self, args: tuple[object, ...]) -> object:
        """Run the kernel if this very signature was called before and nothing changed since; MISS: it is for the long way."""
        latest = self._latest
        if latest is None or not self._settings.hold():
            return MISS
        for watch in self.watches:
            if not watch.holds():
                return MISS
        if self._attached and self._path is not None and not self._path.watching():
            return MISS  # the long way watches anew, so that the next call is native again
        result = latest(args)
        if result is MISS:
            found = self._known.get(self._key(args))
            if found is None or found is latest or (result := found(args)) is MISS:
                return MISS
            self._latest = found
        self._python_hits += 1
        return result

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
        if len(args) > len(self._runtime):
            return ()
        key: list[object] = []
        for value, stays in zip(args, self._runtime):
            kind = type(value)
            if stays:
                key.append(kind)
            elif kind is float:
                key.append(value.hex())  # type: ignore[attr-defined]
            elif kind in _PLAIN:
                key += kind, value
            elif kind is np.ndarray or (kind.__module__ == "torch" and kind.__name__ == "Tensor" and not value.is_nested):  # type: ignore[attr-defined]
                key += kind, value.dtype, value.shape, value.device  # type: ignore[attr-defined]
            else:
                return ()
        return tuple(key)

    # learning -----------------------------------------------------------------------------------------------------------------

    def serve(
        self, entry: CompiledEntry, arguments: Mapping[str, object], config: RunConfig | None, watch: Watch | None, seen: list[object]
    ) -> None:
        """Let calls with arguments like these take a short way. `seen` is what the settings were before it."""
        native = entry.native
        if not self._settings.are(seen):
            self.forget()  # the same arguments may mean another program under other settings
        if not all(other.renew() for other in self.watches if other is not watch):
            self.forget()  # they belong to answers that changed since
        # What has to be asked at each call is asked then; only words must be those of the answers that this call got.
        if watch is not None and watch.words() is not None and not watch.renew():
            return
        if watch is not None and not any(watch.asked <= other.asked for other in self.watches):
            self.watches = [*(other for other in self.watches if not other.asked <= watch.asked), watch]
        words = self._worth_watching(watched_words(self.watches))
        if not self._settings.start(seen) or (words is not None and not all(other.stays() for other in self.watches)):
            self.forget()
            return  # changed by another thread meanwhile: the words are not those of this program
        natively = self._serve_natively(entry, arguments, config, words)
        if not natively and config is None and not self._form.flat and tuple(arguments) in (self._names[: len(arguments)], self._form.inputs):
            self._serve_in_python(entry, native, arguments)

    def _worth_watching(self, words: list[Word] | None) -> list[Word] | None:
        """The words, unless something beside the captured values keeps changing them: then asking Python at each call is cheaper than learning again."""
        if words != self._watched:
            self._changes += 1
            self._watched = words
        return words if self._changes <= _CHANGES else None

    def _serve_in_python(self, entry: CompiledEntry, native: NativeEntry | None, arguments: Mapping[str, object]) -> None:
        key = self._key(tuple(arguments.values()))
        if not key:
            return
        token = (id(entry), *((type(value) for value in arguments.values()) if native is not None else key))
        call = self._written.get(token)
        if call is None:
            placed, start = start_of(entry, native, arguments)
            call = straight_call_of(entry, placed, start, arguments) if placed is not None and start is not None else None
            if call is None and native is None:
                call = self._plain_call(entry, key, tuple(arguments))
        if call is None:
            return
        if len(self._known) >= _KNOWN:
            self._known.clear()
            self._written.clear()
        self._written[token] = self._known[key] = self._latest = call

    def _plain_call(self, entry: CompiledEntry, key: tuple[object, ...], names: tuple[str, ...]) -> StraightCall:
        """Calls with this key of a program that is no machine code: its own checks, without looking for the program again."""
        places = [names.index(param.name) for param in entry.signature.params if param.name in names]
        devices = row_of(entry.platform).devices

        def call(args: tuple[object, ...]) -> object:
            if self._key(args) != key or any(device.partition(":")[0] not in devices for device in devices_of(args)):
                return MISS
            try:
                return entry(*(args[place] for place in places))
            except TilejitError as error:
                entry.relocate(error)
                raise

        return call

    def _serve_natively(self, entry: CompiledEntry, arguments: Mapping[str, object], config: RunConfig | None, words: list[Word] | None) -> bool:
        """Whether native code takes these calls from now on; False too for those that it had been taught and did not take."""
        able = isinstance(entry.native or entry.runner, Placed)
        path = self._started() if able and words is not None and wanted() else None
        if path is None or words is None:
            self.stop()
            return False
        path.watch(words, (self.watches, os.environ))
        token = (id(entry), id(config), *((name, type(value)) for name, value in arguments.items()))
        special = None if token in self._served else specialisation_of(entry, path, arguments, self._form, config)
        new = special is not None and path.add(special)
        if new:
            self._served.add(token)
        for kernel in self._kernels:
            if (callable := kernel()) is not None:
                path.serve(callable)
        if entry.note:
            path.grad_noted()
        self._attached = True
        return new

    def stop(self) -> None:
        """Every call goes through Python again. The tables stay: another thread may be in a call that uses them."""
        if self._attached:
            for kernel in self._kernels:
                if (callable := kernel()) is not None:
                    attach(callable, 0, 0)
            self._attached = False

    def forget(self) -> None:
        """Drop the specialisations."""
        self._served.clear()
        self._latest = None
        self.watches = []
        self._known.clear()
        self._written.clear()
        if self._path is not None:
            self._path.clear()

    def _started(self) -> FastPath | None:
        if self._path is None and supported():
            module, name = _DISPATCHER
            code = cast("Blob | None", getattr(import_module(module), name)())
            self._path = None if code is None else FastPath(code, self._slow, self._form)
        return self._path


def start_of(entry: CompiledEntry, native: NativeEntry | None, arguments: Mapping[str, object]) -> tuple[Placed | None, Start | None]:
    """What runs calls with arguments like these without their full checks: machine code, or whatever else the target's runner offers."""
    if native is not None:
        return native, Launch(native.run_block, native.slots, entry.relocate, entry.note)
    runner, first = entry.runner, first_tensor(entry, arguments)
    return (runner, runner.launch(first, entry.relocate, entry.note)) if isinstance(runner, Placed) and first is not None else (None, None)


def guards_of(entry: CompiledEntry, native: Placed, arguments: Mapping[str, object], form: CallForm | None = None) -> tuple[ArgumentGuard, ...]:
    """Guards for arguments like these, in the order of the call."""
    flat, fixed = (form.flat, form.fixed) if form is not None else (False, None)
    places = dict(zip((param.name for param in native.params), native.places, strict=True))
    infos = {param.name: param for param in entry.signature.params}
    guards: list[ArgumentGuard] = []
    for name, value in arguments.items():
        info = infos.get(name)
        if info is None:
            guards.append(ScalarGuard(value))
        elif name == fixed:
            guards.append(FixedGuard(cast("int", value), places[name]))
        elif info.shape is None:
            guards.append(RuntimeGuard(info.dtype, places[name]))
        else:
            extents, symbols = _extents(entry, info)
            guards.append(TensorGuard(value, extents, symbols, info.dtype.get_byte(), info.direction != "In", places[name], flat))
    return tuple(guards)


def _extents(entry: CompiledEntry, info: ParamInfo) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
    """Extents that are known, and for the others the number of their symbol."""
    symbols = entry.signature.symbols
    shape = info.shape or ()
    return tuple(dim if isinstance(dim, int) else None for dim in shape), tuple(symbols.index(dim) if isinstance(dim, str) else None for dim in shape)


def new_tensors(entry: CompiledEntry, native: Placed, arguments: Mapping[str, object]) -> list[NewTensor] | None:
    """Tensors that a call with these arguments makes, in the order in which it returns them; None: their extents follow from a computation."""
    signature = entry.signature
    if signature.computed:
        return None
    places = dict(zip((param.name for param in native.params), native.places, strict=True))
    returned = [(info, places[info.name]) for info in entry.signature.params if info.name not in arguments]
    returned += zip(signature.results, native.places[len(native.places) - len(signature.results) :], strict=True)
    if any(info.shape is None for info, _ in returned):
        return None  # a scalar with a default
    order = list(signature.returned)
    returned.sort(key=lambda item: order.index(item[0].name) if item[0].name in order else len(order))
    return [NewTensor(info.dtype, *_extents(entry, info), slot) for info, slot in returned]


def straight_call_of(entry: CompiledEntry, native: Placed, start: Start, arguments: Mapping[str, object]) -> StraightCall | None:
    """Calls with arguments like these as one Python function, new tensors for those that are left out and for results; None: no such form."""
    new = new_tensors(entry, native, arguments)
    if new is None:
        return None
    names = list(arguments)
    same_buffer = [(names.index(output), names.index(source)) for output, source in entry.signature.in_place if output in names and source in names]
    return straight_call(guards_of(entry, native, arguments), new, same_buffer, start)


def specialisation_of(
    entry: CompiledEntry, path: FastPath, arguments: Mapping[str, object], form: CallForm, config: RunConfig | None
) -> Specialisation | None:
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
    return Specialisation(
        start.kernel, guards, start.needs_arena, start.threads, start.team, start.brief, failed, start.keep_alive, tuple(new), config, start.table, start.device
    )


def first_tensor(entry: CompiledEntry, arguments: Mapping[str, object]) -> object:
    """The first argument that is a tensor, or None."""
    return next((arguments[info.name] for info in entry.signature.params if info.shape is not None and info.name in arguments), None)


class SettingsWatch:
    """What the settings were when calls took their short way for the first time, and whether they still are."""

    def __init__(self) -> None:
        self._seen: list[object] = []
        self._version = 0

    def are(self, seen: list[object]) -> bool:
        """Whether these settings are the ones watched."""
        return seen == self._seen

    def start(self, seen: list[object]) -> bool:
        """Watch these settings; False: they are no longer so."""
        version = _environment_version()
        self._seen, self._version = seen, version
        return settings.snapshot() == seen

    def hold(self) -> bool:
        """Whether no setting changed; costs one word while nothing in the environment did."""
        if _ENVIRONMENT is not None and WORDS is not None and WORDS[_ENVIRONMENT] == self._version:
            return True
        version = _environment_version()
        if settings.snapshot() != self._seen:
            return False
        self._version = version
        return True


def _environment_at() -> int | None:
    found = getattr(os.environ, "_data", None)
    return dict_word(found)[0] >> 3 if supported() and WORDS is not None and type(found) is dict else None


_ENVIRONMENT = _environment_at()
"""Which of the memory words counts the changes of the environment."""


def _environment_version() -> int:
    return 0 if _ENVIRONMENT is None or WORDS is None else WORDS[_ENVIRONMENT]


def watched_words(watches: Sequence[Watch]) -> list[Word] | None:
    """Memory words that change when an answer or a setting does; None when no words can tell."""
    words: dict[int, Word] = {}
    for watch in watches:
        found = watch.words()
        if found is None:
            return None
        for word in found:
            words.setdefault(word[0], word)
    if not supported():
        return None
    # Settings are read live: they live in the environment, which is a dict like any other.
    environment = cast("dict[str, object]", cast("Any", os.environ)._data)
    return [*words.values(), dict_word(environment)]
