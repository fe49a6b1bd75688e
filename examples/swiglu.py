"""SwiGLU of a packed projection: subscripts are windows of a tensor, nothing is copied."""

import numpy as np

import tilejit.language as pl
from tilejit.testing import on_device


@pl.jit
def swiglu(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    n = x.shape[1] // 2
    with pl.at(level=pl.Level.CORE_GROUP):
        gate = x[:, 0:n]
        up = x[:, n:]
        out[:] = gate / (pl.exp(-gate) + 1.0) * up


def reference(x):
    gate, up = np.split(x, 2, axis=1)
    return gate / (np.exp(-gate) + 1) * up


def inputs(rng):
    yield (rng.standard_normal((512, 2048), np.float32),)
    yield (rng.standard_normal((9, 2 * 43), np.float32),)


if __name__ == "__main__":
    run = on_device(swiglu)
    for (x,) in inputs(np.random.default_rng(0)):
        np.testing.assert_allclose(run(x), reference(x), rtol=1e-5, atol=1e-6)
    print("OK")
