"""Matrix products of every variant equal NumPy's on odd sizes, any strides and all operand types."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from tests.backends.cpu.native import Array, Native
from tilejit.backends.cpu import schedule
from tilejit.backends.cpu.llvm import text
from tilejit.backends.cpu.llvm.host import Host, host
from tilejit.backends.cpu.llvm.text import Emitter, Index, Module
from tilejit.backends.cpu.products import elements, gemm, short
from tilejit.backends.cpu.products.direct import turned
from tilejit.backends.cpu.products.elements import Elements, accumulator_of
from tilejit.backends.cpu.products.gemm import Gemm, call_gemm, gemm_function, scratch_bytes
from tilejit.backends.cpu.products.kernels import params_of
from tilejit.dtypes import BF16, FP16, FP32, FP64, INT8, INT16, INT32, INT64, UINT8, DType

PARAMS = "ptr a, i64 a_row, i64 a_col, ptr b, i64 b_row, i64 b_col, ptr c, i64 c_row, i64 m, i64 n, i64 k, i1 accumulate, ptr scratch"
SIZES = [(1, 1, 1), (3, 5, 7), (4, 100, 33), (14, 50, 5), (37, 129, 70), (250, 70, 300), (20, 1100, 40), (1, 300, 500), (6, 64, 0), (0, 4, 4), (4, 0, 4)]
Product = Callable[[Array, Array, Array, bool], None]


def product(operand: DType, variant: str | None = None, right: DType | None = None) -> Product:
    """A function (A, B, C, accumulate) that runs the given variant, or the dispatcher."""
    module = Module()
    params = params_of(PARAMS)
    e = Emitter(module, "go", "void", params)
    if variant is None:
        a, a_row, a_col, b, b_row, b_col, c, c_row, m, n, k, accumulate, scratch = params
        call_gemm(e, operand, Gemm((a, a_row, a_col), (b, b_row, b_col), (c, c_row), (m, n, k), accumulate, scratch), right)
    else:
        name = gemm._BUILDERS[variant](module, Elements.of(module, operand, right))
        e.void(f"call void @{name}({', '.join(map(str, [*params, e.context]))})")
    e.void("ret void")
    e.finish()
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    call = Native(module.text()).function("go", *[pointer, number, number] * 2, pointer, *[number] * 4, ctypes.c_bool, pointer)
    return scratch_for(call, lambda m, n, k: scratch_bytes(module, operand, right, m, n, k))


def scratch_for(call: Callable[..., Any], size: Callable[[int, int, int], int]) -> Product:
    """A product with packing memory of just the size it asks for."""

    def run(a: Array, b: Array, c: Array, accumulate: bool) -> None:
        room = size(a.shape[0], b.shape[1], a.shape[1])
        scratch = np.zeros(room + 128, np.uint8)
        aligned = -(-scratch.ctypes.data // 64) * 64
        end = aligned - scratch.ctypes.data + room
        scratch[end:] = 77

        def described(x: Array) -> list[int]:
            return [x.ctypes.data, *(stride // x.itemsize for stride in x.strides)]

        call(*described(a), *described(b), *described(c)[:2], a.shape[0], b.shape[1], a.shape[1], accumulate, aligned)
        assert (scratch[end:] == 77).all(), "the packing memory is overrun"

    return run


def operand_of(dtype: DType, shape: tuple[int, int], order: str, rng: np.random.Generator) -> Array:
    """A random matrix: row-major ("C"), column-major ("F"), or a window with gaps in both directions ("S")."""
    values: Any = rng.normal(size=shape) if dtype.is_float else rng.integers(0 if dtype.kind == "uint" else -100, 100, shape)
    values = values.astype(np.float32 if dtype.is_float else np.int64).astype(dtype.numpy)
    if order != "S":
        return np.array(values, order="C" if order == "C" else "F")
    around = np.zeros((shape[0] * 2, shape[1] * 3), dtype.numpy)
    around[::2, ::3] = values
    return around[::2, ::3]


def check(run: Product, dtype: DType, size: tuple[int, int, int], orders: str, rng: np.random.Generator, right: DType | None = None) -> None:
    m, n, k = size
    a, b = operand_of(dtype, (m, k), orders[0], rng), operand_of(right or dtype, (k, n), orders[1], rng)
    wide = np.float64 if dtype.is_float else np.int64
    held = accumulator_of(dtype).numpy
    before = (rng.normal(size=(m, n + 3)) * 10).astype(held)
    for accumulate in (False, True):
        c = before.copy()
        run(a, b, c[:, :n], accumulate)
        want = a.astype(wide) @ b.astype(wide) + (before[:, :n].astype(wide) if accumulate else 0)
        if dtype.is_float:
            np.testing.assert_allclose(c[:, :n].astype(wide), want, rtol=1e-5, atol=(1e-5 if right is None else 1e-4) * max(1, k))
        else:
            assert np.array_equal(c[:, :n], want.astype(held))
        assert np.array_equal(c[:, n:], before[:, n:]), "cells beside C are touched"


@pytest.mark.parametrize("orders", ["CC", "CF", "FC", "FF", "CS", "SC", "SS"])
@pytest.mark.parametrize("dtype", [FP32, BF16, INT8], ids=str)
def test_the_dispatcher_multiplies_any_sizes_and_strides(dtype: DType, orders: str, products: Callable[..., Product]) -> None:
    rng = np.random.default_rng(1)
    for size in SIZES:
        check(products(dtype, None), dtype, size, orders, rng)


@pytest.mark.parametrize("dtype", [FP32, FP16, BF16, INT8, UINT8, INT16, INT32, INT64], ids=str)
@pytest.mark.parametrize(
    ("variant", "orders"), [("packed", "CC"), ("packed", "FF"), ("direct", "CC"), ("direct", "SC"), ("turned", "CF"), ("stream", "SC"), ("dots", "CF")]
)
def test_every_variant_multiplies_every_operand_type(variant: str, orders: str, dtype: DType, products: Callable[..., Product]) -> None:
    if variant in ("direct", "turned") and not Elements.of(Module(), dtype).plain:
        pytest.skip("reads operands in place, which need no conversion")
    rng = np.random.default_rng(2)
    for size in SIZES if variant != "turned" else [size for size in SIZES if max(size[1:]) <= 256]:
        check(products(dtype, variant), dtype, size, orders, rng)


@pytest.mark.parametrize("dtype", [FP32, FP64, BF16, INT8, INT32], ids=str)
def test_few_rows_multiply_a_deep_b_in_pieces(dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = schedule.gemm
    monkeypatch.setattr(schedule, "gemm", lambda accumulator: replace(chosen(accumulator), deep_piece=100, stream_depth=32))  # pyright: ignore[reportUnknownLambdaType]
    run = product(dtype, "stream")
    for size in (7, 1033, 515), (4, 2050, 101), (12, 70, 333), (3, 50, 700), (8, 64, 100), (5, 1, 0):
        check(run, dtype, size, "SC", np.random.default_rng(7))


@pytest.mark.parametrize("right", [INT8, UINT8], ids=str)
@pytest.mark.parametrize("dtype", [FP32, FP16, BF16], ids=str)
@pytest.mark.parametrize(("variant", "orders"), [(None, "CF"), (None, "SS"), ("packed", "CC"), ("packed", "FF"), ("stream", "SC"), ("dots", "CF")])
def test_bytes_on_the_right_of_floats_are_turned_as_they_are_read(
    variant: str | None, orders: str, dtype: DType, right: DType, products: Callable[..., Product]
) -> None:
    rng = np.random.default_rng(4)
    for size in SIZES:
        check(products(dtype, variant, right), dtype, size, orders, rng, right)


@pytest.mark.parametrize("right", [INT8, UINT8], ids=str)
@pytest.mark.parametrize("level", ["", "avx512", "avx2", "sse"])
def test_every_byte_becomes_the_bf16_that_it_is(level: str, right: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_CPU", level)
    run = product(BF16, "dots", right)
    rng = np.random.default_rng(6)
    deep = 2 * 64 + 32 + 5  # whole tables, whole vectors, and what is left
    b = np.stack([rng.permutation(256) for _ in range(deep)]).astype(np.uint8).view(right.numpy)
    for places in np.array_split(np.arange(deep), 6):  # each row of A picks one of B
        a, c = np.zeros((len(places), deep), BF16.numpy), np.zeros((len(places), 256), np.float32)
        a[np.arange(len(places)), places] = 1
        run(a, np.asfortranarray(b), c, False)
        assert np.array_equal(c, b[places].astype(np.float32))


@pytest.mark.parametrize(("dtype", "right"), [(FP32, FP32), (BF16, BF16), (BF16, INT8)], ids=str)
def test_a_row_has_the_same_sum_alone_and_among_others(dtype: DType, right: DType, products: Callable[..., Product]) -> None:
    rng = np.random.default_rng(5)
    run = products(dtype, "dots", right)
    for rows, deep in ((7, 301), (6, 4096 + 131), (3, 64), (2, 200), (5, 4096)):
        a, b = operand_of(dtype, (rows, deep), "C", rng), operand_of(right, (deep, 13), "F", rng)
        together, alone = np.zeros((rows, 13), np.float32), np.zeros((rows, 13), np.float32)
        run(a, b, together, False)
        for row in range(rows):
            run(a[row : row + 1], b, alone[row : row + 1], False)
        assert np.array_equal(together, alone)
        most = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
        assert (np.abs(together - a.astype(np.float64) @ b.astype(np.float64)) <= 1e-6 * most).all()


def test_blocks_are_carried_on_over_all_cache_blocks(products: Callable[..., Product]) -> None:
    check(products(FP32, "packed"), FP32, (490, 1090, 530), "CC", np.random.default_rng(3))


def test_integer_products_wrap_like_their_accumulator(products: Callable[..., Product]) -> None:
    a = np.full((7, 9), 2**30 + 3, np.int32)
    c = np.zeros((7, 7), np.int32)
    products(INT32, None)(a, a.T, c, False)
    assert np.array_equal(c, (a.astype(object) @ a.T.astype(object) & 0xFFFFFFFF).astype(np.uint32).view(np.int32))


@pytest.mark.parametrize(
    ("a", "b", "sizes", "expected"),
    [
        ((64, 1), (64, 1), (64, 64, 64), "gemm.FP32.direct"),
        ((4096, 1), (4096, 1), (512, 4096, 4096), "gemm.FP32.packed"),
        ((1, 64), (1, 65), (64, 62, 63), "gemm.FP32.turned.65.62.63"),
        ((1, 512), (1, 512), (64, 512, 64), "gemm.FP32.packed"),
        ((4096, 1), (4096, 1), (1, 4096, 4096), "gemm.FP32.stream"),
        ((4096, 1), (1, 4096), (1, 4096, 4096), "gemm.FP32.dots"),
    ],
)
def test_known_sizes_and_strides_leave_one_variant(a: tuple[Index, Index], b: tuple[Index, Index], sizes: tuple[Index, Index, Index], expected: str) -> None:
    module = Module()
    assert gemm_function(module, FP32, a, b, sizes) == expected


@pytest.mark.parametrize(
    ("m", "b", "n", "k", "expected"),
    [
        (1, (1, 64), 256, 64, "short_dots.64"), (1, (1, 65), 256, 64, "dots"), (3, (1, 64), 256, 64, "dots"), (1, (1, 60), 256, 60, "dots"),
        (1, (64, 1), 64, 256, "short_stream.64"), (3, (50, 1), 50, 256, "short_stream.50"), (1, (65, 1), 64, 256, "stream"), (5, (64, 1), 64, 256, "stream"),
    ],
)  # fmt: skip
def test_short_rows_and_columns_in_one_line_have_functions_of_their_own(m: int, b: tuple[Index, Index], n: int, k: int, expected: str) -> None:
    if host().vector_registers < 32:
        pytest.skip("there are registers for fewer")
    assert gemm_function(Module(), FP32, (k, 1), b, (m, n, k)) == f"gemm.FP32.{expected}"


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize(("variant", "size"), [
    ("stream", (1, 64, 256)), ("stream", (3, 50, 301)), ("stream", (2, 31, 50)), ("stream", (1, 1, 129)), ("stream", (1, 16, 0)),
    ("dots", (1, 256, 64)), ("dots", (1, 37, 16)), ("dots", (1, 15, 32)), ("dots", (1, 0, 16)),
])  # fmt: skip
@pytest.mark.parametrize("dtype", [FP32, FP64, INT32], ids=str)
def test_short_rows_and_columns_have_the_sums_of_others(
    dtype: DType, variant: str, size: tuple[int, int, int], accumulate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    m, n, k = size
    kind = Elements.of(Module(), dtype)
    if not (short.takes_rows(n, kind) if variant == "stream" else short.takes_columns(k, kind)):
        pytest.skip("there are registers for fewer")
    rng = np.random.default_rng(0)
    a, b = operand_of(dtype, (m, k), "C", rng), operand_of(dtype, (k, n), "C" if variant == "stream" else "F", rng)
    found: list[Array] = [np.full((m, n), 9, dtype.numpy) for _ in range(2)]
    product(dtype, variant)(a, b, found[0], accumulate)
    ours = (lambda module, kind: short.stream(module, kind, n)) if variant == "stream" else (lambda module, kind: short.dots(module, kind, k))
    monkeypatch.setitem(gemm._BUILDERS, variant, ours)
    product(dtype, variant)(a, b, found[1], accumulate)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], a @ b + 9 * accumulate, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [(20, 64, 64), (33, 50, 31), (40, 7, 256), (9, 255, 17), (32, 128, 64)])
def test_what_is_known_of_a_transposed_b_changes_no_sum(size: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    m, n, k = size
    rng = np.random.default_rng(0)
    a, b = operand_of(FP32, (m, k), "C", rng), np.zeros((n, k + 3), np.float32)[:, :k].T
    b[:] = rng.normal(size=(k, n))
    found = [np.full((m, n), 9, np.float32) for _ in range(2)]
    product(FP32, "turned")(a, b, found[0], False)
    monkeypatch.setitem(gemm._BUILDERS, "turned", lambda module, kind: turned(module, kind, (k + 3, n, k)))
    product(FP32, "turned")(a, b, found[1], False)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], a @ b, rtol=1e-4, atol=1e-4)


def test_compiled_products_need_nothing_from_outside() -> None:
    module = Module()
    params = params_of(PARAMS)
    e = Emitter(module, "go", "void", params)
    name = gemm_function(module, BF16, (params[1], params[2]), (params[4], params[5]), (params[8], params[9], params[10]))
    e.void(f"call void @{name}({', '.join(map(str, [*params, e.context]))})")
    e.void("ret void")
    e.finish()
    assembly = Native(module.text()).compiled.assembly
    called = {line.split()[1] for line in assembly.splitlines() if line.strip().startswith(("callq", "call\t"))}
    assert not {name for name in called if not name.strip('"').startswith(("gemm.", "tj.look", "*"))}
    assert ".data" not in assembly and ".bss" not in assembly


@pytest.fixture(scope="module")
def products() -> Callable[..., Product]:
    """Compiled products, each made once."""
    made: dict[tuple[DType, str | None, DType | None], Product] = {}

    def get(dtype: DType, variant: str | None, right: DType | None = None) -> Product:
        if (dtype, variant, right) not in made:
            made[dtype, variant, right] = product(dtype, variant, right)
        return made[dtype, variant, right]

    return get


@pytest.mark.parametrize(("variant", "orders"), [("packed", "CF"), ("direct", "CC"), ("stream", "CC"), ("dots", "CF")])
def test_older_processors_multiply_too(variant: str, orders: str, older_host: Host) -> None:
    for dtype in (FP32,) if variant == "direct" else (FP32, BF16, INT8):
        run = product(dtype, variant)
        for size in SIZES[::2]:
            check(run, dtype, size, orders, np.random.default_rng(4))


@pytest.mark.parametrize("dtype", [INT8, UINT8], ids=str)
@pytest.mark.parametrize(("variant", "orders"), [("packed", "CC"), ("stream", "CC"), ("dots", "CF")])
def test_bytes_are_multiplied_exactly_at_the_ends_of_their_range(variant: str, orders: str, dtype: DType, products: Callable[..., Product]) -> None:
    rng = np.random.default_rng(6)
    low, high = (-128, 127) if dtype is INT8 else (0, 255)
    a, b = (rng.choice([low, low + 1, high - 1, high], shape).astype(dtype.numpy) for shape in ((7, 515), (515, 70)))
    c = np.zeros((7, 70), np.int32)
    products(dtype, variant)(a, np.asfortranarray(b) if orders[1] == "F" else b, c, False)
    assert np.array_equal(c, a.astype(np.int64) @ b.astype(np.int64))


def test_what_is_not_finite_stays_in_its_row_and_column(products: Callable[..., Product]) -> None:
    """An odd depth: the last word is half empty, and an empty half must not meet an infinity."""
    rng = np.random.default_rng(7)
    for variant, order in (("packed", "C"), ("stream", "C"), ("dots", "F")):
        a, b = operand_of(BF16, (5, 67), "C", rng), operand_of(BF16, (67, 66), order, rng)
        a[2, 66], b[66, 9] = np.inf, np.nan
        c = np.zeros((5, 66), np.float32)
        products(BF16, variant)(a, b, c, False)
        wide = a.astype(np.float64) @ b.astype(np.float64)
        assert np.array_equal(np.isnan(c), np.isnan(wide)) and np.array_equal(np.isinf(c), np.isinf(wide))


@pytest.mark.parametrize("level", ["dot", "avx512", "avx2"])
def test_the_setting_names_the_most_that_code_may_use(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = host()
    if not whole.has("avx512bf16"):
        pytest.skip("the processor has no more than that")
    monkeypatch.setenv("TILEJIT_CPU", level)
    module = Module()
    name = gemm_function(module, BF16, (2048, 1), (2048, 1), (512, 2048, 2048))
    assembly = Native(module.text().replace("internal void @" + name, "void @" + name)).compiled.assembly
    assert ("vdpbf16ps" in assembly, "zmm" in assembly) == {"dot": (True, True), "avx512": (False, True), "avx2": (False, False)}[level]


@pytest.mark.parametrize(("dtype", "instruction"), [(BF16, "bfdot"), (INT8, "sdot"), (UINT8, "udot")], ids=str)
def test_arm_processors_multiply_words_too(dtype: DType, instruction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as it can be told without one: the code is written and assembled."""
    arm = Host("aarch64-unknown-linux-gnu", "generic", "+neon,+bf16,+dotprod")
    for module in (elements, text, schedule):
        monkeypatch.setattr(module, "host", lambda: arm)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(arm.triple).create_target_machine(cpu=arm.cpu, features=arm.features, opt=2)
    for variant in ("packed", "stream", "dots"):
        written = Module()
        gemm._BUILDERS[variant](written, Elements.of(written, dtype))
        parsed = llvm.parse_assembly(written.text().replace("define internal", "define"))
        parsed.triple = arm.triple
        assert f"\t{instruction}\t" in machine.emit_assembly(parsed), variant
