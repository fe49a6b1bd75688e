"""Expressions and branches nested more deeply than Python can follow are named where they stand."""

from __future__ import annotations

import pytest

import tilejit.language as pl
from tilejit.errors import UnsupportedFeatureError

HEAD = """@pl.program
class Deep:
    @pl.function
    def main(self, x: pl.Tensor[[1, 2], pl.FP32], o: pl.Out[pl.Tensor[[1, 2], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y = pl.load(x, [0, 0], [1, 2])
"""


@pytest.mark.parametrize("terms", [400, 900])
def test_a_long_sum_is_named_where_it_stands(terms: int) -> None:
    text = HEAD + "            y = pl.add(y, " + " + ".join(["y"] * terms) + ")\n            pl.store(y, [0, 0], o)\n"
    with pytest.raises(UnsupportedFeatureError, match="this expression is nested too deeply") as caught:
        pl.parse(text)
    assert caught.value.span is not None and caught.value.span.line == 7
    assert caught.value.hint == "compute it in several statements"


def test_a_long_chain_of_branches_is_named_where_it_begins() -> None:
    rows = [f"            {'if' if i == 0 else 'elif'} x[0, 0] > {i}.0:\n                y = pl.add(y, {i}.0)\n" for i in range(400)]
    with pytest.raises(UnsupportedFeatureError, match="this statement is nested too deeply") as caught:
        pl.parse(HEAD + "".join(rows) + "            pl.store(y, [0, 0], o)\n")
    assert caught.value.span is not None and caught.value.span.line == 7


def test_what_python_can_follow_still_works() -> None:
    text = HEAD + "            y = pl.add(y, " + " + ".join(["y"] * 60) + ")\n            pl.store(y, [0, 0], o)\n"
    assert pl.parse(text).as_python()
