"""Program → passes → backend → CompiledProgram; the only place that knows the order."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tilejit import config as settings
from tilejit.backends.base import CompileOptions
from tilejit.errors import ArtifactError, InternalError, PlatformError, PtoSyntaxError, PtoVerifyError, TilejitError
from tilejit.frontend.results import as_program
from tilejit.passes import context, cost, pipeline
from tilejit.passes.in_place import in_place_pairs
from tilejit.runtime import machine
from tilejit.runtime.arrays import ArrayView
from tilejit.runtime.artifact.blob import Blob
from tilejit.runtime.artifact.compiled import CompiledProgram
from tilejit.runtime.artifact.directory import Stage, open_directory
from tilejit.runtime.artifact.sections import Artifact, EntryInfo
from tilejit.runtime.call.signature import Bound, ParamInfo, Signature
from tilejit.runtime.config import OptimizationStrategy, RunConfig, resolve_platform, warn_about_unknown_settings
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.program import Function, Program
from tilejit.tile_ir.text import print_text
from tilejit.types.values import BufferType, ScalarType, ValueType

if TYPE_CHECKING:
    from tilejit.backends.cpu.target import CodeCache
    from tilejit.tile_ir.pto.module import PtoFile


def compile_program(
    program: Program | Function, config: RunConfig | None = None, output_dir: str | None = None, known: CodeCache | None = None
) -> CompiledProgram:
    """Compile every entry of a program for the platform of `config`; with `output_dir` the artifact is written there.

    `known` has the machine code of some LLVM texts already."""
    warn_about_unknown_settings()
    config = config or RunConfig()
    platform = resolve_platform(config.platform)
    whole = as_program(program)
    if not whole.entries:
        raise ValueError(f"program {whole.name} has several functions and none of type Orchestration: which one to call is unclear")
    builder = _BUILDERS.get(platform)
    if builder is None:
        raise PlatformError(f"platform `{platform}` cannot run kernels in this version", help=f"use one of: {', '.join(_BUILDERS)}")
    compiled = builder(whole, config, output_dir, known)
    if output_dir is not None:
        _ = compiled.output_dir
    if config.save_kernels:
        _save_kernels(compiled, config.save_kernels_dir)
    return compiled


def run(program: Program | Function, *tensors: object, config: RunConfig | None = None) -> CompiledProgram:
    """Compile a program, run it on `tensors`, return the compiled program."""
    compiled = compile_program(program, config)
    compiled(*tensors, config=config)
    return compiled


def lower_program(program: Program | Function, config: RunConfig | None = None) -> Program:
    """The program with one kernel per region: the last form that prints as Python."""
    whole = as_program(program)
    return pipeline.run_pipeline(whole, pipeline.LOWER, _instruments(config or RunConfig()))


def _instruments(config: RunConfig) -> list[pipeline.Instrument]:
    checked = settings.VERIFY.value or config.strategy is OptimizationStrategy.Debug
    return [*([pipeline.VerifyInstrument()] if checked else []), *context.active_instruments()]


class RoundTripInstrument(context.RoundTripInstrument):
    """After each pass the program, printed and parsed back, must be the same program; else VerificationError names the pass."""

    def __init__(self) -> None:
        super().__init__(_parse_python)


def _parse_python(text: str) -> Program:
    from tilejit.frontend.text import parse

    found = parse(text)
    assert isinstance(found, Program)
    return found


def _save_kernels(compiled: CompiledProgram, directory: str | None) -> None:
    """Keep the texts of the kernels: in `directory`, else with the artifact."""
    if directory is None:
        _ = compiled.output_dir
        return
    os.makedirs(directory, exist_ok=True)
    for stage in compiled.kernel_stages():
        assert stage.file is not None
        with open(os.path.join(directory, os.path.basename(stage.file)), "w", encoding="utf-8") as file:
            file.write(stage.text())


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
    returned = tuple(everything[index].name for _, index in attrs.get("returns") or ()) if hidden else ()
    return Signature(
        function.symbol,
        tuple(declared[i] for i in calling),
        tuple(hidden),
        None if order == tuple(range(split)) else order,
        returned=returned,
        computed=dict(attrs.get("extents", ())),
    )


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


def _entry_infos(
    program: Program, fused: Program, symbols: Mapping[str, str] | None = None, needs_arena: bool = True, threaded: bool = False
) -> dict[str, EntryInfo]:
    """The entries of a program; `fused` is the same after the CPU's passes, where it can be seen what may happen in place."""
    found: dict[str, EntryInfo] = {}
    for name, function in program.entries.items():
        spent = cost.cost_of(program, name)
        signature = replace(signature_of(function), in_place=in_place_pairs(fused, name))
        found[name] = EntryInfo(signature, (symbols or {}).get(name, name), needs_arena, spent.brief, spent.terms, threaded)
    return found


