"""Rules that take or put rows and elements where indices in memory say: loops over the indices, each a copy in global memory."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tilejit.backends.pto.write.blocks import BlockWriter
from tilejit.backends.pto.write.memory import Memory, Part, Region, view_type
from tilejit.backends.pto.write.move import put
from tilejit.backends.pto.write.scalars import converted, extent_of
from tilejit.backends.pto.write.text import Extent, hint_of, op_name, scalar_name
from tilejit.dtypes import BOOL, INDEX, INT32, UINT32, DType
from tilejit.ops.gather import PATTERNS
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, operand, operands


def _flat(w: BlockWriter, value: SSAValue, op: d.ApplyOp | d.EffectOp) -> Memory:
    """A value in memory as rows of its last dim."""
    return w.reshaped(w.memory_of(value, op), w.matrix(value), op)


def _line(w: BlockWriter, value: SSAValue, op: d.ApplyOp | d.EffectOp) -> tuple[Memory, Extent]:
    """Indices in memory as one row, and how many there are."""
    rows, cols = w.valid_of(value)
    whole = w.matrix(value)
    if cols != whole[1] and rows != 1:
        raise w.refuse(op, f"{op_name(op)} with indices that are valid in part of their rows")
    memory = w.memory_of(value, op)
    if memory.shape != tuple(w.extent(value, axis) for axis in range(len(memory.shape))):
        memory = w.materialised(value, op)
    return w.reshaped(memory, (w.product(whole),), op), w.mul(rows, cols)


def _index(w: BlockWriter, line: Memory, at: Extent, unsigned: bool = False) -> str:
    """One index as an index value."""
    dtype: DType = UINT32 if unsigned and line.dtype in (INT32, UINT32) else line.dtype
    return converted(w, w.load_scalar(line, (at,), "index"), dtype, INDEX)


def _settled(w: BlockWriter, place: str, extent: Extent, policy: str) -> tuple[str, str | None]:
    """An index inside the extent by a policy, and whether it was inside where that matters."""
    if policy == "wrap":
        return w.define(f"arith.remui {place}, {w.ssa(extent)} : index"), None
    if policy == "undefined":
        return place, None
    last = w.ssa(w.sub(extent, 1))
    inside = w.define(f"arith.cmpi ule, {place}, {last} : index") if policy == "zero" else None
    return w.define(f"arith.minui {place}, {last} : index"), inside


def mgather(w: BlockWriter, op: d.ApplyOp) -> Memory:
    """Rows, or single elements, of a tensor."""
    args, result = apply_args(op), op.results[0]
    policy, by_row = str(args["gather_oob"]), args["coalesce"] == "row"
    type = d.shaped_type(result)
    memory = w.workspace(type.dtype, type.shape, op, hint_of(result) or "gathered")
    line, count = _line(w, operand(op, "idx"), op)
    source = _flat(w, operand(op, "mem"), op)
    rows, cols = source.shape
    if not by_row:
        source, memory = (w.reshaped(item, (w.product(item.shape), 1), op) for item in (source, memory))
        rows, cols = source.shape
    with w.stretch(count, 1, "at") as at:
        place, inside = _settled(w, _index(w, line, at.start, True), rows, policy)
        _copy_row(w, source, place, memory, at.start, cols, op, inside)
    w.touch(memory)
    return w.reshaped(memory, tuple(w.extent(result, axis) for axis in range(2)), op)


def _copy_row(
    w: BlockWriter, source: Memory, row: Extent, target: Memory, to: Extent, cols: Extent, op: d.ApplyOp | d.EffectOp, inside: str | None = None
) -> None:
    """One row from memory to memory; zeros where the index was outside."""
    chunk = max(32, w.plan.budget // 8)
    with w.stretch(cols, chunk, "col") as part:
        tile = w.load(source, Region(Part(row, 1, 1), part), op)
        if inside is not None:
            outside = w.define(f"arith.xori {inside}, {w.constant(True, BOOL)} : i1")
            with w.inside(f"scf.if {outside} {{"):
                w.dest("texpands", [(w.constant(0, source.dtype), scalar_name(source.dtype))], tile)
        w.store(tile, target, Region(Part(to, 1, 1), part), op)


def paged_gather(w: BlockWriter, op: d.ApplyOp) -> Memory:
    """Rows of a paged pool, found through a table of pages."""
    args, result = apply_args(op), op.results[0]
    size, page, column = (value for name in ("size", "block_size", "col_off") if isinstance(value := args[name], int))
    type = d.shaped_type(result)
    limit = op.statics["max_indices"]
    memory = w.workspace(type.dtype, (limit, size), op, hint_of(result) or "gathered")
    line, count = _line(w, operand(op, "indices"), op)
    table, _ = _line(w, operand(op, "block_table"), op)
    pool = _flat(w, operand(op, "src"), op)
    pool = w.box(pool, (0, column), (pool.shape[0], size))
    with w.stretch(count, 1, "at") as at:
        logical = _index(w, line, at.start)
        number = w.define(f"arith.floordivsi {logical}, {w.ssa(page)} : index")
        first = w.mul(_index(w, table, number), page)
        row = w.add(first, w.sub(logical, w.mul(number, page)))
        _copy_row(w, pool, row, memory, at.start, size, op)
    w.touch(memory)
    if not args["is_trans"]:
        return memory
    turned = w.workspace(type.dtype, type.shape, op, "turned")
    rows, cols = w.valid_of(result)
    tile = w.tile(size, limit, (rows, cols), type.dtype)
    w.dest("tload", [w.slice(memory, Region(Part(0, size, rows), Part(0, limit, cols)), op, turned=True)], tile)
    w.store(tile, turned, Region(Part(0, 0, rows), Part(0, 0, cols)), op)
    return turned


def gather_row(w: BlockWriter, op: d.ApplyOp) -> Memory:
    """A copy of a tile with a window of a tensor written into it."""
    result = op.results[0]
    type = d.shaped_type(result)
    memory = w.workspace(type.dtype, type.shape, op, hint_of(result) or "rows")
    _put_base(w, operand(op, "dst"), memory, op)
    source, offsets = w.memory_of(operand(op, "src"), op), tuple(extent_of(w, item, op) for item in operands(op, "src_offset"))
    sizes = [extent_of(w, item, op) for item in (operands(op, "valid_shape") or operands(op, "shapes"))]
    bounds = [extent_of(w, item, op) for item in operands(op, "shapes")]
    box = w.box(source, offsets, tuple(sizes), tuple(range(len(sizes) - 2)))
    turned = bool(apply_args(op)["transpose"])
    (rows, cols), (most_rows, most_cols) = (sizes[-2:], bounds[-2:]) if not turned else (sizes[:-3:-1], bounds[:-3:-1])
    if isinstance(most_rows, str) or isinstance(most_cols, str):
        raise w.refuse(op, f"{op_name(op)} of a window of dynamic size")
    tile = w.tile(most_rows, most_cols, (rows, cols), source.dtype)
    w.dest("tload", [w.slice(box, Region(Part(0, most_rows, rows), Part(0, most_cols, cols)), op, turned)], tile)
    there = w.box(memory, tuple(extent_of(w, item, op) for item in operands(op, "dst_offset")), (rows, cols))
    if source.dtype is not type.dtype:
        tile = w.dest("tcvt", [tile], w.like(tile, type.dtype), " {rmode = #pto<round_mode RINT>}")
    w.store(tile, there, Region(Part(0, 0, rows), Part(0, 0, cols)), op)
    return memory


def _put_base(w: BlockWriter, value: SSAValue, memory: Memory, op: d.ApplyOp) -> None:
    owner = value.owner
    if not (isinstance(owner, d.ApplyOp) and owner.op == "create_tile"):
        put(w, value, w.box(memory, (0,) * len(memory.kept), w.valid_of(value)) if len(memory.kept) == 2 else memory, op)


def scatter_rows(w: BlockWriter, op: d.ApplyOp) -> Memory:
    """scatter_update of a value: a copy whose rows are replaced."""
    result = op.results[0]
    type = d.shaped_type(result)
    memory = w.workspace(type.dtype, type.shape, op, hint_of(result) or "updated")
    _put_base(w, operand(op, "input"), memory, op)
    _replace_rows(w, op, w.reshaped(memory, w.matrix(result), op))
    w.touch(memory)
    return memory


def _replace_rows(w: BlockWriter, op: d.ApplyOp | d.EffectOp, rows: Memory) -> None:
    line, count = _line(w, operand(op, "index"), op)
    source = _flat(w, operand(op, "src"), op)
    with w.stretch(count, 1, "at") as at:
        _copy_row(w, source, at.start, rows, _index(w, line, at.start), source.shape[1], op)


def update_rows(w: BlockWriter, op: d.EffectOp) -> None:
    """scatter_update of a tensor, in its place."""
    target = operand(op, "input")
    _replace_rows(w, op, w.reshaped(w.memories[target], w.matrix(target), op))
    w.touch(w.memories[target])


def mscatter(w: BlockWriter, op: d.EffectOp) -> None:
    """Single elements into a tensor: an op on A5, a loop of scalars elsewhere."""
    target, index, source = w.memories[operand(op, "output_tensor")], operand(op, "idx"), operand(op, "src")
    if w.arch == "a5" and target.box == target.whole and target.dtype is not None:
        tiles = [w.pull(value, w.whole(value), op) for value in (source, index)]
        type = view_type(len(target.whole), target.dtype)
        w.line(f"pto.mscatter ins({tiles[0].name}, {tiles[1].name} : {tiles[0].type}, {tiles[1].type}) outs({target.view} : {type})")
    else:
        line, count = _line(w, index, op)
        cells, _ = _line(w, source, op)
        flat = w.reshaped(target, (w.product(target.shape),), op)
        with w.stretch(count, 1, "at") as at:
            w.store_scalar(flat, (_index(w, line, at.start),), w.load_scalar(cells, (at.start,), "cell"))
    w.touch(target)


def scatter_pattern(w: BlockWriter, op: d.ApplyOp) -> Memory:
    """A copy of a value with other columns in the places of a pattern: a store with steps."""
    base, compact = operand(op, "dst"), operand(op, "src" if op.op == "scatter_mask" else "input")
    type, pattern = d.shaped_type(op.results[0]), apply_args(op)["mask_pattern"]
    assert isinstance(pattern, int)
    first, step = PATTERNS[int(pattern)]
    memory = w.workspace(type.dtype, type.shape, op, hint_of(op.results[0]) or "joined")
    _put_base(w, base, memory, op)
    tile = w.pull(compact, w.whole(compact), op)
    dims = tuple(w.extent(compact, axis) for axis in range(len(type.shape)))
    box = w.box(memory, (*([0] * (len(dims) - 1)), first), memory.shape)
    name, slice_type = w.rearranged(box, dims, tuple(range(len(dims))), (*([1] * (len(dims) - 1)), step))
    w.line(f"pto.tstore ins({tile.name} : {tile.type}) outs({name} : {slice_type})")
    w.touch(memory)
    return memory
