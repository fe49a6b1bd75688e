"""Artifacts of host functions: written once, they run in other processes, in all three ways, without any compiler."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.patience import HANG
from tests.ranks import order, signals
from tests.ranks.engines import WITHOUT_MPI, launched, mpirun, on
from tilejit import ir
from tilejit.errors import ArtifactError, OptionError, OutOfBoundsError, PlatformError, StaleCaptureError, TilejitError
from tilejit.jit.hosts import stored_hosts
from tilejit.runtime import CompiledProgram, DistributedCompiledProgram, DistributedConfig
from tilejit.runtime.arrays import DeviceTensor

ROOT = Path(__file__).parent.parent.parent
NR, K = pl.dynamic("NR"), pl.dynamic("K")
FACTORS = (2, 3)
BIAS = 1
same_number = lambda number: number  # noqa: E731 (a function without a text of its own)


def picked(number: int) -> int:
    return FACTORS[number % len(FACTORS)]


@pl.jit
def scaled(x: pl.Tensor, y: pl.Out[pl.Tensor], by: pl.Scalar[pl.INT32]):
    y[:] = x * pl.cast(by, pl.FP32)


@pl.jit.host
def each(x: pl.Tensor[[NR, K], pl.FP32], y: pl.Out[pl.Tensor[[NR, K], pl.FP32]], first: pl.Scalar[pl.INT32]):
    for r in pl.range(pld.world_size()):
        scaled(x[r], y[r], picked(first + r), device=r)


@pl.jit.host
def nested(x: pl.Tensor[[NR, K], pl.FP32], y: pl.Out[pl.Tensor[[NR, K], pl.FP32]], z: pl.Out[pl.Tensor[[4], pl.FP32]]):
    """A host function in another one, a Python function, a constant of the module, and a kernel in two shapes."""
    each(x, y, 1)
    scaled(x[0, 0:4], z, FACTORS[1], device=pld.world_size() - 1)


@pl.jit
def biased(x: pl.Tensor, y: pl.Out[pl.Tensor], by: pl.Scalar[pl.INT32]):
    y[:] = x * float(BIAS) + pl.cast(by, pl.FP32)


@pl.jit.host
def all_biased(x: pl.Tensor[[NR, K], pl.FP32], y: pl.Out[pl.Tensor[[NR, K], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        biased(x[r], y[r], BIAS, device=r)


SCALE = [2.0]


@pl.jit(on_drift="recompile")
def following(x: pl.Tensor[[K], pl.FP32], y: pl.Out[pl.Tensor[[K], pl.FP32]]):
    y[:] = x * SCALE[0]


@pl.jit.host
def all_following(x: pl.Tensor[[NR, K], pl.FP32], y: pl.Out[pl.Tensor[[NR, K], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        following(x[r], y[r], device=r)


@pl.jit.host
def textless(x: pl.Tensor[[NR, K], pl.FP32], y: pl.Out[pl.Tensor[[NR, K], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        scaled(x[r], y[r], same_number(2), device=r)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stored")
    random = np.random.default_rng(5)
    x, rows, rounds = (random.standard_normal(shape).astype(np.float32) for shape in ((2, 8, 16), (2, 8), (2, 2, 4, 8)))
    ir.compile(order.Handed, str(path / "program"), distributed_config=DistributedConfig([0, 1]))
    for name, compiled in (("kernels", signals.shift.compile(x, config=on(2))), ("nested", nested.compile(rows, config=on(2)))):
        assert isinstance(compiled, DistributedCompiledProgram)
        os.rename(compiled.output_dir, path / name)
    wanted = order.expected(rounds)
    by = np.array([[3], [2]], np.float32)
    outputs = {"program.0": wanted.pop("last"), **{f"program.{number}": array for number, array in enumerate(wanted.values(), 1)}}
    outputs |= {"kernels.0": np.roll(x, 1, axis=0), "nested.0": rows * by, "nested.1": rows[0, :4] * np.float32(3)}
    np.savez(path / "given.npz", program=rounds, kernels=x, nested=rows, **outputs)  # pyright: ignore[reportArgumentType]
    return path


@pytest.mark.parametrize(
    "launcher",
    [
        pytest.param([sys.executable], id="threads"),
        pytest.param(launched(2), id="processes"),
        pytest.param(mpirun(2), id="mpi", marks=pytest.mark.skipif(WITHOUT_MPI, reason="needs mpi4py and mpirun")),
    ],
)
def test_another_process_runs_what_was_stored(launcher: list[str], folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    command = [*launcher, "-m", "tests.ranks.stored", str(folder), "2"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_stored_says_what_it_is(folder: Path) -> None:
    compiled: Any = CompiledProgram.from_dir(folder / "kernels")
    assert isinstance(compiled, DistributedCompiledProgram)
    assert [(info.name, info.direction, info.shape) for info in compiled.param_infos] == [("x", "In", ("NR", 8, 16)), ("y", "Out", ("NR", 8, 16))]
    facts = json.loads((folder / "kernels" / "meta.json").read_text())["facts"]["hosts"]["shift"]
    assert facts["windows"] == {"data": "[8, 16], dtype=pl.FP32", "cells": "[1, 1], dtype=pl.INT32"}
    assert facts["launched"] == [{"function": "ring_put", "device": "r", "windows": ["data", "cells"]}]
    assert facts["groups"] == {"data": ["r"], "cells": ["r"]}
    program: Any = CompiledProgram.from_dir(folder / "program")
    assert "def double" in program.stage("python") and program.chosen.device_ids == (0, 1)


def test_a_stored_host_function_fails_as_it_did_and_says_where(folder: Path) -> None:
    compiled: Any = pickle.loads(pickle.dumps(CompiledProgram.from_dir(folder / "kernels")))
    x = np.zeros((1, 8, 16), np.float32)
    for call in (signals.shift, compiled):
        with pytest.raises(OutOfBoundsError, match="index 1 of dim 0 of `x`") as caught:
            call(x, config=on(2))
        assert caught.value.span is not None and "ring_put(x[r]" in (caught.value.span.source.line(caught.value.span.line) or "")
    short: Any = CompiledProgram.from_dir(folder / "nested")
    with pytest.raises(ArtifactError, match=r"`scaled` was not compiled for x: \[6\] of float32"):
        short(np.zeros((2, 6), np.float32), config=on(2))


@pl.jit
def weighted(x: pl.Tensor, y: pl.Out[pl.Tensor], by: float, flag: bool, mode: str = "plus", more: object = 0.5):
    y[:] = (x * by if flag else x - by) + (more if mode == "plus" else 0.0)


@pl.jit.host
def weighs(x: pl.Tensor[[NR, 4], pl.FP32], y: pl.Out[pl.Tensor[[NR, 4], pl.FP32]], by: float, flag: bool):
    for r in pl.range(pld.world_size()):
        weighted(x[r], y[r], by + float(r), flag, "plus" if by > 1.0 else "none", device=r)


def test_numbers_without_a_type_are_constants_of_what_is_launched() -> None:
    x = np.ones((2, 4), np.float32)
    for by, flag in ((2.5, True), (0.5, True), (2.5, False), (2.5, True)):
        want = [weighted(x[r], by=by + r, flag=flag, mode="plus" if by > 1.0 else "none") for r in range(2)]
        np.testing.assert_array_equal(weighs(x, by=by, flag=flag, config=on(2)), want)
    kept: Any = weighs.compile(x, by=2.5, flag=True, config=on(2))
    for compiled in (kept, CompiledProgram.from_dir(kept.output_dir)):
        np.testing.assert_array_equal(compiled(x, by=2.5, flag=True, config=on(2)), [[3.0] * 4, [4.0] * 4])
        with pytest.raises(ArtifactError, match=r"`weighted` was not compiled for .*by: 0\.5, flag: True, mode: 'none'"):
            compiled(x, by=0.5, flag=True, config=on(2))


@pl.jit
def power(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    y[:] = pl.exp(x)


@pl.jit.host
def powers(x: pl.Tensor[[NR, K], pl.FP32], y: pl.Out[pl.Tensor[[NR, K], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        power(x[r], y[r], device=r)


def test_the_code_that_was_asked_for_runs_and_a_call_cannot_ask_for_other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((2, 512)).astype(np.float32)
    exact, fast = replace(on(2), fast_math=False), replace(on(2), fast_math=True)
    want = powers(x, config=exact)
    assert not np.array_equal(want, powers(x, config=fast))
    monkeypatch.setenv("TILEJIT_FAST_MATH", "0")
    alone: Any = powers.compile(x[:1])
    monkeypatch.setenv("TILEJIT_FAST_MATH", "1")
    asked: Any = powers.compile(x, config=exact)
    for compiled, given in ((alone, x[:1]), (asked, x), (CompiledProgram.from_dir(asked.output_dir), x)):
        np.testing.assert_array_equal(compiled(given), want[: len(given)])
        np.testing.assert_array_equal(compiled(x, config=exact), want)
        with pytest.raises(OptionError, match="powers was compiled with fast_math=False, the call asks for fast_math=True"):
            compiled(x, config=fast)
        with pytest.raises(PlatformError, match="powers was compiled for cpu, not for reference"):
            compiled(x, config=on(2, "reference"))


def test_what_no_other_process_has_is_not_stored() -> None:
    marks = {object(): 2}

    @pl.jit.host
    def reads(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(len(marks) * pld.world_size()):
            scaled(x[r], y[r], 1, device=r)

    compiled = reads.compile(np.zeros((1, 8), np.float32))
    with pytest.raises(ArtifactError, match="`marks` of `reads` is a object"):
        _ = compiled.output_dir
    assert compiled == compiled and hash(compiled)


def test_what_is_stored_is_what_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels and host functions of one moment, whenever the directory is asked for."""
    x = np.random.default_rng(6).standard_normal((2, 8)).astype(np.float32)
    compiled = all_biased.compile(x, config=on(2))
    monkeypatch.setitem(globals(), "BIAS", 5)
    np.testing.assert_allclose(CompiledProgram.from_dir(str(compiled.output_dir))(x), x + 1, rtol=1e-6)


