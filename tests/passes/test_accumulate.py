"""Products that a loop adds to what it carries are added in place, and only those."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl


@pl.jit
def faded(a: pl.Tensor, b: pl.Tensor, kind: int, out: pl.Out[pl.Tensor]):
    for _ in pl.spmd(1):
        sums = pl.tile.full([9, 33], dtype=pl.FP32, value=2.0)
        for k in pl.range(4):
            product = pl.matmul(pl.load(a, [0, k * 16], [9, 16]), pl.load(b, [k * 16, 0], [16, 33]))
            if kind == 0:
                sums = pl.add(pl.mul(sums, 0.5), product)
            elif kind == 1:
                sums = pl.add(product, sums)
            elif kind == 2:
                sums = pl.add(pl.mul(sums, 0.5), pl.mul(product, 1.5))
            else:
                sums = pl.mul(pl.add(sums, product), product)
        pl.store(sums, [0, 0], out)


@pytest.mark.parametrize(("kind", "in_place"), [(0, True), (1, True), (2, False), (3, False)])
def test_a_sum_with_a_product_is_computed_where_the_sum_is_carried(kind: int, in_place: bool) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((9, 64)).astype(np.float32), rng.standard_normal((64, 33)).astype(np.float32)
    out = np.zeros((9, 33), np.float32)
    compiled = faded.compile(a, b, kind, out)
    compiled(a, b, out)
    sums = np.full((9, 33), 2.0)
    for k in range(0, 64, 16):
        product = a[:, k : k + 16].astype(np.float64) @ b[k : k + 16]
        sums = [sums * 0.5 + product, product + sums, sums * 0.5 + product * 1.5, (sums + product) * product][kind]
    np.testing.assert_allclose(out, sums, rtol=1e-4, atol=1e-4)
    # A sum that nothing happens to between the turns is one product along the whole depth.
    assert ("matmul_acc" in compiled.stage("passes")) is in_place
