"""A key that a dict of tensors does not have."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(w: dict, out: pl.Out[pl.Tensor]):
    out[:] = w["key"]


def mistake() -> object:
    return kernel({"query": A, "value": A}, OUT)
