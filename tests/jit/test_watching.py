"""The debug dial: what a compile says of itself on stderr."""

from __future__ import annotations

import io
import sys
import threading

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import errors
from tilejit.jit import watching
from tilejit.passes import clock, pipeline

X = np.random.default_rng(4).standard_normal((4, 8)).astype(np.float32)


@pl.jit
def tripled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 3.0


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    tripled.cache_clear()
    capsys.readouterr()
    np.testing.assert_array_equal(tripled(X), 3 * X)
    return capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(("dial", "begins"), [("0", []), ("1", ["tilejit: compiled "]), ("2", ["tilejit: stages of ", "tilejit: compiled "])])
def test_the_dial_says_how_much_is_told(dial: str, begins: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_DEBUG", dial)
    monkeypatch.setenv("TILEJIT_CACHE", "0")
    lines = said(capsys)
    assert len(lines) == len(begins) and all(line.startswith(start) for line, start in zip(lines, begins, strict=True))
    if dial == "2":
        assert all(f" {name} " in lines[0] for name in ("simplify", "outline", "fuse", "LLVM"))


def test_loads_are_told_at_two_and_the_ir_is_verified_at_three(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said(capsys)
    monkeypatch.setenv("TILEJIT_DEBUG", "2")
    assert [line.partition(" from disk")[0] for line in said(capsys)] == [f"tilejit: loaded {__name__}.tripled"]
    seen: list[str] = []
    monkeypatch.setattr(pipeline.VerifyInstrument, "after_pass", lambda self, name, program: seen.append(name))
    monkeypatch.setenv("TILEJIT_CACHE", "0")
    said(capsys)
    assert seen == []
    monkeypatch.setenv("TILEJIT_DEBUG", "3")
    said(capsys)
    assert "outline" in seen


class Screen(io.StringIO):
    """Tells when something was printed."""

    def __init__(self, live: bool) -> None:
        super().__init__()
        self.live, self.printed = live, threading.Event()

    def isatty(self) -> bool:
        return self.live

    def flush(self) -> None:
        self.printed.set()


@pytest.mark.parametrize("live", [True, False])
def test_a_compile_that_takes_long_says_so_with_its_stage(live: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(live)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(watching, "PATIENCE", 0.001)
    monkeypatch.setenv("TILEJIT_DEBUG", "0" if live else "1")
    with watching.watched_compile("softmax"), clock.stage("LLVM"):
        screen.printed.clear()
        screen.printed.wait()  # a compile that lasts until it was mentioned
    shown = screen.getvalue()
    assert "tilejit: compiling softmax: 0 s, LLVM" in shown
    assert shown.endswith("\r\x1b[K") if live else "\x1b" not in shown


def test_without_a_terminal_nothing_is_said_of_a_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", screen := Screen(False))
    monkeypatch.setattr(watching, "PATIENCE", 0.0)
    before = threading.active_count()
    with watching.watched_compile("softmax"):
        assert threading.active_count() == before
    assert screen.getvalue() == ""


WRONG = [("TILEJIT_LOG", "recompiles"), ("TILEJIT_CPU", "avx"), ("TILEJIT_CACHE_BYTES", "lots"), ("TILEJIT_DEBUG", "yes")]


@pytest.mark.parametrize(("variable", "value"), WRONG)
def test_a_value_that_a_setting_does_not_take_is_named_before_anything_is_compiled(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tripled.cache_clear()
    monkeypatch.setenv(variable, value)
    with pytest.raises((errors.OptionError, ValueError), match=f"{variable}='{value}'"):
        tripled(X)


def test_an_unknown_setting_is_named_also_where_the_kernel_comes_from_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    tripled(X)
    tripled.cache_clear()
    monkeypatch.setattr("tilejit.runtime.config._warned", set())
    monkeypatch.setenv("TILEJIT_NUM_THREAD", "2")
    with pytest.warns(errors.TilejitWarning, match="TILEJIT_NUM_THREAD is set"):
        tripled(X)
