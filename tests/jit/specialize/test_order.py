"""Order of evaluation and types of what is computed are those of Python: bodies run in Python beside the kernel."""

from __future__ import annotations

import textwrap
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tilejit.errors import UncacheableValueError, UnsupportedFeatureError

HELPERS = """
@pl.jit.inline
def doubled(t):
    t[:] = t * 2.0
    return pl.read(t, [0, 0])
@pl.jit.inline
def fill(t):
    t[:] = t + 1.0
@pl.jit.inline
def five(t):
    t[:] = t * 0.5 + 1.0
    return 5.0
@pl.jit.inline
def index(t):
    t[:] = t + 1.0
    return 2
@pl.jit.inline
def twice(p):
    return p * 2.0
@pl.jit.inline
def add(p, q):
    return p * 10.0 + q
@pl.jit.incore
def plus(t, n):
    return t + pl.cast(n, pl.FP64)
@pl.jit.incore
def chosen(flag, t):
    if flag:
        return t * 2.0
    return t
@pl.jit.incore
def first_and_last(l, d):
    return l[0] + l[1] * d["a"]
"""
BODIES = {
    "reads before writes": "for v in [pl.read(io, [0, 0]), pl.read(io, [0, 1])]:\n    pl.write(io, [0, 1], v * 3.0)\n    out[:] = out * 2.0 + v",
    "a helper writes": "for t in (io * 1.0, io * 2.0):\n    fill(io)\n    out[:] = out + t",
    "another name writes": "w = io\nfor t in (io + 1.0, io + 2.0):\n    w[:] = w + t",
    "a window writes": "w = io[0:1, :]\nfor t in (io + 1.0, io + 2.0):\n    w[:] = w + t[0:1, :]",
    "windows are seen through": "for w in (io[0:1, :], io[1:2, :]):\n    w[:] = w + x[0:1, :]\n    io[:] = io * 2.0\n    out[0:1, :] = out[0:1, :] + w",
    "windows by a name that moves": "i = 0\nfor w in (io[i:i + 1, :], io[i + 1:i + 2, :]):\n    i = i + 1\n    w[:] = w + x[0:1, :] * pl.cast(i, pl.FP64)",
    "columns of zip": "for n, m in zip([pl.read(io, [0, 0]), pl.read(io, [0, 1])], [doubled(io), doubled(io)]):\n    fill(io)\n    out[:] = out * 9.0 + n + m",
    "parts of enumerate": "for i, (a, b) in enumerate([(pl.read(io, [0, 0]), io * 1.0), (pl.read(io, [0, 1]), io * 2.0)]):\n    io[:] = io + a + b",
    "backwards": "for v in reversed([doubled(io), pl.read(io, [0, 0]), doubled(io)]):\n    io[:] = io + v\n    out[:] = out * 3.0 + v",
    "members of a dict": 'd = {"a": io * 2.0, "b": pl.read(io, [0, 1])}\nfor k, v in d.items():\n    io[:] = io + v',
    "the loop's own name": "n = s\nfor n in (n, n + 1, n * 2):\n    out[:] = out * 10.0 + pl.cast(n, pl.FP64)",
    "the loop's own name, known": "n = 3\nfor n in (n, n + 1, n * 2):\n    out[:] = out * 10.0 + pl.cast(n, pl.FP64)",
    "names that turns bind": "z = x + 1.0\nfor t in (x, z, z * 2.0):\n    z = z + t\n    out[:] = out + z * t",
    "turns in turns": "a = s\nfor b in (a, a + 1):\n    a = a + b\n    for c in (a, b, a * b):\n        a = a + c\nout[:] = out + pl.cast(a, pl.FP64)",
    "a list bound anew": "l = [x, x + 1.0]\nfor t in l:\n    l = [t, t, t]\n    out[:] = out + t\nout[:] = out + l[2]",
    "a list changed": "l = [x, x + 1.0]\nfor t in (l[0], l[1]):\n    l[1] = t * 3.0\n    out[:] = out + t\nout[:] = out + l[1]",
    "a list grown": "l = [x, x + 1.0]\nfor t in (l[0], l[1]):\n    l.insert(0, t * 3.0)\n    out[:] = out + t * 7.0\nout[:] = out + l[1]",
    "a copy of a list": "l = [x, x + 1.0]\nfor t in [*l]:\n    l[1] = t * 3.0\n    out[:] = out + t",
    "turns of the run": "for i in pl.range(2):\n    for a in (io * 1.0, io * 2.0):\n        fill(io)\n        out[:] = out + a",
    "a comprehension's name": "v = [q + q for q in (doubled(io), 1.0)]\nout[:] = out + v[0] + v[1]",
    "a comprehension that writes": "v = [q * 2.0 + doubled(io) + q for q in (pl.read(io, [0, 0]), pl.read(io, [0, 1]))]\nout[:] = out + v[0] * 9.0 + v[1]",
    "a comprehension in an argument": "pl.write(out, [0, 0], [q + q for q in (doubled(io), 1.0)][0])",
    "a comprehension in a loop": "for a in [q + 1.0 for q in (io * 1.0, io * 2.0)]:\n    fill(io)\n    out[:] = out + a",
    "helpers behind a star": "out[:] = add(*[twice(io), io]) + add(twice(x), *(twice(io),))",
    "helpers behind two stars": 'd = {"q": x * 2.0}\nout[:] = add(p=twice(io), **d) + add(**{"p": twice(x), "q": doubled(io)})',
    "a chain that ends early": "if 500.0 < doubled(io) < doubled(io):\n    out[:] = x",
    "a chain of four": "if s < 2 < pl.read(x, [0, 1]) + 2.0 < doubled(io):\n    out[:] = x\nif s > 0 > pl.read(x, [0, 1]) > doubled(io):\n    out[:] = io",
    "a chain that keeps inside": "v = 7.0\nif 0 <= s < 2 <= pl.read(x, [s, 1]) + 2.0 < 9.0:\n    v = 8.0\nout[:] = out + v",
    "a chain in a loop": "i = 0\nwhile 0 <= i < 3 and 0.0 <= pl.read(x, [0, i]) < pl.read(x, [1, i]) < 9.0:\n    i = i + 1\nout[:] = out + pl.cast(i, pl.FP64)",
    "a chain in a value": "v = 3.0 if 0 < s < doubled(io) < doubled(io) else doubled(io)\nout[:] = out + v",
    "a comprehension that comes later":
        "v = pl.read(io, [0, 0]) + [q + q for q in (doubled(io), 1.0)][0] + [q + doubled(io) for q in (pl.read(io, [0, 0]),)][0]\nout[:] = out + v",
    "arguments by name": "v = add(q=doubled(io), p=pl.read(io, [0, 0])) + add(q=pl.read(io, [0, 1]), p=five(io))\nout[:] = out + v",
    "calls among reads":
        "v, w = pl.read(io, [0, 0]) + five(io) * pl.read(io, [0, 1]), add(pl.read(io, [0, 0]), doubled(io))\nout[:] = io * v + five(io) * io + w",
    "calls that are left out of displays":
        "v = pl.read(io, [0, 0]) + (doubled(io), five(io), pl.read(io, [0, 1]))[2] + {'a': doubled(io), 'b': five(io)}['b']\nout[:] = out + v",
    "the target comes last": "io[0:1, 0:index(io)] = io[1:2, 0:2] * doubled(io)",
    "parts that may be left out": "v = pl.read(io, [0, 0]) + (doubled(io) if five(io) > pl.read(x, [0, 1]) else 1.0) * pl.read(io, [0, 1])\nout[:] = out + v",
    "half an integer of the run": "n = s * 7\nout[:] = out + x * (n / 2) + n / 4 - n // 2 + n % 4\nn /= 8\nout[:] = out + n",
    "half a loop's index": "for i in pl.range(4):\n    out[:] = out * 4.0 + i / 2",
    "half an extent": "out[:] = out + x * (x[s + 1:, :].shape[0] / 4) + x.shape[1] / 2",
    "computed tensors to functions of their own": "y = plus(x * 2.0, s)\nout[:] = plus(plus(y, 2 * s), s) + plus(y[0:1, :] * 2.0, 1)",
    "scalars of any kind to them": "n = max(s, 0)\nn += abs(s)\nout[:] = plus(x + 1.0, n * 2) + plus(x + out, pl.read(x, [0, 1]) / 3.0 + 1.0) + plus(x, -s)",
    "flags to them": "out[:] = chosen(s > 0, x + 1.0) + chosen(not s > 0, x) + chosen(s > 0 and x.shape[0] > 1, x * x) + chosen(-1 < s < 2, x)",
    "containers to them": 'out[:] = first_and_last([x * 2.0, x], {"a": x + 1.0}) + first_and_last((x, twice(x)), {"a": out})',
}  # fmt: skip


