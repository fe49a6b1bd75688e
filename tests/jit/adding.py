"""A kernel that adds what an expression of Python gives, and its result."""

from __future__ import annotations

from typing import Any

import numpy as np

X = np.ones((2, 3), np.float32)


def called(kernel: Any, x: np.ndarray = X) -> float:
    out = np.full_like(x, -1.0)
    kernel(x, out)
    return float(out[0, 0])


ADD = """
@pl.jit{options}
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + float({expression})
    return out
"""
