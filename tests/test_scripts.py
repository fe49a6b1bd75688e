"""Names in any script work everywhere: kernels, helpers, parameters, locals, extents, text forms, artifacts, files, messages."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from xdsl.ir import Block

import tilejit.language as pl
from tilejit import CompiledProgram, RunConfig, ir
from tilejit.dtypes import INDEX
from tilejit.errors import OutOfBoundsError, ShapeError
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.names import name_of, name_value, plain, spelled
from tilejit.types.values import ScalarType

SOURCE = '''
import tilejit.language as pl

β = 3.0
Ν = pl.dynamic("Ν")


@pl.jit.inline
def 助手(λ: pl.Tensor):
    return λ * β


@pl.jit.incore
def ядро(é: pl.Tensor, 出力: pl.Out[pl.Tensor]):
    出力[:] = 助手(é) + 1.0
    return 出力


@pl.jit
def 核(x: pl.Tensor, ω: pl.FP32, 出力: pl.Out[pl.Tensor]):
    行, 列 = x.shape
    中 = pl.create_tensor([行, 列], dtype=pl.FP32)
    中 = ядро(x, 中)
    with pl.at(level=pl.Level.CORE_GROUP):
        ﬁ = pl.load(中, [0, 0], [4, 8])
        for ι in pl.range(3):
            ﬁ = ﬁ * ω
        pl.store(ﬁ, [0, 0], 出力)
    return 出力


@pl.program
class Программа:
    @pl.function(type=pl.FunctionType.InCore)
    def κ(self, x: pl.Tensor[[Ν, 8], pl.FP32], ω: pl.Scalar[pl.FP32], 出: pl.Out[pl.Tensor[[Ν, 8], pl.FP32]]):
        т = pl.load(x, [0, 0], [4, 8])
        ᵃ_ = т * ω
        pl.store(ᵃ_, [0, 0], 出)
        return 出

    @pl.function(type=pl.FunctionType.Orchestration)
    def 主(self, x: pl.Tensor[[Ν, 8], pl.FP32], ω: pl.Scalar[pl.FP32], 出: pl.Out[pl.Tensor[[Ν, 8], pl.FP32]]):
        出 = self.κ(x, ω, 出)
        return 出


@pl.jit
def 越界(出力: pl.Tensor, ñ: pl.Scalar[pl.INT64], out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        变量 = 1; ü = pl.load(出力, [ñ, 0], [4, 8])
        pl.store(ü, [0, 0], out)
    return out
'''
X = np.random.default_rng(7).standard_normal((4, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    path = tmp_path_factory.mktemp("файлы") / "模块λ.py"
    path.write_text(SOURCE, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("模块λ", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["模块λ"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("platform", ["reference", "cpu"])
def test_kernels_with_names_in_any_script_run(kernels: ModuleType, platform: str) -> None:
    out = np.zeros_like(X)
    config = RunConfig(platform=platform)
    for _ in range(4):
        out[:] = 0
        kernels.核(X, 2.0, out, config=config)
        np.testing.assert_allclose(out, (X * 3 + 1) * 8, rtol=1e-5)
    np.testing.assert_allclose(kernels.核(x=X, ω=2.0, config=config), (X * 3 + 1) * 8, rtol=1e-5)


def test_printed_python_keeps_the_names_and_parses_back(kernels: ModuleType) -> None:
    source = kernels.核.specialized_source(X, 2.0, X.copy())
    for name in ("核", "ядро", "助手", "出力", "中", "ι", "λ"):
        assert name in source
    assert ir.structural_equal(pl.parse(source), pl.parse(pl.parse(source).as_python()))
    lowered = kernels.核.lower(X, 2.0, X.copy())
    ir.assert_structural_equal(pl.parse(lowered.as_python()), lowered)
    text = kernels.Программа.as_python()
    for name in ("Программа", "κ", "主", "ω", "出", "т", "Ν"):
        assert name in text
    ir.assert_structural_equal(pl.parse(text), kernels.Программа)


@pytest.mark.parametrize("platform", ["cpu", "reference", "a2a3", "a5"])
def test_artifacts_have_files_of_these_names_and_run(kernels: ModuleType, platform: str, tmp_path: Path) -> None:
    compiled = ir.compile(kernels.Программа, platform=platform, output_dir=str(tmp_path / "出力"))
    files = sorted(path.relative_to(compiled.output_dir).as_posix() for path in Path(compiled.output_dir).rglob("*"))
    assert all(compiled.stage(name) for name in compiled.stages())
    if platform in ("a2a3", "a5"):
        assert "kernels/κ.pto" in files and "func.func @u3ba(" in (tmp_path / "出力" / "kernels" / "κ.pto").read_text(encoding="utf-8")
        return
    out = np.zeros_like(X)
    compiled(X, out, 2.0)
    np.testing.assert_array_equal(out, X * 2)
    if platform == "cpu":
        assert {"kernels/κ.ll", "kernels/κ.opt.ll", "kernels/主.s"} <= set(files)
        assert "define internal i64 @k_U$3ba.(" in compiled.stage("κ.ll")
        out[:] = 0
        CompiledProgram.from_dir(tmp_path / "出力")(X, out, 2.0)
        np.testing.assert_array_equal(out, X * 2)


def test_pto_text_of_such_a_kernel_runs_to_the_same_numbers(kernels: ModuleType) -> None:
    out = np.zeros_like(X)
    kernels.核(X, 2.0, out, config=RunConfig(platform="a2a3"))
    np.testing.assert_allclose(out, (X * 3 + 1) * 8, rtol=1e-5)


def test_another_process_finds_the_kernel_on_disk_and_the_tools_name_it(kernels: ModuleType, tmp_path: Path) -> None:
    code = "import 模块λ, numpy as np, sys; x = np.ones((4, 8), np.float32); print(模块λ.核(x, 2.0)[0, 0]); print('llvmlite' in sys.modules)"
    folder = str(Path(str(kernels.__file__)).parent)
    python = os.pathsep.join([folder, *sys.path])
    environment = {**os.environ, "PYTHONPATH": python, "TILEJIT_CACHE_DIR": str(tmp_path / "склад"), "PYTHONUTF8": "1"}
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True, env=environment).stdout for _ in range(2)]
    assert runs == ["32.0\nTrue\n", "32.0\nFalse\n"]
    listed = subprocess.run([sys.executable, "-m", "tilejit", "cache", "ls"], capture_output=True, encoding="utf-8", check=True, env=environment).stdout
    assert "模块λ.核" in listed


def test_messages_name_them_and_carets_stand_where_a_terminal_shows_them(kernels: ModuleType) -> None:
    with pytest.raises(OutOfBoundsError) as caught:
        kernels.越界(X, 3, X.copy())
    lines = str(caught.value).splitlines()
    shown = next(number for number, line in enumerate(lines) if "变量" in line)
    assert "where: 出力: Tensor[[4, 8], FP32]" in str(caught.value)
    # 变量 takes four columns of a terminal, 出力 behind the caret two more than letters.
    assert lines[shown + 1].index("^") == lines[shown].index("pl.load") + 2
    assert lines[shown + 1].count("^") == len("pl.load(出力, [ñ, 0], [4, 8])") + 2
    with pytest.raises(ShapeError, match="Ν"):
        ir.compile(kernels.Программа)(X, np.zeros((5, 8), np.float32), 1.0)


def test_names_are_spelled_in_ascii_and_read_back() -> None:
    value = Block(arg_types=[d.IRType(ScalarType(INDEX))]).args[0]
    for name in ("λ", "出力", "a_é9", "plain", "𝒳x", "_"):
        assert spelled(name).isascii() and plain(name).isascii()
        name_value(value, name)
        assert name_of(value) == name
    assert len({spelled(name) for name in ("λ", "μ", "U3bb", "u3bb", "出力", "力出")}) == 6
