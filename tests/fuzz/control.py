"""Branches and loops of every spelling."""

from __future__ import annotations

import re
from dataclasses import replace

from tests.fuzz import operations
from tests.fuzz.scalars import condition, indices
from tests.fuzz.values import EPSILON, Val, hull, rounding, settled, too_vague
from tests.fuzz.writer import Writer

CARRIED_BOUND = 4.0
"""Floats that a loop carries stay within this."""


def updated(w: Writer, old: Val, partner: Val | None = None) -> Val | None:
    """Another value of the same shape and dtype, computed from `old`."""
    other = partner or w.partner(old) or old
    met = operations.broadcast(old, other)
    assert met is not None
    candidates: list[Val] = [
        operations.binary(w, op, old, other, f"pl.{op}({old.text}, {other.text})", old.dtype, *met) for op in ("add", "sub", "maximum", "minimum")
    ]
    number = 2 if not old.is_float or old.level != "tile" else 0.75
    candidates += [w.with_scalar(op, old, number) for op in ("add", "maximum")]
    if old.is_float:
        candidates.append(w.shaped_like(old, f"pl.tanh({old.text})", lo=-1.0, hi=1.0, err=old.err + rounding(old.dtype, 1.0, 8)))
        candidates = [c if c.magnitude <= CARRIED_BOUND * 3 else _clamped(w, c) for c in candidates]
    fitting = [c for c in candidates if (c.shape, c.dtype) == (old.shape, old.dtype) and not too_vague(c)]
    return w.rng.choice(fitting) if fitting else None


def _clamped(w: Writer, value: Val) -> Val:
    limit: float | int = 4 if value.level != "tile" else 4.0
    return w.with_scalar("minimum", w.with_scalar("maximum", value, -limit), limit)


def _targets(w: Writer, count: int, also: frozenset[str] = frozenset()) -> list[Val]:
    """Values that a branch or loop may rebind; a buffer that is rebound becomes a value."""
    levels = ("tile",) if w.level == "tile" else ("tensor", "buffer")
    free = [v for name, v in w.env.items() if (name not in w.frozen or name in also) and v.level in levels and v.dtype != "BOOL"]
    return w.rng.sample(free, min(count, len(free)))


def _as_value(value: Val) -> Val:
    return replace(value, level="tensor", gaps=False) if value.level == "buffer" else value


def branch(w: Writer, depth: int) -> None:
    """if, elif, else; values leave by rebinding or by yield_."""
    text = condition(w)
    targets = _targets(w, w.rng.choice((1, 1, 2)))
    if not targets:
        return
    by_yield = w.chance(0.3)
    arms = [f"if {text}:"] + ([f"elif {condition(w)}:"] if w.chance(0.3) else [])
    arms += ["else:"] if by_yield or w.chance(0.6) else []
    results = [[target] if not arms[-1].startswith("else") else [] for target in targets]
    names = [w.fresh("y") for _ in targets] if by_yield else [t.text for t in targets]
    for header in arms:
        with w.nested(header):
            w.frozen |= set(w.env)
            w.body(w, w.rng.choice((0, 1)), depth + 1)
            news: list[Val] = []
            for target in targets:
                new = updated(w, target) or target
                news.append(new)
                if not by_yield and new is not target:
                    w.emit(f"{target.text} = {new.text}")
                    w.env[target.text] = new.named(target.text)  # the next one may be computed from it
            if by_yield and len(news) == 1 and news[0].level == "tile" and w.chance(0.5):
                w.emit(f"{names[0]}: pl.Tile[[{', '.join(map(str, news[0].shape))}], pl.{news[0].dtype}] = pl.yield_({news[0].text})")
            elif by_yield:
                w.emit(f"{', '.join(names)} = pl.yield_({', '.join(new.text for new in news)})")
        for outcome, new in zip(results, news, strict=True):
            outcome.append(new)
    for name, outcome in zip(names, results, strict=True):
        merged = outcome[0]
        for other in outcome[1:]:
            merged = hull(merged, other, w.fresh("j"))
        if any(other.level != "buffer" for other in outcome):
            merged = _as_value(merged)
        w.hold(name, merged)


def carried(w: Writer, target: Val) -> Val | None:
    """`target` as a loop may carry it: bounded for any number of trips."""
    target = _as_value(target)
    if not target.is_float:
        return replace(target, lo=settled(replace(target, lo=-1e30, hi=1e30)).lo, hi=settled(replace(target, lo=-1e30, hi=1e30)).hi)
    if target.dtype != "FP32" and target.level != "tile":
        return None
    if target.magnitude > CARRIED_BOUND:
        target = w.bind(w.clamped(target, CARRIED_BOUND), target.text)
        w.env[target.text] = target
    slack = max(target.err, 100 * EPSILON[target.dtype])
    value = replace(target, lo=-CARRIED_BOUND, hi=CARRIED_BOUND, err=slack, product=True)
    return None if too_vague(value) else value


