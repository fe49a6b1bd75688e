"""Scalars: numbers read, computed and compared at run time, and small arrays of them."""

from __future__ import annotations

from dataclasses import replace

from tests.fuzz.values import Val, settled
from tests.fuzz.writer import Writer


def indices(w: Writer, highest: float = 1e9) -> list[Val]:
    """Scalars of type INDEX from 0 to `highest`."""
    return [s for s in w.scalars.values() if s.dtype == "INDEX" and s.lo >= 0 and s.hi <= highest]


def scalar(w: Writer) -> None:
    """A run-time number: read from memory, or computed from others."""
    integers = [s for s in w.scalars.values() if s.dtype == "INDEX" and s.magnitude < 50]
    source = w.pick(lambda v: v.full and v.exact and v.magnitude < 100 and len(v.shape) == 2 and all(isinstance(d, int) for d in v.shape))
    if source is not None and w.chance(0.25):
        cell = ", ".join(str(w.rng.randrange(int(extent))) for extent in source.shape)
        text = f"pl.read({source.text}, [{cell}])" if w.chance(0.5) else f"{source.text}[{cell}]"
        w.bind(Val(text, "scalar", source.dtype, source.lo, source.hi))
        return
    floats = [s for s in w.scalars.values() if s.dtype == "FP32" and s.magnitude < 50]
    if floats and w.chance(0.3):
        w.bind(_real(w, w.rng.choice(floats), w.rng.choice(floats)))
        return
    if w.chance(0.05):
        name, number = w.rng.choice((("aiv", 16), ("cluster", 8)))
        w.bind(Val(f"pl.system.available_{name}_count()", "scalar", "INDEX", number, number))
        return
    if not integers or w.chance(0.4):
        text = f"pl.cast(pl.read({w.config()}, [{w.rng.randrange(8)}]), pl.INDEX)"
        w.bind(Val(text, "scalar", "INDEX", 0, 6))
        return
    w.bind(settled(_whole(w, w.rng.choice(integers), w.rng.choice(integers))))


def _whole(w: Writer, a: Val, b: Val) -> Val:
    """An integer of two others, with every operator of Python."""
    x, y, far = a.text, b.text, max(abs(a.hi - b.lo), abs(b.hi - a.lo))
    forms: list[tuple[str, float, float]] = [
        (f"({x} + 5) % 3", 0, 2),
        (f"{x} // 2", a.lo // 2, a.hi // 2 + 1),
        (f"{x} + {y} * 2", a.lo + 2 * b.lo, a.hi + 2 * b.hi),
        (f"pl.min({x}, 4)", min(a.lo, 4), min(a.hi, 4)),
        (f"max({x}, {y})", max(a.lo, b.lo), max(a.hi, b.hi)),
        (f"abs({x} - {y})", 0, far),
        (f"-{x}", -a.hi, -a.lo),
        (f"{x} - {y}", a.lo - b.hi, a.hi - b.lo),
    ]
    if a.lo >= 0 and b.lo >= 0:
        top = 2 ** (int(max(a.hi, b.hi)).bit_length())
        forms += [(f"{x} {op} {y}", 0, top) for op in ("&", "|", "^")]
        forms += [(f"{x} >> 1", 0, a.hi), (f"{x} << 2", 0, a.hi * 4), (f"~{x}", -a.hi - 1, -1), (f"({x} % 4) ** 2", 0, 9)]
    text, low, high = w.rng.choice(forms)
    return Val(text, "scalar", "INDEX", low, high)


def _real(w: Writer, a: Val, b: Val) -> Val:
    """A float of two others; what may be contracted is not used for decisions."""
    x, y = a.text, b.text
    text, low, high = w.rng.choice((
        (f"{x} + {y}", a.lo + b.lo, a.hi + b.hi),
        (f"{x} * 0.5", a.lo / 2, a.hi / 2),
        (f"min({x}, {y})", min(a.lo, b.lo), min(a.hi, b.hi)),
        (f"{x} / 4.0", a.lo / 4, a.hi / 4),
        (f"abs({x})", 0, a.magnitude),
        (f"-{x}", -a.hi, -a.lo),
    ))  # fmt: skip
    return replace(a, text=text, lo=low - 0.01, hi=high + 0.01, err=a.err + b.err + 1e-5)


def on_core_array(w: Writer) -> None:
    """A small array of integers: created, filled in a loop, changed, read back."""
    name, index = w.fresh("a"), w.fresh("i")
    dtype = w.rng.choice(("INT32", "INT16", "INT64", "INDEX"))
    number = f"pl.cast({index} * 3 - 4, pl.{dtype})" if dtype != "INDEX" else f"{index} * 3 - 4"
    places = [s.text for s in indices(w, 6)]
    w.emit(f"{name} = pl.array.create(7, pl.{dtype})")
    w.emit(f"for {index} in pl.range(7):")
    w.emit(f"    {name}[{index}] = {number}")
    if places:
        place = w.rng.choice(places)
        changed = f"pl.const(5, pl.{dtype})" if dtype != "INDEX" else "5"
        w.emit(f"{name}[{place}] = {changed}" if w.chance(0.5) else f"{name} = pl.array.update_element({name}, {place}, {changed})")
    place = w.rng.choice(places) if places else "2"
    text = f"{name}[{place}]" if w.chance(0.6) else f"pl.array.get_element({name}, {place})"
    w.bind(Val(text, "scalar", dtype, -4, 14))


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
