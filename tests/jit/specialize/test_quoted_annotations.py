"""Annotations that Python keeps as text see the names around the `def`; nothing else does, and other names stay live."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import errors
from tilejit.dtypes import DType
from tilejit.jit.function import JITFunction

M = pl.dynamic("M")
ROWS, NUMBER, KIND, FACTOR = 2, 7, pl.FP16, 100
X = np.ones((2, 4), np.float32)


def of_the_module():
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor[[ROWS, 4], pl.FP32]]):
        out[0:2, :] = x * float(ROWS)

    return kernel


scaled = pl.jit(of_the_module())


def test_globals_stay_live_where_a_module_decorates(monkeypatch: pytest.MonkeyPatch):
    assert (scaled(X) == 2).all()
    monkeypatch.setitem(globals(), "ROWS", 3)
    with pytest.raises(errors.StaleCaptureError):
        scaled(X)
    scaled.cache_clear()
    result = scaled(X)
    assert result.shape == (3, 4) and (result[:2] == 3).all()
    monkeypatch.undo()
    scaled.cache_clear()


def test_a_class_body_is_no_scope_of_its_methods():
    class Net:
        NUMBER = 2

        @pl.jit
        def kernel(self, x: pl.Tensor[[NUMBER, 4], pl.FP32], out: pl.Out[pl.Tensor[[NUMBER * 3, 4], pl.FP32]]):
            out[0:2, :] = x * float(NUMBER)

    result = Net().kernel(X)
    assert result.shape == (6, 4) and (result[:2] == 7).all()


class OfTheModule:
    ROWS = 5

    @pl.jit
    def kernel(self, x: pl.Tensor, out: pl.Out[pl.Tensor[[ROWS, 4], pl.FP32]]):
        out[0:2, :] = x


def test_annotations_see_the_class_around_them():
    assert OfTheModule().kernel(X).shape == (5, 4)


def of_the_global_kind():
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor[[2, 4], KIND]]):
        out[:] = pl.cast(x, KIND)

    return kernel


def decorated_elsewhere(KIND: DType) -> JITFunction:
    return pl.jit(of_the_global_kind())


def test_names_of_another_function_that_decorates_mean_nothing():
    assert decorated_elsewhere(pl.FP32)(X).dtype == np.float16


def made(FACTOR: int, kind: DType, config: SimpleNamespace) -> list[JITFunction]:
    @pl.jit
    def computed(x: pl.Tensor[[M, 4], pl.FP32], out: pl.Out[pl.Tensor[[M * FACTOR, 4], kind]]):
        out[0:1, :] = 1.0

    @pl.jit
    def described(x: pl.Tensor[[M, 4], pl.FP32], out: pl.Out[pl.Tensor[[x.shape[0] * FACTOR, 4], kind]]):  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
        out[0:1, :] = 1.0

    @pl.jit
    def configured(x: pl.Tensor, out: pl.Out[pl.Tensor[[config.rows, 4], kind]]):
        out[0:1, :] = 1.0

    @pl.jit
    def both(x: pl.Tensor, out: pl.Out[pl.Tensor[[x.shape[0] * config.rows, 4], kind]]):  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
        out[0:1, :] = 1.0

    @pl.jit
    def local(x: pl.Tensor, out: pl.Out[pl.Tensor[[FACTOR, 4], kind]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            tile: pl.Tile[[FACTOR, 4], pl.FP32] = pl.tile.full([2, 4], dtype=pl.FP32, value=1.0)
            pl.store(tile, [0, 0], out)

    return [computed, described, configured, both, local] if FACTOR == 2 else [computed, described, configured, both]


def test_a_function_s_own_names_decide():
    """A second time with other values, which must not find the programs of the first."""
    for factor, rows in ((2, 3), (3, 4), (2, 4)):
        results = [kernel(X) for kernel in made(factor, pl.FP32, SimpleNamespace(rows=rows))]
        assert [result.shape[0] for result in results[:4]] == [2 * factor, 2 * factor, rows, 2 * rows]


@pytest.mark.parametrize("which", [2, 3])
def test_objects_around_a_definition_are_followed(which: int):
    config = SimpleNamespace(rows=3)
    kernel = made(2, pl.FP32, config)[which]
    before = kernel(X).shape[0]
    config.rows = 6
    with pytest.raises(errors.StaleCaptureError):
        kernel(X)
    kernel.cache_clear()
    assert kernel(X).shape[0] == before * 2
