"""Ranks compute with floats as the thread does that calls, whoever started their threads: by kernels, by NumPy, and in sub-workers."""

from __future__ import annotations

import platform
import sys
import threading

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.jit.test_float_mode import DOWN, UP, rounding_up
from tests.patience import HANG
from tests.ranks.engines import PLATFORMS, on
from tilejit import float_mode, ir
from tilejit.runtime import DistributedCompiledProgram, DistributedConfig
from tilejit.runtime.ranks import engines

pytestmark = pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="numbers of the C library on x86-64 Linux")
NR = pl.dynamic("NR")
X = np.ones((2, 8), np.float32)


@pl.jit
def third(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = x / 3.0


@pl.jit.host
def thirds(x: pl.Tensor[[2, 8], pl.FP32], y: pl.Out[pl.Tensor[[2, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        third(x[r], y[r], device=r)


def by_numpy() -> list[float]:
    return (X / np.float32(3.0))[:, 0].tolist()


@pytest.fixture(autouse=True)
def new_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call of a test starts the threads of its ranks."""
    monkeypatch.setattr(engines, "_idle", {})


@pytest.mark.parametrize("name", PLATFORMS)
@pytest.mark.parametrize("first", [DOWN, None, UP])
def test_each_call_rounds_as_its_thread_does(first: int | None, name: str) -> None:
    def called() -> tuple[list[float], list[float]]:
        return thirds(X, config=on(2, name))[:, 0].tolist(), by_numpy()

    seen = [called() if rounding is None else rounding_up(called, rounding) for rounding in (first, None, DOWN, UP, None, DOWN)]
    assert all(ours == numpys for ours, numpys in seen)
    assert len({numpys[0] for _, numpys in seen}) == 2


@pl.program
class Thirds:
    @pl.function(type=pl.FunctionType.Orchestration)
    def third(self, x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = x / 3.0

    @pl.function(level=pl.Level.HOST, role=pl.Role.SubWorker)
    def before(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]): ...  # pyright: ignore[reportGeneralTypeIssues] - it has no self

    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
    def all(self, x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        t = pl.create_tensor([NR, 8], dtype=pl.FP32)
        self.before(x, t)
        for r in pl.range(pld.world_size()):
            self.third(t[r], y[r], device=r)


@pytest.mark.parametrize("world", [1, 2])
def test_calls_that_are_submitted_round_as_the_thread_that_submits_them(world: int) -> None:
    compiled = ir.compile(Thirds, distributed_config=DistributedConfig(list(range(world))))
    assert isinstance(compiled, DistributedCompiledProgram)
    x = X[:world]
    told, modes, submitted = list[float](), list[int](), threading.Event()

    def before(x: np.ndarray, y: np.ndarray) -> None:
        submitted.wait(HANG)
        told.append(by_numpy()[0])
        modes.append(float_mode.bits())
        y[...] = x

    with compiled.prepare(callbacks={"before": before}) as ranks:
        outputs = [np.zeros_like(x) for _ in range(2)]
        first = ranks.submit(compiled, x, outputs[0])
        second = rounding_up(lambda: ranks.submit(compiled, x, outputs[1]), DOWN)
        submitted.set()
        first.result()
        second.result()
        again = np.zeros_like(x)
        ranks(x, again)
    assert modes == [float_mode.STANDARD, rounding_up(float_mode.bits, DOWN), float_mode.STANDARD]
    assert [float(y[0, 0]) for y in (*outputs, again)] == told == [by_numpy()[0], rounding_up(by_numpy, DOWN)[0], by_numpy()[0]]
    assert told[1] < told[0]


@pytest.mark.parametrize("world", [1, 2])
def test_what_a_sub_worker_sets_ends_with_it(world: int) -> None:
    def before(x: np.ndarray, y: np.ndarray) -> None:
        y[...] = x
        float_mode.take(rounding_up(float_mode.bits, DOWN))

    compiled = ir.compile(Thirds, distributed_config=DistributedConfig(list(range(world))))
    assert isinstance(compiled, DistributedCompiledProgram)
    x, y = X[:world], np.zeros((world, 8), np.float32)
    with compiled.prepare(callbacks={"before": before}) as ranks:
        ranks(x, y)
    assert float_mode.bits() == float_mode.STANDARD
    assert y[:, 0].tolist() == by_numpy()[:world]
