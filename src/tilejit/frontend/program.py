"""Builds programs: functions read on demand, callees before callers, signatures from annotations or given by the caller."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp, StringAttr

from tilejit.errors import ParserSyntaxError, SourceText, Span, UnsupportedFeatureError
from tilejit.frontend.fold import Recorder, WithSelf
from tilejit.frontend.reader import FunctionReader
from tilejit.frontend.reserved_names import RESERVED
from tilejit.frontend.results import check_outputs, hide_results
from tilejit.frontend.signature import ParamSpec
from tilejit.frontend.source import FunctionText, span_of
from tilejit.frontend.values import InlineFunction, SelfReference
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.program import Function, Program
from tilejit.types.annotations import DynVar
from tilejit.types.values import ANY, TileType, Valid


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """A function of a program, before it is read."""

    name: str
    node: ast.FunctionDef
    source: SourceText
    namespace: Mapping[str, object] = field(repr=False)
    kind: str = "opaque"
    """A FunctionType value."""
    params: Sequence[ParamSpec] | None = None
    """The parameters, where the annotations do not say."""
    attrs: Mapping[str, object] = field(default_factory=dict[str, object])
    comments: Mapping[int, str] = field(default_factory=dict[int, str])
    annotations: Mapping[str, object] = field(default_factory=dict[str, object])
    """Annotations that Python already evaluated, by parameter."""
    strict: bool = False
    """No operators outside regions."""
    strict_ssa: bool = False


def build_program(
    name: str,
    functions: Sequence[FunctionSource],
    *,
    symbols: Mapping[DynVar, str] | None = None,
    recorder: Recorder | None = None,
    owner: type | None = None,
    launched: frozenset[str] = frozenset(),
) -> Program:
    """The program of these functions, in this order; module-level functions that they call come first."""

    def read(regions: Regions) -> Program:
        builder = ProgramBuilder(functions, symbols, recorder, owner, launched, regions)
        for source in functions:
            if source.kind != "inline":
                builder.resolve(source.name, span_of(source.node, source.source, source.name))
        return builder.program(name)

    program = _with_regions(read)
    called = {op.callee.data for op in program.module.walk() if isinstance(op, d.CallOp)}
    for entry in program.entries.values():
        check_outputs(entry)
        if entry.symbol not in called:  # Its callers were built for what it returns; outlining rewrites them together.
            hide_results(entry)
    return program


def build_function(source: FunctionSource) -> Function:
    """A module-level function, with the functions it calls."""

    def read(regions: Regions) -> Program:
        builder = ProgramBuilder([source], regions=regions)
        builder.resolve(source.name, span_of(source.node, source.source, source.name))
        return builder.program(source.name)

    return Function(_with_regions(read), source.name)


Regions = Mapping[tuple[str, str], Valid]
"""The valid regions of tiles that functions are given, by function and parameter, where an annotation says otherwise."""


class _OtherRegion(UnsupportedFeatureError):
    """The program is to be read again: a function is given a tile with another valid region than it was read for."""

    def __init__(self, place: tuple[str, str], valid: Valid, span: Span) -> None:
        super().__init__(f"`{place[1]}` of `{place[0]}` is given tiles with other valid regions", span=span)
        self.place, self.valid = place, valid


def _with_regions(read: Callable[[Regions], Program]) -> Program:
    """A program in which every function was read for the valid regions of the tiles that it is given."""
    regions: dict[tuple[str, str], Valid] = {}
    while True:
        try:
            return read(regions)
        except _OtherRegion as found:
            before = regions.get(found.place, found.valid)
            regions[found.place] = tuple(own if own == other and isinstance(own, int) else ANY for own, other in zip(before, found.valid, strict=True))


class ProgramBuilder:
    """The functions of a program as they get built; what a Context sees of the program."""

    def __init__(
        self,
        functions: Sequence[FunctionSource],
        symbols: Mapping[DynVar, str] | None = None,
        recorder: Recorder | None = None,
        owner: type | None = None,
        launched: frozenset[str] = frozenset(),
        regions: Regions | None = None,
    ) -> None:
        self.recorder = recorder
        self._regions = regions or {}
        self.launched = launched
        """Functions that a host function starts on ranks."""
        self._sources = {source.name: source for source in functions}
        self._owner = owner
        self._built: dict[str, d.FuncOp] = {}
        self._inline: dict[str, InlineFunction] = {}
        self._external: dict[str, d.FuncOp] = {}
        self._external_from: dict[str, Function] = {}
        self._reading: list[str] = []
        self._symbols: dict[DynVar, str] = dict(symbols or {})
        if len(self._sources) != len(functions):
            twice = next(source for index, source in enumerate(functions) if source.name in [other.name for other in functions[:index]])
            raise ParserSyntaxError(f"the program has two functions `{twice.name}`", span=span_of(twice.node, twice.source, twice.name))

    def program(self, name: str) -> Program:
        own = [self._built[function] for function in self._sources if function in self._built]
        module = ModuleOp([*self._external.values(), *own])
        module.attributes["name"] = StringAttr(name)
        return Program(module)

    def symbol(self, symbol: DynVar) -> str:
        """A name of its own for each symbol: equal texts of different symbols get M, M_1, …, one that the text of a program says itself pl_1"""
        found = self._symbols.get(symbol)
        if found is None:
            taken = {*self._symbols.values(), *RESERVED}
            found, count = symbol.name, 0
            while found in taken:
                count += 1
                found = f"{symbol.name}_{count}"
            self._symbols[symbol] = found
        return found

    def resolve(self, name: str, site: Span) -> d.FuncOp | InlineFunction:
        """A function of the program by name."""
        if name in self._external:
            return self._external[name]
        source = self._sources[name]
        inline = self.inline(name)
        if inline is not None:
            return inline
        if name not in self._built:
            if name in self._reading:
                chain = " → ".join([*self._reading[self._reading.index(name) :], name])
                raise UnsupportedFeatureError(f"`{name}` calls itself ({chain})", span=site, help="kernel functions cannot be recursive")
            self._reading.append(name)
            self._built[name] = FunctionReader(self, source, SelfReference(frozenset(self._sources), self._owner)).read()
            self._reading.pop()
        return self._built[name]

    def with_region(self, function: str, param: str, type: TileType) -> TileType:
        """The type of a parameter, with the valid region that its tiles have."""
        return type.with_valid(self._regions.get((function, param), type.valid))

    def read_for(self, function: str, param: str, valid: Valid, site: Span) -> bool:
        """Let a function be read for tiles with this valid region; False: it was read elsewhere."""
        if function in self._sources:
            raise _OtherRegion((function, param), valid, site)
        return False

    def is_entry(self, source: FunctionSource) -> bool:
        """Whether a function is called from outside: its windows then tell their groups themselves, others are told by their callers."""
        alone = [other for other in self._sources.values() if other.kind != "inline"] == [source]
        return source.kind == "orchestration" or source.name in self.launched or alone

    def inline(self, name: str) -> InlineFunction | None:
        """An inline function of the program, if it has one of that name."""
        source = self._sources.get(name)
        if source is None or source.kind != "inline":
            return None
        if name not in self._inline:
            text = FunctionText(source.node, source.source, source.comments)
            namespace = WithSelf(source.namespace, SelfReference(frozenset(self._sources), self._owner))
            self._inline[name] = InlineFunction(name, text, namespace, auto_scope=source.attrs.get("auto_scope") is not False)
        return self._inline[name]

    def add_external(self, function: Function, site: Span) -> d.FuncOp:
        """A module-level function and what it calls, added once."""
        for name, op in function.program.functions.items():
            if name in self._sources:
                raise ParserSyntaxError(f"the program has a function `{name}` of its own", span=site, help="rename one of the two")
            known = self._external_from.get(name)
            if known is None:
                self._external[name] = op.clone()
                self._external_from[name] = function
            elif known is not function and known.program.functions[name] is not op:
                raise ParserSyntaxError(f"two different functions are called `{name}`", span=site, help="rename one of the two")
        return self._external[function.name]