class Language:
    """Enough of the language for Python to compute these."""

    range, FP64 = range, float
    read = staticmethod(lambda t, at: t[tuple(at)])
    write = staticmethod(lambda t, at, v: t.__setitem__(tuple(at), v))
    cast = staticmethod(lambda v, kind: kind(v))

    class jit:
        inline = incore = staticmethod(lambda function: function)


@pytest.mark.usefixtures("platform")
def test_bodies_do_what_they_do_in_python(make_kernel: MakeKernel) -> None:
    functions = [f"@pl.jit.inline\ndef body_{k}(x, s, io, out):\n{textwrap.indent(body, '    ')}\n" for k, body in enumerate(BODIES.values())]
    calls = [f"    body_{k}(x, s, io[{2 * k}:{2 * k + 2}, :], out[{2 * k}:{2 * k + 2}, :])\n" for k in range(len(BODIES))]
    head = '@pl.jit(runtime_scalars=("s",))\ndef kernel(x: pl.Tensor, s: pl.INT64, io: pl.InOut[pl.Tensor], out: pl.InOut[pl.Tensor]):\n'
    kernel = make_kernel(HELPERS + "".join(functions) + head + "".join(calls))
    names: dict[str, Any] = {"pl": Language}
    exec(HELPERS + "".join(functions), names)
    for s in (1, -1):
        x, io, out = np.arange(6.0).reshape(2, 3), np.full((2 * len(BODIES), 3), 5.0), np.ones((2 * len(BODIES), 3))
        want = [io.copy(), out.copy()]
        kernel(x, s, io, out)
        for k, name in enumerate(BODIES):
            rows = slice(2 * k, 2 * k + 2)
            names[f"body_{k}"](x, s, want[0][rows], want[1][rows])
            np.testing.assert_allclose(out[rows], want[1][rows], err_msg=name)
            np.testing.assert_allclose(io[rows], want[0][rows], err_msg=name)


