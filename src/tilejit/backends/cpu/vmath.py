"""Mathematical functions on float lanes, as internal LLVM functions, one per function and width.

Errors against the exact value: exp, log, tanh, sigmoid, sin, cos, pow at most 2 ULP, erf at most 4 ULP, fmod exact, over all floats
including subnormals; infinities, NaN and signed zeros as in IEEE 754. The polynomials come from scripts/fit_polynomials.py.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

from tilejit.backends.cpu import coefficients as c
from tilejit.backends.cpu.emit import Emitter, Value
from tilejit.backends.cpu.host import host
from tilejit.backends.cpu.vector import (
    binary, constant, convert, element_of, extract, fcmp, icmp, intrinsic, like, literal, select, shuffle, typed, unary, width_of,
)  # fmt: skip

_INF = float("inf")
_LOG2E = 1.4426950408889634
_MAGIC = 12582912.0
"""1.5 * 2**23: adding it rounds a float to an integer, which then lies in the low mantissa bits."""


def call(e: Emitter, name: str, operands: Sequence[Value]) -> Value:
    """`name` of float lanes; the function is added to the module when it is first used."""
    type = operands[0].type
    function = f"vm.{name}.{width_of(type)}"
    if function not in e.module.functions:
        body, attributes = _FUNCTIONS[name]
        params = [Value(f"%x{i}", type) for i in range(len(operands))]
        inner = Emitter(e.module, function, type, params, attributes, "internal")
        inner.void(f"ret {body(inner, *params)}")
        inner.finish()
    return e.inst(type, f"call {type} @{function}({', '.join(map(str, operands))})")


# building blocks --------------------------------------------------------------------------------------------------------


def fma(e: Emitter, a: Value, b: Value, addend: Value) -> Value:
    """a*b + addend, rounded once where the processor can."""
    if host().has_fma:
        return intrinsic(e, "fma", a, b, addend)
    return binary(e, "fadd", binary(e, "fmul", a, b), addend)


def polynomial(e: Emitter, x: Value, coefficients: Sequence[float]) -> Value:
    """c0 + c1 x + … by Horner's rule."""
    out = constant(x.type, coefficients[-1])
    for number in coefficients[-2::-1]:
        out = fma(e, out, x, constant(x.type, number))
    return out


def _at_most(e: Emitter, x: Value, limit: float) -> Value:
    """min(x, limit); NaN passes."""
    bound = constant(x.type, limit)
    return select(e, fcmp(e, "ogt", x, bound), bound, x)


def _at_least(e: Emitter, x: Value, limit: float) -> Value:
    bound = constant(x.type, limit)
    return select(e, fcmp(e, "olt", x, bound), bound, x)


def _fabs(e: Emitter, x: Value) -> Value:
    return intrinsic(e, "fabs", x)


def _bits(e: Emitter, x: Value) -> Value:
    return convert(e, "bitcast", x, "i32" if element_of(x.type) == "float" else "i64")


def _any(e: Emitter, mask: Value) -> Value:
    return mask if width_of(mask.type) == 1 else intrinsic(e, "vector.reduce.or", mask, result="i1")


def _power_of_two(e: Emitter, n: Value) -> Value:
    """2**n for i32 lanes within the normal range."""
    shifted = binary(e, "shl", binary(e, "add", n, constant(n.type, 127)), constant(n.type, 23))
    return convert(e, "bitcast", shifted, "float")


def _scale(e: Emitter, x: Value, n: Value) -> Value:
    """x * 2**n for integral float lanes n in [-300, 300], with one rounding into the subnormals."""
    width = width_of(x.type)
    if host().vector_bits == 512 and width >= 4:
        return _scale_native(e, x, n, width)
    # Converting NaN gives poison; frozen it is some integer, and NaN times anything stays NaN.
    count = unary(e, "freeze", convert(e, "fptosi", n, "i32"))
    half = binary(e, "ashr", count, constant(count.type, 1))
    out = binary(e, "fmul", x, _power_of_two(e, half))
    return binary(e, "fmul", out, _power_of_two(e, binary(e, "sub", count, half)))


