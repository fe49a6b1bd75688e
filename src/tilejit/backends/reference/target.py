"""The target `reference`: nothing is generated, the program itself is what runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilejit.backends.base import Built, CompileOptions, Target
from tilejit.backends.entries import declared_params, entry_infos, fused, versions
from tilejit.backends.reference.interpreter import ReferenceExecutable
from tilejit.backends.reference.sanitizer import SanitizedExecutable
from tilejit.backends.reference.stepping import SteppedExecutable
from tilejit.ops.spec import OpSpec
from tilejit.runtime.arrays import ArrayView
from tilejit.runtime.artifact.sections import Artifact
from tilejit.runtime.call.signature import Bound
from tilejit.runtime.targets import EAGER, HOST, SANITIZE
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.program import Program


@dataclass(frozen=True, slots=True)
class ArrayRunner:
    """Runs an entry of something that takes NumPy arrays."""

    run_entry: Callable[[str, Sequence[Any]], object]
    name: str
    written: tuple[bool, ...] = ()
    """Which arguments it writes."""

    def run(self, arguments: Sequence[Bound], num_threads: int | None = None) -> None:
        """Run on checked arguments; those on a GPU are copied to the host and back."""
        if any(isinstance(argument, ArrayView) and argument.device != HOST for argument in arguments):
            from tilejit.runtime.cuda.copies import on_host

            with on_host(arguments, self.written) as copies:
                self.run_entry(self.name, copies)
            return
        self.run_entry(self.name, [argument.numpy() if isinstance(argument, ArrayView) else argument for argument in arguments])


def hole(row: OpSpec) -> str | None:
    """Nothing is missing: the reference of a row is its meaning."""
    return None


def build(program: Program, prepared: Program, options: CompileOptions) -> Built:
    """The program, ready to be interpreted."""
    executable = _KINDS.get(options.platform, ReferenceExecutable)(prepared, options)
    artifact = Artifact(program.name, options.platform, entry_infos(prepared, fused(program)), versions=versions())
    written = {name: tuple(param.direction != "In" for param in declared_params(function)) for name, function in prepared.entries.items()}
    return Built(artifact, runners={name: ArrayRunner(executable.run, name, written[name]) for name in prepared.entries})


def build_stopping(program: Program, options: CompileOptions) -> Built | None:
    """A program that stops in the debugger runs where debuggers can stop, line by line; None: it does not stop."""
    if any(isinstance(op, d.EffectOp) and op.static("op") == "breakpoint" for function in program.functions.values() for op in function.walk()):
        return build(program, program, replace(options, platform=EAGER))
    return None


_KINDS = {EAGER: SteppedExecutable, SANITIZE: SanitizedExecutable}

TARGET = Target(lambda options: (), hole, build)
