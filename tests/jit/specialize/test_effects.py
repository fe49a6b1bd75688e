"""Helpers that write and return what is known here still run, once each and in order; helpers return what their own walk found."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tilejit.errors import KernelAssertionError, UnsupportedFeatureError
from tilejit.jit.specialize.dependencies import SAME_TENSOR
from tilejit.ops import table

X = np.ones((1, 2), np.float32)
HELPERS = """
@pl.jit.inline
def five(t):
    t[:] = t + 1.0
    return 5
@pl.jit.inline
def given(t, n):
    t[:] = t * 3.0
    return n
@pl.jit.inline
def text(t):
    five(t)
    return "done"
@pl.jit.inline
def nothing(t):
    t[:] = t + 1.0
    return None
@pl.jit.inline
def same(t):
    t[:] = t + 1.0
    return t
@pl.jit.inline
def stored(t):
    pl.write(t, [0, 0], 7.0)
    return 5
@pl.jit.inline
def put(t):
    t = pl.assemble(t, pl.full([1, 2], dtype=pl.FP32, value=7.0), [0, 0])
    return 5
@pl.jit.inline
def checked(n):
    assert n > 0, "must be positive"
    return 5
@pl.jit.inline
def clamp(n, top):
    if n > top:
        return top
    return n
@pl.jit.inline
def lower(n, top):
    if n > top:
        n = top
    return n
@pl.jit.inline
def other(a, b):
    a = b
    return a
@pl.jit.inline
def pick(a, b, first):
    if first:
        return a
    return b
@pl.jit.inline
def swap(a, b):
    a, b = b, a
    return a, b
@pl.jit.inline
def longer(items):
    items = [*items, 1]
    return items
def number(a):
    return float(a)
