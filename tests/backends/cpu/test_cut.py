"""Row values between two sweeps over short rows are computed for all rows at once, unless what they are kept in is still read."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tilejit.language as pl

ROWS, COLUMNS, BLOCKS = 19, 45, 3


@pl.jit
def softmax_sums(x: pl.Tensor, rows: int, columns: int, late: int, sums: pl.Out[pl.Tensor], tops: pl.Out[pl.Tensor]):
    for _ in pl.spmd(1):
        scratch = pl.create_tile([rows, columns], dtype=pl.FP32)
        most = pl.tile.full([rows, 1], dtype=pl.FP32, value=-1e30)
        total = pl.tile.full([rows, 1], dtype=pl.FP32, value=0.0)
        for j in pl.range(x.shape[1] // columns):
            t = pl.load(x, [0, j * columns], [rows, columns])
            top = pl.maximum(most, pl.row_max(t, scratch))
            weights = pl.row_expand_expdif(t, top)
            fade = pl.exp(pl.sub(most, top))
            if late != 0:
                weights = pl.add(weights, pl.exp(pl.mul(pl.row_expand_sub(t, most), 1e-31)))
            total = pl.add(pl.mul(total, fade), pl.row_sum(weights, scratch))
            most = top
        pl.store(total, [0, 0], sums)
        pl.store(most, [0, 0], tops)


def expected(x: np.ndarray, late: int) -> tuple[np.ndarray, np.ndarray]:
    most, total = np.full((ROWS, 1), -1e30), np.zeros((ROWS, 1))
    for t in np.split(x.astype(np.float64), BLOCKS, axis=1):
        top = np.maximum(most, t.max(axis=1, keepdims=True))
        weights = np.exp(t - top) + (np.exp((t - most) * 1e-31) if late else 0)
        total, most = total * np.exp(most - top) + weights.sum(axis=1, keepdims=True), top
    return total, most


@pytest.mark.parametrize("late", [0, 1])
def test_sums_of_a_running_softmax_agree_however_the_nest_is_cut(late: int) -> None:
    rng = np.random.default_rng(17)
    x = (rng.standard_normal((ROWS, BLOCKS * COLUMNS)) * 4).astype(np.float32)
    x[3, 50], x[5, 7] = np.nan, np.inf
    sums, tops = np.zeros((ROWS, 1), np.float32), np.zeros((ROWS, 1), np.float32)
    compiled = softmax_sums.compile(x, ROWS, COLUMNS, late, sums, tops)
    compiled(x, sums, tops)
    with np.errstate(invalid="ignore"):
        total, most = expected(x, late)
    np.testing.assert_allclose(sums, total, rtol=1e-5)
    np.testing.assert_array_equal(tops, most.astype(np.float32))
    assert np.isnan(tops[3]) and np.isinf(tops[5]) and np.isfinite(np.delete(tops, [3, 5])).all()
    nests = [name for name in json.loads(compiled.stage("schedule")) if "/nest" in name]
    assert len(nests) == (3 if late else 5)  # two of them store results
