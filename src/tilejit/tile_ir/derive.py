"""Derived rows: the steps of their terms take their place as a program is built, so that no pass and no target ever sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from tilejit.dtypes import BOOL, FP32, FP64, INT32, DType
from tilejit.ops.spec import TABLE, OpSpec, ParamKind
from tilejit.ops.terms import Number, Operand, Term, steps, term_of
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ScalarType, ShapedType, ValueType

if TYPE_CHECKING:
    from tilejit.tile_ir.arguments import ApplyArg
    from tilejit.tile_ir.build import Builder


def expand(build: Builder, row: OpSpec, args: Mapping[str, object], result: ValueType) -> SSAValue:
    """The value of a derived row: its term in FP32 (FP64 for FP64) and rounded once, or in the operands' own types where nothing rounds."""
    assert isinstance(result, ScalarType | ShapedType)
    statics = {param.name: args.get(param.name, param.default) for param in row.params if param.kind is ParamKind.Static}
    level = result.level if isinstance(result, ShapedType) else "scalar"
    widened = result.dtype.is_float and not row.facts.exact
    work = FP64 if result.dtype is FP64 else FP32
    hint, build.hint = build.hint, None
    given = {name: value for name in row.operands if isinstance(value := args.get(name), SSAValue)}
    ready = {name: _as(build, value, work, level) if widened else value for name, value in given.items()}
    root, done = term_of(row, statics), dict[Term, SSAValue]()

    def value_of(operand: Term | Number) -> SSAValue:
        if isinstance(operand, Operand):
            return ready[operand.name]
        return done[operand] if isinstance(operand, Term) else build.const(float(operand), work) if widened else build.const(operand)

    for step in steps(root):
        values = {name: value_of(operand) for name, operand in step.operands.items()}
        build.hint = hint if step is root else None
        done[step] = build.apply(step.row, _level(level, *values.values()), values)[0]
    out = _as(build, done[root], result.dtype, level)
    build.hint = hint
    return out


def counted(build: Builder, row: OpSpec, args: Mapping[str, ApplyArg]) -> Mapping[str, ApplyArg]:
    """The arguments of a reduction; the elements of a mask that are summed become numbers."""
    input = args.get("input") if row.family == "reduction" and row.attrs["combine"] == "sum" else None
    if not isinstance(input, SSAValue) or (type := d.shaped_type(input)).dtype is not BOOL:
        return args
    return {**args, "input": _as(build, input, INT32, type.level)}


def _level(level: str, *values: SSAValue) -> str:
    return level if any(isinstance(d.type_of(value), ShapedType) for value in values) else "scalar"


def _as(build: Builder, value: SSAValue, dtype: DType, level: str) -> SSAValue:
    """A value in another dtype, rounded to nearest."""
    type = d.type_of(value)
    assert isinstance(type, ScalarType | ShapedType)
    if type.dtype is dtype:
        return value
    mode = "rint" if isinstance(type, ShapedType) else "round"
    return build.apply(TABLE["cast"], _level(level, value), {"input": value, "target_type": dtype, "mode": mode})[0]
