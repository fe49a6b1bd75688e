"""Rules of gathers, scatters and sorts."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from tilejit.backends.pto.emit_blocks import BlockWriter, Tile
from tilejit.backends.pto.emit_memory import Region
from tilejit.backends.pto.emit_move import counting, whole_tile
from tilejit.backends.pto.emit_scalars import extent_of
from tilejit.backends.pto.emit_text import element_name, hint_of, op_name, scalar_name
from tilejit.backends.pto.emit_vector import Rule, cast_tile, working_dtype
from tilejit.dtypes import INT32, DType
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, operand
from tilejit.tile_ir.pto.elements import ELEMENTS
from tilejit.tile_ir.pto.specs import TileSpec


def _row_starts(w: BlockWriter, tile: Tile, dtype: DType, width: int) -> Tile:
    """One number per row: where the row begins in a tile of `width` columns."""
    rows = tile.spec.rows
    line = counting(w, rows, rows, dtype)
    w.dest("tmuls", [line, (w.constant(width, dtype), scalar_name(dtype))], line)
    if rows == 1:
        return line
    known = tile.spec.valid[0]
    spec = TileSpec("vec", ELEMENTS[element_name(dtype)], line.spec.cols, 1, (known, 1) if known is not None else (rows, 1), "col_major")
    made = Tile(w.name("starts"), spec, (tile.valid[0], 1))
    w.line(f"{made.name} = pto.treshape {line.name} : {line.type} -> {made.type}")
    return made


def _flat_index(w: BlockWriter, index: Tile, axis: int, width: int, dtype: DType) -> Tile:
    """Where an element of an index along one dim is in a tile of `width` columns."""
    if axis == 1:
        if index.spec.rows == 1:
            return index
        name = "trowexpandadd" if index.spec.blayout == "row_major" else "tadd"
        return w.dest(name, [index, _row_starts(w, index, dtype, width)], w.like(index))
    scaled = w.dest("tmuls", [index, (w.constant(width, dtype), scalar_name(dtype))], w.like(index))
    columns = counting(w, index.spec.cols, index.valid[1], dtype)
    if index.spec.blayout == "col_major":
        return scaled
    return w.dest("tcolexpandadd" if scaled.spec.rows > 1 else "tadd", [scaled, columns], w.like(index))


def gather(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """By index along a dim, by flat index, or by a pattern of columns."""
    args = apply_args(op)
    source_name = "src" if op.op in ("gather_flat", "gather_mask") else "input"
    value = operand(op, source_name)
    source, dtype = whole_tile(w, value, op), d.shaped_type(value).dtype
    if args.get("mask_pattern") is not None:
        return _by_pattern(w, op, source, region)
    if args.get("kvalue") is not None or len(d.shaped_type(value).shape) > 2:
        raise w.refuse(op, op_name(op))
    index_value = operand(op, "indices" if op.op == "gather_flat" else "index")
    index = cast_tile(w, whole_tile(w, index_value, op), INT32)
    if op.op == "gather_flat":
        width = d.shaped_type(value).shape[-1]
        if source.spec.rows > 1 and width != source.spec.cols:
            raise w.refuse(op, f"{op_name(op)} of rows that are no multiple of 32 bytes")
    else:
        dim = args["dim"]
        assert isinstance(dim, int)
        index = _flat_index(w, index, dim % 2, source.spec.cols, INT32)
    return w.dest("tgather", [source, index, w.like(index)], w.result(op, region, dtype))


_PATTERNS = {1: "P0101", 2: "P1010", 3: "P0001", 4: "P0010", 5: "P0100", 6: "P1000", 7: "P1111"}


def _by_pattern(w: BlockWriter, op: d.ApplyOp, source: Tile, region: Region) -> Tile:
    pattern = apply_args(op)["mask_pattern"]
    assert isinstance(pattern, int)
    if d.shaped_type(op.results[0]).dtype is not source.spec.element.dtype:
        raise w.refuse(op, f"{op_name(op)} that reads bits as another type")
    return w.dest("tgather", [source], w.result(op, region), f", {{maskPattern = #pto.mask_pattern<{_PATTERNS[int(pattern)]}>}}")


def scatter(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """A copy of the target with elements put where an index says."""
    args = apply_args(op)
    if args.get("mask_pattern") is not None:
        raise w.refuse(op, f"{op_name(op)} by a pattern")
    target_value = operand(op, "dst" if op.op == "scatter_flat" else "input")
    target = whole_tile(w, target_value, op)
    source, index = whole_tile(w, operand(op, "src"), op), whole_tile(w, operand(op, "indexes" if op.op == "scatter_flat" else "index"), op)
    dtype = index.spec.element.dtype
    assert dtype is not None
    if op.op == "scatter":
        index = _flat_index(w, index, 1, target.spec.cols, dtype)
    elif target.spec.rows > 1 and d.shaped_type(target_value).shape[-1] != target.spec.cols:
        raise w.refuse(op, f"{op_name(op)} into rows that are no multiple of 32 bytes")
    out = w.dest("tmov", [target], w.like(target, hint=hint_of(op.results[0])))
    return w.dest("tscatter", [source, index], out)


def sort32(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    source, index = whole_tile(w, operand(op, "src"), op), whole_tile(w, operand(op, "idx"), op)
    return w.dest("tsort32", [source, index], w.result(op, region))


def mrgsort(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    args = apply_args(op)
    if region.rows.size > 1:
        raise w.refuse(op, f"{op_name(op)} of more than one row")
    sources = [whole_tile(w, value, op) for name in ("src0", "src1", "src2", "src3") if isinstance(value := args.get(name), SSAValue)]
    out = w.result(op, region)
    if isinstance(length := args.get("block_len"), SSAValue):
        return w.dest("tmrgsort", [sources[0], (w.ssa(extent_of(w, length, op)), "index")], out)
    if bool(args.get("exhausted")):
        raise w.refuse(op, f"{op_name(op)} that stops when one list ends")
    return w.dest("tmrgsort", [*sources, w.like(out)], out, " {exhausted = false}")


def part(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """part_add and its kin: where only one operand is valid, its element."""
    dtype = working_dtype(w, d.shaped_type(op.results[0]).dtype, op)
    tiles = [cast_tile(w, whole_tile(w, operand(op, name), op), dtype) for name in ("lhs", "rhs")]
    return cast_tile(w, w.dest(f"t{op.op.replace('_', '')}", tiles, w.result(op, region, dtype)), d.shaped_type(op.results[0]).dtype)


RULES: dict[str, Rule] = {
    "gather": gather, "gather_flat": gather, "gather_mask": gather, "scatter": scatter, "scatter_flat": scatter, "sort32": sort32, "mrgsort": mrgsort,
    **{f"part_{name}": part for name in ("add", "mul", "max", "min")},
}  # fmt: skip

MANY: dict[str, Callable[[BlockWriter, d.ApplyOp], list[Tile]]] = {}
"""Ops of several results."""
