"""Other ranks in machine code: the copies of peers, signals, locks, and the call that does a collective."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from xdsl.ir import SSAValue

from tilejit.backends import ranks
from tilejit.backends.cpu import ranks_text
from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.llvm.text import Index, Value
from tilejit.backends.cpu.memory.storage import Array, sub_box
from tilejit.backends.cpu.teams.atomic import with_pause
from tilejit.ops.ranks import COLLECTIVES
from tilejit.runtime.ranks.abi import BLOCK_WORDS, FAR_WORDS, HEADER, LOCK, OPERAND_WORDS, Block, Comm, Far, dtype_code
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, operand, operands
from tilejit.types.enums import NotifyOp, ReduceOp, WaitCmp


def _word(f: FunctionWriter, comm: Value, slot: Index) -> Value:
    return f.e.load("i64", f.e.offset(_pointer(f, comm), slot, "i64"), 8)


def _pointer(f: FunctionWriter, address: Value) -> Value:
    return f.e.inst("ptr", f"inttoptr {address} to ptr")


def write_comm(f: FunctionWriter, op: d.CommOp) -> None:
    header = f.e.inst("ptr", f"getelementptr i8, ptr {f.array(op.window).pointer.text}, i64 {-HEADER}")
    f.values[op.result] = f.e.load("i64", header, 8)


def write_query(slot: Comm) -> Callable[[FunctionWriter, d.ApplyOp], None]:
    """A number of the group as an INT32."""

    def write(f: FunctionWriter, op: d.ApplyOp) -> None:
        f.values[op.results[0]] = f.e.inst("i32", f"trunc {_word(f, f.scalar(operand(op, 'comm')), int(slot))} to i32")

    return write


def _checked_peer(f: FunctionWriter, op: d.PeerOp | d.EffectOp, comm: Value, peer: SSAValue) -> Index:
    number, count = f.index(peer), _word(f, comm, int(Comm.COUNT))
    f.fail_if(f.e.icmp("uge", number, count), ranks.peer_failure(op), [number, count])
    return number


def _distance(f: FunctionWriter, comm: Value, peer: Index) -> Value:
    """Bytes from the own copy of the buffer to that of a peer."""
    e = f.e
    bases = e.offset(_pointer(f, comm), int(Comm.BASES), "i64")
    there, here = (e.load("i64", e.offset(bases, rank, "i64"), 8) for rank in (peer, _word(f, comm, int(Comm.RANK))))
    return e.inst("i64", f"sub {there}, {here.text}")


def _moved(f: FunctionWriter, pointer: Value, distance: Value) -> Value:
    """A pointer into another copy: through a number, as no object reaches that far."""
    there = f.e.inst("i64", f"add {f.e.address(pointer)}, {distance.text}")
    return _pointer(f, there)


def write_peer(f: FunctionWriter, op: d.PeerOp) -> None:
    own, comm = f.array(op.buffer), f.scalar(op.comm)
    peer = _checked_peer(f, op, comm, op.peer)
    pointer = _moved(f, own.pointer, _distance(f, comm, peer))
    f.values[op.result] = Array(pointer, own.dtype, own.shape, own.strides, own.valid, own.tokens)


# other machines ---------------------------------------------------------------------------------------------------------


def _ask(f: FunctionWriter, comm: Value, kind: Far, peer: Index, words: Sequence[Index]) -> Value:
    """Let the engine do something that concerns another machine; not 0: the call ends."""
    e = f.e
    block = e.alloca(f"[{max(len(words), 1)} x i64]", 8)
    for slot, number in enumerate(words):
        e.store(e.i64(number), e.offset(block, slot, "i64"), 8)
    far = _pointer(f, _word(f, comm, int(Comm.FAR)))
    return e.inst("i64", f"call i64 {far.text}({comm}, i64 {int(kind)}, {e.i64(peer)}, {block})")


@contextmanager
def _where(f: FunctionWriter, condition: Value) -> Generator[None]:
    """Code that runs only where the condition holds."""
    stem = f.e.fresh("where")
    f.e.cbr(condition, f"{stem}.yes", f"{stem}.no")
    f.e.place(f"{stem}.yes")
    yield
    f.e.br(f"{stem}.no")
    f.e.place(f"{stem}.no")


def _far(f: FunctionWriter, op: d.EffectOp, comm: Value, kind: Far, peer: Index, words: Sequence[Index], near: Callable[[], None]) -> None:
    """One way for a group on several machines, another one where all its ranks are here."""
    spread = f.e.icmp("ne", _word(f, comm, int(Comm.FAR)), 0)
    with _where(f, spread):
        f.fail_if(f.e.icmp("ne", _ask(f, comm, kind, peer, words), 0), ranks.stopped_in(op), [])
    with _where(f, f.e.inst("i1", f"xor {spread}, true")):
        near()


def write_box(kind: Far) -> Callable[[FunctionWriter, d.EffectOp], None]:
    """Fetch or flush a box of a peer's copy if that is a stand-in."""

    def write(f: FunctionWriter, op: d.EffectOp) -> None:
        e, comm, view = f.e, f.scalar(operand(op, "comm")), f.array(operand(op, "view"))
        peer = f.index(operand(op, "peer"))
        box = [*f.indices(operands(op, "offsets")), *f.indices(operands(op, "shape"))]
        first = e.inst("i64", f"add {e.i64(peer)}, {_word(f, comm, int(Comm.COUNT)).text}")
        standin = e.load("i64", e.offset(e.offset(_pointer(f, comm), int(Comm.BASES), "i64"), first, "i64"), 8)
        words: list[Index] = [f.e.address(view.pointer), view.dtype.get_byte(), view.rank, *view.shape, *view.strides, *box]
        assert len(words) == FAR_WORDS + 4 * view.rank
        with _where(f, e.icmp("ne", standin, 0)):
            f.fail_if(e.icmp("ne", _ask(f, comm, kind, peer, words), 0), ranks.stopped_in(op), [])

    return write


