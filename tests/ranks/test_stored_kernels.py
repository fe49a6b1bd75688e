"""Kernels that stored host functions find in modules: those of the compile, or an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.ranks import kernels_of_a_factory
from tests.ranks.engines import on
from tilejit.errors import ArtifactError
from tilejit.runtime import CompiledProgram

NR = pl.dynamic("NR")
X = np.arange(16, dtype=np.float32).reshape(2, 8)


@pl.jit.host
def of_factory(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]], n: pl.Scalar[pl.INT32]):
    for r in pl.range(pld.world_size()):
        (kernels_of_a_factory.twice if n == 0 else kernels_of_a_factory.thrice)(x[r], y[r], device=r)


@pl.jit.host
def of_objects(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]], n: pl.Scalar[pl.INT32]):
    for r in pl.range(pld.world_size()):
        (kernels_of_a_factory.two if n == 0 else kernels_of_a_factory.three).times(x[r], y[r], device=r)


@pl.jit.host
def of_a_list(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]], n: pl.Scalar[pl.INT32]):
    for r in pl.range(pld.world_size()):
        kernels_of_a_factory.ALL[n](x[r], y[r], device=r)


@pytest.mark.parametrize("host", [of_factory, of_objects, of_a_list])
def test_another_kernel_of_the_same_text_was_not_compiled(host: Any) -> None:
    found: Any = CompiledProgram.from_dir(host.compile(X, n=0, config=on(2)).output_dir)
    np.testing.assert_array_equal(found(X, n=0), 2 * X)
    with pytest.raises(ArtifactError, match="none of the kernels"):
        found(X, n=1)


def test_several_kernels_of_one_text_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    @pl.jit.host
    def host(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            kernels_of_a_factory.ALL[r](x[r], y[r], device=r)

    found: Any = CompiledProgram.from_dir(host.compile(X, config=on(2)).output_dir)
    np.testing.assert_array_equal(found(X), X * np.array([[2], [3]], np.float32))
    monkeypatch.setattr(kernels_of_a_factory, "ALL", [kernels_of_a_factory.twice, kernels_of_a_factory.thrice])
    with pytest.raises(ArtifactError, match="none of the kernels"):
        found(X)


def test_a_kernel_that_no_module_names_is_refused_when_written() -> None:
    @pl.jit.host
    def host(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            kernels_of_a_factory.hidden()(x[r], y[r], device=r)

    compiled: Any = host.compile(X, config=on(2))
    np.testing.assert_array_equal(compiled(X), 2 * X)
    with pytest.raises(ArtifactError, match="neither a text nor a module"):
        _ = compiled.output_dir


marked = kernels_of_a_factory.scaled(3.0)


@pl.jit.host
def asks_under_another_name(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        if getattr(marked, "factor", 1) == 2:
            marked(x[r], y[r], device=r)


def test_attributes_of_kernels_that_a_text_may_read_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found: Any = CompiledProgram.from_dir(asks_under_another_name.compile(X, config=on(2)).output_dir)
    np.testing.assert_array_equal(found(X), 0 * X)
    monkeypatch.setattr(marked, "factor", 2, raising=False)
    with pytest.raises(ArtifactError, match=r"\.factor` is an attribute of a kernel"):
        _ = asks_under_another_name.compile(X, config=on(2)).output_dir
