"""The reference backend: what programs mean, and every failure they can have while they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

from tests.tile_ir.programs import CASES, FLOAT, INDEX_TYPE, Case, Code, block, program, random, tensor, tile
from tilejit.backends.reference.interpreter import ReferenceExecutable, scalar
from tilejit.dtypes import BF16, BOOL, FP16, FP32, INDEX, INT8, INT16, INT32, UINT8, UINT32, DType
from tilejit.errors import KernelArithmeticError, KernelAssertionError, OutOfBoundsError, ShapeError, SourceText, Span, TilejitError
from tilejit.tile_ir.build import function
from tilejit.tile_ir.program import Program
from tilejit.tile_ir.verify import verify
from tilejit.types.values import ANY, BufferType, ScalarType, ValueType

LINE = Span(SourceText("kernel.py", ("    t = pl.load(x, [i, 0], [4, 4])\n",), 9), 9, 9, 9, 35, "kernel")
Body = Callable[..., object]


def kernel(params: list[tuple[str, ValueType, str]], body: Body) -> Program:
    """An incore function whose body `body(builder, *parameters)` builds; it returns what `body` returns."""
    f, arguments = function("main", "incore", params)
    b = Code(f.body.block)
    b.span = LINE
    returned = body(b, *arguments)
    b.return_([returned] if isinstance(returned, SSAValue) else [])
    made = program(f)
    verify(made)
    return made


def run(made: Program, *arguments: Any) -> tuple[Any, ...]:
    return ReferenceExecutable(made).run("main", list(arguments))


def fails(kind: type[TilejitError], message: str, made: Program, *arguments: Any) -> TilejitError:
    with pytest.raises(kind, match=message) as caught:
        run(made, *arguments)
    assert caught.value.span is LINE
    assert caught.value.note is not None and "partly written" in caught.value.note
    return caught.value


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_programs_compute_what_numpy_computes(case: Case) -> None:
    arguments = case.arguments()
    expected = case.expected([np.copy(item) if isinstance(item, np.ndarray) else item for item in arguments])
    ReferenceExecutable(case.build()).run("main", arguments)
    for got, wanted in zip(arguments, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


# scalars ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "dtype", "expected"), [(300, UINT8, 44), (-1, UINT32, 2**32 - 1), (130, INT8, -126), (-1, INDEX, -1), (2**63, INDEX, -(2**63))]
)
def test_integers_wrap_to_their_type(value: int, dtype: DType, expected: int) -> None:
    got = scalar(value, dtype)
    assert int(got) == expected and got.dtype == dtype.numpy


def test_scalars_keep_their_dtype() -> None:
    for value, dtype in [(1.1, FP16), (1.1, BF16), (1.1, FP32), (True, BOOL), (3, INT16)]:
        assert scalar(value, dtype).dtype == dtype.numpy


def test_index_arithmetic_is_64_bit() -> None:
    made = kernel([("n", INDEX_TYPE, "In")], lambda b, n: b.s("mul", n, n))
    assert run(made, 2**31) == (2**62,)


# memory -------------------------------------------------------------------------------------------------------------------


def test_new_tensors_are_poisoned_unless_filled() -> None:
    made = kernel([], lambda b: b.create(tensor(3), []))
    assert np.isnan(run(made)[0]).all()
    made = kernel([], lambda b: b.create(tensor(3, dtype=INT32), [], init=7))
    np.testing.assert_array_equal(run(made)[0], [7, 7, 7])


def test_cells_outside_the_valid_region_are_poison() -> None:
    made = kernel([("x", tensor(4, 4), "In"), ("n", INDEX_TYPE, "In")], lambda b, x, n: _corner(b, x, n))
    x = random(4, 4)
    assert run(made, x, 4)[0] == x[3, 3]
    assert np.isnan(run(made, x, 3)[0])


def _corner(b: Code, x: SSAValue, n: SSAValue) -> SSAValue:
    t = b.load(x, b.zeros(2), [n, n], tile(4, 4, valid=(ANY, ANY)))
    return b.read(t, [b.const(3), b.const(3)])


def test_a_load_is_a_snapshot() -> None:
    def body(b: Code, x: SSAValue, out: SSAValue) -> None:
        t = b.load_all(x, tile(2, 3))
        b.store(b.op("full", "tile", [b.const(2), b.const(3)], dtype=FP32, value=b.const(0.0)), x, b.zeros(2))
        b.store(t, out, b.zeros(2))

    made = kernel([("x", tensor(2, 3), "InOut"), ("out", tensor(2, 3), "Out")], body)
    x, out = random(2, 3), np.zeros((2, 3), np.float32)
    before = x.copy()
    run(made, x, out)
    np.testing.assert_array_equal(out, before)
    assert not x.any()


def test_a_view_of_a_value_does_not_follow_later_stores() -> None:
    def body(b: Code, x: SSAValue, out: SSAValue) -> None:
        flat = b.op("reshape", "tensor", b.op("transpose", "tensor", x, axis1=0, axis2=1), [b.const(6)])
        b.store(b.op("mul", "tensor", x, b.const(0.0)), x, b.zeros(2))
        b.store(flat, out, b.zeros(1))

    made = kernel([("x", tensor(2, 3), "InOut"), ("out", tensor(6), "Out")], body)
    x, out = random(2, 3), np.zeros(6, np.float32)
    before = x.copy()
    run(made, x, out)
    np.testing.assert_array_equal(out, before.T.reshape(-1))


def test_windows_and_views_write_through() -> None:
    def body(b: Code, x: SSAValue) -> None:
        column = b.window(x, [b.const(0), b.const(1)], [b.const(4), b.const(1)], tensor(4), drop=(1,))
        b.write(column, [b.const(2)], b.const(5.0))
        flat = b.view(x, [], tensor(12))
        b.write(flat, [b.const(11)], b.const(7.0))

    x = random(4, 3)
    expected = x.copy()
    expected[2, 1], expected[3, 2] = 5, 7
    run(kernel([("x", tensor(4, 3), "InOut")], body), x)
    np.testing.assert_array_equal(x, expected)


def test_a_view_may_change_the_dtype() -> None:
    made = kernel([("x", tensor(4, dtype=FP32), "In")], lambda b, x: b.view(x, [], tensor(2, 8, dtype=UINT8)))
    x = random(4)
    np.testing.assert_array_equal(run(made, x)[0], x.view(np.uint8).reshape(2, 8))


def test_a_view_of_a_strided_window_is_refused() -> None:
    def body(b: Code, x: SSAValue) -> SSAValue:
        left = b.window(x, b.zeros(2), [b.const(4), b.const(2)], tensor(4, 2))
        return b.view(left, [], tensor(8))

    fails(ShapeError, "a view of `x` with 8 elements has no view", kernel([("x", tensor(4, 3), "In")], body), random(4, 3))


@pytest.mark.parametrize(
    ("source", "target", "value", "expected"),
    [(FP32, FP16, 1.0009765625 + 2**-12, 1.0009765625), (FP32, BF16, 1.0 + 2**-8, 1.0), (FP16, FP32, 0.1, float(np.float16(0.1))), (INT8, INT32, -5, -5)],
)
def test_stores_convert(source: DType, target: DType, value: float, expected: float) -> None:
    made = kernel([("x", BufferType((3,), source), "In"), ("out", BufferType((3,), target), "Out")], lambda b, x, out: b.store(x, out, [b.const(0)]))
    out = np.zeros(3, target.numpy)
    run(made, np.full(3, value, source.numpy), out)
    np.testing.assert_array_equal(out.astype(np.float64), expected)


def test_an_atomic_store_adds() -> None:
    made = kernel([("x", tensor(3), "In"), ("out", tensor(3), "InOut")], lambda b, x, out: b.store(x, out, [b.const(0)], atomic=True))
    x, out = random(3), random(3, seed=1)
    expected = out + x
    run(made, x, out)
    np.testing.assert_array_equal(out, expected)


def test_a_value_of_lower_rank_fills_the_trailing_dims() -> None:
    made = kernel([("x", tensor(3), "In"), ("out", tensor(4, 3), "InOut"), ("n", INDEX_TYPE, "In")], lambda b, x, out, n: b.store(x, out, [n, b.const(0)]))
    x, out = random(3), np.zeros((4, 3), np.float32)
    run(made, x, out, 2)
    np.testing.assert_array_equal(out[2], x)
    assert not out[[0, 1, 3]].any()


def test_strided_arguments_are_read_and_written_in_place() -> None:
    made = kernel([("x", tensor(4, 3), "In"), ("out", tensor(4, 3), "Out")], lambda b, x, out: b.store(x, out, b.zeros(2)))
    x, memory = random(3, 4).T, np.zeros((4, 6), np.float32)
    run(made, x, memory[:, ::2])
    np.testing.assert_array_equal(memory[:, ::2], x)
    assert not memory[:, 1::2].any()


# bounds -------------------------------------------------------------------------------------------------------------------


def load_at(clamp: bool = False) -> Program:
    def body(b: Code, x: SSAValue, i: SSAValue, n: SSAValue) -> SSAValue:
        t = b.load(x, [i, b.const(0)], [n, b.const(4)], tile(4, 4, valid=(ANY, 4)), clamp)
        return b.valid(t, 0)

    return kernel([("x", tensor("M", 4), "In"), ("i", INDEX_TYPE, "In"), ("n", INDEX_TYPE, "In")], body)


@pytest.mark.parametrize(("offset", "size"), [(7, 4), (-1, 4), (10, 1), (-3, 2)])
def test_a_load_outside_its_tensor_fails(offset: int, size: int) -> None:
    error = fails(OutOfBoundsError, rf"load reads outside `x` in dim 0: offset {offset}, size {size}, extent 10", load_at(), random(10, 4), offset, size)
    assert "pl.load(x, [i, 0], [4, 4])" in str(error)


@pytest.mark.parametrize(("offset", "size", "valid"), [(6, 4, 4), (0, 0, 0), (9, 1, 1), (3, 9, 4), (30, 0, 0), (2, -5, 0)])
def test_a_load_inside_its_tensor_has_the_requested_valid_region(offset: int, size: int, valid: int) -> None:
    assert run(load_at(), random(10, 4), offset, size) == (valid,)


@pytest.mark.parametrize(("offset", "size", "valid"), [(6, 4, 4), (8, 4, 2), (10, 4, 0), (99, 4, 0), (8, 1, 1)])
def test_clamp_shrinks_a_load_to_the_part_inside(offset: int, size: int, valid: int) -> None:
    assert run(load_at(clamp=True), random(10, 4), offset, size) == (valid,)


def test_clamp_does_not_help_a_negative_offset() -> None:
    fails(OutOfBoundsError, "offset -1, size 4, extent 10", load_at(clamp=True), random(10, 4), -1, 4)


def test_a_store_outside_its_tensor_fails() -> None:
    made = kernel([("x", tensor(3), "In"), ("out", tensor("N"), "Out"), ("i", INDEX_TYPE, "In")], lambda b, x, out, i: b.store(x, out, [i]))
    fails(OutOfBoundsError, "store writes outside `out` in dim 0: offset 3, size 3, extent 5", made, random(3), random(5), 3)
    fails(OutOfBoundsError, "offset -1", made, random(3), random(5), -1)


def test_a_slice_outside_its_tensor_fails() -> None:
    def body(b: Code, x: SSAValue, i: SSAValue, n: SSAValue) -> SSAValue:
        return b.window(x, [i], [n], tensor(ANY))

    made = kernel([("x", tensor("N"), "In"), ("i", INDEX_TYPE, "In"), ("n", INDEX_TYPE, "In")], body)
    x = random(8)
    np.testing.assert_array_equal(run(made, x, 2, 3)[0], x[2:5])
    fails(OutOfBoundsError, "slice reaches outside `x` in dim 0: offset 6, size 3, extent 8", made, x, 6, 3)
    fails(OutOfBoundsError, "size -1", made, x, 6, -1)


def test_a_clamped_slice_shrinks() -> None:
    made = kernel([("x", tensor("N"), "In"), ("i", INDEX_TYPE, "In")], lambda b, x, i: b.window(x, [i], [b.const(5)], tensor(ANY), clamp=True))
    x = random(8)
    np.testing.assert_array_equal(run(made, x, 6)[0], x[6:])
    assert run(made, x, 20)[0].shape == (0,)


@pytest.mark.parametrize("index", [-1, 6])
def test_elements_outside_their_tensor_fail(index: int) -> None:
    read = kernel([("x", tensor(3, 6), "In"), ("i", INDEX_TYPE, "In")], lambda b, x, i: b.read(x, [b.const(1), i]))
    fails(OutOfBoundsError, rf"read of an element outside `x` in dim 1: index {index}, extent 6", read, random(3, 6), index)
    write = kernel([("x", tensor(3, 6), "InOut"), ("i", INDEX_TYPE, "In")], lambda b, x, i: b.write(x, [b.const(1), i], b.const(1.0)))
    fails(OutOfBoundsError, rf"write of an element outside `x` in dim 1: index {index}, extent 6", write, random(3, 6), index)


def test_extents_that_must_agree_are_checked() -> None:
    made = kernel([("x", tensor("M", 3), "In"), ("y", tensor("N", 3), "In")], lambda b, x, y: b.op("add", "tensor", x, y))
    np.testing.assert_array_equal(run(made, random(4, 3), random(4, 3))[0], random(4, 3) * 2)
    fails(ShapeError, "extents differ: .*: 4 and 5", made, random(4, 3), random(5, 3))


def test_a_negative_extent_is_refused() -> None:
    made = kernel([("n", INDEX_TYPE, "In")], lambda b, n: b.create(tensor(ANY, 2), [n]))
    assert run(made, 0)[0].shape == (0, 2)
    fails(ShapeError, "extent -3 in dim 0", made, -3)


# control flow ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lower", "upper", "step"), [(0, 5, 1), (3, -4, -2), (2, 2, 1), (0, 7, 3)])
def test_loops_count_like_range(lower: int, upper: int, step: int) -> None:
    def body(b: Code, a: SSAValue, e: SSAValue, s: SSAValue) -> SSAValue:
        inner, c = block(INDEX_TYPE, INDEX_TYPE)
        c.yield_([c.s("add", c.s("mul", inner.args[1], c.const(31)), inner.args[0])])
        return b.for_(a, e, s, [b.const(1)], inner, [INDEX_TYPE]).results[0]

    expected = 1
    for i in range(lower, upper, step):
        expected = expected * 31 + i
    made = kernel([("a", INDEX_TYPE, "In"), ("e", INDEX_TYPE, "In"), ("s", INDEX_TYPE, "In")], body)
    assert run(made, lower, upper, step) == (expected,)


def test_a_step_of_zero_fails() -> None:
    def body(b: Code, s: SSAValue) -> None:
        inner, c = block(INDEX_TYPE)
        c.yield_([])
        b.for_(b.const(0), b.const(4), s, [], inner, [])

    fails(KernelArithmeticError, "step of a loop is 0", kernel([("s", INDEX_TYPE, "In")], body), 0)


def test_carried_buffers_can_be_swapped() -> None:
    def body(b: Code, x: SSAValue, y: SSAValue, n: SSAValue) -> SSAValue:
        inner, c = block(INDEX_TYPE, tensor(2), tensor(2))
        c.write(inner.args[1], [c.const(0)], c.s("cast", inner.args[0], target_type=FP32))
        c.yield_([inner.args[2], inner.args[1]])
        return b.for_(b.const(0), n, b.const(1), [x, y], inner, [tensor(2), tensor(2)]).results[0]

    made = kernel([("x", tensor(2), "InOut"), ("y", tensor(2), "InOut"), ("n", INDEX_TYPE, "In")], body)
    x, y = random(2), random(2, seed=1)
    (last,) = run(made, x, y, 3)
    assert (x[0], y[0]) == (2, 1)
    np.testing.assert_array_equal(last, y)


# effects --------------------------------------------------------------------------------------------------------------------


def test_print_shows_the_valid_cells(capsys: pytest.CaptureFixture[str]) -> None:
    def body(b: Code, x: SSAValue) -> None:
        t = b.load(x, b.zeros(2), [b.const(1), b.const(2)], tile(2, 2, valid=(1, 2)))
        b.effect("print", [t], {"parts": ("t =", None)})

    run(kernel([("x", tensor(2, 2), "In")], body), np.array([[1, 2], [3, 4]], np.float32))
    assert capsys.readouterr().out == "t = [[1. 2.]]\n"


def test_breakpoint_stops_in_the_debugger(monkeypatch: pytest.MonkeyPatch) -> None:
    stops: list[int] = []
    monkeypatch.setattr("sys.breakpointhook", lambda: stops.append(1))
    run(kernel([("x", tensor(2, 2), "In")], lambda b, x: b.effect("breakpoint", [])), random(2, 2))
    assert stops == [1]


def test_device_assert_raises_with_its_message() -> None:
    def body(b: Code, n: SSAValue) -> None:
        b.effect("device_assert", [b.s("cmp", n, b.const(3), cmp_type=2)], {"message": "n is {too} large"})

    made = kernel([("n", INDEX_TYPE, "In")], body)
    run(made, 2)
    fails(KernelAssertionError, "n is {too} large", made, 3)


def test_a_call_returns_what_is_no_parameter() -> None:
    helper, (x,) = function("helper", "incore", [("x", tensor(3), "InOut")])
    h = Code(helper.body.block)
    h.store(h.op("neg", "tensor", x), x, [h.const(0)])
    h.return_([x, h.read(x, [h.const(1)])])
    f, (x,) = function("main", "incore", [("x", tensor(3), "InOut")])
    b = Code(f.body.block)
    b.return_(b.call("helper", [x], [FLOAT]))
    made = program(helper, f)
    verify(made)
    x = random(3)
    expected = -x
    assert run(made, x) == (expected[1],)
    np.testing.assert_array_equal(x, expected)


_ = ScalarType
