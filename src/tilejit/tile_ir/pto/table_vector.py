"""Rows of the table: elementwise ops on vector tiles, comparison and selection, reductions and expands, partial ops."""

from __future__ import annotations

import numpy as np

from tilejit.ops import numbers
from tilejit.tile_ir.pto import meaning as m
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.rules import (
    FLOATS,
    INTEGERS,
    VECTOR,
    VECTOR_A5,
    dims,
    elements,
    line_width,
    located,
    maker,
    of_tiles,
    row_vector,
    same_dtype,
    same_shape,
    same_valid,
    same_valid_dim,
    scalar_is,
    scalar_like,
    unboxed_row_major,
    valid_is,
)  # fmt: skip
from tilejit.tile_ir.pto.spec import A2A3, A5, Along, Custom, Fold, Map, Part, Row, Rule, Run, dense_masks
from tilejit.tile_ir.pto.specs import TileSpec

_INTEGERS_A5 = ("i8", *INTEGERS)
_NUMBERS = (VECTOR, VECTOR_A5)
_WHOLE = (INTEGERS, _INTEGERS_A5)
_REAL = (FLOATS, FLOATS)


def _agree(*names: str, holds: tuple[tuple[str, ...], tuple[str, ...]] = _NUMBERS) -> tuple[Rule, ...]:
    """Vector tiles of one element type and one valid region."""
    return (located("vec", *names), same_dtype(*names), same_valid(*names), elements(names[-1], holds[0], holds[1]))


def _binary(name: str, what: str, run: Run, holds: tuple[tuple[str, ...], tuple[str, ...]] = _NUMBERS, tmp: str = "") -> Row:
    return Row(name, "elementwise", f"ins(a, b{tmp}) outs(d)", what, run, _agree("a", "b", "d", holds=holds))


def _scalar(name: str, what: str, run: Run, holds: tuple[tuple[str, ...], tuple[str, ...]] = _NUMBERS, tmp: str = "") -> Row:
    return Row(name, "elementwise scalar", f"ins(a, s:scalar{tmp}) outs(d)", what, run, (*_agree("a", "d", holds=holds), scalar_like("s", "a")))


def _unary(name: str, what: str, run: Run, holds: tuple[tuple[str, ...], tuple[str, ...]] = _NUMBERS, tmp: str = "") -> Row:
    return Row(name, "elementwise unary", f"ins(a{tmp}) outs(d)", what, run, _agree("a", "d", holds=holds))


def _one_tile(op: PtoOp, arch: str) -> str | None:
    """tdivs: the order of tile and scalar decides what is divided by what."""
    tiles = [name for name in ("a", "s") if op.tile(name) is not None]
    if len(tiles) != 1:
        return f"exactly one of its operands is a tile, got {len(tiles)}"
    scalar = op.operand("s" if tiles == ["a"] else "a")
    spec, out = op.tile(tiles[0]), op.tile("d")
    assert spec is not None and scalar is not None
    if str(scalar.type) not in (spec.element.name, spec.element.plain):
        return f"the scalar must be {spec.element}, as the tile; got {scalar.type}"
    if out is not None and out.element != spec.element:
        return f"the tile and `d` need one element type, got {spec.element} and {out.element}"
    return located("vec", tiles[0], "d")(op, arch) or same_valid(tiles[0], "d")(op, arch) or elements(tiles[0], *_NUMBERS)(op, arch)


def _axpy_types(op: PtoOp, arch: str) -> str | None:
    """Halves may add up in single precision."""
    pair = tuple(spec.element.name for name in ("a", "d") if (spec := op.tile(name)) is not None)
    return None if pair == ("f16", "f32") else same_dtype("a", "d")(op, arch)


_RM = {"rmode": "round_mode", "sat_mode": "saturation_mode"}

