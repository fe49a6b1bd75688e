"""Casts: every dtype, every rounding mode, saturation, small floats and four-bit integers."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

import tilejit.language as pl
from tests.suite.harness import Array, Cases, data, f32, i32

CASES = Cases()
BF16 = ml_dtypes.bfloat16
E4M3 = ml_dtypes.float8_e4m3fn
E5M2 = ml_dtypes.float8_e5m2
E8M0 = ml_dtypes.float8_e8m0fnu
FP4 = ml_dtypes.float4_e2m1fn


def halves(*shape: int) -> Array:
    """Numbers in steps of a quarter, so that many lie exactly between two integers."""
    return (np.random.default_rng(3).integers(-60, 60, shape) / 4).astype(np.float32)


def odd(x: Array) -> Array:
    """Round to odd: what is not an integer goes to the odd one of its neighbours."""
    low = np.floor(x)
    return np.where(low == x, x, np.where(low % 2 == 1, low, low + 1))


def away(x: Array) -> Array:
    return np.where(x < 0, -np.floor(-x + 0.5), np.floor(x + 0.5))


def saturate(x: Array, dtype: Any) -> Array:
    info = ml_dtypes.iinfo(dtype)
    return np.clip(np.nan_to_num(x.astype(np.float64), nan=0), info.min, info.max).astype(np.int64).astype(dtype)


@CASES(
    halves(9, 13),
    expected=lambda x: tuple(f(x).astype(np.int32) for f in (np.rint, away, np.floor, np.ceil, np.trunc, odd)),
)
@pl.jit
def six_modes(
    x: pl.Tensor,
    rint: pl.Out[pl.Tensor], away_: pl.Out[pl.Tensor], floor: pl.Out[pl.Tensor], ceil: pl.Out[pl.Tensor], trunc: pl.Out[pl.Tensor], odd_: pl.Out[pl.Tensor],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [9, 13])
        pl.store(pl.cast(t, target_type=pl.INT32, mode="rint"), [0, 0], rint)
        pl.store(pl.cast(t, target_type=pl.INT32, mode="round"), [0, 0], away_)
        pl.store(pl.cast(t, target_type=pl.INT32, mode="floor"), [0, 0], floor)
        pl.store(pl.tile.cast(t, pl.INT32, "ceil"), [0, 0], ceil)
        pl.store(pl.tile.cast(t, pl.INT32, mode="trunc"), [0, 0], trunc)
        pl.store(pl.cast(t, pl.INT32, mode="odd"), [0, 0], odd_)
    return rint, away_, floor, ceil, trunc, odd_


@CASES(halves(5, 3, 7), expected=lambda x: (np.rint(x).astype(np.int16), np.floor(x).astype(np.int16), away(x).astype(np.int16)))
@pl.jit
def modes_by_number(x: pl.Tensor, one: pl.Out[pl.Tensor], three: pl.Out[pl.Tensor], default: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        one[:] = pl.cast(x, pl.INT16, mode=1)
        three[:] = pl.tensor.cast(x, pl.INT16, mode=3)
        default[:] = pl.cast(x, pl.INT16)
    return one, three, default


WILD = np.array(
    [[np.nan, np.inf, -np.inf, 3e9, -3e9, 1e20, -1e20], [127.5, 128.5, -128.5, -129.5, 255.5, 256.0, -0.6], [7.5, 8.2, -8.2, 15.5, 16, 0.5, 1.5]],
    np.float32,
)


@CASES(
    WILD,
    expected=lambda x: tuple(saturate(np.trunc(x), dtype) for dtype in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32)),
)
@pl.jit
def integers_saturate(
    x: pl.Tensor,
    i8: pl.Out[pl.Tensor], u8: pl.Out[pl.Tensor], i16: pl.Out[pl.Tensor], u16: pl.Out[pl.Tensor], i32: pl.Out[pl.Tensor], u32: pl.Out[pl.Tensor],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        i8[:] = pl.cast(x, pl.INT8, mode="trunc")
        u8[:] = pl.cast(x, pl.UINT8, mode="trunc")
        i16[:] = pl.cast(x, pl.INT16, mode="trunc")
        u16[:] = pl.cast(x, pl.UINT16, mode="trunc")
        i32[:] = pl.cast(x, pl.INT32, mode="trunc")
        u32[:] = pl.cast(x, pl.UINT32, mode="trunc")
    return i8, u8, i16, u16, i32, u32


def to_64(x: Array) -> tuple[Array, Array]:
    """Python's own integers know no rounding."""
    def one(v: float, low: int, high: int) -> int:
        return 0 if math.isnan(v) else min(max(int(max(min(v, 1e30), -1e30)), low), high)
    signed = np.array([one(float(v), -(2**63), 2**63 - 1) for v in x.flat], np.int64).reshape(x.shape)
    return signed, np.array([one(float(v), 0, 2**64 - 1) for v in x.flat], np.uint64).reshape(x.shape)


