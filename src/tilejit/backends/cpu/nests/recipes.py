"""What an op of the table does to the lanes of a loop nest, as data: which operands it reads, over which space, and the lane code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilejit import ops
from tilejit.backends.cpu.lanes.casts import cast_lane, convert_lane
from tilejit.backends.cpu.lanes.ops import PREDICATES, apply_lane
from tilejit.backends.cpu.llvm.text import Emitter, Value
from tilejit.dtypes import BOOL, DType, promote
from tilejit.ops.elementwise import compute_dtype
from tilejit.ops.math import cast_mode
from tilejit.ops.reduce import reduced_axis
from tilejit.ops.rules import Lane
from tilejit.ops.spec import OpSpec
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args
from tilejit.types.values import ScalarType, Shape, ShapedType

Code = Callable[[Emitter, Sequence[Value], int], Value]
"""(emitter, operand lanes in register form, number of lanes) → result lanes."""

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
"""Lane names by cmp_type."""
_CHEAP = frozenset({"add", "sub", "mul", "neg", "abs", "maximum", "minimum", "cmp", "relu", "copy", "and_", "or_", "xor", "not_", "where", "cast"})
_LONG = frozenset({"erf", "pow", "sin", "cos", "fmod", "rem", "mod", "floordiv", "log"})


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


def recipe(op: d.ApplyOp) -> Recipe | None:
    """The recipe of an op, or None when it is no member of loop nests."""
    row = ops.table()[op.op]
    if not op.results or not isinstance(d.type_of(op.results[0]), ShapedType):
        return None
    make = FAMILIES.get(row.family)
    return make(op, row) if make is not None else None


def dtype_of(value: SSAValue) -> DType:
    type = d.type_of(value)
    assert isinstance(type, ScalarType | ShapedType)
    return type.dtype


def _shaped(values: Sequence[SSAValue]) -> tuple[SSAValue, ...]:
    return tuple(value for value in values if isinstance(d.type_of(value), ShapedType))


def _elementwise(op: d.ApplyOp, row: OpSpec) -> Recipe | None:
    if not isinstance(row.cpu, Lane):
        return None
    args = apply_args(op)
    operands = {name: value for name in row.operands if isinstance(value := args.get(name), SSAValue)}
    inputs = tuple(operands.values())
    return Recipe(
        op, inputs, d.shaped_type(op.results[0]).shape, lane_code(op, row), _shaped(inputs),
        cost=1 if row.name in _CHEAP else 10, wide=row.name not in _LONG,
    )  # fmt: skip


def lane_code(op: d.ApplyOp, row: OpSpec) -> Code:
    """The code of an elementwise row, for arrays and scalars alike: operands converted, lanes computed, result converted."""
    assert isinstance(row.cpu, Lane)
    args = apply_args(op)
    operands = {name: value for name in row.operands if isinstance(value := args.get(name), SSAValue)}
    dtypes = {name: dtype_of(value) for name, value in operands.items()}
    result = dtype_of(op.results[0])
    if row.name == "cast":
        (source,) = dtypes.values()
        mode = cast_mode(args["mode"]) or "none"
        return lambda e, lanes, width: cast_lane(e, lanes[0], source, result, mode, width)
    wanted = {name: compute_dtype(row, name, dtypes, result) for name in dtypes}
    name = row.cpu.name
    if name == "cmp":
        kind = args["cmp_type"]
        assert isinstance(kind, int)
        name = COMPARISONS[kind]
    keep = row.attrs["keep"]
    assert isinstance(keep, tuple)
    lane_dtype = next((wanted[operand] for operand in wanted if operand not in keep), result)

    def code(e: Emitter, lanes: Sequence[Value], width: int) -> Value:
        ready: list[Value] = []
        for operand, value in zip(dtypes, lanes, strict=True):
            target = BOOL if operand in keep else wanted[operand]
            ready.append(convert_lane(e, value, dtypes[operand], target, width))
        out = apply_lane(e, name, lane_dtype, ready, width)
        return convert_lane(e, out, BOOL if name in PREDICATES else lane_dtype, result, width)

    return code


def _mask(op: d.ApplyOp, row: OpSpec) -> Recipe | None:
    args = apply_args(op)
    if row.name == "cmp_mask":
        lhs, rhs, kind = args["lhs"], args["rhs"], args["cmp_type"]
        assert isinstance(lhs, SSAValue) and isinstance(rhs, SSAValue) and isinstance(kind, int)
        return _comparison(op, (lhs, rhs), COMPARISONS[kind])
    mask = args["mask"]
    first, second = (args["lhs"], args["rhs"]) if row.name == "sel" else (args["src"], args["scalar"])
    assert isinstance(mask, SSAValue) and isinstance(first, SSAValue) and isinstance(second, SSAValue)
    result, other = dtype_of(op.results[0]), dtype_of(second)

    def code(e: Emitter, lanes: Sequence[Value], width: int) -> Value:
        converted = convert_lane(e, lanes[2], other, result, width)
        return apply_lane(e, "where", result, (lanes[0], lanes[1], converted), width)

    inputs = (mask, first, second)
    return Recipe(op, inputs, d.shaped_type(first).shape, code, _shaped(inputs), masks=frozenset({0}))


def _comparison(op: d.ApplyOp, sides: tuple[SSAValue, SSAValue], name: str) -> Recipe:
    shaped = _shaped(sides)
    common = dtype_of(shaped[0])
    for value in shaped[1:]:
        common = promote(common, dtype_of(value))

    def code(e: Emitter, lanes: Sequence[Value], width: int) -> Value:
        ready = [convert_lane(e, value, dtype_of(side), common, width) for side, value in zip(sides, lanes, strict=True)]
        return apply_lane(e, name, common, ready, width)

    return Recipe(op, sides, broadcast([d.shaped_type(value).shape for value in shaped]), code, shaped, is_mask=True)


def _expand(op: d.ApplyOp, row: OpSpec) -> Recipe | None:
    args = apply_args(op)
    combine = row.attrs["combine"]
    result = d.shaped_type(op.results[0])
    if row.name in ("expands", "expand_clone"):
        source, target = args["scalar" if row.name == "expands" else "src"], args["target"]
        assert isinstance(source, SSAValue) and isinstance(target, SSAValue)
        given = dtype_of(source)
        return Recipe(op, (source,), result.shape, lambda e, lanes, width: convert_lane(e, lanes[0], given, result.dtype, width), _shaped((source, target)))
    lhs, rhs = args["lhs"], args["rhs"]
    assert isinstance(lhs, SSAValue) and isinstance(rhs, SSAValue) and isinstance(combine, str)
    repeated = row.attrs["axis"] == "row" and d.shaped_type(rhs).shape[-1] != 1
    inputs = (rhs,) if combine == "copy" else (lhs, rhs)

    def code(e: Emitter, lanes: Sequence[Value], width: int) -> Value:
        ready = [convert_lane(e, value, dtype_of(operand), result.dtype, width) for operand, value in zip(inputs, lanes, strict=True)]
        return apply_lane(e, combine, result.dtype, ready, width)

    blocks = frozenset({1} if repeated else ())
    return Recipe(op, inputs, result.shape, code, (lhs,), blocks=blocks, covered=(rhs,), cost=1 if combine in _CHEAP else 10)


def _reduction(op: d.ApplyOp, row: OpSpec) -> Recipe | None:
    operand = apply_args(op)["input"]
    direction, combine = row.attrs["axis"], row.attrs["combine"]
    assert isinstance(operand, SSAValue) and isinstance(direction, str) and isinstance(combine, str)
    type = d.shaped_type(operand)
    axis = reduced_axis(direction, type.level, type.rank)
    positions = combine.startswith("arg")
    reduction = Reduction(combine.removeprefix("arg"), axis, positions)
    return Recipe(op, (operand,), type.shape, lambda e, lanes, width: lanes[0], (operand,), reduction=reduction)


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """The common shape of operands whose type rule already proved that they fit."""
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(next((dim for dim in dims if dim != 1), 1) for dims in zip(*padded, strict=True))


FAMILIES: dict[str, Callable[[d.ApplyOp, OpSpec], Recipe | None]] = {
    "elementwise": _elementwise,
    "mask": _mask,
    "expand": _expand,
    "reduction": _reduction,
}
"""How the ops of each family that runs in loop nests are described."""
