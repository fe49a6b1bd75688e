"""Containers and texts with values that only the run knows: what Python would answer of them while compiling is refused, or right whatever the run says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tilejit.errors import UnsupportedFeatureError

KERNEL = """
TABLE = {"a": 1, "b": 2}
def host(table, add=0): return (table["a"] == 3) + add
@pl.jit
def kernel(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        rt = pl.cast(x[0, 2], pl.INDEX)
        l, m = [rt, 1, 3], {"a": rt, "b": 3}
{body}
"""


def result(body: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("TILEJIT_PLATFORM", "reference")
    kernel = make_kernel(KERNEL.replace("{body}", "".join(f"        {line}\n" for line in body.splitlines())))
    out = np.zeros((1, 4), np.int32)
    kernel(np.array([[1, 2, 3, 4]], np.int32), out)
    return int(out[0, 0])


MEMBERS = [
    "v = l.count(3)",
    "v = l.index(3)",
    "v = l.__contains__(3)",
    "count = l.count\nv = count(3)",
    "v = host(m)",
    "v = host(*[m, 1])",
    "v = tuple(l).count(3)",
    "v = [*l, 3].count(3)",
    "l.sort()\nv = 1",
    "for i in pl.range(3):\n    l = [2, 4, 1]\nv = l.count(1)",
    "t = (1, 1)\nfor i in pl.range(rt):\n    t = (t[0] + 1, 1)\nv = t.count(1)",
    "t = (1, 2)\nif rt > 2:\n    t = (3, 2)\nv = t.count(3)",
    "v = [[rt, 1], [3, 1]].count([3, 1])",
    "v = [{'a': rt}, {'a': 3}].index({'a': 3})",
    "v = list(m.values()).count(3)",
    "v = len({rt: 1, 3: 2})",
    "v = len({(rt, 1): 1, (3, 1): 2})",
    "v = len(str(m))",
    "v = len('%s' % m)",
    "v = 1 if '%(a)s' % m == '3' else 2",
    "v = 1 if m == {'a': 3, 'b': 3} else 2",
    "v = 1 if m != {'a': 3, 'b': 3} else 2",
    "v = 1 if {'a': rt} != {'a': rt + 0} else 2",
    "v = 1 if [m] == [{'a': 3, 'b': 3}] else 2",
    "v = 1 if {'a': [rt]} == {'a': [3]} else 2",
    "v = 1 if m in [{'a': 3, 'b': 3}] else 2",
    "v = 1 if {'a': 3, 'b': 3} in (m, TABLE) else 2",
    "v = 1 if m.__eq__({'a': 3, 'b': 3}) else 2",
    "v = 1 if m.keys() == {'a': 1, 'b': 2}.keys() else 2",
]
TEXTS = [
    "v = len(f'{rt}')",
    "v = len(f'{l}')",
    "v = len(f'{m}')",
    "t = f'{rt}'\nv = len('a' + t)",
    "v = {'w3': 5}.get(f'w{rt}', 7)",
    "v = f'{rt}'.count('3')",
    "v = 1 if f'{rt}'[0] == '3' else 2",
    "v = 1 if f'{rt}' in {'3': 1} else 2",
    "v = 1 if '3' in f'{rt}' else 2",
    "v = 1 if f'{rt:>{4}}' == '   3' else 2",
    "v = len({f'{rt}': 1, '3': 2})",
    "v = 0\nfor i in pl.range(3):\n    if f'{i}' == '1':\n        v = 1",
]


@pytest.mark.parametrize("body", MEMBERS + TEXTS)
def test_what_only_the_run_knows_is_not_looked_at_while_compiling(body: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        result(f"{body}\nout[0, 0] = pl.cast(v, pl.INT32)", make_kernel, monkeypatch)
    assert caught.value.span is not None
    assert caught.value.hint


ANSWERED = [
    ("v = len(l) * 10 + len(m)", 32),
    ("v = sum(l) * 100 + min(l) * 10 + max(l)", 713),
    ("v = l[1:].count(3)", 1),
    ("v = 1 if l[1:] == [1, 3] else 2", 1),
    ("u = l[1:]\nv = 1 if u == [1, 3] else 2", 1),
    ("u = (rt, 5, 6)[1:]\nv = 1 if u == (5, 6) else 2", 1),
    ("v = 1 if m == {'a': 3} else 2", 2),
    ("v = 1 if m == {'a': 3, 'b': 4} else 2", 2),
    ("v = 1 if m != TABLE else 2", 1),
    ("v = 1 if m == m else 2", 1),
    ("v = 1 if m == None else 2", 2),
    ("v = 1 if m in [TABLE, None] else 2", 2),
    ("v = 1 if 'a' in m and 'c' not in m else 2", 1),
    ("v = len(l or [1]) + len(l and [1, 2])", 5),
    ("v = m.copy()['a'] + m.get('z', 7)", 10),
    ("v = len((m | {'c': 1}).items())", 3),
    ("v = 1 if sorted(m)[0] == min(m) == 'a' else 2", 1),
    ("v = list(m).index('b')", 1),
    ("v = len(f'{len(m)}{l[1]}')", 2),
    ("v = 0\nfor i in pl.unroll(3):\n    if f'{i}' == '1':\n        v = v + i", 1),
]


@pytest.mark.parametrize(("body", "expected"), ANSWERED)
def test_what_does_not_depend_on_the_run_is_answered(body: str, expected: int, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    assert result(f"{body}\nout[0, 0] = pl.cast(v, pl.INT32)", make_kernel, monkeypatch) == expected


def test_messages_may_name_what_only_the_run_knows(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    body = """
text = f"at {rt}"
pl.print("with", f"{l}")
pl.static_print(f"now {rt}")
pl.static_assert(True, f"never {rt}")
for i in pl.range(2):
    assert i < 5, f"turn {i}"
    pl.device_assert(i < 5, f"turn {i}")
    out[0, 0] = 7
"""
    assert result(body, make_kernel, monkeypatch) == 7
    shown = capsys.readouterr().out
    assert "with [3, 1, 3]" in shown
    assert "now Scalar[INDEX]" in shown
