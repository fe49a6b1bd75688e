"""Functions on float lanes that are computed in double: sin, cos, pow, fmod."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from tilejit.backends.cpu.lanes import coefficients as c
from tilejit.backends.cpu.lanes.vmath_blocks import any_lane, at_least, at_most, bits_of, fabs, fma, polynomial
from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.cpu.llvm.text import Emitter, Value
from tilejit.backends.cpu.llvm.vector import binary, constant, convert, extract, fcmp, icmp, intrinsic, like, select, typed, unary, width_of

_INF = float("inf")

# sin and cos ------------------------------------------------------------------------------------------------------------

_FAR = 2.0**30
"""Beyond this the argument is reduced with the digits of 2/pi that matter for it."""


def _short_parts(whole: Fraction) -> list[float]:
    """A number between 1 and 2 as three numbers of 23 bits, whose products with whole numbers of 30 bits are exact, and the rest."""
    parts: list[float] = []
    for bits in (22, 45, 68):
        parts.append(float(Fraction(int(whole * 2**bits), 2**bits)))
        whole -= Fraction(parts[-1])
    return [*parts, float(whole)]


_SHORT_PARTS = _short_parts(sum(map(Fraction, c.HALF_PI_WIDE), Fraction(0)))
"""pi/2 for processors that round products before they add them."""


def trigonometric(quarter: int) -> Callable[[Emitter, Value], Value]:
    """sin (quarter 0) or cos (quarter 1: a quarter turn ahead)."""

    def body(e: Emitter, x: Value) -> Value:
        rest, count = reduced(e, x)
        return _quadrant(e, convert(e, "fptrunc", rest, "float"), binary(e, "add", count, constant(count.type, quarter)), x if quarter == 0 else None)

    return body


def reduced(e: Emitter, x: Value) -> tuple[Value, Value]:
    """x modulo pi/2 as double lanes between -pi/4 and pi/4, and how often pi/2 was taken away, as i32 lanes."""
    wide = convert(e, "fpext", x, "double")
    turns = intrinsic(e, "roundeven", binary(e, "fmul", wide, constant(wide.type, 1 / c.HALF_PI_WIDE[0])))
    near = wide
    for part in c.HALF_PI_WIDE[:2] if host().has_fma else _SHORT_PARTS:
        near = fma(e, turns, constant(wide.type, -part), near)
    # NaN and far arguments give poison here, which freeze turns into some integer.
    count = unary(e, "freeze", convert(e, "fptosi", turns, "i32"))
    far = fcmp(e, "ogt", fabs(e, x), constant(x.type, _FAR))
    stem = e.fresh("far")
    before = e.label
    e.cbr(any_lane(e, far), f"{stem}.then", f"{stem}.done")
    e.place(f"{stem}.then")
    far_rest, far_count = _reduce_far(e, x)
    merged = select(e, far, far_rest, near), select(e, far, far_count, count)
    after = e.label
    e.br(f"{stem}.done")
    e.place(f"{stem}.done")
    rest = e.inst(near.type, f"phi {near.type} [ {near.text}, %{before} ], [ {merged[0].text}, %{after} ]")
    quadrant = e.inst(count.type, f"phi {count.type} [ {count.text}, %{before} ], [ {merged[1].text}, %{after} ]")
    return rest, quadrant


_SIN_TAYLOR = [(-1.0) ** (n + 1) / math.factorial(2 * n + 3) for n in range(7)]
_COS_TAYLOR = [(-1.0) ** n / math.factorial(2 * n) for n in range(9)]


def quadrant_in_double(e: Emitter, r: Value, q: Value, zero: Value | None) -> Value:
    """As `_quadrant`, for the rest in double: rounded once."""
    square = binary(e, "fmul", r, r)
    sine = fma(e, binary(e, "fmul", r, square), polynomial(e, square, _SIN_TAYLOR), r)
    cosine = polynomial(e, square, _COS_TAYLOR)
    odd = icmp(e, "ne", binary(e, "and", q, constant(q.type, 1)), constant(q.type, 0))
    flip = binary(e, "shl", binary(e, "and", q, constant(q.type, 2)), constant(q.type, 30))
    out = bits_of(e, convert(e, "fptrunc", select(e, odd, cosine, sine), "float"))
    out = convert(e, "bitcast", binary(e, "xor", out, flip), "float")
    return out if zero is None else select(e, fcmp(e, "oeq", zero, constant(zero.type, 0)), zero, out)


def _quadrant(e: Emitter, r: Value, q: Value, zero: Value | None) -> Value:
    """sin(r + q*pi/2); where r is a zero, sin keeps the sign of `zero`."""
    square = binary(e, "fmul", r, r)
    sine = fma(e, binary(e, "fmul", r, square), polynomial(e, square, c.SIN), r)
    if zero is not None:
        sine = select(e, fcmp(e, "oeq", zero, constant(r.type, 0)), zero, sine)
    cosine = fma(e, square, constant(r.type, -0.5), constant(r.type, 1))
    cosine = fma(e, binary(e, "fmul", square, square), polynomial(e, square, c.COS), cosine)
    odd = icmp(e, "ne", binary(e, "and", q, constant(q.type, 1)), constant(q.type, 0))
    flip = binary(e, "shl", binary(e, "and", q, constant(q.type, 2)), constant(q.type, 30))
    return convert(e, "bitcast", binary(e, "xor", bits_of(e, select(e, odd, cosine, sine)), flip), "float")


def _reduce_far(e: Emitter, x: Value) -> tuple[Value, Value]:
    """Rest and quadrant of every lane, one lane at a time: such arguments are rare."""
    width = width_of(x.type)
    _define_far(e)
    rests, counts = Value("poison", typed("double", width)), Value("poison", typed("i32", width))
    for lane in range(width):
        pair = e.inst(_PAIR, f"call {_PAIR} @vm.far(float {extract(e, x, lane).text})")
        rest = e.inst("double", f"extractvalue {pair}, 0")
        count = convert(e, "trunc", e.inst("i64", f"extractvalue {pair}, 1"), "i32")
        rests = rest if width == 1 else e.inst(rests.type, f"insertelement {rests}, {rest}, i64 {lane}")
        counts = count if width == 1 else e.inst(counts.type, f"insertelement {counts}, {count}, i64 {lane}")
    return rests, counts


_PAIR = "{ double, i64 }"


def _define_far(e: Emitter) -> None:
    """`{ double, i64 } @vm.far(float)`: x reduced by pi/2 with 128 bits of 2/pi; the rest and the quadrant."""
    if "vm.far" in e.module.functions:
        return
    words = ", ".join(f"i64 {word}" for word in c.TWO_OVER_PI_BITS[:4])
    e.module.declare("vm.digits", f"@vm.digits = internal unnamed_addr constant [4 x i64] [{words}], align 8")
    x = Value("%x", "float")
    f = Emitter(e.module, "vm.far", _PAIR, [x], "noinline cold", "internal")
    bits = convert(f, "zext", bits_of(f, x), "i64")
    exponent = binary(f, "and", binary(f, "lshr", bits, constant("i64", 23)), constant("i64", 255))
    mantissa = binary(f, "or", binary(f, "and", bits, constant("i64", 0x7FFFFF)), constant("i64", 0x800000))
    # x = mantissa * 2**(exponent - 150). Places of 2/pi up to exponent - 152 only add multiples of 4 quadrants.
    # Lanes that are not far come here too: the clamp keeps them inside the table.
    place = f.min(f.max(f.sub(exponent, 152), 0), 103)
    digits = f.offset(Value("@vm.digits", "ptr"), binary(f, "lshr", f.i64(place), constant("i64", 6)), "i64")
    shift = binary(f, "and", f.i64(place), constant("i64", 63))
    loaded = [f.load("i64", f.offset(digits, i, "i64"), 8) for i in range(3)]
    high, low = (convert(f, "zext", intrinsic(f, "fshl", loaded[i], loaded[i + 1], shift), "i128") for i in range(2))
    window = binary(f, "or", binary(f, "shl", high, constant("i128", 64)), low)
    product = binary(f, "mul", window, convert(f, "zext", mantissa, "i128"))
    # Two integer bits, then the fraction; read as a signed number it is already the rest from the nearest quadrant.
    quadrant = convert(f, "trunc", binary(f, "lshr", product, constant("i128", 125)), "i64")
    quadrant = binary(f, "lshr", binary(f, "add", quadrant, constant("i64", 1)), constant("i64", 1))
    fraction = convert(f, "trunc", binary(f, "lshr", binary(f, "shl", product, constant("i128", 2)), constant("i128", 64)), "i64")
    rest = binary(f, "fmul", convert(f, "sitofp", fraction, "double"), constant("double", c.HALF_PI_WIDE[0] * 2.0**-64))
    negative = fcmp(f, "olt", x, constant("float", 0))
    rest = select(f, negative, unary(f, "fneg", rest), rest)
    quadrant = select(f, negative, binary(f, "sub", constant("i64", 0), quadrant), quadrant)
    finite = icmp(f, "ne", exponent, constant("i64", 255))
    rest = select(f, finite, rest, constant("double", float("nan")))
    half = f.inst(_PAIR, f"insertvalue {_PAIR} poison, {rest}, 0")
    f.void(f"ret {f.inst(_PAIR, f'insertvalue {half}, {quadrant}, 1')}")
    f.finish()


# pow and fmod, in double ------------------------------------------------------------------------------------------------


def power(e: Emitter, x: Value, y: Value) -> Value:
    """2**(y * log2|x|) in double, then the special cases of C's pow."""
    size, exponent = convert(e, "fpext", fabs(e, x), "double"), convert(e, "fpext", y, "double")
    type = size.type
    log2 = select(e, fcmp(e, "oeq", size, constant(type, 0)), constant(type, -_INF), log2_of_positive(e, size))
    log2 = select(e, fcmp(e, "oeq", size, constant(type, _INF)), constant(type, _INF), log2)
    power = at_most(e, at_least(e, binary(e, "fmul", exponent, log2), -200.0), 200.0)
    whole = intrinsic(e, "roundeven", power)
    grown = polynomial(e, binary(e, "fsub", power, whole), c.EXP2_WIDE)
    count = unary(e, "freeze", convert(e, "fptosi", whole, "i32"))
    shifted = convert(e, "sext", binary(e, "add", count, constant(count.type, 1023)), "i64")
    factor = binary(e, "shl", shifted, constant(shifted.type, 52))
    out = convert(e, "fptrunc", binary(e, "fmul", grown, convert(e, "bitcast", factor, "double")), "float")
    return pow_special(e, x, y, out)


