"""A barrier that some blocks never reach."""

import numpy as np

import tilejit.language as pl

A = np.arange(256, dtype=np.float32).reshape(16, 16)
OUT = np.full((16, 16), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    for b in pl.spmd(4):
        t = pl.load(a, [b * 4, 0], [4, 16])
        if b < 3:
            pl.system.syncall()
        out = pl.store(t, [b * 4, 0], out)
    return out


def mistake() -> object:
    return kernel(A, OUT)
