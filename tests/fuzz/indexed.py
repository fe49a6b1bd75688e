"""The menu, third part: elements and rows picked and put by index or pattern."""

from __future__ import annotations

from tests.fuzz.values import BITS, Val
from tests.fuzz.writer import Writer


def whole(value: Val) -> bool:
    """A matrix of known extents, valid everywhere."""
    return len(value.shape) == 2 and all(isinstance(extent, int) for extent in value.shape) and value.full


def places(w: Writer, shape: tuple[int, ...], extent: int) -> str:
    """A tensor of indices below an extent; a tile of it at tile level."""
    name = w.new_param("idx", shape, "INT32", "index", largest_length=extent - 1).name
    return f"pl.load({name}, {[0] * len(shape)}, {list(shape)})" if w.level == "tile" else name


def pattern(w: Writer) -> Val | None:
    """Every second or fourth column."""
    value = w.pick(lambda v: whole(v) and int(v.shape[1]) % 4 == 0)
    if value is None:
        return None
    number, step = w.rng.choice(((1, 2), (2, 2), (3, 4), (4, 4), (5, 4), (6, 4), (7, 1)))
    text = f"pl.tile.gather_mask({value.text}, {number})" if w.level == "tile" else f"pl.gather({value.text}, mask_pattern={number})"
    shape = (value.shape[0], int(value.shape[1]) // step)
    return w.shaped_like(value, text, shape=shape, valid=shape)


def gather(w: Writer) -> Val | None:
    """Elements along an axis, or of a tile by flat index."""
    value = w.pick(lambda v: whole(v) and min(int(n) for n in v.shape) > 1)
    if value is None:
        return None
    rows, columns = (int(n) for n in value.shape)
    shape = (rows, w.rng.choice((1, 3, columns)))
    if w.level == "tile":
        scratch = f"pl.create_tile([{rows}, {columns}], pl.{value.dtype})"
        text = f"pl.tile.gather({value.text}, {places(w, shape, rows * columns)}, {scratch})"
    else:
        text = f"pl.gather({value.text}, dim={w.rng.choice((1, -1))}, index={places(w, shape, columns)})"
    return w.shaped_like(value, text, shape=shape, valid=shape)


def scatter(w: Writer) -> Val | None:
    """Elements of one array put into another of its shape; the old one stays as it is."""
    value = w.pick(lambda v: whole(v) and BITS[v.dtype] == 32 and int(v.shape[1]) > 1)
    other = w.partner(value) if value is not None else None
    if value is None or other is None or not other.full:
        return None
    rows, columns = (int(n) for n in value.shape)
    if w.level == "tile":
        text = f"pl.tile.scatter({value.text}, {other.text}, {places(w, (rows, columns), rows * columns)})"
    else:
        text = f"pl.scatter({value.text}, dim=-1, index={places(w, (rows, columns), columns)}, src={other.text})"
    return either(w, value, other, text)


def rows_by_index(w: Writer) -> Val | None:
    """Rows of a tensor in memory, picked or replaced."""
    if w.level == "tile":
        buffer = w.input((w.rng.choice(w.rows), w.rng.choice(w.cols)), w.choose_dtype())
        if len(buffer.shape) != 2 or not all(isinstance(n, int) for n in buffer.shape) or int(buffer.shape[0]) < 2:
            return None
        shape = (w.rng.choice(w.rows), int(buffer.shape[1]))
        policy = w.rng.choice(("", ', gather_oob="clamp"', ', gather_oob="wrap"'))
        text = f"pl.mgather({buffer.text}, {places(w, (1, shape[0]), int(buffer.shape[0]))}{policy})"
        return Val(text, "tile", buffer.dtype, buffer.lo, buffer.hi, buffer.err, shape, shape)
    value = w.pick(lambda v: whole(v) and int(v.shape[0]) > 1 and v.level == "tensor")
    if value is None:
        return None
    count = w.rng.choice((1, 2, 3))
    fresh = w.new_param("x", (count, value.shape[1]), value.dtype, w.style_for(value.dtype)).as_value()
    text = f"pl.scatter_update({value.text}, -2, {places(w, (1, count), int(value.shape[0]))}, {fresh.text})"
    return either(w, value, fresh, text)


def either(w: Writer, first: Val, second: Val, text: str) -> Val:
    return w.shaped_like(first, text, lo=min(first.lo, second.lo), hi=max(first.hi, second.hi), err=max(first.err, second.err))


def update_in_place(w: Writer, name: str, like: Val) -> None:
    """Rows or elements of a tensor in memory replaced by index: what was written before, and is read after, must not move past it."""
    rows, columns = (int(n) for n in like.shape)
    if rows * columns < 2:
        return
    if w.level == "tile":
        w.emit(f"pl.mscatter({like.text}, {places(w, (rows, columns), rows * columns)}, {name})")
    elif rows > 1:
        fresh = w.new_param("x", (2, columns), like.dtype, w.style_for(like.dtype))
        w.emit(f"pl.scatter_update({name}, {places(w, (1, 2), rows)}, {fresh.name})")
