"""Loops and blocks whose trips do not depend on each other, as one program each; those that are tiles of a product, as that product."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from tilejit import ops
from tilejit.backends.cuda.control_plane import host
from tilejit.backends.cuda.control_plane.frame import Frame
from tilejit.backends.cuda.control_plane.host import Number
from tilejit.backends.cuda.grids.independent import perfect_nest
from tilejit.backends.cuda.products.recognise import Turn, product_from_loops
from tilejit.backends.cuda.text import numbers
from tilejit.backends.cuda.text.values import Scalar
from tilejit.dtypes import INDEX
from tilejit.passes.kernels import name_hint
from tilejit.passes.rewriting import free_values, is_scalar_op
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import constant_of


def loop_as_grid(frame: Frame, op: d.ForOp) -> bool:
    """A loop of the control plane whose trips are launches that do not depend on each other."""
    if op.results or perfect_nest(op, frame.state.functions) is None:
        return False
    if not all(value in frame.values for value in free_values([op])):
        return False
    return frame.attempt(lambda: run_grid(frame, op, _callee(op) or "loop")) is None


def _callee(op: Operation) -> str | None:
    return next((inner.callee.data for inner in op.walk() if isinstance(inner, d.LaunchOp | d.CallOp)), None)


def run_grid(frame: Frame, op: d.ForOp, name: str) -> None:
    """One program per trip of a nest of independent loops."""
    loops = perfect_nest(op, frame.state.functions)
    assert loops is not None
    if _as_product(frame, loops, name):
        return
    kernel = frame.kernel(name)
    trips = [_trips(frame, loop) for loop in loops]
    programs = frame.named(host.product(trips), "programs")
    most = programs.bounds[1] if programs.bounds else (1 << 31) - 1
    rest = Scalar(kernel.out.program(), INDEX, (0, max(0, most - 1)))
    counts = [host.take_number(kernel.out, count, "trips") for count in trips]
    for number in range(len(loops) - 1, -1, -1):
        loop, count = loops[number], counts[number]
        if number == 0:
            turn = rest
        elif isinstance(count.const, int):
            turn, rest = numbers.mod(rest, count.const), numbers.floordiv(rest, count.const)
        else:
            turn = Scalar(f"({rest.text} % {count.text})", INDEX, (0, count.bounds[1]) if count.bounds else None)
            rest = Scalar(f"({rest.text} // {count.text})", INDEX, rest.bounds)
        if isinstance(count.const, int):
            turn = Scalar(turn.text, INDEX, (0, max(0, count.const - 1)))
        lower, step = (host.take_number(kernel.out, _bound(frame, item), "first") for item in (loop.lower, loop.step))
        place = numbers.add(lower, numbers.mul(turn, step))
        hint = name_hint(loop.body.block.args[0]) or "i"
        kernel.body.values[loop.body.block.args[0]] = place if place.const is not None else Scalar(kernel.out.let(hint, place.text), INDEX, place.bounds)
    for outer, inner in itertools.pairwise(loops):
        for between in outer.body.block.ops:
            if between is not inner and not isinstance(between, d.YieldOp):
                kernel.body.step(between)
    kernel.body.run(loops[-1].body.block)
    frame.finish(kernel, programs)


def _as_product(frame: Frame, loops: Sequence[d.ForOp], name: str) -> bool:
    turns: list[Turn] = []
    for loop in loops:
        first, step = constant_of(loop.lower), constant_of(loop.step)
        if not isinstance(first, int) or not isinstance(step, int):
            return False
        turns.append(Turn(loop.body.block.args[0], _trips(frame, loop), first, step))
    return product_from_loops(frame, turns, loops[-1].body.block, name)


def blocks_as_product(frame: Frame, function: d.FuncOp, blocks: Number) -> bool:
    """Blocks of pl.spmd that are tiles of one product: the index is that of a row of tiles, or divided into row and column."""
    places = [op for op in function.body.block.ops if isinstance(op, d.ApplyOp) and op.op == "get_block_idx"]
    if len(places) != 1 or not isinstance(blocks.const, int):
        return False
    place = places[0].results[0]
    turns = [Turn(place, blocks, 0, 1)]
    users = [use.operation for use in place.uses]
    split = [op for op in users if isinstance(op, d.ApplyOp) and ops.table()[op.op].facts.operator in ("FloorDiv", "Mod")]
    if split and len(split) == len(users):
        widths = {constant_of(op.args[1]) for op in split}
        width = widths.pop()
        if widths or not isinstance(width, int) or width < 1 or blocks.const % width:
            return False
        down, across = host.number(blocks.const // width), host.number(width)
        if len({op.op for op in split}) != len(split):
            return False
        turns = [Turn(op.results[0], down if op.op == "floordiv" else across, 0, 1) for op in split]
    block = function.body.block
    inner = [op for op in block.ops if isinstance(op, d.ForOp)]
    others = [op for op in block.ops if not isinstance(op, d.ForOp | d.ConstOp | d.DimOp | d.ReturnOp) and not is_scalar_op(op) and op not in places]
    if len(inner) == 1 and not others and not inner[0].results:
        loop = inner[0]
        first, step = constant_of(loop.lower), constant_of(loop.step)
        if isinstance(first, int) and isinstance(step, int) and step > 0 and all(isinstance(constant_of(item), int) for item in (loop.lower, loop.upper)):
            turns.append(Turn(loop.body.block.args[0], _trips(frame, loop), first, step))
            block = loop.body.block
    return product_from_loops(frame, turns, block, function.symbol)


def _bound(frame: Frame, value: SSAValue) -> Number:
    """A bound of a loop; constants may stand inside the loop around it."""
    known = constant_of(value)
    return host.number(known) if isinstance(known, int) else frame.number(value)


def _trips(frame: Frame, loop: d.ForOp) -> Number:
    lower, upper, step = (_bound(frame, item) for item in (loop.lower, loop.upper, loop.step))
    if isinstance(lower.const, int) and isinstance(upper.const, int) and isinstance(step.const, int):
        return host.number(len(range(lower.const, upper.const, step.const)))
    return host.maximum(host.ceildiv(host.sub(upper, lower), step), host.number(0))
