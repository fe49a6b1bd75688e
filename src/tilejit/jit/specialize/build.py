"""From a specialisation to the program: the nodes go to the front end as they stand, so that its errors point at the user's lines."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from importlib import import_module

from tilejit.frontend.fold import Recorder
from tilejit.frontend.program import FunctionSource, build_program
from tilejit.jit.specialize.program import SpecialFunction, Specialization, function_attrs
from tilejit.tile_ir.program import Program
from tilejit.types.annotations import DynVar


def program_of(special: Specialization, recorder: Recorder | None = None) -> Program:
    """The program of a specialisation."""
    symbols = {name: DynVar(literal) for name, literal in special.symbols.items()}
    # The facade is looked up by its name: kernels see it, the compiler does not depend on it.
    shared: dict[str, object] = {"pl": import_module("tilejit.language"), **special.externals, **symbols}
    sources = [_source(function, shared) for function in special.functions]
    return build_program(special.name, sources, symbols={symbol: name for name, symbol in symbols.items()}, recorder=recorder)


def _source(function: SpecialFunction, shared: dict[str, object]) -> FunctionSource:
    definition = function.definition
    namespace: Mapping[str, object] = ChainMap(shared, definition.namespace)  # type: ignore[arg-type]
    return FunctionSource(
        function.name,
        function.node,
        definition.text.source,
        namespace,
        function.kind,
        attrs=function_attrs(definition),
        comments=definition.text.comments,
        strict=bool(definition.options.get("strict")),
    )
