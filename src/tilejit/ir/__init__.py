"""Programs as objects: compile them, compare them, print them."""

from __future__ import annotations

import os
from dataclasses import replace

from tilejit import config as settings
from tilejit.backends.schedules import check_names
from tilejit.compiler import compile_program
from tilejit.jit.hosts.distributed import DistributedCompiledProgram
from tilejit.passes.context import PassContext
from tilejit.runtime.artifact.compiled import CompiledProgram
from tilejit.runtime.config import OptimizationStrategy, RunConfig, check_options
from tilejit.runtime.ranks.config import DistributedConfig
from tilejit.tile_ir import equal, text
from tilejit.tile_ir.program import Function, Program

__all__ = [
    "CompiledProgram",
    "DistributedCompiledProgram",
    "DistributedConfig",
    "Function",
    "OptimizationStrategy",
    "PassContext",
    "Program",
    "assert_structural_equal",
    "compile",
    "deserialize",
    "python_print",
    "serialize",
    "structural_equal",
    "structural_hash",
]

Node = Program | Function
_DEFAULTS: dict[str, object] = {"platform": None, "device_id": 0, "dump_passes": False, "strategy": OptimizationStrategy.Default, "arch": None}
_OPTIONS = ("output_dir", "platform", "device_id", "dump_passes", "verification_level", "strategy", "skip_ptoas", "arch", "config", "distributed_config")


def compile(
    program: Node,
    output_dir: str | os.PathLike[str] | None = None,
    *,
    platform: str | None = None,
    device_id: int = 0,
    dump_passes: bool = False,
    verification_level: object = None,
    strategy: OptimizationStrategy = OptimizationStrategy.Default,
    skip_ptoas: bool = False,
    arch: str | None = None,
    config: RunConfig | None = None,
    distributed_config: DistributedConfig | None = None,
    **inert: object,
) -> CompiledProgram:
    """Compile a program once; call the result like a function.

    With `output_dir` the artifact is written there (program, kernels, machine code); else only when the result is used as a path. Options of other
    tile compilers (`backend_type`, `memory_planner`, …) are accepted and have no effect, `skip_ptoas` has none on platforms without PTO.
    `arch` names GPU architectures to compile for (`"sm_90"`, `"sm_80,sm_90"`), which needs no GPU.
    `verification_level`: anything but None and 0 verifies the IR after every pass.
    """
    if not isinstance(program, Program | Function):
        raise TypeError(f"ir.compile takes a program, got {type(program).__name__}; decorate the class with @pl.program")
    check_options(inert, _OPTIONS, "ir.compile")
    if verification_level:
        strategy = OptimizationStrategy.Debug
    given = {"platform": platform, "device_id": device_id, "dump_passes": dump_passes, "strategy": strategy, "arch": arch}
    # What is said here goes before what the config says.
    said = {name: value for name, value in given.items() if value != _DEFAULTS[name]}
    chosen = replace(config, **said) if config is not None else RunConfig(**said)  # type: ignore[arg-type]
    hosts = isinstance(program, Program) and bool(program.hosts)
    place = os.fspath(output_dir) if output_dir is not None else None
    compiled = compile_program(program, chosen, None if hosts else place)
    check_names(compiled, chosen.schedule, of_setting=chosen.schedule == settings.SCHEDULE.value)
    if isinstance(program, Program) and hosts:
        found = distributed_config if distributed_config is not None else chosen.distributed_config
        if found is not None and not isinstance(found, DistributedConfig):
            raise TypeError(f"distributed_config is a DistributedConfig, got {type(found).__name__}")
        return DistributedCompiledProgram.of_program(compiled, program, found, chosen, place)
    return compiled


def structural_equal(a: Node, b: Node, enable_auto_mapping: bool = False) -> bool:
    """Whether two programs do the same things in the same order; names and places do not matter."""
    return equal.structural_equal(_program(a), _program(b))


def assert_structural_equal(a: Node, b: Node, enable_auto_mapping: bool = False) -> None:
    """Raises AssertionError that says where two programs differ."""
    equal.assert_structural_equal(_program(a), _program(b))


def structural_hash(node: Node, enable_auto_mapping: bool = False) -> int:
    """Equal for structurally equal programs, in every process."""
    return equal.structural_hash(_program(node))


def python_print(node: Node, prefix: str = "pl", concise: bool = False, format: bool = True, explicit_layout: bool = False) -> str:
    """The program as source that parses back to an equal program."""
    return node.as_python(prefix, concise)


def serialize(node: Node) -> str:
    """The program as MLIR text."""
    return text.print_text(_program(node))


def deserialize(source: str) -> Program:
    """The program whose MLIR text is `source`."""
    return text.parse_text(source)


def _program(node: Node) -> Program:
    return node.program if isinstance(node, Function) else node
