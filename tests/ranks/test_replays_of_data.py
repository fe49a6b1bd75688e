"""Host functions whose text looks at what a tensor holds: they say the same of equal data, however often they were called with other data."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.ranks.engines import on
from tilejit import ir
from tilejit.jit.hosts import replays

NR = pl.dynamic("NR")


@pl.jit
def times(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]], by: pl.Scalar[pl.INT32]):
    y[:] = x * pl.cast(by, pl.FP32)


LOOKS = {
    "array": "x.array.max() > 5",
    "array of a part": "x[r].array.argmax() > 5",
    "array of the whole": "x[r].whole.array.sum() > 5",
    "str": "'9.' in str(x)",
    "f-string": "'9.' in f'{x}'",
    "f-string with a conversion": "'9.' in f'{x!r}'",
    "percent": "'9.' in '%s and %r' % (x, x)",
    "list": "'9.' in str([x])",
    "dict": "'9.' in f'{ {0: x} }'",
    "error": "'9.' in said(x)",
}


@pytest.mark.parametrize("look", LOOKS)
def test_what_a_text_finds_in_data_is_looked_for_in_every_call(look: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {"pl": pl, "pld": pld, "NR": NR, "times": times}
    text = f"""
def said(x):
    try:
        return x[x]
    except Exception as error:
        return str(error)
@pl.jit.host
def host(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        times(x[r], y[r], 4 if {LOOKS[look]} else 3, device=r)
"""
    exec(text, names)

    def call(last: float) -> Any:
        x = np.zeros((2, 8), np.float32)
        x[:, -1] = last
        return names["host"](x, config=on(2))

    monkeypatch.setattr(replays, "_replays", weakref.WeakKeyDictionary())
    fresh = call(9)
    monkeypatch.setattr(replays, "_replays", weakref.WeakKeyDictionary())
    call(0)
    call(0)
    np.testing.assert_array_equal(call(9), fresh)
    if look.startswith("array"):
        np.testing.assert_array_equal(fresh[:, -1], 4 * 9)


@pl.program
class Formats:
    @pl.function(type=pl.FunctionType.Orchestration)
    def format(self, x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]], by: pl.Scalar[pl.INT32]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = x * pl.cast(by, pl.FP32)

    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
    def all(self, x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            self.format(x[r], y[r], 4 if "9." in "{.array}".format(x) else 3, device=r)  # noqa: UP032


def test_a_method_that_is_called_like_one_of_texts_does_not_make_that_one_steady() -> None:
    compiled: Any = ir.compile(Formats)
    for last, by in ((0, 3), (0, 3), (9, 4)):
        x = np.full((2, 8), last, np.float32)
        np.testing.assert_array_equal(compiled(x, config=on(2)), by * x)


def test_shapes_are_told_of_a_tensor_and_no_data() -> None:
    seen: list[str] = []

    @pl.jit.host
    def host(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        seen.append(f"{x} {x[0]!r}")
        for r in pl.range(pld.world_size()):
            times(x[r], y[r], 3, device=r)

    for _ in range(2):
        host(np.zeros((2, 8), np.float32), config=on(2))
    assert seen == ["Tensor[[2, 8], float32] Tensor[[8], float32]"] * 2
