"""A submitted call leaves out an output whose shape nobody knows."""

import numpy as np

import tilejit.language as pl

X = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit.incore
def moved(x: pl.Tensor, row: pl.INDEX, out: pl.Out[pl.Tensor]):
    pl.store(pl.load(x, [0, 0], [4, 8]), [row, 0], out)
    return out


@pl.jit(runtime_scalars=("row",))
def kernel(x: pl.Tensor, row: pl.INDEX, out: pl.Out[pl.Tensor]):
    y, _ = pl.submit(moved, x, row)
    out[:] = y


def mistake() -> object:
    return kernel(X, 0, OUT)
