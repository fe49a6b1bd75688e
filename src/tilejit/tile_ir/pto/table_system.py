"""Rows of the table: places in the grid, sections, debugging, synchronisation, the FIFOs between cube and vector, transfers between devices."""

from __future__ import annotations

from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.rules import integer_like, view_spec
from tilejit.tile_ir.pto.spec import Custom, Nothing, Refused, Row, Rule
from tilejit.tile_ir.pto.types import OPAQUE, TileBufType

_REMOTE = Refused("it copies between devices, and there is one here")

SPMD = (
    Row("get_block_idx", "grid", "", "index of this block", Custom(), result="i64"),
    Row("get_block_num", "grid", "", "number of blocks", Custom(), result="i64"),
    Row("get_subblock_idx", "grid", "", "index of this vector sub-core", Custom(), result="i64"),
    Row("get_subblock_num", "grid", "", "number of vector sub-cores", Custom(), result="i64"),
    Row("section.cube", "grid", "region", "code of the cube core", Custom("section")),
    Row("section.vector", "grid", "region", "code of the vector core", Custom("section")),
    Row("print", "debug", "ins ( str(format) << , %value : type(value) >> )", "prints a scalar", Custom(), (), {"format": "str!"}),
    Row("tprint", "debug", "ins(src:any)", "prints a tile or view", Custom()),
    Row("trap", "debug", "", "stops the kernel", Custom()),
)

_FLAGS = {"src_pipe": "pipe!", "dst_pipe": "pipe!"}
_STAGES = {"src_op": "pipe_event_type!", "dst_op": "pipe_event_type!", "event_id": "event!"}


def _array_index(op: PtoOp, arch: str) -> str | None:
    return None if op.operand("array") is not None and op.operands[0].type.name == "pto.eventid_array" else "it takes an !pto.eventid_array"


SYNC = (
    Row("set_flag", "sync", "[ enum(src_pipe) , enum(dst_pipe) , enum(event_id) ] attrs", "one unit tells another", Nothing(), (), {**_FLAGS, "event_id": "event!"}),
    Row("wait_flag", "sync", "[ enum(src_pipe) , enum(dst_pipe) , enum(event_id) ] attrs", "one unit waits for another", Nothing(), (), {**_FLAGS, "event_id": "event!"}),
    Row("set_flag_dyn", "sync", "[ enum(src_pipe) , enum(dst_pipe) , %event:index ] attrs", "the same with a computed event", Nothing(), (integer_like("event"),), _FLAGS),
    Row("wait_flag_dyn", "sync", "[ enum(src_pipe) , enum(dst_pipe) , %event:index ] attrs", "the same with a computed event", Nothing(), (integer_like("event"),), _FLAGS),
    Row("record_event", "sync", "[ enum(src_op) , enum(dst_op) , enum(event_id) ] attrs", "one stage tells another", Nothing(), (), _STAGES),
    Row("wait_event", "sync", "[ enum(src_op) , enum(dst_op) , enum(event_id) ] attrs", "one stage waits for another", Nothing(), (), _STAGES),
    Row("barrier", "sync", "enum(pipe) attrs", "one unit finishes first", Nothing(), (), {"pipe": "pipe!"}),
    Row("barrier_sync", "sync", "[ enum(op_type) ] attrs", "one stage finishes first", Nothing(), (), {"op_type": "pipe_event_type!"}),
    Row("sync.set", "sync", "enum(pipe) , int(event_id)|%event:index? attrs", "the cores meet", Nothing(), (), {"pipe": "pipe!", "event_id": "int", "ffts_mode": "int"}),
    Row("sync.wait", "sync", "enum(pipe) , int(event_id)|%event:index? attrs", "the cores meet", Nothing(), (), {"pipe": "pipe!", "event_id": "int"}),
    Row("get_buf", "sync", "[ enum(op_type) , int(buf_id) ] attrs", "takes a buffer", Nothing(), (), {"op_type": "pipe_event_type!", "buf_id": "int!", "mode": "int"}),
    Row("rls_buf", "sync", "[ enum(op_type) , int(buf_id) ] attrs", "gives a buffer back", Nothing(), (), {"op_type": "pipe_event_type!", "buf_id": "int!", "mode": "int"}),
    Row("tsync", "sync", "ins(events:any*)", "waits for tile ops", Nothing()),
    Row("set_ffts", "sync", "%ffts : type(ffts)", "names the memory of cross-core flags", Nothing()),
    Row("declare_eventid_array", "sync", "attrs -> type(result)", "a local array of event ids", Custom(), result="type"),
    Row("eventid_array_get", "sync", "%array [ %index:index ] attrs : type(array)", "reads an event id", Custom(), (_array_index,), result="index"),
    Row("eventid_array_set", "sync", "%array [ %index:index ] , %value:index attrs : type(array)", "writes an event id", Custom(), (_array_index,)),
)

# FIFOs -------------------------------------------------------------------------------------------------------------------------


def _reserve(op: PtoOp, arch: str) -> str | None:
    if op.integer("size") <= 0:
        return f"size must be positive, got {op.integer('size')}"
    if op.flag("auto") == ("base" in op.attributes):
        return "base is given exactly where auto is false"
    return None


def _pipe_options(op: PtoOp, arch: str) -> str | None:
    if not 1 <= op.integer("dir_mask") <= 3:
        return f"dir_mask is 1 (cube to vector), 2 (vector to cube) or 3 (both), got {op.integer('dir_mask')}"
    return None if op.integer("slot_size") > 0 else f"slot_size must be positive, got {op.integer('slot_size')}"


def _split(op: PtoOp, arch: str) -> str | None:
    return None if 0 <= op.integer("split") <= 2 else f"split is 0 (whole), 1 (rows) or 2 (columns), got {op.integer('split')}"


