"""Outputs that a call leaves out: their shapes from annotations in terms of other parameters, and from what is written."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import ShapeError, UnsupportedFeatureError
from tilejit.jit.function import JITFunction
from tilejit.runtime.config import RunConfig

PLATFORMS = ["cpu", "reference"]
M = pl.dynamic("M")
X = np.random.default_rng(0).standard_normal((4, 6), np.float32)


@pl.jit
def negated_and_cast(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    y = pl.cast(pl.abs(-x) * 10.0, pl.INT32)
    out[:] = y


@pl.jit
def windows(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    m, n = x.shape
    out[0:m, 0:n] = x
    out[m : 2 * m, 0:n] = -x


@pl.jit
def zero_first(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = 0
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(0, 6, 2):
            out[i : i + 1, 0:6] = x[0:1, :]


@pl.jit
def elements(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    m, n = x.shape
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(m):
            for j in pl.range(n):
                place = i + 1
                out[place, n - 1] = x[i, j]


@pl.jit
def blocks(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(2):
        pl.store(pl.neg(pl.load(x, [i * 2, 0], [2, 6])), [i * 2, 0], out)


@pl.jit
def dynamic_rows(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows = pl.dynamic("ROWS")
    x.bind_dynamic(0, rows)
    out.bind_dynamic(0, rows)
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range((rows + 1) // 2):
            out[2 * i : min(2 * i + 2, rows), 0:6] = x[2 * i : min(2 * i + 2, rows), :]


@pl.jit
def by_a_number_or_a_cell(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        factor = 0
        if x[0, 0] > 0:
            factor = x[0, 0]
        out[:] = x * (x[0, 1] if x[0, 1] < 0 else 4) + factor


def by_a_number_or_a_cell_wanted(x: np.ndarray) -> np.ndarray:
    return x * (x[0, 1] if x[0, 1] < 0 else np.float32(4)) + max(x[0, 0], np.float32(0))


def zero_first_wanted(x: np.ndarray) -> np.ndarray:
    want = np.zeros((5, 6), np.float32)
    want[::2] = x[0]
    return want


def elements_wanted(x: np.ndarray) -> np.ndarray:
    want = np.zeros((5, 6), np.float32)
    want[1:, 5] = x[:, 5]
    return want


WANTED = [
    (negated_and_cast, lambda x: np.rint(np.abs(x) * 10).astype(np.int32)),
    (windows, lambda x: np.concatenate([x, -x])),
    (zero_first, zero_first_wanted),
    (elements, elements_wanted),
    (blocks, lambda x: -x),
    (dynamic_rows, lambda x: x),
    (by_a_number_or_a_cell, by_a_number_or_a_cell_wanted),
]


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("case", WANTED, ids=[kernel.__name__ for kernel, _ in WANTED])
def test_a_shape_is_found_from_what_is_written(case: tuple[JITFunction, Callable[[np.ndarray], np.ndarray]], platform: str) -> None:
    kernel, wanted = case
    assert_returns(kernel(X, config=RunConfig(platform=platform)), wanted(X))


def assert_returns(found: np.ndarray, want: np.ndarray) -> None:
    """An output that was left out has the shape, the type and the numbers that it should."""
    assert (found.shape, found.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(found, want, rtol=1e-6)


@pl.jit
def doubled(x: pl.Tensor[[M, 6], pl.FP32], out: pl.Out[pl.Tensor[[M * 2, 6], pl.FP32]]):
    out[0:M, :] = x
    out[M : M * 2, :] = -x


@pl.jit
def doubled_bare(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    x.bind_dynamic(0, M)
    m = x.shape[0]
    out[0:m, :] = x
    out[m : 2 * m, :] = -x


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("kernel", [doubled, doubled_bare], ids=["annotated", "written"])
def test_a_computed_extent_follows_the_call(kernel: JITFunction, platform: str) -> None:
    config = RunConfig(platform=platform)
    for rows in (4, 1, 3):
        for _ in range(2):
            np.testing.assert_array_equal(kernel(X[:rows], config=config), np.concatenate([X[:rows], -X[:rows]]))
    out = np.empty((8, 6), np.float32)
    kernel(X, out, config=config)
    np.testing.assert_array_equal(out, np.concatenate([X, -X]))


@pl.jit.inline
def tail(t: pl.Tensor):
    return t[1:, :]


@pl.jit.incore
def scaled(t: pl.Tensor, k: pl.INT64):
    return t * pl.cast(k, pl.FP32)


@pl.jit
def cut(
    x: pl.Tensor[[M, 6], pl.FP32], pairs: pl.Out[pl.Tensor], inner: pl.Out[pl.Tensor], half: pl.Out[pl.Tensor], folded: pl.Out[pl.Tensor],
    helped: pl.Out[pl.Tensor], ends: pl.Out[pl.Tensor], made: pl.Out[pl.Tensor], joined: pl.Out[pl.Tensor],
):  # fmt: skip
    m = x.shape[0]
    pairs[:] = x[:-1, :] + x[1:, :]
    z = x[1:-1]
    inner[:] = z * pl.cast(z.shape[0], pl.FP32)
    half[0 : m // 2, :] = x[0 : m // 2, :]
    for q in pl.range((m + 1) // 2):
        folded[q, :] = x[q, :] + x[m - 1 - q, :]
    helped[:] = scaled(tail(tail(x)), m) + scaled(x[2:, :], 1)
    ends[:] = x[-2:, :]
    made[:] = pl.create_tensor([m - 2, 6], dtype=pl.FP32, init_value=1) + x[0 : m - 2, :]
    joined[0 : m - 1, :] = x[1:, :]
    joined[m - 1 : m - 1 + m, :] = x


@pytest.mark.parametrize("platform", PLATFORMS)
def test_extents_of_windows_and_halves_follow_the_call(platform: str) -> None:
    for m in (4, 3):
        x = X[:m]
        want = x[:-1] + x[1:], x[1:-1] * (m - 2), x[: m // 2], (x + x[::-1])[: (m + 1) // 2], x[2:] * (m + 1), x[-2:], x[:-2] + 1, np.concatenate([x[1:], x])
        for found, wanted in zip(cut(x, config=RunConfig(platform=platform)), want, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pl.jit
def in_terms_of_others(
    x: pl.Tensor,
    w: pl.Tensor,
    out: pl.Out[pl.Tensor[[x.shape[0] + 1, w.shape[1] * 2], x.dtype]],  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
):
    n = w.shape[1]
    out[:] = 0
    out[0 : x.shape[0], 0:n] = pl.matmul(x, w)


@pl.jit
def like_another(x: pl.Tensor, index: pl.Tensor, out: pl.Out[pl.like("x")]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(x.shape[0]):
            row = index[i]
            out[row : row + 1, :] = x[i : i + 1, :]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_annotations_speak_of_other_parameters(platform: str) -> None:
    config = RunConfig(platform=platform)
    w = np.ones((6, 3), np.float32)
    want = np.zeros((5, 6), np.float32)
    want[:4, :3] = X @ w
    np.testing.assert_allclose(in_terms_of_others(X, w, config=config), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(like_another(X, np.array([2, 0, 3, 1], np.int32), config=config), X[[1, 3, 0, 2]])


ROWS, TALL, WIDE = 3, 5, 8
RAGGED = np.random.default_rng(1).standard_normal((13, 21), np.float32)


@pl.jit
def clamped(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range((x.shape[0] + TALL - 1) // TALL):
            for j in pl.range((x.shape[1] + WIDE - 1) // WIDE):
                row = i * TALL
                tile = pl.load(x, [row, j * WIDE], [TALL, WIDE], clamp=True)
                pl.store(pl.mul(tile, 2.0), [i * 5, j * 8], out)


@pl.jit
def turned(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for block in pl.spmd((x.shape[0] + 3) // 4):
        tile = pl.slice(x, [4, 32], [block * 4, 0], clamp=True)
        out[:, block * 4 : block * 4 + 4] = pl.transpose(tile, 0, 1)


@pl.jit
def as_its_ends_say(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for block in pl.spmd((x.shape[0] + 3) // 4):
        out[block * 4 : block * 4 + 4, 0:32] = pl.slice(x, [4, 32], [block * 4, 0], clamp=True)


@pl.jit
def totals(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range((x.shape[0] + 3) // 4):
            pl.store(pl.row_sum(pl.load(x, [i * 4, 0], [4, 32], clamp=True)), [i * 4, 0], out)


@pl.jit
def narrowed(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range((x.shape[0] + 3) // 4):
            rows = pl.min(4, x.shape[0] - i * 4)
            tile = pl.load(x, [i * 4, 0], [4, 21], valid_shape=[rows, 21])
            pl.store(pl.neg(tile), [i * 4, 0], out)


@pl.jit
def of_any_height(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows = pl.dynamic("ROWS")
    x.bind_dynamic(0, rows)
    for i in pl.parallel((rows + 3) // 4):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.neg(pl.load(x, [i * 4, 0], [4, 21], clamp=True)), [i * 4, 0], out)


@pl.jit
def the_first_rows(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(ROWS):
            pl.store(pl.load(x, [i * 4, 0], [4, 32], clamp=True), [i * 4, 0], out)


@pl.jit
def by_another_output(x: pl.Tensor, out: pl.Out[pl.Tensor], between: pl.Out[pl.Tensor]):
    between[:] = x[1:] * 2.0
    out[:] = between.T + 1.0


def test_an_output_that_is_computed_from_another_has_its_shape() -> None:
    out, between = by_another_output(X)
    np.testing.assert_array_equal(between, X[1:] * 2)
    np.testing.assert_array_equal(out, (X[1:] * 2).T + 1)


CUT = [
    (clamped, lambda x: 2 * x),
    (turned, lambda x: x.T),
    (as_its_ends_say, lambda x: np.pad(x, ((0, 0), (0, 11)))),
    (totals, lambda x: x.sum(1, keepdims=True)),
    (narrowed, lambda x: -x),
    (of_any_height, lambda x: -x),
    (the_first_rows, lambda x: x[:12]),
]


@pytest.mark.parametrize("case", CUT, ids=[kernel.__name__ for kernel, _ in CUT])
def test_a_tile_that_is_cut_and_written_where_it_was_read_ends_with_its_tensor(case: tuple[JITFunction, Callable[[np.ndarray], np.ndarray]]) -> None:
    kernel, wanted = case
    found = kernel(RAGGED)
    assert found.shape == wanted(RAGGED).shape
    np.testing.assert_allclose(found, wanted(RAGGED), rtol=1e-5, atol=1e-6)


def test_a_tile_that_is_cut_and_written_elsewhere_says_that_its_end_is_not_known() -> None:
    @pl.jit
    def moved(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(4):
                pl.store(pl.load(x, [i * 4, 0], [4, 21], clamp=True), [i * 4 + 1, 0], out)

    with pytest.raises(ShapeError, match="where it ends is known only at run time"):
        moved(RAGGED)


def test_where_it_cannot_be_told_the_write_is_named() -> None:
    @pl.jit
    def scattered(x: pl.Tensor, index: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[0:1, :] = x[0:1, :]
            row = index[0]
            out[row : row + 1, :] = x[0:1, :]

    with pytest.raises(ShapeError, match="cannot be told from this write") as caught:
        scattered(X, np.array([2], np.int32))
    assert caught.value.source_lines == ("            out[row : row + 1, :] = x[0:1, :]\n",)
    assert 'pl.like("x")' in (caught.value.hint or "")


@pl.jit
def wrong_behind_a_good_one(x: pl.Tensor, good: pl.Out[pl.Tensor], wrong: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        good[:] = x + 1.0
        wrong[:] = pl.matmul(x, x)


@pl.jit
def wrong_before_a_good_one(x: pl.Tensor, wrong: pl.Out[pl.Tensor], good: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        good[:] = x + 1.0
        wrong[:] = pl.matmul(x, x)


@pl.jit
def two_wrong_ones(x: pl.Tensor, good: pl.Out[pl.Tensor], wrong: pl.Out[pl.Tensor], worse: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        good[:] = x + 1.0
        wrong[:] = pl.matmul(x, x)
        worse[:] = pl.matmul(good, x)


@pytest.mark.parametrize("kernel", [wrong_behind_a_good_one, wrong_before_a_good_one, two_wrong_ones])
def test_a_mistake_beside_an_output_whose_shape_is_told_is_named(kernel: JITFunction) -> None:
    with pytest.raises(ShapeError, match=r"matmul needs the inner sizes to agree, got \[4, 6\] and \[4, 6\]"):
        kernel(X)


def test_an_extent_that_only_the_run_knows_is_named_by_its_write() -> None:
    @pl.jit(runtime_scalars=("s",))
    def from_a_row_on(x: pl.Tensor[[M, 6], pl.FP32], s: pl.INT64, out: pl.Out[pl.Tensor]):
        z = x[s:, :]
        out[:] = z * 2.0

    with pytest.raises(ShapeError, match="cannot be told from this write: where it ends is known only at run time") as caught:
        from_a_row_on(X, 1)
    assert caught.value.source_lines == ("        out[:] = z * 2.0\n",)


def test_names_of_the_callers_tensors_are_not_swapped() -> None:
    @pl.jit
    def steps(u: pl.InOut[pl.Tensor], w: pl.InOut[pl.Tensor], n: int):
        for _ in pl.range(n):
            w[:] = u * 2.0
            u, w = w, u

    with pytest.raises(UnsupportedFeatureError, match="are tensors of the caller"):
        steps(X.copy(), X.copy(), 3)

    @pl.jit
    def local_steps(u: pl.InOut[pl.Tensor], w: pl.InOut[pl.Tensor], n: int):
        a, b = u, w
        for _ in pl.range(n):
            b[:] = a * 2.0
            a, b = b, a
        u[:] = a

    for n in (2, 3):
        u = X.copy()
        local_steps(u, X.copy(), n)
        np.testing.assert_array_equal(u, X * 2**n)
