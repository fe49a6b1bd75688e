"""Warm calls: hands compiled specialisations to the native dispatcher and to a dict, and takes them back when something changed."""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from operator import is_
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np

from tilejit import config as settings
from tilejit import float_mode
from tilejit.errors import TilejitError
from tilejit.kinds import is_torch_tensor
from tilejit.runtime.arrays import devices_of
from tilejit.runtime.call.bindings import Word, binding_words, dict_pointer, dict_words, joined
from tilejit.runtime.call.guards import MISS, CallForm
from tilejit.runtime.call.layout import supported
from tilejit.runtime.call.memory import WORDS, comparison
from tilejit.runtime.call.native import NativeEntry, Placed
from tilejit.runtime.call.native_type import attach
from tilejit.runtime.config import RunConfig
from tilejit.runtime.locks import new_lock
from tilejit.runtime.targets import row_of

if TYPE_CHECKING:
    from tilejit.runtime.artifact.blob import Blob
    from tilejit.runtime.artifact.entry import CompiledEntry
    from tilejit.runtime.call.dispatch import Dispatcher
    from tilejit.runtime.call.written import WrittenCall

_DISPATCHER = ("tilejit.jit.disk.pieces", "dispatcher_code")
"""Who has the machine code of the dispatcher: it may have to be generated, so it is asked only when a call was seen more than once."""
_CHANGES = 32
"""How often the words that are watched may be others before native code is given up for a kernel."""
_KNOWN = 4096
"""Signatures that the Python path remembers; with more it starts anew."""
MAKING = new_lock()
"""Held while the warm ways of a callable are made: there must not be two of them, for its native code holds on to one."""
_Standing: TypeAlias = tuple[Sequence["Watch"], Callable[[], bool], Callable[[], bool] | None]
_NOTHING: _Standing = (), bool, None
_PLAIN = (bool, int, str, bytes, type(None))


class Questions(Protocol):
    """What was asked, for the objects of one moment."""

    @property
    def words(self) -> list[Word] | None: ...


class Watch(Protocol):
    """What a specialisation stands on besides its arguments, and whether that is as it was."""

    @property
    def asked(self) -> frozenset[tuple[str, str]]: ...

    @property
    def questions(self) -> Questions: ...

    def same_words(self) -> bool: ...

    def holds(self) -> bool: ...

    def lookups(self) -> Callable[[], bool] | None: ...

    def renew(self) -> bool: ...

    def asker(self, questions: Sequence[object], refused: set[int]) -> Callable[[], bool] | None: ...


