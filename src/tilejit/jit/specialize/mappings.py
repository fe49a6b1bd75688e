"""Dicts that a kernel makes, and those with tensors in them that it is given: their keys are known while compiling, their members need not be."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from tilejit.errors import UnsupportedFeatureError, in_body
from tilejit.jit.reads.handles import holds_handle, is_handle
from tilejit.jit.reads.typed import untyped
from tilejit.jit.specialize.iterate import keys_of, known_key, member_nodes, place_of, static_node
from tilejit.jit.specialize.nodes import at
from tilejit.jit.specialize.values import UNKNOWN, Items, Static

if TYPE_CHECKING:
    from tilejit.jit.specialize.expressions import Expressions
    from tilejit.jit.specialize.walk import Folded


def check_keys(body: Expressions, keys: Sequence[object], node: ast.AST) -> None:
    """Refuse keys that Python would have to hash: objects of the user are asked, never touched."""
    if any(map(holds_handle, keys)):
        what = "a dict or set that the kernel makes has objects of Python as keys; numbers, texts and tuples of them can be keys here"
        raise in_body(UnsupportedFeatureError)(what, span=body.definition.span(node), help="make it outside of the kernel: there any key will do")


def mapping(body: Expressions, node: ast.Dict) -> Folded:
    """`{"a": x, **more}`."""
    rows: list[tuple[Folded, Folded]] = []
    for key, value in zip(node.keys, node.values, strict=True):
        known = [(body.fold(key), body.fold(value))] if key is not None else pairs(body, value)
        if known is None:
            what = f"`**{ast.unparse(value)}` inside a dict, of which only the run knows the keys"
            raise in_body(UnsupportedFeatureError)(what, span=body.definition.span(value), help="write the keys")
        rows += known
    return dict_of(body, rows, node)


def pairs(body: Expressions, node: ast.expr) -> list[tuple[Folded, Folded]] | None:
    """Keys and members of what is taken apart by `**`; None: they are not known."""
    text, value = body.fold(node)
    if isinstance(value, Static) and is_handle(value.value):
        trace = body.specializer.trace
        listed = trace.ask("call", trace.ask("attr", value.value, "keys"), (), {})  # Python asks for these, whatever `items` says
        keys = [cast("Static", key).value for key in body.members(Static(listed), node)]
        rows = [(key, trace.ask("item", value.value, key)) for key in keys]
        return [((static_node(body, key, node), Static(key)), (static_node(body, item, node), Static(item))) for key, item in rows]
    found = members(body, text, value, node) if isinstance(value, Items) or (isinstance(value, Static) and isinstance(value.value, dict)) else None
    if found is not None and isinstance(value, Items):
        keys_of(body, value, node)
    return [((static_node(body, key, node), Static(key)), item) for key, item in found.items()] if found is not None else None


def members(body: Expressions, text: ast.expr, value: Items | Static, place: ast.expr) -> dict[object, Folded] | None:
    """A dict by its keys; None: it is none, or its members have no text of their own."""
    if isinstance(value, Static):
        return {key: (static_node(body, item, place), Static(item)) for key, item in cast("dict[object, object]", value.value).items()}
    nodes = member_nodes(body, text, value, place) if value.is_dict else None
    return dict(zip(value.keys, zip(nodes, value.items, strict=True), strict=True)) if nodes is not None else None


def dict_of(body: Expressions, rows: Sequence[tuple[Folded, Folded]], node: ast.expr) -> Folded:
    """A dict of these keys and members; of equal keys the last member counts."""
    text = at(ast.Dict([key for (key, _), _ in rows], [item for _, (item, _) in rows]), node)
    keys = [replace(key, value=untyped(key.value)) for (_, key), _ in rows if isinstance(key, Static)]
    if len(keys) != len(rows):
        return text, UNKNOWN
    check_keys(body, [key.value for key in keys], node)
    held = {key.value: value for key, (_, (_, value)) in zip(keys, rows, strict=True)}
    statics = {key: value for key, value in held.items() if isinstance(value, Static)}
    if len(statics) == len(held):
        local = any(value.local for value in (*keys, *statics.values()))
        return text, Static({key: value.value for key, value in statics.items()}, local=local)
    return text, Items(tuple(held.values()), keys=tuple(held), is_dict=True)


def dict_view(body: Expressions, text: ast.expr, value: Items, method: str, place: ast.Call) -> Folded | None:
    """`w.items()`, `w.keys()`, `w.values()`, `w.get(key)` of a dict with tensors in it."""
    found = members(body, text, value, place) if method in ("items", "keys", "values", "get") else None
    if found is None:
        return None
    if method == "get":
        key = body.fold(place.args[0])[1] if len(place.args) in (1, 2) and not place.keywords else UNKNOWN
        if not isinstance(key, Static) or holds_handle(sought := known_key(body, key.value)):
            return None
        index = place_of(body, value, sought, place)
        return found[value.keys[index]] if index is not None else body.fold(place.args[1] if len(place.args) == 2 else at(ast.Constant(None), place))
    if method != "values":
        keys_of(body, value, place)
    keys = [(static_node(body, key, place), Static(key)) for key in found]
    if method == "keys":
        return at(ast.Tuple([key for key, _ in keys], ast.Load()), place), Static(tuple(found))
    if method == "values":
        return at(ast.Tuple([node for node, _ in found.values()], ast.Load()), place), Items(tuple(item for _, item in found.values()))
    rows = [at(cast("ast.expr", ast.Tuple([key, node], ast.Load())), place) for (key, _), (node, _) in zip(keys, found.values(), strict=True)]
    return at(ast.Tuple(rows, ast.Load()), place), Items(tuple(Items((key, item)) for (_, key), (_, item) in zip(keys, found.values(), strict=True)))
