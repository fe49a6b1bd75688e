"""Lists, dicts and sets that a kernel may change while compiling: its own, and those that Python made for it just now. All others are somebody else's."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from types import BuiltinMethodType
from typing import TYPE_CHECKING, Any, cast

from tilejit.errors import UnsupportedFeatureError, in_body
from tilejit.jit.reads.handles import holds_handle, is_handle, is_one
from tilejit.jit.reads.natures import ALIKE, CHANGING, IN_PLACE, KEPT, MAKES, STEPS, WRITES, changed_kind
from tilejit.jit.reads.plain import is_plain
from tilejit.jit.specialize.values import Static

if TYPE_CHECKING:
    from tilejit.jit.specialize.expressions import Expressions

LISTS = frozenset(name for kind in (list, dict) for name in CHANGING[kind] if not name.startswith("__")) - {"sort"}
"""Changes of lists and dicts, by names that no method of a tensor has."""
_MOVING = LISTS - {"remove"} | frozenset("copy get items keys values".split())
"""Methods of lists and dicts that compare no members."""
_MANY = 1000
"""Longer containers stay with Python: each mention of one would be written out."""


def changed_by(function: object) -> object:
    """The list, dict or set of the kernel that a method changes; None: it changes none."""
    if type(function) is not BuiltinMethodType:
        return None
    owner = cast("object", function.__self__)
    return owner if type(owner) in (list, dict, set) and function.__name__ in CHANGING[type(owner)] else None


def only_moves(function: object, given: Sequence[object]) -> bool:
    """Whether a method of a list or dict that the kernel made puts members in or takes them out without a look at them: some may be objects of Python."""
    if type(function) is not BuiltinMethodType or function.__name__ not in _MOVING:
        return False
    owner, first = cast("object", function.__self__), given[0] if given else None
    if type(owner) is list:
        return function.__name__ != "extend" or type(first) in (list, tuple)
    return type(owner) is dict and (not holds_handle(first) or type(first) is dict)


def makes_anew(function: object, given: Sequence[object]) -> bool:
    """Whether a function puts members of containers that the kernel made into another one, as they are."""
    if function is list or function is tuple:
        return len(given) == 1 and type(given[0]) in (list, tuple, dict)
    return function is dict and (not holds_handle(given) or all(type(item) is dict for item in given))


def made_in(value: object) -> Iterator[object]:
    """The lists, dicts and sets of the kernel's in a value."""
    if type(value) in (list, dict, set):
        yield value
    if type(value) in (list, dict, tuple):
        members = cast("dict[object, object]", value).values() if type(value) is dict else cast("list[object]", value)
        yield from (found for item in members for found in made_in(item))


def given_to(body: Expressions, function: object, given: tuple[object, ...], node: ast.expr) -> tuple[object, ...]:
    """What a method that changes a list or dict of the kernel's is given: members of Python's containers, which are asked for."""
    name = cast("Any", function).__name__
    if len(given) != 1 or not is_handle(given[0]) or name not in ("extend", "update"):
        return given
    if name == "extend":
        return ([cast("Static", item).value for item in body.members(Static(given[0]), node)],)
    return (taken_over(body, given[0], node),)


def is_fresh(body: Expressions, function: object) -> bool:
    """Whether what a function of Python itself returns is a list, dict or set that nobody else has."""
    return any(function is one for one in (list, dict, sorted, set)) or MAKES in body.specializer.trace.nature(function)


def taken_over(body: Expressions, value: object, node: ast.expr) -> object:
    """A list, dict or set that Python made for the kernel, as the kernel's own; its members are asked for, and those that are objects stay objects."""
    trace = body.specializer.trace
    kind = kind_of(body, value) if is_handle(value) else None  # what other questions do not say
    if not any(kind is one for one in (list, dict, set)) or cast("int", trace.ask("call", len, (value,), {})) > _MANY:
        return value
    if kind is set:
        alike = ALIKE in trace.nature(value)
        return {cast("Static", item).value for item in body.members(Static(trace.ask("call", sorted, (value,), {})), node)} if alike else value
    if kind is list:
        return [cast("Static", item).value for item in body.members(Static(value), node)]
    keys = trace.ask("items", value)
    if kind is not dict or not is_plain(keys):
        return value
    return {key: trace.ask("item", value, key) for key in cast("tuple[object, ...]", keys)}


def kind_of(body: Expressions, value: object) -> object:
    """The class of a value, which is asked for where it is Python's."""
    return body.specializer.trace.ask("call", type, (value,), {}) if is_handle(value) else type(value)


def refuse_deed(body: Expressions, node: ast.Call, function: object, given: Sequence[object]) -> None:
    """Python's objects are changed outside of kernels: a question is asked once, and the next call would not change them again."""
    trace = body.specializer.trace
    told = trace.nature(function)
    kind, stepped = changed_kind(told), function is next and bool(given)
    writes = bool(given) and is_handle(given[0]) and (WRITES in told or (IN_PLACE in told and KEPT in trace.nature(given[0])))
    if kind is None and not stepped and not writes and STEPS not in told:
        return
    owner = given[0] if stepped or writes else trace.ask("attr", function, "__self__") if is_handle(function) else cast("Any", function).__self__
    if kind is None and not writes:
        before, body.stepped = body.stepped, [*body.stepped, owner]
        if not any(is_one(owner, one) for one in before):
            return  # once it is a question like others; what comes next is another one
    named = type(trace.in_message(owner)).__name__
    what = f"`{ast.unparse(node)}` changes a {named} of Python's while compiling, which the next call of the kernel would not do"
    copied = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ast.unparse(node.args[0]) if node.args else "…"
    is_own = kind in (list, dict, set) and not writes
    help = f"take a copy, {cast('type', kind).__name__}({copied}), and change that" if is_own else "do it before the call, and pass what comes of it"
    raise in_body(UnsupportedFeatureError)(what, span=body.definition.span(node), help=help)
