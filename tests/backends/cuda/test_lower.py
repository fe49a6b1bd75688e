"""What programs become on CUDA, looked at as plans: how many kernels, which blocks, which text."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilejit.language as pl
from tests.backends.cuda import large_products
from tests.backends.cuda.kernels import weighed
from tilejit import ir
from tilejit.backends.base import CompileOptions
from tilejit.backends.cuda import compile as compiling
from tilejit.backends.cuda import plan
from tilejit.backends.cuda.compile import check_triton, compile_kernel
from tilejit.backends.cuda.lower import lower
from tilejit.backends.cuda.text import numbers
from tilejit.backends.cuda.text.values import Scalar, index
from tilejit.dtypes import INDEX
from tilejit.jit.function import JITFunction
from tilejit.passes import pipeline


def planned(kernel: JITFunction, *arguments: np.ndarray) -> plan.Program:
    program = pl.parse(kernel.specialized_source(*arguments))
    assert isinstance(program, ir.Program)
    return lower(pipeline.run_pipeline(program, pipeline.FUSED), CompileOptions())


@pl.jit
def by_tiles(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(a.shape[0] // 32):
            for j in pl.range(b.shape[1] // 32):
                acc = pl.tile.full([32, 32], dtype=pl.FP32, value=0.0)
                for p in pl.range(a.shape[1] // 32):
                    acc = pl.matmul_acc(acc, pl.load(a, [i * 32, p * 32], [32, 32]), pl.load(b, [p * 32, j * 32], [32, 32]))
                pl.store(pl.cast(pl.maximum(acc, 0.0), pl.FP16), [i * 32, j * 32], c)


def test_a_product_of_small_tiles_runs_in_blocks_that_suit_the_gpu() -> None:
    side = np.zeros((4096, 4096), np.float16)
    made = planned(by_tiles, side, side, side)
    (kernel,) = made.kernels
    assert kernel.schedule == "128 × 256 × 64, 8 warps, 4 stages"
    (launch,) = made.entries["by_tiles"].steps
    assert isinstance(launch, plan.Launch) and launch.grid == (32 * 16, 1, 1)
    assert "maximum" in kernel.text.split("tl.dot")[1]  # The epilogue works on the accumulator.


@pl.jit
def of_integers(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.matmul(a, b, out_dtype=pl.INT32, b_trans=True)


def test_programs_of_large_products_of_integers_walk_over_blocks_and_copy_by_descriptors() -> None:
    for size, walkers in ((8192, 1), (2048, 0)):
        side = np.zeros((size, size), np.int8)
        (kernel,) = (made := planned(of_integers, side, side, np.zeros((size, size), np.int32))).kernels
        launch = made.entries["of_integers"].steps[-1]
        assert isinstance(launch, plan.Launch) and kernel.walkers == walkers
        assert ("tl.num_programs(0)" in kernel.text, kernel.text.count("make_tensor_descriptor")) == (bool(walkers), 2 * walkers)


def test_a_product_whose_rows_the_run_knows_has_kernels_for_few_of_them_that_scale_and_store_too() -> None:
    given = np.zeros((3, 1024), ml_dtypes.bfloat16), np.zeros((1024, 1024), np.int8), np.zeros((1024, 1), np.float32), np.zeros((3, 1024), np.float32)
    made = planned(weighed, *given)
    assert all("tl.dot(" in kernel.text and "scale +" in kernel.text.split("tl.dot(")[1] for kernel in made.kernels)
    assert [kernel.schedule.split(" ×")[0] for kernel in made.kernels] == ["128", "64", "16"], "rows of a block"
    assert [type(step) for step in made.entries["weighed"].steps if isinstance(step, plan.Launch | plan.Allocate)] == [plan.Launch] * 3
    assert not any(row.divisible for kernel in made.kernels for row in kernel.parameters if row.kind == "scalar"), "vectors do not depend on how many rows"


def test_a_deep_product_of_few_blocks_is_cut_along_k() -> None:
    sides = np.zeros((128, 16384), np.float16), np.zeros((16384, 128), np.float16)
    first, fold = planned(odd_product, *sides, np.zeros((128, 128), np.float32)).kernels
    assert first.schedule.startswith("16 pieces of K, ") and "tl.dot" in first.text and "range(16)" in fold.text


@pl.jit
def odd_product(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.matmul(a, b, out_dtype=pl.FP32)


def test_operands_whose_rows_begin_anywhere_are_copied_for_a_product_that_is_worth_it() -> None:
    def kernels(rows: int, inner: int, columns: int) -> list[str]:
        sides = (np.zeros(shape, np.float16) for shape in ((rows, inner), (inner, columns)))
        return [kernel.name for kernel in planned(odd_product, *sides, np.zeros((rows, columns), np.float32)).kernels]

    assert len(kernels(1023, 1023, 1023)) == 3 and len(kernels(1023, 1024, 1023)) == 2 and len(kernels(1024, 1024, 1024)) == 1
    assert len(kernels(63, 1023, 1023)) == 1, "nothing gains from a copy that is used once"


@pl.jit
def cell_by_cell(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.exp(a * b + 0.5)


def test_multiply_adds_round_once_only_where_sums_are_in_another_order_anyway() -> None:
    x = np.zeros((64, 64), np.float32)
    (cells,), (rows,) = planned(cell_by_cell, x, x, x).kernels, planned(normalised, x, x[:1], x).kernels
    assert cells.options["enable_fp_fusion"] is False and rows.options["enable_fp_fusion"] is True
    program = pl.parse(normalised.specialized_source(x, x[:1], x))
    assert isinstance(program, ir.Program)
    (precise,) = lower(pipeline.run_pipeline(program, pipeline.FUSED), CompileOptions(fast_math=False)).kernels
    assert precise.options["enable_fp_fusion"] is False


@pl.jit
def normalised(x: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        wide = pl.cast(x, pl.FP32)
        mean = pl.mul(pl.row_sum(pl.mul(wide, wide)), 1.0 / x.shape[1])
        out[:] = pl.cast(pl.col_expand_mul(pl.row_expand_mul(wide, pl.rsqrt(pl.add(mean, 1e-6))), pl.cast(w, pl.FP32)), pl.FP16)


def test_a_norm_is_one_kernel_over_its_rows() -> None:
    made = planned(normalised, np.zeros((512, 1000), np.float16), np.zeros((1, 1000), np.float16), np.zeros((512, 1000), np.float16))
    (kernel,) = made.kernels
    assert kernel.text.count("tl.load") == 2 and kernel.text.count("tl.store") == 1
    assert "normalised" in kernel.name and "# 46: wide" not in kernel.text and "wide = pl.cast(x, pl.FP32)" in kernel.text


def test_long_rows_are_held_by_several_programs_and_read_once() -> None:
    made = planned(normalised, np.zeros((4, 50_000), np.float16), np.zeros((1, 50_000), np.float16), np.zeros((4, 50_000), np.float16))
    (kernel,) = made.kernels
    assert kernel.schedule == "1 rows × 2016 columns in 25 programs, 4 warps" and kernel.gang == 25 and kernel.meeting_bytes == 32
    assert kernel.text.count("tell(") == 3 and kernel.text.count("hear(") == 2 and "for column" not in kernel.text  # The first row is told before the loop.
    (launch,) = made.entries["normalised"].steps
    assert isinstance(launch, plan.Launch) and launch.grid == (4 * 25, 1, 1)


@pl.jit
def largest(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_max(x)


def test_many_rows_that_are_only_folded_and_rows_too_long_for_a_gang_run_in_chunks() -> None:
    assert planned(largest, np.zeros((4, 50_000), np.float32), np.zeros((4, 1), np.float32)).kernels[0].gang > 1, "few rows would leave processors idle"
    folded = planned(largest, np.zeros((400, 50_000), np.float32), np.zeros((400, 1), np.float32))
    wide = [np.zeros((rows, 600_000), np.float16) for rows in (2, 1, 2)]
    for made, passes in ((folded, 1), (planned(normalised, *wide), 2)):
        assert "in chunks" in made.kernels[0].schedule and made.kernels[0].text.count("for column") == passes


@pl.jit
def scores(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    for block in pl.spmd(q.shape[0] // 128):
        tq = pl.load(q, [block * 128, 0], [128, 128])
        o = pl.tile.full([128, 128], dtype=pl.FP32, value=0.0)
        for j in pl.range(block + 1):
            s = pl.matmul(tq, pl.transpose(pl.load(k, [j * 128, 0], [128, 128]), 0, 1))
            if j == block:
                s = pl.mul(s, 2.0)
            o = pl.add(o, pl.matmul(pl.cast(s, pl.BF16), pl.load(v, [j * 128, 0], [128, 128])))
        pl.store(pl.cast(o, pl.BF16), [block * 128, 0], out)


def test_warps_of_two_products_in_a_loop_have_different_work_where_triton_makes_it_so(monkeypatch: pytest.MonkeyPatch) -> None:
    side = np.zeros((1024, 128), ml_dtypes.bfloat16)
    (kernel,) = planned(scores, side, side, side, side).kernels
    assert "warp_specialize=SPECIALISED" in kernel.text and "tl.where(n_3, s_1, s)" in kernel.text, kernel.text
    version = tuple(int(part) for part in check_triton().split(".")[:2])
    monkeypatch.setattr(compiling, "_SPECIALISES", {90: (version,)})
    special = compile_kernel(kernel, 90, aligned=True)
    assert special.facts.warps == 12 and special.kernel.num_stages == 2
    asked = replace(kernel, num_stages=2)
    assert compile_kernel(asked, 90, aligned=True).facts.warps == kernel.num_warps == 8


@pl.jit
def by_bytes(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.matmul(a, b, out_dtype=pl.FP32, b_trans=True)


@pytest.mark.parametrize(("dtype", "arch", "instruction"), [
    (ml_dtypes.float8_e4m3fn, 90, "k32.f32.e4m3.e4m3"), (ml_dtypes.float8_e5m2, 90, "k32.f32.e5m2.e5m2"), (ml_dtypes.float8_e4m3fn, 80, "f32.f16.f16.f32"),
])  # fmt: skip
def test_floats_of_8_bits_are_multiplied_as_they_are_where_the_gpu_can(dtype: Any, arch: int, instruction: str) -> None:
    side = np.zeros((1024, 64), dtype)
    (kernel,) = planned(by_bytes, side, side, np.zeros((1024, 1024), np.float32)).kernels
    assert instruction in compile_kernel(kernel, arch, aligned=True).ptx


@pl.jit
def of_columns(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.matmul(a, b, out_dtype=c.dtype, a_trans=True)


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize(("result", "work"), [(np.float64, "tl.float64"), (np.int32, "tl.float32"), (np.uint8, "tl.float32")])
def test_floats_of_8_bits_are_widened_where_the_result_is_more_exact_than_their_sums(dtype: Any, result: Any, work: str) -> None:
    a, b = (np.zeros((2048, side), dtype) for side in (33, 40))
    (kernel,) = planned(of_columns, a, b, np.zeros((33, 40), result)).kernels
    assert "eights" not in kernel.text and work in kernel.text
    ptx = compile_kernel(kernel, 90, aligned=True).ptx
    assert "e4m3.e4m3" not in ptx and "e5m2.e5m2" not in ptx


@pl.jit
def steps_that_depend(x: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(3):
            pl.store(pl.add(pl.load(x, [i, 0], [1, 16]), 1.0), [i + 1, 0], x)


def test_trips_that_read_what_others_write_stay_in_one_program() -> None:
    made = planned(steps_that_depend, np.zeros((4, 16), np.float32))
    (launch,) = made.entries["steps_that_depend"].steps
    assert isinstance(launch, plan.Launch) and launch.grid == (1, 1, 1)
    assert "tl.debug_barrier()" in made.kernels[0].text


@pl.jit
def turns_that_overwrite(x: pl.Tensor, many: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor], c: pl.Out[pl.Tensor], e: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="shifted"):
        t = pl.load(x, [0, 0], [1, 16])
        for i in pl.range(3):
            pl.store(t, [0, i], a)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="beside"):
        t = pl.load(x, [0, 0], [1, 16])
        for i in pl.range(3):
            t = pl.add(t, 1.0)
            pl.store(t, [0, i * 16], b)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="anywhere"):
        for i in pl.range(3):
            at = pl.cast(pl.read(many, [i]), pl.INDEX)
            pl.store(pl.load(x, [i, 0], [1, 16]), [i + at, 0], c)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="nested"):
        for i in pl.range(3):
            for j in pl.range(2):
                pl.store(pl.load(x, [i, 0], [1, 16]), [i * 2 + j, 0], e)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="wider"):
        for i in pl.range(3):
            pl.store(pl.col_sum(pl.load(e, [i, 0], [2, 16])), [i, 0], e)


def test_turns_that_may_overwrite_what_others_wrote_run_one_after_the_other() -> None:
    x, *outputs = (np.zeros((6, 64), np.float32) for _ in range(5))
    made = planned(turns_that_overwrite, x, np.zeros(3, np.int32), *outputs)
    launches = [step for step in made.entries["turns_that_overwrite"].steps if isinstance(step, plan.Launch)]
    turns = {made.kernels[step.kernel].name: (step.grid[0], made.kernels[step.kernel].text.rpartition(" in range(")[2]) for step in launches}
    found = {name: (programs, "debug_barrier" in text) for name, (programs, text) in turns.items()}
    assert found == {"shifted": (1, True), "beside": (1, False), "anywhere": (1, True), "nested": (3, False), "wider": (1, True)}


ROWS = pl.dynamic("ROWS")


@pl.jit
def rests(x: pl.Tensor[[ROWS, 23], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, 23], pl.FP32]]):
    for block in pl.spmd((x.shape[0] + 2) // 3):
        count = pl.min(x.shape[0] - block * 3, 3)
        total = pl.tile.full([3, 23], dtype=pl.FP32, value=0.5)
        for _ in pl.range(2):
            total = pl.add(total, pl.load(x, [block * 3, 0], [3, 23], valid_shape=[count, 23]))
        pl.store(total, [block * 3, 0], out)


def test_a_loop_narrows_what_it_carries_to_the_rest_of_an_extent_of_64_bits() -> None:
    x = np.zeros((8, 23), np.float32)
    (kernel,) = planned(rests, x, x).kernels
    assert compile_kernel(kernel, 90, aligned=False).code.startswith(b"\x7fELF")


def test_numbers_that_may_not_fit_in_32_bits_are_wide() -> None:
    block = Scalar("block", INDEX, (0, 65_535))
    assert numbers.mul(block, index(1024)).text == "(block * 1024)"
    assert "tl.int64" in numbers.mul(block, index(65_536)).text
    assert numbers.minimum(block, index(70_000)) is block
    assert numbers.add(index(2), index(3)).const == 5


def test_a_branch_needs_no_barrier_for_what_was_only_read_before_it() -> None:
    made = planned(masked_diagonal, *(np.zeros((64, 32), np.float32) for _ in range(3)))
    (kernel,) = made.kernels
    assert "debug_barrier" not in kernel.text and "int64" not in kernel.text


def test_blocks_with_most_to_do_start_first() -> None:
    shape = (64, 32)
    assert "program = 3 - tl.program_id(0)" in planned(masked_diagonal, *(np.zeros(shape, np.float32) for _ in range(3))).kernels[0].text
    assert "program = tl.program_id(0)" in planned(falling, *(np.zeros(shape, np.float32) for _ in range(2))).kernels[0].text


@pl.jit
def falling(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    for block in pl.spmd(4):
        acc = pl.tile.full([16, 32], dtype=pl.FP32, value=0.0)
        for j in pl.range(4 - block):
            acc = pl.add(acc, pl.load(a, [j * 16, 0], [16, 32]))
        pl.store(acc, [block * 16, 0], out)


@pl.jit
def masked_diagonal(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    for block in pl.spmd(4):
        here = block * 16 - block * 16 // 32 * 32
        acc = pl.tile.full([16, 16], dtype=pl.FP32, value=0.0)
        for j in pl.range(here // 16 + 1):
            part = pl.matmul(pl.load(a, [block * 16, 0], [16, 16]), pl.load(b, [j * 16, 0], [16, 16]))
            if j * 16 == here:
                part = pl.mul(part, pl.tri(0, [16, 16], dtype=pl.FP32))
            acc = pl.add(acc, part)
        pl.store(acc, [block * 16, 0], out)


def test_few_long_rows_are_cut_into_columns_for_many_programs() -> None:
    done = subprocess.run([sys.executable, "-m", "tests.backends.cuda.long_cells"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_rows_of_gangs_and_products_of_8_bits_give_the_numbers_of_the_reference() -> None:
    done = subprocess.run([sys.executable, "-m", "tests.backends.cuda.long_rows"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_products_of_tiles_in_chunks_give_the_numbers_of_the_reference() -> None:
    done = subprocess.run([sys.executable, "-m", "tests.backends.cuda.large_products"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_products_of_tiles_that_registers_do_not_hold_read_chunks_of_memory() -> None:
    def of(kernel: JITFunction, *shapes: tuple[int, int]) -> plan.Kernel:
        (made,) = planned(kernel, *(np.zeros(shape, np.float32) for shape in shapes)).kernels
        return made

    read = of(large_products.loaded, (5, 257), (257, 257), (5, 257), (5, 1))
    assert "for k in range(0, 257, 16):" in read.text and read.text.count("tl.load(") == 2 and read.scratch_bytes == 0
    for arch in (80, 90):
        cubin = compile_kernel(read, arch, aligned=False)
        assert cubin.kernel == read and cubin.facts.shared <= compiling.shared_memory(arch)  # as it is: fewer stages or parts are not tried
    kept = of(large_products.overwritten, (5, 257), (5, 257), (257, 257), (5, 257), (5, 1))
    assert kept.scratch_bytes >= 4 * 257 * 257  # what was loaded before its memory changed
    fits = of(large_products.loaded, (5, 100), (100, 100), (5, 100), (5, 1))
    assert "for k in" not in fits.text and "tl.dot(" in fits.text


@pl.jit
def barriers_in_turns(x: pl.Tensor, n: pl.Tensor, a: pl.InOut[pl.Tensor], b: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor]):
    for block in pl.spmd(2):
        pl.store(pl.load(x, [block, 0], [1, 64]), [block, 0], a)
        for _ in pl.range(pl.cast(pl.read(n, [0]), pl.INDEX)):
            pl.store(pl.load(b, [block, 0], [1, 64]) + 1.0, [block, 0], b)
        pl.store(pl.load(a, [block, 1], [1, 32]), [block, 0], out)


def test_what_is_stored_before_a_loop_that_may_have_no_turn_is_waited_for_after_it() -> None:
    rows = np.zeros((2, 64), np.float32)
    (kernel,) = planned(barriers_in_turns, rows, np.zeros(1, np.int32), rows, rows, rows[:, :32]).kernels
    after = kernel.text.split("# ")[-1].splitlines()  # of the last statement
    assert after[1].strip() == "tl.debug_barrier()" and "tl.load(a" in after[2]


def test_attention_keeps_scores_in_units_of_its_exponential_and_copies_by_descriptors() -> None:
    done = subprocess.run([sys.executable, "-m", "tests.backends.cuda.scores"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_goes_wrong_in_a_kernel_is_reported_nothing_is_written_outside_and_prints_are_those_of_the_reference() -> None:
    done = subprocess.run([sys.executable, "-m", "tests.backends.cuda.mistakes"], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        "load_past_the_end OutOfBoundsError load reads outside `x` in dim 0: offset 3, size 2, extent 4 left alone",
        "store_past_the_end OutOfBoundsError store writes outside `out` in dim 0: offset 3, size 2, extent 4 left alone",
        "wrong_index OutOfBoundsError gather: index 9 of an extent of 8 left alone",
        "asserts KernelAssertionError only two left alone",
        "rows_into_a_window_past_the_end OutOfBoundsError slice reaches outside `out` in dim 0: offset 3, size 2, extent 4 left alone",
        "cells_into_a_window_past_the_end OutOfBoundsError slice reaches outside `out` in dim 0: offset 3, size 2, extent 4 left alone",
        "cells_past_the_end OutOfBoundsError mscatter: index 32 of an extent of 32 left alone",
        *(f"{kernel} says the same" for kernel in ("blocks", "product", "kinds")),
    ], done.stderr


def test_lines_of_any_length_loops_that_end_early_and_narrow_atomics_give_the_numbers_of_the_reference() -> None:
    done = subprocess.run([sys.executable, "-m", "tests.backends.cuda.agreement"], capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stdout + done.stderr
