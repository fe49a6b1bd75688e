"""Objects of tilejit's own that can change (errors, programs, settings of a run) are read like those of anybody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit
import tilejit.language as pl
from tests.jit.conftest import MakeKernel
from tilejit.errors import ArgumentError, StaleCaptureError

KERNEL = """
@pl.jit(on_drift={policy!r})
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + float({expression})
"""
X = np.zeros((1, 4), np.float32)


def added(kernel: Any) -> float:
    out = np.empty_like(X)
    kernel(X, out)
    return float(out[0, 0])


@pytest.fixture(params=["1", "0"], ids=["native", "python"])
def made(request: pytest.FixtureRequest, make_kernel: MakeKernel, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A kernel that adds the value of an expression."""
    monkeypatch.setenv("TILEJIT_FASTPATH", request.param)
    return lambda expression, policy="recompile", **names: make_kernel(KERNEL.format(expression=expression, policy=policy), **names)


TEXTS = ["len(f'{ERROR}')", "len(str(ERROR))", "len(f'{ERROR!s:>5}')", "len('%s' % ERROR)", "len(str((ERROR,)[0]))"]


@pytest.mark.dispatch
@pytest.mark.parametrize("expression", TEXTS)
def test_the_text_of_an_error_is_asked(made: Any, expression: str) -> None:
    error = ArgumentError("abc", help="xy")
    kernel = made(expression, ERROR=error)
    for hint in ("xy", "longer text"):
        error.hint = hint
        for _ in range(4):
            assert added(kernel) == len(str(error))
    for hint in ("xy", "another text yet"):
        error.hint = hint
        assert added(made(expression, ERROR=error)) == len(str(error))  # through the tree on disk


METHODS = [("2 if ERROR else 3", "__bool__", 2), ("2 if ERROR == 5 else 3", "__eq__", 3), ("2 if 5 in [ERROR] else 3", "__eq__", 3)]


@pytest.mark.dispatch
@pytest.mark.parametrize(("expression", "method", "before"), METHODS)
def test_a_method_that_errors_are_given_is_noticed(made: Any, monkeypatch: pytest.MonkeyPatch, expression: str, method: str, before: int) -> None:
    kernel, careful = (made(expression, policy, ERROR=ArgumentError("abc")) for policy in ("recompile", "raise"))
    for _ in range(4):
        assert added(kernel) == added(careful) == before
    monkeypatch.setattr(ArgumentError, method, lambda *of: len(of) > 1, raising=False)
    assert added(kernel) == 5 - before
    with pytest.raises(StaleCaptureError, match=r"changed from (True|False) to"):
        added(careful)


def test_a_compiled_program_is_an_object_like_any(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    program = made("1").compile(X, X)
    kernel = made("len(f'{PROGRAM}')", PROGRAM=program)
    assert added(kernel) == len(f"{program}")
    monkeypatch.setattr(type(program), "__format__", lambda self, spec: "four")
    assert added(kernel) == 4


def test_settings_of_a_run_are_read_by_attributes(made: Any) -> None:
    names: dict[str, Any] = {"CONFIG": tilejit.RunConfig(fast_math=True)}
    kernel = made("2 if CONFIG.fast_math else 3", **names)
    assert added(kernel) == 2
    kernel.definition.function.__globals__["CONFIG"] = tilejit.RunConfig(fast_math=False)
    assert added(kernel) == 3


def test_parts_of_programs_are_parts_of_kernels(make_kernel: MakeKernel, cache: Path) -> None:
    names = {"KIND": pl.Tensor[[1, 4], pl.FP32], "GROUP": pl.tensor}
    text = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y: KIND = x + 1.0
        out[:] = GROUP.add(y, 1.0)
"""
    assert added(make_kernel(text, **names)) == 2
