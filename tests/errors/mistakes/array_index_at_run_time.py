"""An on-core array read past its end."""

import numpy as np

import tilejit.language as pl

N = np.array([20], np.int64)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        k = pl.cast(pl.read(n, [0]), pl.INDEX)
        table = pl.array.create(4, pl.INT32)
        for j in pl.unroll(4):
            table[j] = j
        pl.write(out, [0, 0], pl.cast(table[k], pl.FP32))


def mistake() -> object:
    return kernel(N, OUT)
