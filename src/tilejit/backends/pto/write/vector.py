"""Rules of the vector core: how a block of an elementwise op, an expand or a reduction is written, from blocks of its operands."""

from __future__ import annotations

import math
from collections.abc import Callable

from xdsl.ir import SSAValue

from tilejit import ops
from tilejit.backends.pto.write.blocks import BlockWriter, Tile
from tilejit.backends.pto.write.memory import Part, Region
from tilejit.backends.pto.write.scalars import scalar_as
from tilejit.backends.pto.write.text import hint_of, op_name, scalar_name, stored
from tilejit.dtypes import BF16, BOOL, FP16, FP32, INT8, INT16, INT32, UINT8, UINT16, DType, integer_range
from tilejit.ops.spec import ParamKind
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.tile_ir.build import apply_args, operand
from tilejit.tile_ir.pto.rows import EXPANDING, FUNCTIONS, PAIRS
from tilejit.types.values import ScalarType

Rule = Callable[[BlockWriter, d.ApplyOp, Region], Tile]

NAMES = {row: name for name, row in (PAIRS | FUNCTIONS).items()}
"""PTO names of the rows of one and two operands, without `t`."""
FOLDS = {"sum": "add", "max": "max", "min": "min", "prod": "mul"}
"""Reductions, and how their partial results combine."""
def working_dtype(w: BlockWriter, dtype: DType, op: d.ApplyOp) -> DType:
    """The type in which the vector core computes: narrow types it lacks are widened, as everywhere in the language."""
    if dtype is BF16:
        return FP32
    if dtype in (INT8, UINT8) and w.arch != "a5":
        return INT16 if dtype is INT8 else UINT16
    if dtype is BOOL or dtype.bits > 32 or dtype.bits < 8 or (dtype.is_float and dtype not in (FP16, FP32)):
        raise w.refuse(op, f"{op_name(op)} of {dtype}", "the vector core computes in FP32, FP16, INT32 and INT16, on A5 also in INT8")
    return dtype


def cast_tile(w: BlockWriter, tile: Tile, to: DType, mode: str = "RINT", hint: str | None = None, wrap: bool = False) -> Tile:
    """A tile in another element type."""
    if tile.spec.element.dtype is to:
        return tile
    saturation = ", sat_mode = #pto<saturation_mode OFF>" if wrap else ""
    return w.dest("tcvt", [tile], w.like(tile, to, hint), f" {{rmode = #pto<round_mode {mode}>{saturation}}}")


def operand_region(value: SSAValue, region: Region, op: d.ApplyOp) -> Region:
    """The block of an operand that a block of the result needs: dims of extent 1 are spread."""
    own, whole = d.shaped_type(value).shape, d.shaped_type(op.results[0]).shape
    cols = Part(0, 1, 1) if own and own[-1] == 1 and whole[-1] != 1 else region.cols
    if all(dim == 1 for dim in own[:-1]) and not all(dim == 1 for dim in whole[:-1]):
        return Region(Part(0, 1, 1), cols)
    return Region(region.rows, cols)


def is_spread(value: SSAValue, op: d.ApplyOp) -> bool:
    """Whether an operand is spread along inner dims of a stack of matrices."""
    own, whole = d.shaped_type(value).shape, d.shaped_type(op.results[0]).shape
    leading = ((1,) * (len(whole) - len(own)) + tuple(own))[:-1]
    return len(whole) > 2 and leading != whole[:-1] and any(dim != 1 for dim in leading)


def spread(w: BlockWriter, value: SSAValue, region: Region, op: d.ApplyOp) -> Tile:
    """Such an operand in the shape of the result: it is read from memory with steps of 0."""
    own, whole = d.shaped_type(value).shape, d.shaped_type(op.results[0]).shape
    if region != w.whole(op.results[0]):
        raise w.refuse(op, f"{op_name(op)} that spreads an inner dim of a value larger than a tile")
    missing = len(whole) - len(own)
    axes = tuple(None if axis < missing or own[axis - missing] == 1 != whole[axis] else axis - missing for axis in range(len(whole)))
    shape = tuple(w.extent(op.results[0], axis) for axis in range(len(whole)))
    return w.dest("tload", [w.rearranged(w.memory_of(value, op), shape, axes)], w.result(op, region, d.shaped_type(value).dtype))


