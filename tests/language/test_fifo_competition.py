"""Two kernels that take tiles out of one FIFO each get some of them: the same ones on both platforms, and none twice."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.ir as ir
import tilejit.language as pl
from tilejit.errors import DeadlockError

TO_VECTOR = """
import tilejit.language as pl

@pl.program
class Shared:
    @pl.function(type=pl.FunctionType.AIC)
    def cube(self, x: pl.Tensor[[48, 16], pl.FP32]):
        for i in pl.range({pushed}):
            pl.tpush_to_aiv(pl.load(x, [i * 8, 0], [8, 16]), split=0)

    @pl.function(type=pl.FunctionType.AIV)
    def vector(self, out: pl.Out[pl.Tensor[[24, 16], pl.FP32]]):
        for i in pl.range(3):
            tile = pl.tpop_from_aic(shape=[8, 16], dtype=pl.FP32)
            pl.store(pl.add(tile, 1.0), [i * 8, 0], out)
            pl.tfree_to_aic(tile)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[48, 16], pl.FP32], a: pl.Out[pl.Tensor[[24, 16], pl.FP32]], b: pl.Out[pl.Tensor[[24, 16], pl.FP32]]):
        with pl.cluster():
            self.vector(a)
            self.vector(b)
            self.cube(x)
"""

TO_CUBE = """
import tilejit.language as pl

@pl.program
class Joined:
    @pl.function(type=pl.FunctionType.AIV)
    def vector(self, x: pl.Tensor[[48, 16], pl.FP32]):
        lane = pl.tile.get_subblock_idx()
        for i in pl.range(6):
            half: pl.Tile[[4, 16], pl.FP32] = pl.load(x, [i * 8 + lane * 4, 0], [4, 16])
            pl.tpush_to_aic(half, split=1)

    @pl.function(type=pl.FunctionType.AIC)
    def cube(self, out: pl.Out[pl.Tensor[[24, 16], pl.FP32]]):
        for i in pl.range(3):
            tile = pl.tpop_from_aiv(shape=[8, 16], dtype=pl.FP32, split=1)
            pl.store(tile, [i * 8, 0], out)
            pl.tfree_to_aiv(tile)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[48, 16], pl.FP32], a: pl.Out[pl.Tensor[[24, 16], pl.FP32]], b: pl.Out[pl.Tensor[[24, 16], pl.FP32]]):
        with pl.cluster():
            self.cube(a)
            self.cube(b)
            self.vector(x)
"""


def run(text: str, platform: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = np.random.default_rng(5).standard_normal((48, 16), np.float32)
    a, b = np.zeros((24, 16), np.float32), np.zeros((24, 16), np.float32)
    ir.compile(pl.parse(text), platform=platform)(x, a, b)
    return x, a, b


@pytest.mark.parametrize(("text", "added"), [(TO_VECTOR.format(pushed=6), 1), (TO_CUBE, 0)])
def test_every_tile_goes_to_one_of_them(text: str, added: int) -> None:
    x, *wanted = run(text, "reference")
    _, *found = run(text, "cpu")
    np.testing.assert_array_equal(found, wanted)
    halves = [half.tobytes() for out in found for half in out.reshape(-1, 4, 16)]
    assert sorted(halves) == sorted(half.tobytes() for half in (x + np.float32(added)).reshape(-1, 4, 16))


@pytest.mark.parametrize("platform", ["reference", "cpu"])
def test_too_few_tiles_for_both_are_a_deadlock(platform: str) -> None:
    with pytest.raises(DeadlockError, match="waits for a tile that nobody sends"):
        run(TO_VECTOR.format(pushed=4), platform)
