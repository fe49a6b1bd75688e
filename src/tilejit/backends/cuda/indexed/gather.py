"""Rules that pick cells by index, pattern or comparison: computed places in memory; every index is checked, and replaced by 0 where it is wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from tilejit.backends.cuda.indexed.move import Cells, fetch, inside, scalars, shape_of, valid_of_source, whole_tile
from tilejit.backends.cuda.program import memory
from tilejit.backends.cuda.program.body import Body, block_shape
from tilejit.backends.cuda.program.buffers import is_contiguous
from tilejit.backends.cuda.program.rows import operand, result_dtype
from tilejit.backends.cuda.text import elementwise, numbers
from tilejit.backends.cuda.text.types import padded, register
from tilejit.backends.cuda.text.values import Buffer, Scalar, Tile, Value, index
from tilejit.dtypes import INDEX, INT8, INT32, UINT32
from tilejit.ops.gather import CMP_MODES, INDEX_HELP, PATTERNS
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.tile_ir.build import apply_args


def index_tile(body: Body, value: object) -> Tile:
    found = operand(body, value_of(value))
    assert isinstance(found, Tile)
    return found


def checked(body: Body, op: d.ApplyOp | d.EffectOp, name: str, at: str, shape: Sequence[int], where: str | None, extent: Scalar) -> str:
    """Indices inside [0, extent): one outside is reported, and counts as 0."""
    sizes = block_shape(shape)
    good = f"({at} >= 0) & ({at} < {extent.text})"
    if where is not None:
        good = f"({good}) | (tl.broadcast_to({where}, {sizes}) == 0)"
    fine = body.out.let("fine", good)
    if body.options.check_bounds:
        wrong, none = first_outside(body, at, fine, shape)
        failure = Failure("bounds", f"{name}: index {{0}} of an extent of {{1}}", op.span, INDEX_HELP)
        body.failures.report(body.out, none, failure, (wrong, extent))
    return body.out.let("at", f"tl.where({fine}, {at}, 0)")


def first_outside(body: Body, at: str, fine: str, shape: Sequence[int]) -> tuple[Scalar, str]:
    """The first of the numbers `at` that is not `fine`, and the text of the flag that says that there is none."""
    flat = body.out.let("cell", f"tl.broadcast_to({numbering(body, shape, [padded(extent) for extent in shape])}, {block_shape(shape)})")
    bad = body.out.let("bad", _fold("min", f"tl.where({fine}, 2147483647, {flat})", len(shape)))
    wrong = body.out.let("wrong", _fold("sum", f"tl.where({flat} == {bad}, ({at}).to(tl.int64), 0)", len(shape)))
    return Scalar(wrong, INDEX), f"{bad} == 2147483647"


def _fold(name: str, text: str, rank: int) -> str:
    for _ in range(rank):
        text = f"tl.{name}({text}, 0)"
    return text


def numbering(body: Body, shape: Sequence[int], room: Sequence[int]) -> str:
    """The numbers of the cells of a tile, row by row, where each dim has so much room."""
    parts: list[str] = []
    stride = 1
    for axis in range(len(shape) - 1, -1, -1):
        steps = memory.spread(body.out.arange(padded(shape[axis])), axis, len(shape))
        parts.append(steps if stride == 1 else f"{steps} * {stride}")
        stride *= room[axis]
    return " + ".join(reversed(parts))


def flat(buffer: Buffer) -> Buffer:
    """A contiguous buffer as one row of cells."""
    return replace(buffer, dims=memory.contiguous([numbers.product(buffer.shape)]))


def in_order(buffer: Buffer, number: str) -> tuple[Buffer, list[str]]:
    """A buffer with the place of a cell that is known by its number, row by row: along each dim where there are gaps, as in a window."""
    if is_contiguous(buffer):
        return flat(buffer), [number]
    at: list[str] = []
    for axis, extent in enumerate(buffer.shape):
        inner = numbers.product(buffer.shape[axis + 1 :])
        text = number if inner.const == 1 else f"({number} // {inner.text})"
        at.append(text if axis == 0 else f"({text} % {extent.text})")
    return buffer, at


def gather(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    args = apply_args(op)
    if isinstance(args.get("index"), SSAValue):
        return by_index(body, op)
    if args.get("mask_pattern") is not None:
        return by_pattern(body, op, value_of(args["input"]))
    return by_comparison(body, op, value_of(args["input"]))


def by_index(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    args = apply_args(op)
    there = valid_of_source(body, value_of(args["input"]))
    source, wanted = body.in_memory(value_of(args["input"])), index_tile(body, args["index"])
    axis = int(str(args["dim"])) % wanted.rank
    where = memory.mask(body.out, wanted.shape, wanted.valid)
    for other in range(wanted.rank):
        need, extent = wanted.valid[other], there[other]
        if other != axis and not numbers.within(need, 0, extent):
            failure = Failure("bounds", f"gather: {{0}} rows of index for an extent of {{1}} in dim {other}", op.span)
            body.failures.report(body.out, f"{need.text} <= {extent.text}", failure, (need, extent))
    cells = whole_tile(body, wanted.shape)
    at = list(cells.at)
    at[axis] = checked(body, op, "gather", wanted.text, wanted.shape, where, there[axis])
    bounds = [f"({place} < {extent.text})" for other, (place, extent) in enumerate(zip(at, source.shape, strict=True)) if other != axis]
    mask = " & ".join([*([where] if where else []), *bounds]) or None
    text = fetch(body, source, at, Cells((), cells.block, None), mask)
    return [Tile(text, source.dtype, wanted.shape, body.valid_of(op, 0, lambda a: wanted.valid[a]))]


def gather_flat(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    args = apply_args(op)
    source, wanted = body.in_memory(value_of(args["src"])), index_tile(body, args["indices"])
    where = memory.mask(body.out, wanted.shape, wanted.valid)
    at = checked(body, op, "gather", wanted.text, wanted.shape, where, numbers.product(source.shape))
    text = fetch(body, *in_order(source, at), Cells((), wanted.padded, where))
    return [Tile(text, source.dtype, wanted.shape, body.valid_of(op, 0, lambda a: wanted.valid[a]))]


def pattern_of(op: d.ApplyOp) -> tuple[int, int]:
    """First column and step of an op's mask pattern."""
    return PATTERNS[int(op.statics["mask_pattern"])]


