"""Program → passes → backend → CompiledProgram; the only place that knows the order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from tilejit import config as settings
from tilejit.backends.base import CompileOptions
from tilejit.errors import InternalError, PlatformError
from tilejit.passes import pipeline
from tilejit.runtime.arrays import ArrayView, allocate, first_array, view_of
from tilejit.runtime.compiled import CompiledEntry, CompiledProgram, Runner
from tilejit.runtime.config import RunConfig, resolve_platform, warn_about_unknown_settings
from tilejit.runtime.native import NativeEntry
from tilejit.runtime.signature import Bound, ParamInfo, Signature
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.program import Function, Program
from tilejit.tile_ir.text import print_text
from tilejit.types.values import BufferType, ScalarType, TileType, ValueType


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
    """How an entry is called: tensors as declared, then scalars as declared."""
    declared = declared_params(function)
    order = sorted(range(len(declared)), key=lambda i: (not declared[i].is_tensor, i))
    places = tuple(order.index(i) for i in range(len(declared)))
    results = [_param(f"result{i}", "Out", d.type_of(value)) for i, value in enumerate(new_results(function))]
    return Signature(function.symbol, tuple(declared[i] for i in order), tuple(results), None if places == tuple(range(len(declared))) else places)


def declared_params(function: d.FuncOp) -> list[ParamInfo]:
    """The parameters in the order of the code."""
    names, directions = function.static("params"), function.static("directions")
    assert isinstance(names, tuple) and isinstance(directions, tuple)
    return [
        _param(str(name), str(direction), d.type_of(argument))
        for name, direction, argument in zip(names, directions, function.body.block.args, strict=True)
    ]


def new_results(function: d.FuncOp) -> list[SSAValue]:
    """What a function returns besides its own parameters."""
    last = function.body.block.last_op
    assert isinstance(last, d.ReturnOp)
    return [value for value in last.values if value not in function.body.block.args]


def _param(name: str, direction: str, type: ValueType) -> ParamInfo:
    if isinstance(type, ScalarType):
        return ParamInfo(name, "In", type.dtype)
    if isinstance(type, BufferType | TileType):
        return ParamInfo(name, direction, type.dtype, type.shape)
    raise InternalError(f"entry parameter {name} has the type {type}")


def _entries(program: Program, runner: Callable[[d.FuncOp, Signature], Runner]) -> dict[str, CompiledEntry]:
    out: dict[str, CompiledEntry] = {}
    for name, function in program.entries.items():
        signature = signature_of(function)
        out[name] = CompiledEntry(signature, runner(function, signature))
    return out


# ----------------------------------------------------------------------------------------------------------------------
# reference


@dataclass(frozen=True, slots=True)
class _ReferenceRunner:
    run_entry: Callable[[str, Sequence[object]], tuple[object, ...]]
    function: d.FuncOp

    def run(self, arguments: Sequence[Bound], num_threads: int | None = None) -> tuple[object, ...]:
        values = [argument.numpy() if isinstance(argument, ArrayView) else argument for argument in arguments]
        returned = self.run_entry(self.function.symbol, values)
        last = self.function.body.block.last_op
        assert isinstance(last, d.ReturnOp)
        like = first_array(arguments)
        return tuple(
            _in_framework(value, d.type_of(operand), like)
            for value, operand in zip(returned, last.values, strict=True)
            if operand not in self.function.body.block.args
        )


def _in_framework(value: object, type: ValueType, like: ArrayView | None) -> object:
    if not isinstance(type, BufferType | TileType):
        return np.asarray(value).item()
    array = np.asarray(value)
    new = allocate(like, array.shape, type.dtype)
    view = view_of(new)
    assert view is not None
    view.numpy()[...] = array
    return new


def _build_reference(program: Program, config: RunConfig) -> CompiledProgram:
    from tilejit.backends import reference

    prepared = pipeline.run_pipeline(program, pipeline.REFERENCE, _instruments())
    executable = reference.build(prepared, _options(config))
    entries = _entries(prepared, lambda function, _: _ReferenceRunner(executable.run, function))
    return CompiledProgram(program.name, entries, "reference", program, {"python": program.as_python, "ir": lambda: print_text(program)})


# ----------------------------------------------------------------------------------------------------------------------
# cpu


def _build_cpu(program: Program, config: RunConfig) -> CompiledProgram:
    from tilejit.backends.cpu import target

    prepared = pipeline.run_pipeline(program, pipeline.CPU, _instruments())
    executable = target.build(prepared, _options(config))

    def runner(function: d.FuncOp, signature: Signature) -> Runner:
        lowered = executable.lowered
        return NativeEntry(executable.code, lowered.entries[function.symbol], declared_params(function), lowered.failures, signature.results)

    stages = {
        "python": program.as_python,
        "ir": lambda: print_text(program),
        "passes": lambda: print_text(prepared),
        "ll": lambda: executable.lowered.text,
        "opt.ll": lambda: executable.compiled.optimised,
        "s": lambda: executable.compiled.assembly,
    }
    return CompiledProgram(program.name, _entries(prepared, runner), "cpu", program, stages)


def _options(config: RunConfig) -> CompileOptions:
    return CompileOptions(config.num_threads, config.check_bounds, config.fast_math)


_BUILDERS: dict[str, Callable[[Program, RunConfig], CompiledProgram]] = {"cpu": _build_cpu, "reference": _build_reference}
