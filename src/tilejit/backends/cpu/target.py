"""The target `cpu`: machine code of this processor, as one section that any process can map."""

from __future__ import annotations

from tilejit.backends.base import Built, CompileOptions, Target
from tilejit.backends.cpu import executable
from tilejit.backends.cpu.rules import hole
from tilejit.backends.entries import entry_infos, versions
from tilejit.backends.reference.target import build_stopping
from tilejit.passes.pipeline import ACCUMULATE, EDGES, FUSE, FUSE_IN_ORDER, LOWER, PAIRS, SHARE, SIMPLIFY, WHOLE, Pass
from tilejit.runtime import machine
from tilejit.runtime.artifact.blob import code_section
from tilejit.runtime.artifact.directory import Stage
from tilejit.runtime.artifact.sections import Artifact
from tilejit.tile_ir.program import Program

PASSES: tuple[Pass, ...] = (*LOWER, PAIRS, SIMPLIFY, WHOLE, ACCUMULATE, EDGES, FUSE, SHARE)
PASSES_IN_ORDER: tuple[Pass, ...] = (*LOWER, PAIRS, SIMPLIFY, EDGES, FUSE_IN_ORDER, SHARE)
"""Without fast maths, sums are added up in the order of the reference."""


def build(program: Program, prepared: Program, options: CompileOptions) -> Built:
    """Machine code, with the texts it came from."""
    stopping = build_stopping(program, options)
    if stopping is not None:
        return stopping
    made = executable.build(prepared, options)
    lowered, blob = made.lowered, made.blob
    facts, sections = code_section(blob, machine.needed_features(made.features)) if blob else ({}, {})
    entries = entry_infos(prepared, prepared, lowered.entries, lowered.needs_arena, lowered.threaded)
    artifact = Artifact(program.name, options.platform, entries, lowered.failures, versions(**executable.versions()), facts, sections)
    stages = [
        Stage("schedule", "schedule.json", lowered.schedules.text),
        Stage("ll", "kernels/whole-program.ll", lambda: lowered.text),
        Stage("opt.ll", "kernels/whole-program.opt.ll", lambda: made.compiled.optimised),
        Stage("s", "kernels/whole-program.s", lambda: made.compiled.assembly),
        *executable.kernel_stages(made),
    ]
    # Without a blob the code is linked in this process, by LLVM, and cannot leave it.
    return Built(artifact, stages, None if blob else made.entries)


TARGET = Target(lambda options: PASSES if options.fast_math else PASSES_IN_ORDER, hole, build)
