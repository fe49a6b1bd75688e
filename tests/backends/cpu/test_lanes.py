"""Lanes compute what the op table's references compute."""

from __future__ import annotations

import ctypes
import warnings
from typing import Any

import numpy as np
import pytest

from tests.backends.cpu.native import Array, Native, lane_kernel
from tilejit import ops
from tilejit.backends.cpu.lanes.casts import cast_lane
from tilejit.backends.cpu.lanes.ops import COMPARISONS, WHERE, Lane, apply_lane, combine, reduce_init
from tilejit.backends.cpu.lanes.patterns import Pattern, load_pattern, store_pattern
from tilejit.backends.cpu.lanes.registers import lane_constant, load_lanes, store_lanes
from tilejit.backends.cpu.llvm.text import Emitter, Module, Value
from tilejit.backends.cpu.rules import RULES, Nest
from tilejit.dtypes import (
    BF16,
    BOOL,
    COMPLEX64,
    FP4,
    FP8E4M3FN,
    FP8E5M2,
    FP8E8M0,
    FP16,
    FP32,
    INDEX,
    INT4,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT4,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    DType,
    integer_range,
)  # fmt: skip
from tilejit.errors import InternalError
from tilejit.ops import numbers

INTEGERS = (INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, INDEX)
FLOATS = (FP32, FP16, BF16)
ALL = (BOOL, *INTEGERS, *FLOATS)
NARROW = (INT4, UINT4, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0)
CASTABLE = (*ALL, *NARROW)
ROUNDS_INTEGERS_TO_FLOAT = {"exp", "log", "sqrt", "rsqrt", "recip", "sin", "cos", "tanh", "erf", "sigmoid"}
"""Ops that convert integers to FP32 before they compute."""
COUNT = 1003
"""Not a multiple of the width: the last elements go through the scalar form."""


def sample(dtype: DType, rng: np.random.Generator, count: int = COUNT) -> Array:
    """Random values with the extremes of the dtype among them."""
    if dtype is BOOL:
        return rng.integers(0, 2, count).astype(bool)
    if dtype.is_integer:
        low, high = integer_range(dtype)
        work = np.uint64 if dtype.kind == "uint" else np.int64
        wide = rng.integers(low, high, count, dtype=work, endpoint=True)
        near = rng.integers(0 if low == 0 else -9, 10, count).astype(work)
        out = np.where(rng.random(count) < 0.5, wide, np.clip(near, low, high).astype(work))
        out[:6] = np.array([low, high, 0, 1, low + 1, high - 1], work)
        return rng.permutation(out).astype(dtype.numpy)
    out = (rng.normal(size=count) * np.exp(rng.normal(size=count) * 3)).astype(np.float32)
    out[:10] = [0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 1.5, 2.5, 1e-40]
    with np.errstate(over="ignore"):
        return rng.permutation(out).astype(dtype.numpy)


def lane_of(name: str) -> Lane:
    """The operation of a row, or a comparison."""
    compared = {lane.name: lane for lane in COMPARISONS}
    rule = RULES.get(name)
    return rule.lane if isinstance(rule, Nest) else compared[name]


def run_lane(name: str, dtype: DType, arrays: list[Array], result: DType | None = None, width: int = 16) -> Array:
    def body(e: Emitter, values: list[Value], lanes: int) -> Value:
        return apply_lane(e, lane_of(name), dtype, values, lanes)

    return lane_kernel([dtype] * len(arrays), result or dtype, body, width)(*arrays)


def assert_same(got: Array, want: Array, what: object = "") -> None:
    """Equal element by element; NaN equals NaN, and zeros of both signs are equal."""
    assert got.dtype == want.dtype
    different = ~((got == want) | ((got != got) & (want != want)))
    assert not different.any(), (what, np.flatnonzero(different)[:5], got[different][:5], want[different][:5])


BINARY: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": numbers.divide, "floordiv": numbers.floor_divide, "mod": numbers.modulo,
    "rem": numbers.modulo, "fmod": numbers.fmod, "maximum": np.maximum, "minimum": np.minimum,
}  # fmt: skip
BITWISE: dict[str, Any] = {
    "and_": np.bitwise_and, "or_": np.bitwise_or, "xor": np.bitwise_xor, "shl": numbers.shift_left, "shr": numbers.shift_right,
    "pow": numbers.power,
}  # fmt: skip
COMPARE: dict[str, Any] = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
UNARY: dict[str, Any] = {
    "neg": np.negative, "abs": np.abs, "floor": numbers.whole_number(np.floor), "ceil": numbers.whole_number(np.ceil),
    "round": numbers.whole_number(np.rint), "relu": lambda x: np.maximum(x, x.dtype.type(0)),
}  # fmt: skip
FLOAT_UNARY: dict[str, Any] = {"sqrt": np.sqrt, "recip": np.reciprocal}


