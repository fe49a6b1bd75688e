"""The passes as values, the pipelines that several targets share, and how passes are run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tilejit.passes import clock
from tilejit.passes.accumulate import accumulate
from tilejit.passes.edges import keep_edges_apart
from tilejit.passes.fuse import fuse
from tilejit.passes.outline import outline
from tilejit.passes.pairs import split_complex
from tilejit.passes.returns import return_through_parameters
from tilejit.passes.share import share
from tilejit.passes.simplify import simplify
from tilejit.passes.whole import whole_products
from tilejit.tile_ir.program import Program


@dataclass(frozen=True, slots=True)
class Pass:
    """A named step that changes a program in place; `options` are keywords of its function."""

    name: str
    run: Callable[..., None] = field(repr=False)
    options: tuple[tuple[str, object], ...] = ()

    def __call__(self, program: Program) -> None:
        self.run(program, **dict(self.options))

    def __str__(self) -> str:
        return self.name + (f"({', '.join(f'{name}={value!r}' for name, value in self.options)})" if self.options else "")


SIMPLIFY = Pass("simplify", simplify)
RETURNS = Pass("returns", return_through_parameters)
OUTLINE = Pass("outline", outline)
EDGES = Pass("edges", keep_edges_apart)
FUSE = Pass("fuse", fuse)
FUSE_IN_ORDER = Pass("fuse", fuse, (("in_order", True),))
SHARE = Pass("share", share)
WHOLE = Pass("whole", whole_products)
ACCUMULATE = Pass("accumulate", accumulate)
PAIRS = Pass("pairs", split_complex)

LOWER: tuple[Pass, ...] = (SIMPLIFY, RETURNS, OUTLINE)
"""What `lower()` shows: one kernel per region, still printable as Python."""

FUSED: tuple[Pass, ...] = (*LOWER, PAIRS, SIMPLIFY, FUSE)
"""Where loops over the same cells are one: what may happen in place shows here."""


class Instrument(Protocol):
    """Looks at a program around each pass."""

    def before_pass(self, name: str, program: Program) -> None: ...

    def after_pass(self, name: str, program: Program) -> None: ...


class VerifyInstrument:
    """Checks the rules of the IR after each pass."""

    def before_pass(self, name: str, program: Program) -> None:
        """Nothing: the previous pass was checked."""

    def after_pass(self, name: str, program: Program) -> None:
        from tilejit.tile_ir.verify import verify

        verify(program)


def run_pipeline(program: Program, passes: Sequence[Pass], instruments: Iterable[Instrument] = ()) -> Program:
    """A copy of `program` after `passes`."""
    result = Program(program.module.clone())
    watching = list(instruments)
    for step in passes:
        for instrument in watching:
            instrument.before_pass(step.name, result)
        with clock.stage(step.name):
            step(result)
        for instrument in watching:
            instrument.after_pass(step.name, result)
    return result
