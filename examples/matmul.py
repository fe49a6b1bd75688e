"""Matrix product from tiles: a loop over K accumulates one tile of the result; tile sizes are computed while specialising."""

import numpy as np

import tilejit.language as pl
from tilejit.testing import on_device


@pl.jit
def matmul(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    m, k = a.shape
    n = b.shape[1]
    tm, tn, tk = min(m, 128), min(n, 128), min(k, 32)
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(m // tm):
            for j in pl.range(n // tn):
                acc = pl.tile.full([tm, tn], dtype=pl.FP32, value=0.0)
                for p in pl.range(k // tk):
                    ta = pl.load(a, [i * tm, p * tk], [tm, tk])
                    tb = pl.load(b, [p * tk, j * tn], [tk, tn])
                    acc = pl.matmul_acc(acc, ta, tb)
                pl.store(acc, [i * tm, j * tn], c)


def reference(a, b):
    return a @ b


def inputs(rng):
    for m, k, n in ((512, 512, 512), (60, 96, 37)):
        yield rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)


if __name__ == "__main__":
    run = on_device(matmul)
    for a, b in inputs(np.random.default_rng(0)):
        c = np.empty((a.shape[0], b.shape[1]), np.float32)
        run(a, b, c)
        np.testing.assert_allclose(c, reference(a, b), rtol=1e-4, atol=1e-4)
    print("OK")
