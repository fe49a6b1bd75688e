"""Slice objects as subscripts, and names as Python scopes them: variables of comprehensions, builtins that a kernel binds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tilejit.errors import UndefinedVariableError

KERNEL = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        {body}
"""


class Held:
    cut = slice(0, 2)


PLAIN = {"L": [1, 2], "i": 8, "j": 1, "NO": False, "A": slice(1, 3), "ALL": slice(None), "LAST": slice(-2, None), "EVERY": slice(None, None, 2)}
NAMES: dict[str, Any] = {**PLAIN, "BOTH": (slice(1, 3), slice(0, 2)), "ROW": (1, slice(0, 3)), "D": {"k": slice(1, 3)}, "O": Held()}


def called(make_kernel: MakeKernel, body: str, shape: tuple[int, ...] | None = None) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    out = np.full(x.shape if shape is None else shape, np.nan, np.float32)
    make_kernel(KERNEL.format(body=body.replace("\n", "\n        ")), **NAMES)(x, out)
    return x, out


@pytest.fixture(autouse=True)
def reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PLATFORM", "reference")


@pytest.mark.parametrize("index", [":, A", "A, A", "A", "BOTH", "O.cut, A", ":, slice(1, 3)", ":, ALL", ":, LAST", ":, EVERY", ":, D['k']", "ROW", "0, A"])
def test_a_slice_object_is_a_subscript(index: str, make_kernel: MakeKernel) -> None:
    x = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    want = eval(f"x[{index}]", {"x": x, **NAMES})
    np.testing.assert_array_equal(called(make_kernel, f"out[:] = x[{index}]", want.shape)[1], want)
    np.testing.assert_array_equal(called(make_kernel, f"t = x + 1.0\nout[:] = t[{index}]", want.shape)[1], want + 1)


def test_a_slice_object_says_where_to_write(make_kernel: MakeKernel) -> None:
    x, out = called(make_kernel, "s = slice(1, 3)\nout[:] = x + 0.0\nout[A, s] = x[0:2, 0:2]")
    want = x.copy()
    want[1:3, 1:3] = x[0:2, 0:2]
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize(
    "body",
    [
        "a = [i for i in L]\nv = i + len(a)",
        "v = i\na = [i for i in L]",
        "i = 5\na = [i for i in L]\nv = i + sum(a)",
        "a = sum(i for i in L if i > 1)\nv = i + a",
        "a = {i: j for i, j in zip(L, L)}\nv = i + j + a[2]",
        "a = [[i for i in L] for j in L]\nv = i + j + sum(a[1])",
        "a = [i for i in range(i)]\nv = sum(a)",
        "a = [i + j for i in L for j in range(i)]\nv = i + sum(a)",
    ],
)
def test_a_variable_of_a_comprehension_is_not_seen_outside(body: str, make_kernel: MakeKernel) -> None:
    names = {**NAMES}
    exec(body, names)
    x, out = called(make_kernel, f"{body}\nout[:] = x + float(v)")
    np.testing.assert_array_equal(out, x + np.float32(names["v"]))


@pytest.mark.parametrize("body", ["if NO:\n    len = 5\nv = len([1, 2])", "v = len([1, 2])\nlen = 5", "for len in []:\n    v = 2\nv = len([1])"])
def test_a_builtin_that_the_kernel_binds_is_local_in_all_of_it(body: str, make_kernel: MakeKernel) -> None:
    with pytest.raises(UndefinedVariableError, match="`len` is not defined"):
        called(make_kernel, f"{body}\nout[:] = x + float(v)")


@pytest.mark.parametrize("around", ["u = 9", "u = (7, 8)", "u = x", "pass"])
@pytest.mark.parametrize(
    "made", ["[v for v in L for w in {} for u in L]", "{{v: w for v in L for w in {} for u in L}}", "[v for v in L for w in [{}] for u in L]"]
)
@pytest.mark.parametrize("read", ["u", "twice(u)", "[u for z in L]"])
def test_a_variable_of_a_comprehension_hides_the_one_around_before_it_is_bound(around: str, made: str, read: str, make_kernel: MakeKernel) -> None:
    text = "def twice(value): return [value, value]\n" + KERNEL.format(body=f"{around}\n        out[:] = x * len({made.format(read)})")
    with pytest.raises(UndefinedVariableError, match="`u` is not bound yet"):
        make_kernel(text, **NAMES)(np.ones((3, 4), np.float32))


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("[v * w for v in u for u in L for w in L]", (7 + 8) * 2 * 3),
        ("[u for u in u]", 7 + 8),
        ("[w for v in L if v == 1 or u for u in L for w in (u, v)]", 1 + 1 + 2 + 1 + 1 + 2 + 2 + 2),
        ("[v for v in L if v > 5 and u for u in L]", 0),
        ("[v for v in u for w in [u for u in L] for u in L]", (7 + 8) * 2 * 2),
    ],
)
def test_what_a_comprehension_runs_over_first_is_read_around_it_and_names_last_from_turn_to_turn(made: str, expected: int, make_kernel: MakeKernel) -> None:
    assert expected == eval(f"sum({made})", {"u": (7, 8), "L": [1, 2]})
    x, out = called(make_kernel, f"u = (7, 8)\nout[:] = x * sum({made})")
    np.testing.assert_array_equal(out, x * np.float32(expected))
