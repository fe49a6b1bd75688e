"""The passes of each target, in order, and how they are run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from tilejit.passes.fuse import fuse, fuse_in_order
from tilejit.passes.outline import outline
from tilejit.passes.share import share
from tilejit.passes.simplify import simplify
from tilejit.tile_ir.program import Program

Pass = Callable[[Program], None]

REFERENCE: tuple[Pass, ...] = ()
"""The reference runs what the front end made."""

LOWER: tuple[Pass, ...] = (simplify, outline)
"""What `lower()` shows: one kernel per region, still printable as Python."""

CPU: tuple[Pass, ...] = (*LOWER, simplify, fuse, share)

CPU_IN_ORDER: tuple[Pass, ...] = (*LOWER, simplify, fuse_in_order, share)
"""For `fast_math=False`: sums are added up in the order of the reference."""


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
        name = pass_name(step)
        for instrument in watching:
            instrument.before_pass(name, result)
        step(result)
        for instrument in watching:
            instrument.after_pass(name, result)
    return result


def pass_name(step: Pass) -> str:
    """The name under which a pass is shown and dumped."""
    return getattr(step, "__name__", type(step).__name__)
