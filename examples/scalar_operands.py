"""Scalars: a number may stand on either side of an operator; scalar arguments become constants of the compiled kernel."""

import numpy as np

import tilejit.language as pl


@pl.jit
def scalar_operands(x: pl.Tensor, scale: pl.FP32, shift: pl.FP32, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = scale * x + 2.0 / (x * x + shift)


def reference(x, scale, shift):
    return scale * x + 2.0 / (x * x + shift)


def inputs(rng):
    yield rng.standard_normal((512, 512), np.float32), 0.5, 1.0
    yield rng.standard_normal((5, 37), np.float32), -3.0, 0.25


if __name__ == "__main__":
    for x, scale, shift in inputs(np.random.default_rng(0)):
        out = np.empty_like(x)
        scalar_operands(x, scale, shift, out)
        np.testing.assert_allclose(out, reference(x, scale, shift), rtol=1e-5, atol=1e-6)
    print("OK")