# signals ----------------------------------------------------------------------------------------------------------------


def _cell(f: FunctionWriter, op: d.EffectOp) -> tuple[Value, list[Index]]:
    window, offsets = ranks.signal_of(op)
    array, indices = f.array(window), f.indices(offsets)
    if f.unit.options.check_bounds:
        for axis, (index, extent) in enumerate(zip(indices, array.shape, strict=True)):
            if not (isinstance(index, int) and isinstance(extent, int) and 0 <= index < extent):
                f.fail_if(f.e.icmp("uge", index, extent), ranks.cell_failure(op, axis), [index, extent])
    return sub_box(f.e, array, indices, [1] * array.rank).pointer, indices


def write_notify(f: FunctionWriter, op: d.EffectOp) -> None:
    """An instruction with a lock also drains stores that went past the caches."""
    args, comm = apply_args(op), f.scalar(operand(op, "comm"))
    peer = _checked_peer(f, op, comm, operand(op, "peer"))
    cell, _ = _cell(f, op)
    value, add = f.scalar(operand(op, "value")), args["op"] is NotifyOp.AtomicAdd

    def near() -> None:
        there = _moved(f, cell, _distance(f, comm, peer))
        f.e.inst("i32", f"atomicrmw {'add' if add else 'xchg'} ptr {there.text}, {value} seq_cst, align 4")

    _far(f, op, comm, Far.NOTIFY, peer, [f.e.address(cell), f.e.inst("i64", f"sext {value} to i64"), int(add)], near)


def write_wait(f: FunctionWriter, op: d.EffectOp) -> None:
    e, comm, expected = f.e, f.scalar(operand(op, "comm")), f.scalar(operand(op, "expected"))
    cell, indices = _cell(f, op)
    _define(f)
    line = op.span.line if op.span is not None else 0
    greater = int(apply_args(op)["cmp"] is WaitCmp.Ge)
    given = f"ptr {_pointer(f, comm).text}, {cell}, {expected}, i64 {greater}, i64 {line}"
    if f.unit.cross.runs:  # blocks that are under way at once take turns
        f.unit.fibers = True
        stopped = e.inst("i64", f"call i64 @{ranks_text.TURNS}({f.context}, {given})")
    else:
        stopped = e.inst("i64", f"call i64 @{ranks_text.WAIT}({given})")
    now = e.inst("i64", f"sext i32 {e.inst('i32', f'load atomic i32, ptr {cell.text} acquire, align 4').text} to i64")
    wanted = e.inst("i64", f"sext {expected} to i64")
    f.fail_if(e.icmp("ne", stopped, 0), ranks.stopped_wait(op), [*indices[: ranks.shown_indices(len(indices))], wanted, now])


