"""The menu, elementwise, second part: powers, remainders, bits in pairs, masks, generated values, narrow types."""

from __future__ import annotations

import math
from dataclasses import replace

from tests.fuzz.values import EPSILON, INTEGERS, NARROW, Val, hull, integer_range, rounding, settled, with_float
from tests.fuzz.writer import Writer


def _positive(w: Writer, x: Val, low: float, high: float) -> Val:
    """`x` moved into a range above zero."""
    x = w.with_scalar("maximum", x, low) if x.lo < low else x
    return w.with_scalar("minimum", x, high) if x.hi > high else x


def power(w: Writer) -> Val | None:
    x = w.pick(lambda v: v.is_float)
    if x is None:
        return None
    x = _positive(w, x, 0.5, 3.0)
    exponent = w.rng.choice((2.0, 0.5, -1.0, 3.0))
    ends = sorted((x.lo**exponent, x.hi**exponent))
    dtype = with_float(x)
    gain = abs(exponent) * max(x.lo ** (exponent - 1), x.hi ** (exponent - 1))
    err = x.err * gain + rounding(dtype, ends[1], 8)
    return w.shaped_like(x, f"pl.pow({x.text}, {exponent})", dtype, lo=ends[0], hi=ends[1], err=err)


def nan_test(w: Writer) -> Val | None:
    """Where a root has no value."""
    x = w.pick(lambda v: v.is_float and v.exact and v.full)
    y = w.pick(lambda v: x is not None and v.full and v.shape == x.shape and v.dtype == x.dtype)
    if x is None or y is None:
        return None
    other = w.with_scalar("maximum", y, 1) if y.level == "tile" else y
    merged = hull(y, other, "")
    return w.shaped_like(y, f"pl.where(pl.isnan(pl.sqrt({x.text})), {y.text}, {other.text})", lo=merged.lo, hi=merged.hi, err=merged.err)


def flagged(w: Writer) -> Val | None:
    """A choice by flags in memory."""
    x = w.pick(lambda v: v.full and all(isinstance(n, int) for n in v.shape))
    y = w.pick(lambda v: x is not None and v.full and v.shape == x.shape and v.dtype == x.dtype)
    if x is None or y is None:
        return None
    flags = w.new_param("flags", x.shape, "BOOL", "flags").name
    if w.level == "tile":
        flags = f"pl.load({flags}, {[0] * len(x.shape)}, {list(x.shape)})"
    merged = hull(x, y, "")
    return w.shaped_like(x, f"pl.where({flags}, {x.text}, {y.text})", lo=merged.lo, hi=merged.hi, err=merged.err)


def remainder(w: Writer) -> Val | None:
    """rem, rems, fmod of two arrays, and the operators // and %."""
    x = w.pick(lambda v: v.exact and v.dtype in ("FP32", "INT32", "INT16"))
    if x is None:
        return None
    number = 2.0 if x.is_float else 3
    kind = w.rng.choice(("rem", "rems", "fmod", "fmods", "//", "%"))
    if kind in ("rem", "rems") and x.level != "tile":
        kind = "fmod"
    err = rounding(x.dtype, 8.0, 4)
    whole = max(abs(x.lo), abs(x.hi)) / 2 + 2
    if kind in ("//", "%"):
        bound = whole if kind == "//" else 3.0
        return settled(w.shaped_like(x, f"({x.text} {kind} {number})", lo=-bound, hi=bound, err=err))
    if kind in ("rems", "fmods"):
        extra = f", {w.scratch(x)}" if kind == "rems" else ""
        return settled(w.shaped_like(x, f"pl.{kind}({x.text}, {number}{extra})", lo=-3, hi=3, err=err))
    y = w.pick(lambda v: v.exact and (v.shape, v.dtype, v.valid) == (x.shape, x.dtype, x.valid))
    assert y is not None
    y = w.with_scalar("maximum", y, number)
    if y.dtype != x.dtype:
        return None
    extra = f", {w.scratch(x)}" if kind == "rem" else ""
    return settled(w.shaped_like(x, f"pl.{kind}({x.text}, {y.text}{extra})", lo=-y.hi - 1, hi=y.hi + 1, err=err))


def bit_pairs(w: Writer) -> Val | None:
    """xor, and shifts by an array."""
    x = w.pick(lambda v: v.dtype in INTEGERS)
    y = w.pick(lambda v: x is not None and (v.dtype, v.shape, v.valid) == (x.dtype, x.shape, x.valid))
    if x is None or y is None:
        return None
    low, high = integer_range(x.dtype)
    kind = w.rng.choice(("xor", "xors", "shl", "shr"))
    if kind.startswith("xor"):
        extra = f", {w.scratch(x)}" if x.level == "tile" else ""
        text = f"pl.{kind}({x.text}, {y.text if kind == 'xor' else 6}{extra})"
    else:
        text = f"pl.{kind}({x.text}, pl.ands({y.text}, 7))"
    return w.shaped_like(x, text, lo=low, hi=high)


