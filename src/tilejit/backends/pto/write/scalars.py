"""Scalars in PTO text: the ops of the table on single numbers as `arith` ops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue

from tilejit.backends.pto.write.memory import MemoryWriter
from tilejit.backends.pto.write.text import Extent, hint_of, op_name, scalar_name
from tilejit.dtypes import BOOL, FP32, INDEX, INT64, DType, promote
from tilejit.ops import table
from tilejit.ops.gather import CMP_MODES
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, constant_of, operand

ScalarRule = Callable[[MemoryWriter, d.ApplyOp], str]
"""Writes one scalar op; the name of its result."""


def dtype_of(value: SSAValue) -> DType:
    return d.type_of(value).dtype


def scalar(w: MemoryWriter, value: SSAValue, op: Operation) -> str:
    """The name of a scalar."""
    known = constant_of(value)
    if known is not None:
        return w.constant(known, dtype_of(value))
    if value not in w.scalars:
        raise w.refuse(op, f"a scalar operand of {op_name(op)}")
    return w.scalars[value]


def extent_of(w: MemoryWriter, value: SSAValue, op: Operation) -> Extent:
    """A scalar as an extent or offset: a number where it is known."""
    known = constant_of(value)
    if known is not None:
        return int(known)
    name, dtype = scalar(w, value, op), dtype_of(value)
    return name if dtype is INDEX else converted(w, name, dtype, INDEX)


def scalar_as(w: MemoryWriter, value: SSAValue, dtype: DType, op: Operation) -> str:
    """A scalar in another data type."""
    known = constant_of(value)
    if known is not None:
        return w.constant(known if dtype.is_float else int(known), dtype)
    return converted(w, scalar(w, value, op), dtype_of(value), dtype)


def converted(w: MemoryWriter, name: str, source: DType, to: DType) -> str:
    """A scalar in another data type: floats lose their fractions, integers wrap."""
    old, new = scalar_name(source), scalar_name(to)
    if source is to:
        return name
    if source.is_float and to.is_float:
        if source.bits == to.bits:
            return converted(w, w.define(f"arith.extf {name} : {old} to f32"), FP32, to)
        return w.define(f"arith.{'truncf' if to.bits < source.bits else 'extf'} {name} : {old} to {new}")
    unsigned = source is BOOL or source.name.startswith("U")
    if source.is_float:
        found = w.define(f"arith.{'fptoui' if to.name.startswith('U') else 'fptosi'} {name} : {old} to {'i64' if to is INDEX else new}")
        return w.define(f"arith.index_cast {found} : i64 to index") if to is INDEX else found
    if to is BOOL:
        return w.define(f"arith.cmpi ne, {name}, {w.constant(0, source)} : {old}")
    if to.is_float:
        if source is INDEX:
            name, old = w.define(f"arith.index_cast {name} : index to i64"), "i64"
        return w.define(f"arith.{'uitofp' if unsigned else 'sitofp'} {name} : {old} to {new}")
    if to is INDEX and unsigned:
        wide = name if source.bits == 64 else w.define(f"arith.extui {name} : {old} to i64")
        return w.define(f"arith.index_cast {wide} : i64 to index")
    if INDEX in (source, to):
        return w.define(f"arith.index_cast {name} : {old} to {new}")
    if source.bits == to.bits:
        return name
    return w.define(f"arith.{'trunci' if to.bits < source.bits else 'extui' if unsigned else 'extsi'} {name} : {old} to {new}")


# rules ------------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Operands:
    """The operands of an op in one data type."""

    w: MemoryWriter
    dtype: DType
    names: tuple[str, ...]

    @property
    def real(self) -> bool:
        return self.dtype.is_float

    @property
    def sign(self) -> str:
        return "u" if self.dtype.name.startswith("U") else "s"

    def text(self, name: str, *names: str) -> str:
        """`arith.name` of the operands, or of others."""
        return f"arith.{name} {', '.join(names or self.names)} : {scalar_name(self.dtype)}"

    def define(self, name: str, *names: str) -> str:
        return self.w.define(self.text(name, *names))

    def constant(self, number: float) -> str:
        return self.w.constant(number, self.dtype)


def arith(text: Callable[[Operands], str | None]) -> ScalarRule:
    """An op of `arith` on operands in the type of the result; None where there is none for that type."""

    def rule(w: MemoryWriter, op: d.ApplyOp) -> str:
        values = [value for value in apply_args(op).values() if isinstance(value, SSAValue)]
        dtype = dtype_of(op.results[0]) if op.op != "cmp" else _common(values)
        found = text(Operands(w, dtype, tuple(scalar_as(w, value, dtype, op) for value in values)))
        if found is None:
            raise w.refuse(op, f"the scalar op {op_name(op)} of {dtype}")
        return w.define(found, hint_of(op.results[0]))

    return rule


def same(integer: str, real: str | None = None) -> ScalarRule:
    """One op for integers, one for floats."""
    return arith(lambda x: x.text(real if x.real and real is not None else integer) if real is not None or not x.real else None)


def extreme(name: str) -> ScalarRule:
    return arith(lambda x: x.text(f"{name}f" if x.real else f"{name[:3]}{x.sign}i"))


def compared(w: MemoryWriter, op: d.ApplyOp) -> str:
    kind = op.statics["cmp_type"]
    mode = CMP_MODES[kind]

    def text(x: Operands) -> str:
        if x.real:
            return x.text(f"cmpf {'une' if mode == 'ne' else 'o' + mode},")
        return x.text(f"cmpi {mode if kind < 2 else x.sign + mode},")

    return arith(text)(w, op)


def _magnitude(x: Operands) -> str:
    (name,) = x.names
    return x.text("maximumf", name, x.define("negf")) if x.real else x.text("maxsi", name, x.define("subi", x.constant(0), name))


def _modulo(x: Operands) -> str | None:
    if x.real or x.sign == "u":
        return None if x.real else x.text("remui")
    return x.text("subi", x.names[0], x.define("muli", x.define("floordivsi"), x.names[1]))


def _inverted(x: Operands) -> str | None:
    return None if x.real else x.text("xori", x.names[0], x.w.constant(True, BOOL) if x.dtype is BOOL else x.constant(-1))


negation = arith(lambda x: x.text("negf") if x.real else x.text("subi", x.constant(0), *x.names))
division = arith(lambda x: x.text("divf") if x.real else x.text(f"div{x.sign}i"))
floor_division = arith(lambda x: None if x.real else x.text("floordivsi" if x.sign == "s" else "divui"))
remainder = arith(lambda x: x.text("remf" if x.real else f"rem{x.sign}i"))
shift_right = arith(lambda x: None if x.real else x.text(f"shr{x.sign}i"))
magnitude, modulo, inverted = arith(_magnitude), arith(_modulo), arith(_inverted)


def place(w: MemoryWriter, op: d.ApplyOp) -> str:
    """Where the code runs."""
    result, hint = dtype_of(op.results[0]), hint_of(op.results[0])
    found = w.define(f"pto.{op.op}", None if result is INDEX else hint)
    return w.define(f"arith.index_cast {found} : i64 to index", hint) if result is INDEX else converted(w, found, INT64, result)


def known(w: MemoryWriter, op: d.ApplyOp) -> str:
    """What the language says of every machine."""
    type = d.type_of(op.results[0])
    number = table()[op.op].reference(results=(type,))
    assert isinstance(number, np.integer)
    return w.constant(int(number), dtype_of(op.results[0]))


def cast(w: MemoryWriter, op: d.ApplyOp) -> str:
    value, result = operand(op, "input"), dtype_of(op.results[0])
    if dtype_of(value).is_float and not result.is_float and apply_args(op)["mode"] not in ("trunc", "none"):
        return _rounded(w, op, value, result)
    return scalar_as(w, value, result, op)


def chosen(w: MemoryWriter, op: d.ApplyOp) -> str:
    result = dtype_of(op.results[0])
    sides = [scalar_as(w, operand(op, name), result, op) for name in ("lhs", "rhs")]
    return w.define(f"arith.select {', '.join([scalar_as(w, operand(op, 'condition'), BOOL, op), *sides])} : {scalar_name(result)}", hint_of(op.results[0]))


def function(w: MemoryWriter, op: d.ApplyOp) -> str:
    """A function that only the vector core has: the number passes through a tile of one element."""
    result = dtype_of(op.results[0])
    return converted(w, _through_tile(w, f"t{op.op}", scalar_as(w, operand(op, "input"), FP32, op), hint_of(op.results[0])), FP32, result)


def _common(values: list[SSAValue]) -> DType:
    first, second = (dtype_of(value) for value in values)
    if constant_of(values[1]) is not None and first is not BOOL and (first.is_float or not second.is_float):
        return first
    if constant_of(values[0]) is not None and second is not BOOL and (second.is_float or not first.is_float):
        return second
    return first if first is second else promote(first, second)


def _through_tile(w: MemoryWriter, name: str, value: str, hint: str | None) -> str:
    """A function of one FP32 number, on the vector core."""
    type = "!pto.tile_buf<loc=vec, dtype=f32, rows=1, cols=8, v_row=1, v_col=1, blayout=row_major, slayout=none_box, fractal=512, pad=0>"
    tile = w.define(f"pto.alloc_tile : {type}", "one")
    w.line(f"pto.texpands ins({value} : f32) outs({tile} : {type})")
    w.line(f"pto.{name} ins({tile} : {type}) outs({tile} : {type})")
    return w.define(f"pto.tgetval ins({tile}, {w.ssa(0)} : {type}, index) outs : f32", hint)


def _rounded(w: MemoryWriter, op: d.ApplyOp, value: SSAValue, result: DType) -> str:
    """A float to the nearest integer, halves to even or away from zero as the mode says."""
    mode = apply_args(op)["mode"]
    if mode != "round" and mode != "floor":
        raise w.refuse(op, f"a scalar cast with mode {mode!r}")
    name, source = scalar(w, value, op), dtype_of(value)
    element = scalar_name(source)
    whole = w.define(f"arith.fptosi {name} : {element} to i64")
    back = w.define(f"arith.sitofp {whole} : i64 to {element}")
    rest = w.define(f"arith.subf {name}, {back} : {element}")
    if mode == "floor":
        steps = [("olt", 0.0, -1)]
    else:
        steps = [("oge", 0.5, 1), ("ole", -0.5, -1)]
    for kind, limit, step in steps:
        over = w.define(f"arith.cmpf {kind}, {rest}, {w.constant(limit, source)} : {element}")
        moved = w.define(f"arith.addi {whole}, {w.constant(step, INT64)} : i64")
        whole = w.define(f"arith.select {over}, {moved}, {whole} : i64")
    return converted(w, whole, INT64, result)

