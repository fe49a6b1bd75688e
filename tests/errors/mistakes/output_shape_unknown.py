"""A return-style call whose output shape nothing tells."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
CFG = np.array([2], np.int32)


@pl.jit
def kernel(a: pl.Tensor, cfg: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(cfg, [0]), pl.INDEX)
        pl.store(pl.load(a, [0, 0], [2, 8]), [n, 0], out)
    return out


def mistake() -> object:
    return kernel(A, CFG)