class WarmCalls:
    """The warm ways of one callable: native code, and functions written for each signature where that is not to be had or does not know it."""

    def __init__(self, kernel: object, slow: Callable[..., object], form: CallForm) -> None:
        self._kernels = [weakref.ref(kernel)]
        self._slow = slow
        self._form = form
        self._names, self._runtime = tuple(form.runtime), tuple(form.runtime.values())
        self._path: Dispatcher | None = None
        self._attached = False
        self._served: set[tuple[object, ...]] = set()
        self._written: dict[tuple[object, ...], WrittenCall] = {}
        self._known: dict[tuple[object, ...], WrittenCall] = {}
        self._latest: tuple[list[Watch], WrittenCall] | None = None
        """The call that was taken last, with the watches that it stands on."""
        self._settings = SettingsWatch()
        self.watches: list[Watch] = []
        """What the specialisations that are served stand on. Never changed, always replaced, before something new stands on it: what one thread found to
        hold is not for what another one has compiled since."""
        self._ask: tuple[list[Questions], Callable[[], bool] | None] = [], None
        """Asks what the words of these do not tell; and the questions that it was written for."""
        self._standing = _NOTHING
        """Whether the words of these are as they were, and who asks the rest."""
        self._refused: set[int] = set()
        """Threads that it said No to."""
        self._lock = new_lock()
        """Whoever installs or drops something. Nothing of the user is asked meanwhile."""
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
        """Calls that took one of the warm ways."""
        return self.hits + self._python_hits

    # calling ------------------------------------------------------------------------------------------------------------------

    def run(self, args: tuple[object, ...]) -> object:
        """Run the kernel if this very signature was called before and nothing changed since; MISS: it is for the long way."""
        watches, latest = self.watches, self._latest
        if latest is None or not self._settings.hold():
            return MISS
        about, same, ask = self._standing
        if (about is not watches or ask is not None or not same()) and not self._stand(watches):
            return MISS
        if self._attached and self._path is not None and not self._path.watching():
            return MISS  # the long way watches anew, so that the next call is native again
        about, call = latest
        result = call(args) if about is watches else MISS
        if result is MISS:
            found = self._known.get(self._key(args))
            if found is None or self.watches is not watches or (result := found(args)) is MISS:
                return MISS
            self._latest = watches, found
        self._python_hits += 1
        return result

    def _stand(self, watches: Sequence[Watch]) -> bool:
        """Whether everything that was asked has the answer it had: first the words, then what they do not tell, then the words that asking may have changed."""
        if self._refused and threading.get_ident() in self._refused:
            self._refused.discard(threading.get_ident())
            return False  # native code has just asked
        about, same, ask = self._standing
        if about is not watches or not same():
            if not all(watch.same_words() for watch in watches):
                return all(watch.holds() for watch in watches) and self._lead_on(watches)
            questions = [watch.questions for watch in watches]
            same, ask = comparison([word for one in questions for word in one.words or ()]), self._asker(watches, questions)
            self._standing = watches, same, ask
            if not same():
                return False  # another thread has asked anew meanwhile
        if ask is None:
            return True
        if not ask():
            self._refused.discard(threading.get_ident())
            self._standing = _NOTHING  # it may be others that are asked about from now on
            return False
        return same()

    def _lead_on(self, watches: Sequence[Watch]) -> bool:
        """Everything was asked again; where lookups can tell that the next time, they will."""
        lookups = [watch.lookups() for watch in watches]
        if len(lookups) == 1 and lookups[0] is not None:
            self._standing = watches, lookups[0], None
        return True

    def _asker(self, watches: Sequence[Watch], questions: list[Questions]) -> Callable[[], bool] | None:
        """A function for what the specialisations ask now; the same one while that is the same."""
        about, ask = self._ask
        if len(about) == len(questions) and all(map(is_, about, questions)):
            return ask
        ask = watches[0].asker(questions, self._refused) if watches else None
        self._ask = questions, ask
        return ask

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
                key += kind, getattr(value, "dtype", None)  # an array that stands for a number
            elif kind is float:
                key.append(value.hex())  # type: ignore[attr-defined]
            elif kind in _PLAIN:
                key += kind, value
            elif kind is tuple:
                key += kind, id(value)  # the call itself looks whether it is this very one
            elif kind is np.ndarray or (is_torch_tensor(kind) and not value.is_nested):  # type: ignore[attr-defined]
                key += kind, value.dtype, value.shape, value.device  # type: ignore[attr-defined]
            else:
                return ()
        return tuple(key)

    # learning -----------------------------------------------------------------------------------------------------------------

    def serve(self, entry: CompiledEntry, arguments: Mapping[str, object], config: RunConfig | None, watch: Watch | None, seen: list[object]) -> None:
        """Let calls with arguments like these take a warm way. `seen` is what the settings were before it."""
        watches = self.watches
        stand = self._settings.are(seen) and all(other.renew() for other in watches if other is not watch)
        with self._lock:
            if self.watches is not watches:
                return  # another thread has learned or dropped something meanwhile: a later call may be served
            if not stand:
                self.forget()  # they belong to answers that changed since; and the same arguments may mean another program under other settings
            if watch is not None and not any(watch.asked <= other.asked for other in self.watches):
                self.watches = [*(other for other in self.watches if not other.asked <= watch.asked), watch]
            if self._settings.start(seen):
                self._install(entry, arguments, config)
            else:
                self.forget()  # changed by another thread meanwhile

    def _install(self, entry: CompiledEntry, arguments: Mapping[str, object], config: RunConfig | None) -> None:
        questions = [watch.questions for watch in self.watches]  # at once: other threads renew them
        natively = self._serve_natively(entry, arguments, config, questions)
        if not natively and config is None and not self._form.flat and tuple(arguments) in (self._names[: len(arguments)], self._form.inputs):
            self._serve_in_python(entry, entry.native, arguments)

    def _worth_watching(self, words: list[Word] | None) -> list[Word] | None:
        """The words, unless something beside the captured values keeps changing them: then asking Python at each call is cheaper than learning again."""
        if words != self._watched:
            self._changes += 1
            self._watched = words
        return words if self._changes <= _CHANGES else None

    def _serve_in_python(self, entry: CompiledEntry, native: NativeEntry | None, arguments: Mapping[str, object]) -> None:
        from tilejit.runtime.call.written import start_of, written_call_of  # not before a call is worth it

        key = self._key(tuple(arguments.values()))
        if not key:
            return
        token = (id(entry), *(_likeness(entry, arguments) if native is not None else key), *map(_empty_extents, arguments.values()))
        call = self._written.get(token)
        if call is None:
            placed, start = start_of(entry, native, arguments)
            call = written_call_of(entry, placed, start, arguments) if placed is not None and start is not None else None
            if call is None and native is None:
                call = self._plain_call(entry, key, arguments)
        if call is None:
            return
        if len(self._known) >= _KNOWN:
            self._known.clear()
            self._written.clear()
        self._written[token] = self._known[key] = call
        self._latest = self.watches, call

    def _plain_call(self, entry: CompiledEntry, key: tuple[object, ...], arguments: Mapping[str, object]) -> WrittenCall | None:
        """Calls with this key of a program that is no machine code: its own checks, without looking for the program again.

        None where the key does not tell the value that the program was made for: that of a tuple, or of an array in the place of a number."""
        names, given = tuple(arguments), {param.name for param in entry.signature.params}
        if any(type(value) not in (*_PLAIN, float) for name, value in arguments.items() if name not in given):
            return None
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

    def _serve_natively(self, entry: CompiledEntry, arguments: Mapping[str, object], config: RunConfig | None, questions: list[Questions]) -> bool:
        """Whether native code takes these calls from now on; False too for those that it had been taught and did not take."""
        from tilejit.runtime.call.dispatch import KEPT, native_call_of, wanted

        able = isinstance(entry.native or entry.runner, Placed) and wanted()
        words = self._worth_watching(watched_words(questions)) if able else None
        path = self._started() if words is not None else None
        if path is None or words is None:
            self.stop()
            return False
        path.watch(words, (questions, os.environ), self._asker(self.watches, questions))
        token = (id(entry), id(config), *_likeness(entry, arguments))
        if len(self._served) >= KEPT:
            self._served.clear()  # the tables start anew, too
        call = None if token in self._served else native_call_of(entry, path, arguments, self._form, config)
        new = call is not None and path.add(call)
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
        with self._lock:
            self._served.clear()
            self._latest = None
            self._known.clear()
            self._written.clear()
            if self._path is not None:
                self._path.clear()
            self.watches = []  # last: nothing may seem to stand on none

    def _started(self) -> Dispatcher | None:
        if self._path is None and supported():
            module, name = _DISPATCHER
            code = cast("Blob | None", getattr(import_module(module), name)())
            from tilejit.runtime.call.dispatch import Dispatcher

            self._path = None if code is None else Dispatcher(code, self._slow, self._form)
        return self._path


