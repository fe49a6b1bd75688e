"""Writes into tensors by index: in place as statements, into a copy as values."""

from __future__ import annotations

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.indexed.cells import address, apart, cells, check_index, flat_address, index_at, load_cell, ravel, size_of, store_cell, unravel
from tilejit.backends.cpu.llvm.text import Index
from tilejit.backends.cpu.memory.movement import operand
from tilejit.backends.cpu.memory.storage import Array, element_count
from tilejit.backends.cpu.memory.window import rewritten
from tilejit.backends.cpu.nests.nest import copy_box
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.tile_ir.build import apply_args


def write_mscatter(f: FunctionWriter, op: d.EffectOp) -> None:
    e = f.e
    target = operand(f, op, "output_tensor")
    source, index = (apart(f, operand(f, op, name), target, op) for name in ("src", "idx"))
    box: list[Index] = [a if a == b else e.min(a, b) for a, b in zip(source.valid, index.valid, strict=True)]
    with cells(e, box) as at:
        place = index_at(e, index, at)
        check_index(f, op, "mscatter", place, size_of(e, target))
        store_cell(e, target, flat_address(e, target, place), load_cell(e, source, address(e, source, at)))


def _rows(f: FunctionWriter, op: d.ApplyOp | d.EffectOp, target: Array, index: Array, source: Array) -> None:
    """Row index.flat[k] of the target becomes row k of the source."""
    e = f.e
    wanted, there = element_count(e, index.shape), element_count(e, source.shape[:-1])
    text = "scatter_update: {0} rows of {1} elements are wanted, `src` has {2} of {3}"
    width, given = target.shape[-1], source.shape[-1]
    for a, b in ((wanted, there), (width, given)):
        if a != b:
            f.fail_if(e.icmp("ne", a, b), Failure("shape", text, op.span), [wanted, width, there, given])
    rows = element_count(e, target.shape[:-1])
    with cells(e, index.shape) as at:
        place = index_at(e, index, at)
        check_index(f, op, "scatter_update", place, rows)
        lines: list[Array] = []
        for array, row in ((target, place), (source, ravel(e, at, index.shape))):
            start = address(e, array, [*unravel(e, row, array.shape[:-1]), 0])
            lines.append(Array(start, array.dtype, (1, width), (0, array.strides[-1]), (1, width), array.tokens))
        copy_box(e, lines[0], lines[1], [1, width])


def write_update_in_place(f: FunctionWriter, op: d.EffectOp) -> None:
    target = operand(f, op, "input")
    _rows(f, op, target, *(apart(f, operand(f, op, name), target, op) for name in ("index", "src")))


def write_updated(f: FunctionWriter, op: d.ApplyOp) -> None:
    old = value_of(apply_args(op)["input"])
    index, source = (apart(f, operand(f, op, name), f.array(old), op) for name in ("index", "src"))
    _rows(f, op, rewritten(f, op, old), index, source)
