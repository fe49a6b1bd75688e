"""Help that is given for names of other libraries works, and tracebacks of mistakes end where the user's own code does."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import ParserTypeError, ShapeError, TilejitError
from tilejit.frontend import foreign
from tilejit.jit.function import JITFunction

X = np.random.default_rng(0).standard_normal((4, 8), np.float32)


@pytest.mark.parametrize("name", sorted(foreign.ADVICE))
def test_advice_names_what_the_language_has(name: str) -> None:
    for path in re.findall(r"\bpl((?:\.\w+)+)", foreign.ADVICE[name]):
        found: object = pl
        for part in path.split(".")[1:]:
            found = getattr(found, part)


def test_advice_is_for_names_that_are_missing_or_mean_something_else() -> None:
    assert {name for name in foreign.ADVICE if foreign.in_language(name)} == {"load", "store"}
    assert foreign.function_elsewhere("exp") == "write pl.exp(…): functions of other libraries work on arrays that exist already"
    assert (foreign.function_elsewhere("load") or "").startswith("write pl.load(x, [row, column]")
    assert foreign.function_elsewhere("no_such_function") is None
    assert foreign.method("exp", "x") == "write pl.exp(x, …)"
    assert (foreign.method("half", "x") or "").startswith("write pl.cast")


def scale() -> float:
    raise OSError("no such file")


@pl.jit
def wrong(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.add(x, x[0:2, :])


@pl.jit
def fails_while_compiling(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = x * scale()


def frames_of(function: Callable[..., object], *args: object) -> tuple[TilejitError, list[traceback.FrameSummary]]:
    with pytest.raises(TilejitError) as caught:
        function(*args)
    return caught.value, [frame for frame in traceback.extract_tb(caught.value.__traceback__) if "tilejit" in frame.filename and "tests" not in frame.filename]


def test_a_mistake_shows_one_frame_of_ours() -> None:
    for call in (wrong, wrong.compile):
        error, frames = frames_of(call, X)
        assert isinstance(error, ShapeError) and len(frames) == 1
        assert len("".join(traceback.format_exception(error)).splitlines()) < 25


def test_a_cause_shows_the_users_frames() -> None:
    error, frames = frames_of(fails_while_compiling, X)
    assert isinstance(error, ParserTypeError) and len(frames) == 1
    assert isinstance(error.__cause__, OSError)
    assert [frame.name for frame in traceback.extract_tb(error.__cause__.__traceback__)] == ["scale"]


def test_a_setting_brings_all_frames_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_DEBUG", "2")
    assert len(frames_of(wrong, X)[1]) > 5


def test_two_symbols_may_be_made_in_one_statement() -> None:
    @pl.jit
    def doubled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        m, n = pl.dynamic("M"), pl.dynamic("N")
        x.bind_dynamic(0, m)
        x.bind_dynamic(1, n)
        out.bind_dynamic(0, m)
        out.bind_dynamic(1, n)
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * 2.0

    for rows, columns in ((4, 8), (3, 5), (1, 2)):
        out = np.empty((rows, columns), np.float32)
        doubled(X[:rows, :columns].copy(), out)
        np.testing.assert_array_equal(out, 2 * X[:rows, :columns])
    assert doubled.cache_info().entries == 1


@pl.jit
def either(x: pl.Tensor):
    return x * (x[0, 0] or 4)


@pl.jit
def both(x: pl.Tensor):
    return x * (x[0, 0] and x[0, 1])


@pl.jit
def either_as_said(x: pl.Tensor):
    return x * (x[0, 0] if x[0, 0] != 0 else 4)


@pl.jit
def both_as_said(x: pl.Tensor):
    return x * (x[0, 1] if x[0, 0] != 0 else x[0, 0])


@pytest.mark.parametrize(
    ("wrong", "said", "right", "wanted"),
    [
        (either, "x[0, 0] if x[0, 0] != 0 else 4", either_as_said, lambda x: x * (x[0, 0] or 4)),
        (both, "x[0, 1] if x[0, 0] != 0 else x[0, 0]", both_as_said, lambda x: x * (x[0, 0] and x[0, 1])),
    ],
)
def test_what_is_said_of_numbers_under_and_and_or_works(wrong: JITFunction, said: str, right: JITFunction, wanted: Callable[[np.ndarray], np.ndarray]) -> None:
    with pytest.raises(ParserTypeError) as caught:
        wrong(X)
    assert f"as a number `{said}`" in (caught.value.hint or "")
    for x in (X, X * np.arange(8, dtype=np.float32)):
        np.testing.assert_allclose(right(x), wanted(x), rtol=1e-6)
