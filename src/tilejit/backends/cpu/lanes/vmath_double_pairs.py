"""Functions on double lanes that need more than a double on the way: sin, cos, pow, fmod."""

from __future__ import annotations

import math
from collections.abc import Callable

from tilejit.backends.cpu.lanes import coefficients as c
from tilejit.backends.cpu.lanes.vmath_blocks import any_lane, bits_of, fabs, fma, polynomial
from tilejit.backends.cpu.lanes.vmath_double import MAGIC, even_series, exp_of_sum, mantissa_and_exponent, odd_series, power_of_two
from tilejit.backends.cpu.lanes.vmath_wide import near, pow_special, take_away
from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.cpu.llvm.text import Emitter, Value
from tilejit.backends.cpu.llvm.vector import binary, constant, convert, extract, fcmp, icmp, intrinsic, select, typed, unary, width_of

_INF = float("inf")
Pair = tuple[Value, Value]
"""A number as the sum of two doubles, the second far below the first."""

# pairs ------------------------------------------------------------------------------------------------------------------


def _halves(e: Emitter, x: Value) -> Pair:
    """x as the sum of two numbers of 26 bits."""
    scaled = binary(e, "fmul", x, constant(x.type, 2.0**27 + 1))
    high = binary(e, "fsub", scaled, binary(e, "fsub", scaled, x))
    return high, binary(e, "fsub", x, high)


def _product(e: Emitter, a: Value, b: Value) -> Pair:
    """a * b, exactly."""
    out = binary(e, "fmul", a, b)
    if host().has_fma:
        return out, intrinsic(e, "fma", a, b, unary(e, "fneg", out))
    (a1, a2), (b1, b2) = _halves(e, a), _halves(e, b)
    rest = binary(e, "fsub", binary(e, "fmul", a1, b1), out)
    rest = binary(e, "fadd", rest, binary(e, "fmul", a1, b2))
    rest = binary(e, "fadd", rest, binary(e, "fmul", a2, b1))
    return out, binary(e, "fadd", rest, binary(e, "fmul", a2, b2))


def _sum(e: Emitter, a: Value, b: Value) -> Pair:
    """a + b, exactly."""
    out = binary(e, "fadd", a, b)
    other = binary(e, "fsub", out, a)
    lost = binary(e, "fsub", a, binary(e, "fsub", out, other))
    return out, binary(e, "fadd", lost, binary(e, "fsub", b, other))


def _times(e: Emitter, a: Pair, b: Pair) -> Pair:
    high, low = _product(e, a[0], b[0])
    low = binary(e, "fadd", low, binary(e, "fadd", binary(e, "fmul", a[0], b[1]), binary(e, "fmul", a[1], b[0])))
    return _sum(e, high, low)


def _plus(e: Emitter, a: Pair, b: Pair) -> Pair:
    high, low = _sum(e, a[0], b[0])
    return _sum(e, high, binary(e, "fadd", low, binary(e, "fadd", a[1], b[1])))


# sin and cos ------------------------------------------------------------------------------------------------------------

_SIN, _COS = odd_series(8), even_series(7)


def trigonometric(quarter: int) -> Callable[[Emitter, Value], Value]:
    """sin (quarter 0) or cos (quarter 1: a quarter turn ahead)."""

    def body(e: Emitter, x: Value) -> Value:
        high, low, count = _reduced(e, x)
        if quarter:
            return _quadrant(e, (high, low), binary(e, "add", count, constant(count.type, 1)))
        return select(e, fcmp(e, "oeq", x, constant(x.type, 0)), x, _quadrant(e, (high, low), count))

    return body


def _quadrant(e: Emitter, r: Pair, q: Value) -> Value:
    """sin(r + q*pi/2)."""
    high, low = r
    one, square = constant(high.type, 1), binary(e, "fmul", high, high)
    half = binary(e, "fmul", square, constant(high.type, 0.5))
    flat = binary(e, "fsub", one, half)
    bent = fma(e, binary(e, "fmul", high, square), polynomial(e, square, _SIN), binary(e, "fmul", low, flat))
    sine = binary(e, "fadd", high, bent)
    lost = binary(e, "fsub", binary(e, "fsub", one, flat), half)
    tail = fma(e, binary(e, "fmul", square, square), polynomial(e, square, _COS), unary(e, "fneg", binary(e, "fmul", high, low)))
    cosine = binary(e, "fadd", flat, binary(e, "fadd", lost, tail))
    odd = icmp(e, "ne", binary(e, "and", q, constant(q.type, 1)), constant(q.type, 0))
    flip = binary(e, "shl", binary(e, "and", q, constant(q.type, 2)), constant(q.type, 62))
    return convert(e, "bitcast", binary(e, "xor", bits_of(e, select(e, odd, cosine, sine)), flip), "double")


