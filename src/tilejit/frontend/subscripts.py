"""Subscripts: `x[i, a:b]` read and written, on tensors, tiles, shapes and compile-time containers."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilejit.dtypes import INT8
from tilejit.errors import OutOfBoundsError, ParserTypeError, ShapeError, TilejitWarning, UnsupportedFeatureError
from tilejit.frontend import accumulators, buffers, fold, steps, views, windows
from tilejit.frontend.affine import difference
from tilejit.frontend.context import Context
from tilejit.frontend.packed import unpacked
from tilejit.frontend.values import RunText, describe_value, extent_of, is_scalar, is_static, shaped, static_integer
from tilejit.ops import table
from tilejit.tile_ir import dialect as d
from tilejit.types.annotations import DynVar
from tilejit.types.values import ArrayType, BufferType, ShapedType, TileType, shape_text


@dataclass(frozen=True, slots=True)
class Window:
    """A resolved subscript: offset and extent per dim of the source, the dims that an integer index drops, steps, and the places of new axes."""

    offsets: tuple[object, ...]
    extents: tuple[object, ...]
    drop: tuple[int, ...]
    steps: tuple[int, ...]
    new: tuple[int, ...] = ()

    @property
    def element(self) -> bool:
        return len(self.drop) == len(self.offsets) and not self.new

    @property
    def plain(self) -> bool:
        """Whether it is a box as it lies in the source."""
        return not self.new and all(step == 1 for step in self.steps)

    @property
    def whole(self) -> bool:
        return not self.drop and all(static_integer(offset) == 0 for offset in self.offsets)


def extent(ctx: Context, value: SSAValue, axis: int) -> object:
    """The extent of an axis: an int when the type knows it, else a run-time scalar."""
    known = d.shaped_type(value).shape[axis]
    return known if isinstance(known, int) else ctx.builder.dim(value, axis)


def read(ctx: Context, node: ast.Subscript) -> object:
    """The value of `node`."""
    base_node = node.value
    members = base_node.elts if isinstance(base_node, ast.Tuple) and not any(isinstance(item, ast.Starred) for item in base_node.elts) else []
    place = node.slice.value if isinstance(node.slice, ast.Constant) else None
    if isinstance(place, int) and 0 <= place < len(members):
        return [ctx.evaluate(item) for item in members][place]  # what is not taken need not be a value: `(self.helper(out), 5)[1]`
    if isinstance(base_node, ast.Attribute) and base_node.attr == "shape":
        owner = ctx.value(base_node.value)
        if isinstance(owner, SSAValue) and shaped(owner) is not None:
            return _shape_item(ctx, owner, node)
        base = fold.attribute(owner, "shape", ast.unparse(base_node)) if not isinstance(owner, SSAValue) else ctx.value(base_node)
    else:
        base = ctx.value(base_node)
    if isinstance(base, SSAValue):
        if isinstance(d.type_of(base), ArrayType):
            return _array_element(ctx, base, node)
        return _window_read(ctx, base, node)
    return _static_item(ctx, base, node)


def _shape_item(ctx: Context, owner: SSAValue, node: ast.Subscript) -> object:
    """`x.shape[k]`, reading only the extent that is asked for."""
    rank = d.shaped_type(owner).rank
    axis = ctx.value(node.slice) if not isinstance(node.slice, ast.Slice) else None
    if axis is None:
        return _static_item(ctx, tuple(extent(ctx, owner, k) for k in range(rank)), node)
    position = static_integer(axis)
    if position is None:
        ctx.fail(ParserTypeError, f"an index into a shape must be a compile-time integer, got {describe_value(axis)}", node.slice)
    if not -rank <= position < rank:
        ctx.fail(ShapeError, f"shape[{position}] of a tensor with {rank} dimension{'s' * (rank != 1)}: {d.type_of(owner)}", node)
    return extent(ctx, owner, position % rank)


def _static_item(ctx: Context, base: object, node: ast.Subscript) -> object:
    if isinstance(base, RunText):
        raise fold.runtime_text(node)
    if isinstance(node.slice, ast.Slice):
        bounds = [None if part is None else ctx.value(part) for part in (node.slice.lower, node.slice.upper, node.slice.step)]
        key: object = slice(*bounds)
        constant = all(part is None or is_static(part) for part in bounds)
    else:
        key = ctx.value(node.slice)
        known = static_integer(key)
        key, constant = (known, True) if known is not None and isinstance(key, SSAValue) else (key, is_static(key))
    if not constant:
        what = "a tuple" if isinstance(base, tuple | list) else describe_value(base)
        ctx.fail(ParserTypeError, f"an index into {what} must be known while compiling", node.slice)
    if isinstance(base, tuple | list) and isinstance(key, int) and not -len(base) <= key < len(base):
        ctx.fail(ShapeError, f"index {key} into a tuple of {len(base)} items", node)
    return fold.guarded(node, _get_item, base, key)


def _get_item(base: object, key: object) -> object:
    return base[key]  # type: ignore[index]


def _array_element(ctx: Context, base: SSAValue, node: ast.Subscript) -> object:
    index = ctx.index(ctx.value(node.slice))
    return ctx.builder.apply(table()["array_get_element"], "array", {"array": base, "index": index})[0]


# windows --------------------------------------------------------------------------------------------------------------


def window(ctx: Context, source: SSAValue, node: ast.expr) -> Window:
    """The window that a subscript selects."""
    type = d.shaped_type(source)
    items, new = steps.aligned(ctx, type, node)
    offsets: list[object] = []
    extents: list[object] = []
    drop: list[int] = []
    apart = [1] * type.rank
    for axis, item in enumerate(items):
        if item is None:
            offsets.append(0)
            extents.append(extent(ctx, source, axis))
        elif isinstance(item, ast.Slice):
            apart[axis] = steps.step_of(ctx, item.step)
            offset, size = _range(ctx, source, axis, item, apart[axis] < 0)
            offsets.append(offset)
            extents.append(size)
        else:
            offsets.append(_point(ctx, source, axis, item))
            extents.append(1)
            drop.append(axis)
    return Window(tuple(offsets), tuple(extents), tuple(drop), tuple(apart), new)


def _bound(ctx: Context, source: SSAValue, axis: int, node: ast.expr) -> object:
    """An index as written; negative constants count from the end."""
    value = ctx.value(node)
    if isinstance(value, slice) or value is None or not (is_scalar(value) or isinstance(value, DynVar)):
        rows = "; for whole rows pl.gather(x, 0, pl.broadcast_to(i[:, None], [i.shape[0], x.shape[1]])), or a loop over x[i[n]]"
        help = "index with integers and slices" + rows * (shaped(value) is not None)
        ctx.fail(UnsupportedFeatureError, f"cannot index with {describe_value(value)}", node, help=help)
    known = static_integer(value)
    if known is None:
        return ctx.index(value)
    if known >= 0:
        return known
    size = extent(ctx, source, axis)
    if isinstance(size, int):
        return size + known
    return ctx.scalar_op("add", size, known)


def _point(ctx: Context, source: SSAValue, axis: int, node: ast.expr) -> object:
    value = _bound(ctx, source, axis, node)
    size = d.shaped_type(source).shape[axis]
    if isinstance(value, int) and (value < 0 or (isinstance(size, int) and value >= size)):
        ctx.fail(
            OutOfBoundsError,
            f"index {ast.unparse(node)} is outside dim {axis} of extent {size}",
            node,
            help=f"indices go from 0 to {size - 1}" if isinstance(size, int) else None,
        )
    return value


def _range(ctx: Context, source: SSAValue, axis: int, node: ast.Slice, backwards: bool = False) -> tuple[object, object]:
    """The box that a slice covers: its first element and its extent; a backward slice begins at its last element."""
    size = extent(ctx, source, axis)
    lower, upper = (node.upper, node.lower) if backwards else (node.lower, node.upper)
    start = _bound(ctx, source, axis, lower) if lower is not None else 0
    stop = _bound(ctx, source, axis, upper) if upper is not None else size
    if backwards:
        start, stop = (_after(ctx, bound) if given is not None else bound for bound, given in ((start, lower), (stop, upper)))
    length: object = difference(stop, start)
    if length is None:
        length = stop if start == 0 and isinstance(start, int) else ctx.scalar_op("sub", stop, start)
    if isinstance(start, int) and isinstance(size, int) and not 0 <= start <= size:
        ctx.fail(OutOfBoundsError, f"the slice starts at {start}, outside dim {axis} of extent {size}", node)
    if isinstance(stop, int) and isinstance(size, int) and stop > size:
        ctx.fail(
            OutOfBoundsError,
            f"the slice ends at {stop}, dim {axis} has extent {size}",
            node,
            help=f"the largest end is {size}; leave it out to take all the rest",
        )
    if isinstance(length, int) and length <= 0:
        ctx.fail(ShapeError, f"the slice {ast.unparse(node)} is empty", node, help="a slice takes at least one element where its ends are numbers: x[1:2]")
    return start, length


def _after(ctx: Context, bound: object) -> object:
    return bound + 1 if isinstance(bound, int) else ctx.scalar_op("add", bound, 1)


def _window_read(ctx: Context, source: SSAValue, node: ast.Subscript) -> object:
    if shaped(source) is None:
        ctx.fail(ParserTypeError, f"{d.type_of(source)} cannot be indexed", node)
    plain = unpacked(ctx, source)
    assert isinstance(plain, SSAValue)
    source, found = plain, window(ctx, plain, node.slice)
    if found.element:
        return buffers.read_element(ctx, source, found.offsets)
    if not found.plain:
        # All but the indices stay as they are until steps and new axes have their places.
        box = windows.part(ctx, source, found.offsets, found.extents, found.drop if len(found.drop) < len(found.offsets) else found.drop[:-1])
        kept = [step for axis, step in enumerate(found.steps) if axis not in found.drop]
        return steps.taken(ctx, box, kept or [1], found.new if len(found.drop) < len(found.offsets) else found.new[:-1])
    if found.whole and all(same is not None and same == 0 for same in (_covers(ctx, source, axis, found) for axis in range(len(found.offsets)))):
        return source
    type = d.shaped_type(source)
    if isinstance(type, BufferType):
        return windows.make_window(ctx, source, found.offsets, found.extents, found.drop)
    if type.level == "tile" and type.rank >= 2 and len(found.offsets) - len(found.drop) == 1:
        return _row_tile(ctx, source, found, node)
    part = windows.slice_value(ctx, source, found.offsets, found.extents, found.drop)
    accumulators.note_part(ctx, source, part, node, found.offsets)
    return part


_WARNED: dict[str | tuple[str, type[Warning], int], int] = {}


def _row_tile(ctx: Context, source: SSAValue, found: Window, node: ast.Subscript) -> SSAValue:
    """Tiles stay 2-D: [N] is promoted to [1, N], with a warning."""
    span = ctx.span(node)
    message = f"`{ast.unparse(node)}` is a tile with one row: a tile has at least two dimensions"
    warnings.warn_explicit(message, TilejitWarning, span.filename, span.line, registry=_WARNED)
    rank = len(found.offsets)
    if rank - 1 not in found.drop:
        return windows.slice_value(ctx, source, found.offsets, found.extents, found.drop[:-1])
    column = windows.slice_value(ctx, source, found.offsets, found.extents, found.drop)
    return views.reshape(ctx, column, [1, *(size for axis, size in enumerate(found.extents) if axis not in found.drop)])


def _covers(ctx: Context, source: SSAValue, axis: int, found: Window) -> int | None:
    size = d.shaped_type(source).shape[axis]
    if isinstance(size, int):
        known = static_integer(found.extents[axis])
        return None if known is None else size - known
    return 0 if size != "?" and extent_of(found.extents[axis]) == size else None


# writes ---------------------------------------------------------------------------------------------------------------


def write(ctx: Context, target: ast.Subscript, value: object) -> None:
    """`target = value` for a subscript target."""
    base, value = ctx.value(target.value), unpacked(ctx, value)
    if isinstance(target.value, ast.Subscript) and not isinstance(shaped(base), BufferType):
        refusal = UnsupportedFeatureError("a chained subscript cannot be written", span=ctx.span(target), help="write t[i, j] = v")
        raise ctx.aliases.needs_memory(base, refusal) if isinstance(base, SSAValue) else refusal
    if ctx.strict_ssa:
        ctx.fail(UnsupportedFeatureError, "strict_ssa forbids subscript writes", target, help="use pl.assemble or pl.store and bind the result")
    if isinstance(base, SSAValue) and isinstance(d.type_of(base), ArrayType):
        index = ctx.index(ctx.value(target.slice))
        new = ctx.builder.apply(table()["array_update_element"], "array", {"array": base, "index": index, "value": ctx.scalar(value, d.type_of(base).dtype)})[0]
        _rebind(ctx, target, new)
        return
    if not isinstance(base, SSAValue) or shaped(base) is None:
        ctx.fail(ParserTypeError, f"{describe_value(base)} cannot be written to: only tensors and tiles can", target)
    found = window(ctx, base, target.slice)
    if found.new:
        ctx.fail(UnsupportedFeatureError, "`None` has no place in a target", target, help="leave it out: the value needs no such axis")
    if found.element:
        if shaped(value) is not None:
            ctx.fail(
                ParserTypeError, f"one element of {d.type_of(base)} takes a scalar, got {describe_value(value)}", target, help="slice the target: t[i:i+1, :]"
            )
        new = buffers.write_element(ctx, base, found.offsets, value)
    else:
        new = _write_window(ctx, base, found, value, target)
    if new is not base:
        ctx.aliases.changed(base, new)
        _rebind(ctx, target, new)


def _rebind(ctx: Context, target: ast.Subscript, new: SSAValue) -> None:
    if not isinstance(target.value, ast.Name):
        ctx.fail(UnsupportedFeatureError, "a write into a tile needs its name", target, help="bind the tile to a name first")
    ctx.bind(target.value.id, new, target)


def _write_window(ctx: Context, base: SSAValue, found: Window, value: object, target: ast.Subscript) -> SSAValue:
    type = d.shaped_type(base)
    if not found.plain:
        return _write_steps(ctx, base, found, value, target)
    if is_scalar(value):
        value = buffers.filled(ctx, [found.extents[axis] for axis in range(type.rank)], type, value)
        source: SSAValue = value
    elif isinstance(value, SSAValue) and shaped(value) is not None:
        source = _fit_source(ctx, base, found, value, target)
    else:
        ctx.fail(ParserTypeError, f"{describe_value(value)} cannot be written into {type}", target)
    return buffers.assemble(ctx, base, source, found.offsets)


def _write_steps(ctx: Context, base: SSAValue, found: Window, value: object, target: ast.Subscript) -> SSAValue:
    """`t[a:b:s] = value`: one element of the value for every step of the box."""
    type = d.shaped_type(base)
    counts: list[object] = []
    for size, step in zip(found.extents, found.steps, strict=True):
        known = static_integer(size)
        if known is None and abs(step) != 1:
            help = "write the elements in a loop: pl.range(start, stop, step)"
            ctx.fail(UnsupportedFeatureError, "a slice with a step must have a known length where it is written to", target, help=help)
        counts.append(size if known is None else -(-known // abs(step)))
    taken = Window(found.offsets, tuple(counts), found.drop, (1,) * type.rank)
    if is_scalar(value):
        source = buffers.filled(ctx, counts, type, value)
    elif isinstance(value, SSAValue) and shaped(value) is not None:
        source = views.reshape(ctx, _fit_source(ctx, base, taken, value, target), counts)
    else:
        ctx.fail(ParserTypeError, f"{describe_value(value)} cannot be written into {type}", target)
    ends = [
        offset if step > 0 else _last_taken(ctx, offset, size, step) for offset, size, step in zip(found.offsets, found.extents, found.steps, strict=True)
    ]
    return steps.put(ctx, base, ends, counts, found.steps, source, target)


def _last_taken(ctx: Context, offset: object, size: object, step: int) -> object:
    """Where a backward slice ends: as many steps before its last element as fit."""
    known, spare = static_integer(size), 0
    if known is not None:
        spare = (known - 1) % -step
    if isinstance(offset, int):
        return offset + spare
    return ctx.scalar_op("add", offset, spare) if spare else offset


def _fit_source(ctx: Context, base: SSAValue, found: Window, source: SSAValue, target: ast.Subscript) -> SSAValue:
    """`source` with the rank of the window and its extents, which it may be repeated to have."""
    type, own = d.shaped_type(base), d.shaped_type(source)
    if isinstance(type, TileType) and type.level == "tile" and own.level != "tile":
        ctx.fail(ParserTypeError, f"a tile takes a tile, got {own}", target, help="bring it into a tile with pl.load first")
    kept = [axis for axis in range(type.rank) if axis not in found.drop]
    axes = list(range(type.rank)) if own.rank == type.rank else kept
    wanted = [found.extents[axis] for axis in axes]
    if own.rank > len(axes):
        ctx.fail(ParserTypeError, f"the window has {len(axes)} dimensions, the value {own.rank}: {own}", target, help="reshape the value first: pl.reshape")
    repeated = len(axes) - own.rank + sum(got == 1 and static_integer(extent) != 1 for got, extent in zip(own.shape[::-1], wanted[::-1], strict=False))
    fits = [
        True if repeated and own.shape[position] == 1 else _extent_fits(ctx, extent, source, position, axis)
        for position, (extent, axis) in enumerate(list(zip(wanted, axes, strict=True))[len(axes) - own.rank :])
    ]
    if None in fits or (repeated and (own.level == "tile" or not all(fits))):
        shown = shape_text(tuple(extent_of(extent) for extent in wanted))
        message = f"the window {shown} does not take a value of shape {shape_text(own.shape)}"
        help = f"repeat it first: pl.broadcast_to(value, {shown})" if all(fits) else "make both the same size, or the valid region of the value"
        ctx.fail(ParserTypeError, message, target, help=help, where=_types(target, type, own))
    if repeated:  # as in NumPy: along axes that it lacks, or that have one element
        shape = buffers.filled(ctx, wanted, BufferType((), INT8), 0)
        source = ctx.builder.apply(table()["expand_clone"], "tensor", {"src": source, "target": shape})[0]
    in_memory = isinstance(type, BufferType)
    reshaped = len(axes) < type.rank and not (in_memory and kept == list(range(type.rank - len(kept), type.rank)))
    if not all(fits) and (reshaped or not in_memory):
        source = windows.slice_value(ctx, source, [0] * own.rank, wanted)
    if reshaped:
        return views.reshape(ctx, source, [found.extents[axis] for axis in range(type.rank)])
    return source


def _extent_fits(ctx: Context, wanted: object, source: SSAValue, position: int, axis: int) -> bool | None:
    """Whether a value has the extent of a window (checked at run time if need be); False: only its valid region does; None: neither."""
    own = d.shaped_type(source)
    got, valid, known = own.shape[position], own.valid[position], static_integer(wanted)
    what = f"extent {axis} of the window and extent {position} of the value written"
    if known is not None and isinstance(got, int):
        if known == got:
            return True
        if known > got or (isinstance(valid, int) and valid != known):
            return None
    elif extent_of(wanted) != "?" and extent_of(wanted) == got:
        return True
    elif valid == got:
        ctx.builder.check(ctx.index(wanted), ctx.builder.dim(source, position), what)
        return True
    if valid != known:  # A valid region that only the run knows may be smaller than the window, not larger.
        ctx.builder.check(ctx.index(wanted), ctx.scalar_op("maximum", ctx.builder.valid(source, position), wanted), what)
    return False


def _types(target: ast.Subscript, type: ShapedType, own: ShapedType) -> list[str]:
    return [f"{ast.unparse(target.value)}: {type}", f"value: {own}"]
