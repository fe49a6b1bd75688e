"""A target from outside is compiled for, cached, found by a new process, dispatched, explained and listed like our own."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tilejit.language as pl
from tests.backends import toy
from tilejit import config, ir
from tilejit.config import Setting
from tilejit.errors import ArgumentError, OutOfBoundsError, PlatformError
from tilejit.jit.disk import kernels as disk
from tilejit.runtime import CompiledProgram, DeviceTensor, RunConfig, targets
from tilejit.runtime.targets import TargetRow
from tilejit.tools.cli import main

N = pl.dynamic("N")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(targets, "_rows", [*targets.rows()])
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "cache"))
    targets.register(toy.ROW)
    toy.counts.clear()


@pl.jit
def scaled(factor, x: pl.Tensor[[N, 8], pl.FP32], out: pl.Out[pl.Tensor[[N, 8], pl.FP32]]):  # type: ignore[no-untyped-def]
    for i in pl.spmd(x.shape[0] // 2):
        pl.store(pl.load(x, [i * 2, 0], [2, 8]) * factor, [i * 2, 0], out)


def data(rows: int = 6) -> np.ndarray:
    return np.random.default_rng(rows).standard_normal((rows, 8)).astype(np.float32)


def test_a_program_is_compiled_written_and_loaded_again(tmp_path: Path) -> None:
    x = data()
    program = ir.compile(scaled.lower(2.0, x, x.copy()), tmp_path / "out", platform="toy")
    assert program.platform == "toy" and "scf" not in program.stage("beads") and "tile." in program.stage("beads")
    for form in (program, CompiledProgram.from_dir(tmp_path / "out"), pickle.loads(pickle.dumps(program))):
        np.testing.assert_array_equal(form(x), 2 * x)
    assert toy.counts == {"built": 1, "loaded": 3, "launched": 9}


def test_warm_calls_take_a_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PLATFORM", "toy")
    scaled.cache_clear(disk=True)
    out = np.empty((6, 8), np.float32)
    for rows in (6, 6, 6, 8, 8, 6):
        x, out = data(rows), np.empty((rows, 8), np.float32)
        scaled(2.0, x, out)
        np.testing.assert_array_equal(out, 2 * x)
    assert scaled._warm is not None and scaled._warm.all_hits >= 2
    assert toy.counts["built"] == 1 and toy.counts["launched"] == 20
    with pytest.raises(PlatformError, match="elsewhere"):
        scaled(2.0, x, on("elsewhere:0"))
    monkeypatch.setenv("TILEJIT_PLATFORM", "cpu")
    scaled(2.0, x, out)
    assert toy.counts["launched"] == 20


_told = {"beads": "glass"}


def told() -> str:
    return _told["beads"]


def test_what_the_compiler_was_told_is_part_of_the_key_in_memory_too(monkeypatch: pytest.MonkeyPatch) -> None:
    targets.register(replace(toy.ROW, compiler_settings=f"{__name__}:told"))
    x, toyish = data(), RunConfig(platform="toy")
    scaled.cache_clear(disk=True)
    for beads, built in (("glass", 1), ("glass", 1), ("wood", 2), ("glass", 2)):
        monkeypatch.setitem(_told, "beads", beads)
        np.testing.assert_array_equal(scaled(2.0, x, config=toyish), 2 * x)
        assert toy.counts["built"] == built, beads


def test_every_setting_that_says_it_changes_code_is_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    size = Setting("bead_size", int, 1, True, "how large the beads are")
    colour = Setting("bead_colour", str, "red", False, "how the beads look")
    monkeypatch.setattr(config, "SETTINGS", (*config.SETTINGS, size, colour))
    monkeypatch.setattr(config, "_ENCODED", {**config._ENCODED, **{setting.name: setting.variable.encode() for setting in (size, colour)}})
    x, toyish = data(), RunConfig(platform="toy")
    scaled.cache_clear(disk=True)
    for variable, text, built in (("", "", 1), (size.variable, "2", 2), (colour.variable, "blue", 2), (size.variable, "1", 2)):
        if variable:
            monkeypatch.setenv(variable, text)
        scaled(2.0, x, x.copy(), config=toyish)
        assert toy.counts["built"] == built
    monkeypatch.setenv(size.variable, "3")
    assert "bead_size" in str(scaled.explain(2.0, x, x.copy(), config=toyish))


def test_target_and_device_are_part_of_the_key() -> None:
    keys = [disk.Key({}, platform, device) for platform, device in (("toy", "wood:0"), ("toy", "brass:1"), ("cpu", "cpu"))]
    assert len({key.digest for key in keys}) == 3
    assert [key.fields["target"] for key in keys[:2]] == ["abacus on wood:0", "abacus on brass:1"]
    assert "llvmlite" in keys[2].fields and "llvmlite" not in keys[0].fields


def test_settings_of_other_targets_are_no_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    x, toyish = data(), RunConfig(platform="toy")
    before = {platform: targets.code_settings(platform) for platform in ("cpu", "cuda", "toy")}
    scaled(3.0, x, x.copy())
    scaled(3.0, x, x.copy(), config=toyish)
    monkeypatch.setenv("TILEJIT_ARCH", "sm_90")
    changed = {platform for platform, old in before.items() if targets.code_settings(platform) != old}
    assert changed == {"cuda", "toy"}, "a target that does not say otherwise depends on all of them"
    assert scaled.explain(3.0, x, x.copy()).hit == "memory"
    assert "arch" in str(scaled.explain(3.0, x, x.copy(), config=RunConfig(platform="toy")))


def test_errors_of_a_run_point_at_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    @pl.jit
    def outside(x: pl.Tensor, out: pl.Out[pl.Tensor], at: pl.Scalar[pl.INDEX]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.load(x, [at, 0], [2, 8]), [0, 0], out)

    with pytest.raises(OutOfBoundsError):
        outside(data(), data(2), 5, config=RunConfig(platform="toy"))


SCRIPT = """
import sys, json
import numpy as np
import tilejit.language as pl
from tests.backends import toy
from tilejit.runtime import RunConfig, targets

