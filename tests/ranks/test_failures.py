"""Jobs that go wrong: every process is told what, by whom and where, goes on if it can, and nothing is left behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from platform import machine

import numpy as np
import pytest

from tests.patience import HANG
from tests.ranks import failing, kills, signals
from tests.ranks.engines import WITHOUT_MPI, launched, mpirun, on
from tilejit.errors import DeadlockError, DistributedError, KernelAssertionError

ROOT = Path(__file__).parent.parent.parent


OUTLIVED = (
    *("deadlock", "assert", "constant", "shapes", "slices", "scalars", "rounding", "size"),
    *(*failing.OTHER_SETTINGS, "mismatch", "roots", "left_out", "peer", "bounds"),
)
_TEXT = (Path(__file__).parent / "failing.py").read_text(encoding="utf-8").splitlines()


def line(text: str) -> str:
    """Where the programs that fail say something."""
    (found,) = [number for number, content in enumerate(_TEXT, 1) if text in content]
    return f"(line {found})"


Told = dict[str, dict[int, str]]
"""What each rank said about each way to fail."""


def job(world: int, launcher: list[str], *ways: str) -> tuple[int, Told]:
    """Exit status of a job, and what its processes said."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    command = [*launcher, "-m", "tests.ranks.failing", *ways]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=HANG, check=False)
    lines = [re.sub(r"^\[\d+\] ", "", text) for text in done.stdout.splitlines()]
    assert lines, done.stderr
    said = {
        way: {rank: text.partition(": ")[2] for rank in range(world) for text in lines if text.startswith(f"{rank} {way}: ") and "Error" in text}
        for way in ways
    }
    again = [way for way in ways for rank in range(world) if f"{rank} {way}: good again" not in lines]
    assert done.returncode != 0 or not again, (again, done.stdout, done.stderr)
    return done.returncode, said


@pytest.fixture(scope="module", params=["processes", pytest.param("machines", marks=pytest.mark.skipif(WITHOUT_MPI, reason="needs mpi4py and mpirun"))])
def told(request: pytest.FixtureRequest) -> Told:
    """What two processes say about failures that they outlive: of one machine, and of two that reach each other through MPI."""
    if request.param == "processes":
        status, said = job(2, launched(2), *OUTLIVED)
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TILEJIT_RANKS_PER_NODE", "1")
            status, said = job(2, [*mpirun(2)], *OUTLIVED)
    assert status == 0, said
    said["engine"] = {0: request.param}
    return said


def both(told: Told, way: str) -> str:
    """What both ranks said: the same."""
    assert set(told[way]) == {0, 1} and told[way][0] == told[way][1], told[way]
    return told[way][0]


def test_a_wait_that_nobody_satisfies_is_told_to_every_process(told: Told) -> None:
    """On one machine that is certain at once; between machines it is said after the timeout."""
    where = " ; ".join(f"rank {rank} waits for sig[0, 0] >= 1, it is 0 {line('pld.system.wait')}" for rank in range(2))
    certain = "DeadlockError [0, 1] | all 2 ranks wait and nobody is left to notify them"
    late = "WaitTimeoutError [0, 1] | nothing has moved for 1 s while 2 ranks wait"
    assert both(told, "deadlock") == f"{certain if told['engine'][0] == 'processes' else late} | {where} | {'^' * 51}"


def test_an_error_of_one_rank_is_everybodys(told: Told) -> None:
    assert both(told, "assert") == f"KernelAssertionError [] | device_assert failed | rank 1 of 2 (device 1) | {'^' * 25}"


def test_another_constant_in_one_process_is_found(told: Told) -> None:
    found = both(told, "constant")
    assert found.startswith("ProgramMismatchError [0, 1] | the processes of this call differ in the kernels that are launched: rank 0 against rank 1")
    assert found.endswith("^")


def test_other_shapes_in_one_process_are_found(told: Told) -> None:
    assert "ProgramMismatchError [0, 1] | the processes of this call differ in the shapes of the arguments" in both(told, "shapes")


@pytest.mark.parametrize("what", ["slices", "scalars"])
def test_other_arguments_of_a_launch_in_one_process_are_found(what: str, told: Told) -> None:
    assert "ProgramMismatchError [0, 1] | the processes of this call differ in the launches" in both(told, what)


@pytest.mark.parametrize("name", failing.OTHER_SETTINGS)
def test_a_setting_that_differs_is_named(name: str, told: Told) -> None:
    assert f"ProgramMismatchError [0, 1] | the processes of this call differ in the setting {name}: rank 0 against rank 1" in both(told, name)


