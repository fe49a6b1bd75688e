"""Rules of gathers, scatters and sorts."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tilejit.backends.pto.write.blocks import BlockWriter, Tile
from tilejit.backends.pto.write.memory import Memory, Part, Region
from tilejit.backends.pto.write.move import counting, whole_tile
from tilejit.backends.pto.write.rows import scatter_pattern
from tilejit.backends.pto.write.scalars import extent_of, scalar_as
from tilejit.backends.pto.write.text import element_name, hint_of, op_name, scalar_name
from tilejit.backends.pto.write.vector import cast_tile, working_dtype
from tilejit.dtypes import INT32, DType
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, operand
from tilejit.tile_ir.pto.elements import ELEMENTS
from tilejit.tile_ir.pto.meaning import MASK_PATTERNS
from tilejit.tile_ir.pto.specs import TileSpec


def _row_starts(w: BlockWriter, tile: Tile, dtype: DType, width: int) -> Tile:
    """One number per row: where the row begins in a tile of `width` columns."""
    rows = tile.spec.rows
    line = counting(w, rows, rows, dtype)
    w.dest("tmuls", [line, (w.constant(width, dtype), scalar_name(dtype))], line)
    if rows == 1:
        return line
    known = tile.spec.valid[0]
    spec = TileSpec("vec", ELEMENTS[element_name(dtype)], line.spec.cols, 1, (known, 1) if known is not None else (rows, 1), "col_major")
    made = Tile(w.name("starts"), spec, (tile.valid[0], 1))
    w.line(f"{made.name} = pto.treshape {line.name} : {line.type} -> {made.type}")
    return made


def _flat_index(w: BlockWriter, index: Tile, axis: int, width: int, dtype: DType) -> Tile:
    """Where an element of an index along one dim is in a tile of `width` columns."""
    if axis == 1:
        if index.spec.rows == 1:
            return index
        name = "trowexpandadd" if index.spec.blayout == "row_major" else "tadd"
        return w.dest(name, [index, _row_starts(w, index, dtype, width)], w.like(index))
    scaled = w.dest("tmuls", [index, (w.constant(width, dtype), scalar_name(dtype))], w.like(index))
    columns = counting(w, index.spec.cols, index.valid[1], dtype)
    if index.spec.blayout == "col_major":
        return scaled
    return w.dest("tcolexpandadd" if scaled.spec.rows > 1 else "tadd", [scaled, columns], w.like(index))


def _padded_index(w: BlockWriter, index: Tile, width: object, tile: Tile, dtype: DType) -> Tile:
    """Flat indices of a value where its rows are padded: every row before an element adds its padding."""
    assert isinstance(width, int)
    if tile.spec.rows == 1 or width == tile.spec.cols:
        return index
    element = scalar_name(dtype)
    rows = w.dest("tdivs", [index, (w.constant(width, dtype), element)], w.like(index))
    w.dest("tmuls", [rows, (w.constant(tile.spec.cols - width, dtype), element)], rows)
    return w.dest("tadd", [index, rows], w.like(index))


def gather(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """By index along a dim, by flat index, or by a pattern of columns."""
    args = apply_args(op)
    source_name = "input" if op.op == "gather" else "src"
    value = operand(op, source_name)
    source, dtype = whole_tile(w, value, op), d.shaped_type(value).dtype
    if args.get("mask_pattern") is not None:
        return _by_pattern(w, op, source, region)
    if args.get("kvalue") is not None or len(d.shaped_type(value).shape) > 2:
        raise w.refuse(op, op_name(op))
    index_value = operand(op, "indices" if op.op == "gather_flat" else "index")
    index = cast_tile(w, whole_tile(w, index_value, op), INT32)
    if op.op == "gather_flat":
        index = _padded_index(w, index, d.shaped_type(value).shape[-1], source, INT32)
    else:
        dim = op.statics["dim"]
        index = _flat_index(w, index, dim % 2, source.spec.cols, INT32)
    return w.dest("tgather", [source, index, w.like(index)], w.result(op, region, dtype))




def _by_pattern(w: BlockWriter, op: d.ApplyOp, source: Tile, region: Region) -> Tile:
    pattern = op.statics["mask_pattern"]
    out = w.result(op, region, source.spec.element.dtype)
    w.dest("tgather", [source], out, f", {{maskPattern = #pto.mask_pattern<{MASK_PATTERNS[int(pattern) - 1]}>}}")
    return w.reread(out, d.shaped_type(op.results[0]).dtype)


def scatter(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """A copy of the target with elements put where an index says."""
    args = apply_args(op)
    if args.get("mask_pattern") is not None:
        return w.load(scatter_pattern(w, op), region, op, hint_of(op.results[0]))
    target_value = operand(op, "dst" if op.op == "scatter_flat" else "input")
    target = whole_tile(w, target_value, op)
    source, index = whole_tile(w, operand(op, "src"), op), whole_tile(w, operand(op, "indexes" if op.op == "scatter_flat" else "index"), op)
    dtype = index.spec.element.dtype
    assert dtype is not None
    if op.op == "scatter":
        index = _flat_index(w, index, 1, target.spec.cols, dtype)
    else:
        index = _padded_index(w, index, d.shaped_type(target_value).shape[-1], target, dtype)
    out = w.dest("tmov", [target], w.like(target, hint=hint_of(op.results[0])))
    return w.dest("tscatter", [source, index], out)


def by_comparison(w: BlockWriter, op: d.ApplyOp) -> list[Tile]:
    """Where the elements of each row compare with a number, and how many do: at most as many as there is room for."""
    args = apply_args(op)
    source = whole_tile(w, operand(op, "src" if op.op == "gather_compare" else "input"), op)
    places, counts = (d.shaped_type(result) for result in op.results)
    rows, width = places.shape
    assert isinstance(rows, int) and isinstance(width, int)
    found = w.tile(rows, width, (source.valid[0], width), INT32, hint_of(op.results[0]))
    count = w.tile(rows, 1, (source.valid[0], 1), INT32, hint_of(op.results[1]))
    dtype = source.spec.element.dtype
    assert dtype is not None
    value = scalar_as(w, operand(op, "kvalue"), dtype, op)
    ins = f"ins({source.name}, {value}, {w.like(source).name} : {source.type}, {scalar_name(dtype)}, {source.type})"
    mode, offset = args["cmp_mode"], args["offset"]
    w.line(f"pto.tgather {ins} outs({found.name}, {count.name} : {found.type}, {count.type}) {{cmpMode = #pto<cmp {mode}>, offset = {offset} : i32}}")
    limited = w.dest("tmins", [count, (w.constant(width, INT32), "i32")], w.like(count))
    row = w.load(w.reshaped(_kept(w, limited, rows, op), (1, rows), op), Region(Part(0, 1, 1), Part(0, rows, source.valid[0])), op, hint_of(op.results[1]))
    return [found, cast_tile(w, row, counts.dtype)]


def _kept(w: BlockWriter, column: Tile, rows: int, op: d.ApplyOp) -> Memory:
    """A column in memory, where it is as good as a row."""
    memory = w.workspace(INT32, (rows, 1), op, "column")
    w.store(column, memory, Region(Part(0, rows, column.valid[0]), Part(0, 1, 1)), op)
    return memory


def gatherb(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """Blocks of 32 bytes by byte offset."""
    value = operand(op, "src")
    source, offsets = whole_tile(w, value, op), whole_tile(w, operand(op, "offset"), op)
    dtype = d.shaped_type(value).dtype
    if source.spec.rows > 1 and d.shaped_type(value).shape[-1] != source.spec.cols:
        raise w.refuse(op, f"{op_name(op)} of padded rows")
    if d.shaped_type(op.results[0]).dtype is not dtype:
        raise w.refuse(op, f"{op_name(op)} that reads bits as another type")
    return w.dest("tgatherb", [source, offsets], w.result(op, region))


def random(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """Random bits: A5 has an op for them."""
    if w.arch != "a5" or d.shaped_type(op.results[0]).dtype.bits != 32:
        raise w.refuse(op, f"{op_name(op)} of {d.shaped_type(op.results[0]).dtype} on {w.arch}", "A5 has an op for 32-bit random numbers, A2/A3 have none")
    if len(d.shaped_type(op.results[0]).shape) > 2:
        raise w.refuse(op, f"{op_name(op)} of rank 3 or more")
    names = ("key0", "key1", "counter0", "counter1", "counter2", "counter3")
    scalars: list[Tile | tuple[str, str]] = [(scalar_as(w, operand(op, name), INT32, op), "i32") for name in names]
    return w.dest("trandom", scalars, w.result(op, region), f" {{rounds = {apply_args(op)['rounds']} : i32}}")


def sort32(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    source, index = whole_tile(w, operand(op, "src"), op), whole_tile(w, operand(op, "idx"), op)
    return w.dest("tsort32", [source, index], w.result(op, region))


def mrgsort(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    args = apply_args(op)
    if region.rows.size > 1:
        return _sorted_rows(w, op, region)
    sources = [whole_tile(w, value, op) for name in ("src0", "src1", "src2", "src3") if isinstance(value := args.get(name), SSAValue)]
    out = w.result(op, region)
    if isinstance(length := args.get("block_len"), SSAValue):
        return w.dest("tmrgsort", [sources[0], (w.ssa(extent_of(w, length, op)), "index")], out)
    if bool(args.get("exhausted")):
        raise w.refuse(op, f"{op_name(op)} that stops when one list ends")
    return w.dest("tmrgsort", [*sources, w.like(out)], out, " {exhausted = false}")


def _sorted_rows(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """Runs of every row merged, one row after the other."""
    length, value = apply_args(op).get("block_len"), operand(op, "src0")
    if not isinstance(length, SSAValue) or len(d.shaped_type(value).shape) != 2:
        raise w.refuse(op, f"{op_name(op)} of lists of more than one row")
    type, source = d.shaped_type(op.results[0]), w.memory_of(value, op)
    memory = w.workspace(type.dtype, type.shape, op, "sorted")
    with w.stretch(region.rows.count, 1, "row") as row:
        part = Region(Part(row.start, 1, 1), region.cols)
        out = w.tile(1, region.cols.size, (1, region.cols.count), type.dtype)
        w.dest("tmrgsort", [w.load(source, part, op), (w.ssa(extent_of(w, length, op)), "index")], out)
        w.store(out, memory, part, op)
    w.touch(memory)
    return w.load(memory, region, op, hint_of(op.results[0]))


def part(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """part_add and its kin: where only one operand is valid, its element."""
    dtype = working_dtype(w, d.shaped_type(op.results[0]).dtype, op)
    tiles = [cast_tile(w, whole_tile(w, operand(op, name), op), dtype) for name in ("lhs", "rhs")]
    return cast_tile(w, w.dest(f"t{op.op.replace('_', '')}", tiles, w.result(op, region, dtype)), d.shaped_type(op.results[0]).dtype)
