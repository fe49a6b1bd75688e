"""Helpers that call each other."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit.inline
def ping(x: pl.Tensor, target: pl.Tensor):
    target = pong(x, target)
    return target


@pl.jit.inline
def pong(x: pl.Tensor, target: pl.Tensor):
    target = ping(x, target)
    return target


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = ping(a, out)
    return out


def mistake() -> object:
    return kernel(A, OUT)
