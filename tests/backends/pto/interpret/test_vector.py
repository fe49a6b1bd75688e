"""Kernels of vector tiles compute what NumPy computes."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from tests.pto.data import RNG, C, R, exact, f16, f32, floats, i32, integers, outputs
from tests.pto.harness import KERNELS, NDArray, close, program
from tilejit.backends.pto.interpret.launch import launch
from tilejit.backends.pto.interpret.memory import numpy_dtype
from tilejit.tile_ir.pto.types import PtrType

Case = tuple[list[NDArray], list[NDArray], float]
A, B = floats(R, C), floats(R, C)
AH, BH = floats(R, C, dtype=f16), floats(R, C, dtype=f16)
I, J = integers(R, C, low=-(2**31), high=2**31), integers(R, C, low=-(2**31), high=2**31)
SMALL = integers(R, C, low=0, high=31)
NONZERO = np.where(RNG.random((R, C)) < 0.5, -1, 1).astype(i32) * integers(R, C, low=1, high=50)
POSITIVE = np.abs(A) + f32(0.1)
K = integers(R, C)
BYTES = integers(R, C, low=-128, high=128, dtype=np.int8), integers(R, C, low=-128, high=128, dtype=np.int8)
BF = floats(R, C).astype(ml_dtypes.bfloat16), floats(R, C).astype(ml_dtypes.bfloat16)


def wide(x: NDArray) -> NDArray:
    return x.astype(np.int64)


def short(x: NDArray) -> NDArray:
    return x.astype(np.int16)


def half(x: NDArray) -> NDArray:
    return x.astype(f16)


ELEMENTWISE: dict[str, Case] = {
    "binary_f32": ([A, B], [A + B, A - B, A * B, A / B, np.maximum(A, B), np.minimum(A, B)], 1e-6),
    "binary_f16": ([AH, BH], [half(AH + BH), half(AH - BH), half(AH * BH), half(AH / BH), np.maximum(AH, BH), np.minimum(AH, BH)], 1e-9),
    "binary_i32": ([I, J], [(wide(I) + J).astype(i32), (wide(I) - J).astype(i32), (wide(I) * J).astype(i32), np.maximum(I, J), np.minimum(I, J)], 0),
    "binary_i16": ([short(I), short(J)], [short(wide(I) + J), short(wide(I) - J), short(wide(I) * J)], 0),
    "binary_bf16_a5": (list(BF), [(BF[0].astype(f32) + BF[1].astype(f32)).astype(BF[0].dtype), (BF[0].astype(f32) * BF[1].astype(f32)).astype(BF[0].dtype)], 0),
    "binary_i8_a5": (list(BYTES), [(wide(BYTES[0]) + BYTES[1]).astype(np.int8), np.maximum(*BYTES)], 0),
    "bits_i32": ([I, J], [I & J, I | J, I ^ J, ~I], 0),
    "shifts_i32": ([I, SMALL], [(wide(I) << SMALL).astype(i32), I >> SMALL], 0),
    "shifts_ui32": ([I.view(np.uint32), SMALL.view(np.uint32)], [(wide(I) << SMALL).astype(np.uint32), I.view(np.uint32) >> SMALL.view(np.uint32)], 0),
    "remainders_i32": ([K, NONZERO], [K - NONZERO * np.floor(K / NONZERO).astype(i32), K - NONZERO * np.trunc(K / NONZERO).astype(i32)], 0),
    "remainders_f32": ([A, B], [A - B * np.floor(A.astype(np.float64) / B), A - B * np.trunc(A.astype(np.float64) / B)], 1e-4),
    "three_operands": ([A, B, POSITIVE], [A + B + POSITIVE, A - B + POSITIVE, np.where(A > 0, A, A * B)], 1e-6),
    "scalar_three": (
        [A, B],
        [A + f32(1.25) + B, A - f32(1.25) + B, np.full_like(A, 1.25), f32(1.25) + A * f32(1.25)],
        1e-6,
    ),
    "unary_f32": (
        [POSITIVE],
        [POSITIVE, -POSITIVE, np.exp(POSITIVE), np.log(POSITIVE), np.sqrt(POSITIVE), 1 / POSITIVE, POSITIVE, POSITIVE**-0.5],
        1e-5,
    ),
    "unary_f16": ([np.abs(AH) + f16(0.5)], [np.exp(np.abs(AH) + f16(0.5)), np.sqrt(np.abs(AH) + f16(0.5)), 1 / np.sqrt(np.abs(AH) + f16(0.5))], 2e-3),
    "in_place": ([A], [(np.exp(A) + A) ** 2], 1e-4),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name: str) -> None:
    inputs, wanted, tolerance = ELEMENTWISE[name]
    for got, want in zip(outputs(name, inputs, [(want.shape, inputs[0].dtype) for want in wanted]), wanted, strict=True):
        close(got, want, tolerance)


def test_the_first_operand_wins_against_nan() -> None:
    a, b = A.copy(), B.copy()
    a[0], b[1] = np.nan, np.nan
    out = outputs("binary_f32", [a, b], [((R, C), f32)] * 6)
    for got in out[4:]:
        assert np.isnan(got[0]).all()
        exact(got[1], a[1])


def test_a_tile_and_a_scalar() -> None:
    s = f32(1.25)
    remainders = [A - s * np.trunc(A / s), A - s * np.floor(A / s)]
    wanted = [A + s, A - s, A * s, np.maximum(A, s), np.minimum(A, s), A / s, s / A, *remainders, np.where(A > 0, A, A * s)]
    for got, want in zip(outputs("scalar_f32", [A], [((R, C), f32)] * 10), wanted, strict=True):
        close(got, want, 1e-4)


def test_a_tile_and_an_integer() -> None:
    wanted = [K + 3, K & 3, K | 3, K ^ 3, K << 3, K >> 3, K % 3, np.fmod(K, 3)]
    for got, want in zip(outputs("scalar_i32", [K], [((R, C), i32)] * 8), wanted, strict=True):
        exact(got, want)


def test_every_rounding_mode() -> None:
    a = (RNG.integers(-40, 40, (R, C)) / 4).astype(f32)
    even = np.rint(a)
    low = np.floor(a)
    odd = np.where(a - low == 0.5, np.where(low % 2 == 0, low + 1, low), even)
    away = np.sign(a) * np.floor(np.abs(a) + 0.5)
    wanted = [np.trunc(a), even, away, low, np.ceil(a), np.trunc(a), odd, even]
    for got, want in zip(outputs("convert_to_int", [a], [((R, C), i32)] * 8), wanted, strict=True):
        exact(got, want.astype(i32))


def test_too_large_floats_become_the_smallest_integer() -> None:
    a = np.full((R, C), 3e9, f32)
    a[0, 0] = np.nan
    got = outputs("convert_to_int", [a], [((R, C), i32)] * 8)[1]
    assert got[0, 0] == 0
    assert (got.reshape(-1)[1:] == -(2**31)).all()


def test_conversions_between_floats_and_with_saturation() -> None:
    a = A.copy()
    a[0, 0], a[0, 1] = 1e6, -1e6
    bf16 = ml_dtypes.bfloat16
    got = outputs("convert_floats", [a, I], [((R, C), f16), ((R, C), bf16), ((R, C), f32), ((R, C), np.int16), ((R, C), f16)])
    with np.errstate(over="ignore"):
        exact(got[0], a.astype(f16))
    exact(got[1].view(np.uint16), a.astype(bf16).view(np.uint16))
    exact(got[2], I.astype(f32))
    exact(got[3], np.clip(I, -32768, 32767).astype(np.int16))
    exact(got[4], np.clip(a, -65504, 65504).astype(f16))


def test_masks_and_selection() -> None:
    mask, chosen, or_scalar = outputs("compare_select", [A, B], [((R, 32), np.uint8), ((R, C), f32), ((R, C), f32)])
    less = A < B
    exact(np.unpackbits(mask, axis=1, bitorder="little")[:, :C].astype(bool), less)
    assert not mask[:, 5:].any()
    exact(chosen, np.where(less, A, B))
    exact(or_scalar, np.where(less, A, f32(1.25)))


def test_every_comparison() -> None:
    a = integers(R, 64, low=0, high=6)
    for got, want in zip(outputs("compare_scalar", [a], [((R, 32), np.uint8)] * 6), [a == 3, a != 3, a < 3, a <= 3, a > 3, a >= 3], strict=True):
        exact(got[:, :8], np.packbits(want, axis=1, bitorder="little"))


def test_rows_are_reduced() -> None:
    a = floats(16, C)
    got = outputs("row_reductions", [a], [((16, 1), f32)] * 4 + [((16, 1), i32)] * 2)
    for made, want in zip(got, [a.sum(1), a.max(1), a.min(1), a.prod(1)]):
        close(made[:, 0], want, 1e-4)
    exact(got[4][:, 0], a.argmax(1))
    exact(got[5][:, 0], a.argmin(1))


def test_halves_add_up_in_float32() -> None:
    a = floats(16, C, dtype=f16)
    exact(outputs("row_sum_f16", [a], [((16, 1), f16)])[0][:, 0], a.astype(f32).sum(1).astype(f16))


EXPANDED: list[Callable[[NDArray, NDArray], NDArray]] = [
    np.multiply, np.divide, np.subtract, lambda a, b: np.exp(a - b), np.maximum, np.minimum, np.add, lambda a, b: np.broadcast_to(b, a.shape),
]  # fmt: skip


def test_one_value_per_row() -> None:
    a, b = floats(16, C), floats(16, 1)
    for got, function in zip(outputs("row_expands", [a, b], [((16, C), f32)] * 8), EXPANDED, strict=True):
        close(got, function(a, b), 1e-5)


def test_one_value_per_row_repeated_over_32_bytes() -> None:
    a, b = floats(16, C), np.repeat(floats(16, 1), 8, 1)
    close(outputs("row_expand_period", [a, b], [((16, C), f32)])[0], a * b[:, :1], 1e-6)


def test_columns_are_reduced() -> None:
    got = outputs("column_reductions", [A], [((1, C), f32)] * 4 + [((1, C), i32)] * 2)
    for made, want in zip(got, [A.sum(0), A.max(0), A.min(0), A.prod(0)]):
        close(made[0], want, 1e-4)
    exact(got[4][0], A.argmax(0))
    exact(got[5][0], A.argmin(0))
    exact(outputs("column_sum_binary", [K], [((1, C), i32)])[0][0], K.sum(0))


def test_one_value_per_column() -> None:
    b = floats(1, C)
    for got, function in zip(outputs("column_expands", [A, b], [((R, C), f32)] * 8), EXPANDED, strict=True):
        close(got, function(A, b), 1e-5)


def test_partial_ops_copy_where_one_side_is_valid() -> None:
    inside = np.zeros((R, C), bool)
    inside[:7, :24] = True
    for got, combined in zip(outputs("partial", [A], [((R, C), f32)] * 4), [A + A, A * A, A, A], strict=True):
        exact(got, np.where(inside, combined, A))


def test_pad_values() -> None:
    inside = np.zeros((R, C), bool)
    inside[:7, :24] = True
    got = outputs("fill_pad", [A], [((R, C), f32)] * 3 + [((16, 48), f32)])
    for made, pad in zip(got, (0, np.inf, -np.inf)):
        exact(made, np.where(inside, A, f32(pad)))
    exact(got[3][:7, :24], A[:7, :24])
    assert (got[3][7:] == -np.inf).all() and (got[3][:, 24:] == -np.inf).all()
    a = integers(R, 48, dtype=np.int16)
    for made, pad in zip(outputs("fill_pad_int", [a], [((R, 48), np.int16)] * 2), (32767, -32768)):
        exact(made[:5, :33], a[:5, :33])
        assert (made[5:] == pad).all() and (made[:, 33:] == pad).all()


def test_transposition_concatenation_and_packing() -> None:
    a, b = floats(16, 24), floats(16, 8)
    turned, joined = outputs("transpose_concat", [a, b], [((24, 16), f32), ((16, 32), f32)])
    exact(turned, a.T)
    exact(joined, np.hstack((a, b)))
    wide_values = integers(R, 64, low=-(2**31), high=2**31)
    exact(outputs("pack_a5", [wide_values], [((R, 64), np.int16)])[0], wide_values.astype(np.int16))


def test_single_elements() -> None:
    (got,) = outputs("single_elements", [A], [((R, C), f32)])
    wanted = A.copy()
    wanted.flat[1] = 2 * A.flat[77]
    exact(got, wanted)


def test_quantisation_and_back() -> None:
    a, scale, zero = floats(16, 64) * 40, np.abs(floats(16, 8)) + f32(0.5), integers(16, 8, low=0, high=90).astype(f32)
    q, u, back = outputs("quantise", [a, scale, zero], [((16, 64), np.int8), ((16, 64), np.uint8), ((16, 64), f32)])
    along, offsets = np.tile(scale, 8), np.tile(zero, 8)
    exact(q, np.clip(np.rint(a * along), -128, 127).astype(np.int8))
    exact(u, np.clip(np.rint(a * along + offsets), 0, 255).astype(np.uint8))
    close(back, (q.astype(f32) - zero[:, :1]) * scale[:, :1], 1e-5)


def test_padding_in_place() -> None:
    (got,) = outputs("fill_in_place", [A], [((R, C), f32)])
    exact(got[:7, :9], A[:7, :9])
    assert (got[7:] == -np.inf).all() and (got[:, 9:] == -np.inf).all()


def test_prints(capsys: pytest.CaptureFixture[str]) -> None:
    a = floats(2, 8)
    exact(outputs("printed", [a], [((2, 8), f32)])[0], a * f32(1.5))
    shown = capsys.readouterr().out
    assert "factor 1.5" in shown and "plain\n" in shown and "tile 2x8 of 2x8 f32" in shown and "view [2, 8]" in shown
    assert str(a[0, 0])[:5] in shown


def test_a_trap_stops_the_kernel() -> None:
    from tests.pto.harness import run_text
    from tilejit.errors import KernelAssertionError

    with pytest.raises(KernelAssertionError, match=r"pto\.trap") as caught:
        run_text("func.func @k(%f: !pto.ptr<i64>) {\n  pto.set_ffts %f : !pto.ptr<i64>\n  pto.trap\n  return\n}", np.zeros(1, np.int64))
    assert caught.value.span is not None and caught.value.span.line == 3


SIZES = {"flash_attention": 64, "tiled_ffn": 64}
"""What scalars say where 1 would not do."""
EXTREMES = (np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-40, 0.0, -0.0)


@pytest.mark.parametrize("name", KERNELS)
def test_extreme_numbers_leave_no_warning(name: str) -> None:
    """Infinity and NaN are results like any other: nothing is said about them, whatever the op."""
    kernel = program(name)
    arguments: list[object] = []
    for type in kernel.entry.body.block.arg_types:
        if not isinstance(type, PtrType):
            arguments.append(SIZES.get(name, 1))
            continue
        dtype = numpy_dtype(type.data.element)
        with np.errstate(all="ignore"):
            values = np.resize(np.array(EXTREMES), 1 << 16).astype(dtype) if dtype.kind not in "iu" else np.zeros(1 << 16, dtype)
        arguments.append(values)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        launch(kernel.file, kernel.entry, kernel.names, arguments, 1)
