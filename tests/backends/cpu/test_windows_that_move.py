"""Windows of one tensor that are read and written in turn: a copy that is made for one store is not what another writes."""

from __future__ import annotations

import linecache
import textwrap
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl

BODIES = {
    "moved, then written": "q = o[0:2, :]\no[2:4, :] = q\nq[:] = x",
    "read again": "q = o[0:2, :]\no[2:4, :] = q\nq[:] = x\no[4:6, :] = q + 1.0",
    "written with itself": "q = o[0:2, :]\no[2:4, :] = q\nq[:] = x + q",
    "moved twice": "q = o[0:2, :]\no[2:4, :] = q\nq[:] = x * 2.0\no[4:6, :] = q",
    "swapped": "q = o[0:2, :]\np = o[2:4, :]\nt = q + 0.0\nq[:] = p\np[:] = t",
    "overlapping": "q = o[0:3, :]\no[1:4, :] = q\nq[:] = o[3:6, :]",
    "in a ring": "q = o[0:2, :]\no[2:4, :] = q\nq[:] = o[4:6, :]\no[4:6, :] = x",
    "in a loop": "q = o[0:2, :]\nfor _ in pl.range(2):\n    o[2:4, :] = q\n    q[:] = x",
    "read again after a change": "p = o + 1.0\np[:] = o\no += 2.0\np[:] = o\no[0:2, :] = p[0:2, :] * x",
    "window read again": "p = o + 1.0\nw = o[2:4, :]\np[4:6, :] = w\nw += x\np[4:6, :] = w\no[0:6, :] = p",
    "columns": "q = o[:, 0:2]\no[:, 2:4] = q\nq[:] = o[:, 4:6]",
}


@pytest.mark.parametrize("in_region", [True, False], ids=["region", "operators"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_every_store_reaches_its_tensor(body: str, in_region: bool) -> None:
    scope = "    with pl.at(level=pl.Level.CORE_GROUP):\n" if in_region else ""
    text = f"@pl.jit\ndef kernel(x: pl.Tensor, o: pl.InOut[pl.Tensor]):\n{scope}{textwrap.indent(body, ' ' * (8 if in_region else 4))}\n"
    filename = f"<windows that move {hash((body, in_region))}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    names: dict[str, Any] = {"pl": pl, "__name__": "windows"}
    exec(compile(text, filename, "exec", dont_inherit=True), names)
    random = np.random.default_rng(1)
    x, o = random.random((2, 8), np.float32), random.random((6, 8), np.float32)
    wanted = o.copy()
    exec(body, {"x": x, "o": wanted, "pl": SimpleNamespace(range=range)})
    names["kernel"](x, o)
    np.testing.assert_allclose(o, wanted, rtol=1e-6)
