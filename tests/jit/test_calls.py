"""Calls of jit functions: in place and return style, what is compiled when, and what comes back."""

from __future__ import annotations

import enum
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import ir
from tilejit.errors import ArgumentError, NoWriteError, OptionError, TilejitError
from tilejit.jit.function import JITFunction
from tilejit.runtime.config import RunConfig

pytestmark = pytest.mark.dispatch
MakeKernel = Callable[..., JITFunction]
rng = np.random.default_rng(3)
ROWS = pl.dynamic("ROWS")


def data(*shape: int, dtype: object = np.float32) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)  # type: ignore[arg-type]


@pl.jit
def axpy(x: pl.Tensor, y: pl.Tensor, a: pl.FP32, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * a + y
    return out


@pl.jit
def moments(x: pl.Tensor, low: pl.Out[pl.Tensor], high: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [6, 10])
        pl.store(pl.row_min(t, t), [0, 0], low)
        pl.store(pl.row_max(t, t), [0, 0], high)
    return low, high


@pl.jit
def fresh_results(x: pl.Tensor[[ROWS, 5], pl.FP32]):
    double = x * 2.0
    return double, pl.row_sum(x)


@pl.jit
def grow(x: pl.Tensor[[ROWS, 4], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, 4], pl.FP32]]):
    out[:] = x + 1.0
    return out


