"""Host functions whose text does the same whenever it runs on equal arguments: it reads constants, kernels and functions like itself, and changes nothing."""

from __future__ import annotations

import dis
from collections.abc import Collection, Mapping
from importlib import import_module
from types import CellType, CodeType, FunctionType, ModuleType
from typing import cast

from tilejit.frontend.hosts import is_full
from tilejit.frontend.source import unwrapped
from tilejit.jit.definition import Definition, Kernel, parts_of, replaced_part
from tilejit.jit.reads.plain import BUILTINS, PURE, is_plain
from tilejit.types.annotations import DynVar

_LANGUAGE = ("tilejit.language", "tilejit.language.distributed", "pypto.language", "pypto.language.distributed")
_PURE_TOO = frozenset(map(id, (isinstance, enumerate, zip, reversed, any, all, map, filter)))
_MEMBERS = frozenset({"shape", "dtype", "name", "value"})
"""Attributes of what a host function has, besides those of the language."""
_EFFECTS = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "IMPORT_NAME", "YIELD_VALUE", "SEND", "LOAD_BUILD_CLASS"})


class _Unsteady(Exception):
    """Something of a text may be another thing next time."""


class Names:
    """What a text stands on besides its arguments."""

    def __init__(self) -> None:
        self._bindings: list[tuple[Mapping[str, object], str, object]] = []
        """Dicts with a name in each and what it stands for there; `_NOTHING`: it is not there."""
        self._cells: list[tuple[CellType, object]] = []
        self._functions: list[tuple[FunctionType, tuple[object, ...]]] = []
        self._spaces: list[tuple[object, Mapping[str, object]]] = []
        """Objects with their dicts, which can be replaced."""
        self._owners: dict[int, object] = {}
        """Objects whose attributes a text may read."""
        self._attributes: set[str] = set()

    def hold(self) -> bool:
        """Whether all of it is what it was."""
        for space, name, value in self._bindings:
            if space.get(name, _NOTHING) is not value:
                return False
        if any(vars(owner) is not space for owner, space in self._spaces):
            return False
        if any(not is_full(cell) or cell.cell_contents is not value for cell, value in self._cells):
            return False
        return all(replaced_part(function, parts) is None for function, parts in self._functions)

    # reading a text -----------------------------------------------------------------------------------------------------

    def read(self, function: object, methods: Collection[str]) -> None:
        """Take up a function; `methods`: what it may call on `self`."""
        if not isinstance(function, FunctionType):
            raise _Unsteady
        if any(known is function for known, _ in self._functions):
            return
        self._functions.append((function, parts_of(function)))
        self._owners[id(function)] = function
        if not all(map(_is_constant, (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()))):
            raise _Unsteady
        for cell in function.__closure__ or ():
            if is_full(cell):
                self._cells.append((cell, cell.cell_contents))
                self._take(cell.cell_contents)
        for code in _codes(function.__code__):
            self._read_code(function, code, methods)

    def _read_code(self, function: FunctionType, code: CodeType, methods: Collection[str]) -> None:
        if not all(isinstance(constant, CodeType) or _is_constant(constant) for constant in code.co_consts):
            raise _Unsteady  # no compiler wrote it
        for step in dis.get_instructions(code):
            if step.opname in _EFFECTS or (step.opname in ("STORE_DEREF", "DELETE_DEREF") and step.argval in code.co_freevars):
                raise _Unsteady
            if step.opname in _NAMES:
                self._read_name(function, str(step.argval))
            elif step.argval in code.co_names:
                if step.argval not in methods and step.argval not in _MEMBERS and step.argval not in _spelled():
                    raise _Unsteady
                self._attributes.add(step.argval)

    def _read_name(self, function: FunctionType, name: str) -> None:
        own: Mapping[str, object] = function.__globals__
        others: Mapping[str, object] = function.__builtins__
        self._bindings.append((own, name, own.get(name, _NOTHING)))
        if name in own:
            self._take(own[name])
            return
        found = others.get(name, _NOTHING)
        self._bindings.append((others, name, found))
        if not (id(found) in PURE or id(found) in _PURE_TOO or (isinstance(found, type) and issubclass(found, BaseException))):
            raise _Unsteady

    def _take(self, value: object) -> None:
        if isinstance(value, Kernel):
            self._owners[id(value)] = value
            if value.definition.kind == "host":
                self.read(unwrapped(value.definition.function), ())
        elif isinstance(value, FunctionType):
            self.read(value, ())
        elif isinstance(value, ModuleType):
            if value.__name__ not in _LANGUAGE:
                raise _Unsteady
            self._owners.update({id(space): space for space in (value, *map(vars(value).get, _GROUPS)) if space is not None})
        elif not _is_constant(value):
            raise _Unsteady

    def watch_attributes(self) -> None:
        """What is read of the language, of kernels and of functions can be assigned by anybody; what kernels and functions have there must be constant."""
        for owner in self._owners.values():
            names: Mapping[str, object] = vars(owner)
            found = [(names, name, names.get(name, _NOTHING)) for name in self._attributes]
            if isinstance(owner, Kernel | FunctionType) and not all(value is _NOTHING or _is_constant(value) for _, _, value in found):
                raise _Unsteady
            self._spaces.append((owner, names))
            self._bindings += found


_NOTHING = object()
_NAMES = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_GROUPS = ("tensor", "tile", "system")
"""Parts of the language that are objects with operators of their own."""
_IMPURE = frozenset(map(id, BUILTINS)) - PURE - _PURE_TOO


def _is_constant(value: object) -> bool:
    """Whether a value stays what it is, and does the same whenever it is called."""
    if type(value) is tuple or type(value) is frozenset:
        return all(map(_is_constant, cast("tuple[object, ...]", value)))
    return id(value) not in _IMPURE and (isinstance(value, DynVar) or is_plain(value))


def _codes(code: CodeType) -> list[CodeType]:
    return [code, *(inner for constant in code.co_consts if isinstance(constant, CodeType) for inner in _codes(constant))]


_words: set[str] = set()


def _spelled() -> set[str]:
    """All names of the language."""
    if not _words:
        pld = import_module("tilejit.language.distributed")
        for space in (import_module("tilejit.language"), pld, pld.tensor, pld.system):
            _words.update(dir(space))
        from tilejit.types.enums import ENUMS

        _words.update(name for kind in ENUMS.values() for name in kind.__members__)
    return _words


def names_of(definition: Definition, methods: Collection[str]) -> Names | None:
    """What the text of a host function stands on besides its arguments; None: nobody can tell."""
    names = Names()
    try:
        names.read(unwrapped(definition.function), methods)
        names.watch_attributes()
    except _Unsteady:
        return None
    return names
