"""Annotations mean what Python made of them at the `def`, whatever their names stand for in the body, or by now."""

from collections.abc import Callable
from typing import Annotated, Any, Final, Optional, Union

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import errors
from tilejit.dtypes import DType
from tilejit.jit.function import JITFunction
from tilejit.types.annotations import DynVar

M, N = pl.dynamic("M"), pl.dynamic("N")
FIRST, SECOND = pl.dynamic("S"), pl.dynamic("S")
FACTOR, WIDTH, KIND, ROWS, RETURNED = 7, 7, pl.INT32, 7, pl.INT32
X, Y = np.ones((3, 4), np.float32), np.ones((5, 4), np.float32)


def spread(FACTOR: int, KIND: DType = pl.FP32) -> JITFunction:
    @pl.jit
    def kernel(x: pl.Tensor[[M, 4], pl.FP32], out: pl.Out[pl.Tensor[[M * FACTOR, 4], KIND]]):
        out[0:1, :] = 1.0

    return kernel


def local(own: int, kind: DType) -> JITFunction:
    @pl.jit
    def kernel(x: pl.Tensor[[M, 4], pl.FP32], out: pl.Out[pl.Tensor[[M * own, 4], kind]]):
        out[0:1, :] = 1.0

    return kernel


class Net:
    WIDTH, own = 2, 3

    @pl.jit
    def hidden(self, x: pl.Tensor[[M, 4], pl.FP32], out: pl.Out[pl.Tensor[[M * WIDTH, 4], pl.FP32]]):
        out[0:1, :] = x[0:1, :]

    @pl.jit
    def unseen(self, x: pl.Tensor[[M, 4], pl.FP32], out: pl.Out[pl.Tensor[[M * own, 4], pl.FP32]]):
        out[0:1, :] = x[0:1, :]


@pytest.mark.parametrize("make", [spread, local])
def test_a_factory_s_own_values_decide(make: Callable[[int, DType], JITFunction]):
    """With a global of that name and without; in memory and, the second time, from disk."""
    for _ in range(2):
        for factor, kind, wanted in ((2, pl.FP32, "float32"), (3, pl.FP32, "float32"), (3, pl.FP16, "float16")):
            result = make(factor, kind)(X)
            assert (result.shape, result.dtype) == ((3 * factor, 4), np.dtype(wanted))


def test_the_constants_of_a_class_decide():
    assert Net().hidden(X).shape == (6, 4)
    assert Net().unseen(X).shape == (9, 4)


def test_a_loop_s_values_stay_those_of_the_definition():
    kernels = []
    for number in (2, 3, 4):

        @pl.jit
        def kernel(x: pl.Tensor[[M, 4], pl.FP32], out: pl.Out[pl.Tensor[[M * number, 4], pl.FP32]]):
            out[0:1, :] = x[0:1, :]

        kernels.append(kernel)
    assert [kernel(X).shape for kernel in kernels] == [(6, 4), (9, 4), (12, 4)]


def of_two(extent: DynVar) -> JITFunction:
    @pl.jit
    def kernel(
        x: pl.Tensor[[M, 4], pl.FP32],
        y: pl.Tensor[[N, 4], pl.FP32],
        out: pl.Out[pl.Tensor[[extent, 4], pl.FP32]],
    ):
        out[0:1, :] = x[0:1, :]

    return kernel


@pytest.mark.parametrize(
    ("extent", "rows"),
    [((M + N) * 2, 16), (M + N * 2, 13), (2 * N - M, 7), (N // 2, 2), (M, 3), (N, 5), (M % 2, 1), (M * N, 15), ((N * 3) % 4 + 1, 4)],
    ids=["both", "one", "less", "half", "m", "n", "rest", "product", "remainder"],
)
def test_extents_are_computed_as_they_were_written(extent: DynVar, rows: int):
    """The names of the first two are the same text. An output that is given must have that size too, in warm calls as well."""
    kernel = of_two(extent)
    assert kernel(X, Y).shape == (rows, 4)
    for _ in range(3):
        kernel(X, Y, np.zeros((rows, 4), np.float32))
    with pytest.raises(errors.ShapeError, match=f"{rows + 1}"):
        kernel(X, Y, np.zeros((rows + 1, 4), np.float32))


def test_expressions_of_one_name_are_different_kernels():
    assert ((M + N) * 2).name == (M + N * 2).name
    assert of_two((M + N) * 2).definition.digest != of_two(M + N * 2).definition.digest


def test_what_symbols_do_not_tell_is_an_error():
    with pytest.raises(errors.ShapeError, match="K_mul_2"):
        of_two(pl.dynamic("K") * 2)(X, Y)


def of_one_name(symbol: DynVar) -> JITFunction:
    @pl.jit
    def kernel(
        x: pl.Tensor[[FIRST, 4], pl.FP32],
        y: pl.Tensor[[SECOND, 4], pl.FP32],
        out: pl.Out[pl.Tensor[[symbol * 2, 4], pl.FP32]],
    ):
        out[0:1, :] = x[0:1, :]

    return kernel


def test_symbols_of_one_name_in_expressions_are_two():
    assert of_one_name(FIRST)(X, Y).shape == (6, 4)
    assert of_one_name(SECOND)(X, Y).shape == (10, 4)


def returning(RETURNED: DType) -> JITFunction:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]) -> RETURNED:
        out[:] = x * 2.0
        return pl.read(x, [0, 1]) * 0.75

    return kernel


