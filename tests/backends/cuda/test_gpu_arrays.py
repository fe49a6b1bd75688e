"""On a GPU: arrays and streams of other libraries, and calls inside graphs, caching allocators and several threads at once."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import ArgumentError, TilejitError
from tilejit.runtime import RunConfig

pytestmark = [pytest.mark.gpu, pytest.mark.torch]


@pl.jit
def add(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = a + b


@pl.jit
def halved(x: pl.InOut[pl.Tensor], steps: pl.Tensor):
    for _ in pl.range(pl.cast(pl.read(steps, [0]), pl.INDEX)):
        with pl.at(level=pl.Level.CORE_GROUP):
            x[:] = x * 0.5


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


class OnlyDlpack:
    """An array that can hand itself over, and nothing else."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.tensor.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()


class OnlyInterface:
    """An array that shows where its memory is, and nothing else."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__


@pytest.mark.parametrize("wrapped", [OnlyDlpack, OnlyInterface])
def test_anything_that_follows_a_protocol_is_an_array(wrapped: type, torch: Any) -> None:
    x, y, out = (torch.randn(37, 19, device="cuda") for _ in range(3))
    torch.cuda.synchronize()
    add(wrapped(x), wrapped(y), out)
    torch.cuda.synchronize()
    assert torch.equal(out, x + y)


def test_numba_arrays(torch: Any) -> None:
    cuda = pytest.importorskip("numba.cuda")
    a, b = (np.random.default_rng(seed).random((33, 65), np.float32) for seed in (1, 2))
    out = cuda.device_array((33, 65), np.float32)
    add(cuda.to_device(a), cuda.to_device(b), out)
    torch.cuda.synchronize()
    np.testing.assert_array_equal(out.copy_to_host(), a + b)


def test_jax_arrays_are_inputs(torch: Any) -> None:
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("jax has no GPU here")
    x, y = (jax.random.normal(jax.random.key(seed), (33, 65)) for seed in (1, 2))
    out = torch.empty(33, 65, device="cuda")
    add(x, y, out)
    torch.cuda.synchronize()
    np.testing.assert_array_equal(out.cpu().numpy(), np.asarray(x + y))


class Handle:
    """A stream of a library we do not know."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.stream.cuda_stream


@pytest.mark.parametrize("said", [lambda stream: stream, lambda stream: stream.cuda_stream, Handle])
def test_a_stream_may_be_an_object_a_handle_or_one_that_follows_the_protocol(said: Any, torch: Any) -> None:
    x, y, out = (torch.randn(2048, 2048, device="cuda") for _ in range(3))
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(20):
            x.mul_(1.01)
    add(x, y, out, config=RunConfig(stream=said(stream)))
    stream.synchronize()
    assert torch.equal(out, x + y)


def test_results_inside_a_graph_belong_to_it(torch: Any) -> None:
    x, y = (torch.randn(64, 64, device="cuda") for _ in range(2))
    add(x, y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = add(x, y)
    for _ in range(3):
        x.normal_()
        graph.replay()
        assert torch.equal(made, x + y)


def test_a_program_that_looks_at_data_runs_alone_and_not_in_a_graph(torch: Any) -> None:
    x, steps = torch.full((8, 8), 32.0, device="cuda"), torch.tensor([3], dtype=torch.int32, device="cuda")
    halved(x, steps)
    assert x.unique().tolist() == [4.0]
    with pytest.raises(TilejitError):
        halved.compile(x, steps).graph(x, steps)


def test_memory_that_the_allocator_hands_on_is_not_touched_too_early(torch: Any) -> None:
    x, y = (torch.randn(512, 512, device="cuda") for _ in range(2))
    wanted = x + y
    for _ in range(50):
        first = add(x, y)
        second = add(first, y)
        del first
        other = torch.zeros(512, 512, device="cuda")
        assert torch.equal(second, wanted + y) and not other.any()


def test_threads_compile_and_call_different_kernels_at_once(torch: Any) -> None:
    wrong: list[BaseException] = []

    def work(number: int) -> None:
        try:

            @pl.jit
            def scaled(a: pl.Tensor, out: pl.Out[pl.Tensor], by: int):
                with pl.at(level=pl.Level.CORE_GROUP):
                    out[:] = a * by

            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                x = torch.randn(50 + number, 70, device="cuda")
                for by in (number, number + 8):
                    assert torch.equal(scaled(x, by=by), x * by)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_tensors_of_two_gpus_are_refused_and_each_gpu_has_its_own_module(torch: Any) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    near, far = (torch.randn(9, 9, device=f"cuda:{number}") for number in range(2))
    with pytest.raises(ArgumentError, match="cuda:1"):
        add(near, far)
    assert torch.equal(add(near, near), near + near) and torch.equal(add(far, far), far + far)