def _scale_native(e: Emitter, x: Value, n: Value, width: int) -> Value:
    if width > 16:
        low = _scale_native(e, shuffle(e, x, None, range(width // 2)), shuffle(e, n, None, range(width // 2)), width // 2)
        high = _scale_native(e, shuffle(e, x, None, range(width // 2, width)), shuffle(e, n, None, range(width // 2, width)), width // 2)
        return shuffle(e, low, high, range(width))
    name = f"llvm.x86.avx512.mask.scalef.ps.{width * 32}"
    mask, rounding = ("i16", ", i32") if width == 16 else ("i8", "")
    e.module.declare(name, f"declare {x.type} @{name}({x.type}, {x.type}, {x.type}, {mask}{rounding})")
    return e.inst(x.type, f"call {x.type} @{name}({x}, {n}, {x}, {mask} -1{', i32 4' if rounding else ''})")


def lookup(e: Emitter, table: Sequence[float], index: Value) -> Value:
    """table[index mod 16] in every lane, by a permutation of registers where the processor has one."""
    width = width_of(index.type)
    native = {512: 16, 256: 8}.get(host().vector_bits, 0)
    if native == 0 or width < 4:
        return _lookup_in_memory(e, table, index)
    if width > native:
        low, high = (lookup(e, table, shuffle(e, index, None, part)) for part in (range(width // 2), range(width // 2, width)))
        return shuffle(e, low, high, range(width))
    if width < native:
        wide = lookup(e, table, shuffle(e, index, None, [*range(width), *[-1] * (native - width)]))
        return shuffle(e, wide, None, range(width))
    if native == 16:
        return _permuted(e, "llvm.x86.avx512.permvar.sf.512", table, index)
    halves = [_permuted(e, "llvm.x86.avx2.permps", table[at : at + 8], index) for at in (0, 8)]
    second = icmp(e, "ne", binary(e, "and", index, constant(index.type, 8)), constant(index.type, 0))
    return select(e, second, halves[1], halves[0])


def _permuted(e: Emitter, name: str, table: Sequence[float], index: Value) -> Value:
    type = like(index, "float")
    e.module.declare(name, f"declare {type} @{name}({type}, {index.type})")
    entries = ", ".join(f"float {literal('float', number)}" for number in table)
    return e.inst(type, f"call {type} @{name}({type} <{entries}>, {index})")


def _lookup_in_memory(e: Emitter, table: Sequence[float], index: Value) -> Value:
    entries = ", ".join(f"float {literal('float', number)}" for number in table)
    name = f"vm.table.{zlib.crc32(entries.encode()):08x}"
    e.module.declare(name, f"@{name} = internal unnamed_addr constant [16 x float] [{entries}], align 64")
    width = width_of(index.type)
    places = convert(e, "zext", binary(e, "and", index, constant(index.type, 15)), "i64")
    out = Value("poison", like(index, "float"))
    for lane in range(width):
        one = e.load("float", e.offset(Value(f"@{name}", "ptr"), extract(e, places, lane), "float"), 4)
        out = one if width == 1 else e.inst(out.type, f"insertelement {out}, {one}, i64 {lane}")
    return out


# exp, log and what rests on exp -----------------------------------------------------------------------------------------


def _exp_parts(e: Emitter, x: Value) -> tuple[Value, Value]:
    """exp(x) = p * 2**n for x in a range where n is small: (p, n as float)."""
    magic = constant(x.type, _MAGIC)
    n = binary(e, "fsub", fma(e, x, constant(x.type, _LOG2E), magic), magic)
    r = fma(e, n, constant(x.type, -c.LN2[0]), x)
    r = fma(e, n, constant(x.type, -c.LN2[1]), r)
    tail = fma(e, polynomial(e, r, c.EXP), binary(e, "fmul", r, r), r)
    return binary(e, "fadd", tail, constant(x.type, 1)), n


def _exp(e: Emitter, x: Value) -> Value:
    # Past these bounds the result is 0 or infinity; NaN passes both clamps.
    p, n = _exp_parts(e, _at_most(e, _at_least(e, x, -104.0), 89.0))
    return _scale(e, p, n)


def _exp_bounded(e: Emitter, x: Value) -> Value:
    """exp(x) for x in [-87, 88], where the result is normal."""
    p, n = _exp_parts(e, x)
    count = convert(e, "fptosi", n, "i32")
    return convert(e, "bitcast", binary(e, "add", _bits(e, p), binary(e, "shl", count, constant(count.type, 23))), "float")


def _log(e: Emitter, x: Value) -> Value:
    tiny = fcmp(e, "olt", x, constant(x.type, 2.0**-126))
    normal = select(e, tiny, binary(e, "fmul", x, constant(x.type, 2.0**23)), x)
    bits = _bits(e, normal)
    # The mantissa is taken in [sqrt(1/2), sqrt(2)), so that log is small when the exponent is 0.
    exponent = binary(e, "ashr", binary(e, "sub", bits, constant(bits.type, 0x3F3504F3)), constant(bits.type, 23))
    mantissa = convert(e, "bitcast", binary(e, "sub", bits, binary(e, "shl", exponent, constant(bits.type, 23))), "float")
    exponent = binary(e, "sub", exponent, select(e, tiny, constant(bits.type, 23), constant(bits.type, 0)))
    n = convert(e, "sitofp", exponent, "float")
    f = binary(e, "fsub", mantissa, constant(x.type, 1))
    square = binary(e, "fmul", f, f)
    tail = binary(e, "fmul", binary(e, "fmul", square, f), polynomial(e, f, c.LOG))
    tail = fma(e, n, constant(x.type, c.LN2[1]), tail)
    tail = fma(e, square, constant(x.type, -0.5), tail)
    out = fma(e, n, constant(x.type, c.LN2[0]), binary(e, "fadd", f, tail))
    out = select(e, fcmp(e, "oeq", x, constant(x.type, _INF)), x, out)
    out = select(e, fcmp(e, "oeq", x, constant(x.type, 0)), constant(x.type, -_INF), out)
    return select(e, fcmp(e, "ult", x, constant(x.type, 0)), constant(x.type, float("nan")), out)


def _tanh(e: Emitter, x: Value) -> Value:
    size = _fabs(e, x)
    one = constant(x.type, 1)
    # From 9.02 on tanh rounds to 1.
    grown = _exp_bounded(e, binary(e, "fmul", _at_most(e, size, 10.0), constant(x.type, 2)))
    large = binary(e, "fsub", one, binary(e, "fdiv", constant(x.type, 2), binary(e, "fadd", grown, one)))
    square = binary(e, "fmul", x, x)
    small = fma(e, binary(e, "fmul", x, square), polynomial(e, square, c.TANH), x)
    out = select(e, fcmp(e, "olt", size, constant(x.type, 0.625)), small, large)
    return select(e, fcmp(e, "uno", x, x), x, intrinsic(e, "copysign", out, x))


def _sigmoid(e: Emitter, x: Value) -> Value:
    one = constant(x.type, 1)
    shrunk = _exp(e, unary(e, "fneg", _fabs(e, x)))
    top = select(e, fcmp(e, "olt", x, constant(x.type, 0)), shrunk, one)
    return binary(e, "fdiv", top, binary(e, "fadd", shrunk, one))


def _erf(e: Emitter, x: Value) -> Value:
    size = _at_most(e, _fabs(e, x), c.ERF_LIMIT)
    magic = constant(x.type, _MAGIC)
    shifted = fma(e, size, constant(x.type, 1 / c.ERF_STEP), magic)
    u = fma(e, binary(e, "fsub", shifted, magic), constant(x.type, -c.ERF_STEP), size)
    # The number of the nearest centre lies in the low bits.
    index = _bits(e, shifted)
    out = lookup(e, c.ERF[-1], index)
    for row in c.ERF[-2::-1]:
        out = fma(e, out, u, lookup(e, row, index))
    return intrinsic(e, "copysign", out, x)


# sin and cos ------------------------------------------------------------------------------------------------------------

_FAR = 2.0**30
"""Beyond this the argument is reduced with the digits of 2/pi that matter for it."""


def _trigonometric(quarter: int) -> Callable[[Emitter, Value], Value]:
    """sin (quarter 0) or cos (quarter 1: a quarter turn ahead)."""

    def body(e: Emitter, x: Value) -> Value:
        wide = convert(e, "fpext", x, "double")
        turns = intrinsic(e, "roundeven", binary(e, "fmul", wide, constant(wide.type, 1 / c.HALF_PI_WIDE[0])))
        rest = fma(e, turns, constant(wide.type, -c.HALF_PI_WIDE[0]), wide)
        rest = fma(e, turns, constant(wide.type, -c.HALF_PI_WIDE[1]), rest)
        near = convert(e, "fptrunc", rest, "float")
        # NaN and far arguments give poison here, which freeze turns into some integer.
        count = unary(e, "freeze", convert(e, "fptosi", turns, "i32"))
        far = fcmp(e, "ogt", _fabs(e, x), constant(x.type, _FAR))
        stem = e.fresh("far")
        before = e.label
        e.cbr(_any(e, far), f"{stem}.then", f"{stem}.done")
        e.place(f"{stem}.then")
        far_rest, far_count = _reduce_far(e, x)
        merged = select(e, far, far_rest, near), select(e, far, far_count, count)
        after = e.label
        e.br(f"{stem}.done")
        e.place(f"{stem}.done")
        r = e.inst(near.type, f"phi {near.type} [ {near.text}, %{before} ], [ {merged[0].text}, %{after} ]")
        q = e.inst(count.type, f"phi {count.type} [ {count.text}, %{before} ], [ {merged[1].text}, %{after} ]")
        return _quadrant(e, r, binary(e, "add", q, constant(q.type, quarter)), x if quarter == 0 else None)

    return body


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
    return convert(e, "bitcast", binary(e, "xor", _bits(e, select(e, odd, cosine, sine)), flip), "float")


def _reduce_far(e: Emitter, x: Value) -> tuple[Value, Value]:
    """Rest and quadrant of every lane, one lane at a time: such arguments are rare."""
    width = width_of(x.type)
    _define_far(e)
    packed = typed("i64", width)
    box = Value("poison", packed)
    for lane in range(width):
        one = e.inst("i64", f"call i64 @vm.far(float {extract(e, x, lane).text})")
        box = one if width == 1 else e.inst(packed, f"insertelement {box}, {one}, i64 {lane}")
    rest = convert(e, "bitcast", convert(e, "trunc", box, "i32"), "float")
    return rest, convert(e, "trunc", binary(e, "lshr", box, constant(packed, 32)), "i32")


def _define_far(e: Emitter) -> None:
    """`i64 @vm.far(float)`: x reduced by pi/2 with 128 bits of 2/pi; the rest's bits below, the quadrant above."""
    if "vm.far" in e.module.functions:
        return
    words = ", ".join(f"i64 {word}" for word in c.TWO_OVER_PI_BITS)
    e.module.declare("vm.digits", f"@vm.digits = internal unnamed_addr constant [4 x i64] [{words}], align 8")
    x = Value("%x", "float")
    f = Emitter(e.module, "vm.far", "i64", [x], "noinline cold", "internal")
    bits = convert(f, "zext", _bits(f, x), "i64")
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
    out = _bits(f, select(f, finite, convert(f, "fptrunc", rest, "float"), constant("float", float("nan"))))
    f.void(f"ret {binary(f, 'or', convert(f, 'zext', out, 'i64'), binary(f, 'shl', quadrant, constant('i64', 32)))}")
    f.finish()


# pow and fmod, in double ------------------------------------------------------------------------------------------------


def _pow(e: Emitter, x: Value, y: Value) -> Value:
    """2**(y * log2|x|) in double, then the special cases of C's pow."""
    size, exponent = convert(e, "fpext", _fabs(e, x), "double"), convert(e, "fpext", y, "double")
    type = size.type
    bits = _bits(e, size)
    n = binary(e, "ashr", binary(e, "sub", bits, constant(bits.type, 0x3FE6A09E667F3BCD)), constant(bits.type, 52))
    mantissa = convert(e, "bitcast", binary(e, "sub", bits, binary(e, "shl", n, constant(bits.type, 52))), "double")
    one = constant(type, 1)
    quotient = binary(e, "fdiv", binary(e, "fsub", mantissa, one), binary(e, "fadd", mantissa, one))
    log2 = binary(e, "fmul", quotient, polynomial(e, binary(e, "fmul", quotient, quotient), c.LOG2_WIDE))
    log2 = binary(e, "fadd", convert(e, "sitofp", convert(e, "trunc", n, "i32"), "double"), log2)
    log2 = select(e, fcmp(e, "oeq", size, constant(type, 0)), constant(type, -_INF), log2)
    log2 = select(e, fcmp(e, "oeq", size, constant(type, _INF)), constant(type, _INF), log2)
    power = _at_most(e, _at_least(e, binary(e, "fmul", exponent, log2), -200.0), 200.0)
    whole = intrinsic(e, "roundeven", power)
    grown = polynomial(e, binary(e, "fsub", power, whole), c.EXP2_WIDE)
    count = unary(e, "freeze", convert(e, "fptosi", whole, "i32"))
    factor = binary(e, "shl", convert(e, "sext", binary(e, "add", count, constant(count.type, 1023)), "i64"), constant(bits.type, 52))
    out = convert(e, "fptrunc", binary(e, "fmul", grown, convert(e, "bitcast", factor, "double")), "float")
    return _pow_special(e, x, y, out)


def _pow_special(e: Emitter, x: Value, y: Value, out: Value) -> Value:
    zero, one = constant(x.type, 0), constant(x.type, 1)
    whole = fcmp(e, "oeq", intrinsic(e, "trunc", y), y)
    half = binary(e, "fmul", y, constant(x.type, 0.5))
    odd = binary(e, "and", whole, fcmp(e, "one", intrinsic(e, "trunc", half), half))
    sign = icmp(e, "slt", _bits(e, x), constant(like(x, "i32"), 0))
    out = select(e, binary(e, "and", sign, odd), unary(e, "fneg", out), out)
    # A negative finite base needs a whole exponent.
    base = binary(e, "and", fcmp(e, "olt", x, zero), fcmp(e, "one", x, constant(x.type, -_INF)))
    fractional = binary(e, "and", binary(e, "xor", whole, constant(whole.type, True)), fcmp(e, "ord", y, y))
    out = select(e, binary(e, "and", base, fractional), constant(x.type, float("nan")), out)
    out = select(e, fcmp(e, "uno", x, y), constant(x.type, float("nan")), out)
    # |x| = 1 to an infinite power is 1; x**0 and 1**y are 1 even for NaN.
    endless = fcmp(e, "oeq", _fabs(e, y), constant(x.type, _INF))
    out = select(e, binary(e, "and", endless, fcmp(e, "oeq", _fabs(e, x), one)), one, out)
    trivial = binary(e, "or", fcmp(e, "oeq", y, zero), fcmp(e, "oeq", x, one))
    return select(e, trivial, one, out)


def _fmod(e: Emitter, x: Value, y: Value) -> Value:
    """Exact: while the quotient is too long for a double, multiples of y * 2**k are taken away first."""
    a, b = (convert(e, "fpext", _fabs(e, v), "double") for v in (x, y))
    type, bits = a.type, like(a, "i64")
    limit = binary(e, "fmul", b, constant(type, 2.0**24))
    usable = binary(e, "and", fcmp(e, "ogt", b, constant(type, 0)), fcmp(e, "olt", a, constant(type, _INF)))
    head, body, done = (e.fresh("fmod") for _ in range(3))
    before = e.label
    e.br(head)
    e.place(head)
    current = Value(f"%{e.fresh('left')}", type)
    following = f"%{e.fresh('next')}"
    e.void(f"{current.text} = phi {type} [ {a.text}, %{before} ], [ {following}, %{body} ]")
    far = binary(e, "and", usable, fcmp(e, "oge", current, limit))
    e.cbr(_any(e, far), body, done)
    e.place(body)
    exponents = [binary(e, "lshr", _bits(e, v), constant(bits, 52)) for v in (current, b)]
    gap = binary(e, "sub", binary(e, "sub", *exponents), constant(bits, 24))
    factor = convert(e, "bitcast", binary(e, "shl", binary(e, "add", gap, constant(bits, 1023)), constant(bits, 52)), "double")
    reduced = _take_away(e, current, binary(e, "fmul", b, factor))
    e.void(f"{following} = select {far}, {reduced}, {current}")
    e.br(head)
    e.place(done)
    rest = _take_away(e, current, b)
    rest = select(e, binary(e, "and", usable, fcmp(e, "olt", current, b)), current, rest)
    return intrinsic(e, "copysign", convert(e, "fptrunc", rest, "float"), x)


def _take_away(e: Emitter, a: Value, b: Value) -> Value:
    """a modulo b for 0 <= a, a / b < 2**53."""
    quotient = intrinsic(e, "trunc", binary(e, "fdiv", a, b))
    rest = fma(e, unary(e, "fneg", quotient), b, a)
    rest = select(e, fcmp(e, "olt", rest, constant(a.type, 0)), binary(e, "fadd", rest, b), rest)
    return select(e, fcmp(e, "oge", rest, b), binary(e, "fsub", rest, b), rest)


_INLINE, _OUTLINE = "alwaysinline nounwind", "noinline nounwind"

_FUNCTIONS: dict[str, tuple[Callable[..., Value], str]] = {
    "exp": (_exp, _INLINE),
    "log": (_log, _INLINE),
    "tanh": (_tanh, _INLINE),
    "sigmoid": (_sigmoid, _INLINE),
    "erf": (_erf, _INLINE),
    "sin": (_trigonometric(0), _INLINE),
    "cos": (_trigonometric(1), _INLINE),
    "pow": (_pow, _OUTLINE),
    "fmod": (_fmod, _OUTLINE),
}


# integers ---------------------------------------------------------------------------------------------------------------


def integer_power(e: Emitter, base: Value, exponent: Value, *, signed: bool) -> Value:
    """base**exponent by squaring, wrapping; a negative exponent gives 1 / base**|exponent| truncated (0 for base 0)."""
    type = base.type
    function = f"vm.ipow.{'i' if signed else 'u'}{element_of(type)[1:]}.{width_of(type)}"
    if function not in e.module.functions:
        _define_integer_power(e, function, type, signed)
    return e.inst(type, f"call {type} @{function}({base}, {exponent})")


def _define_integer_power(e: Emitter, function: str, type: str, signed: bool) -> None:
    base, exponent = Value("%x0", type), Value("%x1", type)
    f = Emitter(e.module, function, type, [base, exponent], _OUTLINE, "internal")
    zero, one = constant(type, 0), constant(type, 1)
    start = exponent
    if signed:
        start = select(f, icmp(f, "slt", exponent, zero), zero, exponent)
    bits = int(element_of(type)[1:])
    out = one
    with f.loop(0, bits, carried=[one, base, start], name="bit") as loop:
        out, square, left = loop.carried
        odd = icmp(f, "ne", binary(f, "and", left, one), zero)
        loop.next = [select(f, odd, binary(f, "mul", out, square), out), binary(f, "mul", square, square), binary(f, "lshr", left, one)]
    out = loop.results[0]
    if signed:
        # 1 and -1 are their own inverses; every other power below 1 truncates to 0.
        odd = icmp(f, "ne", binary(f, "and", exponent, one), zero)
        minus = select(f, odd, constant(type, -1), one)
        inverse = select(f, icmp(f, "eq", base, one), one, select(f, icmp(f, "eq", base, constant(type, -1)), minus, zero))
        out = select(f, icmp(f, "slt", exponent, zero), inverse, out)
    f.void(f"ret {out}")
    f.finish()
