"""Stores that put a window of a tensor into another that may overlap it: they write from a copy."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

from xdsl.ir import Block, SSAValue

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.memory.storage import Array
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import constant_of
from tilejit.types.values import BufferType

_BUFFER = 1
"""Which operand of a store is what it writes."""


def moves_within(f: FunctionWriter, store: d.StoreOp) -> bool:
    """Whether a store puts a window of a tensor into another window that may overlap it. (A load that overlaps is a copy already.)"""
    value = store.value
    if not isinstance(d.type_of(value), BufferType) or not f.array(value).tokens & f.array(store.buffer).tokens:
        return False
    return value is not store.buffer or any(constant_of(offset) != 0 for offset in store.offsets)


@contextmanager
def into_themselves(f: FunctionWriter, stores: Sequence[d.StoreOp], arrays: Mapping[SSAValue, Array]) -> Generator[None]:
    """Let stores write the windows themselves that others read a copy of: `o[2:4] = q; q[:] = x` of `q = o[0:2]`."""
    buffers = [store.buffer for store in stores]
    for store, buffer in zip(stores, buffers, strict=True):
        stand_in = Block(arg_types=[buffer.type]).args[0]
        f.values[stand_in] = arrays[buffer]
        store.operands[_BUFFER] = stand_in
    try:
        yield
    finally:
        for store, buffer in zip(stores, buffers, strict=True):
            f.values.pop(store.buffer)
            store.operands[_BUFFER] = buffer
