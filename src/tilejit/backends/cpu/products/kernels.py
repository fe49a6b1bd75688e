"""The inner parts of matrix products: element kinds, register blocks, micro-kernels and packing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilejit.backends.cpu.lanes.registers import from_memory
from tilejit.backends.cpu.lanes.vmath_blocks import fma
from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.cpu.llvm.text import Emitter, Index, Module, Value
from tilejit.backends.cpu.llvm.vector import binary, constant, convert, shuffle, splat, typed
from tilejit.backends.cpu.schedule import GemmSchedule
from tilejit.dtypes import FP32, INT32, INT64, DType

POINTER = "ptr"


def accumulator_of(operand: DType) -> DType:
    """The type in which products of `operand` are summed and C is held."""
    if operand.is_float:
        return FP32
    return INT32 if operand.bits <= 32 else INT64


@dataclass(frozen=True, slots=True)
class Elements:
    """The types of one kind of product."""

    operand: DType
    right: DType | None = None
    """The type of B where it is another: B is turned as it is read."""
    summed: DType | None = None
    """The type of the sums where it does not follow from the operand."""

    @staticmethod
    def of(left: DType, right: DType | None) -> Elements:
        return Elements(left, None if right is left else right)

    @property
    def b(self) -> Elements:
        """How B is read."""
        return self if self.right is None else Elements(self.right, summed=self.accumulator)

    @property
    def name(self) -> str:
        return self.operand.name if self.right is None else f"{self.operand.name}.{self.right.name}"

    @property
    def accumulator(self) -> DType:
        return self.summed or accumulator_of(self.operand)

    @property
    def acc(self) -> str:
        """LLVM type of a sum."""
        return self.accumulator.llvm

    @property
    def acc_bytes(self) -> int:
        return self.accumulator.get_byte()

    @property
    def lanes(self) -> int:
        return host().vector_bits // (8 * self.acc_bytes)

    @property
    def plain(self) -> bool:
        """Whether operands are held in memory as they are summed."""
        return self.operand.llvm == self.acc and self.right is None

    def load(self, e: Emitter, pointer: Value, width: int) -> Value:
        """Operand elements as accumulator lanes."""
        value = from_memory(e, self.operand, e.load(typed(self.operand.llvm, width), pointer, self.operand.get_byte()))
        if self.operand.is_float:
            return value
        to_float, to_integer = ("sitofp", "sext") if self.operand.is_signed else ("uitofp", "zext")
        return convert(e, to_float if self.accumulator.is_float else to_integer, value, self.acc)

    def load_acc(self, e: Emitter, pointer: Value, width: int) -> Value:
        return e.load(typed(self.acc, width), pointer, self.acc_bytes)

    def multiply_add(self, e: Emitter, a: Value, b: Value, addend: Value) -> Value:
        if self.accumulator.is_float:
            return fma(e, a, b, addend)
        return binary(e, "add", binary(e, "mul", a, b), addend)

    def add(self, e: Emitter, a: Value, b: Value) -> Value:
        return binary(e, "fadd" if self.accumulator.is_float else "add", a, b)

    def zero(self, width: int) -> Value:
        return constant(typed(self.acc, width), 0)


def function_emitter(module: Module, name: str, result: str, params: Sequence[Value], attributes: str = "nounwind") -> Emitter:
    return Emitter(module, name, result, params, attributes, "internal")


def params_of(text: str) -> list[Value]:
    """`ptr a, i64 k` as values."""
    return [Value(f"%{part.split()[1]}", part.split()[0]) for part in text.split(", ")]


# micro-kernels ----------------------------------------------------------------------------------------------------------


def packed_kernel(module: Module, kind: Elements, block: GemmSchedule) -> str:
    """`void (ptr a, ptr b, ptr c, i64 c_row, i64 k, i1 accumulate)`: a block of C from packed panels of A and B."""
    name = f"gemm.micro.{kind.acc}"
    if name in module.functions:
        return name
    params = params_of("ptr a, ptr b, ptr c, i64 c_row, i64 k, i1 accumulate")
    a, b, c, c_row, k, accumulate = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    width, columns = kind.lanes, block.vectors * kind.lanes

    def step(sums: list[Value], at_a: Value, at_b: Value) -> list[Value]:
        row = [kind.load_acc(e, e.offset(at_b, v * width, kind.acc), width) for v in range(block.vectors)]
        out: list[Value] = []
        for i in range(block.rows):
            one = splat(e, kind.load_acc(e, e.offset(at_a, i, kind.acc), 1), width)
            out += [kind.multiply_add(e, one, row[v], sums[i * block.vectors + v]) for v in range(block.vectors)]
        return out

    sums = [kind.zero(width)] * (block.rows * block.vectors)
    for i in range(block.rows):
        prefetch(e, e.offset(c, e.mul(c_row, i), kind.acc))
    whole = e.inst("i64", f"and i64 {k.text}, {-block.unroll}")
    for lower, upper, times in ((0, whole, block.unroll), (whole, k, 1)):
        with e.loop(lower, upper, times, sums) as loop:
            sums = loop.carried
            at_a = e.offset(a, e.mul(loop.iv, block.rows), kind.acc)
            at_b = e.offset(b, e.mul(loop.iv, columns), kind.acc)
            for u in range(times):
                sums = step(sums, e.offset(at_a, u * block.rows, kind.acc), e.offset(at_b, u * columns, kind.acc))
            loop.next = sums
        sums = loop.results
    write_block(e, kind, block, sums, c, c_row, accumulate)
    e.void("ret void")
    e.finish()
    return name


def prefetch(e: Emitter, pointer: Value) -> None:
    e.module.declare("llvm.prefetch.p0", "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    e.void(f"call void @llvm.prefetch.p0(ptr {pointer.text}, i32 1, i32 3, i32 1)")


def write_block(e: Emitter, kind: Elements, block: GemmSchedule, sums: Sequence[Value], c: Value, c_row: Index, accumulate: Value) -> None:
    """Store a full block of sums to C, or add it to what is there."""
    width = kind.lanes
    stem = e.fresh("write")
    e.cbr(accumulate, f"{stem}.add", f"{stem}.set")
    for label in ("add", "set"):
        e.place(f"{stem}.{label}")
        for i in range(block.rows):
            row = e.offset(c, e.mul(c_row, i), kind.acc)
            for v in range(block.vectors):
                place, value = e.offset(row, v * width, kind.acc), sums[i * block.vectors + v]
                e.store(kind.add(e, kind.load_acc(e, place, width), value) if label == "add" else value, place, kind.acc_bytes)
        e.br(f"{stem}.done")
    e.place(f"{stem}.done")


def lane_mask(e: Emitter, count: Index, width: int) -> Value:
    """Lanes below `count`."""
    numbers = Value("<" + ", ".join(f"i64 {i}" for i in range(width)) + ">", typed("i64", width))
    return e.inst(typed("i1", width), f"icmp slt {numbers}, {splat(e, e.i64(count), width).text}")


def masked_load(e: Emitter, kind: Elements, pointer: Value, mask: Value, width: int) -> Value:
    """Accumulator lanes where the mask is set, 0 elsewhere."""
    type = typed(kind.acc, width)
    name = f"llvm.masked.load.v{width}{_suffix(kind.acc)}.p0"
    e.module.declare(name, f"declare {type} @{name}(ptr, {mask.type}, {type})")
    return e.inst(type, f"call {type} @{name}(ptr align {kind.acc_bytes} {pointer.text}, {mask}, {type} zeroinitializer)")


def masked_store(e: Emitter, kind: Elements, value: Value, pointer: Value, mask: Value, width: int) -> None:
    name = f"llvm.masked.store.v{width}{_suffix(kind.acc)}.p0"
    e.module.declare(name, f"declare void @{name}({value.type}, ptr, {mask.type})")
    e.void(f"call void @{name}({value}, ptr align {kind.acc_bytes} {pointer.text}, {mask})")


def _suffix(type: str) -> str:
    return {"float": "f32", "double": "f64"}.get(type, type)


# packing ----------------------------------------------------------------------------------------------------------------


def packing(module: Module, kind: Elements, size: int) -> str:
    """`void (ptr to, ptr from, i64 across, i64 along, i64 count, i64 k)`: a panel to[k][size] of from[i*across + k*along].

    Only i < count are read; the rest of the panel is 0, so that kernels need no tails.
    """
    name = f"gemm.pack.{kind.operand.name}.{kind.acc}.{size}"
    if name in module.functions:
        return name
    params = params_of("ptr to, ptr from, i64 across, i64 along, i64 count, i64 k")
    to, source, across, along, count, k = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    stem = e.fresh("pack")
    e.cbr(e.icmp("eq", count, size), f"{stem}.full", f"{stem}.part")
    e.place(f"{stem}.full")
    e.cbr(e.icmp("eq", across, 1), f"{stem}.copy", f"{stem}.other")
    e.place(f"{stem}.copy")
    _pack_copy(e, kind, size, to, source, along, k)
    e.void("ret void")
    e.place(f"{stem}.other")
    e.cbr(e.icmp("eq", along, 1), f"{stem}.turn", f"{stem}.part")
    e.place(f"{stem}.turn")
    _pack_turned(e, kind, size, to, source, across, k)
    e.void("ret void")
    e.place(f"{stem}.part")
    _pack_any(e, kind, size, (to, source), (across, along), (count, k))
    e.void("ret void")
    e.finish()
    return name


def _pack_copy(e: Emitter, kind: Elements, size: int, to: Value, source: Value, along: Index, k: Index) -> None:
    """The panel's rows are contiguous: copy them in pieces of a vector and what is left."""
    pieces: list[tuple[int, int]] = []
    at, width = 0, kind.lanes
    while at < size:
        while at + width > size:
            width //= 2
        pieces.append((at, width))
        at += width
    with e.loop(0, k) as loop:
        row, out = e.offset(source, e.mul(loop.iv, along), kind.operand.llvm), e.offset(to, e.mul(loop.iv, size), kind.acc)
        for at, width in pieces:
            e.store(kind.load(e, e.offset(row, at, kind.operand.llvm), width), e.offset(out, at, kind.acc), kind.acc_bytes)


