"""Annotations in quotes that speak of other parameters: what can be computed is, and nothing else is taken for silence."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import errors
from tilejit.jit.function import JITFunction
from tilejit.runtime.config import RunConfig

M = pl.dynamic("M")


def ones(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.ones(shape, dtype)


Sized = Callable[..., JITFunction]


@pytest.fixture
def sized(tmp_path: Path) -> Sized:
    """Makes a kernel whose output says how large it is, and writes one row of it."""

    def make(out: str, kind: str = "pl.Tensor") -> JITFunction:
        head = "import math\nimport tilejit.language as pl\nM, K, N = map(pl.dynamic, 'MKN')\n\n"
        text = f"{head}@pl.jit\ndef kernel(x: {kind}, out: {out!r}):\n    out[0:1] = 1.0\n"
        (tmp_path / "written.py").write_text(text)
        names: dict[str, Any] = {}
        exec(compile(text, str(tmp_path / "written.py"), "exec"), names)
        return names["kernel"]

    return make


DYNAMIC = "pl.Tensor[[M, K], pl.FP32]"


def shaped(shape: str) -> str:
    return f"pl.Out[pl.Tensor[{shape}, x.dtype]]"


COMPUTED: dict[str, Callable[[int, int], tuple[int, ...]]] = {
    "[pl.cdiv(x.shape[0], 8) * 8, x.shape[1]]": lambda m, k: (-(-m // 8) * 8, k),
    "[-(-x.shape[0] // 8) * 8]": lambda m, k: (-(-m // 8) * 8,),
    "x.shape": lambda m, k: (m, k),
    "[*x.shape, 2]": lambda m, k: (m, k, 2),
    "x.shape[1:]": lambda m, k: (k,),
    "x.shape[::-1]": lambda m, k: (k, m),
    "[len(x), x.ndim]": lambda m, k: (m, 2),
    "[x.shape[0] * x.shape[1]]": lambda m, k: (m * k,),
    "[(x.shape[0] - 1) * (x.shape[1] - 2) + 3]": lambda m, k: ((m - 1) * (k - 2) + 3,),
    "[x.shape[0] % 4 + 1]": lambda m, k: (m % 4 + 1,),
    "[x.shape[0] - x.shape[0] % 2, x.shape[1] ** 2]": lambda m, k: (m - m % 2, k**2),
    "[x.shape[0] * x.shape[1] // 4 % 3 + 1]": lambda m, k: (m * k // 4 % 3 + 1,),
    "[sum(x.shape), max(x.shape[0], x.shape[0] + 1)]": lambda m, k: (m + k, m + 1),
    "[extent + 1 for extent in x.shape]": lambda m, k: (m + 1, k + 1),
}
COMPUTED_BY_PYTHON: dict[str, Callable[[int, int], tuple[int, ...]]] = {
    "[math.prod(x.shape), max(x.shape)]": lambda m, k: (m * k, max(m, k)),
    "x.shape + (2,)": lambda m, k: (m, k, 2),
    "[x.shape[0] if x.shape[0] > 6 else 1]": lambda m, k: (m if m > 6 else 1,),
}


@pytest.mark.parametrize("shape", [*COMPUTED, *COMPUTED_BY_PYTHON])
def test_constant_extents_are_what_python_computes(sized: Sized, shape: str):
    wanted = {**COMPUTED, **COMPUTED_BY_PYTHON}[shape]
    for m, k in ((9, 3), (6, 4)):
        assert sized(shaped(shape))(ones(m, k)).shape == wanted(m, k)


@pytest.mark.parametrize("platform", ["cpu", "reference"])
@pytest.mark.parametrize("shape", COMPUTED)
def test_dynamic_extents_are_computed_in_each_call(sized: Sized, shape: str, platform: str):
    kernel, config = sized(shaped(shape), DYNAMIC), RunConfig(platform=platform)
    for m, k in ((9, 3), (6, 4), (7, 5), (6, 4)):
        assert kernel(ones(m, k), config=config).shape == COMPUTED[shape](m, k)
    assert kernel.cache_info().entries == 1


def test_an_extent_below_zero_is_named_by_its_axis(sized: Sized):
    """It was called by the constant that is taken away."""
    with pytest.raises(errors.ShapeError, match="kernel would return a tensor whose dim 1 is -47"):
        sized(shaped("[x.shape[0], x.shape[1] - 50]"), DYNAMIC)(ones(9, 3))


def test_the_dtype_holds(sized: Sized):
    result = sized("pl.Out[pl.Tensor[x.shape, pl.FP16]]")(ones(6, 4))
    assert (result.shape, result.dtype) == ((6, 4), np.float16)


@pytest.mark.parametrize("shape", [*COMPUTED_BY_PYTHON, "[max(x.shape[0], 9)]", "[x.shape[0] // x.shape[1]]"])
def test_what_the_run_would_have_to_say_is_an_error_and_the_output_can_be_passed(sized: Sized, shape: str):
    kernel = sized(shaped(shape), DYNAMIC)
    with pytest.raises(errors.ShapeError, match="does not tell its shape before it runs") as caught:
        kernel(ones(9, 3))
    assert "pass `out`" in (caught.value.hint or "")
    kernel(ones(9, 3), ones(*COMPUTED_BY_PYTHON.get(shape, lambda m, k: (9,))(9, 3)))


MISTAKES = [
    ("pl.Out[pl.Tensor[[xx.shape[0], 4], pl.FP16]]", errors.UndefinedVariableError, "name 'xx' is not defined"),
    (shaped("[xx.shape[0]]"), errors.UndefinedVariableError, "`xx` is not defined"),
    (shaped("[x.shape[0] * LL]"), errors.UndefinedVariableError, "`LL` is not defined"),
    (shaped("[x.shpe[0]]"), errors.ParserTypeError, "not known what `x.shpe` is"),
    (shaped("[x.shape[2]]"), errors.ShapeError, "`x` has rank 2"),
    (shaped("[x.shape[0] / 2]"), errors.ParserTypeError, "an extent is an integer"),
    (shaped("[x.shape[0] - 50]"), errors.ShapeError, "is -44 in this call"),
    (shaped("[N, x.shape[1]]"), errors.ShapeError, "has the dynamic extent `N`"),
    (shaped("x"), errors.ParserTypeError, "`x` is no shape or extent"),
    (shaped("4"), errors.ParserTypeError, "`4` is no shape or extent"),
    ("pl.Out[pl.Tensor[x.shape]]", errors.ParserTypeError, "takes a shape and a data type"),
    ("pl.Out[pl.Tensor[x.shape, x.dtyp]]", errors.ParserTypeError, "not known what `x.dtyp` is"),
    ("pl.Out[pl.Tensor[x.shape, float]]", errors.ParserTypeError, "`float` is no data type"),
    ("pl.Out[pl.Tensor[[max(M, 9), 4], pl.FP32]]", errors.ParserTypeError, "cannot be told of a pl.dynamic extent"),
    ("pl.Scalar[x.dtype]", errors.ParserTypeError, "speaks of the parameter `x`, which only that of a tensor may"),
]


@pytest.mark.parametrize(("annotation", "kind", "said"), MISTAKES, ids=[row[0] for row in MISTAKES])
def test_mistakes_are_errors_where_the_annotation_stands(sized: Sized, annotation: str, kind: type[errors.TilejitError], said: str):
    """They were taken for a bare pl.Tensor, or shown at line 1."""
    with pytest.raises(kind, match=re.escape(said)) as caught:
        sized(annotation)(ones(6, 4), *([1.0] if "Scalar" in annotation else []))
    assert "written.py:6:" in str(caught.value)


@pl.jit
def beside(x: "pl.Tensor[[M, 4], pl.FP32]", y: "pl.Tensor[[2 * x.shape[0], 4], x.dtype]", out: "pl.Out[pl.like(y)]"):  # noqa: F821  # pyright: ignore
    out[:] = y * 2.0


@pl.jit
def of_one_size(x: pl.Tensor, y: "pl.Tensor[x.shape, pl.FP32]", out: "pl.Out[pl.Tensor[x.shape, pl.FP32]]"):  # noqa: F821  # pyright: ignore
    out[:] = x + y


def test_tensors_that_are_given_must_be_as_declared():
    for rows in (3, 5, 3):
        assert (beside(ones(rows, 4), ones(2 * rows, 4)) == 2).all()
    assert of_one_size(ones(3, 4), ones(3, 4)).shape == (3, 4)
    for _ in range(2):
        with pytest.raises(errors.ShapeError, match="7"):
            beside(ones(3, 4), ones(7, 4))
    with pytest.raises(errors.DTypeError, match="`y` must hold FP32, got FP64"):
        of_one_size(ones(3, 4), ones(3, 4, dtype=np.float64))
    with pytest.raises(errors.ShapeError, match="`y` has extent 1 in dim 0, by its annotation 3"):
        of_one_size(ones(3, 4), ones(1, 4))
    with pytest.raises(errors.ShapeError, match="`out` has extent 5 in dim 1, by its annotation 4"):
        of_one_size(ones(3, 4), ones(3, 4), ones(3, 5))


@pl.jit
def of_an_undefined_name(x: "pl.Tensor[[M, L], pl.FP32]", out: pl.Out[pl.Tensor]):  # noqa: F821  # pyright: ignore
    out[:] = x


def test_an_input_s_annotation_that_cannot_be_evaluated_is_an_error():
    """It meant nothing: float64 was taken too."""
    with pytest.raises(errors.UndefinedVariableError, match="`x` cannot be evaluated: name 'L' is not defined"):
        of_an_undefined_name(ones(3, 4))


@pl.jit
def like_an_output(x: pl.Tensor, b: pl.Out[pl.like("a")], a: pl.Out[pl.like("x")]):
    a[:] = x
    b[0:1] = x[0:1]


@pl.jit
def like_what_is_written(x: pl.Tensor, a: pl.Out[pl.Tensor], b: "pl.Out[pl.Tensor[a.shape[::-1], pl.FP16]]"):  # noqa: F821  # pyright: ignore
    a[:] = x[1:]
    b[0, 0] = 1.0


@pl.jit
def like_each_other(x: pl.Tensor, a: pl.Out[pl.like("b")], b: pl.Out[pl.like("a")]):
    a[:] = x
    b[:] = x


def test_outputs_may_be_declared_by_others_that_are_left_out_too():
    assert [result.shape for result in like_an_output(ones(3, 4))] == [(3, 4), (3, 4)]
    a, b = like_what_is_written(ones(3, 4))
    assert (a.shape, b.shape, b.dtype) == ((2, 4), (4, 2), np.float16)
    with pytest.raises(errors.ShapeError, match="is declared by itself"):
        like_each_other(ones(3, 4))


@pl.jit
def like_an_optional(x: pl.Tensor, y: pl.Tensor | None, out: pl.Out[pl.like("y")]):
    out[0:1] = x[0:1]


@pl.jit
def like_a_number(x: pl.Tensor, n: pl.INT32, out: pl.Out[pl.like("n")]):
    out[0:1] = x[0:1]


def test_like_needs_a_tensor():
    assert like_an_optional(ones(3, 4), ones(5, 4)).shape == (5, 4)
    with pytest.raises(errors.ShapeError, match="`y` is None in this call") as caught:
        like_an_optional(ones(3, 4), None)
    assert "pass `out`" in (caught.value.hint or "")
    like_an_optional(ones(3, 4), None, ones(2, 4))
    with pytest.raises(errors.ShapeError, match="names a parameter that is no tensor"):
        like_a_number(ones(3, 4), 3)


@pl.jit
def tail(x: pl.Tensor[[M, 4], pl.FP32], out: pl.Out[pl.Tensor]):
    out[0 : x.shape[0] % 4] = x[0 : x.shape[0] % 4]


def test_a_remainder_of_a_dynamic_extent_is_exact_in_what_is_written_too():
    """It was taken for the largest that it can be."""
    assert [tail(ones(m, 4)).shape for m in (5, 4, 7)] == [(1, 4), (0, 4), (3, 4)]
