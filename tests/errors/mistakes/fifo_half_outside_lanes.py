"""Half a tile in a kernel that also has the cube's part."""

import numpy as np

import tilejit.language as pl

A = np.arange(256, dtype=np.float32).reshape(16, 16)
OUT = np.full((16, 16), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=1)
        h: pl.Tile[[8, 16], pl.FP32] = pl.tpop_from_aic(split=1)
        out = pl.store(h, [0, 0], out)
    return out


def mistake() -> object:
    return kernel(A, OUT)