_TURN = 4
"""Side of the squares that are transposed in registers."""


def _pack_turned(e: Emitter, kind: Elements, size: int, to: Value, source: Value, across: Index, k: Index) -> None:
    """Contiguous along k: transpose squares in registers, then the last few k one by one."""
    whole = e.inst("i64", f"and i64 {e.i64(k).text}, {-_TURN}")
    squares, left = size - size % _TURN, size % _TURN

    def turn(column: Value, out: Value, first: Index, rows: int) -> None:
        loaded = [kind.load(e, e.offset(column, e.mul(across, e.add(first, i)), kind.operand.llvm), _TURN) for i in range(rows)]
        for j, turned in enumerate(_transposed(e, loaded)):
            e.store(turned, e.offset(out, e.add(first, j * size), kind.acc), kind.acc_bytes)

    with e.loop(0, whole, _TURN) as loop:
        column = e.offset(source, loop.iv, kind.operand.llvm)
        out = e.offset(to, e.mul(loop.iv, size), kind.acc)
        with e.loop(0, squares, _TURN) as first:
            turn(column, out, first.iv, _TURN)
        if left:
            turn(column, out, squares, left)
    start, place = e.offset(source, whole, kind.operand.llvm), e.offset(to, e.mul(whole, size), kind.acc)
    _pack_any(e, kind, size, (place, start), (across, 1), (size, e.sub(k, whole)))


