"""Single elements and scalars of every dtype, small floats and integers as data."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from numpy import float32

import tilejit.language as pl
from tests.suite.harness import Cases, data, f32, i32

CASES = Cases()
E4M3 = ml_dtypes.float8_e4m3fn
BF16 = ml_dtypes.bfloat16


@CASES(
    data(E4M3, 6),
    data(np.float16, 6),
    data(BF16, 6),
    expected=lambda a, h, b: (
        a[::-1].copy(),
        np.array(
            [(h[0].astype(float32) * h[1].astype(float32)).astype(np.float16), (h[0].astype(float32) + h[2].astype(float32)).astype(np.float16)]
        ),
        np.array([b[1], -b[0]]),
    ),
)
@pl.jit
def narrow_float_elements(a: pl.Tensor, h: pl.Tensor, b: pl.Tensor, o1: pl.Out[pl.Tensor], o2: pl.Out[pl.Tensor], o3: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(6):
            o1[5 - i] = a[i]
        o2[0] = h[0] * h[1]
        o2[1] = h[0] + h[2]
        o3[0] = pl.maximum(b[1], b[1])
        o3[1] = -b[0]


@CASES(np.array([5, 2**40, -7], np.int64), expected=lambda n: np.array([n[1] + n[0], n[2] // 2, n[1] % 1000], np.int64))
@pl.jit
def tensors_of_indices(n: pl.Tensor[[3], pl.INDEX], out: pl.Out[pl.Tensor[[3], pl.INDEX]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = n[1]
        out[0] = a + n[0]
        out[1] = n[2] // 2
        out[2] = a % 1000


@CASES(
    data(np.bool_, 4),
    data(np.uint8, 4),
    expected=lambda m, u: (np.array([m[0] and not m[1], m[2] or u[0] > 100, True]), np.array([u[0] + u[1], u[2] >> 1, ~u[3]], np.uint8)),
)
@pl.jit
def flags_and_bytes(m: pl.Tensor, u: pl.Tensor, o: pl.Out[pl.Tensor], v: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[0] = m[0] and not m[1]
        o[1] = m[2] or u[0] > 100
        o[2] = True
        v[0] = u[0] + u[1]
        v[1] = u[2] >> 1
        v[2] = ~u[3]


@CASES(
    data(ml_dtypes.float4_e2m1fn, 3, 8, low=-6, high=6),
    data(ml_dtypes.uint4, 3, 8, low=0, high=16),
    expected=lambda a, b: (a[:, 2:6].copy(), b.reshape(6, 4), np.hstack([a, a])),
)
@pl.jit
def four_bit_windows(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor], q: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = a[:, 2:6]
        p[:] = pl.reshape(b, [6, 4])
        t = pl.load(a, [0, 0], [3, 8])
        pl.store(pl.concat(t, t), [0, 0], q)


@CASES(data(E4M3, 4, 8), data(E4M3, 4, 8), expected=lambda a, b: a.astype(float32) + b.astype(float32))
@pl.jit
def eight_bit_sum(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        fa, fb = pl.cast(a, pl.FP32), pl.cast(b, pl.FP32)
        o[:] = fa + fb


@CASES(i32(5, 7), expected=lambda x: (x.astype(np.uint32) >> 3, (x.astype(np.uint32) * np.uint32(2654435761)) ^ np.uint32(77)))
@pl.jit
def unsigned_hash(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        u = pl.cast(x, pl.UINT32)
        a[:] = pl.shrs(u, 3)
        b[:] = pl.xors(u * 2654435761, 77)


@CASES(f32(4, 6), 3, expected=lambda x, n: x * float32(1 << n) + float32(n**2 % 5))
@pl.jit
def integer_expression(x: pl.Tensor, n: pl.INDEX, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * (1 << n) + n**2 % 5


@CASES(f32(4, 6), 3, expected=lambda x, n: x * float32(1 << n) + float32(n**2 % 5))
@pl.jit(runtime_scalars=("n",))
def integer_expression_at_run_time(x: pl.Tensor, n: pl.INDEX, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.cast(1 << n, pl.FP32)
        b = pl.cast(n**2 % 5, pl.FP32)
        out[:] = x * a + b


def _unsigned(x: np.ndarray) -> np.ndarray:
    rows = [[a > 5, a >= 0, a >= 5, a != 2**63, a <= 2**62, min(a, 9) == 9, a > 5] for a in x.tolist()]
    return np.array(rows, np.int32)


@CASES(np.array([2**64 - 5, 2**63, 6, 5, 0], np.uint64), expected=_unsigned)
@pl.jit
def unsigned_comparisons(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(5):
            a = x[i]
            out[i, 0] = pl.cast(a > 5, pl.INT32)
            out[i, 1] = pl.cast(a >= 0, pl.INT32)
            out[i, 2] = pl.cast(pl.const(5, pl.UINT64) <= a, pl.INT32)
            out[i, 3] = pl.cast(a != 2**63, pl.INT32)
            out[i, 4] = pl.cast(a <= 2**62, pl.INT32)
            out[i, 5] = pl.cast(min(a, 9) == 9, pl.INT32)
            out[i, 6] = pl.cast(pl.cmp(a, 5, cmp_type=4), pl.INT32)
    return out
