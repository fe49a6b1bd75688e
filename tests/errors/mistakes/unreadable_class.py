"""An object that raises whatever is asked of it."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


class Closed:
    """Nobody may look at it."""

    @property
    def __class__(self) -> type:
        raise PermissionError("closed")


CLOSED = Closed()


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = a * float(CLOSED.k)


def mistake() -> object:
    return kernel(A, OUT)