@pl.jit
def accumulate(total: pl.InOut[pl.Tensor], x: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        total[:] = total + x


def test_a_call_with_all_parameters_works_in_place_and_returns_nothing(platform: str) -> None:
    x, y, out = data(7, 9), data(7, 9), data(7, 9)
    assert axpy(x, y, 0.5, out) is None
    np.testing.assert_allclose(out, x * np.float32(0.5) + y, rtol=1e-6, atol=1e-6)


def test_a_call_without_its_outputs_returns_them(platform: str) -> None:
    x, y = data(7, 9), data(7, 9)
    out = axpy(x, y, 0.5)
    assert isinstance(out, np.ndarray)
    np.testing.assert_allclose(out, x * np.float32(0.5) + y, rtol=1e-6, atol=1e-6)


def test_several_outputs_come_back_in_parameter_order(platform: str) -> None:
    x = data(6, 10)
    low, high = moments(x)  # type: ignore[misc]
    np.testing.assert_array_equal(low, x.min(1, keepdims=True))
    np.testing.assert_array_equal(high, x.max(1, keepdims=True))


def test_returned_values_that_are_no_parameters_are_new_arrays(platform: str) -> None:
    for rows in (1, 8):
        x = data(rows, 5)
        double, total = fresh_results(x)  # type: ignore[misc]
        np.testing.assert_array_equal(double, x * 2)
        np.testing.assert_allclose(total, x.sum(1, keepdims=True), rtol=1e-5, atol=1e-5)
    assert len(fresh_results._cache) >= 1


def test_dynamic_outputs_are_allocated_with_the_extent_of_the_call(platform: str) -> None:
    grow.cache_clear()
    for rows in (1, 5, 64):
        x = data(rows, 4)
        out = grow(x)
        assert isinstance(out, np.ndarray)
        assert out.shape == (rows, 4)
        np.testing.assert_array_equal(out, x + 1)
    assert len(grow._cache) == 1


def test_inout_parameters_are_never_allocated(platform: str) -> None:
    total, x = data(3, 3), data(3, 3)
    expected = total + x
    accumulate(total, x)
    np.testing.assert_array_equal(total, expected)
    with pytest.raises(ArgumentError, match=r"missing argument 'x'"):
        accumulate(x)


def test_plain_parameters_that_are_written_reach_the_caller(platform: str) -> None:
    @pl.jit
    def plain(x: pl.Tensor, out: pl.Tensor):
        out[:] = x * 3.0

    x, out = data(4, 4), data(4, 4)
    plain(x, out)
    np.testing.assert_array_equal(out, x * 3)


@pytest.mark.torch
@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_torch_in_torch_out(platform: str, name: str) -> None:
    torch = pytest.importorskip("torch")
    x, y = (torch.randn(5, 7).to(getattr(torch, name)) for _ in range(2))
    out = axpy(x, y, 2.0, torch.empty(5, 7))
    assert out is None
    returned = axpy(x, y, 2.0)
    assert isinstance(returned, torch.Tensor)
    torch.testing.assert_close(returned.float(), x.float() * 2 + y.float(), rtol=2e-2, atol=2e-2)


@pytest.mark.torch
def test_strided_and_negative_stride_inputs_are_read_correctly(platform: str) -> None:
    torch = pytest.importorskip("torch")
    wide = data(9, 7)
    np.testing.assert_allclose(axpy(wide.T, wide.T[::-1], 1.0), wide.T + wide.T[::-1], rtol=1e-6)
    tensor = torch.randn(9, 7)
    torch.testing.assert_close(axpy(tensor.T, tensor.T, 1.0), tensor.T * 2)


def test_zero_rows_are_fine(platform: str) -> None:
    out = grow(data(0, 4))
    assert isinstance(out, np.ndarray)
    assert out.shape == (0, 4)


# what is compiled when ----------------------------------------------------------------------------------------------------


def fresh(kernel: JITFunction) -> JITFunction:
    """A kernel of the same definition with a cache of its own."""
    return JITFunction(kernel.definition)


def test_one_program_per_shape_dtype_and_scalar_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", "0")  # native calls are not counted as hits of the cache
    kernel = fresh(axpy)
    x = data(4, 4)
    for value in (1.0, 2.0, 1.0):
        kernel(x, x, value, np.empty_like(x))
    assert len(kernel._cache) == 2
    kernel(data(4, 5), data(4, 5), 1.0)
    kernel(data(4, 4, dtype=np.float16), data(4, 4, dtype=np.float16), 1.0, np.empty((4, 4), np.float32))
    assert len(kernel._cache) == 4
    info = kernel.cache_info()
    assert (info.entries, info.misses, info.hits) == (4, 4, 1)
    assert info.compile_seconds > 0


def test_numbers_that_compare_equal_do_not_share_a_program() -> None:
    @pl.jit
    def shift(x: pl.Tensor, by, out: pl.Out[pl.Tensor]):  # pyright: ignore[reportMissingParameterType]
        out[:] = x + by
        return out

    x = data(2, 2)
    for by in (1, 1.0, 0.0, -0.0, np.float32(1.0), np.int64(1)):
        shift(x, by)
    assert len(shift._cache) == 4


def test_return_style_and_in_place_share_a_program() -> None:
    kernel = fresh(axpy)
    x = data(4, 4)
    kernel(x, x, 1.0, np.empty_like(x))
    kernel(x, x, 1.0)
    kernel(x, x, a=1.0)
    kernel(x, y=x, a=1.0, out=np.empty_like(x))
    assert len(kernel._cache) == 1


def test_options_and_platform_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = fresh(axpy)
    x = data(4, 4)
    kernel(x, x, 1.0)
    kernel(x, x, 1.0, config=RunConfig(platform="reference"))
    kernel(x, x, 1.0, config=RunConfig(check_bounds=False))
    monkeypatch.setenv("TILEJIT_FAST_MATH", "0")
    kernel(x, x, 1.0)
    assert len(kernel._cache) == 4
    assert {program.platform for program in kernel._cache.values()} == {"cpu", "reference"}


def test_compile_returns_what_the_call_uses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path))  # compiled here and now, so that its stages can be shown
    kernel = fresh(axpy)
    x = data(4, 4)
    compiled = kernel.compile(x, x, 1.0)
    assert kernel.compile(x, x, 1.0, np.empty_like(x)) is compiled
    kernel(x, x, 1.0)
    assert list(kernel._cache.values()) == [compiled]
    np.testing.assert_allclose(np.asarray(compiled(x, x)), x + x, rtol=1e-6)
    assert compiled.param_names == ["x", "y", "out"]
    assert compiled.output_indices == (2,)
    assert compiled.has_return
    assert "define" in compiled.stage("ll")


def test_clearing_the_cache_forgets() -> None:
    kernel = fresh(axpy)
    x = data(4, 4)
    kernel(x, x, 1.0)
    kernel.cache_clear()
    assert len(kernel._cache) == 0
    kernel(x, x, 1.0)
    kernel._cache.clear()
    assert kernel.cache_info().entries == 0


