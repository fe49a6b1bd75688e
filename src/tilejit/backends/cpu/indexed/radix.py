"""Sorting by the digits of unsigned keys, the lowest first: stable, and in as many passes as a key has digits.

Keys have the order of the elements (ops/order.py). Where somebody asks for the indices they move along with the keys; the values come from
the keys, which is why those of -0.0 and 0.0 differ and become one only where they are compared. The first k of an order need no full sort: the
first elements of blocks tell which blocks have any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import OpResult

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.indexed.cells import address, cells, load_cell, store_cell
from tilejit.backends.cpu.llvm.text import Emitter, Index, Value
from tilejit.backends.cpu.llvm.vector import binary, constant, convert, element_of, icmp, intrinsic, select, typed
from tilejit.backends.cpu.memory.movement import operand, result_of
from tilejit.backends.cpu.memory.storage import Array
from tilejit.dtypes import BF16, DType
from tilejit.errors import Span
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args

_LONG = 2048
"""Rows of so many elements are worth digits of 11 bits, whose counters take longer to go through than those of 8."""


# keys -------------------------------------------------------------------------------------------------------------------


def _key(e: Emitter, dtype: DType, cell: Value, reverse: bool) -> Value:
    """The key of an element, given as the bits in memory."""
    bits = dtype.bits
    raw = cell if element_of(cell.type) == f"i{bits}" else convert(e, "bitcast", cell, f"i{bits}")
    type = raw.type
    sign = constant(type, -(1 << (bits - 1)))
    if dtype.is_float:
        positive = binary(e, "and", raw, constant(type, (1 << (bits - 1)) - 1))
        raw = select(e, icmp(e, "ugt", positive, constant(type, _infinity(dtype))), positive, raw)
        flip = binary(e, "or", binary(e, "ashr", raw, constant(type, bits - 1)), sign)
        key = binary(e, "xor", raw, flip)
    else:
        key = raw if dtype.name.startswith("U") else binary(e, "xor", raw, sign)
    return binary(e, "xor", key, constant(type, -1)) if reverse else key


def _element(e: Emitter, dtype: DType, key: Value, reverse: bool) -> Value:
    """The bits of the element with a key."""
    bits, type = dtype.bits, key.type
    key = binary(e, "xor", key, constant(type, -1)) if reverse else key
    sign = constant(type, -(1 << (bits - 1)))
    if dtype.is_float:
        negative = binary(e, "xor", binary(e, "ashr", key, constant(type, bits - 1)), constant(type, -1))
        key = binary(e, "xor", key, binary(e, "or", negative, sign))
    elif not dtype.name.startswith("U"):
        key = binary(e, "xor", key, sign)
    return key if dtype.llvm == type else convert(e, "bitcast", key, dtype.llvm)


def _zeros_joined(e: Emitter, key: Value) -> Value:
    """The key of a float as it counts in the order: that of -0.0, or of 0.0 where the order is reversed, is that of its neighbour."""
    bits = int(element_of(key.type)[1:])
    lower = icmp(e, "eq", key, constant(key.type, (1 << (bits - 1)) - 1))
    return binary(e, "add", key, convert(e, "zext", lower, key.type))


def _infinity(dtype: DType) -> int:
    """The bits of infinity: anything above them is no number."""
    mantissa = {32: 23, 16: 7 if dtype is BF16 else 10, 64: 52}[dtype.bits]
    return ((1 << (dtype.bits - 1 - mantissa)) - 1) << mantissa


# passes -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Room:
    """Scratch memory of a sort: keys and indices twice, and counters."""

    dtype: DType
    keys: tuple[Value, Value]
    marks: tuple[Value, Value] | None
    counters: Value
    digits: tuple[tuple[int, int], ...]
    """Shift and width of each digit."""

    @property
    def type(self) -> str:
        """The type of a key."""
        return f"i{self.dtype.bits}"

    def digit(self, e: Emitter, key: Value, place: int) -> Value:
        shift, width = self.digits[place]
        return _digit(e, _zeros_joined(e, key) if self.dtype.is_float else key, shift, width)

    def counter(self, e: Emitter, place: int) -> Value:
        return e.offset(self.counters, sum(1 << width for _, width in self.digits[:place]), "i32")


def _room(f: FunctionWriter, dtype: DType, count: Index, with_marks: bool, span: Span | None) -> _Room:
    e, bits = f.e, dtype.bits
    width = 11 if bits >= 32 and (not isinstance(count, int) or count > _LONG) else 8
    digits = tuple((shift, min(width, bits - shift)) for shift in range(0, bits, width))
    keys = tuple(f.allocate(e.mul(count, bits // 8), span) for _ in range(2))
    marks = tuple(f.allocate(e.mul(count, 4), span) for _ in range(2)) if with_marks else None
    return _Room(dtype, keys, marks, f.allocate(4 * sum(1 << width for _, width in digits), span), digits)  # type: ignore[arg-type]


def _digit(e: Emitter, key: Value, shift: int, width: int) -> Value:
    part = binary(e, "and", binary(e, "lshr", key, constant(key.type, shift)), constant(key.type, (1 << width) - 1)) if width < int(key.type[1:]) else key
    return part if part.type == "i64" else convert(e, "zext", part, "i64")


def _clear(e: Emitter, room: _Room) -> None:
    with e.loop(0, sum(1 << width for _, width in room.digits), name="clear") as loop:
        e.store(Value("0", "i32"), e.offset(room.counters, loop.iv, "i32"), 4)


def _count(e: Emitter, counter: Value, by: Value) -> Value:
    """What a counter holds; it goes up by one."""
    at = e.offset(counter, by, "i32")
    old = e.load("i32", at, 4)
    e.store(binary(e, "add", old, Value("1", "i32")), at, 4)
    return old


def _count_key(e: Emitter, room: _Room, key: Value) -> None:
    for place in range(len(room.digits)):
        _count(e, room.counter(e, place), room.digit(e, key, place))


def _sort(e: Emitter, room: _Room, count: Index) -> int:
    """Pass by pass, from one half of the room to the other; which half holds the result."""
    side, size = 0, int(room.type[1:]) // 8
    for place, (_, width) in enumerate(room.digits):
        counter = room.counter(e, place)
        with e.loop(0, 1 << width, carried=[Value("0", "i32")], name="place") as loop:
            at = e.offset(counter, loop.iv, "i32")
            here = e.load("i32", at, 4)
            e.store(loop.carried[0], at, 4)
            loop.next = [binary(e, "add", loop.carried[0], here)]
        with e.loop(0, count, name="pass") as loop:
            key = e.load(room.type, e.offset(room.keys[side], loop.iv, room.type), size)
            to = convert(e, "zext", _count(e, counter, room.digit(e, key, place)), "i64")
            e.store(key, e.offset(room.keys[1 - side], to, room.type), size)
            if room.marks is not None:
                mark = e.load("i32", e.offset(room.marks[side], loop.iv, "i32"), 4)
                e.store(mark, e.offset(room.marks[1 - side], to, "i32"), 4)
        side = 1 - side
    return side


def _give(e: Emitter, room: _Room, side: int, results: Sequence[Array | None], row: Sequence[Index], count: Index, dtype: DType, reverse: bool) -> None:
    """The first `count` elements and indices of a sorted half into the results."""
    values, marks = results
    with e.loop(0, count, name="give") as loop:
        if values is not None:
            key = e.load(room.type, e.offset(room.keys[side], loop.iv, room.type), dtype.bits // 8)
            store_cell(e, values, address(e, values, [*row, loop.iv]), _element(e, dtype, key, reverse))
        if marks is not None and room.marks is not None:
            store_cell(e, marks, address(e, marks, [*row, loop.iv]), e.load("i32", e.offset(room.marks[side], loop.iv, "i32"), 4))


def _targets(f: FunctionWriter, op: d.ApplyOp, shape: Sequence[Index]) -> list[Array | None]:
    """Memory for the results that somebody uses."""
    values = result_of(f, op, shape, shape)
    marks = op.results[1]
    assert isinstance(marks, OpResult)
    wanted = bool(list(marks.uses))
    f.values[marks] = f.result_array(marks, shape, shape, op.span) if wanted else values
    found = f.values[marks]
    assert isinstance(found, Array)
    return [values, found if wanted else None]


def write_sort(f: FunctionWriter, op: d.ApplyOp) -> None:
    e, source = f.e, operand(f, op, "input")
    reverse, dtype, count = bool(apply_args(op)["descending"]), source.dtype, source.shape[-1]
    results = _targets(f, op, source.shape)
    with f.scope():
        room = _room(f, dtype, count, results[1] is not None, op.span)
        with cells(e, source.shape[:-1]) as row:
            _clear(e, room)
            with e.loop(0, count, name="read") as loop:
                key = _key(e, dtype, load_cell(e, source, address(e, source, [*row, loop.iv])), reverse)
                _keep(e, room, key, loop.iv, loop.iv)
                _count_key(e, room, key)
            _give(e, room, _sort(e, room, count), results, row, count, dtype, reverse)


def _keep(e: Emitter, room: _Room, key: Value, at: Value, mark: Value) -> None:
    e.store(key, e.offset(room.keys[0], at, room.type), int(room.type[1:]) // 8)
    if room.marks is not None:
        e.store(convert(e, "trunc", mark, "i32"), e.offset(room.marks[0], at, "i32"), 4)


# the first of an order --------------------------------------------------------------------------------------------------


def write_topk(f: FunctionWriter, op: d.ApplyOp) -> None:
    e, source = f.e, operand(f, op, "input")
    args = apply_args(op)
    reverse, dtype, count, wanted = bool(args["largest"]), source.dtype, source.shape[-1], int(str(args["k"]))
    assert isinstance(count, int)
    results = _targets(f, op, [*source.shape[:-1], wanted])
    with f.scope():
        block = next((size for size in (64, 32, 16) if source.strides[-1] == 1 and count // size >= 2 * wanted), None)
        room = _room(f, dtype, count, True, op.span)
        firsts = f.allocate(count // block * (dtype.bits // 8), op.span) if block is not None else None
        with cells(e, source.shape[:-1]) as row:
            chosen = _Choice(e, room, source, row, reverse)
            few: Index = count
            if block is None or firsts is None:
                with e.loop(0, count, name="read") as loop:
                    chosen.keep(loop.iv, loop.iv, chosen.key(loop.iv))
            else:
                few = chosen.among_blocks(count, block, wanted, firsts)
            _count_keys(e, room, few)
            _give(e, room, _sort(e, room, few), results, row, wanted, dtype, reverse)


def _count_keys(e: Emitter, room: _Room, count: Index) -> None:
    """The counters of the keys in the first half of the room."""
    _clear(e, room)
    with e.loop(0, count, name="count") as loop:
        key = e.load(room.type, e.offset(room.keys[0], loop.iv, room.type), int(room.type[1:]) // 8)
        _count_key(e, room, key)


@dataclass(frozen=True, slots=True)
class _Choice:
    """Elements of a row that may be among the first k: where the first elements of k blocks are no later than a border, all k are."""

    e: Emitter
    room: _Room
    source: Array
    row: Sequence[Index]
    reverse: bool

    def key(self, index: Value, lanes: int = 1) -> Value:
        e, bits = self.e, self.source.dtype.bits
        pointer = address(e, self.source, [*self.row, index])
        return _key(e, self.source.dtype, e.load(typed(f"i{bits}", lanes), pointer, bits // 8), self.reverse)

    def keep(self, at: Value, mark: Value, key: Value) -> None:
        _keep(self.e, self.room, key, at, mark)

    def among_blocks(self, count: int, block: int, wanted: int, firsts: Value) -> Value:
        e, room, size = self.e, self.room, self.source.dtype.bits // 8
        lanes = max(1, min(block, 64 // size))
        with e.loop(0, count // block, name="block") as loop:
            first = self.key(e.i64(e.mul(loop.iv, block)), lanes)
            for part in range(lanes, block, lanes):
                first = intrinsic(e, "umin", first, self.key(e.i64(e.add(e.mul(loop.iv, block), part)), lanes))
            least = intrinsic(e, "vector.reduce.umin", first, result=room.type) if lanes > 1 else first
            for memory in (room.keys[0], firsts):
                e.store(least, e.offset(memory, loop.iv, room.type), size)
        _count_keys(e, room, count // block)
        side = _sort(e, room, count // block)
        border = e.load(room.type, e.offset(room.keys[side], wanted - 1, room.type), size)
        border = _zeros_joined(e, border) if room.dtype.is_float else border
        with e.loop(0, count // block, carried=[Value("0", "i64")], name="near") as loop:
            near = icmp(e, "ule", e.load(room.type, e.offset(firsts, loop.iv, room.type), size), border)
            start = e.mul(loop.iv, block)
            stop = select(e, near, e.i64(e.add(start, block)), e.i64(start))
            loop.next = [self._taken(start, stop, border, loop.carried[0])]
        return self._taken(count // block * block, count, border, loop.results[0])

    def _taken(self, start: Index, stop: Index, border: Value, so_far: Value) -> Value:
        """How many there are after the elements from start to stop that are no later than the border."""
        e = self.e
        with e.loop(start, stop, carried=[so_far], name="choose") as loop:
            key = self.key(loop.iv)
            self.keep(loop.carried[0], loop.iv, key)
            loop.next = [binary(e, "add", loop.carried[0], convert(e, "zext", icmp(e, "ule", key, border), "i64"))]
        return loop.results[0]
