"""Program → passes → backend → CompiledProgram; the only place that knows the order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tilejit.errors import InternalError, PlatformError
from tilejit.runtime.arrays import ArrayView, allocate, view_of
from tilejit.runtime.compiled import CompiledEntry, CompiledProgram, first_array
from tilejit.runtime.config import RunConfig, resolve_platform, warn_about_unknown_settings
from tilejit.runtime.signature import Bound, ParamInfo, Signature
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.program import Function, Program
from tilejit.types.values import BufferType, ScalarType, TileType


def compile_program(program: Program | Function, config: RunConfig | None = None) -> CompiledProgram:
    """Compile every entry of a program for the platform of `config`."""
    warn_about_unknown_settings()
    config = config or RunConfig()
    platform = resolve_platform(config.platform)
    whole = program.program if isinstance(program, Function) else program
    _check_entries(whole)
    builder = _BUILDERS.get(platform)
    if builder is None:
        raise PlatformError(f"platform `{platform}` cannot run kernels in this version", help=f"use one of: {', '.join(_BUILDERS)}")
    return builder(whole, config)


def _check_entries(program: Program) -> None:
    if not program.entries:
        raise ValueError(f"program {program.name} has several functions and none of type Orchestration: which one is the entry is unclear")


def signature_of(function: d.FuncOp) -> Signature:
    """The signature of an entry."""
    names, directions = function.static("params"), function.static("directions")
    assert isinstance(names, tuple) and isinstance(directions, tuple)
    params = [
        _param(str(name), str(direction), d.type_of(argument))
        for name, direction, argument in zip(names, directions, function.body.block.args, strict=True)
    ]
    return Signature(function.symbol, tuple(params))


def _param(name: str, direction: str, type: object) -> ParamInfo:
    if isinstance(type, ScalarType):
        return ParamInfo(name, "In", type.dtype)
    if isinstance(type, BufferType):
        return ParamInfo(name, direction, type.dtype, type.shape)
    raise InternalError(f"entry parameter {name} has the type {type}")


# ----------------------------------------------------------------------------------------------------------------------
# reference


@dataclass(frozen=True, slots=True)
class _ReferenceRunner:
    run_entry: Callable[[str, Sequence[object]], tuple[object, ...]]
    function: d.FuncOp

    def run(self, arguments: Sequence[Bound], num_threads: int | None = None) -> tuple[object, ...]:
        values = [argument.numpy() if isinstance(argument, ArrayView) else argument for argument in arguments]
        returned = self.run_entry(self.function.symbol, values)
        terminator = self.function.body.block.last_op
        assert isinstance(terminator, d.ReturnOp)
        like = first_array(arguments)
        return tuple(
            _in_framework(value, d.type_of(operand), like)
            for value, operand in zip(returned, terminator.values, strict=True)
            if operand not in self.function.body.block.args
        )


def _in_framework(value: object, type: object, like: ArrayView | None) -> object:
    if not isinstance(type, BufferType | TileType):
        return value
    array = np.asarray(value)
    new = allocate(like, array.shape, type.dtype)
    view = view_of(new)
    assert view is not None
    view.numpy()[...] = array
    return new


def _build_reference(program: Program, config: RunConfig) -> CompiledProgram:
    from tilejit.backends import reference
    from tilejit.backends.base import CompileOptions

    executable = reference.build(program, CompileOptions(config.num_threads, config.check_bounds, config.fast_math))
    entries = {
        name: CompiledEntry(signature_of(function), _ReferenceRunner(executable.run, function)) for name, function in program.entries.items()
    }
    return CompiledProgram(program.name, entries, "reference", program, {"ir": lambda: str(program)})


_BUILDERS: dict[str, Callable[[Program, RunConfig], CompiledProgram]] = {"reference": _build_reference}
