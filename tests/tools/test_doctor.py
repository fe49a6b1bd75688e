"""`tilejit doctor` names what runs here and what to do about what does not."""

from __future__ import annotations

import pytest

from tests.runtime.cuda.fake import FakeLibrary, install
from tilejit.errors import PlatformError
from tilejit.runtime import machine
from tilejit.runtime.cuda import driver as api
from tilejit.tools.cli import main

Captured = pytest.CaptureFixture[str]


def report(capsys: Captured) -> str:
    assert main(["doctor"]) == 0
    return capsys.readouterr().out


LEVELS = {
    "sse": ("16 of 128 bits", "as far as TILEJIT_CPU=sse allows", "BF16 by vectors of wider numbers, INT8 by vectors of wider numbers"),
    "avx2": ("16 of 256 bits",),
}


def test_every_platform_has_a_verdict(capsys: Captured) -> None:
    said = report(capsys)
    assert "cpu: runs here" in said and "reference, eager" in said and "cuda: " in said and "a2a3, a5: runs here" in said


@pytest.mark.parametrize(("level", "lines"), LEVELS.items())
def test_what_is_used_of_the_processor_is_listed(level: str, lines: tuple[str, ...], capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_CPU", level)
    monkeypatch.setenv("TILEJIT_NUM_THREADS", "3")
    monkeypatch.setattr(machine, "processors", lambda: 5)
    said = report(capsys)
    assert all(line in said for line in (*lines, "ok threads: 3, of 5 processors that this process may use"))


def test_a_missing_driver_is_named_with_what_to_do(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise PlatformError("there is no NVIDIA driver here: not found", help="run elsewhere")

    monkeypatch.setattr(api, "driver", none)
    said = report(capsys)
    assert "cuda: does not run here" in said
    assert "-- NVIDIA driver: there is no NVIDIA driver here: not found\n      → run elsewhere" in said


LINES = {90: "ok cuda:1: Fake GPU, sm_90, 4 multiprocessors", 75: "-- cuda:1: Fake GPU has compute capability 7.5"}


@pytest.mark.parametrize(("capability", "line"), LINES.items())
def test_each_gpu_is_listed(capability: int, line: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeLibrary(capability=capability, devices=2))
    said = report(capsys)
    assert "NVIDIA driver: 2 GPUs" in said and line in said


def test_a_triton_that_is_not_there_is_named(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> dict[str, str]:
        raise PlatformError("Triton is not installed: without it nothing can be compiled for CUDA", help="pip install 'tilejit[cuda]'")

    monkeypatch.setattr("tilejit.backends.cuda.compile.versions", missing)
    assert "-- Triton: Triton is not installed" in report(capsys)
