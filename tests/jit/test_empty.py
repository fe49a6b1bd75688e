"""Arrays without elements where annotations are bare: the extent is left to the run, and nothing happens there."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tilejit.language as pl
from tests.jit.conftest import MakeKernel
from tilejit import RunConfig
from tilejit.errors import OutOfBoundsError, TilejitError

CONFIGS = [RunConfig(platform="reference"), RunConfig(platform="cpu", num_threads=1), RunConfig(platform="cpu", num_threads=3)]
SOURCE = """
@pl.jit
def scaled(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = a * 2.0 + b
    return out
"""
SHAPES = [shape for rank in (1, 2, 3) for shape in itertools.product((0, 5), repeat=rank) if 0 in shape]


@pytest.mark.parametrize("config", CONFIGS, ids=["reference", "one thread", "three threads"])
def test_an_extent_of_zero_is_fine_in_every_dim_and_style(make_kernel: MakeKernel, config: RunConfig) -> None:
    kernel = make_kernel(SOURCE)
    for shape in SHAPES:
        a = np.ones(shape, np.float32)
        for _ in range(3):
            assert kernel(a, a.copy(), np.empty_like(a), config=config) is None
            assert kernel(a, a.copy(), config=config).shape == shape
    full = np.random.default_rng(1).standard_normal((5, 5)).astype(np.float32)
    np.testing.assert_allclose(kernel(full, full.copy(), config=config), full * 3, rtol=1e-6)


def test_empty_and_full_calls_take_turns_on_warm_ways(make_kernel: MakeKernel) -> None:
    kernel = make_kernel(SOURCE)
    rng = np.random.default_rng(2)
    for _ in range(6):
        for rows in (0, 4, 0, 7):
            a, b = (rng.standard_normal((rows, 5)).astype(np.float32) for _ in range(2))
            out = np.full((rows, 5), np.nan, np.float32)
            kernel(a, b, out)
            np.testing.assert_allclose(out, a * 2 + b, rtol=1e-5)


@pytest.mark.parametrize("fastpath", ["0", "1"])
def test_tensors_with_elements_have_their_own_kernel_after_warm_calls_without(fastpath: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """In which extents are constants: what is computed with them has the precision of Python."""
    monkeypatch.setenv("TILEJIT_FASTPATH", fastpath)
    text = """
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x + (x.shape[0] / 3 - 1.6666666) * 1e7
    """
    for first in (5, 0):
        kernel = make_kernel(text)
        for rows in (first, 0, 5, 0, 5):
            for _ in range(4):
                found = kernel(np.zeros((rows, 8), np.float32))
                np.testing.assert_array_equal(found, np.full((rows, 8), (5 / 3 - 1.6666666) * 1e7, np.float32))


def test_extents_that_disagree_are_still_an_error(make_kernel: MakeKernel) -> None:
    kernel = make_kernel(SOURCE)
    for _ in range(3):
        with pytest.raises(TilejitError):
            kernel(np.ones((0, 5), np.float32), np.ones((3, 5), np.float32), np.empty((0, 5), np.float32))


@pytest.mark.parametrize("config", CONFIGS[:2], ids=["reference", "cpu"])
def test_sums_over_nothing_are_zero_and_helpers_see_the_extent(make_kernel: MakeKernel, config: RunConfig) -> None:
    kernel = make_kernel(
        """
        @pl.jit.incore
        def add_one(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            out[:] = x + 1.0
            return out

        @pl.jit
        def sums(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            more = pl.create_tensor([x.shape[0], x.shape[1]], dtype=pl.FP32)
            more = add_one(x, more)
            with pl.at(level=pl.Level.CORE_GROUP):
                out[:] = pl.row_sum(more)
            return out
        """
    )
    out = np.full((4, 1), np.nan, np.float32)
    kernel(np.ones((4, 0), np.float32), out, config=config)
    np.testing.assert_array_equal(out, np.zeros((4, 1), np.float32))
    kernel(np.ones((0, 3), np.float32), np.empty((0, 1), np.float32), config=config)
    kernel(np.ones((4, 3), np.float32), out, config=config)
    np.testing.assert_array_equal(out, np.full((4, 1), 6, np.float32))


def test_a_written_extent_of_zero_is_still_a_mistake() -> None:
    with pytest.raises(TilejitError, match="must be positive, got 0"):
        pl.Tensor[[0, 8], pl.FP32]


@pytest.mark.parametrize("config", CONFIGS[:2], ids=["reference", "cpu"])
def test_a_row_of_no_rows_is_refused_whatever_the_other_extents(make_kernel: MakeKernel, config: RunConfig) -> None:
    kernel = make_kernel("M, N = pl.dynamic('M'), pl.dynamic('N')\n@pl.jit\ndef first(x: pl.Tensor[[M, N], pl.FP32]):\n    return x[0]")
    assert kernel(np.ones((2, 0), np.float32), config=config).shape == (0,)
    for shape in ((0, 0), (0, 3)):
        with pytest.raises(OutOfBoundsError, match="extent 0"):
            kernel(np.ones(shape, np.float32), config=config)
