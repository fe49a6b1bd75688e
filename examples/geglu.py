"""GeGLU with a helper: an inline function is spliced into each caller, whatever shapes it is given there."""

import numpy as np

import tilejit.language as pl
from tilejit.testing import on_device

SLOPE, CUBIC = 0.7978845608, 0.044715


@pl.jit.inline
def gelu(x: pl.Tensor):
    return 0.5 * x * (1.0 + pl.tanh(SLOPE * (x + CUBIC * x * x * x)))


@pl.jit
def geglu(gate: pl.Tensor, up: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = gelu(gate) * up


def reference(gate, up):
    return 0.5 * gate * (1 + np.tanh(SLOPE * (gate + CUBIC * gate * gate * gate))) * up


def inputs(rng):
    for shape in ((512, 1024), (6, 21)):
        yield rng.standard_normal(shape, np.float32), rng.standard_normal(shape, np.float32)


if __name__ == "__main__":
    run = on_device(geglu)
    for gate, up in inputs(np.random.default_rng(0)):
        np.testing.assert_allclose(run(gate, up), reference(gate, up), rtol=1e-5, atol=1e-6)
    print("OK")
