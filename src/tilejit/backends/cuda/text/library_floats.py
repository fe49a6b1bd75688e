"""Helpers for floats of 8 bits and fewer, held as their bits, and for rounding modes other than nearest even."""

_SHARED = """
@triton.jit
def e4m3_to_f32(b):
    bits = b.to(tl.int32)
    normal = (((bits & 0x7F) << 20) + (120 << 23)).to(tl.float32, bitcast=True)
    small = (bits & 7).to(tl.float32) * 0.001953125
    size = tl.where((bits & 0x78) == 0, small, tl.where((bits & 0x7F) == 0x7F, float("nan"), normal))
    return tl.where((bits & 0x80) != 0, size * -1.0, size)

@triton.jit
def e5m2_to_f32(b):  # the upper half of a float16
    return (b.to(tl.uint16) << 8).to(tl.float16, bitcast=True).to(tl.float32)

@triton.jit
def fp4_to_f32(b):
    bits = b.to(tl.int32)
    normal = (((bits & 7) << 22) + (126 << 23)).to(tl.float32, bitcast=True)
    size = tl.where((bits & 6) == 0, (bits & 1).to(tl.float32) * 0.5, normal)
    return tl.where((bits & 8) != 0, size * -1.0, size)

@triton.jit
def e8m0_to_f32(b):
    bits = b.to(tl.int32)
    power = tl.where(bits == 0, 0x400000, bits << 23).to(tl.float32, bitcast=True)
    return tl.where(bits == 255, float("nan"), power)

@triton.jit
def f32_to_e4m3(x):  # nearest even; too large is NaN
    bits = x.to(tl.int32, bitcast=True)
    sign = ((bits >> 24) & 0x80)
    size = tl.abs(x)
    u = bits & 0x7FFFFFFF
    normal = ((u + 0x7FFFF + ((u >> 20) & 1)) >> 20) - 960
    small = (tl.where(size < 0.015625, size, 0.0) * 512.0 + 12582912.0 - 12582912.0).to(tl.int32)
    code = tl.where(size < 0.015625, small, normal)
    code = tl.where(size <= 464.0, code, 0x7F)
    return (code | sign).to(tl.uint8)

@triton.jit
def f32_to_e5m2(x):  # nearest even; too large is infinity
    bits = x.to(tl.int32, bitcast=True)
    sign = ((bits >> 24) & 0x80)
    size = tl.abs(x)
    u = bits & 0x7FFFFFFF
    normal = ((u + 0xFFFFF + ((u >> 21) & 1)) >> 21) - 448
    small = (tl.where(size < 0.00006103515625, size, 0.0) * 65536.0 + 12582912.0 - 12582912.0).to(tl.int32)
    code = tl.where(size < 0.00006103515625, small, normal)
    code = tl.where(size < 61440.0, code, tl.where(x != x, 0x7E, 0x7C))
    return (code | sign).to(tl.uint8)

@triton.jit
def f32_to_fp4(x):  # nearest even; saturates, and NaN is minus zero
    bits = x.to(tl.int32, bitcast=True)
    sign = ((bits >> 28) & 8)
    size = tl.minimum(tl.abs(x), 6.0)
    u = size.to(tl.int32, bitcast=True)
    normal = ((u + 0x1FFFFF + ((u >> 22) & 1)) >> 22) - 252
    small = (tl.where(size < 1.0, size, 0.0) * 2.0 + 12582912.0 - 12582912.0).to(tl.int32)
    code = tl.where(size < 1.0, small, normal) | sign
    return tl.where(x != x, 8, code).to(tl.uint8)

@triton.jit
def f32_to_e8m0(x):  # the nearest power of two, halves up; zero, negative and infinite numbers are NaN
    bits = x.to(tl.int32, bitcast=True)
    tiny = tl.where(bits >= 0x600000, 1, 0)
    code = tl.where(bits < 0x800000, tiny, (bits + 0x400000) >> 23)
    return tl.where((x > 0.0) & (code < 255), code, 255).to(tl.uint8)

@triton.jit
def bf16_half_away(x):
    bits = x.to(tl.uint32, bitcast=True)
    up = ((bits + 0x8000) >> 16).to(tl.uint16)
    return tl.where(x != x, x.to(tl.bfloat16).to(tl.uint16, bitcast=True), up).to(tl.bfloat16, bitcast=True)

@triton.jit
def away_by_mode(x, inner, outer, code, MODE: tl.constexpr):
    if MODE == "trunc":
        return x != x
    elif MODE == "floor":
        return x < 0.0
    elif MODE == "ceil":
        return x > 0.0
    elif MODE == "odd":
        return (code & 1) == 0
    else:
        return tl.abs(x) - tl.abs(inner) >= tl.abs(outer) - tl.abs(x)

@triton.jit
def f32_to_f16_by_mode(x, MODE: tl.constexpr):
    nearest = x.to(tl.float16)
    back = nearest.to(tl.float32)
    code = nearest.to(tl.uint16, bitcast=True)
    inside = code - (tl.abs(back) > tl.abs(x)).to(tl.uint16)
    outside = inside + 1
    away = away_by_mode(x, inside.to(tl.float16, bitcast=True).to(tl.float32), outside.to(tl.float16, bitcast=True).to(tl.float32), inside, MODE)
    settled = (back == x) | (x != x)
    if MODE == "round":
        settled = settled | (tl.abs(back) == float("inf"))
    chosen = tl.where(settled, code, tl.where(away, outside, inside)).to(tl.uint16)
    return chosen.to(tl.float16, bitcast=True)

@triton.jit
def f32_to_bf16_by_mode(x, MODE: tl.constexpr):
    nearest = x.to(tl.bfloat16)
    back = nearest.to(tl.float32)
    code = nearest.to(tl.uint16, bitcast=True)
    inside = code - (tl.abs(back) > tl.abs(x)).to(tl.uint16)
    outside = inside + 1
    away = away_by_mode(x, inside.to(tl.bfloat16, bitcast=True).to(tl.float32), outside.to(tl.bfloat16, bitcast=True).to(tl.float32), inside, MODE)
    settled = (back == x) | (x != x)
    chosen = tl.where(settled, code, tl.where(away, outside, inside)).to(tl.uint16)
    return chosen.to(tl.bfloat16, bitcast=True)
"""