def test_the_declared_result_is_the_factory_s():
    assert returning(pl.FP32)(X)[0] == 0.75
    with pytest.raises(errors.ParserTypeError, match="INT32"):
        returning(pl.INT32)(X)


def with_tile(ROWS: int, SPACE: object) -> JITFunction:
    @pl.jit.inline
    def twice(tile: pl.Tile[[ROWS, 4], pl.FP32, SPACE]):
        return tile * 2.0

    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            tile = pl.load(x, [0, 0], [3, 4])
            pl.store(twice(tile), [0, 0], out)

    return kernel


def test_a_helper_s_tile_is_the_factory_s():
    out = np.zeros((3, 4), np.float32)
    with_tile(3, pl.Mem.Vec)(X, out)
    assert (out == 2).all()
    with pytest.raises(errors.ShapeError, match="extent 2"):
        with_tile(2, pl.Mem.Vec)(X, out)


def with_scalar(kind: object) -> JITFunction:
    @pl.jit.incore
    def scaled(x: pl.Tensor, factor: kind, out: pl.Out[pl.Tensor]):
        out[:] = x * pl.cast(factor, pl.FP32)
        return out

    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out = scaled(x, 3, out)
        return out

    return kernel


def test_a_helper_s_scalar_is_the_factory_s():
    for kind in (int, float, pl.INT32, pl.FP32):
        out = np.zeros((3, 4), np.float32)
        with_scalar(kind)(X, out)
        assert (out == 3).all()


LIKE, NAMED, NOWHERE = pl.like("x"), "y", pl.like("xs")


@pl.jit
def like_an_alias(x: pl.Tensor, y: pl.Tensor, out: pl.Out[LIKE]):
    out[0:1, :] = x[0:1, :]


@pl.jit
def like_a_name(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.like(NAMED)]):
    out[0:1, :] = x[0:1, :]


@pl.jit
def like_nothing(xx: pl.Tensor, out: pl.Out[NOWHERE]):
    out[0:1, :] = xx[0:1, :]


def test_like_names_a_parameter_however_it_is_written():
    assert like_an_alias(X, Y).shape == (3, 4)
    assert like_a_name(X, Y).shape == (5, 4)
    assert like_an_alias.definition.digest != like_a_name.definition.digest
    with pytest.raises(errors.ShapeError, match="names no parameter of `like_nothing`") as caught:
        like_nothing(X)
    assert "name a tensor: xx" in (caught.value.hint or "")


@pl.jit(runtime_scalars=("n",))
def of_the_run(x: pl.Tensor, n: pl.INT32, out: "pl.Out[pl.Tensor[[n, 4], pl.FP32]]"):  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
    out[0:1, :] = x[0:1, :]


def test_an_extent_that_only_the_run_knows_is_an_error():
    with pytest.raises(errors.ShapeError, match="declared by `n`, which is known only at run time"):
        of_the_run(X, 6)
    out = np.zeros((6, 4), np.float32)
    of_the_run(X, 6, out)
    assert (out[0] == 1).all()


WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "Optional": lambda kind: Optional[kind],  # noqa: UP045 (what is tested)
    "Union": lambda kind: Union[None, kind],  # noqa: UP007 (what is tested)
    "Annotated": lambda kind: Annotated[kind, "metres"],
    "Final": lambda kind: Final[kind],
    "both": lambda kind: Optional[Annotated[kind, 1, 2]],  # noqa: UP045 (what is tested)
}


@pytest.mark.parametrize("around", WRAPPERS.values(), ids=WRAPPERS)
def test_what_typing_adds_to_an_annotation_takes_nothing_from_it(around: Callable[[Any], Any]):
    of_rows = pl.Tensor[[M, 4], pl.FP32]

    @pl.jit
    def kernel(x: around(of_rows), y: around(of_rows), factor: around(pl.FP32), out: around(pl.Out[of_rows])):
        out[:] = x + y * factor

    np.testing.assert_array_equal(kernel(X, X, 2), X * 3)
    for rows in (2, 7):
        kernel(X[:1].repeat(rows, 0), X[:1].repeat(rows, 0), 2.0)
    assert kernel.cache_info().entries == 1
    with pytest.raises(errors.DTypeError, match="must hold FP32"):
        kernel(X.astype(np.float64), X, 1.0)
    with pytest.raises(errors.ShapeError, match="`M` is 3"):
        kernel(X, X[:2], 1.0)


def test_a_tensor_that_typing_calls_optional_may_be_left_out():
    @pl.jit
    def kernel(x: pl.Tensor, y: Optional[pl.Tensor[[M, 4], pl.FP32]], out: pl.Out[pl.Tensor]):  # noqa: UP045 (what is tested)
        out[:] = x if y is None else x + y

    np.testing.assert_array_equal(kernel(X, None), X)
    np.testing.assert_array_equal(kernel(X, X), X + X)


class Own:
    """A class of the user."""


def test_locals_annotated_with_types_of_python_are_as_without():
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        factor: int = 3
        maybe: Optional[float] = 0.5  # noqa: UP045 (another object than `float | None`)
        later: Final
        with pl.at(level=pl.Level.CORE_GROUP):
            first: Any = x[0, 0]
            both: Own | None = x * (factor + maybe)
            later = both + first
            out[:] = later

    np.testing.assert_array_equal(kernel(X), 3.5 * X + 1)
