"""Tile kernels leave as PTO text that our own reader accepts and runs to the same numbers."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import ir, pto
from tilejit.errors import OutOfBoundsError, PlatformError, PtoVerifyError, UnsupportedFeatureError
from tilejit.frontend.pto.text import parse_pto
from tilejit.runtime.artifact.compiled import CompiledProgram
from tilejit.runtime.config import RunConfig
from tilejit.tools.cli import main

RNG = np.random.default_rng(5)
ARCHITECTURES = ["a2a3", "a5"]


def floats(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def compare(kernel: Any, platform: str, *arguments: np.ndarray, tolerance: float = 1e-5) -> dict[str, str]:
    """Run on the CPU and through PTO text; the texts of the kernels."""
    outputs = [arguments[-1].copy(), arguments[-1].copy()]
    kernel(*arguments[:-1], outputs[0])
    compiled = kernel.compile(*arguments[:-1], outputs[1], config=RunConfig(platform=platform))
    compiled(*arguments[:-1], outputs[1])
    assert not np.array_equal(outputs[0], arguments[-1])
    np.testing.assert_allclose(outputs[1].astype(np.float64), outputs[0].astype(np.float64), rtol=tolerance, atol=tolerance)
    return {stage.name: stage.text() for stage in compiled.kernel_stages()}


@pl.jit
def chain(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(0, 64, 16):
            a = pl.load(x, [i, 0], [16, 30])
            b = pl.load(y, [i, 0], [16, 30])
            c = pl.div(pl.exp(pl.mul(pl.add(a, b), 0.5)), 3.0)
            d = pl.sub(pl.maximum(c, b), pl.minimum(a, 0.25))
            pl.store(pl.add(pl.sqrt(pl.abs(d)), pl.neg(a)), [i, 0], out)


@pytest.mark.parametrize("platform", ARCHITECTURES)
def test_elementwise_with_ragged_rows(platform: str) -> None:
    (text,) = compare(chain, platform, floats(64, 30), floats(64, 30), floats(64, 30)).values()
    assert "cols=32, v_row=16, v_col=30" in text and "scf.for" in text and "!pto.ptr<f32>" in text


@pl.jit
def softmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(4):
        t = pl.load(x, [i * 16, 0], [16, 48])
        tmp = pl.create_tile([16, 48], pl.FP32)
        e = pl.exp(pl.row_expand_sub(t, pl.row_max(t, tmp)))
        pl.store(pl.row_expand_div(e, pl.row_sum(e, tmp)), [i * 16, 0], out)


@pytest.mark.parametrize("platform", ARCHITECTURES)
def test_reductions_over_a_grid(platform: str) -> None:
    (text,) = compare(softmax, platform, floats(64, 48), floats(64, 48)).values()
    assert "pto.get_block_idx" in text and "blayout=col_major" in text and "pto.trowmax ins(%" in text


@pl.jit
def product(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        left = pl.load(a, [0, 0], [32, 64])
        right = pl.load(b, [0, 0], [64, 48])
        pl.store(pl.exp(pl.matmul(left, right)), [0, 0], out)


@pytest.mark.parametrize(("platform", "layout"), [("a2a3", "row_major"), ("a5", "col_major")])
def test_products_pass_through_the_memories_of_the_cube(platform: str, layout: str) -> None:
    a, b = floats(32, 64, dtype=np.float16) / np.float16(8), floats(64, 48, dtype=np.float16)
    (text,) = compare(product, platform, a, b, floats(32, 48), tolerance=1e-3).values()
    assert f"loc=left, dtype=f16, rows=32, cols=64, v_row=32, v_col=64, blayout={layout}, slayout=row_major" in text
    assert "loc=acc" in text and "pto.tmatmul" in text


@pl.jit
def running(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = pl.load(x, [0, 0], [8, 32])
        last = pl.load(x, [0, 0], [8, 32])
        for i in pl.range(8, 64, 8):
            t = pl.load(x, [i, 0], [8, 32])
            if i == 24:
                t = pl.mul(t, 2.0)
            total = pl.add(total, pl.mul(last, t))
            last = t
        pl.store(total, [0, 0], out)


@pytest.mark.parametrize("platform", ARCHITECTURES)
def test_values_carried_by_loops_and_branches(platform: str) -> None:
    compare(running, platform, floats(64, 32), floats(8, 32))


@pl.jit
def halves(x: pl.Tensor, g: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 64])
        w = pl.load(g, [0, 0], [1, 64])
        pl.store(pl.cast(pl.col_expand_mul(t, w), pl.FP16, mode="rint"), [0, 0], out)


def test_column_operands_and_conversion() -> None:
    (text,) = compare(halves, "a2a3", floats(16, 64), floats(1, 64), floats(16, 64, dtype=np.float16), tolerance=1e-3).values()
    assert "#pto<round_mode RINT>" in text


@pl.jit
def floored(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.cast(pl.load(x, [0, 0], [16, 64]), pl.FP16, mode="floor"), [0, 0], out)


@pl.jit
def whole_numbers(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.cast(pl.load(x, [0, 0], [16, 64]), pl.INT32, mode="none"), [0, 0], out)


def test_rounding_modes_keep_their_meaning_or_are_refused() -> None:
    compare(whole_numbers, "a2a3", floats(16, 64) * 9, np.full((16, 64), 77, np.int32), tolerance=0)
    with pytest.raises(UnsupportedFeatureError, match="a cast from FP32 to FP16 with mode 'floor'"):
        floored.compile(floats(16, 64), floats(16, 64, dtype=np.float16), config=RunConfig(platform="a2a3"))


def test_the_texts_are_written_with_the_artifact(tmp_path: Path) -> None:
    program = chain.lower(floats(64, 30), floats(64, 30), floats(64, 30))
    ir.compile(program, tmp_path / "out", platform="a5")
    (file,) = (tmp_path / "out" / "kernels").glob("*.pto")
    assert 'module attributes {pto.target_arch = "a5"}' in file.read_text()


@pl.jit
def whole(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.pow(x, x)


def test_what_has_no_pto_form_is_refused_with_its_line() -> None:
    x = floats(64, 30)
    with pytest.raises(UnsupportedFeatureError, match=r"`pow` has no PTO form") as caught:
        whole.compile(x, x.copy(), config=RunConfig(platform="a2a3"))
    assert caught.value.span is not None and "pl.pow(x, x)" in caught.value.source_lines[0]


EXAMPLES = Path(__file__).parents[4] / "examples"


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("platform", ARCHITECTURES)
@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_every_example_runs_from_its_pto_text_like_on_the_cpu(name: str, platform: str) -> None:
    """The last two inputs of an example: the odd small ones, or a large and a small one."""
    module = example(name)
    for arguments in list(module.inputs(np.random.default_rng(1)))[-2:]:
        formula = module.reference(*arguments)
        native, written = np.full_like(formula, np.nan), np.full_like(formula, np.nan)
        getattr(module, name)(*arguments, native)
        getattr(module, name)(*arguments, written, config=RunConfig(platform=platform))
        np.testing.assert_allclose(written, native, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(written, formula, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("platform", ARCHITECTURES)
def test_values_larger_than_the_local_memory_are_computed_in_blocks(platform: str) -> None:
    compare(softmax_of_tensors, platform, floats(512, 512), floats(512, 512))


@pl.jit
def softmax_of_tensors(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(pl.row_expand_sub(x, pl.row_max(x)))
        out[:] = pl.row_expand_div(e, pl.row_sum(e))


@pl.jit
def overlapping(x: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = x * 2.0
        x[1:, :] = x[:-1, :]
        x[0:1, :] = y[5:6, :]


@pytest.mark.parametrize("platform", ARCHITECTURES)
def test_what_is_computed_in_blocks_sees_the_memory_as_it_was(platform: str) -> None:
    x = floats(600, 300)
    expected = np.concatenate([2 * x[5:6], x[:-1]])
    overlapping(x, config=RunConfig(platform=platform))
    np.testing.assert_array_equal(x, expected)


ROWS = pl.dynamic("ROWS")


@pl.jit
def normalised_product(x: pl.Tensor[[ROWS, 70], pl.FP32], w: pl.Tensor[[70, 300], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, 300], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = pl.matmul(x, w)
        out[:] = pl.row_expand_sub(y, pl.row_max(y))


@pytest.mark.parametrize("platform", ARCHITECTURES)
def test_extents_follow_the_tensors_and_the_workspace_follows_the_extents(platform: str) -> None:
    x, w = floats(45, 70), floats(70, 300)
    program = normalised_product.lower(x, w, floats(45, 300))
    compiled = ir.compile(program, platform=platform)
    (kernel,) = compiled.kernel_stages()
    assert "%out: !pto.ptr<f32>, %ROWS: index, %y_gm: !pto.ptr<f32>)" in kernel.text()
    assert "// workspace y_gm: [ROWS, 300] f32 for each block" in kernel.text()
    for rows in (45, 1, 200):
        x, out = floats(rows, 70), floats(rows, 300)
        compiled(x, w, out)
        y = x @ w
        np.testing.assert_allclose(out, y - y.max(1, keepdims=True), rtol=1e-4, atol=1e-4)


@pl.jit
def too_much_at_once(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [64, 512])
        s, i = pl.load(x, [0, 0], [64, 512]), pl.load(x, [64, 0], [64, 512])
        pl.store(pl.add(pl.exp(t), pl.mul(pl.exp(s), pl.exp(i))), [0, 0], out)


@pytest.mark.parametrize("platform", ARCHITECTURES)
def test_tiles_that_do_not_fit_together_are_split(platform: str) -> None:
    (text,) = compare(too_much_at_once, platform, floats(128, 512), floats(64, 512)).values()
    assert "rows=64, cols=512" not in text and "scf.for" in text


def test_the_text_has_the_names_and_lines_of_the_kernel() -> None:
    (text,) = compare(softmax, "a2a3", floats(64, 48), floats(64, 48)).values()
    assert "// test_emit.py:" in text and ": e = pl.exp(pl.row_expand_sub(t, pl.row_max(t, tmp)))" in text
    assert "%t = pto.alloc_tile" in text and "%e = pto.alloc_tile" in text


def test_a_whole_program_runs_from_its_directory_of_texts(tmp_path: Path) -> None:
    x = floats(17, 23)
    ir.compile(two_steps.lower(x, x.copy()), tmp_path / "out", platform="a5")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["abi", "kernels", "meta.json", "orchestration.py", "program.py"]
    out = np.empty_like(x)
    CompiledProgram.from_dir(tmp_path / "out")(x, out)
    np.testing.assert_allclose(out, np.exp(x * x), rtol=1e-5)


@pl.jit.incore
def squared(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.mul(x, x)
    return out


@pl.jit
def two_steps(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    between = pl.create_tensor([x.shape[0], x.shape[1]], dtype=pl.FP32)
    between = squared(x, between)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.exp(between)
    return out


def compile_softmax(platform: str) -> None:
    ir.compile(softmax.lower(floats(64, 48), floats(64, 48)), platform=platform)


def assembler(folder: Path, script: str) -> Path:
    """A program that says it is ptoas."""
    path = folder / "ptoas"
    path.write_text(f"#!{sys.executable}\nimport sys\nname = sys.argv[1]\ntext = open(name).read().splitlines()\n{script}\n")
    path.chmod(0o755)
    return path


FIND = "line = next(i for i, t in enumerate(text, 1) if 'pto.texp' in t)"


def test_errors_of_ptoas_are_said_about_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assembler(tmp_path, f"{FIND}\nprint(f'{{name}}:{{line}}:5: error: tile is too pretty', file=sys.stderr)\nsys.exit(1)")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(PtoVerifyError, match="ptoas: tile is too pretty") as caught:
        compile_softmax("a2a3")
    assert "pl.exp(pl.row_expand_sub(t" in caught.value.source_lines[0] and "softmax_k0.pto:" in str(caught.value.note)


def test_ptoas_may_warn_and_is_told_the_architecture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = assembler(tmp_path, f"{FIND}\nassert '--pto-arch=a5' in sys.argv and '--more' in sys.argv\nprint(f'{{name}}:{{line}}:1: warning: slow')")
    monkeypatch.setenv("TILEJIT_PTOAS", str(path))
    monkeypatch.setenv("PTOAS_FLAGS", "--more")
    with pytest.warns(UserWarning, match=r"ptoas: softmax_k0.pto:\d+:1 \(from .*test_emit.py:\d+:\d+\): slow"):
        compile_softmax("a5")


def test_a_ptoas_that_fails_without_a_line_or_is_not_there_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PTOAS", str(assembler(tmp_path, "sys.exit('no licence')")))
    with pytest.raises(PtoVerifyError, match=r"ptoas refuses softmax_k0\.pto: no licence"):
        compile_softmax("a5")
    monkeypatch.setenv("TILEJIT_PTOAS", str(tmp_path / "nowhere"))
    with pytest.raises(PlatformError, match="which is no program"):
        compile_softmax("a5")
    monkeypatch.setenv("TILEJIT_PTOAS", "off")
    compile_softmax("a5")


def test_the_command_prints_and_writes_pto_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(EXAMPLES / "rmsnorm.py")
    assert main(["pto", "emit", file, "rmsnorm", "77x250:FP32", "1x250:FP32", "77x250:FP32", "--platform", "a5"]) == 0
    assert "%TOKENS: index" in capsys.readouterr().out
    x, weight = floats(5, 250), floats(1, 250)
    for name, array in (("x", x), ("w", weight), ("out", np.zeros_like(x))):
        np.save(tmp_path / f"{name}.npy", array)
    arguments = [str(tmp_path / f"{name}.npy") for name in ("x", "w", "out")]
    assert main(["pto", "emit", file, "rmsnorm", *arguments, "--out", str(tmp_path / "art")]) == 0
    assert main(["pto", "run", str(tmp_path / "art"), *arguments]) == 0
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), example("rmsnorm").reference(x, weight), rtol=1e-4, atol=1e-5)
    assert main(["pto", "emit", file, "nothing"]) == 1
    assert "it defines rmsnorm" in capsys.readouterr().err


def test_a_written_kernel_is_a_source_like_any_other() -> None:
    x, w = floats(45, 70), floats(70, 300)
    (kernel,) = ir.compile(normalised_product.lower(x, w, floats(45, 300)), platform="a5").kernel_stages()
    file = parse_pto(kernel.text(), "kernel.pto")
    assert parse_pto(file.print(), "again.pto").print() == file.print()

    @pto.jit(source=kernel.text(), target="a5")
    def normalised_product_k0(
        x: pto.ptr(pto.f32, "gm"), w: pto.ptr(pto.f32, "gm"), out: pto.ptr(pto.f32, "gm"), rows: pto.index, scratch: pto.ptr(pto.f32, "gm")
    ): ...

    out, scratch = floats(45, 300), floats(45, 300)
    normalised_product_k0[1, None](x, w, out, 45, scratch)
    y = x @ w
    np.testing.assert_allclose(out, y - y.max(1, keepdims=True), rtol=1e-4, atol=1e-4)


@pl.jit
def row_by_number(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        first = pl.cast(pl.read(n, [0]), pl.INDEX)
        pl.store(pl.load(x, [first, 0], [1, 37]), [0, 0], out)


def test_a_failure_of_the_text_is_told_at_the_python_line() -> None:
    with pytest.raises(OutOfBoundsError, match="wants 1 from 99") as caught:
        row_by_number(floats(8, 37), np.array([99], np.int32), floats(1, 37), config=RunConfig(platform="a2a3"))
    assert "pl.load(x, [first, 0]" in caught.value.source_lines[0] and "row_by_number_k0.pto:" in str(caught.value.note)


@pl.jit
def column_by_number(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        first = pl.cast(pl.read(n, [0]), pl.INDEX)
        pl.store(pl.load(x, [0, first], [4, 16]), [0, 0], out)


@pytest.mark.parametrize("platform", ARCHITECTURES)
def test_a_load_past_the_end_of_a_row_is_an_error_though_there_is_memory(platform: str) -> None:
    with pytest.raises(OutOfBoundsError, match="dim 1 of the view has 37 elements, the slice wants 16 from 30"):
        column_by_number(floats(8, 37), np.array([30], np.int32), floats(4, 16), config=RunConfig(platform=platform))


@pl.jit
def columns(x: pl.Tensor, chosen: pl.Out[pl.Tensor], whole: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        top, bottom = pl.row_max(x), pl.row_min(x)
        chosen[:] = pl.where(pl.tensor.cmp(top, 1.5, cmp_type=4), top, bottom)
        whole[:] = pl.cast(top * 10.0, pl.INT32, mode="floor")


@pytest.mark.parametrize("platform", ARCHITECTURES)
@pytest.mark.parametrize("rows", [13, 300])
def test_columns_are_compared_and_chosen_as_rows(platform: str, rows: int) -> None:
    x, chosen, whole = floats(rows, 37), floats(rows, 1), np.full((rows, 1), 7, np.int32)
    columns(x, chosen, whole, config=RunConfig(platform=platform))
    top = x.max(1, keepdims=True)
    np.testing.assert_array_equal(chosen, np.where(top > 1.5, top, x.min(1, keepdims=True)))
    np.testing.assert_array_equal(whole, np.floor(top * np.float32(10)).astype(np.int32))
