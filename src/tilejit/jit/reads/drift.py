"""Captured values that change after a kernel was compiled: what they were, and how to tell cheaply that they still are."""

from __future__ import annotations

import builtins
import enum
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

from tilejit.errors import StaleCaptureError
from tilejit.frontend.fold import Namespace
from tilejit.jit.definition import Kernel
from tilejit.jit.reads.captures import MISSING, Captures, Read, identity
from tilejit.jit.reads.content import ATOMS, Digests, State, holds, state_of
from tilejit.jit.reads.encode import is_library
from tilejit.runtime.call.bindings import HeldWord, Word, binding_words, cell_word, dict_pointer, function_words, looks_up_like, type_word, version_words
from tilejit.runtime.call.layout import supported


@dataclass(frozen=True, slots=True)
class Drift:
    """A captured value that is no longer what it was."""

    read: Read
    old: str
    """The old value as it was shown then: a container may have changed in place."""
    new: object

    def error(self, kernel: str) -> StaleCaptureError:
        what = f"was deleted; it was {self.old}" if self.new is MISSING else f"changed from {self.old} to {_short(self.new)}"
        where = "" if self.read.owner == kernel else f" in {self.read.owner}"
        return StaleCaptureError(
            f"{self.read.kind} `{self.read.path}`, which kernel `{kernel}` read{where} when it was compiled, {what}",
            help="pass it as an argument; use @pl.jit(on_drift='recompile') to follow changes, or on_drift='ignore' to keep the compiled value; "
            f"or call {kernel.rpartition('.')[2]}.cache_clear()",
        )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"




class Baseline:
    """The values that a compiled kernel stands on, and how to tell cheaply that they still hold."""

    def __init__(self, captures: Captures) -> None:
        self.captures = captures
        self.encodings = captures.baseline
        self.values: dict[tuple[str, str], object] = {}
        self.functions: dict[tuple[str, str], tuple[int, ...]] = {}
        self.alone: dict[tuple[str, str], bytes] = {}
        self.wholes: dict[tuple[str, str], bytes] = {}
        """Values that are no atoms: each by itself, and with what it reads in turn."""
        self._codes: list[tuple[object, State]] = []
        self._digests: Digests = {}
        """Functions and classes that they lead to, what these were made of, and their digests; none where that would not tell."""
        self.shown: dict[tuple[str, str], str] = {}
        self.simple = self._only_plain = True
        """Whether all values are immutable (functions: but for three fields), so that only bindings can change; or even plain."""
        self._plain: list[tuple[dict[str, object], str, object]] = []
        """Immutable values of module globals: one lookup tells that they are the same."""
        self.own = [
            (function, function.__code__, function.__defaults__, function.__kwdefaults__)
            for definition in captures.definitions
            if isinstance(function := definition.function, types.FunctionType)
        ]
        """The kernels themselves: their code and defaults can be replaced too."""
        if captures.reads:
            self._take(captures)

    def _take(self, captures: Captures) -> None:
        """The values that are read now."""
        self.values = {key: read.resolve() for key, read in captures.reads.items()}
        compound = [key for key, value in self.values.items() if type(value) not in ATOMS]
        known: Digests = {}
        self.alone = {key: captures.encoding_anew(captures.reads[key], known) for key in compound}
        states = [(item, state_of(item)) for item, _ in known.values()]
        self._codes = [(item, state) for item, state in states if state is not None]
        self._digests = known if len(self._codes) == len(states) else {}
        self.wholes = {key: captures.whole(captures.reads[key]) for key in compound}
        self.functions = {key: _function_state(value) for key, value in self.values.items() if isinstance(value, types.FunctionType)}
        self.shown = {key: _short(value) for key, value in self.values.items()}
        self.simple = all(type(value) in ATOMS or _is_fixed(value) or _is_plain_function(value) for value in self.values.values())
        globals_of = {key: namespace for key, read in captures.reads.items() if (namespace := _plain_namespace(read, self.values[key])) is not None}
        self._plain = [(namespace, captures.reads[key].root, self.values[key]) for key, namespace in globals_of.items()]
        self._only_plain = len(globals_of) == len(captures.reads)

    def holds(self) -> bool:
        """Whether nothing changed; the quick way to ask."""
        for function, code, defaults, keywords in self.own:
            if function.__code__ is not code or function.__defaults__ is not defaults or function.__kwdefaults__ is not keywords:
                return False
        for namespace, name, value in self._plain:
            if namespace.get(name, MISSING) is not value:
                return not self.drifts()
        return self._only_plain or not self.drifts()

    def drifts(self) -> list[Drift]:
        """What changed since the baseline was taken."""
        out = [drift for function, *parts in self.own for drift in _replaced(function, parts)]
        for key, read in self.captures.reads.items():
            old, new = self.values[key], read.resolve()
            if new is old and (type(new) in ATOMS or _is_fixed(new) or (_is_plain_function(new) and self.functions[key] == _function_state(new))):
                continue
            if self._differs(key, read, same=new is old or _is_same_method(new, old)):
                out.append(Drift(read, self.shown[key], new))
        return out

    def _known(self) -> Digests:
        """The digests of functions and classes, if none was touched since: they hold each other's, and hashing them again would take most of the time."""
        return dict(self._digests) if all(holds(item, state) for item, state in self._codes) else {}

    def _differs(self, key: tuple[str, str], read: Read, same: bool) -> bool:
        """Whether a value is another one in its content. What the same object leads to is among the reads itself; what took its place may lead elsewhere."""
        try:
            if same or key not in self.wholes:
                return self.captures.encoding_anew(read, self._known()) != self.alone.get(key, self.encodings[key])
            return self.captures.whole(read) != self.wholes[key]
        except Exception:
            return True  # it cannot be encoded any more

    def words(self) -> list[Word] | None:
        """Memory words that all stay the same while no binding changes; None when that is not enough. In the order they must be compared."""
        if not supported() or not self.simple:
            return None
        found = {item[0]: item for function, *_ in self.own for item in function_words(function)}
        for read in self.captures.reads.values():
            words = _words_of(read)
            if words is None:
                return None
            for item in words:
                found.setdefault(item[0], item)
        return list(found.values())


