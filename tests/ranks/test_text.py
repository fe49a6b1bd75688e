"""Programs of ranks as text: what is printed parses back to an equal program, and targets without ranks say so at the line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tests.ranks import signals
from tilejit import RunConfig, ir
from tilejit.errors import UnsupportedFeatureError

X, SIG = np.zeros((8, 16), np.float32), np.zeros((1, 1), np.int32)


def test_what_is_printed_parses_back() -> None:
    program: Any = signals.ring_put.compile(X, X.copy(), X.copy(), SIG).program
    lowered = signals.ring_put.lower(X, X.copy(), X.copy(), SIG)
    for item in (program, lowered):
        assert ir.structural_equal(pl.parse(item.as_python()), item)


def test_the_specialised_text_says_which_parameters_are_windows() -> None:
    text = signals.ring_put.specialized_source(X, X.copy(), X.copy(), SIG)
    assert "import tilejit.language.distributed as pld" in text
    assert "win: pld.DistributedTensor[[8, 16], pl.FP32]" in text


@pytest.mark.parametrize(("platform", "reason"), [("cuda", "ranks on GPUs"), ("a2a3", "PTO text")])
def test_a_target_without_ranks_says_so(platform: str, reason: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=reason) as caught:
        signals.ring_put.compile(X, X.copy(), X.copy(), SIG, config=RunConfig(platform=platform, arch="sm_90"))
    assert caught.value.span is not None
