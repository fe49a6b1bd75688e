"""Triton's fifth tutorial: layer norm, forward and backward."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, data, on


@pl.jit
def forward(x: pl.Tensor, w: pl.Tensor, b: pl.Tensor, eps: float, y: pl.Out[pl.Tensor], mean: pl.Out[pl.Tensor], rstd: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        mu = pl.row_sum(x) * (1.0 / x.shape[1])
        c = x - mu
        r = pl.rsqrt(pl.row_sum(c * c) * (1.0 / x.shape[1]) + eps)
        y[:] = c * r * w + b
        mean[:] = mu
        rstd[:] = r


@pl.jit
def backward(dy: pl.Tensor, x: pl.Tensor, w: pl.Tensor, mean: pl.Tensor, rstd: pl.Tensor, dx: pl.Out[pl.Tensor], dw: pl.Out[pl.Tensor], db: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = 1.0 / x.shape[1]
        xhat = (x - mean) * rstd
        wdy = dy * w
        c1 = pl.row_sum(xhat * wdy) * n
        c2 = pl.row_sum(wdy) * n
        dx[:] = (wdy - (xhat * c1 + c2)) * rstd
        dw[:] = pl.col_sum(dy * xhat)
        db[:] = pl.col_sum(dy)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_values_and_gradients_are_those_of_torch(platform: str) -> None:
    torch = pytest.importorskip("torch")
    x, dy, w, b = data(13, 50), data(13, 50, seed=1), data(1, 50, seed=2), data(1, 50, seed=3)
    y, mean, rstd = forward(x, w, b, 1e-5, config=on(platform))
    leaves = [torch.tensor(item, requires_grad=True) for item in (x, w[0], b[0])]
    want = torch.nn.functional.layer_norm(leaves[0], (50,), leaves[1], leaves[2], 1e-5)
    want.backward(torch.tensor(dy))
    np.testing.assert_allclose(y, want.detach().numpy(), rtol=1e-4, atol=1e-5)
    for found, leaf in zip(backward(dy, x, w, mean, rstd, config=on(platform)), leaves, strict=True):
        np.testing.assert_allclose(np.squeeze(found), leaf.grad.numpy(), rtol=1e-4, atol=1e-4)
