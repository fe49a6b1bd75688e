"""What helpers give back and what kernels write tells the shapes of outputs that a call leaves out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tests.jit.conftest import MakeKernel
from tilejit import ir
from tilejit.errors import ArgumentError, ShapeError

pytestmark = pytest.mark.dispatch
rng = np.random.default_rng(77)
M = pl.dynamic("M")


def data(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def test_a_parameter_that_is_rebound_to_a_value_is_returned_as_that_value(platform: str) -> None:
    @pl.jit.inline
    def sums(x: pl.Tensor):
        x = pl.row_sum(x)
        return x

    @pl.jit.incore
    def kept(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        x = pl.row_sum(x)
        out[:] = x
        return x

    @pl.jit
    def by_inline(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out[:] = sums(x)

    @pl.jit
    def by_incore(x: pl.Tensor, first: pl.Out[pl.Tensor], second: pl.Out[pl.Tensor]):
        second[:] = kept(x, first)

    @pl.jit
    def alone(x: pl.Tensor):
        x = pl.row_sum(x)
        return x

    x = data(3, 5)
    expected = x.sum(1, keepdims=True)
    for result in (by_inline(x), *by_incore(x), alone(x)):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_numbers_that_a_kernel_was_given_are_returned_too(platform: str) -> None:
    @pl.jit(runtime_scalars=("s", "u"))
    def numbers(x: pl.Tensor, s: pl.INT32, u: pl.INT32):
        return 5, s, x.shape[0], u

    @pl.jit(runtime_scalars=("s",))
    def mixed(x: pl.Tensor, s: pl.INT32):
        return x + 1.0, s

    x = data(3, 5)
    for s in (7, -2):
        assert numbers(x, s, 4) == (5, s, 3, 4)
        result, number = mixed(x, s)
        np.testing.assert_array_equal(result, x + 1)
        assert number == s


@pytest.mark.parametrize("bounds", ["4, -1, -1", "5", "0, 5, 2"])
def test_loops_that_count_down_write_whole_outputs(bounds: str, make_kernel: MakeKernel) -> None:
    text = f"@pl.jit\ndef rows(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    for i in pl.range({bounds}):\n        out[i : i + 1, :] = x[i : i + 1, :]"
    x = data(5, 3)
    result = make_kernel(text)(x)
    assert result.shape == x.shape
    np.testing.assert_array_equal(result[::2], x[::2])


def test_values_of_inline_helpers_keep_the_symbols_of_their_arguments(platform: str) -> None:
    @pl.jit.inline
    def doubled(x: pl.Tensor):
        return x * 2.0

    @pl.jit.inline
    def both(x: pl.Tensor):
        y = doubled(x)
        return doubled(y), (pl.row_max(y), y)

    @pl.jit
    def kernel(x: pl.Tensor[[M, 4], pl.FP32], out: pl.Out[pl.Tensor], top: pl.Out[pl.Tensor]):
        z, (w, _) = both(x)
        out[:] = z
        top[:] = w

    for rows in (2, 5):
        x = data(rows, 4)
        out, top = kernel(x)
        np.testing.assert_array_equal(out, x * 4)
        np.testing.assert_array_equal(top, x.max(1, keepdims=True) * 2)
    assert len(kernel._cache) == 1
    ir.assert_structural_equal(pl.parse(kernel.specialized_source(x)), kernel.compile(x).program)  # type: ignore[arg-type]


def test_windows_at_constant_places_tell_the_shape_of_an_output(platform: str) -> None:
    @pl.jit
    def kernel(x: pl.Tensor, rows: pl.Out[pl.Tensor], pairs: pl.Out[pl.Tensor], columns: pl.Out[pl.Tensor], cells: pl.Out[pl.Tensor]):
        rows[0:2] = x
        rows[2:4] = x * 2.0
        pairs[0:2, 0, :] = x
        pairs[0:2, 1] = x
        columns[0:2, 1] = x[:, 0]
        columns[0:2, 0] = x[:, 1]
        with pl.at(level=pl.Level.CORE_GROUP):
            cells[0:2, 0:4] = x
            pl.write(cells, [2, 5], 7.0)
            cells[3, 0] = 8.0

    x = data(2, 4)
    rows, pairs, columns, cells = kernel(x)
    np.testing.assert_array_equal(rows, np.vstack([x, x * 2]))
    np.testing.assert_array_equal(pairs, np.stack([x, x], axis=1))
    np.testing.assert_array_equal(columns, x[:, 1::-1])
    assert cells.shape == (4, 6) and (cells[2, 5], cells[3, 0]) == (7, 8)


def test_a_place_from_the_end_tells_no_shape() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out[-1:] = x

    with pytest.raises(ShapeError, match="`out`"):
        kernel(data(1, 4))


def test_augmented_assignment_may_change_the_dtype_of_an_output(platform: str) -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        y = x + 0
        y *= 2.5
        out[:] = y

    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    out = kernel(x)
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out, x * 2.5)


def test_arguments_that_override_annotated_shapes_override_those_of_the_outputs(platform: str) -> None:
    @pl.jit
    def kernel(x: pl.Tensor[[2, 3], pl.FP32], out: pl.Out[pl.Tensor[[2, 3], pl.FP32]]):
        out[:] = x * 2.0

    for shape in ((5, 7), (2, 3)):
        x = data(*shape)
        np.testing.assert_array_equal(kernel(x), x * 2)


def test_options_and_symbols_of_the_wrong_kind_are_refused_by_name() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out[:] = x

    @pl.jit
    def misnamed(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        rows = pl.dynamic("a b")
        x.bind_dynamic(0, rows)
        out[:] = x

    with pytest.raises(TypeError, match="config must be a RunConfig, got int"):
        kernel(data(2, 3), config=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"(?s)needs an identifier, got 'a b'.*rows = pl.dynamic"):
        misnamed(data(2, 3))


def test_a_program_from_the_disk_cache_is_read_back_from_its_text(platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_CACHE", "1")
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path))

    @pl.jit
    def kernel(x: pl.Tensor[[M, 4], pl.FP32], out: pl.Out[pl.Tensor[[M, 4], pl.FP32]]):
        out[:] = pl.exp(x) + 1.0

    fresh = kernel.compile()
    kernel.cache_clear()
    again = kernel.compile()
    assert again is not fresh and (kernel.cache_info().loaded == 1 or platform != "cpu")
    ir.assert_structural_equal(again.program, fresh.program)  # type: ignore[arg-type]


def test_a_scalar_outside_its_declared_dtype_is_refused_in_calls_and_in_helpers() -> None:
    @pl.jit.incore
    def shifted(x: pl.Tensor, amount: pl.INT8, out: pl.Out[pl.Tensor]):
        out[:] = x + pl.cast(amount, pl.FP32)

    @pl.jit
    def kernel(x: pl.Tensor, amount: pl.INT16, out: pl.Out[pl.Tensor]):
        shifted(x, amount, out)

    x = data(2, 3)
    np.testing.assert_array_equal(kernel(x, -100), x - 100)
    with pytest.raises(OverflowError, match=r"`amount` = 40000 is outside the range of INT16"):
        kernel(x, 40000)
    with pytest.raises(OverflowError, match=r"(?s)`amount` = 300 is outside the range of INT8.*shifted\(x, amount, out\)"):
        kernel(x, 300)


def test_unrolled_writes_tell_the_shape_of_an_output(platform: str) -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        for i in pl.unroll(3):
            out[i, :] = x[2 - i, :]

    x = data(3, 4)
    np.testing.assert_array_equal(kernel(x), x[::-1])


def test_results_come_in_the_order_of_the_return_statement_in_warm_calls_too(platform: str) -> None:
    @pl.jit
    def kernel(x: pl.Tensor[[M, 4], pl.FP32], a: pl.Out[pl.Tensor[[M, 4], pl.FP32]], b: pl.Out[pl.Tensor[[M, 4], pl.FP32]]):
        a[:] = x - 1.0
        b[:] = x + 1.0
        return b, x * 3.0, a

    @pl.jit
    def doubled(x: pl.Tensor[[M, 4], pl.FP32]):
        both = pl.create_tensor([2 * x.shape[0] + 1, 4], dtype=pl.FP32, init_value=5.0)
        both[0 : x.shape[0]] = x
        return both

    for rows in (3, 3, 7, 7, 1):
        x = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
        for got, right in zip(kernel(x), (x + 1, x * 3, x - 1), strict=True):
            np.testing.assert_array_equal(got, right)
        a, b = np.empty_like(x), np.empty_like(x)
        np.testing.assert_array_equal(kernel(x, a, b), x * 3)
        np.testing.assert_array_equal(doubled(x), np.concatenate([x, np.full((rows + 1, 4), 5, np.float32)]))
    assert len(kernel._cache) == len(doubled._cache) == 1


def test_inputs_that_are_returned_come_back(platform: str) -> None:
    @pl.jit
    def scaled(x: pl.Tensor, scale: Any = None):
        if scale is None:
            return x
        return x * scale

    @pl.jit
    def both(x: pl.Tensor, y: pl.Tensor):
        return y, x + y, x

    x, y = data(2, 3), data(2, 3) + 1
    np.testing.assert_array_equal(scaled(x), x)
    np.testing.assert_array_equal(scaled(x, 2.0), x * 2)
    for got, wanted in zip(both(x, y), (y, x + y, x), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_kernel_of_numbers_returns_numbers(platform: str) -> None:
    @pl.jit(runtime_scalars=("n",))
    def counted(n: pl.INT32, y: float):
        s = 0
        for i in pl.range(n):
            s += i
        return s, y * 2.0

    @pl.jit
    def made(n: int):
        return pl.zeros([n])

    for n in (5, 5, 6, 0):
        assert counted(n, 1.5) == (sum(range(n)), 3.0)
    with pytest.raises(ArgumentError, match="no tensor"):
        made(3)


def test_sums_of_lists_are_those_of_python(platform: str) -> None:
    @pl.jit
    def summed(x: pl.Tensor):
        return sum([x[i] * 2.0 for i in range(3)]), sum([x[0, 1], x[1, 1]], 1.0), sum([x[0:2], x[1:3]], start=x[0:2])

    x = data(3, 3)
    for got, right in zip(summed(x), (x.sum(axis=0) * 2.0, x[0, 1] + x[1, 1] + 1.0, x[0:2] * 2.0 + x[1:3]), strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-5)


def test_shapes_of_results_follow_from_windows_and_reshapes(platform: str) -> None:
    @pl.jit
    def steps(x: pl.Tensor[[M, 4], pl.FP32]):
        later = x[1:] * 2.0
        return x[1:] - x[:-1], (x + 1.0).reshape(x.shape[0] * 2, 2), x[: x.shape[0] // 2, 0], later @ x.T, later.sum(axis=1)

    for rows in (5, 1, 8):
        x = data(rows, 4)
        right = (x[1:] - x[:-1], (x + 1).reshape(-1, 2), x[: rows // 2, 0], x[1:] * 2 @ x.T, (x[1:] * 2).sum(axis=1))
        for got, wanted in zip(steps(x), right, strict=True):
            assert got.shape == wanted.shape
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises(ShapeError, match="dim 0 is -1"):
        steps(data(0, 4))


def test_the_shape_of_a_result_of_what_a_loop_changes_follows_from_its_extents(platform: str) -> None:
    @pl.jit
    def turned_over(x: pl.Tensor[[M, 7], pl.FP32]):
        n = x.shape[0]
        t = x * 1.0
        for i in pl.range(n // 2):
            first = t[i] + 0.0
            t[i] = t[n - 1 - i]
            t[n - 1 - i] = first
        return t.reshape(-1)

    for rows in (5, 1, 8):
        x = data(rows, 7)
        np.testing.assert_array_equal(turned_over(x), x[::-1].reshape(-1))


def test_shapes_of_results_follow_through_loops_and_branches(platform: str) -> None:
    @pl.jit
    def carried(x: pl.Tensor[[M, 4], pl.FP32]):
        later, more, done = x[1:] * 2.0, pl.full([x.shape[0] + 1, 4], pl.FP32, 0.5), x[1:] + 1.0
        for i in pl.range(2):
            later, done = done, later
            if x[i, 0] > 0:
                more = more + x[i, 0]
        count = 0
        while count < 2:
            done = done * 2.0
            count = count + 1
        with pl.at(level=pl.Level.CORE_GROUP):
            inner = x[1:] * 1.0
            for _ in pl.range(3):
                inner = inner + 1.0
        return later, more, done, inner

    for rows in (5, 2):
        x = data(rows, 4)
        added = np.float32(0.5) + sum(max(x[i, 0], np.float32(0)) for i in range(2))
        right = (x[1:] * 2, np.full((rows + 1, 4), added), (x[1:] + 1) * 4, x[1:] + 3)
        for got, wanted in zip(carried(x), right, strict=True):
            assert got.shape == wanted.shape
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_a_result_that_a_loop_makes_smaller_has_no_shape_before_the_run(platform: str) -> None:
    @pl.jit
    def shrinking(x: pl.Tensor[[M, 4], pl.FP32]):
        rest = x[1:] * 1.0
        for _ in pl.range(2):
            rest = rest[1:] * 1.0
        return rest

    with pytest.raises(ShapeError, match="known only at run time"):
        shrinking(data(5, 4))
