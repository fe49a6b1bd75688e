"""Views, aliasing, valid regions, control flow with handles, and scalars."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.pto.data import RNG, exact, f16, f32, floats, i32, integers
from tests.pto.harness import close, run
from tilejit.errors import ArgumentError, KernelArithmeticError, OutOfBoundsError, ShapeError

bf16 = ml_dtypes.bfloat16


def test_the_example_of_the_specification() -> None:
    x, y = floats(16, 16), floats(16, 16)
    run("scale2", x, y)
    exact(y, 2 * x)


def test_a_transposed_view() -> None:
    x, y = floats(24, 16), floats(16, 24)
    run("transposed_view", x, y)
    exact(y, x.T)


def strided(buffer: np.ndarray, shape: list[int], strides: list[int]) -> np.ndarray:
    return np.lib.stride_tricks.as_strided(buffer, shape, [4 * s for s in strides])


def test_rows_of_a_view_of_rank_5() -> None:
    a, out = floats(700), floats(48, 8)
    view = strided(a, [2, 3, 2, 4, 8], [300, 96, 40, 9, 1]).copy()
    before = a.copy()
    run("view_5d_nd", a, out)
    exact(out, view.reshape(48, 8))
    strided(before, [2, 3, 2, 4, 8], [300, 96, 40, 9, 1])[...] = 2 * view
    exact(a, before)


def test_columns_of_a_view_of_rank_5() -> None:
    a, out = floats(500), floats(8, 24)
    view = strided(a, [2, 1, 3, 8, 4], [200, 100, 60, 1, 8]).copy()
    run("view_5d_dn", a, out)
    exact(out, view.transpose(3, 0, 1, 2, 4).reshape(8, 24))
    exact(strided(a, [2, 1, 3, 8, 4], [200, 100, 60, 1, 8]), 2 * view)


def test_blocks_of_a_view_of_rank_5() -> None:
    a, out = floats(512), floats(32, 16)
    view = a.reshape(1, 2, 2, 16, 8).copy()
    run("view_5d_nz", a, out)
    exact(out, view.transpose(2, 3, 0, 1, 4).reshape(32, 16))


def test_a_tile_of_another_shape_is_stored_in_linear_order() -> None:
    a, out = floats(16, 64), floats(1, 1024)
    run("linear_order", a, out)
    exact(out, a.reshape(1, 1024))


@pytest.mark.parametrize(("rows", "cols"), [(16, 64), (1, 1), (7, 33), (16, 5)])
def test_sizes_known_at_launch(rows: int, cols: int) -> None:
    a, out, largest = floats(rows, cols), floats(rows, cols), floats(16, 1)
    run("dynamic_valid", a, out, largest, rows, cols)
    close(out, np.exp(a), 1e-5)
    exact(largest[:rows, 0], a.max(1))
    assert (largest[rows:] == -np.inf).all()


def test_a_size_larger_than_the_tile_is_an_error() -> None:
    with pytest.raises(ShapeError, match="between 0 and 16, got 17"):
        run("dynamic_valid", floats(17, 4), floats(17, 4), floats(16, 1), 17, 4)


@pytest.mark.parametrize("everything", [True, False])
def test_valid_extents_set_in_a_branch_hold_after_it(everything: bool) -> None:
    a, out = floats(16, 64), floats(16, 64)
    before = out.copy()
    run("valid_in_branch", a, out, 5, everything)
    part = np.s_[:, :5] if everything else np.s_[:5, :]
    before[part] = a[part]
    exact(out, before)


def test_a_column_and_a_row_at_one_address() -> None:
    a, out = floats(16, 64), floats(1, 16)
    run("alias_vectors", a, out)
    close(out[0], a.sum(1) ** 2, 1e-4)


def test_other_element_types_over_the_same_bytes() -> None:
    a, halves, words = floats(16, 64), floats(32, 64).astype(bf16), integers(16, 32)
    run("alias_dtypes", a, halves, words)
    exact(halves.view(np.uint16), a.reshape(-1).view(np.uint16).reshape(32, 64))
    exact(words, a.reshape(-1)[512:].view(i32).reshape(16, 32))


def test_a_handle_at_another_address() -> None:
    a, out = floats(16, 64), floats(16, 64)
    run("reassigned", a, out)
    exact(out, -a)


def test_reshape_and_bitcast_share_bytes() -> None:
    a, out, bits = floats(16, 64), floats(32, 32), integers(16, 64)
    run("reshape_bitcast", a, out, bits)
    exact(out, -a.reshape(32, 32))
    exact(bits, (-a).view(i32))


def test_windows_of_a_tile() -> None:
    a, out = floats(16, 64), floats(16, 64)
    run("subsets", a, out)
    exact(out[:, 32:], a[:, :32])
    close(out[:, :32], np.exp(a[:, 32:]), 1e-5)


def test_the_bytes_of_a_boxed_tile() -> None:
    """Fractals of 16x16 halves, column of fractals by column of fractals, rows inside."""
    a, out = floats(32, 64, dtype=f16), floats(32, 64, dtype=f16)
    run("boxed_memory", a, out)
    exact(out.reshape(-1), a.reshape(2, 16, 4, 16).transpose(2, 0, 1, 3).reshape(-1))


@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_handles_swapped_by_a_loop(trips: int) -> None:
    a, b, out = floats(8, 32), floats(8, 32), floats(8, 32)
    run("loop_handles", a, b, out, trips)
    p, q = a, b
    for _ in range(trips):
        p, q = q, p + q
    close(out, q, 1e-5)


@pytest.mark.parametrize("n", [1, 5])
def test_a_branch_chooses_a_handle_and_a_view(n: int) -> None:
    a, out = floats(16, 32), floats(8, 32)
    run("branch_handles", a, out, n)
    close(out, -a[:8] + a[8:] if n < 3 else a[:8] + a[:8], 1e-6)


@pytest.mark.parametrize(("bound", "doublings"), [(1, 0), (2, 1), (9, 4)])
def test_while(bound: int, doublings: int) -> None:
    a, out = floats(8, 32), floats(8, 32)
    run("while_loop", a, out, bound)
    exact(out, a * f32(2**doublings))


@pytest.mark.parametrize(("x", "y"), [(17, 5), (-17, 5), (17, -5), (-2, -7)])
def test_scalar_arithmetic(x: int, y: int) -> None:
    out = integers(12)
    run("arith_scalars", out, x, y, 1.75, 200)
    quotient = int(x / y)
    shifted = (x & 0xFFFFFFFF) >> y if 0 <= y < 32 else 0
    wanted = [x + y, x - y, quotient, x - quotient * y, x // y, -(-x // y), min(x, y), shifted, x ^ y, int((x & 0xFFFFFFFF) < (y & 0xFFFFFFFF)), 3, x]
    exact(out, np.array(wanted))


def test_division_by_zero_has_a_place() -> None:
    with pytest.raises(KernelArithmeticError, match="divided by zero") as caught:
        run("arith_scalars", integers(12), 1, 0, 1.0, 1)
    assert caught.value.span is not None and "arith.divsi" in caught.value.source_lines[0]


def test_blocks_of_a_grid() -> None:
    a, out = floats(40, 32), floats(40, 32)
    run("spmd_grid", a, out, grid=5)
    exact(out, a * np.repeat(np.arange(5), 8)[:, None].astype(f32))


def test_more_blocks_than_data_are_an_error() -> None:
    with pytest.raises(OutOfBoundsError, match="`arg0`"):
        run("spmd_grid", floats(8, 32), floats(16, 32), grid=2)


def test_pointers_and_scalars_in_memory() -> None:
    a, out, n = floats(512), floats(8, 32), integers(4)
    run("pointers", a, out, n)
    close(out, a[256:].reshape(8, 32) + a[8], 1e-6)
    assert n[1] == 32


def test_helpers_with_results() -> None:
    a, out = floats(8, 32), floats(8, 32)
    run("helpers", a, out)
    close(out, a * f32(2.25), 1e-6)


def test_synchronisation_changes_nothing() -> None:
    a, out = floats(8, 32), floats(8, 32)
    run("synchronised", a, out)
    close(out, np.exp(a), 1e-5)


def test_generic_form_nested_modules_and_aliases_run() -> None:
    a, out = floats(8, 32), floats(8, 32)
    run("generic_form", a, out)
    close(out, np.exp(a), 1e-5)
    b, root = np.abs(floats(32)), floats(32)
    run("nested_modules", b, root)
    close(root, np.sqrt(b), 1e-6)
    whole = integers(8, 32)
    run("type_aliases", a, whole)
    exact(whole, np.floor(a).astype(i32))


def test_a_read_only_output_is_refused() -> None:
    out = floats(16, 16)
    out.flags.writeable = False
    with pytest.raises(ArgumentError, match="read-only"):
        run("scale2", floats(16, 16), out)


def test_unwritten_local_memory_is_no_number() -> None:
    """A kernel that reads what it never wrote cannot pass by luck."""
    from tests.pto.harness import run_text

    text = """
    func.func @k(%o: !pto.ptr<f32>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c8 = arith.constant 8 : index
      %v = pto.make_tensor_view %o, shape = [%c8, %c8], strides = [%c8, %c1] : !pto.tensor_view<?x?xf32>
      %s = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c8, %c8] : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<8x8xf32>
      %t = pto.alloc_tile : !pto.tile_buf<vec, 8x8xf32>
      pto.tstore ins(%t : !pto.tile_buf<vec, 8x8xf32>) outs(%s : !pto.partition_tensor_view<8x8xf32>)
      return
    }"""
    out = RNG.standard_normal((8, 8)).astype(f32)
    run_text(text, out)
    assert np.isnan(out).all()
