"""Matrix products, moves between the memories of the cube core, and what leaves the accumulator."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.pto.harness import close, run
from tests.pto.test_vector import RNG, exact, f16, f32, floats, i32, integers

bf16 = ml_dtypes.bfloat16


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64)


def test_halves() -> None:
    a, b, out = floats(32, 64, dtype=f16), floats(64, 48, dtype=f16), floats(32, 48)
    run("matmul_f16", a, b, out)
    close(out, product(a, b), 1e-4)


def test_the_layout_of_a5() -> None:
    a, b, out = floats(16, 32).astype(bf16), floats(32, 16).astype(bf16), floats(16, 16)
    run("matmul_a5", a, b, out)
    close(out, product(a, b), 1e-4)


def test_rounded_and_clipped_while_stored() -> None:
    a, b, out = floats(32, 32), floats(32, 32), floats(32, 32, dtype=f16)
    run("matmul_store_f16", a, b, out)
    close(out, np.maximum(product(a, b), 0), 2e-2)
    c, d, short = floats(16, 32).astype(bf16), floats(32, 16).astype(bf16), floats(16, 16).astype(bf16)
    run("matmul_store_bf16", c, d, short)
    close(short, product(c, d).astype(f32).astype(bf16), 1e-2)


def test_bytes() -> None:
    a, b, out = integers(16, 64, low=-128, high=128, dtype=np.int8), integers(64, 32, low=-128, high=128, dtype=np.int8), integers(16, 32)
    run("matmul_i8", a, b, out)
    exact(out, a.astype(i32) @ b.astype(i32))


def test_accumulated_over_blocks_of_k() -> None:
    a, b, out = floats(16, 64, dtype=f16), floats(64, 32, dtype=f16), floats(16, 32)
    run("matmul_k_loop", a, b, out)
    close(out, product(a, b), 1e-4)


def test_bias() -> None:
    a, b, bias, out = floats(16, 32, dtype=f16), floats(32, 16, dtype=f16), floats(1, 16), floats(16, 16)
    run("matmul_bias", a, b, bias, out)
    close(out, product(a, b) + bias, 1e-4)


def test_one_row() -> None:
    a, b, out = floats(1, 32, dtype=f16), floats(32, 16, dtype=f16), floats(1, 16)
    run("gemv", a, b, out)
    close(out, 2 * product(a, b), 1e-4)


def test_scaled_operands() -> None:
    fp8, scale = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu
    a, b = floats(16, 64).astype(fp8), floats(64, 32).astype(fp8)
    x, y = (2.0 ** RNG.integers(-3, 4, shape) for shape in ((16, 2), (2, 32)))
    out = floats(16, 32)
    run("matmul_mx_a5", a, x.astype(scale), b, y.astype(scale), out)
    close(out, 2 * ((a.astype(f32) * np.repeat(x, 32, 1)) @ (b.astype(f32) * np.repeat(y, 32, 0))), 1e-3)


def test_from_the_accumulator_into_a_second_product() -> None:
    a, b, c = floats(16, 32, dtype=f16) / f16(8), floats(32, 32, dtype=f16), floats(32, 16, dtype=f16)
    out, exponential = floats(16, 16), floats(16, 32)
    run("acc_to_vector", a, b, c, out, exponential)
    first = product(a, b)
    close(exponential, np.exp(first), 1e-3)
    close(out, product(first.astype(f16), c), 2e-2)


def test_sections_share_global_memory_in_order() -> None:
    a, b, scratch, out = floats(16, 32, dtype=f16), floats(32, 16, dtype=f16), floats(16, 16), floats(16, 16)
    run("sections", a, b, scratch, out)
    close(scratch, product(a, b), 1e-4)
    close(out, np.maximum(product(a, b), 0), 1e-4)


@pytest.mark.parametrize("blocks", [1, 4])
def test_parts_of_k_add_up_in_global_memory(blocks: int) -> None:
    a, b, out = floats(16, 32 * blocks, dtype=f16), floats(32 * blocks, 48, dtype=f16), np.zeros((16, 48), f32)
    run("split_k", a, b, out, grid=blocks)
    close(out, product(a, b), 1e-3)
