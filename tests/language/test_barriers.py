"""syncall: all blocks of a launch meet, exchange through global memory, and go on; on both backends, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.language.cross_core import lowered, numbers, read, run
from tilejit import ir
from tilejit.errors import DeadlockError, ResourceError
from tilejit.tile_ir.program import Program

MANY = (1, 2, 3, 7, 16, 33)
TENSOR = "pl.Tensor[[33, 8], pl.INT32]"
BLOCKS = "n: pl.Scalar[pl.INDEX]"


def kernel(body: str) -> Program:
    """A program with `n` blocks: x is read, tmp and out are written."""
    lines = "\n".join("        " + line for line in body.strip("\n").splitlines())
    return read(f"@pl.function\ndef main(x: {TENSOR}, tmp: pl.InOut[{TENSOR}], out: pl.InOut[{TENSOR}], {BLOCKS}):\n    for b in pl.spmd(n):\n{lines}\n")


def check(program: Program, expected: object, blocks: tuple[int, ...] = MANY) -> None:
    compiled = {platform: ir.compile(program, platform=platform) for platform in ("reference", "cpu")}
    for n in blocks:
        x = numbers(33, 8, dtype=np.int32, seed=n)
        want = expected(x[:n])  # type: ignore[operator]
        for platform in compiled if n in (1, 7) else ("cpu",):
            tmp, out = np.zeros_like(x), np.zeros_like(x)
            compiled[platform](x, tmp, out, n)
            np.testing.assert_array_equal(out[:n], want, err_msg=f"{platform}, {n} blocks")


def test_every_block_sees_what_all_wrote() -> None:
    program = kernel("""
t = pl.load(x, [b, 0], [1, 8])
tmp = pl.store(t, [b, 0], tmp)
pl.system.syncall()
s = t
for i in pl.range(1, n):
    s = pl.add(s, pl.load(tmp, [(b + i) % n, 0], [1, 8]))
out = pl.store(s, [b, 0], out)
""")
    for form in (program, lowered(program)):
        check(form, lambda x: np.broadcast_to(x.sum(0), x.shape))


def test_a_prefix_sum_needs_two_barriers_per_step() -> None:
    program = kernel("""
t = pl.load(x, [b, 0], [1, 8])
step = pl.const(1, pl.INDEX)
while step < n:
    tmp = pl.store(t, [b, 0], tmp)
    pl.system.syncall()
    if b >= step:
        t = pl.add(t, pl.load(tmp, [b - step, 0], [1, 8]))
    pl.system.syncall()
    step = step * 2
out = pl.store(t, [b, 0], out)
""")
    check(program, lambda x: np.cumsum(x, 0))


def test_what_was_loaded_before_a_barrier_is_what_was_there_before_it() -> None:
    program = kernel("""
tmp = pl.store(pl.load(x, [b, 0], [1, 8]), [b, 0], tmp)
pl.system.syncall()
mine = pl.load(tmp, [b, 0], [1, 8])
next = pl.load(tmp, [(b + 1) % n, 0], [1, 8])
both = pl.add(mine, next)
pl.system.syncall()
tmp = pl.store(both, [b, 0], tmp)
pl.system.syncall()
twice = pl.add(next, pl.load(tmp, [(b + 2) % n, 0], [1, 8]))
pl.system.syncall()
out = pl.store(twice, [b, 0], out)
""")

    def expected(x: np.ndarray[tuple[int, ...], np.dtype[np.int32]]) -> object:
        both = x + np.roll(x, -1, 0)
        return np.roll(x, -1, 0) + np.roll(both, -2, 0)

    check(program, expected)


def test_blocks_exchange_a_histogram() -> None:
    program = kernel("""
row = pl.load(x, [b, 0], [1, 8])
counts = pl.tile.full([1, 8], dtype=pl.INT32, value=0)
for j in pl.range(8):
    value = pl.cast(pl.read(row, [0, j]), pl.INDEX) - 1
    counts[0, value] = pl.read(counts, [0, value]) + pl.const(1, pl.INT32)
tmp = pl.store(counts, [b, 0], tmp)
pl.system.syncall()
total = pl.tile.full([1, 8], dtype=pl.INT32, value=0)
for i in pl.range(n):
    total = pl.add(total, pl.load(tmp, [i, 0], [1, 8]))
out = pl.store(total, [b, 0], out)
""")
    check(program, lambda x: np.broadcast_to(np.bincount(x.ravel() - 1, minlength=8), x.shape))


def test_a_soft_barrier_is_for_as_many_as_it_says() -> None:
    program = kernel("""
t = pl.load(x, [b, 0], [1, 8])
tmp = pl.store(t, [b, 0], tmp)
if b < 2:
    pl.system.syncall(mode="soft", gm_workspace=pl.reshape(tmp, [264]), used_cores=6)
    t = pl.add(t, pl.load(tmp, [1 - b, 0], [1, 8]))
