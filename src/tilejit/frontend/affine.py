"""Differences of index expressions: `i * 16 + 16` minus `i * 16` is 16 whatever i is."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tilejit.frontend.values import static_integer
from tilejit.tile_ir import dialect as d

Terms = dict[object, int]
"""Coefficients by term; the key None holds the constant. A dimension read is one term however often it is read."""

_DEPTH = 12


def difference(upper: object, lower: object) -> int | None:
    """`upper - lower` if it is the same number in every run, else None."""
    terms = _terms(upper, _DEPTH)
    for term, coefficient in _terms(lower, _DEPTH).items():
        terms[term] = terms.get(term, 0) - coefficient
    constant = terms.pop(None, 0)
    return constant if all(coefficient == 0 for coefficient in terms.values()) else None


def _terms(value: object, depth: int) -> Terms:
    known = static_integer(value)
    if known is not None:
        return {None: known}
    assert isinstance(value, SSAValue)
    owner = value.owner
    if isinstance(owner, d.DimOp):
        extent = d.shaped_type(owner.source).shape[_axis(owner)]
        return {("dim", extent): 1} if extent != "?" else {("dim of", owner.source, _axis(owner)): 1}
    if isinstance(owner, d.ApplyOp) and depth > 0 and len(owner.args) == 2 and owner.op in ("add", "sub", "mul"):
        left, right = _terms(owner.args[0], depth - 1), _terms(owner.args[1], depth - 1)
        if owner.op != "mul":
            sign = 1 if owner.op == "add" else -1
            return {term: left.get(term, 0) + sign * right.get(term, 0) for term in {**left, **right}}
        for factor, other in ((left, right), (right, left)):
            if set(factor) == {None}:
                return {term: factor[None] * coefficient for term, coefficient in other.items()}
    return {value: 1}


def _axis(op: d.DimOp) -> int:
    axis = op.static("axis")
    assert isinstance(axis, int)
    return axis
