"""Rules of the cube core: products in blocks of M, N and K, and the ways of their operands through the memories mat, left, right and bias."""

from __future__ import annotations

from contextlib import ExitStack

from xdsl.ir import Operation, SSAValue

from tilejit.backends.pto.write.blocks import BlockWriter, Lazy, Tile, rounded_up
from tilejit.backends.pto.write.memory import Memory, Part, Region
from tilejit.backends.pto.write.plan import is_transpose
from tilejit.backends.pto.write.scalars import scalar_as
from tilejit.backends.pto.write.text import Extent, element_name, hint_of, op_name, scalar_name
from tilejit.dtypes import BF16, BOOL, FP16, FP32, INT8, INT32, DType
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, constant_of, operand
from tilejit.tile_ir.pto.elements import ELEMENTS
from tilejit.tile_ir.pto.specs import TileSpec
from tilejit.types.values import TileType

_LAYOUTS = {"mat": ("col_major", "row_major"), "right": ("row_major", "col_major"), "acc": ("col_major", "row_major")}


def cube_tile(
    w: BlockWriter, role: str, loc: str, rows: int, cols: int, valid: tuple[Extent, Extent], dtype: DType, narrow: bool, hint: str | None = None
) -> Tile:
    """A tile in the boxes of the cube core; `role`: which side of the product it belongs to, `narrow`: of elements of one byte."""
    inner = 32 if narrow else 16
    shape = (rounded_up(rows, inner if role == "right" else 16), rounded_up(cols, inner))
    blayout, slayout = _LAYOUTS.get(loc, ("col_major" if w.arch == "a5" else "row_major", "row_major"))
    known = tuple(None if isinstance(v, str) else v for v in valid)
    spec = TileSpec(loc, ELEMENTS[element_name(dtype)], *shape, (known[0], known[1]), blayout, slayout, 1024 if loc == "acc" else 512)
    return w.alloc(spec, valid, hint)


