"""What the text of a host function may not do with names: it runs among names of its own, where `pl` is what records."""

from __future__ import annotations

import ast
import functools
from types import CodeType, FunctionType

from tilejit.errors import Span, UnsupportedFeatureError
from tilejit.frontend.code_objects import instructions_of
from tilejit.jit.definition import Definition
from tilejit.runtime.ranks.codes import codes_in

_BINDING = ("STORE_GLOBAL", "DELETE_GLOBAL")
_BINDING_AROUND = ("STORE_DEREF", "DELETE_DEREF")
_SPACES = {"globals": 1, "eval": 2, "exec": 2}
"""Builtins that give or use the names around them, and with how many arguments they no longer do."""


def check_names(definition: Definition, function: FunctionType) -> None:
    """What it bound of others would be lost, and what it looked for by text would not be there."""
    bound, read = _used(function.__code__)
    for name in bound:
        raise UnsupportedFeatureError(
            f"a host function cannot bind `{name}` of others: its text runs among names of its own",
            span=_binding_of(definition, name),
            help="bind it in a function that the host function calls, or keep it in an object: STATE.count += 1",
        )
    for name in read - function.__globals__.keys():
        node = _use_of(definition, name)
        if node is not None:
            raise UnsupportedFeatureError(
                f"a host function cannot ask {name} for the names around it: its text runs among names of its own",
                span=definition.span(node),
                help="write the name itself, or ask in a function that the host function calls",
            )


@functools.lru_cache(256)
def _used(code: CodeType) -> tuple[tuple[str, ...], frozenset[str]]:
    """The names of others that a text binds, and those builtins that it reads."""
    steps = [step for inner in codes_in(code) for step in instructions_of(inner) or ()]
    bound = {str(step.argval) for step in steps if step.opname in _BINDING} | _bound_around(code, frozenset(code.co_freevars))
    read = {str(step.argval) for step in steps if step.opname == "LOAD_GLOBAL"}
    return tuple(sorted(bound)), frozenset(read & _SPACES.keys())


def _bound_around(code: CodeType, around: frozenset[str]) -> set[str]:
    """Which variables of the functions around it a code or one in it binds: names that a function in it has of its own are others from there on."""
    bound = {str(step.argval) for step in instructions_of(code) or () if step.opname in _BINDING_AROUND} & around
    for inner in (constant for constant in code.co_consts if isinstance(constant, CodeType)):
        bound |= _bound_around(inner, (around - set(code.co_cellvars)) & frozenset(inner.co_freevars))
    return bound


def _binding_of(definition: Definition, name: str) -> Span | None:
    nodes = (node for node in ast.walk(definition.text.node) if isinstance(node, ast.Global | ast.Nonlocal) and name in node.names)
    return next((definition.span(node) for node in nodes), None)


def _use_of(definition: Definition, name: str) -> ast.AST | None:
    """Where it is used for more than what it is given."""
    walked = list(ast.walk(definition.text.node))
    enough = {id(item.func) for item in walked if isinstance(item, ast.Call) and len(item.args) + len(item.keywords) >= _SPACES[name]}
    return next((item for item in walked if isinstance(item, ast.Name) and item.id == name and id(item) not in enough), None)
