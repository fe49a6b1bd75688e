"""`@pto.jit(source=…)`: the signature is the ABI, the text is the kernel."""

from __future__ import annotations

import ctypes
import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilejit import pto
from tilejit.errors import (
    AbiError,
    ArgumentError,
    DTypeError,
    OptionError,
    OutOfBoundsError,
    ParserError,
    PtoSyntaxError,
    PtoVerifyError,
    RangeError,
    SourceNotFoundError,
    UnsupportedFeatureError,
)
from tilejit.runtime.call.layout import supported

GM = pto.ptr(pto.f32, "gm")
KERNEL = (Path(__file__).parent / "kernels" / "scale2.pto").read_text()
RNG = np.random.default_rng(3)
native = pytest.mark.skipif(not supported() or os.environ.get("TILEJIT_FASTPATH") == "0", reason="needs native dispatch")


def declared(source: Any, **options: Any) -> pto.SourceKernel:
    """A kernel of two pointers with the given source."""

    @pto.jit(source=source, **options)
    def scale2(src: GM, dst: GM) -> None:  # type: ignore[valid-type]
        raise AssertionError("the body never runs")

    return scale2


def arrays() -> tuple[np.ndarray, np.ndarray]:
    return RNG.standard_normal((16, 16)).astype(np.float32), RNG.standard_normal((16, 16)).astype(np.float32)


def test_a_kernel_runs_from_inline_text_and_from_a_path() -> None:
    for source in (KERNEL, "kernels/scale2.pto", str(Path(__file__).parent / "kernels" / "scale2.pto")):
        x, y = arrays()
        declared(source)[1, None](x, y)
        np.testing.assert_array_equal(y, 2 * x)


def test_relative_paths_start_at_the_declaring_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kernel = declared("kernels/scale2.pto")
    assert kernel.source.path == str((Path(__file__).parent / "kernels" / "scale2.pto").resolve())
    assert kernel.source.kind == "path"


def test_without_a_declaring_file_paths_start_at_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "k.pto").write_text(KERNEL)
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {"pto": pto, "GM": GM}
    exec("@pto.jit(source='k.pto')\ndef scale2(src: GM, dst: GM): ...", scope)
    assert scope["scale2"].source.path == str((tmp_path / "k.pto").resolve())


def test_nothing_is_read_at_decoration() -> None:
    kernel = declared("no/such/file.pto")
    with pytest.raises(FileNotFoundError, match=r"'no/such/file.pto'.*file does not exist"):
        kernel.compile()


def test_what_cannot_be_a_path_is_an_error_of_ours() -> None:
    with pytest.raises(SourceNotFoundError, match=r"of scale2: .*embedded null"):
        declared("a\0b").compile()


def test_other_os_errors_say_their_reason(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="directory"):
        declared(str(tmp_path)).compile()


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("module { func.func @scale2() { return } }", "inline"),
        ("  builtin.module {}", "inline"),
        ("a\nb", "inline"),
        ("a\rb", "inline"),
        ("x module { func.func @f", "inline"),
        ('module attributes {a = "b"} { func.func @k() { return } }', "path"),
        ("kernel.pto", "path"),
    ],
)
def test_what_counts_as_inline(source: str, kind: str) -> None:
    from tilejit.jit.pto.text import is_inline

    assert is_inline(source) == (kind == "inline")


def test_the_same_object_while_the_text_is_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "k.pto"
    path.write_text(KERNEL)
    kernel = declared(str(path))
    first = kernel.compile()
    assert kernel.compile() is first
    path.write_text(KERNEL.replace("2.000000e+00", "3.000000e+00"))
    second = kernel.compile()
    assert second is not first and second.specialization_key != first.specialization_key
    assert len(kernel.cached_specializations()) == 2
    x, y = arrays()
    kernel[1, None](x, y)
    np.testing.assert_array_equal(y, 3 * x)
    first[1, None](x, y)
    np.testing.assert_array_equal(y, 2 * x)
    path.write_text(KERNEL)
    assert kernel.compile() is first


