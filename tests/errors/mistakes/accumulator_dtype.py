"""Accumulating in half precision."""

import numpy as np

import tilejit.language as pl

H = np.arange(128, dtype=np.float16).reshape(8, 16)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(h: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tile([8, 16], dtype=pl.FP16)
        t = pl.load(h, [0, 0], [8, 16])
        pl.store(pl.matmul_acc(acc, pl.load(h, [0, 0], [8, 8]), t), [0, 0], out)


def mistake() -> object:
    return kernel(H, OUT)
