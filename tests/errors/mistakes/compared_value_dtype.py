"""Looking for an integer in floats."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        found, counts = pl.gather(x, kvalue=pl.const(3, pl.INT32), cmp_mode="eq", out_cols=16)
        out[:] = pl.cast(found, pl.FP32)


def mistake() -> object:
    return kernel(X, OUT)
