"""Programs of ranks as text: what is printed parses back to an equal program, and targets without ranks say so at the line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.ranks import signals
from tests.ranks.engines import PLATFORMS, on
from tilejit import RunConfig, ir
from tilejit.errors import ArgumentError, ParserTypeError, UnsupportedFeatureError

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


def test_scripts_find_the_classes_where_they_look_for_them() -> None:
    from tilejit.ir.distributed_compiled_program import DistributedCompiledProgram, DistributedConfig
    from tilejit.runtime import DistributedWorker

    assert DistributedCompiledProgram is ir.DistributedCompiledProgram and DistributedConfig is ir.DistributedConfig
    prepared = signals.hello.compile(np.zeros((2, 8, 16), np.float32), config=on(2))
    assert isinstance(prepared, DistributedCompiledProgram) and isinstance(prepared.prepare(), DistributedWorker)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_prints_say_which_rank_they_are_of(platform: str, capsys: pytest.CaptureFixture[str]) -> None:
    @pl.jit
    def said(y: pl.Out[pl.Tensor[[1, 1], pl.INT32]], me: pl.Scalar[pl.INT32]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.print(me + 5)
            pl.write(y, [0, 0], me)

    @pl.jit.host
    def all_said(y: pl.Out[pl.Tensor[[3, 1, 1], pl.INT32]]):
        for r in pl.range(pld.world_size()):
            said(y[r], r, device=r)

    all_said(config=on(3, platform))
    assert sorted(capsys.readouterr().out.split("\n")) == ["", "5", "[1] 6", "[2] 7"]


def test_a_target_without_ranks_says_so() -> None:
    with pytest.raises(UnsupportedFeatureError, match="PTO text") as caught:
        signals.ring_put.compile(X, X.copy(), X.copy(), SIG, config=RunConfig(platform="a2a3"))
    assert caught.value.span is not None


@pl.jit.incore
def doubled(x: pl.Tensor[[2, 8], pl.FP32], y: pl.Out[pl.Tensor[[2, 8], pl.FP32]]):
    y[:, :] = x * 2.0


@pl.jit
def tripled(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]]):
    y[:] = x * 3.0


@pl.jit.host
def all_tripled(x: pl.Tensor[[2, 8], pl.FP32], y: pl.Out[pl.Tensor[[2, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        tripled(x[r], y[r], device=r)


def test_a_host_function_of_one_device_becomes_one_of_ranks_with_what_it_calls() -> None:
    called: Any = doubled

    @pl.jit.host
    def host(x: pl.Tensor[[2, 8], pl.FP32], y: pl.Out[pl.Tensor[[2, 8], pl.FP32]]):
        called(x, y)

    x, y = np.ones((2, 8), np.float32), np.empty((2, 8), np.float32)
    for kernel, factor in ((doubled, 2), (all_tripled, 3), (doubled, 2)):
        called = kernel
        for _ in range(2):
            host(x, y, config=on(2))
            np.testing.assert_array_equal(y, factor * x)


@pl.jit
def times(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]], by: pl.FP32 = 3.0):
    y[:] = x * by


OWN = np.ones(8, np.float32)


def host_by(factor: Any) -> Any:
    @pl.jit.host
    def host(x: pl.Tensor[[2, 8], pl.FP32], y: pl.Out[pl.Tensor[[2, 8], pl.FP32]]):
        by = factor(x, y)
        for r in pl.range(pld.world_size()):
            times(x[r], y[r], by, device=r)

    return host


def test_a_kernel_on_arrays_of_a_helpers_own_runs_at_once() -> None:
    """As a call that is warm always did: who calls it need not know whether it was called before."""
    found: list[float] = []

    def probed(x: object, y: object) -> float:
        found.append(float(times(OWN, by=4.0)[0]))
        into = np.zeros_like(OWN)
        times(OWN, into)
        return found[-1] + float(into[0])

    times.cache_clear()
    host, x = host_by(probed), np.ones((2, 8), np.float32)
    for count in range(1, 6):
        np.testing.assert_array_equal(host(x, config=on(2)), 7 * x)
        assert found == [4.0] * count, "it is run in every call"


@pytest.mark.parametrize(
    ("helper", "message", "hint"),
    [
        (lambda x, y: times(OWN, y[0]), "parameter `x` of `times` is a tensor, got an array of shape [8]", "give it as a parameter"),
        (lambda x, y: times(OWN, OWN, device=1), "parameter `x` of `times` is a tensor, got an array of shape [8]", "give it as a parameter"),
        (lambda x, y: all_tripled(np.ones((2, 8), np.float32)), "the host function `all_tripled` is called on an array", "call it before"),
        (lambda x, y: all_tripled(x), "the host function `all_tripled` cannot be called so: missing a required argument: 'y'", "outputs too: x, y"),
    ],
    ids=["mixed", "on a rank", "host on arrays", "host without output"],
)
def test_what_a_helper_of_a_host_function_cannot_call_is_told_where_it_is_called(helper: Any, message: str, hint: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        host_by(helper)(np.ones((2, 8), np.float32), config=on(2))
    assert caught.value.message.startswith(message) and hint in str(caught.value)
    assert caught.value.span is not None and caught.value.span.function == "host"


@pl.jit
def raised(x: pl.Tensor, y: pl.Out[pl.Tensor], by=pl.RUNTIME):  # type: ignore[no-untyped-def]
    y[:] = x + by


@pl.jit
def filled(y: pl.Out[pl.Tensor[[8], pl.FP32]], by=pl.RUNTIME):  # type: ignore[no-untyped-def]
    y[:] = pl.full([8], dtype=pl.FP32, value=by)


def test_a_scalar_of_the_run_without_a_type_has_that_of_the_number_that_a_launch_gives() -> None:
    @pl.jit.host
    def host(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]], z: pl.Out[pl.Tensor[[8], pl.FP32]], by: float):
        raised(x, y, by, device=0)
        filled(z, by + 1.0, device=0)

    x = np.arange(8, dtype=np.float32)
    for by in (2.5, 0.25, -1.5):
        y, z = host(x, by=by, config=on(1))
        np.testing.assert_array_equal(y, x + np.float32(by))
        np.testing.assert_array_equal(z, np.full(8, by + 1.0, np.float32))


class Image:
    def __init__(self, pixels: np.ndarray) -> None:
        self.pixels = pixels

    def __cache_signature__(self) -> tuple[str]:
        return ("Image",)

    def __abi_slots__(self) -> tuple[np.ndarray]:
        return (self.pixels,)


def test_a_host_function_says_that_it_takes_no_objects_for_tensors() -> None:
    @pl.jit.host
    def host(x: Image, y: pl.Out[pl.Tensor[[8], pl.FP32]]):
        raised(x, y, 1.0, device=0)

    for given in (Image(np.ones(8, np.float32)), np.ones(8, np.float32)):
        with pytest.raises(ParserTypeError, match="`x` of a host function is annotated Image") as caught:
            host(given, np.empty(8, np.float32), config=on(1))
        assert "x: pl.Tensor[[rows, columns], dtype]" in str(caught.value)