def test_the_key_has_the_digest_and_the_options() -> None:
    digest = hashlib.sha256(KERNEL.encode()).hexdigest()
    compiled = declared(KERNEL, mode="explicit").compile()
    assert digest in str(compiled.specialization_key) and "explicit" in str(compiled.specialization_key)
    assert compiled.constexpr_bindings == {} and compiled.ir_function_name == "scale2"
    assert compiled.source.digest == digest and compiled.source.name == f"<inline pto source {digest[:12]}>"


def test_the_name_selects_the_entry() -> None:
    @pto.jit(name="scale2", source=KERNEL)
    def anything(src: GM, dst: GM) -> None: ...  # type: ignore[valid-type]

    assert anything.compile().ir_function_name == "scale2"
    with pytest.raises(TypeError, match=r"could not bind entry other in <inline pto source .*missing non-declaration func.func"):

        @pto.jit(name="other", source=KERNEL)
        def kernel(src: GM, dst: GM) -> None: ...  # type: ignore[valid-type]

        kernel.compile()


def test_entries_are_found_in_nested_modules_and_must_be_unique() -> None:
    inner = "builtin.module { func.func @scale2(%a: !pto.ptr<f32>, %b: !pto.ptr<f32>) { return } }"
    assert declared("module {\n" + inner + "\n}").compile().program.entry.sym_name.data == "scale2"
    with pytest.raises(AbiError, match="2 definitions"):
        declared("module {\n" + inner + inner + "\n}").compile()
    with pytest.raises(AbiError, match="missing non-declaration"):
        declared("module {\n func.func private @scale2(!pto.ptr<f32>, !pto.ptr<f32>)\n}").compile()


def abi(signature: str) -> str:
    return f"module {{\nfunc.func @scale2{signature} {{\n%t = pto.alloc_tile : !pto.tile_buf<vec, 9999x9999xf32>\nreturn\n}}\n}}"


def test_the_abi_is_checked_in_order_and_before_the_rules() -> None:
    prefix = r"entry scale2 in <inline pto source [0-9a-f]{12}>"
    with pytest.raises(AbiError, match=prefix + r" must return no values, got \(i32\)"):
        declared(abi("(%a: i32) -> i32").replace("return\n", "return %a : i32\n")).compile()
    with pytest.raises(AbiError, match=prefix + r" takes other parameters: expected \(!pto.ptr<f32, gm>, !pto.ptr<f32, gm>\), got \(i32\)"):
        declared(abi("(%a: i32)")).compile()
    with pytest.raises(AbiError, match=prefix + r": parameter 1 differs; expected !pto.ptr<f32, gm>, got !pto.ptr<f16, gm>"):
        declared(abi("(%a: !pto.ptr<f32>, %b: !pto.ptr<f16>)")).compile()
    with pytest.raises(PtoVerifyError, match="vec memory has"):
        declared(abi("(%a: !pto.ptr<f32>, %b: !pto.ptr<f32, gm>)")).compile()


def test_abi_errors_are_type_errors_and_name_the_path(tmp_path: Path) -> None:
    path = tmp_path / "k.pto"
    path.write_text(abi("(%a: i32)"))
    with pytest.raises(TypeError, match=str(path)):
        declared(str(path)).compile()


def test_syntax_errors_have_a_place(tmp_path: Path) -> None:
    path = tmp_path / "k.pto"
    path.write_text("module {\n  func.func @scale2( {\n}")
    with pytest.raises(PtoSyntaxError) as caught:
        declared(str(path)).compile()
    assert caught.value.span is not None and (caught.value.span.line, caught.value.span.filename) == (2, str(path))


BYTES = """!t = !pto.tile_buf<vec, 16x16xi8>
module {
  func.func @scale2(%a: !pto.ptr<f32>, %b: !pto.ptr<f32>) {
    %i = pto.alloc_tile : !t
    pto.tadd ins(%i, %i : !t, !t) outs(%i : !t)
    return
  }
}"""


