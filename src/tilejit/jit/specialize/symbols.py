"""Dynamic extents of a function: their symbols, and which extents of parameters they name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tilejit.errors import ShapeError, Span, in_body

Place = Callable[[], Span]
"""Where something stands; asked for messages only, because it takes the tree of the function."""


@dataclass(eq=False, slots=True)
class Symbol:
    """A dynamic extent of one function. Passing arguments may show two of them to be the same."""

    literal: str
    place: Place | None = None
    declared: bool = True
    """Declared by the function itself, not by a helper."""
    _same: Symbol | None = None

    @property
    def span(self) -> Span | None:
        return self.place() if self.place is not None else None

    def root(self) -> Symbol:
        symbol = self
        while symbol._same is not None:
            symbol = symbol._same
        return symbol

    def unite(self, other: Symbol) -> None:
        """From now on one symbol; the function's own name wins, then the earlier one."""
        first, second = _by_right(self.root(), other.root())
        if first is not second:
            second._same = first


def _by_right(first: Symbol, second: Symbol) -> tuple[Symbol, Symbol]:
    """Two symbols that are one, the one whose name they have first."""
    return (second, first) if second.declared and not first.declared else (first, second)


@dataclass(slots=True)
class Dynamic:
    """The dynamic extents of a function, independent of any call."""

    dims: dict[str, dict[int, Symbol]] = field(default_factory=dict[str, dict[int, Symbol]])
    """Parameter → axis → symbol; a negative axis counts from the end."""
    names: dict[str, Symbol] = field(default_factory=dict[str, Symbol])
    """Local names bound by `M = pl.dynamic("…")` in the body."""
    objects: dict[int, Symbol] = field(default_factory=dict[int, Symbol])
    """Symbols of the module or closure, by identity."""
    places: dict[tuple[str, int], Place] = field(default_factory=dict[tuple[str, int], Place])
    """Where an extent was declared dynamic."""

    def declare(self, param: str, axis: int, symbol: Symbol, place: Place) -> None:
        present = self.dims.setdefault(param, {}).setdefault(axis, symbol)
        present.unite(symbol)
        self.places.setdefault((param, axis), place)

    def axes(self, param: str, ranks: Mapping[str, int]) -> dict[int, Symbol]:
        """The dynamic axes of a parameter, counted from the front, in a call whose parameters have these ranks; one that it does not have is an error."""
        rank, declared = ranks[param], self.dims.get(param, {})
        for axis in declared:
            if not -rank <= axis < rank:
                help = f"the dims of `{param}` are {', '.join(map(str, range(rank)))}" if rank else None
                raise in_body(ShapeError)(f"`{param}` has rank {rank}: there is no dim {axis} to be dynamic", span=self.places[param, axis](), help=help)
        one = self._one_at(ranks) if declared else {}
        return {axis % rank: one.get(symbol.root(), symbol.root()) for axis, symbol in declared.items()}

    def _one_at(self, ranks: Mapping[str, int]) -> dict[Symbol, Symbol]:
        """Which symbols stand for others in a call of these ranks: axes that were declared apart may be one there, as 0 and -1 of a vector are.
        In the next call they may be two again, so the symbols themselves stay as they are."""
        one: dict[Symbol, Symbol] = {}
        for param, rank in ranks.items():
            here: dict[int, Symbol] = {}
            for axis, symbol in self.dims.get(param, {}).items():
                if -rank <= axis < rank:
                    known = here.setdefault(axis % rank, symbol).root()
                    first, second = _by_right(one.get(known, known), one.get(symbol.root(), symbol.root()))
                    if first is not second:
                        one = {other: first if stands is second else stands for other, stands in one.items()} | {second: first}
        return one
