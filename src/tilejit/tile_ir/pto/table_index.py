"""Rows of the table: gather, scatter, sort, generators, single elements, quantisation."""

from __future__ import annotations

from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.rules import VECTOR, constant, dims, elements, integer_like, located, of_tiles, same_dtype, same_valid, scalar_like, unboxed
from tilejit.tile_ir.pto.spec import A5, Custom, Row
from tilejit.tile_ir.pto.specs import TileSpec


def _gather(op: PtoOp, arch: str) -> str | None:
    """One of three forms: by index, by mask, by comparison."""
    mask, index, count = "maskPattern" in op.attributes, op.operand("idx"), op.operand("cnt")
    if mask:
        return "the mask form takes one source" if index is not None or count is not None else same_dtype("src", "d")(op, arch)
    if index is None:
        return "it needs indices, or a maskPattern, or a value to compare with"
    if count is not None:
        return _gather_compare(op, arch)
    spec = op.tile("idx")
    if spec is None or spec.element.plain not in ("i32", "i16"):
        return f"the indices must be an i32 tile, got {index.type}"
    return same_dtype("src", "d")(op, arch)


def _gather_compare(op: PtoOp, arch: str) -> str | None:
    """Columns and counts are numbers of 32 bits; what is compared has the type of the source."""
    value = "idx" if op.tile("idx") is None else None
    rules = (
        elements("src", VECTOR), elements("d", ("i32",)), elements("cnt", ("i32",)),
        scalar_like(value, "src") if value is not None else same_dtype("src", "idx"), located("vec", "cnt"),
    )  # fmt: skip
    return next((complaint for rule in rules if (complaint := rule(op, arch)) is not None), None)


@of_tiles("src", "idx")
def _scatter(op: PtoOp, arch: str, source: TileSpec, index: TileSpec) -> str | None:
    wanted = "i32" if source.element.bytes == 4 else "i16"
    return None if index.element.plain == wanted else f"indices of {source.element} elements must be {wanted}, got {index.element}"


@of_tiles("src", "d", "idx")
def _sort32(op: PtoOp, arch: str, source: TileSpec, out: TileSpec, index: TileSpec) -> str | None:
    if index.element.name not in ("ui32", "i32"):
        return f"the indices must be ui32, got {index.element}"
    record = 2 if source.element.bytes == 4 else 4
    if out.cols % record:
        return f"`d` holds records of {record} columns, got {out.cols}"
    return f"`src` needs a multiple of 32 columns, got {source.cols}" if source.cols % 32 else None


def _merge(op: PtoOp, arch: str) -> str | None:
    sources, length = op.groups["srcs"], op.operand("blockLen")
    if length is not None:
        size = constant(length)
        if len(sources) != 1:
            return f"the form with a block length takes one source, got {len(sources)}"
        return f"the block length must be a positive multiple of 64, got {size}" if size is not None and (size <= 0 or size % 64) else None
    if not 3 <= len(sources) <= 5:
        return f"it merges 2 to 4 lists and takes a scratch tile after them, got {len(sources)} tiles"
    return None


def _one_row(op: PtoOp, arch: str) -> str | None:
    spec = op.tile("d")
    return None if spec is None or spec.valid[0] in (None, 1) else f"`d` has one row, got {dims(spec.valid)}"


def _rounds(op: PtoOp, arch: str) -> str | None:
    return None if op.integer("rounds", 10) in (7, 10) else f"rounds is 7 or 10, got {op.integer('rounds')}"


def _triangle(op: PtoOp, arch: str) -> str | None:
    return None if op.integer("upperOrLower") in (0, 1) else f"upperOrLower is 0 or 1, got {op.integer('upperOrLower')}"


def _element_result(op: PtoOp, arch: str) -> str | None:
    spec = op.tile("src")
    if spec is not None and str(op.results[0].type) not in (spec.element.name, spec.element.plain):
        return f"the result must be {spec.element}, as the tile; got {op.results[0].type}"
    return None


