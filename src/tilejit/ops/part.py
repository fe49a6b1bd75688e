"""Rows of the part ops: over the valid region of the first operand, combined where the second is valid too, else copied."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilejit.ops import numbers
from tilejit.ops.dtype_rules import NUMBERS, promoted, require
from tilejit.ops.elementwise import in_register
from tilejit.ops.evaluate import ArrayValue, placed
from tilejit.ops.facts import Facts
from tilejit.ops.numbers import NDArray
from tilejit.ops.shape_rules import result_type, same_shapes
from tilejit.ops.spec import Call, OpSpec, Stub, Value, declarator, declare, spell
from tilejit.types.values import TileType, ValueType

COMBINERS: dict[str, Callable[[NDArray, NDArray], NDArray]] = {"add": np.add, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


def _infer(call: Call) -> tuple[ValueType, ...]:
    for name in ("lhs", "rhs"):
        require(call, name, call.shaped(name).dtype, call.row.dtypes)
    shape = same_shapes(call, ["lhs", "rhs"])
    first = call.shaped("lhs")
    return (result_type(call, shape, promoted(call), shape if first.valid == first.shape else first.valid),)


def _reference(combine: str) -> Callable[..., ArrayValue]:
    def evaluate(results: tuple[TileType, ...], lhs: ArrayValue, rhs: ArrayValue) -> ArrayValue:
        dtype = results[0].dtype
        out = numbers.convert(lhs.box, dtype).copy()
        both = tuple(slice(0, min(a, b)) for a, b in zip(lhs.valid, rhs.valid, strict=True))
        sides = [in_register(numbers.convert(side.data[both], dtype), dtype) for side in (lhs, rhs)]
        out[both] = numbers.convert(COMBINERS[combine](*sides), dtype)
        return placed(out, lhs.data.shape, dtype)

    return evaluate


@declarator
def part(stub: Stub, combine: str) -> OpSpec:
    """Declare a part op with one of COMBINERS."""
    return declare(
        stub,
        family="part",
        infer=_infer,
        reference=_reference(combine),
        dtypes=NUMBERS,
        spellings=spell(stub.__name__, pl="(lhs, rhs)", tensor="(lhs, rhs)", tile="(src0, src1)"),
        attrs={"combine": combine},
        facts=Facts(exact=combine in ("maximum", "minimum")),
    )


@part("add")
def part_add(lhs: Value, rhs: Value) -> object:
    """lhs + rhs where both are valid, lhs elsewhere."""


@part("mul")
def part_mul(lhs: Value, rhs: Value) -> object:
    """lhs * rhs where both are valid, lhs elsewhere."""


@part("maximum")
def part_max(lhs: Value, rhs: Value) -> object:
    """The larger of lhs and rhs where both are valid, lhs elsewhere."""


@part("minimum")
def part_min(lhs: Value, rhs: Value) -> object:
    """The smaller of lhs and rhs where both are valid, lhs elsewhere."""
