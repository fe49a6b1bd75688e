"""Matrix products as internal LLVM functions: packed and blocked for large ones, in place for small ones, streaming for few rows.

Every function is called as

    void @gemm...(ptr a, i64 a_row, i64 a_col, ptr b, i64 b_row, i64 b_col, ptr c, i64 c_row, i64 m, i64 n, i64 k, i1 accumulate, ptr scratch)

and computes C[m, n] = A[m, k] @ B[k, n], or C += A @ B with `accumulate`. Strides count elements; those of A and B may be anything
(a transpose swaps them), the columns of C are adjacent. A and B have dtype `operand`, or B has dtype `right`, then it is turned as it is read;
C has the accumulator type `accumulator_of(operand)` (FP32 for floats, INT32 for integers up to 32 bits).
`scratch` has `scratch_bytes(module, operand)` bytes, 64-byte aligned. Sizes may be 0.
C must not overlap A or B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tilejit.backends.cpu.llvm.text import Emitter, Index, Module, Value
from tilejit.backends.cpu.llvm.vector import binary, extract, select, splat, typed
from tilejit.backends.cpu.products.kernels import (
    Elements,
    accumulator_of,
    function_emitter,
    lane_mask,
    masked_load,
    masked_store,
    packed_kernel,
    packing,
    params_of,
    write_block,
)
from tilejit.backends.cpu.schedule import GemmSchedule
from tilejit.dtypes import DType

__all__ = ["Gemm", "accumulator_of", "applies", "call_gemm", "call_variant", "gemm_function", "schedule_of", "scratch_bytes", "variants"]

_PARAMS = "ptr a, i64 a_row, i64 a_col, ptr b, i64 b_row, i64 b_col, ptr c, i64 c_row, i64 m, i64 n, i64 k, i1 accumulate, ptr scratch, ptr context"
_Size = int | None


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def schedule_of(module: Module, operand: DType) -> GemmSchedule:
    """How products of this type are done."""
    return module.schedules.gemm(accumulator_of(operand))


def scratch_bytes(module: Module, operand: DType, m: _Size = None, n: _Size = None, k: _Size = None) -> int:
    """Bytes of packing memory that one product needs; less when sizes are known."""
    kind, block = Elements(operand), schedule_of(module, operand)
    columns = block.vectors * kind.lanes
    depth = block.kc if k is None else min(k, block.kc)
    rows = block.mc if m is None else min(_round_up(m, block.rows), block.mc)
    width = block.nc if n is None else min(_round_up(n, columns), block.nc)
    return _round_up(depth * rows * kind.acc_bytes, 64) + depth * width * kind.acc_bytes + 64


class Gemm(NamedTuple):
    """C[m, n] (+)= A[m, k] @ B[k, n]."""

    a: tuple[Value, Index, Index]
    """Address, row stride, column stride."""
    b: tuple[Value, Index, Index]
    c: tuple[Value, Index]
    """Address, row stride."""
    sizes: tuple[Index, Index, Index]
    accumulate: Value | bool
    scratch: Value


def call_gemm(e: Emitter, operand: DType, gemm: Gemm, right: DType | None = None) -> None:
    """Compute a product with what suits its strides and sizes."""
    _call(e, gemm_function(e.module, operand, gemm.a[1:], gemm.b[1:], gemm.sizes, right), gemm)


def call_variant(e: Emitter, variant: str, operand: DType, gemm: Gemm, right: DType | None = None) -> None:
    """The same with one of `variants`."""
    _call(e, _BUILDERS[variant](e.module, Elements.of(operand, right)), gemm)


def _call(e: Emitter, name: str, gemm: Gemm) -> None:
    a, b, c, sizes, accumulate, scratch = gemm
    flag = accumulate if isinstance(accumulate, Value) else Value("true" if accumulate else "false", "i1")
    values = [a[0], e.i64(a[1]), e.i64(a[2]), b[0], e.i64(b[1]), e.i64(b[2]), c[0], e.i64(c[1]), *map(e.i64, sizes), flag, scratch, e.context]
    e.void(f"call void @{name}({', '.join(map(str, values))})")


def gemm_function(
    module: Module, operand: DType, a: tuple[Index, Index], b: tuple[Index, Index], sizes: tuple[Index, Index, Index], right: DType | None = None
) -> str:
    """Name of the function for these strides and sizes, added to `module` when first used; what is known now spares variants."""
    kind = Elements.of(operand, right)
    wanted = variants(schedule_of(module, operand), kind, a, b, sizes)
    return _BUILDERS[wanted[0]](module, kind) if len(wanted) == 1 else _dispatcher(module, kind, wanted)


def variants(schedule: GemmSchedule, kind: Elements, a: Sequence[Index], b: Sequence[Index], sizes: tuple[Index, Index, Index]) -> list[str]:
    """Variants that could apply to operands of these strides, best first; the last one serves always."""
    m, n, k = sizes
    out: list[str] = []
    may_few = not isinstance(m, int) or m <= schedule.few_rows
    must_few = isinstance(m, int) and m <= schedule.few_rows
    if may_few and (not isinstance(b[1], int) or b[1] == 1):
        out.append("stream")
        if must_few and b[1] == 1:
            return out
    if may_few and (not isinstance(b[0], int) or b[0] == 1) and (not isinstance(a[1], int) or a[1] == 1):
        out.append("dots")
        if must_few and b[0] == 1 and a[1] == 1:
            return out
    small = not (isinstance(n, int) and n > schedule.direct_n) and not (isinstance(k, int) and k > schedule.direct_k)
    if kind.plain and small and (not isinstance(b[1], int) or b[1] == 1):
        out.append("direct")
        if isinstance(n, int) and isinstance(k, int) and b[1] == 1:
            return out
    return [*out, "packed"]


def _dispatcher(module: Module, kind: Elements, wanted: list[str]) -> str:
    """A function that picks the variant by the sizes and strides it is given."""
    name = f"gemm.{kind.name}.{'.'.join(wanted)}"
    if name in module.functions:
        return name
    params = params_of(_PARAMS)
    _, a_row, a_col, _, b_row, b_col, _, _, m, n, k, *_ = params
    e = function_emitter(module, name, "void", params)
    for variant in wanted:
        if variant != "packed":
            with e.when(applies(e, variant, kind.operand, (a_row, a_col), (b_row, b_col), (m, n, k)), variant):
                e.void(f"call void @{_BUILDERS[variant](module, kind)}({', '.join(map(str, params))})")
                e.void("ret void")
                e.place(e.fresh("unreached"))
        else:
            e.void(f"call void @{_packed(module, kind)}({', '.join(map(str, params))})")
    e.void("ret void")
    e.finish()
    return name


def applies(e: Emitter, variant: str, operand: DType, a: Sequence[Index], b: Sequence[Index], sizes: tuple[Index, Index, Index]) -> Value:
    """Whether a variant other than the packed one is meant for these strides and sizes."""
    m, n, k = sizes
    schedule = schedule_of(e.module, operand)
    if variant == "direct":
        tests = [e.icmp("eq", b[1], 1), e.icmp("sle", n, schedule.direct_n), e.icmp("sle", k, schedule.direct_k)]
    elif variant == "stream":
        tests = [e.icmp("eq", b[1], 1), e.icmp("sle", m, schedule.few_rows)]
    else:
        tests = [e.icmp("eq", b[0], 1), e.icmp("eq", a[1], 1), e.icmp("sle", m, schedule.few_rows)]
    condition = tests[0]
    for test in tests[1:]:
        condition = binary(e, "and", condition, test)
    return condition


# packed -----------------------------------------------------------------------------------------------------------------


def _packed(module: Module, kind: Elements) -> str:
    name = f"gemm.{kind.name}.packed"
    if name in module.functions:
        return name
    block = schedule_of(module, kind.operand)
    columns = block.vectors * kind.lanes
    params = params_of(_PARAMS)
    a, a_row, a_col, b, b_row, b_col, c, c_row, m, n, k, accumulate, scratch, _ = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    pack_a, pack_b = packing(module, kind, block.rows), packing(module, kind.b, columns)
    packed_b = e.offset(scratch, _packed_a_bytes(e, kind, block, m, k), "i8")
    tile = e.alloca(f"[{block.rows * columns} x {kind.acc}]")
    _clear_without_depth(e, kind, (c, c_row), (m, n, k), accumulate)
    with e.loop(0, n, block.nc, name="jc") as jc:
        width = e.min(e.sub(n, jc.iv), block.nc)
        with e.loop(0, k, block.kc, name="pc") as pc:
            depth = e.min(e.sub(k, pc.iv), block.kc)
            adding = binary(e, "or", accumulate, e.icmp("sgt", pc.iv, 0))
            with e.loop(0, width, columns, name="pack_b") as loop:
                start = e.add(e.mul(pc.iv, b_row), e.mul(e.add(jc.iv, loop.iv), b_col))
                count = e.min(e.sub(width, loop.iv), columns)
                to, at = e.offset(packed_b, e.mul(loop.iv, depth), kind.acc), e.offset(b, start, kind.b.operand.llvm)
                e.void(f"call void @{pack_b}({to}, {at}, {b_col}, {b_row}, {e.i64(count)}, {e.i64(depth)})")
            with e.loop(0, m, block.mc, name="ic") as ic:
                e.look()
                height = e.min(e.sub(m, ic.iv), block.mc)
                with e.loop(0, height, block.rows, name="pack_a") as loop:
                    start = e.add(e.mul(e.add(ic.iv, loop.iv), a_row), e.mul(pc.iv, a_col))
                    count = e.min(e.sub(height, loop.iv), block.rows)
                    to, at = e.offset(scratch, e.mul(loop.iv, depth), kind.acc), e.offset(a, start, kind.operand.llvm)
                    e.void(f"call void @{pack_a}({to}, {at}, {a_row}, {a_col}, {e.i64(count)}, {e.i64(depth)})")
                corner = e.offset(c, e.add(e.mul(ic.iv, c_row), jc.iv), kind.acc)
                _blocks(e, kind, block, (scratch, packed_b, tile), (corner, c_row), (height, width, depth), adding)
    e.void("ret void")
    e.finish()
    return name


def _packed_a_bytes(e: Emitter, kind: Elements, block: GemmSchedule, m: Value, k: Value) -> Value:
    """Bytes of the packed part of A, in whole cache lines: where that of B begins (see `scratch_bytes`)."""
    panels = e.inst("i64", f"udiv i64 {e.i64(e.add(m, block.rows - 1)).text}, {block.rows}")
    rows = e.min(e.mul(panels, block.rows), block.mc)
    size = e.mul(e.mul(rows, e.min(k, block.kc)), kind.acc_bytes)
    return e.inst("i64", f"and i64 {e.i64(e.add(size, 63)).text}, -64")


def _clear_without_depth(e: Emitter, kind: Elements, c: tuple[Value, Value], sizes: tuple[Value, Value, Value], accumulate: Value) -> None:
    """k = 0: the product is 0, which nothing else writes."""
    m, n, k = sizes
    with e.when(e.icmp("sle", k, 0), "empty"):
        with e.when(binary(e, "xor", accumulate, Value("true", "i1")), "clear"), e.loop(0, m) as i, e.loop(0, n) as j:
            e.store(kind.zero(1), e.offset(c[0], e.add(e.mul(i.iv, c[1]), j.iv), kind.acc), kind.acc_bytes)
        e.void("ret void")
        e.place(e.fresh("unreached"))


def _blocks(
    e: Emitter,
    kind: Elements,
    block: GemmSchedule,
    memory: tuple[Value, Value, Value],
    c: tuple[Value, Value],
    sizes: tuple[Index, Index, Index],
    accumulate: Value,
) -> None:
    """All register blocks of a packed block of A and B; those at the edges go through `tile`."""
    packed_a, packed_b, tile = memory
    corner, c_row = c
    height, width, depth = sizes
    columns = block.vectors * kind.lanes
    micro = packed_kernel(e.module, kind, block)
    with e.loop(0, width, columns, name="jr") as jr:
        right = e.offset(packed_b, e.mul(jr.iv, depth), kind.acc)
        wide = e.sub(width, jr.iv)
        with e.loop(0, height, block.rows, name="ir") as ir:
            left = e.offset(packed_a, e.mul(ir.iv, depth), kind.acc)
            high = e.sub(height, ir.iv)
            place = e.offset(corner, e.add(e.mul(ir.iv, c_row), jr.iv), kind.acc)
            full = binary(e, "and", e.icmp("sge", wide, columns), e.icmp("sge", high, block.rows))
            stem = e.fresh("block")
            e.cbr(full, f"{stem}.full", f"{stem}.edge")
            e.place(f"{stem}.full")
            e.void(f"call void @{micro}({left}, {right}, {place}, {c_row}, {e.i64(depth)}, {accumulate})")
            e.br(f"{stem}.done")
            e.place(f"{stem}.edge")
            e.void(f"call void @{micro}({left}, {right}, {tile}, i64 {columns}, {e.i64(depth)}, i1 false)")
            _copy_edge(e, kind, block, tile, (place, c_row), (e.min(high, block.rows), wide), accumulate)
            e.br(f"{stem}.done")
            e.place(f"{stem}.done")


def _copy_edge(
    e: Emitter, kind: Elements, block: GemmSchedule, tile: Value, c: tuple[Value, Value], sizes: tuple[Index, Index], accumulate: Value
) -> None:
    """The part of a full tile that lies inside C."""
    lanes = kind.lanes
    masks = [lane_mask(e, e.sub(sizes[1], v * lanes), lanes) for v in range(block.vectors)]
    with e.loop(0, sizes[0]) as row:
        for v, mask in enumerate(masks):
            value = kind.load_acc(e, e.offset(tile, e.add(e.mul(row.iv, block.vectors * lanes), v * lanes), kind.acc), lanes)
            place = e.offset(c[0], e.add(e.mul(row.iv, c[1]), v * lanes), kind.acc)
            masked_store(e, kind, _added(e, kind, value, place, mask, accumulate), place, mask, lanes)


def _added(e: Emitter, kind: Elements, value: Value, place: Value, mask: Value, accumulate: Value) -> Value:
    lanes = kind.lanes
    old = masked_load(e, kind, place, binary(e, "and", mask, splat(e, accumulate, lanes)), lanes)
    return select(e, splat(e, accumulate, lanes), kind.add(e, old, value), value)


# in place ---------------------------------------------------------------------------------------------------------------


def _direct(module: Module, kind: Elements) -> str:
    """Small products: A and B are read where they lie; the columns of B must be adjacent."""
    name = f"gemm.{kind.name}.direct"
    if name in module.functions:
        return name
    block = schedule_of(module, kind.operand)
    columns, lanes = block.vectors * kind.lanes, kind.lanes
    params = params_of(_PARAMS)
    a, a_row, a_col, b, b_row, _, c, c_row, m, n, k, accumulate, *_ = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    full, part = _direct_kernel(module, kind, block, masked=False), _direct_kernel(module, kind, replace(block, vectors=1), masked=True)
    whole = e.sub(n, e.inst("i64", f"srem i64 {n.text}, {columns}"))
    with e.loop(0, m, block.rows, name="i") as i:
        e.look()
        rows = e.min(e.sub(m, i.iv), block.rows)
        left, down = e.offset(a, e.mul(i.iv, a_row), kind.acc), e.offset(c, e.mul(i.iv, c_row), kind.acc)
        for lower, upper, step, kernel in ((0, whole, columns, full), (whole, n, lanes, part)):
            with e.loop(lower, upper, step, name="j") as j:
                right, place = e.offset(b, j.iv, kind.acc), e.offset(down, j.iv, kind.acc)
                width = e.sub(n, j.iv)
                values = [left, a_row, a_col, right, b_row, place, c_row, e.i64(rows), e.i64(width), k, accumulate]
                e.void(f"call void @{kernel}({', '.join(map(str, values))})")
    e.void("ret void")
    e.finish()
    return name


def _direct_kernel(module: Module, kind: Elements, block: GemmSchedule, *, masked: bool) -> str:
    """One register block from A and B in place. Missing rows repeat the last one and are not stored; a mask guards the columns."""
    name = f"gemm.direct.{kind.acc}.{block.vectors}"
    if name in module.functions:
        return name
    params = params_of("ptr a, i64 a_row, i64 a_col, ptr b, i64 b_row, ptr c, i64 c_row, i64 rows, i64 width, i64 k, i1 accumulate")
    a, a_row, a_col, b, b_row, c, c_row, rows, width, k, accumulate = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    lanes = kind.lanes
    mask = lane_mask(e, width, lanes) if masked else None
    last = e.sub(rows, 1)
    lefts = [e.offset(a, e.mul(e.min(i, last) if i else 0, a_row), kind.acc) for i in range(block.rows)]

    def row_of_b(at: Value, v: int) -> Value:
        place = e.offset(at, v * lanes, kind.acc)
        return kind.load_acc(e, place, lanes) if mask is None else masked_load(e, kind, place, mask, lanes)

    with e.loop(0, k, carried=[kind.zero(lanes)] * (block.rows * block.vectors), name="k") as loop:
        at_b, along = e.offset(b, e.mul(loop.iv, b_row), kind.acc), e.mul(loop.iv, a_col)
        right = [row_of_b(at_b, v) for v in range(block.vectors)]
        sums: list[Value] = []
        for i in range(block.rows):
            one = splat(e, kind.load_acc(e, e.offset(lefts[i], along, kind.acc), 1), lanes)
            sums += [kind.multiply_add(e, one, right[v], loop.carried[i * block.vectors + v]) for v in range(block.vectors)]
        loop.next = sums
    sums = loop.results
    if mask is None:
        with e.when(e.icmp("eq", rows, block.rows), "all"):
            write_block(e, kind, block, sums, c, c_row, accumulate)
            e.void("ret void")
            e.place(e.fresh("unreached"))
    everywhere = mask or Value("splat (i1 true)", typed("i1", lanes))
    for i in range(block.rows):
        with e.when(e.icmp("sgt", rows, i), "row"):
            for v in range(block.vectors):
                place = e.offset(c, e.add(e.mul(c_row, i), v * lanes), kind.acc)
                masked_store(e, kind, _added(e, kind, sums[i * block.vectors + v], place, everywhere, accumulate), place, everywhere, lanes)
    e.void("ret void")
    e.finish()
    return name


# few rows ---------------------------------------------------------------------------------------------------------------

_STREAM_DEPTH = 4
"""Rows of B that are read side by side."""


def _stream(module: Module, kind: Elements) -> str:
    """At most a few rows of A: row after row of B is read once, and C, which is small, is updated in place."""
    name = f"gemm.{kind.name}.stream"
    if name in module.functions:
        return name
    params = params_of(_PARAMS)
    a, a_row, a_col, b, b_row, _, c, c_row, m, n, k, accumulate, *_ = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    with e.when(binary(e, "xor", accumulate, Value("true", "i1")), "clear"), e.loop(0, m) as i, e.loop(0, n) as j:
        e.store(kind.zero(1), e.offset(c, e.add(e.mul(i.iv, c_row), j.iv), kind.acc), kind.acc_bytes)
    source, lanes = kind.operand.llvm, 2 * kind.lanes
    deep = e.inst("i64", f"and i64 {k.text}, {-_STREAM_DEPTH}")
    wide = e.inst("i64", f"and i64 {n.text}, {-lanes}")
    for k_lower, k_upper, depth in ((0, deep, _STREAM_DEPTH), (deep, k, 1)):
        with e.loop(k_lower, k_upper, depth, name="k") as step, e.loop(0, m, name="i") as i:
            e.look()
            left = e.offset(a, e.add(e.mul(i.iv, a_row), e.mul(step.iv, a_col)), source)
            ones = [kind.load(e, e.offset(left, e.mul(a_col, u), source), 1) for u in range(depth)]
            rows = [e.offset(b, e.mul(e.add(step.iv, u), b_row), kind.b.operand.llvm) for u in range(depth)]
            out = e.offset(c, e.mul(i.iv, c_row), kind.acc)
            for lower, upper, width in ((0, wide, lanes), (wide, n, 1)):
                spread = [splat(e, one, width) for one in ones]
                with e.loop(lower, upper, width, name="j") as j:
                    place = e.offset(out, j.iv, kind.acc)
                    total = kind.load_acc(e, place, width)
                    for one, row in zip(spread, rows, strict=True):
                        total = kind.multiply_add(e, one, kind.b.load(e, e.offset(row, j.iv, kind.b.operand.llvm), width), total)
                    e.store(total, place, kind.acc_bytes)
    e.void("ret void")
    e.finish()
    return name


def _dots(module: Module, kind: Elements) -> str:
    """At most a few rows of A, and B transposed: every cell of C is a dot product of two contiguous rows."""
    name = f"gemm.{kind.name}.dots"
    if name in module.functions:
        return name
    params = params_of(_PARAMS)
    a, a_row, _, b, _, b_col, c, c_row, m, n, k, accumulate, *_ = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    several = schedule_of(module, kind.operand).vectors
    together = e.inst("i64", f"and i64 {m.text}, {-several}")
    with e.loop(0, n, name="j") as j:
        right = e.offset(b, e.mul(j.iv, b_col), kind.b.operand.llvm)
        for lower, upper, rows in ((0, together, several), (together, m, 1)):
            with e.loop(lower, upper, rows, name="i") as i:
                e.look()
                lefts = [e.offset(a, e.mul(e.add(i.iv, r), a_row), kind.operand.llvm) for r in range(rows)]
                for r, total in enumerate(_dot_products(e, kind, lefts, right, k)):
                    place = e.offset(c, e.add(e.mul(e.add(i.iv, r), c_row), j.iv), kind.acc)
                    old = select(e, accumulate, kind.load_acc(e, place, 1), kind.zero(1))
                    e.store(kind.add(e, old, total), place, kind.acc_bytes)
    e.void("ret void")
    e.finish()
    return name


_DOT_SUMS = 4
"""Vectors of sums of each dot product: enough of them that one row keeps the processor busy."""


def _dot_products(e: Emitter, kind: Elements, lefts: Sequence[Value], right: Value, k: Value) -> list[Value]:
    """Each of some rows of A times one column of B, which is read once; every sum has the same order, however many rows there are."""
    lanes, rows = kind.lanes, len(lefts)
    deep = e.inst("i64", f"and i64 {k.text}, {-_DOT_SUMS * lanes}")

    def step(at: Index, width: int, sums: Sequence[Value]) -> list[Value]:
        shared = kind.b.load(e, e.offset(right, at, kind.b.operand.llvm), width)
        own = [kind.load(e, e.offset(left, at, kind.operand.llvm), width) for left in lefts]
        return [kind.multiply_add(e, one, shared, total) for one, total in zip(own, sums, strict=True)]

    with e.loop(0, deep, _DOT_SUMS * lanes, [kind.zero(lanes)] * (_DOT_SUMS * rows), name="k") as loop:
        loop.next = [total for u in range(_DOT_SUMS) for total in step(e.add(loop.iv, u * lanes), lanes, loop.carried[u * rows : (u + 1) * rows])]
    totals: list[Value] = []
    for r in range(rows):
        one, two, three, four = loop.results[r::rows]
        totals.append(_collapsed(e, kind, kind.add(e, kind.add(e, one, two), kind.add(e, three, four))))
    with e.loop(deep, k, 1, totals, name="k") as loop:
        loop.next = step(loop.iv, 1, loop.carried)
    return loop.results


def _collapsed(e: Emitter, kind: Elements, vector: Value) -> Value:
    total = extract(e, vector, 0)
    for lane in range(1, kind.lanes):
        total = kind.add(e, total, extract(e, vector, lane))
    return total


_BUILDERS = {"packed": _packed, "direct": _direct, "stream": _stream, "dots": _dots}