def _quant(op: PtoOp, arch: str) -> str | None:
    kind, out, offset = op.enum("quant_type", "INT8_SYM"), op.tile("d"), op.operand("offset")
    if kind == "INT8_SYM" and offset is not None:
        return "INT8_SYM takes no offset"
    if kind == "INT8_ASYM" and offset is None:
        return "INT8_ASYM needs an offset"
    wanted = "i8" if kind == "INT8_SYM" else "ui8"
    return None if out is None or out.element.name == wanted else f"{kind} gives {wanted}, got {out.element}"


TABLE: tuple[Row, ...] = (
    Row("tgather", "index", "ins(src, idx:any?, tmp? {maskPattern}) outs(d, cnt?)", "d[i] = src.flat[idx[i]]; or the columns a mask selects; or where src compares with a value", Custom(),
        (located("vec", "src", "d"), _gather), {"maskPattern": "mask_pattern", "cmpMode": "cmp", "offset": "int"}),
    Row("tgatherb", "index", "ins(src, idx) outs(d)", "blocks of 32 bytes at byte offsets", Custom(), (located("vec", "src", "idx", "d"), same_dtype("src", "d"), elements("idx", ("i32",)))),
    Row("tscatter", "index", "ins(src, idx) outs(d)", "d.flat[idx[i]] = src[i]", Custom(), (located("vec", "src", "idx", "d"), same_dtype("src", "d"), same_valid("src", "idx"), _scatter)),
    Row("tsort32", "sort", "ins(src, idx, tmp?) outs(d)", "blocks of 32 columns sorted descending into records of value and index, as many as d holds", Custom(), (located("vec", "src", "idx", "d"), same_dtype("src", "d"), elements("src", ("f16", "f32")), _sort32)),
    Row("tmrgsort", "sort", "ins(srcs*, blockLen:index? {exhausted}) outs(d, counts:any?)", "sorted lists of records merged", Custom(), (located("vec", "d"), elements("d", ("f16", "f32")), _one_row, _merge), {"exhausted": "bool"}),
    Row("tci", "generate", "ins(s:scalar, tmp? {descending}) outs(d)", "row 0 counts up (or down) from s", Custom(), (located("vec", "d"), elements("d", ("i16", "i32")), scalar_like("s", "d"), _one_row), {"descending": "bool"}),
    Row("ttri", "generate", "ins(s:scalar {upperOrLower}) outs(d)", "0: 1 where c <= r + s; 1: 1 where c >= r + s; 0 elsewhere", Custom(), (located("vec", "d"), integer_like("s"), _triangle), {"upperOrLower": "int"}),
    Row("trandom", "generate", "ins(k0:scalar, k1:scalar, c0:scalar, c1:scalar, c2:scalar, c3:scalar {rounds}) outs(d)", "a counter-based generator of random bits", Custom(), (located("vec", "d"), elements("d", ("i32",)), _rounds), {"rounds": "int"}, arch=A5),
    Row("thistogram", "index", "ins(src, idx) outs(d)", "cumulative counts of 256 bins per row", Custom(), (located("vec", "src", "idx", "d"), elements("d", ("i32",))), {"isMSB": "bool"}, arch=A5),
    Row("tsetval", "element", "ins(offset:index, value:scalar) outs(d)", "d.flat[offset] = value", Custom(), (integer_like("offset"), scalar_like("value", "d"))),
    Row("tgetval", "element", "ins ( %src:tile , %offset : type(src) , type(offset) ) outs : type(result)", "src.flat[offset]", Custom(), (located("vec", "src"), integer_like("offset"), _element_result), result="type"),
    Row("tquant", "quantise", "ins(src, fp, offset?) outs(d)", "src * scale (+ offset), rounded to the nearest even and clamped", Custom(), (located("vec", "src", "fp", "offset", "d"), elements("src", ("f32",)), elements("fp", ("f32",)), elements("offset", ("f32",)), same_valid("src", "d"), unboxed("fp", "offset"), _quant), {"quant_type": "quant_type"}),
    Row("tdequant", "quantise", "ins(src, scale, offset) outs(d)", "(src - offset) * scale", Custom(), (located("vec", "src", "scale", "offset", "d"), elements("src", ("i8", "i16")), elements("scale", ("f32",)), elements("offset", ("f32",)), elements("d", ("f32",)), same_valid("src", "d"))),
)  # fmt: skip