def _reduced(e: Emitter, x: Value) -> tuple[Value, Value, Value]:
    """x modulo pi/2 as a pair between -pi/4 and pi/4, and how often pi/2 was taken away (its low bits), as i64 lanes."""
    # Without exact products of three parts the digits of 2/pi must do everything past the first eighth of a turn.
    limit = 2.0**30 if host().has_fma else math.pi / 4
    magic = constant(x.type, MAGIC)
    shifted = fma(e, x, constant(x.type, 1 / c.HALF_PI_WIDE[0]), magic)
    turns = binary(e, "fsub", shifted, magic)
    # The first difference is exact: it is a multiple of 2**-52 below 1.
    first = fma(e, turns, constant(x.type, -c.HALF_PI_WIDE[0]), x)
    step = _product(e, turns, constant(x.type, -c.HALF_PI_WIDE[1]))
    high, low = _sum(e, first, step[0])
    low = binary(e, "fadd", low, fma(e, turns, constant(x.type, -c.HALF_PI_WIDE[2]), step[1]))
    near = (*_sum(e, high, low), bits_of(e, shifted))
    far = fcmp(e, "ogt", fabs(e, x), constant(x.type, limit))
    stem, before = e.fresh("far"), e.label
    e.cbr(any_lane(e, far), f"{stem}.then", f"{stem}.done")
    e.place(f"{stem}.then")
    merged = [select(e, far, there, here) for there, here in zip(_reduce_far(e, x), near, strict=True)]
    after = e.label
    e.br(f"{stem}.done")
    e.place(f"{stem}.done")
    values = [e.inst(a.type, f"phi {a.type} [ {a.text}, %{before} ], [ {b.text}, %{after} ]") for a, b in zip(near, merged, strict=True)]
    return values[0], values[1], values[2]


_RESULT = "{ double, double, i64 }"


def _reduce_far(e: Emitter, x: Value) -> list[Value]:
    """Rest and quadrant of every lane, one lane at a time: such arguments are rare."""
    width = width_of(x.type)
    _define_far(e)
    outs = [Value("poison", typed(element, width)) for element in ("double", "double", "i64")]
    for lane in range(width):
        found = e.inst(_RESULT, f"call {_RESULT} @vm.far.double(double {extract(e, x, lane).text})")
        for position, out in enumerate(outs):
            part = e.inst("i64" if position == 2 else "double", f"extractvalue {found}, {position}")
            outs[position] = part if width == 1 else e.inst(out.type, f"insertelement {out}, {part}, i64 {lane}")
    return outs


_WINDOW = 192
"""Places of 2/pi that take part: those before them add whole turns, those behind them nothing that a pair could hold."""


