"""Reads, checks and runs the kernels of this folder."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilejit.backends.pto.interpret.arguments import flat_arguments
from tilejit.backends.pto.interpret.launch import launch, parameter_types, refuse_unrunnable
from tilejit.frontend.pto.text import parse_pto
from tilejit.jit.pto.program import PtoProgram
from tilejit.tile_ir.pto.module import PtoFile
from tilejit.tile_ir.pto.verify import verify

HERE = Path(__file__).parent
KERNELS = sorted(path.stem for path in (HERE / "kernels").glob("*.pto"))
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
        flat = flat_arguments(kernel.names, parameter_types(kernel.entry), copies, kernel.native.param_infos)
        assert flat is not None
        kernel.native(*flat, grid)
        for wanted, got in zip(arguments, copies):
            if isinstance(wanted, np.ndarray) and isinstance(got, np.ndarray):
                close(got, wanted, TOLERANCE.get(wanted.dtype.name, 0.0))


TOLERANCE = {"float32": 2e-5, "float16": 2e-3, "bfloat16": 1e-2}
"""How far machine code and interpreter may differ: sums are added in another order."""


def close(got: NDArray, wanted: NDArray, tolerance: float) -> None:
    """Floats within the usual tolerance of their type, everything else exactly: also what only looks like a float, such as the indices of records."""
    assert got.shape == wanted.shape
    bits = (wanted != 0) & (np.abs(wanted.astype(np.float64)) < 1e-38)
    np.testing.assert_array_equal(got[bits], wanted[bits])
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=tolerance)
