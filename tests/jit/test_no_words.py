"""An interpreter of which no memory words are known: lookups tell that nothing changed, and every change is still seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tilejit.errors import StaleCaptureError

TEXT = """
import math
FACTOR = 2.0

def other(x: pl.Tensor, out: pl.Out[pl.Tensor], *, k: int = 1):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 7.0
    return out

@pl.jit.inline
def helper(x: pl.Tensor):
    return x * FACTOR

@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor], *, k: int = 1):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = helper(x) + math.pi * k
    return out
"""
X = np.random.default_rng(5).standard_normal((3, 4)).astype(np.float32)


def rebound(kernel: Any, names: dict[str, Any]) -> None:
    names["FACTOR"] = 3.0


def deleted(kernel: Any, names: dict[str, Any]) -> None:
    del names["FACTOR"]


def attribute(kernel: Any, names: dict[str, Any]) -> None:
    names["math"] = type("Fake", (), {"pi": 3.0})


def code(kernel: Any, names: dict[str, Any]) -> None:
    kernel.definition.function.__code__ = names["other"].__code__


def code_of_the_helper(kernel: Any, names: dict[str, Any]) -> None:
    function = names["helper"].definition.function
    function.__code__ = (lambda x: x).__code__


def defaults(kernel: Any, names: dict[str, Any]) -> None:
    kernel.definition.function.__defaults__ = (X,)


def default_by_name(kernel: Any, names: dict[str, Any]) -> None:
    kernel.definition.function.__kwdefaults__["k"] = 5


def annotation(kernel: Any, names: dict[str, Any]) -> None:
    kernel.definition.function.__annotations__["x"] = kernel.definition.function.__annotations__["out"]


def annotation_gone(kernel: Any, names: dict[str, Any]) -> None:
    del kernel.definition.function.__annotations__["x"]


def annotation_of_the_helper(kernel: Any, names: dict[str, Any]) -> None:
    names["helper"].definition.function.__annotations__["x"] = kernel.definition.function.__annotations__["out"]


CHANGES = (rebound, deleted, attribute, code, code_of_the_helper, defaults, default_by_name, annotation, annotation_gone, annotation_of_the_helper)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_is_seen(change: Any, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilejit.jit.reads.watch.supported", lambda: False)
    monkeypatch.setenv("TILEJIT_FASTPATH", "0")
    kernel = make_kernel(TEXT.replace("", ""))
    names: dict[str, Any] = kernel.definition.function.__globals__
    out = np.zeros_like(X)
    for _ in range(5):
        out[:] = 0
        kernel(X, out)
        np.testing.assert_allclose(out, X * 2 + np.float32(np.pi), rtol=1e-6)
    warm: Any = kernel._warm
    about, same, _ = warm._standing
    assert about is warm.watches and same(), "the calls took the short way"
    change(kernel, names)
    assert not same()
    with pytest.raises(StaleCaptureError):
        kernel(X, out)
