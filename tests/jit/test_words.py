"""Memory words that are compared in place of asking: where they are taken from anything odd, a change is noticed as elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel

pytestmark = [pytest.mark.dispatch, pytest.mark.parametrize("native", ["1", "0"])]
X = np.zeros((2, 4), np.float32)
KERNEL = "@pl.jit(on_drift='recompile')\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    with pl.at(level=pl.Level.CORE_GROUP):\n        out[:] = "


@pytest.fixture(autouse=True)
def dispatch(native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", native)
    monkeypatch.setenv("TILEJIT_PLATFORM", "cpu")


def warm(kernel: Any) -> float:
    """What calls give of which the last are warm."""
    found = {float(kernel(X)[0, 0]) for _ in range(4)}
    assert len(found) == 1
    return found.pop()


def test_builtins_of_which_there_are_few(make_kernel: MakeKernel) -> None:
    names: dict[str, Any] = {"__builtins__": {"float": float}}
    exec("def three():\n    return float(3)", names)
    kernel = make_kernel(KERNEL + "x + three()\n", three=names["three"])
    assert warm(kernel) == 3.0
    names["__builtins__"]["float"] = lambda number: number + 1.0
    assert warm(kernel) == 4.0
    names["float"] = lambda number: number + 2.0
    assert warm(kernel) == 5.0
