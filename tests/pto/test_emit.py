"""Tile kernels leave as PTO text that our own reader accepts and runs to the same numbers."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import ir
from tilejit.errors import UnsupportedFeatureError
from tilejit.runtime.config import RunConfig

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
    with pytest.raises(UnsupportedFeatureError, match="a cast with mode 'floor'"):
        floored.compile(floats(16, 64), floats(16, 64, dtype=np.float16), config=RunConfig(platform="a2a3"))


def test_the_texts_are_written_with_the_artifact(tmp_path: Path) -> None:
    program = chain.lower(floats(64, 30), floats(64, 30), floats(64, 30))
    ir.compile(program, tmp_path / "out", platform="a5")
    (file,) = (tmp_path / "out" / "kernels").glob("*.pto")
    assert 'module attributes {pto.target_arch = "a5"}' in file.read_text()


@pl.jit
def whole(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x**x


def test_what_has_no_pto_form_is_refused_with_its_line() -> None:
    x = floats(64, 30)
    with pytest.raises(UnsupportedFeatureError, match=r"`pow` has no PTO form") as caught:
        whole.compile(x, x.copy(), config=RunConfig(platform="a2a3"))
    assert caught.value.span is not None and "x**x" in caught.value.source_lines[0]


EXAMPLES = Path(__file__).parents[2] / "examples"
EMITTED = [
    "chunked_add", "geglu", "gelu", "hello_add", "layernorm", "linear_bias_relu", "matmul", "scalar_operands", "silu", "softmax", "swiglu", "vector_dag",
]  # fmt: skip


@pytest.mark.parametrize("name", EMITTED)
def test_examples_run_from_their_pto_text(name: str) -> None:
    """The last inputs of an example are its odd small ones."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    *_, arguments = module.inputs(np.random.default_rng(1))
    wanted = module.reference(*arguments)
    got = np.full_like(wanted, np.nan)
    getattr(module, name)(*arguments, got, config=RunConfig(platform="a2a3"))
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("platform", ARCHITECTURES)
def test_values_larger_than_the_local_memory_are_computed_in_blocks(platform: str) -> None:
    compare(softmax_of_tensors, platform, floats(512, 512), floats(512, 512))


@pl.jit
def softmax_of_tensors(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(pl.row_expand_sub(x, pl.row_max(x)))
        out[:] = pl.row_expand_div(e, pl.row_sum(e))
