"""The menu, second part: loads, slices, reshapes, padding, products of matrices, constants, element access."""

from __future__ import annotations

import math
from dataclasses import replace

from tests.fuzz.values import Val, integer_range, rounding, settled
from tests.fuzz.writer import Writer


def load(w: Writer) -> Val | None:
    """A tile from a buffer (tile level), or a buffer or window of it as it is (tensor level)."""
    if w.chance(0.08) and w.block is None:
        return _stack(w)
    if w.level == "tensor":
        return tensor_operand(w)
    rows, cols = w.rng.choice((w.rng.choice(w.rows), w.rng.choice(w.rows), 1)), w.rng.choice(w.cols)
    dtype = w.choose_dtype()
    repeat, offset = 1, "0"
    if w.block is not None and w.chance(0.7):
        offset, repeat = w.block
    elif w.loop_vars and w.chance(0.7):
        offset, repeat = w.rng.choice(list(w.loop_vars.items()))
    buffer = w.input((rows * repeat, cols), dtype)
    row_offset = "0" if offset == "0" else f"{offset} * {rows}"
    spare_rows, spare_cols = (int(buffer.shape[0]) - rows * repeat, int(buffer.shape[1]) - cols)
    if spare_rows and w.chance(0.5):
        row_offset = f"{row_offset} + {w.rng.randint(1, spare_rows)}" if row_offset != "0" else str(w.rng.randint(1, spare_rows))
    col_offset = w.rng.randint(0, spare_cols)
    args = f"{buffer.text}, [{row_offset}, {col_offset}], [{rows}, {cols}]"
    value = Val(f"pl.load({args})", "tile", dtype, buffer.lo, buffer.hi, buffer.err, (rows, cols), (rows, cols))
    kind = w.rng.random()
    if kind < 0.15 and cols > 1:
        valid = (w.rng.randint(1, rows), w.rng.randint(1, cols))
        return replace(value, text=f"pl.load({args}, valid_shape=[{valid[0]}, {valid[1]}])", valid=valid)
    if kind < 0.35 and cols > 1:
        return _run_time_valid(w, value, args, rows, cols)
    if kind < 0.4:
        return replace(value, text=f"pl.load({args}, target_memory=pl.Mem.Mat)")
    return value


def load_at(w: Writer) -> Val | None:
    """A tile at an offset from memory; now and then past the end, which every backend must find."""
    offsets = [s for s in w.scalars.values() if s.dtype == "INDEX" and s.lo >= 0 and s.hi <= 6]
    if w.level != "tile" or not offsets:
        return None
    offset, room = w.rng.choice(offsets), 6
    if w.chance(0.2):
        # Straight from memory, so that nobody can prove it wrong before the run.
        offset = w.bind(Val(f"pl.cast(pl.read({w.config()}, [{w.rng.randrange(8)}]), pl.INDEX)", "scalar", "INDEX", 0, 6))
        room = w.rng.randint(0, 2)
    rows, cols, dtype = w.rng.choice(w.rows), w.rng.choice(w.cols), w.choose_dtype()
    param = w.new_param("x", (rows + room, cols), dtype, w.style_for(dtype))
    low, high = param.bounds()
    return Val(f"pl.load({param.name}, [{offset.text}, 0], [{rows}, {cols}])", "tile", dtype, low, high, 0.0, (rows, cols), (rows, cols))


def _stack(w: Writer) -> Val:
    """An operand of rank 3."""
    shape = (2, w.rng.choice(w.rows), w.rng.choice(w.cols))
    buffer = w.input(shape, w.choose_dtype())
    if w.level == "tensor":
        return buffer if buffer.shape == shape else _window(w, buffer, [0, 0, 0], list(shape))
    text = f"pl.load({buffer.text}, [0, 0, 0], {list(shape)})"
    return Val(text, "tile", buffer.dtype, buffer.lo, buffer.hi, buffer.err, shape, shape)


def _run_time_valid(w: Writer, value: Val, args: str, rows: int, cols: int) -> Val:
    # An extent of 1 broadcasts, unless nothing of it is valid: only the run could tell.
    axis = w.rng.choice([axis for axis, size in enumerate((rows, cols)) if size > 1])
    extent, largest = w.fresh("n"), (rows, cols)[axis]
    w.emit(f"{extent} = pl.cast(pl.read({w.lengths(largest)}, [{w.rng.randrange(4)}]), pl.INDEX)")
    valid = (extent, cols) if axis == 0 else (rows, extent)
    return replace(value, text=f"pl.load({args}, valid_shape=[{valid[0]}, {valid[1]}])", valid=valid)


def tensor_operand(w: Writer) -> Val | None:
    rows = w.symbol if w.symbol and w.chance(0.8) else w.rng.choice((*w.rows, 1))
    cols = w.rng.choice((*w.cols, 1))
    buffer = w.input((rows, cols), w.choose_dtype())
    if buffer.shape == (rows, cols):
        return buffer
    return _window(w, buffer, [0, 0], [rows, cols])


