"""Lists, dicts and iterators that a kernel makes itself: they do what Python says, or are refused; nothing is lost without a word."""

from __future__ import annotations

import enum
import textwrap
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tests.jit.conftest import MakeKernel
from tilejit.errors import ParserTypeError, ShapeError, UnsupportedFeatureError

KERNEL = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
{body}
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + 1.0 * v
    return out
"""
AROUND = """
import heapq
import operator
import random
import numpy as np
SIZES, TABLE, ARRAY, RANDOM, STEPS = [4, 1, 3], {"a": 1, "b": 2}, np.array([3, 1]), random.Random(1), iter([1, 2, 3])
def copied(l): return [*l]
def made(n): return [n, n + 1, n + 2]
"""
HELPERS = """
@pl.jit.inline
def same(l):
    m = l
    return m
@pl.jit.inline
def twice(n):
    l = [n]
    return l, l
"""
X = np.zeros((1, 2), np.float32)


def result(body: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> float:
    monkeypatch.setenv("TILEJIT_PLATFORM", "reference")
    kernel = make_kernel(AROUND + HELPERS + KERNEL.replace("{body}", "".join(f"    {line}\n" for line in body.splitlines())))
    return float(kernel(X)[0, 0])  # which looks for the shape of the output too, by a walk of its own


SAME = [
    "l = [1, 2, 3]\nm = []\nfor q in l:\n    l[0] = 9\n    m.append(q)\nv = sum(m) * 100 + sum(l)",
    "l = [1, 2, 3]\nm = []\nfor q in [*l]:\n    l.pop()\n    m.append(q)\nv = sum(m) * 100 + len(l)",
    "l = [1, 2, 3]\nm = []\nfor q in l:\n    l = [9, 9, 9]\n    m.append(q)\nv = sum(m) * 100 + sum(l)",
    "l = [1, 2, 3]\nm = []\nfor q in (z for z in l):\n    l = [9, 9, 9]\n    m.append(q)\nv = sum(m) * 100 + sum(l)",
    "l = [1, 2, 3]\nv = 0\nfor i, q in enumerate(reversed(l)):\n    l.append(7)\n    l[2 - i] = 9\n    v = v * 10 + q",
    "l = [1, 2, 3]\nv = 0\nfor q in reversed(l):\n    l.pop()\n    v = v * 10 + q",
    "l = [1, 2, 3]\nm = [4]\nv = 0\nfor q in l or m:\n    m.append(q)\n    v = v * 10 + q",
    "l = [1, 2, 3]\nm = []\nn = [m.append(q) or q * 2 for q in l]\nv = sum(m) * 100 + sum(n)",
    "l = [1, 2, 3]\nn = [l.pop() for q in [*l]]\nv = n[0] * 100 + len(n)",
    "d = {'a': 1, 'b': 2}\nfor k in d:\n    d[k] = d[k] + 7\nv = sum(d.values())",
    "l = [3]\nb = l\nl += [2]\nv = sum(b)",
    "l = [3]\nb = l\nb.append(2)\nv = sum(l)",
    "a, *rest = [1, 2, 3]\nv = a + (10 if rest == [2, 3] else 20) + (100 if type(rest) is list else 200)",
    "a, *rest = (1, 2, 3)\nm = rest\nm.append(4)\nv = sum(rest + [a])",
    "*rest, a = [4, 5, x]\nrest += [6]\nv = sum(rest)",
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
    "l = [3]\nb = l\nl *= 2\nv = sum(b)",
    "l = [3]\nfor i in pl.unroll(2):\n    l *= 2\nv = sum(l)",
    "l = [3]\nl *= 0\nl.append(2)\nv = sum(l)",
    "l = [1, 2]\nm = [5]\nm += [l.pop()]\nv = sum(m) * 10 + len(l)",
    "l = [1]\nm = l\nm.append(2)\nw = l is m\nv = (3 if l is m else 4) + (10 if w else 20)",
    "l = [1, 2]\na = [l, l]\na[0].append(4)\nv = sum(a[1]) + (10 if a[0] is a[1] else 20)",
    "l = [1]\nd = {}\nv = (3 if isinstance(l, list) else 4) + (10 if isinstance(d, dict) else 20)",
    "l = []\nif l:\n    l.remove(l[0])\nn = 4\nv = abs(-3 if n > 0 else l[2]) if n else 7",
    "l = [1, 2]\nv = l.pop() + l[-1]",
    "l = [5, 3, 1, 2]\nw = l.pop() + l.pop()\nv = w * 10 + len(l)",
    "l = [1, 2, 3]\nm = []\nfor i in pl.unroll(l.pop()):\n    m.append(i)\nv = len(m) * 10 + len(l)",
    "l = [9, 3, 2, 1]\nf = f'{l.pop()}' + f'{l.pop()}'\nv = int(f) * 10 + len(l)",
    "l = [3, 2, 8]\nv = l.pop().bit_length() * 10 + len(l)",
    "l = [3, 2, 8]\nv = getattr(l, 'pop')() * 10 + len(l)",
    "l = [3, 2, 8]\nv = (5 if 1 < 0 < l.pop() else 6) + len(l)",
    "l = [[1, 2, 3], [4]]\nm = [b for a, *b in l]\nv = 0\nfor a, (*b, c) in [(1, l[0]), (2, l[1])]:\n    v = v * 10 + len(b) * a + c + len(m)",
    "l = [[1], 2]\nm = dict(k=l)\nm['k'].append(2)\ne = dict(m)\ne['k'][0].append(3)\nv = len(l) * 10 + len(l[0])",
    "l = [1, 2, 3]\nl[0], l[2] = l[2], l[0]\nl[1:2] = [5, 6]\nl[0] += 4\ndel l[-1]\nv = l[0] * 100 + l[1] * 10 + l[2] + len(l)",
    "d = {}\nfor i in pl.unroll(3):\n    d[i] = [i]\ne = d\ne[1] += [7]\ndel e[0]\nv = len(d) * 100 + sum(d[1]) * 10 + len(e)",
    "i = 0\nl = [5, 6]\ni, l[i] = 1, 7\na = l[0] = 4\nv = l[0] * 10 + l[1] + i + a",
    "l = [3, 1, 2]\nfor i, y in enumerate(l):\n    l[i] = y * 2\nd = {'a': 1, 'b': 2}\nfor k, w in d.items():\n    d[k] = w + sum(l)\nv = sum(d.values())",
    "l = [[0] * 2 for i in (1, 2)]\nl[0][1] = 5\nm = [[0] * 2] * 2\nm[0][1] = 7\nv = sum(l[1]) * 10 + sum(m[1])",
    "m = list(SIZES)\nm.append(7)\nm.append(7)\nn = sorted(SIZES)\np = n.pop() * 10 + n.pop()\nv = len(m) * 100 + p + len(n)",
    "m = SIZES[1:]\nn = len(m)\nm.append(5)\nk = SIZES + [1]\nfor i in pl.unroll(3):\n    k.append(0)\nv = n * 100 + len(m) * 10 + len(k) + len(SIZES)",
    "d = TABLE.copy()\nn = len(d)\nd.pop('a')\ne = dict(TABLE)\ne['c'] = 4\nv = n * 100 + len(d) * 10 + len(e) + len(TABLE)",
    "l = [1]\nl.extend(SIZES)\nl.extend(made(2))\nd = {}\nd.update(TABLE)\nw = 'a b'.split()\nw.append('c')\nv = len(l) * 100 + len(w) * 10 + len(d)",
    "m = list(made(3))\np = m.pop()\nq = m.pop()\nv = p * 10 + q + len([t for t in [*SIZES, 5]])",
    "a = {i for i in (1, 2)}\nb = {2, 1}\nc = b\nc |= {3}\nv = (10 if a == {2, 1} else 0) + (1 if a <= b else 2) + sum({*b, 9}) * 10",
    "a = {1}\nv = 3 if isinstance(a, set) else 4",
    "n = float('nan')\na = {n, 1.0}\nv = len(a | {2.0}) * 100 + (10 if 1.0 in a else 20) + max([1.0, n]) + sum({2, 3}, 1) + max({5, 7})",
    "a = set(SIZES)\nn = len(a)\na.add(9)\na.discard(1)\nv = n * 10 + len(a) + max(a) + sum(i for i in a)",
    "t = 0\nfor i in pl.unroll(3):\n    t = t + abs(i)\nv = t * 10 + i",
    "l = [1]\nd = {'a': x, 'b': l}\nl.append(3)\nv = len(d['b'])",
    "l = [1]\nm = same(l)\nm.append(2)\na, b = twice(3)\na.append(2)\nv = len(l) * 10 + len(b)",
    "n = 3\nn -= 1\nn **= 3\ns = 'a'\ns += 'b' * n\nt = (1,)\nt += (2,)\nv = len(s) * 10 + len(t)",
    "a, b, c = {3, 1, 2}\ns = {5, 4}\nd, e = s\nv = a * 10000 + b * 1000 + c * 100 + d * 10 + e",
    "a, b = range(1, 3)\nr = range(3)\nc, *d = r\nv = a * 100 + b * 10 + sum(d) + c",
    "(a, b), c = {4: 1, 5: 2}, 3\nd = {'p': x, 'q': 7}\np, q = d\ne, f = TABLE\nv = a * 100 + b * 10 + c + (1 if p + q + e + f == 'pqab' else 0)",
    "a, b, c = '312'\nd, e = TABLE.values()\n[(k, w), z] = TABLE.items()\nv = int(a) * 100 + int(b) * 10 + int(c) + d + e + w + z[1]",
    "l = [*(1, 2), *{'a': 3}.values(), 4]\nd = {**{'a': 1, 'b': 2}, 'a': 5}\nv = sum(l) * 10 + sum(d.values()) + dict(**d, c=4)['c']",
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
    exec(AROUND + HELPERS.replace("@pl.jit.inline\n", "") + body.replace("pl.unroll", "range"), names)
    assert result(body, make_kernel, monkeypatch) == float(names["v"])


OVER = [
    ("(l if len(m) == 2 else m)", 2), ("l or m", 2), ("m and l", 2), ("same(l)", 2), ("(m, l)[1]", 2), ("d.get('a')", 2), ("d.pop('a')", 2), ("min([l])", 2),
    ("(z for z in l)", 2), ("(z for z in l if z != 7)", 2), ("(z for z in reversed(l))", 0), ("(z for z in l for y in m)", 2),
]  # fmt: skip
"""A list by other ways than its name, with the place of a member that is still to come."""
PAIRED = ["enumerate(reversed(l))", "zip((1, 2, 3), reversed(l))", "enumerate(z for z in reversed(l))"]
CHANGING = ["[l.pop() for q in l]", "[l.append(q) for q in l if len(l) < 6]", "[d.update(b=7) or q for q in d.values()]", "{q: l.pop(0) for q in enumerate(l)}"]
REFUSED = [
    ("it = iter([1, 3, 5])\na = next(it)\nb = next(it)\nv = a * 10 + b", "is an iterator"),
    ("z = zip([1, 3], [2, 3])\nv = len(list(z)) * 10 + len(list(z))", "is an iterator"),
    ("z = (i for i in [1, 3])\nv = sum(z) * 10 + sum(z)", "is an iterator"),
    ("a, b = 1, map(abs, (1, 2))\nv = sum(b)", "is an iterator"),
    ("l = [x]\nl *= 2\nv = len(l)", "in place"),
    ("l = [1, 2]\nfor i in l:\n    if len(l) < 5:\n        l.append(i)\nv = len(l)", "changes while it is looped over"),
    ("l = []\nfor i in pl.range(3):\n    l.append(1)\nv = len(l)", "known only at run time"),
    ("l = []\nfor i in pl.range(3):\n    b = l\n    b += [1]\nv = len(l)", "known only at run time"),
    ("l = []\nif pl.read(x, [0, 0]) > 0.0:\n    l.append(1)\nv = len(l)", "known only at run time"),
    ("l = []\nfor i in pl.range(3):\n    l *= 2\nv = len(l)", "in place"),
    ("a = b = []\na.append(x)\nv = len(b)", "what only the run knows"),
    ("a = []\nb = a\na.append(x)\nv = len(b)", "what only the run knows"),
    ("a = [1]\nb = [a]\na.append(x)\nv = len(b[0])", "what only the run knows"),
    ("a = [1]\nb = [a]\nb.append(x)\na.append(3)\nv = len(b[0])", "what only the run knows"),
    ("a = []\np = [x]\na.append(p)\np.append(x)\nv = len(a[0])", "what only the run knows"),
    ("a = [x]\nfor y in a:\n    if len(a) < 4:\n        a.append(y)\nv = len(a)", "what only the run knows"),
    ("a = [x]\nfor i, y in enumerate(a):\n    if i < 3:\n        a.append(y)\nv = len(a)", "what only the run knows"),
    ("a = [x]\na.append(x)\nb = a.pop()\nv = len(a)", "what only the run knows"),
    ("a = [x]\nif pl.read(x, [0, 0]) > 0.0:\n    a.append(x)\nv = len(a)", "what only the run knows"),
    ("if pl.read(x, [0, 0]) > 0.0:\n    a = []\nelse:\n    a = []\nfor i in pl.range(3):\n    a.append(x)\nv = len(a)", "what only the run knows"),
    ("l = []\nfor i in pl.range(3):\n    l.append(i)\nv = len(l)", "what only the run knows"),
    ("l = [1, 2]\nwhile l.pop() > 1:\n    v = 1\nv = 2", "known only at run time"),
    ("l = [1]\nlist.append(l, 3)\nv = sum(l)", "changes a list that the kernel made"),
    ("l = [3, 1]\nfor i, y in enumerate(l):\n    if i < 3:\n        l.append(y)\nv = sum(l)", "changes while it is looped over"),
    ("l = [3, 1]\nfor i, y in enumerate(l):\n    l[1] = y + 7\nv = sum(l)", "changes while it is looped over"),
    *(
        (f"l = [1, 2, 3]\nm = [4, 5]\nd = {{'a': l}}\nv = 0\nfor q in {over}:\n    l[{at}] = 9\n    v = v + q", "changes while it is looped over")
        for over, at in OVER
    ),
    *((f"l = [1, 2, x]\nv = 0\nfor i, q in {over}:\n    l[0] = 9\n    v = v + i", "changes while it is looped over") for over in PAIRED),
    *((f"l = [1, 2, 3]\nv = 0\nfor i, q in {over}:\n    l[0] = 9\n    v = v + q", "changes while it is looped over") for over in PAIRED),
    ("d = {'a': 1, 'b': 2}\nv = 0\nfor i, q in enumerate(reversed(d.values())):\n    d['a'] = 9\n    v = v + q", "changes while it is looped over"),
    ("d = {'a': 1, 'b': 2}\nv = 0\nfor q in reversed(d):\n    d[q + q] = 9\n    v = v + 1", "changes while it is looped over"),
    ("d = {'a': 1}\nv = 0\nfor q in d:\n    del d[q]\n    v = v + 1", "changes while it is looped over"),
    *((f"l = [1, 2, 3]\nd = {{'a': 1, 'b': 2}}\nv = len({made})", "changes while it is looped over") for made in CHANGING),
    ("l = [3, 1]\nc = copied(l)\nl.append(4)\nv = len(c)", "that `copied` was given a copy of"),
    ("m = made(3)\np = m.pop()\nv = p", "changes a list of Python's"),
    ("SIZES.append(3)\nv = 1", "changes a list of Python's"),
    ("v = TABLE.pop('a')", "changes a dict of Python's"),
    ("list.append(SIZES, 3)\nv = 1", "changes a list of Python's"),
    ("dict.__setitem__(TABLE, 'a', 3)\nv = 1", "changes a dict of Python's"),
    ("operator.setitem(SIZES, 0, 3)\nv = 1", "changes a list of Python's"),
    ("v = len(operator.iadd(SIZES, [3]))", "changes a list of Python's"),
    ("heapq.heappush(SIZES, 3)\nv = 1", "changes a list of Python's"),
    ("np.copyto(ARRAY, 3)\nv = 1", "changes a ndarray of Python's"),
    ("setattr(TABLE, 'a', 3)\nv = 1", "changes a dict of Python's"),
    ("ARRAY.sort()\nv = 1", "changes a ndarray of Python's"),
    ("v = RANDOM.random()", "changes a Random of Python's"),
    ("a = next(STEPS)\nv = next(STEPS)", "changes a list_iterator of Python's"),
    ("s = {'a', 'b'}\nv = 0\nfor k in s:\n    v = v + 1", "is another one in each process"),
    *(
        (f"s = {{'aa', 'bb'}}\nl = [1]\nv = {{'aa': 1, 'bb': 2}}[{first}]", "is another one in each process")
        for first in ("list(s)[0]", "max(s, key=len)", "sorted(s, key=len)[0]", "s.pop()", "('%s' % s)[2:4]", "f'{s}'[2:4]", "str([s])[3:5]")
    ),
    *(
        (f"n = float('nan')\ns = {{n, 1.0, 2.0}}\nt = {{(n, 1.0), (1.0, n)}}\nv = 0\n{line}", "is another one in each process")
        for line in (
            "for k in s:\n    v = v + 1", "v = len([q for q in s])", "v = len([*s])", "a, b, c = s", "v = len(list(s))", "v = len(str(s))", "v = s.pop()",
            "v = sorted(s)[0]", "v = min(s)", "v = max(s)", "v = len(max(t))", "v = len(f'{(1, s)}')", "for k in t:\n    v = v + 1", "v = sum(s, 0.0)",
        )
    ),
    ("v = len(sum({('a',), ('b',)}, ()))", "is another one in each process"),
    ("l = [1, 2]\nl[0:1] = {'aa', 'bb'}\nv = len(l)", "is another one in each process"),
    ("l = [1, 2]\nl += {'aa', 'bb'}\nv = len(l)", "is another one in each process"),
    ("l = [1]\nm = [1]\na = l\nif pl.read(x, [0, 0]) > 0.0:\n    a = m\na.append(3)\nv = len(m)", "only the run knows"),
    ("r = (1, 2)\nif pl.read(x, [0, 0]) > 0.0:\n    r = SIZES\nv = len(r)", "on some ways of the run"),
    ("r = [1, 2]\nfor i in pl.range(2):\n    r = SIZES\nv = len(r)", "on some ways of the run"),
    ("r = 1\nr = SIZES\nif pl.read(x, [0, 0]) > 0.0:\n    r = 5\nv = r", "on some ways of the run"),
    ("d = {'a': x}\ne = d\ne['a'] = x\nv = 1", "what only the run knows"),
    ("d = {'a': x}\nfor i in pl.range(3):\n    d['a'] = d['a'] + x\nv = 1", "what only the run knows"),
    ("d = {'a': x}\nfor k in d:\n    d['b'] = x\nv = 1", "changes while it is looped over"),
    ("s = pl.read(x, [0, 0]) > 0.0\nv = 3 if s is True else 4", "`is` of what only the run knows"),
]


@pytest.mark.parametrize(("body", "said"), REFUSED)
def test_what_would_be_lost_is_refused(body: str, said: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedFeatureError, match=said) as caught:
        result(body, make_kernel, monkeypatch)
    assert caught.value.span is not None and caught.value.hint and "UnsupportedFeatureError" in type(caught.value).__name__


TILES = [
    "t = []\nfor i in pl.unroll(3):\n    t.append(x * float(i + 1))\nv = t[0] + t[2] * float(len(t))",
    "t = [x]\nfor i in (1, 2):\n    t += [x * float(i), 2.0]\nv = t[1] * t[2] + t[-2] * float(len(t))",
    "t = [1.0, 2.0]\nt.insert(1, x)\nt.insert(0, x * 2.0)\nt.insert(-1, x * 5.0)\nv = t[2] * 7.0 + t[0] + t[3]",
    "t = []\nt.extend([x, x * 2.0])\nt.extend(x * float(k) for k in (3, 4))\nt.extend((1.0, 2.0))\nv = t[0] + t[1] * t[3] + t[5] + float(len(t))",
    "t = []\nt.append(x)\nx = x * 2.0\nt.append(x)\nu = [y * 3.0 for y in t]\nv = u[0] + u[1] * t[0]",
    "v = x\nfor k in pl.range(2):\n    t = []\n    for i in pl.unroll(3):\n        t.append(v * float(i + 1))\n    v = t[0] + t[2]",
    "t = []\nfor i in pl.unroll(2):\n    t.append(x)\n    if len(t) == 2:\n        t.append(x * 9.0)\nv = t[2]",
    "d = {}\nfor i in pl.unroll(3):\n    d[i] = x * float(i + 1)\nd[1] += d[2]\nv = d[0] + d[1] * float(len(d))",
    "d = {k: x * float(i) for i, k in enumerate('abc')}\nd['n'] = 3\ndel d['a']\nv = d.get('c') * float(d['n'] + len(d)) + d.get('z', x)",
    "d = {'a': x, 'b': x * 2.0}\nfor k, w in d.items():\n    d[k] = w * 7.0\nv = d['b'] if 'b' in d else x\nfor w in d.values():\n    v = v + w",
    "d = {'a': x}\ne = {**d, 'b': x * 2.0}\nv = e['a'] + e['b']",
    "t = [x, x * 2.0]\nt[0], t[1] = t[1] * 5.0, t[0]\nt[0] += x\ndel t[1]\nv = t[0] * float(len(t))",
    "t = [x, x * 2.0]\nfor i, y in enumerate(t):\n    t[i] = y * 3.0\nv = t[0] + t[1] * 7.0",
    "v = x\nfor i, t in enumerate(two(x)):\n    v = v * 3.0 + t * float(i + 1)\nfor a, b in zip(two(x), two(v)):\n    v = v + a * b",
    "l = [t * 2.0 for t in two(x)]\nm = [*two(x), x]\na, *b = two(x)\nc = list(two(x))\nd = dict(a=x, b=x * 3.0)\nv = l[1] + m[2] * b[0] + c[1] * d['b']",
    "a = x * 1.0\nb = x * 2.0\na, *c = b, a\nv = a * 3.0 + c[0]",
    "m = [1.0, 2.0]\nt = [*two(x)]\nt.append(x * m.pop())\nv = t[1] + t[2] * float(len(m))",
]


@pytest.mark.parametrize("body", TILES)
def test_a_list_takes_tiles(body: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PLATFORM", "reference")
    helper = "@pl.jit.inline\ndef two(t: pl.Tensor):\n    r = [t]\n    r.append(t * 2.0)\n    return r\n"
    text = KERNEL.replace("{body}", "".join(f"    {line}\n" for line in body.splitlines())).replace("x + 1.0 * v", "v")
    x = np.random.default_rng(len(body)).standard_normal((3, 5)).astype(np.float32)
    names: dict[str, Any] = {"x": x, "two": lambda t: [t, t * 2]}
    exec(body.replace("pl.unroll", "range").replace("pl.range", "range"), names)
    out = np.full_like(x, np.nan)
    make_kernel(helper + text)(x, out)
    np.testing.assert_allclose(out, names["v"], rtol=1e-5)


def test_too_few_for_the_names_around_a_star(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ShapeError, match="has 1 members, this names 2 or more"):
        result("a, *b, c = [1]\nv = a", make_kernel, monkeypatch)


def test_a_helper_cannot_change_a_list_of_its_caller(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PLATFORM", "reference")
    helper = "@pl.jit.inline\ndef helper(t: pl.Tensor, l):\n    l.append(3)\n    return t + float(sum(l))\n"
    kernel = make_kernel(helper + KERNEL.replace("{body}", "    l = [1]\n    t = helper(x, l)\n    v = len(l)\n"))
    with pytest.raises(UnsupportedFeatureError, match="of the caller"):
        kernel(X, X.copy())


class Mode(enum.Enum):
    FAST = 1
    EXACT = 2


MODE, SIZE = Mode.EXACT, 3
FACTORS = {Mode.FAST: 1.0, Mode.EXACT: 2.0}


def third(table: dict[int, float]) -> float:
    return table[3]


def test_keys_of_dicts_that_a_kernel_makes() -> None:
    @pl.jit
    def read_before(x: pl.Tensor):
        return x + third({SIZE: 5.0})

    @pl.jit
    def outside(x: pl.Tensor):
        return x + FACTORS[MODE]

    @pl.jit
    def made_here(x: pl.Tensor):
        return x + {Mode.FAST: 1.0, Mode.EXACT: 2.0}[MODE]

    @pl.jit
    def comprehended(x: pl.Tensor):
        return x + {mode: i + 2.0 for i, mode in enumerate(Mode)}[MODE]

    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    for _ in range(3):
        np.testing.assert_array_equal(read_before(x), x + 5)
        np.testing.assert_array_equal(outside(x), x + 2)
    for kernel in (made_here, comprehended):
        with pytest.raises(UnsupportedFeatureError, match="objects of Python as keys"):
            kernel(x)


def test_a_name_of_a_loop_is_each_member_in_its_turn() -> None:
    @pl.jit
    def total(x: pl.Tensor, members: Any, out: pl.Out[pl.Tensor]):
        y = x
        for t in members:
            y = y * 10.0 + t
        out[:] = y

    @pl.jit
    def inner(x: pl.Tensor, c: Any, out: pl.Out[pl.Tensor]):
        y = x * 1.0
        d = c["q"]
        for k, v in d.items():
            y = y * 10.0 + v * float(len(k))
        for layer in c["layers"]:
            for t in layer["ws"]:
                y = y * 10.0 + t * float(layer["n"])
        out[:] = y

    x = np.ones((1, 2), np.float32)
    assert total(x, [1, x * 8])[0, 0] == 118 and total(x, (2.0, x, x * 9, 3))[0, 0] == 12193
    assert inner(x, {"q": {"a": x * 2, "bb": x * 3}, "layers": [{"ws": [x, x * 2], "n": 2}]})[0, 0] == ((1 * 10 + 2) * 10 + 6) * 100 + 24


def test_a_parameter_is_a_binding_too() -> None:
    @pl.jit(runtime_scalars=("s",))
    def branch(x: pl.Tensor, s: pl.INT64, n: pl.INT64, out: pl.Out[pl.Tensor]):
        if s > 0:
            n = x.shape[1]
        out[:] = x + pl.cast(n, pl.FP64)

    @pl.jit
    def turns(x: pl.Tensor, n: pl.INT64, out: pl.Out[pl.Tensor]):
        y = x
        for _ in pl.range(2):
            y = y * 10.0 + pl.cast(n, pl.FP64)
            n = x.shape[1]
        for n in pl.unroll(3):
            y = y + float(abs(-n))
        out[:] = y * 10.0 + pl.cast(n, pl.FP64)

    x = np.zeros((1, 4))
    assert [branch(x, s, 7)[0, 0] for s in (-1, 1)] == [7, 4]
    assert turns(x, 7)[0, 0] == (74 + 3) * 10 + 2


class Layer:
    def __init__(self, n: int) -> None:
        self.n = n
        self.next: Layer = self


FIRST, LAST = Layer(5), Layer(6)
FIRST.next, LAST.next = LAST, FIRST
OBJECTS = [
    "t = (x, FIRST)\ny = t[0] + float(t[1].n)",
    "d = {'x': x, 'c': LAST}\ny = d['x'] * float(d['c'].n)\nfor k, v in d.items():\n    if k == 'c':\n        y = y + float(v.n)",
    "t = [(x, FIRST), (y, LAST)]\nfor p in t:\n    y = y * float(p[1].n) + p[0]",
    "for p in [(x, FIRST), (y + 1.0, LAST)]:\n    y = y * float(p[1].n) + p[0]",
    "t = [x]\nt.append(y * 2.0)\nu = [*t, FIRST]\ny = u[1] + float(u[2].n)",
    "t = (x, (y, FIRST))\na, (b, c) = t\ny = a + b * float(c.n) + float(t[1][1].n)",
    "t = (x, FIRST)\nu = t\ny = scaled(u) + scaled((y, t[1].next)) + same(t)[0] * float(same(t)[1].n)",
    "c = FIRST\nfor i in pl.unroll(3):\n    y = y * 10.0 + float(c.n)\n    c = c.next",
    "c = FIRST\nfor i in pl.unroll(2):\n    for j in pl.unroll(2):\n        y = y * 2.0 + float(c.n)\n        c = c.next\n    c = c.next",
    "t = (x, FIRST)\nfor i in pl.range(2):\n    y = y + t[0] * float(t[1].n)",
    "l = [FIRST, x]\nl[1] = y * 3.0\ny = l[1] + float(l[0].n)",
    "t, u = (x, FIRST), (y, LAST)\nt, u = u, t\ny = t[0] * float(t[1].n) + u[0] * float(u[1].n)",
    "l, m = [1], [1]\ny = y + float(alike(l, l) * 1000 + alike(l, m) * 100 + alike(m, l) * 10 + alike([l][0], l))",
    "d, e = {'a': 1}, {'a': 1}\ny = y + float(alike(d, d) * 100 + alike(d, e) * 10 + alike((d,)[0], d))",
]
WITH_OBJECTS = """
@pl.jit.inline
def scaled(t): return t[0] * float(t[1].n)
@pl.jit.inline
def same(t): return t
@pl.jit.inline
def alike(a, b): return 1 if a is b else 2
"""


def test_objects_lie_in_containers_beside_tensors(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PLATFORM", "reference")
    functions = [f"@pl.jit.inline\ndef body_{k}(x):\n    y = x + 1.0\n{textwrap.indent(body, '    ')}\n    return y\n" for k, body in enumerate(OBJECTS)]
    writes = [f"    out[{2 * k}:{2 * k + 2}, :] = body_{k}(x)\n" for k in range(len(OBJECTS))]
    kernel = "@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n" + "".join(writes)
    x = np.random.default_rng(1).standard_normal((2, 3))
    found = make_kernel(WITH_OBJECTS + "".join(functions) + kernel, FIRST=FIRST, LAST=LAST)(x)
    for k, body in enumerate(OBJECTS):
        names: dict[str, Any] = {"x": x, "y": x + 1.0, "FIRST": FIRST, "LAST": LAST}
        exec((WITH_OBJECTS + body).replace("@pl.jit.inline", "").replace("pl.unroll", "range").replace("pl.range", "range"), names)
        np.testing.assert_allclose(found[2 * k : 2 * k + 2], names["y"], err_msg=body)


UNDECIDED = [
    ("c = FIRST\nfor i in pl.range(2):\n    v = c.n\n    c = LAST", "known only at run time"),
    ("c = FIRST\nif pl.read(x, [0, 0]) > 0.0:\n    c = LAST\nv = c.n", "known only at run time"),
    ("t = (x, FIRST)\nif pl.read(x, [0, 0]) > 0.0:\n    t = (x, LAST)\nv = t[1].n", "known only at run time"),
    ("v = picked(x)[1].n", "which object of Python `picked` returns here"),
    ("l = [x]\nm = [x]\nv = alike(l, m)", "was taken apart where it was passed"),
]


@pytest.mark.parametrize(("body", "said"), UNDECIDED)
def test_which_object_it_is_is_known_while_compiling(body: str, said: str, make_kernel: MakeKernel) -> None:
    picked = "@pl.jit.inline\ndef picked(t):\n    if pl.read(t, [0, 0]) > 0.0:\n        return t, FIRST\n    return t, LAST\n"
    text = WITH_OBJECTS + picked + KERNEL.replace("{body}", textwrap.indent(body, "    ") + "\n")
    with pytest.raises(UnsupportedFeatureError, match=said):
        make_kernel(text, FIRST=FIRST, LAST=LAST)(X)


def test_a_tuple_for_a_named_tuple_is_refused_in_words_of_the_caller(make_kernel: MakeKernel) -> None:
    """The message had the text of the IR in it."""
    kernel = make_kernel("@pl.jit\ndef kernel(x: pl.Tensor, layer, out: pl.Out[pl.Tensor]):\n    out[:] = x * layer.w\n")
    with pytest.raises(ParserTypeError, match=r"`layer\.w`: a tuple or list has no `w`") as caught:
        kernel(X, (X, X))
    assert "BlockArgument" not in str(caught.value) and "layer[0]" in (caught.value.hint or "")
