"""Objects of tilejit's own that can change (errors, programs, settings of a run), and what only says that it is one, are read like those of anybody."""

from __future__ import annotations

import functools
from collections.abc import Callable
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


@functools.wraps(np.float64, updated=())
class Measured(np.float64):
    """A number with a unit, whose class has the name, module and text of NumPy's."""

    scale: float

    def __new__(cls, scale: float) -> Measured:
        made = np.float64.__new__(cls, 5.0)
        made.scale = scale
        return made

    def __float__(self) -> float:
        return 5.0 * self.scale


@functools.wraps(pl.Tensor, updated=())
class Gain:
    """An object whose class says that it is one of the language."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __float__(self) -> float:
        return 5.0 * self.scale


class Named(np.float64):
    """As above, under a name that the module does not have."""

    scale = 1.0

    def __float__(self) -> float:
        return 5.0 * self.scale


Named.__module__ = "numpy"
number: Any = None


@pl.jit(on_drift="recompile")
def by_number(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + float(number)


@pl.jit
def by_argument(x: pl.Tensor, given: pl.constexpr[Any], out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + float(given)


def named(scale: float) -> Named:
    made = Named(5.0)
    made.scale = scale
    return made


@pytest.mark.parametrize("made", [Measured, Gain, named], ids=lambda made: made.__name__)
def test_of_which_module_a_class_says_it_is_counts_for_nothing(made: Callable[[float], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.zeros((2, 9), np.float32)
    for scale in (2.0, 2.0, 3.0, 3.0, 2.0):
        monkeypatch.setitem(globals(), "number", made(scale))
        np.testing.assert_array_equal(by_number(x), np.full_like(x, 5 * scale))
        np.testing.assert_array_equal(by_argument(x, made(scale)), np.full_like(x, 5 * scale))
    monkeypatch.setitem(globals(), "number", held := made(2.0))
    for scale in (2.0, 3.0, 3.0, 2.0):
        held.scale = scale
        np.testing.assert_array_equal(by_number(x), np.full_like(x, 5 * scale))


EXTENTS = [3, 4]
VIEW = pl.TensorView(valid_shape=EXTENTS)  # type: ignore[arg-type]


@pl.jit
def by_view(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + float(len(f"{VIEW}"))


@pl.jit.inline
def renamed(t: pl.Tensor):
    return t


@pl.jit
def by_name(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + float(len(f"{renamed}") + len(str(renamed)))


def test_the_text_of_what_never_changes_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for extent in (3, 3, 555, 555):
        EXTENTS[0] = extent
        assert added(by_view) == len(f"{VIEW}")
    for name in ("renamed", "renamed", "otherwise", "otherwise"):
        monkeypatch.setattr(renamed.__wrapped__, "__name__", name)  # type: ignore[attr-defined]
        assert added(by_name) == len(f"{renamed}") + len(str(renamed))
