"""Special values: infinities, NaN, signed zeros, subnormals and the ends of the range through every kind of operator."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from numpy import float32, inf, nan

import tilejit.language as pl
from tests.suite.harness import Cases

CASES = Cases()
VALUES = np.array(
    [[0.0, -0.0, inf, -inf, nan, 1e-45, -1e-45, 1.17549435e-38, 3.4028235e38, -3.4028235e38, 88.9, -104.0, 0.5, -0.5, 1.5, 2.5, -1.5, 1e30]],
    np.float32,
)
LEFT, RIGHT = (np.ascontiguousarray(part) for part in np.meshgrid(VALUES[0], VALUES[0]))


@CASES(VALUES, expected=lambda x: (np.exp(x), np.log(x), np.sqrt(x), 1 / np.sqrt(x), 1 / x, np.tanh(x), 1 / (1 + np.exp(-x))), tol=2e-6)
@pl.jit
def functions(
    x: pl.Tensor,
    e: pl.Out[pl.Tensor],
    l: pl.Out[pl.Tensor],
    s: pl.Out[pl.Tensor],
    r: pl.Out[pl.Tensor],
    i: pl.Out[pl.Tensor],
    t: pl.Out[pl.Tensor],
    g: pl.Out[pl.Tensor],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        e[:] = pl.exp(x)
        l[:] = pl.log(x)
        s[:] = pl.sqrt(x)
        r[:] = pl.rsqrt(x)
        i[:] = pl.recip(x)
        t[:] = pl.tanh(x)
        g[:] = pl.sigmoid(x)
    return e, l, s, r, i, t, g


@CASES(VALUES, expected=lambda x: (np.floor(x), np.ceil(x), np.rint(x), np.abs(x), -x, np.isnan(x).astype(float32), np.maximum(x, 0)))
@pl.jit
def roundings_and_signs(
    x: pl.Tensor,
    a: pl.Out[pl.Tensor],
    c: pl.Out[pl.Tensor],
    r: pl.Out[pl.Tensor],
    d: pl.Out[pl.Tensor],
    n: pl.Out[pl.Tensor],
    m: pl.Out[pl.Tensor],
    q: pl.Out[pl.Tensor],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.floor(x)
        c[:] = pl.ceil(x)
        r[:] = pl.round(x)
        d[:] = pl.abs(x)
        n[:] = pl.neg(x)
        m[:] = pl.where(pl.isnan(x), 1.0, 0.0)
        q[:] = pl.maximum(x, 0.0)
    return a, c, r, d, n, m, q


@CASES(LEFT, RIGHT, expected=lambda a, b: (a + b, a - b, a * b, a / b, np.maximum(a, b), np.minimum(a, b), np.fmod(a, b)), tol=0)
@pl.jit
def arithmetic(
    a: pl.Tensor,
    b: pl.Tensor,
    o1: pl.Out[pl.Tensor],
    o2: pl.Out[pl.Tensor],
    o3: pl.Out[pl.Tensor],
    o4: pl.Out[pl.Tensor],
    o5: pl.Out[pl.Tensor],
    o6: pl.Out[pl.Tensor],
    o7: pl.Out[pl.Tensor],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        o1[:] = a + b
        o2[:] = a - b
        o3[:] = a * b
        o4[:] = a / b
        o5[:] = pl.maximum(a, b)
        o6[:] = pl.minimum(a, b)
        o7[:] = pl.fmod(a, b)
    return o1, o2, o3, o4, o5, o6, o7


@CASES(LEFT, RIGHT, expected=lambda a, b: (np.power(a, b),), tol=3e-6)
@pl.jit
def powers(a: pl.Tensor, b: pl.Tensor, o1: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o1[:] = pl.pow(a, b)
    return o1


@CASES(
    LEFT,
    RIGHT,
    expected=lambda a, b: (
        (a == b).astype(float32),
        (a != b).astype(float32),
        (a < b).astype(float32),
        (a <= b).astype(float32),
        (a > b).astype(float32),
        (a >= b).astype(float32),
    ),
)
@pl.jit
def comparisons(
    a: pl.Tensor,
    b: pl.Tensor,
    o1: pl.Out[pl.Tensor],
    o2: pl.Out[pl.Tensor],
    o3: pl.Out[pl.Tensor],
    o4: pl.Out[pl.Tensor],
    o5: pl.Out[pl.Tensor],
    o6: pl.Out[pl.Tensor],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        o1[:] = a == b
        o2[:] = a != b
        o3[:] = a < b
        o4[:] = a <= b
        o5[:] = a > b
        o6[:] = a >= b
    return o1, o2, o3, o4, o5, o6


@CASES(VALUES, expected=lambda x: (x.sum(1, keepdims=True), x.max(1, keepdims=True), x.min(1, keepdims=True), np.full((1, 1), 4, np.int32)))
@pl.jit
def reductions(x: pl.Tensor, s: pl.Out[pl.Tensor], m: pl.Out[pl.Tensor], n: pl.Out[pl.Tensor], a: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        s[:] = pl.row_sum(x)
        m[:] = pl.row_max(x)
        n[:] = pl.row_min(x)
        a[:] = pl.row_argmax(x)
    return s, m, n, a


@CASES(VALUES, expected=lambda x: (np.sin(x), np.cos(x)), tol=2e-6)
@pl.jit
def sine_and_cosine(x: pl.Tensor, s: pl.Out[pl.Tensor], c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        s[:] = pl.sin(x)
        c[:] = pl.cos(x)
    return s, c


@CASES(VALUES, expected=lambda x: (x.astype(np.float16), x.astype(ml_dtypes.bfloat16), x.astype(ml_dtypes.float8_e5m2)))
@pl.jit
def narrow_floats(x: pl.Tensor, h: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor], f: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        h[:] = pl.cast(x, pl.FP16, mode="rint")
        b[:] = pl.cast(x, pl.BF16, mode="rint")
        f[:] = pl.cast(x, pl.FP8E5M2, mode="rint")
    return h, b, f