def _by_mode(kind: str, source: str) -> str:
    wide = f"tl.float{source[1:]}"
    return f"""
@triton.jit
def {source}_to_{kind}_by_mode(x, MODE: tl.constexpr):
    code = f32_to_{kind}(x.to(tl.float32))
    back = {kind}_to_f32(code).to({wide})
    inside = code - (tl.abs(back) > tl.abs(x)).to(tl.uint8)
    outside = inside + 1
    away = away_by_mode(x, {kind}_to_f32(inside).to({wide}), {kind}_to_f32(outside).to({wide}), inside, MODE)
    settled = (back == x) | (x != x) | (back != back)
    if MODE == "round":
        settled = settled | (tl.abs(back) == float("inf"))
    return tl.where(settled, code, tl.where(away, outside, inside)).to(tl.uint8)
"""


def _from_double(kind: str, type: str, code: str) -> str:
    return f"""
@triton.jit
def f64_to_{kind}_by_mode(x, MODE: tl.constexpr):
    nearest = x.to(tl.float32).to(tl.{type})
    back = nearest.to(tl.float64)
    code = nearest.to(tl.{code}, bitcast=True)
    inside = code - (tl.abs(back) > tl.abs(x)).to(tl.{code})
    outside = inside + 1
    away = away_by_mode(x, inside.to(tl.{type}, bitcast=True).to(tl.float64), outside.to(tl.{type}, bitcast=True).to(tl.float64), inside, MODE)
    settled = (back == x) | (x != x)
    if MODE == "round":
        settled = settled | (tl.abs(back) == float("inf"))
    return tl.where(settled, code, tl.where(away, outside, inside)).to(tl.{code}).to(tl.{type}, bitcast=True)
"""


_DOUBLES = (("f32", "float32", "uint32"), ("f16", "float16", "uint16"), ("bf16", "bfloat16", "uint16"))
_NARROW = "".join(_by_mode(kind, source) for kind in ("e4m3", "e5m2", "fp4", "e8m0") for source in ("f32", "f64"))
FLOAT_HELPERS = _SHARED + "".join(_from_double(*row) for row in _DOUBLES) + _NARROW
"""Text of all of them."""
