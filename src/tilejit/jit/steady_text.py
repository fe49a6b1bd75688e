"""Host functions whose text does the same whenever it runs on equal arguments: it reads constants, kernels and functions like itself, and changes nothing."""

from __future__ import annotations

import builtins
import dis
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from types import CellType, CodeType, FunctionType, ModuleType

from tilejit.frontend.hosts import is_full
from tilejit.frontend.source import unwrapped
from tilejit.jit.definition import Definition, Kernel
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
        self._globals: list[tuple[Mapping[str, object], str, object]] = []
        self._cells: list[tuple[CellType, object]] = []
        self._functions: list[tuple[FunctionType, CodeType, object, object]] = []

    def hold(self) -> bool:
        """Whether all of it is what it was."""
        for space, name, value in self._globals:
            if space.get(name, builtins) is not value:
                return False
        if any(not is_full(cell) or cell.cell_contents is not value for cell, value in self._cells):
            return False
        parts = [(function.__code__, function.__defaults__, function.__kwdefaults__) for function, *_ in self._functions]
        return all(now is then for present, (_, *former) in zip(parts, self._functions, strict=True) for now, then in zip(present, former, strict=True))

    # reading a text -----------------------------------------------------------------------------------------------------

    def read(self, function: Callable[..., object], methods: Collection[str]) -> None:
        """Take up a function; `methods`: what it may call on `self`."""
        plain = unwrapped(function)
        if not isinstance(plain, FunctionType):
            raise _Unsteady
        if any(known is plain for known, *_ in self._functions):
            return
        self._functions.append((plain, plain.__code__, plain.__defaults__, plain.__kwdefaults__))
        if not all(map(is_plain, (*(plain.__defaults__ or ()), *(plain.__kwdefaults__ or {}).values()))):
            raise _Unsteady
        for cell in plain.__closure__ or ():
            if is_full(cell):
                self._cells.append((cell, cell.cell_contents))
                self._take(cell.cell_contents)
        for code in _codes(plain.__code__):
            self._read_code(plain, code, methods)

    def _read_code(self, function: FunctionType, code: CodeType, methods: Collection[str]) -> None:
        for step in dis.get_instructions(code):
            if step.opname in _EFFECTS or (step.opname in ("STORE_DEREF", "DELETE_DEREF") and step.argval in code.co_freevars):
                raise _Unsteady
        for name in code.co_names:
            if name in function.__globals__:
                self._globals.append((function.__globals__, name, function.__globals__[name]))
                self._take(function.__globals__[name])
            elif name not in methods and name not in _MEMBERS and name not in _spelled():
                self._globals.append((function.__globals__, name, builtins))  # it must not become a global
                _builtin(name)

    def _take(self, value: object) -> None:
        if isinstance(value, Kernel):
            if value.definition.kind == "host":
                self.read(value.definition.function, ())
        elif isinstance(value, FunctionType):
            self.read(value, ())
        elif isinstance(value, ModuleType):
            if value.__name__ not in _LANGUAGE:
                raise _Unsteady
        elif id(value) in _IMPURE or not (isinstance(value, DynVar) or is_plain(value)):
            raise _Unsteady


_IMPURE = frozenset(map(id, BUILTINS)) - PURE - _PURE_TOO


def _builtin(name: str) -> None:
    found = getattr(builtins, name, None)
    if found is None or not (id(found) in PURE or id(found) in _PURE_TOO or (isinstance(found, type) and issubclass(found, BaseException))):
        raise _Unsteady


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
        names.read(definition.function, methods)
    except _Unsteady:
        return None
    return names
