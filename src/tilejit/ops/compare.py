"""Rows that compare and select: 0/1 values of tensors, packed masks of tiles, flags of scalars.

A mask (decision 15) is a UINT8 tile `[…, M, roundup(ceil(N / 8), 32)]`: one bit per column, least significant first, rows independent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilejit.dtypes import BOOL, COMPLEX64, FP16, FP32, FP64, INT8, INT16, INT32, UINT8, UINT16, UINT32, DType, promote
from tilejit.errors import ArgumentError, DTypeError, ShapeError
from tilejit.ops import numbers
from tilejit.ops.dtype_rules import FLOATS, NUMBERS, PLAIN, check_scalar, operands, promoted, require
from tilejit.ops.elementwise import elementwise, value_dtype
from tilejit.ops.evaluate import ArrayValue, common_valid_extents, placed
from tilejit.ops.facts import Facts, Valid
from tilejit.ops.numbers import NDArray
from tilejit.ops.shape_rules import broadcast_shapes, common_valid, require_static, result_type, same_shapes, smaller
from tilejit.ops.spec import Call, Operand, Scalar, ScalarArg, Scratch, Static, Value, declare, spell
from tilejit.types.values import ANY, Dim, Shape, ShapedType, TileType, ValueType, shape_text

COMPARISONS: tuple[Callable[..., NDArray], ...] = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
"""What each cmp_type means."""

_CMP = "(lhs, rhs, cmp_type=0)"


def _check_cmp_type(call: Call) -> None:
    kind = call.arg("cmp_type")
    if not isinstance(kind, int) or isinstance(kind, bool) or not 0 <= kind < len(COMPARISONS):
        raise ArgumentError(f"cmp has no cmp_type {kind!r}", help="0 eq, 1 ne, 2 lt, 3 le, 4 gt, 5 ge")


def _compared(call: Call) -> DType:
    dtype = promoted(call)
    return BOOL if call.level == "scalar" else dtype


def _flagged(call: Call) -> DType:
    promoted(call)
    return BOOL


def _compare(a: NDArray, b: NDArray, cmp_type: int) -> NDArray:
    return COMPARISONS[cmp_type](a, b)


@elementwise(
    reference=_compare,
    dtypes=PLAIN,
    levels=("scalar", "tensor"),
    spellings=spell("cmp", pl=_CMP, tensor=_CMP),
    result=_compared,
    compute="operands",
    takes=("cmp_type",),
    check=_check_cmp_type,
    facts=Facts(exact=True),
)
def cmp(lhs: Operand, rhs: Operand, cmp_type: Static = 0) -> object:
    """Compare element by element (0 eq, 1 ne, 2 lt, 3 le, 4 gt, 5 ge): 0 or 1 in the promoted dtype; of scalars a BOOL."""


@elementwise(
    reference=_compare,
    dtypes=PLAIN,
    levels=("tensor", "tile"),
    spellings=spell("compare", _CMP),
    result=_flagged,
    compute="operands",
    takes=("cmp_type",),
    check=_check_cmp_type,
    facts=Facts(exact=True),
)
def compare(lhs: Operand, rhs: Operand, cmp_type: Static = 0) -> object:
    """Compare element by element (0 eq, 1 ne, 2 lt, 3 le, 4 gt, 5 ge) into BOOL: what a comparison is where a mask is wanted."""


# masks ----------------------------------------------------------------------------------------------------------------


def mask_columns(columns: int) -> int:
    """Bytes of a mask row for that many columns."""
    return -(-columns // 256) * 32


def mask_shape(shape: Shape) -> Shape:
    """The shape of the mask of a tile."""
    last = shape[-1]
    assert isinstance(last, int)
    return (*shape[:-1], mask_columns(last))


def _mask_bytes(columns: Dim) -> Dim:
    return -(-columns // 8) if isinstance(columns, int) else ANY


def pack(bits: NDArray) -> NDArray:
    """Bytes of boolean cells, eight columns each, least significant bit first."""
    return np.packbits(bits.astype(bool), axis=-1, bitorder="little")


def unpack(mask: NDArray, columns: int) -> NDArray:
    """The first boolean cells of each row of a mask held in bytes or in wider little-endian carriers."""
    carrier = np.ascontiguousarray(mask)
    return np.unpackbits(carrier.view(np.uint8), axis=-1, bitorder="little")[..., :columns].astype(bool)


def _infer_mask(call: Call) -> tuple[ValueType, ...]:
    _check_cmp_type(call)
    shaped = [name for name, arg in operands(call).items() if isinstance(arg, ShapedType)]
    if not shaped:
        raise ArgumentError("cmps compares a tile with a scalar, got two scalars", help="compare scalars with Python's operators")
    for name in shaped:
        require(call, name, call.shaped(name).dtype, call.row.dtypes)
    promoted(call)
    shape = require_static(call, "shape", broadcast_shapes(call, shaped))
    valid = common_valid(call, shaped, shape)
    return (TileType(mask_shape(shape), UINT8, (*valid[:-1], _mask_bytes(valid[-1])), "Vec"),)


def _cmp_mask(results: tuple[TileType, ...], lhs: Any, rhs: Any, cmp_type: int) -> ArrayValue:
    arrays = [value for value in (lhs, rhs) if isinstance(value, ArrayValue)]
    shape = np.broadcast_shapes(*(value.data.shape for value in arrays))
    valid = common_valid_extents(shape, arrays)
    dtype = value_dtype(arrays[0].data)
    for value in arrays[1:]:
        dtype = promote(dtype, value_dtype(value.data))
    sides = [numbers.convert(_cut(value, valid) if isinstance(value, ArrayValue) else np.asarray(value), dtype) for value in (lhs, rhs)]
    bits = np.broadcast_to(COMPARISONS[cmp_type](*sides), valid)
    return placed(pack(bits), tuple(int(n) for n in mask_shape(shape)), UINT8)


def _cut(value: ArrayValue, valid: tuple[int, ...]) -> NDArray:
    own = valid[len(valid) - value.data.ndim :]
    return value.data[tuple(slice(0, min(n, extent)) for n, extent in zip(own, value.data.shape, strict=True))]


def cmp_mask(lhs: Operand, rhs: Operand, cmp_type: Static = 0) -> None:
    """Compare tiles element by element (0 eq, 1 ne, 2 lt, 3 le, 4 gt, 5 ge) into a packed mask for sel and sels."""


declare(
    cmp_mask,
    family="mask",
    infer=_infer_mask,
    reference=_cmp_mask,
    dtypes=PLAIN,
    facts=Facts(exact=True, valid=Valid.Common),
    spellings=spell("cmp", pl=_CMP, tile=_CMP) + spell("cmps", pl="=tile", tile=_CMP, scalar_only=("rhs",)),
)

_CARRIERS = frozenset({INT8, UINT8, INT16, UINT16, INT32, UINT32})
_SELECTABLE = _CARRIERS | {FP16, FP32, FP64}
_CHOOSES = Facts(exact=True, packed="mask")


def _check_carrier(call: Call, shape: Shape) -> None:
    mask = call.shaped("mask")
    require(call, "mask", mask.dtype, _CARRIERS, help="a mask comes from pl.cmp, or from memory as 8, 16 or 32-bit integers")
    columns, held = shape[-1], mask.shape[-1]
    assert isinstance(columns, int) and isinstance(held, int)
    rows_fit = mask.rank == len(shape) and all(m == 1 or m == s for m, s in zip(mask.shape[:-1], shape[:-1], strict=True))
    if not rows_fit or held * mask.dtype.get_byte() < -(-columns // 8):
        raise ShapeError(
            f"{call.row.title} takes a mask with the rows of the data and a bit for each of its {columns} columns, got {shape_text(mask.shape)} {mask.dtype}",
            help=f"pl.cmp makes a mask of {shape_text(mask_shape(shape))} UINT8",
        )


def _masked_valid(call: Call, valid: tuple[Dim, ...]) -> tuple[Dim, ...]:
    mask = call.shaped("mask")
    out = [smaller(v, m) if m != s else v for v, m, s in zip(valid[:-1], mask.valid[:-1], mask.shape[:-1], strict=True)]
    last = mask.valid[-1]
    if last == mask.shape[-1]:
        return (*out, valid[-1])
    bits = last * mask.dtype.bits if isinstance(last, int) else ANY
    return (*out, smaller(valid[-1], bits))


def _infer_sel(call: Call) -> tuple[ValueType, ...]:
    for name in ("lhs", "rhs"):
        require(call, name, call.shaped(name).dtype, call.row.dtypes)
    left, right = call.shaped("lhs").dtype, call.shaped("rhs").dtype
    if left is not right:
        raise DTypeError(f"sel takes `lhs` and `rhs` of one dtype, got {left} and {right}", help=f"convert one: pl.cast(rhs, pl.{left})")
    shape = same_shapes(call, ["lhs", "rhs"])
    _check_carrier(call, shape)
    return (result_type(call, shape, left, _masked_valid(call, common_valid(call, ["lhs", "rhs"], shape))),)


def _selected(results: tuple[TileType, ...], mask: ArrayValue, first: ArrayValue, second: Any) -> ArrayValue:
    dtype = results[0].dtype
    shape = first.data.shape
    valid = common_valid_extents(shape, [value for value in (first, second) if isinstance(value, ArrayValue)])
    bits_valid = mask.valid[-1] * mask.data.dtype.itemsize * 8
    rows = [min(v, m) if extent != 1 else v for v, m, extent in zip(valid[:-1], mask.valid[:-1], mask.data.shape[:-1], strict=True)]
    valid = (*rows, min(valid[-1], bits_valid))
    chosen = unpack(mask.data, shape[-1])[tuple(slice(0, n) for n in valid)]
    other = second.data[tuple(slice(0, n) for n in valid)] if isinstance(second, ArrayValue) else numbers.convert(np.asarray(second), dtype)
    return placed(np.where(chosen, first.data[tuple(slice(0, n) for n in valid)], other), shape, dtype)


def _sel(results: tuple[TileType, ...], mask: ArrayValue, lhs: ArrayValue, rhs: ArrayValue) -> ArrayValue:
    return _selected(results, mask, lhs, rhs)


def _sels(results: tuple[TileType, ...], mask: ArrayValue, src: ArrayValue, scalar: Any) -> ArrayValue:
    return _selected(results, mask, src, scalar)


def sel(mask: Value, lhs: Value, rhs: Value, tmp: Scratch = None) -> None:
    """lhs where the mask has a one, else rhs."""


declare(
    sel, family="mask", infer=_infer_sel, reference=_sel, dtypes=NUMBERS, spellings=spell("sel", pl="=tile", tile="(mask, lhs, rhs, tmp)"), facts=_CHOOSES
)


def _infer_sels(call: Call) -> tuple[ValueType, ...]:
    src = call.shaped("src")
    require(call, "src", src.dtype, _SELECTABLE)
    scalar = call.arg("scalar")
    assert isinstance(scalar, ScalarArg)
    if scalar.const is None:
        check_scalar(call, "scalar", scalar, src.dtype)
    _check_carrier(call, src.shape)
    return (result_type(call, src.shape, src.dtype, _masked_valid(call, src.valid)),)


def sels(mask: Value, src: Value, tmp: Scratch = None, scalar: Scalar = 0) -> None:
    """src where the mask has a one, else the scalar in src's dtype (integers modulo their width)."""


