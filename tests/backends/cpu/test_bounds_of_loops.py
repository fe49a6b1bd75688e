"""Loops whose bounds lie at the ends of the integers make the turns that Python's `range` makes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel, make_kernel
from tilejit import RunConfig

__all__ = ["make_kernel"]

HIGH, LOW = (1 << 63) - 1, -(1 << 63)
ROWS = 13
RANGES = [
    (HIGH - 3, HIGH, 1), (LOW, LOW + 3, 1), (LOW, HIGH, HIGH), (HIGH, LOW, -HIGH), (HIGH, LOW, LOW), (HIGH, HIGH - 4, -1), (LOW, LOW, 1), (HIGH, LOW, 1),
    (HIGH - 10, HIGH, 4), (LOW + 9, LOW, -4), (0, HIGH, 1 << 62), (LOW, HIGH, 1 << 62), (LOW, HIGH, 1 << 61), (HIGH, LOW, -(1 << 61)),
    (LOW, HIGH, (1 << 62) + 5), (5, -5, 1), (-5, 5, -1), (-7, 8, 3), (8, -7, -3),
]  # fmt: skip
CONFIGS = [RunConfig(platform="reference"), RunConfig(platform="cpu", num_threads=1), RunConfig(platform="cpu", num_threads=3)]


def rows_of(turns: range) -> list[int]:
    """The rows that the kernel marks; its remainder has the sign of the dividend."""
    return sorted({(abs(index) % ROWS * (1 if index >= 0 else -1) + ROWS) % ROWS for index in turns})


@pytest.mark.parametrize("config", CONFIGS, ids=["reference", "one thread", "three threads"])
@pytest.mark.parametrize("loop", ["parallel", "range"])
@pytest.mark.parametrize("step", ["step", "4", "-4", "1"])
def test_the_turns_are_those_of_range(make_kernel: MakeKernel, loop: str, step: str, config: RunConfig) -> None:
    kernel = make_kernel(
        f"""
        @pl.jit
        def marks(out: pl.Out[pl.Tensor], start: pl.Scalar[pl.INT64], stop: pl.Scalar[pl.INT64], step: pl.Scalar[pl.INT64]):
            for i in pl.{loop}(start, stop, {step}):
                with pl.at(level=pl.Level.CORE_GROUP):
                    t = pl.full([1, 8], dtype=pl.FP32, value=1.0)
                    out = pl.store(t, [(i % {ROWS} + {ROWS}) % {ROWS}, 0], out)
            return out
        """
    )
    tried = 0
    for start, stop, given in RANGES:
        turns = range(start, stop, given if step == "step" else int(step))
        if turns and (turns[-1] - turns[0]) // turns.step > 100:
            continue  # it would take for ever
        out = np.zeros((ROWS, 8), np.float32)
        kernel(out, start, stop, given, config=config)
        assert np.nonzero(out[:, 0])[0].tolist() == rows_of(turns), turns
        tried += 1
    assert tried >= 8
