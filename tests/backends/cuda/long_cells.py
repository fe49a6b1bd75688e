"""`python -m tests.backends.cuda.long_cells`: cell-by-cell ops on few long rows in Triton's interpreter against NumPy."""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np

import tilejit.language as pl
from tests.backends.cuda import interpreted
from tests.backends.cuda.test_lower import planned
from tilejit.backends.cuda import plan
from tilejit.runtime.config import RunConfig

assert interpreted.TARGET
COLUMNS = pl.dynamic("COLUMNS")


@pl.jit
def scaled(x: pl.Tensor, row: pl.Tensor, column: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.col_expand_add(pl.row_expand_mul(x, column), row) * 2.0


@pl.jit
def open_end(x: pl.Tensor, row: pl.Tensor, column: pl.Tensor, out: pl.Out[pl.Tensor]):
    x.bind_dynamic(1, COLUMNS)
    row.bind_dynamic(1, COLUMNS)
    out.bind_dynamic(1, COLUMNS)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.col_expand_add(pl.row_expand_mul(x, column), row) * 2.0


def main() -> None:
    rng = np.random.default_rng(1)
    for rows, columns, kernel in ((1, 20_001, scaled), (3, 4096, scaled), (2, 9_000, open_end)):
        x, row, column = (rng.standard_normal(shape, np.float32) for shape in ((rows, columns), (1, columns), (rows, 1)))
        out = np.full_like(x, np.nan)
        (*_, launch) = planned(kernel, x, row, column, out).entries[kernel.__name__].steps
        assert isinstance(launch, plan.Launch)
        assert kernel is open_end or (isinstance(launch.grid[0], int) and launch.grid[0] > 4 * rows)
        kernel(x, row, column, out, config=RunConfig(platform="triton"))
        np.testing.assert_allclose(out, (x * column + row) * 2, rtol=1e-6, atol=1e-6)


if __name__ == "__main__":
    main()
