"""`pl.print` in compiled code says what the reference says, in the same order; `pl.breakpoint` stops in the debugger."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.harness import data
from tilejit import RunConfig
from tilejit.errors import KernelAssertionError
from tilejit.jit.function import JITFunction
from tilejit.runtime.call import printing

CORES = pl.Level.CORE_GROUP


@pl.jit
def blocks(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    pl.print("x is", x)
    for b in pl.spmd(3):
        t = pl.load(x, [b, 0], [1, 8], valid_shape=[1, 3 + b])
        u = pl.mul(t, 2.0)
        pl.print("block", b, "has", u, "and", pl.read(t, [0, 1]), b > 1)
        pl.store(u, [b, 0], out)
    for i in pl.parallel(2):
        pl.print("row", i)


@pl.jit.inline
def told(t: pl.Tile, k: pl.INDEX):
    pl.print("partial sum", k, t)
    return t


@pl.jit
def product(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=CORES):
        acc = pl.tile.full([4, 4], dtype=pl.FP32, value=0.0)
        for k in pl.range(0, 8, 2):
            acc = pl.matmul_acc(acc, pl.load(x, [0, k], [4, 2]), pl.transpose(pl.load(x, [0, k], [4, 2]), 0, 1))
            acc = told(acc, k)
        pl.store(acc, [0, 0], out)


@pl.jit
def kinds(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=CORES):
        t = pl.load(x, [0, 0], [4, 8])
        half, short, flags = pl.cast(t, pl.BF16), pl.cast(t, pl.INT16), t > 10.0
        pl.print(half, pl.cast(t, pl.FP16), short, flags, pl.transpose(t, 0, 1), pl.cast(pl.read(t, [1, 1]), pl.FP16), pl.cast(pl.read(t, [1, 1]), pl.INT8))
        scaled = pl.mul(t, 0.5)
        pl.print(pl.row_max(scaled))
        pl.store(scaled, [0, 0], out)


def output(kernel: JITFunction, platform: str, capsys: pytest.CaptureFixture[str], calls: int = 1) -> str:
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    capsys.readouterr()
    for _ in range(calls):
        kernel(x, np.zeros((4, 4) if kernel is product else (4, 8), np.float32), config=RunConfig(platform=platform))
    return capsys.readouterr().out


@pytest.mark.parametrize("kernel", [blocks, product, kinds], ids=lambda kernel: kernel.__name__)
def test_compiled_code_says_what_the_reference_says(kernel: JITFunction, capsys: pytest.CaptureFixture[str]) -> None:
    expected = output(kernel, "reference", capsys)
    assert expected.count("\n") > 5
    assert output(kernel, "cpu", capsys) == expected
    assert output(kernel, "cpu", capsys, calls=4) == 4 * expected  # warm calls too


def test_a_kernel_from_the_disk_cache_says_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    expected = output(blocks, "cpu", capsys)
    blocks.cache_clear()
    assert output(blocks, "cpu", capsys) == expected
    assert blocks._cache.loaded == 1


@pl.jit
def fails(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.range(4):
        with pl.at(level=CORES):
            first = pl.read(x, [i, 0])
            pl.print("row", i, first)
            pl.device_assert(first < 10.0, "too large")
            out[i : i + 1] = pl.add(x[i : i + 1], 1.0)


def test_what_was_said_before_a_failure_is_shown(platform: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KernelAssertionError, match="too large"):
        output(fails, platform, capsys)
    assert capsys.readouterr().out == "row 0 0.0\nrow 1 8.0\nrow 2 16.0\n"


def test_what_finds_no_room_is_counted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(printing, "_BYTES", 4096)

    @pl.jit
    def many(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        for i in pl.range(300):
            with pl.at(level=CORES):
                pl.print(i)
        out[:] = pl.add(x, 1.0)

    lines = output(many, "cpu", capsys).splitlines()
    said = (4096 - 24) // 16
    assert lines == [*map(str, range(said)), f"… and {300 - said} more, for which there was no room"]


def test_a_breakpoint_stops_on_its_line_with_the_tiles_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    @pl.jit
    def stops(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=CORES):
            t = pl.load(x, [0, 0], [4, 8])
            pl.breakpoint()
            pl.store(pl.mul(t, 2.0), [0, 0], out)

    seen: list[Any] = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: seen.append(sys._getframe(1).f_locals["t"]))
    x = data(np.float32, 4, 8).make(np.random.default_rng(3))
    np.testing.assert_array_equal(stops(x, config=RunConfig(platform="cpu")), 2 * x)
    np.testing.assert_array_equal(seen, [x])
