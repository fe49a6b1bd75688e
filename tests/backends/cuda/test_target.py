"""The target as users meet it, without a GPU: kernels compile for named architectures, artifacts and the disk cache hold what launches them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilejit.language as pl
from tests.runtime.cuda.fake import FakeLibrary, install
from tilejit import ir, ops
from tilejit.backends.cuda.rules import hole
from tilejit.errors import ArtifactError, OptionError, PlatformError
from tilejit.runtime import CompiledProgram, DeviceArray, RunConfig
from tilejit.runtime.cuda import devices
from tilejit.runtime.cuda import driver as api
from tilejit.tools.demo import cases, load_example

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    """A driver that only keeps a record."""
    return install(monkeypatch, FakeLibrary())


@pl.jit
def scale(x: pl.Tensor, by: pl.FP32, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * by


def arrays() -> tuple[DeviceArray, float, DeviceArray]:
    return DeviceArray.of(np.ones((8, 64), np.float32)), 2.5, DeviceArray.of(np.zeros((8, 64), np.float32))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_compiles_for_two_generations(path: Path) -> None:
    example = load_example(path)
    case = next(cases(example))
    compiled = example.kernel.compile(*case.args, case.out, config=RunConfig(platform="cuda", arch="sm_80,sm_90"))  # type: ignore[call-arg]
    assert isinstance(compiled, CompiledProgram)
    found = {name: fetch() for name, fetch in compiled.artifact.sections.items()}
    assert {name.split(".")[1] for name in found} == {"sm_80", "sm_90"}
    assert all(code.startswith(b"\x7fELF") for code in found.values())
    assert compiled.platform == "cuda"


def test_without_a_gpu_the_architecture_must_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise PlatformError("there is no NVIDIA driver here", help="run elsewhere")

    monkeypatch.setattr(api, "driver", none)
    monkeypatch.setattr(devices, "_devices", {})
    x = np.ones((8, 64), np.float32)
    with pytest.raises(PlatformError, match=r"(?s)there is no NVIDIA driver here.*arch='sm_90', or TILEJIT_ARCH=sm_90"):
        scale.compile(x, 2.0, x, config=RunConfig(platform="cuda"))
    with pytest.raises(PlatformError, match=r"8\.0 or newer, got 7\.5"):
        scale.compile(x, 2.0, x, config=RunConfig(platform="cuda", arch="sm_75"))
    with pytest.raises(OptionError, match="arch='hopper': expected GPU architectures"):
        RunConfig(arch="hopper")


def test_a_call_compiles_for_the_gpu_that_is_there_and_launches(gpu: FakeLibrary) -> None:
    scale.cache_clear()
    given = arrays()
    for _ in range(3):
        scale(*given)
    assert len(gpu.launches) == 3 and len(gpu.modules) == 1
    assert all(module.startswith(b"\x7fELF") for module in gpu.modules)


def test_an_artifact_runs_where_it_was_not_made(gpu: FakeLibrary, tmp_path: Path) -> None:
    x = np.ones((8, 64), np.float32)
    made = scale.compile(x, 2.0, x, config=RunConfig(platform="cuda", arch="sm_80,sm_90"))
    folder = str(tmp_path / "scale")
    ir.compile(made.program, folder, platform="cuda", arch="sm_80,sm_90")  # type: ignore[arg-type]
    a, _, out = arrays()
    CompiledProgram.from_dir(folder)(a, out)
    assert len(gpu.launches) == 1
    gpu.capability, devices._devices = 86, {}
    CompiledProgram.from_dir(folder)(a, out)  # code for 8.0 runs on 8.6
    gpu.capability, devices._devices = 100, {}
    with pytest.raises(ArtifactError, match="was compiled for sm_80, sm_90, Fake GPU is sm_100"):
        CompiledProgram.from_dir(folder)(a, out)


SECOND = """
import sys
sys.path.insert(0, {root!r})
from tests.runtime.cuda.fake import FakeLibrary
from tilejit.runtime.cuda import driver as api
started = api.started(FakeLibrary())
api.driver = lambda: started
import numpy as np
import tilejit.language as pl
from tilejit.runtime.cuda.arrays import DeviceArray

@pl.jit
def scale(x: pl.Tensor, by: pl.FP32, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * by

x, out = (DeviceArray.of(np.ones((8, 64), np.float32)) for _ in range(2))
scale(x, 2.0, out)
print([name for name in ("xdsl", "triton", "llvmlite") if name in sys.modules], scale.cache_info().loaded)
"""


def test_a_second_process_finds_the_cubin_and_loads_neither_compiler(tmp_path: Path) -> None:
    script = tmp_path / "second.py"
    script.write_text(SECOND.format(root=str(ROOT)))
    environment = {**os.environ, "TILEJIT_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    said = [subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False) for _ in range(2)]
    assert said[0].stdout == "['xdsl', 'triton'] 0\n", said[0].stderr
    assert said[1].stdout == "[] 1\n", said[1].stderr


def test_every_row_runs_but_those_about_other_ranks() -> None:
    missing = [row for row in ops.table().values() if hole(row) is not None]
    assert all(spelling.namespace.startswith("pld") for row in missing for spelling in row.spellings)
    assert not any("yet" in str(hole(row)) and "ranks" not in str(hole(row)) for row in missing)