def _define_far(e: Emitter) -> None:
    """`{ double, double, i64 } @vm.far.double(double)`: x from 0.5 on reduced by pi/2; the rest and the quadrant."""
    if "vm.far.double" in e.module.functions:
        return
    words = ", ".join(f"i64 {word}" for word in c.TWO_OVER_PI_BITS)
    count = len(c.TWO_OVER_PI_BITS)
    e.module.declare("vm.digits.double", f"@vm.digits.double = internal unnamed_addr constant [{count} x i64] [{words}], align 8")
    x, wide = Value("%x", "double"), "i256"
    f = Emitter(e.module, "vm.far.double", _RESULT, [x], "noinline cold", "internal")
    bits = bits_of(f, x)
    field = binary(f, "and", binary(f, "lshr", bits, constant("i64", 52)), constant("i64", 2047))
    mantissa = binary(f, "or", binary(f, "and", bits, constant("i64", (1 << 52) - 1)), constant("i64", 1 << 52))
    # x = mantissa * 2**exponent. Places of 2/pi up to exponent - 2 only add multiples of 4 quadrants.
    exponent = f.sub(field, 1075)
    place = f.min(f.max(f.sub(exponent, 2), 0), 64 * (count - 4) - 1)
    digits = f.offset(Value("@vm.digits.double", "ptr"), binary(f, "lshr", f.i64(place), constant("i64", 6)), "i64")
    shift = binary(f, "and", f.i64(place), constant("i64", 63))
    loaded = [f.load("i64", f.offset(digits, i, "i64"), 8) for i in range(4)]
    window = constant(wide, 0)
    for i in range(3):
        word = convert(f, "zext", intrinsic(f, "fshl", loaded[i], loaded[i + 1], shift), wide)
        window = binary(f, "or", window, binary(f, "shl", word, constant(wide, 128 - 64 * i)))
    product = binary(f, "mul", window, convert(f, "zext", mantissa, wide))
    # Two integer bits, then the fraction; near arguments have leading zeros.
    down = convert(f, "zext", f.i64(f.sub(2, f.min(f.max(exponent, -60), 2))), wide)
    turned = binary(f, "shl", binary(f, "lshr", product, down), constant(wide, 64))
    quadrant = convert(f, "trunc", binary(f, "lshr", turned, constant(wide, 253)), "i64")
    quadrant = binary(f, "lshr", binary(f, "add", quadrant, constant("i64", 1)), constant("i64", 1))
    # Without the integer bits, read as signed, it is the rest from the nearest quadrant.
    fraction = binary(f, "shl", turned, constant(wide, 2))
    negative = icmp(f, "slt", fraction, constant(wide, 0))
    size = select(f, negative, binary(f, "sub", constant(wide, 0), fraction), fraction)
    zeros = intrinsic(f, "ctlz", size, extra=("i1 false",))
    high, low = _leading(f, binary(f, "shl", size, zeros))
    scale = power_of_two(f, binary(f, "fsub", constant("double", -53), convert(f, "uitofp", convert(f, "trunc", zeros, "i64"), "double")))
    parts = tuple(binary(f, "fmul", part, scale) for part in (high, low))
    rest = _times(f, (parts[0], parts[1]), (constant("double", c.HALF_PI_WIDE[0]), constant("double", c.HALF_PI_WIDE[1])))
    below = fcmp(f, "olt", x, constant("double", 0))
    flipped = binary(f, "xor", below, negative)
    finite = icmp(f, "ne", field, constant("i64", 2047))
    out = Value("poison", _RESULT)
    for position, part in enumerate(rest):
        signed = select(f, flipped, unary(f, "fneg", part), part)
        out = f.inst(_RESULT, f"insertvalue {out}, {select(f, finite, signed, constant('double', float('nan')))}, {position}")
    quadrant = select(f, below, binary(f, "sub", constant("i64", 0), quadrant), quadrant)
    f.void(f"ret {f.inst(_RESULT, f'insertvalue {out}, {quadrant}, 2')}")
    f.finish()


def _leading(f: Emitter, number: Value) -> Pair:
    """The first 106 bits of an i256 as two doubles, scaled so that the first has 53 of them before the point."""
    out: list[Value] = []
    for shift, factor in ((203, 1.0), (150, 2.0**-53)):
        piece = convert(f, "trunc", binary(f, "lshr", number, constant("i256", shift)), "i64")
        whole = convert(f, "sitofp", binary(f, "and", piece, constant("i64", (1 << 53) - 1)), "double")
        out.append(binary(f, "fmul", whole, constant("double", factor)))
    return out[0], out[1]


# pow --------------------------------------------------------------------------------------------------------------------

_POW = [1 / (2 * n + 5) for n in range(10)]
_THIRD = (1 / 3, 1.850371707708594e-17)


