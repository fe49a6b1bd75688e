"""User functions and classes by what they are, as far as one kernel reaches them: nobody can change one without another digest."""

from __future__ import annotations

import builtins
import dataclasses
import enum
import functools
import hashlib
import os
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from tilejit.errors import UncacheableValueError
from tilejit.frontend.code_objects import content_of
from tilejit.frontend.fold import Namespace
from tilejit.jit.definition import Definition, Kernel
from tilejit.jit.reads import bytecode
from tilejit.jit.reads.encode import KNOWN_LIBRARIES, encode_value, is_installed, is_library, refusal, type_identity
from tilejit.jit.reads.facts import Step
from tilejit.types.annotations import DynVar

Chains = Mapping[str, Sequence[Sequence[Step]]]
"""Chains by the name they start at."""
Digests = dict[int, tuple[object, bytes]]
"""Functions and classes by identity, with their digests."""
Found = Callable[[str, Chains, Namespace, bool], None]
"""Told what a function reads: its label, the chains, where they start, and whether it is only there because its class is."""

REFLECTION = (globals, eval, exec, __import__)
"""Builtins that reach anything by a name known only when they run."""


class Content:
    """Digests of the functions and classes that the values of one kernel lead to, and numbers for what only its identity tells apart."""

    def __init__(self, found: Found, known: Digests | None = None) -> None:
        self._found = found
        self.digests = {} if known is None else known
        """By identity, with the object, so that no other takes its place."""
        self._in_class = 0
        self._by_class: set[int] = set()
        """Functions that were met only as members of a class: nobody may ever call them."""
        self._labels: dict[str, list[object]] = {}
        self._symbols: list[DynVar] = []

    def label(self, item: Definition | types.FunctionType) -> str:
        """A kernel or function by module and name; a second one of that name (closures of one factory, methods of two objects) gets a number."""
        name = identity(item.function if isinstance(item, Definition) else item)
        same = self._labels.setdefault(name, [])
        number = next((number for number, other in enumerate(same) if other is item), len(same))
        if number == len(same):
            same.append(item)
        return name if number == 0 else f"{name}#{number + 1}"

    def symbol_number(self, symbol: DynVar) -> int:
        """Which of the symbols that were met so far it is."""
        for number, other in enumerate(self._symbols):
            if other is symbol:
                return number
        self._symbols.append(symbol)
        return len(self._symbols) - 1

    # functions ------------------------------------------------------------------------------------------------------------

    def function_digest(self, function: Callable[..., object]) -> bytes:
        """A plain Python function by its code; what it reads is reported. Library functions by name. Recursion ends at the name."""
        plain = function.__func__ if isinstance(function, types.MethodType) else function
        name = identity(plain).encode()
        if not isinstance(plain, types.FunctionType) or is_library(plain.__module__, plain.__code__.co_filename):
            inner = getattr(plain, "__wrapped__", None)  # a library's decorator around a function of the user
            wrapped = self.function_digest(inner) if isinstance(inner, types.FunctionType) else b""
            return name + version_of(getattr(plain, "__module__", None)).encode() + wrapped
        if id(plain) in self._by_class and not self._in_class:
            self._by_class.discard(id(plain))
            self._report(plain)
        return self._once(plain, name, lambda: self._function(plain))

    def _function(self, function: types.FunctionType) -> bytes:
        if self._in_class:
            self._by_class.add(id(function))
        self._report(function)
        return encode_value(content_of(function.__code__), self.label(function), self) + self.defaults(function)

    def _report(self, function: types.FunctionType) -> None:
        label, code = self.label(function), function.__code__
        for module in bytecode.imports(code):
            if not self._in_class and not is_library(module, getattr(sys.modules.get(module.partition(".")[0]), "__file__", None)):
                help = f"import {module} at the top of the file, so that what is read of it can be seen"
                raise refusal(label, f"a function that imports `{module}` while it runs", help)
        self._found(label, bytecode.chains(code), Namespace(function), bool(self._in_class))

    def defaults(self, function: Callable[..., object]) -> bytes:
        """The default values of a function's parameters."""
        values = (getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None))
        return encode_value(values, f"defaults of {function.__name__}", self) if values != (None, None) else b""

    def _once(self, item: object, name: bytes, content: Callable[[], bytes]) -> bytes:
        if id(item) not in self.digests:
            self.digests[id(item)] = (item, name)  # where a recursion ends
            try:
                self.digests[id(item)] = (item, hashlib.sha256(name + content()).digest())
            except BaseException:
                del self.digests[id(item)]
                raise
        return self.digests[id(item)][1]

    # classes --------------------------------------------------------------------------------------------------------------

    def class_digest(self, cls: type) -> bytes:
        """A class by what its author wrote in it and its bases; library classes by name."""
        name = type_identity(cls).encode()
        if is_library(cls.__module__, getattr(sys.modules.get(cls.__module__.partition(".")[0]), "__file__", None)):
            return name + version_of(cls.__module__).encode()
        return self._once(cls, name, lambda: self._class(cls))

    def _class(self, cls: type) -> bytes:
        parts = [self.class_digest(base) for base in cls.__bases__]
        self._in_class += 1
        try:
            parts += [self._member(cls, name, member) for name, member in self._members(cls)]
        finally:
            self._in_class -= 1
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()

    def _member(self, cls: type, name: str, member: object) -> bytes:
        """A member by content; one that has none (a lock, a logger) by its type: refusing a class for what nobody reads would help nobody."""
        try:
            return encode_value((name, member), f"{cls.__qualname__}.{name}", self)
        except UncacheableValueError:
            return f"{name} {type_identity(type(member))}".encode()

    def _members(self, cls: type) -> Iterator[tuple[str, object]]:
        """What a class holds, as values: functions for methods, properties and the like."""
        if issubclass(cls, enum.Enum):
            yield "members", tuple((name, member.value) for name, member in cls.__members__.items())
        fields = cast("dict[str, dataclasses.Field[Any]]", vars(cls).get("__dataclass_fields__", {}))
        for field in fields.values():
            yield field.name, (_default(field.default), _default(field.default_factory))
        for name, member in vars(cls).items():
            if name in _MACHINERY or (issubclass(cls, enum.Enum) and not isinstance(member, _METHODS)):
                continue
            for kept in _unwrapped(member):
                if not (isinstance(kept, types.FunctionType) and kept.__code__.co_filename == "<string>"):  # written by dataclass or namedtuple
                    yield name, f"kernel {identity(kept.definition.function)}" if isinstance(kept, Kernel) else kept


