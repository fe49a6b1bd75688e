"""Turns one generic kernel and its helpers into the concrete functions of a program, for one set of arguments."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Protocol, cast

from tilejit.frontend.reserved_names import RESERVED
from tilejit.jit.definition import Definition
from tilejit.jit.reads.plain import encode
from tilejit.jit.reads.scope import Reads
from tilejit.jit.reads.trace import Trace
from tilejit.jit.specialize.declared import computed_names
from tilejit.jit.specialize.dynamic import analyse_late
from tilejit.jit.specialize.effects import has_effects
from tilejit.jit.specialize.expressions import Expressions
from tilejit.jit.specialize.forms import ComputedDim
from tilejit.jit.specialize.header import headed, kind_in_program
from tilejit.jit.specialize.meta import ArgumentMeta, Bundle, CompileTime, Constant, DynDim, OwnDim, RuntimeScalar
from tilejit.jit.specialize.nodes import at, relocated
from tilejit.jit.specialize.owned import made_in
from tilejit.jit.specialize.signature import JitParam
from tilejit.jit.specialize.statements import Statements
from tilejit.jit.specialize.symbols import Dynamic, Symbol
from tilejit.jit.specialize.values import UNKNOWN, Abstract, Items, RuntimeValue, Static, declared, literal
from tilejit.types.python_text import expression
from tilejit.types.values import BufferType, TileType

_MEANT = RESERVED | vars(builtins).keys()
"""Names that mean something in every text: nothing else of a program is called so."""


class ProgramFunction(Protocol):
    """A module-level `@pl.function`."""

    @property
    def name(self) -> str: ...

    @property
    def members(self) -> tuple[str, ...]: ...

    def as_python(self, prefix: str = "pl", concise: bool = False) -> str: ...

    def renamed(self, names: Mapping[str, str]) -> ProgramFunction: ...


@dataclass(frozen=True, slots=True)
class SpecialFunction:
    """A function of the specialised program. Its nodes stand where the user wrote them."""

    name: str
    node: ast.FunctionDef
    definition: Definition
    kind: str
    """Of the function in the program: a host function is its orchestration, a chip program that it calls an opaque function."""
    symbols: Mapping[str, str]
    """Python name of each dynamic symbol it mentions → the literal."""


@dataclass(frozen=True, slots=True)
class Specialization:
    """The specialised program: helpers leaf first, the entry last."""

    name: str
    functions: tuple[SpecialFunction, ...]
    symbols: Mapping[str, str]
    entry: str
    externals: Mapping[str, ProgramFunction] = field(default_factory=dict[str, "ProgramFunction"])
    """Module-level functions that are called, by name."""
    language: Mapping[str, object] = field(default_factory=dict[str, object])
    """Names under which the kernel reads the language, besides `pl`."""


@dataclass(frozen=True, slots=True)
class Built:
    """A helper under one set of parameter types."""

    name: str
    types: Mapping[str, Abstract]
    result: Abstract


_BUT_KEYS = tuple(part.name for part in fields(Items) if part.name != "keys")


@dataclass
class Specializer:
    """One specialisation in the making."""

    entry: Definition
    known: Mapping[Definition, Dynamic]
    trace: Trace
    """All that is seen of Python."""
    symbols: dict[str, str] = field(default_factory=dict[str, str])
    functions: list[SpecialFunction] = field(default_factory=list[SpecialFunction])
    externals: dict[str, ProgramFunction] = field(default_factory=dict[str, "ProgramFunction"])

    def __post_init__(self) -> None:
        self._names: set[str] = {self.entry.name}
        self._external_of: dict[str, ProgramFunction] = {}
        self._done: dict[Hashable, Built] = {}
        self._dims: dict[Symbol, DynDim] = {}
        self._literals: dict[str, int] = {}
        self._own_dims: dict[ComputedDim, DynDim] = {}
        self._spelled: set[str] = set()
        """Names of extents for which annotations say how they are computed."""
        self._dynamic = dict(self.known)
        self.may_act: dict[Definition, bool] = {}
        self.acting: set[str] = set()
        """Functions of the program that do more than compute what they return."""

    # symbols ------------------------------------------------------------------------------------------------------------------

    def dynamic(self, definition: Definition) -> Dynamic:
        """The dynamic extents of a function; of one that is known only since its name was read, an argument for instance, they are looked for now."""
        if definition not in self._dynamic:
            analyse_late(self.trace, definition, self._dynamic)
        return self._dynamic[definition]

    def reads(self, definition: Definition) -> Reads:
        """What a function sees of Python."""
        return Reads(self.trace, definition)

    def dim_of(self, symbol: Symbol) -> DynDim:
        """The extent that a function's symbol stands for."""
        root = symbol.root()
        if root not in self._dims:
            self._dims[root] = self._new_dim(root.literal)
        return self._dims[root]

    def _new_dim(self, text: str, kind: type[DynDim] = DynDim) -> DynDim:
        ordinal = self._literals.get(text, 0)
        self._literals[text] = ordinal + 1
        return kind(text, ordinal)

    def fresh(self) -> DynDim:
        """An extent of its own, for what is known only at run time."""
        return self._new_dim("D", OwnDim)

    def own_dim(self, extent: ComputedDim) -> DynDim:
        """An extent that stands for a computed one where nobody knows how it was."""
        return self._own_dims.setdefault(extent, self.fresh())

    def symbol_name(self, params: Mapping[str, Abstract], dim: DynDim) -> str:
        return self.symbol_names(params)[dim]

    def symbol_names(self, params: Mapping[str, Abstract]) -> dict[DynDim, str]:
        """The Python name of each dynamic extent of a function: its literal, numbered where that is taken."""
        out: dict[DynDim, str] = {}
        for type in params.values():
            for dim in type.shape if isinstance(type, BufferType | TileType) else ():
                if isinstance(dim, DynDim) and dim not in out and not isinstance(dim, ComputedDim):
                    out[dim] = self._free_name(dim.literal, set(out.values()))
                    self.symbols[out[dim]] = dim.literal
        for type in params.values():
            for dim in type.shape if isinstance(type, BufferType) else ():
                if isinstance(dim, ComputedDim) and dim not in out and (text := dim.text(out)) is not None:
                    out[dim] = text
        return out

    def _free_name(self, text: str, used: set[str]) -> str:
        name, number = text, 0
        while name in used or name in _MEANT or name in self.externals or self.symbols.get(name, text) != text:
            number += 1
            name = f"{text}_{number}"
        return name

    # functions ----------------------------------------------------------------------------------------------------------------

    def run(self, metas: Mapping[str, ArgumentMeta]) -> Specialization:
        """Specialise the entry for the given arguments."""
        self._build(self.entry, self.entry.name, self.entry_types(metas))
        named = {node.id for function in self.functions for node in ast.walk(function.node) if isinstance(node, ast.Name)} if self._spelled else set[str]()
        symbols = {name: literal for name, literal in sorted(self.symbols.items()) if name not in self._spelled or name in named}
        return Specialization(f"_jit_{self.entry.name}", tuple(self.functions), symbols, self.entry.name, self.externals, self.trace.modules)

    def entry_types(self, metas: Mapping[str, ArgumentMeta]) -> dict[str, Abstract]:
        """What the parameters of the entry hold, those that containers were taken apart into included."""
        types: dict[str, Abstract] = {}
        for param in self.entry.params:
            if param.name in metas:
                self._entry_type(param, param.name, metas[param.name], types)
        return types

    def _entry_type(self, param: JitParam, name: str, meta: ArgumentMeta, types: dict[str, Abstract]) -> Abstract:
        if isinstance(meta, Bundle):
            items = [self._entry_type(param, flat, member, types) for flat, member in zip(meta.names, meta.members, strict=True)]
            types[name] = Items(tuple(items), meta.names, meta.keys, meta.kind == "dict", meta.key_class)
        elif isinstance(meta, Constant):
            types[name] = declared(meta.value, param.dtype if param.kind == "scalar" else None)
        elif isinstance(meta, CompileTime):
            types[name] = Static(self.trace.ask("argument", name))
        elif isinstance(meta, RuntimeScalar):
            types[name] = RuntimeValue(meta.dtype)
        else:
            types[name] = meta.type(param.tensor.layout.value if param.tensor is not None else "ND")
        return types[name]

    def specialize(self, helper: Definition, types: Mapping[str, Abstract]) -> Built:
        """The specialisation of `helper` for these parameter types, up to the names of their symbols."""
        given = tuple(self._alpha(types))
        key, known = (helper, *given), self._done.get((helper, *given))
        if known is None or tuple(self._alpha(known.types)) != given:  # lists that it was given then may have been changed since
            name = self._free_function_name(helper.name)
            self._names.add(name)
            self._done[key] = Built(name, types, self._build(helper, name, types))
        return self._done[key]

    def _free_function_name(self, text: str, taken: Collection[str] = ()) -> str:
        name, number = text, 0
        while name in self._names or name in taken:
            number += 1
            name = f"{text}_{number}"
        return name

    def body(self, definition: Definition, types: Mapping[str, Abstract]) -> Statements:
        """A walk over the body of `definition`, ready to start."""
        return Statements(self, definition, self.dynamic(definition), types)

    def _build(self, definition: Definition, name: str, types: Mapping[str, Abstract]) -> Abstract:
        names = self.symbol_names(types)
        body = self.body(definition, types)
        bind_symbols(body, types)
        prologue = _rebound_scalars(definition, body, types)
        computed = computed_names(body)
        self._spelled.update(names[dim] for dim in computed)
        names.update(computed)
        statements = body.whole(definition.text.node.body)
        statements = [*prologue, *_extents_read(body, definition), *statements]
        if body.acts or has_effects(statements, self.acting):
            self.acting.add(name)
        kind = kind_in_program(definition, self.entry)
        node = headed(name, kind, types, names, body, statements)
        used = {python: dim.literal for dim, python in names.items() if not isinstance(dim, ComputedDim) and dim not in computed}
        self.functions.append(SpecialFunction(name, node, definition, kind, used))
        return body.result or UNKNOWN

    def _alpha(self, types: Mapping[str, Abstract]) -> Sequence[Hashable]:
        """Parameter types with symbols numbered by first appearance: equal for calls that can share a specialisation. Objects count by their handles.

        Whatever a type says counts: each of its fields, those that are yet to come too.
        """
        numbers: dict[DynDim, int] = {}
        things: dict[int, int] = {}

        def key(value: object) -> Hashable:
            if isinstance(value, DynDim):
                return ("dim", numbers.setdefault(value, len(numbers)))
            if isinstance(value, Static):
                identities = tuple(things.setdefault(id(made), len(things)) for made in made_in(value.value))  # which of them are one list
                return ("static", repr(encode(value.value, self.trace.reference)), identities)
            if isinstance(value, Items):  # keys that Python takes for equal are told apart
                return ("items", repr(encode(value.keys, self.trace.reference)), *(key(getattr(value, part)) for part in _BUT_KEYS))
            if isinstance(value, BufferType | TileType):
                return (type(value), *(key(getattr(value, part.name)) for part in fields(value)))
            return tuple(map(key, cast("tuple[object, ...]", value))) if isinstance(value, tuple) else value

        return [(name, key(value)) for name, value in types.items()]

    def external(self, function: object, node: ast.expr, taken: Collection[str]) -> ast.expr:
        """A call of a module-level function, which the program takes in: under its name, or under another where that means something else already.

        `taken`: names that the caller gives to something."""
        known = cast("ProgramFunction", function)
        given = next((name for name, of in self._external_of.items() if of is known and name not in taken), None)
        if given is None:
            names: dict[str, str] = {}
            for name in known.members:  # the functions that it calls join the program too
                names[name] = self._free_function_name(name, {*taken, *self.symbols, *self.trace.modules, *_MEANT})
                self._names.add(names[name])
            given = names[known.name]
            self._external_of[given] = known
            self.externals[given] = known if all(name == new for name, new in names.items()) else known.renamed(names)
        return at(ast.Name(given, ast.Load()), node)

    def missing_type(self, caller: Expressions, helper: Definition, param: JitParam, held: Mapping[str, Abstract], place: ast.AST) -> BufferType | None:
        """The type of an argument that nothing is known of; overridden where output shapes are looked for."""
        return None