BINARY = (
    _binary("tadd", "a + b", Map(np.add)),
    _binary("tsub", "a - b", Map(np.subtract)),
    _binary("tmul", "a * b", Map(np.multiply)),
    _binary("tdiv", "a / b", Map(numbers.divide)),
    _binary("tmax", "the larger", Map(m.maximum)),
    _binary("tmin", "the smaller", Map(m.minimum)),
    _binary("tand", "a & b", Map(np.bitwise_and), _WHOLE),
    _binary("tor", "a | b", Map(np.bitwise_or), _WHOLE),
    _binary("tshl", "a << b", Map(numbers.shift_left), _WHOLE),
    _binary("tshr", "a >> b, arithmetic for signed elements", Map(numbers.shift_right), _WHOLE),
    _binary("tfmod", "remainder with the sign of a", Map(numbers.fmod)),
    _binary("txor", "a ^ b", Map(np.bitwise_xor), _WHOLE, ", tmp?"),
    _binary("trem", "remainder with the sign of b", Map(numbers.modulo), _NUMBERS, ", tmp?"),
    Row("tprelu", "elementwise", "ins(a, slope, tmp?) outs(d)", "a > 0 ? a : a * slope", Map(m.leaky), _agree("a", "slope", "d", holds=_REAL)),
    Row("taddc", "elementwise", "ins(a, b, c) outs(d)", "a + b + c", Map(m.add3), _agree("a", "b", "c", "d")),
    Row("tsubc", "elementwise", "ins(a, b, c) outs(d)", "a - b + c", Map(m.subtract_add), _agree("a", "b", "c", "d")),
)

SCALAR = (
    _scalar("tadds", "a + s", Map(np.add)),
    _scalar("tsubs", "a - s", Map(np.subtract)),
    _scalar("tmuls", "a * s", Map(np.multiply)),
    _scalar("tmaxs", "the larger of a and s", Map(m.maximum)),
    _scalar("tmins", "the smaller of a and s", Map(m.minimum)),
    _scalar("tands", "a & s", Map(np.bitwise_and), _WHOLE),
    _scalar("tors", "a | s", Map(np.bitwise_or), _WHOLE),
    _scalar("tshls", "a << s", Map(numbers.shift_left), _WHOLE),
    _scalar("tshrs", "a >> s", Map(numbers.shift_right), _WHOLE),
    _scalar("tfmods", "remainder with the sign of a", Map(numbers.fmod)),
    Row("tdivs", "elementwise scalar", "ins(a:any, s:any) outs(d)", "a / s in the order written; one of them is the tile", Map(numbers.divide), (_one_tile,)),
    _scalar("txors", "a ^ s", Map(np.bitwise_xor), _WHOLE, ", tmp?"),
    _scalar("trems", "remainder with the sign of s", Map(numbers.modulo), _NUMBERS, ", tmp?"),
    Row("taxpy", "elementwise scalar", "ins(a, s:scalar) outs(d)", "d + a * s", Map(m.axpy, True), (located("vec", "a", "d"), _axpy_types, same_valid("a", "d"), elements("d", *_NUMBERS), scalar_like("s", "a"))),
    Row("taddsc", "elementwise scalar", "ins(a, s:scalar, b) outs(d)", "a + s + b", Map(m.add3), (*_agree("a", "b", "d"), scalar_like("s", "a"))),
    Row("tsubsc", "elementwise scalar", "ins(a, s:scalar, b) outs(d)", "a - s + b", Map(m.subtract_add), (*_agree("a", "b", "d"), scalar_like("s", "a"))),
    Row("tlrelu", "elementwise scalar", "ins(a, s:scalar) outs(d)", "a > 0 ? a : a * s", Map(m.leaky_f32), (*_agree("a", "d", holds=_REAL), scalar_is("s", "f32"))),
    Row("texpands", "elementwise scalar", "ins(s:scalar) outs(d)", "every valid cell is s", Map(m.fill), (located("vec|mat", "d"), scalar_like("s", "d"))),
)

