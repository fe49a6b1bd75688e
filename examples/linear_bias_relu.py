"""A linear layer at tensor level: product with a transposed weight, bias and activation in three lines."""

import numpy as np

import tilejit.language as pl
from tilejit.testing import on_device


@pl.jit
def linear_bias_relu(x: pl.Tensor, weight: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = pl.matmul(x, weight, b_trans=True)
        y = pl.col_expand_add(y, bias)
        out[:] = pl.maximum(y, 0.0)


def reference(x, weight, bias):
    return np.maximum(x @ weight.T + bias, 0)


def inputs(rng):
    for tokens, n_in, n_out in ((256, 512, 384), (5, 30, 19)):
        yield rng.standard_normal((tokens, n_in), np.float32), rng.standard_normal((n_out, n_in), np.float32), rng.standard_normal((1, n_out), np.float32)


if __name__ == "__main__":
    run = on_device(linear_bias_relu)
    for x, weight, bias in inputs(np.random.default_rng(0)):
        np.testing.assert_allclose(run(x, weight, bias), reference(x, weight, bias), rtol=1e-4, atol=1e-4)
    print("OK")
