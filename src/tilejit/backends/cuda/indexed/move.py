"""Rules that rearrange cells. Each says which cell of its source a cell of the result is; sources are read from memory, register tiles go through scratch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from tilejit.backends.cuda.products import chunks
from tilejit.backends.cuda.program import memory
from tilejit.backends.cuda.program.body import Body, block_shape
from tilejit.backends.cuda.program.masks import as_bytes
from tilejit.backends.cuda.program.rows import result_dtype
from tilejit.backends.cuda.text import elementwise, numbers
from tilejit.backends.cuda.text.types import padded, register
from tilejit.backends.cuda.text.values import Buffer, Scalar, Tile, Value, index
from tilejit.dtypes import DType
from tilejit.ops.pad import pad_cell
from tilejit.ops.reshaping import Scaled, moved_region
from tilejit.ops.shapes import steps_of
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.tile_ir.build import apply_args
from tilejit.types.enums import AtomicType


@dataclass(frozen=True)
class Cells:
    """The cells of a result that are computed at once: per dim of the result the text of their index, spread over the block."""

    at: tuple[str, ...]
    block: tuple[int, ...]
    where: str | None
    """Which cells of the block exist."""


def whole_tile(body: Body, shape: Sequence[int]) -> Cells:
    """All cells of a tile of a constant shape."""
    at = tuple(memory.spread(body.out.arange(padded(extent)), axis, len(shape)) for axis, extent in enumerate(shape))
    where = memory.mask(body.out, shape, tuple(index(extent) for extent in shape))
    return Cells(at, tuple(padded(extent) for extent in shape), where)


def fetch(body: Body, source: Buffer, at: Sequence[str], cells: Cells, where: str | None = None) -> str:
    """Cells of a buffer at computed places."""
    body.order.before_load(body.out, source.root)
    text = source.start
    for place, dim in zip(at, source.dims, strict=True):
        if place == "0" or dim.extent.const == 1:
            continue
        text += f" + {place}" if dim.stride.const == 1 else f" + ({place}) * {dim.stride.text}"
    mask = where if where is not None else cells.where
    if source.good is not None:
        mask = f"({mask}) & {source.good}" if mask is not None else source.good
    text = f"tl.broadcast_to({text}, {block_text(cells.block)})"
    return memory.load_text(body.out, text, None if mask is None else f"tl.broadcast_to({mask}, {block_text(cells.block)})", source.dtype)


def block_text(block: Sequence[int]) -> str:
    return f"({', '.join(map(str, block))},)"


def shape_of(op: d.ApplyOp, number: int = 0) -> tuple[int, ...]:
    type = d.shaped_type(op.results[number])
    shape = tuple(extent for extent in type.shape if isinstance(extent, int))
    assert len(shape) == len(type.shape), op
    return shape


def valid_of_source(body: Body, value: SSAValue) -> tuple[Scalar, ...]:
    found = body[value]
    if isinstance(found, Tile):
        return as_bytes(body, found).valid
    assert isinstance(found, Buffer)
    return found.shape


def scalars(body: Body, found: object) -> list[Scalar]:
    assert isinstance(found, list)
    return [body.index(value_of(item)) for item in found]  # pyright: ignore[reportUnknownVariableType]


# axes -------------------------------------------------------------------------------------------------------------------


def transpose(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    args, rank = apply_args(op), d.shaped_type(op.args[0]).rank
    first, second = (int(str(args.get(name, default))) % rank for name, default in (("axis1", -1), ("axis2", -2)))
    axes = list(range(rank))
    axes[first], axes[second] = second, first
    if isinstance(there := body[op.args[0]], Buffer) and chunks.stays_in_memory(body, op):
        return [replace(there, dims=tuple(there.dims[axis] for axis in axes))]
    source = as_bytes(body, body.tile(op.args[0]))
    text = f"tl.trans({source.text})" if source.rank == 2 else f"tl.permute({source.text}, {tuple(axes)})"
    return [Tile(text, source.dtype, tuple(source.shape[axis] for axis in axes), tuple(source.valid[axis] for axis in axes), source.zeros)]


def move(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    there = body[op.args[0]]
    return [there if isinstance(there, Buffer) and chunks.stays_in_memory(body, op) else body.tile(op.args[0])]


def padding(pad_value: object, dtype: DType) -> Scalar:
    """The constant that fills cells outside a valid region."""
    return Scalar("", dtype, None, pad_cell(pad_value, dtype))  # type: ignore[arg-type]


def fillpad_expand(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    shape, valid = shape_of(op), valid_of_source(body, op.args[0])
    source, cells = body.in_memory(op.args[0]), whole_tile(body, shape)
    cell = padding(apply_args(op).get("pad_value"), source.dtype)
    inside = " & ".join(f"({at} < {size.text})" for at, size in zip(cells.at, valid, strict=True))
    inside = body.out.let("inside", f"tl.broadcast_to({inside}, {block_text(cells.block)})")
    text = f"tl.where({inside}, {fetch(body, source, cells.at, cells, inside)}, {body.text(cell)})"
    return [Tile(text, source.dtype, shape, tuple(index(extent) for extent in shape))]


# windows ----------------------------------------------------------------------------------------------------------------


def slice_(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    args = apply_args(op)
    offset, window = scalars(body, args["offset"]), scalars(body, args["shape"])
    requested = scalars(body, args["valid_shape"]) if isinstance(args.get("valid_shape"), list) else window
    drop = op.statics.get("drop_dims") or ()
    dropped = {int(str(axis)) % len(window) for axis in drop}
    return [_window(body, op, op.args[0], offset, window, requested, dropped, bool(args.get("clamp")), args.get("pad_value"))]


def stepped(at: Sequence[str], shape: Sequence[Scalar], steps: Sequence[int]) -> list[str]:
    """Where the elements of a result lie that are `steps` apart: a negative step goes from the last one back."""
    return [
        place if step == 1 else f"({place} * {step})" if step > 0 else f"({extent.text} - 1 - {place} * {-step})"
        for place, extent, step in zip(at, shape, steps, strict=True)
    ]


def every(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    steps = steps_of(apply_args(op)["steps"], d.shaped_type(op.results[0]).rank)
    there, source, cells = valid_of_source(body, op.args[0]), body.in_memory(op.args[0]), whole_tile(body, shape_of(op))
    valid = tuple(
        size if abs(step) == 1 else numbers.quotient(numbers.add(size, index(abs(step) - 1)), index(abs(step))) for size, step in zip(there, steps, strict=True)
    )
    text = fetch(body, source, stepped(cells.at, source.shape, steps), cells)
    return [Tile(text, source.dtype, shape_of(op), tuple(extent for extent in valid if extent is not None))]


def extract(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    args = apply_args(op)
    offset = [body.index(value_of(args[name])) for name in ("index_row", "index_col")]
    window = scalars(body, args["shape"])
    return [_window(body, op, op.args[0], offset, window, window, set(), False, None)]


def _window(
    body: Body,
    op: d.ApplyOp,
    value: SSAValue,
    offset: Sequence[Scalar],
    window: Sequence[Scalar],
    requested: Sequence[Scalar],
    dropped: set[int],
    clamp: bool,
    pad: object,
) -> Tile:
    there = valid_of_source(body, value)
    source = body.in_memory(value)
    good = inside(body, op, "reads", source.shape, offset, requested if d.shaped_type(op.results[0]).level == "tensor" else window, clamp)
    shape = shape_of(op)
    cells = whole_tile(body, shape)
    kept = iter(cells.at)
    at = [f"({start.text} + {next(kept)})" if axis not in dropped else start.text for axis, start in enumerate(offset)]
    found = [
        numbers.minimum(wanted, numbers.clamp(numbers.sub(size, start), index(0), extent))
        for wanted, size, start, extent in zip(requested, there, offset, window, strict=True)
    ]
    bounds = [f"({place} < {size.text})" for place, size in zip(at, source.shape, strict=True) if place != "0"]
    where = " & ".join([*([cells.where] if cells.where else []), *bounds, *([good] if good else [])])
    text = fetch(body, source, at, cells, body.out.let("there", f"tl.broadcast_to({where}, {block_text(cells.block)})"))
    left = [item for axis, item in enumerate(found) if axis not in dropped]
    valid = body.valid_of(op, 0, lambda axis: left[axis])
    tile = Tile(text, source.dtype, shape, valid)
    if pad is None:
        return tile
    cell = padding(pad, source.dtype)
    mask = memory.mask(body.out, shape, valid)
    return tile if mask is None else replace(tile, text=f"tl.where({mask}, {text}, {body.text(cell)})")


def inside(
    body: Body, op: d.ApplyOp, deed: str, extents: Sequence[Scalar], offset: Sequence[Scalar], sizes: Sequence[Scalar], clamp: bool = False
) -> str | None:
    """Checks a window against the shape of a value."""
    name = op.op
    conditions: list[str] = []
    first: tuple[int, Scalar, Scalar, Scalar] | None = None
    for axis, (extent, start, size) in enumerate(zip(extents, offset, sizes, strict=True)):
        end = numbers.add(start, size)
        own = [] if start.bounds and start.bounds[0] >= 0 else [f"{start.text} >= 0"]
        if not clamp and not (end.bounds and extent.bounds and end.bounds[1] <= extent.bounds[0]):
            own.append(f"{end.text} <= {extent.text}")
        if own and first is None:
            first = (axis, start, end, extent)
        conditions += own
    if first is None:
        return None
    failure = Failure("bounds", f"{name} {deed} [{{0}}, {{1}}) of dim {first[0]}, which has extent {{2}}", op.span)
    return body.check(conditions, failure, first[1:])


def assemble(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    args = apply_args(op)
    target = as_bytes(body, body.tile(value_of(args["target"])))
    level = d.shaped_type(op.results[0]).level
    piece = as_bytes(body, body.tile(value_of(args["source"])))
    offset = scalars(body, args["offset"])
    sizes = [index(extent) for extent in piece.shape] if level == "tile" else list(piece.valid)
    return [_merge(body, op, target, piece, offset, sizes, args.get("atomic") is AtomicType.Add)]


def _merge(body: Body, op: d.ApplyOp, target: Tile, piece: Tile, offset: Sequence[Scalar], sizes: Sequence[Scalar], add: bool = False) -> Tile:
    """A tile with another one written into it."""
    good = inside(body, op, "writes", [index(extent) for extent in target.shape], offset, sizes)
    converted = replace(piece, text=body.out.let("piece", body.converted(piece, target.dtype)), dtype=target.dtype)
    source, cells = body.spill(converted), whole_tile(body, target.shape)
    at = [f"({place} - {start.text})" for place, start in zip(cells.at, offset, strict=True)]
    put = " & ".join(f"({place} >= 0) & ({place} < {size.text})" for place, size in zip(at, sizes, strict=True)) + (f" & {good}" if good else "")
    put = body.out.let("put", f"tl.broadcast_to({put}, {block_text(cells.block)})")
    new = fetch(body, source, at, cells, put)
    if add:
        wide = [elementwise.widen(body.out, text, target.dtype) for text in (target.text, new)]
        new = elementwise.held(body.out, f"({wide[0]} + {wide[1]})", target.dtype)
    valid = body.valid_of(op, 0, lambda axis: _union(target, offset, piece, axis))
    return Tile(f"tl.where({put}, {new}, {target.text})", target.dtype, target.shape, valid)


def _union(target: Tile, offset: Sequence[Scalar], piece: Tile, axis: int) -> Scalar:
    """The valid extent after a write; that the union is a box was checked by the type rule, or is up to the program."""
    return numbers.minimum(numbers.maximum(target.valid[axis], numbers.add(offset[axis], piece.valid[axis])), index(target.shape[axis]))


def write(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    args = apply_args(op)
    target = as_bytes(body, body.tile(value_of(args["dst"])))
    offset, value = scalars(body, args["offset"]), body.scalar(value_of(args["value"]))
    good = inside(body, op, "writes", [index(extent) for extent in target.shape], offset, [index(1)] * target.rank)
    hit = " & ".join(
        memory.spread(f"({body.out.arange(size)} == {at.text})", axis, target.rank) for axis, (size, at) in enumerate(zip(target.padded, offset, strict=True))
    )
    if good:
        hit += f" & {good}"
    one = Tile("", target.dtype, (1,) * target.rank, (index(1),) * target.rank)
    text = f"tl.where({hit}, {body.converted(value, target.dtype)}, {target.text})"
    return [Tile(text, target.dtype, target.shape, body.valid_of(op, 0, lambda axis: _union(target, offset, one, axis)))]


# other shapes -----------------------------------------------------------------------------------------------------------


def reshape(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    shape = shape_of(op)
    source = as_bytes(body, body.tile(op.args[0]))
    region = moved_region(source.shape, [v.const if isinstance(v.const, int) else "?" for v in source.valid], shape)
    if region is None:
        region = list(shape)
    sizes = [numbers.mul(source.valid[item.axis], index(item.factor)) if isinstance(item, Scaled) else index(item) for item in region]
    valid = body.valid_of(op, 0, lambda axis: sizes[axis])
    if _same_cells(source.shape, shape):
        return [Tile(f"tl.reshape({source.text}, {block_shape(shape)})", source.dtype, shape, valid, source.zeros)]
    cells = whole_tile(body, shape)
    flat = flat_index(cells.at, shape)
    place = body.spill(source)
    linear = replace(place, dims=memory.contiguous([index(math.prod(source.shape))]))
    return [Tile(fetch(body, linear, [flat], cells), source.dtype, shape, valid)]


def _same_cells(old: Sequence[int], new: Sequence[int]) -> bool:
    """Whether padding lies in the same place before and after: dims of extent 1 come and go, or everything is a power of two."""
    if [extent for extent in old if extent != 1] == [extent for extent in new if extent != 1]:
        return True
    return all(padded(extent) == extent for extent in (*old, *new))


def flat_index(at: Sequence[str], shape: Sequence[int]) -> str:
    parts: list[str] = []
    stride = 1
    for place, extent in zip(reversed(at), reversed(shape), strict=True):
        parts.append(place if stride == 1 else f"({place}) * {stride}")
        stride *= extent
    return "(" + " + ".join(reversed(parts)) + ")"


def reinterpret(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    shape, dtype = shape_of(op), result_dtype(op)
    source = as_bytes(body, body.tile(op.args[0]))
    old, new = source.dtype.get_byte(), dtype.get_byte()
    last = numbers.floordiv(numbers.mul(source.valid[-1], index(old)), new)
    sizes = [*source.valid[:-1], last] if len(shape) == source.rank else [index(extent) for extent in shape]
    valid = body.valid_of(op, 0, lambda axis: sizes[axis])
    if old == new and shape == source.shape:
        return [Tile(f"{source.text}.to({register(dtype)}, bitcast=True)", dtype, shape, valid)]
    place = body.spill(source)
    pointer = body.out.let("p", memory.as_pointer(place, dtype))
    linear = Buffer(pointer, index(0), memory.contiguous([index(math.prod(shape))]), dtype, place.root, True)
    cells = whole_tile(body, shape)
    return [Tile(fetch(body, linear, [flat_index(cells.at, shape)], cells), dtype, shape, valid)]


def concat(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    args, shape = apply_args(op), shape_of(op)
    sides = [value_of(args[name]) for name in ("src0", "src1")]
    valid = [valid_of_source(body, side) for side in sides]
    first, second = (body.in_memory(side) for side in sides)
    cells = whole_tile(body, shape)
    row, column = cells.at
    cut = valid[0][1]
    left = body.out.let("left", f"tl.broadcast_to({column} < {cut.text}, {block_text(cells.block)})")
    both = cells.where or "1 == 1"
    one = fetch(body, first, [row, column], cells, f"({both}) & {left}")
    rest = body.out.let("rest", f"tl.broadcast_to(({both}) & ({left} == 0) & ({column} - {cut.text} < {second.shape[1].text}), {block_text(cells.block)})")
    other = fetch(body, second, [row, f"({column} - {cut.text})"], cells, rest)
    rows, columns = numbers.minimum(valid[0][0], valid[1][0]), numbers.add(cut, valid[1][1])
    return [Tile(f"tl.where({left}, {one}, {other})", first.dtype, shape, body.valid_of(op, 0, lambda axis: (rows, columns)[axis]))]
