"""Reads, checks and runs the kernels of this folder."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilejit.backends.pto.launch import launch, refuse_unrunnable
from tilejit.frontend.pto_text import parse_pto
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


def run(name: str, *arguments: object, grid: int = 1) -> None:
    """Launch the entry of a kernel."""
    file = load(name)
    (entry,) = file.entries()
    refuse_unrunnable(file, entry)
    launch(file, entry, [f"arg{i}" for i in range(len(arguments))], list(arguments), grid)


def run_text(text: str, *arguments: object, grid: int = 1) -> None:
    """Verify and launch the only entry of a text."""
    file = parse_pto(text)
    verify(file)
    (entry,) = file.entries()
    refuse_unrunnable(file, entry)
    launch(file, entry, [f"arg{i}" for i in range(len(arguments))], list(arguments), grid)


def close(got: NDArray, wanted: NDArray, tolerance: float) -> None:
    """Floats within the usual tolerance of their type, everything else exactly."""
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=tolerance)
