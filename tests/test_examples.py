"""The examples are right on every platform and in both frameworks, short, and run as scripts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tilejit.tools.demo import TOLERANCE, Example, cases, load_example

FOLDER = Path(__file__).parents[1] / "examples"
PATHS = sorted(FOLDER.glob("*.py"))
VECTOR = 8
"""Floats in the narrowest vector that the CPU backend uses for float32."""


@pytest.fixture(params=PATHS, ids=lambda path: path.stem)
def example(request: pytest.FixtureRequest) -> Example:
    return load_example(request.param)


def test_an_example_agrees_with_numpy(example: Example, platform: str) -> None:
    for case in cases(example, seed=7):
        case.call()
        assert case.error() <= TOLERANCE, case.shapes


def test_an_example_has_two_shapes_and_one_is_no_multiple_of_a_vector(example: Example) -> None:
    shapes = [case.out.shape for case in cases(example)]
    assert len({case.shapes for case in cases(example)}) >= 2
    assert any(shape[-1] % VECTOR for shape in shapes)


@pytest.mark.torch
def test_an_example_takes_torch_tensors(example: Example) -> None:
    import torch

    case = list(cases(example, seed=3))[-1]
    tensors = [torch.from_numpy(arg) if isinstance(arg, np.ndarray) else arg for arg in case.args]
    out = torch.from_numpy(case.out)
    example.kernel(*tensors, out)
    assert case.error() <= TOLERANCE


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_an_example_is_short_and_says_ok(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 60
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "OK\n"), done.stderr
