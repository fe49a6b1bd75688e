"""Groups, clusters and neighbours: every way to start kernels that run side by side, on both backends, against NumPy."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.language.cross_core import lowered, numbers, pair, read, run
from tilejit import ir
from tilejit.backends.cpu.target import PASSES
from tilejit.passes.pipeline import run_pipeline
from tilejit.tile_ir import dialect as d

FLASH = """
@pl.program
class Flash:
    @pl.function(type=pl.FunctionType.AIC)
    def aic(self, q: pl.Tensor[[64, 32], pl.FP32], k: pl.Tensor[[48, 32], pl.FP32], v: pl.Tensor[[48, 32], pl.FP32]):
        b = pl.tile.get_block_idx()
        tq = pl.load(q, [b * 16, 0], [16, 32])
        for j in pl.range(3):
            s = pl.matmul(tq, pl.transpose(pl.load(k, [j * 16, 0], [16, 32]), 0, 1))
            pl.tpush_to_aiv(s, split={split}, id=0)
            p = pl.tpop_from_aiv(shape=[16, 16], dtype=pl.FP32, split={split})
            pl.tpush_to_aiv(pl.matmul(p, pl.load(v, [j * 16, 0], [16, 32])), split={split}, id=1)
            pl.tfree_to_aiv(p)

    @pl.function(type=pl.FunctionType.AIV)
    def aiv(self, out: pl.Out[pl.Tensor[[64, 32], pl.FP32]]):
        row = pl.tile.get_block_idx() * 16 + pl.tile.get_subblock_idx() * {rows}
        m = pl.tile.full([{rows}, 1], dtype=pl.FP32, value=-1000.0)
        l = pl.tile.full([{rows}, 1], dtype=pl.FP32, value=0.0)
        o = pl.tile.full([{rows}, 32], dtype=pl.FP32, value=0.0)
        for j in pl.range(3):
            s: pl.Tile[[{rows}, 16], pl.FP32] = pl.tpop_from_aic(split={split}, id=0)
            tmp = pl.create_tile([{rows}, 16], dtype=pl.FP32)
            new = pl.maximum(m, pl.row_max(s, tmp))
            e = pl.row_expand_expdif(s, new)
            pl.tpush_to_aic(e, split={split})
            pl.tfree_to_aic(s)
            scale = pl.exp(pl.sub(m, new))
            l = pl.add(pl.mul(l, scale), pl.row_sum(e, tmp))
            part: pl.Tile[[{rows}, 32], pl.FP32] = pl.tpop_from_aic(split={split}, id=1)
            o = pl.add(pl.row_expand_mul(o, scale), part)
            pl.tfree_to_aic(part)
            m = new
        out = pl.store(pl.row_expand_div(o, l), [row, 0], out)
{start}
"""
PARAMS = "q: pl.Tensor[[64, 32], pl.FP32], k: pl.Tensor[[48, 32], pl.FP32], v: pl.Tensor[[48, 32], pl.FP32], out: pl.Out[pl.Tensor[[64, 32], pl.FP32]]"
IN_GROUPS = f"""
    @pl.function(type=pl.FunctionType.Group)
    def group(self, {PARAMS}):
        self.aiv(out)
        self.aic(q, k, v)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, {PARAMS}):
        with pl.spmd(4):
            self.group(q, k, v, out)
"""
IN_A_CLUSTER = f"""
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, {PARAMS}):
        with pl.cluster():
            with pl.spmd(4):
                self.aiv(out)
            with pl.spmd(4):
                self.aic(q, k, v)
"""
SUBMITTED = f"""
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, {PARAMS}):
        out, first = pl.spmd_submit(self.aiv, out, core_num=4)
        pl.spmd_submit(self.aic, q, k, v, core_num=4)
