"""Lists, dicts and iterators that a kernel makes itself: they do what Python says, or are refused; nothing is lost without a word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tilejit.errors import ShapeError, UnsupportedFeatureError

KERNEL = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
{body}
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + float(v)
    return out
"""
X = np.zeros((1, 2), np.float32)


def result(body: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> float:
    monkeypatch.setenv("TILEJIT_PLATFORM", "reference")
    kernel = make_kernel(KERNEL.replace("{body}", "".join(f"    {line}\n" for line in body.splitlines())))
    out = np.full_like(X, np.nan)
    kernel(X, out)
    return float(out[0, 0])


SAME = [
    "l = [3]\nb = l\nl += [2]\nv = sum(b)",
    "l = [3]\nb = l\nb.append(2)\nv = sum(l)",
    "l = [1]\nm = list(l)\nm += [4]\nv = sum(l) * 100 + sum(m)",
    "d = {'a': 1}\ne = d\nd |= {'a': 3}\nv = e['a']",
    "l = []\nfor i in pl.unroll(3):\n    l.append(i)\nv = sum(l) * 10 + len(l)",
    "l = []\nfor i in pl.unroll(3):\n    l += [i, 1]\nv = sum(l) * 10 + len(l)",
    "l = []\nfor i in (1, 2, 3):\n    l.append(i)\nv = sum(l)",
    "n = 3\nl = [1, 2]\nif n > 2:\n    l.append(4)\nelse:\n    l.append(5)\nv = sum(l)",
    "v = 0\nfor i in pl.unroll(2):\n    l = []\n    l.append(i + 1)\n    v = v + sum(l)",
    "l = [3, 1]\nl.extend(i * 2 for i in (1, 2))\nv = sum(l)",
    "l = []\nfor i in pl.unroll(3):\n    l = [*l, x]\nv = len(l)",
    "a, *b = [1, 2, 3]\nv = a * 10 + sum(b)",
    "*a, b = (1, 2, 3)\nv = sum(a) * 10 + b",
    "a, *b, c = [1, 2]\nv = a * 10 + len(b) + c",
    "a, (b, *c) = 1, (2, 3, 4)\nv = sum(c) * 100 + a * 10 + b",
    "a, *b = x, 1, 2\nv = b[1] * 10 + len(b)",
]

CHANGES = {
    "d = {'a': 1}": ["d.update({'b': N})", "d.update(b=N)", "z = d.setdefault('b', N)", "d.pop('a')", "d.clear()", "d |= {'b': N}"],
    "l = [1]": ["l.append(N)", "l.extend([N])", "l.insert(0, N)", "z = l.pop()", "l.clear()", "l += [N]", "if l.pop() == 1:\n    l.append(N)"],
}
READS = {
    "d = {'a': 1}": [
        "5 if 'b' in d else 6", "len(d) * 10 + sum(d.values())", "5 if d == {'a': 1} else 6", "d['b'] if 'b' in d else 7",
        "len(e) * 10 + (5 if 'b' in e else 6)",
    ],
    "l = [1]": [
        "5 if 3 in l else 6", "len(l) * 10 + sum(l)", "5 if l == [1] else 6", "l[-1] if l else 8", "l[0] if len(l) > 0 else 8", "5 if e and 3 in e else len(e)",
    ],
}  # fmt: skip
CHANGED = [
    f"N = 3\n{start}\ne = {start[0]}\n{change}\nv = {read}"
    for start, changes in CHANGES.items() for row, change in enumerate(changes) for place, read in enumerate(READS[start]) if (row + place) % 2
]  # fmt: skip


@pytest.mark.parametrize("body", [*SAME, *CHANGED])
def test_containers_do_what_python_says(body: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {"x": X}
    exec(body.replace("pl.unroll", "range"), names)
    assert result(body, make_kernel, monkeypatch) == float(names["v"])


REFUSED = [
    ("it = iter([1, 3, 5])\na = next(it)\nb = next(it)\nv = a * 10 + b", "is an iterator"),
    ("z = zip([1, 3], [2, 3])\nv = len(list(z)) * 10 + len(list(z))", "is an iterator"),
    ("z = (i for i in [1, 3])\nv = sum(z) * 10 + sum(z)", "is an iterator"),
    ("a, b = 1, map(abs, (1, 2))\nv = sum(b)", "is an iterator"),
    ("l = [3]\nl *= 2\nv = sum(l)", "in place"),
    ("l = [1, 2]\nfor i in l:\n    if len(l) < 5:\n        l.append(i)\nv = len(l)", "changes while it is looped over"),
    ("l = []\nfor i in pl.range(3):\n    l.append(1)\nv = len(l)", "known only at run time"),
    ("l = []\nfor i in pl.range(3):\n    b = l\n    b += [1]\nv = len(l)", "known only at run time"),
    ("l = []\nif pl.read(x, [0, 0]) > 0.0:\n    l.append(1)\nv = len(l)", "known only at run time"),
    ("l = []\nl.append(x)\nv = len(l)", "what only the run knows"),
    ("l = []\nfor i in pl.range(3):\n    l.append(i)\nv = len(l)", "what only the run knows"),
    ("l = [1, 2]\nwhile l.pop() > 1:\n    v = 1\nv = 2", "known only at run time"),
    ("l = [1]\nlist.append(l, 3)\nv = sum(l)", "changes a list that the kernel made"),
]


@pytest.mark.parametrize(("body", "said"), REFUSED)
def test_what_would_be_lost_is_refused(body: str, said: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedFeatureError, match=said) as caught:
        result(body, make_kernel, monkeypatch)
    assert caught.value.span is not None and caught.value.hint and "UnsupportedFeatureError" in type(caught.value).__name__


def test_too_few_for_the_names_around_a_star(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ShapeError, match="has 1 members, this names 2 or more"):
        result("a, *b, c = [1]\nv = a", make_kernel, monkeypatch)


def test_a_helper_cannot_change_a_list_of_its_caller(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PLATFORM", "reference")
    helper = "@pl.jit.inline\ndef helper(t: pl.Tensor, l):\n    l.append(3)\n    return t + float(sum(l))\n"
    kernel = make_kernel(helper + KERNEL.replace("{body}", "    l = [1]\n    t = helper(x, l)\n    v = len(l)\n"))
    with pytest.raises(UnsupportedFeatureError, match="of the caller"):
        kernel(X, X.copy())
