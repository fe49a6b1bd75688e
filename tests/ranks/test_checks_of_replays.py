"""What a call of a host function checks, it checks when it is done again without its text too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.ranks.engines import on
from tilejit.errors import OptionError

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


def test_a_setting_that_makes_no_sense_is_said_in_calls_that_are_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    x, a, b = warm()
    monkeypatch.setenv("TILEJIT_WAIT_TIMEOUT", "zz")
    with pytest.raises(OptionError, match="TILEJIT_WAIT_TIMEOUT='zz'.*\n.*help: "):
        both(x, a, b, config=on(2))