def scalar_select(w: Writer) -> Val | None:
    """cmps and sels: masks from a comparison with a number."""
    x = w.pick(lambda v: v.level == "tile" and v.exact and v.full and len(v.shape) == 2 and v.dtype in ("FP32", "FP16", "INT32", "INT16"))
    if x is None:
        return None
    a = w.pick(lambda v: v.full and v.shape == x.shape and v.dtype in ("FP32", "FP16", "INT32", "INT16", "INT8"))
    if a is None:
        return None
    mask = w.fresh("m")
    w.emit(f"{mask} = pl.cmps({x.text}, {'0.25' if x.is_float else '1'}, cmp_type={w.rng.randrange(6)})")
    number = w.rng.choice((0.5, 2.0)) if a.is_float else w.rng.choice((1, 5))
    return w.shaped_like(a, f"pl.sels({mask}, {a.text}, {w.scratch(a)}, {number})", lo=min(a.lo, 0), hi=max(a.hi, 5))


def three_with_scalar(w: Writer) -> Val | None:
    """addsc, subsc, prelu."""
    x = w.pick(lambda v: v.level == "tile" and v.full and v.dtype in ("FP32", "FP16", "INT32") and len(v.shape) == 2)
    y = w.partner(x) if x is not None else None
    if x is None or y is None or not y.full:
        return None
    if x.is_float and x.dtype in ("FP32", "FP16") and w.chance(0.4):
        bound = x.magnitude * max(1.0, y.magnitude)
        err = x.err * max(1.0, y.magnitude) + y.err * x.magnitude + rounding(x.dtype, bound)
        return w.shaped_like(x, f"pl.prelu({x.text}, {y.text}, {w.scratch(x)})", lo=-bound, hi=bound, err=err)
    bound = x.magnitude + y.magnitude + 2
    err = x.err + y.err + rounding(x.dtype, bound, 2)
    number = 1.5 if x.is_float else 2
    return settled(w.shaped_like(x, f"pl.{w.rng.choice(('addsc', 'subsc'))}({x.text}, {number}, {y.text})", lo=-bound, hi=bound, err=err))


def made(w: Writer) -> Val | None:
    """Values from nothing: triangles, random numbers, a filled copy of a shape."""
    level = "tile" if w.level == "tile" else "tensor"
    shape = (w.rng.choice(w.rows), w.rng.choice(w.cols))
    kind = w.rng.choice(("tri", "random", "expands", "descending", "clone"))
    if kind == "random":
        dtype = w.rng.choice(("INT32", "UINT32"))
        words = ", ".join(str(w.rng.randrange(100)) for _ in range(6))
        text = f"pl.{level}.random({words}, [{shape[0]}, {shape[1]}], dtype=pl.{dtype}, rounds={w.rng.choice((7, 10))})"
        return Val(text, level, dtype, *integer_range(dtype), 0.0, shape, shape)
    if kind == "descending":
        text = f"pl.{level}.ci({shape[1] + 3}, [1, {shape[1]}], dtype=pl.INT32, descending=True)"
        return Val(text, level, "INT32", 0, shape[1] + 3, 0.0, (1, shape[1]), (1, shape[1]))
    if kind == "tri" and level == "tile":
        dtype = w.choose_dtype()
        text = f"pl.tri({w.rng.randint(-2, 3)}, [{shape[0]}, {shape[1]}], dtype=pl.{dtype}, upper={w.rng.choice((True, False))})"
        return Val(text, level, dtype, 0, 1, 0.0, shape, shape)
    x = w.pick(lambda v: v.full)
    if x is None:
        return None
    if kind == "clone" and level == "tensor" and len(x.shape) == 2:
        row = w.pick(lambda v: v.full and v.dtype == x.dtype and len(v.shape) == 2 and v.shape[0] in (1, x.shape[0]) and v.shape[1] in (1, x.shape[1]))
        return w.shaped_like(x, f"pl.expand_clone({row.text}, {x.text})", lo=row.lo, hi=row.hi, err=row.err) if row else None
    number = w.rng.choice((0.5, -1.5)) if x.is_float else 3
    return w.shaped_like(x, f"pl.expands({x.text}, {number})", lo=number, hi=number, err=0.0)


