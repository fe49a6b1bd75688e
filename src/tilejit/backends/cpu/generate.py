"""Ops that make values from nothing but scalars, and those that combine two values region by region."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.lanes.casts import convert_lane
from tilejit.backends.cpu.lanes.ops import Lane, apply_lane
from tilejit.backends.cpu.lanes.patterns import Pattern, store_pattern
from tilejit.backends.cpu.lanes.registers import lane_constant, register_type, store_lanes
from tilejit.backends.cpu.llvm.text import Emitter, Index, Value
from tilejit.backends.cpu.llvm.vector import binary, convert, icmp, splat
from tilejit.backends.cpu.memory.movement import operand, result_of, scalars
from tilejit.backends.cpu.memory.storage import Array
from tilejit.backends.cpu.nests.fold import columns_from
from tilejit.backends.cpu.nests.nest import Box, Walk, convert_box, each, fill_box, sweep
from tilejit.backends.cpu.nests.recipes import dtype_of
from tilejit.dtypes import BOOL, INDEX, INT64, UINT32, UINT64
from tilejit.ops import facts, table
from tilejit.ops.movement import VALID_HELP
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.tile_ir.build import apply_args


def _scalar(f: FunctionWriter, op: d.ApplyOp, name: str) -> tuple[SSAValue, Value]:
    value = value_of(apply_args(op)[name])
    return value, f.scalar(value)


def _shape(f: FunctionWriter, op: d.ApplyOp) -> list[Index]:
    shape = scalars(f, op, "shape")
    assert shape is not None
    for axis, extent in enumerate(shape):
        if not isinstance(extent, int):
            f.fail_if(f.e.icmp("slt", extent, 0), Failure("shape", f"{op.op}: extent {{0}} in dim {axis} is negative", op.span), [extent])
    return shape


def _valid(f: FunctionWriter, op: d.ApplyOp, shape: list[Index]) -> list[Index]:
    valid = scalars(f, op, "valid_shape")
    for axis, (n, extent) in enumerate(zip(valid or (), shape, strict=False)):
        if not isinstance(n, int):
            failure = Failure("bounds", f"{op.op}: the valid region is {{0}} in dim {axis}, the extent is {{1}}", op.span, VALID_HELP)
            f.fail_if(f.e.icmp("ugt", n, extent), failure, [n, extent])
    return valid or shape


def write_full(f: FunctionWriter, op: d.ApplyOp) -> None:
    shape = _shape(f, op)
    value, register = _scalar(f, op, "value")
    target = result_of(f, op, shape, shape)
    fill_box(f.e, target, convert_lane(f.e, register, dtype_of(value), target.dtype, 1), shape)


def write_create(f: FunctionWriter, op: d.ApplyOp) -> None:
    if _is_scratch(op.results[0]):
        return
    shape = _shape(f, op)
    f.values[op.results[0]] = f.result_array(op.results[0], shape, shape, op.span)


def _is_scratch(value: SSAValue) -> bool:
    """Whether a tile only serves as scratch, which nothing here reads."""
    for use in value.uses:
        op = use.operation
        if not isinstance(op, d.ApplyOp):
            return False
        scratch = {param.name for param in table()[op.op].params if param.kind.name == "Scratch"}
        names = [name for name, arg in apply_args(op).items() if arg is value]
        if not set(names) <= scratch:
            return False
    return True


def by_index(f: FunctionWriter, target: Array, extents: Sequence[Index], compute: Callable[[list[Index], Index, int], Value]) -> None:
    """Fill a box with what `compute` makes of the leading indices, the first column and the number of lanes."""
    e = f.e
    box = Box(list(extents), [Walk(target.pointer, target.dtype, list(target.strides))])
    with box.rows(e) as (indices, (row,)):
        stride = box.walks[0].strides[-1]

        def body(lanes: int, column: Index, _: list[Value]) -> list[Value]:
            store_pattern(e, target.dtype, e.offset(row, e.mul(column, stride), target.dtype.llvm), Pattern(stride), compute(indices, column, lanes), lanes)
            return []

        schedule = e.module.schedules.copies([target.dtype])
        sweep(e, box.extents[-1], (schedule.lanes, schedule.middle), body)


def write_ci(f: FunctionWriter, op: d.ApplyOp) -> None:
    e = f.e
    shape = _shape(f, op)
    value, register = _scalar(f, op, "start")
    descending = bool(apply_args(op)["descending"])
    target = result_of(f, op, shape, shape)
    start = convert_lane(e, register, dtype_of(value), target.dtype, 1)

    def compute(_: list[Index], column: Index, lanes: int) -> Value:
        steps = columns_from(e, column, lanes)
        if target.dtype.bits < 32:
            steps = convert(e, "trunc", steps, f"i{target.dtype.bits}")
        return binary(e, "sub" if descending else "add", splat(e, start, lanes), steps)

    by_index(f, target, shape, compute)


def write_tri(f: FunctionWriter, op: d.ApplyOp) -> None:
    e = f.e
    args = apply_args(op)
    shape = _shape(f, op)
    valid = _valid(f, op, shape)
    value, register = _scalar(f, op, "diagonal")
    diagonal = convert_lane(e, register, dtype_of(value), INDEX, 1)
    target = result_of(f, op, shape, valid)

    def compute(indices: list[Index], column: Index, lanes: int) -> Value:
        border = splat(e, e.i64(e.add(indices[0], diagonal)), lanes)
        inside = icmp(e, "sge" if args["upper"] else "sle", _columns(e, column, lanes), border)
        return convert_lane(e, inside, BOOL, target.dtype, lanes)

    by_index(f, target, valid, compute)


def _columns(e: Emitter, column: Index, lanes: int) -> Value:
    if lanes == 1:
        return e.i64(column)
    steps = ", ".join(f"i64 {lane}" for lane in range(lanes))
    return binary(e, "add", splat(e, e.i64(column), lanes), Value(f"<{steps}>", register_type(INT64, lanes)))


# random bits ------------------------------------------------------------------------------------------------------------

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF


def write_random(f: FunctionWriter, op: d.ApplyOp) -> None:
    e = f.e
    shape = _shape(f, op)
    valid = _valid(f, op, shape)
    rounds = op.statics["rounds"]
    words = []
    for name in ("counter0", "counter1", "counter2", "counter3", "key0", "key1"):
        value, register = _scalar(f, op, name)
        wide = convert_lane(e, convert_lane(e, register, dtype_of(value), UINT32, 1), UINT32, UINT64, 1)
        words.append(wide)
    base = binary(e, "or", words[0], binary(e, "shl", words[1], lane_constant(UINT64, 32, 1)))
    target = result_of(f, op, shape, valid)

    def compute(indices: list[Index], column: Index, _: int) -> Value:
        flat: Index = 0
        for index, extent in zip([*indices, column], shape, strict=True):
            flat = e.add(e.mul(flat, extent), index)
        position = e.i64(flat)
        block = binary(e, "add", base, binary(e, "lshr", position, Value("2", "i64")))
        low = lane_constant(UINT64, _LOW, 1)
        counters = [binary(e, "and", block, low), binary(e, "lshr", block, Value("32", "i64")), words[2], words[3]]
        made = _philox(e, counters, words[4], words[5], rounds)
        lane = binary(e, "and", position, Value("3", "i64"))
        out = made[3]
        for i in (2, 1, 0):
            chosen = icmp(e, "eq", lane, Value(str(i), "i64"))
            out = e.inst("i64", f"select {chosen}, {made[i]}, {out}")
        return convert(e, "trunc", out, "i32")

    box = Box(list(valid), [Walk(target.pointer, target.dtype, list(target.strides))])
    with box.rows(e) as (indices, (row,)), e.loop(0, box.extents[-1], name="word") as loop:
        stride = box.walks[0].strides[-1]
        store_lanes(e, target.dtype, e.offset(row, e.mul(loop.iv, stride), "i32"), compute(indices, loop.iv, 1), 1)


def _philox(e: Emitter, counters: list[Value], key0: Value, key1: Value, rounds: int) -> list[Value]:
    c0, c1, c2, c3 = counters
    low, shift = lane_constant(UINT64, _LOW, 1), Value("32", "i64")
    for _ in range(rounds):
        first = binary(e, "mul", c0, Value(str(_MULTIPLIERS[0]), "i64"))
        second = binary(e, "mul", c2, Value(str(_MULTIPLIERS[1]), "i64"))
        c0, c1, c2, c3 = (
            binary(e, "xor", binary(e, "xor", binary(e, "lshr", second, shift), c1), key0),
            binary(e, "and", second, low),
            binary(e, "xor", binary(e, "xor", binary(e, "lshr", first, shift), c3), key1),
            binary(e, "and", first, low),
        )
        key0 = binary(e, "and", binary(e, "add", key0, Value(str(_KEY_STEPS[0]), "i64")), low)
        key1 = binary(e, "and", binary(e, "add", key1, Value(str(_KEY_STEPS[1]), "i64")), low)
    return [c0, c1, c2, c3]


# parts ------------------------------------------------------------------------------------------------------------------


def part(lane: Lane) -> Callable[[FunctionWriter, d.ApplyOp], None]:
    """Combined where both operands are valid, a copy of the first elsewhere."""

    def write(f: FunctionWriter, op: d.ApplyOp) -> None:
        e, exact = f.e, facts(op.op).exact
        left, right = operand(f, op, "lhs"), operand(f, op, "rhs")
        target = result_of(f, op, left.shape, left.valid)
        both: list[Index] = [a if a == b else e.min(a, b) for a, b in zip(left.valid, right.valid, strict=True)]
        if both != list(left.valid):
            convert_box(e, target, left, left.valid)

        def compute(values: list[Value], width: int) -> Value:
            ready = [convert_lane(e, value, side.dtype, target.dtype, width) for value, side in zip(values, (left, right), strict=True)]
            return apply_lane(e, lane, target.dtype, ready, width, exact)

        each(e, target, [left, right], both, compute)

    return write
