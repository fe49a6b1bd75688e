"""Raising of conversions, comparisons and selections."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
from xdsl.ir import SSAValue

from tilejit.dtypes import FP32, INT16, INT32, INT64, UINT8, DType, integer_range
from tilejit.frontend.pto.handles import Cell, Demoted, NotRaisable, Region, known_region
from tilejit.frontend.pto.tiles import Tile, filled, needs_all_cells, read, region_of, same_bits, tile, write
from tilejit.ops.gather import CMP_MODES
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.spec import dense_masks
from tilejit.types.values import ScalarType

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
    too_large = self.apply("cmp_mask", lhs=wide, rhs=self.build.const(float(2**31), FP32), cmp_type=CMP_MODES.index("ge"))
    rows, cols = (int(size) for size in d.shaped_type(value).shape)
    return self.apply("sel", mask=too_large, lhs=filled(self, (rows, cols), INT32, self.build.const(-(2**31), INT32)), rhs=cast)


def _ties_to_odd(self: Raiser, value: SSAValue) -> SSAValue:
    """The nearest whole number, of two equally near ones the odd one."""
    wide = value if _dtype(value) is FP32 else self.apply("cast", input=value, target_type=FP32, mode="rint")
    low = self.apply("floor", input=wide)
    odd = self.apply("rem", lhs=low, rhs=self.build.const(2.0, FP32))
    # An odd floor wins as it is, an even one has the odd number above it.
    above = self.apply("add", lhs=low, rhs=self.apply("sub", lhs=self.build.const(1.0, FP32), rhs=odd))
    tie = self.apply("cmp_mask", lhs=self.apply("sub", lhs=wide, rhs=low), rhs=self.build.const(0.5, FP32), cmp_type=CMP_MODES.index("eq"))
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
    infinite = self.apply("cmp_mask", lhs=self.apply("abs", input=wide), rhs=self.build.const(float("inf"), FP32), cmp_type=CMP_MODES.index("eq"))
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


def _compare(self: Raiser, op: PtoOp) -> None:
    """One bit per element; the other bits of the mask are cleared."""
    source, mask = tile(self, op, "a"), tile(self, op, "m")
    region, shape = region_of(self, source), source.spec.shape
    sides = [read(self, source, region), read(self, tile(self, op, "b"), region, shape) if op.operand("b") is not None else self.scalar(op.operand("s"))]
    dense = _dense(self, region)
    if dense is not None:
        sides, region = [_as_line(self, side) for side in sides], dense
    bits = self.apply("cmp_mask", lhs=sides[0], rhs=sides[1], cmp_type=CMP_MODES.index(op.enum("cmpMode", "eq")))
    known = known_region(region)
    if known is None:
        if isinstance(mask, Cell):
            raise Demoted(mask.key)
        if mask.dtype.bits != 8:
            raise NotRaisable("a mask of wide elements for a region that only the run knows")
        write(self, mask, filled(self, mask.spec.shape, mask.dtype, self.build.const(0, mask.dtype)))
        write(self, mask, same_bits(self, bits, mask.dtype))
        return
    needs_all_cells(mask)
    held = (1, mask.spec.bytes) if dense is not None else (mask.spec.rows, mask.spec.cols * mask.dtype.get_byte())
    zero = self.build.const(0)
    cleared = filled(self, held, UINT8, self.build.const(0, UINT8))
    packed = self.apply("assemble", target=cleared, source=self.cut(bits, 0, 0, (known[0], -(-known[1] // 8))), offset=[zero, zero])
    write(self, mask, self.apply("reinterpret_view", data=packed, dtype=mask.dtype, shape=[self.build.const(n) for n in mask.spec.shape]))


def _dense(self: Raiser, region: Region) -> tuple[int, int] | None:
    """Where masks have no gaps: the region as one line, of which the bits follow each other in the rows of any mask."""
    if not dense_masks(self.file.arch):
        return None
    known = known_region(region)
    if known is None:
        raise NotRaisable("a mask without gaps for a region that only the run knows")
    return 1, known[0] * known[1]


def _as_line(self: Raiser, value: SSAValue) -> SSAValue:
    """All cells of a tile in one row; scalars as they are."""
    if isinstance(d.type_of(value), ScalarType):
        return value
    rows, cols = (int(size) for size in d.shaped_type(value).shape)
    return self.reshaped(value, (1, rows * cols))


def _mask_rows(self: Raiser, mask: Tile, region: Region, shape: tuple[int, int]) -> SSAValue:
    """The bits of a region as bytes, each of its rows in a row of its own."""
    needs_all_cells(mask)
    wide = mask.spec.cols * mask.dtype.get_byte()
    if isinstance(region[0], int):
        value = read(self, mask, (region[0], mask.spec.cols))
        return self.apply("reinterpret_view", data=value, dtype=UINT8, shape=[self.build.const(n) for n in (region[0], wide)])
    if mask.dtype.bits != 8:
        raise NotRaisable("a mask of wide elements for a region that only the run knows")
    return same_bits(self, read(self, mask, (region[0], wide), (shape[0], wide)), UINT8)


def _select(self: Raiser, op: PtoOp) -> None:
    """The bits choose between two tiles, or between a tile and a number."""
    mask, target = tile(self, op, "m"), tile(self, op, "d")
    region, shape = region_of(self, target), target.spec.shape
    sides = [_as_selectable(self, read(self, tile(self, op, name), region, shape)) for name in ("a", "b") if op.operand(name) is not None]
    dense = _dense(self, region)
    if dense is None:
        bits = _mask_rows(self, mask, region, shape)
    else:
        whole = self.reshaped(_mask_rows(self, mask, mask.spec.shape, mask.spec.shape), (1, mask.spec.bytes))
        bits, sides = self.cut(whole, 0, 0, (1, -(-dense[1] // 8))), [_as_line(self, side) for side in sides]
    if len(sides) == 2:
        value = self.apply("sel", mask=bits, lhs=sides[0], rhs=sides[1])
    else:
        value = self.apply("sels", mask=bits, src=sides[0], scalar=self.cast(self.scalar(op.operand("s")), target.dtype))
    if dense is not None:
        rows, cols = (int(size) for size in region if isinstance(size, int))
        value = self.reshaped(value, (rows, cols))
    write(self, target, same_bits(self, value, target.dtype))


def _as_selectable(self: Raiser, value: SSAValue) -> SSAValue:
    """BF16 cells are chosen by their bits."""
    return same_bits(self, value, INT16) if _dtype(value).name == "BF16" else value


OPS = {"tcvt": _convert, "tcmp": _compare, "tcmps": _compare, "tsel": _select, "tsels": _select}