def _popped(op: PtoOp, arch: str) -> str | None:
    type = op.results[0].type
    if not isinstance(type, TileBufType):
        return f"the result must be a !pto.tile_buf, got {type}"
    given = op.operand("row") is not None
    return "valid extents are given only where the type has valid=?x?" if given and type.data.valid != (None, None) else None


def _pushed(op: PtoOp, arch: str) -> str | None:
    return None if op.tile("tile") is not None else "it takes a tile"


def _on_pipe(op: PtoOp, arch: str) -> str | None:
    pipe = op.operand("pipe")
    return None if pipe is not None and isinstance(pipe.type, OPAQUE["pipe"]) else "it takes a !pto.pipe"


_PIPE = {"dir_mask": "int!", "slot_size": "int!", "nosplit": "bool"}
_SPLIT = {"split": "int!"}
_OPEN = "attrs ( << gm_slot_buffer = %gm : type(gm) , >> c2v_consumer_buf = %c2v : type(c2v) , v2c_consumer_buf = %v2c : type(v2c) )"
_POP = "<< ( %row:index , %col:index ) >> attrs -> type(result)"
_LOWERED_PIPE = {**_PIPE, "slot_num": "int", "flag_base": "int", "local_slot_num": "int"}
_POP_RULES: tuple[Rule, ...] = (_split, _popped)

FIFO = (
    Row("reserve_buffer", "fifo", "attrs -> type(result)", "memory of a FIFO at its consumer", Custom(), (_reserve,), {"name": "str!", "size": "int!", "location": "address_space!", "auto": "bool!", "base": "int"}, "type"),
    Row("import_reserved_buffer", "fifo", "attrs -> type(result)", "the memory that the peer reserved", Custom(), (), {"name": "str!", "peer_func": "symbol!"}, "type"),
    Row("aic_initialize_pipe", "fifo", _OPEN, "opens the FIFOs in the cube function", Custom("initialize_pipe"), (_pipe_options,), _PIPE, core="cube"),
    Row("aiv_initialize_pipe", "fifo", _OPEN, "opens the FIFOs in the vector function", Custom("initialize_pipe"), (_pipe_options,), _PIPE, core="vector"),
    Row("tpush_to_aiv", "fifo", "( %tile:tile : type(tile) ) attrs", "sends a copy to the vector side", Custom("push"), (_pushed, _split), _SPLIT, core="cube"),
    Row("tpush_to_aic", "fifo", "( %tile:tile : type(tile) ) attrs", "sends a copy to the cube side", Custom("push"), (_pushed, _split), _SPLIT, core="vector"),
    Row("tpop_from_aic", "fifo", _POP, "the next tile from the cube side", Custom("pop"), _POP_RULES, _SPLIT, "type", core="vector"),
    Row("tpop_from_aiv", "fifo", _POP, "the next tile from the vector side", Custom("pop"), _POP_RULES, _SPLIT, "type", core="cube"),
    Row("tfree_from_aic", "fifo", "attrs", "gives the oldest slot back", Custom("free"), (_split,), _SPLIT, core="vector"),
    Row("tfree_from_aiv", "fifo", "attrs", "gives the oldest slot back", Custom("free"), (_split,), _SPLIT, core="cube"),
    Row("initialize_l2l_pipe", "fifo", "attrs ( %a : type(a) << , %b : type(b) >> ) -> type(result)", "opens a FIFO through local memory", Custom("open_pipe"), (_pipe_options,), _LOWERED_PIPE, "type"),
    Row("initialize_l2g2l_pipe", "fifo", "attrs ( %gm : type(gm) , %a : type(a) << , %b : type(b) >> ) -> type(result)", "opens a FIFO through global memory", Custom("open_pipe"), (_pipe_options,), _LOWERED_PIPE, "type"),
    Row("tpush", "fifo", "( %tile:tile , %pipe:pipe : type(tile) , type(pipe) ) attrs", "sends a copy", Custom("pipe_push"), (_pushed, _on_pipe, _split), _SPLIT),
    Row("tpop", "fifo", "( %tile:tile , %pipe:pipe : type(tile) , type(pipe) ) attrs", "binds a declared tile to the next one", Custom("pipe_pop"), (_pushed, _on_pipe, _split), _SPLIT),
    Row("tfree", "fifo", "( %pipe:pipe : type(pipe) ) attrs", "gives the oldest slot back", Custom("free"), (_on_pipe, _split), _SPLIT),
)  # fmt: skip



def _one_dim(op: PtoOp, arch: str) -> str | None:
    """What goes to another device is one stretch of memory: all extents but the last are 1."""
    for value in op.groups["args"]:
        spec = view_spec(value)
        if spec is not None and any(dim not in (None, 1) for dim in spec.shape[:-1]):
            return f"it copies views of one dim, got {spec}"
    return None


_ASYNC = "( %args* : types(args) ) attrs << -> type(result) >>"
ASYNC = (
    Row("build_async_session", "async", _ASYNC, "a session of remote copies", _REMOTE, result="type?"),
    Row("tput_async", "async", _ASYNC, "a remote write", _REMOTE, (_one_dim,), result="type?"),
    Row("tget_async", "async", _ASYNC, "a remote read", _REMOTE, (_one_dim,), result="type?"),
    Row("wait_async_event", "async", _ASYNC, "waits for a remote copy", _REMOTE, result="type?"),
    Row("test_async_event", "async", _ASYNC, "asks for a remote copy", _REMOTE, result="type?"),
)

TABLE: tuple[Row, ...] = (*SPMD, *SYNC, *FIFO, *ASYNC)