def log2_of_positive(e: Emitter, x: Value) -> Value:
    """The binary logarithm of positive finite lanes of doubles that are the values of floats."""
    bits = bits_of(e, x)
    n = binary(e, "ashr", binary(e, "sub", bits, constant(bits.type, 0x3FE6A09E667F3BCD)), constant(bits.type, 52))
    mantissa = convert(e, "bitcast", binary(e, "sub", bits, binary(e, "shl", n, constant(bits.type, 52))), "double")
    one = constant(x.type, 1)
    quotient = binary(e, "fdiv", binary(e, "fsub", mantissa, one), binary(e, "fadd", mantissa, one))
    log2 = binary(e, "fmul", quotient, polynomial(e, binary(e, "fmul", quotient, quotient), c.LOG2_WIDE))
    return binary(e, "fadd", convert(e, "sitofp", convert(e, "trunc", n, "i32"), "double"), log2)


def pow_special(e: Emitter, x: Value, y: Value, out: Value) -> Value:
    """The cases of C's pow that no logarithm gives."""
    zero, one = constant(x.type, 0), constant(x.type, 1)
    whole = fcmp(e, "oeq", intrinsic(e, "trunc", y), y)
    half = binary(e, "fmul", y, constant(x.type, 0.5))
    odd = binary(e, "and", whole, fcmp(e, "one", intrinsic(e, "trunc", half), half))
    bits = bits_of(e, x)
    sign = icmp(e, "slt", bits, constant(bits.type, 0))
    out = select(e, binary(e, "and", sign, odd), unary(e, "fneg", out), out)
    # A negative finite base needs a whole exponent.
    base = binary(e, "and", fcmp(e, "olt", x, zero), fcmp(e, "one", x, constant(x.type, -_INF)))
    fractional = binary(e, "and", binary(e, "xor", whole, constant(whole.type, True)), fcmp(e, "ord", y, y))
    out = select(e, binary(e, "and", base, fractional), constant(x.type, float("nan")), out)
    out = select(e, fcmp(e, "uno", x, y), constant(x.type, float("nan")), out)
    # |x| = 1 to an infinite power is 1; x**0 and 1**y are 1 even for NaN.
    endless = fcmp(e, "oeq", fabs(e, y), constant(x.type, _INF))
    out = select(e, binary(e, "and", endless, fcmp(e, "oeq", fabs(e, x), one)), one, out)
    trivial = binary(e, "or", fcmp(e, "oeq", y, zero), fcmp(e, "oeq", x, one))
    return select(e, trivial, one, out)


