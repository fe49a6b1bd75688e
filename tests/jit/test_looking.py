"""Looking at programs that a cache had: all their forms are there, what a call wants kept is kept, and schedules that name nothing are refused."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import RunConfig, ir
from tilejit.errors import OptionError

X = np.random.default_rng(0).standard_normal((8, 24)).astype(np.float32)


@pl.jit
def halved(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 0.5


@pytest.fixture
def on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The kernel is in a cache of its own, and no longer in memory; the stages that it had."""
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "cache"))
    halved.cache_clear()
    stages = halved.compile(X).stages()
    halved.cache_clear()
    return stages


def test_a_program_from_disk_shows_the_forms_that_it_had(on_disk: tuple[str, ...]) -> None:
    found = halved.compile(X)
    assert halved.cache_info().loaded == 1
    assert "halved_k0/nest0" in found.stage("schedule") and "halved_k0" in found.stage("s")
    assert set(on_disk) <= set(found.stages()) and any(name.startswith("passes/") for name in found.stages())
    np.testing.assert_array_equal(found(X), X / 2)


def test_where_nothing_may_be_compiled_it_shows_what_there_is(on_disk: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_RUN_ONLY", "1")
    assert halved.compile(X).stages() == ("python",)


def test_kernels_and_passes_are_kept_by_every_call_that_asks(on_disk: tuple[str, ...], tmp_path: Path) -> None:
    for directory in ("first", "second"):  # from disk, then from memory
        halved(X, config=RunConfig(save_kernels=True, save_kernels_dir=str(tmp_path / directory)))
        assert "halved_k0" in (tmp_path / directory / "whole-program.s").read_text()
    halved.cache_clear(True)
    halved(X)
    assert not any(name.startswith("passes/") for name in halved.compile(X).stages())
    assert any(name.startswith("passes/") for name in halved.compile(X, config=RunConfig(dump_passes=True)).stages())


def test_kernels_are_kept_again_where_another_program_has_put_its_own_since(tmp_path: Path) -> None:
    wanted = RunConfig(save_kernels=True, save_kernels_dir=str(tmp_path))
    small, large = X, np.ones((64, 100), np.float32)
    texts = []
    for x in (small, large, small, large, small, large):
        halved(x, np.empty_like(x), config=wanted)
        texts.append((tmp_path / "whole-program.s").read_text())
    assert texts == texts[:2] * 3 and texts[0] != texts[1]


def test_a_schedule_of_a_call_names_nests_that_there_are(on_disk: tuple[str, ...]) -> None:
    for _ in range(2):
        with pytest.raises(OptionError, match=r"(?s)the schedule of halved has no 'halved_k0/nest9'.*did you mean `halved_k0/nest0`"):
            halved(X, config=RunConfig(schedule={"halved_k0/nest9": {"lanes": 8}}))


def test_a_schedule_of_a_call_names_nests_or_kinds_of_work_that_there_are(on_disk: tuple[str, ...]) -> None:
    for name, platform in (("nope", "cpu"), ("nope", "reference"), ("gemm FP33", "cpu")):
        with pytest.raises(OptionError, match=f"the schedule of halved has no '{name}'"):
            halved(X, config=RunConfig(platform=platform, schedule={name: {"lanes": 8}}))
    np.testing.assert_array_equal(halved(X, config=RunConfig(schedule={"gemm FP32": {"rows": 4}, "copies": {"lanes": 8}})), X / 2)


@pytest.mark.parametrize("name", ["nope", "halved/nest0", "halved_k0/nest9"])
def test_a_schedule_of_the_setting_names_what_there_is_or_another_kernel(name: str, on_disk: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    program = cast("ir.Program", halved.compile(X).program)
    monkeypatch.setenv("TILEJIT_SCHEDULE", f'{{"{name}": {{"lanes": 8}}}}')
    for look in (lambda: halved(X), lambda: ir.compile(program)):
        with pytest.raises(OptionError, match=rf"the schedule of halved has no '{name}' \(TILEJIT_SCHEDULE\)"):
            look()
    monkeypatch.setenv("TILEJIT_SCHEDULE", '{"other_k0/nest0": {"lanes": 8}, "halved_k0/nest0": {"lanes": 8}}')
    np.testing.assert_array_equal(halved(X), X / 2)


def test_a_schedule_of_a_compiled_program_names_nests_that_there_are(on_disk: tuple[str, ...]) -> None:
    program = cast("ir.Program", halved.compile(X).program)
    for name in ("nope", "other_k0/nest0", "halved_k0/nest9"):
        with pytest.raises(OptionError, match=f"the schedule of halved has no '{name}'"):
            ir.compile(program, config=RunConfig(schedule={name: {"lanes": 8}}))
    compiled = ir.compile(program, config=RunConfig(schedule={"halved_k0/nest0": {"lanes": 8}}))
    np.testing.assert_array_equal(compiled(X), X / 2)