declare(
    sels,
    family="mask",
    infer=_infer_sels,
    reference=_sels,
    dtypes=_SELECTABLE,
    spellings=spell("sels", pl="=tile", tile="(mask, src, tmp, scalar)"),
    facts=_CHOOSES,
)


# conditions -----------------------------------------------------------------------------------------------------------


def _check_condition(call: Call) -> None:
    condition = call.arg("condition")
    if isinstance(condition, ScalarArg) and condition.dtype is not BOOL:
        raise DTypeError(f"where takes a BOOL scalar as `condition`, got {condition.dtype}", help="compare it: where(c != 0, …)")
    if isinstance(condition, ShapedType) and condition.level == "tile" and condition.dtype is not BOOL:
        raise DTypeError(f"where of tiles takes a BOOL tile as `condition`, got {condition.dtype}", help="compare it: pl.where(c != 0, …); packed masks are for pl.sel")


def _chosen(call: Call) -> DType:
    values = {name: call.arg(name) for name in ("lhs", "rhs")}
    shaped = any(isinstance(arg, ShapedType) for arg in values.values())
    inner = Call(call.row, call.level if shaped else "scalar", {**call.args, "condition": None})
    return promoted(inner)


def _where(condition: NDArray, lhs: NDArray, rhs: NDArray) -> NDArray:
    return np.where(condition != 0, lhs, rhs)


