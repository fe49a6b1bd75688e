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
_SPACES = {"globals": 1, "eval": 2, "exec": 2, "f_globals": 1}
"""What gives or uses the names around it, and with how many arguments it no longer does; the last one belongs to frames."""


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
    """The names of others that a text binds, and what it reads of those that tell of names."""
    steps = [step for inner in codes_in(code) for step in instructions_of(inner) or ()]
    bound = {str(step.argval) for step in steps if step.opname in _BINDING} | _bound_around(code, frozenset(code.co_freevars))
    return tuple(sorted(bound)), frozenset(name for inner in codes_in(code) for name in inner.co_names if name in _SPACES)


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
    enough = {id(item.func) for item in walked if isinstance(item, ast.Call) and len(list(filter(_is_given, _given_to(item)))) >= _SPACES[name]}
    return next((item for item in walked if _is_called(item, name) and id(item) not in enough), None)


def _given_to(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _is_given(value: ast.expr) -> bool:
    return not (isinstance(value, ast.Constant) and value.value is None)


def _is_called(node: ast.AST, name: str) -> bool:
    """Whether an expression means a builtin, by its own name or as `builtins.name`, or what a frame has under that name."""
    if isinstance(node, ast.Attribute) and node.attr == name:
        return name == "f_globals" or (isinstance(node.value, ast.Name) and node.value.id == "builtins")
    return isinstance(node, ast.Name) and node.id == name
