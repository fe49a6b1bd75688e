"""Loops in which places from the run are checked and decide: LLVM's NewGVN aborts the process on this one, so that pass must stay away."""

from __future__ import annotations

import numpy as np

import tilejit.language as pl

ROWS = pl.dynamic("ROWS")


@pl.jit
def checked(
    x: pl.Tensor[[ROWS, 6], pl.FP32],
    y: pl.Tensor[[ROWS, 6], pl.FP32],
    n: pl.Tensor,
    out: pl.InOut[pl.Tensor[[ROWS, 6], pl.FP32]],
    two: pl.InOut[pl.Tensor[[ROWS, 6], pl.FP32]],
):
    z = n[2]
    for i in pl.range(n[0]):
        v = x * 0.5 + 1.0
        two[i] -= pl.minimum(v[z + i], y[i, i]) + 0.0
        if i < 2:
            out[i, i] = two[i, -5]
            two[z + 4] = x[z + i] - out[z + 3] * 0.5
        out -= pl.where(y > pl.maximum(v, 1.0), y, -0.5)
    for j in pl.range(n[0]):
        out[2:4, 2:4] = (y[0:2, 2:4] + y[j, 3]) * 0.5


def test_a_loop_of_tests_is_compiled_and_right() -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal((5, 6)).astype(np.float32) for _ in range(2))
    n = np.array([3, 1, 0, 2], np.int32)
    out, two, want, other = (np.zeros((5, 6), np.float32) for _ in range(4))
    checked(x, y, n, out, two)
    for i in range(3):
        v = x * 0.5 + 1
        other[i] -= np.minimum(v[i], y[i, i])
        if i < 2:
            want[i, i] = other[i, -5]
            other[4] = x[i] - want[3] * 0.5
        want -= np.where(y > np.maximum(v, 1), y, -0.5)
    want[2:4, 2:4] = (y[0:2, 2:4] + y[2, 3]) * 0.5
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(two, other, rtol=1e-5, atol=1e-6)
