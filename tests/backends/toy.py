"""A whole target in one file: lowered programs run through NumPy, and the blocks that are launched are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tilejit.backends.base import Built, CompileOptions, Target
from tilejit.backends.entries import entry_infos, fused, versions
from tilejit.backends.reference.interpreter import ReferenceExecutable
from tilejit.backends.reference.target import ArrayRunner
from tilejit.backends.reference.tasks import BlockPlace
from tilejit.ops.spec import OpSpec
from tilejit.passes.pipeline import LOWER
from tilejit.runtime.artifact.directory import Stage
from tilejit.runtime.artifact.sections import Artifact
from tilejit.runtime.targets import TargetRow
from tilejit.tile_ir.program import Program
from tilejit.tile_ir.text import parse_text, print_text

HERE = __name__
ROW = TargetRow("toy", ("toy",), HERE, loader=f"{HERE}:runners", cacheable=True, device_facts=f"{HERE}:device")
CODE = "program.mlir"
counts: Counter[str] = Counter()
"""Programs built and loaded, blocks launched."""


class Machine(ReferenceExecutable):
    """Interprets, and counts."""

    def call(self, name: str, arguments: Sequence[Any], place: BlockPlace) -> list[Any]:
        counts["launched"] += 1
        return super().call(name, arguments, place)


def device(name: str) -> str:
    """There is one kind of machine."""
    return f"abacus on {name}"


def hole(row: OpSpec) -> str | None:
    """Everything but sorting."""
    return "an abacus does not sort" if row.name == "sort32" else None


def build(program: Program, prepared: Program, options: CompileOptions) -> Built:
    """The code is the text of the lowered program."""
    counts["built"] += 1
    text = print_text(prepared)
    artifact = Artifact(program.name, options.platform, entry_infos(prepared, fused(program)), versions=versions(), sections={CODE: text.encode})
    return Built(artifact, [Stage("beads", "kernels/program.mlir", lambda: text)])


def runners(artifact: Artifact) -> dict[str, ArrayRunner]:
    """Read the text again."""
    counts["loaded"] += 1
    machine = Machine(parse_text(artifact.section(CODE).decode()))
    return {name: ArrayRunner(machine.run, name) for name in artifact.entries}


TARGET = Target(lambda options: LOWER, hole, build)
