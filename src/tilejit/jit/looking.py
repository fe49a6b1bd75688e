"""Programs of kernels as one looks at them: all forms of what came from a cache, what a call wants to have kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tilejit import config as settings
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
