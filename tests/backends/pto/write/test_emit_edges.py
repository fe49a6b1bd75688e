"""Emitted text at the edges: empty regions, blocks past the end, messages of assertions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import KernelAssertionError
from tilejit.runtime.config import RunConfig

RNG = np.random.default_rng(7)
ARCHITECTURES = ["a2a3", "a5"]


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def agree(kernel: Any, platform: str, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
    """The CPU and the emitted text write the same into the outputs."""
    results = [[output.copy() for output in outputs] for _ in range(2)]
    for place, config in ((0, RunConfig(platform="cpu")), (1, RunConfig(platform=platform))):
        kernel.compile(*inputs, *results[place], config=config)(*inputs, *results[place])
    for wanted, got in zip(*results):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pl.jit
def sums(x: pl.Tensor, n: pl.Tensor, down: pl.Out[pl.Tensor], across: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        k = pl.read(n, [0])
        t = pl.load(x, [0, 0], [8, 16], valid_shape=[k, 16])
        pl.store(pl.col_sum(t), [0, 0], down)
        u = pl.load(x, [0, 0], [8, 16], valid_shape=[8, k])
        tmp = pl.create_tile([8, 16], pl.FP32)
        pl.store(pl.row_sum(u, tmp), [0, 0], across)


@pytest.mark.parametrize("platform", ARCHITECTURES)
@pytest.mark.parametrize("count", [0, 1, 8])
def test_sums_over_regions_that_may_be_empty(platform: str, count: int) -> None:
    agree(sums, platform, [floats(8, 16), np.array([count], np.int32)], [floats(1, 16), floats(8, 1)])


TOKENS = pl.dynamic("TOKENS")


@pl.jit
def clamped(x: pl.Tensor[[TOKENS, 20], pl.FP32], out: pl.InOut[pl.Tensor[[TOKENS, 20], pl.FP32]]):
    for k in pl.spmd(4):
        t = pl.load(x, [k * 8, 0], [8, 20], clamp=True)
        u = pl.load(out, [k * 8, 0], [8, 20], clamp=True)
        pl.store(pl.add(t, u), [k * 8, 0], out)


@pytest.mark.parametrize("platform", ARCHITECTURES)
@pytest.mark.parametrize("tokens", [1, 8, 13, 32])
def test_blocks_wholly_past_the_end_touch_nothing(platform: str, tokens: int) -> None:
    x = floats(tokens, 20)
    agree(clamped, platform, [x], [floats(tokens, 20)])
    text = clamped.compile(x, x.copy(), config=RunConfig(platform=platform)).kernel_stages()[0].text()
    stops = {line.split(" = ")[0].strip() for line in text.splitlines() if "arith.minsi" in line and line.endswith(", %TOKENS : index")}
    starts = {line.split("offsets = [")[1].split(",")[0] for line in text.splitlines() if "pto.partition_view" in line}
    assert len(starts) == 3 and starts <= stops


@pl.jit
def guarded(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        k = pl.read(n, [0])
        pl.device_assert(k > 0, "the count is positive")
        pl.store(pl.load(x, [0, 0], [8, 16]), [0, 0], out)


@pytest.mark.parametrize("platform", ["cpu", *ARCHITECTURES])
def test_assertions_keep_their_message(platform: str) -> None:
    x, out = floats(8, 16), floats(8, 16)
    compiled = guarded.compile(x, np.ones(1, np.int32), out, config=RunConfig(platform=platform))
    compiled(x, np.ones(1, np.int32), out)
    np.testing.assert_array_equal(out, x)
    with pytest.raises(KernelAssertionError, match="the count is positive") as caught:
        compiled(x, np.zeros(1, np.int32), out)
    assert caught.value.message == "the count is positive"
    assert "pl.device_assert" in caught.value.source_lines[0]


@pl.jit
def chosen(x: pl.Tensor, y: pl.Tensor, bits: pl.Out[pl.Tensor], two: pl.Out[pl.Tensor], one: pl.Out[pl.Tensor], whole: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a, b = pl.load(x, [0, 0], x.shape), pl.load(y, [0, 0], y.shape)
        mask = pl.cmp(a, b, cmp_type=3)
        tmp = pl.create_tile(x.shape, pl.FP32)
        pl.store(mask, [0, 0], bits)
        pl.store(pl.sel(mask, a, b, tmp), [0, 0], two)
        pl.store(pl.sels(pl.cmps(a, 0.0, cmp_type=5), a, tmp, -1.5), [0, 0], one)
        whole[:] = pl.where(pl.tensor.cmp(x, y, cmp_type=2), x, y)


@pytest.mark.parametrize("platform", ARCHITECTURES)
@pytest.mark.parametrize("shape", [(5, 13), (8, 64), (3, 256), (4, 300), (1, 24)])
def test_masks_in_rows_of_their_own(platform: str, shape: tuple[int, int]) -> None:
    x, y = floats(*shape), floats(*shape)
    y[::2] = x[::2]
    columns = -(-shape[1] // 256) * 32
    agree(chosen, platform, [x, y], [np.zeros((shape[0], columns), np.uint8), *(floats(*shape) for _ in range(3))])
