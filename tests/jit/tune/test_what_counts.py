"""What a choice depends on: threads, containers and objects that a key names, and results of every type of number."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import ml_dtypes
import numpy as np
import pytest

import tilejit
import tilejit.language as pl
from tests.jit.tune.kernels import Clock, data, scaled, tuned
from tilejit.errors import OptionError
from tilejit.jit.tune.measure import Measure
from tilejit.jit.tune.space import Choice
from tilejit.jit.tune.trial import difference


def larger_is_faster(candidate: Choice, run: Callable[[], object]) -> float:
    run()
    return 1.0 / cast("int", candidate.arguments["rows"])


def test_calls_follow_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = 1

    def timer(choice: Choice, run: Callable[[], object]) -> float:
        run()
        return 1.0 if (choice.arguments["rows"] == 4) == (threads == 1) else 2.0

    monkeypatch.setattr("tilejit.jit.tune.keys.thread_count", lambda: threads)  # as after torch.set_num_threads, or for another affinity
    kernel, _ = tuned(configs={"rows": [8, 4]}, timer=timer)
    x = data()
    for threads, rows in ((1, 4), (2, 8), (1, 4), (2, 8)):  # noqa: B007 (read by the functions above)
        kernel(x)
        assert cast("Any", kernel)._chosen((x,), {}, None)[0].definition.param("rows").default == rows == kernel.best(x).arguments["rows"]


def test_a_number_of_threads_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_NUM_THREADS", "many")
    kernel = pl.autotune({"rows": [2, 4]}, progress=False)(scaled)
    with pytest.raises(OptionError, match="TILEJIT_NUM_THREADS='many'"):
        kernel(data())


def test_a_key_that_names_a_container_means_what_is_in_it() -> None:
    @pl.autotune({"rows": [1, 8]}, key=("xs",), progress=False, effort="full", timer=larger_is_faster)
    @pl.jit
    def added(xs, out: pl.Out[pl.Tensor], rows: int = 1):  # type: ignore[no-untyped-def]
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(xs[0].shape[0] // rows):
                pl.store(pl.load(xs[0], [i * rows, 0], [rows, 4]) + pl.load(xs[1], [i * rows, 0], [rows, 4]), [i * rows, 0], out)

    for count in (64, 41, 64, 41):
        x, out = np.ones((count, 4), np.float32), np.zeros((count, 4), np.float32)
        added((x, x), out)
        assert (out == 2).all(), count


class Size:
    def __init__(self, rows: int) -> None:
        self.rows = rows


@pytest.mark.parametrize("one_object", [True, False])
def test_a_key_that_names_an_object_means_what_it_answers(one_object: bool) -> None:
    @pl.autotune({"rows": [1, 8]}, key=("size",), progress=False, effort="full", timer=larger_is_faster)
    @pl.jit
    def head(x: pl.Tensor, size: pl.constexpr[object], out: pl.Out[pl.Tensor], rows: int = 1):
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(size.rows // rows):  # type: ignore[attr-defined]
                pl.store(pl.load(x, [i * rows, 0], [rows, 4]) * 2.0, [i * rows, 0], out)

    x, size = np.ones((64, 4), np.float32), cast("Any", Size(64))
    for count in (64, 41, 64, 41):
        size = size if one_object else SimpleNamespace(rows=count)
        size.rows = count
        out = np.zeros_like(x)
        head(x, size, out)
        assert out.any(axis=1).sum() == count


def test_a_tuned_method_is_tuned_once_also_where_nothing_is_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_CACHE", "0")
    clock = Clock()

    class Layer:
        factor = 3.0

        @pl.autotune({"rows": [4, 6]}, timer=clock, progress=False)
        @pl.jit(on_drift="recompile")
        def scale(self, x: pl.Tensor, out: pl.Out[pl.Tensor], rows: int = 4):
            with pl.at(level=pl.Level.CORE_GROUP):
                for i in pl.range(x.shape[0] // rows):
                    pl.store(pl.mul(pl.load(x, [i * rows, 0], [rows, x.shape[1]]), self.factor), [i * rows, 0], out)

    layer, x = Layer(), data()
    np.testing.assert_allclose(layer.scale(x), 3 * x, rtol=1e-6)
    timed = len(clock.asked)
    for _ in range(3):
        np.testing.assert_allclose(layer.scale(x), 3 * x, rtol=1e-6)
    assert len(clock.asked) == timed > 0
    layer.factor = 5.0
    np.testing.assert_allclose(layer.scale(x), 5 * x, rtol=1e-6)
    timed = len(clock.asked)
    Layer.scale.cache_clear()
    np.testing.assert_allclose(layer.scale(x), 5 * x, rtol=1e-6)
    assert len(clock.asked) > timed


@pytest.mark.parametrize("dtype", [np.complex64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn, ml_dtypes.int4])
def test_results_of_every_type_of_number_are_compared(dtype: Any) -> None:
    right = np.array([1, 2, 3]).astype(dtype)
    assert difference(right, right.copy()) is None
    assert difference(np.array([1, 2, 1]).astype(dtype), right) is not None


def test_both_parts_of_complex_numbers_count_by_the_larger_one() -> None:
    right = np.array([1000 + 0j, 5 + 1e-5j], np.complex64)
    assert difference(right + np.complex64(2e-5j), right) is None
    assert difference(right + np.complex64(5j), right) is not None


class Measures:
    def one(self, x: np.ndarray) -> np.ndarray:
        return x * 2.0

    def two(self, x: np.ndarray) -> np.ndarray:
        return x * 3.0


def kept(factor: float) -> Any:
    @lru_cache
    def reference(x: float) -> float:
        return x * factor

    return reference


def of_kernel(factor: float) -> Any:
    @pl.jit
    def reference(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out[:] = x * factor

    return reference


def test_functions_that_results_are_compared_with_are_told_apart_in_whatever_they_are_wrapped() -> None:
    ours = Measures()
    measures = [ours.one, ours.two, kept(2.0), kept(3.0), of_kernel(2.0), of_kernel(3.0), np.exp, np.sin, "first", "numpy"]
    found = [json.dumps(Measure(reference).told) for reference in measures]
    assert len(set(found)) == len(measures)
    assert found == [json.dumps(Measure(reference).told) for reference in measures]


class Half:
    """An array, until somebody says that it stands for its first half."""

    def __init__(self, whole: np.ndarray) -> None:
        self.whole, self.shape, self.dtype = whole, whole.shape, whole.dtype

    @property
    def __array_interface__(self) -> object:
        return self.whole.__array_interface__


def test_a_class_that_is_registered_later_has_no_choice_from_before() -> None:
    @pl.autotune({"rows": [1, 8]}, progress=False, effort="full", timer=larger_is_faster)
    @pl.jit
    def doubled(x: pl.Tensor, out: pl.Out[pl.Tensor], rows: int = 1):
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(x.shape[0] // rows):
                pl.store(pl.load(x, [i * rows, 0], [rows, 4]) * 2.0, [i * rows, 0], out)

    half = Half(np.ones((72, 4), np.float32))
    for _ in range(3):
        assert doubled(half).shape == (72, 4)
    tilejit.register_argument(Half, lambda half: half.whole[:36])
    found = doubled(half)
    assert found.shape == (36, 4) and (found == 2).all()


class Tiles:
    def __init__(self, rows: int) -> None:
        self.rows = rows


SIXTEEN = Tiles(16)


def larger_tiles_are_faster(candidate: Choice, run: Callable[[], object]) -> float:
    run()
    return 1.0 / cast("Tiles", candidate.arguments["tiles"]).rows


def doubled_by(*rows: int) -> Any:
    @pl.autotune({"tiles": [Tiles(number) for number in rows]}, key=("x.shape[1]",), progress=False, timer=larger_tiles_are_faster)
    @pl.jit
    def doubled(x: pl.Tensor, out: pl.Out[pl.Tensor], tiles: pl.constexpr[Any] = SIXTEEN):
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(x.shape[0] // tiles.rows):
                pl.store(pl.load(x, [i * tiles.rows, 0], [tiles.rows, x.shape[1]]) * 2.0, [i * tiles.rows, 0], out)

    return doubled


def test_what_candidates_answer_counts_beside_a_key() -> None:
    """One of 48 rows would leave some unwritten: it is tried, and found wrong, though one of 32 was the best before."""
    x = np.ones((64, 8), np.float32)
    for rows in ((16, 32), (16, 48), (16, 32)):
        out = np.zeros_like(x)
        doubled_by(*rows)(x, out)
        assert (out == 2).all(), rows


class Settings(NamedTuple):
    factor: float


@pytest.mark.parametrize(
    "made",
    [Settings, lambda factor: {factor}, lambda factor: frozenset([factor]), lambda factor: OrderedDict(factor=factor)],
    ids=["named tuple", "set", "frozenset", "ordered"],
)
def test_containers_of_every_kind_that_a_reference_reads_count(made: Callable[[float], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    held = made(2.0)

    def reference(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return x * np.float32(max(held.values() if isinstance(held, dict) else held))

    @pl.autotune({"factor": [2.0, 3.0]}, reference=reference, progress=False)
    @pl.jit
    def scaled_by(x: pl.Tensor, out: pl.Out[pl.Tensor], factor: float = 2.0):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * factor

    x = np.ones((4, 8), np.float32)
    for factor in (2.0, 3.0, 2.0):
        held = made(factor)
        assert [float(scaled_by(x)[0, 0]) for _ in range(3)] == [factor] * 3
