"""Ops that put elements where an index or a column pattern says: in place when nobody needs the old value."""

from __future__ import annotations

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.indexed.cells import (
    address,
    apart,
    cells,
    check_index,
    check_rows,
    columns,
    flat_address,
    given,
    index_at,
    load_cell,
    size_of,
    store_cell,
)
from tilejit.backends.cpu.indexed.gather import pattern
from tilejit.backends.cpu.llvm.text import Index
from tilejit.backends.cpu.memory.movement import operand
from tilejit.backends.cpu.memory.storage import Array
from tilejit.backends.cpu.memory.window import rewritten
from tilejit.backends.cpu.nests.nest import copy_box
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.tile_ir.build import apply_args


def _target(f: FunctionWriter, op: d.ApplyOp, name: str, *others: Array) -> tuple[Array, list[Array]]:
    """Memory with the content of an operand that may be changed, and the other operands unaffected by that."""
    old = value_of(apply_args(op)[name])
    kept = [apart(f, other, f.array(old), op) for other in others]
    return rewritten(f, op, old), kept


def write_scatter(f: FunctionWriter, op: d.ApplyOp) -> None:
    index = given(f, op, "index")
    if index is None:
        _by_pattern(f, op, "dst", operand(f, op, "input"))
        return
    e = f.e
    base = operand(f, op, "input")
    check_rows(f, op, "scatter: {0} rows of index for {1} rows", index.valid[0], base.shape[0])
    target, (index, source) = _target(f, op, "input", index, operand(f, op, "src"))
    with cells(e, index.valid) as (row, k):
        column = index_at(e, index, [row, k])
        check_index(f, op, "scatter", column, target.shape[1])
        store_cell(e, target, address(e, target, [row, column]), load_cell(e, source, address(e, source, [row, k])))


def _by_pattern(f: FunctionWriter, op: d.ApplyOp, base: str, compact: Array) -> None:
    first, step = pattern(op)
    target, (source,) = _target(f, op, base, compact)
    count: Index = source.shape[-1]
    copy_box(f.e, columns(target, f.e, first, step, count), source, source.shape)


def write_scatter_mask(f: FunctionWriter, op: d.ApplyOp) -> None:
    _by_pattern(f, op, "dst", operand(f, op, "src"))


def write_flat(f: FunctionWriter, op: d.ApplyOp) -> None:
    e = f.e
    target, (source, index) = _target(f, op, "dst", operand(f, op, "src"), operand(f, op, "indexes"))
    with cells(e, index.valid) as at:
        place = index_at(e, index, at)
        check_index(f, op, "scatter", place, size_of(e, target))
        store_cell(e, target, flat_address(e, target, place), load_cell(e, source, address(e, source, at)))
