"""Help that is given for names of other libraries works, and tracebacks of mistakes end where the user's own code does."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tests.jit.conftest import MakeKernel
from tests.jit.conftest import make_kernel as make_kernel
from tilejit import RunConfig
from tilejit.errors import ParserTypeError, PlatformError, ShapeError, TilejitError, UnsupportedFeatureError
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


FOLLOWED = {
    "norm": ("out[0, 0] = pl.sqrt(pl.square(x).sum())", np.linalg.norm),
    "outer": ("a = x[0]\n    b = x[1]\n    out[:] = (a[:, None] * b[None, :])[0:4, :]", lambda x: np.outer(x[0], x[1])[:4]),
    "inner": ("a = x[0]\n    b = x[1]\n    out[0, 0] = (a * b).sum()", lambda x: np.inner(x[0], x[1])),
    "inf": ("out[:] = pl.minimum(x, float('inf'))", lambda x: x),
    "isfinite": ("out[:] = pl.where(pl.abs(x) < float('inf'), x, 0.0)", lambda x: x),
    "nan_to_num": ("out[:] = pl.where(pl.isnan(x), 0.0, x)", lambda x: x),
    "isclose": ("out[:] = pl.where(pl.abs(x - x) < 1e-6, 1.0, 0.0)", np.ones_like),
    "allclose": ("out[:] = x if pl.all(pl.abs(x - x) < 1e-6) else x * 2.0", lambda x: x),
    "linspace": ("out[:] = 1.0 + 0.5 * pl.arange(0.0, [8], pl.FP32)", lambda x: np.broadcast_to(np.linspace(1, 4.5, 8), x.shape)),
    "roll": ("out[1:] = x[:-1]\n    out[:1] = x[-1:]", lambda x: np.roll(x, 1, 0)),
    "pad": ("p = pl.zeros([6, 10])\n    p[1:-1, 1:-1] = x\n    out[:] = p[0:4, 0:8]", lambda x: np.pad(x, 1)[:4, :8]),
    "diff": ("out[:] = 0.0\n    out[1:] = x[1:] - x[:-1]", lambda x: np.concatenate([np.zeros((1, 8)), np.diff(x, axis=0)])),
    "logical_and": ("out[:] = pl.where((x > 0) & (x < 1), x, 0.0)", lambda x: np.where(np.logical_and(x > 0, x < 1), x, 0)),
    "logical_xor": ("out[:] = pl.where((x > 0) ^ (x < 1), x, 0.0)", lambda x: np.where(np.logical_xor(x > 0, x < 1), x, 0)),
    "logical_not": ("out[:] = pl.where(~(x > 0), x, 0.0)", lambda x: np.where(x > 0, 0, x)),
    "eye": ("e = pl.where(pl.iota([8, 8], axis=0) == pl.iota([8, 8], axis=1), 1.0, 0.0)\n    out[:] = e[0:4, :]", lambda x: np.eye(8)[:4]),
    "tril": ("y = x @ x.T\n    t = pl.where(pl.iota([4, 4], axis=0) >= pl.iota([4, 4], axis=1), y, 0.0)\n    out[:] = t @ x", lambda x: np.tril(x @ x.T) @ x),
    "diag": (
        "y = x @ x.T\n    t = pl.where(pl.iota([4, 4], axis=0) == pl.iota([4, 4], axis=1), y, 0.0)\n    out[:] = t @ x",
        lambda x: np.diag(np.diag(x @ x.T)) @ x,
    ),
    "sinh": ("out[:] = (pl.exp(x) - pl.exp(-x)) / 2.0", np.sinh),
    "asin": ("y = x / 9.0\n    out[:] = pl.atan2(y, pl.sqrt(1.0 - y * y))", lambda x: np.arcsin(x / 9)),
    "acos": ("y = x / 9.0\n    out[:] = pl.atan2(pl.sqrt(1.0 - y * y), y)", lambda x: np.arccos(x / 9)),
    "cbrt": ("out[:] = pl.where(x < 0.0, -1.0, 1.0) * pl.pow(pl.abs(x), 1.0 / 3.0)", np.cbrt),
    "relu6": ("out[:] = pl.clip(x, 0.0, 6.0)", lambda x: np.clip(x, 0, 6)),
    "leaky_relu": ("out[:] = pl.lrelu(x, 0.1)", lambda x: np.where(x > 0, x, 0.1 * x)),
    "copy": ("y = +x\n    y[0] = 0.0\n    out[:] = x + y * 0.0", lambda x: x),
    "fill": ("out[:] = 3.0", lambda x: np.full_like(x, 3)),
    "mT": ("y = pl.transpose(x, -2, -1)\n    out[:] = pl.transpose(y, -2, -1)", lambda x: x),
    "moveaxis": ("y = x.permute(1, 0)\n    out[:] = y.T", lambda x: x),
    "tensordot": ('out[:] = pl.einsum("ij,jk->ik", x @ x.T, x)', lambda x: x @ x.T @ x),
    "median": (
        "y = pl.sort(x)\n    out[:] = 0.0\n    out[:, 0:1] = (y[:, 3:4] + y[:, 4:5]) / 2.0",
        lambda x: np.pad(np.median(x, 1, keepdims=True), ((0, 0), (0, 7))),
    ),
    "randint": ("out[:] = pl.floor(pl.rand(7, [4, 8]) * 1)", np.zeros_like),
}  # fmt: skip
"""What names of other libraries are to be written as, in a kernel, with what those would give."""


@pytest.mark.parametrize("name", FOLLOWED)
def test_advice_works_when_it_is_followed(name: str, make_kernel: MakeKernel) -> None:
    assert name in foreign.ADVICE
    body, wanted = FOLLOWED[name]
    out = np.zeros_like(X)
    make_kernel(f"@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    {body}\n")(X, out)
    found = np.asarray(wanted(X))
    np.testing.assert_allclose(out if found.ndim else out[0, 0], found, rtol=1e-4, atol=1e-5)


MISTAKES = {
    "out[:] = x.astype('float16')": "write pl.cast(x, pl.FP16)",
    "out[:] = x.astype(np.float16)": "pl.FP16",
    "out[:] = x.astype(float)": "write pl.FP32",
    "out[:] = pl.zeros([4, 8], 'int32')": "write dtype=pl.INT32",
    "out[:] = pl.zeros([4, 8], np.float16)": "pl.FP16",
    "out[:] = pl.float16": "write pl.FP16",
    "out[:] = x.mT": "pl.transpose(x, -2, -1)",
    "out[:] = x.transpose(1, 0, 2)": "x.permute(1, 0, 2)",
    "out[:] = max(x)": "write pl.max(x), or pl.max(x, axis=1)",
    "out[:] = max(x, 1.0)": "write pl.maximum(a, b)",
    "out[:] = sum(x)": "write pl.sum(…)",
    "out[:] = round(x)": "write pl.round(…)",
    "out[:] = pow(x, 2)": "write pl.pow(…)",
    "out[:] = pl.logical_and(x > 0, x < 1)": "write a & b",
    "out[:] = pl.linspace(0, 1, 5)": "pl.arange(0.0, [count], pl.FP32)",
    "out[:] = pl.epx(x)": "did you mean `exp`?",
    "out[:] = pl.sofmax(x)": "did you mean `softmax`?",
    "out[:] = x[1:1]": "a slice takes at least one element",
    "out.copy_(x)": "write x[:] = value",
    "out.fill(3)": "write x[:] = value",
}


@pytest.mark.parametrize("body", MISTAKES)
@pytest.mark.parametrize("style", ["given", "returned"])
def test_mistakes_have_help_that_fits_whichever_way_the_kernel_is_called(body: str, style: str, make_kernel: MakeKernel) -> None:
    kernel = make_kernel(f"@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    {body}\n", np=np)
    with pytest.raises(TilejitError) as caught:
        kernel(X, *([np.zeros_like(X)] if style == "given" else []))
    assert MISTAKES[body] in (caught.value.hint or "")
    assert caught.value.span is not None and caught.value.span.line == 3


@pytest.mark.parametrize("style", ["given", "returned"])
def test_a_value_that_cannot_be_written_is_named_before_the_shape_of_the_output(style: str, make_kernel: MakeKernel) -> None:
    kernel = make_kernel("@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = x.dtype\n")
    with pytest.raises(ParserTypeError, match=r"pl\.FP32 cannot be written into"):
        kernel(X, *([np.zeros_like(X)] if style == "given" else []))


@pytest.mark.parametrize("name", ["nonzero", "kron", "unique", "searchsorted", "isposinf", "device_print", "trace"])
def test_unrelated_names_are_not_suggested(name: str, make_kernel: MakeKernel) -> None:
    with pytest.raises(TilejitError) as caught:
        make_kernel(f"@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = pl.{name}(x)\n")(X, X.copy())
    assert "did you mean" not in (caught.value.hint or "")


def test_other_words_for_platforms_and_names_are_known_outside_of_kernels() -> None:
    with pytest.raises(PlatformError, match="did you mean `cuda`"):
        RunConfig(platform="gpu")
    with pytest.raises(AttributeError, match="write a & b"):
        getattr(pl, "logical_and")  # noqa: B009 (it is not there for type checkers either)


@pl.jit.inline
def applied(v: pl.Tensor, f: pl.constexpr[Any]):
    return f(v)


@pl.jit
def applies_a_lambda(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = applied(x, f=lambda t: t * 2.0)


def test_a_lambda_for_what_is_known_while_compiling_is_no_value_of_the_run() -> None:
    with pytest.raises(UnsupportedFeatureError, match="cannot contain a lambda") as caught:
        applies_a_lambda(X)
    assert caught.value.hint == "define the function outside the kernel"
