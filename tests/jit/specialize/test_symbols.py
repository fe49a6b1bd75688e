"""Symbols of dynamic extents: which of them are one is a matter of each call, and which one a name stands for a matter of identity."""

from __future__ import annotations

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tilejit.errors import ShapeError, StaleCaptureError
from tilejit.jit.function import JITFunction

pytestmark = pytest.mark.usefixtures("cache")


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


# axes that are one at some ranks ----------------------------------------------------------------------------------------------

COLUMNS = """
    @pl.jit.inline
    def columns(t):
        a, b = pl.dynamic("A"), pl.dynamic("B")
        t.bind_dynamic(0, a)
        t.bind_dynamic(-1, b)
        return pl.cast(b, pl.FP32)
    N, R, C = pl.dynamic("N"), pl.dynamic("R"), pl.dynamic("C")
"""
CHOSEN = COLUMNS + """
    @pl.jit
    def kernel(v: pl.Tensor[[N], pl.FP32], m: pl.Tensor[[R, C], pl.FP32], vector: bool, out: pl.Out[pl.Tensor[[1, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            if vector:
                n = columns(v)
            else:
                n = columns(m)
            out[:] = pl.full([1, 8], dtype=pl.FP32, value=0.0) + n
"""


def test_a_call_with_a_vector_leaves_the_axes_of_a_matrix_apart(make_kernel: MakeKernel) -> None:
    kernel = make_kernel(CHOSEN)
    assert [kernel(zeros(5), zeros(2, 3), vector)[0, 0] for vector in (True, False, True)] == [5, 3, 5]
    assert make_kernel(CHOSEN)(zeros(5), zeros(2, 3), False)[0, 0] == 3  # from disk


@pytest.mark.parametrize("calls", ["n, k = columns(v), columns(m)", "k, n = columns(m), columns(v)"])
def test_a_helper_is_called_with_a_vector_and_a_matrix_by_one_kernel(calls: str, make_kernel: MakeKernel) -> None:
    kernel = make_kernel(COLUMNS + f"""
    @pl.jit
    def kernel(v: pl.Tensor[[N], pl.FP32], m: pl.Tensor[[R, C], pl.FP32], out: pl.Out[pl.Tensor[[1, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            {calls}
            out[:] = pl.full([1, 8], dtype=pl.FP32, value=0.0) + n * 10.0 + k
    """)
    assert kernel(zeros(5), zeros(2, 3))[0, 0] == 53


ANY_RANK = """
    @pl.jit
    def kernel(q: pl.Tensor, x: pl.Tensor, out: pl.Out[pl.Tensor[[1, 8], pl.FP32]]):
        rows, cols = pl.dynamic("ROWS"), pl.dynamic("COLS")
        q.bind_dynamic(0, cols)
        x.bind_dynamic(0, rows)
        x.bind_dynamic(-1, cols)
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.full([1, 8], dtype=pl.FP32, value=0.0) + pl.cast(rows, pl.FP32) * 10.0 + pl.cast(cols, pl.FP32)
"""


def test_a_kernel_for_any_rank_is_called_with_several(make_kernel: MakeKernel) -> None:
    for kernel in (make_kernel(ANY_RANK), make_kernel(ANY_RANK)):
        assert kernel(zeros(8, 2), zeros(8))[0, 0] == 88
        assert kernel(zeros(5, 2), zeros(3, 5))[0, 0] == 35
        with pytest.raises(ShapeError, match="is 7 in dim 0 of `q` but 8 in dim 0 of `x`"):  # one symbol here, whichever parameter comes first
            kernel(zeros(7, 2), zeros(8))


# symbols that are others by now -----------------------------------------------------------------------------------------------

BOUND = """
    class Symbols:
        a, b = pl.dynamic("N"), pl.dynamic("N")
    A, B, at = Symbols.a, Symbols.b, Symbols()
    @pl.jit
    def kernel(x: pl.Tensor, y: pl.Tensor, w: float, out: pl.Out[pl.Tensor]):
        x.bind_dynamic(0, FIRST)
        y.bind_dynamic(0, SECOND)
        out.bind_dynamic(0, FIRST)
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x + pl.cast(SECOND, pl.FP32) * w
"""


def swapped(kernel: JITFunction) -> None:
    names = kernel.definition.function.__globals__
    names["A"], names["B"] = names["B"], names["A"]
    names["at"].a, names["at"].b = names["at"].b, names["at"].a


@pytest.mark.parametrize(("first", "second"), [("A", "B"), ("at.a", "at.b")])
def test_names_swap_their_symbols(first: str, second: str, make_kernel: MakeKernel) -> None:
    text = BOUND.replace("FIRST", first).replace("SECOND", second)
    kernel = make_kernel(text)
    assert kernel(zeros(5, 8), zeros(7, 8), 1.0)[0, 0] == 7
    swapped(kernel)
    assert [kernel(zeros(5, 8), zeros(7, 8), w)[0, 0] for w in (1.0, 3.0)] == [7, 21]
    assert make_kernel(text)(zeros(5, 8), zeros(7, 8), 3.0)[0, 0] == 21  # from disk


