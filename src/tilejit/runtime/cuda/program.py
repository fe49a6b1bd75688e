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
    """"pointer" and "scalar" are arguments of the launch; "scratch", "error", "barrier" and "log" are supplied by the run time."""
    type: str
    divisible: bool = False


@dataclass(frozen=True)
class KernelRow:
    """A kernel as it is launched."""

    name: str
    parameters: tuple[ParameterRow, ...]
    scratch_bytes: int
    """Of each program."""
    cubins: tuple[CubinRow, ...]
    """The general variant, then the aligned one where that is another."""
    gang: int = 1
    """Programs that wait for each other: the grid is cut to as many gangs as run at once."""
    meeting_bytes: int = 0
    """Of each program, where they meet."""
    walkers: int = 0
    """Programs of each processor that share the blocks of the grid; 0: each block is a program."""

    @property
    def shared(self) -> bool:
        """Whether programs share the blocks, so that the grid is cut to as many as the device runs."""
        return self.gang > 1 or self.walkers > 0


Node = int | tuple[str, int] | tuple[str, "Node"] | tuple[str, "Node", "Node"]
"""A number: a constant, ("input", position), ("memory", place in the memory of the call), ("resident", kernel: how many of its programs share the blocks),
or (operation, left, right)."""


@dataclass(frozen=True, slots=True)
class LaunchRow:
    """One launch of a kernel."""

    kernel: int
    grid: tuple[Node, ...]
    arguments: tuple[Node, ...]
    """Of the parameters that are pointers, scalars, scratch or barriers."""
    scratch: Node = 0
    """Address of the memory that Triton itself wants, where it wants some."""
    zeroed: tuple[Node, ...] = ()
    """Address and bytes of memory that must be 0 when it starts."""


@dataclass(frozen=True, slots=True)
class EntryRow:
    """What a call does: facts about its parameters, and the text of a Python function of them."""

    inputs: tuple[tuple[int, str, int], ...]
    """(parameter, "address" | "extent" | "stride" | "value", axis) for each argument of the function."""
    text: str
    memory: bool
    """Whether it asks for memory."""
    launches: tuple[LaunchRow, ...] | None = None
    """All that it does, where that is a list of launches; None: only the text says it."""
    bytes: Node = 0
    """Memory that the launches need."""


@dataclass(frozen=True)
class CudaProgram:
    """Everything that runs on one architecture, besides the code itself."""

    arch: int
    """Compute capability times ten."""
    kernels: tuple[KernelRow, ...]
    entries: Mapping[str, EntryRow]

    def written(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self)


def architecture_name(arch: int) -> str:
    """As NVIDIA spells it."""
    return f"sm_{arch}"


def runs_on(arch: int, capability: int) -> bool:
    """Whether code for `arch` runs on a GPU: newer ones of the same generation take it, but for what Hopper and later ones compile to."""
    return arch == capability or (arch // 10 == capability // 10 and arch < capability and arch < 90)


def read_program(fields: Mapping[str, Any]) -> CudaProgram:
    """What `written` wrote."""
    return CudaProgram(
        fields["arch"],
        tuple(
            KernelRow(
                kernel["name"],
                tuple(ParameterRow(**parameter) for parameter in kernel["parameters"]),
                kernel["scratch_bytes"],
                tuple(CubinRow(row["file"], LaunchFacts(**row["facts"]), row["aligned"]) for row in kernel["cubins"]),
                kernel["gang"],
                kernel["meeting_bytes"],
                kernel["walkers"],
            )
            for kernel in fields["kernels"]
        ),
        {
            name: EntryRow(
                tuple((int(at), str(fact), int(axis)) for at, fact, axis in entry["inputs"]),
                entry["text"],
                entry["memory"],
                None if entry["launches"] is None else tuple(map(_read_launch, entry["launches"])),
                _read_node(entry["bytes"]),
            )
            for name, entry in fields["entries"].items()
        },
    )


def _read_launch(fields: Mapping[str, Any]) -> LaunchRow:
    grid, arguments, zeroed = (tuple(map(_read_node, fields[name])) for name in ("grid", "arguments", "zeroed"))
    return LaunchRow(fields["kernel"], grid, arguments, _read_node(fields["scratch"]), zeroed)


def _read_node(node: Any) -> Node:
    if isinstance(node, int):
        return node
    if node[0] in ("input", "resident"):
        return str(node[0]), int(node[1])
    if node[0] == "memory":
        return "memory", _read_node(node[1])
    operation, left, right = node
    return str(operation), _read_node(left), _read_node(right)
