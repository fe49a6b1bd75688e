"""What torch makes for a result is what was asked for, or the call is refused: nothing is written into a tensor of another device, dtype or shape."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tilejit.errors import ArgumentError
from tilejit.jit.function import JITFunction
from tilejit.runtime import DistributedConfig, RunConfig

torch = pytest.importorskip("torch")
layout = importlib.import_module("tilejit.runtime.torch_layout")  # needs torch
modes = importlib.import_module("torch.overrides")
pytestmark = [pytest.mark.torch, pytest.mark.dispatch]
ROWS = pl.dynamic("ROWS")


def kernel() -> JITFunction:
    @pl.jit
    def more(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x + 1.0
        return out

    return more


def _warm() -> Callable[..., object]:
    warm = kernel()
    for _ in range(5):
        warm(X)
    return warm


def _on_ranks() -> Callable[..., object]:
    more = kernel()

    @pl.jit.host
    def host(x: pl.Tensor[[2, 4, 6], pl.FP32], out: pl.Out[pl.Tensor[[2, 4, 6], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            more(x[r], out[r], device=r)

    config = RunConfig(distributed_config=DistributedConfig([0, 1]))
    return lambda x: host(torch.stack([x, x]), config=config)[0]


X = torch.arange(24, dtype=torch.float32).reshape(4, 6)
WAYS: dict[str, Callable[[], Callable[..., Any]]] = {
    "the full checks": lambda: functools.partial(kernel(), config=RunConfig()),
    "warm": _warm,
    "a compiled program": lambda: kernel().compile(X),
    "the reference": lambda: functools.partial(kernel(), config=RunConfig(platform="reference")),
    "a host function": _on_ranks,
}

MADE: dict[str, Callable[[Any], object]] = {
    "another dtype": lambda made: made.double(),
    "another device": lambda made: made.to("meta"),
    "other extents": lambda made: made.new_zeros((*made.shape, 2)),
    "other strides": lambda made: made.new_zeros(tuple(reversed(made.shape))).permute(*reversed(range(made.ndim))),
    "a view that is negated": lambda made: made.to(torch.complex64).conj().imag,
    "a sparse one": lambda made: made.to_sparse(),
    "no element of its own": lambda made: made.new_zeros(1).expand(made.shape),
    "no memory": lambda made: (made.untyped_storage().resize_(0), made)[1],
    "not aligned": lambda made: torch.frombuffer(bytearray(4 * made.numel() + 1), dtype=made.dtype, offset=1).view(made.shape),
    "no tensor": lambda made: made.numpy(),
}
"""What a mode, or what stands in the place of torch.zeros and torch.empty, may make of a tensor that was asked for."""


def making(other: Callable[[Any], object]) -> Any:
    class Mode(modes.TorchFunctionMode):  # type: ignore[name-defined, misc]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            found = function(*args, **(kwargs or {}))
            return other(found) if function in (torch.zeros, torch.empty) else found

    return Mode()


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("way", WAYS)
def test_a_result_that_a_mode_of_torch_makes_otherwise_is_refused_and_nothing_is_written(way: str, made: str) -> None:
    call = WAYS[way]()
    kept: list[Any] = []

    def other(found: Any) -> object:
        kept.append(MADE[made](found.zero_()))
        return kept[-1]

    mode = making(other)
    with pytest.raises(ArgumentError) as caught, mode:
        call(X)
    assert "= help: " in str(caught.value) and kept
    for tensor in kept:
        if made not in ("another device", "no memory"):
            assert not (np.any(tensor) if isinstance(tensor, np.ndarray) else tensor.to_dense().any()), "it was written"
    torch.testing.assert_close(call(X), X + 1.0)


@pytest.mark.parametrize("way", WAYS)
def test_functions_that_replace_those_of_torch_are_noticed(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(function: Callable[..., object]) -> Callable[..., object]:
        return lambda *args, **kwargs: function(*args, **{**kwargs, "device": torch.device("meta")})

    monkeypatch.setattr(torch, "zeros", elsewhere(torch.zeros))
    monkeypatch.setattr(torch, "empty", elsewhere(torch.empty))
    call = functools.partial(kernel(), config=RunConfig()) if way == "warm" else WAYS[way]()
    with pytest.raises(ArgumentError, match=r"asked for a dense tensor of shape .* and torch.float32 on cpu, and made one of .* on meta"):
        call(X)


@pytest.mark.parametrize("looked", [True, False], ids=["fields", "exchange"])
def test_warm_calls_look_at_what_was_made_wherever_they_read_it(looked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not looked:
        known = layout.plain_tensor()
        monkeypatch.setattr(layout, "plain_tensor", lambda: None if known is None else dataclasses.replace(known, fields=None))
    call = _warm()
    for shape in ((4, 6), (1, 1), (7, 1), (1, 5)):
        x = torch.ones(shape)
        for _ in range(4):
            torch.testing.assert_close(call(x), x + 1.0)
    for made in ("another dtype", "another device", "other strides", "other extents"):
        with pytest.raises(ArgumentError, match="torch was asked for"), making(MADE[made]):
            call(X)
    with making(lambda found: found.clone()):
        torch.testing.assert_close(call(X), X + 1.0)
    assert isinstance(call, JITFunction)
    hits = call.cache_info().hits
    for _ in range(8):
        call(X)
    assert call.cache_info().hits == hits + 8
