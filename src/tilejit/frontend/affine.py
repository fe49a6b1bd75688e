"""Differences of index expressions: `i * 16 + 16` minus `i * 16` is 16 whatever i is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilejit.frontend.values import static_integer
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.names import name_of

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
    terms = _terms(upper, _DEPTH)
    for term, coefficient in _terms(lower, _DEPTH).items():
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


def _terms(value: object, depth: int) -> Terms:
    known = static_integer(value)
    if known is not None:
        return {None: known}
    assert isinstance(value, SSAValue)
    owner = value.owner
    if isinstance(owner, d.DimOp):
        extent = d.shaped_type(owner.source).shape[_axis(owner)]
        return {("dim", extent): 1} if extent != "?" else {("dim of", owner.source, _axis(owner)): 1}
    found = _combined(owner, depth - 1) if isinstance(owner, d.ApplyOp) and depth > 0 and len(owner.args) == 2 else None
    return {value: 1} if found is None else found


def _combined(op: d.ApplyOp, depth: int) -> Terms | None:
    """The terms of a sum, a difference, or a product with a constant."""
    match op.op:
        case "add" | "sub":
            left, right = _terms(op.args[0], depth), _terms(op.args[1], depth)
            sign = 1 if op.op == "add" else -1
            return {term: left.get(term, 0) + sign * right.get(term, 0) for term in {**left, **right}}
        case "mul":
            left, right = _terms(op.args[0], depth), _terms(op.args[1], depth)
            for factor, other in ((left, right), (right, left)):
                if set(factor) == {None}:
                    return {term: factor[None] * coefficient for term, coefficient in other.items()}
        case _:
            pass
    return None


def _axis(op: d.DimOp) -> int:
    axis = op.static("axis")
    assert isinstance(axis, int)
    return axis
