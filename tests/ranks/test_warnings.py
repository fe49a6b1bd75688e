"""Host functions that are probably not meant so: each place is told once."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.ranks.engines import on
from tilejit.errors import TilejitWarning
from tilejit.jit.function import JITFunction

NR = pl.dynamic("NR")


@pl.jit
def number(y: pl.Out[pl.Tensor[[1, 8], pl.FP32]], win: pld.DistributedTensor[[1, 8], pl.FP32]):
    with pl.at(level=pl.Level.CORE_GROUP):
        win[:, :] = pl.full([1, 8], pl.FP32, 3.0)
        y[:, :] = win


@pl.jit.host
def in_a_loop(y: pl.Out[pl.Tensor[[NR, 1, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        data = pld.alloc_window_buffer([8], dtype=pl.FP32)
        number(y[r], pld.window(data, [8], dtype=pl.FP32), device=r)


@pl.jit.host
def reshaped(y: pl.Out[pl.Tensor[[NR, 1, 8], pl.FP32]]):
    data = pld.alloc_window_buffer([8], dtype=pl.FP32)
    for r in pl.range(pld.world_size()):
        number(y[r], pld.window(data, [2, 4], dtype=pl.FP32), device=r)


@pl.jit.host
def plain(y: pl.Out[pl.Tensor[[NR, 1, 8], pl.FP32]]):
    data = pld.alloc_window_buffer([8], dtype=pl.FP32)
    for r in pl.range(pld.world_size()):
        number(y[r], pld.window(data, [8], dtype=pl.FP32), device=r)


@pytest.mark.parametrize(
    ("host", "slices", "message"),
    [
        (in_a_loop, 2, "`data` stands in a loop or a branch: there is one of it in every call"),
        (reshaped, 2, r"parameter `win` of `number` is \[1, 8\], the window \[2, 4\]"),
        (plain, 3, "`y` has 3 slices, 2 ranks were launched: the other slices stay as they are"),
    ],
    ids=["loop", "shape", "slices"],
)
def test_what_is_probably_not_meant_is_told_once(host: JITFunction, slices: int, message: str) -> None:
    y = np.zeros((slices, 1, 8), np.float32)
    with pytest.warns(TilejitWarning, match=message):
        host(y, config=on(2))
    assert (y[:2] == 3).all() and (y[2:] == 0).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        host(y, config=on(2))
        plain(y[:2], config=on(2))
