"""Warm calls of kernels whose arguments differ in values that the program does not depend on."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl

pytestmark = pytest.mark.dispatch


@pl.jit
def ignoring(x: pl.Tensor, out: pl.Out[pl.Tensor], unused: object = None):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + 1.0


@pytest.mark.parametrize("fast", ["1", "0"])
def test_values_that_lead_to_one_program_all_have_a_warm_way(fast: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", fast)
    ignoring.cache_clear()
    x, out = np.ones((2, 3), np.float32), np.empty((2, 3), np.float32)
    for value in (1, 2, 2.0, -0.0, 0.0, "a", "b", True, None):
        for _ in range(3):
            ignoring(x, out, value)
        before = ignoring._warm.all_hits if ignoring._warm is not None else 0
        ignoring(x, out, value)
        assert ignoring._warm is not None and ignoring._warm.all_hits == before + 1, value
    assert ignoring.cache_info().entries == 1