out = pl.store(t, [b, 0], out)
""")
    check(program, lambda x: np.concatenate([x[:2].sum(0, keepdims=True).repeat(2, 0), x[2:]]), (2, 5))


CORES = f"""
@pl.program
class P:
    @pl.function(type=pl.FunctionType.AIC)
    def aic(self, x: {TENSOR}, tmp: pl.InOut[{TENSOR}]):
        b = pl.tile.get_block_idx()
        n = pl.tile.get_block_num()
        t = pl.load(x, [b, 0], [1, 8])
        tmp = pl.store(t, [b, 0], tmp)
        pl.system.syncall(core_type="aic")
        pl.tpush_to_aiv(pl.add(t, pl.load(tmp, [(b + 1) % n, 0], [1, 8])), split=0)
        pl.system.syncall(core_type="mix")
        pl.tpush_to_aiv(pl.load(tmp, [(b + 1) % n, 0], [1, 8]), split=0)

    @pl.function(type=pl.FunctionType.AIV)
    def aiv(self, tmp: pl.InOut[{TENSOR}], out: pl.InOut[{TENSOR}]):
        b = pl.tile.get_block_idx()
        s: pl.Tile[[1, 8], pl.INT32] = pl.tpop_from_aic()
        tmp = pl.store(s, [b, 0], tmp)
        pl.system.syncall(core_type="mix")
        t: pl.Tile[[1, 8], pl.INT32] = pl.tpop_from_aic()
        out = pl.store(t, [b, 0], out)

    @pl.function(type=pl.FunctionType.Group)
    def group(self, x: {TENSOR}, tmp: pl.InOut[{TENSOR}], out: pl.InOut[{TENSOR}]):
        self.aiv(tmp, out)
        self.aic(x, tmp)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: {TENSOR}, tmp: pl.InOut[{TENSOR}], out: pl.InOut[{TENSOR}], n: pl.Scalar[pl.INDEX]):
        with pl.spmd(n):
            self.group(x, tmp, out)
"""


def test_cube_and_vector_kernels_of_all_blocks_meet() -> None:
    # A block writes its sum once all cube kernels have read what was there, and reads its neighbour's once all have written.
    check(read(CORES), lambda x: np.roll(x + np.roll(x, -1, 0), -1, 0), (1, 2, 6, 33))


def test_many_blocks_meet_often() -> None:
    text = """
    @pl.function
    def main(x: pl.Tensor[[2000, 4], pl.FP32], tmp: pl.InOut[pl.Tensor[[2000, 4], pl.FP32]], out: pl.Out[pl.Tensor[[2000, 4], pl.FP32]]):
        for b in pl.spmd(2000):
            t = pl.load(x, [b, 0], [1, 4])
            for i in pl.range(10):
                tmp = pl.store(t, [b, 0], tmp)
                pl.system.syncall()
                t = pl.load(tmp, [(b + 1) % 2000, 0], [1, 4])
                pl.system.syncall()
            out = pl.store(t, [b, 0], out)
    """
    x = numbers(2000, 4)
    *_, out = run(text, x, np.zeros_like(x), np.zeros_like(x), platforms=["cpu"])
    np.testing.assert_array_equal(out, np.roll(x, -10, 0))


@pytest.mark.parametrize("platform", ["reference", "cpu"])
def test_blocks_that_end_early_are_a_deadlock_at_the_barrier_of_the_others(platform: str) -> None:
    program = kernel("""
t = pl.load(x, [b, 0], [1, 8])
if b < 3:
    pl.system.syncall()
out = pl.store(t, [b, 0], out)
""")
    compiled = ir.compile(program, platform=platform)
    x = numbers(33, 8, dtype=np.int32)
    with pytest.raises(DeadlockError, match="syncall waits for 2 more that never come") as caught:
        compiled(x, x.copy(), x.copy(), 5)
    assert caught.value.span is not None and caught.value.span.line == 6
    compiled(x, x.copy(), x.copy(), 3)


@pytest.mark.parametrize("platform", ["reference", "cpu"])
def test_a_soft_barrier_for_more_blocks_than_there_are_is_a_deadlock(platform: str) -> None:
    program = kernel(
        'pl.system.syncall(mode="soft", gm_workspace=pl.reshape(tmp, [264]), used_cores=18)\nout = pl.store(pl.load(x, [b, 0], [1, 8]), [b, 0], out)'
    )
    x = numbers(33, 8, dtype=np.int32)
    with pytest.raises(DeadlockError, match="waits for 1 more"):
        ir.compile(program, platform=platform)(x, x.copy(), x.copy(), 5)


def test_too_many_blocks_for_the_memory_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_ARENA_BYTES", "16M")
    program = kernel("pl.system.syncall()\nout = pl.store(pl.load(x, [b, 0], [1, 8]), [b, 0], out)")
    x = numbers(33, 8, dtype=np.int32)
    with pytest.raises(ResourceError, match="scratch memory"):
        ir.compile(program, platform="cpu")(x, x.copy(), x.copy(), 33)


def test_outside_blocks_a_barrier_waits_for_nobody() -> None:
    text = """
    @pl.function
    def main(x: pl.Tensor[[4, 8], pl.FP32], w: pl.InOut[pl.Tensor[[4], pl.INT32]], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.system.syncall()
            pl.system.syncall(mode="soft", gm_workspace=w, used_cores=12)
            out[:] = pl.exp(x)
    """
    x = numbers(4, 8)
    *_, out = run(text, x, np.zeros(4, np.int32), np.zeros_like(x))
    np.testing.assert_allclose(out, np.exp(x), rtol=1e-6)
