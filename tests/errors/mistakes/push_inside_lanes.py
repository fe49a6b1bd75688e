"""The cube's push in a vector lane."""

import numpy as np

import tilejit.language as pl

A = np.arange(256, dtype=np.float32).reshape(16, 16)
OUT = np.full((16, 16), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [16, 16])
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            pl.tpush_to_aiv(t, split=1)
        out = pl.store(t, [0, 0], out)
    return out


def mistake() -> object:
    return kernel(A, OUT)