def product(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """A block of a product, in the accumulator; sums with tiles of the vector core end in the vec memory."""
    args = apply_args(op)
    inputs = _input_dtype(w, op)
    result = INT32 if inputs is INT8 else FP32
    valid = (region.rows.count, region.cols.count)
    base = args.get("acc")
    into = _accumulator(w, op, base, region)
    out = into or cube_tile(w, "acc", "acc", region.rows.size, region.cols.size, valid, result, inputs is INT8, hint_of(op.results[0]))
    bias = args.get("bias")
    placed = _bias(w, op, bias, region, result, inputs is INT8) if isinstance(bias, SSAValue) else None
    if into is not None and isinstance(condition := args.get("init_cond"), SSAValue):
        _conditional(w, op, region, out, inputs, condition)
    else:
        _contract(w, op, region, out, inputs, into is not None, placed)
    if isinstance(base, SSAValue) and into is None:
        return _added(w, op, region, out, base, args.get("init_cond"))
    if isinstance(bias, SSAValue) and placed is None:
        return _with_bias(w, op, region, out, bias)
    return out


Side = tuple[SSAValue, bool]
"""An operand of a product, and whether it is turned over."""


def sides(op: d.ApplyOp) -> tuple[Side, Side]:
    """The left and the right factor. A vector on the right is a column, and the result then a row: both factors turn and change places."""
    args = apply_args(op)
    left, right = (operand(op, "lhs"), bool(args.get("a_trans"))), (operand(op, "rhs"), bool(args.get("b_trans")))
    if len(d.shaped_type(right[0]).shape) != 1:
        return left, right
    if len(d.shaped_type(left[0]).shape) == 1:
        return left, (right[0], True)
    return (right[0], False), (left[0], not left[1])


def _input_dtype(w: BlockWriter, op: d.ApplyOp) -> DType:
    left, right = (d.shaped_type(operand(op, name)).dtype for name in ("lhs", "rhs"))
    common = left if left is right else FP32 if left.is_float and right.is_float else None
    if common not in (FP16, BF16, FP32, INT8):
        raise w.refuse(op, f"{op_name(op)} of {left} and {right}", "the cube core multiplies floats of up to 32 bits, and INT8 by INT8")
    return common


def _accumulator(w: BlockWriter, op: d.ApplyOp, base: object, region: Region) -> Tile | None:
    """The tile to accumulate into, where the old sum is in the accumulator and nobody else wants it."""
    if not isinstance(base, SSAValue):
        return None
    found = w.values.get(base)
    if isinstance(found, Tile) and found.loc == "acc" and len(list(base.uses)) == 1 and region == w.whole(base):
        return found
    return None


def _contract(
    w: BlockWriter, op: d.ApplyOp, region: Region, out: Tile, dtype: DType, onto: bool, bias: Tile | None = None, shift: tuple[Extent, Extent] = (0, 0)
) -> None:
    """The sum over K, in blocks that fit into the left and right memories; `shift`: the rows at which the operands begin (their batch)."""
    left, right = sides(op)
    inner, bound = _inner(w, left)
    size = dtype.get_byte()
    most = min(w.plan.limit["left"] // (rounded_up(region.rows.size, 16) * size), w.plan.limit["right"] // (rounded_up(region.cols.size, 32) * size))
    block = max(32, min(most, 256) // 32 * 32)

    def step(part: Part, name: str, extra: list[Tile], last: list[Tile]) -> None:
        one = Region(region.rows, w.moved(part, shift[0])) if left[1] else Region(w.moved(region.rows, shift[0]), part)
        other = Region(part, w.moved(region.cols, shift[1])) if right[1] else Region(w.moved(part, shift[1]), region.cols)
        w.dest(name, [*extra, _side(w, op, left, one, "left", dtype), _side(w, op, right, other, "right", dtype), *last], out)

    if isinstance(bound, int) and bound <= block:
        first = Part(0, bound, inner)
    else:
        first = Part(0, block, block if isinstance(inner, int) else w.least(inner, block))
    with w.scope():
        step(first, "tmatmul.acc" if onto else "tmatmul.bias" if bias else "tmatmul", [out] if onto else [], [bias] if bias else [])
    if not (isinstance(bound, int) and bound <= block):
        with w.stretch(inner, block, "k", block) as part:
            step(part, "tmatmul.acc", [out], [])


def _inner(w: BlockWriter, left: Side) -> tuple[Extent, Extent]:
    """How many terms each sum has, and how many it can have."""
    value, turned = left
    rank = len(d.shaped_type(value).shape)
    if turned and rank > 2:
        return w.extent(value, rank - 2), w.extent(value, rank - 2)
    axis = 0 if turned else 1
    return w.valid_of(value)[axis], w.matrix(value)[axis]


def batched(w: BlockWriter, op: d.ApplyOp) -> Memory:
    """Products of stacks of matrices; a stack of one is used for all."""
    left, right = sides(op)
    result, inputs = op.results[0], _input_dtype(w, op)
    type = d.shaped_type(result)
    dims = tuple(w.extent(result, axis) for axis in range(len(type.shape)))
    memory = w.workspace(type.dtype, type.shape, op, hint_of(result) or "products")
    flat = w.reshaped(memory, (w.product(dims[:-1]), dims[-1]), op)
    for value, _ in (left, right):
        w.memory_of(value, op)
    height, width = w.plan.block(result, tuple(dim if isinstance(dim, int) else None for dim in dims[-2:]))
    with ExitStack() as stack:
        places = [stack.enter_context(w.stretch(dim, 1, "batch")).start for dim in dims[:-2]]
        shift = _batch_start(w, left[0], places), _batch_start(w, right[0], places)
        start = _batch_start(w, result, places)
        rows, cols = stack.enter_context(w.stretch(dims[-2], height, "row")), stack.enter_context(w.stretch(dims[-1], width, "col"))
        out = cube_tile(w, "acc", "acc", rows.size, cols.size, (rows.count, cols.count), INT32 if inputs is INT8 else FP32, inputs is INT8)
        _contract(w, op, Region(rows, cols), out, inputs, False, None, shift)
        there = Region(w.moved(rows, start), cols)
        base = apply_args(op).get("acc")
        tile = _added(w, op, there, out, base, None) if isinstance(base, SSAValue) else out
        w.store(w.converted(tile, result, memory.dtype, op), flat, there, op)
    w.touch(memory)
    return memory


def _batch_start(w: BlockWriter, value: SSAValue, places: list[Extent]) -> Extent:
    """The first row of a matrix of a stack, seen as one matrix."""
    rank = len(d.shaped_type(value).shape)
    dims = [w.extent(value, axis) for axis in range(rank)]
    total: Extent = 0
    for dim, place in zip(dims[:-2], places[len(places) - (rank - 2) :] if rank > 2 else ()):
        total = w.add(w.mul(total, dim), 0 if dim == 1 else place)
    return w.mul(total, dims[-2]) if rank > 1 else 0


def _conditional(w: BlockWriter, op: d.ApplyOp, region: Region, out: Tile, inputs: DType, condition: SSAValue) -> None:
    """The first product of a sum starts it, the others are added."""
    if constant_of(condition) is not None:
        _contract(w, op, region, out, inputs, not constant_of(condition))
        return
    w.line(f"scf.if {scalar_as(w, condition, BOOL, op)} {{")
    for onto, tail in ((False, "} else {"), (True, "}")):
        w.indent += 1
        _contract(w, op, region, out, inputs, onto)
        w.indent -= 1
        w.line(tail)


def _added(w: BlockWriter, op: d.ApplyOp, region: Region, out: Tile, base: SSAValue, condition: object) -> Tile:
    """Nothing leads back into the accumulator: the vector core adds."""
    product = w.to_vec(out, op.results[0], op)
    before, total = w.pull(base, region, op), w.like(product, hint=hint_of(op.results[0]))
    if not isinstance(condition, SSAValue):
        return w.dest("tadd", [before, product], total)
    w.dest("tmov", [product], total)
    keep = w.define(f"arith.xori {scalar_as(w, condition, BOOL, op)}, {w.constant(True, BOOL)} : i1")
    with w.inside(f"scf.if {keep} {{"):
        w.dest("tadd", [before, total], total)
    return total


def _bias(w: BlockWriter, op: d.ApplyOp, bias: SSAValue, region: Region, result: DType, narrow: bool) -> Tile | None:
    """The bias in its memory, if it comes from a tensor in the type of the sum."""
    memory = w.source_box(bias)
    if memory is None or memory.dtype is not result:
        return None
    part = Region(Part(0, 1, 1), region.cols)
    known = None if isinstance(region.cols.count, str) else region.cols.count
    spec = TileSpec("mat", ELEMENTS[element_name(result)], 1, rounded_up(region.cols.size, 32 if narrow else 16), (1, known))
    staged = w.dest("tload", [w.slice(memory, part, op)], w.alloc(spec, (1, region.cols.count), "bias_mat"))
    placed = w.alloc(TileSpec("bias", spec.element, *spec.shape, spec.valid), staged.valid, "bias")
    return w.dest("tmov", [staged], placed)


def _with_bias(w: BlockWriter, op: d.ApplyOp, region: Region, out: Tile, bias: SSAValue) -> Tile:
    product = w.to_vec(out, op.results[0], op)
    line = w.pull(bias, Region(Part(0, 1, 1), region.cols), op)
    dtype = d.shaped_type(op.results[0]).dtype
    if d.shaped_type(bias).dtype is not dtype:
        line = w.dest("tcvt", [line], w.like(line, dtype), " {rmode = #pto<round_mode RINT>}")
    name = "tcolexpandadd" if product.spec.rows > 1 else "tadd"
    return w.dest(name, [product, line], w.like(product, hint=hint_of(op.results[0])))


# operands -------------------------------------------------------------------------------------------------------------------------------


def _side(w: BlockWriter, op: d.ApplyOp, side: Side, region: Region, loc: str, dtype: DType) -> Tile:
    """A block of an operand in the left or right memory."""
    staged = _staged(w, side[0], region, side[1], loc, op, dtype)
    return w.dest("tmov", [staged], cube_tile(w, loc, loc, region.rows.size, region.cols.size, staged.valid, dtype, dtype is INT8))


def _staged(w: BlockWriter, value: SSAValue, region: Region, turned: bool, role: str, op: Operation, dtype: DType) -> Tile:
    """A block of an operand in the mat memory; `region` is that of the operand after turning."""
    owner = value.owner
    if isinstance(owner, d.ApplyOp) and len(d.shaped_type(value).shape) == 2:
        if is_transpose(owner):
            return _staged(w, operand(owner, "input"), region, not turned, role, op, dtype)
        if owner.op == "move":
            return _staged(w, operand(owner, "input"), region, turned, role, op, dtype)
    memory = w.source_box(value) if d.shaped_type(value).dtype is dtype else None
    if memory is None and isinstance(w.values.get(value), Lazy) and isinstance(owner, d.LoadOp) and w.source_box(value) is None:
        raise w.refuse(op, "a product of a tile whose tensor was changed after it was loaded")
    if memory is None:
        source = region.turned if turned else region
        tile = w.converted(w.pull_anywhere(value, source, op), value, dtype, op)
        if w.arch == "a5" and tile.loc == "vec" and not turned:
            out = cube_tile(w, role, "mat", region.rows.size, region.cols.size, (region.rows.count, region.cols.count), dtype, dtype is INT8)
            return w.dest("tmov", [tile], out)
        memory, region = _through_memory(w, value, tile, source, region, op, dtype)
    out = cube_tile(w, role, "mat", region.rows.size, region.cols.size, (region.rows.count, region.cols.count), dtype, dtype is INT8, hint_of(value))
    return w.dest("tload", [w.slice(memory, region, op, turned)], out)


def _through_memory(w: BlockWriter, value: SSAValue, tile: Tile, source: Region, region: Region, op: Operation, dtype: DType) -> tuple[Memory, Region]:
    """A computed tile reaches the cube core through global memory, which also turns it."""
    if isinstance(w.values.get(value), Tile) and d.shaped_type(value).dtype is dtype:
        return w.spill(value, tile, op), region
    memory = w.workspace(dtype, (source.rows.size, source.cols.size), op, hint_of(value) or "tile")
    at_origin = Region(Part(0, source.rows.size, source.rows.count), Part(0, source.cols.size, source.cols.count))
    w.store(tile, memory, at_origin, op)
    moved = Region(Part(0, region.rows.size, region.rows.count), Part(0, region.cols.size, region.cols.count))
    return memory, moved


def zeroed(w: BlockWriter, type: TileType, valid: tuple[Extent, Extent], dtype: DType, hint: str | None) -> Tile:
    """An accumulator full of zeros: nothing fills one but a product, so it is the product of two small tiles of zeros."""
    rows, cols = (dim for dim in type.shape if isinstance(dim, int))
    narrow, zero = dtype is INT8, (w.constant(0, dtype), scalar_name(dtype))
    inner = 32 if narrow else 16
    sides: list[Tile] = []
    for loc, shape, part in (("left", (rows, inner), (valid[0], inner)), ("right", (inner, cols), (inner, valid[1]))):
        staged = w.dest("texpands", [zero], cube_tile(w, loc, "mat", *shape, part, dtype, narrow, "zeros"))
        sides.append(w.dest("tmov", [staged], cube_tile(w, loc, loc, *shape, part, dtype, narrow)))
    out = cube_tile(w, "acc", "acc", rows, cols, valid, INT32 if narrow else FP32, narrow, hint)
    return w.dest("tmatmul", sides, out)
