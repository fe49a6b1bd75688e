"""A plan, compiled: the facts and sections of an artifact that runtime/cuda runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilejit.backends.cuda import plan
from tilejit.backends.cuda.compile import STAGES, Cubin, compile_all
from tilejit.backends.cuda.control_plane.launch_list import launch_list
from tilejit.backends.cuda.control_plane.text import all_steps, host_text, launched
from tilejit.runtime.artifact.directory import Stage
from tilejit.runtime.cuda.program import CubinRow, CudaProgram, EntryRow, KernelRow, ParameterRow

_SUPPLIED = ("scratch", "barrier", "log")
"""Parameters that take memory."""


@dataclass(frozen=True)
class Assembled:
    """A program for one architecture."""

    program: CudaProgram
    cubins: Mapping[str, Cubin]
    """By section."""

    @property
    def sections(self) -> dict[str, Callable[[], bytes]]:
        return {name: lambda cubin=cubin: cubin.code for name, cubin in self.cubins.items()}

    def stages(self) -> list[Stage]:
        """What can be looked at: the host's text, each kernel's source, and of its best variant what Triton makes of it."""
        found = [Stage(f"{name}.host.py", f"kernels/{name}.host.py", lambda entry=entry: entry.text) for name, entry in self.program.entries.items()]
        best = {name.partition(".")[0]: cubin for name, cubin in self.cubins.items()}  # the aligned variant comes last
        for name, cubin in best.items():
            found.append(Stage(f"{name}.py", f"kernels/{name}.py", lambda cubin=cubin: cubin.kernel.text))
            for stage in STAGES:
                file = f"kernels/{name}.{stage}" if stage == "ptx" else None  # the others are made when somebody looks
                found.append(Stage(f"{name}.{stage}", file, lambda cubin=cubin, stage=stage: cubin.stage(stage)))
        return found


def assemble(program: plan.Program, arch: int) -> Assembled:
    """Compile all kernels of a plan for one architecture."""
    made = compile_all(program.kernels, arch)
    labels = _labels([kernel.name for kernel in program.kernels])
    cubins = {_section(label, cubin): cubin for label, variants in zip(labels, made, strict=True) for cubin in variants}
    kernels = tuple(
        KernelRow(
            kernel.name,
            tuple(ParameterRow(row.name, row.kind, row.type, row.divisible) for row in kernel.parameters),
            kernel.scratch_bytes,
            tuple(CubinRow(_section(label, cubin), cubin.facts, cubin.aligned) for cubin in variants),
            kernel.gang,
            kernel.meeting_bytes,
            kernel.walkers,
        )
        for kernel, label, variants in zip(program.kernels, labels, made, strict=True)
    )
    return Assembled(CudaProgram(arch, kernels, {name: entry_row(entry, kernels) for name, entry in program.entries.items()}), cubins)


def _labels(names: Sequence[str]) -> list[str]:
    """The names of kernels, told apart where two have the same."""
    return [name if names.count(name) == 1 else f"{name}_{at}" for at, name in enumerate(names)]


def _section(label: str, cubin: Cubin) -> str:
    return f"{label}.sm_{cubin.arch}{'.aligned' if cubin.aligned else ''}.cubin"


def entry_row(entry: plan.EntryPlan, kernels: Sequence[KernelRow]) -> EntryRow:
    used = [kernels[at] for at in set(launched(entry.steps))]
    memory = any(isinstance(step, plan.Allocate) for step in all_steps(entry.steps)) or any(_takes_memory(kernel) for kernel in used)
    launches, size = launch_list(entry, kernels) or (None, 0)
    return EntryRow(tuple((given.parameter, given.fact, given.axis) for given in entry.inputs), host_text(entry), memory, launches, size)


def _takes_memory(kernel: KernelRow) -> bool:
    supplied = any(parameter.kind in _SUPPLIED for parameter in kernel.parameters)
    return supplied or any(row.facts.scratch for row in kernel.cubins)
