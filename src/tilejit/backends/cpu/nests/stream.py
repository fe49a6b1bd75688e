"""Outputs too large for any cache to hold until somebody reads them: they are stored past the caches, which saves reading them first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilejit.backends.cpu.lanes.registers import store_lanes, to_memory
from tilejit.backends.cpu.llvm.text import Emitter, Index, Value
from tilejit.backends.cpu.nests.plan import Write
from tilejit.dtypes import DType
from tilejit.tile_ir import dialect as d

if TYPE_CHECKING:
    from tilejit.backends.cpu.nests.group import GroupWriter

LINE = 64
"""Bytes of a cache line."""
PEER_BYTES = 4 << 20
"""What goes to another rank is not read here: it passes the caches sooner."""
ALIGN = 32
"""Bytes to which such stores must be aligned."""


def choose(group: GroupWriter) -> Write | None:
    """The write of a group that goes past the caches: large, in one piece, not read by the group, in a sweep without a reduction."""
    least = group.schedule.stream_bytes
    if not least:
        return None
    folding = {member.stage - 1 for member in group.plan.row_reductions}
    for write in group.plan.writes:
        if write.store is None or write.store.static("atomic") or write.stage in folding or group.is_row_write(write):
            continue
        place = group.places[group.target(write)]
        unread = not group.store_boxes[write.store].tokens & group.read_tokens
        enough = min(least, PEER_BYTES) if isinstance(write.store.buffer.owner, d.PeerOp) else least
        if unread and _bytes(group, place.dtype) >= enough and group.box.walks[place.walk].strides[-1] == 1:
            return write
    return None


def _bytes(group: GroupWriter, dtype: DType) -> int:
    size = dtype.get_byte()
    for extent in group.box.extents:
        size = size * extent if isinstance(extent, int) else 0
    return size


def columns_to_alignment(group: GroupWriter, write: Write | None, size: int = ALIGN) -> Index:
    """Columns of the current row in front of the first one at which the output is aligned to so many bytes."""
    assert write is not None
    e = group.e
    place = group.places[group.target(write)]
    address = e.inst("i64", f"ptrtoint {group.pointers[place.walk]} to i64")
    over = e.inst("i64", f"and {e.i64(e.sub(0, address))}, {size - 1}")
    return e.min(e.inst("i64", f"lshr {over}, {place.dtype.get_byte().bit_length() - 1}"), group.box.extents[-1])


def put(e: Emitter, dtype: DType, pointer: Value, value: Value, lanes: int) -> None:
    """Store lanes; single elements and short vectors go the usual way."""
    if lanes * dtype.get_byte() >= ALIGN:
        e.stream(to_memory(e, dtype, value), pointer, ALIGN)
    else:
        store_lanes(e, dtype, pointer, value, lanes)


def prefetch_next_row(group: GroupWriter, stage: int, lanes: int, column: Index) -> None:
    """In the second sweep over a row, which computes on what is cached, ask for the same columns of the next row.

    The first sweep over a row waits for memory and the later ones for arithmetic; this lets both go on at once.
    """
    if not group.schedule.prefetch_bytes or stage != 1 or lanes == 1 or len(group.box.extents) < 2:
        return
    read = dict.fromkeys(value for item in group.by_result.values() for value in item.inputs if value not in group.by_result)
    for walk in dict.fromkeys(place.walk for value in read if (place := group.places.get(value)) is not None and not place.is_mask):
        _ask_for_next_row(group, walk, lanes, column, to_write=False)
    for write in group.plan.writes if group.schedule.prefetch_outputs else ():
        place = group.places[group.target(write)]
        if write is not group.streamed and not place.is_mask and not group.is_row_write(write):
            _ask_for_next_row(group, place.walk, lanes, column, to_write=True)


def _ask_for_next_row(group: GroupWriter, number: int, lanes: int, column: Index, *, to_write: bool) -> None:
    e, walk = group.e, group.box.walks[number]
    strides, dtype, size = walk.strides, walk.dtype, walk.dtype.get_byte()
    if strides[-1] != 1 or strides[-2] == 0 or 0 < _bytes(group, dtype) < group.schedule.prefetch_bytes:
        return
    e.module.declare("llvm.prefetch.p0", "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    ahead = e.offset(group.pointers[number], e.add(column, strides[-2]), dtype.llvm)
    for line in range(0, lanes * size, LINE):
        e.void(f"call void @llvm.prefetch.p0({e.offset(ahead, line // size, dtype.llvm)}, i32 {int(to_write)}, i32 2, i32 1)")


def finish(e: Emitter) -> None:
    """Order what was streamed before everything that follows."""
    e.module.declare("llvm.x86.sse.sfence", "declare void @llvm.x86.sse.sfence()")
    e.void("call void @llvm.x86.sse.sfence()")