def expected(function: Any, dtype: DType, *arrays: Array) -> Array:
    """The reference: narrow floats are computed in float and rounded once."""
    with np.errstate(all="ignore"):
        if dtype in (FP16, BF16):
            return function(*(a.astype(np.float32) for a in arrays)).astype(dtype.numpy)
        return function(*arrays)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_arithmetic_of_two_operands_equals_the_reference(name: str, dtype: DType) -> None:
    rng = np.random.default_rng(6)
    a, b = sample(dtype, rng), sample(dtype, rng)
    assert_same(run_lane(name, dtype, [a, b]), expected(BINARY[name], dtype, a, b), name)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", BITWISE)
def test_bit_operations_and_powers_of_integers_equal_the_reference(name: str, dtype: DType) -> None:
    rng = np.random.default_rng(7)
    a, b = sample(dtype, rng), sample(dtype, rng)
    assert_same(run_lane(name, dtype, [a, b]), expected(BITWISE[name], dtype, a, b), name)


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("name", COMPARE)
def test_comparisons_give_bool_lanes(name: str, dtype: DType) -> None:
    rng = np.random.default_rng(8)
    a, b = sample(dtype, rng), sample(dtype, rng)
    b[::3] = a[::3]
    with np.errstate(invalid="ignore"):
        assert_same(run_lane(name, dtype, [a, b], BOOL), COMPARE[name](a, b), name)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_operations_of_one_operand_equal_the_reference(name: str, dtype: DType) -> None:
    x = sample(dtype, np.random.default_rng(9))
    assert_same(run_lane(name, dtype, [x]), expected(UNARY[name], dtype, x), name)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", FLOAT_UNARY)
def test_roots_and_reciprocals_are_correctly_rounded(name: str, dtype: DType) -> None:
    x = sample(dtype, np.random.default_rng(10))
    assert_same(run_lane(name, dtype, [x]), expected(FLOAT_UNARY[name], dtype, x), name)


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("width", [1, 2, 8, 64])
def test_where_picks_by_a_bool_lane_at_every_width(dtype: DType, width: int) -> None:
    rng = np.random.default_rng(11)
    condition, a, b = sample(BOOL, rng), sample(dtype, rng), sample(dtype, rng)

    def body(e: Emitter, values: list[Value], lanes: int) -> Value:
        return apply_lane(e, WHERE, dtype, values, lanes)

    assert_same(lane_kernel([BOOL, dtype, dtype], dtype, body, width)(condition, a, b), np.where(condition, a, b))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_composed_operations_round_narrow_floats_once(dtype: DType) -> None:
    rng = np.random.default_rng(12)
    a, b, c = (sample(dtype, rng) for _ in range(3))
    assert_same(run_lane("addc", dtype, [a, b, c]), expected(lambda a, b, c: a + b + c, dtype, a, b, c))
    assert_same(run_lane("subc", dtype, [a, b, c]), expected(lambda a, b, c: a - b - c, dtype, a, b, c))
    assert_same(run_lane("lrelu", dtype, [a, b]), expected(lambda x, s: np.where(x > 0, x, s * x), dtype, a, b))


def test_bool_lanes_have_logic() -> None:
    rng = np.random.default_rng(13)
    a, b = sample(BOOL, rng), sample(BOOL, rng)
    for name, want in (("and_", a & b), ("or_", a | b), ("xor", a ^ b), ("logical_and", a & b), ("logical_or", a | b)):
        assert_same(run_lane(name, BOOL, [a, b]), want, name)
    assert_same(run_lane("not_", BOOL, [a]), ~a)


def test_isnan_sees_only_nan() -> None:
    x = sample(FP32, np.random.default_rng(14))
    assert_same(run_lane("isnan", FP32, [x], BOOL), np.isnan(x))
    assert not run_lane("isnan", INT32, [sample(INT32, np.random.default_rng(14))], BOOL).any()


def test_every_lane_of_the_op_table_has_a_rule_for_the_dtypes_it_computes_in() -> None:
    made_by_the_lowering = {"cast", "cmp"}
    for row in ops.table().values():
        if row.family == "elementwise" and row.derived is None and row.name not in made_by_the_lowering and not row.facts.of_pairs:
            for dtype in row.dtypes - {COMPLEX64}:  # pairs of FP32 by then
                if dtype.is_float or row.name not in ROUNDS_INTEGERS_TO_FLOAT:
                    assert callable(lane_of(row.name).rule(dtype)), (row.name, dtype)


def test_an_operation_without_meaning_for_a_dtype_is_an_internal_error() -> None:
    with pytest.raises(InternalError, match="no CPU lane rule for shl on FP32"):
        run_lane("shl", FP32, [np.ones(3, np.float32)] * 2)


