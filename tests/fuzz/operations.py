"""The menu of operations: each picks operands from the scope and returns a new expression, or None when nothing fits."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.fuzz.values import BITS, EPSILON, FLOATS, INTEGERS, Dim, Val, hull, integer_range, promoted, rounding, settled, with_float
from tests.fuzz.writer import Writer


@dataclass(frozen=True)
class Smooth:
    """A float function: where it is safe, its range there, how much it magnifies a difference."""

    low: float
    high: float
    at: Callable[[float], float]
    gain: Callable[[float, float], float]
    dtypes: tuple[str, ...] = FLOATS


SMOOTH = {
    "exp": Smooth(-20, 2.5, math.exp, lambda _, high: math.exp(high)),
    "log": Smooth(0.25, 1e4, math.log, lambda low, _: 1 / low, ("FP32", "FP16", "FP64")),
    "sqrt": Smooth(0.25, 1e4, math.sqrt, lambda low, _: 0.5 / math.sqrt(low)),
    "rsqrt": Smooth(0.25, 1e4, lambda x: 1 / math.sqrt(x), lambda low, _: 0.5 * low**-1.5),
    "recip": Smooth(0.5, 1e4, lambda x: 1 / x, lambda low, _: 1 / low**2),
    "tanh": Smooth(-1e4, 1e4, math.tanh, lambda *_: 1.0),
    "sigmoid": Smooth(-80, 80, lambda x: 1 / (1 + math.exp(-x)), lambda *_: 0.25),
    "softplus": Smooth(-80, 1e4, lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x))), lambda *_: 1.0),
    "silu": Smooth(0, 1e4, lambda x: x / (1 + math.exp(-x)), lambda *_: 1.1),  # it turns below 0
    "gelu": Smooth(0, 1e4, lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2, lambda *_: 1.13),
    "erf": Smooth(-1e4, 1e4, math.erf, lambda *_: 1.2),
}


def smooth(w: Writer) -> Val | None:
    """A function of the table, after moving its argument into the safe range."""
    x = w.pick(lambda v: v.is_float)
    if x is None:
        return None
    name = w.rng.choice([name for name, facts in SMOOTH.items() if x.dtype in facts.dtypes])
    facts = SMOOTH[name]
    if x.lo < facts.low:
        if w.chance(0.5):
            x = w.with_scalar("maximum", x, facts.low)
        else:
            absolute = w.shaped_like(x, f"pl.abs({x.text})", lo=0.0, hi=x.magnitude)
            x = w.with_scalar("add", absolute, max(facts.low, 0.5))
    if x.hi > facts.high:
        x = w.with_scalar("minimum", x, facts.high)
    if x.dtype not in facts.dtypes:
        return None
    ends = sorted((facts.at(x.lo), facts.at(x.hi)))
    err = x.err * facts.gain(x.lo, x.hi) + rounding(x.dtype, max(map(abs, ends)), 8)
    return w.shaped_like(x, f"pl.{name}({x.text})", lo=ends[0], hi=ends[1], err=err)


def clamped(w: Writer) -> Val | None:
    """Values kept between two constants."""
    x = w.pick(lambda v: v.dtype in ("FP32", "FP16", "BF16", "FP64", "INT32"))
    if x is None:
        return None
    low, high = sorted(w.rng.sample(range(-6, 7), 2))
    shown = [f"{end}.0" if x.is_float else str(end) for end in (low, high)]
    return w.shaped_like(x, f"pl.clamp({x.text}, {shown[0]}, {shown[1]})", with_float(x), lo=min(max(x.lo, low), high), hi=max(min(x.hi, high), low))


def trigonometry(w: Writer) -> Val | None:
    x = w.pick(lambda v: v.dtype in ("FP32", "FP64"))
    if x is None:
        return None
    return w.shaped_like(x, f"pl.{w.rng.choice(('sin', 'cos'))}({x.text})", lo=-1.0, hi=1.0, err=x.err + 1e-6)


def sign(w: Writer) -> Val | None:
    """neg, abs, relu: no rounding."""
    x = w.pick(lambda v: not v.dtype.startswith("U") and v.dtype != "BOOL")
    if x is None:
        return None
    name = w.rng.choice(("neg", "abs", "relu"))
    ends = {"neg": (-x.hi, -x.lo), "abs": (0.0, x.magnitude), "relu": (max(x.lo, 0), max(x.hi, 0))}[name]
    text = f"(-{x.text})" if name == "neg" and w.chance(0.4) else f"pl.{name}({x.text})"
    return settled(w.shaped_like(x, text, lo=ends[0], hi=ends[1]))


def rounded(w: Writer) -> Val | None:
    x = w.pick(lambda v: v.is_float and v.exact)
    if x is None:
        return None
    return w.shaped_like(x, f"pl.{w.rng.choice(('floor', 'ceil', 'round'))}({x.text})", lo=math.floor(x.lo), hi=math.ceil(x.hi))


def scalar_operand(w: Writer) -> Val | None:
    """x op number; the number is a literal, or a run-time scalar cast to the element type."""
    x = w.pick(lambda v: v.dtype != "BOOL")
    if x is None:
        return None
    op = w.rng.choice(("add", "sub", "mul", "maximum", "minimum"))
    if w.scalars and w.chance(0.4):
        scalar = w.rng.choice(list(w.scalars.values()))
        if scalar.dtype == "BOOL" or scalar.magnitude > 100:
            return None
        if scalar.dtype != x.dtype:
            if scalar.is_float and not x.is_float:
                return None
            scalar = settled(replace(scalar, text=f"pl.cast({scalar.text}, pl.{x.dtype})", dtype=x.dtype))
        return w.with_scalar(op, x, scalar)
    if x.is_float:
        return w.with_scalar(op, x, w.rng.choice((0.5, -1.5, 2.0, 0.1, 1, 3)))
    return w.with_scalar(op, x, w.rng.choice((1, 2, 3, 5) if x.dtype.startswith("U") else (1, 2, -3, 7)))


def reversed_scalar(w: Writer) -> Val | None:
    """number - x, number / x."""
    x = w.pick(lambda v: v.is_float)
    if x is None:
        return None
    if w.chance(0.5):
        value = w.with_scalar("sub", x, 1.0)
        return replace(value, text=f"(1.0 - {x.text})", lo=1 - x.hi, hi=1 - x.lo)
    x = w.with_scalar("add", w.shaped_like(x, f"pl.abs({x.text})", lo=0.0, hi=x.magnitude), 1.0)
    return w.shaped_like(x, f"(2.0 / {x.text})", lo=2.0 / x.hi, hi=2.0 / x.lo, err=2 * x.err + rounding(x.dtype, 2.0, 2))


def arithmetic(w: Writer) -> Val | None:
    """Two arrays: add, sub, mul, maximum, minimum, with broadcasting."""
    x = w.pick(lambda v: v.dtype != "BOOL")
    if x is None:
        return None
    same_dtype = x.level == "tile" or w.chance(0.8)
    dtypes = (x.dtype,) if same_dtype else w.dtypes
    fits, name = functools.partial(broadcast, x), x.text
    y = w.pick(lambda v: v.dtype in dtypes and v.text != name and fits(v) is not None) if w.chance(0.9) else x
    if y is None:
        return None
    met = broadcast(x, y)
    assert met is not None
    op = w.rng.choice(("add", "sub", "mul", "maximum", "minimum"))
    symbol = {"add": "+", "sub": "-", "mul": "*"}.get(op)
    text = f"({x.text} {symbol} {y.text})" if symbol and w.chance(0.4) else f"pl.{op}({x.text}, {y.text})"
    dtype = promoted(x.dtype, y.dtype)
    if dtype in EPSILON:
        # A conversion into a narrower type may round before the operation.
        x, y = (v if v.dtype == dtype else replace(v, err=v.err + rounding(dtype, v.magnitude)) for v in (x, y))
    return binary(w, op, x, y, text, dtype, *met)


def binary(w: Writer, op: str, x: Val, y: Val, text: str, dtype: str, shape: tuple[Dim, ...], valid: tuple[Dim, ...]) -> Val:
    corners = [a * b for a in (x.lo, x.hi) for b in (y.lo, y.hi)]
    low, high = {
        "add": (x.lo + y.lo, x.hi + y.hi),
        "sub": (x.lo - y.hi, x.hi - y.lo),
        "mul": (min(corners), max(corners)),
        "maximum": (max(x.lo, y.lo), max(x.hi, y.hi)),
        "minimum": (min(x.lo, y.lo), min(x.hi, y.hi)),
    }[op]
    err = x.err + y.err
    product = False
    if op == "mul":
        err = x.err * y.magnitude + y.err * x.magnitude + x.err * y.err
        product = dtype in EPSILON
    if op in ("add", "sub", "mul") and (err > 0 or product or x.product or y.product):
        err += rounding(dtype, max(abs(low), abs(high)))
    level = "tile" if x.level == "tile" else "tensor"
    return settled(Val(text, level, dtype, low, high, err, shape, valid, product))


def broadcast(x: Val, y: Val) -> tuple[tuple[Dim, ...], tuple[Dim, ...]] | None:
    if len(x.shape) != len(y.shape):
        return None
    shape: list[Dim] = []
    valid: list[Dim] = []
    for a, b, va, vb in zip(x.shape, y.shape, x.valid, y.valid, strict=True):
        if a == b:
            shape.append(a)
            valid.append(_smaller(va, vb, a))
        elif 1 in (a, b):
            shape.append(b if a == 1 else a)
            valid.append(vb if a == 1 else va)
        else:
            return None
    return tuple(shape), tuple(valid)


def _smaller(a: Dim, b: Dim, full: Dim) -> Dim:
    """The extent of an intersection."""
    if a == b or b == full:
        return a
    if a == full:
        return b
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return "&".join(sorted({*str(a).split("&"), *str(b).split("&")}))


def quotient(w: Writer) -> Val | None:
    """Division by something far from zero."""
    x = w.pick(lambda v: v.dtype in ("FP32", "FP16", "INT32", "INT16"))
    if x is None:
        return None
    if not x.is_float:
        divisor = w.rng.choice((2, 3, -5))
        op = w.rng.choice(("div", "fmod"))
        bound = max(abs(x.lo), abs(x.hi)) / abs(divisor) + 1 if op == "div" else abs(divisor)
        return settled(w.shaped_like(x, f"pl.{op}({x.text}, {divisor})", lo=-bound, hi=bound))
    y = w.partner(x)
    if y is None or y.valid != x.valid:
        return None
    if y.lo < 0.5:
        y = w.with_scalar("add", w.shaped_like(y, f"pl.abs({y.text})", lo=0.0, hi=y.magnitude), 1.0)
        if y.dtype != x.dtype:
            return None
    bound = x.magnitude / y.lo
    err = x.err / y.lo + y.err * x.magnitude / y.lo**2 + rounding(x.dtype, bound, 2)
    return w.shaped_like(x, f"pl.div({x.text}, {y.text})", lo=-bound, hi=bound, err=err)


def bits(w: Writer) -> Val | None:
    """Bitwise operations and shifts."""
    x = w.pick(lambda v: v.dtype in INTEGERS)
    if x is None:
        return None
    low, high = integer_range(x.dtype)
    kind = w.rng.choice(("pair", "scalar", "shift", "not"))
    if kind == "pair":
        y = w.pick(lambda v: v.dtype == x.dtype and v.shape == x.shape and v.valid == x.valid)
        text = f"pl.{w.rng.choice(('and_', 'or_'))}({x.text}, {y.text})" if y else ""
    elif kind == "scalar":
        text = f"pl.{w.rng.choice(('ands', 'ors'))}({x.text}, {w.rng.choice((1, 6, 15))})"
    elif kind == "shift":
        text = f"pl.{w.rng.choice(('shls', 'shrs'))}({x.text}, {w.rng.choice((0, 1, 3))})"
    else:
        text = f"pl.not_({x.text})" if x.dtype in ("INT16", "UINT16") else ""
    return w.shaped_like(x, text, lo=low, hi=high) if text else None


def conversion(w: Writer) -> Val | None:
    x = w.pick(lambda v: v.dtype != "BOOL")
    if x is None:
        return None
    target = w.choose_dtype()
    if target == x.dtype:
        return None
    if target not in EPSILON:
        if x.is_float and not x.exact:
            return None
        mode = w.rng.choice(("", ", mode='trunc'", ", mode='rint'", ", mode='floor'")) if x.is_float else ""
        low, high = integer_range(target)
        if x.is_float and (x.lo - 1 < low or x.hi + 1 > high):
            low, high = max(low, x.lo - 1), min(high, x.hi + 1)
        elif low <= x.lo - 1 and x.hi + 1 <= high:
            low, high = x.lo - 1, x.hi + 1
        return w.shaped_like(x, f"pl.cast({x.text}, pl.{target}{mode})", target, lo=low, hi=high)
    if x.magnitude > 60000 and target == "FP16":
        return None
    narrows = not x.is_float or BITS[target] < BITS[x.dtype] or (target != x.dtype and BITS[target] == 16 and BITS[x.dtype] == 16)
    err = x.err + (rounding(target, x.magnitude) if narrows and x.err > 0 else 0.0)
    return w.shaped_like(x, f"pl.cast({x.text}, pl.{target})", target, err=err)


def mask(w: Writer) -> Val | None:
    """Comparisons combined, then chosen by, counted or folded; both backends agree on what is compared."""
    x = w.pick(lambda v: v.exact and v.full and len(v.shape) == 2 and v.dtype in ("FP32", "FP64", "FP16", "INT32", "INT16"))
    if x is None:
        return None
    zero, point = ("0.0", "0.5") if x.is_float else ("0", "2")
    parts = [f"({x.text} {w.rng.choice(('<', '<=', '>', '>=', '==', '!='))} {number})" for number in (zero, point)]
    parts.append(f"({zero} < {x.text} < {point})")
    first, second = w.rng.sample(parts, 2)
    if w.chance(0.3):
        first = f"pl.compare({x.text}, {point}, cmp_type={w.rng.randrange(6)})"
    text = f"({first} {w.rng.choice('&|^')} {w.rng.choice(('', '~'))}{second})"
    level = "tile" if x.level == "tile" else "tensor"
    if w.chance(0.5):
        other = w.with_scalar("maximum", x, 1.0 if x.is_float else 1)
        if other.dtype != x.dtype or other.level == "buffer":
            return None
        return w.shaped_like(x, f"pl.where({text}, {x.text}, {other.text})", lo=min(x.lo, other.lo), hi=max(x.hi, other.hi))
    rows, columns = x.shape
    if not isinstance(columns, int):
        return None
    folds = ("pl.row_max({})", "pl.row_min({})", "pl.any({}, axis=1, keepdims=True)", "pl.all({}, axis=1, keepdims=True)")
    flag = w.rng.choice(("pl.row_sum({})", *(f"pl.cast({fold}, pl.INT32)" for fold in folds))).format(text)
    return Val(flag, level, "INT32", 0, columns, 0.0, (rows, 1), (rows, 1))


def choice(w: Writer) -> Val | None:
    """Compare and select; the comparison is on values that both backends agree on."""
    x = w.pick(lambda v: v.exact and v.full and len(v.shape) == 2 and v.dtype in ("FP32", "FP16", "INT32", "INT16"))
    if x is None:
        return None
    y = w.pick(lambda v: v.exact and v.full and v.dtype == x.dtype and v.shape == x.shape)
    a = w.pick(lambda v: v.full and v.shape == x.shape and v.dtype in ("FP32", "FP16", "INT32", "INT16"))
    if y is None or a is None:
        return None
    b = w.pick(lambda v: v.full and v.shape == a.shape and v.dtype == a.dtype)
    assert b is not None
    compared = f"{x.text}, {y.text}" if w.chance(0.7) else f"{x.text}, {w.rng.choice(('0', '1')) if not x.is_float else '0.5'}"
    merged = hull(a, b, "")
    if x.level == "tile":
        rows, cols = (int(d) for d in x.shape)
        mask, tmp = w.fresh("m"), w.fresh("tmp")
        w.emit(f"{mask} = pl.{w.rng.choice(('', 'tile.'))}cmp({compared}, cmp_type={w.rng.randrange(6)})")
        w.emit(f"{tmp} = pl.create_tile([{rows}, {cols}], dtype=pl.{a.dtype})")
        return w.shaped_like(a, f"pl.sel({mask}, {a.text}, {b.text}, {tmp})", lo=merged.lo, hi=merged.hi, err=merged.err)
    mask = w.fresh("m")
    w.emit(f"{mask} = pl.{w.rng.choice(('', 'tensor.'))}cmp({compared}, cmp_type={w.rng.randrange(6)})")
    return w.shaped_like(a, f"pl.where({mask}, {a.text}, {b.text})", lo=merged.lo, hi=merged.hi, err=merged.err)


REDUCTIONS = ("sum", "max", "min", "sum", "max", "prod", "argmax", "argmin")


def reduction(w: Writer) -> Val | None:
    x = w.pick(lambda v: len(v.shape) == 2 and v.dtype in ("FP32", "FP16", "INT32", "INT16") and "M" not in v.shape[1:])
    if x is None:
        return None
    axis, op = w.rng.choice((0, 1)), w.rng.choice(REDUCTIONS)
    if op.startswith("arg") and not x.exact:
        return None
    count = x.shape[axis] if isinstance(x.shape[axis], int) else 64
    assert isinstance(count, int)
    if op == "prod" and x.is_float and (x.magnitude > 1.2 or count > 24):
        return None
    name = f"{'row' if axis == 1 else 'col'}_{op}"
    args = x.text
    if x.level == "tile" and (axis == 1 or op.startswith("arg") or (op == "sum" and w.chance(0.5))):
        tmp = w.fresh("tmp")
        w.emit(f"{tmp} = pl.create_tile([{x.shape[0]}, {x.shape[1]}], dtype=pl.{x.dtype})")
        args += f", {tmp}"
    shape = (x.shape[0], 1) if axis == 1 else (1, x.shape[1])
    valid = (x.valid[0], 1) if axis == 1 else (1, x.valid[1])
    low, high, err, dtype = x.lo, x.hi, x.err, x.dtype
    if op == "sum":
        low, high = min(x.lo * count, x.lo), max(x.hi * count, x.hi)
        err = count * x.err + rounding(dtype, x.magnitude * count, 2 if dtype == "FP32" else count)
    elif op == "prod":
        bound = max(1.0, x.magnitude) ** count if x.is_float else 1e30
        low, high, err = -bound, bound, count * bound * (x.err + rounding(dtype, 1.0))
    elif op.startswith("arg"):
        low, high, dtype = 0, count, "INT32"
    if not x.is_float:
        err = 0.0
    level = "tile" if x.level == "tile" else "tensor"
    return settled(Val(f"pl.{name}({args})", level, dtype, low, high, err, shape, valid))


def expansion(w: Writer) -> Val | None:
    """A tile with a column or row vector that covers it, or part of it."""
    x = w.pick(lambda v: len(v.shape) == 2 and v.dtype in ("FP32", "FP16", "INT32") and v.shape[0] != 1 and v.shape[1] != 1)
    if x is None:
        return None
    axis = w.rng.choice((0, 1))
    shape = (x.shape[0], 1) if axis == 1 else (1, x.shape[1])
    kept = 1 - axis
    dtype, covered = x.dtype, x.valid[kept]
    short = isinstance(covered, int) and w.chance(0.4)

    def fits(v: Val) -> bool:
        covers = v.valid[kept] in (v.shape[kept], covered) or (short and isinstance(v.valid[kept], int))
        return v.shape == shape and v.dtype == dtype and v.valid[axis] == 1 and covers

    r = w.pick(lambda v: len(v.shape) == 2 and fits(v))
    if r is None or w.chance(0.3):
        # A vector of its own.
        if not isinstance(shape[kept], int):
            return None
        r = w.new_param("x", shape, x.dtype, w.style_for(x.dtype)).as_value()
        if short and isinstance(covered, int) and w.chance(0.5):
            r = _short_vector(w, r, kept, covered)
        else:
            r = replace(r, text=f"pl.load({r.text}, [0, 0], [{shape[0]}, {shape[1]}])", level="tile") if x.level == "tile" else r
    kind = "row" if axis == 1 else "col"
    op = w.rng.choice(("add", "sub", "mul", "max", "min", "div", "expdif", "expdif", ""))
    there = r.valid[kept]
    if isinstance(covered, int) and isinstance(there, int) and there < covered:
        if op == "add" and axis == 1 and x.level == "tile":
            return None  # it must cover
        x = replace(x, valid=tuple(there if own == kept else extent for own, extent in enumerate(x.valid)))
    if op == "":
        target = x.dtype
        return w.shaped_like(x, f"pl.{kind}_expand({x.text}, {r.text})", target, lo=r.lo, hi=r.hi, err=r.err)
    if op == "div":
        if not x.is_float:
            return None
        if r.lo < 0.5:
            r = w.with_scalar("maximum", r, 0.5)
            if r.dtype != x.dtype:
                return None
        bound = x.magnitude / r.lo
        err = x.err / r.lo + r.err * x.magnitude / r.lo**2 + rounding(x.dtype, bound, 2)
        return w.shaped_like(x, f"pl.{kind}_expand_div({x.text}, {r.text})", lo=-bound, hi=bound, err=err)
    if op == "expdif":
        if not x.is_float:
            return None
        if x.hi - r.lo > 3:
            x = w.with_scalar("minimum", x, round(r.lo + 2.5, 2))
            if x.dtype != r.dtype:
                return None
        top = math.exp(x.hi - r.lo)
        return w.shaped_like(x, f"pl.{kind}_expand_expdif({x.text}, {r.text})", lo=0.0, hi=top, err=(x.err + r.err + rounding(x.dtype, 12)) * top * 8)
    canonical = {"max": "maximum", "min": "minimum"}.get(op, op)
    return binary(w, canonical, x, r, f"pl.{kind}_expand_{op}({x.text}, {r.text})", x.dtype, x.shape, x.valid)


def _short_vector(w: Writer, vector: Val, kept: int, covered: int) -> Val:
    """A vector of its own that is valid for fewer cells than what it is spread over."""
    count = w.rng.randint(1, covered)
    valid = tuple(count if axis == kept else 1 for axis in range(2))
    shape = list(vector.shape)
    call = f"pl.load({vector.text}, [0, 0], {shape}, " if w.level == "tile" else f"pl.slice({vector.text}, {shape}, [0, 0], "
    return replace(vector, text=f"{call}valid_shape={list(valid)})", level="tile" if w.level == "tile" else "tensor", valid=valid)
