"""Elements lie at multiples of their size: no way of a call takes other outputs, and all of them read other inputs right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tests.pto.test_jit import KERNEL as PTO
from tests.pto.test_jit import declared
from tilejit.dtypes import DTYPES
from tilejit.errors import ArgumentError
from tilejit.runtime.config import RunConfig

TWICE = """
@pl.jit
def twice(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + x
"""
FRAMEWORKS = ["numpy", pytest.param("torch", marks=pytest.mark.torch)]
SHAPE = (16, 16)
Make = Callable[[int], Any]


def starting(framework: str, dtype: str, start: int) -> Any:
    """Zeros whose first element lies so many bytes after a multiple of 64."""
    row = DTYPES[dtype]
    count, memory = 256, np.zeros(272 * row.get_byte() + 128, np.uint8)
    first = -memory.ctypes.data % 64 + start
    if framework == "numpy":
        return memory[first : first + count * row.get_byte()].view(row.numpy).reshape(SHAPE)
    torch = pytest.importorskip("torch")
    whole = torch.frombuffer(memory, dtype=getattr(torch, row.torch_name or ""), offset=first, count=16 + count)
    return whole[16:].view(SHAPE)  # torch counts elements from where its memory starts


def holds(array: Any, number: int) -> bool:
    return bool((array == number).all())


def check(call: Callable[..., Any], make: Make, size: int) -> None:
    """Calls with arrays that start anywhere, after some like them that start where elements do."""
    x, out = make(0), make(0)
    x[...] = 1
    for _ in range(5):
        call(x, out)
    for start in range(2 * size + 1):
        odd, out = make(start), make(0)
        if start % size == 0:
            call(x, odd)
        else:
            with pytest.raises(ArgumentError, match="is not aligned to its elements"):
                call(x, odd)
        assert holds(odd, 0 if start % size else 2), "what is refused is not written"
        odd[...] = 1
        call(odd, out)
        assert holds(out, 2)


@pytest.mark.parametrize("fast", ["1", "0"], ids=["native", "written"])
@pytest.mark.parametrize("dtype", ["INT8", "FP16", "BF16", "FP32", "FP64", "COMPLEX64"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_calls_of_a_kernel(framework: str, dtype: str, fast: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PLATFORM", "cpu")
    monkeypatch.setenv("TILEJIT_FASTPATH", fast)
    kernel = make_kernel(TWICE)
    check(kernel, lambda start: starting(framework, dtype, start), DTYPES[dtype].get_byte())
    assert kernel._warm is not None and kernel._warm.all_hits > 0, "those that fit take a warm way"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_calls_of_a_compiled_program(framework: str, make_kernel: MakeKernel) -> None:
    x, out = (starting(framework, "FP32", 0) for _ in range(2))
    program = make_kernel(TWICE).compile(x, out, config=RunConfig(platform="cpu"))
    check(program, lambda start: starting(framework, "FP32", start), 4)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_launches_of_a_kernel_with_text(framework: str) -> None:
    check(declared(PTO)[1, None], lambda start: starting(framework, "FP32", start), 4)
