"""Machine code and interpreter mean the same at the edges: unsigned numbers, empty regions, conversions that overflow, odd shifts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.pto.harness import run_text

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
