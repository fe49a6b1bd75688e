"""A softmax over the first lengths[i] columns of each row: the valid region of a tile comes from data, the tile stays static."""

import numpy as np

import tilejit.language as pl
from tilejit.testing import on_device


@pl.jit
def dynamic_valid_shape(x: pl.Tensor, lengths: pl.Tensor, out: pl.Out[pl.Tensor]):
    n = x.shape[1]
    with pl.at(level=pl.Level.CORE_GROUP):
        scratch = pl.create_tile([1, n], dtype=pl.FP32)
        for i in pl.range(x.shape[0]):
            length = pl.cast(pl.read(lengths, [i]), pl.INDEX)
            t = pl.load(x, [i, 0], [1, n], valid_shape=[1, length])
            e = pl.row_expand_expdif(t, pl.row_max(t, scratch))  # only valid cells count
            p = pl.row_expand_div(e, pl.row_sum(e, scratch))
            pl.store(pl.tile.fillpad(p, pad_value=pl.PadValue.zero), [i, 0], out)


def reference(x, lengths):
    out = np.zeros_like(x)
    for row, length, result in zip(x, lengths, out, strict=True):
        e = np.exp(row[:length] - row[:length].max())
        result[:length] = e / e.sum()
    return out


def inputs(rng):
    for rows, n in ((128, 256), (19, 45)):
        yield rng.standard_normal((rows, n), np.float32), rng.integers(1, n + 1, rows, np.int32)


if __name__ == "__main__":
    run = on_device(dynamic_valid_shape)
    for x, lengths in inputs(np.random.default_rng(0)):
        out = np.empty_like(x)
        run(x, lengths, out)
        np.testing.assert_allclose(out, reference(x, lengths), rtol=1e-5, atol=1e-6)
    print("OK")
