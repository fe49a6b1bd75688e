"""One decoding step over a paged cache: pages are found through a table, the last page is partly filled, no mask anywhere."""

import math

import numpy as np

import tilejit.language as pl
from tilejit.testing import on_device

PAGE = 16


@pl.jit
def paged_attention(q: pl.Tensor, keys: pl.Tensor, values: pl.Tensor, table: pl.Tensor, length: pl.Tensor, out: pl.Out[pl.Tensor]):
    heads, d = q.shape
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(length, [0]), pl.INDEX)
        tq = pl.mul(pl.load(q, [0, 0], [heads, d]), 1.0 / math.sqrt(d))
        scratch = pl.create_tile([heads, PAGE], dtype=pl.FP32)
        m = pl.tile.full([heads, 1], dtype=pl.FP32, value=-1e30)
        l = pl.tile.full([heads, 1], dtype=pl.FP32, value=0.0)
        o = pl.tile.full([heads, d], dtype=pl.FP32, value=0.0)
        for j in pl.range((n + PAGE - 1) // PAGE):
            row = pl.cast(pl.read(table, [j]), pl.INDEX) * PAGE
            filled = pl.min(n - j * PAGE, PAGE)
            tk = pl.load(keys, [row, 0], [PAGE, d], valid_shape=[filled, d])
            tv = pl.load(values, [row, 0], [PAGE, d], valid_shape=[filled, d])
            s = pl.matmul(tq, pl.transpose(tk, 0, 1))
            top = pl.maximum(m, pl.row_max(s, scratch))
            p = pl.row_expand_expdif(s, top)
            fade = pl.exp(pl.sub(m, top))
            l = pl.add(pl.mul(l, fade), pl.row_sum(p, scratch))
            o = pl.add(pl.row_expand_mul(o, fade), pl.matmul(p, tv))
            m = top
        pl.store(pl.row_expand_div(o, l), [0, 0], out)


def reference(q, keys, values, table, length):
    rows = (table[:, None] * PAGE + np.arange(PAGE)).ravel()[: length[0]]
    s = q @ keys[rows].T / math.sqrt(q.shape[1])
    p = np.exp(s - s.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True) @ values[rows]


def inputs(rng):
    for heads, d, pages, length in ((8, 64, 64, 1000), (8, 64, 64, 17), (3, 21, 9, 100)):
        pool = [rng.standard_normal((pages * PAGE, d), np.float32) for _ in range(2)]
        yield rng.standard_normal((heads, d), np.float32), *pool, rng.permutation(pages).astype(np.int32), np.array([length], np.int32)


if __name__ == "__main__":
    run = on_device(paged_attention)
    for q, keys, values, table, length in inputs(np.random.default_rng(0)):
        out = np.empty_like(q)
        run(q, keys, values, table, length, out)
        np.testing.assert_allclose(out, reference(q, keys, values, table, length), rtol=1e-4, atol=1e-5)
    print("OK")
