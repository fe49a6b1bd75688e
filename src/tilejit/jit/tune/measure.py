"""What results are compared with: a choice that was right by another measure is none."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from itertools import chain
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeGuard, cast

import numpy as np

from tilejit.frontend.code_objects import digest_of, nested
from tilejit.frontend.source import unwrapped
from tilejit.jit.bound import ByReference
from tilejit.jit.reads.plain import encode, is_deep, is_plain
from tilejit.kinds import is_a
from tilejit.runtime.ranks.codes import is_full

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
_LOOKED_AT = (tuple, list, dict, partial, MethodType, FunctionType, CodeType, ModuleType, BuiltinFunctionType, np.ufunc, type, staticmethod, classmethod)
"""Types of objects that count by more than their class, besides plain ones."""
_LIBRARIES = (_PACKAGE + os.sep, os.path.dirname(os.__file__) + os.sep, "<frozen")


class Measure:
    """A `reference` by its code and by what it reads: plain values and functions, of which the same counts; other objects by their classes.

    In modules, classes and functions of the user's it reads the members that it names."""

    def __init__(self, reference: object) -> None:
        self._reference, self._reads = reference, list[tuple[Callable[[], object], object]]()
        self._seen: dict[tuple[int, tuple[str, ...]], tuple[object, object]] = {}
        self._fixed = True
        """Whether everything is as it was as long as each read gives the very object that it gave."""
        self.told = reference if isinstance(reference, str) else self._at(reference)
        """As JSON has it."""
        self._seen.clear()

    def holds(self) -> bool:
        """Whether a look of now would tell the same."""
        return (self._fixed and all(read() is value for read, value in self._reads)) or Measure(self._reference).told == self.told

    def _at(self, value: object) -> object:
        return _kind(value) if is_deep(value) else encode(value) if is_plain(value) else self._other(value)

    def _other(self, value: object) -> object:
        if type(value) is partial or is_a(value, *_CONTAINERS):
            self._fixed = False
            if (known := self._again(value)) is not None:
                return known
            members = [self._at(member) for member in _members(value)]
            return [_kind(value), *(sorted(members, key=json.dumps) if is_a(value, set, frozenset) else members)]
        if is_a(value, MethodType):
            return ["method", _kind(value.__self__), self._at(value.__func__)]
        if is_a(value, FunctionType):
            return self._again(value) or self._function(value)
        if _is_wrapper(value):
            return ["wrapped", _kind(value), self._at(self._read(lambda: value.origin() if is_a(value, ByReference) else unwrapped(value)))]
        if is_a(value, BuiltinFunctionType, np.ufunc, type, ModuleType):
            return ["named", _kind(value), f"{getattr(value, '__module__', None)}.{getattr(value, '__qualname__', None) or value.__name__}"]
        return ["object", _kind(value)]

    def _function(self, function: FunctionType) -> object:
        code = self._read(lambda: function.__code__)
        digest, names = _facts(code, code.co_filename)
        held = [self._with_members(self._read(partial(_content, cell)), names) for cell in function.__closure__ or ()]
        held += [[self._at(self._read(lambda: function.__defaults__))], [self._at(self._read(lambda: function.__kwdefaults__))]]
        return ["function", digest, *held, *self._named(names, function.__globals__)]

    def _named(self, names: tuple[str, ...], *namespaces: Mapping[str, object]) -> list[object]:
        """What names stand for."""
        found: list[object] = []
        for name in names:
            value = self._looked_up(name, namespaces)
            if value is not Ellipsis:
                found.append([name, *self._with_members(value, names)])
        return found

    def _looked_up(self, name: str, namespaces: Iterable[Mapping[str, object]]) -> object:
        """The first that has a name; of methods of classes and static ones the function."""
        looks = (self._read(partial(namespace.get, name, Ellipsis)) for namespace in namespaces)
        value = next((value for value in looks if value is not Ellipsis), Ellipsis)
        return value.__func__ if is_a(value, staticmethod, classmethod) else value

    def _with_members(self, value: object, names: tuple[str, ...]) -> list[object]:
        """A value that a function names, with those of its members that the function may name: each function has names of its own."""
        namespaces = _namespaces(value)
        if not namespaces or (is_a(value, FunctionType) and not self._read(partial(bool, vars(value)))):
            return [self._at(value)]  # most functions have no members
        known = self._again(value, names)
        return [self._at(value), *([known] if known is not None else self._named(names, *namespaces))]

    def _read(self, read: Callable[[], Any]) -> Any:
        value = read()
        if is_plain(value) or isinstance(value, _LOOKED_AT) or _is_wrapper(value):
            self._reads.append((read, value))
        else:
            self._reads.append((lambda: type(read()), type(value)))  # all that counts of it, and it may be large
        return value

    def _again(self, value: object, names: tuple[str, ...] = ()) -> object | None:
        """Which one it is of those that were looked at, for the same names of members, already; None: it is new."""
        number = len(self._seen)
        return None if (known := self._seen.setdefault((id(value), names), (number, value))[0]) == number else ["again", known]


_CONTAINERS = (tuple, list, dict, set, frozenset)


def _members(value: object) -> Iterable[object]:
    """What is in a container, or in a part of a call."""
    if is_a(value, partial):
        return (value.func, *value.args, *chain.from_iterable(sorted(value.keywords.items())))
    if is_a(value, dict):
        return chain.from_iterable(dict.items(cast("dict[Any, Any]", value)))
    kind: Any = next(kind for kind in _CONTAINERS if is_a(value, kind))
    return kind.__iter__(value)  # as they are, whatever a class of its own makes of them


def _namespaces(value: object) -> list[Mapping[str, object]]:
    """Where the members of a module, class or function of the user's are; of other values nothing."""
    if is_a(value, ModuleType):
        return [] if _is_of_library(value) else [vars(value)]
    if is_a(value, FunctionType):
        return [] if _is_library(value.__code__.co_filename) else [vars(value)]
    if is_a(value, type):
        return [vars(base) for base in value.__mro__ if not _is_of_library(sys.modules.get(base.__module__))]
    return []


def _content(cell: CellType) -> object:
    return cell.cell_contents if is_full(cell) else Ellipsis


def _is_wrapper(value: object) -> TypeGuard[Callable[..., object]]:
    """Whether it is a kernel, or a function that keeps what it returned."""
    return callable(value) and "__wrapped__" in getattr(value, "__dict__", ())


def _kind(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _is_of_library(module: ModuleType | None) -> bool:
    """Whether a module is no concern of the user's; one that was made by hand is."""
    return module is not None and (module.__name__ in sys.builtin_module_names or _is_library(getattr(module, "__file__", None) or ""))


@lru_cache(1024)
def _facts(code: CodeType, filename: str) -> tuple[str, tuple[str, ...]]:
    """Of the code of a function its digest and the names that it may read, none of them in libraries: what those keep there is no concern of the user's."""
    names = () if _is_library(filename) else tuple(sorted({name for each in nested(code) for name in each.co_names}))
    return digest_of(code), names


def _is_library(filename: str) -> bool:
    """Whether a file is one of Python's, of this package or of an installed one."""
    filename = os.path.normpath(filename)  # a script may be started through `..`
    return filename.startswith(_LIBRARIES) or "site-packages" in filename or "dist-packages" in filename
