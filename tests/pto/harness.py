"""Reads, checks and runs the kernels of this folder."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilejit.backends.pto.interpret.launch import launch, parameter_types, refuse_unrunnable
from tilejit.frontend.pto.text import parse_pto
from tilejit.jit.pto.code import launched
from tilejit.jit.pto.program import PtoProgram
from tilejit.tile_ir.pto.module import PtoFile
from tilejit.tile_ir.pto.verify import verify

HERE = Path(__file__).parent
KERNELS = sorted(path.stem for path in (HERE / "kernels").glob("*.pto"))
MISTAKES = HERE.parent / "tile_ir" / "pto" / "mistakes"
NDArray = npt.NDArray[Any]


@cache
def load(name: str) -> PtoFile:
    """A kernel of the folder, verified."""
    file = parse_pto((HERE / "kernels" / f"{name}.pto").read_text(), f"{name}.pto")
    verify(file)
    return file


@cache
def program(name: str) -> PtoProgram:
    """The entry of a kernel, as a source-backed kernel would hold it."""
    return _program(load(name))


def _program(file: PtoFile) -> PtoProgram:
    (entry,) = file.entries()
    return PtoProgram(file, entry, tuple(f"arg{i}" for i in range(len(entry.body.block.args))))


def run(name: str, *arguments: object, grid: int = 1) -> None:
    """Launch the entry of a kernel on the interpreter; where it also is machine code, that must give the same."""
    _run_both(program(name), arguments, grid)


def program_of(text: str) -> PtoProgram:
    """The only entry of a text, verified."""
    file = parse_pto(text)
    verify(file)
    return _program(file)


def run_text(text: str, *arguments: object, grid: int = 1, native: bool = False) -> None:
    """Verify and launch the only entry of a text; `native`: it must be machine code."""
    kernel = program_of(text)
    assert not native or kernel.native is not None, kernel.interpreted_because
    _run_both(kernel, arguments, grid)


def _run_both(kernel: PtoProgram, arguments: tuple[object, ...], grid: int) -> None:
    refuse_unrunnable(kernel.file, kernel.entry)
    copies = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
    launch(kernel.file, kernel.entry, kernel.names, list(arguments), grid)
    overlapping = any(np.shares_memory(a, b) for a, b in combinations([value for value in arguments if isinstance(value, np.ndarray)], 2))
    if kernel.native is not None and not overlapping:
        assert launched(kernel.native, kernel.names, parameter_types(kernel.entry), copies, grid)
        for wanted, got in zip(arguments, copies):
            if isinstance(wanted, np.ndarray) and isinstance(got, np.ndarray):
                close(got, wanted, TOLERANCE.get(wanted.dtype.name, 0.0))


class Text:
    """A kernel of one entry; its parameters are arrays of the valid cells of tiles, in the order in which they are asked for."""

    def __init__(self, arch: str = "a3") -> None:
        self.arch, self.names, self.lines = arch, list[str](), list[str]()

    def view(self, name: str, shape: tuple[int, int], element: str) -> str:
        """A parameter and a slice `%s_name` of all of it."""
        self.names.append(f"%p_{name}: !pto.ptr<{element}>")
        self.lines += [f"%{name}_{axis} = arith.constant {size} : index" for axis, size in zip("rc", shape)]
        view, part = f"!pto.tensor_view<?x?x{element}>", f"!pto.partition_tensor_view<{shape[0]}x{shape[1]}x{element}>"
        self.lines.append(f"%v_{name} = pto.make_tensor_view %p_{name}, shape = [%{name}_r, %{name}_c], strides = [%{name}_c, %one] : {view}")
        self.lines.append(f"%s_{name} = pto.partition_view %v_{name}, offsets = [%zero, %zero], sizes = [%{name}_r, %{name}_c] : {view} -> {part}")
        return part

    def tile(self, name: str, shape: tuple[int, int], element: str, valid: tuple[int, int] | None = None, more: str = "", loc: str = "vec") -> str:
        """A tile `%name` with the cells of a parameter in its valid region."""
        part, type = self.view(name, valid or shape, element), self.alloc(name, shape, element, valid, more, loc)
        self.lines.append(f"pto.tload ins(%s_{name} : {part}) outs(%{name} : {type})")
        return type

    def alloc(self, name: str, shape: tuple[int, int], element: str, valid: tuple[int, int] | None = None, more: str = "", loc: str = "vec") -> str:
        rows, cols = valid or shape
        type = f"!pto.tile_buf<{loc}, {shape[0]}x{shape[1]}x{element}{f', valid={rows}x{cols}' if (rows, cols) != shape else ''}{more}>"
        self.lines.append(f"%{name} = pto.alloc_tile : {type}")
        return type

    def operand(self, name: str, loc: str, shape: tuple[int, int], element: str, valid: tuple[int, int] | None = None) -> str:
        """A tile of the cube core that comes from a parameter through mat memory."""
        boxed = ", blayout=col_major, slayout=row_major"
        left = boxed if self.arch == "a5" else ", slayout=row_major"
        more = {"left": left, "right": ", slayout=col_major"}.get(loc, "")
        first = self.tile(f"{name}_mat", shape, element, valid, boxed if more else "", "mat")
        type = self.alloc(name, shape, element, valid, more, loc)
        self.lines.append(f"pto.tmov ins(%{name}_mat : {first}) outs(%{name} : {type})")
        return type

    def op(self, name: str, ins: dict[str, str], outs: dict[str, str], inner: str = "", tail: str = "") -> None:
        """An op in destination style: names and types of its operands."""
        sides = [", ".join(f"%{key.rstrip('_')}" for key in side) for side in (ins, outs)]
        self.lines.append(f"pto.{name} ins({sides[0]}{inner} : {', '.join(ins.values())}) outs({sides[1]} : {', '.join(outs.values())}){tail}")

    def store(self, name: str, type: str, shape: tuple[int, int], element: str) -> None:
        self.lines.append(f"pto.tstore ins(%{name} : {type}) outs(%s_{name} : !pto.partition_tensor_view<{shape[0]}x{shape[1]}x{element}>)")

    def __str__(self) -> str:
        body = "\n    ".join(["%zero = arith.constant 0 : index", "%one = arith.constant 1 : index", *self.lines, "return"])
        return f'module attributes {{pto.target_arch = "{self.arch}"}} {{\n  func.func @k({", ".join(self.names)}) {{\n    {body}\n  }}\n}}\n'


TOLERANCE = {"float32": 2e-5, "float16": 2e-3, "bfloat16": 1e-2}
"""How far machine code and interpreter may differ: sums are added in another order."""


def close(got: NDArray, wanted: NDArray, tolerance: float) -> None:
    """Floats within the usual tolerance of their type, everything else exactly: also what only looks like a float, such as the indices of records."""
    assert got.shape == wanted.shape
    with np.errstate(invalid="ignore"):
        bits = (wanted != 0) & (np.abs(wanted.astype(np.float64)) < 1e-38)
        np.testing.assert_array_equal(got[bits], wanted[bits])
        np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=tolerance)