def _is_same_method(new: object, old: object) -> bool:
    return isinstance(new, types.MethodType) and isinstance(old, types.MethodType) and new.__func__ is old.__func__ and new.__self__ is old.__self__


def _is_plain_function(value: object) -> bool:
    """A function whose defaults cannot change in place."""
    if not isinstance(value, types.FunctionType):
        return False
    defaults = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
    return all(type(default) in ATOMS for default in defaults)


def _function_state(function: object) -> tuple[int, ...]:
    """What of a function object can be replaced in place; what it reads is watched by reads of its own."""
    assert isinstance(function, types.FunctionType)
    return id(function.__code__), id(function.__defaults__), id(function.__kwdefaults__)


def _replaced(function: types.FunctionType, parts: Iterable[object]) -> Iterator[Drift]:
    """What of a kernel's own function is another object now."""
    for name, old in zip(("__code__", "__defaults__", "__kwdefaults__"), parts, strict=True):
        if getattr(function, name) is not old:
            yield Drift(Read(identity(function), {}, f"{function.__qualname__}.{name}", ()), _short(old), getattr(function, name))


def _is_fixed(value: object) -> bool:
    """Objects whose content cannot change, or whose text is all that counts."""
    if isinstance(value, type | enum.Enum):
        return is_library((value if isinstance(value, type) else type(value)).__module__, None)
    return isinstance(value, types.ModuleType | types.BuiltinFunctionType | Kernel) or type(value).__name__ in ("DType", "DynVar", "OpFunction", "Marker")


def _plain_namespace(read: Read, value: object) -> dict[str, object] | None:
    """The module's dict, where `read` is one of its names and holds an immutable value."""
    namespace = read.namespace
    if read.steps or type(value) not in ATOMS or not isinstance(namespace, Namespace):
        return None
    if namespace.cell(read.root) is not None or read.root in namespace.extra or read.root not in namespace.globals:
        return None
    return cast("dict[str, object]", namespace.globals)


def _words_of(read: Read) -> list[Word] | None:
    """Words that tell whether the chain of `read` still leads to the same object."""
    namespace = read.namespace
    if not isinstance(namespace, Namespace):
        return None
    words: list[Word] = []
    cell = namespace.cell(read.root)
    if cell is not None:
        words.append(cell_word(cell))
    elif read.root not in namespace.extra:
        module = cast("dict[str, object]", namespace.globals)
        words += binding_words(module, read.root)
        if read.root not in module:
            words += binding_words(builtins.__dict__, read.root)
    for container, (kind, key) in zip(read.containers(), read.steps, strict=True):
        found = _attribute_words(container, str(key)) if kind == "attr" else None
        if found is None:
            return None
        words += found
    value = read.resolve()
    if words:
        words[-1] = HeldWord(words[-1], value)
    if isinstance(value, types.FunctionType):
        words += function_words(value)
    return words


def _attribute_words(container: object, name: str) -> list[Word] | None:
    """Words that tell whether `container.name` is still found where it was; None where more than classes and dicts are asked."""
    cls = type(container)
    if cls is types.ModuleType:
        return _words_in_module(cast("types.ModuleType", container), name)
    if issubclass(cls, type):
        return _words_in_class(cast("type", container), name)
    return _words_in_instance(container, name)


def _words_in_module(module: types.ModuleType, name: str) -> list[Word] | None:
    names = cast("dict[str, object]", vars(module))
    if name not in names or _raw(types.ModuleType, name) is not MISSING:
        return None  # served by its `__getattr__`, or by what all modules have
    return _joined([type_word(module)], dict_pointer(module, names), binding_words(names, name))


def _words_in_class(cls: type, name: str) -> list[Word] | None:
    meta, found = type(cls), _raw(cls, name)
    if not looks_up_like(meta, type) or _raw(meta, name) is not MISSING:
        return None
    if _is_descriptor(found) and not isinstance(found, types.FunctionType | staticmethod):
        return None
    return _joined([type_word(cls)], version_words(meta), version_words(cls), version_words(type(found)))


def _words_in_instance(instance: object, name: str) -> list[Word] | None:
    cls = type(instance)
    found = _raw(cls, name)
    if not looks_up_like(cls, object) or _is_descriptor(found):
        return None
    own = getattr(instance, "__dict__", None)
    if type(own) is not dict:
        return None
    names = cast("dict[str, object]", own)
    return _joined([type_word(instance)], version_words(cls), version_words(type(found)), dict_pointer(instance, names), binding_words(names, name))


def _joined(*parts: list[Word] | None) -> list[Word] | None:
    """All of them; None if one is."""
    known = [part for part in parts if part is not None]
    return [item for part in known for item in part] if len(known) == len(parts) else None


def _raw(cls: type, name: str) -> object:
    """What a class or its bases hold under `name`, before any descriptor is asked."""
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), MISSING)


def _is_descriptor(value: object) -> bool:
    return _raw(type(value), "__get__") is not MISSING
