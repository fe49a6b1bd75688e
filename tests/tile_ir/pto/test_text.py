"""Every kernel reads, prints and reads back as the same module, in every form."""

from __future__ import annotations

import re

import pytest

from tests.pto.harness import HERE, KERNELS, load
from tilejit.errors import PtoSyntaxError, PtoVerifyError
from tilejit.frontend.pto.text import parse_pto
from tilejit.tile_ir.pto.dialect import TABLE
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.spec import Refused
from tilejit.tile_ir.pto.verify import build_level, verify

SPEC = (HERE.parent.parent / "docs" / "spec" / "pto.md").read_text()


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("form", ["compact", "long", "generic"])
def test_print_and_parse_is_the_identity(name: str, form: str) -> None:
    file = load(name)
    text = file.print(long_tiles=form == "long", generic=form == "generic")
    again = parse_pto(text, arch=file.arch)
    verify(again)
    assert file.module.is_structurally_equivalent(again.module)
    assert again.print(long_tiles=form == "long", generic=form == "generic") == text


def test_the_table_has_the_ops_of_the_specification() -> None:
    section = SPEC[SPEC.index("## 2. Ops") : SPEC.index("### 2.z")]
    listed = set(re.findall(r"^\| ([a-z][a-z_0-9.]*) \|", section, re.M)) - {"op"}
    assert len(listed) == 186
    assert set(TABLE) == listed


def test_every_op_that_runs_is_used_by_a_kernel() -> None:
    used = {op.row.name for name in KERNELS for op in load(name).module.walk() if isinstance(op, PtoOp)}
    runnable = {name for name, row in TABLE.items() if not isinstance(row.run, Refused)}
    assert sorted(runnable - used) == sorted(UNUSED)


UNUSED = {"trap", "set_ffts", "tmatmul.mx.bias", "tgemv.mx.acc", "tgemv.mx.bias"}
"""Ops that tests of their own run."""


def tile(text: str) -> str:
    """The canonical form of a tile type."""
    return str(next(iter(parse_pto(f"func.func private @f({text})").functions())).function_type.inputs.data[0])


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("!pto.tile_buf<vec, 8x64xf32, pad=3, valid=?x64>", "!pto.tile_buf<vec, 8x64xf32, valid=?x64, pad=3>"),
        ("!pto.tile_buf<vec,8x64xf32,valid=8x64,fractal=512,compact=0>", "!pto.tile_buf<vec, 8x64xf32>"),
        (
            "!pto.tile_buf<loc=acc, dtype=f32, rows=16, cols=32, v_row=-1, v_col=?, blayout=col_major, slayout=row_major,\n fractal=1024, pad=1, compact=2>",
            "!pto.tile_buf<acc, 16x32xf32, valid=?x?, blayout=col_major, slayout=row_major, fractal=1024, pad=1, compact=2>",
        ),
        ("!pto.tile_buf<left, 16x32xf16, blayout=col_major, slayout=row_major>", "!pto.tile_buf<left, 16x32xf16, slayout=row_major>"),
        ("!pto.tile_buf<vec, 0x10xf32>", "!pto.tile_buf<vec, 0x10xf32>"),
        ("!pto.ptr<f32, GM>", "!pto.ptr<f32>"),
        ("!pto.ptr<bf16, ub>", "!pto.ptr<bf16, ub>"),
        ("!pto.ptr<!pto.hif8>", "!pto.ptr<!pto.hif8>"),
        ("!pto.tensor_view<1x1x16x1024x1024xf32>", "!pto.tensor_view<1x1x16x1024x1024xf32>"),
        ("!pto.tile<32x32xf32>", "!pto.tile<32x32xf32>"),
        ("!pto.multi_tile_buf<<vec, 8x64xf32>, count=2>", "!pto.multi_tile_buf<<vec, 8x64xf32>, count=2>"),
        ("!pto.vreg<64xf32>", "!pto.vreg<64xf32>"),
        ("!pto.mask<b32>", "!pto.mask<b32>"),
        ("!pto.async_event", "!pto.async_event"),
        ("!pto.eventid_array<4>", "!pto.eventid_array<4>"),
    ],
)
def test_types_have_one_canonical_form(written: str, canonical: str) -> None:
    assert tile(written) == canonical


def test_left_tiles_follow_the_architecture() -> None:
    text = 'module attributes {pto.target_arch = "A5"} { func.func private @f(!pto.tile_buf<left, 16x32xf16, slayout=row_major>) }'
    file = parse_pto(text)
    assert "left, 16x32xf16, blayout=col_major" in file.print()
    assert "blayout" not in parse_pto(text, arch="a3").print()


@pytest.mark.parametrize("attribute", ["#pto<round_mode FLOOR>", "#pto.round_mode<FLOOR>"])
def test_both_families_of_attributes(attribute: str) -> None:
    text = f'func.func private @f() attributes {{x = {attribute}}}'
    assert "#pto<round_mode FLOOR>" in parse_pto(text).print()


def test_levels_are_inferred() -> None:
    assert build_level(load("alias_vectors")) == 3
    assert build_level(load("subsets")) == 2


def test_entries() -> None:
    assert [f.sym_name.data for f in load("fifo_c2v_0").entries()] == ["fifo_c2v_0"]
    two = parse_pto("func.func @a() { return }\nfunc.func @b() { return }")
    verify(two)
    assert two.entries() == []
    legacy = parse_pto("func.func @a() attributes {hacc.entry} { return }\nfunc.func @b() { return }")
    assert [f.sym_name.data for f in legacy.entries()] == ["a"]


def test_refused_ops_parse_and_print() -> None:
    text = """func.func @k(%p: !pto.ptr<f32>, %m: memref<16x16xf32>) {
      %s = pto.build_async_session(%p : !pto.ptr<f32>) {rank = 0 : i32} -> !pto.async_session
      %e = pto.tput_async(%s, %p : !pto.async_session, !pto.ptr<f32>) -> !pto.async_event
      pto.wait_async_event(%e : !pto.async_event)
      %b = pto.bind_tile %m : memref<16x16xf32> -> memref<16x16xf32>
      pto.tadd ins(%b, %m : memref<16x16xf32>, memref<16x16xf32>) outs(%b : memref<16x16xf32>)
      return
    }"""
    file = parse_pto(text)
    assert parse_pto(file.print()).module.is_structurally_equivalent(file.module)


def test_a_file_that_is_no_text_is_an_error_of_ours() -> None:
    with pytest.raises(PtoSyntaxError, match="no UTF-8"):
        parse_pto(b"module { \xff }", "x.pto")


def test_what_cannot_be_printed_is_an_error_of_ours() -> None:
    file = parse_pto('func.func @k(%x: i32) {\n  %a = "arith.cmpi"(%x, %x) <{predicate = 77 : i64}> : (i32, i32) -> i1\n  return\n}', "x.pto")
    with pytest.raises(PtoVerifyError, match=r"`arith.cmpi` cannot be printed[^\n]*\n  --> x.pto:2:3"):
        file.print()


def test_an_empty_module_in_the_generic_form_has_an_empty_body() -> None:
    file = parse_pto('"builtin.module"() ({}) : () -> ()')
    verify(file)
    assert parse_pto(file.print()).module.is_structurally_equivalent(file.module)


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    text = "func.func @k() {\n  return\n}\n"
    wanted = parse_pto(text).print()
    assert parse_pto("\ufeff" + text).print() == parse_pto(text.encode("utf-8-sig")).print() == wanted
    with pytest.raises(PtoSyntaxError, match=r"x\.pto:1:1"):
        parse_pto("\ufeff?" + text, "x.pto")
