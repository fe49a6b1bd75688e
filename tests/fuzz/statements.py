"""Statements: an operation under a new or old name, scalars, stores, branches, loops of every spelling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.fuzz import indexed, movement, operations
from tests.fuzz.values import EPSILON, Val, hull, rounding, settled, too_vague
from tests.fuzz.writer import Writer

Operation = Callable[[Writer], Val | None]

MENU: tuple[tuple[int, Operation], ...] = (
    (4, operations.smooth),
    (1, operations.trigonometry),
    (2, operations.sign),
    (1, operations.rounded),
    (4, operations.scalar_operand),
    (1, operations.reversed_scalar),
    (6, operations.arithmetic),
    (2, operations.quotient),
    (2, operations.bits),
    (3, operations.conversion),
    (2, operations.choice),
    (4, operations.reduction),
    (4, operations.expansion),
    (3, movement.load),
    (2, movement.load_at),
    (2, movement.cut),
    (2, movement.reshape),
    (2, movement.transpose),
    (2, movement.concat),
    (3, movement.pad),
    (1, movement.narrow),
    (3, movement.product),
    (2, movement.constant),
    (2, movement.partial),
    (2, movement.three_operands),
    (1, movement.element_write),
    (1, indexed.pattern),
    (2, indexed.gather),
    (2, indexed.scatter),
    (2, indexed.rows_by_index),
)
_WEIGHTS = [weight for weight, _ in MENU]
_OPERATIONS = [operation for _, operation in MENU]

CARRIED_BOUND = 4.0
"""Floats that a loop carries stay within this."""


def expression(w: Writer) -> Val | None:
    """A random operation that fits, tamed."""
    for operation in w.rng.choices(_OPERATIONS, _WEIGHTS, k=8):
        mark = len(w.lines)
        value = operation(w)
        if value is not None:
            value = w.tamed(value)
        if value is not None and _size(value) <= 4096:
            return value
        del w.lines[mark:]
    return None


def _size(value: Val) -> int:
    size = 1
    for extent in value.shape:
        size *= extent if isinstance(extent, int) else 32
    return size


def operate(w: Writer) -> None:
    """Bind an operation's result, sometimes to a name that is already in use."""
    value = expression(w)
    if value is None:
        return
    reuse = [name for name, old in w.env.items() if name not in w.frozen and old.level == value.level and (old.shape, old.dtype) == (value.shape, value.dtype)]
    w.bind(value, w.rng.choice(reuse) if reuse and w.chance(0.3) else None)


def rebind(w: Writer) -> None:
    """Other spellings of a new value for a name: augmented, chained, swapped, written in part."""
    free = [v for name, v in w.env.items() if name not in w.frozen and v.level == w.level and v.full]
    if not free:
        return
    old = w.rng.choice(free)
    partners = [v for v in free if (v.shape, v.dtype) == (old.shape, old.dtype) and v.text != old.text]
    kind = w.rng.choice(("augmented", "chained", "swapped", "cell", "window"))
    if kind == "augmented":
        new = w.with_scalar("add", old, 2)
        if new.dtype == old.dtype and not too_vague(new) and new.magnitude < 16:
            w.emit(f"{old.text} += 2")
            w.hold(old.text, new)
    elif kind == "chained":
        value = expression(w)
        if value is not None and value.level in ("tile", "tensor"):
            names = w.fresh("c"), w.fresh("c")
            w.emit(f"{names[0]} = {names[1]} = {value.text}")
            for name in names:
                w.hold(name, value)
    elif kind == "swapped" and partners:
        other = w.rng.choice(partners)
        w.emit(f"{old.text}, {other.text} = {other.text}, {old.text}")
        w.hold(old.text, other)
        w.hold(other.text, old)
    elif w.level == "tile" and len(old.shape) == 2 and old.dtype in ("FP32", "INT32"):
        _write_part(w, old, kind, partners)


def _write_part(w: Writer, old: Val, kind: str, partners: list[Val]) -> None:
    rows, cols = (int(extent) for extent in old.shape)
    if kind == "cell":
        number = "0.5" if old.is_float else "pl.const(3, pl.INT32)"
        w.emit(f"{old.text}[{w.rng.randrange(rows)}, {w.rng.randrange(cols)}] = {number}")
        w.hold(old.text, replace(old, lo=min(old.lo, 0), hi=max(old.hi, 3)))
    elif partners:
        other = w.rng.choice(partners)
        height, width = w.rng.randint(1, rows), w.rng.randint(1, cols)
        top, left = w.rng.randint(0, rows - height), w.rng.randint(0, cols - width)
        w.emit(f"{old.text}[{top}:{top + height}, {left}:{left + width}] = {other.text}[0:{height}, 0:{width}]")
        w.hold(old.text, hull(old, other, ""))


