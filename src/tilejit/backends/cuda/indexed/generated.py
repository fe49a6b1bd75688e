"""Rules of values that are made from scalars: constants, ramps, triangles, random numbers."""

from __future__ import annotations

from collections.abc import Sequence

from tilejit.backends.cuda.indexed.move import (
    block_text,
    flat_index,
    scalars,
    shape_of,
    whole_tile,
)
from tilejit.backends.cuda.program import memory
from tilejit.backends.cuda.program.body import Body, block_shape
from tilejit.backends.cuda.program.rows import filled, result_dtype
from tilejit.backends.cuda.text import elementwise, numbers
from tilejit.backends.cuda.text.types import computed_in, padded, register
from tilejit.backends.cuda.text.values import Scalar, Tile, Value, index
from tilejit.dtypes import INDEX
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.tile_ir.build import apply_args


def full(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    shape = shape_of(op)
    return [filled(body, shape, result_dtype(op), body.scalar(value_of(apply_args(op)["value"])), tuple(index(extent) for extent in shape))]


def create_tile(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    shape, dtype = shape_of(op), result_dtype(op)
    return [Tile(f"tl.zeros({block_shape(shape)}, {register(dtype)})", dtype, shape, tuple(index(extent) for extent in shape))]


def ci(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    args, shape, dtype = apply_args(op), shape_of(op), result_dtype(op)
    start, steps = body.index(value_of(args["start"])), _ramp(body, shape, len(shape) - 1)
    cells = (numbers.sub if args.get("descending") else numbers.add)(start, steps)
    return [Tile(f"{cells.text}.to({register(dtype)})", dtype, shape, tuple(index(extent) for extent in shape))]


def _ramp(body: Body, shape: Sequence[int], axis: int) -> Scalar:
    """The numbers of an axis, each as an INDEX."""
    size = padded(shape[axis])
    return Scalar(memory.spread(body.out.arange(size), axis, len(shape)), INDEX, (0, size - 1))


def tri(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    args, shape, dtype = apply_args(op), shape_of(op), result_dtype(op)
    diagonal = body.index(value_of(args["diagonal"]))
    row, column = (_ramp(body, shape, axis) for axis in range(2))
    flags = f"({column.text} {'>=' if args.get('upper') else '<='} {numbers.add(row, diagonal).text})"
    text = elementwise.held(body.out, f"{flags}.to({register(computed_in(dtype))})", dtype)
    return [Tile(text, dtype, shape, made_valid(body, op, args, shape))]


def made_valid(body: Body, op: d.ApplyOp, args: dict[str, object], shape: Sequence[int]) -> tuple[Scalar, ...]:
    wanted = scalars(body, args["valid_shape"]) if isinstance(args.get("valid_shape"), list) else [index(extent) for extent in shape]
    for axis, (size, extent) in enumerate(zip(wanted, shape, strict=True)):
        if not numbers.within(size, 0, index(extent)):
            failure = Failure("bounds", f"{op.op}: the valid region is {{0}} in dim {axis}, the extent is {{1}}", op.span, "a valid region is 0 to the extent")
            body.failures.report(body.out, f"({size.text} >= 0) & ({size.text} <= {extent})", failure, (size, index(extent)))
    return body.valid_of(op, 0, lambda axis: numbers.clamp(wanted[axis], index(0), index(shape[axis])))


def random(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    """Philox words: four for each counter, side by side."""
    args, shape, dtype = apply_args(op), shape_of(op), result_dtype(op)
    words = {name: body.index(value_of(args[name])) for name in ("key0", "key1", "counter0", "counter1", "counter2", "counter3")}
    low = {name: f"({numbers.wide(word)} & 0xFFFFFFFF)" for name, word in words.items()}
    cells = whole_tile(body, shape)
    flat = body.out.let("cell", f"tl.broadcast_to({flat_index(cells.at, shape)}, {block_text(cells.block)})")
    seed = body.out.let("seed", f"({low['key1']} << 32) | {low['key0']}")
    start = body.out.let("start", f"({low['counter1']} << 32) | {low['counter0']}")
    counter = body.out.let("counter", f"({flat} // 4).to(tl.int64) + {start}")
    zero = body.out.let("zero", f"{flat} * 0")
    parts = [f"({counter} & 0xFFFFFFFF).to(tl.uint32)", f"(({counter} >> 32) & 0xFFFFFFFF).to(tl.uint32)"]
    parts += [f"({zero} + {low[name]}).to(tl.uint32)" for name in ("counter2", "counter3")]
    names = [body.out.fresh(f"w{i}") for i in range(4)]
    body.out.line(f"{', '.join(names)} = tl.philox({seed}, {', '.join(parts)}, {args.get('rounds', 10)})")
    which = f"({flat} % 4)"
    text = f"tl.where({which} == 0, {names[0]}, tl.where({which} == 1, {names[1]}, tl.where({which} == 2, {names[2]}, {names[3]})))"
    return [Tile(f"{text}.to({register(dtype)}, bitcast=True)", dtype, shape, made_valid(body, op, args, shape))]