def advanced(w: Writer, state: Val) -> Val:
    """The next value of a carried one: within the same bounds, whatever it was."""
    other = w.pick(lambda v: v.shape == state.shape and v.dtype == state.dtype and v.text != state.text)
    if not state.is_float:
        new = updated(w, state, other)
        return new if new is not None else state
    if other is None:
        return w.shaped_like(state, f"pl.tanh({state.text})")
    if other.magnitude <= CARRIED_BOUND and other.err <= state.err and w.chance(0.3):
        met = operations.broadcast(state, other)
        assert met is not None
        op = w.rng.choice(("maximum", "minimum"))
        return w.shaped_like(state, f"pl.{op}({state.text}, {other.text})", valid=met[1])
    factor = 0.5
    while factor * other.magnitude > CARRIED_BOUND / 2 or factor * other.err > 0.4 * state.err:
        factor /= 2
    met = operations.broadcast(state, other)
    assert met is not None
    return w.shaped_like(state, f"pl.add(pl.mul({state.text}, 0.5), pl.mul({other.text}, {factor!r}))", valid=met[1])


def loop(w: Writer, depth: int) -> None:
    """A loop in one of its spellings; carried floats stay bounded, carried integers do what they like."""
    kind = w.rng.choice(("range", "range", "range", "explicit", "explicit", "carried", "while", "unroll", "while_", "pipeline", "independent"))
    if kind == "independent":
        _independent(w)
        return
    states = [(target, state) for target in _targets(w, w.rng.choice((1, 1, 2)), frozenset(w.stable)) if (state := carried(w, w.env[target.text])) is not None]
    if not states:
        return
    # What a loop carries may be valid in less than at its start: a name for "some extent" that no other value has.
    states = [(target, replace(state, valid=tuple(v if v == 1 or target.full else w.fresh("j") for v in state.valid))) for target, state in states]
    before = dict(w.env)
    if kind in ("explicit", "carried", "while_"):
        _explicit(w, kind, states, depth)
        return
    index = w.fresh("i")
    header, trips = _header(w, kind, index)
    with w.nested(header):
        w.frozen |= set(before)
        w.stable |= {target.text for target, _ in states}
        for target, state in states:
            w.env[target.text] = state
        if kind != "while":
            w.scalars[index] = Val(index, "scalar", "INDEX", -10, 10)
        if trips is not None and kind != "unroll":
            w.loop_vars[index] = trips
        w.body(w, w.rng.choice((1, 2)), depth + 1)
        if kind in ("range", "while", "pipeline") and w.chance(0.25):
            if kind == "while":
                w.emit(f"{index} = {index} + 1" if w.chance(0.5) else f"{index} += 1")
            _leave(w)
            bumped, left = kind == "while", True
        else:
            bumped = left = False
        finals: list[tuple[Val, Val]] = []
        for target, state in states:
            new = advanced(w, state)
            if new.valid != state.valid:
                new = state
            else:
                w.emit(f"{target.text} = {new.text}")
            finals.append((target, state))
        if w.level == "tile" and w.chance(0.3) and trips is not None and kind in ("range", "pipeline") and w.block is None:
            store_rows(w, index, trips)
        if kind == "while" and not bumped:
            w.emit(f"{index} = {index} + 1")
        late = _late(w) if not left and _RUNS.fullmatch(header) else None
    for target, state in finals:
        w.hold(target.text, state)
    if late is not None:
        w.hold(late.text, late)


_RUNS = re.compile(r"for \w+ in pl\.\w+\([\d, -]*((stage|chunk)=\d)?\):|for \w+ in pl\.range\(\w+ \+ 1\):|while \w+ < 3:")
"""Loops that make a round for certain."""


def _late(w: Writer) -> Val | None:
    """A name that only the body binds, to be read after the loop."""
    found = w.pick(lambda v: v.full and v.dtype != "BOOL" and v.level in ("tile", "tensor"))
    if found is None or w.chance(0.2):
        return None
    name = w.fresh("z")
    w.emit(f"{name} = {found.text}")
    return found.named(name)


def _leave(w: Writer) -> None:
    """break or continue under a condition, sometimes both."""
    first, second = w.rng.sample(("break", "continue"), 2)
    with w.nested(f"if {condition(w)}:"):
        w.emit(first)
    if w.chance(0.2):
        with w.nested(f"if {condition(w)}:"):
            w.emit("pass")
        with w.nested("else:"), w.nested(f"if {condition(w)}:"):
            w.emit(second)


def _independent(w: Writer) -> None:
    """A loop of pl.parallel inside a function: each trip writes rows of its own."""
    if w.level != "tile" or w.block is not None:
        return
    index, trips = w.fresh("i"), w.rng.choice((2, 3))
    with w.nested(f"for {index} in pl.parallel({w.rng.choice((trips, f'0, {trips}', f'0, {trips}, 1'))}):"):
        w.frozen |= set(w.env)
        w.scalars[index] = Val(index, "scalar", "INDEX", 0, trips)
        w.loop_vars[index] = trips
        w.body(w, w.rng.choice((1, 2)), 3)
        store_rows(w, index, trips)


