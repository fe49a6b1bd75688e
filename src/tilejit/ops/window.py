"""Rows that read or replace a window of a value. The same calls on a buffer are structural ops (`attrs["on_buffer"]`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilejit.dtypes import DType
from tilejit.errors import ArgumentError, DTypeError, OutOfBoundsError, ShapeError
from tilejit.ops import numbers
from tilejit.ops.dtype_rules import fits, is_literal
from tilejit.ops.evaluate import ArrayValue, placed
from tilejit.ops.facts import Facts, Fails
from tilejit.ops.movement import movement
from tilejit.ops.pad import check_pad, padded
from tilejit.ops.shape_rules import extents, narrowed, new_shape, require_rank, result_type, union_box
from tilejit.ops.spec import Call, Scalar, ScalarArg, Scalars, Static, Value, spell
from tilejit.types.enums import AtomicType, MemorySpace
from tilejit.types.values import ANY, Dim, Shape, ShapedType, TileType, Valid, ValueType, shape_text

# windows --------------------------------------------------------------------------------------------------------------


def window_valid(source: Dim, source_valid: Dim, offset: Dim, window: Dim, requested: Dim, clamp: bool) -> Dim:
    """The valid extent of a window in one dim: min(requested, clamp(source_valid - offset, 0, window))."""
    if source_valid == source and not clamp:
        # the window that is read lies inside, which is checked
        return requested
    if isinstance(source_valid, int) and isinstance(offset, int) and isinstance(window, int) and isinstance(requested, int):
        return min(requested, max(0, min(source_valid - offset, window)))
    return ANY


def check_window(name: str, source: Shape, offset: Shape, read: Shape, deed: str = "reads") -> None:
    """Refuse a window that provably leaves its source; `deed`: what is done to it."""
    if len(offset) != len(source) or len(read) != len(source):
        raise ShapeError(f"{name} takes one offset and one extent per dim of {shape_text(source)}, got {shape_text(offset)} and {shape_text(read)}", help="give one entry per dimension")
    for axis, (extent, start, size) in enumerate(zip(source, offset, read, strict=True)):
        if isinstance(start, int) and (start < 0 or (isinstance(size, int) and isinstance(extent, int) and start + size > extent)):
            end = start + size if isinstance(size, int) else "?"
            raise OutOfBoundsError(
                f"{name} {deed} [{start}, {end}) of dim {axis}, which has extent {extent}", help="narrow it with valid_shape, or start earlier"
            )


def _dropped(call: Call, shape: Shape) -> tuple[int, ...]:
    drop = call.arg("drop_dims")
    if drop is None:
        return ()
    assert isinstance(drop, list | tuple)
    rank = len(shape)
    axes = tuple(sorted({axis % rank if isinstance(axis, int) and -rank <= axis < rank else -1 for axis in drop}))
    if -1 in axes or any(shape[axis] != 1 for axis in axes) or len(axes) == len(shape):
        raise ShapeError(f"slice drops dims of extent 1, got drop_dims={list(drop)} of {shape_text(shape)}", help="name dims of extent 1, and keep at least one")
    return axes


def _without(items: Sequence[Any], axes: Sequence[int]) -> tuple[Any, ...]:
    return tuple(item for axis, item in enumerate(items) if axis not in axes)


def _infer_slice(call: Call) -> tuple[ValueType, ...]:
    input, shape, offset = call.shaped("input"), new_shape(call), extents(call, "offset")
    clamp = bool(call.arg("clamp"))
    if len(shape) != input.rank:
        raise ShapeError(f"slice takes one extent per dim of {shape_text(input.shape)}, got {shape_text(shape)}", help="drop dims of extent 1 with drop_dims")
    requested = narrowed(call, shape)
    # a tile slice must fit whole, a tensor slice as far as it is read
    read = shape if call.level == "tile" else requested
    check_window("slice", input.shape, offset, tuple(0 for _ in shape) if clamp else read)
    valid = tuple(
        window_valid(*dims, clamp) for dims in zip(input.shape, input.valid, offset, shape, requested, strict=True)
    )
    if call.arg("pad_value") is not None:
        check_pad(call, input.dtype)
    drop = _dropped(call, shape)
    space = input.space if isinstance(input, TileType) else "Vec"
    return (result_type(call, _without(shape, drop), input.dtype, _without(valid, drop), space),)


def take_window(name: str, source: ArrayValue, offset: Sequence[int], shape: Sequence[int], requested: Sequence[int], whole: bool, clamp: bool) -> ArrayValue:
    """The window of a value; out of range raises unless `clamp`; `whole`: all of it must lie inside, not only what is read."""
    box: list[slice] = []
    for axis, (extent, there, start, size, wanted) in enumerate(zip(source.data.shape, source.valid, offset, shape, requested, strict=True)):
        end = start + (size if whole else wanted)
        if start < 0 or (end > extent and not clamp):
            raise OutOfBoundsError(f"{name} reads [{start}, {end}) of dim {axis}, which has extent {extent}")
        if wanted < 0 or wanted > size:
            raise ShapeError(f"{name}: a valid extent of {wanted} in a window of {size}")
        box.append(slice(start, start + min(wanted, max(0, min(there - start, size)))))
    cells = source.data[tuple(box)]
    return placed(cells, tuple(shape), _dtype(source))


def _dtype(value: ArrayValue) -> DType:
    from tilejit.ops.elementwise import value_dtype

    return value_dtype(value.data)


def _slice(
    results: tuple[TileType, ...],
    input: ArrayValue,
    shape: Sequence[Any],
    offset: Sequence[Any],
    valid_shape: Sequence[Any] | None,
    drop_dims: Sequence[int] | None,
    pad_value: object,
    clamp: bool,
) -> ArrayValue:
    window, start = ([int(n) for n in items] for items in (shape, offset))
    requested = window if valid_shape is None else [int(n) for n in valid_shape]
    out = take_window("slice", input, start, window, requested, results[0].level == "tile", clamp)
    if pad_value is not None:
        out = ArrayValue(padded(out, out.data.shape, pad_value, results[0].dtype).data, out.valid)
    axes = tuple(axis % len(window) for axis in drop_dims or ())
    return ArrayValue(np.squeeze(out.data, axis=axes), _without(out.valid, axes)) if axes else out


_SLICE = "(input, shape, offset, valid_shape=None, drop_dims=None, pad_value=None, clamp=False)"


@movement(
    *spell(
        "slice",
        pl=_SLICE,
        tensor=_SLICE.replace("input", "tensor"),
        tile="(tile, shape, offset, valid_shape=None, drop_dims=None, pad_value=None)",
    ),
    infer=_infer_slice,
    reference=_slice,
    name="slice",
    attrs={"on_buffer": "window"},
    facts=Facts(view_of="input", fails=Fails.Scalars),
)
def window(
    input: Value,
    shape: Scalars,
    offset: Scalars,
    valid_shape: Scalars = None,
    drop_dims: Static = None,
    pad_value: Static = None,
    clamp: Static = False,
) -> object:
    """The window of `shape` at `offset`; `pad_value` fills the cells of the window outside its valid region, which stays as it is."""


def _infer_extract(call: Call) -> tuple[ValueType, ...]:
    src, shape, space = call.shaped("src"), new_shape(call), call.arg("target_memory")
    require_rank(call, "src", src, 2)
    if not isinstance(space, MemorySpace) or space is MemorySpace.DDR:
        raise ArgumentError(f"extract takes an on-chip memory space as `target_memory`, got {space!r}", help="for example pl.Mem.Left")
    offset = tuple(_index(call, name) for name in ("index_row", "index_col"))
    check_window("extract", src.shape, offset, shape)
    valid = tuple(window_valid(*dims, False) for dims in zip(src.shape, src.valid, offset, shape, shape, strict=True))
    return (TileType(shape, src.dtype, valid, space.value),)


def _index(call: Call, name: str) -> Dim:
    arg = call.arg(name)
    assert isinstance(arg, ScalarArg)
    if not arg.dtype.is_integer:
        raise DTypeError(f"{call.row.name} takes an integer as `{name}`, got {arg.dtype}", help="convert it first: pl.cast(…, pl.INDEX)")
    return arg.const if isinstance(arg.const, int) else ANY


def _extract(results: tuple[TileType, ...], src: ArrayValue, index_row: Any, index_col: Any, shape: Sequence[Any], **_: object) -> ArrayValue:
    window = [int(n) for n in shape]
    return take_window("extract", src, [int(index_row), int(index_col)], window, window, True, False)


@movement(*spell("extract", tile="(src, index_row, index_col, shape, *, target_memory)"), infer=_infer_extract, reference=_extract, facts=Facts(view_of="src", fails=Fails.Scalars))
def extract(src: Value, index_row: Scalar, index_col: Scalar, shape: Scalars, target_memory: Static = MemorySpace.Vec) -> object:
    """A copy of a 2-D part of a tile in another memory space."""


# writes ---------------------------------------------------------------------------------------------------------------


def check_stored(name: str, target: DType, source: DType) -> None:
    """Decision 18: floats convert among themselves, integers widen with the same sign; everything else is refused."""
    widens = target.is_integer and source.kind == target.kind and source.bits <= target.bits
    if target is source or (target.is_float and source.is_float) or widens:
        return
    raise DTypeError(f"{name} cannot write {source} into {target}", help=f"convert it first: pl.cast(…, pl.{target})")


def written_valid(call: Call, target: ShapedType, offset: Shape, extent: Valid) -> Valid:
    """The valid region after a write: the union, which must be a box at the origin."""
    if target.valid == target.shape:
        return target.valid
    numbers_ = [dim for dims in (target.valid, offset, extent) for dim in dims]
    if any(not isinstance(dim, int) for dim in numbers_):
        return tuple(ANY for _ in target.valid)
    valid, start, size = ([dim for dim in dims if isinstance(dim, int)] for dims in (target.valid, offset, extent))
    box = union_box(valid, start, size)
    if box is None:
        raise ShapeError(
            f"{call.row.name} at {shape_text(offset)} leaves a valid region that is no box: {shape_text(target.valid)} and {shape_text(extent)}",
            help="write inside the valid region, or next to it along one dim",
        )
    return box


def merge(name: str, target: ArrayValue, cells: np.ndarray[Any, Any], offset: Sequence[int], valid: Sequence[int]) -> ArrayValue:
    """A copy of `target` with `cells` at `offset`, of which the first `valid` mean something."""
    for axis, (start, size, extent) in enumerate(zip(offset, cells.shape, target.data.shape, strict=True)):
        if start < 0 or start + size > extent:
            raise OutOfBoundsError(f"{name} writes [{start}, {start + size}) of dim {axis}, which has extent {extent}")
    box = target.valid if target.valid == target.data.shape else union_box(target.valid, offset, valid)
    if box is None:
        raise ShapeError(f"{name} at {list(offset)} leaves a valid region that is no box: {list(target.valid)} and {list(valid)}")
    data = target.data.copy()
    data[tuple(slice(start, start + size) for start, size in zip(offset, cells.shape, strict=True))] = cells
    return ArrayValue(data, box)


def _infer_assemble(call: Call) -> tuple[ValueType, ...]:
    target, source, offset = call.shaped("target"), call.shaped("source"), extents(call, "offset")
    check_stored("assemble", target.dtype, source.dtype)
    if source.rank != target.rank:
        raise ShapeError(f"assemble takes a source of rank {target.rank}, got {shape_text(source.shape)}", help="reshape it first with pl.reshape")
    check_window("assemble", target.shape, offset, source.shape if call.level == "tile" else source.valid, "writes")
    space = target.space if isinstance(target, TileType) else "Vec"
    return (result_type(call, target.shape, target.dtype, written_valid(call, target, offset, source.valid), space),)


def _assemble(results: tuple[TileType, ...], target: ArrayValue, source: ArrayValue, offset: Sequence[Any], atomic: object) -> ArrayValue:
    start = [int(n) for n in offset]
    cells = numbers.convert(source.data if results[0].level == "tile" else source.box, results[0].dtype)
    if atomic is AtomicType.Add:
        there = target.data[tuple(slice(s, s + n) for s, n in zip(start, cells.shape, strict=True))]
        cells = (there + cells).astype(cells.dtype) if there.shape == cells.shape else cells
    return merge("assemble", target, cells, start, source.valid)


_ASSEMBLE = "(target, source, offset, *, atomic=None_)"


@movement(
    *spell("assemble", pl=_ASSEMBLE, tensor=_ASSEMBLE, tile="(target, source, offset)"),
    infer=_infer_assemble,
    reference=_assemble,
    attrs={"on_buffer": "store", "mixed": True},
    facts=Facts(writes="target", rebinds=True, fails=Fails.Scalars),
)
def assemble(target: Value, source: Value, offset: Scalars, atomic: Static = AtomicType.None_) -> object:
    """target with source written at `offset`: the valid region of a tensor, the whole of a tile."""


def _infer_write(call: Call) -> tuple[ValueType, ...]:
    target, offset, value = call.shaped("dst"), extents(call, "offset"), call.arg("value")
    assert isinstance(value, ScalarArg)
    one = tuple(1 for _ in offset)
    check_window("write", target.shape, offset, one, "writes")
    constant = value.const is not None and (value.dtype.is_float == target.dtype.is_float or is_literal(value))
    if value.dtype is not target.dtype and not (constant and (not isinstance(value.const, int) or not target.dtype.is_integer or fits(value.const, target.dtype))):
        raise DTypeError(f"write takes a {target.dtype} scalar as `value`, got {value.dtype}", help=f"convert it first: pl.cast(value, pl.{target.dtype})")
    return (result_type(call, target.shape, target.dtype, written_valid(call, target, offset, one), target.space if isinstance(target, TileType) else "Vec"),)


def _write(results: tuple[TileType, ...], dst: ArrayValue, offset: Sequence[Any], value: Any) -> ArrayValue:
    start = [int(n) for n in offset]
    cell = numbers.convert(np.asarray(value), results[0].dtype).reshape((1,) * len(start))
    return merge("write", dst, cell, start, cell.shape)


@movement(
    *spell("write", pl="(dst, offset, value)", tensor="(tensor, indices, value)", tile="(tile, indices, value)"),
    infer=_infer_write,
    reference=_write,
    attrs={"on_buffer": "write", "flat_index": True},
    facts=Facts(writes="dst", rebinds=True, fails=Fails.Scalars),
)
def write(dst: Value, offset: Scalars, value: Scalar) -> object:
    """dst with one element replaced, by one index per dim (the front end also takes one flat index)."""
