"""Rules about where code runs, small arrays, and statements that only order things: a program of the GPU runs its statements in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import SSAValue

from tilejit.backends import checks
from tilejit.backends.cuda import structure
from tilejit.backends.cuda.body import Body, block_shape
from tilejit.backends.cuda.types import register
from tilejit.backends.cuda.values import Array, Scalar, Tile, Value, index
from tilejit.dtypes import TASK_ID, DType
from tilejit.ops.array import index_help
from tilejit.ops.schedule import CLUSTERS
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args

Rule = Callable[[Body, Any], Sequence[Value]]


def _value(found: object) -> SSAValue:
    assert isinstance(found, SSAValue)
    return found


def array_create(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    args = apply_args(op)
    extent, dtype = args["extent"], args["dtype"]
    assert isinstance(extent, int) and isinstance(dtype, DType)
    text = f"tl.full({block_shape((extent,))}, {-1 if dtype is TASK_ID else 0}, {register(dtype)})"
    return [Array(Tile(body.out.let(op.hint or "array", text), dtype, (extent,), (index(extent),)))]


def _position(body: Body, op: d.ApplyOp) -> tuple[Tile, Scalar]:
    args = apply_args(op)
    array, at = body[_value(args["array"])], body.index(_value(args["index"]))
    assert isinstance(array, Array)
    extent = array.tile.shape[0]
    if not (at.bounds and at.bounds[0] >= 0 and at.bounds[1] < extent):
        failure = Failure("bounds", f"index {{0}} of an array with {extent} elements", op.span, index_help(extent))
        body.check([f"({at.text} >= 0) & ({at.text} < {extent})"], failure, (at,))
    return array.tile, at


def array_get(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    tile, at = _position(body, op)
    return [Scalar(structure.pick(body, tile, [at]), tile.dtype)]


def array_update(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    tile, at = _position(body, op)
    value = body.scalar(_value(apply_args(op)["value"]))
    text = f"tl.where({body.out.arange(tile.padded[0])} == {at.text}, {body.converted(value, tile.dtype)}, {tile.text})"
    return [Array(tile.named(body.out.let(op.hint or "array", text)))]


PLACE_RULES: dict[str, Rule | str] = {
    "get_block_idx": lambda body, op: [body.block_index],
    "get_block_num": lambda body, op: [body.block_count],
    "get_subblock_idx": lambda body, op: [body.lane],
    "available_cluster_count": lambda body, op: [index(CLUSTERS)],
    "available_aiv_count": lambda body, op: [index(2 * CLUSTERS)],
    "task_invalid": lambda body, op: [Scalar("-1", TASK_ID, None, -1)],
    "reserve_buffer": lambda body, op: [
        Scalar(str(max(int(str(apply_args(op).get("base", 0))), 0)), _scalar(op), None, max(int(str(apply_args(op).get("base", 0))), 0))
    ],
    "import_peer_buffer": lambda body, op: [Scalar("0", _scalar(op), None, 0)],
    "array_create": array_create,
    "array_get_element": array_get,
    "array_update_element": array_update,
    "aiv_shard": lambda body, op: [body.tile(op.args[0])],
    "aic_gather": lambda body, op: [body.tile(op.args[0])],
}


def _scalar(op: d.ApplyOp) -> DType:
    from tilejit.backends.cuda.body import scalar_type

    return scalar_type(op.results[0])


def nothing(body: Body, op: d.EffectOp) -> Sequence[Value]:
    """An order that a program keeps anyway."""
    return []


def print_(body: Body, op: d.EffectOp) -> Sequence[Value]:
    statics = op.static("statics", {})
    words = [str(part) for part in (statics.get("parts") or ()) if part is not None] if isinstance(statics, dict) else []
    texts = [body.text(value) for arg in op.args if isinstance(value := body[arg], Scalar | Tile)]
    title = " ".join(words).replace("\\", "/").replace('"', "'") or "value"
    body.out.line(f'tl.device_print("{title}"{"".join(f", {text}" for text in texts)})')
    return []


def device_assert(body: Body, op: d.EffectOp) -> Sequence[Value]:
    flag = body.scalar(op.args[0])
    if flag.const is None or not flag.const:
        body.failures.report(body.out, body.text(flag), checks.assertion_failure(op))
    return []


_ORDERS = (
    "bar_all", "bar_m", "bar_v", "fence", "sync_src", "sync_dst", "sync_set", "sync_wait", "cacheinvalid", "set_ffts", "aic_initialize_pipe",
    "aiv_initialize_pipe", "tfree_to_aic", "tfree_to_aiv", "dump_tag", "task_dummy", "prefetch_make_context", "prefetch_session",
    "prefetch_async_prefetch", "prefetch_wait", "syncall",
)  # fmt: skip
EFFECT_RULES: dict[str, Rule] = {**dict.fromkeys(_ORDERS, nothing), "print": print_, "device_assert": device_assert}
