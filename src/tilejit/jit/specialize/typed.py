"""What operators and builtins make of compile-time numbers of which one has a float type of its own: what the run would, in that type."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import SupportsIndex, cast

from tilejit import ops
from tilejit.errors import TilejitError
from tilejit.frontend import fold
from tilejit.jit.reads.typed import TypedFloat, holds_typed
from tilejit.jit.specialize.scalars import held
from tilejit.jit.specialize.values import Static, number_of
from tilejit.ops.spec import OpSpec


class _Untold(Exception):
    """The language refuses this, or does not have it: what Python makes of it stands."""


def operated(value: object, op: ast.AST, *sides: object) -> object:
    """What an operator makes of `sides`; `value` is what Python makes of them."""
    if isinstance(op, ast.USub | ast.UAdd) and isinstance(side := sides[0], TypedFloat):
        return TypedFloat(cast("float", value), side.dtype)
    try:
        return _binary(type(op), *sides) if isinstance(op, ast.operator) else value
    except _Untold:
        return value  # the front end says what is wrong


def called(function: object, given: Sequence[object], names: Mapping[str, object]) -> object:
    """What a builtin that computes makes of numbers; NotImplemented: what Python makes of them stands."""
    rule = next((rule for builtin, rule in _BUILTINS if builtin is function), None)
    if rule is None or not holds_typed((*given, *names.values())):
        return NotImplemented
    try:
        return rule(*given, **names)
    except (_Untold, TypeError):  # wrong arguments, of which Python says so
        return NotImplemented


def _applied(name: str, python: Callable[..., object], *given: object) -> object:
    """A row of the table, as the front end computes it; of numbers of Python what Python makes of them."""
    if not any(isinstance(item, TypedFloat) for item in given):
        return python(*given)
    if any(number_of(Static(item)) is None for item in given):
        raise _Untold
    row = ops.table()[name]
    try:
        return computed(row, dict(zip(row.operands, given, strict=True)))
    except TilejitError:
        raise _Untold from None


def computed(row: OpSpec, given: Mapping[str, object]) -> object:
    """A scalar op of compile-time numbers, as the front end computes it."""
    from tilejit.frontend.calls import by_reference  # what compiles; a cache hit does not come here
    from tilejit.frontend.values import TypedConstant

    numbers = {name: TypedConstant(float(item), item.dtype) if isinstance(item, TypedFloat) else item for name, item in given.items()}
    found = by_reference(row, numbers)
    return TypedFloat(found.value, found.dtype) if isinstance(found, TypedConstant) else found


def _binary(op: type[ast.operator], *sides: object) -> object:
    row = ops.operators().get(op.__name__)
    if row is None:
        raise _Untold
    return _applied(row, fold.BINARY[op], *sides)


def _extreme(row: str, python: Callable[..., object]) -> Callable[..., object]:
    def of(first: object, *others: object) -> object:
        members = (first, *others) if others else cast("Iterable[object]", first)
        return reduce(lambda one, other: _applied(row, python, one, other), members)

    return of


def _sum(members: Iterable[object], /, start: object = 0) -> object:
    return reduce(lambda total, item: _binary(ast.Add, total, item), members, start)


def _power(base: object, exp: object) -> object:
    return _binary(ast.Pow, base, exp)


def _divmod(one: object, other: object, /) -> object:
    return _binary(ast.FloorDiv, one, other), _binary(ast.Mod, one, other)


def _round(number: object, ndigits: SupportsIndex) -> object:
    if not isinstance(number, TypedFloat):
        raise _Untold
    return TypedFloat(held(round(float(number), ndigits), number.dtype), number.dtype)


_BUILTINS: Sequence[tuple[object, Callable[..., object]]] = (
    (abs, lambda number: _applied("abs", abs, number)),
    (min, _extreme("minimum", min)),
    (max, _extreme("maximum", max)),
    (sum, _sum),
    (pow, _power),
    (divmod, _divmod),
    (round, _round),
)
"""Builtins that compute numbers of the kind that they are given. Those that convert (`float`, `int`) and `math` make numbers of Python."""
