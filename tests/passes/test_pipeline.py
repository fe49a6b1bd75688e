"""How passes are run."""

from __future__ import annotations

import pytest

from tests.tile_ir.programs import ragged
from tilejit.backends.cpu import target
from tilejit.errors import VerificationError
from tilejit.passes.pipeline import LOWER, Pass, VerifyInstrument, run_pipeline
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.program import Program


class Log:
    """Writes down what it sees."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, int]] = []

    def before_pass(self, name: str, program: Program) -> None:
        self.seen.append(("before", name, len(program.functions)))

    def after_pass(self, name: str, program: Program) -> None:
        self.seen.append(("after", name, len(program.functions)))


def test_instruments_see_every_pass_in_order() -> None:
    log = Log()
    run_pipeline(ragged(), LOWER, [log])
    before = [(when, name, 1) for name in ("simplify", "returns") for when in ("before", "after")]
    assert log.seen == [*before, ("before", "outline", 1), ("after", "outline", 2)]


def test_a_pass_that_breaks_the_program_is_caught() -> None:
    def breaks(program: Program) -> None:
        program.functions["main"].attributes["kind"] = d.Static("nonsense")

    step = Pass("breaks", breaks)
    with pytest.raises(VerificationError, match="nonsense"):
        run_pipeline(ragged(), (step,), [VerifyInstrument()])
    run_pipeline(ragged(), (step,))


def test_a_pipeline_prints_as_what_it_does() -> None:
    assert " ".join(map(str, target.PASSES)) == "simplify returns outline pairs simplify whole accumulate edges fuse share"
    assert " ".join(map(str, target.PASSES_IN_ORDER)) == "simplify returns outline pairs simplify edges fuse(in_order=True) share"
