"""Forms that real kernels use: each runs on every platform, and its text parses to the same program."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import ir
from tilejit.errors import ArgumentError
from tilejit.jit.function import JITFunction

pytestmark = pytest.mark.dispatch
rng = np.random.default_rng(21)
H = 8
M = pl.dynamic("M")
N = pl.dynamic("N")


def data(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def same_text(kernel: JITFunction, *args: object, **keywords: float) -> None:
    program = kernel.compile(*args, **keywords).program  # type: ignore[arg-type]
    assert isinstance(program, ir.Program)
    ir.assert_structural_equal(pl.parse(kernel.specialized_source(*args, **keywords)), program)  # type: ignore[arg-type]


@pl.jit.incore
def plus_one(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = x + 1.0
    return out


@pl.jit.incore
def copied(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = x
    return out


def test_helpers_defined_later_and_keyword_only_parameters(platform: str) -> None:
    @pl.jit
    def kernel(x: pl.Tensor, *, factor: pl.FP32 = 2.0, out: pl.Out[pl.Tensor]):
        out = later(x, factor, out)
        return out

    @pl.jit.incore
    def later(x: pl.Tensor, factor: pl.FP32, out: pl.Out[pl.Tensor]):
        out[:] = x * factor
        return out

    x = data(3, H)
    out = np.empty_like(x)
    kernel(x, out=out)
    np.testing.assert_array_equal(out, x * 2)
    np.testing.assert_array_equal(kernel(x, factor=3.0), x * 3)
    same_text(kernel, x, factor=3.0)


@pytest.mark.parametrize("fast", ["1", "0"], ids=["native", "python"])
def test_keyword_only_parameters_take_no_positions(fast: str, platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", fast)

    @pl.jit
    def scaled(x: pl.Tensor, out: pl.Out[pl.Tensor], *, factor: pl.FP32, shift: pl.FP32 = 0.0):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * factor + shift

    x = data(3, H)
    out = np.empty_like(x)
    for _ in range(4):  # the first call, and those that take a warm way
        with pytest.raises(ArgumentError, match=r"'scaled': `factor` is keyword-only, got 3 arguments by position") as caught:
            scaled(x, out, 2.0)
        assert "write scaled(x, out, factor=…, shift=…)" in str(caught.value)
        with pytest.raises(ArgumentError, match=r"`factor`, `shift` are keyword-only, got 4 arguments by position"):
            scaled(x, out, 2.0, 1.0)
        with pytest.raises(ArgumentError, match="`factor` is keyword-only"):
            scaled(x, out, 2.0, shift=1.0)
        for ask in (scaled.compile, scaled.explain, scaled.specialized_source):
            with pytest.raises(ArgumentError, match="`factor` is keyword-only"):
                ask(x, out, 2.0)
        for shift in (1.0, 5.0):
            scaled(x, out, factor=2.0, shift=shift)
            np.testing.assert_array_equal(out, x * 2 + np.float32(shift))
        scaled(x, shift=1.0, factor=3.0, out=out)
        np.testing.assert_array_equal(out, x * 3 + 1)
        np.testing.assert_array_equal(scaled(x, factor=4.0), x * 4)
    assert scaled.cache_info().misses == 4


def test_helpers_work_on_slices_of_a_tensor_in_place(platform: str) -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        for i in pl.range(x.shape[0]):
            plus_one(x[i], out[i])
        return out

    x = data(4, 3, H)
    out = np.empty_like(x)
    kernel(x, out)
    np.testing.assert_array_equal(out, x + 1)
    same_text(kernel, x, out)


def test_a_helper_without_return_evaluates_to_its_outputs(platform: str) -> None:
    @pl.jit.incore
    def both(x: pl.Tensor, low: pl.Out[pl.Tensor], total: pl.InOut[pl.Tensor]):
        low[:] = x - 1.0
        total[:] = total + x

    @pl.jit
    def kernel(x: pl.Tensor, low: pl.Out[pl.Tensor], total: pl.InOut[pl.Tensor]):
        low, total = both(x, low, total)
        both(x, low, total)
        return low

    x = data(3, H)
    low, total = np.empty_like(x), np.ones_like(x)
    kernel(x, low, total)
    np.testing.assert_array_equal(low, x - 1)
    np.testing.assert_allclose(total, 1 + 2 * x, rtol=1e-5, atol=1e-6)
    same_text(kernel, x, low, total)


def test_a_helper_returns_a_value_and_a_parameter(platform: str) -> None:
    @pl.jit.inline
    def doubled(x: pl.Tensor, out: pl.Tensor):
        y = x * 2.0
        out[:] = y
        return y, out

    @pl.jit
    def kernel(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y, a = doubled(x, a)
            b[:] = y + a
        return a, b

    x = data(3, H)
    a, b = kernel(x)
    np.testing.assert_array_equal(a, 2 * x)
    np.testing.assert_array_equal(b, 4 * x)
    same_text(kernel, x)


def test_extents_computed_from_dynamic_ones(platform: str) -> None:
    @pl.jit.incore
    def mirrored(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        n = x.shape[0]
        out[0:n, :] = x
        out[n:, :] = pl.neg(x)
        return out

    @pl.jit
    def kernel(x: pl.Tensor[[M, H], pl.FP32], out: pl.Out[pl.Tensor]):
        big = pl.create_tensor([x.shape[0] * 2, H], dtype=x.dtype)
        big = mirrored(x, big)
        out = copied(big, out)
        return out

    for rows in (1, 5):
        x = data(rows, H)
        out = np.empty((2 * rows, H), np.float32)
        kernel(x, out)
        np.testing.assert_array_equal(out, np.concatenate([x, -x]))
        same_text(kernel, x, out)


def test_symbols_in_annotations_of_locals(platform: str) -> None:
    @pl.jit.incore
    def helper(x: pl.Tensor[[M, H], pl.FP32], out: pl.Out[pl.Tensor[[M, H], pl.FP32]]):
        t: pl.Tensor[[M, H], pl.FP32] = pl.add(x, 1.0)
        u: "pl.Tensor[[M, H], pl.FP32]" = pl.mul(t, 2.0)  # noqa: UP037 - quoted on purpose
        out[:] = u
        return out

    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out = helper(x, out)
        return out

    for rows in (2, 7):
        x = data(rows, H)
        np.testing.assert_allclose(kernel(x), (x + 1) * 2, rtol=1e-6)
        same_text(kernel, x)
    assert len(kernel._cache) == 1


@pytest.mark.torch
def test_scalars_of_every_framework_and_static_statements(platform: str, capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")

    @pl.jit
    def kernel(x: pl.Tensor, n: pl.INT32, factor: pl.FP32, keep: pl.BOOL = True, out: pl.Out[pl.Tensor] = None):  # type: ignore[assignment]
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [n, H])
            pl.static_print(f"rows {n} of {x.shape}")
            pl.static_assert(n > 1, "too few")
            t = pl.mul(t, factor if keep else -factor)
            pl.store(t, [0, 0], out)
        return out

    x = data(4, H)
    out = np.empty_like(x)
    kernel(x, torch.tensor(4), np.float16(0.5), out=out)
    np.testing.assert_array_equal(out, x * 0.5)
    kernel(x, np.int64(4), torch.tensor(0.5), False, out)
    np.testing.assert_array_equal(out, x * -0.5)


def test_returned_outputs_with_dynamic_extents_from_two_arguments(platform: str) -> None:
    @pl.jit
    def product(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
        x.bind_dynamic(0, M)
        x.bind_dynamic(1, N)
        y.bind_dynamic(0, N)
        out[:] = pl.matmul(x, y)
        return out

    for m, n in ((2, 3), (5, 4)):
        x, y = data(m, n), data(n, 6)
        np.testing.assert_allclose(product(x, y), x @ y, rtol=1e-4, atol=1e-5)
    assert len(product._cache) == 1


def test_nested_unpacking_augmented_and_chained_assignment(platform: str) -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            (rows, columns), factor = x.shape, 3
            t = pl.load(x, [0, 0], [rows, columns])
            t += 1.0
            t *= factor
            a = b = t
            pl.store(a + b, [0, 0], out)
        return out

    x = data(3, H)
    np.testing.assert_allclose(kernel(x), (x + 1) * 6, rtol=1e-6)
    same_text(kernel, x)


@pytest.mark.torch
def test_one_specialisation_of_a_helper_per_dtype(platform: str) -> None:
    torch = pytest.importorskip("torch")

    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        tmp = pl.create_tensor([x.shape[0], x.shape[1]], dtype=x.dtype)
        tmp = copied(x, tmp)
        out = copied(tmp, out)
        return out

    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int32):
        x = (torch.randn(3, 5) * 10).to(dtype)
        assert torch.equal(kernel(x), x)
    assert len(kernel._cache) == 4


def test_a_local_hides_the_global_of_its_name(platform: str) -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        H = x.shape[1]
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.load(x, [0, 0], [2, H]), [0, 0], out)
        return out

    x = data(2, 12)
    np.testing.assert_array_equal(kernel(x), x)


def test_a_scalar_that_a_loop_changes_is_no_constant_of_the_helper(platform: str) -> None:
    @pl.jit.inline
    def bumped(t, by):  # pyright: ignore[reportMissingParameterType]
        return pl.add(t, by)

    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [2, H])
            step = 1.0
            for _ in pl.range(3):
                t = bumped(t, step)
                step = step * 2.0
            pl.store(t, [0, 0], out)
        return out

    x = data(2, H)
    np.testing.assert_allclose(kernel(x), x + 7, rtol=1e-6)
    same_text(kernel, x)


def test_parameters_can_be_swapped(platform: str) -> None:
    @pl.jit
    def kernel(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
        a, b = b, a
        out[:] = a - b * 2.0
        return out

    a, b = data(2, 3), data(2, 3)
    np.testing.assert_allclose(kernel(a, b), b - 2 * a, rtol=1e-5, atol=1e-6)
    same_text(kernel, a, b)
