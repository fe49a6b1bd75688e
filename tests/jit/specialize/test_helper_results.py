"""Helpers that return containers: the caller has what Python would have, made anew by each call."""

from __future__ import annotations

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tilejit.errors import TilejitError

KERNEL = """
@pl.jit.inline
def helper(n):
    return {result}

@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        {body}
        out[:] = x + float(v)
"""

RESULTS = ["[n, 1]", "(n, 1)", "[n]", "(n,)", "[[n, 1], 2]", "((n, 1), 2)", "{'a': n}", "[n, 1][::-1]", "[]", "()"]
BODIES = [
    "v = len(helper(3))",
    "l = helper(3)\nv = l[0]",
    "a, b = helper(3)\nv = a * 10 + b",
    "v = helper(3)",
    "v = 0\nfor i in helper(3):\n    v += i",
    "l = helper(3)\nv = 1 if l else 2",
    "v = 7 if isinstance(helper(3), list) else 8",
    "l = helper(3)\nl.append(5)\nv = len(l) * 10 + len(helper(3))",
]


@pytest.mark.parametrize("result", RESULTS)
def test_the_caller_has_what_python_has(result: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PLATFORM", "reference")
    for body in BODIES:
        names = {"helper": eval(f"lambda n: {result}")}
        try:
            exec(f"{body}\nv = float(v)", names)
            want = names["v"]
        except (TypeError, ValueError, IndexError, KeyError, AttributeError):
            want = None
        x = np.random.default_rng(3).standard_normal((2, 3)).astype(np.float32)
        out = np.full_like(x, np.nan)
        kernel = make_kernel(KERNEL.format(result=result, body=body.replace("\n", "\n        ")))
        if want is None:
            with pytest.raises(TilejitError):
                kernel(x, out)
        else:
            kernel(x, out)
            np.testing.assert_array_equal(out, x + np.float32(want), f"{result}: {body}")
