"""What messages about changes of lists and dicts say to do instead works."""

from __future__ import annotations

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tilejit.errors import TilejitError, UnsupportedFeatureError
from tilejit.frontend.refusals import LISTS_IN_LOOPS

KERNEL = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
{body}
    out[:] = x * 1.0 + v
"""


def run(body: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PLATFORM", "reference")
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    make_kernel(KERNEL.replace("{body}", "".join(f"    {line}\n" for line in body.splitlines())))(x, np.zeros_like(x))


IN_LOOPS = {
    "a list grows": "l = []\nfor i in pl.{loop}(2):\n    l.append(x[i] * 2.0)\nv = l[0] + l[1]",
    "each turn makes a longer one": "l = []\nfor i in pl.{loop}(2):\n    l = [*l, x[i] * 2.0]\nv = l[0] + l[1]",
    "a member by a number of the run": "l = [x[1], x[0]]\nfor i in pl.{loop}(2):\n    l[i] = l[i] + x[i]\nv = l[0] + l[1]",
    "members trade places": "l = [x[0], x[1]]\nfor i in pl.{loop}(3):\n    l[0], l[1] = l[1], l[0]\nv = l[0] * 2.0 + l[1]",
    "a tensor holds them": "t = pl.create_tensor([2, 5], dtype=pl.FP32)\nfor i in pl.{loop}(2):\n    t[i] = x[i] * 2.0\nv = t[0] + t[1]",
}


@pytest.mark.parametrize("body", IN_LOOPS.values(), ids=IN_LOOPS)
def test_what_is_said_of_lists_in_loops_works(body: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    if "create_tensor" not in body:  # which is what is said
        with pytest.raises(TilejitError) as caught:
            run(body.format(loop="range"), make_kernel, monkeypatch)
        assert caught.value.hint == LISTS_IN_LOOPS
    run(body.format(loop="unroll"), make_kernel, monkeypatch)


def test_the_loop_is_what_is_wrong_with_a_list_under_plain_range(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedFeatureError, match="plain `range` is not a loop"):
        run("v = []\nfor i in range(2):\n    v.append(x[i])\nv = len(v)", make_kernel, monkeypatch)


NEW_ONES = [
    ("l = [x]\nm = l\nm.append(x)\nv = len(m)", "m = [*m, …]", "l = [x]\nm = l\nm = [*m, x]\nv = len(m)"),
    ("l = [[x], [x]]\nl[1].append(x)\nv = len(l[1])", "l[1] = [*l[1], …]", "l = [[x], [x]]\nl[1] = [*l[1], x]\nv = len(l[1])"),
    ("l = [x, x]\nw = l.pop()\nv = len(l)", "l = […]", "l = [x, x]\nw = l[-1]\nl = l[:-1]\nv = len(l)"),
    ("d = {'a': x}\ne = d\ne['b'] = x\nv = len(e)", "e = {**e, …}", "d = {'a': x}\ne = d\ne = {**e, 'b': x}\nv = len(e)"),
    (
        "l = []\nif pl.read(x, [0, 0]) > 0.0:\n    l.append(x)\nv = len(l)",
        "l = [*l, …], on all ways of the branch",
        "l = []\nif pl.read(x, [0, 0]) > 0.0:\n    l = [*l, x]\nelse:\n    l = [*l, x * 2.0]\nv = len(l)",
    ),
]


@pytest.mark.parametrize(("wrong", "said", "right"), NEW_ONES)
def test_a_new_list_or_dict_instead_of_a_change(wrong: str, said: str, right: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        run(wrong, make_kernel, monkeypatch)
    assert said in (caught.value.hint or "") and "which it is" not in caught.value.message
    run(right, make_kernel, monkeypatch)