"""


@pytest.mark.parametrize("start", [IN_GROUPS, IN_A_CLUSTER, SUBMITTED], ids=["groups", "cluster", "submitted"])
@pytest.mark.parametrize("split", [0, 1])
def test_attention_runs_cube_and_vector_kernels_in_every_block(split: int, start: str) -> None:
    program = read(FLASH.format(split=split, rows=8 if split else 16, start=start))
    q, k, v = numbers(64, 32), numbers(48, 32, seed=1), numbers(48, 32, seed=2)
    weights = np.exp(q @ k.T)
    expected = weights / weights.sum(1, keepdims=True) @ v
    for form in (program, lowered(program)):
        *_, out = run(form, q, k, v, np.zeros_like(q))
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


def test_regions_side_by_side_may_pop_before_they_push() -> None:
    text = """
    @pl.function
    def main(a: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.cluster():
            with pl.at(level=pl.Level.CORE_GROUP):
                t: pl.Tile[[16, 16], pl.FP32] = pl.tpop_from_aic()
                out = pl.store(pl.exp(t), [0, 0], out)
            with pl.at(level=pl.Level.CORE_GROUP):
                pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=0)
    """
    a = numbers(16, 16)
    program = read(text)
    for form in (program, lowered(program)):
        _, out = run(form, a, np.zeros_like(a))
        np.testing.assert_allclose(out, np.exp(a), rtol=1e-6)


def test_regions_side_by_side_hand_out_tiles_and_numbers() -> None:
    text = """
    @pl.function
    def main(a: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.cluster():
            with pl.at(level=pl.Level.CORE_GROUP):
                t: pl.Tile[[16, 16], pl.FP32] = pl.tpop_from_aic()
                y = pl.exp(t)
                s = pl.read(t, [0, 1])
            with pl.at(level=pl.Level.CORE_GROUP):
                pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=0)
        with pl.at(level=pl.Level.CORE_GROUP):
            out = pl.store(pl.add(y, s), [0, 0], out)
    """
    a = numbers(16, 16)
    program = read(text)
    for form in (program, lowered(program)):
        _, out = run(form, a, np.zeros_like(a))
        np.testing.assert_allclose(out, np.exp(a) + a[0, 1], rtol=1e-5)


REGIONS = """
@pl.program
class P:
    @pl.function(type=pl.FunctionType.Group)
    def group(self, a: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t: pl.Tile[[16, 16], pl.FP32] = pl.tpop_from_aic()
            out = pl.store(pl.exp(t), [0, 0], out)
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=0)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.spmd(1):
            self.group(a, out)