# locks ------------------------------------------------------------------------------------------------------------------


def _lock_of(f: FunctionWriter, op: d.EffectOp) -> tuple[Value, Index, Value]:
    comm = f.scalar(operand(op, "comm"))
    peer = _checked_peer(f, op, comm, operand(op, "peer"))
    base = f.e.load("i64", f.e.offset(f.e.offset(_pointer(f, comm), int(Comm.BASES), "i64"), peer, "i64"), 8)
    return comm, peer, _pointer(f, f.e.inst("i64", f"add {base}, {LOCK - HEADER}"))


def write_lock(f: FunctionWriter, op: d.EffectOp) -> None:
    comm, peer, lock = _lock_of(f, op)
    _define(f)

    def near() -> None:
        stopped = f.e.inst("i64", f"call i64 @{ranks_text.LOCK}(ptr {_pointer(f, comm).text}, {lock})")
        f.fail_if(f.e.icmp("ne", stopped, 0), ranks.stopped_in(op), [])

    _far(f, op, comm, Far.LOCK, peer, [], near)


def write_unlock(f: FunctionWriter, op: d.EffectOp) -> None:
    comm, peer, lock = _lock_of(f, op)

    def near() -> None:
        f.e.inst("i64", f"atomicrmw xchg ptr {lock.text}, i64 0 seq_cst, align 8")

    _far(f, op, comm, Far.UNLOCK, peer, [], near)


# collectives ------------------------------------------------------------------------------------------------------------


def write_collective(f: FunctionWriter, op: d.EffectOp) -> None:
    """Fill the argument block and let the engine do it."""
    e, args, comm = f.e, apply_args(op), f.scalar(operand(op, "comm"))
    block = e.alloca(f"[{BLOCK_WORDS} x i64]", 8)

    def word(slot: int, value: Index) -> None:
        e.store(e.i64(value), e.offset(block, slot, "i64"), 8)

    reduce, root = args.get("op"), args.get("root")
    buffers = [f.array(value) for name, value in args.items() if isinstance(value, SSAValue) and name != "comm"]
    fields = {
        Block.KIND: COLLECTIVES.index(op.op),
        Block.OP: reduce.value if isinstance(reduce, ReduceOp) else 0,
        Block.ROOT: root if isinstance(root, int) else 0,
        Block.RING: int(args.get("mode") == "ring"),
        Block.LINE: op.span.line if op.span is not None else 0,
        Block.COUNT: len(buffers),
    }
    for slot, value in fields.items():
        word(int(slot), value)
    for position, array in enumerate(buffers):
        first = int(Block.OPERANDS) + position * OPERAND_WORDS
        numbers: list[Index] = [f.e.address(array.pointer), dtype_code(array.dtype), array.rank, *array.shape, *array.strides]
        for slot, number in enumerate(numbers, first):
            word(slot, number)
    meet = _pointer(f, _word(f, comm, int(Comm.MEET)))
    answer = e.inst("i64", f"call i64 {meet.text}({comm}, {block})")
    f.fail_if(e.icmp("ne", answer, 0), ranks.stopped_in(op), [])


# the functions that block ------------------------------------------------------------------------------------------------


def _define(f: FunctionWriter) -> None:
    module = f.unit.module
    if ranks_text.WAIT in module.functions:
        return
    module.functions[ranks_text.WAIT] = with_pause(module, ranks_text.WAIT_TEXT)
    if f.unit.cross.runs:
        module.functions[ranks_text.TURNS] = ranks_text.TURNS_TEXT
    module.functions[ranks_text.LOCK] = with_pause(module, ranks_text.LOCK_TEXT)
