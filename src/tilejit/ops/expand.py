"""Rows that combine a big operand with a vector spread over its rows or columns.

The last two dims say which; a vector without the leading ones, or with an extent of 1 there, is the same for all of them. The result has the
big operand's shape and is valid where both are. Only the vector of a tile's row_expand_add must cover the big operand's valid region.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tilejit.dtypes import COMPLEX64, DType, promote
from tilejit.errors import ShapeError
from tilejit.ops import math, numbers
from tilejit.ops.dtype_rules import FLOATS, NUMBERS, PLAIN, check_scalar, require
from tilejit.ops.elementwise import in_register
from tilejit.ops.evaluate import ArrayValue, placed
from tilejit.ops.facts import Facts, Fails, Valid
from tilejit.ops.numbers import NDArray
from tilejit.ops.shape_rules import agree, broadcast_shapes, common_valid, result_type
from tilejit.ops.spec import Call, Operand, OpSpec, ScalarArg, Scratch, Spelling, Stub, Value, declarator, declare, spell
from tilejit.types.values import Dim, ShapedType, TileType, ValueType, shape_text


def _exp_of_difference(x: NDArray, vector: NDArray) -> NDArray:
    return numbers.in_double(np.exp)(x - vector)


def _copy(x: NDArray, vector: NDArray) -> NDArray:
    return np.broadcast_to(vector, x.shape)


COMBINERS: dict[str, Callable[[NDArray, NDArray], NDArray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": numbers.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "expdif": _exp_of_difference,
    "copy": _copy,
}
"""What an expand row does with an element and the vector's element; the keys are `attrs["combine"]`."""

BLOCK_BYTES = 32


def block_columns(dtype: DType) -> int:
    """Columns of the block form of row_expand_add: one block per row, repeated along it."""
    return BLOCK_BYTES // dtype.get_byte()


def must_cover(name: str, level: str) -> bool:
    """Whether the vector of this row must be valid wherever the big operand is."""
    return name == "row_expand_add" and level == "tile"


def _is_block(call: Call, vector: ShapedType) -> bool:
    return call.row.name == "row_expand_add" and call.level == "tile" and vector.shape[-1] != 1


def _infer(call: Call) -> tuple[ValueType, ...]:
    big, vector = call.shaped("lhs"), call.shaped("rhs")
    row_wise = call.row.attrs["axis"] == "row"
    for name in ("lhs", "rhs"):
        require(call, name, call.shaped(name).dtype, call.row.dtypes)
    rank, lead = big.rank, big.rank - vector.rank
    stretched = rank - 1 if row_wise else rank - 2
    wanted = "[…, M, 1]" if row_wise else "[…, 1, N]"
    text = f"takes a vector {wanted} that fits {shape_text(big.shape)}, got {shape_text(vector.shape)}"
    if vector.rank < 2 or lead < 0:
        raise ShapeError(f"{call.row.name} {text}", help="give the vector two dims, with pl.reshape")
    if _is_block(call, vector):
        if vector.valid[-1] != block_columns(vector.dtype):
            raise ShapeError(
                f"{call.row.name} takes one element or one block of {block_columns(vector.dtype)} {vector.dtype} per row, got {vector}",
                help="use a vector [M, 1]",
            )
    elif vector.shape[stretched - lead] != 1:
        other = call.row.name.replace("row", "col", 1) if row_wise else call.row.name.replace("col", "row", 1)
        raise ShapeError(f"{call.row.name} {text}", help=f"a vector of the other direction goes with pl.{other}")
    for axis in range(lead, rank):
        if axis == stretched or (axis < rank - 2 and vector.shape[axis - lead] == 1):
            continue
        agree(call, ("lhs", axis), ("rhs", axis - lead), text, "the vector must have one element for each row" if row_wise else "the vector must have one element for each column")
    return (result_type(call, big.shape, promote(big.dtype, vector.dtype), _valid(call, big, vector, stretched)),)


