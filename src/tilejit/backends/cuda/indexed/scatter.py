"""Rules that put cells where an index says, the last of equal indices winning, and that sort: by counting how many come before each element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from tilejit.backends.cuda.indexed.gather import checked, flat, in_order, index_tile, numbering, pattern_of
from tilejit.backends.cuda.indexed.move import Cells, fetch, shape_of, whole_tile
from tilejit.backends.cuda.program import memory
from tilejit.backends.cuda.program.body import Body, block_shape
from tilejit.backends.cuda.program.rows import operand, result_dtype
from tilejit.backends.cuda.text import numbers
from tilejit.backends.cuda.text.types import padded
from tilejit.backends.cuda.text.values import Buffer, Scalar, Tile, Value, index
from tilejit.dtypes import FP32, INDEX, INT32
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.tile_ir.build import apply_args


def scatter(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    args = apply_args(op)
    if not isinstance(args.get("index"), SSAValue):
        return _into_pattern(body, op, value_of(args["dst"]), value_of(args["input"]))
    target, source, wanted = (index_tile(body, args[name]) for name in ("input", "src", "index"))
    where = memory.mask(body.out, wanted.shape, wanted.valid)
    columns = checked(body, op, "scatter", wanted.text, wanted.shape, where, index(target.shape[1]))
    if wanted.valid[0].bounds is None or wanted.valid[0].bounds[1] > target.shape[0]:
        failure = Failure("bounds", "scatter: {0} rows of index for {1} rows", op.span)
        body.failures.report(body.out, f"{wanted.valid[0].text} <= {target.shape[0]}", failure, (wanted.valid[0], index(target.shape[0])))
    row = memory.spread(body.out.arange(wanted.padded[0]), 0, 2)
    inside = f"({row} < {target.shape[0]})" + (f" & {where}" if where else "")
    return [_last_wins(body, op, target, source, f"{row} * {target.shape[1]} + {columns}", inside)]


def scatter_flat(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    args = apply_args(op)
    target, source, wanted = (index_tile(body, args[name]) for name in ("dst", "src", "indexes"))
    where = memory.mask(body.out, wanted.shape, wanted.valid)
    places = checked(body, op, "scatter", wanted.text, wanted.shape, where, index(math.prod(target.shape)))
    return [_last_wins(body, op, target, source, places, where)]


def _last_wins(body: Body, op: d.ApplyOp, target: Tile, source: Tile, places: str, where: str | None) -> Tile:
    """Each cell of the target asks which source was the last to want it: an atomic maximum of positions."""
    out, sizes = body.out, block_shape(source.shape)
    winner = memory.scratch_buffer(out, target.shape, INT32)
    cells = whole_tile(body, target.shape)
    everything = memory.tile_pointers(out, winner, [index(0)] * target.rank, target.shape)
    body.order.barrier(out)
    out.line(memory.store_line(out, everything, f"tl.full({block_shape(target.shape)}, -1, tl.int32)", cells.where, INT32))
    body.order.barrier(out)
    number = out.let("number", f"tl.broadcast_to({numbering(body, source.shape, source.shape)}, {sizes})")
    limit = [memory.mask(out, source.shape, tuple(index(extent) for extent in source.shape))]
    mask = " & ".join(f"({item})" for item in (*limit, where) if item)
    chosen_cells = f", mask=tl.broadcast_to({mask}, {sizes})" if mask else ""
    out.line(f'tl.atomic_max({winner.pointer} + tl.broadcast_to({places}, {sizes}), {number}{chosen_cells}, sem="relaxed")')
    body.order.barrier(out)
    chosen = body.load_tile(winner, [index(0)] * target.rank, target.shape, tuple(index(extent) for extent in target.shape), "chosen")
    place = flat(body.spill(source))
    hit = out.let("hit", f"({chosen.text} >= 0)" + (f" & ({cells.where})" if cells.where else ""))
    new = fetch(body, place, [chosen.text], Cells((), cells.block, None), hit)
    return Tile(f"tl.where({hit}, {new}, {target.text})", target.dtype, target.shape, body.valid_of(op, 0, lambda axis: target.valid[axis]))


def scatter_mask(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    args = apply_args(op)
    return _into_pattern(body, op, value_of(args["dst"]), value_of(args["src"]))


def _into_pattern(body: Body, op: d.ApplyOp, base: SSAValue, compact: SSAValue) -> Sequence[Value]:
    first, step = pattern_of(op)
    target = operand(body, base)
    assert isinstance(target, Tile)
    source, cells = body.in_memory(compact), whole_tile(body, target.shape)
    column = cells.at[-1]
    hit = f"(({column} % {step}) == {first})" + (f" & ({cells.where})" if cells.where else "")
    hit = body.out.let("hit", f"tl.broadcast_to({hit}, {block_shape(target.shape)})")
    new = fetch(body, source, [*cells.at[:-1], f"({column} // {step})"], Cells((), cells.block, None), hit)
    return [Tile(f"tl.where({hit}, {new}, {target.text})", target.dtype, target.shape, body.valid_of(op, 0, lambda axis: target.valid[axis]))]


# into memory ------------------------------------------------------------------------------------------------------------


def mscatter(body: Body, op: d.EffectOp) -> Sequence[Value]:
    """Elements into a tensor one after the other: a store by one thread keeps the order of equal indices."""
    args = apply_args(op)
    source, wanted = index_tile(body, args["src"]), index_tile(body, args["idx"])
    target = body.buffer(value_of(args["output_tensor"]))
    valid = [numbers.minimum(a, b) for a, b in zip(source.valid, wanted.valid, strict=True)]
    where = memory.mask(body.out, wanted.shape, valid)
    extent = numbers.product(target.shape)
    places = checked(body, op, "mscatter", wanted.text, wanted.shape, where, extent)
    fine = target.guarded(f"({wanted.text} >= 0) & ({wanted.text} < {extent.text})")
    first = body.spill(Tile(body.out.let("places", f"tl.where({fine}, {places}.to(tl.int64), -1)"), INDEX, wanted.shape, wanted.valid))
    cells = body.spill(source)
    body.order.before_store(body.out, target.root)
    names: list[str] = []
    for axis, size in enumerate(valid):
        names.append(body.out.fresh(f"at{axis}"))
        body.out.line(f"for {names[-1]} in range(0, {size.text}):")
        body.out.depth += 1
    offset = " + ".join(f"{name} * {dim.stride.text}" for name, dim in zip(names, cells.dims, strict=True))
    place = body.out.let("place", f"tl.load({first.pointer} + {offset})")
    body.out.line(f"tl.store({_cell(target, place)}, tl.load({cells.pointer} + {offset}), mask={place} >= 0)")  # what was wrong goes nowhere
    body.out.depth -= len(names)
    return []


def _cell(buffer: Buffer, number: str) -> str:
    """The address of a cell that is known by its number, row by row."""
    lines, at = in_order(buffer, number)
    return " + ".join([lines.start, *(place if dim.stride.const == 1 else f"{place} * {dim.stride.text}" for place, dim in zip(at, lines.dims, strict=True))])


def scatter_update(body: Body, op: d.ApplyOp | d.EffectOp) -> Sequence[Value]:
    """Whole rows, one after the other; each thread writes the same columns of every row, so the last one stays."""
    args = apply_args(op)
    base = value_of(args["input"])
    source = body.in_memory(value_of(args["src"]))
    places = body.in_memory(value_of(args["index"]))
    found = body[base]
    in_place = isinstance(op, d.EffectOp) and isinstance(found, Buffer)
    target = found if in_place and isinstance(found, Buffer) else body.spill(index_tile(body, base))
    from tilejit.backends.cuda.nests.nest import merged

    rows, given = merged(target, target.rank - 1), merged(source, source.rank - 1)
    assert rows is not None and given is not None
    out = body.out
    body.order.barrier(out)
    width = rows.shape[1]
    at = out.fresh("line")
    columns = padded(min(int(width.const or 1024), 1024))
    there = [buffer.good for buffer in (target, source, places) if buffer.good is not None]
    known = f", mask={' & '.join(there)}, other=-1" if there else ""  # of a window that is outside nothing is touched
    with out.block(f"for {at} in range(0, {numbers.product(places.shape).text}):"):
        wanted = out.let("wanted", f"tl.load({_cell(places, at)}{known}).to(tl.int64)")
        fine = out.let("fine", f"({wanted} >= 0) & ({wanted} < {rows.shape[0].text})")
        failure = Failure("bounds", "scatter_update: index {0} of an extent of {1}", op.span, "keep 0 <= index < extent")
        body.failures.report(out, fine, failure, (Scalar(wanted, INDEX), rows.shape[0]))
        first = out.fresh("first")
        with out.block(f"for {first} in range(0, {width.text}, {columns}):"):
            column = out.let("column", f"{first} + {out.arange(columns)}")
            mask = out.let("there", f"({column} < {width.text}) & {fine}")
            line = f"tl.load({given.start} + {at} * {given.dims[0].stride.text} + {_steps(column, given)}, mask={mask}, other=0)"
            out.line(f"tl.store({rows.start} + {wanted} * {rows.dims[0].stride.text} + {_steps(column, rows)}, {line}, mask={mask})")
    body.order.barrier(out)
    if isinstance(op, d.EffectOp):
        return []
    shape = shape_of(op)
    return [body.load_tile(target, [index(0)] * len(shape), shape, tuple(index(extent) for extent in shape), op.hint)]


def _steps(column: str, lines: Buffer) -> str:
    """Where the cells of columns lie in their line."""
    stride = lines.dims[1].stride
    return column if stride.const == 1 else f"{column} * {stride.text}"


# sorting ----------------------------------------------------------------------------------------------------------------


def sort32(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    args = apply_args(op)
    source, marks = index_tile(body, args["src"]), index_tile(body, args["idx"])
    dtype = result_dtype(op)
    bits = f"{marks.text}.to(tl.float32, bitcast=True)" if dtype is FP32 else f"{marks.text}.to(tl.uint16).to(tl.float16, bitcast=True)"
    values, own = body.spill(source), body.spill(replace(marks, text=body.out.let("marks", bits), dtype=dtype))
    columns = source.shape[-1]
    pairs = (values, own)
    return [_ordered(body, op, pairs, ("{i}", "{i}"), columns, index(32), math.prod(source.shape[:-1]), (columns, columns))]


def mrgsort(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    args = apply_args(op)
    shape = shape_of(op)
    columns = shape[-1]
    names = [name for name in ("src0", "src1", "src2", "src3") if isinstance(args.get(name), SSAValue)]
    dtype = result_dtype(op)
    rows = math.prod(shape[:-1])
    joined = memory.scratch_buffer(body.out, (rows, columns), dtype)
    body.order.barrier(body.out)
    first = 0
    for name in names:
        tile = index_tile(body, args[name])
        own = tile.shape[-1]
        part = replace(joined, offset=index(first), dims=(*memory.contiguous([index(extent) for extent in tile.shape[:-1]]), joined.dims[1]))
        part = replace(
            part, dims=(*(replace(dim, stride=numbers.mul(dim.stride, index(columns))) for dim in part.dims[:-1]), replace(joined.dims[1], extent=index(own)))
        )
        where = memory.mask(body.out, tile.shape, tuple(index(extent) for extent in tile.shape))
        body.out.line(memory.store_line(body.out, memory.tile_pointers(body.out, part, [index(0)] * tile.rank, tile.shape), tile.text, where, dtype))
        first += own
    body.order.barrier(body.out)
    group = index(columns // 2)
    if isinstance(args.get("block_len"), SSAValue):
        run = body.index(value_of(args["block_len"]))
        if run.const is None:
            failure = Failure("shape", f"mrgsort takes a `block_len` that is a multiple of 64 and divides {columns}, got {{0}}", op.span)
            good = f"({run.text} >= 64) & ({run.text} % 64 == 0) & ({columns} % tl.maximum({run.text}, 1) == 0)"
            body.failures.report(body.out, good, failure, (run,))
            run = numbers.maximum(run, index(64))
        group = numbers.mul(run, index(2))
    return [_ordered(body, op, (joined, joined), ("(2 * ({i}))", "(2 * ({i}) + 1)"), columns // 2, group, rows, (columns, columns))]


def _ordered(
    body: Body, op: d.ApplyOp, pairs: tuple[Buffer, Buffer], at: tuple[str, str], count: int, group: Scalar, rows: int, strides: tuple[int, int]
) -> Tile:
    """Pairs in descending order of their values within each group: the place of one is the number that go before it."""
    out, shape, dtype = body.out, shape_of(op), result_dtype(op)
    room = memory.scratch_buffer(out, shape, dtype)
    own, others = min(padded(count), 256), min(padded(count), 32)
    row, first, other = out.fresh("row"), out.fresh("first"), out.fresh("other")
    values, marks = pairs
    body.order.barrier(out)
    with out.block(f"for {row} in range(0, {rows}):"), out.block(f"for {first} in range(0, {count}, {own}):"):
        i = out.let("mine", f"{first} + {out.arange(own)}")
        here = out.let("here", f"{i} < {count}")
        start = out.let("group", f"({i} // {group.text}) * {group.text}")
        v = out.let("v", f"{_load(body, values, row, strides[0], at[0].format(i=i), here)}.to(tl.float32)")
        place = out.fresh("place")
        out.line(f"{place} = {start}.to(tl.int32)")
        with out.block(f"for {other} in range(0, {group.text}, {others}):"):
            j = out.let("j", f"{start}[:, None] + {other} + {out.arange(others)}[None, :]")
            there = out.let("there", f"({j} < {count}) & (({other} + {out.arange(others)})[None, :] < {group.text}) & {here}[:, None]")
            w = out.let("w", f"{_load(body, values, row, strides[0], at[0].format(i=j), there)}.to(tl.float32)")
            mine = f"{v}[:, None]"
            ahead = f"({w} > {mine}) | (({mine} != {mine}) & ({w} == {w})) | ((({w} == {mine}) | (({w} != {w}) & ({mine} != {mine}))) & ({j} < {i}[:, None]))"
            out.line(f"{place} += tl.sum((({ahead}) & {there}).to(tl.int32), 1)")
        target = f"{room.pointer} + {row} * {shape[-1]} + 2 * {place}"
        out.line(f"tl.store({target}, {_load(body, values, row, strides[0], at[0].format(i=i), here)}, mask={here})")
        out.line(f"tl.store({target} + 1, {_load(body, marks, row, strides[1], at[1].format(i=i), here)}, mask={here})")
    body.order.barrier(out)
    made = body.load_tile(room, [index(0)] * len(shape), shape, tuple(index(extent) for extent in shape), op.hint)
    return replace(made, zeros=False)


def _load(body: Body, buffer: Buffer, row: str, stride: int, at: str, where: str) -> str:
    return f"tl.load({buffer.start} + {row} * {stride} + {at}, mask={where}, other=0.0)"
