"""Rules about where code runs, small arrays, and statements that only order things: a program of the GPU runs its statements in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilejit import ops
from tilejit.backends import checks
from tilejit.backends.cuda.program import structure
from tilejit.backends.cuda.program.body import Body, block_shape, scalar_type
from tilejit.backends.cuda.text.types import register
from tilejit.backends.cuda.text.values import Array, Scalar, Tile, Value, index
from tilejit.dtypes import INDEX, TASK_ID, DType
from tilejit.ops.array import index_help
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.tile_ir.build import apply_args
from tilejit.types.values import ScalarType


def array_create(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    args = apply_args(op)
    extent, dtype = args["extent"], args["dtype"]
    assert isinstance(extent, int) and isinstance(dtype, DType)
    text = f"tl.full({block_shape((extent,))}, {-1 if dtype is TASK_ID else 0}, {register(dtype)})"
    return [Array(Tile(body.out.let(op.hint or "array", text), dtype, (extent,), (index(extent),)))]


def index_failure(op: d.ApplyOp, extent: int) -> Failure:
    """An index that is outside an array."""
    return Failure("bounds", f"index {{0}} of an array with {extent} elements", op.span, index_help(extent))


def _position(body: Body, op: d.ApplyOp) -> tuple[Tile, Scalar]:
    args = apply_args(op)
    array, at = body[value_of(args["array"])], body.index(value_of(args["index"]))
    assert isinstance(array, Array)
    extent = array.tile.shape[0]
    if not (at.bounds and at.bounds[0] >= 0 and at.bounds[1] < extent):
        body.check([f"({at.text} >= 0) & ({at.text} < {extent})"], index_failure(op, extent), (at,))
    return array.tile, at


def array_get(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    tile, at = _position(body, op)
    return [Scalar(structure.pick(body, tile, [at]), tile.dtype)]


def array_update(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    tile, at = _position(body, op)
    value = body.scalar(value_of(apply_args(op)["value"]))
    text = f"tl.where({body.out.arange(tile.padded[0])} == {at.text}, {body.converted(value, tile.dtype)}, {tile.text})"
    return [Array(tile.named(body.out.let(op.hint or "array", text)))]


@dataclass(frozen=True, slots=True)
class Place:
    """A rule for what asks where the code runs."""

    inside: Callable[[Any], Any]
    """Of the body of a program, or of the frame of the host."""

    def __call__(self, body: Body, op: d.ApplyOp) -> Sequence[Value]:
        return [self.inside(body)]


def answer(op: d.ApplyOp) -> Scalar:
    """What the table answers to a question about the machine."""
    type = d.type_of(op.results[0])
    assert isinstance(type, ScalarType)
    known: Any = ops.table()[op.op].reference(results=(type,))
    return index(int(known)) if type.dtype is INDEX else Scalar(str(int(known)), type.dtype, None, int(known))


def machine(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    return [answer(op)]


def reserve_buffer(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    base = max(int(str(apply_args(op).get("base", 0))), 0)
    return [Scalar(str(base), scalar_type(op.results[0]), None, base)]


def peer_buffer(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    return [Scalar("0", scalar_type(op.results[0]), None, 0)]


def same_tile(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    return [body.tile(op.args[0])]


def nothing(body: Body, op: d.EffectOp) -> Sequence[Value]:
    """An order that a program keeps anyway."""
    return []


def device_assert(body: Body, op: d.EffectOp) -> Sequence[Value]:
    flag = body.scalar(op.args[0])
    if flag.const is None or not flag.const:
        body.failures.report(body.out, body.text(flag), checks.assertion_failure(op))
    return []
