"""Raising of conversions, comparisons and selections."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
from xdsl.ir import SSAValue

from tilejit.dtypes import FP32, INT16, INT32, INT64, UINT8, DType, integer_range
from tilejit.frontend.pto.handles import Cell, Demoted, NotRaisable, Region
from tilejit.frontend.pto.moves import filled, same_bits
from tilejit.frontend.pto.tiles import Tile, read, region_of, tile, write
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.pto.op import PtoOp

if TYPE_CHECKING:
    from tilejit.frontend.pto.raiser import Raiser


def _dtype(value: SSAValue) -> DType:
    return d.shaped_type(value).dtype


_MODES = {"NONE": "trunc", "TRUNC": "trunc", "RINT": "rint", "CAST_RINT": "rint", "ROUND": "round", "FLOOR": "floor", "CEIL": "ceil"}


def _convert(self: Raiser, op: PtoOp) -> None:
    source, target = tile(self, op, "a"), tile(self, op, "d")
    value = read(self, source, region_of(self, target), target.spec.shape)
    mode, saturation = op.enum("rmode", "CAST_RINT"), op.enum("sat_mode")
    dtype = target.dtype
    if source.dtype is dtype:
        write(self, target, value)
    elif source.dtype.is_float and not dtype.is_float:
        write(self, target, _to_integer(self, value, dtype, mode, saturation != "OFF"))
    elif dtype.is_float:
        write(self, target, _to_float(self, value, dtype, saturation == "ON"))
    elif saturation == "OFF":
        write(self, target, self.apply("cast", input=value, target_type=dtype, mode="trunc"))
    else:
        write(self, target, _clipped(self, value, dtype))


def _to_integer(self: Raiser, value: SSAValue, dtype: DType, mode: str, saturate: bool) -> SSAValue:
    if mode == "ODD":
        return _to_integer(self, _ties_to_odd(self, value), dtype, "RINT", saturate)
    if not saturate and dtype is not INT32:
        wide = self.apply("cast", input=value, target_type=INT64, mode=_MODES[mode])
        return self.apply("cast", input=wide, target_type=dtype, mode="trunc")
    cast = self.apply("cast", input=value, target_type=dtype, mode=_MODES[mode])
    if dtype is not INT32:
        return cast
    # What is too large wraps to the smallest number, also when saturating: the limit itself is no float.
    wide = value if _dtype(value) is FP32 else self.apply("cast", input=value, target_type=FP32, mode="rint")
    too_large = self.apply("cmp_mask", lhs=wide, rhs=self.build.const(float(2**31), FP32), cmp_type=_COMPARISONS.index("ge"))
    rows, cols = (int(size) for size in d.shaped_type(value).shape)
    return self.apply("sel", mask=too_large, lhs=filled(self, (rows, cols), INT32, self.build.const(-(2**31), INT32)), rhs=cast)


def _ties_to_odd(self: Raiser, value: SSAValue) -> SSAValue:
    """The nearest whole number, of two equally near ones the odd one."""
    wide = value if _dtype(value) is FP32 else self.apply("cast", input=value, target_type=FP32, mode="rint")
    low = self.apply("floor", input=wide)
    odd = self.apply("rem", lhs=low, rhs=self.build.const(2.0, FP32))
    # An odd floor wins as it is, an even one has the odd number above it.
    above = self.apply("add", lhs=low, rhs=self.apply("sub", lhs=self.build.const(1.0, FP32), rhs=odd))
    tie = self.apply("cmp_mask", lhs=self.apply("sub", lhs=wide, rhs=low), rhs=self.build.const(0.5, FP32), cmp_type=_COMPARISONS.index("eq"))
    return self.apply("sel", mask=tie, lhs=above, rhs=wide)


def _to_float(self: Raiser, value: SSAValue, dtype: DType, saturate: bool) -> SSAValue:
    if saturate and dtype.bits < 32:
        value = _stopped(self, value, dtype)
    return self.apply("cast", input=value, target_type=dtype, mode="rint")


def _stopped(self: Raiser, value: SSAValue, dtype: DType) -> SSAValue:
    """Finite floats moved into the range of a narrower type."""
    limit = float(ml_dtypes.finfo(dtype.numpy).max)
    wide = value if _dtype(value) is FP32 else self.apply("cast", input=value, target_type=FP32, mode="rint")
    inside = self.apply("minimum", lhs=self.apply("maximum", lhs=wide, rhs=self.build.const(-limit, FP32)), rhs=self.build.const(limit, FP32))
    infinite = self.apply("cmp_mask", lhs=self.apply("abs", input=wide), rhs=self.build.const(float("inf"), FP32), cmp_type=_COMPARISONS.index("eq"))
    return self.apply("sel", mask=infinite, lhs=wide, rhs=inside)


def _clipped(self: Raiser, value: SSAValue, dtype: DType) -> SSAValue:
    """An integer moved into the range of a narrower or differently signed type."""
    source = _dtype(value)
    (low, high), (own_low, own_high) = integer_range(dtype), integer_range(source)
    if high < own_high:
        value = self.apply("minimum", lhs=value, rhs=self.build.const(high, source))
    if low > own_low:
        value = self.apply("maximum", lhs=value, rhs=self.build.const(low, source))
    return self.apply("cast", input=value, target_type=dtype, mode="trunc")


_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def _static(region: Region) -> tuple[int, int]:
    rows, cols = region
    if not isinstance(rows, int) or not isinstance(cols, int):
        raise NotRaisable("a mask of a region that only the run knows")
    return rows, cols


def _compare(self: Raiser, op: PtoOp) -> None:
    """One bit per element in bytes, row after row; the other bits of the mask are cleared."""
    source, mask = tile(self, op, "a"), tile(self, op, "m")
    region, shape = region_of(self, source), source.spec.shape
    other = read(self, tile(self, op, "b"), region, shape) if op.operand("b") is not None else self.scalar(op.operand("s"))
    kind = _COMPARISONS.index(op.enum("cmpMode", "eq"))
    bits = self.apply("cmp_mask", lhs=read(self, source, region), rhs=other, cmp_type=kind)
    rows, cols = region
    if not isinstance(rows, int) or not isinstance(cols, int):
        if isinstance(mask, Cell):
            raise Demoted(mask.key)
        if mask.dtype.bits != 8:
            raise NotRaisable("a mask of wide elements for a region that only the run knows")
        write(self, mask, filled(self, mask.spec.shape, mask.dtype, self.build.const(0, mask.dtype)))
        write(self, mask, same_bits(self, bits, mask.dtype))
        return
    held, wide = mask.spec.rows, mask.spec.cols * mask.dtype.get_byte()
    if isinstance(mask, Cell) and mask.shape != mask.spec.shape:
        raise Demoted(mask.key)
    part = self.cut(bits, 0, 0, (min(rows, held), min(-(-cols // 8), wide)))
    zero = self.build.const(0)
    cleared = filled(self, (held, wide), UINT8, self.build.const(0, UINT8))
    packed = self.apply("assemble", target=cleared, source=part, offset=[zero, zero])
    write(self, mask, self.apply("reinterpret_view", data=packed, dtype=mask.dtype, shape=[self.build.const(n) for n in mask.spec.shape]))


def _bytes(self: Raiser, mask: Tile, region: tuple[int, int]) -> SSAValue:
    """Cells of a mask as bytes."""
    value = read(self, mask, region)
    if mask.dtype.bits == 8:
        return same_bits(self, value, UINT8)
    shape = (region[0], region[1] * mask.dtype.get_byte())
    return self.apply("reinterpret_view", data=value, dtype=UINT8, shape=[self.build.const(n) for n in shape])


def _select(self: Raiser, op: PtoOp) -> None:
    """The bits run on through the valid columns of the mask, row after row."""
    mask, target = tile(self, op, "m"), tile(self, op, "d")
    rows, cols = _static(region_of(self, target))
    held = _static(region_of(self, mask))
    wide = held[1] * mask.dtype.get_byte()
    bits = _bytes(self, mask, held)
    if rows > 1 and wide * 8 != cols:
        if cols % 8 or held[0] * wide * 8 < rows * cols:
            raise NotRaisable("rows of a mask that begin inside a byte")
        count = rows * cols // 8
        bits = self.reshaped(self.cut(self.reshaped(bits, (1, held[0] * wide)), 0, 0, (1, count)), (rows, cols // 8))
    elif held[0] < rows or wide * 8 < cols:
        raise NotRaisable("a mask with too few bits")
    bits = self.cut(bits, 0, 0, (rows, int(d.shaped_type(bits).shape[1])))
    first, second = (_as_selectable(self, read(self, tile(self, op, name), (rows, cols))) for name in ("a", "b"))
    write(self, target, same_bits(self, self.apply("sel", mask=bits, lhs=first, rhs=second), target.dtype))


def _as_selectable(self: Raiser, value: SSAValue) -> SSAValue:
    """BF16 cells are chosen by their bits."""
    return same_bits(self, value, INT16) if _dtype(value).name == "BF16" else value


def _select_scalar(self: Raiser, op: PtoOp) -> None:
    """Every row of the data has its own row of the mask."""
    mask, target = tile(self, op, "m"), tile(self, op, "d")
    region, shape = region_of(self, target), target.spec.shape
    if isinstance(mask, Cell) and mask.shape != mask.spec.shape:
        raise Demoted(mask.key)
    if isinstance(region[0], int):
        bits = _bytes(self, mask, (region[0], mask.spec.cols))
    elif mask.dtype.bits == 8:
        bits = same_bits(self, read(self, mask, (region[0], mask.spec.cols), (shape[0], mask.spec.cols)), UINT8)
    else:
        raise NotRaisable("a mask of wide elements for a region that only the run knows")
    write(self, target, self.apply("sels", mask=bits, src=read(self, tile(self, op, "a"), region, shape), scalar=self.scalar(op.operand("s"))))


OPS = {"tcvt": _convert, "tcmp": _compare, "tcmps": _compare, "tsel": _select, "tsels": _select_scalar}