def fmod(e: Emitter, x: Value, y: Value) -> Value:
    """Exact: while the quotient is too long for a double, multiples of y * 2**k are taken away first."""
    a, b = (convert(e, "fpext", fabs(e, v), "double") for v in (x, y))
    bits = like(a, "i64")

    def less(current: Value, far: Value) -> Value:
        exponents = [binary(e, "lshr", bits_of(e, v), constant(bits, 52)) for v in (current, b)]
        gap = binary(e, "sub", binary(e, "sub", *exponents), constant(bits, 24))
        factor = convert(e, "bitcast", binary(e, "shl", binary(e, "add", gap, constant(bits, 1023)), constant(bits, 52)), "double")
        return take_away(e, current, binary(e, "fmul", b, factor))

    current, usable = near(e, a, b, 24, less)
    rest = take_away(e, current, b)
    rest = select(e, binary(e, "and", usable, fcmp(e, "olt", current, b)), current, rest)
    return intrinsic(e, "copysign", convert(e, "fptrunc", rest, "float"), x)


def near(e: Emitter, a: Value, b: Value, reach: int, less: Callable[[Value, Value], Value]) -> tuple[Value, Value]:
    """a, made `less` by multiples of b where it is 2**reach of them or more (the lanes `far`) until it is not; and where there is a remainder at all."""
    type = a.type
    limit = binary(e, "fmul", b, constant(type, 2.0**reach))
    usable = binary(e, "and", fcmp(e, "ogt", b, constant(type, 0)), fcmp(e, "olt", a, constant(type, _INF)))
    head, body, done = (e.fresh("fmod") for _ in range(3))
    before = e.label
    e.br(head)
    e.place(head)
    current = Value(f"%{e.fresh('left')}", type)
    following = f"%{e.fresh('next')}"
    e.void(f"{current.text} = phi {type} [ {a.text}, %{before} ], [ {following}, %{body} ]")
    far = binary(e, "and", usable, fcmp(e, "oge", current, limit))
    e.cbr(any_lane(e, far), body, done)
    e.place(body)
    e.void(f"{following} = select {far}, {less(current, far)}, {current}")
    e.br(head)
    e.place(done)
    return current, usable


def take_away(e: Emitter, a: Value, b: Value) -> Value:
    """a modulo b for 0 <= a, a / b < 2**53."""
    quotient = intrinsic(e, "trunc", binary(e, "fdiv", a, b))
    rest = fma(e, unary(e, "fneg", quotient), b, a)
    rest = select(e, fcmp(e, "olt", rest, constant(a.type, 0)), binary(e, "fadd", rest, b), rest)
    return select(e, fcmp(e, "oge", rest, b), binary(e, "fsub", rest, b), rest)


