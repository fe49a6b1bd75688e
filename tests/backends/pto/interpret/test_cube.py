"""Matrix products, moves between the memories of the cube core, and what leaves the accumulator."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.pto.data import RNG, exact, f16, f32, floats, i32, integers
from tests.pto.harness import close, run

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


def quantised(values: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(values), -128, 127)


def test_scales_while_leaving_the_accumulator() -> None:
    a, b, scale = floats(16, 32, dtype=f16), floats(32, 16, dtype=f16), np.abs(floats(1, 16)) + f32(0.5)
    by_column, by_one, plain = integers(16, 16, dtype=np.int8), integers(16, 16, dtype=np.int8), floats(16, 16)
    run("quantised_store", a, b, scale, by_column, by_one, plain)
    assert np.abs(by_column - quantised(product(a, b) * scale)).max() <= 1
    assert np.abs(by_one - quantised(product(a, b) * 0.5)).max() <= 1
    close(plain, product(a, b) * scale, 1e-3)


def test_scaled_parts_of_the_accumulator() -> None:
    a, b, scale, out = floats(16, 32, dtype=f16), floats(32, 16, dtype=f16), floats(1, 16), floats(16, 32, dtype=f16)
    run("scaled_parts", a, b, scale, out)
    close(out[:, :16], product(a, b).astype(f16), 2e-2)
    close(out[:, 16:], (product(a, b) * scale).astype(f16), 2e-2)


LEFT5 = "!pto.tile_buf<left, 16x{k}x{e}, valid=1x{k}, blayout=col_major, slayout=row_major>"
GEMV = """
!a = {left}
!b = !pto.tile_buf<right, {k}x32x{e}, slayout=col_major>
!x = !pto.tile_buf<scaling, 16x2x!pto.f8E8M0, valid=1x2>
!y = !pto.tile_buf<scaling, 2x32x!pto.f8E8M0>
!ma = !pto.tile_buf<mat, 16x{k}x{e}, valid=1x{k}, blayout=col_major, slayout=row_major>
!mb = !pto.tile_buf<mat, {k}x32x{e}, blayout=col_major, slayout=row_major>
!mx = !pto.tile_buf<mat, 16x2x!pto.f8E8M0, valid=1x2>
!my = !pto.tile_buf<mat, 2x32x!pto.f8E8M0>
!mz = !pto.tile_buf<mat, 1x32xf32>
!z = !pto.tile_buf<bias, 1x32xf32>
!d = !pto.tile_buf<acc, 16x32xf32, valid=1x32, blayout=col_major, slayout=row_major, fractal=1024>
module attributes {{pto.target_arch = "a5"}} {{
  func.func @k(%a: !pto.ptr<{e}>, %x: !pto.ptr<!pto.f8E8M0>, %b: !pto.ptr<{e}>, %y: !pto.ptr<!pto.f8E8M0>, %z: !pto.ptr<f32>, %o: !pto.ptr<f32>) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c32 = arith.constant 32 : index
    %ck = arith.constant {k} : index
{views}
    %d = pto.alloc_tile : !d
{body}
    pto.tstore ins(%d : !d) outs(%so : !pto.partition_tensor_view<1x32xf32>)
    return
  }}
}}
"""


def gemv(element: str, k: int, body: str) -> str:
    """A kernel with all operands of the products of one row loaded."""
    lines: list[str] = []
    operands = [("a", "%c1", "%ck", f"1x{k}", element), ("b", "%ck", "%c32", f"{k}x32", element), ("z", "%c1", "%c32", "1x32", "f32")]
    operands += [("x", "%c1", "%c2", "1x2", "!pto.f8E8M0"), ("y", "%c2", "%c32", "2x32", "!pto.f8E8M0")]
    for name, rows, cols, shape, kind in [*operands, ("o", "%c1", "%c32", "1x32", "f32")]:
        lines.append(f"%v{name} = pto.make_tensor_view %{name}, shape = [{rows}, {cols}], strides = [{cols}, %c1] : !pto.tensor_view<?x?x{kind}>")
        slice = f"!pto.partition_tensor_view<{shape}x{kind}>"
        lines.append(f"%s{name} = pto.partition_view %v{name}, offsets = [%c0, %c0], sizes = [{rows}, {cols}] : !pto.tensor_view<?x?x{kind}> -> {slice}")
        if name != "o":
            lines.append(f"%m{name} = pto.alloc_tile : !m{name}")
            lines.append(f"%t{name} = pto.alloc_tile : !{name}")
            lines.append(f"pto.tload ins(%s{name} : {slice}) outs(%m{name} : !m{name})")
            lines.append(f"pto.tmov ins(%m{name} : !m{name}) outs(%t{name} : !{name})")
    return GEMV.format(left=LEFT5.format(k=k, e=element), k=k, e=element, views="\n".join("    " + line for line in lines), body=body)


@pytest.mark.parametrize(
    ("body", "scaled", "times", "biased"),
    [
        ("pto.tgemv.bias ins(%ta, %tb, %tz : !a, !b, !z) outs(%d : !d)", False, 1, True),
        ("pto.tgemv.mx ins(%ta, %tx, %tb, %ty : !a, !x, !b, !y) outs(%d : !d)", True, 1, False),
        ("pto.tgemv.mx.bias ins(%ta, %tx, %tb, %ty, %tz : !a, !x, !b, !y, !z) outs(%d : !d)", True, 1, True),
        (
            "pto.tmatmul.mx.bias ins(%ta, %tx, %tb, %ty, %tz : !a, !x, !b, !y, !z) outs(%d : !d)\n"
            "pto.tgemv.mx.acc ins(%d, %ta, %tx, %tb, %ty : !d, !a, !x, !b, !y) outs(%d : !d)",
            True, 2, True,
        ),
    ],
)  # fmt: skip
def test_products_of_one_row(body: str, scaled: bool, times: int, biased: bool) -> None:
    from tests.pto.harness import run_text

    fp8, e8m0 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu
    a, b, z, out = floats(1, 64).astype(fp8), floats(64, 32).astype(fp8), floats(1, 32), floats(1, 32)
    x, y = 2.0 ** RNG.integers(-2, 3, (1, 2)), 2.0 ** RNG.integers(-2, 3, (2, 32))
    run_text(gemv("f8E4M3FN", 64, body), a, x.astype(e8m0), b, y.astype(e8m0), z, out)
    left, right = (a.astype(f32) * np.repeat(x, 32, 1), b.astype(f32) * np.repeat(y, 32, 0)) if scaled else (a, b)
    close(out, times * product(left, right) + (z if biased else 0), 1e-3)


def test_the_optional_tensor_results_change_nothing() -> None:
    a, b, out = (RNG.standard_normal((16, 16)).astype(dtype) for dtype in (np.float16, np.float16, np.float32))
    wanted = out + a.astype(np.float32) @ b.astype(np.float32)
    run("tensor_results", a, b, out)
    close(out, wanted, 1e-3)
