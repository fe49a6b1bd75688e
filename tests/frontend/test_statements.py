"""Assignments, subscripts and operators mean what they mean in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tests.frontend.kernels import Array, applied, data, kernel, ops, result, run
from tilejit.tile_ir import dialect as d

LOAD = "t = pl.load(x, [0, 0], [8, 16])\n"
STORE = "\npl.store(t, [0, 0], out)"


def test_a_name_may_be_rebound() -> None:
    x, out = result(LOAD + "t = pl.add(t, 1.0)\nt = pl.mul(t, 2.0)" + STORE)
    np.testing.assert_array_equal(out, (x + 1) * 2)


def test_chained_assignment_gives_one_value_to_every_target() -> None:
    x, out = result("t = u = pl.load(x, [0, 0], [8, 16])\nt = pl.add(t, u)" + STORE)
    np.testing.assert_array_equal(out, x + x)


PYTHONS = ("int", "'float'", "list[int]", "int | None", "None", "Own", "Callable[..., int]", "Any")
"""Types of Python, and a class of the user."""


class Own:
    """That class."""


@pytest.mark.parametrize("annotation", PYTHONS)
def test_locals_annotated_with_types_of_python_are_as_without(annotation: str) -> None:
    body = f"n: {annotation} = 3\nt: {annotation} = pl.load(x, [0, 0], [8, 16])\nlast: {annotation}\nt = pl.mul(t, n)"
    x, out = result(body + STORE, names={"Callable": Callable, "Any": Any, "Own": Own})
    np.testing.assert_array_equal(out, x * 3)


def test_nested_tuples_are_unpacked_and_swapped() -> None:
    x, out = result(LOAD + "(a, (b, c)) = (t, (pl.neg(t), 3.0))\na, b = b, a\nt = pl.add(pl.mul(a, c), b)" + STORE)
    np.testing.assert_allclose(out, -x * 3 + x, rtol=1e-6)


@pytest.mark.parametrize(("operator", "numpy"), [("+=", np.add), ("-=", np.subtract), ("*=", np.multiply), ("/=", np.divide)])
def test_augmented_assignment_rebinds_the_name(operator: str, numpy: np.ufunc) -> None:
    x, out = result(LOAD + f"t {operator} 2.0" + STORE)
    np.testing.assert_allclose(out, numpy(x, np.float32(2)), rtol=1e-6)


def test_augmented_assignment_of_a_window_reads_and_writes_it() -> None:
    x, out = result("out[:] = x\nout[2:4, :] += x[0:2, :]")
    expected = x.copy()
    expected[2:4] += x[0:2]
    np.testing.assert_array_equal(out, expected)


def test_annotations_are_checked_and_give_numbers_their_dtype() -> None:
    program = kernel("n: pl.Scalar[pl.INT32] = 3\npl.write(cfg, [0], n)\nout[:] = x")
    write = ops(program, d.WriteOp)[0]
    assert str(d.type_of(write.value)) == "Scalar[INT32]"


def test_an_annotation_may_use_run_time_extents() -> None:
    kernel("n = pl.cast(cfg[0], pl.INDEX)\ntmp: pl.Tensor[[n, 16], pl.FP32] = pl.create_tensor([n, 16], dtype=pl.FP32)\ntmp[:] = x[0:n, :]\nout[:] = x")


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("x[2:4, 3:7]", lambda x: x[2:4, 3:7]),
        ("x[3]", lambda x: x[3]),
        ("x[-1, 4:]", lambda x: x[-1, 4:]),
        ("x[:, -2:]", lambda x: x[:, -2:]),
        ("x[2:6][1:3]", lambda x: x[2:6][1:3]),
        ("x[:, 5]", lambda x: x[:, 5]),
        ("x[1:-1]", lambda x: x[1:-1]),
    ],
)
def test_subscripts_of_tensors_read_like_numpy(index: str, expected: Callable[..., Array]) -> None:
    x = data(8, 16)
    wanted = expected(x)
    shape = ", ".join(str(n) for n in wanted.shape)
    out = np.full(wanted.shape, np.nan, np.float32)
    program = kernel(f"out[:] = {index}", f"x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[{shape}], pl.FP32]]")
    run(program, x, out)
    np.testing.assert_array_equal(out, wanted)


def test_a_slice_between_two_expressions_has_a_constant_extent_when_they_differ_by_one() -> None:
    body = "for i in pl.range(4):\n    out[i * 2 : i * 2 + 2, :] = pl.mul(x[i * 2 : (i + 1) * 2, :], 2.0)"
    program = kernel(body)
    windows = ops(program, d.WindowOp)
    assert [str(d.type_of(window.result)) for window in windows] == ["Tensor[[2, 16], FP32]"]
    x, out = result(body)
    np.testing.assert_array_equal(out, x * 2)


def test_columns_and_rows_are_written_with_rank_reduced_sources() -> None:
    x, out = result("out[:] = x\nout[:, 3] = x[:, 0]\nout[5] = x[0]\nout[6, 2:4] = x[7, 0:2]")
    expected = x.copy()
    expected[:, 3] = x[:, 0]
    expected[5] = x[0]
    expected[6, 2:4] = x[7, 0:2]
    np.testing.assert_array_equal(out, expected)


def test_a_scalar_fills_a_window() -> None:
    x, out = result("out[:] = x\nout[1:3, :] = 7\nout[4, 5] = 2.5")
    expected = x.copy()
    expected[1:3] = 7
    expected[4, 5] = 2.5
    np.testing.assert_array_equal(out, expected)


def test_overlapping_windows_are_read_before_they_are_written() -> None:
    x, out = result("out[:] = x\nout[1:8, :] = out[0:7, :]")
    np.testing.assert_array_equal(out[1:], x[:-1])


def test_a_write_into_a_tile_rebinds_that_name_only() -> None:
    x, out = result(LOAD + "u = t\nt[1, 2] = 5.0\npl.write(t, [0, 0], 3.0)\nt[4:6, :] = u[0:2, :]\nt = pl.add(t, u)" + STORE)
    expected = x.copy()
    expected[1, 2], expected[0, 0] = 5, 3
    expected[4:6] = x[0:2]
    np.testing.assert_allclose(out, expected + x, rtol=1e-6)


def test_a_write_into_a_buffer_reaches_every_name_of_it() -> None:
    x, out = result("tmp = pl.create_tensor([8, 16], dtype=pl.FP32)\nalias = tmp\nhalf = tmp[0:4, :]\ntmp[:] = x\nhalf[:] = pl.neg(x[0:4, :])\nout[:] = alias")
    np.testing.assert_array_equal(out, np.concatenate([-x[:4], x[4:]]))


def test_store_evaluates_to_the_buffer_it_wrote() -> None:
    program = kernel(LOAD + "y = pl.store(t, [0, 0], out)\ny[0, 0] = 1.0\nreturn y")
    assert [op.buffer for op in ops(program, d.StoreOp)] == [program.functions["k"].body.block.args[2]]
    assert program.functions["k"].static("attrs") == {"returns": (("param", 2),)}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("2.0 / t", lambda x: 2 / x),
        ("1 - t * t + t / 4", lambda x: 1 - x * x + x / 4),
        ("-t", lambda x: -x),
        ("+t", lambda x: x),
    ],
)
def test_operators_work_on_tiles_with_scalars_on_either_side(expression: str, expected: Callable[..., Array]) -> None:
    x, out = result(LOAD + f"t = {expression}" + STORE)
    np.testing.assert_allclose(out, expected(x), rtol=1e-5)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("n + 5 - m * 2", lambda n, m: n + 5 - m * 2),
        ("n // m", lambda n, m: n // m),
        ("n % m", lambda n, m: n % m),
        ("n ** 2", lambda n, m: n**2),
        ("min(n, m, 4)", lambda n, m: min(n, m, 4)),
        ("max(n, m)", lambda n, m: max(n, m)),
        ("abs(n - 20)", lambda n, m: abs(n - 20)),
        ("-n", lambda n, m: -n),
        ("(n << 2) | (m & 1) ^ 2", lambda n, m: (n << 2) | (m & 1) ^ 2),
        ("n >> 1", lambda n, m: n >> 1),
        ("~n", lambda n, m: ~n),
        ("pl.min(n, m)", lambda n, m: min(n, m)),
        ("n if n > m else m * 10", lambda n, m: n if n > m else m * 10),
    ],
)
def test_scalars_compute_like_python(expression: str, expected: Callable[..., int]) -> None:
    program = kernel(f"n = cfg[0]\nm = cfg[1]\npl.write(cfg, [2], pl.cast({expression}, pl.INT32))\nout[:] = x")
    for n, m in ((7, 2), (-7, 2), (1, 3)):
        cfg = np.array([n, m, 99, 0], np.int32)
        run(program, data(8, 16), cfg, np.empty((8, 16), np.float32))
        assert cfg[2] == expected(n, m), (n, m)


@pytest.mark.parametrize("expression", ["n == m", "n != m", "n < m <= 5", "n >= m and m > 2", "n > m or not n == 1", "1 < n < 4", "True and n < m"])
def test_conditions_compute_like_python(expression: str) -> None:
    program = kernel(f"n = cfg[0]\nm = cfg[1]\nif {expression}:\n    cfg[2] = 1\nelse:\n    cfg[2] = 0\nout[:] = x")
    for n in range(1, 6):
        for m in range(1, 6):
            cfg = np.array([n, m, 99, 0], np.int32)
            run(program, data(8, 16), cfg, np.empty((8, 16), np.float32))
            assert cfg[2] == int(eval(expression, {"n": n, "m": m}))


def test_comparisons_of_tensors_give_zeros_and_ones() -> None:
    x, out = result("out[:] = x > 0.5")
    np.testing.assert_array_equal(out, (x > 0.5).astype(np.float32))


def test_shapes_and_dtypes_are_compile_time_values() -> None:
    program = kernel(
        "M, N = x.shape\nt = pl.tile.full([M // 2, N], dtype=x.dtype, value=1.0)\npl.store(t, [x.shape[-2] - 4, 0], out)\npl.store(t, [0, 0], out)"
    )
    assert not ops(program, d.DimOp)
    assert applied(program) == ["full"]


def test_docstrings_pass_and_comments_do_nothing() -> None:
    program = kernel('"""What it does."""\npass\n# copy\n# all of it\nout[:] = x  # at once')
    store = ops(program, d.StoreOp)[0]
    assert store.static("comment") == ("copy", "all of it", "at once")


def test_a_constant_is_made_once_per_block() -> None:
    program = kernel("out[0:4, :] = x[0:4, :]\nout[4:8, :] = x[4:8, :]")
    values = [op.static("value") for op in ops(program, d.ConstOp)]
    assert len(values) == len(set(values))


def test_arrays_of_scalars_are_values_with_elements() -> None:
    body = """
        counts = pl.array.create(4, pl.INT32)
        for i in pl.range(4):
            counts[i] = cfg[i] * 2
        for i in pl.range(3):
            counts[i + 1] = counts[i] + counts[i + 1]
        for i in pl.range(4):
            cfg[i] = counts[i]
        out[:] = x
    """
    cfg = np.array([1, 2, 3, 4], np.int32)
    run(kernel(body), data(8, 16), cfg, np.empty((8, 16), np.float32))
    np.testing.assert_array_equal(cfg, [2, 6, 12, 20])


def test_comments_keep_their_order_around_statements_that_leave_nothing() -> None:
    program = pl.parse(
        """
import tilejit.language as pl

@pl.function(type=pl.FunctionType.InCore)
def k(x: pl.Tensor[[4, 4], pl.FP32], n: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor[[4, 4], pl.FP32]]):
    acc = pl.load(x, [0, 0], [4, 4])
    # one
    pl.static_assert(True, "always")
    # two
    for i in pl.range(n):  # three
        # four
        pl.static_assert(True, "always")
        # five
        acc = pl.add(acc, 1.0)
    # six
    for j in pl.unroll(2):
        # seven
        out[j, 0] = 2.0
    out = pl.store(acc, [0, 0], out)
    # eight
    pl.static_assert(True, "always")
"""
    )
    comments = [line.strip()[2:] for line in program.as_python().splitlines() if line.startswith("    ") and line.strip().startswith("#")]
    assert comments == ["one", "two", "three", "four", "five", "six", "seven", "seven", "eight"]