def test_threads_that_call_first_compile_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = fresh(axpy)
    compiles: list[str] = []
    original = JITFunction._compile

    def counted(self: JITFunction, *args: object) -> object:
        compiles.append(threading.current_thread().name)
        return original(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(JITFunction, "_compile", counted)
    x = data(8, 8)
    results: list[object] = []
    threads = [threading.Thread(target=lambda: results.append(kernel(x, x, 1.0))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compiles) == 1
    assert len(results) == 8
    for result in results:
        np.testing.assert_allclose(result, x + x, rtol=1e-6)  # type: ignore[arg-type]


def test_a_compile_that_fails_is_tried_again() -> None:
    @pl.jit
    def broken(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out = pl.add(x, 1.0)
        return out

    for _ in range(2):
        with pytest.raises(NoWriteError, match="`out` is never written"):
            broken(data(4, 4), data(4, 4))
    assert len(broken._cache) == 0


# scalars that stay ----------------------------------------------------------------------------------------------------------


@pl.jit(runtime_scalars=("n",))
def first_rows(x: pl.Tensor, n: pl.INDEX, out: pl.Out[pl.Tensor], k: pl.FP32 = pl.RUNTIME):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(n):
            t = pl.load(x, [i, 0], [1, 12])
            pl.store(pl.mul(t, k), [i, 0], out)
    return out


def test_runtime_scalars_are_parameters_of_one_program(platform: str) -> None:
    first_rows.cache_clear()
    x = data(9, 12)
    for n, k in ((0, 1.0), (4, 2.0), (9, -3.5)):
        out = np.zeros_like(x)
        first_rows(x, n, out, k)
        expected = np.zeros_like(x)
        expected[:n] = x[:n] * np.float32(k)
        np.testing.assert_array_equal(out, expected)
    assert len(first_rows._cache) == 1
    (compiled,) = first_rows._cache.values()
    assert compiled.param_names == ["x", "out", "n", "k"]


def test_the_marker_is_no_argument_of_a_running_call() -> None:
    with pytest.raises(ArgumentError, match=r"pl.RUNTIME was passed for `a` of a running call"):
        axpy(data(2, 2), data(2, 2), pl.RUNTIME)
    assert "a: pl.Scalar[pl.FP32]" in axpy.specialized_source(data(2, 2), data(2, 2), pl.RUNTIME)


# compiling from annotations -------------------------------------------------------------------------------------------------


@pl.jit
def annotated(x: pl.Tensor[[ROWS, 6], pl.FP32], scale: pl.FP32, out: pl.Out[pl.Tensor[[ROWS, 6], pl.FP32]]):
    out[:] = x * scale
    return out


def test_annotations_alone_are_enough_to_compile() -> None:
    kernel = fresh(annotated)
    compiled = kernel.compile(scale=0.25)
    x = data(5, 6)
    np.testing.assert_array_equal(compiled(x), x * np.float32(0.25))
    kernel(x, 0.25)
    assert kernel.compile(x, 0.25) is compiled
    assert len(kernel._cache) == 1


def test_compiling_without_arguments_names_what_is_missing() -> None:
    with pytest.raises(ArgumentError, match="the scalar `scale` needs a value"):
        annotated.compile()
    with pytest.raises(ArgumentError, match="`x` has no shape and dtype in its annotation"):
        axpy.compile(a=1.0)
    with pytest.raises(ArgumentError, match=r"`scale` must be a number or pl\.RUNTIME, got str"):
        annotated.compile(scale="big")


# the program behind ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "args"),
    [
        (axpy, (data(7, 9), data(7, 9), 0.5)),
        (moments, (data(6, 10),)),
        (fresh_results, (data(4, 5),)),
        (grow, (data(3, 4),)),
        (first_rows, (data(9, 12), 3, data(9, 12), 1.5)),
        (annotated, (data(3, 6), 2.0)),
    ],
    ids=lambda value: value.__name__ if isinstance(value, JITFunction) else "",
)
def test_the_specialised_text_is_the_program(kernel: JITFunction, args: tuple[object, ...]) -> None:
    compiled = kernel.compile(*args)
    parsed = pl.parse(kernel.specialized_source(*args))
    ir.assert_structural_equal(parsed, compiled.program)  # type: ignore[arg-type]


def test_lower_gives_one_kernel_per_region_and_compiles_nothing() -> None:
    kernel = fresh(axpy)
    lowered = kernel.lower(data(4, 4), data(4, 4), 1.0)
    kinds = {function.static("kind") for function in lowered.functions.values()}
    assert kinds == {"orchestration", "incore"}
    assert len(kernel._cache) == 0


# where kernels live -----------------------------------------------------------------------------------------------------------


class Scaler:
    width = 6

    def __init__(self, factor: float) -> None:
        self.factor = factor

    @pl.jit
    def run(self, x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [3, self.width])
            pl.store(pl.mul(t, self.factor), [0, 0], out)
        return out

    @staticmethod
    @pl.jit
    def negate(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out[:] = pl.neg(x)
        return out

    @pl.jit
    def twice(self, x: pl.Tensor, out: pl.Out[pl.Tensor]):
        tmp = pl.create_tensor([x.shape[0], x.shape[1]], dtype=pl.FP32)
        tmp = self.helper(x, tmp)
        out = self.helper(tmp, out)
        return out

    @pl.jit.incore
    def helper(self, x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out[:] = pl.mul(x, self.factor)
        return out


def test_methods_read_their_object_while_compiling(platform: str) -> None:
    x = data(3, 6)
    for factor in (2.0, -0.5):
        scaler = Scaler(factor)
        np.testing.assert_array_equal(scaler.run(x), x * np.float32(factor))
        np.testing.assert_array_equal(scaler.twice(x, np.empty_like(x)) or scaler.twice(x), x * np.float32(factor) * np.float32(factor))
    np.testing.assert_array_equal(Scaler.negate(x), -x)
    np.testing.assert_array_equal(Scaler(1.0).negate(x), -x)


def test_kernels_keep_their_name_and_docs() -> None:
    @pl.jit.incore(level=pl.Level.AIV)
    def documented(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        """What it does."""

    assert documented.__name__ == "documented"
    assert documented.__doc__ == "What it does."
    assert documented.__module__ == __name__
    assert repr(documented) == "JITFunction('documented', func_type='incore')"
    assert repr(axpy) == "JITFunction('axpy', func_type='orchestration')"


def test_kernels_pickle_by_reference() -> None:
    assert pickle.loads(pickle.dumps(axpy)) is axpy


def test_kernels_from_a_notebook_cell_run(make_kernel: MakeKernel, platform: str) -> None:
    kernel = make_kernel(
        """
        @pl.jit
        def cell(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            out[:] = x * 2.0
            return out
        """
    )
    x = data(3, 3)
    np.testing.assert_array_equal(kernel(x), x * 2)


@pytest.mark.parametrize(
    ("decorate", "message"),
    [
        (lambda: pl.jit.inline(level=pl.Level.AIV), "@pl.jit.inline does not take `level=`"),
        (lambda: pl.jit.incore(auto_scope=True), "@pl.jit.incore does not take `auto_scope=`"),
        (lambda: pl.jit.opaque(level=pl.Level.AIV), "@pl.jit.opaque does not take `level=`"),
        (lambda: pl.jit.opaque(auto_scope=False), "@pl.jit.opaque does not take `auto_scope=`"),
        (lambda: pl.jit(strikt=True), "@pl.jit does not take `strikt=`"),
        (lambda: pl.jit(runtime_scalars="n"), "runtime_scalars is a tuple of names"),
        (lambda: pl.jit(lambda x: x), "cannot decorate a lambda"),
        (lambda: pl.jit(cast("Any", 3)), "decorates a function, got int"),
    ],
)
def test_wrong_decorations_are_type_errors(decorate: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        decorate()


class Policy(enum.StrEnum):
    RECOMPILE = "recompile"


class Switch(enum.IntEnum):
    ON = 1


@pytest.mark.parametrize("policy", [Policy.RECOMPILE, np.str_("recompile")])
def test_options_count_for_what_they_say(policy: str, make_kernel: MakeKernel) -> None:
    text = "@pl.jit(strict=STRICT, on_drift=POLICY, eager=None)\ndef k(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = x * FACTOR\n"
    x = data(2, 3)
    for strict in (False, np.False_, 0):
        kernel = make_kernel(text, STRICT=strict, POLICY=policy, FACTOR=2.0)
        np.testing.assert_array_equal(kernel(x), x * 2)
        kernel.definition.function.__globals__["FACTOR"] = 3.0
        np.testing.assert_array_equal(kernel(x), x * 3)
    for strict in (True, np.True_, 1):  # the disk has what was compiled for False
        with pytest.raises(TilejitError, match="needs a region"):
            make_kernel(text, STRICT=strict, POLICY=policy, FACTOR=2.0)(x)


@pytest.mark.parametrize(
    ("decorate", "message"),
    [
        (lambda: pl.jit(strict=Switch.ON), "strict is True or False, got <Switch.ON: 1>"),
        (lambda: pl.jit(eager="0"), "eager is True or False, got '0'"),
        (lambda: pl.jit.inline(auto_scope="no"), "auto_scope is True or False, got 'no'"),
        (lambda: pl.jit.incore(level="AIV"), "level is one of pl.Level, got 'AIV'"),
        (lambda: pl.jit(on_drift=Switch.ON), "on_drift takes texts, got <Switch.ON: 1>"),
        (lambda: pl.jit(runtime_scalars=["n", 3]), "runtime_scalars takes texts, got 3"),
    ],
)
def test_options_that_say_nothing_are_refused(decorate: Callable[[], object], message: str) -> None:
    with pytest.raises((OptionError, ArgumentError), match=message):
        decorate()


def test_strict_kernels_refuse_operators_outside_regions() -> None:
    @pl.jit(strict=True)
    def loose(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out[:] = x + 1.0
        return out

    with pytest.raises(Exception, match="needs a region"):
        loose(data(2, 2))
