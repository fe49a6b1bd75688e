"""Windows of buffers and values: sub-boxes and snapshots, with everything provable checked."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tilejit.errors import OutOfBoundsError, ParserTypeError, ShapeError
from tilejit.frontend.affine import extremes
from tilejit.frontend.context import Context
from tilejit.frontend.values import describe_value, extent_of, static_integer
from tilejit.ops import table
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ANY, TENSOR_SPACE, BufferType, Dim, ShapedType, TileType

Items = Sequence[object]
"""Offsets or extents: ints and run-time scalars."""


def indices(ctx: Context, items: Items, what: str) -> list[SSAValue]:
    return [ctx.index(item, what) for item in items]


def per_dim(items: object, type: ShapedType, what: str) -> list[object]:
    """`items` as a list with one entry per dimension of `type`."""
    out = list(items) if isinstance(items, tuple | list) else None
    if out is None:
        raise ParserTypeError(f"`{what}` must be a list, got {describe_value(items)}", help=f"write {what}=[…], one entry per dimension")
    if len(out) != type.rank:
        message = f"`{what}` has {len(out)} entr{'y' if len(out) == 1 else 'ies'}, the tensor has {type.rank} dimension{'s' * (type.rank != 1)}: {type}"
        raise ShapeError(message, help="give one entry per dimension")
    return out


def static_extents(items: Items, what: str) -> tuple[int, ...]:
    """Extents of a tile: constants of at least one."""
    out: list[int] = []
    for item in items:
        known = static_integer(item)
        if known is None:
            raise ShapeError(
                f"the extents of a tile must be known while compiling, `{what}` has {describe_value(item)}",
                help="use a constant extent and narrow it with valid_shape=[…]",
            )
        if known <= 0:
            raise ShapeError(f"an extent of a tile must be positive, got {known}")
        out.append(known)
    return tuple(out)


LOAD_HELP = "shrink the window, or pass valid_shape=[…] or clamp=True"
START_HELP = "start inside the tensor: clamp=True cuts only the far end"


def check_window(ctx: Context, type: ShapedType, offsets: Items, sizes: Items, what: str, help: str | None = None, clamp: bool = False) -> None:
    """Refuse a window that lies outside `type` for certain, in the worst round of the loops around it; `clamp`: its far end may."""
    for axis, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
        length, extent = static_integer(size), type.shape[axis]
        if length is not None and length < 0:
            raise ShapeError(f"{what} has the negative extent {length} in dim {axis}", help="an extent is 0 or more")
        reach = extremes(offset, ctx.rounds if ctx.certain else {})
        if reach is not None and reach[0].value < 0:
            raise OutOfBoundsError(f"{what} starts at {reach[0].value} in dim {axis}", help=START_HELP if help is LOAD_HELP else help, note=reach[0].when)
        start = reach[1].value if reach is not None else 0
        if isinstance(extent, int) and not clamp and start + (length or 0) > extent:
            needs = f"{start if reach is not None else '…'} + {length if length is not None else '…'}"
            note = reach[1].when if reach is not None else None
            raise OutOfBoundsError(f"{what} reaches {needs} in dim {axis}, the tensor has extent {extent}", help=help, note=note)


# windows and views ----------------------------------------------------------------------------------------------------


def make_window(ctx: Context, buffer: SSAValue, offsets: Items, extents: Items, drop: Sequence[int] = ()) -> SSAValue:
    """A view of a sub-box of a buffer."""
    buffer, offsets = behind(ctx, buffer, offsets, extents)
    type = d.buffer_type(buffer)
    help = "start earlier, shrink it, or pass clamp=True to pl.slice"
    check_window(ctx, type, offsets, extents, "the window", help, clamp=True)
    beyond = None
    try:
        check_window(ctx, type, offsets, extents, "the window", help)
    except OutOfBoundsError as error:
        beyond = ctx.builder.misuse(error, {})
    starts, sizes = indices(ctx, offsets, "an offset"), indices(ctx, extents, "an extent")
    shape = tuple(extent_of(size) for axis, size in enumerate(sizes) if axis not in drop)
    window = ctx.builder.window(buffer, starts, sizes, BufferType(shape, type.dtype, type.layout), drop)
    if not drop and not _is_inside(ctx, type, offsets, sizes):
        ctx.overhangs[window] = beyond
    elif beyond is not None:
        raise beyond
    return window


def _is_inside(ctx: Context, type: BufferType, offsets: Items, sizes: Items) -> bool:
    """Whether a window lies inside for certain."""
    return all(_fits(ctx, offset, size, extent) for offset, size, extent in zip(offsets, sizes, type.shape, strict=True))


def _fits(ctx: Context, offset: object, size: object, extent: Dim) -> bool:
    if static_integer(offset) == 0 and extent != ANY and (extent_of(size) if isinstance(size, SSAValue) else size) == extent:
        return True
    reach, length = extremes(offset, ctx.rounds), static_integer(size)
    return reach is not None and length is not None and isinstance(extent, int) and reach[0].value >= 0 and reach[1].value + length <= extent


def behind(ctx: Context, buffer: SSAValue, offsets: Items, sizes: Items) -> tuple[SSAValue, Items]:
    """What lies behind a window that may overhang: its tensor, and the offsets there. A part that is inside may be read, whatever the window is."""
    while buffer in ctx.overhangs:
        window, type = buffer.owner, d.buffer_type(buffer)
        assert isinstance(window, d.WindowOp)
        for offset, size, extent in zip(offsets, sizes, type.shape, strict=True):
            if _fits(ctx, offset, size, extent):
                continue
            length = static_integer(size)
            if ctx.overhangs[buffer] is None or length is None or not isinstance(extent, int) or extremes(offset, ctx.rounds) is not None:
                return buffer, offsets
            nearest = ctx.scalar_op("maximum", ctx.scalar_op("minimum", offset, extent - length), 0)
            ctx.builder.check(ctx.index(offset), ctx.index(nearest), "the place in a window, and the nearest one inside it")
        ctx.seen_through.add(buffer)
        buffer, offsets = window.buffer, [moved(ctx, start, offset) for start, offset in zip(window.offsets, offsets, strict=True)]
    return buffer, offsets


def moved(ctx: Context, start: object, offset: object) -> object:
    """An offset in a window as one in its tensor, where the window begins at `start`."""
    known, more = static_integer(start), static_integer(offset)
    if known is not None and more is not None:
        return known + more
    return start if more == 0 else ctx.scalar_op("add", start, offset)


def slice_value(ctx: Context, value: SSAValue, offsets: Items, extents: Items, drop: Sequence[int] = ()) -> SSAValue:
    """A sub-box of a tile or tensor value."""
    type = d.shaped_type(value)
    args = {"input": value, "shape": indices(ctx, extents, "an extent"), "offset": indices(ctx, offsets, "an offset"), "drop_dims": tuple(drop) or None}
    return ctx.builder.apply(table()["slice"], type.level, args)[0]


def part(ctx: Context, source: SSAValue, offsets: Items, extents: Items, drop: Sequence[int] = ()) -> SSAValue:
    """A sub-box of a buffer, a tile or a tensor value."""
    cut = make_window if isinstance(d.shaped_type(source), BufferType) else slice_value
    return cut(ctx, source, offsets, extents, drop)


def window_value(ctx: Context, buffer: SSAValue, offset_items: object, shape: tuple[Dim, ...], valid_items: object, clamp: bool, space: str) -> SSAValue:
    """A snapshot of the window at the offsets: only `valid` cells are read."""
    type = d.shaped_type(buffer)
    offsets: Items = per_dim(offset_items, type, "offsets")
    requested = list(shape) if valid_items is None else per_dim(valid_items, type, "valid_shape")
    buffer, offsets = behind(ctx, buffer, offsets, [extent if static_integer(item) is None else item for item, extent in zip(requested, shape, strict=True)])
    type = d.shaped_type(buffer)
    for axis, (item, extent) in enumerate(zip(requested, shape, strict=True)):
        known = static_integer(item)
        if known is not None and isinstance(extent, int) and known > extent:
            raise ShapeError(f"valid_shape is {known} in dim {axis}, the tile has extent {extent}", help="a valid region lies inside the tile")
    # clamping shrinks a window at its far end; where it starts is never changed
    check_window(ctx, type, offsets, requested, "the load", LOAD_HELP if not clamp else START_HELP, clamp)
    starts = indices(ctx, offsets, "an offset")
    sizes = [ctx.builder.dim(buffer, axis) if isinstance(item, str) else ctx.index(item, "valid_shape") for axis, item in enumerate(requested)]
    valid: list[Dim] = []
    for axis, (offset, item) in enumerate(zip(offsets, requested, strict=True)):
        start, wanted, extent = static_integer(offset), static_integer(item), type.shape[axis]
        if wanted is None or (clamp and (start is None or not isinstance(extent, int))):
            valid.append(shape[axis] if item is shape[axis] and not clamp else ANY)
        else:
            assert start is not None or not clamp
            valid.append(max(0, min(wanted, int(extent) - (start or 0))) if clamp else wanted)
    return ctx.builder.load(buffer, starts, sizes, TileType(shape, type.dtype, tuple(valid), space), clamp)


def narrowed(ctx: Context, buffer: SSAValue, valid: Items) -> SSAValue:
    """A snapshot of a buffer with a smaller valid region."""
    type = d.shaped_type(buffer)
    return window_value(ctx, buffer, [0] * type.rank, type.shape, list(valid), False, TENSOR_SPACE)
