"""Rows of the matrix products.

Floats multiply and accumulate in FP32, with an FP64 operand or for an FP64 result in FP64, integers in INT32 with wraparound, 64-bit integers (tensors without accumulator only) in INT64. Products contract over the valid columns of
the left operand, which the right one must cover; the result is valid in the left one's rows and the right one's columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tilejit.dtypes import BF16, BOOL, COMPLEX64, FP8E4M3FN, FP8E5M2, FP16, FP32, FP64, INDEX, INT8, INT32, INT64, UINT64, DType, promote
from tilejit.errors import ArgumentError, DTypeError, ShapeError
from tilejit.ops import numbers
from tilejit.ops.dtype_rules import ARITHMETIC, NUMBERS, PARTS_HELP, refuse_double_pairs, require
from tilejit.ops.evaluate import ArrayValue, placed
from tilejit.ops.facts import Facts, Fails
from tilejit.ops.numbers import NDArray
from tilejit.ops.shape_rules import agree, require_rank, result_type, smaller
from tilejit.ops.spec import Call, ExtentCheck, OpSpec, Scalar, ScalarArg, Spelling, Static, Stub, Value, declarator, declare, spell
from tilejit.types.values import ANY, Dim, Shape, ShapedType, TileType, ValueType, same_extent, shape_text

GEMV_DTYPES = frozenset({INT8, FP16, BF16, FP32, FP64})
WIDE = frozenset({INT64, UINT64, INDEX})
NARROW = frozenset({FP8E4M3FN, FP8E5M2})
"""Floats that are factors only: sums are in FP32, and a result in one of these would have to be asked for by a cast."""
FACTORS = NUMBERS | NARROW
PHASES = ("unspecified", "partial", "final")


def accumulator(dtype: DType) -> DType:
    """The dtype in which a tile product accumulates and is returned."""
    return dtype if dtype in (FP64, COMPLEX64) else FP32 if dtype.is_float else INT32


# types ----------------------------------------------------------------------------------------------------------------


def _flag(call: Call, name: str) -> bool:
    return name in call.row.param_names and bool(call.arg(name))


def _contracted(call: Call) -> tuple[Shape, tuple[Dim, ...]]:
    """Shape and valid region of the product of `lhs` and `rhs`."""
    left, right = call.shaped("lhs"), call.shaped("rhs")
    if left.rank == 0 or right.rank == 0:
        raise ShapeError(f"{call.row.name} takes matrices, got {shape_text(left.shape)} and {shape_text(right.shape)}", help="reshape it first with pl.reshape")
    k_left = left.rank - (2 if _flag(call, "a_trans") and left.rank > 1 else 1)
    k_right = right.rank - (1 if _flag(call, "b_trans") or right.rank == 1 else 2)
    rows = () if left.rank == 1 else (2 * left.rank - 3 - k_left,)
    columns = () if right.rank == 1 else (2 * right.rank - 3 - k_right,)
    agree(
        call,
        ("lhs", k_left),
        ("rhs", k_right),
        f"needs the inner sizes to agree, got {shape_text(left.shape)} and {shape_text(right.shape)}",
        _transpose_help(call, left, right, k_left, columns),
    )
    needed, there = left.valid[k_left], right.valid[k_right]
    if isinstance(needed, int) and isinstance(there, int) and there < needed:
        raise ShapeError(f"{call.row.name} contracts over {needed} valid columns of `lhs`, of which `rhs` covers {there}", help="pad with pl.fillpad first")
    batch, batch_valid = _batch(call, left, right)
    outer = [(left, axis) for axis in rows] + [(right, axis) for axis in columns]
    shape = (*batch, *(side.shape[axis] for side, axis in outer)) or (1,)
    return shape, (*batch_valid, *(side.valid[axis] for side, axis in outer)) or (1,)


def _transpose_help(call: Call, left: ShapedType, right: ShapedType, k_left: int, columns: tuple[int, ...]) -> str | None:
    if columns and same_extent(left.shape[k_left], right.shape[columns[0]]):
        a, b = right.rank - 2, right.rank - 1
        return f"transpose the second operand: pl.{call.row.name}(…, pl.transpose(…, {a}, {b}))"
    return "the columns of the first operand must be the rows of the second"


def _batch(call: Call, left: ShapedType, right: ShapedType) -> tuple[Shape, tuple[Dim, ...]]:
    """Leading dims, broadcast."""
    rank = max(left.rank, right.rank) - 2
    shape: list[Dim] = []
    valid: list[Dim] = []
    for axis in range(max(rank, 0)):
        a, b = axis - (rank - (left.rank - 2)), axis - (rank - (right.rank - 2))
        first = left.shape[a] if a >= 0 and left.rank > 2 else 1
        second = right.shape[b] if b >= 0 and right.rank > 2 else 1
        first_valid = left.valid[a] if a >= 0 and left.rank > 2 else 1
        second_valid = right.valid[b] if b >= 0 and right.rank > 2 else 1
        if first != 1 and second != 1:
            same = same_extent(first, second)
            if same is False:
                raise ShapeError(
                    f"{call.row.name} cannot broadcast the batches of {shape_text(left.shape)} and {shape_text(right.shape)}", help="batch extents must be equal or 1"
                )
            if same is None:
                call.checks.append(ExtentCheck(("lhs", a), ("rhs", b)))
            shape.append(first if isinstance(first, int) or second == ANY else second)
            valid.append(smaller(first_valid, second_valid))
        else:
            shape.append(second if first == 1 else first)
            valid.append(second_valid if first == 1 else first_valid)
    return tuple(shape), tuple(valid)


def _operand_dtypes(call: Call) -> DType:
    left, right = call.shaped("lhs").dtype, call.shaped("rhs").dtype
    narrow = call.level == "tile" or "acc" in call.row.param_names
    for name in ("lhs", "rhs"):
        require(call, name, call.shaped(name).dtype, call.row.dtypes - WIDE if narrow else call.row.dtypes)
    if call.level == "tile" and left is not right:
        raise DTypeError(f"{call.row.name} of tiles takes operands of one dtype, got {left} and {right}", help=f"convert one: pl.cast(…, pl.{left})")
    if left is not right and {left, right} & NARROW:
        raise DTypeError(f"{call.row.name} of {left} and {right} takes operands of one dtype", help=f"convert both first: pl.cast(…, pl.{FP16})")
    refuse_double_pairs(call, promote(left, right), (left, right))
    return promote(left, right)


def _check_phase(call: Call) -> None:
    if "acc_phase" in call.row.param_names and call.arg("acc_phase") not in PHASES:
        raise ArgumentError(f"{call.row.name} has no acc_phase {call.arg('acc_phase')!r}", help=f"one of {', '.join(PHASES)}")


def _check_ranks(call: Call) -> None:
    ranks: object = call.row.attrs.get("ranks")
    if call.level == "tile" and isinstance(ranks, tuple):
        for name in ("lhs", "rhs"):
            require_rank(call, name, call.shaped(name), *ranks)
    if call.row.attrs.get("one_row") and call.shaped("lhs").shape[0] != 1:
        raise ShapeError(f"{call.row.name} takes a `lhs` [1, K], got {shape_text(call.shaped('lhs').shape)}", help="use pl.matmul for more rows")


def _infer(call: Call) -> tuple[ValueType, ...]:
    _check_ranks(call)
    _check_phase(call)
    dtype = _operand_dtypes(call)
    shape, valid = _contracted(call)
    out = accumulator(dtype) if call.level == "tile" else dtype
    if out in NARROW and "acc" not in call.row.param_names and call.arg("out_dtype") is None:
        raise DTypeError(f"{call.row.name} of {dtype} tensors does not say what it gives", help="name it, for example out_dtype=pl.FP32")
    wanted = call.arg("out_dtype") if "out_dtype" in call.row.param_names else None
    if wanted is not None:
        if not isinstance(wanted, DType) or wanted not in ARITHMETIC:
            raise DTypeError(f"{call.row.name} takes a number type as `out_dtype`, got {wanted}", help="for example out_dtype=pl.FP32")
        if (wanted is COMPLEX64) != (dtype is COMPLEX64):
            raise DTypeError(f"{call.row.name} of {dtype} has no result in {wanted}", help=PARTS_HELP if dtype is COMPLEX64 else f"convert the operands first: pl.cast(…, pl.{wanted})")
        if call.level == "tile" and wanted is not out:
            raise DTypeError(f"{call.row.name} of {dtype} tiles gives {out}, not {wanted}", help=f"convert the result: pl.cast(…, pl.{wanted.name})")
        out = wanted
    if "bias" in call.row.param_names:
        _check_bias(call, shape, out)
    if "acc" not in call.row.param_names:
        return (result_type(call, shape, out, valid, "Acc"),)
    acc = call.shaped("acc")
    _check_acc(call, acc, shape, accumulator(dtype))
    return (result_type(call, acc.shape, acc.dtype, acc.valid, "Acc"),)


def _check_bias(call: Call, shape: Shape, out: DType) -> None:
    bias = call.shaped("bias")
    if bias.rank != 2 or bias.shape[0] != 1 or same_extent(bias.shape[1], shape[-1]) is False:
        raise ShapeError(f"{call.row.name} takes a bias [1, {shape[-1]}], got {shape_text(bias.shape)}", help="one element per column of the result")
    if bias.dtype is not out:
        raise DTypeError(f"{call.row.name} takes a bias in the accumulator's {out}, got {bias.dtype}", help=f"convert it first: pl.cast(bias, pl.{out})")


def _check_acc(call: Call, acc: ShapedType, shape: Shape, wanted: DType) -> None:
    if acc.dtype is not wanted:
        raise DTypeError(f"{call.row.name} accumulates in {wanted}, got an acc of {acc.dtype}", help=f"create acc with dtype=pl.{wanted}")
    text = f"needs an acc of the product's shape {shape_text(shape)}, got {shape_text(acc.shape)}"
    if acc.rank != len(shape) or any(same_extent(a, s) is False for a, s in zip(acc.shape, shape, strict=True)):
        raise ShapeError(f"{call.row.name} {text}", help="acc is not broadcast")
    if "init_cond" in call.row.param_names:
        condition = call.arg("init_cond")
        if isinstance(condition, ScalarArg) and condition.dtype is not BOOL:
            raise DTypeError(f"{call.row.name} takes a BOOL scalar as `init_cond`, got {condition.dtype}", help="write a comparison, such as k == 0")


# meaning --------------------------------------------------------------------------------------------------------------


def _turned(value: ArrayValue, transposed: bool) -> ArrayValue:
    if not transposed or value.data.ndim < 2:
        return value
    return ArrayValue(np.swapaxes(value.data, -1, -2), (*value.valid[:-2], value.valid[-1], value.valid[-2]))


def _common_batches(left: ArrayValue, right: ArrayValue, cells: NDArray) -> tuple[NDArray, NDArray]:
    """The valid cells of both operands, cut to the batches that are valid in both; an extent of 1 broadcasts."""
    first = left.box
    for axis in range(3, min(first.ndim, cells.ndim) + 1):
        if 1 not in (left.data.shape[-axis], right.data.shape[-axis]):
            common = range(min(first.shape[-axis], cells.shape[-axis]))
            first, cells = (np.take(side, common, side.ndim - axis) for side in (first, cells))
    return first, cells


def product(name: str, left: ArrayValue, right: ArrayValue, double: bool) -> tuple[NDArray, tuple[int, ...]]:
    """The product of the valid regions, in FP32, FP64, INT32 or INT64, and the shape of the whole result."""
    inner = left.valid[-1]
    covered = right.valid[-2] if right.data.ndim > 1 else right.valid[-1]
    if covered < inner:
        raise ShapeError(f"{name} contracts over {inner} valid columns of `lhs`, of which `rhs` covers {covered}")
    cells = right.box[..., :inner, :] if right.data.ndim > 1 else right.box[..., :inner]
    wide = max(left.data.dtype.itemsize, right.data.dtype.itemsize) == 8
    floats = [side.data.dtype for side in (left, right) if numbers.is_float(side.data)]
    work: type = (np.float64 if double or np.float64 in floats else np.float32) if floats else np.int64 if wide else np.int32
    work = np.complex64 if "c" in (left.data.dtype.kind, right.data.dtype.kind) else work
    out = np.matmul(*(side.astype(work) for side in _common_batches(left, right, cells)))
    rows = left.data.shape[-2:-1] if left.data.ndim > 1 else ()
    columns = right.data.shape[-1:] if right.data.ndim > 1 else ()
    batch = np.broadcast_shapes(left.data.shape[:-2], right.data.shape[:-2])
    shape = (*batch, *rows, *columns)
    return (out, shape) if shape else (out.reshape(1), (1,))


def _reference(name: str) -> Callable[..., ArrayValue]:
    def evaluate(
        results: tuple[TileType, ...],
        lhs: ArrayValue,
        rhs: ArrayValue,
        acc: ArrayValue | None = None,
        bias: ArrayValue | None = None,
        a_trans: bool = False,
        b_trans: bool = False,
        init_cond: Any = None,
        **_: object,
    ) -> ArrayValue:
        out, shape = product(name, _turned(lhs, a_trans), _turned(rhs, b_trans), results[0].dtype is FP64)
        dtype = results[0].dtype
        if bias is not None:
            out = out + bias.data[..., : out.shape[-1]]
        if acc is None:
            return placed(numbers.convert(out, dtype), shape, dtype)
        full = placed(numbers.convert(out, dtype), shape, dtype).data[tuple(slice(0, n) for n in acc.valid)]
        overwrite = init_cond is not None and bool(init_cond)
        return placed(full if overwrite else acc.box + full, acc.data.shape, dtype)

    return evaluate


# rows -----------------------------------------------------------------------------------------------------------------


@declarator
def matrix_product(
    stub: Stub, spellings: Sequence[Spelling], dtypes: Iterable[DType] = FACTORS, ranks: tuple[int, ...] | None = (2,), one_row: bool = False, operator: str | None = None
) -> OpSpec:
    """Declare a product; `ranks` of its tiles, `one_row`: lhs is a vector [1, K]."""
    return declare(
        stub,
        family="matmul",
        infer=_infer,
        reference=_reference(stub.__name__),
        dtypes=frozenset(dtypes),
        spellings=spellings,
        attrs={"ranks": ranks, "one_row": one_row},
        facts=Facts(fails=Fails.Region, operator=operator),
    )


_MATMUL = "(lhs, rhs, out_dtype=None, a_trans=False, b_trans=False, c_matrix_nz=False)"
_ACC = "(acc, lhs, rhs, a_trans=False, b_trans=False, init_cond=None)"


@matrix_product(spell("matmul", pl=_MATMUL, tensor=_MATMUL, tile="(lhs, rhs, out_dtype=None)"), dtypes=ARITHMETIC | NARROW, operator="MatMult")
def matmul(
    lhs: Value, rhs: Value, out_dtype: Static = None, a_trans: Static = False, b_trans: Static = False, c_matrix_nz: Static = False
) -> object:
    """lhs @ rhs. Tensors: the promoted dtype unless `out_dtype` is given, leading dims are batches and broadcast, vectors may be 1-D
    (two of them give [1]). Tiles: 2-D, of one dtype, FP32 (FP64 of FP64) or INT32 out."""


@matrix_product(spell("matmul_acc", pl=_ACC, tensor=_ACC, tile="(acc, lhs, rhs, init_cond=None)"))
def matmul_acc(
    acc: Value, lhs: Value, rhs: Value, a_trans: Static = False, b_trans: Static = False, init_cond: Scalar = None
) -> object:
    """acc + lhs @ rhs in FP32 (FP64 for FP64) or INT32; where `init_cond` is true, lhs @ rhs alone."""


@matrix_product(spell("matmul_bias", pl="=tile", tile="(lhs, rhs, bias)"))
def matmul_bias(lhs: Value, rhs: Value, bias: Value) -> object:
    """lhs @ rhs + bias, with bias [1, N] in the accumulator's dtype."""