def pulled(w: BlockWriter, value: SSAValue, region: Region, op: d.ApplyOp, dtype: DType) -> Tile:
    """A block of an operand in the type the op computes in."""
    tile = spread(w, value, region, op) if is_spread(value, op) else w.pull(value, operand_region(value, region, op), op)
    own = d.shaped_type(value).dtype
    return cast_tile(w, tile, dtype, "TRUNC" if own.is_float and not dtype.is_float else "RINT", wrap=not own.is_float)


def is_array(value: object) -> bool:
    return isinstance(value, SSAValue) and not isinstance(d.type_of(value), ScalarType)


def finished(w: BlockWriter, op: d.ApplyOp, tile: Tile, mode: str = "RINT") -> Tile:
    """The result in its own type, after it was computed in a wider one."""
    dtype = stored(d.shaped_type(op.results[0]).dtype)
    return cast_tile(w, tile, dtype, mode, hint_of(op.results[0]), wrap=not dtype.is_float)


# two operands ---------------------------------------------------------------------------------------------------------------------


def binary(name: str) -> Rule:
    """An instruction of two operands."""

    def rule(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
        args, own = apply_args(op), d.shaped_type(op.results[0]).dtype
        dtype = INT16 if own is BOOL and ops.facts(op.op).bitwise else working_dtype(w, own, op)
        return finished(w, op, combined(w, op, region, name, args["lhs"], args["rhs"], dtype))

    return rule


def _commutes(name: str) -> bool:
    return ops.facts(PAIRS.get(name, "")).commutes


def _scratch(w: BlockWriter, name: str, out: Tile) -> list[Tile]:
    """A scratch tile for the instructions that want one."""
    return [w.like(out)] if PAIRS[name] == name and any(param.kind is ParamKind.Scratch for param in ops.table()[name].params) else []


def combined(w: BlockWriter, op: d.ApplyOp, region: Region, name: str, lhs: object, rhs: object, dtype: DType) -> Tile:
    """`lhs name rhs`, whatever mixture of tiles, lines and scalars they are."""
    sides = [side(w, value, region, op, dtype) for value in (lhs, rhs)]
    out = w.result(op, region, dtype)
    if isinstance(sides[0], Tile) and isinstance(sides[1], Tile):
        return _of_tiles(w, out, region, name, (sides[0], sides[1]))
    return _with_scalar(w, op, out, name, sides, dtype)


def side(w: BlockWriter, value: object, region: Region, op: d.ApplyOp, dtype: DType) -> Tile | str:
    assert isinstance(value, SSAValue)
    if not is_array(value):
        return scalar_as(w, value, dtype, op)
    tile = pulled(w, value, region, op, dtype)
    single = all(dim == 1 for dim in d.shaped_type(value).shape) and not all(dim == 1 for dim in d.shaped_type(op.results[0]).shape)
    return element_of(w, tile, 0, dtype) if single else tile


def element_of(w: BlockWriter, tile: Tile, offset: int | str, dtype: DType, hint: str | None = None) -> str:
    """One element of a tile as a scalar."""
    return w.define(f"pto.tgetval ins({tile.name}, {w.ssa(offset)} : {tile.type}, index) outs : {scalar_name(dtype)}", hint)


def _with_scalar(w: BlockWriter, op: d.ApplyOp, out: Tile, name: str, sides: list[Tile | str], dtype: DType) -> Tile:
    element = scalar_name(dtype)
    scratch = _scratch(w, name, out)
    items: list[Tile | tuple[str, str]] = [side if isinstance(side, Tile) else (side, element) for side in sides]
    if isinstance(items[0], Tile) or name == "div":
        return w.dest(f"t{name}s", [*items, *scratch], out)
    if _commutes(name):
        return w.dest(f"t{name}s", [*reversed(items), *scratch], out)
    assert isinstance(items[1], Tile)
    if name == "sub":
        w.dest("tmuls", [items[1], (w.constant(-1, dtype), element)], out)
        return w.dest("tadds", [out, items[0]], out)
    spread = w.dest("texpands", [items[0]], w.like(out))
    return w.dest(f"t{name}", [spread, items[1], *scratch], out)


def _of_tiles(w: BlockWriter, out: Tile, region: Region, name: str, sides: tuple[Tile, Tile]) -> Tile:
    left, right = sides
    scratch = _scratch(w, name, out)
    lines = [line_axis(side, out) for side in sides]
    if lines == ["", ""]:
        return w.dest(f"t{name}", [left, right, *scratch], out)
    if lines[0] and not lines[1] and _commutes(name) and name in EXPANDING:
        (left, right), lines = (right, left), lines[::-1]
    if lines[1] and not lines[0] and name in EXPANDING:
        return w.dest(f"t{lines[1]}expand{name}", [left, right], out)
    spread = [spread_line(w, side, line, out) if line else side for side, line in zip((left, right), lines)]
    return w.dest(f"t{name}", [*spread, *scratch], out)


def line_axis(tile: Tile, out: Tile) -> str:
    """`row`: one value per row, `col`: one value per column, or nothing when the tile covers the result."""
    if tile.valid[1] == 1 and out.valid[1] != 1:
        return "row"
    return "col" if tile.spec.rows == 1 and out.spec.rows > 1 else ""


def spread_line(w: BlockWriter, tile: Tile, line: str, out: Tile) -> Tile:
    return w.dest(f"t{line}expand", [tile], w.like(out))


# one operand ----------------------------------------------------------------------------------------------------------------------


def unary(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    dtype = working_dtype(w, d.shaped_type(op.results[0]).dtype, op)
    source = pulled(w, operand(op, "input"), region, op, dtype)
    return finished(w, op, w.dest(f"t{NAMES[op.op]}", [source], w.result(op, region, dtype)))

def leaky(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """lrelu with a scalar slope, prelu with one per element."""
    args, dtype = apply_args(op), working_dtype(w, d.shaped_type(op.results[0]).dtype, op)
    source, out = pulled(w, operand(op, "input"), region, op, dtype), w.result(op, region, dtype)
    slope = value_of(args["slope"])
    if not is_array(slope):
        return finished(w, op, w.dest("tlrelu", [source, (scalar_as(w, slope, FP32, op), "f32")], out))
    return finished(w, op, w.dest("tprelu", [source, pulled(w, slope, region, op, dtype), w.like(out)], out))


def three(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """a + b + c and a - b - c."""
    args, dtype = apply_args(op), working_dtype(w, d.shaped_type(op.results[0]).dtype, op)
    name = "add" if op.op == "addc" else "sub"
    first = combined(w, op, region, name, args["lhs"], args["rhs"], dtype)
    third = side(w, args["rhs2"], region, op, dtype)
    out = w.like(first)
    result = _of_tiles(w, out, region, name, (first, third)) if isinstance(third, Tile) else w.dest(f"t{name}s", [first, (third, scalar_name(dtype))], out)
    return finished(w, op, result)


def full(w: BlockWriter, side: Tile | str, out: Tile, dtype: DType) -> Tile:
    if not isinstance(side, Tile):
        return w.dest("texpands", [(side, scalar_name(dtype))], w.like(out))
    return spread_line(w, side, line, out) if (line := line_axis(side, out)) else side


# expands and reductions ---------------------------------------------------------------------------------------------------------------


def expand(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    axis, _, name = op.op.split("_", 2) if op.op.count("_") > 1 else (*op.op.split("_"), "")
    dtype = working_dtype(w, d.shaped_type(op.results[0]).dtype, op)
    vector = operand(op, "rhs")
    columns = d.shaped_type(vector).shape[-1]
    if axis == "row":
        line_region = Region(region.rows, Part(0, 1, 1) if columns == 1 else w.whole(vector).cols)
    else:
        line_region = Region(Part(0, 1, 1), region.cols)
    own = d.shaped_type(vector).dtype
    stack = is_spread(vector, op)
    found = spread(w, vector, region, op) if stack else w.pull(vector, line_region, op)
    line = cast_tile(w, found, dtype, "TRUNC" if own.is_float and not dtype.is_float else "RINT")
    out = w.result(op, region, dtype)
    if not name:
        return finished(w, op, w.dest(f"t{axis}expand", [line], out) if line_axis(line, out) else line)
    big = pulled(w, operand(op, "lhs"), region, op, dtype)
    if stack or out.spec.blayout == "col_major" or (axis == "col" and out.spec.rows == 1):
        # One column, or one row: there is nothing to spread.
        if name == "expdif":
            w.dest("tsub", [big, line], out)
            return finished(w, op, w.dest("texp", [out], out))
        return finished(w, op, w.dest(f"t{name}", [big, line], out))
    return finished(w, op, w.dest(f"t{axis}expand{name}", [big, line], out))


def expand_clone(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    dtype = d.shaped_type(op.results[0]).dtype
    out = w.result(op, region)
    return full(w, side(w, operand(op, "src"), region, op, dtype), out, dtype)


def fill(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """full and expands: one number everywhere."""
    dtype, value = d.shaped_type(op.results[0]).dtype, operand(op, "value" if op.op == "full" else "scalar")
    return w.dest("texpands", [(scalar_as(w, value, dtype, op), scalar_name(dtype))], w.result(op, region))


def reduced_columns(w: BlockWriter, op: d.ApplyOp, tile: Tile, region: Region) -> Tile:
    """One row from all rows of a tile."""
    name, own = op.op.removeprefix("col_"), d.shaped_type(operand(op, "input")).dtype
    dtype = working_dtype(w, own, op)
    source = cast_tile(w, tile, dtype)
    out = w.result(op, region, INT32 if name.startswith("arg") else dtype)
    return finished(w, op, w.dest(f"tcol{name}", [source, *([w.like(source)] if name.startswith("arg") else [])], out))


def _identity(name: str, dtype: DType) -> float:
    if name in ("sum", "prod"):
        return 0 if name == "sum" else 1
    low, high = (-math.inf, math.inf) if dtype.is_float else integer_range(dtype)
    return low if name == "max" else high


def reduction(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    axis, name = op.op.split("_")
    value = operand(op, "input")
    valid = w.valid_of(value)
    kept, reduced = (region.rows, valid[1]) if axis == "row" else (region.cols, valid[0])
    static = w.matrix(value)[1 if axis == "row" else 0]
    most = max(8, w.plan.budget * 2 // (4 * max(1, kept.size)))
    own = d.shaped_type(value).dtype
    dtype = working_dtype(w, own, op)
    dtype = {INT8: INT16, UINT8: UINT16}.get(dtype, dtype)

    def block(part: Part) -> Region:
        return Region(kept, part) if axis == "row" else Region(part, kept)

    def reduced_block(part: Part, out: Tile) -> Tile:
        source = cast_tile(w, w.pull(value, block(part), op), dtype)
        scratch = [w.like(source)] if axis == "row" or name.startswith("arg") else []
        return w.dest(f"t{axis}{name}", [source, *scratch], out)

    result = INT32 if name.startswith("arg") else dtype
    out = w.result(op, region, result)
    if isinstance(static, int) and (static <= most or not w.plan.is_large(value)):
        return finished(w, op, reduced_block(Part(0, static, reduced), out))
    if name.startswith("arg"):
        raise w.refuse(op, f"{op_name(op)} over more than one block")
    w.dest("texpands", [(w.constant(_identity(name, dtype), dtype), scalar_name(dtype))], out)
    with w.stretch(reduced, most, "at") as part:
        w.dest(f"t{FOLDS[name]}", [out, reduced_block(part, w.like(out))], out)
    return finished(w, op, out)


def floor_division(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """(a - (a mod b)) / b for integers, where mod has the sign of b; a wider division has nothing left to round."""
    args, own = apply_args(op), d.shaped_type(op.results[0]).dtype
    if own.is_float:
        raise w.refuse(op, f"{op_name(op)} of {own}")
    dtype = working_dtype(w, own, op)
    sides = [full(w, side(w, args[name], region, op, dtype), w.result(op, region, dtype), dtype) for name in ("lhs", "rhs")]
    rest = w.dest("trem", [*sides, w.like(sides[0])], w.like(sides[0]))
    return finished(w, op, w.dest("tdiv", [w.dest("tsub", [sides[0], rest], w.like(rest)), sides[1]], w.result(op, region, dtype)))
