"""The targets `a2a3` and `a5`: kernels leave as PTO text, which our own reader reads back; what leaves is what runs."""

from __future__ import annotations

from collections.abc import Mapping

from tilejit.backends import ranks
from tilejit.backends.base import Built, CompileOptions, Target
from tilejit.backends.entries import entry_infos, fused, versions
from tilejit.backends.pto import ptoas
from tilejit.backends.pto.executable import PtoExecutable
from tilejit.backends.pto.write.kernel import KernelText, emit_program
from tilejit.backends.pto.write.rules import hole
from tilejit.backends.reference.target import ArrayRunner
from tilejit.errors import PtoSyntaxError, PtoVerifyError
from tilejit.frontend.pto.text import parse_pto
from tilejit.frontend.text import parse
from tilejit.passes import pipeline
from tilejit.runtime.artifact.directory import Stage
from tilejit.runtime.artifact.sections import Artifact
from tilejit.tile_ir.program import Program
from tilejit.tile_ir.pto.module import PtoFile
from tilejit.tile_ir.pto.verify import verify

_ORCHESTRATION = "orchestration.py"
"""The section with the control plane, as Python; every kernel has two more: its text and how it is called."""


def build(program: Program, prepared: Program, options: CompileOptions) -> Built:
    """One text per kernel."""
    ranks.refuse(program, options.platform, hole)
    texts = emit_program(prepared, options.platform)
    files: dict[str, PtoFile] = {}
    for name, kernel in texts.items():
        try:
            files[name] = _read(kernel.text, f"{name}.pto")
        except (PtoSyntaxError, PtoVerifyError) as error:
            raise ptoas.in_python(kernel, error) from error
    ptoas.check(texts, options.platform)
    stages = [
        Stage("orchestration", _ORCHESTRATION, prepared.as_python),
        *(Stage(f"{name}.pto", _text_file(name), lambda kernel=kernel: kernel.text) for name, kernel in texts.items()),
        *(Stage(f"{name}.abi", _abi_file(name), kernel.abi) for name, kernel in texts.items()),
    ]
    sections = {str(stage.file): lambda stage=stage: stage.text().encode() for stage in stages}
    entries = entry_infos(prepared, fused(program))
    artifact = Artifact(program.name, options.platform, entries, versions=versions(), facts={"kernels": list(texts)}, sections=sections)
    return Built(artifact, stages, _runners(prepared, options, texts, files))


def runners(artifact: Artifact) -> Mapping[str, ArrayRunner]:
    """An artifact as it is on disk: its orchestration calls, its texts run."""
    program = parse(artifact.section(_ORCHESTRATION).decode())
    assert isinstance(program, Program)
    names = [str(name) for name in artifact.facts["kernels"]]
    texts = {name: KernelText.read(artifact.section(_text_file(name)).decode(), artifact.section(_abi_file(name)).decode()) for name in names}
    files = {name: _read(kernel.text, _text_file(name)) for name, kernel in texts.items()}
    return _runners(program, CompileOptions(platform=artifact.platform), texts, files)


def _runners(program: Program, options: CompileOptions, texts: Mapping[str, KernelText], files: Mapping[str, PtoFile]) -> dict[str, ArrayRunner]:
    executable = PtoExecutable(program, options, texts, files)
    return {name: ArrayRunner(executable.run, name) for name in program.entries}


def _read(text: str, filename: str) -> PtoFile:
    file = parse_pto(text, filename)
    verify(file)
    return file


def _text_file(name: str) -> str:
    return f"kernels/{name}.pto"


def _abi_file(name: str) -> str:
    return f"abi/{name}.json"


TARGET = Target(lambda options: pipeline.LOWER, hole, build)
