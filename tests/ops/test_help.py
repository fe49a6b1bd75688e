"""`help(pl.row_max)` says what an op takes and gives, and its example runs; the stub says the same."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import numpy as np
import pytest

from tests.ops.test_composed import kernel_of
from tilejit import ops
from tilejit.ops.help import example, example_dtype, help_text
from tilejit.runtime import RunConfig

FUNCTIONS = {name: found for name in ops.public_names("pl") if (found := ops.public("pl", name)) is not None}
EXAMPLES = {(name, row.name): (text, row) for name, found in FUNCTIONS.items() for spelling, row in found.rows if (text := example(spelling, row)) is not None}


def test_help_has_signature_meaning_dtypes_shapes_and_example() -> None:
    text = inspect.getdoc(FUNCTIONS["row_max"]) or ""
    assert text.startswith("pl.row_max(input, tmp_tile=None)")
    assert "The largest element of each row." in text and "takes: tensors and tiles of numbers and BOOL" in text
    assert "[…, M, N] gives […, M, 1]" in text and "example: out[:] = pl.row_max(x)" in text


def test_most_ops_have_an_example() -> None:
    assert len(EXAMPLES) >= 95


@pytest.mark.parametrize("name", sorted(EXAMPLES), ids="-".join)
def test_the_example_runs(name: tuple[str, str]) -> None:
    text, row = EXAMPLES[name]
    lines = ["import tilejit.language as pl", "@pl.jit", "def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):", f"    out[:] = {text}"]
    kernel = kernel_of("\n".join(lines) + "\n", f"<example of {name}>")
    x = np.random.default_rng(0).uniform(1, 5, (4, 8)).astype(example_dtype(row).numpy)
    out = kernel(x, config=RunConfig(platform="reference"))
    assert out.size and np.isfinite(out.astype(np.complex128)).all()


def test_the_stub_says_the_same() -> None:
    stub = Path(str(importlib.import_module("tilejit.language").__file__)).with_suffix(".pyi").read_text(encoding="utf-8")
    for name, found in FUNCTIONS.items():
        for line in help_text(*found.rows[0]).splitlines():
            assert line.replace("\\", "\\\\") in stub, name
