"""The menu, shapes: ranks above two, views, windows with options, padding to a larger shape, parts put into a value."""

from __future__ import annotations

import math
from dataclasses import replace

from tests.fuzz.values import BITS, EPSILON, Val, hull, integer_range, settled
from tests.fuzz.writer import Writer


def _constant(v: Val) -> bool:
    return all(isinstance(d, int) for d in v.shape)


def _matrix(v: Val) -> bool:
    return len(v.shape) == 2 and _constant(v)


def _listed(dims: object) -> str:
    return "[" + ", ".join(map(str, dims)) + "]"  # type: ignore[call-overload]


def higher_rank(w: Writer) -> Val | None:
    """A value in another rank, from one to five."""
    x = w.pick(lambda v: v.full and not v.gaps and _constant(v))
    if x is None:
        return None
    size = math.prod(int(d) for d in x.shape)
    rank = w.rng.choice((1, 3, 3, 4, 5)) if len(x.shape) == 2 else 2
    shape: list[int] = []
    for _ in range(rank - 1):
        shape.append(w.rng.choice([f for f in (1, 2, 3, 4) if size % f == 0]))
        size //= shape[-1]
    shape.insert(w.rng.randint(0, len(shape)), size)
    return replace(w.shaped_like(x, f"pl.reshape({x.text}, {_listed(shape)})", shape=tuple(shape), valid=tuple(shape)), level=x.level)


def turned(w: Writer) -> Val | None:
    """Two axes of a stack swapped."""
    x = w.pick(lambda v: len(v.shape) > 2)
    if x is None:
        return None
    a, b = w.rng.sample(range(len(x.shape)), 2)
    shape, valid = list(x.shape), list(x.valid)
    shape[a], shape[b], valid[a], valid[b] = shape[b], shape[a], valid[b], valid[a]
    return w.shaped_like(x, f"pl.transpose({x.text}, {a}, {b - len(shape)})", shape=tuple(shape), valid=tuple(valid))


def moved(w: Writer) -> Val | None:
    """Copies that only Ascend tells apart: spaces, turned layouts, extracted windows."""
    x = w.pick(lambda v: v.level == "tile" and v.full and _matrix(v))
    if x is None:
        return None
    kind = w.rng.choice(("move", "transpose_view", "extract"))
    if kind == "move":
        return w.shaped_like(x, f"pl.move({x.text}, pl.Mem.{w.rng.choice(('Left', 'Right', 'Mat', 'Vec', 'Acc'))})")
    if kind == "transpose_view":
        return w.shaped_like(x, f"pl.tile.transpose_view({x.text})", shape=x.shape[::-1], valid=x.valid[::-1])
    (rows, cols), (height, width) = x.shape, (w.rng.randint(1, int(n)) for n in x.shape)
    top, left = w.rng.randint(0, int(rows) - height), w.rng.randint(0, int(cols) - width)
    text = f"pl.tile.extract({x.text}, {top}, {left}, [{height}, {width}], target_memory=pl.Mem.Left)"
    return w.shaped_like(x, text, shape=(height, width), valid=(height, width))


def padded(w: Writer) -> Val | None:
    """fillpad_expand and fillpad_inplace."""
    x = w.pick(lambda v: _matrix(v) and (v.level != "buffer"))
    if x is None:
        return None
    if w.level == "tile" and w.chance(0.4):
        return w.shaped_like(x, f"pl.tile.fillpad_inplace({x.text}, pl.PadValue.zero)", lo=min(x.lo, 0), hi=max(x.hi, 0), valid=x.shape)
    shape = (int(x.shape[0]) + w.rng.choice((0, 1, 3)), int(x.shape[1]) + w.rng.choice((0, 2, 9)))
    kind = w.rng.choice(("zero", "max", "min")) if not x.is_float else "zero"
    low, high = {"zero": (0, 0), "max": (integer_range(x.dtype)[1],) * 2, "min": (integer_range(x.dtype)[0],) * 2}[kind] if kind != "zero" else (0, 0)
    text = f"pl.fillpad_expand({x.text}, [{shape[0]}, {shape[1]}], pad_value=pl.PadValue.{kind})"
    return w.shaped_like(x, text, lo=min(x.lo, low), hi=max(x.hi, high), shape=shape, valid=shape)