class _Dump:
    """Keeps the text of the program before the first pass and after each one."""

    def __init__(self, program: Program, wanted: bool) -> None:
        self.stages: list[Stage] = []
        self.wanted = wanted
        self.after_pass("frontend", program)

    def before_pass(self, name: str, program: Program) -> None:
        """Nothing: the previous pass was kept."""

    def after_pass(self, name: str, program: Program) -> None:
        if self.wanted:
            text = print_text(program)
            label = f"passes/{len(self.stages):02}_{name}"
            self.stages.append(Stage(label, f"{label}.mlir", lambda: text))


def _versions() -> dict[str, str]:
    return {"tilejit": str(import_module("tilejit").__version__), "python": ".".join(map(str, sys.version_info[:3]))}


# ----------------------------------------------------------------------------------------------------------------------
# reference


@dataclass(frozen=True, slots=True)
class _ReferenceRunner:
    run_entry: Callable[[str, Sequence[Any]], object]
    name: str

    def run(self, arguments: Sequence[Bound], num_threads: int | None = None) -> None:
        self.run_entry(self.name, [argument.numpy() if isinstance(argument, ArrayView) else argument for argument in arguments])


def _fused(program: Program) -> Program:
    """The program as the CPU would run it, so that both platforms allow the same calls; itself where the CPU cannot."""
    try:
        return pipeline.run_pipeline(program, pipeline.CPU)
    except TilejitError:
        return program


def _build_reference(program: Program, config: RunConfig, output_dir: str | None, known: CodeCache | None) -> CompiledProgram:
    from tilejit.backends import reference

    dump = _Dump(program, config.dump_passes)
    prepared = pipeline.run_pipeline(program, pipeline.REFERENCE, [*_instruments(config), dump])
    executable = reference.build(prepared, _options(config))
    artifact = Artifact(program.name, "reference", _entry_infos(prepared, _fused(program)), (), machine.architecture(), (), _versions())
    runners = {name: _ReferenceRunner(executable.run, name) for name in prepared.entries}
    stages = [Stage("python", "program.py", program.as_python), Stage("ir", None, lambda: print_text(program)), *dump.stages]
    return CompiledProgram(artifact, runners, program=program, stages=stages, output_dir=output_dir)


# ----------------------------------------------------------------------------------------------------------------------
# cpu


def _build_cpu(program: Program, config: RunConfig, output_dir: str | None, known: CodeCache | None) -> CompiledProgram:
    from tilejit.backends.cpu import target

    dump = _Dump(program, config.dump_passes)
    passes = pipeline.CPU if config.fast_math else pipeline.CPU_IN_ORDER
    prepared = pipeline.run_pipeline(program, passes, [*_instruments(config), dump])
    executable = target.build(prepared, _options(config), known)
    blob = executable.blob
    artifact = Artifact(
        program.name,
        "cpu",
        _entry_infos(prepared, prepared, executable.lowered.entries, executable.lowered.needs_arena, executable.lowered.threaded),
        executable.lowered.failures,
        machine.architecture(),
        machine.needed_features(executable.features),
        {**_versions(), **target.versions()},
        blob.entries if blob else {},
        blob.externals if blob else {},
        lambda: blob.code if blob else b"",
    )
    stages = [
        Stage("python", "program.py", program.as_python),
        Stage("ir", None, lambda: print_text(program)),
        Stage("passes", None, lambda: print_text(prepared)),
        *dump.stages,
        Stage("ll", "kernels/whole-program.ll", lambda: executable.lowered.text),
        Stage("opt.ll", "kernels/whole-program.opt.ll", lambda: executable.compiled.optimised),
        Stage("s", "kernels/whole-program.s", lambda: executable.compiled.assembly),
        *target.kernel_stages(executable),
    ]
    # Without a blob the code is linked in this process, by LLVM, and cannot leave it.
    return CompiledProgram(artifact, None if blob else executable.entries, program=program, stages=stages, output_dir=output_dir)


