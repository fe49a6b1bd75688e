"""`@pl.jit.host` and `@pl.jit.extern`: what they accept, and what becomes of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import ir
from tilejit.errors import ArgumentError, ParserSyntaxError, ParserTypeError, UnsupportedFeatureError

pytestmark = pytest.mark.dispatch
rng = np.random.default_rng(8)


@pl.jit
def chip(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + 1.0
    return out


def test_a_host_function_calls_chip_programs(platform: str) -> None:
    @pl.jit.host
    def host(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        middle = pl.create_tensor([x.shape[0], x.shape[1]], dtype=pl.FP32)
        middle = chip(x, middle)
        out = chip(middle, out)
        return out

    x = rng.standard_normal((3, 5)).astype(np.float32)
    np.testing.assert_array_equal(host(x), x + 1 + 1)
    assert repr(host) == "JITFunction('host', func_type='host')"
    text = host.specialized_source(x)
    assert "level=pl.Level.HOST, role=pl.Role.Orchestrator" in text
    ir.assert_structural_equal(pl.parse(text), host.compile(x).program)  # type: ignore[arg-type]


def test_kernels_of_one_region_call_no_entries() -> None:
    @pl.jit.incore
    def inner(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out = chip(x, out)
        return out

    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out = inner(x, out)
        return out

    with pytest.raises(UnsupportedFeatureError, match="`chip` is an entry"):
        kernel(np.ones((2, 3), np.float32))
    with pytest.raises(TypeError, match="does not take `level=`"):
        pl.jit.host(level=pl.Level.HOST)


def test_an_extern_function_names_its_files(tmp_path: Path) -> None:
    source = tmp_path / "kernel.cpp"
    source.touch()
    wrong = [
        ({"core_type": "gpu", "source": source}, ValueError, "core_type is"),
        ({"source": source, "dual_aiv_dispatch": True}, ValueError, "needs core_type"),
        ({"core_type": "mixed", "aic_source": source}, ValueError, "needs aic_source= and aiv_source="),
        ({}, ValueError, "needs source="),
        ({"source": tmp_path / "none.cpp"}, ValueError, "there is no file"),
        ({"source": source, "include_dirs": [tmp_path / "none"]}, ValueError, "there is no directory"),
        ({"source": source, "include_dirs": str(tmp_path)}, TypeError, "a list of directories"),
    ]
    for options, error, message in wrong:
        with pytest.raises(error, match=message):
            pl.jit.extern(**options)  # type: ignore[arg-type]
    with pytest.raises(ParserSyntaxError, match=r"must be `\.\.\.`"):

        @pl.jit.extern(source=source)
        def full(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            out[:] = x


def test_an_extern_function_does_not_run_here(tmp_path: Path) -> None:
    (tmp_path / "kernel.cpp").touch()

    @pl.jit.extern(core_type="aic", source=tmp_path / "kernel.cpp", include_dirs=[tmp_path])
    def foreign(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        ...

    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        foreign(x, out)

    assert repr(foreign) == "JITFunction('foreign', func_type='extern')"
    x = np.ones((2, 3), np.float32)
    for function in (kernel, foreign):
        with pytest.raises(UnsupportedFeatureError, match=r"`foreign` is C\+\+ code for Ascend"):
            function(x, x.copy())


def test_run_time_scalars_are_parameters() -> None:
    with pytest.raises(TypeError, match="`m`, which is no parameter of kernel"):

        @pl.jit(runtime_scalars=("n", "m"))
        def kernel(x: pl.Tensor, n: pl.INDEX, out: pl.Out[pl.Tensor]):
            out[:] = x


@pytest.mark.parametrize("given", [True, 3])
def test_run_time_scalars_are_names(given: object) -> None:
    with pytest.raises(ArgumentError, match=f"runtime_scalars is a tuple of names of parameters, got {given}"):
        pl.jit(runtime_scalars=given)


def test_the_layout_dn_needs_strides() -> None:
    with pytest.raises(ParserTypeError, match=r"pl\.DN alone"):
        pl.parse("@pl.function\ndef f(x: pl.Tensor[[4, 8], pl.FP32, pl.DN], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):\n    out[:] = x")
