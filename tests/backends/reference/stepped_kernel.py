"""A kernel that the tests step through; its line numbers stand in their scripts by the words at the ends of lines."""

from __future__ import annotations

import numpy as np

import tilejit.language as pl


@pl.jit.inline
def soften(t: pl.Tile):
    low = pl.mul(t, 0.5)  # low
    high = pl.add(low, 1.0)
    return high


@pl.jit
def stepped(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        first = pl.tile.full([4, 8], dtype=pl.FP32, value=0.0)
        for i, (acc,) in pl.range(2, init_values=(first,)):
            tile = pl.load(x, [i * 4, 0], [4, 8])
            soft = soften(tile)  # call
            total = pl.add(acc, soft)  # total
            end = pl.yield_(total)
        pl.store(end, [0, 0], out)


if __name__ == "__main__":
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    out = np.zeros((4, 8), np.float32)
    stepped(x, out)
    np.testing.assert_array_equal(out, (x[:4] + x[4:]) / 2 + 2)
    print("right")