def test_the_architecture_comes_from_the_text_then_from_target() -> None:
    with pytest.raises(PtoVerifyError, match="A2/A3"):
        declared(BYTES).compile()
    assert declared(BYTES, target="a5").compile().program.file.arch == "a5"
    assert declared(BYTES.replace("module {", 'module attributes {pto.target_arch = "a5"} {', 1), target="a3").compile().program.file.arch == "a5"


def test_source_and_entry_and_constants_are_checked_at_decoration() -> None:
    with pytest.raises(TypeError, match="filesystem path string"):
        declared(Path("x.pto"))
    with pytest.raises(TypeError, match="entry=False"):
        declared(KERNEL, entry=False)
    with pytest.raises(TypeError, match="`N`"):

        @pto.jit(source=KERNEL)
        def scale2(src: GM, *, N: pto.const_expr = 3) -> None: ...  # type: ignore[valid-type]


def test_the_signature_is_checked_before_the_options_and_those_before_the_source() -> None:
    with pytest.raises(TypeError, match="annotation"):

        @pto.jit(source=3, mode="fast")  # type: ignore[arg-type]
        def first(src) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(ValueError, match=r"unknown mode 'fast' of second \(.*test_jit.py:\d+\)"):

        @pto.jit(source=3, mode="fast")  # type: ignore[arg-type]
        def second(src: GM) -> None: ...  # type: ignore[valid-type]


CHOICES: list[tuple[dict[str, Any], str]] = [({"backend": "llvm"}, "'llvm'"), ({"mode": "fast"}, "'fast'"), ({"backend": "emitc", "mode": "explicit"}, "emitc")]


@pytest.mark.parametrize(("options", "message"), CHOICES)
def test_backend_and_mode(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        declared(KERNEL, **options)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"insert_sync": "x"}, TypeError),
        ({"insert_sync": 1}, TypeError),
        ({"frontend_options": 3}, TypeError),
        ({"frontend_options": {"speed": 1}}, ValueError),
        ({"frontend_options": {"ast_rewrite": 1}}, TypeError),
        ({"frontend_options": {"ast_rewrite": True}, "ast_rewrite": False}, ValueError),
        ({"frontend_options": {"rewrite_part": {"data"}}}, ValueError),
        ({"frontend_options": {"dump_rewritten_source": True}}, ValueError),
    ],
)
def test_frontend_options(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        declared(KERNEL, **options)


def test_accepted_options_are_recorded() -> None:
    front = {"ast_rewrite": True, "rewrite_part": {"control_flow"}}
    kernel = declared(KERNEL, insert_sync=False, native_options={"x": 1}, kernel_kind="vector", frontend_options=front)
    assert (kernel.options.insert_sync, kernel.options.native_options, kernel.options.kernel_kind) == (False, {"x": 1}, "vector")


def test_native_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTOAS_FLAGS", "--more -x")
    assert declared(KERNEL).compile().native_flags == ("--enable-insert-sync", "--pto-backend=vpto", "--enable-tile-op-expand", "--more", "-x")
    assert declared(KERNEL, mode="explicit").compile().native_flags[0] == "--pto-level=level3"
    assert "--enable-insert-sync" not in declared(KERNEL, insert_sync=False).compile().native_flags
    with pytest.raises(UnsupportedFeatureError):
        declared(KERNEL).compile().native_library()


def decorate(annotation: Any, **more: Any) -> None:
    def kernel(x: Any) -> None: ...

    kernel.__annotations__ = {"x": annotation}
    pto.jit(source=KERNEL, **more)(kernel)


@pytest.mark.parametrize(
    "annotation",
    [
        pto.ptr(pto.f32), pto.ptr(pto.f32, "vec"), pto.tensor_spec((16, 16), "f32"), pto.Tile, pto.TensorView, pto.PartitionTensorView,
        pto.VReg, pto.mask, pto.const_expr, int, "nonsense",
    ],
)
def test_annotations_that_are_no_abi(annotation: Any) -> None:
    with pytest.raises(TypeError, match=r"x|nonsense"):
        decorate(annotation)


def test_parameters_that_are_no_abi() -> None:
    def stars(*args: Any) -> None: ...

    def keywords(**kwargs: Any) -> None: ...

    def constant(*, n: pto.const_expr) -> None: ...  # type: ignore[valid-type]

    def keyword(*, n: pto.i32 = 3) -> None: ...  # type: ignore[valid-type]

    for function, message in ((stars, "args"), (keywords, "kwargs"), (constant, "default"), (keyword, "const_expr")):
        with pytest.raises(TypeError, match=message):
            pto.jit(source=KERNEL)(function)


def test_compile_takes_no_constants() -> None:
    with pytest.raises(TypeError, match="A, B"):
        declared(KERNEL).compile(B=1, A=2)


def test_an_entry_is_launched_not_called() -> None:
    kernel = declared(KERNEL)
    with pytest.raises(TypeError, match="launch it"):
        kernel(*arrays())
    with pytest.raises(TypeError, match="grid, stream"):
        kernel[3]
    for grid in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="positive number of blocks"):
            kernel[grid, None]
    with pytest.raises(TypeError, match="stream"):
        kernel[1, "fast"]
    for stream in (None, 0, ctypes.c_void_p(0)):
        x, y = arrays()
        kernel[1, stream](x, y)
        np.testing.assert_array_equal(y, 2 * x)


