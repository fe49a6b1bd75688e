"""Products on many threads equal those on one bit by bit, however they are cut."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilejit.language as pl
from tilejit import RunConfig
from tilejit.backends.cpu.llvm.text import Emitter, Module, Value
from tilejit.backends.cpu.memory.storage import Array
from tilejit.backends.cpu.products.elements import Elements
from tilejit.backends.cpu.teams.packed import plan_of
from tilejit.backends.cpu.teams.product import Product
from tilejit.backends.cpu.teams.squares import by_squares
from tilejit.dtypes import FP32


@pl.jit
def product(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.matmul(a, b, out_dtype=pl.INT32 if a.dtype == pl.INT8 else pl.FP32)
    return c


@pl.jit
def added(a: pl.Tensor, b: pl.Tensor, c: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.matmul_acc(c, a, b)
    return c


@pl.jit
def turned(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.matmul(a, b, b_trans=True, out_dtype=pl.INT32 if a.dtype == pl.INT8 else pl.FP32)
    return c


SIZES = [(301, 701, 999), (64, 61, 9000), (33, 1300, 1500), (13, 700, 900), (1, 3000, 2000), (8, 2100, 1100), (7, 1111, 1203)]


def operands(dtype: Any, m: int, n: int, k: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(m)
    if dtype is np.int8:
        return rng.integers(-128, 128, (m, k), dtype), rng.integers(-128, 128, (k, n), dtype)
    return rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)


LESS = {"shared_bytes": 1 << 20, "kc": 64}
PIECES = {"deep_piece": 200, "deep_bytes": 1 << 20}


@pytest.mark.parametrize("chosen", [{}, LESS, PIECES], ids=["ours", "less memory", "few rows in pieces"])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int8], ids=["f32", "bf16", "int8"])
def test_threads_do_not_change_a_bit(dtype: Any, chosen: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunConfig(schedule={"gemm FP32": chosen, "gemm INT32": chosen} if chosen else {})
    for m, n, k in SIZES:
        a, b = operands(dtype, m, n, k)
        found: list[Any] = []
        for threads in ("1", "3", "16"):
            monkeypatch.setenv("TILEJIT_NUM_THREADS", threads)
            c = np.zeros((m, n), np.int32 if dtype is np.int8 else np.float32)
            product(a, b, c, config=config)
            found.append(c)
        assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])
        wide = a.astype(np.float64) @ b.astype(np.float64)
        np.testing.assert_allclose(found[2], wide, rtol=1e-5, atol=0 if dtype is np.int8 else 1e-4 * k**0.5)


MIDDLING = [(385, 256, 130), (500, 417, 333), (770, 300, 1100), (1000, 1000, 64)]


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16], ids=["f32", "bf16"])
def test_panels_that_each_thread_packs_for_itself_change_no_bit(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the groups of rows, which follow the number of threads."""
    config = RunConfig(schedule={"gemm FP32": {"own_bytes": 8 << 20}})
    for m, n, k in MIDDLING:
        a, b = operands(dtype, m, n, k)
        c, sums, wide = np.zeros((m, n), np.float32), np.ones((m, n), np.float32), a.astype(np.float64) @ b.astype(np.float64)
        monkeypatch.setenv("TILEJIT_NUM_THREADS", "1")
        product(a, b, c, config=config)
        added(a, b, sums, config=config)
        np.testing.assert_allclose(c, wide, rtol=1e-5, atol=1e-4 * k**0.5)
        np.testing.assert_allclose(sums, wide + 1, rtol=1e-5, atol=1e-4 * k**0.5)
        for threads in ("2", "3", "4", "7", "8", "16", "33"):
            monkeypatch.setenv("TILEJIT_NUM_THREADS", threads)
            again, more = np.full((m, n), np.nan, np.float32), np.ones((m, n), np.float32)
            product(a, b, again, config=config)
            added(a, b, more, config=config)
            assert np.array_equal(again, c) and np.array_equal(more, sums), (m, n, k, threads)


def test_threads_pack_for_themselves_what_stays_in_their_caches() -> None:
    module = Module()
    schedule = replace(module.schedules.gemm(FP32), in_place=True, vectors=4, own_bytes=2 << 20)
    kind = Elements.of(module, FP32)

    def own(m: int, n: int, k: int, b: tuple[int, int] | None = None) -> bool:
        places = ((m, n), (n, 1)), ((m, k), (k, 1)), ((k, n), b or (n, 1))
        of_c, of_a, of_b = (Array(Value("%p", "ptr"), FP32, shape, strides, shape, frozenset()) for shape, strides in places)
        return by_squares(Product(FP32, of_c, of_a, of_b, (), (m, n, k), False, None), kind, schedule)

    assert own(512, 512, 512)
    assert not own(2048, 2048, 2048), "the second cache does not hold what a thread would read"
    assert not own(300, 512, 512) and not own(512, 200, 512), "packing would show"
    assert not own(512, 512, 512, (1, 512)), "a transposed B takes longer to pack"