def test_a_symbol_is_made_again(make_kernel: MakeKernel) -> None:
    kernel = make_kernel(BOUND.replace("FIRST", "A").replace("SECOND", "B"))
    assert kernel(zeros(5, 8), zeros(7, 8), 1.0)[0, 0] == 7
    names = kernel.definition.function.__globals__
    names["B"] = type(names["B"])("N")
    assert [kernel(zeros(5, 8), zeros(7, 8), w)[0, 0] for w in (1.0, 3.0)] == [7, 21]


# symbols of annotations -------------------------------------------------------------------------------------------------------

ANNOTATED = """
    A, B = pl.dynamic("N"), pl.dynamic("N")
    C = {symbol}
    class Symbols:
        c = C
    @pl.jit.inline
    def helper(t: pl.Tensor[[B, 8], pl.FP32], u: pl.Tensor[[A, 8], pl.FP32]):
        return pl.cast(Symbols.c, pl.FP32)
    @pl.jit{options}
    def kernel(x: pl.Tensor[[A, 8], pl.FP32], y: pl.Tensor[[B, 8], pl.FP32], out: pl.Out[pl.Tensor[[{rows}, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[0:1, :] = x[0:1, :] + {read}
"""
READS = [
    ("pl.cast(C, pl.FP32)", 5, 7),
    ("pl.cast(Symbols.c, pl.FP32)", 5, 7),
    ("helper(x, y)", 7, 5),
    ("pl.cast(Symbols.c, pl.FP32) + helper(x, y) * 10.0", 75, 57),
]


@pytest.mark.parametrize(("read", "first", "second"), READS)
def test_names_of_kernels_that_differ_in_nothing_else_stand_for_other_symbols(read: str, first: int, second: int, make_kernel: MakeKernel) -> None:
    for _ in range(2):  # compiled, and from disk
        for symbol, wanted in (("A", first), ("B", second)):
            kernel = make_kernel(ANNOTATED.format(symbol="A", options="", rows="A", read=read))
            names = kernel.definition.function.__globals__
            names["C"] = names["Symbols"].c = names[symbol]
            assert [kernel(zeros(5, 8), zeros(7, 8))[0, 0] for _ in range(3)] == [wanted] * 3


def test_a_name_stands_for_another_symbol_of_the_annotations(make_kernel: MakeKernel) -> None:
    text = ANNOTATED.format(symbol="A", options="{options}", rows="A", read="pl.cast(C, pl.FP32)")
    follows, strict = (make_kernel(text.replace("{options}", options)) for options in ("(on_drift='recompile')", ""))
    for kernel in (follows, strict):
        names = kernel.definition.function.__globals__
        assert [kernel(zeros(5, 8), zeros(7, 8))[0, 0] for _ in range(3)] == [5] * 3
        names["C"] = names["B"]
        if kernel is strict:
            with pytest.raises(StaleCaptureError, match=r"global `C`.*changed from 'x.shape\[0\]' to 'y.shape\[0\]'"):
                kernel(zeros(5, 8), zeros(7, 8))
        else:
            assert [kernel(zeros(5, 8), zeros(7, 8))[0, 0] for _ in range(3)] == [7] * 3
            names["C"] = type(names["B"])("N")
            with pytest.raises(ShapeError, match="no parameter of `kernel` has the dynamic extent `N`"):
                kernel(zeros(5, 8), zeros(7, 8))


def test_extents_that_annotations_compute_follow_their_symbols(make_kernel: MakeKernel) -> None:
    one, other = (make_kernel(ANNOTATED.format(symbol=symbol, options="", rows="C * 2", read="1.0")) for symbol in "AB")
    assert one.definition.digest != other.definition.digest
    for symbol, rows in (("A", 10), ("B", 14)):
        kernel = make_kernel(ANNOTATED.format(symbol="[A, B]['AB'.index(WHICH)]", options="", rows="C * 2", read="1.0"), WHICH=symbol)
        assert kernel(zeros(5, 8), zeros(7, 8)).shape == (rows, 8)


def test_a_parameter_is_bound_to_a_symbol_of_an_annotation(make_kernel: MakeKernel) -> None:
    text = """
    A, B = pl.dynamic("N"), pl.dynamic("N")
    @pl.jit
    def kernel(x: pl.Tensor[[A, 8], pl.FP32], y: pl.Tensor, out: pl.Out[pl.Tensor[[A, 8], pl.FP32]]):
        y.bind_dynamic(0, C)
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x + pl.cast(C, pl.FP32)
    """
    free, bound = make_kernel(text), make_kernel(text)
    for kernel, symbol in ((free, "B"), (bound, "A")):
        names = kernel.definition.function.__globals__
        names["C"] = names[symbol]
    assert free(zeros(5, 8), zeros(7, 8))[0, 0] == 7
    with pytest.raises(ShapeError, match="is 5 in dim 0 of `x` but 7 in dim 0 of `y`"):
        bound(zeros(5, 8), zeros(7, 8))
