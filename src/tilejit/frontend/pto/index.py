"""Raising of ops that pick, sort, generate or quantise elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from tilejit.dtypes import FP16, FP32, INT16, INT32, UINT16, UINT32, DType
from tilejit.frontend.pto.handles import Cell, Memory, NotRaisable, Num, Region, known_region
from tilejit.frontend.pto.moves import narrowed, repeated
from tilejit.frontend.pto.scalars import dtype_of
from tilejit.frontend.pto.tiles import Tile, all_cells, content, filled, needs_all_cells, read, region_of, same_bits, tile, write
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.pto.meaning import mask_pattern
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.spec import QUANT_BLOCK

if TYPE_CHECKING:
    from tilejit.frontend.pto.raiser import Raiser



def static_region(self: Raiser, found: Tile) -> tuple[int, int]:
    rows, cols = region_of(self, found)
    if not isinstance(rows, int) or not isinstance(cols, int):
        raise NotRaisable("elements picked from a region that only the run knows")
    return rows, cols


def _index(self: Raiser, value: SSAValue, data: DType, narrow: bool) -> SSAValue:
    """Indices as the table wants them: INT32, or INT16 for small elements."""
    dtype = d.shaped_type(value).dtype
    value = same_bits(self, value, {32: INT32, 16: INT16}[dtype.bits])
    wanted = INT16 if narrow and data.bits < 32 else INT32
    return value if d.shaped_type(value).dtype is wanted else self.apply("cast", input=value, target_type=wanted, mode="trunc")


def _gather(self: Raiser, op: PtoOp) -> None:
    source, target = tile(self, op, "src"), tile(self, op, "d")
    if "maskPattern" in op.attributes:
        picked = self.apply("gather_mask", src=read(self, source, static_region(self, source)), mask_pattern=mask_pattern(op.enum("maskPattern")))
        _fill_in_order(self, target, picked)
    elif op.operand("cnt") is not None:
        _gather_matches(self, op, source, target)
    else:
        index = read(self, tile(self, op, "idx"), region_of(self, target), target.spec.shape)
        write(self, target, self.apply("gather_flat", src=all_cells(self, source), indices=_index(self, index, source.dtype, False)))


def _fill_in_order(self: Raiser, target: Tile, values: SSAValue) -> None:
    """Values into the valid cells, row after row."""
    rows, cols = static_region(self, target)
    shape = d.shaped_type(values).shape
    assert isinstance(shape[0], int) and isinstance(shape[1], int)
    count = shape[0] * shape[1]
    if count > rows * cols:
        raise NotRaisable("more elements than the destination holds")
    flat = self.reshaped(values, (1, count))
    if count < rows * cols:
        old = self.reshaped(read(self, target, (rows, cols)), (1, rows * cols))
        zero = self.build.const(0)
        flat = self.apply("assemble", target=old, source=flat, offset=[zero, zero])
    write(self, target, self.reshaped(flat, (rows, cols)))


def _gather_matches(self: Raiser, op: PtoOp, source: Tile, target: Tile) -> None:
    """The columns of every row that compare with a value, and how many there are; the columns after them keep what they hold."""
    other, counts = self.held(op.operand("idx")), tile(self, op, "cnt")
    (rows, cols), (_, out_cols) = static_region(self, source), static_region(self, target)
    if not isinstance(other, SSAValue) or out_cols < cols or static_region(self, target)[0] != rows:
        raise NotRaisable("matches with a value per row")
    found, number = self.applied(
        "gather_compare", src=read(self, source, (rows, cols)), kvalue=other, cmp_mode=op.enum("cmpMode", "eq"), offset=op.integer("offset"),
        out_cols=out_cols, count_dtype=INT32,
    )  # fmt: skip
    column = self.reshaped(number, (rows, 1))
    places = self.apply("ci", start=self.build.const(0, INT32), shape=[self.build.const(1), self.build.const(out_cols)], dtype=INT32)
    zeros = filled(self, (rows, out_cols), INT32, self.build.const(0, INT32))
    grid = self.apply("col_expand_add", lhs=zeros, rhs=places)
    limit = self.apply("row_expand_add", lhs=zeros, rhs=column)
    inside = self.apply("cmp_mask", lhs=grid, rhs=limit, cmp_type=2)
    old = same_bits(self, read(self, target, (rows, out_cols)), INT32)
    write(self, target, same_bits(self, self.apply("sel", mask=inside, lhs=found, rhs=old), target.dtype))
    write(self, counts, same_bits(self, column, counts.dtype))


def _gather_blocks(self: Raiser, op: PtoOp) -> None:
    source, target = tile(self, op, "src"), tile(self, op, "d")
    rows, cols = static_region(self, target)
    blocks = -(-cols // (32 // target.dtype.get_byte()))
    offsets = same_bits(self, read(self, tile(self, op, "idx"), (rows, blocks)), UINT32)
    write(self, target, self.cut(self.apply("gatherb", src=all_cells(self, source), offset=offsets), 0, 0, (rows, cols)))


def _scatter(self: Raiser, op: PtoOp) -> None:
    source, target = tile(self, op, "src"), tile(self, op, "d")
    region = region_of(self, source)
    index = _index(self, read(self, tile(self, op, "idx"), region, source.spec.shape), source.dtype, True)
    write(self, target, self.apply("scatter_flat", dst=all_cells(self, target), src=read(self, source, region), indexes=index))


# sort: 16-bit values travel as 32-bit ones; records have 8 bytes ------------------------------------------------------------


def _sort(self: Raiser, op: PtoOp) -> None:
    source, target = tile(self, op, "src"), tile(self, op, "d")
    region = static_region(self, source)
    values, index = read(self, source, region), same_bits(self, read(self, tile(self, op, "idx"), region), UINT32)
    wide = values if source.dtype is FP32 else self.apply("cast", input=values, target_type=FP32, mode="rint")
    write(self, target, _fitting(self, _as_records(self, self.apply("sort32", src=wide, idx=index), target.dtype), target))


def _fitting(self: Raiser, records: SSAValue, target: Tile) -> SSAValue:
    """The first records of every row, as many as the tile holds."""
    rows, width = (int(size) for size in d.shaped_type(records).shape)
    return self.cut(records, 0, 0, (rows, min(width, target.spec.cols)))


def _merge(self: Raiser, op: PtoOp) -> None:
    target = tile(self, op, "d")
    names = op.groups["srcs"]
    sources = [self.held(value) for value in names]
    if op.flag("exhausted") or not all(isinstance(item, Cell | Memory) for item in sources):
        raise NotRaisable("merges that end with the first list")
    length = op.operand("blockLen")
    lists = [item for item in (sources if length is not None else sources[:-1]) if isinstance(item, Cell | Memory)]
    rows = [_as_pairs(self, read(self, item, (1, static_region(self, item)[1]))) for item in lists]
    if length is not None:
        known = self.number(length)
        if not isinstance(known, int):
            raise NotRaisable("a block length that only the run knows")
        merged = self.apply("mrgsort", src0=rows[0], block_len=self.build.const(known * target.dtype.get_byte() // 4))
    else:
        total = sum(columns for row in rows if isinstance(columns := d.shaped_type(row).shape[1], int))
        scratch = filled(self, (1, total), FP32, self.build.const(0.0, FP32))
        merged = self.apply("mrgsort", **{f"src{i}": row for i, row in enumerate(rows)}, tmp=scratch)
    write(self, target, _fitting(self, _as_records(self, merged, target.dtype), target))


def _as_records(self: Raiser, pairs: SSAValue, dtype: DType) -> SSAValue:
    """Pairs of a 32-bit float and an index as records of the sorted type: half values are followed by two empty bytes."""
    if dtype is FP32:
        return pairs
    rows, cols = (int(n) for n in d.shaped_type(pairs).shape)
    values = self.apply("cast", input=self.apply("gather_mask", src=pairs, mask_pattern=1), target_type=FP16, mode="rint")
    low = self.apply("cast", input=same_bits(self, values, UINT16), target_type=UINT32, mode="trunc")
    words = self.apply("scatter_mask", dst=same_bits(self, pairs, UINT32), src=low, mask_pattern=1)
    return self.apply("reinterpret_view", data=words, dtype=FP16, shape=[self.build.const(rows), self.build.const(2 * cols)])


def _as_pairs(self: Raiser, records: SSAValue) -> SSAValue:
    if d.shaped_type(records).dtype is FP32:
        return records
    rows, cols = (int(n) for n in d.shaped_type(records).shape)
    words = self.apply("reinterpret_view", data=records, dtype=UINT32, shape=[self.build.const(rows), self.build.const(cols // 2)])
    low = self.apply("cast", input=self.apply("gather_mask", src=words, mask_pattern=1), target_type=UINT16, mode="trunc")
    values = self.apply("cast", input=same_bits(self, low, FP16), target_type=FP32, mode="rint")
    return self.apply("scatter_mask", dst=same_bits(self, words, FP32), src=values, mask_pattern=1)


# generators ------------------------------------------------------------------------------------------------------------------


def _count(self: Raiser, op: PtoOp) -> None:
    target = tile(self, op, "d")
    dtype = INT16 if target.dtype.bits == 16 else INT32
    shape = [self.build.const(1), self.build.const(target.spec.cols)]
    row = self.apply("ci", start=self.scalar(op.operand("s")), shape=shape, dtype=dtype, descending=op.flag("descending"))
    write(self, target, same_bits(self, narrowed(self, row, (1, region_of(self, target)[1])), target.dtype))


def _triangle(self: Raiser, op: PtoOp) -> None:
    target = tile(self, op, "d")
    shape = [self.build.const(size) for size in target.spec.shape]
    diagonal, upper = self.ssa(self.number(op.operand("s"))), bool(op.integer("upperOrLower"))
    whole = self.apply("tri", diagonal=diagonal, shape=shape, dtype=target.dtype, upper=upper)
    write(self, target, narrowed(self, whole, region_of(self, target)))


def _random(self: Raiser, op: PtoOp) -> None:
    target = tile(self, op, "d")
    shape = [self.build.const(size) for size in static_region(self, target)]
    seeds = {name: self.scalar(op.operand(f"{name[0]}{name[-1]}")) for name in ("key0", "key1", "counter0", "counter1", "counter2", "counter3")}
    write(self, target, self.apply("random", **seeds, shape=shape, dtype=target.dtype, rounds=op.integer("rounds", 10)))


# single elements --------------------------------------------------------------------------------------------------------------


def _place(self: Raiser, found: Tile, offset: Num) -> list[SSAValue]:
    """Row and column of an element counted in row-major order."""
    cols = found.spec.cols
    needs_all_cells(found)
    if isinstance(offset, int):
        if not 0 <= offset < found.spec.rows * cols:
            raise NotRaisable("an element outside its tile")
        return [self.build.const(offset // cols), self.build.const(offset % cols)]
    row = self.apply("floordiv", "scalar", lhs=offset, rhs=self.build.const(cols))
    return [row, self.apply("sub", "scalar", lhs=offset, rhs=self.ssa(self.times(row, cols)))]


def _set(self: Raiser, op: PtoOp) -> None:
    target = tile(self, op, "d")
    value = self.cast(self.scalar(op.operand("value")), target.dtype)
    place = _place(self, target, self.number(op.operand("offset")))
    if isinstance(target, Cell):
        write(self, target, self.apply("write", dst=content(self, target), offset=place, value=value))
    elif target.layout == "boxed":
        raise NotRaisable("single elements of tiles in boxes")
    else:
        self.build.write(target.buffer, place[::-1] if target.layout == "col" else place, value)


def _get(self: Raiser, op: PtoOp) -> None:
    source = tile(self, op, "src")
    place = _place(self, source, self.number(op.operand("offset")))
    if isinstance(source, Cell):
        found = self.build.read(content(self, source), place)
    elif source.layout == "boxed":
        raise NotRaisable("single elements of tiles in boxes")
    else:
        found = self.build.read(source.buffer, place[::-1] if source.layout == "col" else place)
    self.values[op.results[0]] = self.cast(found, dtype_of(op.results[0].type))


# quantisation ------------------------------------------------------------------------------------------------------------------


def _single(self: Raiser, value: SSAValue) -> SSAValue:
    return value if d.shaped_type(value).dtype is FP32 else self.apply("cast", input=value, target_type=FP32, mode="rint")


def _row_parameters(self: Raiser, found: Tile, region: Region, shape: tuple[int, int]) -> SSAValue:
    """One parameter per row: column 0."""
    return _single(self, read(self, found, (region[0], 1), (shape[0], 1)))


def _block_parameters(self: Raiser, found: Tile, region: Region, shape: tuple[int, int]) -> SSAValue:
    """Eight parameters per row, in the order of the storage, repeated along the row."""
    rows, cols = known_region(region) or shape
    stored = all_cells(self, found)
    if found.spec.blayout == "col_major":
        stored = self.turned(stored)
    size, wide = found.spec.rows * found.spec.cols, min(cols, QUANT_BLOCK)
    if (rows - 1) * QUANT_BLOCK + wide > size:
        raise NotRaisable("more parameters than the tile holds")
    line = self.reshaped(stored, (1, size))
    if size < rows * QUANT_BLOCK:
        zero = self.build.const(0)
        longer = filled(self, (1, rows * QUANT_BLOCK), found.dtype, self.build.const(0, found.dtype))
        line = self.apply("assemble", target=longer, source=line, offset=[zero, zero])
    blocks = self.cut(self.reshaped(self.cut(line, 0, 0, (1, rows * QUANT_BLOCK)), (rows, QUANT_BLOCK)), 0, 0, (rows, wide))
    return narrowed(self, blocks if wide == cols else repeated(self, blocks, cols), region)


def _quantise(self: Raiser, op: PtoOp) -> None:
    target = tile(self, op, "d")
    region, shape = region_of(self, target), target.spec.shape
    scale = _block_parameters(self, tile(self, op, "fp"), region, shape)
    value = self.apply("mul", lhs=read(self, tile(self, op, "src"), region, shape), rhs=scale)
    if op.operand("offset") is not None:
        value = self.apply("add", lhs=value, rhs=_block_parameters(self, tile(self, op, "offset"), region, shape))
    write(self, target, self.apply("cast", input=value, target_type=target.dtype, mode="rint"))


def _dequantise(self: Raiser, op: PtoOp) -> None:
    target = tile(self, op, "d")
    region, shape = region_of(self, target), target.spec.shape
    scale, offset = (_row_parameters(self, tile(self, op, name), region, shape) for name in ("scale", "offset"))
    value = self.apply("row_expand_sub", lhs=_single(self, read(self, tile(self, op, "src"), region, shape)), rhs=offset)
    write(self, target, self.apply("row_expand_mul", lhs=value, rhs=scale))


OPS = {
    "tgather": _gather, "tgatherb": _gather_blocks, "tscatter": _scatter, "tsort32": _sort, "tmrgsort": _merge, "tci": _count, "ttri": _triangle,
    "trandom": _random, "tsetval": _set, "tgetval": _get, "tquant": _quantise, "tdequant": _dequantise,
}  # fmt: skip
