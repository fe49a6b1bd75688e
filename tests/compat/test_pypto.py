"""Scripts written for `pypto` run unchanged: their imports mean ours, and what only the vendor has says so when it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = '''
import numpy as np
import pypto
import pypto.language as pl
from pypto import DataType, backend, ir
from pypto.backend import BackendType
from pypto.ir.pass_manager import OptimizationStrategy
from pypto.pypto_core import DataType as CoreType
from pypto.pypto_core import ir as core
from pypto.runtime import RunConfig, TensorSpec
from pypto.tools.profiler import Timeline

M = pl.dynamic("M")


@pl.jit
def scale(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(x, 2.0)


@pl.program
class Add:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, a: pl.Tensor[[M, 16], pl.FP32], o: pl.Out[pl.Tensor[[M, 16], pl.FP32]]) -> pl.Tensor[[M, 16], pl.FP32]:
        for i in pl.range(pl.tensor.dim(a, 0)):
            o = pl.store(pl.add(pl.load(a, [i, 0], [1, 16]), 1.0), [i, 0], o)
        return o

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[M, 16], pl.FP32], o: pl.Out[pl.Tensor[[M, 16], pl.FP32]]) -> pl.Tensor[[M, 16], pl.FP32]:
        return self.kernel(a, o)


if __name__ == "__main__":
    backend.set_backend_type(BackendType.Ascend910B)
    assert backend.get_backend_type() is BackendType.Ascend910B and pypto.ir is ir
    x = np.random.default_rng(0).standard_normal((5, 16)).astype(np.float32)
    for platform in ("reference", "a2a3sim"):
        np.testing.assert_array_equal(scale(x, config=RunConfig(platform=platform)), x * np.float32(2))
        compiled = ir.compile(Add, platform=platform, strategy=OptimizationStrategy.Default, backend_type=BackendType.Ascend910B)
        np.testing.assert_array_equal(compiled(x), x + np.float32(1))
    assert DataType.FP32 is CoreType.FP32 is pl.FP32 and core.compile is ir.compile and ir.OptimizationStrategy is OptimizationStrategy
    assert "not part of tilejit" in repr(TensorSpec)
    for use in (lambda: TensorSpec("x", [4]), lambda: Timeline.start, lambda: pypto.set_verify_options[0]):
        try:
            use()
        except ValueError as error:
            print(type(error).__module__, error.args[0].splitlines()[0])
        else:
            raise AssertionError("used without a word")
'''
SAID = [
    "tilejit.errors `pypto.runtime.TensorSpec` belongs to the vendor's tools and has no meaning in tilejit",
    "tilejit.errors `pypto.tools.profiler.Timeline` belongs to the vendor's tools and has no meaning in tilejit",
    "tilejit.errors `pypto.set_verify_options` belongs to the vendor's tools and has no meaning in tilejit",
]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)


def test_a_script_runs_unchanged_under_the_command(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = run("-m", "tilejit", "run", "--pypto", str(script))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == SAID


def test_one_import_in_the_first_line_does_it(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import tilejit.compat.pypto" + SCRIPT)
    done = run(str(script))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == SAID


def test_a_script_sees_its_own_arguments_and_its_exit_status_is_kept(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys\nimport pypto.language as pl\nprint(sys.argv[1:], __name__)\nsys.exit(3)\n")
    done = run("-m", "tilejit", "run", "--pypto", str(script), "one", "--two")
    assert (done.returncode, done.stdout) == (3, "['one', '--two'] __main__\n"), done.stderr


@pytest.mark.parametrize("text", ["import pypto", "import pypto.language as pl"])
def test_without_it_nothing_is_called_pypto(text: str) -> None:
    assert "ModuleNotFoundError" in run("-c", f"import tilejit\n{text}").stderr