def _window(w: Writer, x: Val, offsets: list[int], shape: list[int | str]) -> Val:
    kept = tuple(shape)
    if all(isinstance(d, int) for d in shape) and w.chance(0.5):
        stops = [o + int(d) for o, d in zip(offsets, shape, strict=True)]
        text = f"{x.text}[{', '.join(f'{o}:{s}' for o, s in zip(offsets, stops, strict=True))}]"
    else:
        text = f"pl.slice({x.text}, [{', '.join(map(str, shape))}], [{', '.join(map(str, offsets))}])"
    level = "buffer" if x.level == "buffer" else "tile" if x.level == "tile" else "tensor"
    return replace(x, text=text, shape=kept, valid=kept, level=level, product=False, gaps=x.level == "buffer")


def cut(w: Writer) -> Val | None:
    """A slice of a value that is valid everywhere."""
    x = w.pick(lambda v: v.full and len(v.shape) == 2 and all(isinstance(d, int) for d in v.shape))
    if x is None:
        return None
    rows, cols = int(x.shape[0]), int(x.shape[1])
    height = w.rng.choice([r for r in (*w.rows, 1, rows) if r <= rows])
    width = w.rng.choice([c for c in (*w.cols, cols) if c <= cols])
    return _window(w, x, [w.rng.randint(0, rows - height), w.rng.randint(0, cols - width)], [height, width])


