"""The menu, scans with an operator, angles, complex numbers, and elements of a tensor that are changed in one step."""

from __future__ import annotations

from tests.fuzz.values import Val, rounding, settled
from tests.fuzz.writer import Writer


def _known(v: Val) -> bool:
    return v.full and not v.gaps and all(isinstance(extent, int) for extent in v.shape)


def scanned(w: Writer) -> Val | None:
    """pl.scan along an axis, from either end."""
    x = w.pick(lambda v: _known(v) and v.dtype in ("FP32", "FP64", "FP16", "INT32", "INT16"))
    if x is None:
        return None
    axis = w.rng.randrange(len(x.shape))
    count = int(x.shape[axis])
    name = w.rng.choice(("maximum", "minimum", "add"))
    low, high, err = x.lo, x.hi, x.err
    if name == "add":
        low, high, err = min(x.lo, count * x.lo), max(x.hi, count * x.hi), count * (x.err + rounding(x.dtype, count * x.magnitude, 2))
    text = f"pl.scan(pl.{name}, {x.text}, axis={axis}{', reverse=True' * w.chance(0.3)})"
    return settled(w.shaped_like(x, text, lo=low, hi=high, err=err if x.is_float else 0.0))


def angle(w: Writer) -> Val | None:
    """atan2 of points to the right of the axis, where it has no jump, and atan."""
    x = w.pick(lambda v: v.dtype in ("FP32", "FP64", "FP16") and v.magnitude <= 12)
    if x is None:
        return None
    if w.chance(0.4):
        return w.shaped_like(x, f"pl.atan({x.text})", lo=-1.6, hi=1.6, err=x.err + rounding(x.dtype, 1.6, 4))
    y = w.partner(x)
    if y is None:
        return None
    text = f"pl.atan2({x.text}, pl.abs({y.text}) + 0.5)"
    return w.shaped_like(x, text, lo=-1.6, hi=1.6, err=2 * (x.err + y.err) + rounding(x.dtype, 13, 4)) if x.dtype != "FP16" or x.level == "tile" else None


def complex_parts(w: Writer) -> Val | None:
    """A part, or the size, of a formula of complex numbers."""
    x = w.pick(lambda v: v.dtype == "FP32" and v.magnitude <= 6 and v.err < 1e-3)
    y = None if x is None else w.partner(x)
    if x is None or y is None or y.magnitude > 6 or y.err >= 1e-3 or y.valid != x.valid:
        return None
    z = f"pl.complex({x.text}, {y.text})"
    err = 64 * (x.err + y.err) + rounding("FP32", 128, 24)
    text, size = w.rng.choice(
        (
            (f"pl.abs({z} * 0.5j)", 6.0),
            (f"pl.real({z} * pl.conj({z} + 1j))", 120.0),
            (f"pl.imag(pl.exp({z} * 0.125))", 3.0),
            (f"pl.real({z} / (pl.cast(pl.abs({x.text}), pl.COMPLEX64) + 1.0))", 12.0),
        )
    )
    return w.shaped_like(x, text, lo=-size, hi=size, err=err)


def changed_element(w: Writer) -> Val | None:
    """An element of a new tensor, changed a few times, beside what each change found."""
    x = w.pick(lambda v: v.dtype == "INT32" and v.magnitude < 2**20) if w.region else None
    if x is None:
        return None
    tensor, place, found = w.fresh("a"), w.rng.randrange(4), []
    w.emit(f"{tensor} = pl.create_tensor([4], dtype=pl.INT32, init_value=9)")
    for _ in range(w.rng.randint(1, 3)):
        name = w.rng.choice(("add", "max", "min", "and", "or", "xor", "exchange", "cas"))
        found.append(w.fresh("s"))
        w.emit(f"{found[-1]} = pl.atomic_{name}({tensor}, [{place}], {'9, ' * (name == 'cas')}{w.rng.randrange(1, 30)})")
    total = f"({' + '.join(found)} + pl.read({tensor}, [{place}]))"
    return w.with_scalar("add", x, Val(total, "scalar", "INT32", 0.0, 400.0))