def narrow_type(w: Writer) -> Val | None:
    """Through a type of four or eight bits and back; from memory, or from a value."""
    name = w.rng.choice(tuple(NARROW))
    low, high = NARROW[name]
    wide = "INT32" if "INT" in name else "FP32"
    if w.chance(0.5):
        shape = (w.rng.choice(w.rows), w.rng.choice([c for c in w.cols if c % 2 == 0] or [16]))
        param = w.new_param("x", shape, name, "narrow")
        text = f"pl.load({param.name}, [0, 0], [{shape[0]}, {shape[1]}])" if w.level == "tile" else param.name
        return Val(f"pl.cast({text}, pl.{wide})", "tile" if w.level == "tile" else "tensor", wide, low, high, 0.0, shape, shape)
    x = w.pick(lambda v: v.exact and v.dtype == wide and (name != "FP8E8M0" or v.lo > 0.1))
    if x is None:
        return None
    mode = w.rng.choice(("", ", mode='rint'")) if wide == "FP32" else ""
    bound = min(2 * x.magnitude + 1, max(abs(low), abs(high)) * 4096)
    ends = (low, high) if wide == "INT32" else (-bound, bound)
    return w.shaped_like(x, f"pl.cast(pl.cast({x.text}, pl.{name}{mode}), pl.{wide})", lo=ends[0], hi=ends[1])


def store_narrow(w: Writer) -> None:
    """A statement: a value goes to memory in a narrow type."""
    name = w.rng.choice([n for n in NARROW if n != "FP8E8M0"])
    wide = "INT32" if "INT" in name else "FP32"
    x = w.pick(lambda v: v.exact and v.full and v.dtype == wide and len(v.shape) == 2 and all(isinstance(n, int) for n in v.shape) and int(v.shape[1]) % 2 == 0)
    if x is None or w.block is not None:
        return
    param = w.output(x.shape, name)
    w.note_error(param.name, 0.0)
    value = f"pl.cast({x.text}, pl.{name})"
    w.emit(f"pl.store({value}, [0, 0], {param.name})" if w.level == "tile" else f"{param.name}[:] = {value}")


def rounding_mode(w: Writer) -> Val | None:
    """Casts with every mode, between floats and to integers."""
    x = w.pick(lambda v: v.exact and v.dtype == "FP32" and v.magnitude < 100)
    if x is None:
        return None
    target = w.rng.choice(("FP16", "BF16", "INT32", "INT16", "INT8", "UINT8", "INT64", "UINT32", "UINT64"))
    mode = w.rng.choice(("none", "rint", "round", "floor", "ceil", "trunc", "odd"))
    text = f"pl.cast({x.text}, pl.{target}, mode={mode!r})"
    if target in EPSILON:
        return w.shaped_like(x, text, target, lo=x.lo - 1, hi=x.hi + 1)
    low, high = integer_range(target)
    return w.shaped_like(x, text, target, lo=max(low, math.floor(x.lo) - 1), hi=min(high, math.ceil(x.hi) + 1))


def precise(w: Writer) -> Val | None:
    """High-precision variants and quotients by a number."""
    x = w.pick(lambda v: v.dtype in ("FP32", "FP16"))
    if x is None:
        return None
    kind = w.rng.choice(("divs", "log", "recip", "rsqrt", "div"))
    level = "tile" if x.level == "tile" else "tensor"
    if kind == "divs":
        dtype = x.dtype if level == "tile" else "FP32"
        return w.shaped_like(x, f"pl.{level}.divs({x.text}, 4.0)", dtype, lo=x.lo / 4, hi=x.hi / 4, err=x.err + rounding(x.dtype, x.magnitude))
    x = _positive(w, x, 0.5, 12.0)
    if x.dtype not in ("FP32", "FP16"):
        return None
    if kind == "div":
        return w.shaped_like(x, f"pl.div({x.text}, {x.text}, high_precision=True)", lo=0.5, hi=1.5, err=4 * x.err + rounding(x.dtype, 1.0, 2))
    option = f", {w.scratch(x)}" if kind == "rsqrt" and level == "tile" else ", high_precision=True"
    ends = {"log": (-1.0, 3.0), "recip": (0.05, 2.0), "rsqrt": (0.2, 1.5)}[kind]
    name = "tile.rsqrt" if kind == "rsqrt" and level == "tile" else kind
    return w.shaped_like(x, f"pl.{name}({x.text}{option})", lo=ends[0], hi=ends[1], err=4 * x.err + rounding(x.dtype, 3.0, 8))


def part(w: Writer) -> Val | None:
    """part_mul, and the part ops on tensors."""
    x = w.pick(lambda v: v.dtype in ("FP32", "INT32", "FP16", "INT16"))
    y = w.pick(lambda v: x is not None and v.shape == x.shape and v.dtype == x.dtype)
    if x is None or y is None:
        return None
    op = w.rng.choice(("mul", "mul", "add", "max", "min"))
    if op == "mul":
        bound = x.magnitude * max(1.0, y.magnitude)
        err = x.err * max(1.0, y.magnitude) + y.err * x.magnitude + rounding(x.dtype, bound)
    else:
        bound = x.magnitude + y.magnitude
        err = x.err + y.err + rounding(x.dtype, bound)
    return replace(settled(w.shaped_like(x, f"pl.part_{op}({x.text}, {y.text})", lo=-bound, hi=bound, err=err)), product=x.is_float)

