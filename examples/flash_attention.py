"""Attention over key blocks with carried state: running maximum, running sum and running output pass from turn to turn."""

import math

import numpy as np

import tilejit.language as pl
from tilejit.testing import on_device

QUERIES, KEYS = 32, 64


@pl.jit
def flash_attention(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    d = q.shape[1]
    for block in pl.spmd(q.shape[0] // QUERIES):
        tq = pl.mul(pl.load(q, [block * QUERIES, 0], [QUERIES, d]), 1.0 / math.sqrt(d))
        scratch = pl.create_tile([QUERIES, KEYS], dtype=pl.FP32)
        m0 = pl.tile.full([QUERIES, 1], dtype=pl.FP32, value=-1e30)
        l0 = pl.tile.full([QUERIES, 1], dtype=pl.FP32, value=0.0)
        o0 = pl.tile.full([QUERIES, d], dtype=pl.FP32, value=0.0)
        for j, (m, l, o) in pl.range(k.shape[0] // KEYS, init_values=(m0, l0, o0)):
            tk = pl.load(k, [j * KEYS, 0], [KEYS, d])
            tv = pl.load(v, [j * KEYS, 0], [KEYS, d])
            s = pl.matmul(tq, pl.transpose(tk, 0, 1))
            top = pl.maximum(m, pl.row_max(s, scratch))
            p = pl.row_expand_expdif(s, top)
            fade = pl.exp(pl.sub(m, top))
            l_next = pl.add(pl.mul(l, fade), pl.row_sum(p, scratch))
            o_next = pl.add(pl.row_expand_mul(o, fade), pl.matmul(p, tv))
            _, l_end, o_end = pl.yield_(top, l_next, o_next)
        pl.store(pl.row_expand_div(o_end, l_end), [block * QUERIES, 0], out)


def reference(q, k, v):
    s = q @ k.T / math.sqrt(q.shape[1])
    p = np.exp(s - s.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True) @ v


def inputs(rng):
    for queries, keys, d in ((512, 512, 64), (32, 192, 40), (96, 64, 13)):
        yield rng.standard_normal((queries, d), np.float32), rng.standard_normal((keys, d), np.float32), rng.standard_normal((keys, d), np.float32)


if __name__ == "__main__":
    run = on_device(flash_attention)
    for q, k, v in inputs(np.random.default_rng(0)):
        out = np.empty_like(q)
        run(q, k, v, out)
        np.testing.assert_allclose(out, reference(q, k, v), rtol=1e-4, atol=1e-5)
    print("OK")