UNARY = (
    _unary("tabs", "|a|", Map(m.absolute)),
    _unary("tneg", "-a", Map(np.negative)),
    _unary("texp", "e to the power of a", Map(m.exp), _REAL),
    _unary("tlog", "natural logarithm", Map(m.log), _REAL),
    _unary("tsqrt", "square root", Map(m.square_root), _REAL),
    _unary("trecip", "1 / a", Map(m.reciprocal), _REAL),
    _unary("trelu", "max(a, 0)", Map(m.relu), (("i32", "f16", "f32"), ("i32", "f16", "f32"))),
    _unary("tnot", "~a", Map(np.invert), _WHOLE),
    _unary("trsqrt", "1 / square root", Map(m.inverse_root), _REAL, ", tmp?"),
    Row("tcvt", "elementwise unary", "ins(a, tmp? {rmode, sat_mode}) outs(d)", "conversion to the element type of d", Custom(), (located("vec", "a", "d"), same_shape("a", "d"), same_valid("a", "d")), _RM),
)


@of_tiles("m", "a")
def _mask(op: PtoOp, arch: str, mask: TileSpec, data: TileSpec) -> str | None:
    """A packed mask has one bit per element: of each row in a row of its own, or of all rows one after the other."""
    if mask.element.plain not in ("i8", "i16", "i32"):
        return f"the mask must hold i8 (or ui8) bits, got {mask.element}"
    if mask.boxed or (mask.blayout != "row_major" and 1 not in mask.shape):
        return f"the mask must be row_major and unboxed, it is {mask.blayout}, {mask.slayout}"
    (rows, cols), width = data.valid, mask.cols * mask.element.bytes * 8
    if dense_masks(arch):
        few = rows is not None and cols is not None and rows * cols > mask.rows * width
        return f"the mask has {mask.rows * width} bits, the data {dims(data.valid)} elements" if few else None
    if cols is not None and width < cols:
        return f"the mask has {width} bits per row, the data {cols} columns"
    return f"the mask has {mask.rows} rows, the data {rows}" if rows is not None and mask.rows < rows else None


def _number(op: PtoOp, arch: str) -> str | None:
    """The scalar is of the tile's element type, or an i32 that is converted to it."""
    value = op.operand("s")
    return None if value is not None and str(value.type) == "i32" else scalar_like("s", "a")(op, arch)


_COMPARED = (("i32", "f16", "f32"), ("i8", "i16", "i32", "f16", "f32", "bf16"))
_SELECTED = (VECTOR, ("i8", *VECTOR))

COMPARE = (
    Row("tcmp", "compare", "ins(a, b {cmpMode}) outs(m)", "one bit per element, the lowest first", Custom(),
        (located("vec", "a", "b", "m"), same_dtype("a", "b"), same_valid("a", "b"), elements("a", *_COMPARED), _mask), {"cmpMode": "cmp"}),
    Row("tcmps", "compare", "ins(a, s:scalar {cmpMode}) outs(m)", "the same against a scalar", Custom("tcmp"),
        (located("vec", "a", "m"), elements("a", *_COMPARED), scalar_like("s", "a"), _mask), {"cmpMode": "cmp"}),
    Row("tsel", "compare", "ins(m, a, b, tmp?) outs(d)", "bit ? a : b", Custom(),
        (located("vec", "m", "a", "b", "d"), same_dtype("a", "b", "d"), same_valid("a", "b", "d"), elements("d", *_SELECTED), _mask)),
    Row("tsels", "compare", "ins(m, a, tmp?, s:scalar) outs(d)", "bit ? a : s", Custom("tsel"),
        (located("vec", "m", "a", "d"), same_dtype("a", "d"), same_valid("a", "d"), elements("d", *_SELECTED), _number, _mask)),
)  # fmt: skip


