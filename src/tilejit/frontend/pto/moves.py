"""Raising of transfers between global memory and tiles, and of moves between tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from tilejit.dtypes import FP32, INT64, UINT32, DType, integer_range
from tilejit.frontend.pto.handles import Cell, Demoted, Memory, NotRaisable, Num, Region
from tilejit.frontend.pto.tiles import Tile, all_cells, filled, needs_all_cells, read, region_of, same_bits, tile, write
from tilejit.frontend.pto.views import read_slice, slice_of, write_slice
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.specs import TileSpec
from tilejit.types.values import BufferType

if TYPE_CHECKING:
    from tilejit.frontend.pto.raiser import Raiser


def converted(self: Raiser, value: SSAValue, dtype: DType) -> SSAValue:
    """Values on the way between tiles: floats round to nearest even, to integers they round and stop at the ends."""
    source = d.shaped_type(value).dtype
    if source is dtype:
        return value
    if source.is_integer and dtype.is_integer:
        raise NotRaisable("integers that change their size while they move")
    return self.apply("cast", input=value, target_type=dtype, mode="rint")


def pad_scalar(self: Raiser, spec: TileSpec, dtype: DType) -> SSAValue:
    """What `pad` means for an element type."""
    if spec.pad < 2:
        return self.build.const(0, dtype)
    if dtype.is_float:
        return self.build.const(float("inf") if spec.pad == 2 else float("-inf"), dtype)
    low, high = integer_range(dtype)
    return self.build.const(high if spec.pad == 2 else low, dtype)


def filled_region(self: Raiser, region: Region, shape: tuple[int, int], dtype: DType, value: SSAValue) -> SSAValue:
    """A region full of one number: of its own shape where that is known, else of `shape` and valid in the region."""
    rows, cols = region
    if isinstance(rows, int) and isinstance(cols, int):
        return filled(self, (rows, cols), dtype, value)
    return narrowed(self, filled(self, shape, dtype, value), region)


def repeated(self: Raiser, block: SSAValue, cols: int) -> SSAValue:
    """One block of 32 bytes per row, repeated along the row."""
    type = d.shaped_type(block)
    rows = type.shape[0]
    assert isinstance(rows, int)
    return self.apply("row_expand_add", lhs=filled(self, (rows, cols), type.dtype, self.build.const(0, type.dtype)), rhs=block)


def narrowed(self: Raiser, value: SSAValue, region: Region) -> SSAValue:
    """The first rows and columns of a tile."""
    rows, cols = region
    if isinstance(rows, int) and isinstance(cols, int):
        return self.cut(value, 0, 0, (rows, cols))
    return self.apply("set_validshape", input=value, valid_rows=self.ssa(rows), valid_cols=self.ssa(cols))


def _pad_outside(self: Raiser, found: Tile, region: Region) -> None:
    """Fill the memory of a tile before a region of it is written; a variable has no cells outside."""
    if isinstance(found, Memory) and region != found.spec.shape:
        write(self, found, filled(self, found.spec.shape, found.dtype, pad_scalar(self, found.spec, found.dtype)))


def _load(self: Raiser, op: PtoOp) -> None:
    found = tile(self, op, "dst")
    region, box = region_of(self, found), slice_of(self, op, "src")
    if len(box.shape) > 2 and op.enum("layout") not in ("", box.layout):
        raise NotRaisable("a slice of more than two dims that is loaded in another layout")
    loaded = same_bits(self, read_slice(self, box, region, found.spec.shape), found.dtype)
    _pad_outside(self, found, region)
    write(self, found, loaded)


def scaled(self: Raiser, op: PtoOp, value: SSAValue, valid: Num) -> SSAValue:
    """What leaves the accumulator: relu, then one scale for all or for each of its valid columns."""
    dtype = d.shaped_type(value).dtype
    if op.enum("reluPreMode") == "normal_relu":
        value = self.apply("maximum", lhs=value, rhs=self.build.const(0, dtype))
    if op.tile("fp") is not None:
        cols = d.shaped_type(value).shape[1]
        assert isinstance(cols, int)
        value = self.apply("col_expand_mul", lhs=_single(self, value), rhs=_scales(self, tile(self, op, "fp"), valid, cols))
    if op.operand("quant") is not None:
        value = self.apply("mul", lhs=_single(self, value), rhs=_scale(self, self.scalar(op.operand("quant"))))
    return value


def _single(self: Raiser, value: SSAValue) -> SSAValue:
    return value if d.shaped_type(value).dtype is FP32 else self.apply("cast", input=value, target_type=FP32, mode="rint")


def _scales(self: Raiser, found: Tile, valid: Num, cols: int) -> SSAValue:
    """Quantisation scales: floats as they are, or floats in the low half of 64-bit words."""
    row = read(self, found, (1, valid), (1, cols))
    if found.dtype.is_integer and found.dtype.bits == 64:
        halves = self.apply("reinterpret_view", data=row, dtype=FP32, shape=[self.build.const(1), self.build.const(2 * cols)])
        return self.apply("gather_mask", src=halves, mask_pattern=1)
    return _single(self, row)


def _scale(self: Raiser, bits: SSAValue) -> SSAValue:
    """The float in the low 32 bits of a number, read through memory."""
    cell = self.build.create(BufferType((1,), UINT32), [])
    mask = self.build.const(0xFFFFFFFF, INT64)
    zero = self.build.const(0)
    self.build.write(cell, [zero], self.cast(self.apply("and_", "scalar", lhs=self.cast(bits, INT64), rhs=mask), UINT32))
    return self.build.read(self.build.view(cell, [], BufferType((1,), FP32)), [zero])


def _store(self: Raiser, op: PtoOp) -> None:
    found, target = tile(self, op, "src"), slice_of(self, op, "dst")
    region = region_of(self, found)
    value = read(self, found, region)
    dtype = d.shaped_type(target.buffer).dtype
    value = converted(self, scaled(self, op, value, region[1]), dtype) if found.spec.loc == "acc" else same_bits(self, value, dtype)
    write_slice(self, target, value, op.enum("atomicType") == "atomic_add")


def _move(self: Raiser, op: PtoOp) -> None:
    source, target = tile(self, op, "src"), tile(self, op, "dst")
    if op.enum("accToVecMode").startswith("dual"):
        raise NotRaisable("moves to both sub-cores")
    region = region_of(self, source)
    value = read(self, source, region)
    value = scaled(self, op, value, region[1]) if source.spec.loc == "acc" else same_bits(self, value, target.dtype)
    write(self, target, converted(self, value, target.dtype))


def _extract(self: Raiser, op: PtoOp) -> None:
    source, target = tile(self, op, "src"), tile(self, op, "dst")
    rows, cols = region_of(self, target)
    row, col = self.number(op.operand("row")), self.number(op.operand("col"))
    if not isinstance(rows, int) or not isinstance(cols, int):
        raise NotRaisable("a part of a tile whose size only the run knows")
    whole = all_cells(self, source)
    write(self, target, converted(self, scaled(self, op, self.cut(whole, row, col, (rows, cols)), cols), target.dtype))


def _insert(self: Raiser, op: PtoOp) -> None:
    source, target = tile(self, op, "src"), tile(self, op, "dst")
    row, col = self.number(op.operand("row")), self.number(op.operand("col"))
    needs_all_cells(target)
    region = region_of(self, source)
    value = converted(self, scaled(self, op, read(self, source, region), region[1]), target.dtype)
    write(self, target, value, row, col)


def _transpose(self: Raiser, op: PtoOp) -> None:
    source = tile(self, op, "src")
    write(self, tile(self, op, "dst"), self.turned(read(self, source, region_of(self, source))))


def _concat(self: Raiser, op: PtoOp) -> None:
    left, right, target = (tile(self, op, name) for name in ("a", "b", "d"))
    rows = self.least(region_of(self, left)[0], region_of(self, right)[0])
    cols = region_of(self, left)[1]
    parts = [read(self, side, (rows, region_of(self, side)[1])) for side in (left, right)]
    if all(d.shaped_type(part).valid == d.shaped_type(part).shape for part in parts):
        write(self, target, self.apply("concat", src0=parts[0], src1=parts[1]))
    else:
        if isinstance(target, Cell):
            raise Demoted(target.key)
        write(self, target, parts[0])
        write(self, target, parts[1], 0, cols)


def _pack(self: Raiser, op: PtoOp) -> None:
    source, target = tile(self, op, "src"), tile(self, op, "dst")
    value = read(self, source, region_of(self, source))
    wide, narrow = (_unsigned(dtype) for dtype in (source.dtype, target.dtype))
    write(self, target, same_bits(self, self.apply("cast", input=same_bits(self, value, wide), target_type=narrow, mode="trunc"), target.dtype))


def _unsigned(dtype: DType) -> DType:
    from tilejit.dtypes import DTYPES

    return DTYPES[f"UINT{dtype.bits}"]


def _fill_pad(self: Raiser, op: PtoOp) -> None:
    """The source where it is valid, the pad value of the destination over the rest of its memory."""
    source, target = tile(self, op, "src"), tile(self, op, "dst")
    region = region_of(self, source)
    value = read(self, source, region)
    pad = pad_scalar(self, target.spec, target.dtype)
    if isinstance(target, Cell):
        rows, cols = region
        if not isinstance(rows, int) or not isinstance(cols, int) or rows > target.shape[0] or cols > target.shape[1]:
            raise Demoted(target.key)
        if region != target.shape:
            base = filled(self, target.shape, target.dtype, pad)
            zero = self.build.const(0)
            value = self.apply("assemble", target=base, source=value, offset=[zero, zero])
        write(self, target, value)
        return
    if region != target.spec.shape:
        write(self, target, filled(self, target.spec.shape, target.dtype, pad))
    write(self, target, value)


OPS = {
    "tload": _load, "tprefetch": _load, "tstore": _store, "tstore_fp": _store, "tmov": _move, "tmov.fp": _move, "textract": _extract,
    "textract_fp": _extract, "tinsert": _insert, "tinsert_fp": _insert, "ttrans": _transpose, "tconcat": _concat, "tpack": _pack,
    "tfillpad": _fill_pad, "tfillpad_expand": _fill_pad, "tfillpad_inplace": _fill_pad, "tget_scale_addr": lambda self, op: None,
}  # fmt: skip
