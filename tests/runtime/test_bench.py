"""benchmark: times of the call and of the kernel, and what they amount to."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from tests.runtime.programs import COLUMNS, ROWS, TwoEntries, binary, compiled
from tilejit import ir
from tilejit.runtime import BenchmarkStats, bench, benchmark, run

rng = np.random.default_rng(5)
a, b = (rng.standard_normal((ROWS, COLUMNS), np.float32) for _ in range(2))


def test_both_styles_are_timed_call_by_call_and_the_kernel_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that each reading moves on by a microsecond, and the kernel, asked for alone, by three."""
    now = itertools.count(step=1000)
    kernel_calls = 0
    program = compiled("FP32")
    runner = type(program.only("benchmark").runner)
    run_kernel = runner.run

    def slower(self: object, *given: object) -> object:
        nonlocal kernel_calls
        kernel_calls += 1
        for _ in range(3):
            next(now)
        return run_kernel(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(bench, "time", SimpleNamespace(perf_counter_ns=lambda: next(now)))
    out = np.empty_like(a)
    for args in ((a, b), (a, b, out)):
        for _ in range(4):
            program(*args)
        with monkeypatch.context() as patched:
            patched.setattr(runner, "run", slower)
            kernel_calls = 0
            stats = benchmark(program, args, rounds=30, warmup=2)
            assert kernel_calls == 32  # the kernel alone: whole calls have a shorter way by now
        assert stats.host_us == [1.0] * 30
        assert stats.device_us == [4.0] * 30
        assert (stats.min, stats.median, stats.max, stats.stdev) == (4.0, 4.0, 4.0, 0.0)
    np.testing.assert_array_equal(out, a + b)


def test_bytes_and_operations_are_those_of_the_arguments() -> None:
    stats = compiled("FP32", rows="M").benchmark(a, b, rounds=3)
    assert stats.bytes == 3 * a.nbytes
    assert stats.operations == a.size
    assert stats.gigabytes_per_second == pytest.approx(3 * a.nbytes / stats.median / 1e3)
    assert stats.flops == pytest.approx(a.size / stats.median * 1e6)


def test_the_report_is_a_table() -> None:
    text = str(BenchmarkStats("add", [4.0, 6.0], [1.0, 3.0], 4000, 1000))
    assert "add: 2 rounds" in text
    assert "kernel          2.00        1.00        3.00" in text
    assert "2.00 GB/s, 0.50 GFLOP/s" in text


def test_an_entry_is_timed_by_name() -> None:
    program = ir.compile(TwoEntries, platform="cpu")
    x = rng.standard_normal((4, 8)).astype(np.float32)
    assert program["negate"].benchmark(x, rounds=2).name == "negate"
    with pytest.raises(TypeError, match="several entries"):
        program.benchmark(x)


def test_run_compiles_runs_and_returns_the_program() -> None:
    out = np.empty_like(a)
    program = run(binary("FP32"), a, b, out)
    np.testing.assert_array_equal(out, a + b)
    np.testing.assert_array_equal(program(b, b), b + b)