"""
RESULTS = """
@pl.program
class P:
    @pl.function(type=pl.FunctionType.AIC)
    def aic(self, a: pl.Tensor[[16, 16], pl.FP32]):
        pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=0)

    @pl.function(type=pl.FunctionType.AIV)
    def aiv(self) -> pl.Tensor[[16, 16], pl.FP32]:
        t: pl.Tile[[16, 16], pl.FP32] = pl.tpop_from_aic()
        new = pl.create_tensor([16, 16], dtype=pl.FP32)
        new = pl.store(pl.neg(t), [0, 0], new)
        return new

    @pl.function(type=pl.FunctionType.Group)
    def group(self, a: pl.Tensor[[16, 16], pl.FP32]) -> pl.Tensor[[16, 16], pl.FP32]:
        new = self.aiv()
        self.aic(a)
        return new

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        new = self.group(a)
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.exp(pl.neg(new))
"""
BETWEEN = """
@pl.program
class P:
    @pl.function(type=pl.FunctionType.AIC)
    def aic(self, a: pl.Tensor[[16, 16], pl.FP32]):
        pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=0)

    @pl.function(type=pl.FunctionType.AIV)
    def aiv(self, out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        t: pl.Tile[[16, 16], pl.FP32] = pl.tpop_from_aic()
        out = pl.store(t, [0, 0], out)

    @pl.function(type=pl.FunctionType.AIV)
    def exp(self, a: pl.Tensor[[16, 16], pl.FP32], out: pl.InOut[pl.Tensor[[16, 16], pl.FP32]]):
        out = pl.store(pl.exp(pl.load(a, [0, 0], [16, 16])), [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        copy = pl.create_tensor([16, 16], dtype=pl.FP32)
        other = pl.create_tensor([16, 16], dtype=pl.FP32)
        with pl.cluster():
            self.aiv(copy)
            self.exp(a, other)
            self.aic(a)
        self.exp(copy, out)
"""


@pytest.mark.parametrize("text", [REGIONS, RESULTS, BETWEEN], ids=["regions", "new tensors", "another kernel between"])
def test_a_group_may_have(text: str) -> None:
    program = read(text)
    a = numbers(16, 16)
    for form in (program, lowered(program)):
        _, out = run(form, a, np.zeros_like(a))
        np.testing.assert_allclose(out, np.exp(a), rtol=1e-6)


# ways to start a pair of kernels ----------------------------------------------------------------------------------------

KERNELS = """
@pl.program
class P:
    @pl.function(type=pl.FunctionType.AIC)
    def aic(self, a: pl.Tensor[[64, 16], pl.FP32], w: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[64, 16], pl.FP32]]) -> pl.Tensor[[64, 16], pl.FP32]:
        c2v = pl.import_peer_buffer(name="c2v", peer_func="aiv")
        pl.aic_initialize_pipe(c2v, pl.const(0, pl.INT32), dir_mask=1, slot_size=1024)
        b = pl.tile.get_block_idx()
        left = pl.move(pl.load(a, [b * 16, 0], [16, 16], target_memory=pl.Mem.Mat), target_memory=pl.Mem.Left)
        right = pl.move(pl.load(w, [0, 0], [16, 16], target_memory=pl.Mem.Mat), target_memory=pl.Mem.Right)
        pl.tpush_to_aiv(pl.matmul(left, right), split={split})
        return out

    @pl.function(type=pl.FunctionType.AIV)
    def aiv(self, a: pl.Tensor[[64, 16], pl.FP32], out: pl.Out[pl.Tensor[[64, 16], pl.FP32]]) -> pl.Tensor[[64, 16], pl.FP32]:
        buffer = pl.reserve_buffer(name="c2v", size=8192, base=0x1000)
        pl.aiv_initialize_pipe(buffer, 0, dir_mask=1, slot_size=1024)
        t: pl.Tile[[{rows}, 16], pl.FP32, pl.Mem.Vec] = pl.tpop_from_aic(split={split})
        row = pl.tile.get_block_idx() * 16 + pl.tile.get_subblock_idx() * {rows}
        y = pl.add(t, pl.load(a, [row, 0], [{rows}, 16]))
        pl.tfree_to_aic(t)
        out = pl.store(y, [row, 0], out)
        return out
{start}
"""
GIVEN = "a: pl.Tensor[[64, 16], pl.FP32], w: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[64, 16], pl.FP32]]"
MAIN = f"""
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, {GIVEN}) -> pl.Tensor[[64, 16], pl.FP32]:
"""
CALLER = """
    @pl.function(type=pl.FunctionType.{kind})
    def both(self, {given}) -> pl.Tensor[[64, 16], pl.FP32]:
        out = self.aiv(a, out)
        out = self.aic(a, w, out)
        return out
"""
CALLED = "        with pl.spmd(4):\n            out = self.both(a, w, out)\n        return out\n"
PAIR = "{0}out = self.aiv(a, out)\n{0}out = self.aic(a, w, out)\n        return out\n"
WAYS = {
    "a group per block": CALLER.format(kind="Group", given=GIVEN) + MAIN + CALLED,
    "a kernel that calls both": CALLER.format(kind="InCore", given=GIVEN) + MAIN + CALLED,
    "a cluster per block": MAIN + "        with pl.spmd(4):\n            with pl.cluster():\n" + PAIR.format(" " * 16),
    "a region per block": MAIN + "        with pl.spmd(4):\n            with pl.at(level=pl.Level.CORE_GROUP):\n" + PAIR.format(" " * 16),
    "the body of a loop over blocks": MAIN + "        for i in pl.spmd(4):\n" + PAIR.format(" " * 12),
    "tasks with ids": MAIN
    + """
        with pl.manual_scope():
            ids = pl.array.create(2, pl.TASK_ID)
            out, first = pl.spmd_submit(self.aiv, a, out, core_num=4)
            ids[0] = first
            out, second = pl.spmd_submit(self.aic, a, w, out, core_num=4, deps=[first])
            ids[1] = second
        return out