_MACHINERY = frozenset(
    {
        "__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__",
        "__firstlineno__", "__static_attributes__", "__dataclass_fields__", "__dataclass_params__", "__abstractmethods__", "_abc_impl", "__parameters__",
        "__orig_bases__", "__orig_class__", "__type_params__", "__tilejit_kernels__", "__slotnames__",
        "__protocol_attrs__", "_is_protocol", "_is_runtime_protocol",
    }
)  # fmt: skip
"""Attributes that Python itself keeps in a class."""
_METHODS = (types.FunctionType, classmethod, staticmethod, property, functools.cached_property)


def _unwrapped(member: object) -> Iterator[object]:
    """The functions of a method, a property or another descriptor of Python's own; any other value itself."""
    if isinstance(member, classmethod | staticmethod):
        yield cast("object", member.__func__)
    elif isinstance(member, property):
        yield from (function for function in (member.fget, member.fset) if function is not None)
    elif isinstance(member, functools.cached_property):
        yield cast("object", member.func)
    elif not isinstance(member, types.MemberDescriptorType | types.GetSetDescriptorType) and type(member).__name__ != "_tuplegetter":
        yield member


def _default(value: object) -> object:
    return "none" if value is dataclasses.MISSING else ("is", value)


def identity(function: Callable[..., object]) -> str:
    """A function by module and name."""
    return f"{getattr(function, '__module__', None)}.{getattr(function, '__qualname__', type(function).__qualname__)}"


@functools.cache
def version_of(module: str | None) -> str:
    """The version of the library that a module belongs to; of one that is not known to keep its numbers, when its files were installed too."""
    name = module or ""
    package = sys.modules.get(name.partition(".")[0])
    version = f" {getattr(package, '__version__', '')}"
    return version if name.partition(".")[0] in KNOWN_LIBRARIES or package is None else version + _installed(package) + _installed(sys.modules.get(name))


def _installed(module: types.ModuleType | None) -> str:
    file = getattr(module, "__file__", None)
    if file is None or not is_installed(file):
        return ""
    try:
        facts = os.stat(file)
    except OSError:
        return ""
    return f" {facts.st_size} {facts.st_mtime_ns}"


State = tuple[object, ...]


def state_of(item: object) -> State | None:
    """What of a function or class must be the same objects for it to be the same in content; None where that would not tell."""
    if isinstance(item, types.FunctionType):
        defaults = (*(item.__defaults__ or ()), *(item.__kwdefaults__ or {}).values())
        plain = all(type(default) in ATOMS for default in defaults)
        return (item.__code__, item.__defaults__, item.__kwdefaults__) if plain else None
    assert isinstance(item, type)
    members = [member for name, member in vars(item).items() if name not in _MACHINERY and name != "_field_defaults"]
    if issubclass(item, enum.Enum):
        members = [*item.__members__.values(), *(member for member in members if isinstance(member, _METHODS))]
    if not all(map(_cannot_change, members)):
        return None
    return (item.__bases__, *members)


def _cannot_change(member: object) -> bool:
    if type(member) is tuple:
        return all(type(part) in ATOMS for part in cast("tuple[object, ...]", member))
    return type(member) in ATOMS or isinstance(member, _FIXED)


def holds(item: object, state: State) -> bool:
    """Whether a function or class is still made of the same objects."""
    now = state_of(item)
    return now is not None and len(now) == len(state) and all(a is b for a, b in zip(now, state, strict=True))


ATOMS = (bool, int, float, complex, str, bytes, type(None))
_FIXED = (*_METHODS, types.MemberDescriptorType, types.GetSetDescriptorType, types.BuiltinFunctionType, type, enum.Enum, Kernel)


def is_reflection(value: object) -> bool:
    """Whether a builtin reaches values by names that nobody can see."""
    return isinstance(value, types.BuiltinFunctionType) and getattr(value, "__module__", None) == builtins.__name__ and value in REFLECTION