def _valid(call: Call, big: ShapedType, vector: ShapedType, stretched: int) -> tuple[Dim, ...]:
    if not must_cover(call.row.name, call.level):
        return common_valid(call, ["lhs", "rhs"], big.shape)
    for own, there in enumerate(vector.valid):
        axis = own + big.rank - vector.rank
        needed = 1 if vector.shape[own] == 1 else big.valid[axis]
        if axis != stretched and isinstance(needed, int) and isinstance(there, int) and there < needed:
            raise ShapeError(f"{call.row.name}: the vector is valid for {there} of {needed} in dim {axis}", help="the vector must cover the valid region of the other operand")
    return big.valid


def _reference(name: str, axis: str, combine: str) -> Callable[..., ArrayValue]:
    def evaluate(results: tuple[TileType, ...], lhs: ArrayValue, rhs: ArrayValue) -> ArrayValue:
        dtype = results[0].dtype
        lead, blocks = lhs.data.ndim - rhs.data.ndim, axis == "row" and rhs.data.shape[-1] != 1
        valid = list(lhs.valid)
        for own, there in enumerate(rhs.valid):
            needed = lhs.valid[lead + own]
            spread = rhs.data.shape[own] == 1 or (blocks and own == rhs.data.ndim - 1)
            if there < (min(needed, 1) if spread else needed):
                if must_cover(name, results[0].level):
                    raise ShapeError(f"{name}: the vector is valid for {there} of {needed} in dim {lead + own}")
                valid[lead + own] = 0 if spread else there
        if blocks:
            cells = rhs.box[..., np.arange(valid[-1]) % rhs.valid[-1]]
        else:
            cells = rhs.data[tuple(slice(0, 1 if extent == 1 else n) for extent, n in zip(rhs.data.shape, valid[lead:], strict=True))]
        box = lhs.data[tuple(slice(0, n) for n in valid)]
        big, vector = (in_register(numbers.convert(side, dtype), dtype) for side in (box, cells))
        out = COMBINERS[combine](big, vector)
        return placed(numbers.convert(out, dtype), lhs.data.shape, dtype)

    return evaluate


def _spellings(name: str, tmp: bool) -> tuple[Spelling, ...]:
    vector = "row_vec" if name.startswith("row") else "col_vec"
    first = "target" if name.endswith("expand") else "tile"
    tensor = "target" if name == "row_expand" else "tensor"
    extra = ", tmp=None" if tmp else ""
    return spell(name, pl=f"(lhs, rhs{extra})", tensor=f"({tensor}, {vector})", tile=f"({first}, {vector}{extra})")


@declarator
def expand(stub: Stub, combine: str, dtypes: Iterable[DType] = NUMBERS, tmp: bool = False, cost: int = 1, exact: bool = False) -> OpSpec:
    """Declare an expand row; its direction is in its name."""
    name = stub.__name__
    axis = name[:3]
    single = getattr(math, combine, None)  # the row that does the same to two elements
    return declare(
        stub,
        family="expand",
        infer=_infer,
        reference=_reference(name, axis, combine),
        dtypes=frozenset(dtypes),
        spellings=_spellings(name, tmp),
        attrs={"axis": axis, "combine": combine},
        facts=Facts(fails=Fails.Region, valid=Valid.Spread, cost=cost, exact=exact, scales=isinstance(single, OpSpec) and single.facts.scales),
    )


@expand("add", tmp=True)
def row_expand_add(lhs: Value, rhs: Value, tmp: Scratch = None) -> object:
    """x + r with r[M, 1] spread along each row; a tile r of one 32-byte block per row is repeated along it instead."""


@expand("sub")
def row_expand_sub(lhs: Value, rhs: Value) -> object:
    """x - r with r[M, 1] spread along each row."""


@expand("mul")
def row_expand_mul(lhs: Value, rhs: Value) -> object:
    """x * r with r[M, 1] spread along each row."""


@expand("div", cost=10)
def row_expand_div(lhs: Value, rhs: Value) -> object:
    """x / r with r[M, 1] spread along each row."""


@expand("maximum", exact=True)
def row_expand_max(lhs: Value, rhs: Value) -> object:
    """The larger of x and r with r[M, 1] spread along each row."""


@expand("minimum", exact=True)
def row_expand_min(lhs: Value, rhs: Value) -> object:
    """The smaller of x and r with r[M, 1] spread along each row."""


@expand("expdif", dtypes=FLOATS, cost=10)
def row_expand_expdif(lhs: Value, rhs: Value) -> object:
    """e**(x - r) with r[M, 1] spread along each row."""


