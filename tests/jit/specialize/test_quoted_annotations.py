"""Annotations that Python keeps as text see the names around the `def`; nothing else does, and other names stay live."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
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


def own(function: Callable[..., object]) -> JITFunction:
    """A project's own decorator."""
    return pl.jit(function)


def by_own_decorator(ROWS: int) -> JITFunction:
    @own
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor[[ROWS, 4], pl.FP32]]):
        out[0:2, :] = x

    return kernel


def two_functions_out(ROWS: int) -> JITFunction:
    def inner() -> JITFunction:
        @pl.jit
        def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor[[ROWS, 4], pl.FP32]]):
            out[0:2, :] = x

        return kernel

    return inner()


def in_a_method(ROWS: int) -> JITFunction:
    class Maker:
        ROWS = 50  # not a name of functions in its functions

        def make(self) -> JITFunction:
            @pl.jit
            def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor[[ROWS, 4], pl.FP32]]):
                out[0:2, :] = x

            return kernel

    return Maker().make()


def of_a_function_that_ended(ROWS: int) -> JITFunction:
    def inner(KIND: DType):
        def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor[[ROWS, 4], KIND]]):
            out[0:2, :] = pl.cast(x, pl.FP16)

        return kernel

    KIND = pl.FP32
    assert KIND is pl.FP32  # hidden from the kernel by the name of what has ended: the module's is left
    return pl.jit(inner(pl.FP32))


def test_names_of_functions_that_have_ended_are_not_those_of_others():
    result = of_a_function_that_ended(5)(X)
    assert result.shape == (5, 4) and result.dtype == np.float16


@pytest.mark.parametrize("make", [by_own_decorator, two_functions_out, in_a_method])
def test_functions_around_a_definition_are_found_wherever_it_is_decorated(make: Callable[[int], JITFunction]):
    assert [make(rows)(X).shape for rows in (5, 6, 5)] == [(5, 4), (6, 4), (5, 4)]


class Wide:
    def __init__(self, width: int) -> None:
        self.width = width

    @pl.jit
    def kernel(self, x: pl.Tensor[[M, 4], pl.FP32], out: pl.Out[pl.Tensor[[M * self.width, 4], pl.FP32]]):  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
        out[0:2, :] = x


def test_annotations_of_a_method_see_its_object():
    two, three = Wide(2), Wide(3)
    assert [wide.kernel(X).shape for wide in (two, three, two)] == [(4, 4), (6, 4), (4, 4)]
    two.width = 5
    with pytest.raises(errors.StaleCaptureError):
        two.kernel(X)
    two.kernel.cache_clear()
    assert two.kernel(X).shape == (10, 4) and three.kernel(X).shape == (6, 4)


@pl.jit
def of_no_dtype(x: pl.Tensor, out: pl.Out[pl.Tensor[[2, 4], pl.FP23]]):  # pyright: ignore
    out[:] = x


@pl.jit
def of_no_name(x: pl.Tensor, out: pl.Out[pl.Tensor[[MISSPELT, 4], pl.FP32]]):  # noqa: F821  # pyright: ignore
    out[:] = x


@pl.jit
def of_no_type(x: pl.Tensor, s: pl.Scaler[pl.FP32], out: pl.Out[pl.Tensor]):  # pyright: ignore
    out[:] = x * s


@pl.jit
def of_no_attribute(x: pl.Tensor, out: pl.Out[pl.Tensor[[KIND.rows, 4], pl.FP32]]):  # pyright: ignore
    out[:] = x


@pl.jit
def of_types_elsewhere(x: Tensor[[2, 4], pl.FP32], out: pl.Out[pl.Tensor]):  # noqa: F821  # pyright: ignore
    out[:] = x


@pytest.mark.parametrize(
    ("kernel", "args", "said"),
    [
        (of_no_dtype, (X,), "`out` cannot be evaluated: tilejit.language has no `FP23`"),
        (of_no_name, (X,), "`out` cannot be evaluated: name 'MISSPELT' is not defined"),
        (of_no_type, (X, 2.0), "`s` cannot be evaluated: tilejit.language has no `Scaler`"),
        (of_no_attribute, (X,), "`out` cannot be evaluated: 'DType' object has no attribute 'rows'"),
        (of_types_elsewhere, (X,), "`x` cannot be evaluated: name 'Tensor' is not defined"),
    ],
)
def test_annotations_that_cannot_be_evaluated_are_errors(kernel: JITFunction, args: tuple[object, ...], said: str):
    """They were taken for a bare pl.Tensor, or for none."""
    with pytest.raises(errors.UndefinedVariableError, match=re.escape(said)) as caught:
        kernel(*args)
    assert f"{Path(__file__).name}:" in str(caught.value) and "= help: " in str(caught.value)


@pl.jit
def of_others(x: pl.Tensor, setup: OnlyForCheckers, out: pl.Out[Tensor]):  # noqa: F821  # pyright: ignore
    out[:] = x * setup.factor


def test_others_annotations_may_be_for_type_checkers_only():
    assert (of_others(X, SimpleNamespace(factor=3.0)) == 3).all()


def of_locals(size: int, shape: tuple[int, int], kind: DType) -> list[JITFunction]:
    tile = pl.Tile[[size, 4], pl.FP32]

    @pl.jit
    def sized(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t: pl.Tile[[size, 4], pl.FP32] = pl.load(x, [0, 0], [2, 4])
            pl.store(t, [0, 0], out)

    @pl.jit.inline
    def loaded(x: pl.Tensor):
        t: pl.Tile[[shape[0] * 2, shape[1]], kind] = pl.load(x, [0, 0], [2, 4])
        return t

    @pl.jit
    def helped(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(loaded(x), [0, 0], out)

    @pl.jit
    def aliased(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t: tile = pl.load(x, [0, 0], [2, 4])
            pl.store(t, [0, 0], out)

    return [sized, helped, aliased]


def test_annotations_of_locals_see_the_function_around_them():
    for _ in range(2):
        for kernel in of_locals(2, (1, 4), pl.FP32):
            np.testing.assert_array_equal(kernel(X), X)
        for kernel in of_locals(3, (1, 5), pl.FP16):
            for _ in range(2):
                with pytest.raises(errors.ParserTypeError, match=r"`t` is annotated Tile\[.*, but the value is Tile\[\[2, 4\], FP32\]"):
                    kernel(X)
