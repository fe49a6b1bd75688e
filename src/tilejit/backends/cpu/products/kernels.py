"""The inner parts of matrix products: register blocks, micro-kernels and masked access to C."""

from __future__ import annotations

from collections.abc import Sequence

from tilejit.backends.cpu.llvm.text import Emitter, Index, Module, Value
from tilejit.backends.cpu.llvm.vector import binary, select, splat, typed
from tilejit.backends.cpu.products.elements import Elements
from tilejit.backends.cpu.schedule import GemmSchedule

LINE = 64
"""Bytes of a cache line."""
PARAMS = "ptr a, i64 a_row, i64 a_col, ptr b, i64 b_row, i64 b_col, ptr c, i64 c_row, i64 m, i64 n, i64 k, i1 accumulate, ptr scratch, ptr context"
"""What every product is given (gemm.py)."""


def function_emitter(module: Module, name: str, result: str, params: Sequence[Value], attributes: str = "nounwind") -> Emitter:
    return Emitter(module, name, result, params, attributes, "internal")


def head_words(kind: Elements, columns: int) -> int:
    """Words at the start of a panel of B: what its sums start from, where that is not 0."""
    return columns if kind.corrected else 0


def params_of(text: str) -> list[Value]:
    """`ptr a, i64 k` as values."""
    return [Value(f"%{part.split()[1]}", part.split()[0]) for part in text.split(", ")]


MICRO = "ptr a, i64 a_row, i64 a_step, ptr b, ptr c, i64 c_row, i64 steps, i1 accumulate, ptr ahead"
"""What a micro-kernel is given: rows of A so many bytes apart, and the words of one; a panel of B, so many words deep; memory that comes next."""

_STEPS_AHEAD = 16
"""Steps along the depth after which the part of a panel of A is used that is asked for now."""

# micro-kernels ----------------------------------------------------------------------------------------------------------


def packed_kernel(module: Module, kind: Elements, block: GemmSchedule) -> str:
    """A block of C from rows of A and a panel of B (`MICRO`)."""
    name = f"gemm.micro.{kind.name}"
    if name in module.functions:
        return name
    params = params_of(MICRO)
    a, *strides, b, c, c_row, steps, accumulate, ahead = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    # Of panels, addresses are known distances apart.
    a_row, a_step = strides if block.in_place else (kind.acc_bytes, block.rows * kind.acc_bytes)
    width, columns = kind.lanes, block.vectors * kind.lanes

    def step(sums: list[Value], at_a: Index, at_b: Value) -> list[Value]:
        row = [kind.load_words(e, e.offset(at_b, v * width, kind.word), width) for v in range(block.vectors)]
        out: list[Value] = []
        for i in range(block.rows):
            one = splat(e, kind.load_words(e, e.offset(lefts[i], at_a, "i8"), 1), width)
            out += [kind.multiply_add(e, one, row[v], sums[i * block.vectors + v]) for v in range(block.vectors)]
        return out

    start = [kind.load_acc(e, e.offset(b, v * width, kind.acc), width) if kind.corrected else kind.zero(width) for v in range(block.vectors)]
    sums = start * block.rows
    b = e.offset(b, head_words(kind, columns), kind.word)
    lefts = [e.offset(a, e.mul(a_row, i), "i8") for i in range(block.rows)]
    with e.loop(0, block.rows, name="ask") as row:
        for v in range(block.vectors):
            prefetch(e, e.offset(c, e.add(e.mul(c_row, row.iv), v * width), kind.acc), to_write=True)
    whole = e.inst("i64", f"and i64 {steps.text}, {-block.unroll}")
    for lower, upper, times in ((0, whole, block.unroll), (whole, steps, 1)):
        with e.loop(lower, upper, times, sums) as loop:
            sums = loop.carried
            at_a = e.mul(loop.iv, a_step)
            at_b = e.offset(b, e.mul(loop.iv, columns), kind.word)
            for u in range(0, times, 2):
                ask_beyond(e, e.offset(a, at_a, "i8"), "i8", e.mul(a_step, _STEPS_AHEAD + u))
            if times > 1:
                prefetch(e, e.offset(ahead, e.mul(loop.iv, LINE // block.unroll), "i8"), near=2)
            for u in range(times):
                sums = step(sums, e.add(at_a, e.mul(a_step, u)), e.offset(at_b, u * columns, kind.word))
            loop.next = sums
        sums = loop.results
    write_block(e, kind, block, sums, c, c_row, accumulate)
    e.void("ret void")
    e.finish()
    return name


def prefetch(e: Emitter, pointer: Value, near: int = 3, *, to_write: bool = False) -> None:
    """Have memory brought into the caches, the first (`near` 3) or the second one (2)."""
    e.module.declare("llvm.prefetch.p0", "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    e.void(f"call void @llvm.prefetch.p0(ptr {pointer.text}, i32 {int(to_write)}, i32 {near}, i32 1)")


def ask_beyond(e: Emitter, pointer: Value, type: str, elements: Index, near: int = 3) -> None:
    """Have what lies so many elements further on brought into the caches, should there be anything."""
    prefetch(e, e.inst("ptr", f"getelementptr {type}, ptr {pointer.text}, {e.i64(elements)}"), near)


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


def added(e: Emitter, kind: Elements, value: Value, place: Value, mask: Value, accumulate: Value) -> Value:
    """A vector of sums, on top of what is there if it is to be accumulated."""
    lanes = kind.lanes
    old = masked_load(e, kind, place, binary(e, "and", mask, splat(e, accumulate, lanes)), lanes)
    return select(e, splat(e, accumulate, lanes), kind.add(e, old, value), value)
