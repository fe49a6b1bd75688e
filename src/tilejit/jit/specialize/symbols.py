"""Dynamic extents of a function: their symbols, and which extents of parameters they name."""

from __future__ import annotations

from collections.abc import Callable
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
        first, second = self.root(), other.root()
        if first is second:
            return
        if second.declared and not first.declared:
            first, second = second, first
        second._same = first


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

    def axes(self, param: str, rank: int) -> dict[int, Symbol]:
        """The dynamic axes of a parameter, counted from the front; one that it does not have is an error."""
        out: dict[int, Symbol] = {}
        for axis, symbol in self.dims.get(param, {}).items():
            if not -rank <= axis < rank:
                help = f"the dims of `{param}` are {', '.join(map(str, range(rank)))}" if rank else None
                raise in_body(ShapeError)(f"`{param}` has rank {rank}: there is no dim {axis} to be dynamic", span=self.places[param, axis](), help=help)
            out.setdefault(axis % rank, symbol).unite(symbol)
        return {axis: symbol.root() for axis, symbol in out.items()}
