"""Forms that are legal though unusual are accepted, and both ways of running them do what NumPy does."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.pto.harness import HERE, NDArray, Text, close, program_of, run_text
from tilejit.errors import OutOfBoundsError
from tilejit.frontend.pto.text import parse_pto
from tilejit.tile_ir.pto.verify import verify

RNG = np.random.default_rng(12)
ARCHITECTURES = ["a3", "a5"]
f32, f16 = np.float32, np.float16
ACC = ", blayout=col_major, slayout=row_major, fractal=1024"


def floats(*shape: int, dtype: type = f32) -> NDArray:
    return (RNG.standard_normal(shape) * 2).astype(dtype)


# row expands ------------------------------------------------------------------------------------------------------------------

EXPANDS = {"mul": np.multiply, "div": np.divide, "sub": np.subtract}


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", EXPANDS)
@pytest.mark.parametrize("form", ["column", "block", "legacy", "square"])
def test_the_first_operand_of_a_row_expand_may_be_the_line(arch: str, name: str, form: str) -> None:
    cols = 8 if form == "square" else 24
    shape, valid, more = ((16, 8), (16, 8 if form == "block" else 1), "") if form != "column" else ((16, 1), (16, 1), ", blayout=col_major")
    text = Text(arch)
    line, whole, out = text.tile("a", shape, "f32", valid, more), text.tile("b", (16, cols), "f32"), text.tile("d", (16, cols), "f32")
    text.op(f"trowexpand{name}", {"a": line, "b": whole}, {"d": out})
    text.store("d", out, (16, cols), "f32")
    a, b, d = floats(*valid), floats(16, cols) + f32(9), floats(16, cols)
    run_text(str(text), a, b, d, native=True)
    close(d, EXPANDS[name](np.resize(np.tile(a, 3), (16, cols)) if form == "block" else a, b), 1e-6)


# products -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("form", ["", ".acc", ".bias"])
def test_products_of_one_row_go_by_their_valid_regions(arch: str, form: str) -> None:
    text = Text(arch)
    left, right = text.operand("a", "left", (16, 64), "f16", (1, 40)), text.operand("b", "right", (48, 32), "f16", (40, 24))
    out, part = text.alloc("d", (16, 48), "f32", (1, 24), ACC, "acc"), text.view("d", (1, 24), "f32")
    text.op("tgemv", {"a": left, "b": right}, {"d": out})
    a, b, d, bias = floats(1, 40, dtype=f16), floats(40, 24, dtype=f16), floats(1, 24), floats(1, 24)
    arguments, wanted = [a, b, d], a.astype(f32) @ b.astype(f32)
    if form == ".acc":
        more = text.alloc("e", (32, 32), "f32", (1, 24), ACC, "acc")
        text.op("tgemv.acc", {"d": out, "a": left, "b": right}, {"e": more})
        out, wanted = more, 2 * wanted
        text.lines.append(f"pto.tstore ins(%e : {out}) outs(%s_d : {part})")
    else:
        if form == ".bias":
            row = text.operand("c", "bias", (1, 64), "f32", (1, 24))
            text.op("tgemv.bias", {"a": left, "b": right, "c": row}, {"d": out})
            arguments, wanted = [a, b, d, bias], wanted + bias
        text.store("d", out, (1, 24), "f32")
    run_text(str(text), *arguments, native=True)
    close(d, wanted, 1e-4)


FP8 = {"f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2, "f16": f16, "bf16": ml_dtypes.bfloat16}
SCALE = ml_dtypes.float8_e8m0fnu


@pytest.mark.parametrize("name", ["tmatmul.mx", "tmatmul.mx.acc", "tmatmul.mx.bias", "tgemv.mx", "tgemv.mx.acc", "tgemv.mx.bias"])
@pytest.mark.parametrize(("elements", "inner"), [(("f8E4M3FN", "f8E4M3FN"), 64), (("f8E5M2", "f8E4M3FN"), 40), (("f16", "f16"), 64), (("bf16", "bf16"), 32)])
def test_scaled_products_are_machine_code(name: str, elements: tuple[str, str], inner: int) -> None:
    rows, cols = (1, 24) if "gemv" in name else (16, 24)
    if "gemv" not in name and elements[0] in ("f16", "bf16"):
        elements = ("f8E5M2", "f8E5M2")
    blocks = -(-inner // 32)
    text = Text("a5")
    left, right = text.operand("a", "left", (16, 64), elements[0], (rows, inner)), text.operand("b", "right", (64, 32), elements[1], (inner, cols))
    x, y = text.operand("x", "scaling", (16, 2), "!pto.f8E8M0", (rows, blocks)), text.operand("y", "scaling", (2, 32), "!pto.f8E8M0", (blocks, cols))
    out = text.alloc("d", (16, 32), "f32", (rows, cols), ACC, "acc")
    text.view("d", (rows, cols), "f32")
    a, b = floats(rows, inner).astype(FP8[elements[0]]), floats(inner, cols).astype(FP8[elements[1]])
    scales = [(2.0 ** RNG.integers(-3, 4, shape)).astype(SCALE) for shape in ((rows, blocks), (blocks, cols))]
    d, bias = floats(rows, cols), floats(1, 32)
    arguments = [a, b, *scales, d]
    spread = [np.repeat(scale.astype(f32), 32, axis) for axis, scale in zip((1, 0), scales)]
    product = (a.astype(f32) * spread[0][:, :inner]) @ (b.astype(f32) * spread[1][:inner])
    operands = {"a": left, "x": x, "b": right, "y": y}
    if name.endswith(".acc"):
        text.op(name.removesuffix(".acc"), operands, {"d": out})
        text.op(name, {"d": out, **operands}, {"d": out})
        product = 2 * product
    elif name.endswith(".bias"):
        row = text.operand("c", "bias", (1, 32), "f32")
        text.op(name, {**operands, "c": row}, {"d": out})
        arguments.append(bias)
        product = product + bias[:, :cols]
    else:
        text.op(name, operands, {"d": out})
    text.store("d", out, (rows, cols), "f32")
    run_text(str(text), *arguments, native=True)
    close(d, product, 1e-3)


def opened(text: Text, name: str, loc: str, shape: tuple[int, int], element: str, sizes: tuple[str, str], more: str) -> str:
    """A tile whose extents the run says; operands come from a parameter through mat memory."""
    layouts = {"mat": ", blayout=col_major, slayout=row_major", loc: more}
    types = [f"!pto.tile_buf<{place}, {shape[0]}x{shape[1]}x{element}, valid=?x?{layout}>" for place, layout in layouts.items()]
    given = f"valid_row = {sizes[0]} valid_col = {sizes[1]}"
    text.lines.append(f"%{name} = pto.alloc_tile {given} : {types[1]}")
    if loc != "acc":
        part = text.view(name, shape, element)
        text.lines.append(f"%{name}_mat = pto.alloc_tile {given} : {types[0]}")
        text.lines.append(f"pto.tload ins(%s_{name} : {part}) outs(%{name}_mat : {types[0]})")
        text.lines.append(f"pto.tmov ins(%{name}_mat : {types[0]}) outs(%{name} : {types[1]})")
    return types[1]


@pytest.mark.parametrize("size", [(16, 64, 24), (11, 40, 21), (1, 5, 1)])
@pytest.mark.parametrize("element", ["f32", "i8"])
def test_scaled_products_of_sizes_that_only_the_run_knows(size: tuple[int, int, int], element: str) -> None:
    """Twice added up; as single floats, or as small numbers with one scale per column."""
    (m, k, n), text, fp8 = size, Text("a5"), ml_dtypes.float8_e4m3fn
    text.names += ["%m: index", "%k: index", "%n: index"]
    left = opened(text, "a", "left", (16, 64), "f8E4M3FN", ("%m", "%k"), ", blayout=col_major, slayout=row_major")
    right = opened(text, "b", "right", (64, 32), "f8E4M3FN", ("%k", "%n"), ", slayout=col_major")
    x, y = text.operand("x", "scaling", (16, 2), "!pto.f8E8M0"), text.operand("y", "scaling", (2, 32), "!pto.f8E8M0")
    out = opened(text, "d", "acc", (16, 32), "f32", ("%m", "%n"), ACC)
    text.op("tmatmul.mx", {"a": left, "x": x, "b": right, "y": y}, {"d": out})
    text.op("tmatmul.mx.acc", {"d": out, "a": left, "x": x, "b": right, "y": y}, {"d": out})
    scale = text.operand("f", "scaling", (1, 24), "f32")
    view, part = text.view("o", (16, 32), element).replace("partition_", "").replace("16x32", "?x?"), f"!pto.partition_tensor_view<?x?x{element}>"
    text.lines.append(f"%so = pto.partition_view %v_o, offsets = [%zero, %zero], sizes = [%m, %n] : {view} -> {part}")
    stored = f"tstore ins(%d : {out})" if element == "f32" else f"tstore_fp ins(%d, %f : {out}, {scale})"
    text.lines.append(f"pto.{stored} outs(%so : {part})")
    a, b, by = floats(16, 64).astype(fp8), floats(64, 32).astype(fp8), np.abs(floats(1, 24))
    scales = [(2.0 ** RNG.integers(-3, 4, shape)).astype(SCALE) for shape in ((16, 2), (2, 32))]
    o = np.ones((16, 32), f32 if element == "f32" else np.int8)
    run_text(str(text), m, k, n, a, b, *scales, by, o, native=True)
    sides = [side.astype(f32) * np.repeat(factor.astype(f32), 32, axis) for side, factor, axis in zip((a, b), scales, (1, 0))]
    wanted = 2 * (sides[0][:m, :k] @ sides[1][:k, :n])
    close(o[:m, :n], wanted if element == "f32" else np.clip(np.rint(wanted * by[:, :n]), -128, 127), 1e-5)
    assert (o[m:] == 1).all() and (o[:, n:] == 1).all()


# what leaves the accumulator ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(("element", "dtype"), [("f16", f16), ("i8", np.int8), ("bf16", ml_dtypes.bfloat16)])
def test_one_scale_for_each_valid_column(arch: str, element: str, dtype: type) -> None:
    text = Text(arch)
    left, right = text.operand("a", "left", (16, 32), "f16", (11, 32)), text.operand("b", "right", (32, 32), "f16", (32, 21))
    scale, out = text.operand("f", "scaling", (1, 24), "f32", (1, 21)), text.alloc("d", (16, 32), "f32", (11, 21), ACC, "acc")
    part = text.view("d", (11, 21), element)
    text.op("tmatmul", {"a": left, "b": right}, {"d": out})
    text.lines.append(f"pto.tstore_fp ins(%d, %f : {out}, {scale}) outs(%s_d : {part})")
    a, b, by, d = floats(11, 32, dtype=f16), floats(32, 21, dtype=f16), np.abs(floats(1, 21)), np.ones((11, 21), dtype)
    run_text(str(text), a, b, by, d, native=True)
    wanted = (a.astype(f32) @ b.astype(f32)) * by
    if dtype is np.int8:
        assert np.abs(d - np.clip(np.rint(wanted), -128, 127)).max() <= 1
    else:
        close(d, wanted.astype(dtype), 2e-2)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_whole_numbers_leave_the_accumulator_as_halves(arch: str) -> None:
    text = Text(arch)
    left, right = text.operand("a", "left", (16, 64), "i8"), text.operand("b", "right", (64, 32), "i8")
    out = text.alloc("d", (16, 32), "i32", None, ACC, "acc")
    text.view("d", (16, 32), "f16")
    text.op("tmatmul", {"a": left, "b": right}, {"d": out})
    text.store("d", out, (16, 32), "f16")
    a, b, d = (RNG.integers(-128, 128, shape).astype(np.int8) for shape in ((16, 64), (64, 32), (16, 32)))
    d = d.astype(f16)
    run_text(str(text), a, b, d, native=True)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(d, (a.astype(np.int32) @ b.astype(np.int32)).astype(f32).astype(f16))


# vector ops -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("valid", [(8, 32), (5, 13)])
def test_halves_add_up_in_single_precision(arch: str, valid: tuple[int, int]) -> None:
    text = Text(arch)
    source, out = text.tile("a", (8, 32), "f16", valid), text.tile("d", (8, 32), "f32", valid)
    text.lines.append("%s = arith.constant 3.300000e-01 : f16")
    text.op("taxpy", {"a": source, "s": "f16"}, {"d": out})
    text.store("d", out, valid, "f32")
    a, d = floats(*valid, dtype=f16), floats(*valid)
    wanted = d + a.astype(f32) * f32(f16(0.33))
    run_text(str(text), a, d, native=True)
    np.testing.assert_allclose(d, wanted, rtol=1e-6, atol=1e-6)


SELECTED = {"f32": f32, "f16": f16, "i16": np.int16, "i32": np.int32, "i8": np.int8}


@pytest.mark.parametrize(("element", "dtype", "arch"), [(*item, arch) for item in SELECTED.items() for arch in ("a3", "a5") if (item[0], arch) != ("i8", "a3")])
@pytest.mark.parametrize("number", [-7, 70000])
def test_a_selection_takes_a_whole_number_of_32_bits(element: str, dtype: type, arch: str, number: int) -> None:
    text = Text(arch)
    mask, source, out = text.tile("m", (8, 32), "ui8"), text.tile("a", (8, 32), element), text.tile("d", (8, 32), element)
    text.lines.append(f"%s = arith.constant {number} : i32")
    text.op("tsels", {"m": mask, "a": source, "a_": source, "s": "i32"}, {"d": out})
    text.store("d", out, (8, 32), element)
    a, d = RNG.integers(-9, 9, (8, 32)).astype(dtype), np.zeros((8, 32), dtype)
    run_text(str(text), np.zeros((8, 32), np.uint8), a, d, native=True)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(d, np.full((8, 32), np.int32(number).astype(dtype)))


@pytest.mark.parametrize("width", [24, 64, 128, 200])
def test_a_sort_keeps_as_many_records_as_there_is_room_for(width: int) -> None:
    text = Text()
    source, index, out = text.tile("a", (3, 64), "f32"), text.tile("i", (3, 64), "ui32"), text.tile("d", (3, width), "f32")
    text.op("tsort32", {"a": source, "i": index}, {"d": out})
    text.store("d", out, (3, width), "f32")
    a, i = RNG.integers(0, 9, (3, 64)).astype(f32), RNG.permutation(192).reshape(3, 64).astype(np.uint32)
    d = np.full((3, width), 7, f32)
    run_text(str(text), a, i, d, native=True)
    for row in range(3):
        order = np.concatenate([start + np.argsort(-a[row, start : start + 32], kind="stable") for start in (0, 32)])
        kept = min(width, 128)
        np.testing.assert_array_equal(d[row, 0:kept:2], a[row, order][: kept // 2])
        np.testing.assert_array_equal(d[row, 1:kept:2].view(np.uint32), i[row, order][: kept // 2])
        assert (d[row, kept:] == 7).all()


def test_a_merge_may_name_a_vector_for_its_counts() -> None:
    text = (HERE / "kernels" / "merge_lists.pto").read_text()
    old = "outs(%o0 : !pto.tile_buf<vec, 1x160xf32>)"
    assert old in text
    text = text.replace("  %c0 = ", "  %e = arith.constant dense<0> : vector<4xi16>\n    %c0 = ", 1)
    text = text.replace(old, "outs(%o0, %e : !pto.tile_buf<vec, 1x160xf32>, vector<4xi16>)")
    lists = [np.stack((-np.sort(-floats(n)), floats(n)), 1).reshape(1, -1) for n in (32, 32, 16)]
    out = floats(1, 160)
    run_text(text, *lists, out, native=True)
    np.testing.assert_array_equal(out[0, ::2], -np.sort(-np.concatenate([part[0, ::2] for part in lists])))


# views, handles and FIFOs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["nd", "dn", "nz"])
@pytest.mark.parametrize("written", ["nd", "dn", "nz"])
def test_a_load_may_say_the_layout(layout: str, written: str) -> None:
    """It wins over that of the view."""
    text = (HERE / "kernels" / f"view_5d_{written}.pto").read_text()
    load = next(line for line in text.splitlines() if "pto.tload" in line)
    own = (HERE / "kernels" / f"view_5d_{layout}.pto").read_text()
    kernels = [program_of(text.replace(load, f"{load} {{layout = #pto.layout<{layout}>}}")), program_of(own)]
    results: list[NDArray] = []
    types = kernels[0].entry.body.block.arg_types
    for kernel in kernels:
        arrays = [np.arange(1 << 16, dtype=f32), np.zeros(1 << 16, f32)]
        assert len(types) == 2
        kernel.launch(arrays, 1)
        results.append(arrays[1])
    assert results[0].any()
    assert layout != written or (results[0] == results[1]).all()


def test_bound_tiles_may_have_extents_of_the_run() -> None:
    text = """func.func @k(%m: memref<16x16xf32>, %r: index, %c: index) {
  %a = pto.bind_tile %m, %r, %c {config = 1 : i32} : memref<16x16xf32> -> memref<16x16xf32>
  %b = pto.bind_tile %m, %r {config = 1 : i32} : memref<16x16xf32> -> memref<16x16xf32>
  %d = pto.bind_tile %m {config = 1 : i32} : memref<16x16xf32> -> memref<16x16xf32>
  return
}"""
    file = parse_pto(text)
    verify(file)
    assert parse_pto(file.print()).module.is_structurally_equivalent(file.module)
    bound = [op for op in file.module.walk() if op.name == "pto.bind_tile"]
    assert [len(op.operands) for op in bound] == [3, 2, 1]


BEYOND = """module {{
  func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %i: index, %j: index, %w: index, %ld: index) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %vx = pto.make_tensor_view %x, shape = [%c4, %w], strides = {strides} : !pto.tensor_view<?x?xf32>
    %vy = pto.make_tensor_view %y, shape = [%c4, %c8], strides = [%c8, %c1] : !pto.tensor_view<?x?xf32>
    %sx = pto.partition_view %vx, offsets = [%i, %j], sizes = [%c4, %c8] : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<4x8xf32>
    %sy = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c4, %c8] : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<4x8xf32>
    %a = pto.alloc_tile : !pto.tile_buf<vec, 4x8xf32>
    pto.tload ins(%sx : !pto.partition_tensor_view<4x8xf32>) outs(%a : !pto.tile_buf<vec, 4x8xf32>)
    pto.tstore ins(%a : !pto.tile_buf<vec, 4x8xf32>) outs(%sy : !pto.partition_tensor_view<4x8xf32>)
    return
  }}
}}
"""


@pytest.mark.parametrize("strides", ["[%ld, %c1]", "[%c1, %ld]"])
@pytest.mark.parametrize(("i", "j"), [(0, 0), (3, 0), (0, 9), (5, 11), (1, 1), (9, 0), (-1, 3), (0, -1), (1 << 62, 1 << 62), (3, 1 << 61)])
def test_a_slice_beyond_its_view_is_a_matter_of_the_memory_behind_it(strides: str, i: int, j: int) -> None:
    """Addresses go on where the extents of the view end; what counts is whether the array has them."""
    x, w, ld = np.arange(200, dtype=f32), 8, 16
    steps = (ld, 1) if strides.startswith("[%ld") else (1, ld)
    kernel = program_of(BEYOND.format(strides=strides))
    assert kernel.native is not None, kernel.interpreted_because
    last = (i + 3) * steps[0] + (j + 7) * steps[1]
    for run in (kernel.launch, kernel.interpret):
        y = np.full((4, 8), -1, f32)
        if i >= 0 and j >= 0 and last < x.size:
            run([x, y, i, j, w, ld], 1)
            np.testing.assert_array_equal(y, x[(i + np.arange(4))[:, None] * steps[0] + (j + np.arange(8)) * steps[1]])
        else:
            with pytest.raises(OutOfBoundsError) as caught:
                run([x, y, i, j, w, ld], 1)
            assert caught.value.span is not None and "partition_view" in caught.value.source_lines[0]
            assert (y == -1).all()
