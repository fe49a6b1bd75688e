"""Parts of accumulators: on chip they are the same memory, so what a product adds to a part, the accumulator has too.

Values do not change in the IR. So the name that a part was cut from gets a new value when it is read next; every other value that shows the same
memory as it was before is stale, and reading a name that holds one is an error.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from tilejit.errors import InvalidOperationError
from tilejit.frontend.affine import difference
from tilejit.frontend.names import cut_from
from tilejit.frontend.values import Binding, static_integer, user_name
from tilejit.tile_ir import dialect as d
from tilejit.types.values import TileType

if TYPE_CHECKING:
    from collections.abc import Generator

    from tilejit.frontend.context import Context

_ANEW = "cut the part right before the product: pl.matmul_acc(acc[0:16, :], a, b)"
STALE = "read the accumulator by the name that the part was cut from; a helper returns it: acc = helper(acc, …)"

Owner = tuple[int, str]
"""A name, and in how many inline helpers it is."""
Place = tuple[Owner, tuple[object, ...]]
"""Where a part of an accumulator was cut: the name, and offsets in what it held."""


@dataclass(slots=True)
class Accumulators:
    """What is known of them while a function is read."""

    parts: dict[SSAValue, Place | None] = field(default_factory=dict[SSAValue, "Place | None"])
    """Their parts; None: where it belongs is lost."""
    added: set[SSAValue] = field(default_factory=set[SSAValue])
    """Parts to which products were added."""
    pending: dict[Owner, list[tuple[SSAValue, tuple[object, ...]]]] = field(default_factory=dict[Owner, "list[tuple[SSAValue, tuple[object, ...]]]"])
    """Those that have yet to take what was added to their parts: they do when they are read."""
    stale: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    """Values of accumulators and parts that lack what was added since, and what they hold."""
    grown: dict[object, SSAValue] = field(default_factory=dict[object, SSAValue])
    """Values that have what was added to parts, and what they were before."""

    def rebound(self, owner: Owner) -> None:
        """A name gets a value of its own."""
        self.pending.pop(owner, None)
        for part in [part for part, place in self.parts.items() if place is not None and place[0] == owner]:
            self.parts[part] = None


def note_part(ctx: Context, source: SSAValue, part: object, node: ast.AST | None, offsets: Sequence[object]) -> None:
    """Remember where a part of a tile was cut: in any memory, it becomes an accumulator when a product is added to it."""
    type = d.shaped_type(source)
    if not isinstance(part, SSAValue) or part is source or not isinstance(type, TileType):
        return
    owner = cut_from(node) if isinstance(node, ast.expr) else None
    if source in ctx.accumulators.parts:
        ctx.accumulators.parts[part] = _inside(ctx, ctx.accumulators.parts[source], offsets)
    elif owner is not None:
        followed = owner in ctx.scope and ctx.scope[owner].value is source and d.shaped_type(part).rank == type.rank
        ctx.accumulators.parts[part] = ((len(ctx.in_inline), owner), tuple(offsets)) if followed else None


def _inside(ctx: Context, place: Place | None, offsets: Sequence[object]) -> Place | None:
    """The place of a part of a part."""
    if place is None or len(place[1]) != len(offsets):
        return None
    return place[0], tuple(_sum(ctx, a, b) for a, b in zip(place[1], offsets, strict=True))


def _sum(ctx: Context, a: object, b: object) -> object:
    known = static_integer(a), static_integer(b)
    if None not in known:
        return sum(number for number in known if number is not None)
    return b if known[0] == 0 else a if known[1] == 0 else ctx.scalar_op("add", a, b)


def accumulated(ctx: Context, part: object, result: SSAValue) -> None:
    """A product was added to a part of an accumulator: the accumulator has it too, as soon as it is read."""
    if not isinstance(part, SSAValue) or part not in ctx.accumulators.parts:
        return
    place = ctx.accumulators.parts[part]
    if place is None:
        raise InvalidOperationError("a product is added to a part of an accumulator that cannot be told here, or has got another value since", help=_ANEW)
    owner, offsets = place
    ctx.accumulators.parts[result] = place
    ctx.accumulators.added.add(part)
    ctx.accumulators.pending.setdefault(owner, []).append((result, offsets))
    name = user_name(owner[1])
    for value, other in ctx.accumulators.parts.items():
        if value is not result and other is not None and other[0] == owner and not _apart(offsets, part, other[1], value):
            ctx.accumulators.stale[value] = f"holds a part of `{name}` as it was before a product was added to it, or to a part that may overlap"
    if owner[0] == len(ctx.in_inline):
        whole = ctx.scope[owner[1]].value
        assert isinstance(whole, SSAValue)
        ctx.accumulators.stale[whole] = f"holds the accumulator `{name}` as it was before a product was added to a part of it"
    for held, binding in ctx.scope.items():
        if binding.value is part:
            ctx.scope[held] = Binding(result, binding.span)


def _apart(starts: Sequence[object], part: SSAValue, others: Sequence[object], other: SSAValue) -> bool:
    """Whether two parts are known to have no cell in common."""
    for start, size, begin, length in zip(starts, d.shaped_type(part).shape, others, d.shaped_type(other).shape, strict=True):
        step = difference(begin, start)
        if step is not None and isinstance(size, int) and isinstance(length, int) and (size <= step or length <= -step):
            return True
    return False


def met(ctx: Context, result: SSAValue, candidates: Iterable[SSAValue | None]) -> None:
    """Paths meet: their parts are one part if they lie in one place."""
    known = [candidate for candidate in candidates if candidate is not None]
    places = [ctx.accumulators.parts[candidate] for candidate in known if candidate in ctx.accumulators.parts]
    if places:
        ctx.accumulators.parts[result] = places[0] if len(places) == len(known) and all(place == places[0] for place in places) else None


def next_round(ctx: Context, argument: SSAValue, init: SSAValue, handed: SSAValue) -> None:
    """A loop hands a value to its next round: a part must stay where it was, if products are added to it."""
    if argument in ctx.accumulators.parts and ctx.accumulators.parts.get(handed) != ctx.accumulators.parts[argument]:
        if argument in ctx.accumulators.added:
            raise InvalidOperationError("a part of an accumulator to which a loop adds products lies elsewhere in its next round", help=_ANEW)
        ctx.accumulators.parts[argument] = ctx.accumulators.parts[init] = None
    if argument in ctx.accumulators.stale:
        ctx.accumulators.stale[init] = ctx.accumulators.stale[argument]


@contextmanager
def inside_helper(ctx: Context, caller: dict[str, Binding], bound: Mapping[str, object]) -> Generator[None]:
    """The body of an inline helper: what it adds to its arguments, the caller's names have too; parts of what is its own cannot be followed from outside."""
    depth = len(ctx.in_inline)
    yield
    for parameter, value in bound.items():
        if isinstance(value, SSAValue) and value in ctx.accumulators.stale and parameter in ctx.scope:
            ctx.take_parts(parameter)
            now = first = ctx.scope[parameter].value
            while first is not value and isinstance(first, SSAValue) and first in ctx.accumulators.grown:
                first = ctx.accumulators.grown[first]
            # Elsewhere than in its own block a value cannot be replaced: a loop around it would not hand it on.
            if first is value and ctx.builder.block in (value.owner, getattr(value.owner, "parent", None)):
                caller.update({name: Binding(now, held.span) for name, held in caller.items() if held.value is value})
    ctx.accumulators.pending = {owner: grown for owner, grown in ctx.accumulators.pending.items() if owner[0] < depth}
    for part, place in ctx.accumulators.parts.items():
        if place is not None and place[0][0] >= depth:
            ctx.accumulators.parts[part] = None
