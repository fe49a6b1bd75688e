"""`pl.print` on a GPU: a record in the log of the launch (runtime/cuda/printing.py), which shows them block by block."""

from __future__ import annotations

from collections.abc import Sequence

from tilejit.backends.cuda.program import memory
from tilejit.backends.cuda.program.body import Body
from tilejit.backends.cuda.program.masks import as_bytes
from tilejit.backends.cuda.text import numbers
from tilejit.backends.cuda.text.values import Array, Buffer, Scalar, Tile, Value, index
from tilejit.dtypes import INDEX, TASK_ID, DType
from tilejit.runtime.call.printing import WORD, print_row
from tilejit.runtime.cuda.printing import ENDS, HEADER, LOST, PLACES
from tilejit.tile_ir import dialect as d

_AT_ONCE = 1024
"""Cells of a tensor in memory that are copied at a time."""


def write_print(body: Body, op: d.EffectOp) -> Sequence[Value]:
    out = body.out
    parts = op.statics.get("parts")
    operands = [_shown(body, body[arg]) for arg in op.args]
    row = print_row(parts if isinstance(parts, tuple) else [None] * len(operands), [(_dtype(held), _rank(held)) for held in operands], op.span)
    for held in operands:
        if isinstance(held, Buffer):
            body.order.before_load(out, held.root)
    log = out.parameter("log", "log", "*i64", None)
    words = numbers.total([index(2), *(_words(held) for held in operands)])
    place = out.let("printed", f"tl.atomic_add({log}, {numbers.wide(words)})")
    with out.block(f"if {place} + {numbers.wide(words)} <= {PLACES}:"):
        at = out.let("record", f"{log} + {HEADER} + {place}")
        out.line(f"tl.store({at}, {body.failures.row(row)})")
        out.line(f"tl.store({at} + 1, {out.program()})")
        where: Scalar = index(2)
        for held in operands:
            where = _write(body, held, at, where)
    with out.block("else:"):
        out.line(f"tl.store({log} + {HEADER} + {place}, {ENDS}, mask={place} < {PLACES})")
        out.line(f"tl.atomic_add({log} + {LOST}, 1)")
    return []


def _shown(body: Body, value: Value) -> Scalar | Tile | Buffer:
    if isinstance(value, Array):
        value = value.tile
    return as_bytes(body, value) if isinstance(value, Tile) else value


def _dtype(held: Scalar | Tile | Buffer) -> DType:
    return INDEX if held.dtype is TASK_ID else held.dtype


def _rank(held: Scalar | Tile | Buffer) -> int | None:
    return None if isinstance(held, Scalar) else held.rank


def _extents(held: Tile | Buffer) -> tuple[Scalar, ...]:
    return held.valid if isinstance(held, Tile) else held.shape


def _words(held: Scalar | Tile | Buffer) -> Scalar:
    """Of its part of a record: a scalar has one, cells come after their extents, in whole words."""
    if isinstance(held, Scalar):
        return index(1)
    size = numbers.mul(numbers.product(_extents(held)), index(held.dtype.get_byte()))
    return numbers.add(index(held.rank), numbers.floordiv(numbers.add(size, index(WORD - 1)), WORD))


def _write(body: Body, held: Scalar | Tile | Buffer, record: str, at: Scalar) -> Scalar:
    """The part of a record that is `at` words behind its start; where the next one is."""
    out = body.out
    first = numbers.add(at, index(0 if isinstance(held, Scalar) else held.rank))
    pointer = out.let("cells", f"({record} + {first.text}).to(tl.pointer_type({memory.memory(held.dtype)}))")
    if isinstance(held, Scalar):
        out.line(memory.store_line(out, pointer, body.text(held), None, held.dtype))
    else:
        for axis, extent in enumerate(_extents(held)):
            out.line(f"tl.store({record} + {numbers.add(at, index(axis)).text}, {extent.text})")
        target = Buffer(pointer, index(0), memory.contiguous(_extents(held)), held.dtype, object())
        if isinstance(held, Tile):
            body.store_tile(held, target, [index(0)] * held.rank)
        else:
            _copy(body, held, pointer)
    return numbers.add(at, _words(held))


def _copy(body: Body, held: Buffer, pointer: str) -> None:
    """All cells of a tensor, one after the other."""
    out, count = body.out, numbers.product(held.shape)
    start = out.fresh("start")
    with out.block(f"for {start} in range(0, {count.text}, {_AT_ONCE}):"):
        cell = out.let("cell", f"{start} + {out.arange(_AT_ONCE)}")
        rest, offset = cell, held.offset.text
        for dim in reversed(held.dims):
            offset += f" + ({rest} % {dim.extent.text}) * {numbers.wide(dim.stride)}"
            rest = f"({rest} // {dim.extent.text})"
        inside = f"({cell} < {count.text})"
        read = inside if held.good is None else f"{inside} & {held.good}"
        out.line(memory.store_line(out, f"{pointer} + {cell}", memory.load_text(out, f"{held.pointer} + {offset}", read, held.dtype), inside, held.dtype))

