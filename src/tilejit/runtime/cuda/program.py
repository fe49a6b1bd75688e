"""A CUDA program as data: kernels with their cubins and launch facts, and per entry the Python text that launches them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

DIVISIBLE = 16
"""What an aligned address or number is a multiple of: one 128-bit access."""


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """What launching a cubin needs."""

    symbol: str
    warps: int
    shared: int
    """Bytes of shared memory of a block."""
    clusters: int = 1
    """Blocks that form a cluster: the grid has so many times the programs along x."""
    scratch: int = 0
    """Bytes of global memory that Triton itself wants for each block, and their alignment."""
    scratch_align: int = 1
    cooperative: bool = False


@dataclass(frozen=True, slots=True)
class CubinRow:
    """One variant of a kernel for one architecture."""

    file: str
    """The section that holds its code."""
    facts: LaunchFacts
    aligned: bool = False


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """A parameter of a kernel."""

    name: str
    kind: str
    """"pointer" and "scalar" are arguments of the launch; "scratch", "error" and "barrier" are supplied by the run time."""
    type: str
    divisible: bool = False


@dataclass(frozen=True)
class KernelRow:
    """A kernel as it is launched."""

    name: str
    parameters: tuple[ParameterRow, ...]
    scratch_bytes: int
    """Of each program."""
    cubins: Mapping[int, tuple[CubinRow, ...]]
    """By architecture: the general variant, then the aligned one where that is another."""


@dataclass(frozen=True, slots=True)
class EntryRow:
    """What a call does: facts about its parameters, and the text of a Python function of them."""

    inputs: tuple[tuple[int, str, int], ...]
    """(parameter, "address" | "extent" | "stride" | "value", axis) for each argument of the function."""
    text: str
    memory: bool
    """Whether it asks for memory."""


@dataclass(frozen=True)
class CudaProgram:
    """Everything that runs, besides the code itself."""

    kernels: tuple[KernelRow, ...]
    entries: Mapping[str, EntryRow]

    @property
    def architectures(self) -> tuple[int, ...]:
        """What there are cubins for."""
        return tuple(self.kernels[0].cubins) if self.kernels else ()

    def written(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self)


def read_program(fields: Mapping[str, Any]) -> CudaProgram:
    """What `written` wrote."""
    return CudaProgram(
        tuple(
            KernelRow(
                kernel["name"],
                tuple(ParameterRow(**parameter) for parameter in kernel["parameters"]),
                kernel["scratch_bytes"],
                {int(arch): tuple(map(_read_cubin, rows)) for arch, rows in kernel["cubins"].items()},
            )
            for kernel in fields["kernels"]
        ),
        {
            name: EntryRow(tuple((int(at), str(fact), int(axis)) for at, fact, axis in entry["inputs"]), entry["text"], entry["memory"])
            for name, entry in fields["entries"].items()
        },
    )


def _read_cubin(fields: Mapping[str, Any]) -> CubinRow:
    return CubinRow(fields["file"], LaunchFacts(**fields["facts"]), fields["aligned"])
