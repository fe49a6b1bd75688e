"""Parts of tensors with axes more or less, and every so-manieth of their elements: they are the tensor's own cells, as in NumPy."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import RunConfig
from tilejit.errors import UnsupportedFeatureError

X = np.arange(24, dtype=np.float32).reshape(4, 6)
S = np.array([1, 2], np.int32)
BODIES = [
    "v = o[:, None, 0:2]\nv += 1.0",
    "v = o[:, 0:2][None]\nv[0, 1] = 5.0",
    "v = o[:, 0:2][:, None]\nv[1, 0, 1] = 5.0\no[0, 0] = v[1, 0, 0]",
    "v = np.expand_dims(o[:, 0:2], 0)\nv[0, 1] = 5.0",
    "v = np.squeeze(o[:, 1:2], 1)\nv += 1.0",
    "v = o[:, 1]\nw = v[None, :]\nw[0, 2] = 4.0",
    "v = x[:, 0:2][None]\nx[0, 0] = 100.0\no[0, 0:2] = v[0, 0]",
    "v = o[1:3, 1:4]\nw = v[:, None]\nw[0, 0, 1] = 7.0\nw += 1.0\nv[1, 1] = 3.0\no[0, 0] = w[1, 0, 1]",
    "v = o[s[0]:s[1] + 1, 0:2][None]\nv[0, 1] = 5.0",
    "v = o[s[0]:, 1:3][0:1, 0:1].squeeze(0)\nv[0] = 4.0",
    "i = s[0]\nv = o[:, i:i + 2][:, None]\nv[0, 0, 0] = 5.0",
    "v = o[:, 0:2].reshape(4, 1, 2)\no[0, 0] = 5.0\no[1, 1] = v[0, 0, 0]",
    "v = o[:, 0:2].reshape(8)\nv[0] = 5.0",
    "v = o[1:3, 0:3][None][:, :, None, 1:]\nv[0, 1, 0, 1] = 3.0\nv -= 1.0",
    "v = o[:, 2:4][..., None]\nw = v[:, :, 0]\nw += 1.0",
    "for i in range(4):\n    v = o[i:i + 1, 1:3].squeeze(0)\n    v *= 2.0",
    "v = o[:, 0:4]\nv[:, ::2] = 1.0",
    "v = o[:, 0:5]\nv[::-2, 1::3] = x[0:2, 0:2]",
    "v = o[1:4, 2:6][1:, 1:]\nv[::-1, ::2] = x[0:2, 0:2]",
    "v = o[1:, 1:]\nv[s[0], ::2] = 1.0",
    "v = o[:, 2]\nv[::2] = 2.0\nv[1::2] *= 3.0",
    "v = o[:, None, 0:6][:, 0]\nv[:, ::3] = 1.0",
    "v = o.reshape(2, 3, 4)[:, :, 0:2].reshape(2, 6)\nv[0, 0] = 5.0\no[0, 0] = v[0, 1]",
]
SPELLED = {"np.expand_dims": "pl.expand_dims", "np.squeeze": "pl.squeeze", " range(": " pl.range("}


def function_of(body: str, name: str) -> Callable[..., Any]:
    for word, ours in SPELLED.items():
        body = body.replace(word, ours)
    source = "def kernel(x: pl.Tensor, s: pl.Tensor, o: pl.InOut[pl.Tensor]):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    names: dict[str, Any] = {"pl": pl}
    exec(compile(source, name, "exec"), names)
    return names["kernel"]


@pytest.mark.parametrize("platform", ["cpu", "reference"])
@pytest.mark.parametrize("body", BODIES)
def test_views_are_the_tensors_cells(body: str, platform: str) -> None:
    want = X * 10
    exec(body, {"np": np, "x": X.copy(), "s": S, "o": want})
    got = X * 10
    pl.jit(function_of(body, f"<views {BODIES.index(body)}>"))(X.copy(), S, got, config=RunConfig(platform=platform))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "body",
    [
        "n = s[1] + 1 - s[0]\nv = o[s[0]:s[1] + 1, 0:2].reshape(n, 1, 2)\nv[0, 0, 0] = 5.0",
        "v = o.reshape(2, 3, 4)[:, 0:2].reshape(2, 8)\nv[0, 0] = 5.0",
    ],
    ids=["perhaps a view", "a view in NumPy"],
)
def test_a_write_into_a_copy_that_is_none_in_numpy_is_refused(body: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match="writes into a copy of a tensor"):
        pl.jit(function_of(body, f"<a copy {len(body)}>"))(X, S, X * 10)
