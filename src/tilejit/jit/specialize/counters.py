"""What counters of loops reach: as forms where bounds are extents, by trying all turns where the bounds are numbers that other counters decide."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tilejit.frontend.fold import BINARY
from tilejit.jit.specialize.forms import Form, quotient
from tilejit.jit.specialize.nodes import at, constant_difference

_MOST_TURNS = 1 << 20
"""Turns that are tried."""
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
_FUNCTIONS = {"min": np.minimum, "minimum": np.minimum, "max": np.maximum, "maximum": np.maximum}

FormOf = Callable[[ast.expr], Form | None]


@dataclass(frozen=True, slots=True)
class _Loop:
    """An open loop."""

    name: str
    bounds: tuple[ast.expr, ast.expr, ast.expr]
    """Start, stop and step."""
    depends: bool
    """Whether other counters decide how often it turns, or where."""


@dataclass
class Counters:
    """The counters of the loops around a place, and what they reach there."""

    exact: FormOf
    """What an expression is in every turn."""
    upper: FormOf
    """The largest value of an expression."""
    folded: Callable[[ast.expr], ast.expr]
    """An expression with what is known while compiling in it."""
    meanings: Mapping[str, ast.expr]
    """Names that are bound once, and to what."""
    largest: dict[str, Form] = field(default_factory=dict[str, Form])
    """The largest values of counters, and of names that are bound once to a sum of such."""
    open: list[_Loop] = field(default_factory=list[_Loop])

    def enter(self, name: str, arguments: Sequence[ast.expr]) -> dict[str, Form]:
        """Open a loop; what other names are known to reach outside of it, but perhaps not in it, because it does not turn then."""
        start, stop = (at(ast.Constant(0), arguments[0]), arguments[0]) if len(arguments) == 1 else arguments[:2]
        step = arguments[2] if len(arguments) > 2 else at(ast.Constant(1), arguments[0])
        bounds = start, stop, step
        depends = any(map(self._counters_in, bounds))
        hidden = self._unreached(start, stop, step) if depends else {}
        last = self._last(start, stop, step)
        self.open.append(_Loop(name, bounds, depends))
        self.largest = {known: form for known, form in self.largest.items() if known not in hidden and known != name}
        if last is not None:
            self.largest[name] = last
        return hidden

    def _last(self, start: ast.expr, stop: ast.expr, step: ast.expr) -> Form | None:
        """The largest value of a counter."""
        first, end, stride = self.exact(start), self.exact(stop), self.exact(step)
        if stride is None or stride.terms or stride.constant == 0:
            return None
        if stride.constant < 0:
            return self.upper(start)
        if stride.constant == 1:
            last = self.upper(stop)
            return last.plus(Form(-1)) if last is not None else None
        if first is not None and end is not None:
            turns = quotient(end.plus(first.times(-1)).plus(Form(-1)), stride.constant)
            return first.plus(turns.times(stride.constant)) if turns.terms or turns.constant >= 0 else first
        width, base = self.distance(stop, start), self.upper(start)
        return base.plus(Form((width - 1) // stride.constant * stride.constant)) if width is not None and width > 0 and base is not None else None

    def _unreached(self, start: ast.expr, stop: ast.expr, step: ast.expr) -> dict[str, Form]:
        """Names in the start of a loop that may not turn where they are largest: `range(i, n)` with `i` past `n`."""
        first, end, stride = self.upper(start), self.exact(stop), self.exact(step)
        width = self.distance(stop, start)
        turns = (width is not None and width > 0) or (first is not None and end is not None and end.covers(first.plus(Form(1))))
        if self.exact(start) is not None or turns or (stride is not None and not stride.terms and stride.constant < 0):
            return {}
        used = self._counters_in(start)
        return {name: form for name, form in self.largest.items() if self._counters_in(ast.Name(name, ast.Load())) & used}

    def distance(self, stop: ast.expr, start: ast.expr) -> int | None:
        """`stop - start` where that is the same in every turn."""
        return constant_difference(self.folded(stop), self.folded(start), self.meanings)

    def are_tangled(self, node: ast.expr) -> bool:
        """Whether the largest values of the counters in an expression do not tell its own."""
        return self._has_remainder(node) or any(loop.depends for loop in self.open)

    def tried(self, node: ast.expr) -> Form | None:
        """The largest value of an expression in all turns of the loops around it; None: too many, or something in it is no number that is known."""
        used = self._counters_in(node)
        if not used:
            return None
        wanted = set(used)
        for loop in reversed(self.open):
            if loop.depends or loop.name in wanted:
                wanted |= {loop.name}.union(*map(self._counters_in, loop.bounds))
        turns: dict[str, np.ndarray] = {}
        count = 1
        for loop in self.open:
            if loop.name not in wanted:
                continue
            entered = self._turned(loop, turns, count)
            if entered is None:
                return None
            turns, count = entered
        if count == 0:
            return None
        found = self._value(node, turns)
        return Form(int(np.max(found))) if found is not None else None

    def _turned(self, loop: _Loop, turns: Mapping[str, np.ndarray], count: int) -> tuple[dict[str, np.ndarray], int] | None:
        """All turns of a loop in each of those around it, and how many these are."""
        bounds = [self._value(bound, turns) for bound in loop.bounds]
        known = [np.broadcast_to(bound, (count,)) for bound in bounds if bound is not None]
        if len(known) < len(bounds) or (known[2] == 0).any():
            return None
        start, stop, step = known
        each = np.maximum(0, -((start - stop) // step))
        total = int(each.sum())
        if total > _MOST_TURNS:
            return None
        first = np.repeat(np.cumsum(each) - each, each)
        around = {name: np.repeat(values, each) for name, values in turns.items()}
        return {**around, loop.name: np.repeat(start, each) + (np.arange(total) - first) * np.repeat(step, each)}, total

    def _value(self, node: ast.expr, turns: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """An index expression in all turns; None: something in it is no number that is known."""
        if isinstance(node, ast.Name) and node.id in turns:
            return turns[node.id]
        form = self.exact(node)
        if form is not None:
            return np.asarray(form.constant) if not form.terms else None
        if isinstance(node, ast.Name) and node.id in self.meanings:
            return self._value(self.meanings[node.id], turns)
        if isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATORS):
            left, right = self._value(node.left, turns), self._value(node.right, turns)
            if left is None or right is None or (isinstance(node.op, ast.FloorDiv | ast.Mod) and not np.all(right > 0)):
                return None
            return np.asarray(BINARY[type(node.op)](left, right))
        function = _FUNCTIONS.get(_name(node.func)) if isinstance(node, ast.Call) and len(node.args) == 2 and not node.keywords else None
        if function is not None and isinstance(node, ast.Call):
            left, right = (self._value(argument, turns) for argument in node.args)
            return function(left, right) if left is not None and right is not None else None
        return None

    def _has_remainder(self, node: ast.expr) -> bool:
        return any(isinstance(part, ast.Mod) for meant in self._meant(node) for part in ast.walk(meant))

    def _counters_in(self, node: ast.expr) -> set[str]:
        """The counters of open loops that an expression is made of."""
        names = {part.id for meant in self._meant(node) for part in ast.walk(meant) if isinstance(part, ast.Name)}
        return names & {loop.name for loop in self.open}

    def _meant(self, node: ast.expr) -> list[ast.expr]:
        """An expression, and what the names in it were bound to."""
        found, seen = [node], {loop.name for loop in self.open}
        for meant in found:  # grows
            names = {part.id for part in ast.walk(meant) if isinstance(part, ast.Name)} - seen
            found += [self.meanings[name] for name in sorted(names) if name in self.meanings]
            seen |= names
        return found


def bounds_of(call: ast.Call) -> Sequence[ast.expr]:
    """The bounds of `pl.range(…)` and its kind: a stop, or start, stop and step."""
    given = dict(zip(("start", "stop", "step"), call.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg in ("start", "stop", "step")}
    stop = given["stop"] if "stop" in given else given.pop("start", None)
    if stop is None:
        return []
    return [given.get("start", at(ast.Constant(0), stop)), stop, given.get("step", at(ast.Constant(1), stop))]


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
