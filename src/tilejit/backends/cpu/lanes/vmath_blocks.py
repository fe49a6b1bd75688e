"""Building blocks of the vector maths: polynomials, clamps, scaling by powers of two, table lookup."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.cpu.llvm.text import Emitter, Value
from tilejit.backends.cpu.llvm.vector import (
    binary,
    constant,
    convert,
    element_of,
    extract,
    fcmp,
    icmp,
    intrinsic,
    like,
    literal,
    select,
    shuffle,
    unary,
    width_of,
)

MAGIC = 12582912.0
"""1.5 * 2**23: adding it rounds a float to an integer, which then lies in the low mantissa bits."""


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


def log_ends(e: Emitter, x: Value, out: Value) -> Value:
    """A logarithm of positive finite lanes, and what it is of all others."""
    out = select(e, fcmp(e, "oeq", x, constant(x.type, float("inf"))), x, out)
    out = select(e, fcmp(e, "oeq", x, constant(x.type, 0)), constant(x.type, -float("inf")), out)
    return select(e, fcmp(e, "ult", x, constant(x.type, 0)), constant(x.type, float("nan")), out)


def at_most(e: Emitter, x: Value, limit: float) -> Value:
    """min(x, limit); NaN passes."""
    bound = constant(x.type, limit)
    return select(e, fcmp(e, "ogt", x, bound), bound, x)


def at_least(e: Emitter, x: Value, limit: float) -> Value:
    bound = constant(x.type, limit)
    return select(e, fcmp(e, "olt", x, bound), bound, x)


def fabs(e: Emitter, x: Value) -> Value:
    return intrinsic(e, "fabs", x)


def bits_of(e: Emitter, x: Value) -> Value:
    return convert(e, "bitcast", x, "i32" if element_of(x.type) == "float" else "i64")


def any_lane(e: Emitter, mask: Value) -> Value:
    return mask if width_of(mask.type) == 1 else intrinsic(e, "vector.reduce.or", mask, result="i1")


def power_of_two(e: Emitter, n: Value) -> Value:
    """2**n for i32 lanes within the normal range."""
    shifted = binary(e, "shl", binary(e, "add", n, constant(n.type, 127)), constant(n.type, 23))
    return convert(e, "bitcast", shifted, "float")


def scale(e: Emitter, x: Value, n: Value) -> Value:
    """x * 2**n for integral float lanes n in [-300, 300], with one rounding into the subnormals."""
    width = width_of(x.type)
    if host().vector_bits == 512 and width >= 4:
        return _scale_native(e, x, n, width)
    # Converting NaN gives poison; frozen it is some integer, and NaN times anything stays NaN.
    count = unary(e, "freeze", convert(e, "fptosi", n, "i32"))
    half = binary(e, "ashr", count, constant(count.type, 1))
    out = binary(e, "fmul", x, power_of_two(e, half))
    return binary(e, "fmul", out, power_of_two(e, binary(e, "sub", count, half)))


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


