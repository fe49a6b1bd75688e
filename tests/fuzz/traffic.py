"""Memory that is written and read again in one function: the order of stores and loads is the whole meaning."""

from __future__ import annotations

from dataclasses import replace

from tests.fuzz.scalars import indices
from tests.fuzz.values import Val, integer_range
from tests.fuzz.writer import Writer

SLACK = 2e-4
"""What two backends may differ in any cell, whenever it was written."""
BOUND = 12.0


def traffic(w: Writer) -> None:
    """A store into a tensor that this function also reads, or a load of what it holds by now."""
    if w.block is not None or (w.symbol is not None and w.level == "tensor"):
        return
    memory = _memory(w)
    if w.chance(0.5):
        _write(w, memory)
    else:
        _read(w, memory)


def _memory(w: Writer) -> Val:
    if w.memory and w.chance(0.8):
        return w.rng.choice(list(w.memory.values()))
    dtype = w.choose_dtype(("FP32", "INT32", "INT16", "INT8"))
    shape = (max(w.rows) + 3, max(w.cols) + 2)
    param = w.new_param("io", shape, dtype, "normal" if dtype == "FP32" else "small", "InOut")
    low, high = (-BOUND, BOUND) if dtype == "FP32" else integer_range(dtype)
    value = replace(param.as_value(), lo=low, hi=high, err=SLACK if dtype == "FP32" else 0.0, product=True)
    w.memory[param.name] = value
    w.note_error(param.name, value.err)
    return value


def _place(w: Writer, extent: int, size: int) -> str:
    """An offset at which a window fits: a constant, or a number from the run."""
    room = extent - size
    known = [s.text for s in indices(w, room)] if room > 0 else []
    return w.rng.choice(known) if known and w.chance(0.4) else str(w.rng.randint(0, room))


def _write(w: Writer, memory: Val) -> None:
    rows, cols = (int(n) for n in memory.shape)
    value = w.pick(
        lambda v: v.dtype == memory.dtype and len(v.shape) == 2 and all(isinstance(n, int) for n in v.shape) and v.full
        and v.err <= memory.err and (v.magnitude <= BOUND or not v.is_float) and int(v.shape[0]) <= rows and int(v.shape[1]) <= cols
    )  # fmt: skip
    if value is None:
        return
    height, width = (int(n) for n in value.shape)
    top, left = _place(w, rows, height), _place(w, cols, width)
    if value.level == "tile":
        w.emit(f"pl.store({value.text}, [{top}, {left}], {memory.text})")
    elif w.chance(0.5):
        w.emit(f"{memory.text}[{top}:{top} + {height}, {left}:{left} + {width}] = {value.text}")
    else:
        w.emit(f"pl.assemble({memory.text}, {value.text}, [{top}, {left}])")


def _read(w: Writer, memory: Val) -> None:
    rows, cols = (int(n) for n in memory.shape)
    height, width = w.rng.choice(w.rows), w.rng.choice(w.cols)
    top, left = _place(w, rows, height), _place(w, cols, width)
    shape = (height, width)
    if w.level == "tile":
        text = f"pl.load({memory.text}, [{top}, {left}], [{height}, {width}])"
        w.bind(replace(memory, text=text, level="tile", shape=shape, valid=shape, product=False))
        return
    # A window follows its tensor: later writes show in it. An operator's result does not.
    window = f"{memory.text}[{top}:{top} + {height}, {left}:{left} + {width}]"
    if w.chance(0.5):
        w.bind(replace(memory, text=window, level="buffer", shape=shape, valid=shape, gaps=True))
    else:
        w.bind(replace(memory, text=f"pl.maximum({window}, {window})", level="tensor", shape=shape, valid=shape, product=False))
