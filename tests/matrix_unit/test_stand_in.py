"""Products on the stand-in for a matrix unit, where this processor has none."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests import matrix_unit

PROGRAM = """
import numpy as np
from ml_dtypes import bfloat16

import tilejit.language as pl
from tests import matrix_unit
from tests.hardware import prepare

prepare()


@pl.jit
def product(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(a, b, out_dtype=out.dtype)


rng = np.random.default_rng(5)
done = 0
for dtype, result in ((bfloat16, np.float32), (np.int8, np.int32)):
    for m, k, n in ((64, 128, 96), (67, 131, 35), (1, 300, 40)):
        a, b = (rng.integers(-8, 8, shape).astype(dtype) for shape in ((m, k), (k, n)))
        out = np.zeros((m, n), result)
        product(a, b, out)
        np.testing.assert_array_equal(out, a.astype(np.int64) @ b.astype(np.int64))  # all of these sums are exact
    assert matrix_unit.instructions_done() > done, "the unit was not used"
    done = matrix_unit.instructions_done()
"""


@pytest.mark.skipif(not matrix_unit.can_begin(), reason="needs a processor with vectors of 512 bits and without a matrix unit, and a C compiler")
def test_products_are_done_by_the_unit() -> None:
    environment = {**os.environ, matrix_unit.VARIABLE: "1", "TILEJIT_CACHE": "0"}
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True)
