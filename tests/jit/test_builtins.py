"""Builtins whose result does not follow from their arguments alone are asked like any other function: with a `key=`, a codec, a handler of errors."""

from __future__ import annotations

import codecs
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tilejit.errors import ParserTypeError, UnsupportedFeatureError

KERNEL = """
@pl.jit(on_drift="recompile")
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        {lines}
        out[:] = x + float({expression})
"""
SORTED = "xs = list(MEMBERS)\n        xs.sort(key={key})"


def added(kernel: Any) -> float:
    out = np.empty((1, 4), np.float32)
    kernel(np.zeros((1, 4), np.float32), out)
    return float(out[0, 0])


@pytest.fixture(params=["1", "0"], ids=["native", "python"])
def made(request: pytest.FixtureRequest, make_kernel: MakeKernel, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A kernel that adds the value of an expression, behind some lines."""
    monkeypatch.setenv("TILEJIT_FASTPATH", request.param)
    return lambda expression, lines="pass", **names: make_kernel(KERNEL.format(lines=lines, expression=expression), **names)


def handle_errors_by(text: str) -> None:
    codecs.register_error("of_a_test", lambda error: (text, cast("UnicodeDecodeError", error).end))


DECODED = ["str(DATA, 'ascii', 'of_a_test')", "str(DATA, errors='of_a_test', encoding='ascii')", "DATA.decode('ascii', 'of_a_test')"]


@pytest.mark.dispatch
@pytest.mark.parametrize("expression", DECODED)
def test_a_handler_of_errors_that_is_registered_anew_is_noticed(made: Any, expression: str) -> None:
    kernel = made(expression, DATA=b"\xff")
    for text in ("2", "3"):
        handle_errors_by(text)
        for _ in range(4):
            assert added(kernel) == float(text)
    for text in ("2", "4"):
        handle_errors_by(text)
        assert added(made(expression, DATA=b"\xff")) == float(text)  # through the tree on disk


@pytest.fixture
def limit() -> Iterator[None]:
    before = sys.get_int_max_str_digits()
    yield
    sys.set_int_max_str_digits(before)


LONG = [
    ("pass", "len(max(MEMBERS, key=int))", ("1" * 700, "3"), 700),
    ("pass", "int(min(MEMBERS, key=str) > 9)", (10**700, 10**701), 1),
    ("pass", "len(sorted(MEMBERS, key=int)[1])", ("1" * 700, "3"), 700),
    (SORTED.format(key="int"), "len(xs[1])", ("1" * 700, "3"), 700),
]


@pytest.mark.dispatch
@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize(("lines", "expression", "members", "want"), LONG)
def test_a_limit_of_digits_counts_behind_a_key(made: Any, lines: str, expression: str, members: object, want: int) -> None:
    kernel = made(expression, lines, MEMBERS=members)
    for _ in range(4):
        assert added(kernel) == want
    sys.set_int_max_str_digits(640)
    for again in (kernel, made(expression, lines, MEMBERS=members)):
        with pytest.raises(ParserTypeError, match="Exceeds the limit"):
            added(again)


SEEDED = """
import sys
import numpy as np
import tilejit.language as pl

MEMBERS = ("a", "b", "c", "d", "e")
PLACES = {"a": 2.0, "b": 3.0, "c": 5.0, "d": 7.0, "e": 11.0}

KERNEL

out = np.empty((1, 4), np.float32)
kernel(np.zeros((1, 4), np.float32), out)
assert out[0, 0] == PLACES[sorted(MEMBERS, key=hash)[0]]
print(out[0, 0], kernel.cache_info().loaded)
"""


@pytest.mark.parametrize(
    ("lines", "expression"),
    [
        ("pass", "PLACES[sorted(MEMBERS, key=hash)[0]]"),
        ("pass", "PLACES[min(MEMBERS, key=hash)]"),
        ("pass", "PLACES[min('a', 'b', 'c', 'd', 'e', key=hash)]"),
        (SORTED.format(key="hash"), "PLACES[xs[0]]"),
        ("key = hash", "PLACES[sorted(MEMBERS, reverse=True, key=key)[-1]]"),
    ],
)
def test_the_seed_of_hashes_counts_behind_a_key(tmp_path: Path, lines: str, expression: str) -> None:
    (tmp_path / "seeded.py").write_text(SEEDED.replace("KERNEL", KERNEL.format(lines=lines, expression=expression)))
    found: list[list[str]] = []
    for seed in ("0", "1", "2", "3", "0"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "TILEJIT_CACHE_DIR": str(tmp_path / "cache"), "TILEJIT_PLATFORM": "cpu"}
        done = subprocess.run([sys.executable, str(tmp_path / "seeded.py")], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.split())
    assert len({first for first, _ in found}) > 1, "the seeds of the test change nothing"
    assert found[-1] == [found[0][0], "1"]


def test_a_key_that_computes_is_no_question(make_kernel: MakeKernel, cache: Path) -> None:
    expression = "len(sorted(('bbb', 'a'), key=len)[0]) + min((-3, 2), key=abs) + float(max(('10', '9'), key=int)) + xs[0]"
    kernel = make_kernel(KERNEL.format(lines="xs = [-5, 4]\n        xs.sort(key=abs, reverse=False)", expression=expression))
    assert added(kernel) == 1 + 2 + 10 + 4
    assert "asked" not in str(kernel.explain(np.zeros((1, 4), np.float32), np.zeros((1, 4), np.float32)))


def test_methods_of_what_the_kernel_made_are_keys(make_kernel: MakeKernel, cache: Path) -> None:
    lines = "worth = {'a': 5, 'b': 3}\n        xs = ['b', 'a']\n        ys = list(xs)\n        ys.sort(key=worth.get)"
    kernel = make_kernel(KERNEL.format(lines=lines, expression="worth[max(worth, key=worth.get)] + xs.index(sorted(worth, key=xs.index)[1]) + worth[ys[0]]"))
    assert added(kernel) == 5 + 1 + 3
    assert "asked" not in str(kernel.explain(np.zeros((1, 4), np.float32), np.zeros((1, 4), np.float32)))


def test_the_text_of_a_set_of_long_numbers_is_refused(made: Any) -> None:
    with pytest.raises(UnsupportedFeatureError, match="set that the kernel made itself"):
        added(made("len(str({MEMBERS[0], 1}))", MEMBERS=(10**700, 2)))


def test_a_list_of_the_kernel_is_sorted_by_a_function_of_python(made: Any) -> None:
    order = {"a": 2, "b": 1}
    kernel = made("WORTH[xs[0]]", SORTED.format(key="ORDER.get"), MEMBERS=("a", "b"), ORDER=order, WORTH={"a": 5.0, "b": 7.0})
    for first, want in ((2, 7.0), (0, 5.0), (3, 7.0)):
        order["a"] = first
        for _ in range(3):
            assert added(kernel) == want


@pytest.mark.parametrize("deed", ["open", "eval", "exec", "compile", "input", "__import__"])
@pytest.mark.parametrize("form", ["min(MEMBERS, key={})", "len(sorted(MEMBERS, key={}))", "len(list(map({}, MEMBERS)))", "len(xs)"])
def test_a_deed_is_refused_where_a_builtin_does_it(made: Any, deed: str, form: str) -> None:
    lines = SORTED.format(key=deed) if "xs" in form else "pass"
    with pytest.raises(UnsupportedFeatureError, match=f"plain `{deed}` in a kernel"):
        added(made(form.format(deed), lines, MEMBERS=("1", "2")))


@pytest.mark.parametrize("expression", ["sum((3e38,), start=A)", "sum({A: 1, B: 2})", "sum((A, B))"])
def test_numbers_of_numpy_are_added_whatever_it_says_of_overflow(made: Any, expression: str) -> None:
    names = {"A": np.float32(3e38), "B": np.float32(2e38)}
    for how in ("ignore", "raise"):
        with np.errstate(all=how):
            assert added(made(f"({expression}) > 1.0", **names)) == 1.0
