"""Loops and branches: scalars, handles and valid extents travel in registers, carried tiles live in memory of their own.

A carried tile has one slot for the whole loop. The value that a turn yields is computed straight into the slot when nothing
needs the old content any more, and copied into it otherwise; an initial value that nobody else uses gives its memory to the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import Block, SSAValue

from tilejit.backends import checks
from tilejit.backends.cpu.carried import Carrier, aim_at_slots, carriers, fill_slots
from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.lanes.casts import convert_lane
from tilejit.backends.cpu.llvm.text import Emitter, Index, Value
from tilejit.backends.cpu.memory.escape import Escaping
from tilejit.backends.cpu.memory.storage import Array, Storage, row_major
from tilejit.backends.cpu.nests.nest import copy_box
from tilejit.backends.cpu.teams import team
from tilejit.dtypes import INDEX
from tilejit.tile_ir import dialect as d
from tilejit.types.values import BufferType

_LARGEST = (1 << 63) - 1


# loops ------------------------------------------------------------------------------------------------------------------


def write_for(f: FunctionWriter, op: d.ForOp) -> None:
    e = f.e
    lower, upper, step = f.index(op.lower), f.index(op.upper), f.index(op.step)
    if "share" in op.attributes:
        count = _trips(f, op, lower, upper, step)
        if team.is_worth_it(count, team.estimate_of(op)):
            _write_shared(f, op, lower, step, count)
            return
    items = carriers(f, op, list(op.inits), list(op.results))
    block = op.body.block
    yielded = list(_terminator(block))
    start = [register for item in items for register in item.registers(f, item.first)]
    escaping = Escaping(f, op, yielded, block)
    start += escaping.registers()
    # Counting turns is right at the ends of the integers too, where the index of a turn that is not made would be beyond them.
    simple = isinstance(step, int) and step > 0 and (step == 1 or (isinstance(upper, int) and upper + step <= _LARGEST))
    counted, first = not simple, lower
    if counted:
        lower, upper = 0, _turns(f, op, lower, upper, step)
    with escaping.scope(), e.loop(lower, upper, 1 if counted else step, start, name="for") as loop:
        if not _is_short(lower, upper, step):
            e.look()
        iv = _index_of(e, first, loop.iv, step) if counted else loop.iv
        f.values[block.args[0]] = convert_lane(e, iv, INDEX, d.type_of(block.args[0]).dtype, 1)
        escaping.begin(loop.carried)
        _bind(f, items, list(block.args[1:]), loop.carried)
        escaping.watch(list(block.args[1:]))
        aim_at_slots(f, yielded, list(block.args[1:]), items, block)
        f.block(block)
        values = [f.get(value) for value in yielded]
        loop.next = [register for item, value in zip(items, values, strict=True) for register in item.registers(f, value)]
        fill_slots(f, values, items)
        loop.next += escaping.registers()
    escaping.begin(loop.results)
    _bind(f, items, list(op.results), loop.results)


def _is_short(lower: Index, upper: Index, step: Index) -> bool:
    """Whether so few turns are known that those around them can do the looking."""
    return isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int) and step != 0 and len(range(lower, upper, step)) <= 16


def _trips(f: FunctionWriter, op: d.ForOp, lower: Index, upper: Index, step: Index) -> Index:
    if isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int) and step != 0:
        return len(range(lower, upper, step))
    return _turns(f, op, lower, upper, step)


def _write_shared(f: FunctionWriter, op: d.ForOp, lower: Index, step: Index, count: Index) -> None:
    """A loop whose trips may run on several threads."""
    block = op.body.block

    def body(inner: FunctionWriter, trip: Value) -> None:
        first, stride = inner.index(op.lower) if isinstance(lower, Value) else lower, inner.index(op.step) if isinstance(step, Value) else step
        iv = _index_of(inner.e, first, trip, stride)
        inner.values[block.args[0]] = convert_lane(inner.e, iv, INDEX, d.type_of(block.args[0]).dtype, 1)
        inner.block(block)

    task, args = team.write_task(f, [op], body)
    team.run_task(f, task, args, count, team.estimate_of(op))


def _turns(f: FunctionWriter, op: d.ForOp, lower: Index, upper: Index, step: Index) -> Index:
    """Number of turns of a loop whose step is negative or known only at run time."""
    e = f.e
    if not isinstance(step, int):
        f.fail_if(e.icmp("eq", step, 0), checks.step_failure(op), [])
    elif step == 0:
        f.fail_if(Value("true", "i1"), checks.step_failure(op), [])
        return 0
    low, high, width = e.i64(lower), e.i64(upper), e.i64(step)
    up = e.icmp("sgt", step, 0)
    some = e.inst("i1", f"select {up}, {e.icmp('slt', lower, upper)}, {e.icmp('sgt', lower, upper)}")
    # The whole of the integers is an unsigned distance, and so is the size of the smallest one.
    first, last = (e.inst("i64", f"select {up}, {a}, {b}") for a, b in ((low, high), (high, low)))
    distance = e.inst("i64", f"sub {last}, {first.text}")
    size = e.inst("i64", f"select {up}, {width}, {e.inst('i64', f'sub i64 0, {width.text}')}")
    more = e.inst("i64", f"udiv {e.inst('i64', f'sub {distance}, 1')}, {size.text}")
    turns = e.inst("i64", f"select {some}, {e.inst('i64', f'add {more}, 1')}, i64 0")
    fits = e.icmp("sge", turns, 0)
    return e.inst("i64", f"select {fits}, {turns}, i64 {_LARGEST}")


def _index_of(e: Emitter, first: Index, turn: Value, step: Index) -> Value:
    """The index of a turn; products of turns and steps may wrap on the way to it."""
    distance = e.inst("i64", f"mul {turn}, {e.i64(step).text}")
    return distance if first == 0 else e.inst("i64", f"add {e.i64(first)}, {distance.text}")


def _bind(f: FunctionWriter, items: Sequence[Carrier], names: Sequence[SSAValue], registers: Sequence[Value]) -> None:
    left = list(registers)
    # What is left over at the end is not a carried value: the top of the arena.
    for item, name in zip(items, names, strict=True):
        f.values[name] = item.rebuild(f, left, f.tokens(name) if isinstance(item.type, BufferType) else frozenset())


def _terminator(block: Block) -> Sequence[SSAValue]:
    last = d.end_of(block, d.YieldOp)
    return last.values


def write_while(f: FunctionWriter, op: d.WhileOp) -> None:
    e = f.e
    items = carriers(f, op, list(op.inits), list(op.results))
    before, body = op.before.block, op.body.block
    condition = d.end_of(before, d.ConditionOp)
    escaping = Escaping(f, op, [*_terminator(body), *condition.values], body)
    start = [register for item in items for register in item.registers(f, item.first)] + escaping.registers()
    stem = e.fresh("while")
    head, inside, done = f"{stem}.head", f"{stem}.body", f"{stem}.done"
    entered = e.label
    e.br(head)
    e.place(head)
    mark = e.mark()
    phis = [Value(f"%{stem}.c{i}", value.type) for i, value in enumerate(start)]
    with escaping.scope():
        escaping.begin(phis)
        _bind(f, items, list(before.args), phis)
        f.block(before)
        passed = [f.get(value) for value in condition.values]
        registers = [register for item, value in zip(items, passed, strict=True) for register in item.registers(f, value)]
        fill_slots(f, passed, items)
        registers += escaping.registers()
        e.cbr(f.scalar(condition.condition), inside, done)
        e.place(inside)
        e.look()
        _bind(f, items, list(body.args), registers)
        escaping.watch(list(body.args))
        yielded = list(_terminator(body))
        aim_at_slots(f, yielded, list(body.args), items, body)
        f.block(body)
        values = [f.get(value) for value in yielded]
        following = [register for item, value in zip(items, values, strict=True) for register in item.registers(f, value)]
        fill_slots(f, values, items)
        following += escaping.registers()
        last = e.label
        e.br(head)
    rows = [f"{phi.text} = phi {phi.type} [ {a.text}, %{entered} ], [ {b.text}, %{last} ]" for phi, a, b in zip(phis, start, following, strict=True)]
    e.insert_at(mark, rows)
    e.place(done)
    escaping.begin(registers)
    _bind(f, items, list(op.results), registers)


# branches ---------------------------------------------------------------------------------------------------------------


def write_if(f: FunctionWriter, op: d.IfOp) -> None:
    """Both arms leave their results where they are; what differs meets in a phi."""
    e = f.e
    stem = e.fresh("if")
    e.cbr(f.scalar(op.condition), f"{stem}.then", f"{stem}.else")
    top = f.top
    aims = [f.targets.pop(result, None) for result in op.results]
    ends: list[tuple[list[Storage], str, Value]] = []
    for name, region in (("then", op.then), ("else", op.orelse)):
        e.place(f"{stem}.{name}")
        f.top = top
        f.block(region.block)
        values = [_settled(f, value, aim) for value, aim in zip(_terminator(region.block), aims, strict=True)]
        ends.append((values, e.label, f.top))
        e.br(f"{stem}.done")
    e.place(f"{stem}.done")
    (then, then_label, then_top), (orelse, else_label, else_top) = ends
    labels = (then_label, else_label)
    joined = [_join(f, a, b, labels) for a, b in zip(then, orelse, strict=True)]
    keeps_memory = any(isinstance(value, Array) for value in joined)
    f.top = _phi(f, then_top, else_top, labels) if keeps_memory else top
    for result, value in zip(op.results, joined, strict=True):
        if isinstance(d.type_of(result), BufferType):
            assert isinstance(value, Array)
            value = replace(value, tokens=f.tokens(result))
        f.values[result] = value


def _settled(f: FunctionWriter, value: SSAValue, aim: Array | None) -> Storage:
    """A branch's result; tiles that are no plain dense array are copied, so that both arms agree on strides."""
    found = f.get(value)
    if not isinstance(found, Array) or isinstance(d.type_of(value), BufferType):
        return found
    if aim is not None:
        copy_box(f.e, aim, found, found.valid)
        return aim.with_valid(found.valid)
    if found.strides == row_major(f.e, found.shape):
        return found
    kept = f.new_array(found.dtype, found.shape, found.valid)
    copy_box(f.e, kept, found, found.valid)
    return kept


def _join(f: FunctionWriter, a: Storage, b: Storage, labels: tuple[str, str]) -> Storage:
    if isinstance(a, Value) or isinstance(b, Value):
        assert isinstance(a, Value) and isinstance(b, Value)
        return _phi(f, a, b, labels)
    pairs = [(a.shape, b.shape), (a.strides, b.strides), (a.valid, b.valid)]
    shape, strides, valid = (tuple(_phi_index(f, x, y, labels) for x, y in zip(*pair, strict=True)) for pair in pairs)
    return Array(_phi(f, a.pointer, b.pointer, labels), a.dtype, shape, strides, valid, a.tokens | b.tokens)


def _phi(f: FunctionWriter, a: Value, b: Value, labels: tuple[str, str]) -> Value:
    return a if a == b else f.e.phi(a.type, [(a, labels[0]), (b, labels[1])])


def _phi_index(f: FunctionWriter, a: Index, b: Index, labels: tuple[str, str]) -> Index:
    return a if a == b else _phi(f, f.e.i64(a), f.e.i64(b), labels)
