"""break under a run-time condition, in a loop over a list."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(xs: list, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for x in xs:
            if pl.read(x, [0, 0]) > 0.0:
                break
            out[:] = x


def mistake() -> object:
    return kernel([A, A], OUT)