def power(e: Emitter, x: Value, y: Value) -> Value:
    """exp(y * log|x|) with both in pairs, then the special cases of C's pow."""
    size, type = fabs(e, x), x.type
    high, low = _log(e, size)
    for special, logarithm in ((0.0, -_INF), (_INF, _INF)):
        high = select(e, fcmp(e, "oeq", size, constant(type, special)), constant(type, logarithm), high)
    grown, rest = _product(e, y, high)
    rest = binary(e, "fadd", rest, binary(e, "fmul", y, low))
    usual = fcmp(e, "olt", fabs(e, grown), constant(type, 800.0))
    return pow_special(e, x, y, exp_of_sum(e, grown, select(e, usual, rest, constant(type, 0))))


def _log(e: Emitter, x: Value) -> Pair:
    """log(x) of positive finite lanes to some 65 bits: 2*(s + s**3/3 + s**5/5 + …), s = (m - 1)/(m + 1), and n*log(2)."""
    mantissa, n = mantissa_and_exponent(e, x)
    one = constant(x.type, 1)
    top, bottom = binary(e, "fsub", mantissa, one), _sum(e, mantissa, one)
    quotient = binary(e, "fdiv", top, bottom[0])
    back = _product(e, quotient, bottom[0])
    rest = binary(e, "fsub", binary(e, "fsub", top, back[0]), back[1])
    rest = binary(e, "fsub", rest, binary(e, "fmul", quotient, bottom[1]))
    s = (quotient, binary(e, "fdiv", rest, bottom[0]))
    z = _times(e, s, s)
    series = binary(e, "fmul", z[0], polynomial(e, z[0], _POW))
    third = (constant(x.type, _THIRD[0]), constant(x.type, _THIRD[1]))
    factor = _times(e, z, _plus(e, third, (series, constant(x.type, 0))))
    small = _plus(e, s, _times(e, s, factor))
    doubled = tuple(binary(e, "fadd", part, part) for part in small)
    whole = [binary(e, "fmul", n, constant(x.type, part)) for part in c.LN2_WIDE]
    return _plus(e, (whole[0], whole[1]), (doubled[0], doubled[1]))


# fmod -------------------------------------------------------------------------------------------------------------------


def fmod(e: Emitter, x: Value, y: Value) -> Value:
    """Exact: while the quotient is long, multiples of y * 2**k are taken away first."""
    a, b = fabs(e, x), fabs(e, y)
    type = a.type
    # A product and a difference that round once reach 24 bits of the quotient at a time, without them it is one.
    reach = 24 if host().has_fma else 1

    def less(current: Value, far: Value) -> Value:
        gap = binary(e, "fsub", _exponent(e, current), _exponent(e, b))
        gap = select(e, far, binary(e, "fsub", gap, constant(type, float(reach))), constant(type, 0))
        third = intrinsic(e, "floor", binary(e, "fmul", gap, constant(type, 1 / 3)))
        factor = power_of_two(e, third)
        grown = binary(e, "fmul", binary(e, "fmul", b, factor), factor)
        grown = binary(e, "fmul", grown, power_of_two(e, binary(e, "fsub", gap, binary(e, "fadd", third, third))))
        return _shortened(e, current, grown)

    current, usable = near(e, a, b, reach, less)
    rest = _shortened(e, current, b)
    rest = select(e, fcmp(e, "olt", current, b), current, rest)
    rest = select(e, usable, rest, constant(type, float("nan")))
    return intrinsic(e, "copysign", rest, x)


def _shortened(e: Emitter, a: Value, b: Value) -> Value:
    """a less a multiple of b, exactly: all of them where one rounding does for product and difference, else the last power of two."""
    if host().has_fma:
        return take_away(e, a, b)
    twice = binary(e, "fadd", b, b)
    return binary(e, "fsub", a, select(e, fcmp(e, "oge", a, twice), twice, b))


def _exponent(e: Emitter, x: Value) -> Value:
    """The binary exponent of positive lanes (and 1023), as doubles."""
    tiny = fcmp(e, "olt", x, constant(x.type, 2.0**-1022))
    bits = bits_of(e, select(e, tiny, binary(e, "fmul", x, constant(x.type, 2.0**54)), x))
    field = binary(e, "or", binary(e, "lshr", bits, constant(bits.type, 52)), constant(bits.type, 0x4330000000000000))
    whole = convert(e, "bitcast", field, "double")
    return binary(e, "fsub", whole, select(e, tiny, constant(x.type, 2.0**52 + 54), constant(x.type, 2.0**52)))