def _options(config: RunConfig) -> CompileOptions:
    return CompileOptions(config.num_threads, config.check_bounds, config.fast_math)


# ----------------------------------------------------------------------------------------------------------------------
# pto


def _build_pto(program: Program, config: RunConfig, output_dir: str | None, known: CodeCache | None) -> CompiledProgram:
    """One `.pto` text per kernel, read back by our own reader: what leaves is what runs."""
    from tilejit.backends.pto import ptoas, target
    from tilejit.frontend.pto.text import parse_pto
    from tilejit.tile_ir.pto.verify import verify

    platform = resolve_platform(config.platform)
    dump = _Dump(program, config.dump_passes)
    prepared = pipeline.run_pipeline(program, pipeline.LOWER, [*_instruments(config), dump])
    texts = target.kernel_texts(prepared, platform)
    files: dict[str, PtoFile] = {}
    for name, kernel in texts.items():
        try:
            files[name] = parse_pto(kernel.text, f"{name}.pto")
            verify(files[name])
        except (PtoSyntaxError, PtoVerifyError) as error:
            raise ptoas.in_python(kernel, error) from error
    ptoas.check(texts, platform)
    executable = target.PtoExecutable(prepared, _options(config), texts, files)
    artifact = Artifact(program.name, platform, _entry_infos(prepared, _fused(program)), (), machine.architecture(), (), _versions())
    runners = {name: _ReferenceRunner(executable.run, name) for name in prepared.entries}
    kernels = [Stage(f"{name}.pto", f"kernels/{name}.pto", lambda kernel=kernel: kernel.text) for name, kernel in texts.items()]
    stages = [
        Stage("python", "program.py", program.as_python),
        Stage("orchestration", "orchestration.py", prepared.as_python),
        Stage("ir", None, lambda: print_text(program)),
        *dump.stages,
        *kernels,
        *(Stage(f"{name}.abi", f"abi/{name}.json", kernel.abi) for name, kernel in texts.items()),
    ]
    return CompiledProgram(artifact, runners, program=program, stages=stages, output_dir=output_dir)


def load_pto(directory: str) -> CompiledProgram:
    """An artifact directory of a2a3 or a5 as it is on disk: `orchestration.py` calls, the texts under `kernels/` run."""
    from tilejit.backends.pto import target
    from tilejit.backends.pto.write.kernel import KernelText
    from tilejit.frontend.pto.text import parse_pto
    from tilejit.tile_ir.pto.verify import verify

    artifact, stages = open_directory(directory, with_code=False)
    named = {stage.name: stage for stage in stages}
    if "orchestration" not in named:
        raise ArtifactError(f"{directory} holds no PTO texts: it was compiled for {artifact.platform}", help="compile with platform='a2a3' or 'a5'")
    program = _parse_python(named["orchestration"].text())
    kernels = [name.removesuffix(".pto") for name in named if name.endswith(".pto")]
    texts = {name: KernelText.read(named[f"{name}.pto"].text(), named[f"{name}.abi"].text()) for name in kernels}
    files = {name: parse_pto(kernel.text, os.path.join(directory, "kernels", f"{name}.pto")) for name, kernel in texts.items()}
    for file in files.values():
        verify(file)
    executable = target.PtoExecutable(program, CompileOptions(), texts, files)
    runners = {name: _ReferenceRunner(executable.run, name) for name in program.entries}
    made = Artifact(program.name, artifact.platform, _entry_infos(program, program), (), machine.architecture(), (), _versions())
    return CompiledProgram(made, runners, program=program, stages=stages)


_BUILDERS: dict[str, Callable[[Program, RunConfig, str | None, CodeCache | None], CompiledProgram]] = {
    "cpu": _build_cpu,
    "reference": _build_reference,
    "a2a3": _build_pto,
    "a5": _build_pto,
}


def build_dispatcher() -> Blob | None:
    """Machine code of the native dispatcher; None where the platform has no blobs."""
    from tilejit.backends.cpu.dispatcher import dispatcher_text

    return _build_piece(dispatcher_text())


def _build_piece(text: str) -> Blob | None:
    from tilejit.backends.cpu.llvm.compile import compile_llvm
    from tilejit.backends.cpu.llvm.elf import UnsupportedObject, flatten

    try:
        return flatten(compile_llvm(text).object_bytes)
    except UnsupportedObject:
        return None
