"""Loop nests: elementwise chains, expands, reductions and masks over odd shapes, small valid regions and every dtype."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from xdsl.ir import SSAValue

from tests.backends.cpu.harness import Kernel, buffer, check, fused, program, random, run_native
from tilejit import ops
from tilejit.backends.cpu import schedule
from tilejit.backends.reference.interpreter import ReferenceExecutable
from tilejit.dtypes import BF16, FP16, FP32, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, DType
from tilejit.errors import ShapeError
from tilejit.types.values import ScalarType

rng = np.random.default_rng(11)
NUMBERS = (FP32, FP16, BF16, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64)
SHAPES = ((1, 1), (1, 7), (5, 1), (3, 33), (4, 64), (2, 75))


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_a_chain_of_arithmetic_agrees_for_every_dtype(dtype: DType) -> None:
    def body(k: Kernel, x: SSAValue, y: SSAValue, out: SSAValue) -> None:
        a, b = k.tile(x, [0, 0], [6, 45]), k.tile(y, [0, 0], [6, 45])
        k.put(k.op("maximum", k.op("mul", k.op("add", a, b), a), k.op("neg", b)), out)

    type = buffer(6, 45, dtype=dtype)
    check(program([type] * 3, body), [random(rng, (6, 45), dtype), random(rng, (6, 45), dtype), random(rng, (6, 45), dtype)])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_softmax_agrees_for_odd_shapes(shape: tuple[int, int]) -> None:
    def body(k: Kernel, x: SSAValue, out: SSAValue) -> None:
        t = k.tile(x, [0, 0], shape)
        e = k.op("exp", k.op("row_expand_sub", t, k.op("row_max", t)))
        k.put(k.op("row_expand_div", e, k.op("row_sum", e)), out)

    check(program([buffer(*shape)] * 2, body), [random(rng, shape), random(rng, shape)], rtol=1e-5)


ROW_OPS = ("row_sum", "row_max", "row_min", "row_prod", "row_argmax", "row_argmin")
ROW_CASES = [(name, dtype) for name in ROW_OPS for dtype in NUMBERS if dtype in ops.table()[name].dtypes]


@pytest.mark.parametrize(("name", "dtype"), ROW_CASES, ids=str)
def test_row_reductions_agree_for_every_dtype(name: str, dtype: DType) -> None:
    def body(k: Kernel, x: SSAValue, out: SSAValue) -> None:
        k.put(k.op(name, k.tile(x, [1, 2], [4, 43])), out)

    x = random(rng, (5, 45), dtype)
    result = INT32 if "arg" in name else dtype
    if name == "row_prod" and dtype.is_float:
        x = (1 + x.astype(np.float32) / 20).astype(dtype.numpy)
    if "m" in name:
        x[2, 7] = x[2, 30]
    tolerance = {FP16: 2e-3, BF16: 1.6e-2}.get(dtype, 1e-5)
    check(program([buffer(5, 45, dtype=dtype), buffer(4, 1, dtype=result)], body), [x, random(rng, (4, 1), result)], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [FP32, FP16, INT32, UINT8, INT64], ids=str)
@pytest.mark.parametrize("name", ["col_sum", "col_max", "col_min", "col_prod", "col_argmax", "col_argmin"])
def test_column_reductions_agree(name: str, dtype: DType) -> None:
    def body(k: Kernel, x: SSAValue, out: SSAValue) -> None:
        t = k.tile(x, [0, 0], [6, 37])
        k.put(k.op(name, k.op("add", t, t)), out)

    x = random(rng, (6, 37), dtype)
    if name == "col_prod" and dtype.is_float:
        x = (1 + x.astype(np.float32) / 20).astype(dtype.numpy)
    result = INT32 if "arg" in name else dtype
    tolerance = 5e-3 if dtype is FP16 else 1e-5
    check(program([buffer(6, 37, dtype=dtype), buffer(1, 37, dtype=result)], body), [x, random(rng, (1, 37), result)], rtol=tolerance, atol=1e-5)


def test_extremes_of_nan_and_infinity_agree() -> None:
    def body(k: Kernel, x: SSAValue, out: SSAValue, where: SSAValue) -> None:
        t = k.tile(x, [0, 0], [4, 40])
        k.put(k.op("row_max", t), out)
        k.put(k.op("row_argmax", t), where)

    x = random(rng, (4, 40))
    x[0, 17] = np.nan
    x[0, 21] = np.nan
    x[1, :] = -np.inf
    x[2, 39] = np.inf
    x[2, 3] = np.inf
    check(program([buffer(4, 40), buffer(4, 1), buffer(4, 1, dtype=INT32)], body, outputs=2), [x, random(rng, (4, 1)), random(rng, (4, 1), INT32)], outputs=2)


def test_reductions_of_three_dims_fold_the_axis_of_their_level() -> None:
    def body(k: Kernel, x: SSAValue, rows: SSAValue, columns: SSAValue, first: SSAValue) -> None:
        k.put(k.op("row_sum", x, level="tensor"), rows)
        k.put(k.op("col_sum", x, level="tensor"), columns)
        k.put(k.op("col_argmax", k.tile(x, [0, 0, 0], [3, 4, 21])), first)

    types = [buffer(3, 4, 21), buffer(3, 4, 1), buffer(3, 1, 21), buffer(1, 4, 21, dtype=INT32)]
    check(program(types, body, outputs=3), [random(rng, type.shape, type.dtype) for type in types], outputs=3, rtol=1e-5, atol=1e-5)


def test_broadcasting_in_every_direction() -> None:
    def body(k: Kernel, x: SSAValue, row: SSAValue, column: SSAValue, vector: SSAValue, out: SSAValue) -> None:
        a = k.op("add", x, row, level="tensor")
        b = k.op("mul", a, column, level="tensor")
        k.put(k.op("sub", b, vector, level="tensor"), out)

    types = [buffer(2, 5, 19), buffer(2, 1, 19), buffer(5, 1), buffer(19), buffer(2, 5, 19)]
    check(program(types, body), [random(rng, type.shape) for type in types], atol=1e-6)


@pytest.mark.parametrize("valid", [(0, 0), (0, 9), (1, 1), (3, 0), (3, 33), (5, 17), (7, 40)], ids=str)
def test_only_the_valid_region_takes_part(valid: tuple[int, int]) -> None:
    def body(k: Kernel, x: SSAValue, y: SSAValue, rows: SSAValue, columns: SSAValue, out: SSAValue, sums: SSAValue) -> None:
        a = k.tile(x, [0, 0], [7, 40], [rows, columns])
        b = k.tile(y, [0, 0], [7, 40])
        c = k.op("add", k.op("exp", a), b)
        k.put(k.op("row_expand_sub", c, k.op("row_sum", c)), out)
        k.put(k.op("col_sum", c), sums)

    index = ScalarType(INT64)
    source = program([buffer(7, 40), buffer(7, 40), index, index, buffer(7, 40), buffer(1, 40)], body, outputs=2)
    check(source, [random(rng, (7, 40)), random(rng, (7, 40)), *valid, random(rng, (7, 40)), random(rng, (1, 40))], outputs=2, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", range(6))
def test_masks_select_fused_and_through_memory(kind: int) -> None:
    def body(k: Kernel, x: SSAValue, y: SSAValue, out: SSAValue, packed: SSAValue, again: SSAValue) -> None:
        a, b = k.tile(x, [0, 0], [5, 77]), k.tile(y, [0, 0], [5, 77])
        mask = k.op("cmp_mask", a, b, cmp_type=kind)
        k.put(k.op("sel", mask, k.op("neg", a), b), out)
        k.put(mask, packed)
        loaded = k.tile(packed, [0, 0], [5, 32])
        k.put(k.op("sels", loaded, a, None, k.const(2.5)), again)

    x = random(rng, (5, 77))
    y = np.where(rng.random((5, 77)) < 0.3, x, random(rng, (5, 77)))
    types = [buffer(5, 77), buffer(5, 77), buffer(5, 77), buffer(5, 32, dtype=UINT8), buffer(5, 77)]
    check(program(types, body, outputs=3), [x, y, random(rng, (5, 77)), np.zeros((5, 32), np.uint8), random(rng, (5, 77))], outputs=3)


@pytest.mark.parametrize("rows", [0, 1, 6, 50])
@pytest.mark.parametrize("columns", [1, 8, 31, 100])
def test_one_code_serves_all_extents(rows: int, columns: int) -> None:
    def body(k: Kernel, x: SSAValue, out: SSAValue, total: SSAValue) -> None:
        m = k.op("row_max", x, level="tensor")
        e = k.op("exp", k.op("row_expand_sub", x, m, level="tensor"), level="tensor")
        k.put(k.op("add", e, x, level="tensor"), out)
        k.put(k.op("row_sum", e, level="tensor"), total)

    source = program([buffer("M", "N"), buffer("M", "N"), buffer("M", 1)], body, outputs=2)
    check(source, [random(rng, (rows, columns)), random(rng, (rows, columns)), random(rng, (rows, 1))], outputs=2, rtol=1e-5, atol=1e-6)


def test_an_output_may_be_its_own_input() -> None:
    def body(k: Kernel, x: SSAValue) -> None:
        t = k.tile(x, [0, 0], [6, 50])
        d = k.op("row_expand_sub", t, k.op("row_max", t))
        k.put(k.op("mul", k.op("exp", d), k.op("row_expand_add", t, k.op("row_sum", d))), x)

    check(program([buffer(6, 50)], body), [random(rng, (6, 50))], rtol=1e-4, atol=1e-4)


def test_a_window_that_moves_over_itself_is_read_before_it_is_written() -> None:
    def body(k: Kernel, x: SSAValue) -> None:
        t = k.tile(x, [0, 0], [6, 40])
        k.put(k.op("add", t, k.const(1.0)), x, 1, 3)

    check(program([buffer(8, 50)], body), [random(rng, (8, 50))])


def test_a_tile_keeps_what_it_loaded_when_the_tensor_changes() -> None:
    def body(k: Kernel, x: SSAValue, out: SSAValue) -> None:
        t = k.tile(x, [0, 0], [4, 20])
        k.put(k.op("full", k.ints(4, 20), dtype=FP32, value=k.const(7.0)), x)
        k.put(k.op("mul", t, k.const(2.0)), out)

    check(program([buffer(4, 20)] * 2, body, outputs=2), [random(rng, (4, 20)), random(rng, (4, 20))], outputs=2)


def test_stores_convert_between_float_types_and_add_atomically() -> None:
    def body(k: Kernel, x: SSAValue, half: SSAValue, brain: SSAValue, total: SSAValue) -> None:
        t = k.op("mul", k.tile(x, [0, 0], [5, 37]), k.const(1.3))
        k.put(t, half)
        k.put(t, brain)
        k.put(t, total, atomic=True)
        k.put(t, total, atomic=True)

    types = [buffer(5, 37), buffer(5, 37, dtype=FP16), buffer(5, 37, dtype=BF16), buffer(5, 37)]
    check(program(types, body, outputs=3), [random(rng, type.shape, type.dtype) for type in types], outputs=3)


@pytest.mark.parametrize(("dtype", "columns"), [(FP32, 1), (FP32, 67), (FP16, 67), (INT64, 33)], ids=str)
def test_large_outputs_go_past_the_caches_wherever_they_start(monkeypatch: pytest.MonkeyPatch, dtype: DType, columns: int) -> None:
    def body(k: Kernel, x: SSAValue, y: SSAValue, out: SSAValue, sums: SSAValue, total: SSAValue) -> None:
        e = k.op("mul", x, y, level="tensor")
        k.put(k.op("add", e, x, level="tensor"), out)
        k.put(k.op("row_expand_sub", e, k.op("row_max", e, level="tensor"), level="tensor"), sums)
        k.put(k.op("row_sum", e, level="tensor"), total)

    # Rows of an odd number of bytes start at every alignment.
    nest = schedule.nest
    monkeypatch.setattr(schedule, "nest", lambda *given: replace(nest(*given), stream_bytes=1))
    types = [buffer(5, columns, dtype=dtype)] * 4 + [buffer(5, 1, dtype=dtype)]
    tolerance = 1e-2 if dtype is FP16 else 1e-5
    check(program(types, body, outputs=3), [random(rng, type.shape, dtype) for type in types], outputs=3, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [FP32, FP16], ids=str)
def test_a_block_per_row_repeats_along_it(dtype: DType) -> None:
    size = 32 // dtype.get_byte()

    def body(k: Kernel, x: SSAValue, block: SSAValue, out: SSAValue, same: SSAValue) -> None:
        t, b = k.tile(x, [0, 0], [5, 83]), k.tile(block, [0, 0], [5, size])
        k.put(k.op("neg", k.op("row_expand_add", t, b)), out)
        k.put(k.op("row_expand_add", b, k.op("add", b, b)), same)

    types = [buffer(5, 83, dtype=dtype), buffer(5, size, dtype=dtype), buffer(5, 83, dtype=dtype), buffer(5, size, dtype=dtype)]
    check(program(types, body, outputs=2), [random(rng, type.shape, dtype) for type in types], outputs=2)


def test_a_vector_that_does_not_cover_the_valid_rows_is_refused() -> None:
    def body(k: Kernel, x: SSAValue, n: SSAValue, out: SSAValue) -> None:
        t = k.tile(x, [0, 0], [6, 20])
        v = k.tile(x, [0, 0], [6, 1], [n, 1])
        k.put(k.op("row_expand_add", t, v), out)

    source = program([buffer(6, 20), ScalarType(INT64), buffer(6, 20)], body)
    x, out = random(rng, (6, 20)), random(rng, (6, 20))
    check(source, [x, 6, out])
    for run in (ReferenceExecutable(source).run, partial(run_native, fused(source))):
        with pytest.raises(ShapeError, match="the vector is valid for 4 of 6 in dim 0"):
            run("kernel", [x.copy(), 4, out.copy()])


@pytest.mark.parametrize("rows", [1, 9])
def test_columns_of_row_values_are_folded(rows: int) -> None:
    def body(k: Kernel, x: SSAValue, top: SSAValue, most: SSAValue) -> None:
        v = k.op("row_max", x, level="tensor")
        k.put(v, top)
        k.put(k.op("col_max", k.op("neg", v, level="tensor"), level="tensor"), most)

    source = program([buffer("M", 1), buffer("M", 1), buffer(1, 1)], body, outputs=2)
    check(source, [random(rng, (rows, 1)), random(rng, (rows, 1)), random(rng, (1, 1))], outputs=2)