@CASES(WILD, expected=to_64)
@pl.jit
def wide_integers_saturate(x: pl.Tensor, i64: pl.Out[pl.Tensor], u64: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [3, 7])
        pl.store(pl.cast(t, pl.INT64, mode="trunc"), [0, 0], i64)
        pl.store(pl.cast(t, pl.UINT64, mode="trunc"), [0, 0], u64)
    return i64, u64


@CASES(WILD, expected=lambda x: (saturate(np.rint(x), ml_dtypes.int4), saturate(np.rint(x), ml_dtypes.uint4)))
@pl.jit
def four_bits_saturate(x: pl.Tensor, i4: pl.Out[pl.Tensor], u4: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i4[:] = pl.cast(x, pl.INT4, mode="rint")
        u4[:] = pl.cast(x, pl.UINT4, mode="rint")
    return i4, u4


@CASES(
    i32(4, 11, low=-8, high=8),
    expected=lambda x: (x.astype(ml_dtypes.int4), (x * 2).astype(np.float32), x.astype(np.int8)),
)
@pl.jit
def through_four_bits(x: pl.Tensor, small: pl.Out[pl.Tensor], doubled: pl.Out[pl.Tensor], back: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        s = pl.cast(x, pl.INT4)
        small[:] = s
        doubled[:] = pl.cast(s, pl.FP32) * 2.0
        back[:] = pl.cast(s, pl.INT8)
    return small, doubled, back


@CASES(f32(6, 40, low=-500, high=500), expected=lambda x: (x.astype(np.float16), x.astype(BF16), x.astype(np.float16).astype(np.float32)))
@pl.jit
def half_precision(x: pl.Tensor, h: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor], back: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [6, 40])
        half = pl.cast(t, pl.FP16, mode="rint")
        pl.store(half, [0, 0], h)
        pl.store(pl.cast(t, pl.BF16, mode="rint"), [0, 0], b)
        pl.store(pl.cast(half, pl.FP32), [0, 0], back)
    return h, b, back


def bf16_by(x: Array, up: Any) -> Array:
    """The neighbour of a dtype with 16 bits cut off: toward zero, then one step where `up` says so."""
    bits = x.view(np.uint32)
    low = bits & np.uint32(0xFFFF0000)
    step = np.where((bits != low) & up(x), np.uint32(0x10000), np.uint32(0))
    return (low + step).view(np.float32).astype(BF16)


@CASES(
    f32(7, 21),
    expected=lambda x: (
        bf16_by(x, lambda v: v < 0), bf16_by(x, lambda v: v > 0), bf16_by(x, lambda v: v < -9e9), bf16_by(x, lambda v: (v.view(np.uint32) >> 16) % 2 == 0)
    ),
)
@pl.jit
def directed_rounding_to_bf16(x: pl.Tensor, down: pl.Out[pl.Tensor], up: pl.Out[pl.Tensor], zero: pl.Out[pl.Tensor], odd_: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        down[:] = pl.cast(x, pl.BF16, mode="floor")
        up[:] = pl.cast(x, pl.BF16, mode="ceil")
        zero[:] = pl.cast(x, pl.BF16, mode="trunc")
        odd_[:] = pl.cast(x, pl.BF16, mode="odd")
    return down, up, zero, odd_


@CASES(f32(5, 32, low=-60, high=60), expected=lambda x: (x.astype(E4M3), x.astype(E5M2), x.astype(E4M3).astype(np.float32)))
@pl.jit
def eight_bit_floats(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor], back: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        q = pl.cast(x, pl.FP8E4M3FN, mode="rint")
        a[:] = q
        b[:] = pl.cast(x, pl.FP8E5M2, mode="rint")
        back[:] = pl.cast(q, pl.FP32)
    return a, b, back


@CASES(f32(4, 32, low=-7, high=7), expected=lambda x: (x.astype(FP4), x.astype(FP4).astype(np.float32)))
@pl.jit
def four_bit_floats(x: pl.Tensor, small: pl.Out[pl.Tensor], back: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 32])
        q = pl.cast(t, pl.FP4, mode="rint")
        pl.store(q, [0, 0], small)
        pl.store(pl.cast(q, pl.FP32), [0, 0], back)
    return small, back


@CASES(data(E8M0, 3, 16, low=0.01, high=50), expected=lambda x: (x.astype(np.float32), x.astype(np.float32).astype(BF16)))
@pl.jit
def scales(x: pl.Tensor, wide: pl.Out[pl.Tensor], narrow: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        wide[:] = pl.cast(x, pl.FP32)
        narrow[:] = pl.cast(x, pl.BF16)
    return wide, narrow


@CASES(data(np.int32, 6, 19), expected=lambda x: (x.astype(np.int8), x.astype(np.uint16), x.astype(np.int64), x.astype(np.uint64)))
@pl.jit
def integers_wrap(x: pl.Tensor, i8: pl.Out[pl.Tensor], u16: pl.Out[pl.Tensor], i64: pl.Out[pl.Tensor], u64: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i8[:] = pl.cast(x, pl.INT8)
        u16[:] = pl.cast(x, pl.UINT16)
        i64[:] = pl.cast(x, pl.INT64)
        u64[:] = pl.cast(x, pl.UINT64)
    return i8, u16, i64, u64


@CASES(data(np.int64, 4, 9), data(np.uint32, 4, 9), expected=lambda a, b: (a.astype(np.float32), b.astype(np.float32), b.astype(np.float32).astype(np.float16)))
@pl.jit
def integers_to_floats(a: pl.Tensor, b: pl.Tensor, x: pl.Out[pl.Tensor], y: pl.Out[pl.Tensor], z: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x[:] = pl.cast(a, pl.FP32, mode="rint")
        y[:] = pl.cast(b, pl.FP32, mode="rint")
        z[:] = pl.cast(pl.cast(b, pl.FP32, mode="rint"), pl.FP16, mode="rint")
    return x, y, z


@CASES(data(np.bool_, 5, 13), f32(5, 13), expected=lambda m, x: (m.astype(np.int32), m.astype(np.float32), m.astype(np.float32) * x))
@pl.jit
def booleans(m: pl.Tensor, x: pl.Tensor, i: pl.Out[pl.Tensor], f: pl.Out[pl.Tensor], masked: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i[:] = pl.cast(m, pl.INT32)
        f[:] = pl.cast(m, pl.FP32)
        masked[:] = pl.cast(m, pl.FP32) * x
    return i, f, masked


@CASES(f32(1, 24, low=-40, high=40), expected=lambda x: np.rint(x / (np.abs(x).max() / 127)).astype(np.int8))
@pl.jit
def dynamic_quantisation(x: pl.Tensor, q: pl.Out[pl.Tensor]):
    """Per-tensor INT8 quantisation as served in inference."""
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [1, 24])
        tmp = pl.create_tile([1, 24], dtype=pl.FP32)
        top = pl.row_max(pl.abs(t), tmp)
        scaled = pl.row_expand_div(t, pl.div(top, 127.0))
        whole = pl.cast(pl.cast(scaled, pl.INT32, mode="rint"), pl.FP16)
        pl.store(pl.cast(whole, pl.INT8, mode="trunc"), [0, 0], q)
    return q


@CASES(f32(8, 24, low=-40, high=40), expected=lambda x: (x * np.float32(0.5)).astype(BF16))
@pl.jit
def store_converts_floats(x: pl.Tensor, out: pl.Out[pl.Tensor[[8, 24], pl.BF16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 24])
        pl.store(pl.mul(t, 0.5), [0, 0], out)
    return out


@CASES(data(np.int8, 8, 24), expected=lambda x: (x.astype(np.int32), x.astype(np.int64)))
@pl.jit
def store_widens_integers(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = x
        b = pl.assemble(b, x, [0, 0])
    return a, b


@CASES(i32(3), f32(4, 6), expected=lambda n, x: x + (np.float32(int(n[0]) % 7) + np.float32(int(n[1]) // 3) * np.float32(0.5)))
@pl.jit
def scalar_casts(n: pl.Tensor, x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.cast(pl.read(n, [0]) % 7, pl.FP32)
        b = pl.cast(pl.read(n, [1]) // 3, pl.FP32)
        out[:] = x + (a + b * 0.5)
    return out


@CASES(halves(6, 10), expected=lambda x: np.stack([np.floor(x), np.ceil(x)]).astype(np.int32))
@pl.program
class TwoRoundings:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, x: pl.Tensor[[6, 10], pl.FP32], out: pl.Out[pl.Tensor[[2, 6, 10], pl.INT32]]) -> pl.Tensor[[2, 6, 10], pl.INT32]:
        t: pl.Tile[[6, 10], pl.FP32, pl.Mem.Vec] = pl.load(x, [0, 0], [6, 10])
        low: pl.Tile[[6, 10], pl.INT32] = pl.cast(t, pl.INT32, mode="floor")
        high: pl.Tile[[6, 10], pl.INT32] = pl.cast(t, pl.INT32, mode="ceil")
        out = pl.store(pl.reshape(low, [1, 6, 10]), [0, 0, 0], out)
        out = pl.store(pl.reshape(high, [1, 6, 10]), [1, 0, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[6, 10], pl.FP32], out: pl.Out[pl.Tensor[[2, 6, 10], pl.INT32]]) -> pl.Tensor[[2, 6, 10], pl.INT32]:
        out = self.kernel(x, out)
        return out
