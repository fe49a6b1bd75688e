"""What the sanitizer says: the places that used cells which hold nothing, and iterations that meet in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import SSAValue

from tilejit.backends.checks import name_of
from tilejit.backends.reference.shadow import NOTHING, Access, Accesses, NDArray, Shadow
from tilejit.errors import SanitizerError, Span, TilejitError
from tilejit.tile_ir import dialect as d

_FILL = "write it first: pl.full, pl.create_tensor(…, init_value=0), or a store"
_KEEP = "an output holds nothing when the kernel starts: declare it pl.InOut[…] if the caller's contents are meant"
_VALID = "fill the rest with pl.fillpad, or keep to the valid region"
_ALONE = "use pl.range, give every iteration cells of its own, or add with atomic=pl.AtomicType.Add"


@dataclass
class Watch:
    """The findings of one run."""

    accesses: Accesses = field(default_factory=Accesses)
    origins: list[TilejitError] = field(default_factory=list[TilejitError])
    """What to say about the cells with the state NOTHING + 1, NOTHING + 2, …"""
    found: dict[tuple[str, Span | None], TilejitError] = field(default_factory=dict[tuple[str, "Span | None"], TilejitError])

    def origin(self, op: d.TileOp, what: str, help: str) -> int:
        """The state of cells that a place made out of nothing; it is reported when somebody notices."""
        key = next((at for at, known in enumerate(self.origins) if known.span is op.span and known.message == what), None)
        if key is None:
            key = len(self.origins)
            self.origins.append(SanitizerError(what, span=op.span, help=help))
        return NOTHING + 1 + key

    def unwritten(self, op: d.TileOp, buffer: SSAValue, shadow: Shadow, states: NDArray) -> int:
        """The state of what is read from memory that holds nothing."""
        name = name_of(buffer) if shadow.parameter is None else f"`{shadow.parameter}`"
        return self.origin(op, f"{_title(op)} reads cells of {name} before they are written: the first is {_first(states)}", _KEEP if shadow.output else _FILL)

    def unset(self, op: d.TileOp, tile: SSAValue, states: NDArray) -> int:
        """The state of what is computed from cells of a tile that nobody wrote."""
        return self.origin(op, f"{_title(op)} uses cells of {name_of(tile)} that were never written: the first is {_first(states)}", _FILL)

    def outside(self, op: d.TileOp, tile: SSAValue, valid: Sequence[int]) -> int:
        """The state of what is computed from cells outside a valid region."""
        return self.origin(op, f"{_title(op)} uses cells of {name_of(tile)} outside its valid region {list(valid)}", _VALID)

    def leaves(self, op: d.TileOp, value: SSAValue, shadow: Shadow | None, states: NDArray | None) -> None:
        """A whole value is returned or shown; what the caller gave is the caller's own."""
        if states is None or not states.any() or (shadow is not None and shadow.parameter is not None):
            return
        state = self.unset(op, value, states) if shadow is None else self.unwritten(op, value, shadow, states)
        self.notice(np.where(states == NOTHING, state, states))

    def notice(self, states: NDArray) -> None:
        """Somebody outside the kernel, or the flow of control, gets to see cells."""
        for state in np.unique(states):
            if state > NOTHING:
                self.report(self.origins[int(state) - NOTHING - 1])

    def meeting(self, op: d.TileOp, buffer: SSAValue, own: Access, other: Access) -> None:
        """Two iterations touch the same cells, and one writes."""
        what = f"an iteration or block {own.kind.value} cells of {name_of(buffer)} that another one {other.kind.value}, and they may run at the same time"
        error = SanitizerError(what, span=op.span, help=_ALONE)
        if other.op is not op:
            error.related = ((f"the other one {other.kind.value} them here", other.op.span),)
        self.report(error)

    def report(self, error: TilejitError) -> None:
        """Keep a finding; one of a kind per place."""
        self.found.setdefault((error.message.partition(":")[0], error.span), error)

    def finish(self, failure: TilejitError | None) -> None:
        """Raise what was found."""
        if self.found:
            all_of_them = [*self.found.values(), *([] if failure is None else [failure])]
            raise SanitizerError.of(all_of_them) from failure
        if failure is not None:
            raise failure


def _title(op: d.TileOp) -> str:
    return op.op if isinstance(op, d.ApplyOp | d.EffectOp) else op.name.removeprefix("tile.")


def _first(states: NDArray) -> str:
    return str([int(index) for index in np.argwhere(states)[0]])
