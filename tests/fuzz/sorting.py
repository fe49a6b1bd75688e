"""The menu, indices, second part: compares, blocks of bytes, pages, rows into a value, sorting and merging."""

from __future__ import annotations

from tests.fuzz.indexed import either, places, whole
from tests.fuzz.values import BITS, Val
from tests.fuzz.writer import Writer


def _tensor(w: Writer, shape: tuple[int, ...], dtype: str, style: str = "") -> str:
    """A new parameter; loaded at tile level."""
    name = w.new_param("x", shape, dtype, style or w.style_for(dtype)).name
    return f"pl.load({name}, {[0] * len(shape)}, {list(shape)})" if w.level == "tile" else name


def gather_rows(w: Writer) -> Val | None:
    """torch.gather along the first axis."""
    value = w.pick(lambda v: whole(v) and v.level != "tile" and min(int(n) for n in v.shape) > 1)
    if value is None:
        return None
    rows, columns = (int(n) for n in value.shape)
    shape = (w.rng.choice((1, 2, rows)), w.rng.choice((1, columns)))
    return w.shaped_like(value, f"pl.gather({value.text}, dim=0, index={places(w, shape, rows)})", shape=shape, valid=shape)


def compared(w: Writer) -> Val | None:
    """Positions of elements that compare; all of them do, so that no cell is undefined."""
    value = w.pick(lambda v: whole(v) and v.exact and v.dtype in ("INT32", "FP32", "INT16", "FP16") and v.magnitude < 30000)
    if value is None:
        return None
    columns = int(value.shape[1])
    out_cols, offset = w.rng.randint(1, columns), w.rng.choice((0, 3))
    limit = f"pl.const({int(value.hi) + 1}{'.0' if value.is_float else ''}, pl.{value.dtype})"
    index, count = w.fresh("g"), w.fresh("n")
    options = f"cmp_mode='lt', out_cols={out_cols}, offset={offset}"
    if w.level == "tile":
        w.emit(f"{index}, {count} = pl.tile.gather_compare({value.text}, {limit}, {w.scratch(value)}, {options})")
    else:
        w.emit(f"{index}, {count} = pl.gather({value.text}, kvalue={limit}, {options})")
    shape = (value.shape[0], out_cols)
    return Val(index, value.level if value.level == "tile" else "tensor", "INT32", 0, columns + 3, 0.0, shape, shape)


