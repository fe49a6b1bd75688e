"""Host functions whose text does the same whenever it runs on equal arguments: it reads constants, kernels and functions like itself, and changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from types import CellType, CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any, cast

from tilejit.frontend.code_objects import instructions_of
from tilejit.jit.definition import Definition, Kernel, parts_of, replaced_part
from tilejit.jit.reads.plain import BUILTINS, PURE, is_builtin, is_plain, is_settled, language_path
from tilejit.kinds import is_a
from tilejit.runtime.ranks.codes import codes_in
from tilejit.runtime.ranks.plan import HostTensor, StackedTensor
from tilejit.types.annotations import DynVar
from tilejit.types.groups import GROUPS

_LANGUAGE = ("tilejit.language", "tilejit.language.distributed", "pypto.language", "pypto.language.distributed")
_PURE_TOO = frozenset(map(id, (isinstance, enumerate, zip, reversed, any, all, map, filter)))
_MEMBERS = frozenset({"shape", "dtype", "name", "value"})
"""Attributes of what a host function has, besides those of the language."""
_TELLING = frozenset({*dir(HostTensor), *HostTensor.__dataclass_fields__, *StackedTensor.__dataclass_fields__, "format", "format_map"}) - _MEMBERS
"""Attributes that may lead to what a tensor holds, or where it lies, whatever else is called so: its own, and methods of texts that read those of others."""
_EFFECTS = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "IMPORT_NAME", "YIELD_VALUE", "SEND", "LOAD_BUILD_CLASS", "PUSH_EXC_INFO"})
"""The last one: what handles errors goes by what cannot be launched now, and that may be launched next time."""


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
        self.copies: dict[FunctionType, FunctionType] = {}
        """Each function with one that reads what is noted here, whatever is bound meanwhile: what it says is true of these names and of no others."""

    def hold(self) -> bool:
        """Whether all of it is what it was."""
        for space, name, value in self._bindings:
            if space.get(name, _NOTHING) is not value:
                return False
        if any(vars(owner) is not space for owner, space in self._spaces):
            return False
        if any(_content(cell) is not value for cell, value in self._cells):
            return False
        return all(replaced_part(function, parts) is None for function, parts in self._functions)

    # reading a text -----------------------------------------------------------------------------------------------------

    def read(self, function: object, methods: Collection[str]) -> FunctionType:
        """Take up a function; `methods`: what it may call on `self`. Gives its copy."""
        if not is_a(function, FunctionType):
            raise _Unsteady
        if function in self.copies:
            return self.copies[function]
        code, defaults, keywords, _ = parts = parts_of(function)
        cells = tuple(CellType() for _ in function.__closure__ or ())
        space: dict[str, object] = {"__builtins__": function.__builtins__, "__name__": function.__module__}
        copy = self.copies[function] = FunctionType(code, space, function.__name__, cast("Any", defaults), cells)
        copy.__kwdefaults__, copy.__qualname__, copy.__doc__ = cast("Any", keywords), function.__qualname__, function.__doc__
        self._functions.append((function, parts))
        self._owners[id(function)] = function
        if not all(map(_is_constant, (*(copy.__defaults__ or ()), *(copy.__kwdefaults__ or {}).values()))):
            raise _Unsteady
        for cell, own in zip(function.__closure__ or (), cells, strict=True):
            value = _content(cell)
            self._cells.append((cell, value))
            if value is not _NOTHING:
                own.cell_contents = self._take(value)
        for inner in codes_in(code):
            self._read_code(function, inner, methods)
        return copy

    def _read_code(self, function: FunctionType, code: CodeType, methods: Collection[str]) -> None:
        if not all(isinstance(constant, CodeType) or _is_constant(constant) for constant in code.co_consts):
            raise _Unsteady  # no compiler wrote it
        steps = instructions_of(code)
        if steps is None:
            raise _Unsteady
        for step in steps:
            formatted = step.opname == "FORMAT_WITH_SPEC" or (step.opname == "FORMAT_VALUE" and (step.arg or 0) & 4)  # which may follow the locale
            if step.opname in _EFFECTS or formatted or (step.opname in ("STORE_DEREF", "DELETE_DEREF") and step.argval in code.co_freevars):
                raise _Unsteady
            if step.opname in _NAMES:
                self._read_name(function, str(step.argval))
            elif step.argval in code.co_names:
                if step.argval in _TELLING or not (step.argval in methods or step.argval in _MEMBERS or step.argval in _spelled()):
                    raise _Unsteady
                self._attributes.add(step.argval)

    def _read_name(self, function: FunctionType, name: str) -> None:
        own, others = cast("tuple[Mapping[str, object], Mapping[str, object]]", (function.__globals__, function.__builtins__))
        value, seen = own.get(name, _NOTHING), self.copies[function].__globals__
        self._bindings.append((own, name, value))
        if value is not _NOTHING:
            seen[name] = self._take(value)
            return
        found = seen[name] = others.get(name, _NOTHING)
        self._bindings.append((others, name, found))
        if not (id(found) in PURE or id(found) in _PURE_TOO or (is_builtin(name, found) and is_a(found, type) and issubclass(found, BaseException))):
            raise _Unsteady

    def _take(self, value: object) -> object:
        """Take up what a name stands for; gives what it stands for in copies."""
        if is_a(value, FunctionType):
            return self.read(value, ())
        if is_a(value, Kernel):
            self._owners[id(value)] = value
            if value.definition.kind == "host":
                if value.definition.receiver is not None:
                    raise _Unsteady  # as in names_of
                self.read(value.definition.function, ())
        elif is_a(value, ModuleType):
            if value.__name__ not in _LANGUAGE:
                raise _Unsteady
            self._owners.update({id(space): space for space in (value, *map(vars(value).get, GROUPS)) if space is not None})
        elif not _is_constant(value):
            raise _Unsteady
        else:
            self._owners[id(value)] = value
        return value

    def watch_attributes(self) -> None:
        """What is read of the language, of kernels and of functions can be assigned by anybody; what functions have there must be constant, and kernels,
        which have no copies, must have nothing there."""
        owners = list(self._owners.values())
        for owner in owners:  # which grows: what the language has there can be given attributes too
            if not is_a(owner, FunctionType, Kernel, ModuleType, DynVar) and language_path(owner) is None and not _is_kind(owner):
                if not (_is_constant(owner) or _is_kind(type(owner))):
                    raise _Unsteady
                continue
            if is_a(owner, FunctionType) and owner not in self.copies:
                raise _Unsteady  # somebody's own in place of what the language has: the text would run that, and no copy of it
            names: Mapping[str, object] = getattr(owner, "__dict__", _NO_NAMES)
            found = {name: names.get(name, _NOTHING) for name in self._attributes}
            there = {name: value for name, value in found.items() if value is not _NOTHING}
            if is_a(owner, FunctionType):
                vars(self.copies[owner]).update(there)
            if (is_a(owner, Kernel) and there) or (is_a(owner, FunctionType) and not all(map(_is_constant, there.values()))):
                raise _Unsteady
            if type(names) is dict:
                self._spaces.append((owner, names))
            self._bindings += [(names, name, value) for name, value in found.items()]
            kinds = (kind for kind in (owner if is_a(owner, type) else type(owner)).__mro__ if _is_kind(kind))
            owners += [value for value in (*there.values(), *kinds) if all(value is not one for one in owners)]


_NOTHING = object()
_NO_NAMES: Mapping[str, object] = MappingProxyType({})
_NAMES = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_IMPURE = frozenset(map(id, BUILTINS)) - PURE - _PURE_TOO


def _is_constant(value: object) -> bool:
    """Whether a value stays what it is, and does the same whenever it is called; bytes become texts by codecs, which anybody registers."""
    if type(value) is tuple or type(value) is frozenset:
        return all(map(_is_constant, cast("tuple[object, ...]", value)))
    return id(value) not in _IMPURE and type(value) is not bytes and (is_a(value, DynVar) or (is_plain(value) and is_settled(value)))


def _is_kind(value: object) -> bool:
    """Whether it is a class of ours, to which anybody can give attributes."""
    return is_a(value, type) and value.__module__.startswith("tilejit.")


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return _NOTHING


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
    if definition.receiver is not None:
        return None  # it may read anything of an object of the user
    names = Names()
    try:
        names.read(definition.function, methods)
        names.watch_attributes()
    except _Unsteady:
        return None
    return names
