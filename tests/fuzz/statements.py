"""Statements: an operation under a new or old name, scalars, stores, branches, loops."""

from __future__ import annotations

from dataclasses import replace

from tests.fuzz import special
from tests.fuzz.control import branch, loop
from tests.fuzz.effects import inert
from tests.fuzz.menu import expression
from tests.fuzz.public_forms import annotated_numbers
from tests.fuzz.scalars import indices, on_core_array, scalar
from tests.fuzz.traffic import traffic
from tests.fuzz.values import Val, hull, too_vague
from tests.fuzz.writer import Writer


def operate(w: Writer) -> None:
    """Bind an operation's result, sometimes to a name that is already in use."""
    value = expression(w)
    if value is None:
        return
    reuse = [name for name, old in w.env.items() if name not in w.frozen and old.level == value.level and (old.shape, old.dtype) == (value.shape, value.dtype)]
    w.bind(value, w.rng.choice(reuse) if reuse and w.chance(0.3) else None)


def rebind(w: Writer) -> None:
    """Other spellings of a new value for a name: augmented, chained, unpacked, swapped, written in part."""
    free = [v for name, v in w.env.items() if name not in w.frozen and v.level == w.level and v.full]
    if not free:
        return
    old = w.rng.choice(free)
    partners = [v for v in free if (v.shape, v.dtype) == (old.shape, old.dtype) and v.text != old.text]
    kind = w.rng.choice(("augmented", "chained", "unpacked", "swapped", "cell", "window", "row"))
    if kind == "augmented":
        _augmented(w, old)
    elif kind == "chained":
        value = expression(w)
        if value is not None and value.level in ("tile", "tensor"):
            names = w.fresh("c"), w.fresh("c")
            w.emit(f"{names[0]} = {names[1]} = {value.text}")
            for name in names:
                w.hold(name, value)
    elif kind == "unpacked":
        first, second = expression(w), expression(w)
        if first is not None and second is not None and {first.level, second.level} <= {"tile", "tensor"}:
            a, b, c = (w.fresh("u") for _ in range(3))
            w.emit(f"{a}, ({b}, {c}) = {first.text}, ({second.text}, {old.text})")
            for name, value in ((a, first), (b, second), (c, old)):
                w.hold(name, value)
    elif kind == "swapped" and partners:
        other = w.rng.choice(partners)
        w.emit(f"{old.text}, {other.text} = {other.text}, {old.text}")
        w.hold(old.text, other)
        w.hold(other.text, old)
    elif len(old.shape) == 2 and old.dtype in ("FP32", "INT32") and all(isinstance(n, int) for n in old.shape):
        _write_part(w, old, kind, partners)


def _augmented(w: Writer, old: Val) -> None:
    """`x += 2`, `x -= 2`, `x *= 2`."""
    symbol, op = w.rng.choice((("+", "add"), ("-", "sub"), ("*", "mul")))
    new = w.with_scalar(op, old, 2)
    if op == "sub" and old.dtype not in ("INT8", "INT16", "INT32", "FP16", "FP32", "FP64", "BF16"):
        return
    if new.dtype == old.dtype and not too_vague(new) and new.magnitude < 16:
        w.emit(f"{old.text} {symbol}= 2")
        w.hold(old.text, new)


def _write_part(w: Writer, old: Val, kind: str, partners: list[Val]) -> None:
    """A cell, a row or a window of a value replaced."""
    rows, cols = (int(extent) for extent in old.shape)
    if kind == "cell":
        number = "0.5" if old.is_float else "pl.const(3, pl.INT32)"
        places = [s.text for s in indices(w, rows - 1)] if w.chance(0.4) else []
        row = w.rng.choice(places) if places else str(w.rng.randrange(-rows, rows))
        w.emit(f"{old.text}[{row}, {w.rng.randrange(cols)}] = {number}")
        w.hold(old.text, replace(old, lo=min(old.lo, 0), hi=max(old.hi, 3)))
    elif partners:
        other = w.rng.choice(partners)
        if kind == "row":
            to, source = w.rng.randrange(rows), w.rng.randrange(rows)
            w.emit(f"{old.text}[{to}:{to + 1}, :] = {other.text}[{source}:{source + 1}]")
        else:
            height, width = w.rng.randint(1, rows), w.rng.randint(1, cols)
            top, left = w.rng.randint(0, rows - height), w.rng.randint(0, cols - width)
            value = f"{other.text}[0:{height}, 0:{width}]" if w.chance(0.4) else f"pl.set_validshape({other.text}, {height}, {width})"
            w.emit(f"{old.text}[{top}:{top + height}, {left}:{left + width}] = {value}")
        w.hold(old.text, hull(old, other, ""))


def statements(w: Writer, count: int, depth: int = 0) -> None:
    """`count` random statements."""
    for _ in range(count):
        kind = w.rng.random()
        if kind < 0.65 or depth >= 3:
            operate(w)
        elif kind < 0.70:
            scalar(w)
        elif kind < 0.715 and w.region:
            on_core_array(w)
        elif kind < 0.73:
            inert(w)
        elif kind < 0.74:
            special.store_narrow(w)
        elif kind < 0.79:
            rebind(w)
        elif kind < 0.82:
            traffic(w)
        elif kind < 0.88:
            (annotated_numbers if w.chance(0.1) else lambda w: branch(w, depth))(w)
        else:
            loop(w, depth)