def bind_symbols(body: Expressions, types: Mapping[str, Abstract]) -> None:
    """Let the function's own symbols stand for the extents its parameters have."""
    for param in body.definition.params:
        type = types.get(param.name)
        if isinstance(type, BufferType):
            for axis, symbol in body.dynamic.dims.get(param.name, {}).items():
                dim = type.shape[axis] if -type.rank <= axis < type.rank else None
                if isinstance(dim, DynDim):
                    body.dims.setdefault(symbol.root(), dim)


def _rebound_scalars(definition: Definition, body: Statements, types: Mapping[str, Abstract]) -> list[ast.stmt]:
    """A scalar that became a literal but is assigned in the body starts as a local of that value."""
    out: list[ast.stmt] = []
    for param in definition.params:
        type = types.get(param.name)
        if isinstance(type, Static) and definition.stores.get(param.name):
            value = literal(type.value)
            body.env[param.name] = replace(type, local=value is not None)
            if value is None:
                continue  # an object: no text can stand for it, and none has to
            place = definition.node_of(param)
            statement = ast.Assign([ast.Name(param.name, ast.Store())], relocated(value, place))
            out.append(ast.fix_missing_locations(ast.copy_location(statement, place)))
    return out


def _extents_read(body: Statements, definition: Definition) -> list[ast.stmt]:
    """Extents of parameters that are bound anew later on."""
    first = definition.text.node.body[0]
    rows = [(label, relocated(expression(f"pl.tensor.dim({name}, {axis})"), first)) for label, name, axis in body.extents.values()]
    return [at(ast.Assign([at(ast.Name(label, ast.Store()), first)], read), first) for label, read in rows]
