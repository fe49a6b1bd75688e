"""Kernels that texts of stored host functions find in modules: where each was when it was written, and which of them one is that is found later."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, cast

from tilejit.jit.definition import Kernel
from tilejit.jit.reads.plain import decode, encode, is_plain
from tilejit.kinds import is_a

Path = list[Any]
"""A module, and steps from there: `[attribute]` or `[None, key]`, the key in writing."""


def which(kernel: Kernel) -> object:
    """Which kernel it is: one of an object that has no place for it is made anew whenever somebody asks for it."""
    return kernel if kernel._bound_as is None else (kernel._bound_as[0], id(kernel._bound_as[1]))


def untuned(kernel: Any) -> Kernel:
    """The kernel of a tuned one, which host functions launch with its defaults."""
    return getattr(kernel, "kernel", kernel)


def origin_of(kernel: Kernel) -> str:
    """Where a kernel was defined: the same for the kernels of one text, which a factory or a class may have made by the dozen."""
    function = kernel.definition.function
    return f"{function.__module__}.{function.__qualname__}"


def modules_of(name: str, value: object, node: ast.AST) -> list[ModuleType]:
    """The modules that a text reaches by a name: `km.times` looks into one, `package.km.times` into two."""
    found = [value] if is_a(value, ModuleType) else []
    for item in ast.walk(node) if found else ():
        names: list[str] = []
        while isinstance(item, ast.Attribute):
            names.append(item.attr)
            item = item.value
        inner: object = value if isinstance(item, ast.Name) and item.id == name else None
        for attribute in reversed(names):
            inner = vars(inner).get(attribute) if is_a(inner, ModuleType) else None
            if is_a(inner, ModuleType) and inner not in found:
                found.append(inner)
    return found


def paths_to(kernel: Kernel, modules: Iterable[ModuleType]) -> list[Path]:
    """All the ways to a kernel from the modules that texts name, and from its own one: several kernels may have the same origin."""
    own = sys.modules.get(kernel.definition.function.__module__)
    known = {module.__name__: module for module in (*modules, *([own] if own is not None else [])) if sys.modules.get(module.__name__) is module}
    wanted = which(kernel)
    return [[name, *steps] for name, module in known.items() for steps, value in _inside(module, kernel) if _is(value, wanted)]


def _is(value: object, wanted: object) -> bool:
    return is_a(value, Kernel) and which(untuned(value)) == wanted


def _inside(module: ModuleType, kernel: Kernel) -> Iterator[tuple[Path, object]]:
    """What lies in a module, and in the containers, classes and objects there."""
    receiver = None if kernel._bound_as is None else kernel._bound_as[1]
    for name, value in list(vars(module).items()):
        yield [[name]], value
        if is_a(value, ModuleType, Kernel):
            continue
        for step, member in _members(value):
            yield [[name], step], member
        if value is receiver and receiver is not None:
            for attribute in _names_in_class(value, kernel):
                yield [[name], [attribute]], kernel


def _members(value: object) -> Iterator[tuple[list[Any], object]]:
    kind = type(value)
    if kind is list or kind is tuple:
        yield from (([None, number], member) for number, member in enumerate(cast("Sequence[object]", value)))
    elif kind is dict:
        pairs = list(cast("dict[object, object]", value).items())
        yield from (([None, encode(key)], member) for key, member in pairs if is_a(member, Kernel) and is_plain(key))
    else:
        held = getattr(value, "__dict__", None)
        if isinstance(held, Mapping):
            yield from (([name], member) for name, member in list(cast("Mapping[str, object]", held).items()))


def _names_in_class(receiver: object, kernel: Kernel) -> list[str]:
    assert kernel._bound_as is not None
    owner = receiver if is_a(receiver, type) else type(receiver)
    return [name for base in owner.__mro__ for name, value in vars(base).items() if kernel._bound_as[0] in (value, getattr(value, "__func__", None))]


class FoundKernels:
    """The kernels of an artifact as modules of this process have them, from the moment when it was read: what modules name otherwise later is another one."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows = rows
        self._found: dict[int, Kernel] = {}
        self._look()

    def _look(self) -> None:
        """Look for those whose modules were not imported yet."""
        for number, row in enumerate(self._rows):
            if number not in self._found and row["paths"] and (kernel := _at_all(row["paths"])) is not None and origin_of(kernel) == row["origin"]:
                self._found[number] = kernel

    def number(self, kernel: Kernel) -> int | None:
        """Which of the stored kernels this is; None if that is not certain."""
        self._look()
        there = [number for number, found in self._found.items() if which(found) == which(untuned(kernel))]
        return there[0] if len(there) == 1 else None


def _at_all(paths: Sequence[Path]) -> Kernel | None:
    """The kernel to which all the paths lead."""
    found: Kernel | None = None
    for module, *steps in paths:
        value: Any = sys.modules.get(module)
        try:
            for name, *key in steps:
                value = value[decode(key[0])] if name is None else getattr(value, name)
        except (AttributeError, LookupError, TypeError):
            return None
        if not is_a(value, Kernel) or (found is not None and which(untuned(value)) != which(found)):
            return None
        found = untuned(value)
    return found