def test_a_comprehension_that_the_run_may_leave_out_does_not_act(make_kernel: MakeKernel) -> None:
    body = "v = [q + q for q in (doubled(io), 1.0)][0] if pl.read(x, [0, 0]) > 0.0 else 1.0"
    kernel = make_kernel(f"{HELPERS}@pl.jit\ndef kernel(x: pl.Tensor, io: pl.InOut[pl.Tensor]):\n    {body}\n    io[:] = io + v")
    with pytest.raises(UnsupportedFeatureError, match="in a comprehension that the run may leave out"):
        kernel(np.ones((2, 3)), np.ones((2, 3)))


def test_widths_hold_in_the_turn_that_told_them(make_kernel: MakeKernel) -> None:
    body = "for lo in (s, u):\n        if FIRST[0] == 0 and len(seen) == 0:\n            hi = lo + 2\n        seen.append(1)\n"
    body += "        out[:] = out * 10.0 + pl.cast(x[lo:hi, :].shape[0], pl.FP64)\n"
    head = '@pl.jit(runtime_scalars=("s", "u"))\ndef kernel(x: pl.Tensor, s: pl.INT64, u: pl.INT64, out: pl.InOut[pl.Tensor]):\n    seen = []\n    '
    kernel, out = make_kernel(f"FIRST = (0,)\n{head}{body}"), np.zeros((1, 1))
    kernel(np.ones((5, 2)), 0, 1, out)
    assert out[0, 0] == 21.0


LISTS = """
@pl.jit
def kernel(x: pl.Tensor[[1, 16], pl.INT32], out: pl.InOut[pl.Tensor[[1, 16], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(x[0, 0], pl.INDEX)
        values = [1, 9, 5]
"""
HEADS = {
    "branch": ("if values[0] * n + values.pop(0) > 5:\n    out[0, 0] = 1\nelse:\n    out[0, values[1]] = 2", [(5, 2)]),
    "place": ("out[0, values.pop(0)] += pl.cast(n + values[0], pl.INT32)", [(1, 12)]),
}


@pytest.mark.parametrize(("body", "cells"), HEADS.values(), ids=HEADS)
def test_what_reads_a_list_and_changes_it_reads_it_first(body: str, cells: list[tuple[int, int]], make_kernel: MakeKernel) -> None:
    kernel, out = make_kernel(LISTS + textwrap.indent(body, " " * 8)), np.zeros((1, 16), np.int32)
    kernel(np.full((1, 16), 3, np.int32), out)
    want = np.zeros((1, 16), np.int32)
    for column, value in cells:
        want[0, column] = value
    np.testing.assert_array_equal(out, want)


