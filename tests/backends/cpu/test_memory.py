"""Views, windows, calls and failures: what touches memory does so exactly as the reference says, or stops with its words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue

import tilejit.language as pl
from tests.backends.cpu.harness import Kernel, buffer, check, fused, program, random, run_native
from tilejit import RunConfig
from tilejit.backends.base import CompileOptions
from tilejit.backends.cpu.lower import lower
from tilejit.backends.reference.interpreter import ReferenceExecutable
from tilejit.dtypes import COMPLEX64, FP16, FP32, INT16, INT32, INT64, UINT8, DType
from tilejit.errors import OutOfBoundsError, ResourceError, ShapeError, TilejitError, UnsupportedFeatureError
from tilejit.passes.pairs import split_complex
from tilejit.runtime.call import abi
from tilejit.tile_ir.build import function
from tilejit.tile_ir.program import Program
from tilejit.types.values import BufferType, ScalarType, ValueType

rng = np.random.default_rng(13)
INDEX64 = ScalarType(INT64)


def both_fail(source: Program, arguments: Sequence[Any], kind: type[TilejitError]) -> str:
    """The message with which reference and CPU both refuse the arguments."""
    entry = next(iter(source.entries))
    texts: list[str] = []
    for run in (ReferenceExecutable(source).run, partial(run_native, source), partial(run_native, fused(source))):
        with pytest.raises(kind) as caught:
            run(entry, [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments])
        texts.append(caught.value.message)
    assert len(set(texts)) == 1, texts
    return texts[0]


# bounds -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("row", "column"), [(-1, 0), (5, 0), (0, -3), (0, 9), (1 << 62, 0), (-(1 << 63), 0)])
def test_a_load_outside_its_tensor_stops_with_the_reference_message(row: int, column: int) -> None:
    def body(k: Kernel, x: SSAValue, i: SSAValue, j: SSAValue, out: SSAValue) -> None:
        k.put(k.tile(x, [i, j], [4, 12]), out)

    source = program([buffer(8, 20), INDEX64, INDEX64, buffer(4, 12)], body)
    assert "outside" in both_fail(source, [random(rng, (8, 20)), row, column, random(rng, (4, 12))], OutOfBoundsError)


def test_a_failing_store_writes_nothing() -> None:
    def body(k: Kernel, x: SSAValue, i: SSAValue, out: SSAValue) -> None:
        k.put(k.op("exp", k.tile(x, [0, 0], [4, 12])), out, i, 0)

    source = program([buffer(4, 12), INDEX64, buffer(6, 12)], body)
    x, out = random(rng, (4, 12)), random(rng, (6, 12))
    both_fail(source, [x, 3, out], OutOfBoundsError)
    copy = out.copy()
    with pytest.raises(OutOfBoundsError):
        run_native(fused(source), "kernel", [x, 3, copy])
    np.testing.assert_array_equal(copy, out)


@pytest.mark.parametrize("size", [-1, 0, 3, 12, 40])
@pytest.mark.parametrize("offset", [0, 7, 8, 30])
def test_clamped_loads_shrink_to_what_is_there(offset: int, size: int) -> None:
    def body(k: Kernel, x: SSAValue, i: SSAValue, n: SSAValue, out: SSAValue) -> None:
        k.put(k.op("add", k.tile(x, [i, 0], [12, 5], [n, 5], clamp=True), k.const(1.0)), out)

    source = program([buffer("M", 5), INDEX64, INDEX64, buffer(12, 5)], body)
    check(source, [random(rng, (15, 5)), offset, size, random(rng, (12, 5))])


def test_reading_and_writing_elements_checks_the_index() -> None:
    def body(k: Kernel, x: SSAValue, i: SSAValue, out: SSAValue) -> None:
        value = k.read(x, k.ints(i, 1))
        k.write(out, k.ints(2, i), value)

    source = program([buffer(4, 6), INDEX64, buffer(4, 6)], body)
    check(source, [random(rng, (4, 6)), 3, random(rng, (4, 6))])
    assert "index 4" in both_fail(source, [random(rng, (4, 6)), 4, random(rng, (4, 6))], OutOfBoundsError)


def test_extremes_of_nothing_are_refused() -> None:
    def body(k: Kernel, x: SSAValue, n: SSAValue, out: SSAValue) -> None:
        k.put(k.op("row_max", k.tile(x, [0, 0], [4, 12], [4, n])), out)

    source = program([buffer(4, 12), INDEX64, buffer(4, 1)], body)
    assert "row_max of nothing" in both_fail(source, [random(rng, (4, 12)), 0, random(rng, (4, 1))], ShapeError)


def test_more_scratch_than_there_is_stops_with_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def body(k: Kernel, n: SSAValue, out: SSAValue) -> None:
        made = k.create(BufferType(("?", 1024), FP32), [k.op("cast", n, target_type=INT64, level="scalar")], init=1.0)
        k.put(k.tile(made, [0, 0], [1, 8]), out)

    monkeypatch.setenv("TILEJIT_ARENA_BYTES", "64M")
    source = program([INDEX64, buffer(1, 8)], body)
    check(source, [10, random(rng, (1, 8))])
    with pytest.raises(ResourceError, match="scratch memory"):
        run_native(source, "kernel", [1 << 30, random(rng, (1, 8))])


def test_scratch_at_known_places_is_asked_for_once_before_anything_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def body(k: Kernel, x: SSAValue, out: SSAValue) -> None:
        t = k.tile(x, [0, 0], [48, 48])
        k.put(k.op("neg", t), out)
        for _ in range(3):
            t = k.op("matmul", t, k.op("transpose", t, axis1=0, axis2=1))
        k.put(t, out)

    source = program([buffer(48, 48), buffer(48, 48)], body)
    x, out = random(rng, (48, 48)) / 48, random(rng, (48, 48))
    check(source, [x, out], atol=1e-9)
    assert lower(source, CompileOptions()).text.count(f"ptr %context, i64 {abi.ARENA_END}\n") == 1
    monkeypatch.setenv("TILEJIT_ARENA_BYTES", "16K")
    copy = out.copy()
    with pytest.raises(ResourceError, match="scratch memory"):
        run_native(source, "kernel", [x, copy])
    np.testing.assert_array_equal(copy, out)


# views ------------------------------------------------------------------------------------------------------------------


def test_values_are_rearranged_like_the_reference() -> None:
    def body(k: Kernel, x: SSAValue, *outs: SSAValue) -> None:
        t = k.tile(x, [0, 0], [6, 20])
        k.put(k.op("transpose", t, axis1=0, axis2=1), outs[0])
        k.put(k.op("reshape", k.op("neg", t), k.ints(12, 10)), outs[1])
        k.put(k.op("slice", t, k.ints(3, 7), k.ints(2, 5)), outs[2])
        k.put(k.op("concat", t, k.op("add", t, t)), outs[3])
        k.put(k.op("fillpad_expand", k.tile(x, [0, 0], [6, 20], [4, 13]), k.ints(8, 24)), outs[4])
        k.put(k.op("assemble", t, k.op("exp", k.op("slice", t, k.ints(3, 7), k.ints(0, 0))), k.ints(2, 9)), outs[5])
        k.put(k.op("reinterpret_view", t, dtype=UINT8), outs[6])
        k.put(k.op("write", t, k.ints(3, 4), k.const(9.5)), outs[7])

    outs = [buffer(20, 6), buffer(12, 10), buffer(3, 7), buffer(6, 40), buffer(8, 24), buffer(6, 20), buffer(6, 80, dtype=UINT8), buffer(6, 20)]
    check(program([buffer(6, 20), *outs], body, outputs=8), [random(rng, (6, 20)), *(random(rng, type.shape, type.dtype) for type in outs)], outputs=8)


def test_windows_and_views_of_buffers_share_their_memory() -> None:
    def body(k: Kernel, i: SSAValue, x: SSAValue) -> None:
        part = k.window(x, k.ints(i, 0, 2), k.ints(3, 1, 8), buffer(3, 8), drop=[1])
        k.put(k.op("mul", k.tile(part, [0, 0], [3, 8]), k.const(2.0)), part)
        flat = k.view(x, [], buffer(6, 30))
        k.put(k.op("add", flat, k.const(1.0), level="tensor"), flat)
        split = k.view(part, [], buffer(3, 2, 4))
        k.put(k.op("neg", k.tile(split, [0, 1, 0], [3, 1, 4])), split, 0, 0, 0)

    check(program([INDEX64, buffer(6, 3, 10)], body), [2, random(rng, (6, 3, 10))])


def test_a_product_is_written_where_its_store_wants_it() -> None:
    def body(k: Kernel, a: SSAValue, b: SSAValue, out: SSAValue) -> None:
        k.put(k.op("matmul", a, b, level="tensor"), out)

    source = program([buffer(9, 17), buffer(17, 21), buffer(9, 21)], body)
    check(source, [random(rng, (9, 17)), random(rng, (17, 21)), random(rng, (9, 21))], rtol=1e-4, atol=1e-4)
    kernel = lower(source, CompileOptions()).text.split("@k_kernel(")[1].split("\n}")[0]
    assert "col" not in kernel, "the product is copied"


def test_products_of_an_input_into_itself_are_not_forwarded() -> None:
    def body(k: Kernel, a: SSAValue) -> None:
        k.put(k.op("matmul", a, a, level="tensor"), a)

    check(program([buffer(12, 12)], body), [random(rng, (12, 12))], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [FP32, FP16, INT32], ids=str)
def test_transposed_operands_of_products_are_views(dtype: DType) -> None:
    def body(k: Kernel, a: SSAValue, b: SSAValue, out: SSAValue) -> None:
        left, right = k.tile(a, [0, 0], [7, 19]), k.tile(b, [0, 0], [11, 19])
        k.put(k.op("matmul", left, k.op("transpose", right, axis1=0, axis2=1)), out)

    types = [buffer(7, 19, dtype=dtype), buffer(11, 19, dtype=dtype), buffer(7, 11, dtype=INT32 if dtype is INT32 else FP32)]
    check(program(types, body), [random(rng, type.shape, type.dtype) for type in types], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [FP32, FP16, UINT8, INT64], ids=str)
@pytest.mark.parametrize("shape", [(8, 8), (3, 20), (24, 17), (1, 40), (30, 1), (75, 133)], ids=str)
def test_transposed_blocks_and_their_edges(dtype: DType, shape: tuple[int, int]) -> None:
    def body(k: Kernel, x: SSAValue, out: SSAValue, tall: SSAValue, again: SSAValue) -> None:
        k.put(k.op("transpose", x, axis1=0, axis2=1, level="tensor"), out)
        k.put(k.op("transpose", tall, axis1=0, axis2=2, level="tensor"), again)

    rows, columns = shape
    types = [buffer("M", "N", dtype=dtype), buffer("N", "M", dtype=dtype), buffer(rows, 3, columns, dtype=dtype), buffer(columns, 3, rows, dtype=dtype)]
    arguments = [random(rng, size, dtype) for size in ((rows, columns), (columns, rows), (rows, 3, columns), (columns, 3, rows))]
    check(program(types, body, outputs=3), arguments, outputs=3)


@pl.jit
def turned(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.transpose(x, 0, 1)


@pytest.mark.parametrize("dtype", [FP32, FP16, UINT8, INT64], ids=str)
@pytest.mark.parametrize("shape", [(64, 192), (65, 130)], ids=str)
def test_transposed_lines_may_pass_the_caches(dtype: DType, shape: tuple[int, int]) -> None:
    """Wherever the target begins, and whether its rows are whole cache lines or not."""
    x = random(rng, shape, dtype)
    for threads, offset in ((1, 0), (1, 3), (3, 0)):
        memory, before, after = (np.full(size, 7, dtype.numpy) for size in (x.size + 64, offset, 64 - offset))
        choices = {"turned_k0/transpose0": {"stream_bytes": 1, "prefetch_bytes": 1}}
        turned(x, memory[offset : offset + x.size].reshape(shape[::-1]), config=RunConfig(num_threads=threads, schedule=choices))
        np.testing.assert_array_equal(memory, np.concatenate([before, x.T.reshape(-1), after]))


def test_inputs_may_have_any_strides() -> None:
    def body(k: Kernel, x: SSAValue, y: SSAValue, out: SSAValue, product: SSAValue) -> None:
        t = k.op("add", x, y, level="tensor")
        k.put(k.op("row_expand_sub", t, k.op("row_sum", x, level="tensor"), level="tensor"), out)
        k.put(k.op("matmul", k.tile(x, [0, 0], [6, 9]), k.op("transpose", k.tile(y, [0, 0], [6, 9]), axis1=0, axis2=1)), product)

    source = fused(program([buffer(6, 9), buffer(6, 9), buffer(6, 9), buffer(6, 6)], body, outputs=2))
    options = CompileOptions(strided=frozenset({("kernel", "p0"), ("kernel", "p1")}))
    x, y = random(rng, (9, 6)).T, random(rng, (12, 27))[::-2, ::3]
    out, product = np.empty((6, 9), np.float32), np.empty((6, 6), np.float32)
    run_native(source, "kernel", [x, y, out, product], options)
    np.testing.assert_allclose(out, x + y - x.sum(1, keepdims=True), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(product, x @ y.T, rtol=1e-4, atol=1e-4)


# calls ------------------------------------------------------------------------------------------------------------------


def calling(
    main: Callable[..., None], helper: Callable[..., Sequence[SSAValue]], main_types: Sequence[ValueType], helper_types: Sequence[ValueType]
) -> Program:
    """A program of an orchestration function and a kernel `helper`."""
    made: list[Any] = []
    for name, kind, types, body in (("helper", "incore", helper_types, helper), ("main", "orchestration", main_types, main)):
        op, args = function(name, kind, [(f"p{i}", type, "InOut" if isinstance(type, BufferType) else "In") for i, type in enumerate(types)])
        k = Kernel(op.body.block)
        k.return_(body(k, *args) or [])
        made.append(op)
    return Program(ModuleOp(made, {"name": StringAttr("calls")}))


def test_kernels_run_once_per_block_with_their_number() -> None:
    def helper(k: Kernel, x: SSAValue, out: SSAValue) -> Sequence[SSAValue]:
        at = k.op("mul", k.op("get_block_idx", level="tile"), k.const(4), level="scalar")
        k.put(k.op("abs", k.tile(x, [at, 0], [4, 10])), out, at, 0)
        return []

    def main(k: Kernel, x: SSAValue, out: SSAValue) -> None:
        k.launch("helper", [x, out], k.const(3))

    types = [buffer(12, 10), buffer(12, 10)]
    check(calling(main, helper, types, types), [random(rng, (12, 10)), random(rng, (12, 10))])


def test_helpers_take_windows_and_scalars_and_return_new_tensors() -> None:
    def helper(k: Kernel, x: SSAValue, factor: SSAValue) -> Sequence[SSAValue]:
        made = k.create(buffer("M", 8), [k.dim(x, 0)])
        k.put(k.op("mul", x, factor, level="tensor"), made)
        return [made]

    def main(k: Kernel, x: SSAValue, out: SSAValue) -> None:
        part = k.window(x, k.ints(1, 3), k.ints(5, 8), buffer(5, 8))
        (first,) = k.call("helper", [part, k.const(3.0)], [buffer(5, 8)])
        (second,) = k.call("helper", [first, k.const(0.5)], [buffer(5, 8)])
        k.put(k.op("add", first, second, level="tensor"), out)

    source = calling(main, helper, [buffer(9, 12), buffer(5, 8)], [buffer("M", 8), ScalarType(FP32)])
    check(source, [random(rng, (9, 12)), random(rng, (5, 8))])


def test_two_arguments_that_are_one_buffer_are_read_before_they_are_written() -> None:
    def helper(k: Kernel, x: SSAValue, out: SSAValue) -> Sequence[SSAValue]:
        t = k.tile(x, [0, 0], [4, 16])
        k.put(k.op("full", k.ints(4, 16), dtype=FP32, value=k.const(5.0)), out)
        k.put(k.op("add", t, k.const(1.0)), out)
        return []

    def main(k: Kernel, x: SSAValue) -> None:
        k.launch("helper", [x, x])

    check(calling(main, helper, [buffer(4, 16)], [buffer(4, 16)] * 2), [random(rng, (4, 16))])


def test_what_the_cpu_cannot_run_is_refused_while_compiling() -> None:
    def body(k: Kernel, x: SSAValue) -> None:
        k.effect("print", [x])

    source = program([buffer(2, 2, dtype=COMPLEX64)], body)
    with pytest.raises(UnsupportedFeatureError, match=r"print of complex numbers is not compiled(.|\n)*reference"):
        split_complex(source)

    def not_split(k: Kernel, x: SSAValue, out: SSAValue) -> None:
        k.put(k.op("conj", k.tile(x, [0, 0], [2, 2])), out)

    with pytest.raises(UnsupportedFeatureError, match=r"conj does not run on the CPU(.|\n)*reference"):
        lower(program([buffer(2, 2, dtype=COMPLEX64)] * 2, not_split), CompileOptions())


def test_strided_views_look_into_flat_memory() -> None:
    def body(k: Kernel, a: SSAValue, out: SSAValue) -> None:
        def view(start: int, extents: Sequence[int], strides: Sequence[int], dtype: DType = FP32) -> SSAValue:
            return k.strided(a, k.const(start), k.ints(*extents), k.ints(*strides), buffer(*extents, dtype=dtype))

        k.put(k.op("add", k.tile(view(2, (3, 4), (20, 3)), [0, 0], [3, 4]), k.tile(view(50, (3, 4), (-1, -5)), [0, 0], [3, 4])), out)
        k.put(k.tile(view(3, (5, 2), (1, 7)), [1, 0], [3, 2]), view(70, (3, 2), (4, 1)))
        k.put(k.tile(view(128, (2, 2), (2, 1), INT16), [0, 0], [2, 2]), view(150, (2, 2), (2, 1), INT16))

    check(program([buffer(100), buffer(3, 4)], body, outputs=2), [random(rng, (100,)), random(rng, (3, 4))], outputs=2)


@pytest.mark.parametrize(("extent", "stride"), [(2**62 + 1, 4), (2**33, 2**32), (2**62, -4), (3, 2**63 - 1), (2, -(2**63))])
def test_a_strided_view_whose_reach_leaves_64_bits_stops(extent: int, stride: int) -> None:
    def body(k: Kernel, a: SSAValue, n: SSAValue, step: SSAValue, out: SSAValue) -> None:
        k.put(k.tile(k.strided(a, k.const(0), k.ints(1, n), [k.const(0), step], buffer(1, "?")), [0, 0], [1, 1]), out)

    source = program([buffer(40), INDEX64, INDEX64, buffer(1, 1)], body)
    arguments = [random(rng, (40,)), extent, stride, random(rng, (1, 1))]
    for run in (ReferenceExecutable(source).run, partial(run_native, source)):
        with pytest.raises(OutOfBoundsError, match="the view reaches from element"):
            run("kernel", arguments)


@pytest.mark.parametrize(("start", "stride"), [(90, 5), (-1, 1), (3, -2)])
def test_a_strided_view_outside_its_memory_stops_with_the_reference_message(start: int, stride: int) -> None:
    def body(k: Kernel, a: SSAValue, out: SSAValue) -> None:
        k.put(k.tile(k.strided(a, k.const(start), k.ints(1, 4), k.ints(0, stride), buffer(1, 4)), [0, 0], [1, 4]), out)

    message = both_fail(program([buffer(100), buffer(1, 4)], body), [random(rng, (100,)), random(rng, (1, 4))], OutOfBoundsError)
    assert "which has 100" in message
