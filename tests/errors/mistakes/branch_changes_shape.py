"""A name with two shapes after a branch."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
CFG = np.array([1], np.int32)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, cfg: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [4, 8])
        if pl.read(cfg, [0]) == 1:
            t = pl.transpose(t, 0, 1)
        pl.store(t, [0, 0], out)


def mistake() -> object:
    return kernel(A, CFG, OUT)
