"""The file of a user that type checkers accept runs too, and so do the kernels of the README, which they read from a copy."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from tests.docs.test_fences import ROOT, fences
from tests.typing import user_file
from tilejit.dtypes import DType

COPY = Path(__file__).parent / "readme_page.py"


def test_what_checkers_accept_runs() -> None:
    x = np.random.default_rng(0).standard_normal((4, 8), np.float32)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(user_file.run(x), np.concatenate([2 * e / e.sum(axis=1, keepdims=True), x[:2].sum(axis=0, keepdims=True)]), rtol=1e-4, atol=1e-5)
    assert "does not take a value of shape" in user_file.refused(x)
    assert all(isinstance(kind, DType) for kind in user_file.KINDS)


def test_checkers_read_the_readme_as_it_is() -> None:
    content = [line for _, lines in fences((ROOT / "README.md").read_text(encoding="utf-8"), "python") for line in lines]
    text = "\n".join(['"""The Python of README.md, for type checkers; UPDATE_GOLDEN=1 writes it anew."""', "# ruff: noqa", *content]) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        COPY.write_text(text, encoding="utf-8")
    assert COPY.read_text(encoding="utf-8") == text
