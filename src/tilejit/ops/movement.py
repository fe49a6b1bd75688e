"""Rows that rearrange values: padding, transposition, concatenation, other shapes of the same elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilejit.dtypes import DTYPES, DType
from tilejit.errors import ArgumentError, DTypeError, OutOfBoundsError, ShapeError
from tilejit.ops.elementwise import value_dtype
from tilejit.ops.evaluate import ArrayValue, placed, poison
from tilejit.ops.facts import PLAIN, Facts, Fails
from tilejit.ops.reshaping import dims_of, moved_region
from tilejit.ops.shape_rules import agree, new_shape, require_rank, result_type, smaller
from tilejit.ops.spec import Call, InferRule, OpSpec, Scalar, ScalarArg, Scalars, Scratch, Spelling, Static, Stub, Value, declarator, declare, spell
from tilejit.types.enums import MemorySpace
from tilejit.types.values import ANY, Dim, Shape, ShapedType, TileType, Valid, ValueType, shape_text, static_shape

STORABLE = frozenset(dtype for dtype in DTYPES.values() if dtype.numpy_name is not None)
"""Element types that exist as arrays."""


@declarator
def movement(
    stub: Stub,
    *spellings: Spelling,
    infer: InferRule,
    reference: Callable[..., object],
    levels: Iterable[str] | None = None,
    dtypes: Iterable[DType] = STORABLE,
    attrs: Mapping[str, object] | None = None,
    facts: Facts = PLAIN,
    name: str | None = None,
) -> OpSpec:
    """Declare a movement row. `attrs["on_buffer"]` names the structural op ("window", "view", "store", "write") that the
    front end builds instead when the first operand is a buffer."""
    return declare(
        stub,
        name=name,
        family="movement",
        infer=infer,
        reference=reference,
        dtypes=frozenset(dtypes),
        spellings=spellings,
        levels=levels,
        attrs=attrs,
        facts=replace(facts, exact=True),
    )


# axes -----------------------------------------------------------------------------------------------------------------


def _axis(call: Call, name: str, rank: int) -> int:
    axis = call.arg(name)
    if not isinstance(axis, int) or isinstance(axis, bool) or not -rank <= axis < rank:
        raise ShapeError(f"transpose takes an axis of {rank} dims as `{name}`, got {axis!r}", help=f"from {-rank} to {rank - 1}")
    return axis % rank


def _swapped(items: Sequence[Any], first: int, second: int) -> tuple[Any, ...]:
    out = list(items)
    out[first], out[second] = out[second], out[first]
    return tuple(out)


def _infer_transpose(call: Call) -> tuple[ValueType, ...]:
    input = call.shaped("input")
    first, second = (_axis(call, name, input.rank) for name in ("axis1", "axis2"))
    if first == second:
        raise ShapeError(f"transpose takes two different axes, got {first} twice", help="the axes of a matrix are 0 and 1")
    return (result_type(call, _swapped(input.shape, first, second), input.dtype, _swapped(input.valid, first, second)),)


def _transpose(results: tuple[TileType, ...], input: ArrayValue, axis1: int, axis2: int) -> ArrayValue:
    rank = input.data.ndim
    shape = _swapped(input.data.shape, axis1 % rank, axis2 % rank)
    return placed(np.swapaxes(input.box, axis1, axis2), shape, results[0].dtype)


@movement(
    *spell("transpose", pl="(input, axis1, axis2)", tensor="(tensor, axis1, axis2)", tile="(tile, axis1, axis2, tmp_tile=None)"),
    infer=_infer_transpose,
    reference=_transpose,
    facts=Facts(view_of="input", swaps=True),
)
def transpose(input: Value, axis1: Static, axis2: Static, tmp: Scratch = None) -> object:
    """Two axes swapped; negative axes count from the end."""


def _infer_transpose_view(call: Call) -> tuple[ValueType, ...]:
    input = call.shaped("input")
    if input.rank < 2:
        raise ShapeError(f"transpose_view takes at least 2 dims, got {shape_text(input.shape)}", help="reshape it first with pl.reshape")
    return (result_type(call, _swapped(input.shape, -1, -2), input.dtype, _swapped(input.valid, -1, -2)),)


def _transpose_view(results: tuple[TileType, ...], input: ArrayValue) -> ArrayValue:
    return _transpose(results, input, -1, -2)


@movement(*spell("transpose_view", tile="(tile)"), infer=_infer_transpose_view, reference=_transpose_view, facts=Facts(view_of="input", swaps=True))
def transpose_view(input: Value) -> object:
    """The last two axes swapped."""


def _infer_concat(call: Call) -> tuple[ValueType, ...]:
    left, right = call.shaped("src0"), call.shaped("src1")
    for name in ("src0", "src1"):
        require_rank(call, name, call.shaped(name), 2)
    if left.dtype is not right.dtype:
        raise DTypeError(f"concat takes operands of one dtype, got {left.dtype} and {right.dtype}", help=f"convert one: pl.cast(src1, pl.{left.dtype})")
    rows = agree(call, ("src0", 0), ("src1", 0), f"needs operands of equal rows, got {shape_text(left.shape)} and {shape_text(right.shape)}", "cut one with pl.slice, or fill it up with pl.fillpad_expand")
    if left.valid[1] == ANY and left.shape[1] != ANY:
        raise ShapeError("concat needs the valid columns of `src0` to be known while compiling", help="fill it first: pl.fillpad(src0)")
    shape = (rows, _sum(left.shape[1], right.shape[1]))
    if left.valid == left.shape and right.valid == right.shape:
        return (result_type(call, shape, left.dtype, shape),)
    valid_rows = left.valid[0] if left.valid[0] == right.valid[0] else smaller(left.valid[0], right.valid[0])
    return (result_type(call, shape, left.dtype, (valid_rows, _sum(left.valid[1], right.valid[1]))),)


def _sum(a: Dim, b: Dim) -> Dim:
    return a + b if isinstance(a, int) and isinstance(b, int) else ANY


def _concat(results: tuple[TileType, ...], src0: ArrayValue, src1: ArrayValue) -> ArrayValue:
    rows = min(src0.valid[0], src1.valid[0])
    box = np.concatenate([src0.box[:rows], src1.box[:rows]], axis=1)
    shape = (src0.data.shape[0], src0.data.shape[1] + src1.data.shape[1])
    return placed(box, shape, results[0].dtype)


_CONCAT = "(src0, src1)"


@movement(*spell("concat", _CONCAT), infer=_infer_concat, reference=_concat, facts=Facts(fails=Fails.Region))
def concat(src0: Value, src1: Value) -> object:
    """The valid columns of src1 after those of src0."""


def _infer_move(call: Call) -> tuple[ValueType, ...]:
    input, space = call.shaped("input"), call.arg("target_memory")
    if not isinstance(space, MemorySpace) or space is MemorySpace.DDR:
        raise ArgumentError(f"move takes an on-chip memory space as `target_memory`, got {space!r}", help="for example pl.Mem.Left; pl.store writes to a tensor")
    return (TileType(input.shape, input.dtype, input.valid, space.value),)


def _move(results: tuple[TileType, ...], input: ArrayValue, **_: object) -> ArrayValue:
    return input


@movement(*spell("move", pl="=tile", tile="(tile, target_memory, blayout=None, slayout=None)"), infer=_infer_move, reference=_move, facts=Facts(view_of="input", scales=True))
def move(input: Value, target_memory: Static, blayout: Static = None, slayout: Static = None) -> object:
    """The same tile in another on-chip memory space."""


# other shapes of the same elements ------------------------------------------------------------------------------------


def _reshaped_valid(call: Call, input: ShapedType, shape: Shape) -> Valid:
    if input.valid == input.shape:
        return shape
    old, new = static_shape(input.shape), static_shape(shape)
    region = None if old is None or new is None else moved_region(old, input.valid, new)
    if region is None:
        known = static_shape(input.valid) is not None
        problem = "the valid region would be scattered" if known else "the valid region is known only at run time and might be scattered"
        raise ShapeError(f"{call.row.name} of {input} to {shape_text(shape)}: {problem}", help="fill it first: pl.fillpad(…)")
    return dims_of(region)


def _infer_reshape(call: Call) -> tuple[ValueType, ...]:
    input, shape = call.shaped("input"), new_shape(call)
    old, new = static_shape(input.shape), static_shape(shape)
    if old is not None and new is not None and math.prod(old) != math.prod(new):
        raise ShapeError(
            f"reshape keeps the number of elements: {shape_text(old)} has {math.prod(old)}, {shape_text(new)} has {math.prod(new)}",
            help="take a part with pl.slice, or fill up with pl.fillpad_expand",
        )
    if (new is not None and old is None) or (old is not None and new is None):
        shape = _solve_one(input.shape, shape)
    return (result_type(call, shape, input.dtype, _reshaped_valid(call, input, shape)),)


def _solve_one(old: Shape, new: Shape) -> Shape:
    """Equal extents stay as they are where one side has a single run-time extent."""
    unknown = [i for i, dim in enumerate(new) if not isinstance(dim, int)]
    known = static_shape(old)
    if known is None or len(unknown) != 1 or new[unknown[0]] != ANY:
        return new
    rest = math.prod(dim for dim in new if isinstance(dim, int))
    return tuple(math.prod(known) // rest if i == unknown[0] and math.prod(known) % rest == 0 else dim for i, dim in enumerate(new))


def _reshape(results: tuple[TileType, ...], input: ArrayValue, shape: Sequence[Any]) -> ArrayValue:
    wanted = tuple(int(n) for n in shape)
    old = input.data.shape
    for axis, extent in enumerate(wanted):
        if extent < 0:
            raise ShapeError(f"reshape: extent {extent} in dim {axis} is negative")
    if math.prod(old) != math.prod(wanted):
        raise ShapeError(f"reshape keeps the number of elements: {list(old)} has {math.prod(old)}, {list(wanted)} has {math.prod(wanted)}")
    if input.valid == old:
        return ArrayValue(np.ascontiguousarray(input.data).reshape(wanted), wanted)
    region = moved_region(old, input.valid, wanted)
    if region is None:
        raise ShapeError(f"reshape to {list(wanted)}: the valid region {list(input.valid)} of {list(old)} would be scattered")
    cells = np.ascontiguousarray(input.data).reshape(wanted)
    return placed(cells[tuple(slice(0, n) for n in region if isinstance(n, int))], wanted, results[0].dtype)


@movement(
    *spell("reshape", pl="(input, shape)", tensor="(tensor, shape)", tile="(tile, shape)"),
    infer=_infer_reshape,
    reference=_reshape,
    attrs={"on_buffer": "view"},
    facts=Facts(view_of="input", fails=Fails.Scalars),
)
def reshape(input: Value, shape: Scalars) -> object:
    """The same elements in row-major order with another shape; a partial valid region must stay a box at the origin."""


VALID_HELP = "a valid region is 0 to the extent"


def _infer_set_valid(call: Call) -> tuple[ValueType, ...]:
    input = call.shaped("input")
    require_rank(call, "input", input, 2)
    valid: list[Dim] = []
    for axis, name in enumerate(("valid_rows", "valid_cols")):
        arg, extent = call.arg(name), input.shape[axis]
        assert isinstance(arg, ScalarArg)
        if not arg.dtype.is_integer:
            raise DTypeError(f"set_validshape takes an integer as `{name}`, got {arg.dtype}", help="convert it first: pl.cast(…, pl.INDEX)")
        if isinstance(arg.const, int) and (arg.const < 0 or (isinstance(extent, int) and arg.const > extent)):
            raise OutOfBoundsError(f"set_validshape: {name} is {arg.const}, the extent is {extent}", help=VALID_HELP)
        valid.append(arg.const if isinstance(arg.const, int) else ANY)
    return (result_type(call, input.shape, input.dtype, tuple(valid), input.space if isinstance(input, TileType) else "Vec"),)


def _set_valid(results: tuple[TileType, ...], input: ArrayValue, valid_rows: Any, valid_cols: Any) -> ArrayValue:
    wanted = (int(valid_rows), int(valid_cols))
    for name, n, extent in zip(("valid_rows", "valid_cols"), wanted, input.data.shape, strict=True):
        if not 0 <= n <= extent:
            raise OutOfBoundsError(f"set_validshape: {name} is {n}, the extent is {extent}", help=VALID_HELP)
    data = poison(input.data.shape, results[0].dtype)
    shared = tuple(slice(0, min(a, b)) for a, b in zip(wanted, input.valid, strict=True))
    data[shared] = input.data[shared]
    return ArrayValue(data, wanted)


@movement(
    *spell(
        "set_validshape",
        pl="(input, valid_rows, valid_cols)",
        tensor="(tensor, valid_rows, valid_cols)",
        tile="(tile, valid_rows, valid_cols)",
    ),
    infer=_infer_set_valid,
    reference=_set_valid,
    facts=Facts(view_of="input", fails=Fails.Scalars),
)
def set_validshape(input: Value, valid_rows: Scalar, valid_cols: Scalar) -> object:
    """The same elements, valid in the given rows and columns; cells that were not valid before have undefined content."""


def _infer_reinterpret(call: Call) -> tuple[ValueType, ...]:
    data, dtype = call.shaped("data"), call.arg("dtype")
    if data.dtype.bits % 8:
        raise DTypeError(f"reinterpret_view takes elements of whole bytes, got {data.dtype}", help="convert it first: pl.cast(data, pl.INT8)")
    if not isinstance(dtype, DType) or dtype not in STORABLE or dtype.bits % 8:
        raise DTypeError(f"reinterpret_view takes a data type of whole bytes as `dtype`, got {dtype}", help="write pl.reinterpret_view(x, pl.INT32)")
    old_bytes, new_bytes = data.dtype.get_byte(), dtype.get_byte()
    if call.arg("shape") is not None:
        shape = new_shape(call)
        old, new = static_shape(data.shape), static_shape(shape)
        if old is not None and new is not None and math.prod(old) * old_bytes != math.prod(new) * new_bytes:
            raise ShapeError(f"reinterpret_view keeps the bytes: {data} has {math.prod(old) * old_bytes}, {shape_text(new)} {dtype} has {math.prod(new) * new_bytes}", help="give a shape of as many bytes")
        if data.valid != data.shape and not (data.shape == shape and old_bytes == new_bytes):
            raise ShapeError(f"reinterpret_view of {data} to another shape needs it to be valid everywhere", help="fill it first: pl.fillpad(…)")
        return (result_type(call, shape, dtype, data.valid if data.shape == shape else shape),)
    last, valid = (_rescaled(call, dim, old_bytes, new_bytes) for dim in (data.shape[-1], data.valid[-1]))
    return (result_type(call, (*data.shape[:-1], last), dtype, (*data.valid[:-1], valid)),)


def _rescaled(call: Call, dim: Dim, old_bytes: int, new_bytes: int) -> Dim:
    if old_bytes == new_bytes:
        return dim
    if not isinstance(dim, int):
        return ANY
    if dim * old_bytes % new_bytes:
        raise ShapeError(f"reinterpret_view: {dim} elements of {old_bytes} bytes are no whole number of {new_bytes}-byte elements", help="give the shape: shape=[…]")
    return dim * old_bytes // new_bytes


def _reinterpret(results: tuple[TileType, ...], data: ArrayValue, dtype: DType, shape: Sequence[Any] | None) -> ArrayValue:
    old_bytes, new_bytes = value_dtype(data.data).get_byte(), dtype.get_byte()
    if data.data.shape[-1] * old_bytes % new_bytes and shape is None:
        raise ShapeError(f"reinterpret_view: {data.data.shape[-1]} elements of {old_bytes} bytes are no whole number of {new_bytes}-byte elements")
    if shape is None:
        view = np.ascontiguousarray(data.data).view(dtype.numpy)
        return ArrayValue(view, (*data.valid[:-1], data.valid[-1] * old_bytes // new_bytes))
    view = np.ascontiguousarray(data.data).reshape(-1).view(dtype.numpy).reshape([int(n) for n in shape])
    return ArrayValue(view, data.valid if view.shape == data.data.shape else view.shape)


_REINTERPRET = "(data, dtype, *, shape=None)"


@movement(
    *spell("reinterpret_view", _REINTERPRET),
    infer=_infer_reinterpret,
    reference=_reinterpret,
    attrs={"on_buffer": "view"},
    facts=Facts(view_of="data", fails=Fails.Region, of_bytes=True),
)
def reinterpret_view(data: Value, dtype: Static, shape: Scalars = None) -> object:
    """The same bytes as another dtype; without a shape the last extent is rescaled."""

