"""Raising of ops that go through a tile cell by cell: global memory by index, histograms."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xdsl.ir import Block, SSAValue

from tilejit.dtypes import DTYPES, INDEX, INT64
from tilejit.frontend.pto.handles import NotRaisable, Pointer, Slice, View
from tilejit.frontend.pto.index import static_region
from tilejit.frontend.pto.tiles import filled, read, same_bits, tile, write
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.rows import ATOMIC
from tilejit.types.values import BufferType, ScalarType

if TYPE_CHECKING:
    from tilejit.frontend.pto.raiser import Raiser

LT, GE = 2, 5


def _loop(self: Raiser, count: int | SSAValue, body: Callable[[SSAValue], None], first: int = 0) -> None:
    """Numbers from `first` up to a count, one after the other."""
    block = Block(arg_types=[d.IRType(ScalarType(INDEX))])
    with self.build.at(block):
        body(block.args[0])
        self.build.yield_([])
    self.build.for_(self.build.const(first), self.ssa(count), self.build.const(1), [], block, [])


def _each(self: Raiser, region: tuple[int, int], body: Callable[[list[SSAValue]], None]) -> None:
    """Every cell of a region, row after row."""
    _loop(self, region[0], lambda row: _loop(self, region[1], lambda col: body([row, col])))


def _when(self: Raiser, condition: SSAValue | None, body: Callable[[], None]) -> None:
    if condition is None:
        body()
        return
    then, orelse = Block(), Block()
    with self.build.at(then):
        body()
        self.build.yield_([])
    with self.build.at(orelse):
        self.build.yield_([])
    self.build.if_(condition, then, orelse, [])


def _scalar(self: Raiser, row: str, left: SSAValue, right: SSAValue) -> SSAValue:
    return self.apply(row, "scalar", lhs=left, rhs=right)


# global memory by index -------------------------------------------------------------------------------------------------------


class _Flat:
    """A memory whose elements are counted in row-major order."""

    def __init__(self, self_: Raiser, op: PtoOp) -> None:
        self.raiser = self_
        found = self_.held(op.operand("mem"))
        if isinstance(found, Pointer):
            size = self_.build.dim(found.buffer, 0)
            start = self_.ssa(found.offset)
            rest = _scalar(self_, "sub", size, start)
            self.buffer, self.order = self_.build.window(found.buffer, [start], [rest], BufferType(("?",), d.shaped_type(found.buffer).dtype)), [0]
        elif isinstance(found, View | Slice):
            rank = d.shaped_type(found.buffer).rank
            turned = found.turned if isinstance(found, View) else found.roles == ("c", "r")
            if isinstance(found, Slice) and not turned and list(found.roles) != sorted(found.roles, reverse=True):
                raise NotRaisable("a memory whose dims are in another order")
            self.buffer, self.order = found.buffer, [*range(rank - 2), rank - 1, rank - 2] if turned else list(range(rank))
        else:
            raise NotRaisable("a memory that is none")
        self.dims = [self_.build.dim(self.buffer, axis) for axis in self.order]
        self.count = self.dims[0]
        for dim in self.dims[1:]:
            self.count = _scalar(self_, "mul", self.count, dim)

    def place(self, index: SSAValue) -> list[SSAValue]:
        """The position of an element."""
        out: dict[int, SSAValue] = {}
        for axis, dim in reversed(list(zip(self.order[1:], self.dims[1:]))):
            rest = _scalar(self.raiser, "floordiv", index, dim)
            out[axis] = _scalar(self.raiser, "sub", index, _scalar(self.raiser, "mul", rest, dim))
            index = rest
        out[self.order[0]] = index
        return [out[axis] for axis in range(len(self.order))]

    def resolved(self, index: SSAValue, mode: str) -> tuple[SSAValue, SSAValue | None]:
        """An index by the rule for those outside, and whether it counts."""
        r = self.raiser
        zero = r.build.const(0)
        if mode == "clamp":
            last = _scalar(r, "sub", self.count, r.build.const(1))
            return _scalar(r, "maximum", _scalar(r, "minimum", index, last), zero), None
        if mode == "wrap":
            return _scalar(r, "sub", index, _scalar(r, "mul", _scalar(r, "floordiv", index, self.count), self.count)), None
        if mode in ("zero", "skip"):
            low = r.apply("cmp", "scalar", lhs=index, rhs=zero, cmp_type=GE)
            high = r.apply("cmp", "scalar", lhs=index, rhs=self.count, cmp_type=LT)
            return index, r.apply("logical_and", "scalar", lhs=low, rhs=high)
        return index, None


def _gather(self: Raiser, op: PtoOp) -> None:
    target = tile(self, op, "dst")
    region = static_region(self, target)
    index, memory = read(self, tile(self, op, "idx"), region), _Flat(self, op)
    dtype = target.dtype
    result = self.build.create(BufferType(region, dtype), [])
    self.store(filled(self, region, dtype, self.build.const(0, dtype)), result, False)

    def one(cell: list[SSAValue]) -> None:
        at, counts = memory.resolved(self.cast(self.build.read(index, cell), INDEX), op.enum("gatherOob", "undefined"))
        _when(self, counts, lambda: self.build.write(result, cell, self.build.read(memory.buffer, memory.place(at))))

    _each(self, region, one)
    write(self, target, self.load(result, region, region))


def _scatter(self: Raiser, op: PtoOp) -> None:
    source = tile(self, op, "src")
    region = static_region(self, source)
    values, index, memory = read(self, source, region), read(self, tile(self, op, "idx"), region), _Flat(self, op)
    row = ATOMIC.get(op.enum("scatterAtomicOp", "none"))

    def one(cell: list[SSAValue]) -> None:
        at, counts = memory.resolved(self.cast(self.build.read(index, cell), INDEX), op.enum("scatterOob", "undefined"))

        def put() -> None:
            place, value = memory.place(at), self.build.read(values, cell)
            if row is not None:
                value = _scalar(self, row, self.build.read(memory.buffer, place), value)
            self.build.write(memory.buffer, place, value)

        _when(self, counts, put)

    _each(self, region, one)


# histograms -------------------------------------------------------------------------------------------------------------------

_BINS = 256


def _histogram(self: Raiser, op: PtoOp) -> None:
    """Cumulative counts of the high bytes; or of the low bytes of the elements whose high bytes equal the row's index."""
    source, target = tile(self, op, "src"), tile(self, op, "d")
    (rows, cols), (out_rows, out_cols) = static_region(self, source), static_region(self, target)
    size = source.dtype.get_byte()
    values = same_bits(self, read(self, source, (rows, cols)), DTYPES[f"UINT{8 * size}"])
    chosen = read(self, tile(self, op, "idx"), (rows, 1)) if not op.flag("isMSB") else None
    step, one = self.build.const(1 << (8 * (size - 1)), INDEX), self.build.const(1, INT64)
    counts = self.build.create(BufferType((rows, _BINS), INT64), [], 0)

    def count(cell: list[SSAValue]) -> None:
        value = self.cast(self.build.read(values, cell), INDEX)
        high = _scalar(self, "floordiv", value, step)
        counted, matches = high, None
        if chosen is not None:
            wanted = _low_byte(self, self.cast(self.build.read(chosen, [cell[0], self.build.const(0)]), INDEX))
            matches = self.apply("cmp", "scalar", lhs=high, rhs=wanted, cmp_type=0)
            counted = _low_byte(self, value)
        place = [cell[0], counted]
        _when(self, matches, lambda: self.build.write(counts, place, _scalar(self, "add", self.build.read(counts, place), one)))

    def accumulate(row: SSAValue, bin: SSAValue) -> None:
        before = self.build.read(counts, [row, _scalar(self, "sub", bin, self.build.const(1))])
        self.build.write(counts, [row, bin], _scalar(self, "add", self.build.read(counts, [row, bin]), before))

    _each(self, (rows, cols), count)
    _loop(self, rows, lambda row: _loop(self, _BINS, lambda bin: accumulate(row, bin), first=1))
    shape = (min(rows, out_rows), min(_BINS, out_cols))
    write(self, target, self.apply("cast", input=self.load(counts, shape, shape), target_type=target.dtype, mode="trunc"))


def _low_byte(self: Raiser, value: SSAValue) -> SSAValue:
    size = self.build.const(_BINS)
    return _scalar(self, "sub", value, _scalar(self, "mul", _scalar(self, "floordiv", value, size), size))


OPS: dict[str, Callable[[Raiser, PtoOp], None]] = {"mgather": _gather, "mscatter": _scatter, "thistogram": _histogram}