def reshape(w: Writer) -> Val | None:
    x = w.pick(lambda v: v.full and len(v.shape) == 2 and all(isinstance(d, int) for d in v.shape))
    if x is None:
        return None
    rows, cols = int(x.shape[0]), int(x.shape[1])
    factors = [f for f in (1, 2, 3, 4) if (rows * cols) % f == 0]
    first = w.rng.choice(factors)
    shape = (first, rows * cols // first) if w.chance(0.5) else (rows * cols // first, first)
    reshaped = w.shaped_like(x, f"pl.reshape({x.text}, [{shape[0]}, {shape[1]}])", shape=shape, valid=shape)
    return replace(reshaped, level="tensor" if x.gaps else x.level, gaps=False)  # what has gaps is made dense first


def transpose(w: Writer) -> Val | None:
    x = w.pick(lambda v: len(v.shape) == 2)
    if x is None:
        return None
    axes = w.rng.choice(("0, 1", "1, 0", "-2, -1"))
    return w.shaped_like(x, f"pl.transpose({x.text}, {axes})", shape=x.shape[::-1], valid=x.valid[::-1])


def concat(w: Writer) -> Val | None:
    x = w.pick(lambda v: v.full and len(v.shape) == 2 and isinstance(v.shape[1], int) and v.shape[1] < 100)
    if x is None:
        return None
    y = w.pick(lambda v: v.full and v.dtype == x.dtype and len(v.shape) == 2 and v.shape[0] == x.shape[0] and isinstance(v.shape[1], int))
    if y is None:
        return None
    shape = (x.shape[0], int(x.shape[1]) + int(y.shape[1]))
    return w.shaped_like(x, f"pl.concat({x.text}, {y.text})", lo=min(x.lo, y.lo), hi=max(x.hi, y.hi), err=max(x.err, y.err), shape=shape, valid=shape)


def pad(w: Writer) -> Val | None:
    """Fill the cells outside the valid region."""
    x = w.pick(lambda v: not v.full and v.level == "tile")
    if x is None:
        return None
    if w.chance(0.5) or not x.is_float:
        kind = "zero" if x.is_float else w.rng.choice(("zero", "max", "min"))
        low, high = {"zero": (0, 0), "max": (integer_range(x.dtype)[1],) * 2, "min": (integer_range(x.dtype)[0],) * 2}[kind] if not x.is_float else (0.0, 0.0)
        return w.shaped_like(x, f"pl.fillpad({x.text}, pad_value=pl.PadValue.{kind})", lo=min(x.lo, low), hi=max(x.hi, high), valid=x.shape)
    if w.chance(0.5):
        filled = w.shaped_like(x, f"pl.fillpad({x.text}, pad_value=pl.PadValue.min)", lo=-math.inf, hi=x.hi, valid=x.shape)
        return w.with_scalar("maximum", filled, -4.0)
    filled = w.shaped_like(x, f"pl.fillpad({x.text}, pad_value=pl.PadValue.max)", lo=x.lo, hi=math.inf, valid=x.shape)
    return w.with_scalar("minimum", filled, 4.0)


def narrow(w: Writer) -> Val | None:
    x = w.pick(lambda v: v.full and v.level == "tile" and len(v.shape) == 2 and v.shape[1] != 1)
    if x is None:
        return None
    valid = (w.rng.randint(1, int(x.shape[0])), w.rng.randint(1, int(x.shape[1])))
    return w.shaped_like(x, f"pl.set_validshape({x.text}, {valid[0]}, {valid[1]})", valid=valid)


def product(w: Writer) -> Val | None:
    """A matrix product over a full inner dimension."""
    x = w.pick(lambda v: v.full and v.dtype in ("FP32", "FP16", "BF16") and len(v.shape) == 2 and isinstance(v.shape[1], int))
    if x is None:
        return None
    inner = int(x.shape[1])
    y = w.pick(lambda v: v.full and v.dtype == x.dtype and len(v.shape) == 2 and v.shape[0] == inner and isinstance(v.shape[1], int))
    other = w.pick(lambda v: v.full and v.dtype == x.dtype and len(v.shape) == 2 and v.shape[1] == inner and isinstance(v.shape[0], int))
    if y is not None and (other is None or w.chance(0.5)):
        text, cols = f"pl.matmul({x.text}, {y.text}%s)", int(y.shape[1])
    elif other is not None and x.level != "tile":
        y, text, cols = other, f"pl.matmul({x.text}, {other.text}, b_trans=True%s)", int(other.shape[0])
    elif other is not None:
        y, text, cols = other, f"pl.matmul({x.text}, pl.transpose({other.text}, 0, 1)%s)", int(other.shape[0])
    else:
        return None
    bound = inner * x.magnitude * y.magnitude
    dtype = "FP32"
    if x.level != "tile":
        wide = x.dtype != "FP32" and w.chance(0.7)
        dtype = "FP32" if wide else x.dtype
        text %= ", out_dtype=pl.FP32" if wide else ""
    else:
        text %= ", out_dtype=pl.FP32" if w.chance(0.3) else ""
    err = inner * (x.err * y.magnitude + y.err * x.magnitude) + rounding("FP32", bound, 2) + (rounding(dtype, bound) if dtype != "FP32" else 0.0)
    shape = (x.shape[0], cols)
    level = "tile" if x.level == "tile" else "tensor"
    return Val(text, level, dtype, -bound, bound, err, shape, shape, product=True)


def constant(w: Writer) -> Val | None:
    dtype = w.choose_dtype()
    shape = (w.rng.choice((*w.rows, 1)), w.rng.choice(w.cols))
    text = f"[{shape[0]}, {shape[1]}]"
    space = "tile" if w.level == "tile" else "tensor"
    if dtype in ("INT32", "INT16") and w.chance(0.4):
        start = w.rng.randint(0, 5)
        return Val(f"pl.{space}.arange({start}, [1, {shape[1]}], dtype=pl.{dtype})", space, dtype, start, start + shape[1], 0.0, (1, shape[1]), (1, shape[1]))
    number = w.rng.choice((0.5, -1.25, 2.0)) if dtype.startswith(("F", "B")) else w.rng.choice((0, 1, 3))
    return Val(f"pl.{space}.full({text}, dtype=pl.{dtype}, value={number})", space, dtype, number, number, 0.0, shape, shape)


def partial(w: Writer) -> Val | None:
    """part_add and relatives: where only one operand is valid, a copy of it."""
    x = w.pick(lambda v: v.level == "tile" and v.dtype in ("FP32", "INT32", "FP16", "INT16"))
    if x is None:
        return None
    y = w.pick(lambda v: v.shape == x.shape and v.dtype == x.dtype)
    assert y is not None
    op = w.rng.choice(("add", "max", "min"))
    low, high = (x.lo + y.lo, x.hi + y.hi) if op == "add" else (min(x.lo, y.lo), max(x.hi, y.hi))
    err = x.err + y.err
    if op == "add" and (err > 0 or x.product or y.product):
        err += rounding(x.dtype, max(abs(low), abs(high)))
    value = w.shaped_like(x, f"pl.part_{op}({x.text}, {y.text})", lo=min(low, x.lo), hi=max(high, x.hi), err=err)
    return settled(value)


def three_operands(w: Writer) -> Val | None:
    x = w.pick(lambda v: v.level == "tile" and v.full and v.dtype in ("FP32", "INT32"))
    if x is None:
        return None
    y, z = w.partner(x) or x, w.partner(x) or x
    if not (y.full and z.full):
        return None
    bound = x.magnitude + y.magnitude + z.magnitude
    err = x.err + y.err + z.err + rounding(x.dtype, bound, 2)
    if w.chance(0.5):
        return settled(w.shaped_like(x, f"pl.{w.rng.choice(('addc', 'subc'))}({x.text}, {y.text}, {z.text})", lo=-bound, hi=bound, err=err))
    if x.is_float:
        return w.shaped_like(x, f"pl.lrelu({x.text}, 0.25)", lo=min(x.lo, x.lo / 4), hi=max(x.hi, x.hi / 4), err=x.err + rounding(x.dtype, x.magnitude))
    return None


def element_write(w: Writer) -> Val | None:
    """A tile with one cell replaced, in both spellings."""
    x = w.pick(lambda v: v.level == "tile" and v.full and len(v.shape) == 2 and v.text not in w.frozen and v.dtype in ("FP32", "INT32"))
    if x is None:
        return None
    row, col = w.rng.randrange(int(x.shape[0])), w.rng.randrange(int(x.shape[1]))
    number = w.rng.choice(("0.5", "-2.0")) if x.is_float else f"pl.const({w.rng.choice((7, -4))}, pl.INT32)"
    return w.shaped_like(x, f"pl.write({x.text}, [{row}, {col}], {number})", lo=min(x.lo, -4), hi=max(x.hi, 7))