def _column_result(op: PtoOp, arch: str) -> str | None:
    out = op.tile("d")
    if out is not None and out.blayout == "col_major" and out.cols != 1:
        return f"a col_major result of a row reduction has one column, got {dims(out.shape)}"
    return None


@maker
def _scratch(op: PtoOp, arch: str, *architectures: str) -> str | None:
    """The scratch tile is a vec tile of the data's element type."""
    return located("vec", "tmp")(op, arch) or same_dtype("d", "tmp")(op, arch) if arch in architectures else None


def _row_reduction(name: str, what: str, function: object, *extra: Rule, index: bool = False) -> Row:
    rules: tuple[Rule, ...] = (located("vec", "a", "d"), elements("a", VECTOR), valid_is("d", 1, 1), same_valid_dim("a", "d", 0), _column_result)
    rules += (elements("d", ("i32",)),) if index else (same_dtype("a", "d"),)
    return Row(name, "row reduction", "ins(a, tmp?) outs(d)", what, Fold(function, 1), (*rules, *extra))  # type: ignore[arg-type]


def _row_expand(name: str, what: str, run: Along, *extra: Rule, holds: tuple[tuple[str, ...], tuple[str, ...]] = _NUMBERS) -> Row:
    rules = (located("vec", "a", "b", "d"), same_dtype("a", "b", "d"), elements("d", *holds), unboxed_row_major("d"), row_vector, *extra)
    return Row(name, "row expand", "ins(a, b, tmp?) outs(d)", what, run, rules)


ROWS = (
    _row_reduction("trowsum", "sum over the valid columns", m.row_sum),
    _row_reduction("trowmax", "largest of the valid columns", m.largest),
    _row_reduction("trowmin", "smallest of the valid columns", m.smallest),
    _row_reduction("trowprod", "product of the valid columns", m.product, _scratch(A2A3, A5)),
    _row_reduction("trowargmax", "first column of the largest", m.first_largest, index=True),
    _row_reduction("trowargmin", "first column of the smallest", m.first_smallest, index=True),
    Row("trowexpand", "row expand", "ins(a) outs(d)", "d[r, c] = a[r, 0]", Custom(), (located("vec", "a", "d"), same_dtype("a", "d"), same_valid_dim("a", "d", 0))),
    _row_expand("trowexpandmul", "a[r, c] * b[r]", Along(np.multiply, 1, True)),
    _row_expand("trowexpanddiv", "a[r, c] / b[r]", Along(numbers.divide, 1, True)),
    _row_expand("trowexpandsub", "a[r, c] - b[r]", Along(np.subtract, 1, True)),
    _row_expand("trowexpandexpdif", "e to the power of a[r, c] - b[r]", Along(m.exp_difference, 1), holds=_REAL),
    _row_expand("trowexpandmax", "the larger of a[r, c] and b[r]", Along(m.maximum, 1), _scratch(A5)),
    _row_expand("trowexpandmin", "the smaller of a[r, c] and b[r]", Along(m.minimum, 1), _scratch(A5)),
    _row_expand("trowexpandadd", "a[r, c] + b[r]", Along(np.add, 1), line_width),
)


def _binary_sum(op: PtoOp, arch: str) -> str | None:
    if op.flag("isBinary") and op.operand("tmp") is None:
        return "isBinary needs the scratch tile `tmp`"
    return "the scratch tile `tmp` needs isBinary" if op.operand("tmp") is not None and "isBinary" not in op.attributes else None


def _column_reduction(name: str, what: str, function: object, format: str = "ins(a) outs(d)", index: bool = False) -> Row:
    rules: tuple[Rule, ...] = (located("vec", "a", "d"), elements("a", *_NUMBERS), valid_is("d", 0, 1), same_valid_dim("a", "d", 1))
    rules += (elements("d", ("i32",)),) if index else (same_dtype("a", "d"),)
    binary = name == "tcolsum"
    return Row(name, "column reduction", format, what, Fold(function, 0), (*rules, _binary_sum) if binary else rules, {"isBinary": "bool"} if binary else {})  # type: ignore[arg-type]


