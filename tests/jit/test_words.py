"""Memory words that are compared in place of asking: where they are taken from anything odd, a change is noticed as elsewhere."""

from __future__ import annotations

import types
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


def parsed(name: str) -> str:
    """A text as a parser makes it: the only one of its kind that is this very object."""
    return "".join(list(name))


def test_a_name_that_lies_where_another_lay(make_kernel: MakeKernel) -> None:
    settings = types.SimpleNamespace()
    names, first, second = vars(settings), 1.5, 2.5
    names[parsed("alpha")] = first
    names[parsed("gamma")] = second
    kernel = make_kernel(KERNEL + "x + settings.alpha\n", settings=settings)
    assert warm(kernel) == first
    place = id(next(iter(names)))
    names.popitem()
    names.popitem()
    made: list[str] = []
    while len(made) < 10_000 and (not made or id(made[-1]) != place):
        made.append(parsed("gamma"))
    names[made[-1]] = first
    names[parsed("alpha")] = second
    assert warm(kernel) == second