targets.register(toy.ROW)

@pl.jit
def tripled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 3.0

x = np.arange(12, dtype=np.float32).reshape(3, 4)
config = RunConfig(platform="toy", fast_math="precise" not in sys.argv)
first = tripled.explain(x, x.copy(), config=config)
out = np.empty_like(x)
tripled(x, out, config=config)
assert (out == 3 * x).all()
print(json.dumps([first.hit or first.reason, tripled.explain(x, x.copy(), config=config).hit, toy.counts["built"]]))
"""


def test_another_process_finds_it_on_disk_and_explains_what_differs(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])}

    def run(*arguments: str) -> list[object]:
        done = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert run() == ["first specialisation of this kernel", "memory", 1]
    assert run() == ["disk", "memory", 0]
    first, _, built = run("precise")
    assert "fast_math" in str(first) and built == 1


def test_its_holes_are_a_column_of_the_support_matrix(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "--json"]) == 0
    found = {row["op"]: row["toy"]["reason"] for row in json.loads(capsys.readouterr().out)}
    assert found["sort32"] == "an abacus does not sort" and found["exp"] is None


def test_what_a_target_lacks_here_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "needy.py").write_text("import bead_driver\n")
    (tmp_path / "broken.py").write_text("import no_such_module_of_ours\n")
    for name in ("needy", "absent", "broken"):
        targets.register(TargetRow(name, (name,), name, libraries=("bead_driver",), extra="beads"))
    with pytest.raises(PlatformError, match="platform `needy` needs bead_driver, which is not installed") as caught:
        targets.compiler_of("needy")
    assert caught.value.hint == "pip install 'tilejit[beads]'"
    with pytest.raises(PlatformError, match="platform `absent` cannot run kernels in this version"):
        targets.compiler_of("absent")
    with pytest.raises(ModuleNotFoundError, match="no_such_module_of_ours"):
        targets.compiler_of("broken")


# where tensors are ----------------------------------------------------------------------------------------------------------


def on(device: str, shape: tuple[int, ...] = (6, 8)) -> DeviceTensor:
    """A tensor nobody may read."""
    return DeviceTensor(64, shape, pl.FP32, device)


def test_the_device_of_the_tensors_chooses_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PLATFORM", "reference")
    assert targets.place_of(None, 0, ()) == ("reference", "cpu")
    assert targets.place_of(None, 0, ("cuda:1",)) == ("cuda", "cuda:1")
    assert targets.place_of("cuda", 2, ()) == ("cuda", "cuda:2")
    assert targets.place_of("cpu", 2, ("cuda:1",)) == ("cpu", "cpu")


def test_a_device_that_no_target_takes_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(PlatformError, match="a tensor is on moon:0, and no target takes tensors there") as caught:
        scaled(2.0, on("moon:0"), on("moon:0"))
    assert "move" in (caught.value.hint or "")


def test_tensors_elsewhere_are_refused_by_a_platform_that_was_named() -> None:
    with pytest.raises(ArgumentError, match="`x` is on cuda:0, but scaled was compiled to run on cpu"):
        scaled(2.0, on("cuda:0"), on("cuda:0"), config=RunConfig(platform="cpu"))
