"""Scalars in PTO text: the ops of the table on single numbers as `arith` ops."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tilejit.backends.pto.write.memory import MemoryWriter
from tilejit.backends.pto.write.text import Extent, hint_of, op_name, scalar_name
from tilejit.dtypes import BOOL, FP32, INDEX, INT64, DType, promote
from tilejit.ops.gather import CMP_MODES
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, constant_of
from tilejit.types.values import ScalarType

_SAME = {"add": ("addi", "addf"), "sub": ("subi", "subf"), "mul": ("muli", "mulf")}
_WHOLE = {"and_": "andi", "or_": "ori", "xor": "xori", "logical_and": "andi", "logical_or": "ori", "shl": "shli"}
_COUNTS = {"available_cluster_count": 8, "available_aiv_count": 16}
"""What the language says of every machine."""
_FUNCTIONS = {"exp": "texp", "log": "tlog", "sqrt": "tsqrt", "rsqrt": "trsqrt", "recip": "trecip"}
"""Functions that only the vector core has: a scalar passes through a tile of one element."""
SCALAR_OPS = frozenset({
    *_SAME, *_WHOLE, "shr", "floordiv", "mod", "fmod", "div", "minimum", "maximum", "cmp", "cast", "neg", "where", "logical_not", "not_", "abs",
    "get_block_idx", "get_block_num", "get_subblock_idx", *_COUNTS, *_FUNCTIONS,
})  # fmt: skip
"""Ops of the table that have a scalar form in PTO text."""


def dtype_of(value: SSAValue) -> DType:
    type = d.type_of(value)
    assert isinstance(type, ScalarType), value
    return type.dtype


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


def scalar_op(w: MemoryWriter, op: d.ApplyOp) -> str:
    """One scalar op; its result's name."""
    result, hint = dtype_of(op.results[0]), hint_of(op.results[0])
    if op.op in ("get_block_idx", "get_block_num", "get_subblock_idx"):
        place = w.define(f"pto.{op.op}", None if result is INDEX else hint)
        return w.define(f"arith.index_cast {place} : i64 to index", hint) if result is INDEX else converted(w, place, INT64, result)
    if op.op in _COUNTS:
        return w.constant(_COUNTS[op.op], result)
    args = apply_args(op)
    values = [value for value in args.values() if isinstance(value, SSAValue)]
    if op.op == "cast":
        if dtype_of(values[0]).is_float and not result.is_float and args["mode"] not in ("trunc", "none"):
            return _rounded(w, op, values[0], result)
        return scalar_as(w, values[0], result, op)
    if op.op == "where":
        names = [scalar_as(w, values[0], BOOL, op), *(scalar_as(w, value, result, op) for value in values[1:])]
        return w.define(f"arith.select {', '.join(names)} : {scalar_name(result)}", hint)
    if op.op in _FUNCTIONS and result.is_float:
        return converted(w, _through_tile(w, _FUNCTIONS[op.op], scalar_as(w, values[0], FP32, op), hint), FP32, result)
    common = result if op.op != "cmp" else _common(values)
    names = [scalar_as(w, value, common, op) for value in values]
    text = _arith(w, op, common, names, args)
    if text is None:
        raise w.refuse(op, f"the scalar op {op_name(op)} of {common}")
    return w.define(text, hint)


def _common(values: list[SSAValue]) -> DType:
    first, second = (dtype_of(value) for value in values)
    if constant_of(values[1]) is not None and first is not BOOL and (first.is_float or not second.is_float):
        return first
    if constant_of(values[0]) is not None and second is not BOOL and (second.is_float or not first.is_float):
        return second
    return first if first is second else promote(first, second)


def _arith(w: MemoryWriter, op: d.ApplyOp, dtype: DType, names: list[str], args: dict[str, object]) -> str | None:
    both, element, real = ", ".join(names), scalar_name(dtype), dtype.is_float
    sign = "u" if dtype.name.startswith("U") else "s"
    if op.op in _SAME:
        return f"arith.{_SAME[op.op][real]} {both} : {element}"
    if op.op == "cmp":
        kind = args["cmp_type"]
        assert isinstance(kind, int)
        mode = CMP_MODES[kind]
        if real:
            return f"arith.cmpf {'une' if mode == 'ne' else 'o' + mode}, {both} : {element}"
        return f"arith.cmpi {mode if kind < 2 else sign + mode}, {both} : {element}"
    if op.op == "neg":
        return f"arith.negf {both} : {element}" if real else f"arith.subi {w.constant(0, dtype)}, {both} : {element}"
    if op.op in ("minimum", "maximum"):
        return f"arith.{op.op}f {both} : {element}" if real else f"arith.{op.op[:3]}{sign}i {both} : {element}"
    if op.op == "div" and real:
        return f"arith.divf {both} : {element}"
    if op.op == "fmod":
        return f"arith.{'remf' if real else f'rem{sign}i'} {both} : {element}"
    if real:
        return f"arith.maximumf {names[0]}, {w.define(f'arith.negf {names[0]} : {element}')} : {element}" if op.op == "abs" else None
    if op.op == "abs":
        return f"arith.maxsi {names[0]}, {w.define(f'arith.subi {w.constant(0, dtype)}, {names[0]} : {element}')} : {element}"
    if op.op in _WHOLE:
        return f"arith.{_WHOLE[op.op]} {both} : {element}"
    if op.op == "logical_not" or (op.op == "not_" and dtype is BOOL):
        return f"arith.xori {names[0]}, {w.constant(True, BOOL)} : i1"
    if op.op == "not_":
        return f"arith.xori {names[0]}, {w.constant(-1, dtype)} : {element}"
    if op.op in ("shr", "floordiv", "div"):
        name = {"shr": f"shr{sign}i", "div": f"div{sign}i", "floordiv": "floordivsi" if sign == "s" else "divui"}[op.op]
        return f"arith.{name} {both} : {element}"
    if op.op == "mod" and sign == "u":
        return f"arith.remui {both} : {element}"
    if op.op == "mod":
        quotient = w.define(f"arith.floordivsi {both} : {element}")
        return f"arith.subi {names[0]}, {w.define(f'arith.muli {quotient}, {names[1]} : {element}')} : {element}"
    return None


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
    if mode not in ("round", "floor"):
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

