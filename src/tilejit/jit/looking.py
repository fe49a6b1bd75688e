"""Programs of kernels as one looks at them: all forms of what came from a cache, what a call wants to have kept, schedules that name nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from tilejit import config as settings
from tilejit.errors import OptionError, did_you_mean
from tilejit.jit.disk.kernels import Key
from tilejit.runtime.artifact.compiled import CompiledProgram
from tilejit.runtime.artifact.directory import Stage
from tilejit.runtime.config import RunConfig


def again(asked: Callable[[], Key]) -> Callable[[object], Iterable[Stage]]:
    """Compiles a program once more as its key says, for its stages."""

    def stages(program: object) -> Iterable[Stage]:
        if settings.RUN_ONLY.value:
            return ()
        from tilejit.compiler import compile_program
        from tilejit.tile_ir.program import Program

        key = asked()
        assert isinstance(program, Program)
        with settings.under(key.options):
            return compile_program(program, RunConfig(platform=key.platform, device_id=int(key.device.partition(":")[2] or 0), dump_passes=True)).forms()

    return stages


def keep_what_is_asked(program: CompiledProgram, config: RunConfig) -> None:
    """What a call wants to see of a compile, also where it was done before."""
    if config.dump_passes:
        program.look_again()
    if config.save_kernels:
        program.save_kernels(config.save_kernels_dir)


def check_schedule(compiled: CompiledProgram, schedule: str, own: bool) -> None:
    """Refuse a schedule for nests that a program does not have; one that is not its `own` may speak of all kinds of products at once."""
    from tilejit.backends.schedules import shared_names

    shared = () if own else shared_names()
    known = list(json.loads(compiled.stage("schedule"))) if "schedule" in compiled.stages() else []
    for nest in json.loads(schedule or "{}"):
        if nest not in known and nest not in shared:
            help = did_you_mean(nest, (*known, *shared)) or (f"it has {', '.join(known)}" if known else f"on `{compiled.platform}` nothing can be replaced")
            raise OptionError(f"the schedule of {compiled.name.removeprefix('_jit_')} has no {nest!r}", help=help)
