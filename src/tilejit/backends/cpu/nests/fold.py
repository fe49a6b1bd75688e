"""Reductions inside a nest: accumulators in registers along a row, accumulators in memory along any other axis."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tilejit.backends.cpu.lanes.ops import EQ, GT, LT, apply_lane, combine, reduce_init
from tilejit.backends.cpu.lanes.registers import lane_constant, register_type, round_to
from tilejit.backends.cpu.llvm.text import Emitter, Index, Value
from tilejit.backends.cpu.llvm.vector import binary, fcmp, icmp, select, shuffle, splat
from tilejit.backends.cpu.memory.storage import Array
from tilejit.backends.cpu.nests.nest import convert_box, fill_box
from tilejit.backends.cpu.nests.plan import Member
from tilejit.backends.cpu.nests.recipes import Recipe, Reduction, dtype_of
from tilejit.dtypes import FP32, FP64, INT32, DType
from tilejit.ops.reduce import NOTHING_HELP
from tilejit.runtime.call.failures import Failure
from tilejit.types.values import Shape

if TYPE_CHECKING:
    from tilejit.backends.cpu.nests.cells import Cells
    from tilejit.backends.cpu.nests.group import GroupWriter

_NOWHERE = (1 << 31) - 1
"""A position behind every other: what a search for extremes starts from."""


def check_not_empty(group: GroupWriter, extents: Sequence[Index]) -> None:
    """Extremes of nothing are an error."""
    f = group.f
    for member in [*group.plan.row_reductions, *group.plan.column_reductions]:
        reduction = member.recipe.reduction
        assert reduction is not None
        axis = reduction.axis + len(extents) - len(member.recipe.space)
        if reduction.name in ("sum", "prod") or (isinstance(extents[axis], int) and extents[axis] != 0):
            continue
        others: Index = 1
        for position, extent in enumerate(extents):
            if position != axis:
                others = f.e.mul(others, extent)
        empty, wanted = f.e.icmp("eq", extents[axis], 0), f.e.icmp("ne", others, 0)
        f.fail_if(binary(f.e, "and", empty, wanted), empty_failure(member.recipe), [])


def empty_failure(recipe: Recipe) -> Failure:
    assert recipe.reduction is not None
    return Failure("shape", f"{recipe.op.op} of nothing: dim {recipe.reduction.axis} has extent 0", recipe.op.span, NOTHING_HELP)


# positions of extremes --------------------------------------------------------------------------------------------------


def _start(member: Member, lanes: int) -> list[Value]:
    reduction, dtype = _facts(member)
    first = reduce_init(reduction.name, dtype, lanes)
    return [first, lane_constant(INT32, _NOWHERE, lanes)] if reduction.positions else [first]


def _facts(member: Member) -> tuple[Reduction, DType]:
    assert member.recipe.reduction is not None
    return member.recipe.reduction, dtype_of(member.recipe.inputs[0])


def _join(e: Emitter, member: Member, left: Sequence[Value], right: Sequence[Value], lanes: int) -> list[Value]:
    """Accumulators of two parts as those of both."""
    reduction, dtype = _facts(member)
    if not reduction.positions:
        return [combine(e, reduction.name, dtype, left[0], right[0], lanes)]
    better = better_position(e, reduction.name, dtype, left, right, lanes)
    return [select(e, better, new, old) for new, old in zip(right, left, strict=True)]


def better_position(e: Emitter, name: str, dtype: DType, old: Sequence[Value], new: Sequence[Value], lanes: int) -> Value:
    """Whether (value, position) `new` wins over `old`: a more extreme value, NaN above all, then the smaller position."""
    wins = apply_lane(e, GT if name == "max" else LT, dtype, (new[0], old[0]), lanes)
    ties = apply_lane(e, EQ, dtype, (new[0], old[0]), lanes)
    if dtype.is_float:
        new_nan, old_nan = fcmp(e, "uno", new[0], new[0]), fcmp(e, "uno", old[0], old[0])
        only_new = binary(e, "and", new_nan, binary(e, "xor", old_nan, _true(old_nan)))
        wins = binary(e, "or", wins, only_new)
        ties = binary(e, "or", ties, binary(e, "and", new_nan, old_nan))
    earlier = icmp(e, "slt", new[1], old[1])
    return binary(e, "or", wins, binary(e, "and", ties, earlier))


def _true(like: Value) -> Value:
    return Value("splat (i1 true)" if like.type.startswith("<") else "true", like.type)


# along a row ------------------------------------------------------------------------------------------------------------


def starter(members: Sequence[Member]) -> Callable[[int], list[Value]]:
    """Neutral accumulators of all reductions of a sweep."""
    return lambda lanes: [value for member in members for value in _start(member, lanes)]


def _split(members: Sequence[Member], values: Sequence[Value]) -> list[Sequence[Value]]:
    out: list[Sequence[Value]] = []
    position = 0
    for member in members:
        count = 2 if _facts(member)[0].positions else 1
        out.append(values[position : position + count])
        position += count
    return out


def step(e: Emitter, members: Sequence[Member], accumulators: list[Value], cells: Cells, lanes: int, column: Index) -> list[Value]:
    """Accumulators after one more stretch of columns."""
    out: list[Value] = []
    for member, old in zip(members, _split(members, accumulators), strict=True):
        new = [cells.get(member.recipe.inputs[0])]
        if _facts(member)[0].positions:
            new.append(columns_from(e, column, lanes))
        out += _join(e, member, old, new, lanes)
    return out


def columns_from(e: Emitter, column: Index, lanes: int) -> Value:
    """column, column + 1, … as INT32 lanes."""
    first = lane_constant(INT32, column, 1) if isinstance(column, int) else e.inst("i32", f"trunc {column} to i32")
    if lanes == 1:
        return first
    steps = ", ".join(f"i32 {lane}" for lane in range(lanes))
    return binary(e, "add", splat(e, first, lanes), Value(f"<{steps}>", register_type(INT32, lanes)))


def narrower(e: Emitter, members: Sequence[Member]) -> Callable[[list[Value], int, int], list[Value]]:
    """Folds wide accumulators by halves."""

    def narrow(accumulators: list[Value], lanes: int, target: int) -> list[Value]:
        while lanes > target:
            half = lanes // 2
            low = [_part(e, value, 0, half) for value in accumulators]
            high = [_part(e, value, half, half) for value in accumulators]
            joined = [_join(e, member, a, b, half) for member, a, b in zip(members, _split(members, low), _split(members, high), strict=True)]
            accumulators = [value for part in joined for value in part]
            lanes = half
        return accumulators

    return narrow


def _part(e: Emitter, value: Value, first: int, count: int) -> Value:
    if count == 1:
        return e.inst(value.type[1:-1].split(" x ")[1], f"extractelement {value}, i64 {first}")
    return shuffle(e, value, None, range(first, first + count))


def finished(e: Emitter, members: Sequence[Member], accumulators: Sequence[Value]) -> list[Value]:
    """Results of the reductions: rounded sums, or positions."""
    out: list[Value] = []
    for member, values in zip(members, _split(members, accumulators), strict=True):
        reduction, dtype = _facts(member)
        out.append(values[1] if reduction.positions else round_to(e, dtype, values[0]))
    return out


# along another axis -----------------------------------------------------------------------------------------------------


class ColumnFold:
    """A reduction over rows: one accumulator per column, in memory."""

    def __init__(self, group: GroupWriter, member: Member) -> None:
        self.group = group
        self.member = member
        self.reduction, self.dtype = _facts(member)
        self.output = group.output_arrays[member.recipe.result]
        shape: Shape = tuple(1 if axis == self.reduction.axis else dim for axis, dim in enumerate(member.recipe.space))
        self.values = self._accumulator(shape, "values", self._held_dtype(), reduce_init(self.reduction.name, self.dtype, 1))
        if self.reduction.positions:
            self._accumulator(shape, "positions", INT32, lane_constant(INT32, _NOWHERE, 1))

    def _held_dtype(self) -> DType:
        # Sums of narrow floats accumulate in single precision and are rounded once.
        return FP32 if self.dtype.is_float and self.dtype is not FP64 else self.dtype

    def _accumulator(self, shape: Shape, name: str, dtype: DType, first: Value) -> Array:
        group = self.group
        in_place = self.output.dtype is dtype and (name == "positions") == self.reduction.positions
        array = self.output if in_place else group.f.new_array(dtype, self.output.shape, self.output.valid, group.span)
        fill_box(group.e, array, first, self.output.valid)
        group.add_place((name, self.member.recipe.result), array, shape)
        return array

    def first(self, lanes: int) -> Value:
        """What nothing folds to."""
        return _start(self.member, lanes)[0]

    def joined(self, cells: Cells, old: Value, lanes: int) -> Value:
        """A stretch of the current row folded into what is in registers."""
        return _join(self.group.e, self.member, [old], [cells.get(self.member.recipe.inputs[0])], lanes)[0]

    def put(self, cells: Cells, total: Value) -> None:
        cells.store(self.group.places["values", self.member.recipe.result], total)

    def step(self, cells: Cells, lanes: int, column: Index, indices: Sequence[Index]) -> None:
        """Fold a stretch of the current row in."""
        e = self.group.e
        result = self.member.recipe.result
        new = [cells.get(self.member.recipe.inputs[0])]
        place = self.group.places["values", result]
        old = [cells.load(place)]
        if self.reduction.positions:
            row = lane_constant(INT32, i, 1) if isinstance(i := indices[self.reduction.axis], int) else e.inst("i32", f"trunc {i} to i32")
            new.append(splat(e, row, lanes))
            old.append(cells.load(self.group.places["positions", result]))
        joined = _join(e, self.member, old, new, lanes)
        cells.store(place, joined[0])
        if self.reduction.positions:
            cells.store(self.group.places["positions", result], joined[1])

    def in_group(self, group: GroupWriter) -> ColumnFold:
        """The same fold in code that moved into another function."""
        moved = copy.copy(self)
        moved.group = group
        return moved

    def finish(self) -> None:
        """Round what was summed in a wider type."""
        if not self.reduction.positions and self.values is not self.output:
            convert_box(self.group.e, self.output, self.values, self.output.valid)
