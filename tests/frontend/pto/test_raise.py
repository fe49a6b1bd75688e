"""PTO kernels run as machine code, and give what the interpreter gives."""

from __future__ import annotations

import numpy as np
import pytest

from tests.pto import random_kernels, random_views
from tests.pto.harness import HERE, KERNELS, load, run_text
from tilejit.backends.pto.interpret.launch import launch
from tilejit.errors import InternalError, OutOfBoundsError, UnsupportedFeatureError
from tilejit.jit.pto.program import PtoProgram

RNG = np.random.default_rng(23)

def program(name: str) -> PtoProgram:
    file = load(name)
    (entry,) = file.entries()
    return PtoProgram(file, entry, tuple(argument.name_hint or f"a{i}" for i, argument in enumerate(entry.body.block.args)))


INTERPRETED = {"printed"}
"""The kernels of the folder that stay with the interpreter: printing is all that keeps them there."""


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_of_the_folder_is_machine_code_or_known_not_to_be(name: str) -> None:
    # That it computes what the interpreter computes is checked wherever a test runs it (harness.run).
    kernel = program(name)
    assert (kernel.native is None) == (name in INTERPRETED), kernel.interpreted_because


@pytest.mark.parametrize("seed", range(24))
def test_random_kernels_agree(seed: int) -> None:
    random_kernels.check(seed)


@pytest.mark.parametrize("seed", range(12))
def test_random_views_agree(seed: int) -> None:
    random_views.check(seed)


