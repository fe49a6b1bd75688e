"""Tile level: a loop loads windows of a tensor, computes on them and stores them back."""

import numpy as np

import tilejit.language as pl
from tilejit.testing import on_device

ROWS = 32


@pl.jit
def chunked_add(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    n = a.shape[1]
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(a.shape[0] // ROWS):
            ta = pl.load(a, [i * ROWS, 0], [ROWS, n])
            tb = pl.load(b, [i * ROWS, 0], [ROWS, n])
            pl.store(pl.add(ta, tb), [i * ROWS, 0], out)


def reference(a, b):
    return a + b


def inputs(rng):
    for shape in ((512, 256), (96, 33)):
        yield rng.standard_normal(shape, np.float32), rng.standard_normal(shape, np.float32)


if __name__ == "__main__":
    run = on_device(chunked_add)
    for a, b in inputs(np.random.default_rng(0)):
        out = np.empty_like(a)
        run(a, b, out)
        np.testing.assert_array_equal(out, reference(a, b))
    print("OK")
