"""Program → the target's passes → the target's build → CompiledProgram; the only place that knows the order, and it names no target."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tilejit import config as settings
from tilejit.backends.base import CodeCache, CompileOptions, target_of
from tilejit.frontend.results import as_program
from tilejit.passes import clock, context, pipeline
from tilejit.runtime.artifact.compiled import CompiledProgram
from tilejit.runtime.artifact.directory import Stage
from tilejit.runtime.config import OptimizationStrategy, RunConfig, check_settings, code_options, forbidden
from tilejit.runtime.targets import place_of
from tilejit.tile_ir.program import Function, Program
from tilejit.tile_ir.text import print_text


def compile_program(
    program: Program | Function, config: RunConfig | None = None, output_dir: str | None = None, known: CodeCache | None = None, profile: bool = False
) -> CompiledProgram:
    """Compile every entry of a program for the platform of `config`; with `output_dir` the artifact is written there.

    `known` has the machine code of some texts already; with `profile` regions are timed (view/profile.py)."""
    check_settings()
    with settings.taken():
        if settings.RUN_ONLY.value:
            raise forbidden(program.name, ship="its directory (`ir.compile(…, output_dir=…)`, `CompiledProgram.from_dir`)")
        return _compiled(program, config or RunConfig(), output_dir, known, profile)


def _compiled(program: Program | Function, config: RunConfig, output_dir: str | None, known: CodeCache | None, profile: bool) -> CompiledProgram:
    whole = as_program(program)
    if not whole.entries:
        raise ValueError(f"program {whole.name} has several functions and none of type Orchestration: which one to call is unclear")
    platform, device = place_of(config.platform, config.device_id)
    with clock.stage("load the target"):
        target = target_of(platform)
    options = CompileOptions(
        config.num_threads, config.check_bounds, config.fast_math, platform=platform, device=device, arch=config.arch, schedule=config.schedule,
        known=known, profile=profile,
    )  # fmt: skip
    dumped: list[Stage] = []
    watching = _instruments(config)
    if config.dump_passes:
        _keep_text(dumped, "frontend", whole)
        watching.append(context.CallbackInstrument(after_pass=partial(_keep_text, dumped)))
    prepared = pipeline.run_pipeline(whole, target.passes(options), watching)
    built = target.build(whole, prepared, options)
    forms = [Stage("python", "program.py", whole.as_python), Stage("ir", None, lambda: print_text(whole)), Stage("passes", None, lambda: print_text(prepared))]
    artifact = replace(built.artifact, options={name: getattr(config, name) for name in code_options(platform)})
    compiled = CompiledProgram(artifact, built.runners, program=whole, stages=[*forms, *dumped, *built.stages], output_dir=output_dir)
    if output_dir is not None:
        _ = compiled.output_dir
    if config.save_kernels:
        compiled.save_kernels(config.save_kernels_dir)
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
    checked = settings.DEBUG.value >= 3 or config.strategy is OptimizationStrategy.Debug
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


def _keep_text(stages: list[Stage], name: str, program: Program) -> None:
    """The program after a pass, as one more stage."""
    text, label = print_text(program), f"passes/{len(stages):02}_{name}"
    stages.append(Stage(label, f"{label}.mlir", lambda: text))