@pl.jit
def rounded(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.matmul(a, b)
    return c


@pytest.mark.parametrize("schedule", [{}, {"gemm FP32": LESS}], ids=["ours", "less memory"])
def test_results_of_a_narrow_type_are_rounded_once_when_the_sum_is_whole(schedule: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunConfig(schedule=schedule)
    for m, n, k in ((301, 701, 999), (64, 61, 9000)):
        a, b = operands(ml_dtypes.bfloat16, m, n, k)
        for threads in ("1", "5"):
            monkeypatch.setenv("TILEJIT_NUM_THREADS", threads)
            sums, c = np.zeros((m, n), np.float32), np.zeros((m, n), ml_dtypes.bfloat16)
            product(a, b, sums, config=config)
            rounded(a, b, c, config=config)
            assert np.array_equal(c, sums.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("rows", [5, 24])
@pytest.mark.parametrize(("left", "right"), [(ml_dtypes.bfloat16, ml_dtypes.bfloat16), (ml_dtypes.bfloat16, np.int8), (np.int8, np.int8)])
def test_threads_do_not_change_a_bit_of_few_rows_by_a_transposed_b(left: Any, right: Any, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is read as it lies, by vectors or by tiles."""
    a, b = operands(left, rows, 2100, 1100)[0], np.ascontiguousarray(operands(right, rows, 2100, 1100)[1].T)
    found: list[Any] = []
    for threads in ("1", "3", "16"):
        monkeypatch.setenv("TILEJIT_NUM_THREADS", threads)
        found.append(np.zeros((rows, 2100), np.int32 if left is np.int8 else np.float32))
        turned(a, b, found[-1])
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])
    wide = a.astype(np.float64) @ b.T.astype(np.float64)
    np.testing.assert_allclose(found[2], wide, rtol=1e-5, atol=0 if left is np.int8 else 1e-5 * np.abs(wide).max())


@pytest.mark.parametrize(("size", "chosen"), [((330, 200, 700), {}), ((60, 70, 9000), {}), ((2, 4200, 700), {}), ((6, 1100, 1300), PIECES)])
def test_what_is_there_is_added_to_once(size: tuple[int, int, int], chosen: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunConfig(schedule={"gemm FP32": chosen} if chosen else {})
    m, n, _ = size
    a, b = operands(np.float32, *size)
    before = np.random.default_rng(1).normal(size=(m, n)).astype(np.float32)
    found: list[Any] = []
    for threads in ("1", "5"):
        monkeypatch.setenv("TILEJIT_NUM_THREADS", threads)
        found.append(before.copy())
        added(a, b, found[-1], config=config)
    assert np.array_equal(*found)
    np.testing.assert_allclose(found[0], before + a.astype(np.float64) @ b, rtol=1e-4, atol=1e-3)


ROWS = pl.dynamic("ROWS")


@pl.jit
def any_rows(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    a.bind_dynamic(0, ROWS)
    c.bind_dynamic(0, ROWS)
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.matmul(a, b, b_trans=True, out_dtype=pl.FP32)
    return c


@pytest.mark.parametrize("weights", [ml_dtypes.bfloat16, np.int8], ids=["bf16", "int8"])
def test_few_rows_are_shared_out_by_columns_though_nobody_knows_how_many_there_are(weights: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    b, _ = operands(weights, 1501, 1, 1030)
    for m in (1, 4, 7, 40):
        a = np.random.default_rng(m).normal(size=(m, 1030)).astype(ml_dtypes.bfloat16)
        found: list[Any] = []
        for threads in ("1", "3", "16"):
            monkeypatch.setenv("TILEJIT_NUM_THREADS", threads)
            found.append(np.zeros((m, 1501), np.float32))
            any_rows(a, b, found[-1])
        assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])
        np.testing.assert_allclose(found[2], a.astype(np.float64) @ b.astype(np.float64).T, rtol=1e-5, atol=1e-4 * float(np.abs(b).max()) * 32)
    text = any_rows.compile(a, b, found[-1]).stage("ll")
    tasks = [function for function in text.split("\ndefine ") if ".task" in function.split("(")[0]]
    assert any(re.search(r"call void @gemm\S*dots\(", task) for task in tasks)


def test_little_of_c_and_much_depth_is_shared_out_along_the_depth() -> None:
    module = Module()
    e = Emitter(module, "go", "void", [])
    kind = Elements.of(module, FP32)
    schedule = module.schedules.gemm(FP32)
    assert plan_of(e, kind, schedule, (64, 64, 65536)).apart
    assert not plan_of(e, kind, schedule, (1024, 1024, 65536)).apart, "there are tiles enough"
    assert not plan_of(e, kind, schedule, (64, 64, schedule.kc + 1)).apart, "there is little to share out"


@pytest.mark.parametrize("size", [512, 1024, 2048, 4096])
def test_sixteen_threads_have_nearly_equal_work(size: int) -> None:
    """The busiest thread, if all take tiles at the same pace, has at most a fifth more than its share."""
    module = Module()
    plan = plan_of(Emitter(module, "go", "void", []), Elements.of(module, FP32), module.schedules.gemm(FP32), (size, size, size))
    down, across = plan.tiles
    assert isinstance(down, int) and isinstance(across, int)
    share = down * across / 16
    assert -(-down * across // 16) <= 1.2 * share
