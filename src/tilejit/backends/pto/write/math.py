"""Rules of functions that PTO has no op for: they are computed in FP32 from those it has."""

from __future__ import annotations

import math

from tilejit.backends.pto.write.blocks import BlockWriter, Tile
from tilejit.backends.pto.write.compare import compared, flags, selected
from tilejit.backends.pto.write.memory import Region
from tilejit.backends.pto.write.text import hint_of, scalar_name
from tilejit.backends.pto.write.vector import Rule, cast_tile, finished, pulled
from tilejit.dtypes import BOOL, FP32, INT32, UINT8
from tilejit.ops.math import cast_mode
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, operand

_ERF_TOP = (
    -2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05, -7.34990630326855e-04, -2.95459980854025e-03,
    -1.60960333262415e-02,
)  # fmt: skip
_ERF_BOTTOM = (-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03, -1.42647390514189e-02)
_FAR = 8388608.0
"""From here on every float is a whole number."""
_TOO_LARGE = 2147483648.0
"""The first float that no INT32 holds: conversions make the smallest number of it."""
MODES = {"none": "RINT", "rint": "RINT", "round": "ROUND", "floor": "FLOOR", "ceil": "CEIL", "trunc": "TRUNC"}
"""Rounding modes; `odd` means another rounding in PTO, whose conversions between floats only round to nearest."""


def cast(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """Floats become the nearest number of a smaller type by the mode; what is too large becomes the largest."""
    source, result = d.shaped_type(operand(op, "input")).dtype, d.shaped_type(op.results[0]).dtype
    given = apply_args(op)["mode"]
    mode = MODES.get(cast_mode(given) or "", "")
    tile = w.pull(operand(op, "input"), region, op)
    if result is BOOL:
        kind = FP32 if source.is_float else INT32
        return cast_tile(w, flags(w, compared(w, cast_tile(w, tile, kind), (w.constant(0, kind), scalar_name(kind)), "ne"), w.like(tile, kind), kind), UINT8)
    if not mode or (source.is_float and result.is_float and mode not in ("RINT", "ROUND")):
        rule = "conversions between floats round to nearest; those to integers know rint, round, floor, ceil and trunc"
        raise w.refuse(op, f"a cast from {source} to {result} with mode {given!r}", rule)
    if source.is_float and result is INT32:
        wide = cast_tile(w, tile, FP32)
        found = cast_tile(w, wide, INT32, mode, hint_of(op.results[0]))
        over = compared(w, wide, (w.constant(_TOO_LARGE, FP32), "f32"), "ge")
        most = w.dest("texpands", [(w.constant(2**31 - 1, INT32), "i32")], w.like(found))
        return selected(w, op, over, most, found, w.like(found))
    return cast_tile(w, tile, result, mode, hint_of(op.results[0]), wrap=not source.is_float and not result.is_float)


def _chain(w: BlockWriter, tile: Tile, *steps: tuple[str, float | None]) -> Tile:
    """Ops with a constant, or none, one after the other in FP32."""
    out = w.like(tile)
    source = tile
    for name, number in steps:
        scalar = [] if number is None else [(w.constant(number, FP32), "f32")]
        operands = [*scalar, source] if name == "rdivs" else [source, *scalar]
        source = w.dest("tdivs" if name == "rdivs" else name, operands, out)
    return out


def tanh(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """1 - 2 / (exp(2 x) + 1)."""
    source = pulled(w, operand(op, "input"), region, op, FP32)
    return finished(w, op, _chain(w, source, ("tmuls", 2.0), ("texp", None), ("tadds", 1.0), ("rdivs", 2.0), ("tmuls", -1.0), ("tadds", 1.0)))


def sigmoid(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """1 / (1 + exp(-x))."""
    source = pulled(w, operand(op, "input"), region, op, FP32)
    return finished(w, op, _chain(w, source, ("tmuls", -1.0), ("texp", None), ("tadds", 1.0), ("rdivs", 1.0)))


def whole_number(mode: str) -> Rule:
    """floor, ceil and round: through INT32 where there are fractions at all."""

    def rule(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
        if not d.shaped_type(operand(op, "input")).dtype.is_float:
            return w.pull(operand(op, "input"), region, op)
        source = pulled(w, operand(op, "input"), region, op, FP32)
        rounded = cast_tile(w, cast_tile(w, source, INT32, mode), FP32)
        near = compared(w, w.dest("tabs", [source], w.like(source)), (w.constant(_FAR, FP32), "f32"), "lt")
        return finished(w, op, selected(w, op, near, rounded, source, w.like(source)))

    return rule


def trigonometric(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """sin and cos: the nearest multiple of pi is subtracted in three steps, the rest is a polynomial, whose sign alternates."""
    source = pulled(w, operand(op, "input"), region, op, FP32)
    shift = 0.5 if op.op == "cos" else 0.0
    turns = _chain(w, source, ("tmuls", 1 / math.pi), ("tadds", shift))
    count = cast_tile(w, turns, INT32, "RINT")
    turns = cast_tile(w, count, FP32)
    turns = w.dest("tsubs", [turns, (w.constant(shift, FP32), "f32")], w.like(turns)) if shift else turns
    rest = source
    for part in (3.140625, 0.0009670257568359375, 6.2771141529083251953e-07, 1.2154201256553420762e-10):
        step = w.dest("tmuls", [turns, (w.constant(part, FP32), "f32")], w.like(source))
        rest = w.dest("tsub", [rest, step], w.like(source))
    square = w.dest("tmul", [rest, rest], w.like(source))
    total = _chain(w, square, ("tmuls", 2.6083159809786593541503e-06), ("tadds", -0.0001981069071916863322258))
    for number in (0.00833307858556509017944336, -0.166666597127914428710938):
        w.dest("tmul", [total, square], total)
        w.dest("tadds", [total, (w.constant(number, FP32), "f32")], total)
    w.dest("tmul", [total, square], total)
    w.dest("tmul", [total, rest], total)
    w.dest("tadd", [total, rest], total)
    odd = w.dest("tands", [count, (w.constant(1, INT32), "i32")], w.like(count))
    sign = _chain(w, cast_tile(w, odd, FP32), ("tmuls", -2.0), ("tadds", 1.0))
    w.dest("tmul", [total, sign], total)
    # Infinities have no sine: x - x is 0 for numbers only.
    nothing = w.dest("tsub", [source, source], w.like(source))
    return finished(w, op, w.dest("tadd", [total, nothing], total))


def erf(w: BlockWriter, op: d.ApplyOp, region: Region) -> Tile:
    """The rational approximation of single precision on [-4, 4], beyond which erf is 1."""
    source = pulled(w, operand(op, "input"), region, op, FP32)
    x = _chain(w, source, ("tmins", 4.0), ("tmaxs", -4.0))
    square = w.dest("tmul", [x, x], w.like(x))

    def polynomial(numbers: tuple[float, ...]) -> Tile:
        out = w.dest("texpands", [(w.constant(numbers[0], FP32), "f32")], w.like(x))
        for number in numbers[1:]:
            w.dest("tmul", [out, square], out)
            w.dest("tadds", [out, (w.constant(number, FP32), "f32")], out)
        return out

    top, bottom = polynomial(_ERF_TOP), polynomial(_ERF_BOTTOM)
    w.dest("tmul", [top, x], top)
    out = w.dest("tdiv", [top, bottom], w.like(x))
    return finished(w, op, _chain(w, out, ("tmins", 1.0), ("tmaxs", -1.0)))
