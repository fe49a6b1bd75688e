"""Rules that move elements: windows, transposes, other shapes, padding, gathers, scatters and sorts."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tilejit.backends.pto.write.blocks import BlockWriter, Lazy, Tile, rounded_up
from tilejit.backends.pto.write.memory import Memory, Part, Region
from tilejit.backends.pto.write.scalars import converted, extent_of, scalar_as
from tilejit.backends.pto.write.text import Extent, element_name, hint_of, op_name, scalar_name
from tilejit.backends.pto.write.vector import reduced_columns
from tilejit.dtypes import INDEX, INT32, DType
from tilejit.ops.pad import pad_cell
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, operand, operands
from tilejit.tile_ir.pto.elements import ELEMENTS
from tilejit.tile_ir.pto.specs import TileSpec
from tilejit.types.enums import PadValue
from tilejit.types.values import TileType

_PADS = {PadValue.zero: 1, PadValue.max: 2, PadValue.min: 3, 0: 1}


def whole_tile(w: BlockWriter, value: SSAValue, op: Operation) -> Tile:
    """All of a value in one tile."""
    type = d.type_of(value)
    if isinstance(type, TileType) and not w.plan.fits(type):
        raise w.refuse(op, f"{op_name(op)} of a value larger than a tile")
    return w.pull(value, w.whole(value), op)


# the same elements elsewhere --------------------------------------------------------------------------------------------------------------


def move(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    return w.pull(operand(op, "input"), region, op)


def create(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    return w.result(op, region)


def transpose(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    value = operand(op, "input")
    shape = d.shaped_type(value).shape
    axes = {axis % len(shape) for axis in (apply_args(op).get("axis1", -2), apply_args(op).get("axis2", -1)) if isinstance(axis, int)}
    if len(axes) < 2:
        return w.pull(value, region, op)
    if len(shape) != 2:
        first, second = sorted(axes)
        order = [*range(first), second, *range(first + 1, second), first, *range(second + 1, len(shape))]
        return rearranged(w, op, value, tuple(order), region)
    source = w.pull(value, region.turned, op)
    return w.dest("ttrans", [source, w.like(source)], w.result(op, region))


def rearranged(w: BlockWriter, op: d.ApplyOp, value: SSAValue, axes: tuple[int | None, ...], region: Region) -> Tile:
    """All of a value with its dims in another order, or spread, read from memory so."""
    whole = w.whole(op.results[0])
    if region != whole:
        raise w.refuse(op, f"{op_name(op)} of a value of rank 3 or more that is larger than a tile")
    shape = tuple(w.extent(op.results[0], axis) for axis in range(len(axes)))
    return w.dest("tload", [w.rearranged(w.memory_of(value, op), shape, axes)], w.result(op, region, d.shaped_type(value).dtype))


def slice_rule(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """A window of a value: its memory is sliced."""
    args = apply_args(op)
    if args.get("pad_value") is not None:
        raise w.refuse(op, "a slice with a pad value")
    name, index = ("src", ("index_row", "index_col")) if op.op == "extract" else ("input", ())
    value = operand(op, name)
    offsets = [extent_of(w, item, op) for item in ([operand(op, each) for each in index] or operands(op, "offset"))]
    shape = d.shaped_type(value).shape
    drop_dims = args.get("drop_dims")
    dropped = [axis for axis in drop_dims if isinstance(axis, int)] if isinstance(drop_dims, tuple | list) else []
    if len(shape) == 2 and not dropped and isinstance(w.values.get(value), Lazy) and value not in w.memories and not w.plan.fits(_tile_type(value)):
        return w.pull(value, Region(w.moved(region.rows, offsets[0]), w.moved(region.cols, offsets[1])), op)
    sizes = [extent_of(w, item, op) for item in operands(op, "shape")]
    drop = tuple(axis % len(shape) for axis in dropped)
    valid = w.valid_of(op.results[0])
    kept = [axis for axis in range(len(shape)) if axis not in drop]
    for axis, extent in zip(kept[-2:], valid[2 - len(kept[-2:]) :]):
        if len(kept) <= 2:
            sizes[axis] = extent
    memory = w.box(w.memory_of(value, op), tuple(offsets), tuple(sizes), drop)
    return w.load(memory, region, op, hint_of(op.results[0]))


def _tile_type(value: SSAValue) -> TileType:
    type = d.type_of(value)
    assert isinstance(type, TileType)
    return type


# through memory -----------------------------------------------------------------------------------------------------------------------------


def reshape(w: BlockWriter, op: d.ApplyOp) -> Memory:
    value, result = operand(op, "input"), op.results[0]
    shape = tuple(w.extent(result, axis) for axis in range(len(d.shaped_type(result).shape)))
    if w.valid_of(value) == w.matrix(value):
        memory = w.memory_of(value, op)
    elif isinstance(found := w.values.get(value), Tile):
        # What is valid of a whole new array: the place it was loaded from may end with it.
        memory = w.workspace(d.shaped_type(value).dtype, d.shaped_type(value).shape, op, hint_of(value) or "tile")
        w.store(w.converted(found, value, memory.dtype, op), memory, Region(Part(0, 0, found.valid[0]), Part(0, 0, found.valid[1])), op)
    else:
        memory = w.materialised(value, op)
    in_order = memory.kept == tuple(range(len(memory.whole) - len(memory.kept), len(memory.whole)))
    if result in w.plan.stored or memory.box[1:] != memory.whole[1:] or not in_order:
        memory = w.materialised(value, op)
    return w.reshaped(memory, shape, op)


def stacked_columns(w: BlockWriter, op: d.ApplyOp) -> Memory:
    """Reductions of the columns of a stack of matrices, one matrix after the other; along the first dim the rest is one long row."""
    value, result = operand(op, "input"), op.results[0]
    dims = [w.extent(value, axis) for axis in range(len(d.shaped_type(value).shape))]
    if d.shaped_type(result).shape[-2] != 1:
        dims = [dims[0], w.product(dims[1:])]
    rows, cols, type = dims[-2], dims[-1], d.shaped_type(result)
    if isinstance(rows, str) or isinstance(cols, str) or rows * cols * 4 > w.plan.limit["vec"]:
        raise w.refuse(op, f"{op_name(op)} of matrices larger than a tile")
    source = w.reshaped(w.memory_of(value, op), (w.product(dims[:-1]), cols), op)
    memory = w.workspace(type.dtype, type.shape, op, hint_of(result) or "reduced")
    flat = w.reshaped(memory, (w.product(dims[:-2]), cols), op)
    with w.stretch(w.product(dims[:-2]), 1, "batch") as batch:
        tile = w.load(source, Region(Part(w.mul(batch.start, rows), rows, rows), Part(0, cols, cols)), op)
        there = Region(Part(batch.start, 1, 1), Part(0, cols, cols))
        w.store(reduced_columns(w, op, tile, there), flat, there, op)
    w.touch(memory)
    return memory


def concat(w: BlockWriter, op: d.ApplyOp) -> Memory:
    """The valid columns of one value, then those of the other."""
    result, first, second = op.results[0], operand(op, "src0"), operand(op, "src1")
    type = d.shaped_type(result)
    memory = w.workspace(type.dtype, type.shape, op, hint_of(result) or "joined")
    start: Extent = 0
    for value in (first, second):
        rows, cols = w.valid_of(value)
        rows = w.least(rows, w.valid_of(result)[0])
        put(w, value, w.box(memory, (0, start), (rows, cols)), op)
        start = w.add(start, cols)
    return memory


def put(w: BlockWriter, value: SSAValue, box: Memory, op: Operation, atomic: bool = False) -> None:
    """A value into a box."""
    found, valid = w.values.get(value), w.valid_of(value)
    if isinstance(found, Tile) and value not in w.memories:
        w.store(w.converted(found, value, box.dtype, op), box, Region(Part(0, 0, valid[0]), Part(0, 0, valid[1])), op, atomic)
    else:
        w.copy(value, box, op, atomic)


def assemble(w: BlockWriter, op: d.ApplyOp) -> Memory:
    """A copy of the target with the source written over a part of it."""
    result, target, source = op.results[0], operand(op, "target"), operand(op, "source")
    type = d.shaped_type(result)
    if len(type.shape) != 2:
        raise w.refuse(op, f"{op_name(op)} of a value of rank {len(type.shape)}")
    memory = w.workspace(type.dtype, type.shape, op, hint_of(result) or "joined")
    owner = target.owner
    if not (isinstance(owner, d.ApplyOp) and owner.op == "create_tile"):
        put(w, target, w.box(memory, (0, 0), w.valid_of(target)), op)
    offsets = tuple(extent_of(w, item, op) for item in operands(op, "offset"))
    put(w, source, w.box(memory, offsets, w.valid_of(source)), op, bool(getattr(apply_args(op).get("atomic"), "value", 0)))
    return memory


def padded(w: BlockWriter, op: d.ApplyOp) -> Memory:
    """fillpad of a value larger than a tile: everything filled, then the valid region written."""
    value, result = operand(op, "input"), op.results[0]
    type = d.shaped_type(result)
    memory = w.workspace(type.dtype, type.shape, op, hint_of(result) or "padded")
    rows, cols = w.matrix(result)
    sizes = w.plan.block(result, tuple(v if isinstance(v, int) else None for v in (rows, cols)))
    cell = pad_cell(apply_args(op)["pad_value"], type.dtype)
    assert isinstance(cell, int | float)
    with w.stretch(rows, sizes[0], "row") as r, w.stretch(cols, sizes[1], "col") as c:
        tile = w.tile(r.size, c.size, (r.count, c.count), type.dtype)
        w.store(w.dest("texpands", [(w.constant(cell, type.dtype), scalar_name(type.dtype))], tile), memory, Region(r, c), op)
    put(w, value, w.box(memory, (0, 0), w.valid_of(value)), op)
    return memory


# padding and valid regions ------------------------------------------------------------------------------------------------------------------


def fillpad(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    value, pad = operand(op, "input"), apply_args(op)["pad_value"]
    code = _PADS.get(pad) if isinstance(pad, PadValue | int) else 2 if isinstance(pad, float) and pad > 0 else 3  # pyright: ignore[reportArgumentType]
    if code is None:
        raise w.refuse(op, f"the pad value {pad!r}")
    if d.shaped_type(value).dtype.bits > 32:
        return w.load(padded(w, op), region, op, hint_of(op.results[0]))
    source = whole_tile(w, value, op)
    out = w.result(op, region, pad=code)
    name = "tfillpad" if out.spec.shape == source.spec.shape else "tfillpad_expand"
    w.dest(name, [source], out)
    # The pad belongs to the op, not to the tile: elsewhere tiles have none.
    return _reread(w, out, out.valid)


def _reread(w: BlockWriter, tile: Tile, valid: tuple[Extent, Extent]) -> Tile:
    spec = TileSpec(tile.loc, tile.spec.element, *tile.spec.shape, tile.spec.valid, tile.spec.blayout)
    return tile if spec == tile.spec else w.seen_as(tile, spec, valid)


def set_validshape(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """The same cells with another valid region: a copy of all of them, whatever was valid."""
    if region != w.whole(op.results[0]):
        return w.pull(operand(op, "input"), region, op)
    source = whole_tile(w, operand(op, "input"), op)
    out = w.result(op, region)
    spec = TileSpec("vec", source.spec.element, *source.spec.shape, source.spec.shape, source.spec.blayout)
    first, last = (w.seen_as(tile, spec, spec.shape) for tile in (source, out))
    w.dest("tmov", [first], last)
    return out


def write(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """A copy with one element replaced."""
    source = whole_tile(w, operand(op, "dst"), op)
    out = w.dest("tmov", [source], w.like(source, hint=hint_of(op.results[0])))
    shape = d.shaped_type(operand(op, "dst")).shape
    row: Extent = 0
    indices = [extent_of(w, item, op) for item in operands(op, "offset")]
    for index, dim in zip(indices[:-1], shape):
        assert isinstance(dim, int)
        row = w.add(w.mul(row, dim), index)
    offset, dtype = w.add(w.mul(row, out.spec.cols), indices[-1] if indices else 0), d.shaped_type(op.results[0]).dtype
    value = scalar_as(w, operand(op, "value"), dtype, op)
    w.line(f"pto.tsetval ins({w.ssa(offset)}, {value} : index, {scalar_name(dtype)}) outs({out.name} : {out.type})")
    return out


def reinterpret(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """The bytes of a tile as another type; through memory where its padding is not that of the new type."""
    value = operand(op, "data")
    source, result = whole_tile(w, value, op), d.shaped_type(op.results[0])
    old, new = source.spec.element.bytes, result.dtype.get_byte()
    if old == new and d.shaped_type(value).shape == result.shape:
        return w.reread(source, result.dtype)
    width = d.shaped_type(value).shape[-1]
    if source.spec.blayout != "row_major" or (source.spec.rows > 1 and width != source.spec.cols):
        raise w.refuse(op, f"{op_name(op)} of padded rows")
    assert isinstance(width, int)
    rows, cols = region.rows.size, region.cols.size
    whole = source.spec.rows * width * old // new
    shape = (rows, cols) if source.spec.rows > 1 else (1, source.spec.cols * old // new)
    if source.spec.rows == 1 and rows > 1:
        raise w.refuse(op, f"{op_name(op)} of one row as several")
    spec = TileSpec("vec", ELEMENTS[element_name(result.dtype)], *shape, (rows, cols))
    assert whole == rows * cols
    made = w.seen_as(source, spec, (rows, cols), hint_of(op.results[0]) or "bits")
    return made if spec.shape == (rows, rounded_up(cols, w.plan.period)) else w.load(w.spill(op.results[0], made, op), region, op)


# generators ---------------------------------------------------------------------------------------------------------------------------------


def counting(w: BlockWriter, count: int, valid: Extent, dtype: DType = INT32, start: str | None = None, descending: bool = False) -> Tile:
    """One row that counts."""
    out = w.tile(1, count, (1, valid), dtype, "count")
    text = " {descending = true}" if descending else ""
    return w.dest("tci", [(start or w.constant(0, dtype), scalar_name(dtype))], out, text)


def ci(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    dtype, descending = d.shaped_type(op.results[0]).dtype, bool(apply_args(op)["descending"])
    start = scalar_as(w, operand(op, "start"), dtype, op)
    made = counting(w, region.cols.size, region.cols.count, dtype, start, descending)
    if region.cols.start == 0:
        return made
    raise w.refuse(op, "a range larger than a tile")


def tri(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    diagonal = scalar_as(w, operand(op, "diagonal"), INT32, op)
    shift = w.sub(region.rows.start, region.cols.start)
    if shift != 0:
        moved = w.constant(shift, INT32) if isinstance(shift, int) else converted(w, shift, INDEX, INT32)
        diagonal = w.define(f"arith.addi {diagonal}, {moved} : i32")
    return w.dest("ttri", [(diagonal, "i32")], w.result(op, region), f" {{upperOrLower = {int(bool(apply_args(op)['upper']))} : i32}}")
