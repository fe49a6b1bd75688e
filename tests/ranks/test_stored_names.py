"""What the names in stored host functions stand for: what they stood for when the program was compiled, also where Python has several functions in one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.ranks import kernels_of_a_module
from tests.ranks.engines import on
from tests.ranks.kernels_of_a_module import times
from tilejit import ir
from tilejit.errors import ArtifactError
from tilejit.runtime import CompiledProgram, DistributedConfig

NR = pl.dynamic("NR")
X = np.arange(16, dtype=np.float32).reshape(2, 8)


def stored(host: Any) -> Any:
    return CompiledProgram.from_dir(host.compile(X, config=on(2)).output_dir)


def one_more(function: Callable[[int], int]) -> Callable[[int], int]:
    @functools.wraps(function)
    def around(number: int) -> int:
        return function(number) + 1

    return around


@one_more
def twice(number: int) -> int:
    return 2 * number


def test_a_function_is_stored_with_what_is_wrapped_around_it() -> None:
    @pl.jit.host
    def host(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            times(x[r], y[r], twice(1), device=r)

    np.testing.assert_array_equal(host(X, config=on(2)), 3 * X)
    np.testing.assert_array_equal(stored(host)(X), 3 * X)


def test_attributes_of_functions_are_stored_and_those_of_kernels_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twice, "factor", 5, raising=False)
    monkeypatch.setattr(times, "factor", 5, raising=False)

    @pl.jit.host
    def of_function(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            times(x[r], y[r], twice.factor, device=r)  # pyright: ignore[reportFunctionMemberAccess]

    @pl.jit.host
    def of_kernel(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            times(x[r], y[r], times.factor, device=r)  # pyright: ignore[reportAttributeAccessIssue]

    np.testing.assert_array_equal(stored(of_function)(X), 5 * X)
    with pytest.raises(ArtifactError, match=r"times\.factor"):
        stored(of_kernel)


@pl.program
class NamedLikeABuiltin:
    @pl.function(type=pl.FunctionType.Orchestration)
    def by(self, x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]], factor: pl.Scalar[pl.INT32]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = x * pl.cast(factor, pl.FP32)

    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
    def max(self, x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            self.by(x[r], y[r], max(2, 3), device=r)


def test_the_name_of_a_method_means_something_else_in_its_text() -> None:
    compiled: Any = ir.compile(NamedLikeABuiltin, distributed_config=DistributedConfig([0, 1]))
    np.testing.assert_array_equal(compiled(X), 3 * X)
    np.testing.assert_array_equal(CompiledProgram.from_dir(compiled.output_dir)(X), 3 * X)


def test_annotations_whose_names_were_bound_again_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    np.testing.assert_array_equal(stored(kernels_of_a_module.by_rows)(X), 2 * X)
    monkeypatch.setattr(kernels_of_a_module, "ROWS", 3)
    compiled: Any = kernels_of_a_module.by_rows.compile(X, config=on(2))
    np.testing.assert_array_equal(compiled(X), 3 * X)
    with pytest.raises(ArtifactError, match="annotation"):
        _ = compiled.output_dir


def test_kernels_that_a_text_finds_in_a_module_are_those_of_the_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    @pl.jit.host
    def host(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            kernels_of_a_module.weighted(x[r], y[r], device=r)

    found = stored(host)
    monkeypatch.setattr(kernels_of_a_module, "WEIGHT", 5.0)
    np.testing.assert_array_equal(host(X, config=on(2)), 5 * X)
    np.testing.assert_array_equal(found(X), 2 * X)
    monkeypatch.setattr(kernels_of_a_module, "weighted", pl.jit(times.origin()))
    with pytest.raises(ArtifactError, match="none of the kernels"):
        found(X)


@pl.jit
def doubled(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = x * 2.0


@pl.jit
def tripled(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = x * 3.0


STAGES = (doubled, tripled)


def test_a_stored_kernel_is_one_object_wherever_it_is_mentioned() -> None:
    @pl.jit.host
    def host(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            for stage in STAGES:
                if stage is doubled and r == 0:
                    continue
                stage(x[r], y[r], device=r)
                if stage is doubled or stage.__name__ != "tripled":
                    break

    wanted = X * np.array([[3], [2]], np.float32)
    np.testing.assert_array_equal(host(X, config=on(2)), wanted)
    np.testing.assert_array_equal(stored(host)(X), wanted)


ROLES: dict[object, object] = {}
LAYERS: list[object] = [ROLES]
LAYERS.append(LAYERS)


def roles(known: dict[object, object] = ROLES) -> int:
    return len(known)


def test_functions_share_the_lists_and_dicts_that_they_change() -> None:
    @pl.jit.host
    def host(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        ROLES.clear()
        for r in pl.range(pld.world_size()):
            ROLES[r] = LAYERS
            if LAYERS[1] is LAYERS and LAYERS[0] is ROLES:
                times(x[r], y[r], roles() + 1, device=r)

    wanted = X * np.array([[2], [3]], np.float32)
    compiled: Any = host.compile(X, config=on(2))
    np.testing.assert_array_equal(compiled(X), wanted)
    found: Any = CompiledProgram.from_dir(compiled.output_dir)
    for _ in range(2):
        np.testing.assert_array_equal(found(X), wanted)


counted_calls = 0


def count() -> int:
    global counted_calls
    counted_calls += 1
    return counted_calls


def test_variables_that_functions_bind_anew_are_refused() -> None:
    inner = 0

    def of_a_function() -> int:
        nonlocal inner
        inner += 1
        return inner

    def of_its_own() -> int:
        number = 0

        def more() -> None:
            nonlocal number
            number += 1

        more()
        return number

    def host_with(counted: Callable[[], int]) -> Any:
        @pl.jit.host
        def host(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
            for r in pl.range(pld.world_size()):
                times(x[r], y[r], counted(), device=r)

        return host

    for counted, name in ((count, "counted_calls"), (of_a_function, "inner")):
        with pytest.raises(ArtifactError, match=f"`{name}` of `{counted.__name__}` is a variable of others"):
            stored(host_with(counted))
    np.testing.assert_array_equal(stored(host_with(of_its_own))(X), X)
