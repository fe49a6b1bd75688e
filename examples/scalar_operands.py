"""Scalar arguments: `scale` becomes a constant of the compiled kernel, `shift` stays a parameter of it and may change freely."""

import numpy as np

import tilejit.language as pl
from tilejit.testing import on_device


@pl.jit(runtime_scalars=("shift",))
def scalar_operands(x: pl.Tensor, scale: pl.FP32, shift: pl.FP32, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = scale * x + 2.0 / (x * x + shift)  # a number may stand on either side


def reference(x, scale, shift):
    return scale * x + 2.0 / (x * x + shift)


def inputs(rng):
    for shape, scale, shift in (((512, 512), 0.5, 1.0), ((512, 512), 0.5, 4.0), ((5, 37), -3.0, 0.25)):
        yield rng.standard_normal(shape, np.float32), scale, shift


if __name__ == "__main__":
    run = on_device(scalar_operands)
    for x, scale, shift in inputs(np.random.default_rng(0)):
        np.testing.assert_allclose(run(x, scale, shift), reference(x, scale, shift), rtol=1e-5, atol=1e-6)
    assert len(scalar_operands._cache) == 2
    print("OK")
