"""Subscripts beyond boxes: `...`, `None`, and slices with a step, which are other shapes and every so-manieth element of a box."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from xdsl.ir import SSAValue

from tilejit.errors import ShapeError, UnsupportedFeatureError
from tilejit.frontend import buffers, views, windows
from tilejit.frontend.context import Context
from tilejit.frontend.values import describe_value, static_integer
from tilejit.ops import table
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ShapedType

_MOST_WRITES = 256
"""Elements along an axis that a step writes one after the other, where the axis is no multiple of the step."""


def aligned(ctx: Context, type: ShapedType, node: ast.expr) -> tuple[list[ast.expr | None], tuple[int, ...]]:
    """One index per axis (None: all of it), and the places in the result of the axes that `None` adds."""
    items = node.elts if isinstance(node, ast.Tuple) else [node]
    dots = [place for place, item in enumerate(items) if isinstance(item, ast.Constant) and item.value is ...]
    if len(dots) > 1:
        ctx.fail(ShapeError, "a subscript has one `...`", items[dots[1]], help="write `:` for the other axes")
    real = [item for item in items if not _is_new(item) and not (isinstance(item, ast.Constant) and item.value is ...)]
    if len(real) > type.rank:
        ctx.fail(ShapeError, f"{len(real)} indices for {type}", node, help=f"give at most {type.rank}; missing ones mean `:`")
    missing: list[ast.expr | None] = [None] * (type.rank - len(real))
    at = dots[0] if dots else len(items)
    before = [item for item in items[:at] if not _is_new(item)]
    axes = [*before, *missing, *real[len(before) :]]
    places: list[int] = []
    kept = 0
    for item in (*items[:at], *missing, *items[at + 1 :]):
        if item is not None and _is_new(item):
            places.append(kept)
        kept += item is None or _is_new(item) or isinstance(item, ast.Slice)
    return axes, tuple(places)


def _is_new(item: ast.expr) -> bool:
    return isinstance(item, ast.Constant) and item.value is None


def step_of(ctx: Context, node: ast.expr | None) -> int:
    """The step of a slice, which is part of the type of the result."""
    if node is None:
        return 1
    value = ctx.value(node)
    step = static_integer(value)
    if step is None:
        message = f"the step of a slice must be known while compiling, got {describe_value(value)}"
        ctx.fail(UnsupportedFeatureError, message, node, help="loop over it with pl.range(start, stop, step)")
    if step == 0:
        ctx.fail(ShapeError, "the step of a slice is 0", node, help="1 takes every element, -1 in reverse")
    return step


def taken(ctx: Context, box: SSAValue, steps: Sequence[int], new: Sequence[int]) -> SSAValue:
    """A box with every so-manieth of its elements, and with the axes that `None` adds."""
    if any(step != 1 for step in steps):
        level = d.shaped_type(box).level
        ctx.needs_execution("a slice with a step", level)
        box = ctx.builder.apply(table()["every"], level, {"input": box, "steps": tuple(steps)})[0]
    if not new:
        return box
    shape: list[object] = [ctx.builder.dim(box, axis) for axis in range(d.shaped_type(box).rank)]
    for place in new:
        shape.insert(place, 1)
    return views.reshape(ctx, box, shape)


def put(ctx: Context, base: SSAValue, offsets: Sequence[object], counts: Sequence[object], steps: Sequence[int], source: SSAValue, node: ast.AST) -> SSAValue:
    """`base[a:b:s] = source`: the source has the rank of the base. Axes that are a multiple of their step fall into rows of so many elements."""
    gaps = views.has_gaps(base)
    if gaps and isinstance(base.owner, d.WindowOp):
        _put_behind(ctx, base.owner, offsets, counts, steps, source, node)
        return base
    if any(step < 0 for step in steps):
        turn = tuple(-1 if step < 0 else 1 for step in steps)
        level = d.shaped_type(source).level
        source = ctx.builder.apply(table()["every"], level, {"input": source, "steps": turn})[0]
    shape = d.shaped_type(base).shape
    starts = [static_integer(offset) for offset in offsets]
    for axis, (extent, start, step) in enumerate(zip(shape, starts, steps, strict=True)):
        if abs(step) != 1 and (not isinstance(extent, int) or start is None or extent % abs(step) or gaps):
            return _one_by_one(ctx, base, offsets, counts, steps, source, axis, node)
    split: list[object] = []
    places: list[object] = []
    sizes: list[object] = []
    for axis, (extent, offset, count, step) in enumerate(zip(shape, offsets, counts, steps, strict=True)):
        start, apart = starts[axis], abs(step)
        if apart == 1 or not isinstance(extent, int) or start is None:
            split.append(ctx.builder.dim(base, axis))
            places.append(offset)
            sizes.append(count)
        else:
            split += [extent // apart, apart]
            places += [start // apart, start % apart]
            sizes += [count, 1]
    rows = views.reshape(ctx, base, split)
    new = buffers.assemble(ctx, rows, views.reshape(ctx, source, sizes), places)
    return base if new is rows else views.reshape(ctx, new, [ctx.builder.dim(base, axis) for axis in range(len(shape))])


def _put_behind(
    ctx: Context, window: d.WindowOp, offsets: Sequence[object], counts: Sequence[object], steps: Sequence[int], source: SSAValue, node: ast.AST
) -> None:
    """The same in the tensor that a window is a part of: axes of that can be split."""
    places, sizes, apart = list(offsets), list(counts), list(steps)
    for axis in window.drop:
        places.insert(axis, 0)
        sizes.insert(axis, 1)
        apart.insert(axis, 1)
    starts = [windows.moved(ctx, start, offset) for start, offset in zip(window.offsets, places, strict=True)]
    put(ctx, window.buffer, starts, sizes, apart, views.reshape(ctx, source, sizes), node)


def _one_by_one(
    ctx: Context, base: SSAValue, offsets: Sequence[object], counts: Sequence[object], steps: Sequence[int], source: SSAValue, axis: int, node: ast.AST
) -> SSAValue:
    """The parts of the source along one axis, each written where it belongs."""
    count, apart = static_integer(counts[axis]), abs(steps[axis])
    if count is None or count > _MOST_WRITES:
        help = "let the step divide the extent of the axis, or write the elements in a loop"
        ctx.fail(UnsupportedFeatureError, f"cannot write with a step of {apart} along an axis that is no multiple of it", node, help=help)
    rank, others = len(steps), [1 if place == axis else abs(step) for place, step in enumerate(steps)]
    for index in range(count):
        cut: list[object] = [0] * rank
        sizes = [*counts[:axis], 1, *counts[axis + 1 :]]
        cut[axis] = index
        part = windows.slice_value(ctx, source, cut, sizes)
        start = static_integer(offsets[axis])
        place = start + index * apart if start is not None else ctx.scalar_op("add", offsets[axis], index * apart)
        base = put(ctx, base, [*offsets[:axis], place, *offsets[axis + 1 :]], sizes, others, part, node)
    return base
