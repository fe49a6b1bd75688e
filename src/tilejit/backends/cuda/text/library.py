"""Functions that kernels call, as Triton text; a kernel's module holds the ones it uses.

Each says in its comment what Triton's own operator gets wrong. All work on tiles and on scalars.
"""

from __future__ import annotations

import re

from tilejit.backends.cuda.text.library_floats import FLOAT_HELPERS
from tilejit.runtime.ranks.abi import Comm

_ARITHMETIC = """
@triton.jit
def int_div(a, b):  # truncated; a zero divisor counts as one, and the least number divided by -1 wraps
    b = tl.where(b == 0, 1, b).to(b.dtype)
    minus = b == -1
    return tl.where(minus, 0 - a, a // tl.where(minus, 1, b).to(b.dtype)).to(a.dtype)

@triton.jit
def int_fmod(a, b):  # the remainder has the sign of the dividend
    b = tl.where(b == 0, 1, b).to(b.dtype)
    minus = b == -1
    return tl.where(minus, 0, a % tl.where(minus, 1, b).to(b.dtype)).to(a.dtype)

@triton.jit
def int_floordiv(a, b):
    b = tl.where(b == 0, 1, b).to(b.dtype)
    r = int_fmod(a, b)
    return (int_div(a, b) - ((r != 0) & ((r < 0) != (b < 0))).to(a.dtype)).to(a.dtype)

@triton.jit
def int_mod(a, b):  # the remainder has the sign of the divisor
    b = tl.where(b == 0, 1, b).to(b.dtype)
    r = int_fmod(a, b)
    return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r).to(a.dtype)

@triton.jit
def unsigned_div(a, b):
    return (a // tl.where(b == 0, 1, b).to(b.dtype)).to(a.dtype)

@triton.jit
def unsigned_mod(a, b):
    return (a % tl.where(b == 0, 1, b).to(b.dtype)).to(a.dtype)

@triton.jit
def quotient(a, b):  # rounded once; doubles always are
    if (a * b).dtype == tl.float64:
        return a / b
    else:
        return tl.div_rn(a, b)

@triton.jit
def float_mod(a, b):  # Triton's % is a rounded quotient
    r = libdevice.fmod(a, b)
    turned = (r != 0.0) & ((r < 0.0) != (b < 0.0))
    zero = tl.where(b < 0.0, -0.0, 0.0)
    return tl.where(r == 0.0, zero, tl.where(turned, r + b, r))

@triton.jit
def float_floordiv(a, b):
    r = libdevice.fmod(a, b)
    q = quotient(a - r, b)
    q = tl.where((r != 0.0) & ((r < 0.0) != (b < 0.0)), q - 1.0, q)
    whole = tl.floor(q)
    whole = tl.where(q - whole > 0.5, whole + 1.0, whole)
    direct = quotient(a, b)
    return tl.where(b == 0.0, direct, tl.where(q == 0.0, tl.where(direct < 0.0, -0.0, 0.0), whole))

@triton.jit
def int_pow(a, b):  # a negative power is the truncated fraction
    base = (a + b * 0).to(a.dtype)
    result = (base * 0 + 1).to(a.dtype)
    left = (tl.where(b < 0, 0, b) + base * 0).to(b.dtype)
    for _ in range(64):
        result = tl.where((left & 1) != 0, result * base, result).to(a.dtype)
        base = (base * base).to(a.dtype)
        left = left >> 1
    odd = (b & 1) != 0
    fraction = tl.where(a == 1, 1, tl.where(a == -1, tl.where(odd, -1, 1), 0))
    return tl.where(b < 0, fraction, result).to(a.dtype)

@triton.jit
def unsigned_pow(a, b):
    base = (a + b * 0).to(a.dtype)
    result = (base * 0 + 1).to(a.dtype)
    left = (b + base * 0).to(b.dtype)
    for _ in range(64):
        result = tl.where((left & 1) != 0, result * base, result).to(a.dtype)
        base = (base * base).to(a.dtype)
        left = left >> 1
    return result

@triton.jit
def single_pow(a, b):  # through doubles: libdevice's power of singles is 7 units in the last place off, 23 where multiply-adds round once
    return libdevice.pow(tl.cast(a, tl.float64), tl.cast(b, tl.float64)).to(tl.float32)

@triton.jit
def single_tanh(x):  # libdevice's polynomial is 1.5 units in the last place off, which expm1 makes 5 of
    s = x * x
    p = (((-0.006203960161656141 * s + 0.021024663001298904) * s - 0.053841643035411835) * s + 0.13332493603229523) * s - 0.33333316445350647
    return tl.where(tl.abs(x) < 0.55, x + x * (s * p + 0.0), libdevice.tanh(x))  # 0 is added for -0, which stays

@triton.jit
def shift_left(a, b, WIDTH: tl.constexpr):  # by the width or more: everything is gone
    inside = (b >= 0) & (b < WIDTH)
    return tl.where(inside, a << tl.where(inside, b, 0).to(a.dtype), 0).to(a.dtype)

@triton.jit
def shift_right(a, b, WIDTH: tl.constexpr):
    inside = (b >= 0) & (b < WIDTH)
    return tl.where(inside, a >> tl.where(inside, b, 0).to(a.dtype), tl.where(a < 0, -1, 0)).to(a.dtype)

@triton.jit
def unsigned_shift_right(a, b, WIDTH: tl.constexpr):
    inside = (b >= 0) & (b < WIDTH)
    return tl.where(inside, a >> tl.where(inside, b, 0).to(a.dtype), 0).to(a.dtype)

@triton.jit
def sigmoid(x):  # no exponential of a large number: the least results would be lost to infinity
    e = libdevice.exp(tl.abs(x) * -1.0)
    return quotient(tl.where(x < 0.0, e, 1.0), 1.0 + e)

@triton.jit
def half_away(x):
    size = tl.abs(x)
    low = tl.floor(size)
    whole = low + tl.where(size - low >= 0.5, 1.0, 0.0)
    return tl.where(x < 0.0, -whole, whole)

@triton.jit
def round_to_odd(x):
    low = tl.floor(x)
    odd = low - 2.0 * tl.floor(low * 0.5) != 0.0
    return tl.where((low == x) | (tl.abs(x) >= 8388608.0), x, tl.where(odd, low, low + 1.0))
"""

