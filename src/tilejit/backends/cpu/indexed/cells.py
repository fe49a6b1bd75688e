"""Access by computed index: loops over the cells of a box, indices read from arrays and checked, cells found by flat index."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from xdsl.ir import SSAValue

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.lanes.casts import convert_lane
from tilejit.backends.cpu.lanes.registers import load_lanes
from tilejit.backends.cpu.llvm.text import Emitter, Index, Value
from tilejit.backends.cpu.memory.storage import Array, element_count
from tilejit.backends.cpu.nests.nest import copy_box
from tilejit.dtypes import INDEX, DType
from tilejit.ops.gather import INDEX_HELP
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args


@contextmanager
def cells(e: Emitter, extents: Sequence[Index]) -> Generator[list[Index]]:
    """A loop over every cell of a box, in row-major order; yields its indices."""
    with ExitStack() as stack:
        yield [0 if extent == 1 else stack.enter_context(e.loop(0, extent, name="cell")).iv for extent in extents]


def address(e: Emitter, array: Array, indices: Sequence[Index]) -> Value:
    """Where a cell lies."""
    shift: Index = 0
    for index, stride in zip(indices, array.strides, strict=True):
        shift = e.add(shift, e.mul(index, stride))
    return e.offset(array.pointer, shift, array.dtype.llvm)


def flat_address(e: Emitter, array: Array, flat: Index) -> Value:
    """Where the cell with a row-major index lies."""
    if array.dense:
        return e.offset(array.pointer, flat, array.dtype.llvm)
    return address(e, array, unravel(e, flat, array.shape))


def unravel(e: Emitter, flat: Index, extents: Sequence[Index]) -> list[Index]:
    """Indices of the cell with a row-major index in a box."""
    out: list[Index] = []
    for extent in reversed(extents[1:]):
        out.append(divide(e, "urem", flat, extent))
        flat = divide(e, "udiv", flat, extent)
    return [flat, *reversed(out)]


def ravel(e: Emitter, indices: Sequence[Index], extents: Sequence[Index]) -> Index:
    """The row-major index of a cell of a box."""
    flat: Index = 0
    for index, extent in zip(indices, extents, strict=True):
        flat = e.add(e.mul(flat, extent), index)
    return flat


def divide(e: Emitter, op: str, a: Index, b: Index) -> Index:
    """Quotient ("udiv", "sdiv") or remainder ("urem", "srem") of two indices; b is not zero."""
    if isinstance(a, int) and isinstance(b, int) and a >= 0:
        return a // b if op.endswith("div") else a % b
    if b == 1:
        return a if op.endswith("div") else 0
    return e.inst("i64", f"{op} i64 {e.i64(a).text}, {e.i64(b).text}")


def load_cell(e: Emitter, array: Array, pointer: Value) -> Value:
    """The bits of one element."""
    return e.load(array.dtype.llvm, pointer, array.dtype.get_byte())


def store_cell(e: Emitter, array: Array, pointer: Value, bits: Value) -> None:
    e.store(bits, pointer, array.dtype.get_byte())


def index_at(e: Emitter, array: Array, indices: Sequence[Index], read_as: DType | None = None) -> Value:
    """An element of an array of integers as an i64; `read_as` says how to read its bits."""
    dtype = read_as or array.dtype
    return convert_lane(e, load_lanes(e, dtype, address(e, array, indices), 1), dtype, INDEX, 1)


def check_index(f: FunctionWriter, op: d.ApplyOp | d.EffectOp, name: str, index: Index, extent: Index) -> None:
    """0 <= index < extent, else the index is named."""
    failure = Failure("bounds", f"{name}: index {{0}} of an extent of {{1}}", op.span, INDEX_HELP)
    f.fail_if(f.e.icmp("uge", index, extent), failure, [index, extent])


def check_rows(f: FunctionWriter, op: d.ApplyOp, text: str, wanted: Index, there: Index) -> None:
    """wanted <= there; the text has `{0}` and `{1}` for them."""
    if isinstance(wanted, int) and isinstance(there, int) and wanted <= there:
        return
    f.fail_if(f.e.icmp("sgt", wanted, there), Failure("bounds", text, op.span), [wanted, there])


def size_of(e: Emitter, array: Array) -> Index:
    return element_count(e, array.shape)


def given(f: FunctionWriter, op: d.ApplyOp, name: str) -> Array | None:
    """An optional array operand."""
    value = apply_args(op).get(name)
    return f.array(value) if isinstance(value, SSAValue) else None


def apart(f: FunctionWriter, array: Array, other: Array, op: d.ApplyOp | d.EffectOp) -> Array:
    """The array, or a copy of it when writing `other` would change it."""
    if not array.tokens & other.tokens:
        return array
    copy = f.new_array(array.dtype, array.shape, array.valid, op.span)
    copy_box(f.e, copy, array, array.valid)
    return copy


def columns(array: Array, e: Emitter, first: int, step: int, count: Index) -> Array:
    """The view of every `step`-th column from `first` on."""
    stride = array.strides[-1]
    return replace(
        array,
        pointer=e.offset(array.pointer, e.mul(first, stride), array.dtype.llvm),
        shape=(*array.shape[:-1], count),
        strides=(*array.strides[:-1], e.mul(stride, step)),
        valid=(*array.valid[:-1], count),
        owned=False,
    )
