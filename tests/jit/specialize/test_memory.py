"""Results of operators are as arrays of NumPy are: whoever shows one sees what is written into it, and `+=` changes what it stands before."""

from __future__ import annotations

import textwrap
from types import SimpleNamespace

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tilejit.errors import UnsupportedFeatureError

HELPERS = """
@pl.jit.inline
def bump(t, v):
    t += v
@pl.jit.inline
def declared(t: pl.InOut[pl.Tensor]):
    t -= 5.0
    return 5
@pl.jit.inline
def zero(t):
    t[:] = t * 0.0
@pl.jit.inline
def same(t):
    return t
@pl.jit.inline
def pick(t, n):
    if n > 0:
        return t
    return t + 1.0
@pl.jit.incore
def halved(t: pl.InOut[pl.Tensor]):
    t[:] = t * 0.5
@pl.jit.incore
def back(t: pl.Tensor):
    return t
"""
KERNEL = """
@pl.jit(runtime_scalars=("s",))
def k(x: pl.Tensor, y: pl.Tensor, s: pl.INT32, io: pl.InOut[pl.Tensor], out: pl.InOut[pl.Tensor]):
{body}
"""
BODIES = {
    # a result meets a tensor
    "after if": "t = x + 1.0\nif s > 0:\n    t = io\nio[:] = x * 10.0\nout[:] = t",
    "after a loop": "t = x + 1.0\nfor i in pl.range(s):\n    t = io\nio[:] = x * 10.0\nout[:] = t",
    "written after if": "t = x + 1.0\nif s > 0:\n    t = io\nt[:] = x * 3.0\nout[:] = io + t",
    "written in the next round": "t = io\nfor i in pl.range(3):\n    t[:] = t + 1.0\n    t = t * 2.0\nout[:] = t + io",
    "a choice": "t = io if s > 0 else x + 1.0\nt[0:1, :] = y[0:1, :]\nout[:] = io + t",
    "returned on one way": "r = pick(io, s)\nr += y\nout[:] = io + r",
    "a window on one way": "t = x[0:1, :] * 2.0\nif s > 0:\n    t = io[1:2, :]\nt[:, 0:2] = y[0:1, 0:2]\nout[0:1, :] = t",
    "a choice in a loop": "t = x + 1.0\ni = 0\nwhile i < 3:\n    t = io if i == s else t\n    t += 1.0\n    i = i + 1\nout[:] = t + io",
    # += of a tensor in memory
    "parameter of a helper": "bump(io, x)\nbump(io[0:1, :], y[0:1, :])\nout[:] = io",
    "declared parameter of a helper": "n = declared(io)\nout[:] = io + float(n)",
    "another name": "t = io\nt += x\nout[:] = io",
    "names of a loop": "for t in (io, out):\n    t += x\nout *= io",
    "scratch": "a = pl.create_tensor([2, 4], dtype=pl.FP64)\na[:] = x * 2.0\nr = a\nr += x\nbump(a, y)\nout[:] = a",
    "window": "w = io[:, 1:3]\nw -= 2.0\nw[0:1, :] *= 3.0\nout[:] = io",
    "input": "x += 1.0\nout[:] = x",
    "rebound to itself": "out = pl.assemble(out, x * 2.0, [0, 0])\nout += 1.0\nout = out\nout += 1.0",
    "member of a list": "l = [io, y + 1.0]\nl[0] += y\na = l[1]\nl[1] += x\nout[:] = io + a",
    # results that several names show
    "part of a member of a list": "t = x + 0.0\nl = [t, x + 1.0]\nl[0][0:1, :] = y[0:1, :]\nl[1][0:1][:, 1:2] *= 2.0\nout[:] = l[1] + t",
    "member of a list that only the run knows": "t = io if s > 0 else x + 1.0\nl = [t, y]\nl[0] += y\nout[:] = io + l[0]",
    "another name of a result": "t = x + 1.0\nb = t\nb[:] = b * 0.0\nout[:] = t",
    "window of a result": "t = x + 1.0\nw = t[:, 1:3]\nu = w[0:1, :]\nu += 5.0\npl.write(w, [1, 1], 9.0)\nout[:] = t",
    "rows into a result": "t = x + 1.0\nt[0] = y[1]\nt[:, 1] = y[:, 0]\nt[:, 2:4] = y[:, 0:1]\nout[:] = t",
    "a row into rows": "t = pl.zeros([3, 2, 4], dtype=pl.FP64)\nt[1:3] = y\nt[0] = y[0]\nt[:, 1] = x[1]\nout[:] = t[0] + t[1] * t[2]",
    "a row into a tensor": "io[:] = y[0]\nio[0, ::2] = y[0, 0:1]\nout[:] = x[:, 0:1]",
    "members of a dict": "t = x + 1.0\nd = {'a': t, 'b': [io[0]]}\nd['a'][:] = y * 2.0\nd['b'][0][:] = 3.0\nout[:] = t + io",
    "copies of turned ones": "t = +x.T\nt[0] = 5.0\nv = +io[:, ::2]\nio[:] = y\nu = (y * 2.0).T\nu += 1.0\nout[:] = t.T + u.T\nout[:, 0:2] += v",
    "a column of the run": "w = io[:, 1:2]\nfor i in pl.range(1):\n    if s > 0:\n        w[0:1] += 0.5\n    out[0:2, 2] = w[s - s:s - s + 2, i]",
    "a transposition is a result of its own": "t = pl.transpose(x, 0, 1)\nt -= 2.0\nu = pl.transpose(io, 0, 1)\nio[0] = 7.0\nout[:] = t.T + u.T",
    "row of a result": "t = x + 1.0\nw = t[0]\nt[0:1, 1:2] = y[0:1, 1:2]\nout[1, :] = w",
    "shape of a result": "t = x + 1.0\nw = pl.reshape(t, [4, 2])\nw[1:2, :] = w[1:2, :] * 7.0\nout[:] = t",
    "given to a helper": "t = x + 1.0\nzero(t)\nout[:] = t",
    "given to a function": "t = x + 1.0\nhalved(t)\nout[:] = t",
    "returned by a helper": "t = x + 1.0\nr = same(t)\nr += y\nout[:] = t",
    "returned by a function": "t = x + 1.0\nr = back(t)\nr[:] = y\nout[:] = t",
    "in a tuple": "t = x + 1.0\nfor q in (t, io):\n    q[:] = q * 0.0\nout[:] = t + io",
    "added to": "t = x + 1.0\nb = t\nt += 1.0\nout[:] = b + t",
    "one of two": "t = x + 1.0\nb = y + 1.0\nif s > 0:\n    t = b\nt[0:1, :] = x[0:1, :] * 0.0\nout[:] = b",
    "in every round": "t = x + 1.0\nfor i in pl.range(2):\n    b = t\n    b[:] = b * 2.0\nout[:] = t",
    "of the round before": "t = x + 1.0\nb = x * 2.0\nfor i in pl.range(3):\n    out += b\n    b = t\n    t[0:1, :] = t[0:1, :] * 3.0\nio[:] = t + b",
    "new ones in turn": (
        "a = x + 0.0\nb = y + 0.0\nfor i in pl.range(3):\n    n = a + b\n    n[0:1, :] = a[0:1, :]\n    b = a\n    a = n\nout[:] = a * 100.0 + b"
    ),
    "in a region": "t = x + 1.0\nwith pl.at(level=pl.Level.CORE_GROUP):\n    b = t\n    b[0:1, :] = b[0:1, :] * 5.0\nout[:] = t",
    "out of a region": "with pl.at(level=pl.Level.CORE_GROUP):\n    t = x + 1.0\n    b = t\nb[0:1, :] = b[0:1, :] * 5.0\nout[:] = t",
    # and results of their own
    "a copy": "t = x + 1.0\nb = +t\nb[0:1, :] = y[0:1, :]\nt += 1.0\nc = +io\nc[:] = c * 2.0\nio += 1.0\nout[:] = b + t + c + io",
    "a new result": "t = x + 1.0\nb = t\nt = t + 1.0\nt[0:1, :] = y[0:1, :]\nout[:] = b + t",
    "in both arms": "t = x + 1.0\nif s > 0:\n    t[0:1, :] = y[0:1, :]\nelse:\n    t[1:2, :] = y[1:2, :]\nout[:] = t",
}


