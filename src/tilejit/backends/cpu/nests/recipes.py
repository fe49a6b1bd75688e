"""What an op of the table does to the lanes of a loop nest, as data: which operands it reads, over which space, and the lane code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilejit.backends.cpu.lanes.casts import cast_lane, convert_lane
from tilejit.backends.cpu.lanes.ops import COMPARISONS, COPY, Lane, apply_lane
from tilejit.backends.cpu.llvm.text import Emitter, Value
from tilejit.dtypes import BOOL, DType, promote
from tilejit.ops.elementwise import compute_dtype
from tilejit.ops.expand import must_cover
from tilejit.ops.math import cast_mode
from tilejit.ops.reduce import reduced_axis
from tilejit.ops.spec import OpSpec
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.alias import takes_blocks
from tilejit.tile_ir.build import apply_args
from tilejit.types.values import Shape, ShapedType, broadcast

Code = Callable[[Emitter, Sequence[Value], int], Value]
"""(emitter, operand lanes in register form, number of lanes) → result lanes."""

@dataclass(frozen=True, slots=True)
class Reduction:
    """How an op folds an axis: the combiner ("sum", "max", …), and whether it gives positions instead of values."""

    name: str
    axis: int
    positions: bool = False


@dataclass(frozen=True, slots=True)
class Recipe:
    """An op as a member of a loop nest."""

    op: d.ApplyOp
    inputs: tuple[SSAValue, ...]
    """Operands read lane by lane."""
    space: Shape
    """Extents over which it runs; operands are broadcast to it."""
    code: Code
    valid_from: tuple[SSAValue, ...]
    """Operands whose valid regions bound the result's."""
    covered: tuple[SSAValue, ...] = ()
    """Operands that must be valid wherever the result is."""
    masks: frozenset[int] = frozenset()
    """Inputs that are packed masks: one bit per column."""
    blocks: frozenset[int] = frozenset()
    """Inputs of which each row holds one block, repeated along the row."""
    is_mask: bool = False
    """The result is a packed mask."""
    reduction: Reduction | None = None
    cost: int = 1
    """Rough work per lane: 1 arithmetic, 10 a division or a polynomial."""
    wide: bool = True
    """Whether many lanes at a time still fit the registers."""

    @property
    def result(self) -> SSAValue:
        return self.op.results[0]


def dtype_of(value: SSAValue) -> DType:
    return d.type_of(value).dtype


def _shaped(values: Sequence[SSAValue]) -> tuple[SSAValue, ...]:
    return tuple(value for value in values if isinstance(d.type_of(value), ShapedType))


def elementwise(op: d.ApplyOp, row: OpSpec, lane: Lane, wide: bool) -> Recipe:
    """Every result cell from one cell of each operand."""
    args = apply_args(op)
    inputs = tuple(value for name in row.operands if isinstance(value := args.get(name), SSAValue))
    return Recipe(op, inputs, d.shaped_type(op.results[0]).shape, lane_code(op, row, lane), _shaped(inputs), cost=row.facts.cost, wide=wide)


def lane_code(op: d.ApplyOp, row: OpSpec, lane: Lane) -> Code:
    """The code of an elementwise row, for arrays and scalars alike: operands converted, lanes computed, result converted."""
    args = apply_args(op)
    operands = {name: value for name in row.operands if isinstance(value := args.get(name), SSAValue)}
    dtypes = {name: dtype_of(value) for name, value in operands.items()}
    result = dtype_of(op.results[0])
    if row.name == "cast":
        (source,) = dtypes.values()
        mode = cast_mode(args["mode"]) or "none"
        return lambda e, lanes, width: cast_lane(e, lanes[0], source, result, mode, width)
    wanted = {name: compute_dtype(row, name, dtypes, result) for name in dtypes}
    kind = args.get("cmp_type")
    made = COMPARISONS[kind] if isinstance(kind, int) else lane
    keep = row.attrs["keep"]
    lane_dtype = next((wanted[operand] for operand in wanted if operand not in keep), result)

    def code(e: Emitter, lanes: Sequence[Value], width: int) -> Value:
        ready: list[Value] = []
        for operand, value in zip(dtypes, lanes, strict=True):
            target = BOOL if operand in keep else wanted[operand]
            ready.append(convert_lane(e, value, dtypes[operand], target, width))
        out = apply_lane(e, made, lane_dtype, ready, width, row.facts.exact)
        return convert_lane(e, out, BOOL if made.predicate else lane_dtype, result, width)

    return code