""",
}


@pytest.mark.parametrize("split", [0, 1])
@pytest.mark.parametrize("way", WAYS)
def test_a_pair_of_kernels_can_be_started_in_many_ways(way: str, split: int) -> None:
    program = read(KERNELS.format(split=split, rows=8 if split else 16, start=WAYS[way]))
    a, w = numbers(64, 16), numbers(16, 16)
    for form in (program, lowered(program)):
        *_, out = run(form, a, w, np.zeros_like(a), platforms=["reference", "cpu"] if form is program else ["cpu"])
        np.testing.assert_allclose(out, a @ w + a, rtol=1e-5, atol=1e-5)


def test_blocks_of_groups_may_run_on_several_threads_unless_they_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_NUM_THREADS", "2")
    program = read(FLASH.format(split=1, rows=8, start=IN_GROUPS))
    barrier = "        row = pl.tile.get_block_idx()"
    meeting = read(FLASH.format(split=1, rows=8, start=IN_GROUPS).replace(barrier, f"        pl.system.syncall(core_type='aiv')\n{barrier}"))
    for form, shared in ((program, True), (meeting, False)):
        launches = [op for op in run_pipeline(form, PASSES).module.walk() if isinstance(op, d.LaunchOp) and op.blocks is not None]
        assert ["share" in launch.attributes for launch in launches] == [shared]
        q, k, v = numbers(64, 32), numbers(48, 32, seed=1), numbers(48, 32, seed=2)
        weights = np.exp(q @ k.T)
        compiled = ir.compile(form, platform="cpu")
        for _ in range(20):
            out = np.zeros_like(q)
            compiled(q, k, v, out)
            np.testing.assert_allclose(out, weights / weights.sum(1, keepdims=True) @ v, rtol=1e-4, atol=1e-5)


def test_many_threads_run_groups_at_once() -> None:
    text = pair(
        """
        x = pl.load(a, [0, 0], [16, 16])
        for i in pl.range(n):
            pl.tpush_to_aiv(x, split=1)
            x = pl.tpop_from_aiv(shape=[16, 16], dtype=pl.FP32, split=1)
        b = pl.store(x, [0, 0], b)
        """,
        """
        for i in pl.range(n):
            t: pl.Tile[[8, 16], pl.FP32] = pl.tpop_from_aic(split=1)
            pl.tpush_to_aic(pl.add(t, 1.0), split=1)
        """,
    )
    compiled = ir.compile(read(text), platform="cpu")

    def call(seed: int) -> float:
        a = numbers(16, 16, seed=seed)
        b = np.zeros_like(a)
        for _ in range(20):
            compiled(a, b, np.zeros_like(a), 50)
        return float(np.abs(b - (a + 50)).max())

    with ThreadPoolExecutor(8) as threads:
        assert max(threads.map(call, range(16))) < 1e-3


SCRIPT = """
import sys
import numpy as np
import tilejit.language as pl

@pl.jit.incore(level=pl.Level.AIC)
def cube(a: pl.Tensor):
    pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=1)
    y: pl.Tile[[16, 16], pl.FP32] = pl.tpop_from_aiv(split=1)

@pl.jit.incore(level=pl.Level.AIV)
def vector(out: pl.Out[pl.Tensor], n: pl.INDEX):
    lane = pl.tile.get_subblock_idx()
    x: pl.Tile[[8, 16], pl.FP32] = pl.tpop_from_aic(split=1)
    out = pl.store(pl.exp(x), [lane * 8, 0], out)
    for i in pl.range(n):
        pl.tpush_to_aic(x, split=1)
    return out

@pl.jit(runtime_scalars=("n",))
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.INDEX):
    with pl.cluster():
        out = vector(out, n)
        cube(a)
    return out

a, out = np.arange(256, dtype=np.float32).reshape(16, 16) / 256, np.zeros((16, 16), np.float32)
for _ in range(3):
    kernel(a, out, 1)
np.testing.assert_allclose(out, np.exp(a), rtol=1e-6)
try:
    kernel(a, out, 0)
except Exception as error:
    print(type(error).__name__, error.span.line)
print("llvmlite" in sys.modules, "xdsl" in sys.modules)
"""


def test_a_cached_group_runs_without_the_compiler(tmp_path: Path) -> None:
    script = tmp_path / "kernels.py"
    outputs: list[str] = []
    for comment in ("", "# a comment moves every line\n"):
        script.write_text(comment + SCRIPT)
        environment = {**os.environ, "TILEJIT_CACHE_DIR": str(tmp_path / "cache")}
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert outputs == ["DeadlockError 9\nTrue True\n", "DeadlockError 10\nFalse False\n"]