def test_arguments_are_checked() -> None:
    launch = declared(KERNEL)[1, None]
    x, y = arrays()
    with pytest.raises(TypeError, match=r"takes 2 arguments \(src, dst\), got 1"):
        launch(x)
    with pytest.raises(ArgumentError, match="scale2 takes its arguments by position, got `dst=`"):
        launch(x, dst=y)
    with pytest.raises(DTypeError, match="`src` points to f32: Unsupported NumPy dtype complex128"):
        launch(x.astype(np.complex128), y)
    with pytest.raises(TypeError, match="`dst` is a pointer"):
        launch(x, "y")
    with pytest.raises(DTypeError, match="points to f32"):
        launch(x.astype(np.float64).astype(np.float16), y)
    with pytest.raises(ArgumentError, match="contiguous"):
        launch(x.T, y)
    with pytest.raises(OutOfBoundsError, match="`src`"):
        launch(x[:8].copy(), y)


def test_addresses_are_pointers_without_bounds() -> None:
    x, y = arrays()
    declared(KERNEL)[1, None](x.ctypes.data, ctypes.c_void_p(y.ctypes.data))
    np.testing.assert_array_equal(y, 2 * x)
    with pytest.raises(ArgumentError, match="null"):
        declared(KERNEL)[1, None](0, y)


@pytest.mark.parametrize("address", [-5, -(1 << 70), 7, 1 << 63, 1 << 70, ctypes.c_void_p(-5)])
def test_numbers_that_are_no_addresses_are_refused(address: object) -> None:
    with pytest.raises(ArgumentError, match="`src` is a pointer, and there is no memory at address"):
        declared(KERNEL)[1, None](address, arrays()[1])


SCALARS = """module {
  func.func @k(%o: !pto.ptr<i32>, %b: i1, %s: i8, %u: ui16, %f: f32, %i: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %x = arith.extui %b : i1 to i32
    %y = arith.extsi %s : i8 to i32
    %z = arith.fptosi %f : f32 to i32
    pto.store_scalar %x, %o[%c0] : !pto.ptr<i32>, i32
    pto.store_scalar %y, %o[%c1] : !pto.ptr<i32>, i32
    pto.store_scalar %z, %o[%i] : !pto.ptr<i32>, i32
    return
  }
}"""