def scalar(w: Writer) -> None:
    """A run-time integer: read from memory, or computed from others."""
    integers = [s for s in w.scalars.values() if s.dtype == "INDEX" and s.magnitude < 50]
    source = w.pick(lambda v: v.full and v.exact and v.magnitude < 100 and len(v.shape) == 2 and all(isinstance(d, int) for d in v.shape))
    if source is not None and w.chance(0.25):
        cell = ", ".join(str(w.rng.randrange(int(extent))) for extent in source.shape)
        w.bind(Val(f"pl.read({source.text}, [{cell}])", "scalar", source.dtype, source.lo, source.hi))
        return
    if not integers or w.chance(0.5):
        text = f"pl.cast(pl.read({w.config()}, [{w.rng.randrange(8)}]), pl.INDEX)"
        w.bind(Val(text, "scalar", "INDEX", 0, 6))
        return
    a = w.rng.choice(integers)
    b = w.rng.choice(integers)
    form = w.rng.choice(("mod", "div", "sum", "min", "max", "diff"))
    text, low, high = {
        "mod": (f"({a.text} + 5) % 3", 0, 2),
        "div": (f"{a.text} // 2", a.lo // 2, a.hi // 2),
        "sum": (f"{a.text} + {b.text} * 2", a.lo + 2 * b.lo, a.hi + 2 * b.hi),
        "min": (f"pl.min({a.text}, 4)", min(a.lo, 4), min(a.hi, 4)),
        "max": (f"max({a.text}, {b.text})", max(a.lo, b.lo), max(a.hi, b.hi)),
        "diff": (f"abs({a.text} - {b.text})", 0, max(abs(a.hi - b.lo), abs(b.hi - a.lo))),
    }[form]
    w.bind(settled(Val(text, "scalar", "INDEX", low, high)))


def on_core_array(w: Writer) -> None:
    """A small array of integers: created, filled in a loop, changed, read back."""
    name, index = w.fresh("a"), w.fresh("i")
    integers = [s.text for s in w.scalars.values() if s.dtype == "INDEX" and s.lo >= 0 and s.hi <= 6]
    w.emit(f"{name} = pl.array.create(7, pl.INT32)")
    w.emit(f"for {index} in pl.range(7):")
    w.emit(f"    {name}[{index}] = pl.cast({index} * 3 - 4, pl.INT32)")
    if integers:
        place = w.rng.choice(integers)
        w.emit(f"{name}[{place}] = pl.const(5, pl.INT32)")
    w.bind(Val(f"{name}[{w.rng.choice(integers) if integers else 2}]", "scalar", "INT32", -4, 14))


def condition(w: Writer) -> str:
    """A comparison of run-time scalars."""
    integers = [s for s in w.scalars.values() if s.dtype == "INDEX"]
    while not integers:
        scalar(w)
        integers = [s for s in w.scalars.values() if s.dtype == "INDEX"]
    a, b = w.rng.choice(integers).text, w.rng.choice(integers).text
    return w.rng.choice((
        f"{a} == {w.rng.randint(0, 4)}",
        f"{a} < {w.rng.randint(1, 5)}",
        f"{a} % 2 == 0",
        f"{a} >= {b}",
        f"{a} != 1 and {b} < 5",
        f"not ({a} > 2)",
        f"{a} == 0 or {b} == 3",
        f"1 <= {a} < 5",
    ))  # fmt: skip


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
    arms = [f"if {text}:"] + ([f"elif {condition(w)}:"] if not by_yield and w.chance(0.3) else [])
    arms += ["else:"] if by_yield or w.chance(0.6) else []
    results = [[target] if not arms[-1].startswith("else") else [] for target in targets]
    names = [w.fresh("y") for _ in targets] if by_yield else [t.text for t in targets]
    for header in arms:
        with w.nested(header):
            w.frozen |= set(w.env)
            statements(w, w.rng.choice((0, 1)), depth + 1)
            news = [updated(w, target) or target for target in targets]
            if by_yield:
                w.emit(f"{', '.join(names)} = pl.yield_({', '.join(new.text for new in news)})")
            else:
                for target, new in zip(targets, news, strict=True):
                    if new is not target:
                        w.emit(f"{target.text} = {new.text}")
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
    kind = w.rng.choice(("range", "range", "range", "explicit", "explicit", "while", "unroll", "while_", "pipeline"))
    states = [(target, state) for target in _targets(w, w.rng.choice((1, 1, 2)), frozenset(w.stable)) if (state := carried(w, w.env[target.text])) is not None]
    if not states:
        return
    # What a loop carries may be valid in less than at its start: a name for "some extent" that no other value has.
    states = [(target, replace(state, valid=tuple(v if v == 1 or target.full else w.fresh("j") for v in state.valid))) for target, state in states]
    before = dict(w.env)
    if kind in ("explicit", "while_"):
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
        statements(w, w.rng.choice((1, 2)), depth + 1)
        if kind in ("range", "while") and w.chance(0.25):
            if kind == "while":
                w.emit(f"{index} = {index} + 1")
            with w.nested(f"if {condition(w)}:"):
                w.emit(w.rng.choice(("break", "continue")))
            bumped = kind == "while"
        else:
            bumped = False
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
    for target, state in finals:
        w.hold(target.text, state)


def _header(w: Writer, kind: str, index: str) -> tuple[str, int | None]:
    """The loop's first line, and its trip bound when it counts from 0 in steps of 1."""
    if kind == "unroll":
        return f"for {index} in pl.unroll({w.rng.choice(('2', '3', '1, 3'))}):", None
    if kind == "while":
        w.emit(f"{index} = 0")
        limit = "3"
        if w.scalars and w.chance(0.6):
            limit = w.rng.choice([s.text for s in w.scalars.values() if s.dtype == "INDEX" and s.magnitude <= 20] or ["3"])
        w.scalars[index] = Val(index, "scalar", "INDEX", 0, 20)
        return f"while {index} < {limit}:", None
    if kind == "pipeline":
        return f"for {index} in pl.pipeline(3, stage=2):", 3
    runtime = [s.text for s in w.scalars.values() if s.dtype == "INDEX" and s.lo >= 0 and s.hi <= 6]
    if runtime and w.chance(0.4):
        return f"for {index} in pl.range({w.rng.choice(runtime)}):", 6
    return w.rng.choice((
        (f"for {index} in pl.range(3):", 3),
        (f"for {index} in pl.range(5):", 5),
        (f"for {index} in pl.range(1, 4):", 4),
        (f"for {index} in pl.range(0, 7, 3):", None),
        (f"for {index} in pl.range(4, 0, -2):", None),
    ))  # fmt: skip


def _explicit(w: Writer, kind: str, states: list[tuple[Val, Val]], depth: int) -> None:
    """init_values in, yield_ out."""
    index = w.fresh("i")
    inner = [w.fresh("c") for _ in states]
    outer = [w.fresh("r") for _ in states]
    starts = [target.text for target, _ in states]
    if kind == "while_":
        header = f"for ({', '.join([*inner, index])},) in pl.while_(init_values=({', '.join([*starts, '0'])},)):"
    else:
        header = f"for {index}, ({', '.join(inner)},) in pl.range({w.rng.choice(('3', '1, 4', '4, 0, -1'))}, init_values=({', '.join(starts)},)):"
    with w.nested(header):
        w.frozen |= set(w.env)
        if kind == "while_":
            w.emit(f"pl.cond({index} < {w.rng.randint(1, 4)})")
        w.scalars[index] = Val(index, "scalar", "INDEX", 0, 10)
        w.env.update({name: state.named(name) for name, (_, state) in zip(inner, states, strict=True)})
        w.frozen |= set(inner)
        statements(w, w.rng.choice((1, 2)), depth + 1)
        news: list[str] = []
        for name, (_, state) in zip(inner, states, strict=True):
            new = advanced(w, state.named(name))
            news.append(new.text if new.valid == state.valid else name)
        results = outer
        if kind == "while_":
            results, news = [*outer, w.fresh("r")], [*news, f"{index} + 1"]
        w.emit(f"{', '.join(results)} = pl.yield_({', '.join(news)})")
    for name, (_, state) in zip(outer, states, strict=True):
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


def statements(w: Writer, count: int, depth: int = 0) -> None:
    """`count` random statements."""
    for _ in range(count):
        kind = w.rng.random()
        if kind < 0.68 or depth >= 3:
            operate(w)
        elif kind < 0.725:
            scalar(w)
        elif kind < 0.735 and w.depth > 1:
            on_core_array(w)
        elif kind < 0.79:
            rebind(w)
        elif kind < 0.87:
            branch(w, depth)
        else:
            loop(w, depth)
