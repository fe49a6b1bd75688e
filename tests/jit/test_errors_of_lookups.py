"""What a question ends in reads the same whether a program was looked for first or not: in memory, on disk, or nowhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tilejit.errors import TilejitError

X = np.ones((2, 3), np.float32)
SETUP = """
class A:
    k = 3
    def __repr__(self): return "A()"
class Bad:
    def __bool__(self): raise ValueError("no truth")
    def __iter__(self): raise ValueError("no members")
objects, table, pair, number, calls = [A(), A()], {"one": 3}, (1, 2), 3, []
def helper(n):
    calls.append(n)
    return n // number
@pl.jit.inline
def inlined(q):
    return q.k
"""
KERNEL = """
@pl.jit(on_drift="recompile")
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        key, first = "one", 0
        {body}
    return out
"""


@pytest.mark.parametrize(
    ("body", "breaks", "told"),
    [
        ("out[:] = x + table[key]", "table.clear()", "`table[key]` failed while compiling: KeyError: 'one'"),
        ("for q in objects: out[:] = x + q.k", "del A.k", "`q.k` does not exist: A() has no `k`"),
        ("out[:] = x + inlined(objects[first])", "del A.k", "`q.k` does not exist: A() has no `k`"),
        ("out[:] = x + sum([one.k for one in objects])", "del A.k", "`one.k` does not exist: A() has no `k`"),
        ("a, b = pair", "global pair; pair = Bad()", "unpacking `pair` failed while compiling: ValueError: no members"),
        ("if number: out[:] = x + 1", "global number; number = Bad()", "`number` failed while compiling: ValueError: no truth"),
        ("out[:] = x + 6 // (number - first)", "global number; number = 0", "`6 // (number - first)` divides by zero"),
        ("out[:] = x + helper(6)", "global number; number = 0", "`helper(…)` divides by zero"),
    ],
)
def test_an_error_is_told_in_the_words_of_the_kernel(body: str, breaks: str, told: str, make_kernel: MakeKernel, cache: Path) -> None:
    text = SETUP + f"def broken():\n    {breaks}\n" + KERNEL.format(body=body)

    def error_of(kernel: Any) -> str:
        names = kernel.definition.function.__globals__
        names["broken"]()
        names["calls"].clear()
        with pytest.raises(TilejitError) as caught:
            kernel(X)
        assert len(names["calls"]) <= 1, "a helper is called once, whatever it ends in"
        return caught.value.message

    assert error_of(make_kernel(text)) == told
    in_memory = make_kernel(text)
    in_memory(X)
    assert error_of(in_memory) == told
    assert error_of(make_kernel(text)) == told  # which is on disk by now
