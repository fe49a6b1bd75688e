"""Ranks that share a GPU: on the one of this machine; without one, on a fake driver whose kernels run in Triton's interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.patience import HANG
from tests.ranks import on_gpu, signals
from tests.ranks.engines import on
from tilejit.errors import ArgumentError, UnsupportedFeatureError
from tilejit.runtime import RunConfig
from tilejit.runtime.arrays import DeviceTensor

ROOT = Path(__file__).parents[2]
X, CELLS = np.zeros((8, 16), np.float32), np.zeros((1, 1), np.int32)
CUDA = RunConfig(platform="cuda", arch="sm_80,sm_90")


@pytest.mark.triton
def test_ranks_on_a_gpu_that_is_none() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))), "TILEJIT_CACHE": "0"}
    command = [sys.executable, "-m", "tests.ranks.on_gpu", "fake", "sample"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == f"{len(on_gpu.SAMPLE)} tried, 0 wrong\n"


@pytest.mark.triton
def test_kernels_of_ranks_compile_and_are_cut_where_they_wait() -> None:
    compiled = signals.ring_put.compile(X, X.copy(), X.copy(), CELLS, config=CUDA)
    host = compiled.stage("ring_put.host.py")
    before, wait, after = host.partition("ask.wait(")
    assert wait and "launch_1(" in before and "launch_2(" in after and "ask." not in after.partition("launch_2(")[2]
    telling = [text for name in compiled.stages() if name.endswith(".ptx") and ".sys." in (text := compiled.stage(name))]
    assert len(telling) == 1 and "bar.sync" in telling[0].partition("red.global.sys.release.add")[0]


@pl.jit
def around(
    x: pl.Tensor[[8, 16], pl.FP32],
    y: pl.Out[pl.Tensor[[8, 16], pl.FP32]],
    z: pl.Out[pl.Tensor[[8, 16], pl.FP32]],
    win: pld.DistributedTensor[[8, 16], pl.FP32],
    sig: pld.DistributedTensor[[1, 1], pl.INT32],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        pld.tensor.put(win, 0, x)
        pld.tensor.barrier(sig)
        y[:, :] = x + 1.0
        z[:, :] = win


@pytest.mark.triton
def test_what_stands_around_a_collective_is_not_merged() -> None:
    host = around.compile(X, X.copy(), X.copy(), X.copy(), CELLS, config=RunConfig(platform="cuda", arch="sm_90")).stage("around.host.py")
    before, meeting, after = host.partition("ask.meet(")
    assert meeting and before.count("launch_") == 1 and after.count("launch_") >= 1


@pl.jit
def both(y: pl.Out[pl.Tensor[[4, 1], pl.INT32]], sig: pld.DistributedTensor[[4, 1], pl.INT32]):
    for b in pl.spmd(4):
        pld.system.wait(sig, [b, 0], 1, cmp=pld.WaitCmp.Ge)
        pl.system.syncall(core_type="aiv_only")
        pl.write(y, [b, 0], pl.read(sig, [b, 0]))


@pytest.mark.triton
def test_blocks_that_wait_for_each_other_and_for_ranks_are_refused() -> None:
    cells = np.zeros((4, 1), np.int32)
    with pytest.raises(UnsupportedFeatureError, match="wait both for each other and for other ranks") as caught:
        both.compile(cells.copy(), cells, config=CUDA)
    assert caught.value.span is not None and "syncall" in str(caught.value)


def test_tensors_of_a_call_are_in_one_place() -> None:
    there = DeviceTensor(4096, (2, 8, 16), pl.FP32, "cuda:0")
    with pytest.raises(ArgumentError, match=r"in several places: `x` on cuda:0, `y` on cpu"):
        signals.hello(there, np.empty((2, 8, 16), np.float32), config=on(2, "cuda"))


@pytest.mark.gpu
@pytest.mark.parametrize("group", on_gpu.GROUPS)
def test_ranks_on_the_gpu_of_this_machine(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert on_gpu.main(False, [group]) == 0, capsys.readouterr().out


@pytest.mark.gpu
@pytest.mark.torch
def test_ranks_take_tensors_of_torch() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(4, 8, 16, device="cuda")
    y = torch.empty_like(x)
    signals.shift(x, y, config=on(4, "cuda"))
    assert torch.equal(y, torch.roll(x, 1, 0))
    assert torch.equal(signals.shift(2 * x, config=on(4, "cuda")), torch.roll(2 * x, 1, 0))