@pytest.mark.skipif(sys.platform != "linux" or machine() != "x86_64", reason="only there can the rounding be set")
def test_rounding_that_differs_is_found(told: Told) -> None:
    """On threads there is one caller, and all ranks round as it does."""
    found = both(told, "rounding")
    assert found.startswith("ProgramMismatchError [0, 1] | the processes of this call differ in how they compute with floats: rank 0 against rank 1")


def test_a_world_of_another_size_than_the_job_is_refused(told: Told) -> None:
    assert "device_ids has 3 ranks, the job 2 processes" in both(told, "size")


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("mismatch", f"collective is allreduce on rank 0 {line('tensor.allreduce')}, barrier on rank 1 {line('tensor.barrier')}"),
        ("roots", f"root is 0 on rank 0 {line('root=0')}, 1 on rank 1 {line('root=1')}"),
    ],
    ids=["collective", "root"],
)
def test_ranks_that_disagree_about_a_collective_are_told_how(told: Told, way: str, message: str) -> None:
    found = both(told, way)
    assert found.startswith(f"CollectiveMismatchError [0, 1] | the ranks of a group disagree about a collective: {message}") and found.endswith("^")


def test_a_rank_that_leaves_a_collective_out_is_found(told: Told) -> None:
    found = both(told, "left_out")
    wanted = f"CollectiveMismatchError [0] | rank 1 ended while others are in a collective | rank 0 is in allreduce {line('tensor.allreduce')}"
    assert found.startswith(wanted) and found.endswith("^")


@pytest.mark.parametrize(
    ("way", "message"), [("peer", "peer 6 of a group of 2 ranks"), ("bounds", "store writes outside a view of `win` in dim 0: offset 1, size 2, extent 2")]
)
def test_what_is_outside_a_window_or_a_group_is_refused_where_it_starts(told: Told, way: str, message: str) -> None:
    found = both(told, way)
    assert found.startswith(f"OutOfBoundsError [] | {message} | rank 1 of 2") and found.endswith("^")


@pytest.mark.parametrize("seed", range(int(os.environ.get("TILEJIT_TEST_KILLS", "1"))))
def test_a_process_that_is_killed_at_some_moment_leaves_nothing_behind(seed: int) -> None:
    wrong, _ = kills.kill_one(seed, launched(kills.WORLD))
    assert wrong is None


def test_a_process_that_ends_is_not_waited_for() -> None:
    status, said = job(2, launched(2), "leaves")
    assert (status, said["leaves"]) == (3, {0: said["leaves"][0]}), said
    assert said["leaves"][0].startswith("RankFailedError [1] | the process of rank 1 ended")


def test_a_rank_that_computes_for_ever_ends_with_the_others() -> None:
    import tilejit.language as pl
    import tilejit.language.distributed as pld

    @pl.jit
    def computes(y: pl.InOut[pl.Tensor[[8, 8], pl.FP32]], me: pl.Scalar[pl.INT32]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.device_assert(me != 1, "rank 1 does not like it")
            i = pl.cast(me, pl.INT32)
            while i >= 0:
                y[:, :] = y * 0.5 + 1.0
                i = (i + 1) % 1000

    @pl.jit.host
    def all_compute(y: pl.InOut[pl.Tensor[[2, 8, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            computes(y[r], r, device=r)

    for _ in range(2):
        with pytest.raises(KernelAssertionError, match="rank 1 does not like it") as caught:
            all_compute(np.zeros((2, 8, 8), np.float32), config=on(2))
        assert "rank 1 of 2" in str(caught.value)


def test_threads_go_on_after_a_failure() -> None:
    import tilejit.language as pl
    import tilejit.language.distributed as pld

    @pl.jit
    def lonely(sig: pld.DistributedTensor[[1, 1], pl.INT32], y: pl.Out[pl.Tensor[[1, 1], pl.INT32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pld.system.wait(sig, [0, 0], 1, cmp=pld.WaitCmp.Ge)
            pl.write(y, [0, 0], pl.read(sig, [0, 0]))

    @pl.jit.host
    def all_wait(y: pl.Out[pl.Tensor[[3, 1, 1], pl.INT32]]):
        cells = pld.alloc_window_buffer([1, 1], dtype=pl.INT32)
        for r in pl.range(3):
            lonely(pld.window(cells, [1, 1], dtype=pl.INT32), y[r], device=r)

    x = np.arange(3 * 128, dtype=np.float32).reshape(3, 8, 16)
    for platform in ("cpu", "reference"):
        for _ in range(3):
            with pytest.raises(DeadlockError) as caught:
                all_wait(np.zeros((3, 1, 1), np.int32), config=on(3, platform))
            assert isinstance(caught.value, DistributedError) and caught.value.ranks == (0, 1, 2)
            np.testing.assert_array_equal(signals.shift(x, config=on(3, platform)), np.roll(x, 1, axis=0))
