"""Damaged files never crash the reader, and sizes that would exhaust memory are refused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.pto import fuzz
from tests.pto.harness import run_text
from tilejit.errors import OutOfBoundsError, PtoSyntaxError, PtoVerifyError, ResourceError
from tilejit.frontend.pto.decode import MAX_TEXT
from tilejit.frontend.pto.text import parse_pto
from tilejit.tile_ir.pto.verify import verify


def test_damaged_files_are_accepted_or_refused() -> None:
    outcomes = [fuzz.check(raw) for raw in fuzz.files(500, 20261115)]
    assert 0 < sum(outcomes) < 250


def test_deep_nesting_is_refused() -> None:
    text = "func.func @k(%c: i1) {\n" + "scf.if %c {\n" * 5000 + "}\n" * 5000 + "return\n}"
    with pytest.raises(PtoSyntaxError, match="nested"):
        parse_pto(text)


def test_deep_brackets_are_refused() -> None:
    with pytest.raises(PtoSyntaxError):
        parse_pto("func.func private @k() attributes {x = " + "[" * 100_000 + "]" * 100_000 + "}")


def test_enormous_texts_are_refused() -> None:
    with pytest.raises(PtoSyntaxError, match="are read at most"):
        parse_pto(" " * (MAX_TEXT + 1))


def test_tiles_larger_than_their_memory_are_refused() -> None:
    with pytest.raises(PtoVerifyError, match="memory has"):
        verify(parse_pto("func.func @k() {\n %t = pto.alloc_tile : !pto.tile_buf<acc, 100000x100000xf32>\n return\n}"))


def test_slices_too_large_to_move_are_refused() -> None:
    text = """func.func @k(%a: !pto.ptr<f32>) {
      %c0 = arith.constant 0 : index
      %n = arith.constant 1000000000000 : index
      %c1 = arith.constant 1 : index
      %v = pto.make_tensor_view %a, shape = [%n, %n], strides = [%c0, %c0] : !pto.tensor_view<?x?xf32>
      %s = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%n, %n] : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<?x?xf32>
      %t = pto.alloc_tile : !pto.tile_buf<vec, 8x8xf32>
      pto.tload ins(%s : !pto.partition_tensor_view<?x?xf32>) outs(%t : !pto.tile_buf<vec, 8x8xf32>)
      return
    }"""
    with pytest.raises((ResourceError, OutOfBoundsError)):
        run_text(text, np.zeros(4, np.float32))
