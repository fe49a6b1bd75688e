"""`return` without a value from inside regions, branches and loops ends the kernel."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import UnsupportedFeatureError
from tilejit.runtime.config import RunConfig

X = np.random.default_rng(0).standard_normal((3, 4), np.float32) + 5
PLATFORMS = ["cpu", "reference"]


def ran(kernel: pl.JITFunction, n: int, platform: str, x: np.ndarray = X) -> np.ndarray:
    out = np.zeros_like(x)
    assert kernel(x, n, out, config=RunConfig(platform=platform)) is None
    return out


def rows(*parts: np.ndarray) -> np.ndarray:
    """Rows that were written, and zeros for the others."""
    found = np.concatenate(parts)
    return np.concatenate([found, np.zeros((3 - len(found), 4), np.float32)])


@pl.jit(runtime_scalars=("n",))
def at_once(x: pl.Tensor, n: pl.INT32, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        if n > 3:
            return
        out[:] = x


@pl.jit(runtime_scalars=("n",))
def before_the_next_region(x: pl.Tensor, n: pl.INT32, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        if pl.read(x, [0, 0]) < n:
            return
        out[:] = x * 2
    out[:] = x * 3


@pl.jit(runtime_scalars=("n",))
def out_of_a_loop(x: pl.Tensor, n: pl.INT32, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(3):
            if i == n:
                return
            out[i : i + 1, :] = x[i : i + 1, :]
        out[:] = x * 3


@pl.jit(runtime_scalars=("n",))
def out_of_a_region_in_a_loop(x: pl.Tensor, n: pl.INT32, out: pl.Out[pl.Tensor]):
    for i in pl.range(3):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[i : i + 1, :] = x[i : i + 1, :]
            if i == n:
                return
            out[i : i + 1, :] = x[i : i + 1, :] * 2
    out[:] = x * 3


@pl.jit(runtime_scalars=("n",))
def out_of_two_loops(x: pl.Tensor, n: pl.INT32, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(3):
            j = 0
            while j < 4:
                if i * 4 + j == n:
                    return
                pl.write(out, [i, j], pl.read(x, [i, j]))
                j = j + 1


@pl.jit.incore
def helper(x: pl.Tensor, n: pl.INT32, out: pl.Out[pl.Tensor]):
    tile = pl.load(x, [0, 0], [3, 4])
    if n == 0:
        if pl.read(x, [0, 0]) > 100.0:
            return
        pl.store(tile, [0, 0], out)
        return
    else:
        pl.store(pl.mul(tile, 2.0), [0, 0], out)


@pl.jit(runtime_scalars=("n",))
def only_out_of_the_helper(x: pl.Tensor, n: pl.INT32, out: pl.Out[pl.Tensor]):
    helper(x, n, out)
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.write(out, [2, 3], 1.0)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_what_follows_a_return_does_not_run(platform: str) -> None:
    for n in (2, 4):
        np.testing.assert_array_equal(ran(at_once, n, platform), X if n <= 3 else 0 * X)
    for n in (-100, 100):
        np.testing.assert_allclose(ran(before_the_next_region, n, platform), X if n > 0 else 3 * X)
    for n in (0, 1, 2, 3):
        np.testing.assert_allclose(ran(out_of_a_loop, n, platform), rows(X[:n]) if n < 3 else 3 * X)
        np.testing.assert_allclose(ran(out_of_a_region_in_a_loop, n, platform), rows(2 * X[:n], X[n : n + 1]) if n < 3 else 3 * X)
    for n in (0, 6, 11, 12):
        want = np.where(np.arange(12).reshape(3, 4) < n, X, 0)
        np.testing.assert_array_equal(ran(out_of_two_loops, n, platform), want)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_helper_returns_to_its_caller(platform: str) -> None:
    for n, x, factor in ((0, X, 1), (1, X, 2), (0, X + 200, 0)):
        want = factor * x
        want[2, 3] = 1
        np.testing.assert_allclose(ran(only_out_of_the_helper, n, platform, x), want)


@pl.jit(runtime_scalars=("n",))
def out_of_one_block(x: pl.Tensor, n: pl.INT32, out: pl.Out[pl.Tensor]):
    with pl.spmd(3):
        i = pl.get_block_idx()
        if i == n:
            return
        out[i : i + 1, :] = x[i : i + 1, :]
    if n > 5:
        return
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.write(out, [0, 0], 1.0)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_block_of_a_grid_returns_alone(platform: str) -> None:
    for n in (0, 2, 7):
        want = np.where(np.arange(3)[:, None] == n, 0, X)
        if n <= 5:
            want[0, 0] = 1
        np.testing.assert_array_equal(ran(out_of_one_block, n, platform), want)


def test_turns_of_a_parallel_loop_have_no_rest_to_leave_out() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, n: pl.INT32, out: pl.Out[pl.Tensor]):
        for i in pl.parallel(3):
            if i == n:
                return
            out[i : i + 1, :] = x[i : i + 1, :]

    with pytest.raises(UnsupportedFeatureError, match=r"return inside a pl\.parallel loop"):
        ran(kernel, 1, "cpu")
