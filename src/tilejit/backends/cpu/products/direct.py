"""Small products: A is read where it lies, and B too, or a transposed copy of it."""

from __future__ import annotations

from dataclasses import replace

from tilejit.backends.cpu.llvm.text import Module, Value
from tilejit.backends.cpu.llvm.vector import splat, typed
from tilejit.backends.cpu.memory.storage import Array
from tilejit.backends.cpu.nests.transpose import transpose_into
from tilejit.backends.cpu.products.elements import Elements
from tilejit.backends.cpu.products.kernels import PARAMS, added, function_emitter, lane_mask, masked_load, masked_store, params_of, write_block
from tilejit.backends.cpu.schedule import GemmSchedule

_LAST_ROWS = 2
"""Rows of the blocks of what is left below whole blocks."""


def direct(module: Module, kind: Elements) -> str:
    """The columns of B must be adjacent, and operands what they are summed as."""
    name = f"gemm.{kind.name}.direct"
    if name in module.functions:
        return name
    block = module.schedules.gemm(kind.accumulator)
    columns, lanes = block.vectors * kind.lanes, kind.lanes
    params = params_of(PARAMS)
    a, a_row, a_col, b, b_row, _, c, c_row, m, n, k, accumulate, *_ = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    full, part = _direct_kernel(module, kind, block, masked=False), _direct_kernel(module, kind, replace(block, vectors=1), masked=True)
    # Few rows that are left would take as long as a block.
    last = _direct_kernel(module, kind, replace(block, rows=_LAST_ROWS), masked=False)
    whole, blocks = e.sub(n, e.inst("i64", f"srem i64 {n.text}, {columns}")), e.sub(m, e.inst("i64", f"srem i64 {m.text}, {block.rows}"))
    wide, narrow = (0, whole, columns), (whole, n, lanes)
    for down, parts in (
        ((0, blocks, block.rows), ((wide, full), (narrow, part))), ((blocks, m, _LAST_ROWS), ((wide, last),)), ((blocks, m, block.rows), ((narrow, part),)),
    ):  # fmt: skip
        with e.loop(*down, name="i") as i:
            e.look()
            rows = e.min(e.sub(m, i.iv), down[2])
            left, place = e.offset(a, e.mul(i.iv, a_row), kind.acc), e.offset(c, e.mul(i.iv, c_row), kind.acc)
            for across, kernel in parts:
                with e.loop(*across, name="j") as j:
                    at, here = e.offset(b, j.iv, kind.acc), e.offset(place, j.iv, kind.acc)
                    values = [left, a_row, a_col, at, b_row, here, c_row, e.i64(rows), e.i64(e.sub(n, j.iv)), k, accumulate]
                    e.void(f"call void @{kernel}({', '.join(map(str, values))})")
    e.void("ret void")
    e.finish()
    return name


def turned(module: Module, kind: Elements) -> str:
    """The same for a B whose rows are adjacent: it is transposed first, which takes less than packing both."""
    name = f"gemm.{kind.name}.turned"
    if name in module.functions:
        return name
    params = params_of(PARAMS)
    a, a_row, a_col, b, _, b_col, c, c_row, m, n, k, accumulate, scratch, context = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    source = Array(b, kind.operand, (k, n), (1, b_col), (k, n), frozenset())
    transpose_into(e, Array(scratch, kind.operand, (k, n), (n, 1), (k, n), frozenset()), source, (k, n))
    values = [a, a_row, a_col, scratch, n, Value("1", "i64"), c, c_row, m, n, k, accumulate, scratch, context]
    e.void(f"call void @{direct(module, kind)}({', '.join(map(str, values))})")
    e.void("ret void")
    e.finish()
    return name


def _direct_kernel(module: Module, kind: Elements, block: GemmSchedule, *, masked: bool) -> str:
    """One register block from A and B in place. Missing rows repeat the last one and are not stored; a mask guards the columns."""
    name = f"gemm.direct.{kind.acc}.{block.rows}x{block.vectors}{'.masked' * masked}"
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
                masked_store(e, kind, added(e, kind, sums[i * block.vectors + v], place, everywhere, accumulate), place, everywhere, lanes)
    e.void("ret void")
    e.finish()
    return name
