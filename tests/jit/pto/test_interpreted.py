"""What docs/pto.md says of kernels that are interpreted is so."""

from __future__ import annotations

import pytest

from tests.pto.harness import program_of

SCALARS = {
    "bitcast": "%r = arith.bitcast %a : i32 to f32",
    "narrow": "%r = arith.trunci %a : i32 to i7",
    "wide": "%r = arith.extsi %a : i32 to i128",
    "division by zero": "%z = arith.constant 0 : i32\n %r = arith.divsi %a, %z : i32",
    "negative shift": "%z = arith.constant -1 : i32\n %r = arith.shrsi %a, %z : i32",
}
TILES = {
    "tsubs ui32": ("ui32", "pto.tsubs ins(%t, %s : TILE, ui32) outs(%t : TILE)"),
    "tsubsc ui16": ("ui16", "pto.tsubsc ins(%t, %s, %t : TILE, ui16, TILE) outs(%t : TILE)"),
}


@pytest.mark.parametrize("body", SCALARS.values(), ids=SCALARS)
def test_scalars(body: str) -> None:
    kernel = program_of(f"module {{ func.func @k(%x: !pto.ptr<i32>, %a: i32) {{\n {body}\n return\n}} }}")
    assert kernel.native is None and kernel.interpreted_because


@pytest.mark.parametrize(("element", "body"), TILES.values(), ids=TILES)
def test_element_types(element: str, body: str) -> None:
    text = f"module {{ func.func @k(%x: !pto.ptr<EL>, %s: EL) {{\n %t = pto.alloc_tile : TILE\n {body}\n return\n}} }}"
    kernel = program_of(text.replace("TILE", "!pto.tile_buf<vec, 8x32xEL>").replace("EL", element))
    assert kernel.native is None and kernel.interpreted_because


def test_masks_without_gaps_for_a_region_that_only_the_run_knows() -> None:
    tile, mask = "!pto.tile_buf<vec, 4x16xf32, valid=?x16>", "!pto.tile_buf<vec, 4x32xui8>"
    kernel = program_of(f"""module attributes {{pto.target_arch = "a5"}} {{ func.func @k(%x: !pto.ptr<f32>, %n: index) {{
  %a = pto.alloc_tile valid_row = %n : {tile}
  %m = pto.alloc_tile : {mask}
  pto.tcmp ins(%a, %a : {tile}, {tile}) outs(%m : {mask})
  return
}} }}""")
    assert kernel.native is None and "without gaps" in (kernel.interpreted_because or "")