@expand("copy", dtypes=PLAIN, exact=True)
def row_expand(lhs: Value, rhs: Value) -> object:
    """r[M, 1] spread along the rows of the target, whose elements do not matter."""


@expand("add")
def col_expand_add(lhs: Value, rhs: Value) -> object:
    """x + c with c[1, N] spread along each column."""


@expand("sub")
def col_expand_sub(lhs: Value, rhs: Value) -> object:
    """x - c with c[1, N] spread along each column."""


@expand("mul")
def col_expand_mul(lhs: Value, rhs: Value) -> object:
    """x * c with c[1, N] spread along each column."""


@expand("div", cost=10)
def col_expand_div(lhs: Value, rhs: Value) -> object:
    """x / c with c[1, N] spread along each column."""


@expand("maximum", exact=True)
def col_expand_max(lhs: Value, rhs: Value) -> object:
    """The larger of x and c with c[1, N] spread along each column."""


@expand("minimum", exact=True)
def col_expand_min(lhs: Value, rhs: Value) -> object:
    """The smaller of x and c with c[1, N] spread along each column."""


@expand("expdif", dtypes=FLOATS, cost=10)
def col_expand_expdif(lhs: Value, rhs: Value) -> object:
    """e**(x - c) with c[1, N] spread along each column."""


@expand("copy", dtypes=PLAIN, exact=True)
def col_expand(lhs: Value, rhs: Value) -> object:
    """c[1, N] spread along the columns of the target, whose elements do not matter."""


# whole shapes ---------------------------------------------------------------------------------------------------------


def _infer_clone(call: Call) -> tuple[ValueType, ...]:
    src, target = call.shaped("src"), call.shaped("target")
    shape = broadcast_shapes(call, ["src", "target"])
    if len(shape) != target.rank or any(isinstance(wanted, int) and got != wanted for got, wanted in zip(shape, target.shape, strict=True)):
        raise ShapeError(f"expand_clone cannot spread {shape_text(src.shape)} over {shape_text(target.shape)}", help="extents must be equal or 1, aligned at the last dim")
    return (result_type(call, target.shape, src.dtype, common_valid(call, ["src", "target"], target.shape)),)


def _clone(results: tuple[TileType, ...], src: ArrayValue, target: ArrayValue) -> ArrayValue:
    cut = target.valid[len(target.valid) - src.data.ndim :]
    cells = src.data[tuple(slice(0, min(n, extent)) for n, extent in zip(cut, src.data.shape, strict=True))]
    return placed(np.broadcast_to(cells, target.valid), target.data.shape, results[0].dtype)


def expand_clone(src: Value, target: Value) -> None:
    """src spread over the shape of target, whose elements do not matter."""


declare(
    expand_clone,
    family="expand",
    infer=_infer_clone,
    reference=_clone,
    dtypes=PLAIN | {COMPLEX64},
    spellings=spell("expand_clone", pl="=tensor", tensor="(src, target)"),
    attrs={"axis": "both", "combine": "copy"},
    facts=Facts(fails=Fails.Region, valid=Valid.Common, exact=True),
)


def _infer_fill(call: Call) -> tuple[ValueType, ...]:
    target, scalar = call.shaped("target"), call.arg("scalar")
    assert isinstance(scalar, ScalarArg)
    check_scalar(call, "scalar", scalar, target.dtype)
    return (result_type(call, target.shape, target.dtype, target.valid),)


def _fill(results: tuple[TileType, ...], target: ArrayValue, scalar: Any) -> ArrayValue:
    dtype = results[0].dtype
    return placed(np.broadcast_to(numbers.convert(np.asarray(scalar), dtype), target.valid), target.data.shape, dtype)


def expands(target: Value, scalar: Operand) -> None:
    """The scalar in the target's dtype, spread over its shape; the target's elements do not matter."""


_FILL = "(target, scalar)"
declare(
    expands,
    family="expand",
    infer=_infer_fill,
    reference=_fill,
    dtypes=PLAIN | {COMPLEX64},
    spellings=spell("expands", _FILL, scalar_only=("scalar",)),
    attrs={"axis": "both", "combine": "copy"},
    facts=Facts(fails=Fails.Region, valid=Valid.Spread, exact=True),
)