def test_scalars() -> None:
    @pto.jit(source=SCALARS)
    def k(o: pto.ptr(pto.i32, "gm"), b: pto.i1, s: pto.i8, u: pto.ui16, f: pto.f32, i: pto.index) -> None: ...  # type: ignore[valid-type]

    out = np.array([9, 9, 9], np.int32)
    k[1, None](out, True, -5, 65535, 7.9, 2)
    assert out.tolist() == [1, -5, 7]
    with pytest.raises(RangeError, match="`u`"):
        k[1, None](out, True, -5, 65536, 7.9, 2)
    with pytest.raises(ArgumentError, match="`s` must be an integer"):
        k[1, None](out, True, 1.5, 1, 7.9, 2)


def test_pointers_to_bytes_of_floats() -> None:
    text = """module {
  func.func @copy(%a: !pto.ptr<f8E4M3FN>, %o: !pto.ptr<f8E4M3FN>) {
    %c0 = arith.constant 0 : index
    %c3 = arith.constant 3 : index
    %v = pto.load_scalar %a[%c3] : !pto.ptr<f8E4M3FN> -> f8E4M3FN
    pto.store_scalar %v, %o[%c0] : !pto.ptr<f8E4M3FN>, f8E4M3FN
    return
  }
}
"""
    eight = pto.ptr(pto.f8E4M3FN, "gm")

    @pto.jit(source=text)
    def copy(a: eight, o: eight) -> None: ...  # type: ignore[valid-type]

    copy.compile()
    with pytest.raises(TypeError, match=r"no scalars of type pto\.f8E4M3FN"):

        @pto.jit(source=text)
        def wrong(a: pto.f8E4M3FN) -> None: ...  # type: ignore[valid-type]


def test_half_scalars_cannot_be_launched() -> None:
    @pto.jit(source="module {\n func.func @k(%x: f16) {\n return\n }\n}")
    def k(x: pto.f16) -> None: ...  # type: ignore[valid-type]

    with pytest.raises(TypeError, match="f16"):
        k[1, None](1.0)


def test_what_cannot_run_is_refused_before_anything_is_written() -> None:
    text = KERNEL.replace("    return", "    pto.wait_async_event(%src : !pto.ptr<f32>)\n    return")
    x, y = arrays()
    before = y.copy()
    with pytest.raises(UnsupportedFeatureError, match=r"`pto.wait_async_event` cannot run here") as caught:
        declared(text)[1, None](x, y)
    assert caught.value.span is not None
    np.testing.assert_array_equal(y, before)


@pytest.mark.parametrize(
    ("signature", "body", "message"),
    [
        ("%v: vector<4xi16>", "", "pointers and scalars"),
        ("%t: !pto.tile_buf<vec, 8x8xf32>", "", "pointers and scalars"),
        ("%x: f32", "%y = arith.extf %x : f32 to f64", "no values of type f64"),
        ("%p: !pto.ptr<!pto.hif8>, %n: index", "%q = pto.addptr %p, %n : !pto.ptr<!pto.hif8> -> !pto.ptr<!pto.hif8>", "no arrays of !pto.hif8"),
    ],
)
def test_values_that_cannot_exist_here_are_refused(signature: str, body: str, message: str) -> None:
    from tests.pto.harness import run_text

    with pytest.raises(ParserError, match=message):
        run_text(f"func.func @k({signature}) {{\n {body}\n return\n}}", *([1.0] * signature.count("%")))


def test_without_source_the_message_points_to_the_language() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"@pl\.jit"):

        @pto.jit()
        def k(x: GM) -> None: ...  # type: ignore[valid-type]

    with pytest.raises(UnsupportedFeatureError, match=r"@pl\.jit"):

        @pto.jit  # type: ignore[arg-type]
        def m(x: GM) -> None: ...  # type: ignore[valid-type]


def test_the_module_can_be_seen() -> None:
    kernel = declared(KERNEL)
    assert str(kernel) == kernel.mlir_text() == kernel.emit()
    assert "pto.tmuls" in kernel.mlir_text() and kernel.verify() and kernel.mlir_module() is not None
    assert os.linesep not in repr(kernel) and "scale2(src: pto.ptr(pto.f32, 'gm')" in repr(kernel)
