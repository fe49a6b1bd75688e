"""Reading the bytes with another size."""

import numpy as np

import tilejit.language as pl

U = np.arange(128, dtype=np.uint8).reshape(8, 16)
OUT = np.full((8, 4), 7, np.float32)


@pl.jit
def kernel(u: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.cast(pl.reinterpret_view(pl.load(u, [0, 0], [8, 15]), pl.FP32), pl.FP32)


def mistake() -> object:
    return kernel(U, OUT)