def test_tiles_at_fixed_addresses_are_carried_by_loops() -> None:
    kernel = program("level3_loop")
    a, out = RNG.standard_normal((80, 32)).astype(np.float32), np.ones((16, 32), np.float32)
    kernel.launch([a, out, 5], 1)
    assert kernel.interpreted_because is None
    np.testing.assert_allclose(out, a.reshape(5, 16, 32).sum(0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("square", [True, False])
@pytest.mark.parametrize("native", [True, False])
def test_reductions_expands_and_branches(square: bool, native: bool) -> None:
    kernel = program("normalise")
    a, g, out = np.abs(RNG.standard_normal((16, 32))).astype(np.float32), RNG.standard_normal((1, 32)).astype(np.float32), np.ones((16, 32), np.float16)
    if native:
        kernel.launch([a, g, out, square], 1)
        assert kernel.interpreted_because is None
    else:
        launch(kernel.file, kernel.entry, kernel.names, [a, g, out, square], 1)
    t = a * a if square else a
    np.testing.assert_allclose(out.astype(np.float32), t / t.sum(1, keepdims=True) * g, rtol=2e-3, atol=1e-3)


def test_what_is_interpreted_says_why() -> None:
    kernel = program("printed")
    assert kernel.native is None
    assert "pto.print" in (kernel.interpreted_because or "")


def test_overlapping_arrays_are_interpreted_in_program_order() -> None:
    kernel = program("scale2")
    x = RNG.standard_normal((16, 16)).astype(np.float32)
    wanted = 2 * x
    kernel.launch([x, x], 1)
    np.testing.assert_array_equal(x, wanted)


def test_a_view_outside_its_array_is_an_error_in_both() -> None:
    kernel = program("scale2")
    short, out = np.ones(255, np.float32), np.ones(256, np.float32)
    for run in (kernel.launch, lambda values, grid: launch(kernel.file, kernel.entry, kernel.names, values, grid)):
        with pytest.raises(OutOfBoundsError, match="`src`") as caught:
            run([short, out], 1)
        assert caught.value.span is not None and "make_tensor_view" in caught.value.source_lines[0]
        assert (out == 1).all()


def test_a_hundred_loops_in_a_row_compile() -> None:
    # LLVM's redundancy elimination aborts the process on such functions: it must not see them.
    text = (HERE / "kernels" / "scale2.pto").read_text()
    line = next(line for line in text.splitlines() if "pto.tstore" in line)
    muls = next(line for line in text.splitlines() if "pto.tmuls" in line)
    x, y = RNG.standard_normal((2, 16, 16)).astype(np.float32)
    run_text(text.replace(line, "\n".join([line, muls] * 110 + [line])), x, y)
    np.testing.assert_array_equal(y, np.float32(2.0) ** 111 * x)


OPEN = "!pto.tile_buf<vec, 16x32xf32, valid=?x?>"
COLUMN = "!pto.tile_buf<vec, 16x1xf32, valid=?x1, blayout=col_major>"
LINE = "!pto.tile_buf<vec, 1x32xf32, valid=1x?>"
NUMBERS, BITS, SMALL = "!pto.tile_buf<vec, 16x32xi32, valid=?x?>", "!pto.tile_buf<vec, 16x32xui8>", "!pto.tile_buf<vec, 16x32xi8, valid=?x?>"
EIGHTS = ("!pto.partition_tensor_view<16x8xf32>", "!pto.tile_buf<vec, 16x8xf32>")
OPEN_OPS = {
    "binary": f"pto.tmax ins(%a, %b : {OPEN}, {OPEN}) outs(%d : {OPEN})",
    "scalar": f"pto.tmins ins(%a, %f : {OPEN}, f32) outs(%d : {OPEN})",
    "axpy": f"pto.taxpy ins(%a, %f : {OPEN}, f32) outs(%d : {OPEN})",
    "fill": f"pto.texpands ins(%f : f32) outs(%d : {OPEN})",
    "row max": f"pto.trowmax ins(%a : {OPEN}) outs(%c : {COLUMN})\n pto.trowexpandsub ins(%a, %c : {OPEN}, {COLUMN}) outs(%d : {OPEN})",
    "row expand": f"pto.trowsum ins(%a : {OPEN}) outs(%c : {COLUMN})\n pto.trowexpand ins(%c : {COLUMN}) outs(%d : {OPEN})",
    "col min": f"pto.tcolmin ins(%a : {OPEN}) outs(%l : {LINE})\n pto.tcolexpandmul ins(%b, %l : {OPEN}, {LINE}) outs(%d : {OPEN})",
    "col expand": f"pto.tcolsum ins(%a : {OPEN}) outs(%l : {LINE})\n pto.tcolexpand ins(%l : {LINE}) outs(%d : {OPEN})",
    "part": f"pto.set_validshape %b, %two, %w : {OPEN}\n pto.tpartadd ins(%a, %b : {OPEN}, {OPEN}) outs(%d : {OPEN})",
    "compare": f"pto.tcmp ins(%a, %b {{cmpMode = #pto<cmp gt>}} : {OPEN}, {OPEN}) outs(%m8 : {BITS})\n"
    f" pto.tsels ins(%m8, %a, %f : {BITS}, {OPEN}, f32) outs(%d : {OPEN})",
    "convert": f"pto.tcvt ins(%a {{rmode = #pto<round_mode FLOOR>}} : {OPEN}) outs(%i : {NUMBERS})\n pto.tcvt ins(%i : {NUMBERS}) outs(%d : {OPEN})",
    "triangle": f"%one32 = arith.constant 1 : i32\n pto.ttri ins(%one32 {{upperOrLower = 1}} : i32) outs(%d : {OPEN})",
    "quantise": f"%sp = pto.partition_view %vb, offsets = [%c0, %c0], sizes = [%c16, %c8] : !pto.tensor_view<?x?xf32> -> {EIGHTS[0]}\n"
    f" %p = pto.alloc_tile : {EIGHTS[1]}\n pto.tload ins(%sp : {EIGHTS[0]}) outs(%p : {EIGHTS[1]})\n"
    f" pto.tquant ins(%a, %p : {OPEN}, {EIGHTS[1]}) outs(%q : {SMALL}) {{quant_type = #pto<quant_type INT8_SYM>}}\n"
    f" pto.tdequant ins(%q, %p, %p : {SMALL}, {EIGHTS[1]}, {EIGHTS[1]}) outs(%d : {OPEN})",
    "concat": f"pto.set_validshape %a, %rows, %two : {OPEN}\n pto.set_validshape %b, %rows, %two : {OPEN}\n"
    f" pto.tconcat ins(%a, %b : {OPEN}, {OPEN}) outs(%d : {OPEN})",
}  # fmt: skip


@pytest.mark.parametrize("size", [(5, 7), (16, 32), (1, 1)])
@pytest.mark.parametrize("name", OPEN_OPS)
def test_ops_on_regions_that_only_the_run_knows(name: str, size: tuple[int, int]) -> None:
    slice_type, view = "!pto.partition_tensor_view<16x32xf32>", "!pto.tensor_view<?x?xf32>"
    allocs = "".join(f" %{n} = pto.alloc_tile valid_row = %rows valid_col = %w : {OPEN}\n" for n in "abd")
    loads = "".join(f" pto.tload ins(%s{n} : {slice_type}) outs(%{n} : {OPEN})\n" for n in "abd")
    views = "".join(
        f" %v{n} = pto.make_tensor_view %{p}, shape = [%c16, %c32], strides = [%c32, %c1] : {view}\n"
        f" %s{n} = pto.partition_view %v{n}, offsets = [%c0, %c0], sizes = [%c16, %c32] : {view} -> {slice_type}\n"
        for n, p in (("a", "x"), ("b", "y"), ("d", "o"))
    )
    constants = "".join(f" %{n} = arith.constant {v} : index\n" for n, v in (("c0", 0), ("c1", 1), ("c8", 8), ("c16", 16), ("c32", 32), ("two", 1)))
    whole = "!pto.partition_tensor_view<?x?xf32>"
    text = f"""module {{
 func.func @open(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %o: !pto.ptr<f32>, %rows: index, %w: index, %f: f32) {{
{constants}{views}{allocs} %c = pto.alloc_tile valid_row = %rows : {COLUMN}
 %l = pto.alloc_tile valid_col = %w : {LINE}
 %i = pto.alloc_tile valid_row = %rows valid_col = %w : {NUMBERS}
 %m8 = pto.alloc_tile : {BITS}
 %q = pto.alloc_tile valid_row = %rows valid_col = %w : {SMALL}
{loads} {OPEN_OPS[name]}
 %so = pto.partition_view %vd, offsets = [%c0, %c0], sizes = [%rows, %w] : {view} -> {whole}
 pto.tstore ins(%d : {OPEN}) outs(%so : {whole})
 return
 }}
}}"""
    x, y, o = (RNG.standard_normal((16, 32)).astype(np.float32) for _ in range(3))
    before = o.copy()
    run_text(text, x, y, o, *size, 0.25, native=True)
    assert (o[: size[0], : size[1]] != before[: size[0], : size[1]]).any() or name == "scalar"
    np.testing.assert_array_equal(o[size[0] :], before[size[0] :])


SCALARS = """module {
  func.func @scalars(%o: !pto.ptr<i32>, %f: !pto.ptr<f32>, %a: i32, %b: i32, %x: f32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c9 = arith.constant 9 : i32
    %i0 = arith.constant 0 : index
    %i1 = arith.constant 1 : index
    %sum = scf.for %i = %c0 to %c9 step %c1 iter_args(%s = %a) -> (i32) : i32 {
      %p = arith.muli %i, %b : i32
      %q = arith.addi %s, %p : i32
      scf.yield %q : i32
    }
    pto.store_scalar %sum, %o[%i0] : !pto.ptr<i32>, i32
    %values:2 = scf.while (%n = %c0, %v = %x) : (i32, f32) -> (i32, f32) {
      %go = arith.cmpi slt, %n, %c9 : i32
      scf.condition(%go) %n, %v : i32, f32
    } do {
    ^bb0(%n: i32, %v: f32):
      %m = arith.addi %n, %c1 : i32
      %w = arith.addf %v, %v : f32
      scf.yield %m, %w : i32, f32
    }
    pto.store_scalar %values#1, %f[%i0] : !pto.ptr<f32>, f32
    %d = arith.divsi %a, %b : i32
    %r = arith.remsi %a, %b : i32
    %u = arith.divui %a, %b : i32
    %z = arith.ceildivsi %a, %b : i32
    %k = arith.xori %d, %r : i32
    %t = arith.cmpi ult, %a, %b : i32
    %e = arith.select %t, %k, %u : i32
    %h = arith.shrsi %z, %c1 : i32
    pto.store_scalar %e, %o[%i1] : !pto.ptr<i32>, i32
    %i2 = arith.constant 2 : index
    pto.store_scalar %h, %o[%i2] : !pto.ptr<i32>, i32
    %i3 = arith.constant 3 : index
    pto.store_scalar %d, %o[%i3] : !pto.ptr<i32>, i32
    %less = arith.cmpf olt, %x, %values#1 : f32
    %one = arith.extui %less : i1 to i32
    %i4 = arith.constant 4 : index
    pto.store_scalar %one, %o[%i4] : !pto.ptr<i32>, i32
    return
  }
}"""


@pytest.mark.parametrize(("a", "b", "x"), [(17, 5, 0.75), (-17, 5, -2.0), (17, -5, float("nan")), (-1, -7, 0.0), (2**31 - 1, 3, 1e38)])
def test_loops_and_numbers_of_every_type(a: int, b: int, x: float) -> None:
    run_text(SCALARS, np.ones(8, np.int32), np.ones(4, np.float32), a, b, x, native=True)


def test_only_a_refusal_chooses_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = program("scale2")
    x, y = RNG.standard_normal((2, 16, 16)).astype(np.float32)

    def fails(*_: object) -> None:
        raise failure

    for failure in (MemoryError(), ZeroDivisionError(), InternalError("a bug")):
        with monkeypatch.context() as patched, pytest.raises(type(failure)):
            patched.setattr("tilejit.jit.pto.program.compile_program", fails)
            kernel.launch([x, y], 1)
    kernel.launch([x, y], 1)
    np.testing.assert_array_equal(y, 2 * x)
    assert kernel.native is not None
    failure, refused = UnsupportedFeatureError("no such code"), program("scale2")
    monkeypatch.setattr("tilejit.jit.pto.program.compile_program", fails)
    refused.launch([y, x], 1)
    np.testing.assert_array_equal(x, 2 * y)
    assert refused.interpreted_because == "no such code"
