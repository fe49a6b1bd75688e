"""SiLU, x · sigmoid(x): infix operators and functions mix freely, and fuse into one pass over the data."""

import numpy as np

import tilejit.language as pl
from tilejit.testing import on_device


@pl.jit
def silu(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x / (pl.exp(-x) + 1.0)


def reference(x):
    return x / (np.exp(-x) + 1)


def inputs(rng):
    yield (rng.standard_normal((1024, 1024), np.float32),)
    yield (rng.standard_normal((3, 50), np.float32),)


if __name__ == "__main__":
    run = on_device(silu)
    for (x,) in inputs(np.random.default_rng(0)):
        np.testing.assert_allclose(run(x), reference(x), rtol=1e-5, atol=1e-6)
    print("OK")