"""
KERNEL = """
@pl.jit(runtime_scalars=("s",))
def kernel(x: pl.Tensor, s: pl.INT64, out: pl.InOut[pl.Tensor]):
    out[:] = x
{body}
"""
BODIES = {
    "a statement": ("five(out)\nout[:] = out * 10.0", 20.0),
    "an assignment": ("m = five(out)\nout[:] = out * 10.0 + float(m)", 25.0),
    "an argument comes back": ("m = given(out, 4)\nout[:] = out * 10.0 + float(m)", 34.0),
    "a condition": ("if five(out) == 5:\n    out[:] = out * 10.0", 20.0),
    "a condition under another": ("if s > 0:\n    if five(out) == 5:\n        out[:] = out * 10.0", 20.0),
    "several in order": ("m = five(out) + given(out, 1)\nout[:] = out * 10.0 + float(m)", 66.0),
    "turns of a loop": ("for i in pl.range(3):\n    m = five(out)\nout[:] = out * 10.0", 40.0),
    "turns of a comprehension": ("m = [five(out) for i in range(3)]\nout[:] = out * 10.0 + float(len(m))", 43.0),
    "bound of a loop": ("for i in pl.range(five(out)):\n    out[:] = out + 1.0", 7.0),
    "text": ("m = text(out)\nout[:] = out * 10.0", 20.0),
    "None": ("nothing(out)\nout[:] = out * 10.0", 20.0),
    "member of a display": ("m = (same(out), 5)[1]\nout[:] = out * 10.0 + float(m)", 25.0),
    "shape of a result": ("m = same(out).shape[1]\nout[:] = out * 10.0 + float(m)", 22.0),
    "a read beside a call that is left out": ("m = [same(out), pl.read(out, [0, 0])][1:]\nout[:] = out * 10.0 + m[0]", 22.0),
    "length of a display": ("m = len([same(out), 1])\nout[:] = out * 10.0 + float(m)", 22.0),
    "assert": ("assert same(out) is not None\nout[:] = out * 10.0", 20.0),
    "an op that writes": ("m = stored(out)\nout[:] = out * 10.0 + float(m)", 75.0),
    "an op that gives the tensor back": ("m = put(out)\nout[:] = out * 10.0 + float(m)", 75.0),
    "an output under its own name again": ("out = out\nout += 1.0", 2.0),
    "a known choice": ("m = five(out) if len([1]) == 1 else given(out, 1)\nout[:] = out * 10.0", 20.0),
    "returns under a condition": ("out[:] = out + number(clamp(9, 5) * 10 + clamp(3, 5))", 54.0),
    "a parameter that is bound anew": ("out[:] = out + number(lower(9, 5) * 10 + lower(3, 5)) + number(other(1, 5))", 59.0),
    "one of two tensors": ("out[:] = pick(x, pl.full([1, 3], dtype=pl.FP32, value=2.0), True) + out", 2.0),
    "names that are swapped": ("p, q = swap(1, 2)\nout[:] = out + number(p * 10 + q)", 22.0),
    "a longer list": ("out[:] = out + number(len(longer([1, 2])))", 4.0),
    "what is read before": ("y = out + float(five(out))\nout[:] = y * 10.0 + out", 72.0),
    "what is read before, by another name": ("w = out[:, 0:1]\nm, n = pl.read(w, [0, 0]), five(out)\nout[:] = out * 10.0 + m", 21.0),
    "two equal calls": ("m = (same(out), same(out))[0]\nout[:] = m * 10.0", 30.0),
    "turns of a display": ("m = [(same(out), q)[1] for q in (1, 2, 3)]\nout[:] = out * 10.0 + float(len(m))", 43.0),
    "in a condition and under it": ("if (same(out), pl.read(x, [0, 0]) == 1.0)[1]:\n    same(out)\nout[:] = out * 10.0", 30.0),
    "left out by the run": ("m = 5 if s > 0 else five(out)\nout[:] = out * 10.0 + float(m)", 15.0),
    "not left out by the run": ("m = 5 if s > 3 else five(out)\nout[:] = out * 10.0 + float(m)", 25.0),
    "behind what the run decides": ("if s > 3 and five(out) == 5:\n    five(out)\nif s > 0 and five(out) == 5:\n    out[:] = out * 10.0", 20.0),
    "before what the run decides": ("i = 0\nwhile five(out) == 5 and i < s:\n    i = i + 1\nout[:] = out * 10.0", 30.0),
    "members that a loop runs over": ("for q in (five(out), 7):\n    out[:] = out * float(q)", 70.0),
    "in what is computed behind a read": ("y = pl.read(out, [0, 0]) + (1.0 if five(out) == 5 else 2.0)\nout[:] = out * 10.0 + y", 22.0),
    "nothing beside a value": ("m = (nothing(out), 5)[1]\nout[:] = out * 10.0 + float(m)", 25.0),
    "output that is added to": ("out += 1.0\nout *= x + 2.0", 6.0),
}


def made(body: str, make_kernel: MakeKernel) -> float:
    out = np.zeros_like(X)
    make_kernel(HELPERS + KERNEL.format(body=textwrap.indent(body, "    ")))(X, 1, out)
    return float(out[0, 0])


@pytest.mark.parametrize(("body", "want"), BODIES.values(), ids=BODIES)
def test_what_a_helper_does_is_done(body: str, want: float, platform: str, make_kernel: MakeKernel) -> None:
    assert made(body, make_kernel) == want


def test_what_a_helper_asserts_is_checked(make_kernel: MakeKernel) -> None:
    with pytest.raises(KernelAssertionError, match="must be positive"):
        made("m = checked(s - 1)", make_kernel)


def test_a_call_that_no_place_is_left_for_is_a_statement_of_its_own(make_kernel: MakeKernel) -> None:
    with pytest.raises(UnsupportedFeatureError, match="only the run knows whether it is called here"):
        made("m = 1 if s > 3 else (same(out), same(out), 2)[2:][0]", make_kernel)


WINDOWS = {
    "rows from one of the run": "z = x[s:, :]\nreturn z.shape[0]",
    "rows of a result of the run": "z = (x * 2.0)[s:, :]\nreturn z.shape[0]",
    "rows up to one of the run": "z = x[0:s + 1, :]\nreturn z.shape[0]",
    "a parameter bound anew": "x = x[s:, :]\nreturn x.shape[0]",
    "all rows but the first": "x = x[1:, :]\nreturn x.shape[0]",
    "all rows but the last": "x = x[:-1, :]\nreturn x.shape[0] * 10 + x.shape[1]",
    "rows of an op": "x = pl.row_sum(x)\nreturn x.shape[0] * 10 + x.shape[1]",
    "columns of a transposed one": "x = pl.transpose(x, 0, 1)\nreturn x.shape[0] * 10 + x.shape[1]",
    "a condition": "t = x\nt = pl.row_sum(t)\nif t.shape[1] == 4:\n    return 1\nreturn 2",
    "columns after turns": "t = x\nfor i in pl.unroll(2):\n    t = t[:, 1:]\nif t.shape[1] == 3:\n    return 1\nreturn t.shape[1] * 10",
    "every second row": "return x[::2, :].shape[0]",
}


class Rows:
    """Enough of the language for Python to compute these."""

    unroll = range
    row_sum = staticmethod(lambda x: x.sum(axis=1, keepdims=True))
    transpose = staticmethod(lambda x, first, second: x.swapaxes(first, second))


@pytest.mark.parametrize("dynamic", [False, True], ids=["constant", "dynamic"])
@pytest.mark.parametrize("body", WINDOWS.values(), ids=WINDOWS)
def test_extents_of_windows_and_results_are_theirs(body: str, dynamic: bool, make_kernel: MakeKernel) -> None:
    x, out = np.ones((5, 4), np.float32), np.zeros((1, 1), np.float32)
    names: dict[str, Any] = {"pl": Rows}
    exec(f"def f(x, s):\n{textwrap.indent(body, '    ')}", names)
    head = "    x.bind_dynamic(0, pl.dynamic('M'))\n" if dynamic else ""
    text = f"@pl.jit.inline\ndef f(x, s):\n{textwrap.indent(body, '    ')}\n"
    text += "@pl.jit(runtime_scalars=('s',))\ndef kernel(x: pl.Tensor, s: pl.INT64, out: pl.Out[pl.Tensor]):\n"
    text += f"{head}    pl.write(out, [0, 0], pl.cast(f(x, s), pl.FP32))"
    make_kernel(text)(x, 2, out)
    assert out[0, 0] == names["f"](x, 2)


def test_ops_that_give_the_tensor_back_that_they_write_are_known_by_name() -> None:
    rows = [row for row in table().values() if row.facts.writes and "atomic" not in row.attrs]
    giving = {spelling.name for row in rows for spelling in row.spellings if spelling.namespace == "pl"}
    assert giving <= set(SAME_TENSOR)
