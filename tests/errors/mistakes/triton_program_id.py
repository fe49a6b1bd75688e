"""Triton's program_id in a kernel."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


class tl:
    """Stands for Triton's language."""

    @staticmethod
    def load(pointer: object) -> object:
        return pointer

    @staticmethod
    def program_id(axis: int) -> int:
        raise ValueError("Did you forget to add @triton.jit?")


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i = tl.program_id(0)
        out[i : i + 1, :] = a[i : i + 1, :]


def mistake() -> object:
    return kernel(A, OUT)
