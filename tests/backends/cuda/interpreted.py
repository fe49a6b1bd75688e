"""The target `triton`: CUDA plans on a device of the tests, Triton's interpreter or (with TEST_ON_GPU) the GPU of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from tilejit.backends.base import Built, CompileOptions, Target
from tilejit.backends.cuda import plan
from tilejit.backends.cuda.lower import lower
from tilejit.backends.entries import entry_infos, fused, versions
from tilejit.backends.reference.target import ArrayRunner, hole
from tilejit.passes.pipeline import FUSED
from tilejit.runtime.artifact.directory import Stage
from tilejit.runtime.artifact.sections import Artifact
from tilejit.runtime.targets import TargetRow, register
from tilejit.tile_ir.program import Program

ON_GPU = "TEST_ON_GPU" in os.environ

seen: list[Callable[[str, plan.Program | None], None]] = []
"""Called with the stage a program has reached, and the plan when there is one."""


def _tell(stage: str, made: plan.Program | None = None) -> None:
    for listener in seen:
        listener(stage, made)


def build(program: Program, prepared: Program, options: CompileOptions) -> Built:
    """A plan, with a device to run it."""
    if ON_GPU:
        from tests.backends.cuda.gpu import Gpu as Device
    else:
        from tests.backends.cuda.machine import Machine as Device
    _tell("lower")
    made = lower(prepared, options, interpreted=not ON_GPU)
    _tell("run", made)
    device = Device(made)

    def run(entry: str, arguments: Sequence[Any]) -> None:
        _tell("run")
        device.run(entry, arguments)
        _tell("agree")

    artifact = Artifact(program.name, options.platform, entry_infos(prepared, fused(program)), versions=versions())
    return Built(artifact, [Stage("schedule", "schedule.json", made.schedules)], runners={name: ArrayRunner(run, name) for name in prepared.entries})


TARGET = Target(lambda options: FUSED, hole, build)
register(TargetRow("triton", ("triton",), "tests.backends.cuda.interpreted"))
