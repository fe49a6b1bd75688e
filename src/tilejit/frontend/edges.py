"""Edges: loads whose window overhangs a tensor on any side, stores that keep to its inside, gathers past its ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from xdsl.ir import Block, SSAValue

from tilejit.errors import ArgumentError, DTypeError
from tilejit.frontend import buffers, windows
from tilejit.frontend.affine import never_negative
from tilejit.frontend.context import Context
from tilejit.frontend.values import describe_value, is_scalar, static_integer
from tilejit.ops import table
from tilejit.tile_ir import dialect as d
from tilejit.types.values import TENSOR_SPACE, ShapedType, TileType


def _least(ctx: Context, a: object, b: object, name: str = "minimum") -> object:
    """The smaller (or larger) of two integers, now where both are known."""
    first, second = static_integer(a), static_integer(b)
    if first is not None and second is not None:
        return min(first, second) if name == "minimum" else max(first, second)
    return ctx.scalar_op(name, a, b)


def _less(ctx: Context, a: object, b: object) -> object:
    first, second = static_integer(a), static_integer(b)
    if first is not None and second is not None:
        return first - second
    return a if second == 0 else ctx.scalar_op("sub", a, b)


def padded_load(ctx: Context, source: SSAValue, args: Mapping[str, object], shape: tuple[int, ...], space: str) -> SSAValue:
    """`pl.load(…, pad=value)`: what lies outside the tensor, on whichever side, is `value`."""
    type = d.shaped_type(source)
    pad = args["pad"]
    if args["valid_shape"] is not None or args["clamp"]:
        raise ArgumentError("pl.load takes `pad`, or `valid_shape` and `clamp`, not both", help="with pad= every element of the tile has a value")
    if not is_scalar(pad):
        raise ArgumentError(f"`pad` takes a number, got {describe_value(pad)}", help="for example pad=0.0")
    if isinstance(pad, float) and not type.dtype.is_float and not pad.is_integer():
        raise DTypeError(f"pad={pad!r} is no {type.dtype}", help="write an integer")
    starts: list[object] = []
    shifts: list[object] = []
    sizes: list[object] = []
    for axis, (offset, wanted) in enumerate(zip(windows.per_dim(args["offsets"], type, "offsets"), shape, strict=True)):
        extent = type.shape[axis] if isinstance(type.shape[axis], int) else ctx.builder.dim(source, axis)
        start = _least(ctx, _least(ctx, offset, 0, "maximum"), extent)
        shift = _least(ctx, _least(ctx, _less(ctx, start, offset), wanted), 0, "maximum")
        starts.append(start)
        shifts.append(shift)
        sizes.append(_least(ctx, _less(ctx, wanted, shift), _less(ctx, extent, start)))
    if all(static_integer(size) == wanted for size, wanted in zip(sizes, shape, strict=True)):
        return windows.window_value(ctx, source, starts, shape, None, False, space)
    # A tensor of its own takes the window where all of it is inside; else the value everywhere, then the part that is inside.
    room, corner = buffers.create(ctx, list(shape), type.dtype), [0] * len(shape)

    def at_the_edge() -> None:
        buffers.put(ctx, room, buffers.filled(ctx, list(shape), TileType(shape, type.dtype, shape, space), pad), corner, False)
        if not any(static_integer(size) == 0 for size in sizes):
            buffers.put(ctx, room, windows.window_value(ctx, source, starts, shape, sizes, False, space), shifts, False)

    fits = all(not isinstance(extent, int) or extent >= wanted for extent, wanted in zip(type.shape, shape, strict=True))
    if not fits or (condition := _all_inside(ctx, sizes, shape)) is None:
        at_the_edge()
    else:
        whole, edge = Block(), Block()
        with ctx.builder.at(whole):
            buffers.put(ctx, room, windows.window_value(ctx, source, starts, shape, list(shape), False, space), corner, False)
            ctx.builder.yield_([])
        with ctx.builder.at(edge):
            at_the_edge()
            ctx.builder.yield_([])
        ctx.builder.if_(condition, whole, edge, [])
    return windows.window_value(ctx, room, corner, shape, None, False, space)


def _all_inside(ctx: Context, sizes: Sequence[object], shape: Sequence[int]) -> SSAValue | None:
    """Whether a window lies in its tensor from end to end; None where that is known."""
    known = [static_integer(size) for size in sizes]
    if any(size not in (None, wanted) for size, wanted in zip(known, shape, strict=True)):
        return None
    pairs = [(size, wanted) for size, there, wanted in zip(sizes, known, shape, strict=True) if there is None]
    return reduce(lambda a, b: ctx.scalar_op("and_", a, b), [ctx.scalar_op("cmp", size, wanted) for size, wanted in pairs])


def inside(ctx: Context, value: SSAValue, buffer: SSAValue, offsets: Sequence[object]) -> tuple[SSAValue, list[object]]:
    """`pl.store(…, clamp=True)`: the part of a tile that falls inside the tensor, and where it goes."""
    type, own = d.shaped_type(buffer), d.shaped_type(value)
    lead = type.rank - own.rank
    if lead < 0:
        raise ArgumentError(f"pl.store with clamp takes a tile of at most the tensor's rank, got {own}", help="reshape the tile first")
    starts = [offset if never_negative(offset, ctx.counts) else _least(ctx, offset, 0, "maximum") for offset in offsets]
    for axis, (start, offset) in enumerate(zip(starts[:lead], offsets[:lead], strict=True)):
        if start is not offset:
            what = f"pl.store with clamp may start before the tensor in dims of the tile only, not in dim {axis}"
            raise ArgumentError(what, help="give the tile that dim, with extent 1")
    sizes: list[object] = []
    for axis in range(own.rank):
        offset, extent = starts[axis + lead], type.shape[axis + lead]
        room = _least(ctx, _less(ctx, extent if isinstance(extent, int) else ctx.builder.dim(buffer, axis + lead), offset), 0, "maximum")
        valid = own.valid[axis]
        before = _less(ctx, offset, offsets[axis + lead])
        left = _less(ctx, valid if isinstance(valid, int) else ctx.builder.valid(value, axis), before)
        sizes.append(_least(ctx, left if before == 0 else _least(ctx, left, 0, "maximum"), room))
    if starts != list(offsets):
        return _behind_the_start(ctx, value, sizes, [_less(ctx, start, offset) for start, offset in zip(starts[lead:], offsets[lead:], strict=True)]), starts
    if all(static_integer(size) == valid for size, valid in zip(sizes, own.valid, strict=True)):
        return value, starts
    shape = [ctx.builder.dim(value, axis) for axis in range(own.rank)]
    cut = {"input": value, "shape": shape, "offset": windows.indices(ctx, [0] * own.rank, "an offset"), "valid_shape": windows.indices(ctx, sizes, "an extent")}
    return ctx.builder.apply(table()["slice"], own.level, cut)[0], starts


def _behind_the_start(ctx: Context, value: SSAValue, sizes: Sequence[object], shifts: Sequence[object]) -> SSAValue:
    """The part of a tile from some place on, by way of a tensor of its own: places in tiles are known while compiling."""
    type = d.shaped_type(value)
    extents = [extent if isinstance(extent, int) else ctx.builder.dim(value, axis) for axis, extent in enumerate(type.shape)]
    room = buffers.create(ctx, extents, type.dtype)
    buffers.put(ctx, room, value, [0] * type.rank, False)
    places = [_least(ctx, shift, extent) for shift, extent in zip(shifts, extents, strict=True)]
    return windows.window_value(ctx, room, places, type.shape, list(sizes), False, type.space if isinstance(type, TileType) else TENSOR_SPACE)


def filled_gather(ctx: Context, args: Mapping[str, object]) -> SSAValue:
    """`pl.gather(x, dim, index, fill=value)`: an index outside the axis gives `value`."""
    source, index, fill, dim = args["input"], args["index"], args["fill"], args["dim"]
    if not isinstance(source, SSAValue) or not isinstance(index, SSAValue):
        raise ArgumentError("pl.gather takes `fill` with `dim` and `index`", help="pl.gather(x, 1, index, fill=0.0)")
    if not is_scalar(fill):
        raise ArgumentError(f"`fill` takes a number, got {describe_value(fill)}", help="for example fill=0.0")
    type: ShapedType = d.shaped_type(source)
    axis = static_integer(dim)
    extent = type.shape[axis] if axis is not None and -type.rank <= axis < type.rank else None

    def applied(name: str, **given: object) -> SSAValue:
        return ctx.builder.apply(table()[name], "tensor", given)[0]

    if not isinstance(extent, int):
        raise ArgumentError("pl.gather with `fill` needs an axis whose extent is known while compiling", help="annotate the extent, or check the indices")
    low, high = ctx.scalar(0), ctx.scalar(extent - 1)
    safe = applied("minimum", lhs=applied("maximum", lhs=index, rhs=low), rhs=high)
    found = applied("gather", input=source, dim=dim, index=safe)
    # An index that had to be moved was outside.
    there = applied("cmp", lhs=index, rhs=safe, cmp_type=0)
    return applied("where", condition=there, lhs=found, rhs=ctx.scalar(fill, type.dtype))
