"""Differences of index expressions: `i * 16 + 16` minus `i * 16` is 16 whatever i is."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilejit.dtypes import integer_range
from tilejit.frontend.values import static_integer
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.names import name_of
from tilejit.types.values import ScalarType

Terms = dict[object, int]
"""Coefficients by term; the key None holds the constant. A dimension read is one term however often it is read."""

_DEPTH = 12


@dataclass(frozen=True, slots=True)
class Extreme:
    """A value, and the loop indices at which an expression has it."""

    value: int
    at: Mapping[object, int]

    @property
    def when(self) -> str | None:
        """`when i = 4`, for a message."""
        named = [f"{name_of(index) or 'the index'} = {value}" for index, value in self.at.items() if isinstance(index, SSAValue)]
        return "when " + ", ".join(named) if named else None


def difference(upper: object, lower: object) -> int | None:
    """`upper - lower` if it is the same number in every run, else None."""
    terms = _terms(upper, _DEPTH, through_casts=True)
    for term, coefficient in _terms(lower, _DEPTH, through_casts=True).items():
        terms[term] = terms.get(term, 0) - coefficient
    constant = terms.pop(None, 0)
    return constant if all(coefficient == 0 for coefficient in terms.values()) else None


def extremes(value: object, rounds: Mapping[SSAValue, range]) -> tuple[Extreme, Extreme] | None:
    """The least and greatest value of an expression over loop indices with known ranges, and the indices at which it has them."""
    if not isinstance(value, SSAValue):
        known = static_integer(value)
        return None if known is None else (Extreme(known, {}), Extreme(known, {}))
    terms = _terms(value, _DEPTH)
    low = high = Extreme(terms.pop(None, 0), {})
    for term, coefficient in terms.items():
        found = rounds.get(term) if isinstance(term, SSAValue) else None
        if not found:
            return None
        least, most = min(found[0], found[-1]), max(found[0], found[-1])
        if coefficient < 0:
            least, most = most, least
        low = Extreme(low.value + coefficient * least, {**low.at, term: least})
        high = Extreme(high.value + coefficient * most, {**high.at, term: most})
    return low, high


def never_negative(value: object, counts: Container[SSAValue]) -> bool:
    """Whether an expression over extents, and indices that count up from 0 or more, is always 0 or more."""
    terms = _terms(value, _DEPTH)
    known = all(isinstance(term, tuple) or (isinstance(term, SSAValue) and term in counts) for term in terms if term is not None)
    return known and all(coefficient >= 0 for coefficient in terms.values())


def _terms(value: object, depth: int, through_casts: bool = False) -> Terms:
    """`through_casts`: an integer that is made wider stays the same term, as if sums of the narrow one did not wrap."""
    known = static_integer(value)
    if known is not None:
        return {None: known}
    assert isinstance(value, SSAValue)
    owner = value.owner
    if isinstance(owner, d.DimOp):
        extent = d.shaped_type(owner.source).shape[owner.axis]
        return {("dim", extent): 1} if extent != "?" else {("dim of", owner.source, owner.axis): 1}
    found = _combined(owner, depth - 1, through_casts) if isinstance(owner, d.ApplyOp) and depth > 0 else None
    return {value: 1} if found is None else found


def _combined(op: d.ApplyOp, depth: int, through_casts: bool) -> Terms | None:
    """The terms of a sum, a difference, a product with a constant, or what a cast widens."""
    match op.op:
        case "cast" if through_casts and _widens(op):
            return _terms(op.args[0], depth, through_casts)
        case "add" | "sub" if len(op.args) == 2:
            left, right = (_terms(side, depth, through_casts) for side in op.args)
            sign = 1 if op.op == "add" else -1
            return {term: left.get(term, 0) + sign * right.get(term, 0) for term in {**left, **right}}
        case "mul" if len(op.args) == 2:
            left, right = (_terms(side, depth, through_casts) for side in op.args)
            for factor, other in ((left, right), (right, left)):
                if set(factor) == {None}:
                    return {term: factor[None] * coefficient for term, coefficient in other.items()}
        case _:
            pass
    return None


def _widens(cast: d.ApplyOp) -> bool:
    """Whether a cast keeps every integer as it is."""
    source, target = d.type_of(cast.args[0]), d.type_of(cast.results[0])
    assert isinstance(source, ScalarType) and isinstance(target, ScalarType)
    if not (source.dtype.is_integer and target.dtype.is_integer):
        return False
    (least, most), (low, high) = integer_range(source.dtype), integer_range(target.dtype)
    return low <= least and most <= high