def _header(w: Writer, kind: str, index: str) -> tuple[str, int | None]:
    """The loop's first line, and its trip bound when it counts from 0 in steps of 1."""
    if kind == "unroll":
        return f"for {index} in pl.unroll({w.rng.choice(('2', '3', '1, 3', '4, 0, -2', '0, 5, 3'))}):", None
    if kind == "while":
        w.emit(f"{index} = 0")
        limit = "3"
        if w.scalars and w.chance(0.6):
            limit = w.rng.choice([s.text for s in w.scalars.values() if s.dtype == "INDEX" and s.magnitude <= 20] or ["3"])
        w.scalars[index] = Val(index, "scalar", "INDEX", 0, 20)
        return f"while {index} < {limit}:", None
    if kind == "pipeline":
        bounds, trips = w.rng.choice((("3", 3), ("1, 4", 4), ("0, 6, 2", None), ("3, 0, -1", None)))
        return f"for {index} in pl.pipeline({bounds}, stage={w.rng.choice((1, 2, 3))}):", trips
    runtime = [s.text for s in indices(w, 6)]
    if runtime and w.chance(0.5):
        stop = w.rng.choice(runtime)
        forms = ((stop, 6), (f"0, {stop}", 6), (f"{stop}, 0, -1", None), (f"1, {stop} + 1, 2", None), (f"{stop}, 6", 6), *[(f"{stop} + 1", 7)] * 3)
        form, trips = w.rng.choice(forms)
        return f"for {index} in pl.range({form}):", trips
    return w.rng.choice((
        (f"for {index} in pl.range(3{w.rng.choice(('', ', chunk=2'))}):", 3),
        (f"for {index} in pl.range(5):", 5),
        (f"for {index} in pl.range(1, 4):", 4),
        (f"for {index} in pl.range(0, 7, 3):", None),
        (f"for {index} in pl.range(4, 0, -2):", None),
    ))  # fmt: skip


def _explicit(w: Writer, kind: str, states: list[tuple[Val, Val]], depth: int) -> None:
    """init_values in, yield_ out; "carried" has no yield, its names hold the results."""
    index = w.fresh("i")
    inner = [w.fresh("c") for _ in states]
    outer = [w.fresh("r") for _ in states]
    starts = [target.text for target, _ in states]
    if kind == "while_":
        header = f"for ({', '.join([*inner, index])},) in pl.while_(init_values=({', '.join([*starts, '0'])},)):"
    else:
        bounds = w.rng.choice(("range(3", "range(1, 4", "range(4, 0, -1", "pipeline(3, stage=2"))
        header = f"for {index}, ({', '.join(inner)},) in pl.{bounds}, init_values=({', '.join(starts)},)):"
    with w.nested(header):
        w.frozen |= set(w.env)
        if kind == "while_":
            w.emit(f"pl.cond({index} < {w.rng.randint(1, 4)})")
        w.scalars[index] = Val(index, "scalar", "INDEX", 0, 10)
        w.env.update({name: state.named(name) for name, (_, state) in zip(inner, states, strict=True)})
        w.frozen |= set(inner)
        w.body(w, w.rng.choice((1, 2)), depth + 1)
        if kind != "while_" and w.chance(0.15):
            _leave(w)
        news: list[str] = []
        for name, (_, state) in zip(inner, states, strict=True):
            new = advanced(w, state.named(name))
            news.append(new.text if new.valid == state.valid else name)
        results = outer
        if kind == "while_":
            results, news = [*outer, w.fresh("r")], [*news, f"{index} + 1"]
        if kind == "carried":
            for name, new in zip(inner, news, strict=True):
                w.emit(f"{name} = {new}")
        else:
            state = states[0][1]
            note = f": pl.Tile[{list(state.shape)}, pl.{state.dtype}]" if len(results) == 1 and state.level == "tile" and state.full and w.chance(0.4) else ""
            w.emit(f"{', '.join(results)}{note} = pl.yield_({', '.join(news)})")
    for name, (_, state) in zip(inner if kind == "carried" else outer, states, strict=True):
        w.hold(name, state)


def store_rows(w: Writer, index: str, trips: int) -> None:
    """Write a tile into the rows of an output that belong to this trip or block."""
    tile = w.pick(lambda v: v.level == "tile" and len(v.shape) == 2 and v.dtype != "BOOL")
    if tile is None:
        return
    rows, cols = int(tile.shape[0]), int(tile.shape[1])
    param = w.output((rows * trips, cols), tile.dtype)
    w.note_error(param.name, tile.err)
    assign = f"{param.name} = " if w.chance(0.4) else ""
    w.emit(f"{assign}pl.store({tile.text}, [{index} * {rows}, 0], {param.name})")
