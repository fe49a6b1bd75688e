"""From a specialisation to the program: the nodes go to the front end as they stand, so that its errors point at the user's lines."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import ModuleType

from tilejit.frontend.program import FunctionSource, build_program
from tilejit.jit.specialize.header import function_attrs
from tilejit.jit.specialize.program import SpecialFunction, Specialization
from tilejit.tile_ir.program import Program
from tilejit.types.annotations import DynVar


def program_of(special: Specialization) -> Program:
    """The program of a specialisation. Its text is closed: the front end sees the language, Python's builtins and what the specialisation names."""
    symbols = {name: DynVar(literal) for name, literal in special.symbols.items()}
    # The facade is looked up by its name: kernels see it, the compiler does not depend on it.
    language = {"pl": _own("tilejit.language"), "pld": _own("tilejit.language.distributed")}
    shared = {**vars(builtins), **special.language, **language, **special.externals, **symbols}
    sources = [_source(function, shared) for function in special.functions]
    return build_program(special.name, sources, symbols={symbol: name for name, symbol in symbols.items()})


class _Own(ModuleType):
    """A module of the language without what somebody assigned to its names: of those that the kernel reads the specialisation has asked, no other counts."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__dict__["module"] = import_module(name)

    def __getattr__(self, name: str) -> object:
        module = self.__dict__["module"]
        found = module.find(name)
        if found is None or name.startswith("__"):
            return getattr(module, name)  # which says what is wrong
        self.__dict__[name] = found
        return found

    def __dir__(self) -> list[str]:
        return dir(self.__dict__["module"])


_own = cache(_Own)


def _source(function: SpecialFunction, namespace: Mapping[str, object]) -> FunctionSource:
    definition = function.definition
    bound = definition.stores.keys() & vars(builtins).keys()  # local names in all of the function, as in Python: unbound where nothing binds them
    return FunctionSource(
        function.name,
        function.node,
        definition.text.source,
        {name: value for name, value in namespace.items() if name not in bound} if bound else namespace,
        function.kind,
        attrs=function_attrs(definition),
        comments=definition.text.comments,
        strict=bool(definition.options.get("strict")),
    )
