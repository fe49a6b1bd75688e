"""The menu, NumPy's forms: reductions over any axes, orders of axes, steps, new arrays, elementary functions, as functions and as methods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tests.fuzz.values import Dim, Val, rounding, settled, with_float
from tests.fuzz.writer import Writer


def _known(v: Val) -> bool:
    return v.full and not v.gaps and all(isinstance(extent, int) for extent in v.shape)


def _small_float(v: Val) -> bool:
    return _known(v) and v.dtype in ("FP32", "FP16", "BF16") and v.magnitude <= 6


def _shaped(w: Writer, x: Val, text: str, shape: Sequence[Dim], **facts: object) -> Val:
    level = "tensor" if x.level == "buffer" else x.level
    return replace(w.shaped_like(x, text, shape=tuple(shape), valid=tuple(shape), **facts), level=level)  # type: ignore[arg-type]


def _called(w: Writer, x: Val, name: str, arguments: str) -> str:
    """As a function, or as a method of what has a name."""
    return f"{x.text}.{name}({arguments})" if x.text.isidentifier() and w.chance(0.5) else f"pl.{name}({x.text}{', ' * bool(arguments)}{arguments})"


def _axes(w: Writer, x: Val) -> tuple[list[int], str]:
    """Some axes, but never all of them, and how they are written."""
    count = w.rng.randint(1, len(x.shape) - 1)
    axes = sorted(w.rng.sample(range(len(x.shape)), count))
    written = [axis - len(x.shape) if w.chance(0.3) else axis for axis in axes]
    return axes, str(written[0]) if count == 1 else str(tuple(written))


def over_axes(w: Writer) -> Val | None:
    """sum, amax, amin, mean, var, std over any axes but all."""
    x = w.pick(lambda v: _known(v) and len(v.shape) > 1 and v.dtype in ("FP32", "FP16", "BF16", "INT32"))
    if x is None:
        return None
    axes, shown = _axes(w, x)
    count = math.prod(int(x.shape[axis]) for axis in axes)
    names = ["sum", "amax", "amin", w.rng.choice(("max", "min"))]
    if x.is_float and x.magnitude <= 12:
        names += ["mean", "var", "std"]
    name = w.rng.choice(names)
    keep = w.chance(0.5)
    shape = [1 if axis in axes else extent for axis, extent in enumerate(x.shape) if keep or axis not in axes]
    size = x.magnitude
    wide = (2 * size) ** 2
    low, high, err = {
        "sum": (count * x.lo, count * x.hi, count * (x.err + rounding(x.dtype, count * size, 2))),
        "mean": (x.lo, x.hi, x.err + rounding(x.dtype, size, count + 4)),
        "var": (0.0, wide, 8 * size * x.err + rounding(x.dtype, wide, count + 8)),
        "std": (0.0, 2 * size, math.sqrt(8 * size * x.err + rounding(x.dtype, wide, count + 8))),
    }.get(name, (x.lo, x.hi, x.err))
    found = _shaped(w, x, _called(w, x, name, f"axis={shown}, keepdims={keep}"), shape, lo=low, hi=high, err=err if x.is_float else 0.0)
    return settled(found)


def product_over(w: Writer) -> Val | None:
    x = w.pick(lambda v: _known(v) and len(v.shape) > 1 and v.dtype in ("FP32", "FP16"))
    if x is None:
        return None
    axis = w.rng.randrange(len(x.shape))
    shape = [extent for place, extent in enumerate(x.shape) if place != axis]
    count = int(x.shape[axis])
    text = f"pl.prod(pl.clip({x.text}, -1.0, 1.0), axis={axis})"
    return replace(_shaped(w, x, text, shape, lo=-1.0, hi=1.0, err=count * (x.err + rounding(x.dtype, 1, 2))), dtype=with_float(x))


def place_of_extreme(w: Writer) -> Val | None:
    x = w.pick(lambda v: _known(v) and len(v.shape) > 1 and v.exact and v.dtype in ("FP32", "FP16", "INT32"))
    if x is None:
        return None
    axis, keep = w.rng.randrange(len(x.shape)), w.chance(0.5)
    shape = [1 if place == axis else extent for place, extent in enumerate(x.shape) if keep or place != axis]
    text = _called(w, x, w.rng.choice(("argmax", "argmin")), f"axis={axis}, keepdims={keep}")
    return replace(_shaped(w, x, text, shape, lo=0.0, hi=float(int(x.shape[axis]) - 1), err=0.0), dtype="INT32")


def normalised(w: Writer) -> Val | None:
    """softmax, log_softmax, logsumexp."""
    x = w.pick(_small_float)
    if x is None:
        return None
    axis = w.rng.randrange(len(x.shape))
    name = w.rng.choice(("softmax", "log_softmax", *(("logsumexp",) if len(x.shape) > 1 else ())))
    spread = 2 * x.magnitude + math.log(int(x.shape[axis])) + 1
    shape = [extent for place, extent in enumerate(x.shape) if place != axis or name != "logsumexp"]
    low, high = {"softmax": (0.0, 1.0), "log_softmax": (-spread, 0.0), "logsumexp": (-spread, spread)}[name]
    return _shaped(w, x, f"pl.{name}({x.text}, axis={axis})", shape, lo=low, hi=high, err=4 * x.err + rounding(x.dtype, spread, 12))


def elementary(w: Writer) -> Val | None:
    """log1p, expm1, exp2, log2, log10, square, tan of numbers near 1."""
    x = w.pick(_small_float)
    if x is None:
        return None
    name = w.rng.choice(("log1p", "expm1", "exp2", "log2", "log10", "square", *(("tan",) if x.dtype == "FP32" else ())))
    near = f"pl.clip({x.text}, 0.5, 1.25)"
    return w.shaped_like(x, f"pl.{name}({near})", with_float(x), lo=-1.0, hi=3.1, err=12 * x.err + rounding(x.dtype, 3, 10))


def covered(w: Writer) -> Val | None:
    """Integers divided and rounded up."""
    x = w.pick(lambda v: v.dtype == "INT32" and v.magnitude < 2**30)
    return None if x is None else settled(w.shaped_like(x, f"pl.cdiv({x.text}, {w.rng.choice((2, 3, 7))})", lo=x.lo, hi=x.hi + 1))


def other_axes(w: Writer) -> Val | None:
    """permute, flip, expand_dims, squeeze, and steps in subscripts."""
    x = w.pick(lambda v: _known(v) and len(v.shape) < 5)
    if x is None or x.dtype == "BOOL":
        return None
    rank = len(x.shape)
    name = w.rng.choice(("permute", "flip", "expand_dims", "squeeze", "T", "every", "step"))
    if name in ("permute", "T"):
        order = list(range(rank))[::-1] if name == "T" else w.rng.sample(range(rank), rank)
        text = f"{x.text}.T" if name == "T" and x.text.isidentifier() else f"pl.permute({x.text}, {order})"
        return _shaped(w, x, text, [x.shape[axis] for axis in order])
    if name == "flip":
        return _shaped(w, x, _called(w, x, "flip", f"axis={w.rng.randrange(rank)}"), x.shape)
    if name == "expand_dims":
        at = w.rng.randint(0, rank)
        text = f"pl.expand_dims({x.text}, {at})" if w.chance(0.5) else f"pl.squeeze(pl.unsqueeze(pl.expand_dims({x.text}, {at}), 0), 0)" if rank < 4 else None
        return None if text is None else _shaped(w, x, text, [*x.shape[:at], 1, *x.shape[at:]])
    if name == "squeeze":
        places = [axis for axis, extent in enumerate(x.shape) if extent == 1]
        if not places or rank == 1:
            return None
        return _shaped(w, x, f"pl.squeeze({x.text}, axis={places[0]})", [extent for axis, extent in enumerate(x.shape) if axis != places[0]])
    steps = [w.rng.choice((1, 1, 2, 3, -1, -2)) for _ in x.shape]
    shape = [-(-int(extent) // abs(step)) for extent, step in zip(x.shape, steps, strict=True)]
    if name == "step" and x.text.isidentifier():
        return _shaped(w, x, f"{x.text}[{', '.join(f'::{step}' for step in steps)}]", shape)
    return _shaped(w, x, f"pl.every({x.text}, {steps})", shape)


def made_like(w: Writer) -> Val | None:
    """New arrays beside one that is there."""
    x = w.pick(lambda v: _known(v) and v.dtype in ("FP32", "INT32"))
    if x is None:
        return None
    space = "tile." if x.level == "tile" else ""
    shape = list(x.shape)
    axis = w.rng.randrange(len(shape))
    texts = {
        "zeros": (f"pl.{space}zeros({shape}, pl.{x.dtype})", 0.0, 0.0),
        "ones": (f"pl.{space}ones({shape}, pl.{x.dtype})", 1.0, 1.0),
        "zeros_like": (f"pl.zeros_like({x.text})", 0.0, 0.0),
        "ones_like": (f"pl.ones_like({x.text})", 1.0, 1.0),
        "full_like": (f"pl.full_like({x.text}, 3)", 3.0, 3.0),
        "iota": (f"pl.{space}iota({shape}, axis={axis}, dtype=pl.{x.dtype})", 0.0, float(int(shape[axis]) - 1)),
        "arange": (f"pl.{space}arange(1, {[*[1] * (len(shape) - 1), shape[-1]]}, pl.{x.dtype}, step=2)", 1.0, 2.0 * int(shape[-1])),
        "broadcast_to": (f"pl.broadcast_to({x.text}, {[2, *shape] if len(shape) < 4 else shape})", x.lo, x.hi),
    }
    if x.dtype == "FP32":
        texts["rand"] = (f"pl.{space}rand({w.rng.randrange(99)}, {shape})", 0.0, 1.0)
        texts["randn"] = (f"pl.{space}randn({w.rng.randrange(99)}, {shape})", -6.0, 6.0)
    name = w.rng.choice(list(texts))
    text, low, high = texts[name]
    result = {"arange": [*[1] * (len(shape) - 1), shape[-1]], "broadcast_to": [2, *shape] if len(shape) < 4 else shape}.get(name, shape)
    return _shaped(w, x, text, result, lo=low, hi=high, err=1e-4 if name == "randn" else x.err if name == "broadcast_to" else 0.0)


def running(w: Writer) -> Val | None:
    """cumsum, cumprod, cummax, cummin along an axis."""
    x = w.pick(lambda v: v.full and v.dtype in ("FP32", "FP16", "BF16", "INT32", "INT16"))
    if x is None:
        return None
    axis = w.rng.randrange(len(x.shape))
    names = ["cumsum", "cummax", "cummin"]
    if x.is_float and isinstance(x.shape[axis], int) and int(x.shape[axis]) <= 40:
        names.append("cumprod")
    name = w.rng.choice(names)
    count = int(x.shape[axis]) if isinstance(x.shape[axis], int) else 32
    if name == "cumprod":
        clipped = f"pl.cast(pl.clip({x.text}, -1.0, 1.0), pl.{x.dtype})"  # a number makes FP32 of shorter floats
        return _shaped(w, x, f"pl.cumprod({clipped}, axis={axis})", x.shape, lo=-1.0, hi=1.0, err=count * (x.err + rounding(x.dtype, 1, 2)))
    low, high, err = {
        "cumsum": (min(x.lo, count * x.lo), max(x.hi, count * x.hi), count * (x.err + rounding(x.dtype, count * x.magnitude, 2))),
    }.get(name, (x.lo, x.hi, x.err))
    text = _called(w, x, name, f"axis={axis}")
    return settled(_shaped(w, x, text, x.shape, lo=low, hi=high, err=err if x.is_float else 0.0))


def in_order(w: Writer) -> Val | None:
    """sort, argsort, topk, and the rows behind them."""
    x = w.pick(lambda v: _known(v) and v.exact and v.dtype in ("FP32", "FP16", "INT32", "INT8", "UINT16"))
    if x is None:
        return None
    axis, down = w.rng.randrange(len(x.shape)), w.chance(0.5)
    name = w.rng.choice(("sort", "argsort", "topk", "sort_rows", "topk_rows"))
    places = {"lo": 0.0, "hi": float(max(int(extent) for extent in x.shape))}
    if name in ("sort", "argsort"):
        found = _shaped(w, x, f"pl.{name}({x.text}, axis={axis}, descending={down})", x.shape, **(places if name == "argsort" else {}))
        return replace(found, dtype="INT32") if name == "argsort" else found
    if name == "sort_rows":
        return _shaped(w, x, f"pl.sort_rows({x.text}, {down})[0]", x.shape)
    axis = len(x.shape) - 1 if name == "topk_rows" else axis
    count = w.rng.randint(1, int(x.shape[axis]))
    shape = [count if place == axis else extent for place, extent in enumerate(x.shape)]
    arguments = f"{count}, {down}" if name == "topk_rows" else f"{count}, axis={axis}, largest={down}"
    which = w.rng.randrange(2)
    found = _shaped(w, x, f"pl.{name}({x.text}, {arguments})[{which}]", shape, **(places if which else {}))
    return replace(found, dtype="INT32") if which else found


def tallied(w: Writer) -> Val | None:
    """bincount of clipped integers, histogram of floats."""
    x = w.pick(lambda v: _known(v) and v.exact and v.dtype in ("FP32", "INT32"))
    if x is None:
        return None
    size = float(math.prod(int(extent) for extent in x.shape))
    if x.dtype == "FP32":
        return replace(_shaped(w, x, f"pl.histogram({x.text}, 8, -2.0, 2.0)", [8], lo=0.0, hi=size), dtype="INT32")
    return _shaped(w, x, f"pl.bincount(pl.clip({x.text}, 0, 8), 9)", [9], lo=0.0, hi=size)


def overhanging(w: Writer) -> Val | None:
    """A padded window that begins before its tensor or ends behind it."""
    if w.level != "tile":
        return None
    rows, cols, dtype = w.rng.choice(w.rows), w.rng.choice(w.cols), w.choose_dtype()
    param = w.new_param("x", (rows, cols), dtype, w.style_for(dtype))
    if dtype in ("BOOL", "INDEX") or not isinstance(rows, int) or not isinstance(cols, int):
        return None
    low, high = param.bounds()
    offsets = [w.rng.randint(-3, 4), w.rng.randint(-2, 5)]
    text = f"pl.load({param.name}, {offsets}, [{rows}, {cols}], pad=1)"
    return Val(text, "tile", dtype, min(low, 1), max(high, 1), 0.0, (rows, cols), (rows, cols))


def summed_product(w: Writer) -> Val | None:
    """einsum of two operands, and `@`."""
    x = w.pick(lambda v: _known(v) and len(v.shape) == 2 and v.dtype == "FP32" and v.magnitude <= 12)
    if x is None:
        return None
    fits = (x.level, x.shape[1])
    y = w.pick(lambda v: _known(v) and v.dtype == "FP32" and len(v.shape) == 2 and (v.level, v.shape[0]) == fits and v.magnitude <= 12)
    if y is None:
        return None
    inner = int(x.shape[1])
    size = inner * x.magnitude * y.magnitude
    err = inner * (x.err * y.magnitude + y.err * x.magnitude + x.err * y.err) + rounding("FP32", size, inner + 2)
    if w.chance(0.5):
        return _shaped(w, x, f"pl.einsum('ij,jk->ki', {x.text}, {y.text})", [y.shape[1], x.shape[0]], lo=-size, hi=size, err=err)
    return _shaped(w, x, f"({x.text} @ {y.text})", [x.shape[0], y.shape[1]], lo=-size, hi=size, err=err)