@matrix_product(spell("gemv", pl="=tile", tile="(lhs, rhs, acc_phase='unspecified')"), dtypes=GEMV_DTYPES, one_row=True)
def gemv(lhs: Value, rhs: Value, acc_phase: Static = "unspecified") -> object:
    """The vector lhs [1, K] times rhs [K, N]."""


@matrix_product(spell("gemv_acc", pl="=tile", tile="(acc, lhs, rhs, acc_phase='unspecified')"), dtypes=GEMV_DTYPES, one_row=True)
def gemv_acc(acc: Value, lhs: Value, rhs: Value, acc_phase: Static = "unspecified") -> object:
    """acc plus the vector lhs [1, K] times rhs [K, N]."""


@matrix_product(spell("gemv_bias", pl="=tile", tile="(lhs, rhs, bias, acc_phase='unspecified')"), dtypes=GEMV_DTYPES, one_row=True)
def gemv_bias(lhs: Value, rhs: Value, bias: Value, acc_phase: Static = "unspecified") -> object:
    """The vector lhs [1, K] times rhs [K, N], plus bias [1, N]."""


@matrix_product(spell("batch_matmul", pl="(lhs, rhs)", tile="(lhs, rhs)"), dtypes=ARITHMETIC | NARROW, ranks=(2, 3, 4, 5))
def batch_matmul(lhs: Value, rhs: Value) -> object:
    """lhs @ rhs for each batch of tiles; batches broadcast."""


@matrix_product(spell("batch_matmul_acc", tile="(acc, lhs, rhs)"), ranks=(2, 3, 4, 5))
def batch_matmul_acc(acc: Value, lhs: Value, rhs: Value) -> object:
    """acc + lhs @ rhs for each batch of tiles; acc is not broadcast."""
