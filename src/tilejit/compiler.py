"""Program → passes → backend → CompiledProgram; the only place that knows the order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilejit import config as settings
from tilejit.backends.base import CompileOptions
from tilejit.errors import InternalError, PlatformError
from tilejit.passes import pipeline
from tilejit.runtime.arrays import ArrayView
from tilejit.runtime.compiled import CompiledEntry, CompiledProgram, Runner
from tilejit.runtime.config import RunConfig, resolve_platform, warn_about_unknown_settings
from tilejit.runtime.signature import Bound, ParamInfo, Signature
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.program import Function, Program
from tilejit.tile_ir.text import print_text
from tilejit.types.values import BufferType, ScalarType, ValueType


def compile_program(program: Program | Function, config: RunConfig | None = None) -> CompiledProgram:
    """Compile every entry of a program for the platform of `config`."""
    warn_about_unknown_settings()
    config = config or RunConfig()
    platform = resolve_platform(config.platform)
    whole = program.program if isinstance(program, Function) else program
    if not whole.entries:
        raise ValueError(f"program {whole.name} has several functions and none of type Orchestration: which one to call is unclear")
    builder = _BUILDERS.get(platform)
    if builder is None:
        raise PlatformError(f"platform `{platform}` cannot run kernels in this version", help=f"use one of: {', '.join(_BUILDERS)}")
    return builder(whole, config)


def lower_program(program: Program | Function, config: RunConfig | None = None) -> Program:
    """The program with one kernel per region: the last form that prints as Python."""
    whole = program.program if isinstance(program, Function) else program
    return pipeline.run_pipeline(whole, pipeline.LOWER, _instruments())


def _instruments() -> list[pipeline.Instrument]:
    return [pipeline.VerifyInstrument()] if settings.VERIFY.value else []


# ----------------------------------------------------------------------------------------------------------------------
# signatures


def signature_of(function: d.FuncOp) -> Signature:
    """How an entry is called: tensors as declared, then scalars as declared; hidden outputs are returned."""
    attrs = function.static("attrs")
    assert isinstance(attrs, dict)
    everything = declared_params(function)
    split = len(everything) - attrs.get("hidden", 0)
    declared, hidden = everything[:split], everything[split:]
    calling = sorted(range(split), key=lambda i: (not declared[i].is_tensor, i))
    order = tuple(calling.index(i) for i in range(split))
    return Signature(function.symbol, tuple(declared[i] for i in calling), tuple(hidden), None if order == tuple(range(split)) else order)


def declared_params(function: d.FuncOp) -> list[ParamInfo]:
    """The parameters in the order of the code."""
    names, directions = function.static("params"), function.static("directions")
    assert isinstance(names, tuple) and isinstance(directions, tuple)
    return [
        _param(str(name), str(direction), d.type_of(argument))
        for name, direction, argument in zip(names, directions, function.body.block.args, strict=True)
    ]


def _param(name: str, direction: str, type: ValueType) -> ParamInfo:
    if isinstance(type, ScalarType):
        return ParamInfo(name, "In", type.dtype)
    if isinstance(type, BufferType):
        return ParamInfo(name, direction, type.dtype, type.shape)
    raise InternalError(f"entry parameter {name} has the type {type}")


def _entries(program: Program, runner: Callable[[d.FuncOp], Runner]) -> dict[str, CompiledEntry]:
    return {name: CompiledEntry(signature_of(function), runner(function)) for name, function in program.entries.items()}


# ----------------------------------------------------------------------------------------------------------------------
# reference


@dataclass(frozen=True, slots=True)
class _ReferenceRunner:
    run_entry: Callable[[str, Sequence[Any]], object]
    name: str

    def run(self, arguments: Sequence[Bound], num_threads: int | None = None) -> None:
        self.run_entry(self.name, [argument.numpy() if isinstance(argument, ArrayView) else argument for argument in arguments])


def _build_reference(program: Program, config: RunConfig) -> CompiledProgram:
    from tilejit.backends import reference

    prepared = pipeline.run_pipeline(program, pipeline.REFERENCE, _instruments())
    executable = reference.build(prepared, _options(config))
    entries = _entries(prepared, lambda function: _ReferenceRunner(executable.run, function.symbol))
    return CompiledProgram(program.name, entries, "reference", program, {"python": program.as_python, "ir": lambda: print_text(program)})


# ----------------------------------------------------------------------------------------------------------------------
# cpu


def _build_cpu(program: Program, config: RunConfig) -> CompiledProgram:
    from tilejit.backends.cpu import target

    prepared = pipeline.run_pipeline(program, pipeline.CPU, _instruments())
    executable = target.build(prepared, _options(config))

    stages = {
        "python": program.as_python,
        "ir": lambda: print_text(program),
        "passes": lambda: print_text(prepared),
        "ll": lambda: executable.lowered.text,
        "opt.ll": lambda: executable.compiled.optimised,
        "s": lambda: executable.compiled.assembly,
    }
    return CompiledProgram(program.name, _entries(prepared, lambda function: executable.entries[function.symbol]), "cpu", program, stages)


def _options(config: RunConfig) -> CompileOptions:
    return CompileOptions(config.num_threads, config.check_bounds, config.fast_math)


_BUILDERS: dict[str, Callable[[Program, RunConfig], CompiledProgram]] = {"cpu": _build_cpu, "reference": _build_reference}