# casts ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", CASTABLE, ids=str)
@pytest.mark.parametrize("source", CASTABLE, ids=str)
def test_casts_between_all_pairs_equal_the_reference_in_every_mode(source: DType, target: DType) -> None:
    rng = np.random.default_rng(15)
    x = sample(source, rng)
    if source.is_float:
        edges = [integer_range(d)[i] for d in INTEGERS for i in (0, 1)]
        edges += [464, 465, 6.9, 7, 61440, 2.0**-127, 1.5 * 2.0**-127, 0.75 * 2.0**-126, 1.5 * 2.0**127, 2.0**-9, 2.0**-10, 2.0**-16]
        edges += [65504, 65519.9, 65520, 65536, 3.39e38, 2.0**31, 2.0**63, 2.0**64]
        with np.errstate(all="ignore"):
            x = np.concatenate([x, np.array(edges, np.float64).astype(np.float32).astype(source.numpy), (np.arange(-20, 20) / 4).astype(source.numpy)])
            x = np.concatenate([x, np.negative(x).astype(source.numpy)])
    modes = numbers.CAST_MODES if source.is_float else ("round",)
    for mode in modes:

        def body(e: Emitter, values: list[Value], lanes: int, mode: str = mode) -> Value:
            return cast_lane(e, values[0], source, target, mode, lanes)

        with np.errstate(all="ignore"):
            assert_same(lane_kernel([source], target, body, 8)(x), numbers.cast(x, target, mode), (source, target, mode))


def test_every_float16_pattern_survives_the_way_through_a_register() -> None:
    for dtype in (FP16, BF16):
        x = np.arange(65536, dtype=np.uint16).view(dtype.numpy)
        got = lane_kernel([dtype], dtype, lambda e, values, lanes: values[0])(x)
        keep = ~np.isnan(x.astype(np.float32))
        assert np.array_equal(got.view(np.uint16)[keep], x.view(np.uint16)[keep])
        assert np.isnan(got.astype(np.float32)[~keep]).all()


# memory and reductions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("stride", [0, 1, 3])
def test_strided_loads_and_stores_touch_every_third_element(dtype: DType, stride: int) -> None:
    module = Module()
    e = Emitter(module, "move", "void", [Value("%to", "ptr"), Value("%from", "ptr"), Value("%step", "i64")])
    step = Value("%step", "i64") if stride == 3 else stride
    store_pattern(e, dtype, Value("%to", "ptr"), Pattern(2), load_pattern(e, dtype, Value("%from", "ptr"), Pattern(step), 8), 8)
    e.void("ret void")
    e.finish()
    x = sample(dtype, np.random.default_rng(16), 24)
    out = np.zeros(16, dtype.numpy)
    Native(module.text()).function("move", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(out.ctypes.data, x.ctypes.data, stride)
    assert_same(out[::2], np.array([x[i * stride] for i in range(8)], dtype.numpy))
    assert not out[1::2].any()


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_reductions_combine_lanes(name: str, dtype: DType) -> None:
    module = Module()
    e = Emitter(module, "reduce", "void", [Value("%to", "ptr"), Value("%from", "ptr")])
    with e.loop(0, 64, 16, [reduce_init(name, dtype, 16)]) as loop:
        loop.next = [combine(e, name, dtype, loop.carried[0], load_lanes(e, dtype, e.offset(Value("%from", "ptr"), loop.iv, dtype.llvm), 16), 16)]
    wide = FP32 if dtype in (FP16, BF16) else dtype
    store_lanes(e, wide, Value("%to", "ptr"), loop.results[0], 16)
    e.void("ret void")
    e.finish()
    rng = np.random.default_rng(17)
    x = sample(dtype, rng, 64) if dtype.is_integer else rng.uniform(0.8, 1.25, 64).astype(np.float32).astype(dtype.numpy)
    lanes = np.zeros(16, wide.numpy)
    function = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[name]

    def reduced() -> np.ndarray:
        Native(module.text()).function("reduce", ctypes.c_void_p, ctypes.c_void_p)(lanes.ctypes.data, x.ctypes.data)
        return function.reduce(lanes, keepdims=True, dtype=lanes.dtype)

    out = reduced()
    if dtype.is_float:
        want = function.reduce(x.astype(np.float64))
        assert abs(float(out[0]) / want - 1) < {FP32: 1e-5, FP16: 6e-4, BF16: 4e-3}[dtype]
        if name in ("max", "min"):
            x[37] = np.nan
            out = reduced()
            assert np.isnan(float(out[0]))
    else:
        assert out[0] == function.reduce(x, dtype=dtype.numpy)


@pytest.mark.parametrize("dtype", [FP32, FP16, BF16], ids=str)
def test_a_constant_that_does_not_fit_is_infinity_without_a_warning(dtype: DType) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lane_constant(dtype, 1e39, 1) == lane_constant(dtype, float("inf"), 1)
