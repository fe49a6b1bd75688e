"""Windows that may overhang and tiles that are cut to fit: inside, they are read where they lie and computed in the loop that stores them."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.backends.cpu.target import PASSES
from tilejit.passes.pipeline import run_pipeline
from tilejit.runtime import RunConfig
from tilejit.tile_ir import dialect as d

TILE = 8
PLATFORMS = ["reference", "cpu"]


@pl.jit
def spread(x: pl.Tensor, out: pl.Out[pl.like("x")]):
    h, w = x.shape
    for i, j in pl.spmd((pl.cdiv(h, TILE), pl.cdiv(w, TILE))):
        t = pl.load(x, [i * TILE - 2, j * TILE - 1], [TILE + 4, TILE + 2], pad=-3.0)
        s = pl.maximum(t[:-4, 1:-1] * 2.0, t[4:, 1:-1]) + t[2:-2, 2:]
        pl.store(s - 1.0, [i * TILE, j * TILE], out, clamp=True)


def expected(x: np.ndarray) -> np.ndarray:
    h, w = x.shape
    p = np.pad(x, ((2, 2 + TILE), (1, 1 + TILE)), constant_values=-3)
    return np.maximum(p[:h, 1 : w + 1] * 2, p[4 : h + 4, 1 : w + 1]) + p[2 : h + 2, 2 : w + 2] - 1


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("shape", [(24, 24), (25, 19), (3, 40), (8, 8)])
def test_tiles_inside_and_at_every_edge(platform: str, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(spread(x, config=RunConfig(platform=platform)), expected(x), rtol=1e-6)


def test_inside_there_is_one_loop_and_no_copy() -> None:
    x = np.zeros((64, 64), np.float32)
    program = run_pipeline(spread.lower(x, x.copy()), PASSES)
    (kernel,) = (function for name, function in program.functions.items() if name != "spread")
    body = list(kernel.body.block.ops)
    (branch,) = (op for op in body if isinstance(op, d.IfOp))
    inside = [op for op in branch.then.block.ops if not isinstance(op, d.ConstOp)]
    assert [type(op) for op in inside] == [d.WindowOp, d.YieldOp]
    (group,) = (op for op in body if isinstance(op, d.GroupOp))
    assert not group.results and sum(isinstance(op, d.StoreOp) for op in group.body.block.ops) == 1
    assert not any(isinstance(op, d.StoreOp) for op in body)


@pl.jit
def in_turns(x: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor]):
    n = x.shape[1]
    for j in pl.range(n // TILE):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, j * TILE - 1], [4, TILE + 2], pad=0.0)
            pl.store(t[:, 2:] * 2.0, [0, j * TILE], x)
            pl.store(t[:, :-2] + 1.0, [0, j * TILE], out)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_window_whose_tensor_is_written_before_it_is_used_is_kept(platform: str) -> None:
    x = np.random.default_rng(2).standard_normal((4, 40)).astype(np.float32)
    found, out = x.copy(), np.empty_like(x)
    in_turns(found, out, config=RunConfig(platform=platform))
    state, result = x.copy(), np.empty_like(x)
    for j in range(5):
        t = np.pad(state, ((0, 0), (1, 1)))[:, j * TILE : j * TILE + TILE + 2].copy()
        state[:, j * TILE : (j + 1) * TILE] = t[:, 2:] * 2
        result[:, j * TILE : (j + 1) * TILE] = t[:, :-2] + 1
    np.testing.assert_allclose(found, state, rtol=1e-6)
    np.testing.assert_allclose(out, result, rtol=1e-6)
