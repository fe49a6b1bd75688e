"""GELU in its tanh form. Names of the module are compile-time constants; changing one makes another kernel."""

import math

import numpy as np

import tilejit.language as pl
from tilejit.testing import on_device

SLOPE = math.sqrt(2 / math.pi)
CUBIC = 0.044715


@pl.jit
def gelu(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        inner = SLOPE * (x + CUBIC * x * x * x)
        out[:] = 0.5 * x * (1.0 + pl.tanh(inner))


def reference(x):
    return 0.5 * x * (1 + np.tanh(SLOPE * (x + CUBIC * x * x * x)))


def inputs(rng):
    yield (rng.standard_normal((1024, 1024), np.float32),)
    yield (rng.standard_normal((11, 29), np.float32),)


if __name__ == "__main__":
    run = on_device(gelu)
    for (x,) in inputs(np.random.default_rng(0)):
        np.testing.assert_allclose(run(x), reference(x), rtol=1e-5, atol=1e-6)
    print("OK")