_DOUBLES = """
@triton.jit
def double_to_odd(x):
    low = tl.floor(x)
    odd = low - 2.0 * tl.floor(low * 0.5) != 0.0
    return tl.where((low == x) | (tl.abs(x) >= 4503599627370496.0), x, tl.where(odd, low, low + 1.0))
"""

_COMBINERS = """
@triton.jit
def max_nan(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)

@triton.jit
def min_nan(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)

@triton.jit
def max_whole(a, b):
    return tl.maximum(a, b)

@triton.jit
def min_whole(a, b):
    return tl.minimum(a, b)

@triton.jit
def order_of_bits(raw, BITS: tl.constexpr):  # negative numbers count down; only the lowest BITS bits mean anything
    return tl.where(((raw >> (BITS - 1)) & 1) != 0, ~raw, raw ^ (-1 << (BITS - 1)))

@triton.jit
def product(a, b):
    return a * b

@triton.jit
def argmax_nan(a, i, b, j):  # NaN wins, then the first of equals
    an, bn = a != a, b != b
    left = (an & (bn == 0)) | ((an == 0) & (bn == 0) & (a > b)) | (((a == b) | (an & bn)) & (i < j))
    return tl.where(left, a, b), tl.where(left, i, j)

@triton.jit
def argmin_nan(a, i, b, j):
    an, bn = a != a, b != b
    left = (an & (bn == 0)) | ((an == 0) & (bn == 0) & (a < b)) | (((a == b) | (an & bn)) & (i < j))
    return tl.where(left, a, b), tl.where(left, i, j)
"""

_FAILURES = """
@triton.jit
def report(errors, good, block, row, a, b, c):  # the first failing block wins, whatever the timing
    if good == 0:
        word = (block.to(tl.int64) << 40) | row
        old = tl.atomic_min(errors, word, sem="relaxed")
        if old > word:
            tl.store(errors + 1 + 4 * row, a)
            tl.store(errors + 2 + 4 * row, b)
            tl.store(errors + 3 + 4 * row, c)

@triton.jit
def acquire(lock):  # all threads of a program wait for the one that asks
    while tl.atomic_cas(lock, 0, 1) != 0:
        pass
    tl.debug_barrier()

@triton.jit
def release(lock):
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)
"""

_GANGS = """
@triton.jit
def tell(word, value, turn, KIND: tl.constexpr):  # the number of the turn comes with it
    bits = value.to(tl.int32, bitcast=True) if KIND == "float" else value.to(tl.int32)
    tl.store(word + tl.zeros((1, 1), tl.int32), (turn.to(tl.int64) << 32) | (bits.to(tl.int64) & 0xFFFFFFFF))

@triton.jit
def hear(words, there, turn, KIND: tl.constexpr):  # asks until all have told
    found = tl.load(words, mask=there, other=0, volatile=True)
    while tl.min(tl.where(there & ((found >> 32) != turn), 0, 1)) == 0:
        found = tl.load(words, mask=there, other=0, volatile=True)
    return found.to(tl.int32).to(tl.float32, bitcast=True) if KIND == "float" else found.to(tl.int32)
"""


_RANKS = f"""
@triton.jit
def group_word(comm, slot):
    return tl.load(comm.to(tl.pointer_type(tl.int64)) + slot)

@triton.jit
def way_to_peer(comm, peer):  # bytes from the own copy of a window to that of a peer
    return group_word(comm, {int(Comm.BASES)} + peer) - group_word(comm, {int(Comm.BASES)} + group_word(comm, {int(Comm.RANK)}))
"""


def _split(text: str) -> dict[str, str]:
    pieces = re.split(r"\n(?=@triton\.jit\n)", text.strip())
    return {re.search(r"def (\w+)", piece)[1]: piece for piece in pieces}  # type: ignore[index]


