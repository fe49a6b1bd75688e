"""Kernels that run on the host for arrays of a GPU: under a debugger, in the reference, in the sanitizer."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import tilejit
import tilejit.language as pl
from tests.runtime.cuda.fake import FakeLibrary
from tilejit import RunConfig
from tilejit.dtypes import FP32
from tilejit.errors import KernelAssertionError
from tilejit.runtime.arrays import DeviceTensor


def on_gpu(array: np.ndarray) -> DeviceTensor:
    """The memory of an array, as if it were the fake GPU's."""
    return DeviceTensor(array.ctypes.data, array.shape, FP32, "cuda:0")


def arrays() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).standard_normal((8, 24)).astype(np.float32)
    return x, np.full_like(x, 7)


@pl.jit
def stopping(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(2):
        t = pl.load(x, [i * 4, 0], [4, 24])
        pl.breakpoint()
        pl.store(pl.mul(t, 2.0), [i * 4, 0], out)


def test_a_breakpoint_stops_in_kernels_of_a_gpu_block_by_block_with_the_tiles_at_hand(gpu: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = arrays()
    seen: list[Any] = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: seen.append(sys._getframe(1).f_locals["t"].copy()))
    stopping(on_gpu(x), on_gpu(out))
    np.testing.assert_array_equal(np.concatenate(seen), x)
    np.testing.assert_array_equal(out, x * 2)
    assert not gpu.launches


def test_outputs_that_a_stopping_call_leaves_out_are_on_the_gpu(gpu: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    x, _ = arrays()
    monkeypatch.setattr(sys, "breakpointhook", lambda: None)
    made: Any = stopping(on_gpu(x))
    assert made.device == "cuda:0"
    np.testing.assert_array_equal(made.numpy(), x * 2)


@pl.jit
def asserting(x: pl.InOut[pl.Tensor], limit: pl.FP32):
    for i in pl.range(2):
        with pl.at(level=pl.Level.CORE_GROUP):
            row = pl.load(x, [i, 0], [1, 24])
            pl.store(pl.add(row, 1.0), [i, 0], x)
            pl.device_assert(pl.read(x, [i, 0]) < limit, "too large")


@pytest.mark.parametrize("platform", ["reference", "eager", "sanitize"])
def test_what_was_written_reaches_the_gpu_also_when_the_kernel_fails(gpu: FakeLibrary, platform: str) -> None:
    x, _ = arrays()
    x[:2, 0] = 1, 5
    expected = x.copy()
    expected[:2] += 1
    with pytest.raises(KernelAssertionError, match="too large"):
        asserting(on_gpu(x), 4.0, config=RunConfig(platform=platform))
    np.testing.assert_array_equal(x, expected)


def test_eager_mode_takes_arrays_of_a_gpu(gpu: FakeLibrary) -> None:
    x, _ = arrays()
    expected = x.copy()
    expected[:2] += 1
    with tilejit.eager():
        asserting(on_gpu(x), 1e9)
    np.testing.assert_array_equal(x, expected)