def test_the_head_of_a_loop_of_the_run_changes_nothing(make_kernel: MakeKernel) -> None:
    kernel = make_kernel(LISTS + textwrap.indent("for i in pl.range(values[0] * n + values.pop(0)):\n    out[0, i] = 1", " " * 8))
    with pytest.raises(UnsupportedFeatureError, match="changes what it may read too"):
        kernel(np.full((1, 16), 3, np.int32), np.zeros((1, 16), np.int32))


def test_an_object_is_looked_for_among_keys_by_its_own_equality_or_not_at_all(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("class Key:\n    pass\nKEY = Key()\n" + LISTS + textwrap.indent("if KEY in {'a': n}:\n    out[0, 0] = 1", " " * 8))
    with pytest.raises(UncacheableValueError, match="KEY"):
        kernel(np.full((1, 16), 3, np.int32), np.zeros((1, 16), np.int32))


TARGETS = {
    "member between": ("l = [1, 2, 3]\na, l[0], b = l[0], n, l[0]", ["a", "b", "l[0]", "l[1]"]),
    "members of a dict": ("d = {'a': 1, 'b': n}\nd['a'], d['b'] = d['b'], d['a']", ["d['a']", "d['b']"]),
    "shift": ("w = [0, 1]\nw[0], w[1] = n, w[0]", ["w[0]", "w[1]"]),
    "star": ("a = 1\na, *b = n, a, 2", ["a", "b[0]", "b[1]"]),
    "object": ("a = 1\na, o, b = n, KEYS[1], a", ["a", "b", "o.number"]),
    "turn": ("w = [1, n, 3]\nw[0], w[1], w[2] = w[2], w[0], w[1]", ["w[0]", "w[1]", "w[2]"]),
    "nested": ("w = [1, 2]\n(w[0], a), w[1] = (n, w[1]), w[0]", ["w[0]", "a", "w[1]"]),
    "index bound first": ("w = [0, 1]\na, w[a] = 1, n", ["a", "w[0]", "w[1]"]),
}


@pytest.mark.parametrize(("body", "results"), TARGETS.values(), ids=TARGETS)
def test_all_is_read_before_anything_is_bound(body: str, results: list[str], make_kernel: MakeKernel) -> None:
    objects = "class Key:\n    number = 4\nKEYS = [Key(), Key()]\n"
    stored = "".join(f"\nout[0, {column}] = pl.cast({result}, pl.INT32)" for column, result in enumerate(results))
    kernel, out = make_kernel(objects + LISTS + textwrap.indent(body + stored, " " * 8)), np.zeros((1, 16), np.int32)
    kernel(np.full((1, 16), 3, np.int32), out)
    names: dict[str, Any] = {"n": 3}
    exec(objects + body, names)
    assert out[0, : len(results)].tolist() == [eval(result, names) for result in results]


COUNTED = """
@pl.jit.inline
def counted(values, n):
    return len(values) + n
@pl.jit.inline
def first(values):
    return values[0]
"""
HELPED = {
    "grown": ("l = [1, 2]\na = counted(l, n)\nl.append(3)\nb = counted([1, 2], n)", ["a", "b", "counted(l, n)"]),
    "turned": ("t = [[1], [2]]\np = first(t)\nt.reverse()\nu = [[1], [2]]\nq = first(u)", ["p[0]", "q[0]"]),
    "replaced": ("t = [[1], [2]]\np = first(t)\nt[0] = [7]\np[0] = 9\nu = [[1], [2]]\nq = first(u)", ["p[0]", "q[0]", "t[0][0]"]),
    "its own": ("t = [[1], [2]]\np = first(t)\nt[0] = [7]\nu = [[1], [2]]\nq = first(u)\nq[0] = 5", ["u[0][0]", "q[0]", "p[0]"]),
    "head of a loop": ("l = [2, 1]\nm = []\nfor i in pl.unroll(l.pop(0)):\n    m.append(i)", ["len(m)", "l[0] * n"]),
}


@pytest.mark.parametrize(("body", "results"), HELPED.values(), ids=HELPED)
def test_lists_that_helpers_were_given_may_change(body: str, results: list[str], make_kernel: MakeKernel) -> None:
    stored = "".join(f"\nout[0, {column}] = pl.cast({result}, pl.INT32)" for column, result in enumerate(results))
    kernel, out = make_kernel(COUNTED + LISTS + textwrap.indent(body + stored, " " * 8)), np.zeros((1, 16), np.int32)
    kernel(np.full((1, 16), 3, np.int32), out)
    names: dict[str, Any] = {"n": 3, "pl": SimpleNamespace(unroll=range)}
    exec(COUNTED.replace("@pl.jit.inline\n", "") + body, names)
    assert out[0, : len(results)].tolist() == [eval(result, names) for result in results]
