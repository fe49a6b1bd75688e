"""What a call of a host function checks, it checks when it is done again without its text too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.ranks.engines import on
from tilejit.errors import ArgumentError, OptionError, ResourceError

NR = pl.dynamic("NR")


@pl.jit
def doubled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 2.0


@pl.jit.host
def both(x: pl.Tensor[[NR, 8], pl.FP32], a: pl.Out[pl.Tensor[[NR, 8], pl.FP32]], b: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        doubled(x[r], a[r], device=r)
    for r in pl.range(pld.world_size()):
        doubled(x[r], b[r], device=r)


def warm() -> tuple[Any, Any, Any]:
    """Arguments of a call that has been done again already."""
    x, a, b = np.ones((2, 8), np.float32), np.zeros((2, 8), np.float32), np.zeros((2, 8), np.float32)
    for _ in range(2):
        both(x, a, b, config=on(2))
    a[:] = b[:] = 0
    return x, a, b


def unaligned(shape: tuple[int, ...]) -> Any:
    return np.zeros(4 * int(np.prod(shape)) + 1, np.uint8)[1:].view(np.float32).reshape(shape)


def test_an_output_that_is_not_aligned_is_refused_before_another_one_is_written() -> None:
    x, a, _ = warm()
    with pytest.raises(ArgumentError, match="output `b` is not aligned"):
        both(x, a, unaligned((2, 8)), config=on(2))
    assert not a.any()


def test_strides_between_elements_are_refused_unless_no_step_takes_them() -> None:
    x, a, b = warm()
    odd = np.lib.stride_tricks.as_strided(np.full(16, 3, np.float32), (1, 8), (3, 4))
    stepped = np.lib.stride_tricks.as_strided(np.zeros(16, np.float32), (2, 8), (30, 4))
    for _ in range(2):
        both(x[:1], a[:1], b[:1], config=on(1))
        b[:] = 0
        both(odd, a[:1], b[:1], config=on(1))
        np.testing.assert_array_equal(b[:1], 2 * odd)
        with pytest.raises(ArgumentError, match="no multiple of the element size"):
            both(stepped, a, b, config=on(2))


def test_inputs_that_are_not_aligned_are_read() -> None:
    x, a, b = warm()
    other = unaligned((2, 8))
    other[:] = 3
    for _ in range(3):
        both(other, a, b, config=on(2))
        both(x, b, a, config=on(2))
    np.testing.assert_array_equal(b, 2 * x)
    both(other, a, b, config=on(2))
    np.testing.assert_array_equal(b, 2 * other)


def test_an_output_for_which_there_is_no_memory_is_said_to_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    x = np.ones((2, 8), np.float32)
    for _ in range(2):
        both(x, config=on(2))
    monkeypatch.setattr(np, "zeros", full)
    with pytest.raises(ResourceError, match="no memory for a result"):
        both(x, config=on(2))


def test_a_setting_that_makes_no_sense_is_said_in_calls_that_are_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    x, a, b = warm()
    monkeypatch.setenv("TILEJIT_WAIT_TIMEOUT", "zz")
    with pytest.raises(OptionError, match=r"TILEJIT_WAIT_TIMEOUT='zz'.*\n.*help: "):
        both(x, a, b, config=on(2))
