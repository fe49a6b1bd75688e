"""Small products: A is read where it lies, and B too, or a transposed copy of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilejit.backends.cpu.llvm.text import Emitter, Index, Module, Value
from tilejit.backends.cpu.llvm.vector import splat, typed
from tilejit.backends.cpu.memory.storage import Array
from tilejit.backends.cpu.nests.transpose import transpose_into
from tilejit.backends.cpu.products.elements import Elements
from tilejit.backends.cpu.products.kernels import PARAMS, added, function_emitter, lane_mask, masked_load, masked_store, params_of, write_block
from tilejit.backends.cpu.schedule import GemmSchedule

_LAST_ROWS = 2
"""Rows of the blocks of what is left below whole blocks, which would take as long as those."""
_LEAST_SUMS = 8
"""Sums of a block that keep the units busy: few rows are as many vectors wide, where there are the columns."""
_MANY_SUMS = 24
"""From so many on a step along the depth is a turn of its own."""


def direct(module: Module, kind: Elements) -> str:
    """The columns of B must be adjacent, and operands what they are summed as."""
    name = f"gemm.{kind.name}.direct"
    if name in module.functions:
        return name
    block = module.schedules.gemm(kind.accumulator)
    columns = block.vectors * kind.lanes
    params = params_of(PARAMS)
    a, a_row, a_col, b, b_row, _, c, c_row, m, n, k, accumulate, *_ = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    full, part = _direct_kernel(module, kind, block, masked=False), _direct_kernel(module, kind, replace(block, vectors=1), masked=True)
    vectors = max(block.vectors, _LEAST_SUMS // _LAST_ROWS)
    last, last_wide = (_direct_kernel(module, kind, replace(block, rows=_LAST_ROWS, vectors=count), masked=False) for count in (block.vectors, vectors))
    units = (n, columns), (n, vectors * kind.lanes), (m, block.rows)
    whole, broad, blocks = (e.sub(size, e.inst("i64", f"srem i64 {size.text}, {unit}")) for size, unit in units)
    wide, narrow = (0, whole, full), (whole, n, part)
    for down, parts in (
        ((0, blocks, block.rows), (wide, narrow)),
        ((blocks, m, _LAST_ROWS), ((0, broad, last_wide), (broad, whole, last))),
        ((blocks, m, block.rows), (narrow,)),
    ):
        with e.loop(*down, name="i") as i:
            e.look()
            rows = e.min(e.sub(m, i.iv), down[2])
            left, place = e.offset(a, e.mul(i.iv, a_row), kind.acc), e.offset(c, e.mul(i.iv, c_row), kind.acc)
            for first, end, kernel in parts:
                with e.when(e.icmp("slt", first, end), "columns"):
                    at, here = e.offset(b, first, kind.acc), e.offset(place, first, kind.acc)
                    values = [left, a_row, a_col, at, b_row, here, c_row, e.i64(rows), e.i64(e.sub(end, first)), k, accumulate]
                    e.void(f"call void @{kernel}({', '.join(map(str, values))})")
    e.void("ret void")
    e.finish()
    return name


def turned(module: Module, kind: Elements, known: tuple[int, int, int] | None = None) -> str:
    """The same for a B whose rows are adjacent: it is transposed first, which takes less than packing both.

    `known`: the distance of its columns, how many there are, and their length; with places as numbers of the code transposing takes half as long."""
    name = f"gemm.{kind.name}.turned{''.join(f'.{number}' for number in known or ())}"
    if name in module.functions:
        return name
    params = params_of(PARAMS)
    a, a_row, a_col, b, _, b_col, c, c_row, m, n, k, accumulate, scratch, context = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    distance, columns, depth = known or (b_col, n, k)
    source = Array(b, kind.operand, (depth, columns), (1, distance), (depth, columns), frozenset())
    transpose_into(e, Array(scratch, kind.operand, (depth, columns), (columns, 1), (depth, columns), frozenset()), source, (depth, columns))
    values = [a, a_row, a_col, scratch, n, Value("1", "i64"), c, c_row, m, n, k, accumulate, scratch, context]
    e.void(f"call void @{direct(module, kind)}({', '.join(map(str, values))})")
    e.void("ret void")
    e.finish()
    return name


def _direct_kernel(module: Module, kind: Elements, block: GemmSchedule, *, masked: bool) -> str:
    """A row of register blocks from A and B in place. Missing rows repeat the last one and are not stored; a mask guards the columns."""
    name = f"gemm.direct.{kind.acc}.{block.rows}x{block.vectors}{'.masked' * masked}"
    if name in module.functions:
        return name
    params = params_of("ptr a, i64 a_row, i64 a_col, ptr b, i64 b_row, ptr c, i64 c_row, i64 rows, i64 width, i64 k, i1 accumulate")
    a, a_row, a_col, b, b_row, c, c_row, rows, width, k, accumulate = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    last = e.sub(rows, 1)
    rows_of_a = [e.mul(e.min(i, last) if i else 0, a_row) for i in range(block.rows)]
    with e.loop(0, width, block.vectors * kind.lanes, name="j") as j:
        mask = lane_mask(e, e.sub(width, j.iv), kind.lanes) if masked else None
        sums = _sums(e, kind, block, (a, rows_of_a, a_col), (e.offset(b, j.iv, kind.acc), b_row), k, mask)
        _put(e, kind, block, sums, (e.offset(c, j.iv, kind.acc), c_row), rows, mask, accumulate)
    e.void("ret void")
    e.finish()
    return name


def _sums(
    e: Emitter, kind: Elements, block: GemmSchedule, a: tuple[Value, Sequence[Index], Value], b: tuple[Value, Value], k: Value, mask: Value | None
) -> list[Value]:
    """Those of a block: A is given with the places of its rows and the distance of its columns, B with that of its rows."""
    lanes = kind.lanes

    def step(at_a: Value, at_b: Value, sums: Sequence[Value]) -> list[Value]:
        places = [e.offset(at_b, v * lanes, kind.acc) for v in range(block.vectors)]
        right = [kind.load_acc(e, place, lanes) if mask is None else masked_load(e, kind, place, mask, lanes) for place in places]
        out: list[Value] = []
        for i, row in enumerate(a[1]):
            one = splat(e, kind.load_acc(e, e.offset(at_a, row, kind.acc), 1), lanes)
            out += [kind.multiply_add(e, one, right[v], sums[i * block.vectors + v]) for v in range(block.vectors)]
        return out

    def further(place: Value, distance: Index) -> Value:
        # LLVM would compute all addresses of a turn in advance, and keep sums in memory for them: here it knows of one at a time.
        return e.inst("ptr", f'call ptr asm "", "=r,0"({e.offset(place, distance, kind.acc)})')

    carried = [a[0], b[0], *[kind.zero(lanes)] * (block.rows * block.vectors)]
    # Blocks of many vectors keep the units busy for long enough in a step.
    unroll = block.unroll if mask is None and block.rows * block.vectors < _MANY_SUMS else 1
    whole = e.inst("i64", f"and i64 {k.text}, {-unroll}")
    for lower, upper, times in ((0, whole, unroll), (whole, k, 1)) if unroll > 1 else ((0, k, 1),):
        with e.loop(lower, upper, times, carried, name="k") as loop:
            at_a, at_b, *sums = loop.carried
            for _ in range(times):
                sums = step(at_a, at_b, sums)
                at_a, at_b = further(at_a, a[2]), further(at_b, b[1])
            loop.next = [at_a, at_b, *sums]
        carried = loop.results
    return carried[2:]


def _put(
    e: Emitter, kind: Elements, block: GemmSchedule, sums: Sequence[Value], c: tuple[Value, Value], rows: Value, mask: Value | None, accumulate: Value
) -> None:
    """Store the rows of a block that there are to C, or add them to what is there."""
    stem = e.fresh("put")
    if mask is None:
        e.cbr(e.icmp("eq", rows, block.rows), f"{stem}.all", f"{stem}.some")
        e.place(f"{stem}.all")
        write_block(e, kind, block, sums, *c, accumulate)
        e.br(f"{stem}.done")
        e.place(f"{stem}.some")
    lanes = kind.lanes
    everywhere = mask or Value("splat (i1 true)", typed("i1", lanes))
    for i in range(block.rows):
        with e.when(e.icmp("sgt", rows, i), "row"):
            for v in range(block.vectors):
                place = e.offset(c[0], e.add(e.mul(c[1], i), v * lanes), kind.acc)
                masked_store(e, kind, added(e, kind, sums[i * block.vectors + v], place, everywhere, accumulate), place, everywhere, lanes)
    if mask is None:
        e.br(f"{stem}.done")
        e.place(f"{stem}.done")