def select(op: d.ApplyOp, row: OpSpec, lane: Lane, wide: bool) -> Recipe:
    """One of two operands, as a packed mask says."""
    mask, first, second = (value for value in (apply_args(op).get(name) for name in row.operands) if isinstance(value, SSAValue))
    result, other = dtype_of(op.results[0]), dtype_of(second)

    def code(e: Emitter, lanes: Sequence[Value], width: int) -> Value:
        converted = convert_lane(e, lanes[2], other, result, width)
        return apply_lane(e, lane, result, (lanes[0], lanes[1], converted), width, exact=True)

    inputs = (mask, first, second)
    return Recipe(op, inputs, d.shaped_type(first).shape, code, _shaped(inputs), masks=frozenset({0}))


def compare(op: d.ApplyOp, row: OpSpec, lane: Lane, wide: bool) -> Recipe:
    """A comparison into a packed mask."""
    args = apply_args(op)
    kind, sides = args["cmp_type"], tuple(value for name in row.operands if isinstance(value := args[name], SSAValue))
    assert isinstance(kind, int)
    shaped = _shaped(sides)
    common = dtype_of(shaped[0])
    for value in shaped[1:]:
        common = promote(common, dtype_of(value))

    def code(e: Emitter, lanes: Sequence[Value], width: int) -> Value:
        ready = [convert_lane(e, value, dtype_of(side), common, width) for side, value in zip(sides, lanes, strict=True)]
        return apply_lane(e, COMPARISONS[kind], common, ready, width)

    return Recipe(op, sides, broadcast([d.shaped_type(value).shape for value in shaped]), code, shaped, is_mask=True)


def fill(op: d.ApplyOp, row: OpSpec, lane: Lane, wide: bool) -> Recipe:
    """A scalar or a smaller value, spread over the shape of a target."""
    args, result = apply_args(op), d.shaped_type(op.results[0])
    target = args["target"]
    (source,) = (value for name in row.operands if name != "target" and isinstance(value := args[name], SSAValue))
    assert isinstance(target, SSAValue)
    given = dtype_of(source)
    return Recipe(op, (source,), result.shape, lambda e, lanes, width: convert_lane(e, lanes[0], given, result.dtype, width), _shaped((source, target)))


def expand(op: d.ApplyOp, row: OpSpec, lane: Lane, wide: bool) -> Recipe:
    """An operand combined with a vector that is spread over its rows or columns."""
    args = apply_args(op)
    result = d.shaped_type(op.results[0])
    lhs, rhs = args["lhs"], args["rhs"]
    assert isinstance(lhs, SSAValue) and isinstance(rhs, SSAValue)
    inputs = (rhs,) if lane is COPY else (lhs, rhs)

    def code(e: Emitter, lanes: Sequence[Value], width: int) -> Value:
        ready = [convert_lane(e, value, dtype_of(operand), result.dtype, width) for operand, value in zip(inputs, lanes, strict=True)]
        return apply_lane(e, lane, result.dtype, ready, width, row.facts.exact)

    blocks = frozenset({1} if takes_blocks(op) else ())
    covered = (rhs,) if must_cover(row.name, result.level) else ()
    bounds = (lhs,) if covered else (lhs, rhs)
    return Recipe(op, inputs, result.shape, code, bounds, blocks=blocks, covered=covered, cost=row.facts.cost)


def reduction(op: d.ApplyOp, row: OpSpec, lane: Lane, wide: bool) -> Recipe:
    """An axis folded into one element."""
    operand = apply_args(op)["input"]
    direction, combine = row.attrs["axis"], row.attrs["combine"]
    assert isinstance(operand, SSAValue) and isinstance(direction, str) and isinstance(combine, str)
    type = d.shaped_type(operand)
    axis = reduced_axis(direction, type.level, type.rank)
    positions = combine.startswith("arg")
    fold = Reduction(combine.removeprefix("arg"), axis, positions)
    return Recipe(op, (operand,), type.shape, lambda e, lanes, width: lanes[0], (operand,), reduction=fold)
