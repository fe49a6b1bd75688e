"""Rules of comparison and selection: masks are packed bits, one for each element, rows of whole 32 bytes.

Where the machine lays masks out without gaps, the masks that a kernel sees come from tiles as wide as their rows, and all others from
tiles of the width of the tiles they choose from.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from tilejit.backends.pto.write.blocks import BlockWriter, Tile
from tilejit.backends.pto.write.memory import Region
from tilejit.backends.pto.write.scalars import scalar_as
from tilejit.backends.pto.write.text import op_name, scalar_name
from tilejit.backends.pto.write.vector import cast_tile, finished, full, is_array, line_axis, pulled, side, spread_line, unary, working_dtype
from tilejit.dtypes import BOOL, FP32, INT8, INT16, INT32, UINT8, UINT16, DType
from tilejit.ops.gather import CMP_MODES
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, operand
from tilejit.tile_ir.pto.elements import ELEMENTS
from tilejit.tile_ir.pto.spec import dense_masks
from tilejit.tile_ir.pto.specs import TileSpec

_FALSE = {"eq": (0, 1), "ne": (0, 0), "lt": (0, 0), "le": (1, 0), "gt": (0, 0), "ge": (0, 1)}
"""Two numbers of which a comparison is false."""


def compared(w: BlockWriter, tile: Tile, other: Tile | tuple[str, str], mode: str, mask: Tile | None = None) -> Tile:
    """A packed mask: one bit per element, rows of whole 32 bytes; of a column as if it were a row."""
    if mask is None:
        tile, other = _as_row(w, tile), _as_row(w, other) if isinstance(other, Tile) else other
        if dense_masks(w.arch):
            tile, other = _whole(w, tile), _whole(w, other) if isinstance(other, Tile) else other
    columns = -(-tile.spec.cols // 256) * 32
    mask = mask or w.tile(tile.spec.rows, columns, (tile.spec.rows, columns), UINT8, hint="mask")
    name = "tcmp" if isinstance(other, Tile) else "tcmps"
    return w.dest(name, [tile, other], mask, f" {{cmpMode = #pto<cmp {mode}>}}")


def _as_row(w: BlockWriter, tile: Tile) -> Tile:
    """A column as a row: the same bytes in the same order."""
    if tile.spec.blayout != "col_major":
        return tile
    spec = TileSpec("vec", tile.spec.element, 1, tile.spec.rows, (1, tile.spec.rows))
    return w.seen_as(tile, spec, (1, tile.spec.rows))


def _reread(w: BlockWriter, tile: Tile, valid: tuple[int, int]) -> Tile:
    """The same bytes with another constant valid region."""
    spec = TileSpec(tile.loc, tile.spec.element, *tile.spec.shape, valid, tile.spec.blayout, tile.spec.slayout, tile.spec.fractal)
    return tile if spec == tile.spec else w.seen_as(tile, spec, valid)


def _whole(w: BlockWriter, tile: Tile) -> Tile:
    """A tile in its whole padded width."""
    return _reread(w, tile, tile.spec.shape)


def _widened(w: BlockWriter, op: d.ApplyOp, tile: Tile | tuple[str, str], beside: Tile, filler: int) -> Tile:
    """A tile or number in a tile as wide as the rows of a mask, `filler` in the columns that `beside` does not have."""
    spec = beside.spec
    if spec.blayout == "col_major":
        raise w.refuse(op, f"{op_name(op)} of a column by a mask of its own")
    element = tile.spec.element if isinstance(tile, Tile) else spec.element
    shape = (spec.rows, -(-spec.cols // 256) * 256)
    dtype = element.dtype
    assert dtype is not None
    wide = w.dest("texpands", [(w.constant(filler, dtype), scalar_name(dtype))], w.alloc(TileSpec("vec", element, *shape, shape), shape, "wide"))
    inner = tile if isinstance(tile, Tile) else w.dest("texpands", [tile], w.like(beside))
    return w.dest("tinsert", [inner, *[(w.ssa(0), "index")] * 2], wide)


def compared_in_rows(w: BlockWriter, op: d.ApplyOp, tile: Tile, other: Tile | tuple[str, str], mode: str, mask: Tile) -> Tile:
    """A mask whose rows begin at the rows of its tile, on every machine."""
    if dense_masks(w.arch):
        tile, other = (_widened(w, op, side, tile, filler) for side, filler in zip((tile, other), _FALSE[mode]))
    return compared(w, tile, other, mode, mask)


def selected_in_rows(w: BlockWriter, op: d.ApplyOp, mask: Tile, yes: Tile, no: Tile | tuple[str, str], out: Tile) -> Tile:
    """bit ? yes : no by such a mask."""
    if dense_masks(w.arch):
        sides = [_widened(w, op, side, yes, 0) if isinstance(side, Tile) else side for side in (yes, no)]
        wide = sides[0]
        assert isinstance(wide, Tile)
        w.dest("tsel", [mask, sides[0], sides[1], w.like(wide)], wide) if isinstance(no, Tile) else w.dest("tsels", [mask, wide, w.like(wide), no], wide)
        return w.dest("textract", [wide, *[(w.ssa(0), "index")] * 2], out)
    if isinstance(no, Tile):
        return selected(w, op, mask, yes, no, out)
    return w.dest("tsels", [mask, yes, w.like(out), no], out)


def selected(w: BlockWriter, op: d.ApplyOp, mask: Tile, yes: Tile, no: Tile, out: Tile) -> Tile:
    """bit ? yes : no, by a mask of tiles of the same padded width."""
    if out.spec.blayout == "col_major":
        if mask.spec.rows > 1:
            raise w.refuse(op, f"{op_name(op)} of a column by a mask of its own")
        selected(w, op, mask, _as_row(w, yes), _as_row(w, no), _as_row(w, out))
        return out
    tiles = [_whole(w, tile) for tile in (yes, no, out)]
    w.dest("tsel", [mask, tiles[0], tiles[1], w.like(tiles[2])], tiles[2])
    return out


def _comparable(w: BlockWriter, dtype: DType, op: d.ApplyOp) -> DType:
    dtype = working_dtype(w, dtype, op)
    return INT32 if dtype in (INT16, UINT16, INT8, UINT8) else dtype


def compare(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """0 or 1 in the type of the operands or as flags, or a mask."""
    args = apply_args(op)
    arrays = [value for value in (args["lhs"], args["rhs"]) if is_array(value)]
    assert isinstance(arrays[0], SSAValue)
    kind = op.statics["cmp_type"]
    elements = op.op != "cmp_mask"
    data = region if elements else _data_region(w, arrays[0], region)
    dtype = _comparable(w, d.shaped_type(arrays[0]).dtype, op)
    if not is_array(args["lhs"]):
        kind = (0, 1, 4, 5, 2, 3)[kind]
        args["lhs"], args["rhs"] = args["rhs"], args["lhs"]
    sides = [side(w, value, data, op, dtype) if elements else _maskside(w, value, data, op, dtype) for value in (args["lhs"], args["rhs"])]
    first = sides[0]
    if not isinstance(first, Tile):
        raise w.refuse(op, f"{op_name(op)} of single elements")
    whole = w.result(op, data, dtype) if elements else first
    full = [spread_line(w, side, line, whole) if isinstance(side, Tile) and (line := line_axis(side, whole)) else side for side in sides]
    assert isinstance(full[0], Tile)
    other = full[1] if isinstance(full[1], Tile) else (full[1], scalar_name(dtype))
    if not elements:
        return compared_in_rows(w, op, full[0], other, CMP_MODES[kind], w.result(op, region))
    made = flags(w, compared(w, full[0], other, CMP_MODES[kind]), whole, dtype)
    return finished(w, op, made if op.op == "cmp" else cast_tile(w, made, INT32))


def inverted(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """The other bits of numbers; of flags those that are 0."""
    if d.shaped_type(op.results[0]).dtype is not BOOL:
        return unary(w, op, region)
    source = pulled(w, operand(op, "input"), region, op, INT32)
    return finished(w, op, flags(w, compared(w, source, (w.constant(0, INT32), scalar_name(INT32)), "eq"), w.like(source), INT32))


def _maskside(w: BlockWriter, value: object, region: Region, op: d.ApplyOp, dtype: DType) -> Tile | str:
    assert isinstance(value, SSAValue)
    return cast_tile(w, w.pull(value, region, op), dtype) if is_array(value) else scalar_as(w, value, dtype, op)


def _data_region(w: BlockWriter, value: SSAValue, region: Region) -> Region:
    whole = w.whole(value)
    return Region(region.rows, whole.cols)


def flags(w: BlockWriter, mask: Tile, out: Tile, dtype: DType) -> Tile:
    if out.spec.blayout == "col_major" and mask.spec.rows == 1:
        flags(w, mask, _as_row(w, out), dtype)
        return out
    whole = _whole(w, out)
    ones = w.dest("texpands", [(w.constant(1, dtype), scalar_name(dtype))], w.like(whole))
    w.dest("tsels", [mask, ones, w.like(whole), (w.constant(0, dtype), scalar_name(dtype))], whole)
    return out


def isnan(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """What is not equal to itself."""
    source = pulled(w, operand(op, "input"), region, op, FP32)
    return finished(w, op, flags(w, compared(w, source, source, "ne"), w.like(source), FP32))


def where(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    own = d.shaped_type(op.results[0]).dtype
    args, dtype = apply_args(op), INT32 if own is BOOL else working_dtype(w, own, op)
    condition = operand(op, "condition")
    kind = INT32 if d.shaped_type(condition).dtype is BOOL else _comparable(w, d.shaped_type(condition).dtype, op)
    out = w.result(op, region, dtype)
    flags = pulled(w, condition, region, op, kind)
    flags = spread_line(w, flags, line, w.like(out, kind)) if (line := line_axis(flags, out)) else flags
    mask = compared(w, flags, (w.constant(0, kind), scalar_name(kind)), "ne")
    sides = [full(w, side(w, args[name], region, op, dtype), out, dtype) for name in ("lhs", "rhs")]
    return finished(w, op, selected(w, op, mask, sides[0], sides[1], out))


def _as_bytes(w: BlockWriter, mask: Tile) -> Tile:
    """A mask held in wider words."""
    columns = mask.spec.cols * mask.spec.element.bytes
    spec = TileSpec("vec", ELEMENTS["ui8"], mask.spec.rows, columns, (mask.spec.rows, columns))
    return w.seen_as(mask, spec, (mask.spec.rows, columns), "mask")


def select(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """sel and sels: by a mask that a comparison made."""
    args, dtype = apply_args(op), working_dtype(w, d.shaped_type(op.results[0]).dtype, op)
    mask_value = operand(op, "mask")
    mask = w.pull(mask_value, Region(region.rows, w.whole(mask_value).cols), op)
    if mask.spec.element.bytes != 1:
        mask = _as_bytes(w, mask)
    out = w.result(op, region, dtype)
    if op.op == "sels":
        source = pulled(w, operand(op, "src"), region, op, dtype)
        scalar = (scalar_as(w, operand(op, "scalar"), dtype, op), scalar_name(dtype))
        return finished(w, op, selected_in_rows(w, op, mask, source, scalar, out))
    sides = [full(w, side(w, args[name], region, op, dtype), out, dtype) for name in ("lhs", "rhs")]
    return finished(w, op, selected_in_rows(w, op, mask, sides[0], sides[1], out))
