"""An integer where an accumulation asks for a comparison."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tile([8, 16], dtype=pl.FP32)
        for k in pl.range(2):
            acc = pl.matmul_acc(acc, pl.load(x, [0, 0], [8, 8]), pl.load(x, [0, 0], [8, 16]), init_cond=k)
        pl.store(acc, [0, 0], out)


def mistake() -> object:
    return kernel(X, OUT)
