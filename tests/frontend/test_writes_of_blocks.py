"""What blocks of `pl.spmd` write into a result of an operator is seen after them, whichever way it is written."""

from __future__ import annotations

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tests.jit.conftest import make_kernel as make_kernel

KERNEL = """
@pl.jit.inline
def put(t, i, v):
    t[i] = v

@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = x * 1.0
    same = t
    {loop}
        {lines}
    out[:] = {result}
"""
X = np.arange(24, dtype=np.float32).reshape(4, 6)
TURNS = "for i in pl.spmd(4):"
WRITES = {
    "row": (TURNS, "t[i] = x[i] * 2.0", "t"),
    "augmented": (TURNS, "t[i] += x[i]", "t"),
    "elements": (TURNS, "for j in pl.range(6):\n            t[i, j] = x[i, j] * 2.0", "t"),
    "slices": (TURNS, "t[i:i + 1, 0:3] = x[i:i + 1, 0:3] * 2.0\n        t[i:i + 1, 3:] = x[i:i + 1, 3:] * 2.0", "t"),
    "helper": (TURNS, "put(t, i, x[i] * 2.0)", "t"),
    "branch": (TURNS, "if i >= 0:\n            t[i] = x[i] * 2.0", "t"),
    "a window": (TURNS, "part = t[i]\n        part[:] = x[i] * 2.0", "t"),
    "another name": (TURNS, "t[i] = x[i] * 2.0", "same"),
    "rounds": ("for r in pl.range(3):\n      for i in pl.spmd(4):", "t[i] = x[i] * 2.0 + t[i] * 0.0", "t"),
    "with": ("with pl.spmd(4):\n        i = pl.tile.get_block_idx()", "t[i] = x[i] * 2.0", "t"),
    "whole": ("for i in pl.spmd(1):", "t += x", "t"),
    "private": (TURNS, "t[0] = x[i] * 2.0\n        out[i] = t[0]", "pl.concat(out[:, 0:3], out[:, 3:6])"),
}


@pytest.mark.parametrize("platform", ["cpu", "reference"])
@pytest.mark.parametrize("write", WRITES)
def test_writes_of_blocks_are_seen_afterwards(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch, write: str, platform: str) -> None:
    monkeypatch.setenv("TILEJIT_PLATFORM", platform)
    loop, lines, result = WRITES[write]
    kernel = make_kernel(KERNEL.replace("{loop}", loop).replace("{lines}", lines).replace("{result}", result))
    out = np.zeros_like(X)
    kernel(X, out)
    np.testing.assert_array_equal(out, X * 2)