class Here:
    """What the bodies use of the language, done by NumPy."""

    Tensor = InOut = {}.setdefault  # annotations that nobody reads
    FP64 = np.float64
    Level = SimpleNamespace(CORE_GROUP=0)
    range = range
    zeros = staticmethod(np.zeros)
    transpose = staticmethod(lambda x, i, j: np.swapaxes(x, i, j).copy())

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def at(self, level: int) -> Here:
        return self

    def create_tensor(self, shape: list[int], dtype: type) -> np.ndarray:
        return np.full(shape, np.nan, dtype)

    def reshape(self, t: np.ndarray, shape: list[int]) -> np.ndarray:
        return t.reshape(shape)

    def write(self, t: np.ndarray, place: list[int], value: float) -> None:
        t[tuple(place)] = value

    def assemble(self, t: np.ndarray, value: np.ndarray, place: list[int]) -> np.ndarray:
        t[place[0] : place[0] + value.shape[0], place[1] : place[1] + value.shape[1]] = value
        return t


def arguments(s: int) -> list[np.ndarray | int]:
    x, y, io, out = np.random.default_rng(3).standard_normal((4, 2, 4))
    return [x, y, s, io, out]


def text(body: str) -> str:
    return HELPERS + KERNEL.format(body=textwrap.indent(body, "    "))


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_write_is_seen_by_every_name(body: str, platform: str, make_kernel: MakeKernel) -> None:
    scope: dict[str, object] = {"pl": Here()}
    plain = "\n".join(line for line in text(body).splitlines() if not line.startswith("@"))
    exec(plain.replace(": pl.InOut[pl.Tensor]", "").replace(": pl.Tensor", "").replace(": pl.INT32", ""), scope)
    kernel, python = make_kernel(text(body)), scope["k"]
    assert callable(python)
    for s in (1, 0) if "s" in body.replace("same", "") else (1,):
        want, got = arguments(s), arguments(s)
        python(*want)
        kernel(*got)
        for one, other in zip(want, got, strict=True):
            np.testing.assert_allclose(other, one)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("v = x[:, ::2]\nv[:] = v * 2.0\nout[:] = x", "a copy of a tensor"),
        ("t = x + 1.0\nv = t[:, ::2]\nv += 1.0\nout[:] = t", "a copy of a tensor"),
        ("v = io.T\nv[0] = 2.0\nout[:] = io", "a copy of a tensor"),
        ("t = x + 1.0\nv = t.transpose(0, 1)\nbump(v[1], 1.0)\nout[:] = t", "a copy of a tensor"),
        ("v = io.T\nio[0] = 7.0\nout[:] = v.T * 1.0", "a name that has no window of it"),
        ("v = io[:, ::2]\nio[:] = x * 2.0\nout[:, 0:2] = v", "a name that has no window of it"),
    ],
)
def test_a_copy_is_not_taken_for_a_window(body: str, message: str, make_kernel: MakeKernel) -> None:
    with pytest.raises(UnsupportedFeatureError, match=message):
        make_kernel(text(body))(*arguments(1))


def test_a_result_that_one_name_has_stays_out_of_memory(make_kernel: MakeKernel) -> None:
    kernel = make_kernel(text("t = x + 1.0\nb = t\nb[0:1, :] = b[0:1, :] * 3.0\nb += y\nt = b\nout[:] = t * 2.0"))
    assert "create_tensor" not in kernel.lower(*arguments(1)).as_python()
