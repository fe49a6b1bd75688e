"""RMSNorm for any number of tokens: a dynamic extent is part of the type, so one compiled kernel serves them all."""

import numpy as np

import tilejit.language as pl
from tilejit.testing import on_device

TOKENS = pl.dynamic("TOKENS")
HIDDEN = 250


@pl.jit
def rmsnorm(
    x: pl.Tensor[[TOKENS, HIDDEN], pl.FP32],
    weight: pl.Tensor[[1, HIDDEN], pl.FP32],
    out: pl.Out[pl.Tensor[[TOKENS, HIDDEN], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        mean_square = pl.row_sum(x * x) * (1.0 / HIDDEN)
        normal = pl.row_expand_mul(x, pl.rsqrt(mean_square + 1e-6))
        out[:] = pl.col_expand_mul(normal, weight)


def reference(x, weight):
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6) * weight


def inputs(rng):
    weight = rng.standard_normal((1, HIDDEN), np.float32)
    for tokens in (2048, 1, 77):
        yield rng.standard_normal((tokens, HIDDEN), np.float32), weight


if __name__ == "__main__":
    run = on_device(rmsnorm)
    for x, weight in inputs(np.random.default_rng(0)):
        np.testing.assert_allclose(run(x, weight), reference(x, weight), rtol=1e-4, atol=1e-5)
    assert len(rmsnorm._cache) == 1
    print("OK")
