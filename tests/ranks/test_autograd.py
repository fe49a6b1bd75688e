"""What autograd hears of host functions, however they are called: the same as of kernels."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.ranks.engines import on
from tilejit import ir
from tilejit.errors import ArgumentError, TilejitWarning
from tilejit.jit.function import JITFunction
from tilejit.runtime import DistributedCompiledProgram, DistributedConfig, Sharded

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
NR = pl.dynamic("NR")
Call = Callable[..., Any]


@pl.jit
def times(x: pl.Tensor[[8], pl.FP32], total: pl.InOut[pl.Tensor[[8], pl.FP32]], y: pl.Out[pl.Tensor[[8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = x * 2.0
        total[:] = total + x


def host() -> JITFunction:
    @pl.jit.host
    def scaled(x: pl.Tensor[[NR, 8], pl.FP32], total: pl.InOut[pl.Tensor[[NR, 8], pl.FP32]], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            times(x[r], total[r], y[r], device=r)

    return scaled


def undeclared() -> JITFunction:
    @pl.jit.host
    def scaled(x: pl.Tensor[[NR, 8], pl.FP32], total: pl.Tensor[[NR, 8], pl.FP32], y: pl.Tensor[[NR, 8], pl.FP32]):
        for r in pl.range(pld.world_size()):
            part = y[r]
            times(x[r], total[r], part[0:8], device=r)

    return scaled


@pl.program
class Scaled:
    @pl.function(type=pl.FunctionType.Orchestration)
    def times(self, x: pl.Tensor[[8], pl.FP32], total: pl.InOut[pl.Tensor[[8], pl.FP32]], y: pl.Out[pl.Tensor[[8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = x * 2.0
            total[:] = total + x

    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
    def scaled(self, x: pl.Tensor[[NR, 8], pl.FP32], total: pl.InOut[pl.Tensor[[NR, 8], pl.FP32]], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            self.times(x[r], total[r], y[r], device=r)


def tensors() -> tuple[Any, Any, Any]:
    return torch.randn(2, 8), torch.randn(2, 8), torch.randn(2, 8)


def compiled() -> DistributedCompiledProgram:
    made = ir.compile(Scaled, distributed_config=DistributedConfig([0, 1]))
    assert isinstance(made, DistributedCompiledProgram)
    return made


@contextmanager
def worker(submitted: bool) -> Generator[Call]:
    program = compiled()
    with program.prepare() as ranks:
        yield (lambda *args: ranks.submit(program, *args).result()) if submitted else ranks


WAYS: dict[str, Callable[[], AbstractContextManager[Call]]] = {
    "a call": lambda: nullcontext(functools.partial(host(), config=on(2))),
    "a call that writes what is not declared": lambda: nullcontext(functools.partial(undeclared(), config=on(2))),
    "a compiled host function": lambda: nullcontext(host().compile(*tensors(), config=on(2))),
    "a program": lambda: nullcontext(compiled()),
    "its host function by name": lambda: nullcontext(compiled()["scaled"]),
    "a worker": lambda: worker(submitted=False),
    "a worker that is not waited for": lambda: worker(submitted=True),
}
"""The ways a call can take."""


@pytest.mark.parametrize("way", WAYS)
def test_each_written_tensor_counts_a_version_and_no_other(way: str) -> None:
    with WAYS[way]() as call:
        x, total, y = tensors()
        for _ in range(2):
            before = [tensor._version for tensor in (x, total, y)]
            call(x, total, y)
            steps = [tensor._version - old for tensor, old in zip((x, total, y), before, strict=True)]
            assert steps[0] == 0 and steps[1] >= 1 and steps[2] >= 1
            torch.testing.assert_close(y, x * 2)


@pytest.mark.parametrize("way", WAYS)
def test_a_backward_that_needs_what_was_overwritten_fails(way: str) -> None:
    with WAYS[way]() as call:
        x, total, y = tensors()
        product = (torch.ones_like(y).requires_grad_() * y).sum()
        call(x, total, y)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.backward()


@pytest.mark.parametrize("way", WAYS)
def test_outputs_that_no_kernel_could_write_are_refused_untouched(way: str) -> None:
    with WAYS[way]() as call:
        x, total, y = tensors()
        for given, message, help in (
            (y.clone().requires_grad_(), "output `y` requires grad", "pass y.detach()"),
            (torch._neg_view(y.clone()), "output `y` is a view that torch negates", "pass a plain array"),
            (torch.randn(8, 2).T, "output `y` is not contiguous", "pass a contiguous array"),
        ):
            before, version = given.detach().clone(), (given._version, total._version)
            with pytest.raises(ArgumentError, match=message) as caught:
                call(x, total, given)
            assert help in str(caught.value)
            assert torch.equal(given, before) and (given._version, total._version) == version
        leaf = y.clone().requires_grad_()
        call(x, total, leaf.detach())  # as the help says
        torch.testing.assert_close(leaf.detach(), x * 2)


@pytest.mark.parametrize("way", WAYS)
def test_an_argument_that_requires_grad_is_warned_about_once_where_gradients_are_recorded(way: str) -> None:
    with WAYS[way]() as call, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with torch.no_grad():
            x, total, y = tensors()
            call(x.requires_grad_(), total, y)
        assert caught == []
        for _ in range(3):
            x, total, y = tensors()
            call(x.requires_grad_(), total, y)
        assert [warning.category for warning in caught] == [TilejitWarning]
        assert "scaled: `x` requires grad" in str(caught[0].message)


def test_a_host_function_and_what_it_was_compiled_to_warn_once() -> None:
    scaled = host()
    x, total, y = tensors()
    with pytest.warns(TilejitWarning, match="carries no gradient"):
        scaled(x.requires_grad_(), total, y, config=on(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled.compile(*tensors(), config=on(2))(x, total, y)


def test_the_slice_of_a_process_counts_its_version() -> None:
    scaled = host()
    x, total, y = (torch.randn(8) for _ in range(3))
    scaled(Sharded(x), Sharded(total), Sharded(y), config=on(1))
    torch.testing.assert_close(y, x * 2)
    assert (x._version, total._version, y._version) == (0, 1, 1)
    with pytest.raises(ArgumentError, match="output `y` requires grad"):
        scaled(Sharded(x), Sharded(total), Sharded(y.requires_grad_()), config=on(1))


def test_an_output_that_is_left_out_is_a_tensor_without_a_past() -> None:
    x, total, _ = tensors()
    y = host()(x, total, config=on(2))
    torch.testing.assert_close(y, x * 2)
    assert not y.requires_grad and y._version == 0 and total._version == 1


@pl.jit
def boxed(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]], box: pld.DistributedTensor[[8], pl.FP32]):
    with pl.at(level=pl.Level.CORE_GROUP):
        box[:] = box[:] + x
        y[:] = x * 2.0


def test_a_function_that_takes_windows_counts_what_it_writes_when_it_is_called_alone() -> None:
    x, y, box = torch.ones(8), torch.ones(8), torch.ones(8)
    boxed(x, y, box)
    assert y[0] == 2 and box[0] == 2
    assert (x._version, y._version, box._version) == (0, 1, 1)
    spread = torch.ones(16)
    boxed(x, y, spread[::2])  # what is copied may lie apart
    assert spread[:2].tolist() == [2, 1]
    for given, name in (((x, y.clone().requires_grad_(), box), "y"), ((x, y, box.clone().requires_grad_()), "box")):
        with pytest.raises(ArgumentError, match=f"output `{name}` requires grad"):
            boxed(*given)
    with pytest.warns(TilejitWarning, match="boxed: `x` requires grad"):
        boxed(x.requires_grad_(), y, box)


def test_what_a_worker_copies_to_the_caller_counts_a_version() -> None:
    with compiled().prepare() as ranks:
        one, stacked = ranks.alloc_tensor([4], pl.FP32, init=np.ones(4, np.float32)), ranks.alloc_stacked_tensor(np.ones((2, 4), np.float32))
        found, all_found = torch.zeros(4), torch.zeros(2, 4)
        ranks.copy_from(one, found)
        ranks.copy_stacked_from(stacked, all_found)
        assert found.tolist() == [1] * 4 and all_found.tolist() == [[1] * 4] * 2
        assert (found._version, all_found._version) == (1, 1)
        with pytest.raises(ArgumentError, match="output `host` requires grad"):
            ranks.copy_from(one, torch.zeros(4, requires_grad=True))


@pl.jit.host
def both(x: pl.Tensor[[NR, 8], pl.FP32], total: pl.Out[pl.Tensor[[NR, 8], pl.FP32]], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        times(x[r], total[r], y[r], device=r)
    return y, total


@pl.jit
def both_backward(grad_total: pl.Tensor, grad_y: pl.Tensor, grad_x: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        grad_x[:] = grad_total + grad_y * 2.0


@pytest.mark.parametrize("way", ["call", "graph"])
def test_a_host_function_returns_outputs_in_the_order_of_its_return_and_gradients_go_with_them(way: str) -> None:
    op = both.as_torch_op("tests_ranks::both", backward=both_backward, config=on(2))
    call = torch.compile(op, backend="aot_eager", fullgraph=True) if way == "graph" else op
    for place, slope in enumerate((2.0, 1.0)):
        given = torch.ones(2, 8, requires_grad=True)
        found = call(given)[place]
        found.sum().backward()
        assert (found[0, 0].item(), given.grad[0, 0].item()) == (slope, slope)


@pl.jit.host
def launched(x: pl.Tensor[[1, 8], pl.FP32], total: pl.Out[pl.Tensor[[1, 8], pl.FP32]], y: pl.Out[pl.Tensor[[1, 8], pl.FP32]]):
    pld.world_size()
    return plain(x, total, y, device=0)


@pl.jit
def plain(x: pl.Tensor[[1, 8], pl.FP32], total: pl.InOut[pl.Tensor[[1, 8], pl.FP32]], y: pl.Out[pl.Tensor[[1, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = x * 2.0
        total[:] = total + x


def test_a_host_function_that_returns_what_a_launch_gives_has_no_gradients() -> None:
    with pytest.raises(ArgumentError, match="`launched` returns what has no name of an output") as caught:
        launched.as_torch_op("tests_ranks::launched", backward=both_backward, config=on(1))
    assert "`return total, y`, or nothing" in str(caught.value)
