"""Every dtype × calling style × framework × static or dynamic extents: what the caller passes reaches the kernel, what it computes comes back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.runtime.programs import COLUMNS, ROWS, arithmetic, compiled
from tilejit.dtypes import DTYPES, DType
from tilejit.runtime.arrays import view_of

NUMPY = [dtype for dtype in DTYPES.values() if dtype.numpy_name is not None]
TORCH = [dtype for dtype in NUMPY if dtype.torch_name is not None and dtype.name != "FP4"]


def data(dtype: DType, rows: int, seed: int) -> np.ndarray:
    """Random elements of a dtype, over its range where that is small; never NaN, so that bits can be compared."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "bool":
        return rng.integers(0, 2, (rows, COLUMNS)).astype(bool)
    if dtype.kind == "float":
        values = rng.standard_normal((rows, COLUMNS)) if dtype.name != "FP8E8M0" else np.exp2(rng.integers(-20, 20, (rows, COLUMNS)))
        return values.astype(np.float32).astype(dtype.numpy)
    low, high = (-(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1) if dtype.kind == "int" else (0, (1 << dtype.bits) - 1)
    return rng.integers(low, high, (rows, COLUMNS), dtype=np.int64 if dtype.kind == "int" else np.uint64, endpoint=True).astype(dtype.numpy)


def expected(dtype: DType, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if arithmetic(dtype) == "a":
        return a
    if dtype.is_float:
        return (a.astype(np.float32) + b.astype(np.float32)).astype(dtype.numpy)
    with np.errstate(over="ignore"):
        return a + b


def as_torch(array: np.ndarray) -> Any:
    """The same bits as a torch tensor."""
    torch = pytest.importorskip("torch")
    view = view_of(array)
    assert view is not None
    raw = torch.from_numpy(array.view(f"u{array.itemsize}").copy())
    return raw.view(getattr(torch, view.dtype.torch_name or ""))


def bits(value: Any) -> np.ndarray:
    array: np.ndarray = value if isinstance(value, np.ndarray) else value.view(pytest.importorskip("torch").uint8).numpy()
    return np.ascontiguousarray(array).view(np.uint8)


CASES = [pytest.param(dtype, "numpy", id=f"{dtype.name}-numpy") for dtype in NUMPY] + [
    pytest.param(dtype, "torch", id=f"{dtype.name}-torch", marks=pytest.mark.torch) for dtype in TORCH
]


@pytest.mark.parametrize("rows", [ROWS, "M"], ids=["static", "dynamic"])
@pytest.mark.parametrize(("dtype", "framework"), CASES)
def test_both_calling_styles_compute_what_numpy_computes(dtype: DType, framework: str, rows: int | str) -> None:
    program = compiled(dtype.name, arithmetic(dtype), rows)
    for extent in (ROWS,) if isinstance(rows, int) else (1, ROWS, 64):
        a, b = data(dtype, extent, extent), data(dtype, extent, extent + 100)
        want = expected(dtype, a, b)
        arguments: tuple[Any, Any] = (as_torch(a), as_torch(b)) if framework == "torch" else (a, b)
        out = arguments[1].clone() if framework == "torch" else b.copy()

        returned = program(*arguments)
        assert program(*arguments, out) is None

        assert type(returned) is type(arguments[0])
        assert returned.dtype == arguments[0].dtype
        assert tuple(returned.shape) == (extent, COLUMNS)
        np.testing.assert_array_equal(bits(returned), bits(want))
        np.testing.assert_array_equal(bits(out), bits(want))