def _saturate(name: str, low: int, high: int) -> str:
    """Float to integer: saturates, and NaN is 0; what the hardware does with the rest is not portable."""
    least = f"{low}" if low > -(1 << 63) else "-9223372036854775807 - 1"
    top = float(high + 1)
    wide = {"int8": "int32", "int16": "int32", "uint8": "int32", "uint16": "int32", "uint32": "int64"}.get(name, name)
    lines = [
        "@triton.jit",
        f"def to_{name}(x):  # saturates; NaN is 0",
        "    x = tl.where(x != x, 0.0, x)",
        f"    above, below = x >= {top!r}, x < {float(low)!r}",
        f"    inside = tl.where(above | below, 0.0, x).to(tl.{wide}).to(tl.{name})",
        f"    return tl.where(above, tl.full((), {high}, tl.{name}), tl.where(below, tl.full((), {least}, tl.{name}), inside))",
    ]
    if name == "uint64":  # through int64, the upper half of the range moved down
        lines[4:5] = [
            "    half = tl.where(above | below, 0.0, x)",
            "    big = half >= 9223372036854775808.0",
            "    low = tl.where(big, half - 9223372036854775808.0, half).to(tl.int64).to(tl.uint64)",
            "    inside = low + tl.where(big, tl.full((), 9223372036854775808, tl.uint64), tl.full((), 0, tl.uint64))",
        ]
    return "\n".join(lines)


_INTEGERS = {
    "int8": (-128, 127),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "uint8": (0, 255),
    "uint16": (0, (1 << 16) - 1),
    "uint32": (0, (1 << 32) - 1),
    "uint64": (0, (1 << 64) - 1),
}

DESCRIPTORS = "DESCRIPTORS"
"""The flag of a module that says whether its kernels copy by descriptors."""

_COPIES = f"""
{DESCRIPTORS} = tl.constexpr(False)  # set where addresses are multiples of 16 and the GPU has a copy engine


@triton.jit
def copied(tiles, pointers, row, column):
    if {DESCRIPTORS}:
        return tiles.load([row, column])
    else:
        return tl.load(pointers)
"""

SPECIALISED = "SPECIALISED"
"""The flag of a module that says whether the warps of its loops have different work."""

_SPECIALISED = f"{SPECIALISED} = tl.constexpr(False)  # set where some warps copy and others compute"

EIGHTS = "EIGHTS"
"""The flag of a module that says whether its kernels multiply floats of 8 bits as they are."""

_EIGHTS = f"""
{EIGHTS} = tl.constexpr(False)  # set where tensor cores take floats of 8 bits


@triton.jit
def as_eights(pointer, KIND: tl.constexpr):
    if {EIGHTS}:
        return pointer.to(tl.pointer_type(tl.float8e4nv if KIND == "e4m3" else tl.float8e5))
    else:
        return pointer
"""

_EIGHTS_DOT = f"""
@triton.jit
def dot_eights(a, b, acc, KIND: tl.constexpr):
    if {EIGHTS}:
        return tl.dot(a, b, acc)
    elif KIND == "e4m3":
        return tl.dot(e4m3_to_f32(a).to(tl.float16), e4m3_to_f32(b).to(tl.float16), acc)
    else:
        return tl.dot(e5m2_to_f32(a).to(tl.float16), e5m2_to_f32(b).to(tl.float16), acc)
"""

PARTS = "PARTS"
"""The flag of a kernel that multiplies large tiles: in how many parts, as many as it takes for them to fit into shared memory."""

_PARTS_DOT = f"""
{PARTS} = tl.constexpr(1)  # more where both operands do not fit

@triton.jit
def dot_in_parts(a, b, acc, COUNT: tl.constexpr, PRECISION: tl.constexpr):
    if COUNT == 1:
        return tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=acc.dtype)
    else:
        M: tl.constexpr = a.shape[0]
        K: tl.constexpr = a.shape[1] // 2
        N: tl.constexpr = b.shape[1]
        a0, a1 = tl.split(tl.permute(tl.reshape(a, (M, 2, K)), (0, 2, 1)))
        b0, b1 = tl.split(tl.permute(tl.reshape(b, (2, K, N)), (1, 2, 0)))
        acc = dot_in_parts(a0, b0, acc, COUNT // 2, PRECISION)
        return dot_in_parts(a1, b1, acc, COUNT // 2, PRECISION)
"""

HELPERS: dict[str, str] = {
    "dot_in_parts": _PARTS_DOT,
    "copied": _COPIES,
    SPECIALISED: _SPECIALISED,
    "as_eights": _EIGHTS,
    "dot_eights": _EIGHTS_DOT,
    **_split(_ARITHMETIC),
    **_split(_DOUBLES),
    **_split(_COMBINERS),
    **_split(_FAILURES),
    **_split(_GANGS),
    **_split(_RANKS),
    **_split(FLOAT_HELPERS),
    **{f"to_{name}": _saturate(name, *bounds) for name, bounds in _INTEGERS.items()},
}
"""Text of each helper by its name."""


def needs(name: str) -> list[str]:
    """Helpers that a helper calls."""
    used = set(re.findall(r"\b(\w+)\(", HELPERS[name]))
    return [other for other in HELPERS if other in used and other != name]
