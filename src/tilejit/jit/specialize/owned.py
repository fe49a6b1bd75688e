"""Lists, dicts and sets that a kernel may change while compiling: its own, and those that Python made for it just now. All others are somebody else's."""

from __future__ import annotations

import array
import ast
import random
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from types import BuiltinMethodType, GeneratorType, MethodType, MethodWrapperType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tilejit.errors import UnsupportedFeatureError, in_body
from tilejit.jit.reads.handles import holds_handle, is_handle
from tilejit.jit.reads.plain import is_plain
from tilejit.jit.specialize.values import Static

if TYPE_CHECKING:
    from tilejit.jit.specialize.expressions import Expressions

_ALL = frozenset({"*"})
_SEQUENCE = frozenset("append extend insert pop remove clear sort reverse __setitem__ __delitem__ __iadd__ __imul__ __init__".split())
_CHANGING: dict[type, frozenset[str]] = {
    list: _SEQUENCE,
    dict: frozenset("pop clear update setdefault popitem move_to_end subtract __setitem__ __delitem__ __ior__ __init__".split()),
    set: frozenset(
        "add discard remove pop clear update difference_update intersection_update symmetric_difference_update "
        "__iand__ __ior__ __isub__ __ixor__ __init__".split()
    ),
    deque: _SEQUENCE | {"appendleft", "extendleft", "popleft", "rotate"},
    bytearray: _SEQUENCE,
    array.array: _SEQUENCE | {"byteswap", "frombytes", "fromlist", "fromfile"},
    np.ndarray: frozenset("sort fill resize put itemset partition setflags setfield __setitem__ __delitem__ __iadd__ __imul__ __isub__ __itruediv__".split()),
    random.Random: _ALL,
    np.random.Generator: _ALL,
    np.random.RandomState: _ALL,
    GeneratorType: frozenset({"send", "throw", "close", "__next__"}),
}
"""Methods that change what they belong to, by its type and for all that derive from it; random generators change by every one."""
_MAKING: dict[type, frozenset[str]] = {
    list: frozenset({"copy"}),
    dict: frozenset({"copy", "fromkeys"}),
    OrderedDict: frozenset(),
    set: frozenset({"copy", "union", "intersection", "difference", "symmetric_difference"}),
    frozenset: frozenset(),
    str: frozenset({"split", "rsplit", "splitlines"}),
    bytes: frozenset({"split", "rsplit", "splitlines"}),
    np.ndarray: frozenset({"tolist"}),
}
"""Methods that make a list, dict or set which nobody else has, by the exact type they belong to."""
LISTS = frozenset(name for kind in (list, dict) for name in _CHANGING[kind] if not name.startswith("__")) - {"sort"}
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
    return owner if type(owner) in (list, dict, set) and function.__name__ in _CHANGING[type(owner)] else None


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


def is_fresh(function: object) -> bool:
    """Whether what a function of Python itself returns is a list, dict or set that nobody else has."""
    if function is list or function is dict or function is sorted or function is set:
        return True
    owner = function.__self__ if isinstance(function, BuiltinMethodType) else None
    return type(owner) in _MAKING and cast("Any", function).__name__ in _MAKING[type(owner)]


def taken_over(body: Expressions, value: object, node: ast.expr) -> object:
    """A list, dict or set that Python made for the kernel, as the kernel's own; its members are asked for, and those that are objects stay objects."""
    trace = body.specializer.trace
    kind = kind_of(body, value) if is_handle(value) else None  # what other questions do not say
    if not any(kind is one for one in (list, dict, set)) or cast("int", trace.ask("call", len, (value,), {})) > _MANY:
        return value
    if kind is set:
        raw = trace.raw(value)
        alike = any(all(type(item) is one for item in cast("set[object]", raw)) for one in (int, str))
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
    stepped = function is next and bool(given)
    if not stepped and not isinstance(function, BuiltinMethodType | MethodType | MethodWrapperType):
        return
    owner = given[0] if stepped else cast("object", cast("Any", function).__self__)
    name = "*" if stepped else cast("str", getattr(function, "__name__", ""))
    kind = next((kind for kind, names in _CHANGING.items() if isinstance(owner, kind) and (name in names or names is _ALL)), None)
    if kind is None and (stepped or name == "__next__"):
        before, body.stepped = body.stepped, [*body.stepped, owner]
        if not any(owner is one for one in before):
            return  # once it is a question like others; what comes next is another one
    elif kind is None:
        return
    what = f"`{ast.unparse(node)}` changes a {type(owner).__name__} of Python's while compiling, which the next call of the kernel would not do"
    copied = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ast.unparse(node.args[0]) if node.args else "…"
    help = f"take a copy, {kind.__name__}({copied}), and change that" if kind in (list, dict, set) else "do it before the call, and pass what comes of it"
    raise in_body(UnsupportedFeatureError)(what, span=body.definition.span(node), help=help)
