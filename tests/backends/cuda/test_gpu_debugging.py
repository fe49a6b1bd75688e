"""On a GPU: prints in block order, breakpoints, eager mode and the sanitizer, all with tensors that are there."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import tilejit
import tilejit.language as pl
from tests.backends.cpu.test_printing import blocks, kinds, product
from tilejit import RunConfig
from tilejit.errors import SanitizerError
from tilejit.jit.function import JITFunction

pytestmark = [pytest.mark.gpu, pytest.mark.torch]


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pl.jit
def many(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for b in pl.spmd(2000):
        t = pl.load(x, [b, 0], [1, 8])
        pl.print(b, "has", t)
        pl.store(pl.mul(t, 2.0), [b, 0], out)


@pytest.mark.parametrize("kernel", [blocks, product, kinds, many], ids=lambda kernel: kernel.__name__)
def test_kernels_print_what_the_reference_prints_in_the_order_of_the_blocks(kernel: JITFunction, torch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rows = 2000 if kernel is many else 4
    x = torch.arange(8.0 * rows).reshape(rows, 8)
    out = torch.zeros(rows, 4 if kernel is product else 8)
    kernel(x, out.clone(), config=RunConfig(platform="reference"))
    expected = capsys.readouterr().out
    for _ in range(4):
        kernel(x.cuda(), out.cuda())
        assert capsys.readouterr().out == expected


def test_prints_in_torch_s_graphs_are_refused(torch: Any) -> None:
    x, out = torch.zeros(2000, 8, device="cuda"), torch.zeros(2000, 8, device="cuda")
    many(x, out)
    with pytest.raises(tilejit.errors.ArgumentError, match="a kernel that prints cannot be captured"):
        many.compile(x, out).graph(x, out)


@pl.jit
def stopping(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for b in pl.spmd(4):
        t = pl.load(x, [b, 0], [1, 8])
        breakpoint()  # noqa: T100 - that is what is tested
        pl.store(pl.mul(t, 2.0), [b, 0], out)


def test_a_breakpoint_stops_with_the_tiles_at_hand(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(4, 8, device="cuda")
    seen: list[Any] = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: seen.append(torch.tensor(sys._getframe(1).f_locals["t"])))
    y = stopping(x)
    assert torch.equal(torch.cat(seen), x.cpu()) and torch.equal(y, x * 2) and y.is_cuda


@pl.jit
def unwritten(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tile([4, 8], pl.FP32)
        pl.store(pl.add(t, pl.load(x, [0, 0], [4, 8])), [0, 0], out)


def test_eager_mode_and_the_sanitizer_take_tensors_of_the_gpu(torch: Any) -> None:
    x = torch.randn(4, 8, device="cuda")
    with tilejit.eager():
        assert torch.equal(doubled(x), x * 2)
    with pytest.raises(SanitizerError, match="never written"):
        unwritten(x, torch.zeros_like(x), config=RunConfig(platform="sanitize"))


@pl.jit
def doubled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 2.0