def by_pattern(body: Body, op: d.ApplyOp, value: SSAValue) -> Sequence[Value]:
    first, step = pattern_of(op)
    there = valid_of_source(body, value)
    source, shape, dtype = body.in_memory(value), shape_of(op), result_dtype(op)
    cells = whole_tile(body, shape)
    text = fetch(body, source, [*cells.at[:-1], f"({cells.at[-1]} * {step} + {first})"], cells)
    if dtype is not source.dtype:
        text = f"{text}.to({register(dtype)}, bitcast=True)"
    columns = numbers.floordiv(numbers.maximum(numbers.add(there[-1], index(step - 1 - first)), index(0)), step)
    return [Tile(text, dtype, shape, body.valid_of(op, 0, lambda axis: there[axis] if axis < len(shape) - 1 else columns))]


def gather_mask(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    return by_pattern(body, op, value_of(apply_args(op)["src"]))


def gather_compare(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    return by_comparison(body, op, value_of(apply_args(op)["src"]))


def by_comparison(body: Body, op: d.ApplyOp, value: SSAValue) -> Sequence[Value]:
    """Columns that compare with a value, ascending, and how many: counted by a running sum, put in order through scratch."""
    args = apply_args(op)
    data = operand(body, value)
    assert isinstance(data, Tile)
    most, offset, mode = int(str(args["out_cols"])), int(str(args.get("offset", 0))), CMP_MODES.index(str(args["cmp_mode"]))
    wanted = body.scalar_text(body.scalar(value_of(args["kvalue"])), data.dtype)
    where = memory.mask(body.out, data.shape, data.valid)
    hits = f"({elementwise.widen(body.out, data.text, data.dtype)} {elementwise.COMPARISONS[mode]} {wanted})"
    hits = body.out.let("hits", hits if where is None else f"{hits} & ({where})")
    places = body.out.let("places", f"tl.cumsum({hits}.to(tl.int32), 1) - 1")
    rows = data.shape[0]
    room = memory.scratch_buffer(body.out, (rows, most), INT32)
    body.order.barrier(body.out)
    row, column = (memory.spread(body.out.arange(size), axis, 2) for axis, size in enumerate(data.padded))
    pointers = f"{room.pointer} + {row} * {most} + {places}"
    body.out.line(
        f"tl.store({pointers}, tl.broadcast_to({column} + {offset}, {block_shape(data.shape)}), mask={hits} & ({places} < {most}) & ({row} < {rows}))"
    )
    body.order.barrier(body.out)
    found = body.load_tile(room, (index(0), index(0)), (rows, most), (index(rows), index(most)), "found")
    count = body.out.let("count", f"tl.minimum(tl.sum({hits}.to(tl.int32), 1, keep_dims=True), {most})")
    counts, dtype = f"tl.trans({count})", result_dtype(op, 1)
    positions = replace(found, valid=body.valid_of(op, 0, lambda axis: (data.valid[0], index(most))[axis]), zeros=False)
    return [positions, Tile(f"{counts}.to({register(dtype)})", dtype, (1, rows), body.valid_of(op, 1, lambda axis: (index(1), data.valid[0])[axis]))]


def gatherb(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    """Blocks of 32 bytes: put together from single bytes, since they may start anywhere."""
    args, shape, dtype = apply_args(op), shape_of(op), result_dtype(op)
    source, wanted = body.in_memory(value_of(args["src"])), index_tile(body, args["offset"])
    content = numbers.product(source.shape)
    size = numbers.mul(content, index(source.dtype.get_byte()))
    where = memory.mask(body.out, wanted.shape, wanted.valid)
    starts = checked(body, op, "gatherb", wanted.text, wanted.shape, where, numbers.sub(size, index(31)))
    place = body.spill(Tile(body.out.let("starts", f"{starts}.to(tl.int32)"), INT32, wanted.shape, wanted.valid))
    cells, bytes_ = whole_tile(body, shape), dtype.get_byte()
    per = 32 // bytes_
    column = cells.at[-1]
    start = body.out.let("start", fetch(body, place, [*cells.at[:-1], f"({column} // {per})"], cells))
    pointer = body.out.let("p", memory.as_pointer(source, INT8))
    flat_bytes = Buffer(pointer, index(0), memory.contiguous([size]), INT8, source.root, source.scratch)
    carrier = {1: "tl.int32", 2: "tl.int32", 4: "tl.int32", 8: "tl.int64"}[bytes_]
    parts = [
        f"(({fetch(body, flat_bytes, [f'({start} + ({column} % {per}) * {bytes_} + {i})'], cells)}).to({carrier}) & 255) << {8 * i}" for i in range(bytes_)
    ]
    word = " | ".join(f"({part})" for part in parts)
    whole = {1: "tl.int8", 2: "tl.int16", 4: "tl.int32", 8: "tl.int64"}[bytes_]
    text = f"({word}).to({whole}).to({register(dtype)}, bitcast=True)"
    columns = numbers.mul(wanted.valid[-1], index(per))
    return [Tile(text, dtype, shape, body.valid_of(op, 0, lambda axis: wanted.valid[axis] if axis < len(shape) - 1 else columns))]


# from memory ------------------------------------------------------------------------------------------------------------


def mgather(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    args, shape = apply_args(op), shape_of(op)
    source, wanted = body.in_memory(value_of(args["mem"])), index_tile(body, args["idx"])
    by_row, policy = args.get("coalesce", "row") == "row", str(args.get("gather_oob", "undefined"))
    cells = whole_tile(body, shape)
    valid = [wanted.valid[1 if wanted.shape[0] == 1 else 0], index(shape[1])] if by_row else list(wanted.valid)
    if isinstance(args.get("valid_shape"), list):
        valid = [numbers.minimum(a, b) for a, b in zip(valid, scalars(body, args["valid_shape"]), strict=True)]
    text = wanted.text
    if by_row:
        turned = f"tl.trans({text})" if wanted.shape[0] == 1 and wanted.shape[1] != 1 else text
        text = f"tl.broadcast_to({turned}, {block_shape(shape)})" if shape[1] != 1 or wanted.shape != shape else turned
    extent = numbers.product(source.shape[:-1]) if by_row else numbers.product(source.shape)
    mask = memory.mask(body.out, shape, valid)
    text = body.out.let("wanted", text)
    unsigned = f"({text}.to(tl.int64) & 0xFFFFFFFF)"
    outside = body.out.let("outside", f"{unsigned} >= {extent.text}")
    if policy == "undefined":
        at = checked(body, op, "mgather", text if wanted.dtype is not UINT32 else unsigned, shape, mask, extent)
    elif policy == "wrap":
        at = body.out.let("at", f"{unsigned} % {extent.text}")
    else:
        at = body.out.let("at", f"tl.minimum({unsigned}, {extent.text} - 1)")
    table, places = (replace(source, dims=(_rows(source), source.dims[-1])), [at, cells.at[1]]) if by_row else in_order(source, at)
    picked = fetch(body, table, places, Cells((), cells.block, mask))
    if policy == "zero":
        picked = f"tl.where({outside}, 0, {picked}).to({register(source.dtype)})"
    return [Tile(picked, source.dtype, shape, body.valid_of(op, 0, lambda axis: valid[axis]))]


def _rows(buffer: Buffer):
    from tilejit.backends.cuda.nests.nest import merged

    found = merged(buffer, buffer.rank - 1)
    assert found is not None
    return found.dims[0]


def paged_gather(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    args, shape = apply_args(op), shape_of(op)
    page, size, most, first = (int(str(args.get(name, default))) for name, default in (("block_size", 1), ("size", 1), ("max_indices", 1), ("col_off", 0)))
    source = body.in_memory(value_of(args["src"]))
    places, table = (body.in_memory(value_of(args[name])) for name in ("indices", "block_table"))
    there = valid_of_source(body, value_of(args["indices"]))
    count = numbers.product(there)
    turned = bool(args.get("is_trans"))
    cells = whole_tile(body, shape)
    row_axis = 1 if turned else 0
    line = memory.spread(body.out.arange(padded(most)), 0, 1)
    inside_ = body.out.let("inside", f"{line} < {numbers.minimum(count, index(most)).text}")
    one = Cells((), (padded(most),), inside_)
    logical = body.out.let("logical", f"{fetch(body, *in_order(places, line), one)}.to(tl.int64)")
    number = checked(body, op, "paged_gather", f"({logical} // {page})", (most,), inside_, numbers.product(table.shape))
    physical = body.out.let("physical", f"{fetch(body, *in_order(table, number), one)}.to(tl.int64) * {page} + {logical} % {page}")
    rows = checked(body, op, "paged_gather", physical, (most,), inside_, source.shape[0])
    spread = memory.spread(rows, row_axis, 2)
    column = f"({cells.at[1 - row_axis]} + {first})"
    mask = memory.spread(inside_, row_axis, 2)
    where = f"{mask} & ({cells.at[1 - row_axis]} < {size})"
    text = fetch(body, source, [spread, column], Cells((), cells.block, None), where)
    sizes = [count, index(size)]
    return [Tile(text, source.dtype, shape, body.valid_of(op, 0, lambda axis: sizes[axis] if not turned else sizes[1 - axis]))]


def gather_row(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    """A window of a tensor written into a tile."""
    args = apply_args(op)
    target = operand(body, value_of(args["dst"]))
    assert isinstance(target, Tile)
    source = body.in_memory(value_of(args["src"]))
    start, place = scalars(body, args["src_offset"]), scalars(body, args["dst_offset"])
    size = scalars(body, args["valid_shape"] if isinstance(args.get("valid_shape"), list) else args["shapes"])
    good = inside(body, op, "reads", source.shape, start, size)
    turned = bool(args.get("transpose"))
    written = [size[-1], size[-2]] if turned else [size[-2], size[-1]]
    fits = inside(body, op, "writes", [index(extent) for extent in target.shape], place, written)
    cells = whole_tile(body, target.shape)
    near = [f"({at} - {first.text})" for at, first in zip(cells.at, place, strict=True)]
    flags = [f"({at} >= 0) & ({at} < {extent.text})" for at, extent in zip(near, written, strict=True)] + [flag for flag in (good, fits) if flag]
    put = body.out.let("put", f"tl.broadcast_to({' & '.join(flags)}, {block_shape(target.shape)})")
    moved = near[::-1] if turned else near
    at = [*(item.text for item in start[:-2]), *(f"({first.text} + {step})" for first, step in zip(start[-2:], moved, strict=True))]
    new = fetch(body, source, at, Cells((), cells.block, None), put)
    piece = Tile(new, source.dtype, target.shape, target.valid)
    text = f"tl.where({put}, {body.converted(piece, target.dtype)}, {target.text})"
    union = [
        numbers.minimum(numbers.maximum(own, numbers.add(first, extent)), index(limit))
        for own, first, extent, limit in zip(target.valid, place, written, target.shape, strict=True)
    ]
    return [Tile(text, target.dtype, target.shape, body.valid_of(op, 0, lambda axis: union[axis]))]


def cells_of(shape: Sequence[int]) -> int:
    return math.prod(shape)