def byte_blocks(w: Writer) -> Val | None:
    """32 bytes at each of several offsets."""
    value = w.pick(lambda v: v.level == "tile" and whole(v) and BITS[v.dtype] in (8, 16, 32) and int(v.shape[0]) * int(v.shape[1]) * BITS[v.dtype] // 8 >= 64)
    if value is None:
        return None
    per_block = 256 // BITS[value.dtype]
    room = int(value.shape[0]) * int(value.shape[1]) * BITS[value.dtype] // 8 - 32
    blocks = w.rng.choice((1, 2))
    name = w.new_param("idx", (2, blocks), "UINT32", "index", largest_length=room // 32).name
    offsets = f"pl.mul(pl.load({name}, [0, 0], [2, {blocks}]), 32)"
    shape = (2, blocks * per_block)
    return w.shaped_like(value, f"pl.gatherb({value.text}, {offsets})", shape=shape, valid=shape)


def scatter_pattern(w: Writer) -> Val | None:
    """Compact columns spread into every second or fourth column of another value."""
    base = w.pick(lambda v: whole(v) and int(v.shape[1]) % 4 == 0)
    if base is None:
        return None
    pattern, step = w.rng.choice(((1, 2), (2, 2), (3, 4), (6, 4), (7, 1)))
    shape = (int(base.shape[0]), int(base.shape[1]) // step)
    source = w.new_param("x", shape, base.dtype, w.style_for(base.dtype)).as_value()
    if w.level == "tile":
        text = f"pl.tile.scatter_mask({base.text}, pl.load({source.text}, [0, 0], [{shape[0]}, {shape[1]}]), {pattern})"
    else:
        text = f"pl.scatter({source.text}, mask_pattern={pattern}, dst={base.text})"
    return either(w, base, source, text)


def paged(w: Writer) -> Val | None:
    """Rows of a pool of pages."""
    if w.level == "tile":
        return None
    dtype, width = w.choose_dtype(), w.rng.choice(w.cols)
    pool = w.new_param("x", (24, width), dtype, w.style_for(dtype)).as_value()
    indices, table = places(w, (5,), 12), places(w, (1, 3), 6)
    count = w.rng.choice((5, 8))
    turned = w.chance(0.3)
    text = f"pl.paged_gather({pool.text}, {indices}, {table}, 4, {width}, {count}{', is_trans=True' if turned else ''})"
    shape = (width, count) if turned else (count, width)
    valid = (width, 5) if turned else (5, width)
    return Val(text, "tensor", dtype, pool.lo, pool.hi, 0.0, shape, valid)


def row_into(w: Writer) -> Val | None:
    """A row of a tensor in memory copied into a value."""
    base = w.pick(lambda v: whole(v) and v.level != "buffer" and v.text not in w.frozen)
    if base is None:
        return None
    rows, cols = (int(n) for n in base.shape)
    source = w.new_param("x", (5, cols), base.dtype, w.style_for(base.dtype)).as_value()
    turned = rows >= 2 and w.chance(0.3)
    length = w.rng.randint(1, min(rows, cols) if turned else cols)
    top, left = w.rng.randrange(rows - (length - 1 if turned else 0)), w.rng.randrange(cols - (0 if turned else length - 1))
    places = [s.text for s in w.scalars.values() if s.dtype == "INDEX" and s.lo >= 0 and s.hi <= 4]
    row = w.rng.choice([*places, str(w.rng.randrange(5))])
    text = f"pl.gather_row({base.text}, {source.text}, [{top}, {left}], [{row}, 0], [1, {length}]{', transpose=True' if turned else ''})"
    return either(w, base, source, text)


def sorted_blocks(w: Writer) -> Val | None:
    """Blocks of 32 sorted; then, sometimes, merged; the values of the pairs are taken, whose indices are bits."""
    columns = w.rng.choice((32, 64, 128))
    data = _tensor(w, (2, columns), "FP32", "grid")
    index = w.new_param("idx", (2, columns), "UINT32", "index", largest_length=columns - 1).name
    index = f"pl.load({index}, [0, 0], [2, {columns}])" if w.level == "tile" else index
    level = "tile" if w.level == "tile" else "tensor"
    pairs = w.fresh("p")
    w.emit(f"{pairs} = pl.sort32({data}, {index})")
    if columns == 128 and w.chance(0.6):
        merged = w.fresh("p")
        w.emit(f"{merged} = pl.mrgsort({pairs}, block_len=64)")
        pairs = merged
    elif columns < 128 and w.chance(0.4):
        merged, other = w.fresh("p"), _tensor(w, (2, 32), "FP32", "positive")
        second = w.fresh("p")
        index = w.new_param("idx", (2, 32), "UINT32", "index", largest_length=31).name
        w.emit(f"{second} = pl.sort32({other}, {f'pl.load({index}, [0, 0], [2, 32])' if level == 'tile' else index})")
        scratch = ""
        if level == "tile":
            scratch = f", tmp={w.scratch(Val('', level, 'FP32', 0, 0, 0.0, (2, 128)))}"
        if columns == 32:
            w.emit(f"{merged} = pl.mrgsort({pairs}, {second}{scratch})")
            pairs, columns = merged, 64
    picked = f"pl.tile.gather_mask({pairs}, 1)" if level == "tile" else f"pl.gather({pairs}, mask_pattern=1)"
    return Val(picked, level, "FP32", -3, 3, 0.0, (2, columns), (2, columns))