def _transposed(e: Emitter, rows: list[Value]) -> list[Value]:
    """The columns of two or four rows of four."""
    if len(rows) == 2:
        return [shuffle(e, rows[0], rows[1], [j, _TURN + j]) for j in range(_TURN)]
    assert len(rows) == _TURN, "panels have an even size"
    low = [shuffle(e, rows[i], rows[i + 1], [0, 4, 1, 5]) for i in (0, 2)]
    high = [shuffle(e, rows[i], rows[i + 1], [2, 6, 3, 7]) for i in (0, 2)]
    return [shuffle(e, first, second, picks) for first, second in (low, high) for picks in ([0, 1, 4, 5], [2, 3, 6, 7])]


def _pack_any(e: Emitter, kind: Elements, size: int, places: tuple[Value, Value], strides: tuple[Index, Index], counts: tuple[Index, Index]) -> None:
    """Any strides, and panels that are not full."""
    (to, source), (across, along), (count, k) = places, strides, counts
    with e.loop(0, k) as step:
        column = e.offset(source, e.mul(step.iv, along), kind.operand.llvm)
        out = e.offset(to, e.mul(step.iv, size), kind.acc)
        with e.loop(0, count) as loop:
            one = kind.load(e, e.offset(column, e.mul(loop.iv, across), kind.operand.llvm), 1)
            e.store(one, e.offset(out, loop.iv, kind.acc), kind.acc_bytes)
        with e.loop(count, size) as loop:
            e.store(kind.zero(1), e.offset(out, loop.iv, kind.acc), kind.acc_bytes)
