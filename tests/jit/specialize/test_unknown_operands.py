"""Of what only the front end knows, specialising claims nothing: a result of an operator is no number, whatever is done with it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tilejit.errors import ArgumentError, ParserTypeError, TilejitError

KERNEL = """
@pl.jit
def kernel(x: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):
    made = pl.exp(w)
    {line}
"""
X, W = np.random.default_rng(0).standard_normal((2, 4, 4), np.float32)
E = np.exp(W)
RESULTS = {
    "out[:] = x @ (pl.cast(w, pl.FP32) - 8.0)": X @ (W - 8),
    "out[:] = x @ (1 - made)": X @ (1 - E),
    "out[:] = x.T @ (w * made * (1.0 - made))": X.T @ (W * E * (1 - E)),
    "out[:] = x @ (made / 2)": X @ (E / 2),
    "out[:] = (made * 2.0).T @ x": (E * 2).T @ X,
    "out[:] = x @ -made": X @ -E,
    "out[:] = x @ abs(made)": X @ E,
    "out[:] = x @ (x * (made > 1.0))": X @ (X * (E > 1)),
    "out[:] = x @ pl.where(0.5 < made < 1.5, x, 0.0)": X @ (X * ((E > 0.5) & (E < 1.5))),
    "made *= 2.0\n    both = made + 1\n    out[:] = x @ both": X @ (E * 2 + 1),
    "out[:] = x @ (made if x[0, 0] > 9.0 else made * 2.0)": X @ (E * 2),
}


@pytest.mark.parametrize("line", RESULTS)
@pytest.mark.parametrize("style", ["given", "returned"])
def test_products_with_results_of_operators(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch, line: str, style: str) -> None:
    monkeypatch.setenv("TILEJIT_PLATFORM", "reference")
    out = np.zeros_like(X)
    kernel = make_kernel(KERNEL.replace("{line}", line))
    found = kernel(X, W) if style == "returned" else kernel(X, W, out)
    np.testing.assert_allclose(out if found is None else found, RESULTS[line], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("operand", ["2.0", "x[0, 0]", "(x[0, 0] * 2.0)", "x.shape[0]", "[x, x]", "max(made, 1.0)", "None", "(2 @ x.sum())"])
@pytest.mark.parametrize("style", ["given", "returned"])
def test_what_is_no_tensor_is_refused_where_it_stands(make_kernel: MakeKernel, operand: str, style: str) -> None:
    kernel = make_kernel(KERNEL.replace("{line}", f"out[:] = x @ {operand}"))
    with pytest.raises((ArgumentError, ParserTypeError), match=r"rhs|`max` works on scalars|matmul works on tensors"):
        kernel(X, W, *([np.zeros_like(X)] if style == "given" else []))


def test_a_shape_that_is_no_list_is_refused_where_it_stands(make_kernel: MakeKernel) -> None:
    with pytest.raises(TilejitError, match="reshape"):
        make_kernel(KERNEL.replace("{line}", "out[:] = x @ x.reshape(made - 1.0, -1)"))(X, W)


def test_a_helper_takes_a_result_with_an_extent_of_the_run(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PLATFORM", "reference")
    text = """
    @pl.jit.inline
    def helper(t):
        return t + 1.0
    @pl.jit
    def kernel(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
        made = pl.exp(x)
        out[:] = helper(made.reshape(pl.cast(n[0], pl.INDEX), -1))
    """
    out = np.zeros((2, 8), np.float32)
    make_kernel(text)(X, np.array([2], np.int32), out)
    np.testing.assert_allclose(out, np.exp(X).reshape(2, 8) + 1, rtol=1e-5)
