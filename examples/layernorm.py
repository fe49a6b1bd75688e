"""LayerNorm in blocks: `pl.spmd` runs its body once per block index, each block on a tile of its own."""

import numpy as np

import tilejit.language as pl
from tilejit.testing import on_device

ROWS = 8


@pl.jit
def layernorm(x: pl.Tensor, gamma: pl.Tensor, beta: pl.Tensor, out: pl.Out[pl.Tensor]):
    n = x.shape[1]
    for block in pl.spmd(x.shape[0] // ROWS):
        t = pl.load(x, [block * ROWS, 0], [ROWS, n])
        scratch = pl.create_tile([ROWS, n], dtype=pl.FP32)
        mean = pl.mul(pl.row_sum(t, scratch), 1.0 / n)
        centred = pl.row_expand_sub(t, mean)
        variance = pl.mul(pl.row_sum(pl.mul(centred, centred), scratch), 1.0 / n)
        normal = pl.row_expand_mul(centred, pl.rsqrt(pl.add(variance, 1e-5)))
        scaled = pl.col_expand_mul(normal, pl.load(gamma, [0, 0], [1, n]))
        pl.store(pl.col_expand_add(scaled, pl.load(beta, [0, 0], [1, n])), [block * ROWS, 0], out)


def reference(x, gamma, beta):
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + 1e-5) * gamma + beta


def inputs(rng):
    for rows, n in ((1024, 512), (24, 77)):
        yield rng.standard_normal((rows, n), np.float32), rng.standard_normal((1, n), np.float32), rng.standard_normal((1, n), np.float32)


if __name__ == "__main__":
    run = on_device(layernorm)
    for x, gamma, beta in inputs(np.random.default_rng(0)):
        out = np.empty_like(x)
        run(x, gamma, beta, out)
        np.testing.assert_allclose(out, reference(x, gamma, beta), rtol=1e-4, atol=1e-5)
    print("OK")
