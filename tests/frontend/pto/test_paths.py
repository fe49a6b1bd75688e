"""Machine code and interpreter mean the same at the edges: unsigned numbers, empty regions, conversions that overflow, odd shifts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.pto.harness import program_of, run_text
from tilejit.errors import KernelArithmeticError, KernelAssertionError, OutOfBoundsError, ShapeError, TilejitError

NDArray = npt.NDArray[Any]


def _slices(rows: int, cols: int, **pointers: str) -> str:
    """Views of whole arrays of one shape: `%x` is seen as the slice `%sx` of type `!sx`."""
    lines = [f"%rows = arith.constant {rows} : index", f"%cols = arith.constant {cols} : index"]
    lines += ["%c0 = arith.constant 0 : index", "%c1 = arith.constant 1 : index"]
    for name, element in pointers.items():
        view = f"!pto.tensor_view<?x?x{element}>"
        lines.append(f"%v{name} = pto.make_tensor_view %{name}, shape = [%rows, %cols], strides = [%cols, %c1] : {view}")
        lines.append(f"%s{name} = pto.partition_view %v{name}, offsets = [%c0, %c0], sizes = [%rows, %cols] : {view} -> !s{name}")
    return "\n    ".join(lines)


def _kernel(rows: int, cols: int, body: str, arch: str = "a3", extra: str = "", **pointers: str) -> str:
    """A kernel over arrays of one shape; `!tx` is a tile for `%x`, `!sx` its slice."""
    shape = f"{rows}x{cols}x"
    aliases = "".join(f"!t{n} = !pto.tile_buf<vec, {shape}{e}>\n!s{n} = !pto.partition_tensor_view<{shape}{e}>\n" for n, e in pointers.items())
    parameters = ", ".join(f"%{name}: !pto.ptr<{element}>" for name, element in pointers.items()) + extra
    lines = f"    {_slices(rows, cols, **pointers)}\n{body}\n    return"
    return f'{aliases}module attributes {{pto.target_arch = "{arch}"}} {{\n  func.func @k({parameters}) {{\n{lines}\n  }}\n}}\n'


# unsigned numbers -------------------------------------------------------------------------------------------------------------

UNSIGNED = """    %a = pto.alloc_tile : !tx
    %b = pto.alloc_tile : !ty
    pto.tload ins(%sx : !sx) outs(%a : !tx)
    pto.tload ins(%sy : !sy) outs(%b : !ty)
    pto.OP ins(%a, %b : !tx, !ty) outs(%a : !tx)
    pto.tstore ins(%a : !tx) outs(%so : !so)"""
MEANINGS = {"tdiv": np.floor_divide, "trem": np.mod, "tfmod": np.fmod, "tmax": np.maximum, "tmin": np.minimum, "tshr": np.right_shift}


@pytest.mark.parametrize("op", MEANINGS)
@pytest.mark.parametrize(("element", "arch"), [("ui8", "a5"), ("ui16", "a3"), ("ui32", "a3")])
def test_unsigned_tiles_have_no_sign(op: str, element: str, arch: str) -> None:
    dtype = np.dtype(f"uint{element[2:]}")
    top = int(np.iinfo(dtype).max)
    x = np.resize(np.array([1, 7, top, top - 9, 10, top // 2 + 3, 5, top // 2 + 1], dtype), (2, 32))
    y = np.resize(np.array([3, 1, 2, 4, 7] if op == "tshr" else [top, 2, 2, 3, 3, top // 2 + 3, top - 1], dtype), (2, 32))
    out = np.zeros_like(x)
    run_text(_kernel(2, 32, UNSIGNED.replace("OP", op), arch, x=element, y=element, o=element), x, y, out, native=True)
    np.testing.assert_array_equal(out, MEANINGS[op](x, y))


# empty regions ----------------------------------------------------------------------------------------------------------------

OPEN, COLUMN, LINE = "16x16xEL, valid=?x?", "16x1xEL, valid=?x1, blayout=col_major", "1x16xEL, valid=1x?"


def _reduction(op: str, element: str) -> str:
    """Reduces the first `%r` rows or `%c` columns of `%x` into `%y`."""
    along_rows = op.startswith("trow")
    result = "i32" if "arg" in op else element
    source, target = (f"!pto.tile_buf<vec, {text.replace('EL', kind)}>" for text, kind in ((OPEN, element), (COLUMN if along_rows else LINE, result)))
    extents = "valid_row = %r" if along_rows else "valid_col = %c"
    there, box = ("%r, %c1", "?x1") if along_rows else ("%c1, %c", "1x?")
    views = [f"!pto.tensor_view<?x?x{kind}>" for kind in (element, result)]
    return f"""module attributes {{pto.target_arch = "a3"}} {{
  func.func @k(%x: !pto.ptr<{element}>, %y: !pto.ptr<{result}>, %r: index, %c: index) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %vx = pto.make_tensor_view %x, shape = [%c16, %c16], strides = [%c16, %c1] : {views[0]}
    %vy = pto.make_tensor_view %y, shape = [{"%c16, %c1" if along_rows else "%c1, %c16"}], strides = [{"%c1, %c1" if along_rows else "%c16, %c1"}] : {views[1]}
    %sx = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%r, %c] : {views[0]} -> !pto.partition_tensor_view<?x?x{element}>
    %sy = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [{there}] : {views[1]} -> !pto.partition_tensor_view<{box}x{result}>
    %a = pto.alloc_tile valid_row = %r valid_col = %c : {source}
    %t = pto.alloc_tile valid_row = %r valid_col = %c : {source}
    %d = pto.alloc_tile {extents} : {target}
    pto.tload ins(%sx : !pto.partition_tensor_view<?x?x{element}>) outs(%a : {source})
    pto.{op} ins(%a{", %t" if along_rows or "arg" in op else ""} : {source}{f", {source}" if along_rows or "arg" in op else ""}) outs(%d : {target})
    pto.tstore ins(%d : {target}) outs(%sy : !pto.partition_tensor_view<{box}x{result}>)
    return
  }}
}}
"""


@pytest.mark.parametrize("element", ["f32", "i32"])
@pytest.mark.parametrize(("op", "value"), [("trowsum", 0), ("tcolsum", 0), ("trowprod", 1), ("tcolprod", 1)])
def test_sums_of_nothing_are_zero_and_products_one(op: str, value: int, element: str) -> None:
    dtype = np.dtype(np.float32 if element == "f32" else np.int32)
    x, out = np.full((16, 16), 3, dtype), np.full(16, 7, dtype)
    run_text(_reduction(op, element), x, out, *((5, 0) if op.startswith("trow") else (0, 5)), native=True)
    assert out.tolist() == [value] * 5 + [7] * 11


@pytest.mark.parametrize("element", ["ui16", "ui32"])
@pytest.mark.parametrize(("op", "fold"), [("trowmin", np.min), ("trowmax", np.max)])
def test_extremes_of_rows_read_unsigned_numbers_as_such(op: str, fold: Callable[..., Any], element: str) -> None:
    dtype = np.dtype(np.uint16 if element == "ui16" else np.uint32)
    x, out = np.random.default_rng(3).integers(0, np.iinfo(dtype).max, (16, 16), dtype), np.full(16, 7, dtype)
    x[:, 2:4] = [1, np.iinfo(dtype).max]
    x[1] |= dtype.type(1 << (8 * dtype.itemsize - 1))
    run_text(_reduction(op, element), x, out, 5, 9, native=True)
    assert out.tolist() == [*fold(x[:5, :9], 1).tolist(), *[7] * 11]


@pytest.mark.parametrize("op", ["trowmax", "trowmin", "trowargmax", "trowargmin", "tcolmax", "tcolmin", "tcolargmax", "tcolargmin"])
def test_extremes_of_nothing_are_an_error_unless_nobody_wants_one(op: str) -> None:
    kernel = program_of(_reduction(op, "f32"))
    x, out = np.ones((16, 16), np.float32), np.full(16, 7, np.int32 if "arg" in op else np.float32)
    extents = (5, 0) if op.startswith("trow") else (0, 5)
    errors = [_error(run, [x, out, *extents]) for run in (kernel.launch, kernel.interpret)]
    assert kernel.native is not None
    assert "of nothing" in str(errors[0]) and str(errors[0]) == str(errors[1]) and type(errors[0]) is type(errors[1]) is ShapeError
    run_text(_reduction(op, "f32"), x, out, 0, 0, native=True)
    assert (out == 7).all()


def _error(run: Callable[[list[Any], int], None], arguments: list[Any]) -> TilejitError:
    with pytest.raises(TilejitError) as caught:
        run(arguments, 1)
    return caught.value


# conversions that do not stop at the ends -------------------------------------------------------------------------------------

CONVERT = """    %a = pto.alloc_tile : !tx
    %d = pto.alloc_tile : !ty
    pto.tload ins(%sx : !sx) outs(%a : !tx)
    pto.tcvt ins(%a {rmode = #pto<round_mode MODE>, sat_mode = #pto<saturation_mode OFF>} : !tx) outs(%d : !ty)
    pto.tstore ins(%d : !ty) outs(%sy : !sy)"""


@pytest.mark.parametrize("mode", ["RINT", "TRUNC", "ODD"])
@pytest.mark.parametrize(("source", "target"), [("f32", "i64"), ("f32", "i16"), ("f16", "i8"), ("f16", "i16"), ("f16", "ui8")])
def test_conversions_without_saturation_keep_the_low_bits(mode: str, source: str, target: str) -> None:
    dtype = np.dtype(target.replace("ui", "uint") if target[0] == "u" else target.replace("i", "int"))
    numbers = [6e18, -6e18, 1e18, 9e18, -9.2e18, 1e20, -1e20, 5, -5, 300, 40000, -40000, 70000, 2.0**62, -(2.0**63), np.inf, -np.inf, np.nan]
    with np.errstate(over="ignore"):
        x = np.resize(np.array(numbers), (1, 32)).astype(np.float32 if source == "f32" else np.float16)
    out = np.zeros((1, 32), dtype)
    run_text(_kernel(1, 32, CONVERT.replace("MODE", mode), x=source, y=target), x, out, native=True)
    exact = [0 if np.isnan(value) else int(min(max(float(value), -(2.0**63)), 2.0**63)) for value in x[0]]
    low = np.array([min(value, 2**63 - 1) & (1 << dtype.itemsize * 8) - 1 for value in exact], np.uint64)
    np.testing.assert_array_equal(out[0], low.astype(dtype))


# scalars ----------------------------------------------------------------------------------------------------------------------

SHIFTS = """module attributes {pto.target_arch = "a3"} {
  func.func @k(%y: !pto.ptr<EL>, %a: EL, %b: EL) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %left = arith.shli %a, %b : EL
    %right = arith.shrsi %a, %b : EL
    pto.store_scalar %left, %y[%c0] : !pto.ptr<EL>, EL
    pto.store_scalar %right, %y[%c1] : !pto.ptr<EL>, EL
    return
  }
}
"""


@pytest.mark.parametrize(("element", "dtype"), [("i16", np.int16), ("i32", np.int32), ("i64", np.int64)])
@pytest.mark.parametrize("number", [7, -7])
def test_a_shift_by_a_count_outside_the_width_moves_every_bit_out(element: str, dtype: type[np.signedinteger[Any]], number: int) -> None:
    width = np.iinfo(dtype).bits
    for count in (-3, -1, width, width + 5, 100):
        out = np.full(2, 5, dtype)
        run_text(SHIFTS.replace("EL", element), out, number, count, native=True)
        assert out.tolist() == [0, -1 if number < 0 else 0]


# slices -----------------------------------------------------------------------------------------------------------------------

ROWS = """!tile = !pto.tile_buf<vec, 8x16xf32, valid=?x16>
!slice = !pto.partition_tensor_view<?x16xf32>
module attributes {pto.target_arch = "a3"} {
  func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %at: index, %n: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %vx = pto.make_tensor_view %x, shape = [%c8, %c16], strides = [%c16, %c1] : !pto.tensor_view<?x?xf32>
    %vy = pto.make_tensor_view %y, shape = [%c8, %c16], strides = [%c16, %c1] : !pto.tensor_view<?x?xf32>
    %sx = pto.partition_view %vx, offsets = [%at, %c0], sizes = [%n, %c16] : !pto.tensor_view<?x?xf32> -> !slice
    %sy = pto.partition_view %vy, offsets = [%at, %c0], sizes = [%n, %c16] : !pto.tensor_view<?x?xf32> -> !slice
    %a = pto.alloc_tile valid_row = %n : !tile
    pto.tload ins(%sx : !slice) outs(%a : !tile)
    pto.tstore ins(%a : !tile) outs(%sy : !slice)
    return
  }
}
"""


@pytest.mark.parametrize("start", [3, 8, 20, -4])
def test_an_empty_slice_touches_nothing_wherever_it_is(start: int) -> None:
    x, y = np.ones((8, 16), np.float32), np.zeros((8, 16), np.float32)
    run_text(ROWS, x, y, start, 0, native=True)
    assert not y.any()


# errors -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("comment", "message"), [("", "the kernel reached pto.trap"), (" // why", "the kernel reached pto.trap"), (" // error: so it is", "so it is")]
)
def test_a_trap_has_the_message_behind_it(comment: str, message: str) -> None:
    kernel = program_of(f"module {{\n  func.func @k(%y: !pto.ptr<i32>) {{\n    pto.trap{comment}\n    return\n  }}\n}}\n")
    errors = [_error(run, [np.zeros(4, np.int32)]) for run in (kernel.launch, kernel.interpret)]
    assert kernel.native is not None
    assert [error.message for error in errors] == [message] * 2 and {type(error) for error in errors} == {KernelAssertionError}


FILL = """!tile = !pto.tile_buf<vec, 8x16xf32>
!open = !pto.tile_buf<vec, 8x16xf32, valid=?x?>
module attributes {pto.target_arch = "a3"} {
  func.func @k(%y: !pto.ptr<f32>, %n: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %one = arith.constant 1.0 : f32
    BODY
    return
  }
}
"""
FILLED = "%a = pto.alloc_tile : !tile\n    pto.texpands ins(%one : f32) outs(%a : !tile)\n"
PLACED = """%at = arith.index_cast %n : index to i64
    %t = pto.alloc_tile addr = %at : !tile
    pto.texpands ins(%one : f32) outs(%t : !tile)
    %got = pto.tgetval ins(%t, %c0 : !tile, index) outs : f32
    pto.store_scalar %got, %y[%c0] : !pto.ptr<f32>, f32"""
LOOP = "scf.for %i = %c0 to %c8 step %n {\n      pto.store_scalar %one, %y[%i] : !pto.ptr<f32>, f32\n    }"
MISTAKES: dict[str, tuple[str, int, type[TilejitError], str]] = {
    "slice": (
        f"{FILLED}    %v = pto.make_tensor_view %y, shape = [%c8, %c16], strides = [%c16, %c1] : !pto.tensor_view<?x?xf32>\n"
        "    %s = pto.partition_view %v, offsets = [%n, %c0], sizes = [%c8, %c16] : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<8x16xf32>\n"
        "    pto.tstore ins(%a : !tile) outs(%s : !pto.partition_tensor_view<8x16xf32>)",
        1, OutOfBoundsError, "from element 0 to 143",
    ),
    "element": (
        f"{FILLED}    %got = pto.tgetval ins(%a, %n : !tile, index) outs : f32\n    pto.store_scalar %got, %y[%c0] : !pto.ptr<f32>, f32",
        128, OutOfBoundsError, "tile (of )?8x16",
    ),
    "valid rows": (
        "%t = pto.alloc_tile valid_row = %n valid_col = %c16 : !open\n    pto.texpands ins(%one : f32) outs(%t : !open)",
        9, ShapeError, "the number of valid rows lies between 0 and 8",
    ),
    "valid columns set": (
        "%t = pto.alloc_tile valid_row = %c8 valid_col = %c16 : !open\n    pto.set_validshape %t, %c8, %n : !open\n"
        "    pto.texpands ins(%one : f32) outs(%t : !open)",
        17, ShapeError, "the number of valid columns lies between 0 and 16",
    ),
    "address past the end": (PLACED, 196608, OutOfBoundsError, "vec memory"),
    "negative address": (PLACED, -32, OutOfBoundsError, "vec memory"),
    "address inside an element": (PLACED, 7, ShapeError, "an address that splits an element"),
    "division by zero": (
        "%q = arith.remui %c8, %n : index\n    %f = arith.index_cast %q : index to i32\n    %g = arith.sitofp %f : i32 to f32\n"
        "    pto.store_scalar %g, %y[%c0] : !pto.ptr<f32>, f32",
        0, KernelArithmeticError, "^a scalar is divided by zero$",
    ),
    "step zero": (LOOP, 0, KernelArithmeticError, "must be positive"),
    "step back": (LOOP, -1, KernelArithmeticError, "must be positive"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_both_paths_raise_the_same_error_at_the_same_place(mistake: str) -> None:
    body, number, kind, words = MISTAKES[mistake]
    kernel = program_of(FILL.replace("BODY", body))
    errors = [_error(run, [np.zeros((8, 16), np.float32), number]) for run in (kernel.launch, kernel.interpret)]
    assert kernel.native is not None, kernel.interpreted_because
    assert [type(error) for error in errors] == [kind] * 2
    assert all(re.search(words, error.message) for error in errors), [error.message for error in errors]
    assert str(errors[0].span) == str(errors[1].span)
    assert not any("clamp=" in str(error) for error in errors)


EMPTY_SECTION = """func.func @k(%y: !pto.ptr<f32>) attributes {pto.entry} {
  pto.section.vector {
  }
  %c0 = arith.constant 0 : index
  %one = arith.constant 1.0 : f32
  pto.store_scalar %one, %y[%c0] : !pto.ptr<f32>, f32
  return
}
"""


@pytest.mark.parametrize("section", ["pto.section.vector {\n  }", '"pto.section.vector"() ({\n  }) : () -> ()', "pto.section.cube {\n  }"])
def test_a_section_with_nothing_in_it_does_nothing(section: str) -> None:
    y = np.zeros(2, np.float32)
    run_text(EMPTY_SECTION.replace("pto.section.vector {\n  }", section), y)
    assert y.tolist() == [1.0, 0.0]