def _column_expand(name: str, what: str, function: object, holds: tuple[tuple[str, ...], tuple[str, ...]] = _NUMBERS) -> Row:
    rules = (
        located("vec", "a", "b", "d"), same_dtype("a", "b", "d"), same_shape("a", "d"), same_valid("a", "d"), elements("d", *holds),
        unboxed_row_major("a", "b", "d"), same_valid_dim("b", "d", 1),
    )  # fmt: skip
    return Row(name, "column expand", "ins(a, b) outs(d)", what, Along(function, 0), rules)  # type: ignore[arg-type]


COLUMNS = (
    _column_reduction("tcolmax", "largest of the valid rows", m.largest),
    _column_reduction("tcolmin", "smallest of the valid rows", m.smallest),
    _column_reduction("tcolprod", "product of the valid rows", m.product),
    _column_reduction("tcolsum", "sum over the valid rows", m.column_sum, "ins(a, tmp? {isBinary}) outs(d)"),
    _column_reduction("tcolargmax", "first row of the largest", m.first_largest, "ins(a, tmp?) outs(d)", True),
    _column_reduction("tcolargmin", "first row of the smallest", m.first_smallest, "ins(a, tmp?) outs(d)", True),
    Row("tcolexpand", "column expand", "ins(a) outs(d)", "d[r, c] = a[0, c]", Custom(), (located("vec", "a", "d"), same_dtype("a", "d"), same_valid_dim("a", "d", 1))),
    _column_expand("tcolexpandadd", "a[r, c] + b[0, c]", np.add),
    _column_expand("tcolexpandmul", "a[r, c] * b[0, c]", np.multiply),
    _column_expand("tcolexpanddiv", "a[r, c] / b[0, c]", numbers.divide),
    _column_expand("tcolexpandsub", "a[r, c] - b[0, c]", np.subtract),
    _column_expand("tcolexpandexpdif", "e to the power of a[r, c] - b[0, c]", m.exp_difference, _REAL),
    _column_expand("tcolexpandmax", "the larger of a[r, c] and b[0, c]", m.maximum),
    _column_expand("tcolexpandmin", "the smaller of a[r, c] and b[0, c]", m.minimum),
)


def _covered(op: PtoOp, arch: str) -> str | None:
    """Both sources lie inside the destination, one of them fills it."""
    a, b, d = op.tile("a"), op.tile("b"), op.tile("d")
    if a is None or b is None or d is None or None in (*a.valid, *b.valid, *d.valid):
        return None
    for name, spec in (("a", a), ("b", b)):
        if any(own > whole for own, whole in zip(spec.valid, d.valid)):  # type: ignore[operator]
            return f"the valid region of `{name}` must lie inside that of `d`, got {dims(spec.valid)} and {dims(d.valid)}"
    return None if d.valid in (a.valid, b.valid) else f"one source must be as large as `d` ({dims(d.valid)}), got {dims(a.valid)} and {dims(b.valid)}"


def _partial(name: str, what: str, function: object) -> Row:
    return Row(name, "partial", "ins(a, b) outs(d)", what, Part(function), (located("vec", "a", "b", "d"), same_dtype("a", "b", "d"), elements("d", *_NUMBERS), _covered))  # type: ignore[arg-type]


PARTIAL = (
    _partial("tpartadd", "a + b where both are valid, else the valid one, else 0", np.add),
    _partial("tpartmul", "a * b where both are valid, else the valid one, else 0", np.multiply),
    _partial("tpartmax", "the larger where both are valid, else the valid one, else 0", m.maximum),
    _partial("tpartmin", "the smaller where both are valid, else the valid one, else 0", m.minimum),
)

TABLE: tuple[Row, ...] = (*BINARY, *SCALAR, *UNARY, *COMPARE, *ROWS, *COLUMNS, *PARTIAL)
