"""A mixed barrier that counts blocks instead of cores."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
N = np.array([0], np.int32)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    for b in pl.spmd(2):
        pl.system.syncall(mode="soft", gm_workspace=n, used_cores=2)
        pl.store(pl.load(x, [b * 4, 0], [4, 16]), [b * 4, 0], out)


def mistake() -> object:
    return kernel(X, N, OUT)
