"""Views of buffers and values: other shapes and types of the same cells, with everything provable checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeVar

from xdsl.ir import SSAValue

from tilejit.dtypes import DType
from tilejit.errors import DTypeError, ParserTypeError, ShapeError
from tilejit.frontend.affine import never_negative
from tilejit.frontend.context import Context
from tilejit.frontend.values import describe_value, extent_of, static_integer
from tilejit.frontend.windows import Items, indices, make_window, narrowed, per_dim, window_value
from tilejit.ops import table
from tilejit.ops.reshaping import left_over
from tilejit.tile_ir import dialect as d
from tilejit.types.enums import TensorLayout
from tilejit.types.values import ANY, TENSOR_SPACE, BufferType, Dim, TileType, shape_text

_Item = TypeVar("_Item")


def reshape(ctx: Context, value: SSAValue, shape: Items) -> SSAValue:
    """The same cells in another shape: a view of a buffer, a new value of a value, and as in NumPy of a window with gaps, where axes become others."""
    extents = _inferred_extents(ctx, value, shape)
    if has_gaps(value):
        sizes = indices(ctx, extents, "an extent")
        window = _with_other_ones(ctx, value, sizes)
        if window is not None:
            return window
        copy = ctx.builder.copy(value)
        if not _is_copied(value, [extent_of(size) for size in sizes]):
            ctx.aliases.copied(value, copy)  # in NumPy a view, or perhaps one: who writes into one of them is told
        value = copy
    type = d.shaped_type(value)
    if isinstance(type, TileType):
        return ctx.builder.apply(table()["reshape"], type.level, {"input": value, "shape": indices(ctx, extents, "an extent")})[0]
    return make_view(ctx, value, extents, type.dtype)


def has_gaps(value: SSAValue) -> bool:
    """Whether a tensor is a window that leaves out cells between those it has, as far as its type tells."""
    while isinstance(value.owner, d.WindowOp | d.ViewOp | d.PeerOp):
        if isinstance(value.owner, d.WindowOp) and not _is_run(value.owner):
            return True
        value = value.owner.buffer
    return False


def _is_copied(window: SSAValue, shape: Sequence[Dim]) -> bool:
    """Whether NumPy copies a part of a tensor for this shape for certain: cells that are apart by other steps would become one axis."""
    steps, own = _steps(window), d.shaped_type(window).shape
    if steps is None or not all(isinstance(extent, int) for extent in (*own, *shape)):
        return False
    runs: list[tuple[int, int]] = []
    for extent, step in zip(own, steps, strict=True):
        assert isinstance(extent, int)
        if runs and runs[-1][1] == extent * step:
            runs[-1] = runs[-1][0] * extent, step
        elif extent != 1:
            runs.append((extent, step))
    rest = [extent for extent in shape if isinstance(extent, int) and extent != 1]
    for cells, _ in runs:
        while cells > 1 and rest and cells % rest[0] == 0:
            cells //= rest.pop(0)
        if cells != 1:
            return True
    return False


def _steps(buffer: SSAValue) -> list[int] | None:
    """How many cells apart neighbours along each axis are; None: not known while compiling."""
    owner, shape = buffer.owner, d.shaped_type(buffer).shape
    if isinstance(owner, d.WindowOp):
        whole = _steps(owner.buffer)
        return None if whole is None else [step for axis, step in enumerate(whole) if axis not in owner.drop]
    if not all(isinstance(extent, int) for extent in shape):
        return None
    return [prod(extent for extent in shape[axis + 1 :] if isinstance(extent, int)) for axis in range(len(shape))]


def _is_run(window: d.WindowOp) -> bool:
    """Whether the cells of a window follow each other: only the first extent that is not 1 is cut."""
    whole = d.shaped_type(window.buffer).shape
    extents = [extent_of(size) for size in window.extents]
    first = next((axis for axis, extent in enumerate(extents) if extent != 1), len(extents))
    return all(own == extent and extent != ANY for own, extent in list(zip(whole, extents, strict=True))[first + 1 :])


def _with_other_ones(ctx: Context, window: SSAValue, sizes: Sequence[SSAValue]) -> SSAValue | None:
    """A window in which only axes of extent 1 come and go: still a window; None: other axes change."""
    type = d.buffer_type(window)
    own = [ctx.builder.dim(window, axis) for axis in range(type.rank)]
    kept = [axis for axis, extent in enumerate(type.shape) if extent != 1] or [0]
    places = [place for place, size in enumerate(sizes) if extent_of(size) != 1] or [0]
    if len(kept) != len(places) or not all(_is_extent(sizes[place], window, axis) for axis, place in zip(kept, places, strict=True)):
        return None
    gone = [axis for axis in range(type.rank) if axis not in kept]
    if gone:
        shape = tuple(type.shape[axis] for axis in kept)
        window = ctx.builder.window(window, [ctx.index(0)] * type.rank, own, BufferType(shape, type.dtype, type.layout), gone)
    return _with_ones(ctx, window, [sum(other < place for other in places) for place in range(len(sizes)) if place not in places])


def _is_extent(size: SSAValue, buffer: SSAValue, axis: int) -> bool:
    """Whether a size is the extent of an axis for certain."""
    owner = size.owner
    asked = isinstance(owner, d.DimOp) and owner.source is buffer and owner.axis == axis
    return asked or d.buffer_type(buffer).shape[axis] == extent_of(size) != ANY


def _with_ones(ctx: Context, buffer: SSAValue, before: Sequence[int]) -> SSAValue:
    """A buffer with an axis of extent 1 more before each of these: what a window is taken from gets it."""
    owner, type = buffer.owner, d.buffer_type(buffer)
    if not before:
        return buffer
    if isinstance(owner, d.PeerOp):
        return ctx.builder.peer(_with_ones(ctx, owner.buffer, before), owner.comm, owner.peer)
    if not isinstance(owner, d.WindowOp):
        return make_view(ctx, buffer, _inserted([ctx.builder.dim(buffer, axis) for axis in range(type.rank)], before, 1), type.dtype)
    axes = [axis for axis in range(len(owner.offsets)) if axis not in owner.drop]
    there = [axes[axis] if axis < len(axes) else len(owner.offsets) for axis in before]
    whole = _with_ones(ctx, owner.buffer, there)
    offsets, extents = _inserted(list(owner.offsets), there, ctx.index(0)), _inserted(list(owner.extents), there, ctx.index(1))
    drop = [axis + sum(place <= axis for place in there) for axis in owner.drop]
    window = ctx.builder.window(whole, offsets, extents, BufferType(tuple(_inserted(list(type.shape), before, 1)), type.dtype, type.layout), drop)
    if buffer in ctx.overhangs:
        ctx.overhangs[window] = ctx.overhangs[buffer]
    return window


def _inserted(items: list[_Item], before: Sequence[int], item: _Item) -> list[_Item]:
    for place in sorted(before, reverse=True):
        items.insert(place, item)
    return items


def _inferred_extents(ctx: Context, value: SSAValue, shape: Items) -> list[object]:
    """`shape` with a single -1 replaced by what is left, by the run where it must be: then the division is checked."""
    if all(static_integer(item) != -1 for item in shape):
        return list(shape)
    sizes = indices(ctx, shape, "an extent")
    left = left_over(d.shaped_type(value).shape, tuple(extent_of(size) for size in sizes))
    whole = _product(ctx, left.factor, [ctx.builder.dim(value, axis) for axis in left.axes])
    rest = _product(ctx, left.divisor, [sizes[place] for place in left.places])
    if left.is_exact:
        found = whole
    elif isinstance(whole, int) and isinstance(rest, int):
        found = whole // rest
    else:
        if left.places:
            ctx.builder.check(ctx.index(ctx.scalar_op("maximum", rest, 1)), ctx.index(rest), "the least product of extents beside -1, and theirs")
        found = ctx.scalar_op("floordiv", whole, rest)
        multiple = ctx.index(ctx.scalar_op("mul", found, rest))
        ctx.builder.check(ctx.index(whole), multiple, "the elements to reshape, and the largest multiple of the other extents")
    return [found if static_integer(item) == -1 else item for item in shape]


def _product(ctx: Context, factor: int, sizes: Sequence[SSAValue]) -> object:
    total: object = factor
    for size in sizes:
        total = size if total == 1 else ctx.scalar_op("mul", size, total)
    return total


def make_view(ctx: Context, buffer: SSAValue, extents: Items, dtype: DType, layout: str | None = None) -> SSAValue:
    """The whole buffer with another shape and dtype of the same size in bytes."""
    type = d.buffer_type(buffer)
    sizes = indices(ctx, extents, "an extent")
    shape = tuple(extent_of(size) for size in sizes)
    if any(isinstance(extent, int) and extent <= 0 for extent in shape):
        raise ShapeError(f"an extent must be positive, got {shape_text(shape)}")
    _same_size(ctx, buffer, type, sizes, shape, dtype)
    _not_negative(ctx, sizes)
    result = BufferType(shape, dtype, layout or type.layout)
    return ctx.builder.view(buffer, [size for size, extent in zip(sizes, shape, strict=True) if not isinstance(extent, int)], result)


def _same_size(ctx: Context, buffer: SSAValue, type: BufferType, sizes: Sequence[SSAValue], shape: tuple[Dim, ...], dtype: DType) -> None:
    own = sorted(str(extent) for extent in type.shape if isinstance(extent, str))
    new = sorted(str(extent) for extent in shape if isinstance(extent, str))
    own_bits = prod(extent for extent in type.shape if isinstance(extent, int)) * type.dtype.bits
    new_bits = prod(extent for extent in shape if isinstance(extent, int)) * dtype.bits
    if own == new and ANY not in own:
        if own_bits != new_bits:
            message = f"a reshape keeps the number of elements: {shape_text(type.shape)} and {shape_text(shape)} differ"
            raise ShapeError(message, help="check the product of the extents")
        return
    left: object = own_bits // 8
    right: object = new_bits // 8
    for axis, extent in enumerate(type.shape):
        if not isinstance(extent, int):
            left = ctx.scalar_op("mul", ctx.builder.dim(buffer, axis), left)
    for size, extent in zip(sizes, shape, strict=True):
        if not isinstance(extent, int):
            right = ctx.scalar_op("mul", size, right)
    ctx.builder.check(ctx.index(left), ctx.index(right), "the sizes in bytes before and after the reshape")


def _not_negative(ctx: Context, sizes: Sequence[SSAValue]) -> None:
    """Refuse negative extents of the run; beside constants the number of elements tells."""
    computed = [size for size in sizes if static_integer(size) is None]
    for size in computed if len(computed) > 1 else ():
        if not never_negative(size, ctx.counts):
            ctx.builder.check(ctx.index(ctx.scalar_op("maximum", size, 0)), size, "the least extent that a reshape takes, and this one")


def slice_buffer(ctx: Context, buffer: SSAValue, args: Mapping[str, object]) -> SSAValue:
    """`pl.slice` of a buffer: a window, or a snapshot where a valid region or clamping is asked for."""
    type = d.shaped_type(buffer)
    extents, offsets = per_dim(args["shape"], type, "shape"), per_dim(args["offset"], type, "offset")
    drop = _dropped(args["drop_dims"], extents)
    if args["valid_shape"] is None and not args["clamp"]:
        return make_window(ctx, buffer, offsets, extents, drop)
    shape = tuple(extent_of(ctx.index(item, "an extent")) for item in extents)
    if any(not isinstance(extent, int) or extent <= 0 for extent in shape):
        help = "keep the shape constant and narrow it with valid_shape"
        raise ShapeError(f"slice with a valid_shape or clamp takes a constant shape of positive extents, got {shape_text(shape)}", help=help)
    requested = extents if args["valid_shape"] is None else args["valid_shape"]
    value = window_value(ctx, buffer, offsets, shape, requested, bool(args["clamp"]), TENSOR_SPACE)
    if not drop:
        return value
    return reshape(ctx, value, [item for axis, item in enumerate(extents) if axis not in drop])


def _dropped(drop_dims: object, extents: Items) -> tuple[int, ...]:
    if drop_dims is None:
        return ()
    if not isinstance(drop_dims, tuple | list):
        raise ParserTypeError(f"`drop_dims` must be a list of axes, got {describe_value(drop_dims)}")
    out: list[int] = []
    for item in drop_dims:
        axis = static_integer(item)
        if axis is None or not -len(extents) <= axis < len(extents):
            raise ShapeError(f"`drop_dims` names axis {describe_value(item)} of {len(extents)}")
        if static_integer(extents[axis]) != 1:
            raise ShapeError(f"only axes of extent 1 can be dropped, axis {axis} has extent {describe_value(extents[axis])}")
        out.append(axis % len(extents))
    return tuple(sorted(out))


def view(ctx: Context, buffer: SSAValue, args: Mapping[str, object]) -> SSAValue:
    """`pl.tensor.view`."""
    type = d.shaped_type(buffer)
    if not isinstance(type, BufferType):
        raise ParserTypeError(f"pl.tensor.view works on tensors in global memory, got {type}", help="pl.reshape works on every value")
    layout = args["layout"]
    shape = args["shape"]
    items = [ctx.builder.dim(buffer, axis) for axis in range(type.rank)] if shape is None else _inferred_extents(ctx, buffer, _items(shape, "shape"))
    result = make_view(ctx, buffer, items, type.dtype, layout.value if isinstance(layout, TensorLayout) else None)
    return result if args["valid_shape"] is None else narrowed(ctx, result, _items(args["valid_shape"], "valid_shape"))


def _items(value: object, what: str) -> list[object]:
    if not isinstance(value, tuple | list):
        raise ParserTypeError(f"`{what}` must be a list, got {describe_value(value)}")
    return list(value)


def reinterpret(ctx: Context, buffer: SSAValue, dtype: object, shape: object) -> SSAValue:
    """The same bytes as another dtype; without a shape the last extent is rescaled."""
    if not isinstance(dtype, DType):
        raise DTypeError(f"reinterpret_view takes a data type, got {describe_value(dtype)}")
    type = d.shaped_type(buffer)
    if shape is not None:
        return make_view(ctx, buffer, _items(shape, "shape"), dtype)
    last = type.shape[-1]
    if isinstance(last, int) and (last * type.dtype.bits) % dtype.bits:
        raise ShapeError(f"rows of {type} are not a whole number of {dtype} elements", help="give the shape: shape=[…]")
    items: list[object] = [ctx.builder.dim(buffer, axis) for axis in range(type.rank)]
    if isinstance(last, int):
        items[-1] = last * type.dtype.bits // dtype.bits
    elif type.dtype.bits != dtype.bits:  # Rows that are no whole number of elements change the size, which is checked.
        items[-1] = ctx.scalar_op("floordiv", ctx.scalar_op("mul", items[-1], type.dtype.bits), dtype.bits)
    return make_view(ctx, buffer, items, dtype)
