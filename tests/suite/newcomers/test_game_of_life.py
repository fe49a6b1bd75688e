"""Conway's game of life on a torus, with masks."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, on


@pl.jit
def life(board: pl.Tensor, out: pl.Out[pl.Tensor]):
    """board: [rows + 2, columns + 2] with the opposite edges around it; out: [rows, columns], both BOOL."""
    rows, columns = board.shape[0] - 2, board.shape[1] - 2
    with pl.at(level=pl.Level.CORE_GROUP):
        cells = pl.cast(board, pl.INT32)
        around = [cells[i : i + rows, j : j + columns] for i in range(3) for j in range(3) if (i, j) != (1, 1)]
        neighbours = around[0]
        for other in around[1:]:
            neighbours = neighbours + other
        out[:] = (neighbours == 3) | (board[1 : rows + 1, 1 : columns + 1] & (neighbours == 2))


@pytest.mark.parametrize("platform", PLATFORMS)
def test_cells_live_on_as_by_the_rules(platform: str) -> None:
    board = np.random.default_rng(0).random((20, 31)) < 0.4
    for _ in range(3):
        count = sum(np.roll(board, (i, j), (0, 1)).astype(int) for i in (-1, 0, 1) for j in (-1, 0, 1)) - board
        want = (count == 3) | (board & (count == 2))
        out = np.empty_like(board)
        life(np.pad(board, 1, mode="wrap"), out, config=on(platform))
        np.testing.assert_array_equal(out, want)
        board = want
