"""Kernels follow how their thread computes with floats, as Python does: what one mode gave is not for another."""

from __future__ import annotations

import ctypes
import platform
import sys
import textwrap
import threading
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import float_mode
from tilejit.errors import StaleCaptureError
from tilejit.jit.function import JITFunction
from tilejit.tile_ir.program import Program

pytestmark = [
    pytest.mark.dispatch,
    pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="numbers of the C library on x86-64 Linux"),
]
UP, DOWN = 0x800, 0x400
"""What `fesetround` takes for rounding up and down."""
TEXT = """
    @pl.program
    class Scaled:
        @pl.function(type=pl.FunctionType.InCore)
        def kernel(self, x: pl.Tensor[[2, 4], pl.FP32], out: pl.Out[pl.Tensor[[2, 4], pl.FP32]]) -> pl.Tensor[[2, 4], pl.FP32]:
            return pl.store(pl.mul(pl.load(x, [0, 0], [2, 4]), 1.1), [0, 0], out)
"""
ONE, LITTLE = 1.0, 1e-20
X = np.ones((2, 4), np.float32)
T = TypeVar("T")


def rounding_up(work: Callable[[], T], rounding: int = UP) -> T:
    """What a thread of its own gets that rounds up, or otherwise."""
    found: list[T | BaseException] = []

    def run() -> None:
        assert ctypes.CDLL("libm.so.6").fesetround(rounding) == 0
        try:
            found.append(work())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


def folding() -> JITFunction:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * (2.0 if ONE + LITTLE > ONE else 3.0)

    return kernel


def is_more() -> bool:
    return ONE + LITTLE > ONE


def first(kernel: JITFunction) -> float:
    return float([kernel(X) for _ in range(4)][-1][0, 0])


def test_the_mode_is_that_of_the_thread() -> None:
    assert float_mode.bits() == float_mode.STANDARD
    mode = rounding_up(float_mode.bits)
    assert float_mode.described(mode) == "rounds up"
    both = float_mode.FLUSHED_OPERANDS | float_mode.FLUSHED_RESULTS
    assert float_mode.described(both) == "flushes denormal operands and results"


@pytest.mark.parametrize("up_first", [True, False])
def test_what_is_computed_while_compiling_is_for_one_mode(up_first: bool) -> None:
    kernel = folding()
    turns = [up_first, not up_first, up_first, not up_first]
    assert [rounding_up(lambda: first(kernel)) if up else first(kernel) for up in turns] == [2.0 if up else 3.0 for up in turns]


def test_another_process_finds_the_program_of_its_mode() -> None:
    assert rounding_up(lambda: first(folding())) == 2.0  # as another kernel of the same text, from the same disk
    assert (first(folding()), rounding_up(lambda: first(folding()))) == (3.0, 2.0)


def test_a_helper_is_asked_again_in_another_mode() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * (2.0 if is_more() else 3.0)

    assert first(kernel) == 3.0
    with pytest.raises(StaleCaptureError, match="is_more"):
        rounding_up(lambda: first(kernel))
    assert first(kernel) == 3.0


def test_the_numbers_of_a_text_are_read_as_usual() -> None:
    """As Python did when it imported the text: what a thread does by now is no edit."""

    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * 1.1

    assert rounding_up(lambda: float("1.1"), DOWN) < float("1.1")
    ones = np.ones((2, 4), np.float64)
    assert rounding_up(lambda: float(kernel(ones)[0, 0]), DOWN) == float(kernel(ones)[0, 0]) == 1.1
    program = rounding_up(lambda: pl.parse(textwrap.dedent(TEXT)), DOWN)
    assert isinstance(program, Program)
    assert "pl.mul(" in program.as_python() and ", 1.1)" in program.as_python()


def test_the_mode_is_back_after_reading() -> None:
    def work() -> tuple[int, int, int]:
        before = float_mode.bits()
        with float_mode.usual():
            within = float_mode.bits()
        return before, within, float_mode.bits()

    before, within, after = rounding_up(work, DOWN)
    assert float_mode.described(before) == "rounds down"
    assert (within, after) == (float_mode.STANDARD, before)
