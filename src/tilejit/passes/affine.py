"""Windows as sums of loop variables: what the searches for products in loops over tiles compare."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tilejit import ops
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import constant_of
from tilejit.types.values import ScalarType

Affine = tuple[dict[SSAValue, int], int]
"""Coefficients of SSA values, and a constant."""


class Mismatch(Exception):
    """Not the shape looked for."""


def demand(condition: object) -> None:
    """Give the search up unless a condition holds."""
    if not condition:
        raise Mismatch


def add(a: Affine, b: Affine) -> Affine:
    terms = dict(a[0])
    for value, factor in b[0].items():
        terms[value] = terms.get(value, 0) + factor
    return {value: factor for value, factor in terms.items() if factor}, a[1] + b[1]


def affine(value: SSAValue) -> Affine:
    """An INDEX as a sum of multiples of others."""
    known = constant_of(value)
    if isinstance(known, int):
        return {}, known
    owner = value.owner
    if isinstance(owner, d.ApplyOp) and all(isinstance(d.type_of(arg), ScalarType) for arg in owner.args):
        found = _combined(ops.table()[owner.op].facts.operator, owner.args)
        if found is not None:
            return found
    return {value: 1}, 0


def _combined(operator: str | None, args: Sequence[SSAValue]) -> Affine | None:
    if operator not in ("Add", "Sub", "Mult"):
        return None
    left, right = (affine(arg) for arg in args)
    if operator == "Mult":
        known = next(((one, other) for one, other in ((left, right), (right, left)) if not one[0]), None)
        return _times(known[1], known[0][1]) if known is not None else None
    return add(left, right if operator == "Add" else _times(right, -1))


def _times(a: Affine, factor: int) -> Affine:
    return {term: own * factor for term, own in a[0].items() if own * factor}, a[1] * factor
