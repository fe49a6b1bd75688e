"""Softmax over rows: reductions and broadcasts at tensor level, fused into one loop over the rows."""

import numpy as np

import tilejit.language as pl
from tilejit.testing import on_device


@pl.jit
def softmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(pl.row_expand_sub(x, pl.row_max(x)))
        out[:] = pl.row_expand_div(e, pl.row_sum(e))


def reference(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def inputs(rng):
    yield (rng.standard_normal((1024, 1024), np.float32),)
    yield (rng.standard_normal((37, 101), np.float32),)


if __name__ == "__main__":
    run = on_device(softmax)
    for (x,) in inputs(np.random.default_rng(0)):
        np.testing.assert_allclose(run(x), reference(x), rtol=1e-5, atol=1e-6)
    print("OK")