def bytes_as(w: Writer) -> Val | None:
    """The same bytes as an integer type."""
    x = w.pick(lambda v: v.full and v.exact and _matrix(v) and not v.gaps and v.level != "buffer" and BITS[v.dtype] in (8, 16, 32) and v.dtype != "BOOL")
    if x is None:
        return None
    bits = BITS[x.dtype]
    target = w.rng.choice([f"{sign}INT{n}" for n in (8, 16, 32) for sign in ("", "U") if (int(x.shape[1]) * bits) % n == 0])
    shape = (x.shape[0], int(x.shape[1]) * bits // BITS[target])
    if target == x.dtype or (x.dtype in EPSILON and BITS[target] < 8):
        return None
    low, high = integer_range(target)
    return w.shaped_like(x, f"pl.reinterpret_view({x.text}, pl.{target})", target, lo=low, hi=high, shape=shape, valid=shape)


def put(w: Writer) -> Val | None:
    """A value with a window of another in it."""
    x = w.pick(lambda v: v.full and _matrix(v) and v.level != "buffer" and v.text not in w.frozen)
    if x is None:
        return None
    y = w.pick(lambda v: v.full and _matrix(v) and v.dtype == x.dtype and all(int(a) <= int(b) for a, b in zip(v.shape, x.shape, strict=True)))
    if y is None:
        return None
    offsets = [w.rng.randint(0, int(a) - int(b)) for a, b in zip(x.shape, y.shape, strict=True)]
    # The name of the target is rebound too: what it held before is gone.
    merged = hull(x, y, "")
    w.emit(f"{x.text} = pl.assemble({x.text}, {y.text}, {offsets})")
    w.hold(x.text, merged)
    text = f"pl.maximum({x.text}, 1)" if x.dtype.startswith("U") else f"pl.neg({x.text})"
    return settled(w.shaped_like(merged, text, lo=-merged.magnitude - 1, hi=merged.magnitude + 1))


def window(w: Writer) -> Val | None:
    """Slices with a valid region, dropped dimensions or a clamp."""
    x = w.pick(lambda v: v.full and _matrix(v) and int(v.shape[1]) > 1)
    if x is None:
        return None
    rows, cols = (int(n) for n in x.shape)
    kind = w.rng.choice(("valid", "drop", "clamp", "row", "rest"))
    level = "buffer" if x.level == "buffer" else x.level
    if kind == "valid":
        width = w.rng.randint(1, cols)
        text = f"pl.slice({x.text}, [{rows}, {cols}], [0, 0], valid_shape=[{rows}, {width}])"
        if x.level == "buffer":
            return None
        return w.shaped_like(x, text, valid=(rows, width))
    if kind == "drop" and x.level != "tile":
        row = w.rng.randrange(rows)
        return replace(x, text=f"pl.slice({x.text}, [1, {cols}], [{row}, 0], drop_dims=[0])", level=level, shape=(cols,), valid=(cols,), gaps=True)
    if kind == "clamp" and x.level != "tile":
        top = w.rng.randint(0, rows - 1)
        text = f"pl.slice({x.text}, [{rows}, {cols}], [{top}, 0], clamp=True)"
        if x.level == "buffer":
            return None
        return w.shaped_like(x, text, valid=(rows - top, cols)) if top else None
    if kind == "row":
        row = w.rng.randrange(-rows, rows)
        shape = (1, cols) if x.level == "tile" else (cols,)
        return replace(x, text=f"{x.text}[{row}]" if w.chance(0.5) else f"{x.text}[{row}, :]", level=level, shape=shape, valid=shape, gaps=True, product=False)
    if kind == "rest":
        top = w.rng.randrange(rows)
        shape = (rows - top, cols)
        return replace(x, text=f"{x.text}[{top}:]", level=level, shape=shape, valid=shape, gaps=True, product=False)
    return None


def viewed(w: Writer) -> Val | None:
    """A buffer under another shape; a buffer that lives in L1; an operand without dependencies."""
    if w.level == "tile":
        return None
    kind = w.rng.choice(("view", "l1", "no_dep"))
    if kind == "l1":
        x = w.pick(lambda v: v.full and _matrix(v))
        if x is None:
            return None
        name = w.fresh("l")
        w.emit(f"{name} = pl.create_l1({_listed(x.shape)}, pl.{x.dtype})")
        w.emit(f"{name}[:] = {x.text}")
        return replace(x, text=f"pl.maximum({name}, {name})", level="tensor", product=False, gaps=False)
    shape = (w.rng.choice(w.rows), w.rng.choice(w.cols))
    buffer = w.new_param("x", shape, dtype := w.choose_dtype(), w.style_for(dtype)).as_value()
    if kind == "no_dep":
        return replace(buffer, text=f"pl.no_dep({buffer.text})")
    return replace(buffer, text=f"pl.tensor.view({buffer.text}, [{shape[1]}, {shape[0]}])", shape=shape[::-1], valid=shape[::-1])


def stack_reduction(w: Writer) -> Val | None:
    """Row and column reductions above rank 2 (a tile's columns run along its first axis)."""
    x = w.pick(lambda v: len(v.shape) > 2 and v.full and v.dtype in ("FP32", "INT32", "INT16"))
    if x is None:
        return None
    along, op = w.rng.choice(("row", "col")), w.rng.choice(("max", "min", "sum", "argmax", "argmin", "prod"))
    if (op.startswith("arg") and not x.exact) or (op == "prod" and x.is_float):
        return None
    axis = len(x.shape) - 1 if along == "row" else 0 if x.level == "tile" else len(x.shape) - 2
    count = int(x.shape[axis])
    shape = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
    scratch = f", {w.scratch(x)}" if x.level == "tile" and (along == "row" or op.startswith("arg")) else ""
    low, high, err, dtype = x.lo, x.hi, x.err, x.dtype
    if op == "sum":
        low, high, err = min(x.lo * count, x.lo), max(x.hi * count, x.hi), count * (x.err + EPSILON.get(dtype, 0.0) * x.magnitude)
    elif op == "prod":
        low, high = -1e30, 1e30
    elif op.startswith("arg"):
        low, high, err, dtype = 0, count, 0.0, "INT32"
    return settled(w.shaped_like(x, f"pl.{along}_{op}({x.text}{scratch})", dtype, lo=low, hi=high, err=err, shape=shape, valid=shape))