def _likeness(entry: CompiledEntry, arguments: Mapping[str, object]) -> tuple[object, ...]:
    """What the guards of a call tell apart though the code is the same: types, and values that were specialised."""
    given = {param.name for param in entry.signature.params}
    return tuple((name, type(value), None if name in given else _identity(value)) for name, value in arguments.items())


def _empty_extents(value: object) -> tuple[bool, ...] | None:
    shape = cast("tuple[int, ...]", getattr(value, "shape", ()))
    return tuple(extent == 0 for extent in shape) if 0 in shape else None


def _identity(value: object) -> object:
    return value.hex() if type(value) is float else value if type(value) in _PLAIN else id(value)


class SettingsWatch:
    """What the settings were when calls took their warm way for the first time, and whether they still are."""

    def __init__(self) -> None:
        self._seen: list[object] = [float_mode.STANDARD]
        self._version: float | None = None

    def are(self, seen: list[object]) -> bool:
        """Whether these settings are the ones watched."""
        return seen == self._seen

    def start(self, seen: list[object]) -> bool:
        """Watch these settings; False: they are no longer so."""
        self._seen, self._version = seen, None
        return self.hold()

    def hold(self) -> bool:
        """Whether no setting changed; costs one word and a look at the processor while nothing in the environment did."""
        version = _WORDS[_VERSION_AT]
        if version == self._version and float_mode.bits() == self._seen[-1] and os.environ is settings.ENVIRON and settings.ENVIRON._data is settings.DATA:
            return True
        known = settings.is_known()
        if settings.snapshot() != self._seen:
            return False
        self._version = version if known and settings.is_known() else None  # it counts the changes of the true environment, not of one in its place
        return True


def _version_at() -> tuple[Sequence[float], int]:
    """The words of memory, and which of them counts the changes of the environment; where that is not known, a number that is never what it was."""
    known = WORDS is not None and supported() and type(settings.DATA) is dict
    words = dict_words(cast("dict[str, object]", settings.DATA)) if known else None
    return ((math.nan,), 0) if words is None else (cast("Sequence[int]", WORDS), words[0][0] >> 3)


_WORDS, _VERSION_AT = _version_at()


def watched_words(questions: Sequence[Questions]) -> list[Word] | None:
    """Memory words that change when an answer or a setting does; None when no words can tell."""
    words: dict[int, Word] = {}
    for one in questions:
        if one.words is None:
            return None
        for word in one.words:
            if words.setdefault(word[0], word)[1] != word[1]:
                return None  # changed by another thread since the first of them was read
    if not supported() or not settings.is_known():
        return None
    # Settings are read live: they live in the environment, which is a dict like any other, behind a name of `os` and an attribute of that.
    own, environment = os.environ.__dict__, cast("dict[str, object]", cast("Any", os.environ)._data)
    bound, inside = binding_words(os.__dict__, "environ"), binding_words(own, "_data")
    return joined(list(words.values()), bound, dict_pointer(os.environ, own), inside, dict_words(environment))