def test_what_cannot_be_stored_runs_nevertheless() -> None:
    x = np.random.default_rng(7).standard_normal((2, 8)).astype(np.float32)
    compiled = textless.compile(x, config=on(2))
    np.testing.assert_array_equal(compiled(x), x * 2)
    with pytest.raises(TilejitError, match=r"same_number|lambda"):
        _ = compiled.output_dir


FACTOR = 3


def factor(number: int, by: int = FACTOR) -> int:
    return by


@pl.autotune({"r": [1, 2]}, progress=False)
@pl.jit
def tuned(x: pl.Tensor, y: pl.Out[pl.Tensor], by: pl.Scalar[pl.INT32], r: int = 1):
    y[:] = x * pl.cast(by, pl.FP32)


@pl.jit.host
def by_default(x: pl.Tensor[[NR, K], pl.FP32], y: pl.Out[pl.Tensor[[NR, K], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        tuned(x[r], y[r], factor(r), device=r)


def test_defaults_are_those_of_the_definition_and_tuned_kernels_are_launched_with_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(8).standard_normal((2, 8)).astype(np.float32)
    monkeypatch.setitem(globals(), "FACTOR", 9)
    compiled = by_default.compile(x, config=on(2))
    for run in (compiled, CompiledProgram.from_dir(str(compiled.output_dir))):
        np.testing.assert_array_equal(run(x), x * 3)


def by_number(x: pl.Tensor[[NR, K], pl.FP32], y: pl.Out[pl.Tensor[[NR, K], pl.FP32]], by: pl.Scalar[pl.INT32] = 4):  # type: ignore[assignment]
    for r in pl.range(pld.world_size()):
        scaled(x[r], y[r], by, device=r)


def test_what_is_compiled_has_the_defaults_of_now() -> None:
    x, host = np.random.default_rng(9).standard_normal((2, 8)).astype(np.float32), pl.jit.host(by_number)
    np.testing.assert_array_equal(host.compile(x, config=on(2))(x), x * 4)
    by_number.__defaults__ = (7,)
    np.testing.assert_array_equal(host.compile(x, config=on(2))(x), x * 7)


@pl.jit
def flagged(x: pl.Tensor, y: pl.Out[pl.Tensor], flag: bool):
    y[:] = x * 2.0


@pl.jit
def counted(x: pl.Tensor, y: pl.Out[pl.Tensor], by: object):
    y[:] = x * pl.cast(by, pl.FP32)


@pl.jit.host
def of_two_kinds(x: pl.Tensor[[2, K], pl.FP32], y: pl.Out[pl.Tensor[[2, K], pl.FP32]], z: pl.Out[pl.Tensor[[2, K], pl.FP32]]):
    for r in pl.range(2):
        flagged(x[r], y[r], r == 0, device=r)
    counted(x[0], z[0], 2, device=0)
    counted(x[1], z[1], 2.5, device=1)


def test_kinds_of_arguments_that_share_a_program_are_all_stored() -> None:
    x = np.ones((2, 8), np.float32)
    for compiled in (of_two_kinds.compile(x, config=on(2)), CompiledProgram.from_dir(of_two_kinds.compile(x, config=on(2)).output_dir)):
        y, z = compiled(x, config=on(2))
        np.testing.assert_array_equal(y, 2 * x)
        np.testing.assert_array_equal(z, x * np.array([[2.0], [2.5]], np.float32))


TURNED = [2.0]


@pl.jit(on_drift="recompile")
def turned(x: pl.Tensor[[K], pl.FP32], y: pl.Out[pl.Tensor[[K], pl.FP32]]):
    y[:] = x * TURNED[0]


def turn(value: float) -> None:
    TURNED[0] = value


@pl.jit.host
def turns(x: pl.Tensor[[2, 8], pl.FP32], y: pl.Out[pl.Tensor[[2, 8], pl.FP32]], first: float, second: float):
    turn(first)
    turned(x[0], y[0], device=0)
    turn(second)
    turned(x[1, 0:4], y[1, 0:4], device=1)


def test_a_dynamic_extent_has_one_program_in_an_artifact() -> None:
    x = np.ones((2, 8), np.float32)
    y = np.zeros_like(x)
    CompiledProgram.from_dir(turns.compile(x, y, 3.0, 3.0, config=on(2)).output_dir)(x, y, 3.0, 3.0, config=on(2))
    np.testing.assert_array_equal(y[:, 0], [3, 3])
    with pytest.raises(StaleCaptureError, match="what `turned` reads changed between two launches"):
        turns.compile(x, y, 2.0, 3.0, config=on(2))


def test_memory_of_a_gpu_leads_to_the_program_for_its_shape() -> None:
    """An artifact that was compiled for a device tells shapes apart by the descriptions that it gets of memory there."""
    programs = [scaled.compile(np.ones(count, np.float32), np.ones(count, np.float32), by=pl.RUNTIME).only("launch") for count in (4, 8)]
    launch = stored_hosts.StoredLaunch("scaled", (), [(program, {}) for program in programs], str)
    for program, count in zip(programs, (4, 8), strict=True):
        memory = DeviceTensor(16, (count,), pl.FP32, "cuda:0")
        assert launch.compiled({"x": memory, "y": memory, "by": pl.RUNTIME}, None).entry is program


def test_a_compiled_host_function_stays_as_compiled_in_memory_and_stored() -> None:
    x = np.ones((2, 8), np.float32)
    SCALE[0] = 2.0
    kept: Any = all_following.compile(x, config=on(2))
    stored: Any = CompiledProgram.from_dir(kept.output_dir)
    for scale in (2.0, 3.0, 2.0, 4.0):
        SCALE[0] = scale
        for _ in range(2):  # the second one may do again what the first one did
            np.testing.assert_array_equal(all_following(x, config=on(2)), x * scale)
            np.testing.assert_array_equal(kept(x), x * 2)
            np.testing.assert_array_equal(stored(x), x * 2)
