"""The target `cuda`: Triton source from tile IR, cubins for one or several architectures, and the Python text that launches them."""

from __future__ import annotations

from tilejit.backends.base import Built, CompileOptions, Target
from tilejit.backends.cuda import compile as triton
from tilejit.backends.cuda.assemble import Assembled, assemble
from tilejit.backends.cuda.lower import lower
from tilejit.backends.cuda.rules import hole
from tilejit.backends.entries import entry_infos, versions
from tilejit.backends.reference.target import build_stopping
from tilejit.errors import PlatformError
from tilejit.passes.pipeline import FUSED
from tilejit.runtime.artifact.directory import Stage
from tilejit.runtime.artifact.sections import Artifact
from tilejit.runtime.cuda import devices
from tilejit.tile_ir.program import Program


def architectures(options: CompileOptions) -> tuple[int, ...]:
    """What to compile for: what the options say, else the GPU that the code will run on."""
    if options.arch:
        return tuple(int(name.removeprefix("sm_")) for name in options.arch.split(","))
    try:
        return (devices.device(int(options.device.partition(":")[2] or 0)).capability,)
    except PlatformError as error:
        raise PlatformError(error.message, help=f"{error.hint}; to compile without a GPU say what for: arch='sm_90', or TILEJIT_ARCH=sm_90") from None


def build(program: Program, prepared: Program, options: CompileOptions) -> Built:
    """Cubins, with the texts they came from."""
    stopping = build_stopping(program, options)
    if stopping is not None:
        return stopping
    wanted = architectures(options)
    for arch in wanted:
        triton.check_arch(arch)
    plan = lower(prepared, options)
    made: list[Assembled] = [assemble(plan, arch) for arch in wanted]
    sections = {name: fetch for each in made for name, fetch in each.sections.items()}
    facts = {"programs": [each.program.written() for each in made]}
    artifact = Artifact(program.name, options.platform, entry_infos(prepared, prepared), plan.failures, versions(**triton.versions()), facts, sections)
    return Built(artifact, [Stage("schedule", "schedule.json", plan.schedules), *made[-1].stages()])


TARGET = Target(lambda options: FUSED, hole, build)
