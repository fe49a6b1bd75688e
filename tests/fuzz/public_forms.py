"""The menu, forms of public programs: valid regions of views, places from data, slices that overhang, vectors without leading dims, ranges, spread copies."""

from __future__ import annotations

from dataclasses import replace

from tests.fuzz.operations import binary
from tests.fuzz.scalars import condition
from tests.fuzz.values import Val
from tests.fuzz.writer import Writer


def _rows_and_columns(w: Writer) -> tuple[int, int]:
    return w.rng.choice(w.rows), w.rng.choice(w.cols)


def _param(w: Writer, shape: tuple[int, ...], dtype: str | None = None) -> Val:
    """A tensor of its own."""
    dtype = dtype or w.choose_dtype()
    return w.new_param("x", shape, dtype, w.style_for(dtype)).as_value()


def narrowed_view(w: Writer) -> Val | None:
    """The valid region of a slice of a tensor, the rest filled."""
    if w.level == "tile":
        return None
    rows, cols = _rows_and_columns(w)
    x = _param(w, (rows + 2, cols + 3))
    top, left = w.rng.randint(0, 2), w.rng.randint(0, 3)
    height, width = w.rng.randint(1, rows), w.rng.randint(1, cols)
    text = f"pl.fillpad(pl.set_validshape({x.text}[{top}:{top + rows}, {left}:{left + cols}], {height}, {width}))"
    return Val(text, "tensor", x.dtype, min(x.lo, 0), max(x.hi, 0), 0.0, (rows, cols), (rows, cols))


def rows_at(w: Writer) -> Val | None:
    """Rows at a place that is read from memory and never converted: their number is known all the same."""
    rows, cols = _rows_and_columns(w)
    x, place = _param(w, (rows + 6, cols)), w.fresh("p")
    w.emit(f"{place} = pl.read({w.config()}, [{w.rng.randrange(8)}])")
    box = f"{x.text}[{place}:{place} + {rows}, 0:{cols}]"
    if w.level == "tile":
        return replace(x, text=f"pl.load({box}, [0, 0], [{rows}, {cols}])", level="tile", shape=(rows, cols), valid=(rows, cols))
    return replace(x, text=box, shape=(rows, cols), valid=(rows, cols), gaps=True)


def dense_columns(w: Writer) -> Val | None:
    """Some columns of a tensor in another shape: made dense first."""
    if w.level == "tile":
        return None
    rows, cols = _rows_and_columns(w)
    x, left = _param(w, (rows, cols + 3)), w.rng.randint(0, 3)
    shape = w.rng.choice(((1, rows * cols), (cols, rows)))
    return replace(x, text=f"pl.reshape({x.text}[:, {left}:{left + cols}], {list(shape)})", level="tensor", shape=shape, valid=shape)


def inside_of_an_overhang(w: Writer) -> Val | None:
    """A slice that reaches past the end of its tensor, and the part of it that is inside."""
    rows, cols = _rows_and_columns(w)
    first = w.rng.randint(0, 3)
    x, block = _param(w, (rows + first, cols)), w.fresh("w")
    w.emit(f"{block} = pl.slice({x.text}, [{rows + w.rng.randint(1, 4)}, {cols}], [{first}, 0])")
    if w.level == "tile":
        return replace(x, text=f"pl.load({block}, [0, 0], [{rows}, {cols}])", level="tile", shape=(rows, cols), valid=(rows, cols))
    return replace(x, text=f"{block}[0:{rows}, :]", shape=(rows, cols), valid=(rows, cols), gaps=True)


def without_leading_dims(w: Writer) -> Val | None:
    """A stack of rank 4 and a column or row vector."""
    rows, cols = _rows_and_columns(w)
    dtype = w.choose_dtype(("FP32", "FP16", "INT32"))
    shape = (2, w.rng.choice((1, 3)), rows, min(cols, 40))
    kind = w.rng.choice(("row", "col"))
    x, v = _param(w, shape, dtype), _param(w, (rows, 1) if kind == "row" else (1, shape[3]), dtype)
    if w.level == "tile":
        x, v = (replace(one, text=f"pl.load({one.text}, {[0] * len(one.shape)}, {list(one.shape)})", level="tile") for one in (x, v))
    op = w.rng.choice(("add", "sub", "mul", "max", "min"))
    canonical = {"max": "maximum", "min": "minimum"}.get(op, op)
    return binary(w, canonical, x, v, f"pl.{kind}_expand_{op}({x.text}, {v.text})", dtype, shape, shape)


def unsigned_range(w: Writer) -> Val | None:
    """Whole numbers without sign that follow each other."""
    dtype, count, start = w.rng.choice(("UINT16", "UINT32")), w.rng.choice(w.cols), w.rng.randint(0, 9)
    space, name = "tile" if w.level == "tile" else "tensor", w.rng.choice(("ci", "arange"))
    text = f"pl.{space}.{name}({start}, [1, {count}], dtype=pl.{dtype})"
    value = Val(text, space, dtype, start, start + count, 0.0, (1, count), (1, count))
    return w.shaped_like(value, f"pl.cast({text}, pl.INT32)", "INT32")


def spread_copy(w: Writer) -> Val | None:
    """A vector spread over a tensor that is there, by a statement."""
    if w.level == "tile" or not w.region:
        return None
    rows, cols = _rows_and_columns(w)
    x, target = _param(w, w.rng.choice(((1, cols), (rows, 1)))), w.fresh("tmp")
    w.emit(f"{target} = pl.create_tensor([{rows}, {cols}], dtype=pl.{x.dtype})")
    w.emit(w.rng.choice((f"pl.expand_clone({x.text}, {target})", f"{target} = pl.expand_clone({x.text}, {target})")))
    return replace(x, text=f"pl.maximum({target}, {target})", level="tensor", shape=(rows, cols), valid=(rows, cols))


def annotated_numbers(w: Writer) -> None:
    """A branch that yields a number under an annotated name."""
    name, annotation = w.fresh("s"), w.rng.choice(("pl.Scalar[pl.INDEX]", "pl.INDEX"))
    for header, number in ((f"if {condition(w)}:", w.rng.randint(0, 3)), ("else:", w.rng.randint(0, 6))):
        with w.nested(header):
            w.emit(f"{name}: {annotation} = pl.yield_({number})")
    w.hold(name, Val(name, "scalar", "INDEX", 0, 6))
