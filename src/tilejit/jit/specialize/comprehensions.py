"""Comprehensions of a kernel body, expanded while compiling: each turn with its names replaced by what they stand for."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from tilejit.errors import UnsupportedFeatureError, in_body
from tilejit.jit.reads.typed import untyped
from tilejit.jit.specialize.effects import acting_calls
from tilejit.jit.specialize.iterate import Source, check_unchanged, iterated, taken_apart
from tilejit.jit.specialize.mappings import check_keys, dict_of
from tilejit.jit.specialize.nodes import at
from tilejit.jit.specialize.order import as_it_stands, named_before
from tilejit.jit.specialize.values import Items, Static

if TYPE_CHECKING:
    from tilejit.jit.specialize.expressions import Expressions
    from tilejit.jit.specialize.walk import Folded


def comprehension(body: Expressions, node: ast.expr) -> Folded:
    """`[f(x) for x in xs if …]`, expanded."""
    assert isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp))
    elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    results: list[list[Folded]] = []
    before = dict(body.substituted)
    copied: list[ast.expr] = []
    try:
        _generate(body, node.generators, elements, results, copied, _bound(node))
    finally:
        body.substituted = before
    _refuse_acting(body, copied, [text for row in results for text, _ in row], node)
    if isinstance(node, (ast.DictComp, ast.SetComp)):
        if isinstance(node, ast.SetComp):
            return set_of(body, [row[0] for row in results], node)
        if not all(isinstance(row[0][1], Static) for row in results):
            what = "a dict with keys of run-time values"
            raise in_body(UnsupportedFeatureError)(what, span=body.definition.span(node), help="make a list, or a tuple of names")
        return dict_of(body, [(row[0], row[1]) for row in results], node)
    row = [item for (item,) in results]
    text = at(ast.List([copy.deepcopy(item) for item, _ in row], ast.Load()), node)
    if all(isinstance(value, Static) for _, value in row):
        return text, Static([cast("Static", value).value for _, value in row], local=any(cast("Static", value).local for _, value in row))
    return text, Items(tuple(value for _, value in row))


def set_of(body: Expressions, members: Sequence[Folded], node: ast.expr) -> Folded:
    """A set of compile-time values."""
    values = [untyped(value.value) for _, value in members if isinstance(value, Static)]  # no text can tell the types of members
    if len(values) != len(members):
        raise in_body(UnsupportedFeatureError)("a set of run-time values", span=body.definition.span(node), help="make a list, or a tuple of names")
    check_keys(body, values, node)
    return body.placeholder(found := set(values), node), Static(found)


def _refuse_acting(body: Expressions, copied: Sequence[ast.expr], texts: Sequence[ast.expr], node: ast.expr) -> None:
    """Refuse a comprehension whose text would have what does more than compute, or what that may change, in other places than Python."""
    acting = next((call for text in (*copied, *(texts if copied else ())) for call in acting_calls(text, body.specializer.acting)), None)
    if acting is not None:
        what = f"`{ast.unparse(acting).removeprefix('self.')}` does more than compute its result, in a comprehension that the run may leave out"
        help = "make the list in a statement of its own, under `if` where it has to be"
        raise in_body(UnsupportedFeatureError)(what, span=body.definition.span(node), help=help)


def _bound(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> list[str]:
    """The names that a comprehension binds, all of them its own from its first turn on."""
    return [part.id for generator in node.generators for part in ast.walk(generator.target) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)]


def _generate(
    body: Expressions,
    generators: Sequence[ast.comprehension],
    elements: Sequence[ast.expr],
    results: list[list[Folded]],
    copied: list[ast.expr],
    unbound: Sequence[str] = (),
) -> None:
    """One row per turn into `results`; into `copied` the members whose text stands wherever the turn has their name. `unbound` are names that mean nothing
    as soon as it is known what the first generator runs over: that alone is read outside."""
    if not generators:
        results.append([body.fold(element) for element in elements])
        return
    first, *rest = generators
    named = id(first.iter) in body.first and not body.skippable
    sources: list[Source] = []
    members = iterated(body, first.iter, named_before(body, ()) if named else as_it_stands, sources)
    if members is None:
        raise in_body(UnsupportedFeatureError)(
            f"a comprehension over `{ast.unparse(first.iter)}`, which is known only at run time",
            span=body.definition.span(first.iter),
            help="run over a tuple, a list or a range; a loop at run time is pl.range",
        )
    body.substituted.update(dict.fromkeys(unbound))
    if not named:
        copied += [text for text, value in members if not isinstance(value, Static) and not isinstance(text, ast.Name)]
    for position, item in enumerate(members, 1):
        changes = body.changes
        with body.turn():
            _substitute(body, first.target, item)
            if all(_holds(body, condition) for condition in first.ifs):
                _generate(body, rest, elements, results, copied)
        if body.changes != changes:
            check_unchanged(body, sources, position, first.iter, first.iter)


def _substitute(body: Expressions, target: ast.expr, item: Folded) -> None:
    if isinstance(target, ast.Name):
        body.substituted[target.id] = item
        return
    assert isinstance(target, (ast.Tuple, ast.List))
    for part, value in taken_apart(body, target, item):
        _substitute(body, part, value)


def _holds(body: Expressions, condition: ast.expr) -> bool:
    value = body.fold(condition)[1]
    if not isinstance(value, Static):
        raise in_body(UnsupportedFeatureError)(
            "the condition of a comprehension is known only at run time", span=body.definition.span(condition), help="decide with pl.where on the values"
        )
    return body.truth(value, condition)
