"""Raising of arithmetic: elementwise families, reductions, expands, partial ops, conversion, comparison, matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from tilejit.dtypes import FP32, INT32, DType
from tilejit.frontend.pto.handles import Cell, Memory, NotRaisable, Region, known_region
from tilejit.frontend.pto.moves import filled_region, narrowed, repeated
from tilejit.frontend.pto.tiles import Tile, filled, read, region_of, same_bits, tile, write
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import constant_of
from tilejit.tile_ir.pto import rows
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.rules import line_operand
from tilejit.tile_ir.pto.spec import MX_BLOCK
from tilejit.types.values import BufferType, ScalarType

if TYPE_CHECKING:
    from tilejit.frontend.pto.raiser import Raiser

Operands = Sequence[SSAValue]
Meaning = Callable[["Raiser", Operands], SSAValue]


def _row(name: str, *params: str) -> Meaning:
    """One row of the op table."""

    def apply(self: Raiser, args: Operands) -> SSAValue:
        return self.apply(name, **dict(zip(params or ("lhs", "rhs"), args)))

    return apply


def _then(first: Meaning, second: Meaning) -> Meaning:
    """`second(first(a, b), c)`."""
    return lambda self, args: second(self, [first(self, args[:2]), args[2]])


def _dtype(value: SSAValue) -> DType:
    type = d.type_of(value)
    assert not isinstance(type, BufferType)
    return type.dtype


def _is_number(value: SSAValue) -> bool:
    """A scalar that is known, and not NaN."""
    known = constant_of(value) if isinstance(d.type_of(value), ScalarType) else None
    return known is not None and not math.isnan(known)


def _extreme(row: str) -> Meaning:
    """`a < b ? b : a`: the first operand wins when the second is NaN."""

    def apply(self: Raiser, args: Operands) -> SSAValue:
        first, second = args
        both = self.apply(row, lhs=first, rhs=second)
        if not _dtype(first).is_float or _is_number(second):
            return both
        strange = self.apply("isnan", "scalar" if isinstance(d.type_of(second), ScalarType) else "tile", input=second)
        return self.apply("where", condition=strange, lhs=first, rhs=both)

    return apply


def _divide(self: Raiser, args: Operands) -> SSAValue:
    dtype = next(_dtype(value) for value in args if not isinstance(d.type_of(value), ScalarType))
    if dtype.name in ("FP32", "FP16", "INT16", "INT32") or any(isinstance(d.type_of(value), ScalarType) for value in args):
        return self.apply("div", lhs=args[0], rhs=args[1])
    if dtype.kind == "uint":
        # Quotients without a sign are rounded down either way.
        return self.apply("floordiv", lhs=args[0], rhs=args[1])
    wide = [self.apply("cast", input=value, target_type=FP32 if dtype.is_float else INT32, mode="rint") for value in args]
    return self.apply("cast", input=self.apply("div", lhs=wide[0], rhs=wide[1]), target_type=dtype, mode="rint")


def _relu(self: Raiser, args: Operands) -> SSAValue:
    value = self.apply("relu", input=args[0])
    if not _dtype(args[0]).is_float:
        return value
    return self.apply("where", condition=self.apply("isnan", input=args[0]), lhs=self.build.const(0.0, _dtype(args[0])), rhs=value)


def _invert(self: Raiser, args: Operands) -> SSAValue:
    dtype = _dtype(args[0])
    return self.apply("xor", lhs=args[0], rhs=self.build.const((1 << dtype.bits) - 1 if dtype.kind == "uint" else -1, dtype))


def _expdif(self: Raiser, args: Operands) -> SSAValue:
    return self.apply("exp", input=self.apply("sub", lhs=args[0], rhs=args[1]))


_BINARY: dict[str, Meaning] = {
    **{name: _row(row) for name, row in rows.PAIRS.items()}, "div": _divide, "max": _extreme("maximum"), "min": _extreme("minimum"),
}  # fmt: skip
_MAPS: dict[str, Meaning] = {
    **{f"t{name}": meaning for name, meaning in _BINARY.items()},
    **{f"t{name}s": meaning for name, meaning in _BINARY.items()},
    **{f"t{name}": _row(row, "input") for name, row in rows.FUNCTIONS.items()},
    "tnot": _invert, "trelu": _relu, "tprelu": _row("prelu", "input", "slope"), "tlrelu": _row("lrelu", "input", "slope"),
    "taddc": _then(_row("add"), _row("add")), "tsubc": _then(_row("sub"), _row("add")),
    "taddsc": _then(_row("add"), _row("add")), "tsubsc": _then(_row("sub"), _row("add")),
}  # fmt: skip
_ALONG: dict[str, Meaning] = {
    f"t{axis}expand{name}": _expdif if name == "expdif" else _BINARY[name]
    for axis in ("row", "col")
    for name in rows.EXPANDING
}
_FOLDS = {f"t{axis}{name}": f"{axis}_{name}" for axis in ("row", "col") for name in rows.FOLDS}
_PARTS = {f"tpart{name}": _BINARY[name] for name in rows.PARTS}
_PRODUCTS = tuple(f"{stem}{scaled}{extra}" for stem in ("tmatmul", "tgemv") for scaled in ("", ".mx") for extra in ("", ".acc", ".bias"))

FAMILIES = frozenset((*_MAPS, *_ALONG, *_FOLDS, *_PARTS, *_PRODUCTS))


def family(self: Raiser, op: PtoOp) -> None:
    """An op that belongs to one of the families."""
    name = op.row.name
    if name in _MAPS:
        _map(self, op, _MAPS[name])
    elif name in _ALONG:
        _along(self, op, _ALONG[name])
    elif name in _FOLDS:
        _fold(self, op, _FOLDS[name])
    elif name in _PARTS:
        _part(self, op, _PARTS[name])
    else:
        _product(self, op)


def _map(self: Raiser, op: PtoOp, meaning: Meaning) -> None:
    target = tile(self, op, "d")
    region = region_of(self, target)
    assert op.row.destination_style is not None
    slots = [slot.name for slot in op.row.destination_style[0] if not slot.scratch]
    operands = [_operand(self, self.held(op.operand(name)), region, target) for name in slots]
    write(self, target, meaning(self, operands))


def _operand(self: Raiser, found: object, region: Region, target: Tile) -> SSAValue:
    if isinstance(found, Cell | Memory):
        return read(self, found, region, target.spec.shape)
    if not isinstance(found, SSAValue):
        raise NotRaisable("an operand that is no tile and no number")
    return found


def _axpy(self: Raiser, op: PtoOp) -> None:
    target = tile(self, op, "d")
    region = region_of(self, target)
    source, factor = read(self, tile(self, op, "a"), region, target.spec.shape), self.cast(self.scalar(op.operand("s")), target.dtype)
    if _dtype(source) is not target.dtype:
        source = self.apply("cast", input=source, target_type=target.dtype, mode="rint")
    scaled = self.apply("mul", lhs=source, rhs=factor)
    write(self, target, self.apply("add", lhs=read(self, target, region), rhs=scaled))


def _fill(self: Raiser, op: PtoOp) -> None:
    target = tile(self, op, "d")
    write(self, target, filled_region(self, region_of(self, target), target.spec.shape, target.dtype, self.scalar(op.operand("s"))))


# along rows and columns ---------------------------------------------------------------------------------------------------------


def line(self: Raiser, found: Tile, region: Region, axis: int, shape: tuple[int, int]) -> SSAValue:
    """One value per row or per column of a region; a row operand of 32 bytes is repeated along the row."""
    rows, cols = region
    if axis == 0:
        return read(self, found, (1, cols), (1, shape[1]))
    period = 32 // found.dtype.get_byte()
    if found.spec.cols != period or found.spec.blayout != "row_major" or found.spec.valid[1] == 1:
        return read(self, found, (rows, 1), (shape[0], 1))
    if found.spec.valid[1] is None or not isinstance(rows, int) or not isinstance(cols, int):
        raise NotRaisable("a repeated row operand whose size only the run knows")
    return repeated(self, read(self, found, (rows, period)), cols)


def _along(self: Raiser, op: PtoOp, meaning: Meaning) -> None:
    target = tile(self, op, "d")
    region = region_of(self, target)
    axis = 1 if op.row.name.startswith("trow") else 0
    shape = target.spec.shape
    lined = line_operand(op)
    sides = [line(self, tile(self, op, name), region, axis, shape) if name == lined else read(self, tile(self, op, name), region, shape) for name in ("a", "b")]
    if lined == "a" and d.shaped_type(sides[0]).shape != d.shaped_type(sides[1]).shape:
        sides[0] = _spread(self, sides[0], region, shape, axis)
    big, vector = sides
    row = op.row.name.removeprefix("trowexpand").removeprefix("tcolexpand")
    if lined == "b" and d.shaped_type(vector).shape != d.shaped_type(big).shape and rows.PAIRS.get(row) == row:
        value = self.apply(f"{'row' if axis else 'col'}_expand_{row}", lhs=big, rhs=vector)
    else:
        value = meaning(self, sides)
    write(self, target, value)


def _expand(self: Raiser, op: PtoOp) -> None:
    target = tile(self, op, "d")
    region = region_of(self, target)
    height, cols = region
    axis, shape = 1 if op.row.name == "trowexpand" else 0, target.spec.shape
    source = tile(self, op, "a")
    vector = read(self, source, (height, 1), (shape[0], 1)) if axis else read(self, source, (1, cols), (1, shape[1]))
    write(self, target, _spread(self, vector, region, shape, axis))


def _spread(self: Raiser, vector: SSAValue, region: Region, shape: tuple[int, int], axis: int) -> SSAValue:
    """One value per row or per column in every cell of a region."""
    dtype = _dtype(vector)
    base = filled_region(self, region, shape, dtype, self.build.const(0, dtype))
    return self.apply("row_expand" if axis else "col_expand", lhs=base, rhs=vector)


def _fold(self: Raiser, op: PtoOp, row: str) -> None:
    source, target = tile(self, op, "a"), tile(self, op, "d")
    value = read(self, source, region_of(self, source))
    axis, name = row.split("_")
    if name in ("max", "min") and source.dtype.is_float:
        # NaN counts only where it comes first.
        rows, cols = d.shaped_type(value).shape
        assert isinstance(rows, int) and isinstance(cols, int)
        nothing = self.build.const(float("-inf") if name == "max" else float("inf"), source.dtype)
        plain = self.apply("where", condition=self.apply("isnan", input=value), lhs=nothing, rhs=value)
        first = self.cut(value, 0, 0, (rows, 1) if axis == "row" else (1, cols))
        result = self.apply(row, input=plain)
        result = self.apply("where", condition=self.apply("isnan", input=first), lhs=first, rhs=result)
    else:
        result = self.apply(row, input=value)
    write(self, target, same_bits(self, result, target.dtype))


def _part(self: Raiser, op: PtoOp, meaning: Meaning) -> None:
    first, second, target = (tile(self, op, name) for name in ("a", "b", "d"))
    regions = [region_of(self, side) for side in (first, second, target)]
    known = [pair for region in regions if (pair := known_region(region)) is not None]
    if len(known) < len(regions):
        _open_part(self, (first, second, target), regions, meaning)
        return
    (ar, ac), (br, bc), (rows, cols) = known
    zero = self.build.const(0)
    out = filled(self, (rows, cols), target.dtype, self.build.const(0, target.dtype))
    for side, size in ((second, (min(br, rows), min(bc, cols))), (first, (min(ar, rows), min(ac, cols)))):
        part = read(self, side, size)
        out = part if size == (rows, cols) else self.apply("assemble", target=out, source=part, offset=[zero, zero])
    both = (min(ar, br), min(ac, bc))
    combined = meaning(self, [read(self, first, both), read(self, second, both)])
    write(self, target, combined if both == (rows, cols) else self.apply("assemble", target=out, source=combined, offset=[zero, zero]))


def _open_part(self: Raiser, tiles: tuple[Tile, Tile, Tile], regions: Sequence[Region], meaning: Meaning) -> None:
    """The same through memory, where only the run knows how far the tiles reach."""
    first, second, target = tiles
    shape, (whole, dtype) = target.spec.shape, (regions[2], target.dtype)
    room = self.build.create(BufferType(shape, dtype), [])
    self.store(filled(self, shape, dtype, self.build.const(0, dtype)), room, False)
    inside = [(self.least(region[0], whole[0]), self.least(region[1], whole[1])) for region in regions[:2]]
    for side, region in ((second, inside[1]), (first, inside[0])):
        self.store(read(self, side, region, shape), room, False)
    both = (self.least(inside[0][0], inside[1][0]), self.least(inside[0][1], inside[1][1]))
    self.store(meaning(self, [read(self, first, both, shape), read(self, second, both, shape)]), room, False)
    write(self, target, self.load(room, whole, shape))


# matrix products --------------------------------------------------------------------------------------------------------------------


def _product(self: Raiser, op: PtoOp) -> None:
    left, right, target = (tile(self, op, name) for name in ("a", "b", "d"))
    (rows, own), (there, cols) = region_of(self, left), region_of(self, right)
    inner = own if own == there else self.least(own, there)
    if ".mx" in op.row.name:
        a, b = _scaled(self, left, (rows, inner), tile(self, op, "as"), 1), _scaled(self, right, (inner, cols), tile(self, op, "bs"), 0)
    else:
        a, b = read(self, left, (rows, inner)), read(self, right, (inner, cols))
        if left.dtype.is_float and left.dtype.bits < 16:
            a, b = (self.apply("cast", input=side, target_type=FP32, mode="rint") for side in (a, b))
    if op.operand("c") is not None:
        value = self.apply("matmul_acc", acc=read(self, tile(self, op, "c"), (rows, cols)), lhs=a, rhs=b)
    elif op.operand("bias") is not None:
        value = self.apply("matmul_bias", lhs=a, rhs=b, bias=read(self, tile(self, op, "bias"), (1, cols)))
    else:
        value = self.apply("matmul", lhs=a, rhs=b)
    write(self, target, value)


def _scaled(self: Raiser, found: Tile, region: Region, scales: Tile, axis: int) -> SSAValue:
    """MX: one scale for each block of elements along `axis`; of a region that only the run knows the whole tile is scaled."""
    shape = known_region(region) or found.spec.shape
    blocks = -(-shape[axis] // MX_BLOCK)
    held = (shape[0], blocks) if axis else (blocks, shape[1])
    if any(size > room for size, room in zip(held, scales.spec.shape)):
        raise NotRaisable("fewer scales than the operand of a product has blocks")
    value, factors = (self.apply("cast", input=item, target_type=FP32, mode="rint") for item in (read(self, found, shape), read(self, scales, held)))
    if not axis:
        value, factors = self.turned(value), self.turned(factors)
    rows, inner = shape if axis else shape[::-1]
    if inner % MX_BLOCK:
        zero = self.build.const(0)
        whole = filled(self, (rows, blocks * MX_BLOCK), FP32, self.build.const(0.0, FP32))
        value = self.apply("assemble", target=whole, source=value, offset=[zero, zero])
    lines = self.apply("row_expand_mul", lhs=self.reshaped(value, (rows * blocks, MX_BLOCK)), rhs=self.reshaped(factors, (rows * blocks, 1)))
    scaled = self.cut(self.reshaped(lines, (rows, blocks * MX_BLOCK)), 0, 0, (rows, inner))
    return narrowed(self, scaled if axis else self.turned(scaled), region)


OPS = {"taxpy": _axpy, "texpands": _fill, "trowexpand": _expand, "tcolexpand": _expand}