_WHERE = "(condition, lhs, rhs)"


@elementwise(
    reference=_where,
    dtypes=PLAIN | {COMPLEX64},
    spellings=spell("where", _WHERE),
    result=_chosen,
    keep=("condition",),
    check=_check_condition,
    facts=Facts(exact=True),
)
def where(condition: Operand, lhs: Operand, rhs: Operand) -> object:
    """lhs where the condition is not zero, else rhs. The condition of tiles is BOOL or a mask, that of scalars BOOL, that of tensors any number."""


@elementwise(
    reference=np.isnan,
    dtypes=FLOATS,
    spellings=spell("isnan", pl="(input)", tensor="(input)", tile="(tile)"),
    result=lambda call: BOOL,
    compute="own",
    facts=Facts(exact=True),
)
def isnan(input: Operand) -> object:
    """Whether each element is NaN, as BOOL."""


# logic of scalars -----------------------------------------------------------------------------------------------------


@elementwise(reference=np.logical_and, dtypes={BOOL}, levels=("scalar",), spellings=(), facts=Facts(exact=True, commutes=True, operator="And"))
def logical_and(lhs: Operand, rhs: Operand) -> object:
    """The infix `lhs and rhs` of two flags; both sides are evaluated."""


@elementwise(reference=np.logical_or, dtypes={BOOL}, levels=("scalar",), spellings=(), facts=Facts(exact=True, commutes=True, operator="Or"))
def logical_or(lhs: Operand, rhs: Operand) -> object:
    """The infix `lhs or rhs` of two flags; both sides are evaluated."""


@elementwise(reference=np.logical_not, dtypes={BOOL}, levels=("scalar",), spellings=(), facts=Facts(exact=True, operator="Not"))
def logical_not(input: Operand) -> object:
    """The prefix `not x` of a flag."""

