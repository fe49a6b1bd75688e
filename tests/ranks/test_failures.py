"""Jobs that go wrong: every process is told what, by whom and where, goes on if it can, and nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.patience import HANG
from tests.ranks import signals
from tests.ranks.engines import on
from tilejit.errors import DeadlockError, DistributedError

ROOT = Path(__file__).parent.parent.parent


def job(world: int, *ways: str) -> tuple[int, dict[str, list[str]]]:
    """Exit status of a job, and what its processes said about each way to fail; rank 0 has no number in front of its lines."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    command = [sys.executable, "-m", "tilejit", "launch", "-n", str(world), "-m", "tests.ranks.failing", *ways]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=HANG, check=False)
    lines = sorted(done.stdout.splitlines())
    assert lines, done.stderr
    return done.returncode, {way: [line for line in lines if f"{way}: " in line] for way in ways}


@pytest.fixture(scope="module")
def told() -> dict[str, list[str]]:
    """What two processes say about failures that they outlive."""
    status, said = job(2, "deadlock", "assert", "constant", "shapes", "size")
    assert status == 0, said
    assert all(sum(line.endswith("good again") for line in lines) == 2 for lines in said.values()), said
    return said


def test_a_deadlock_is_told_to_every_process(told: dict[str, list[str]]) -> None:
    what = "deadlock: DeadlockError [0, 1] | all 2 ranks wait and nobody is left to notify them"
    where = "rank 0 waits for sig[0, 0] >= 1, it is 0 (line 28) ; rank 1 waits for sig[0, 0] >= 1, it is 0 (line 28)"
    assert [line for line in told["deadlock"] if "Error" in line] == sorted([f"{what} | {where}", f"[1] {what} | {where}"])


def test_an_error_of_one_rank_is_everybodys(told: dict[str, list[str]]) -> None:
    assert sum("KernelAssertionError" in line and "rank 1 of 2" in line for line in told["assert"]) == 2, told


def test_another_constant_in_one_process_is_found(told: dict[str, list[str]]) -> None:
    wanted = "the kernels that are launched: rank 0 against rank 1"
    assert sum("ProgramMismatchError" in line and wanted in line for line in told["constant"]) == 2, told


def test_other_shapes_in_one_process_are_found(told: dict[str, list[str]]) -> None:
    assert sum("ProgramMismatchError" in line and "the shapes of the arguments" in line for line in told["shapes"]) == 2, told


def test_a_world_of_another_size_than_the_job_is_refused(told: dict[str, list[str]]) -> None:
    assert sum("device_ids has 3 ranks, the job 2 processes" in line for line in told["size"]) == 2, told


def test_a_rank_that_is_killed_ends_the_others_with_its_name() -> None:
    before = set(os.listdir("/dev/shm"))
    status, said = job(3, "killed")
    assert status == 137, said
    assert sum("RankFailedError [1]" in line and "rank 1" in line for line in said["killed"]) == 2, said
    assert not [name for name in set(os.listdir("/dev/shm")) - before if name.startswith("tilejit")]
    assert not [entry for entry in os.listdir("/proc") if entry.isdigit() and b"tests.ranks.failing\0killed" in _command_line(entry)]


def _command_line(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


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
