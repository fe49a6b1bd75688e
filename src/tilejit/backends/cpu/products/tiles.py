"""Matrix units that multiply whole tiles of words (AMX): how operands are packed for them, and the micro-kernel.

A block of C is 2 × 2 tiles of 16 rows and 16 columns. A panel of A is a row of tiles after the other, to[step / 16][row][16 words]; panels of B are
those of vectors. Both are as deep as whole tiles. The shapes of the tiles are told to the processor by every thread before its blocks, and taken
back after them: other libraries in the process tell it theirs.
"""

from __future__ import annotations

from tilejit.backends.cpu.llvm.text import Emitter, Module, Value
from tilejit.backends.cpu.llvm.vector import constant, typed
from tilejit.backends.cpu.products.elements import Elements
from tilejit.backends.cpu.products.kernels import MICRO, function_emitter, params_of

SIDE = 16
"""Rows of a tile, and words of a row."""
ROW_BYTES = 4 * SIDE
_LEFT, _RIGHT = (4, 5), (6, 7)
"""Numbers of the tiles of A and B; those of C are 0 to 3, row by row."""


def begin_tiles(e: Emitter) -> None:
    """Tell the processor that all tiles have 16 rows of 64 bytes."""
    shapes = e.alloca("[64 x i8]")
    e.store(constant(typed("i8", 64), 0), shapes, 1)
    e.store(Value("1", "i8"), shapes, 1)
    e.store(constant(typed("i16", 8), ROW_BYTES), e.offset(shapes, 16, "i8"), 2)
    e.store(constant(typed("i8", 8), SIDE), e.offset(shapes, 48, "i8"), 1)
    e.module.declare("llvm.x86.ldtilecfg", "declare void @llvm.x86.ldtilecfg(ptr)")
    e.void(f"call void @llvm.x86.ldtilecfg({shapes})")


def end_tiles(e: Emitter) -> None:
    e.module.declare("llvm.x86.tilerelease", "declare void @llvm.x86.tilerelease()")
    e.void("call void @llvm.x86.tilerelease()")


def move_tile(e: Emitter, name: str, tile: int, pointer: Value, stride: Value | int) -> None:
    """`tileloadd` a tile from memory or `tilestored` it there; its rows lie `stride` bytes apart."""
    full = f"llvm.x86.{name}64"
    e.module.declare(full, f"declare void @{full}(i8 immarg, ptr, i64)")
    e.void(f"call void @{full}(i8 {tile}, {pointer}, {e.i64(stride)})")


def zero_tiles(e: Emitter, count: int) -> None:
    e.module.declare("llvm.x86.tilezero", "declare void @llvm.x86.tilezero(i8 immarg)")
    for tile in range(count):
        e.void(f"call void @llvm.x86.tilezero(i8 {tile})")


def multiply_tiles(e: Emitter, kind: Elements, sums: int, left: int, right: int) -> None:
    assert kind.dot is not None
    e.module.declare(kind.dot.intrinsic, f"declare void @{kind.dot.intrinsic}(i8 immarg, i8 immarg, i8 immarg)")
    e.void(f"call void @{kind.dot.intrinsic}(i8 {sums}, i8 {left}, i8 {right})")


def tile_kernel(module: Module, kind: Elements) -> str:
    """As `packed_kernel`, with tiles; steps are a multiple of 16."""
    name = f"gemm.micro.{kind.name}"
    if name in module.functions:
        return name
    params = params_of(MICRO)
    a, a_row, a_step, b, c, c_row, steps, accumulate, _ = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    zero_tiles(e, 4)
    lefts = [e.offset(a, e.mul(a_row, t * SIDE), "i8") for t in range(2)]
    with e.loop(0, steps, SIDE) as loop:
        for t, tile in enumerate(_LEFT):
            move_tile(e, "tileloadd", tile, e.offset(lefts[t], e.mul(loop.iv, a_step), "i8"), a_row)
        for u, tile in enumerate(_RIGHT):
            move_tile(e, "tileloadd", tile, e.offset(e.offset(b, e.mul(loop.iv, 2 * SIDE), kind.word), u * SIDE, kind.word), 2 * ROW_BYTES)
        for t, left in enumerate(_LEFT):
            for u, right in enumerate(_RIGHT):
                multiply_tiles(e, kind, 2 * t + u, left, right)
    kept = e.alloca(f"[{4 * SIDE * SIDE} x {kind.acc}]")
    stem = e.fresh("write")
    e.cbr(accumulate, f"{stem}.add", f"{stem}.set")
    for label, to, row in (("add", kept, 2 * SIDE), ("set", c, c_row)):
        e.place(f"{stem}.{label}")
        for tile in range(4):
            at = e.offset(e.offset(to, e.mul(row, tile // 2 * SIDE), kind.acc), tile % 2 * SIDE, kind.acc)
            move_tile(e, "tilestored", tile, at, e.mul(row, kind.acc_bytes) if isinstance(row, int) else e.i64(e.mul(row, kind.acc_bytes)))
        if label == "add":
            # Sums of a block are added to C as a whole, as vectors do it: bits must not depend on who adds them.
            with e.loop(0, 2 * SIDE) as i, e.loop(0, 2 * SIDE, SIDE) as j:
                place = e.offset(c, e.add(e.mul(i.iv, c_row), j.iv), kind.acc)
                more = kind.load_acc(e, e.offset(kept, e.add(e.mul(i.iv, 2 * SIDE), j.iv), kind.acc), SIDE)
                e.store(kind.add(e, kind.load_acc(e, place, SIDE), more), place, kind.acc_bytes)
        e.void("ret void")
    e.finish()
    return name


def pack_tiles(module: Module, kind: Elements) -> str:
    """As `pack_left`, for tiles: 32 rows, of which `count` are there."""
    side, rows, wide = kind.a, 2 * SIDE, SIDE * kind.group
    name = f"gemm.pack.tiles.{side.name}"
    if name in module.functions:
        return name
    params = params_of("ptr to, ptr from, i64 across, i64 along, i64 count, i64 k")
    to, source, across, along, count, k = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    clear_words(e, kind, to, 0, e.mul(e.mul(whole_steps(e, kind, k), rows), 1))
    deep = e.inst("i64", f"and i64 {k.text}, {-wide}")
    fast = e.inst("i64", f"select {e.icmp('eq', along, 1)}, {deep}, i64 0")
    with e.loop(0, count) as row:
        line, out = e.offset(source, e.mul(row.iv, across), side.memory), e.offset(to, e.mul(row.iv, wide), side.lane)
        with e.loop(0, fast, wide) as loop:
            e.store(side.load(e, e.offset(line, loop.iv, side.memory), wide), e.offset(out, e.mul(loop.iv, rows), side.lane), kind.acc_bytes)
        with e.loop(fast, k) as loop:
            within = e.inst("i64", f"and i64 {loop.iv.text}, {wide - 1}")
            place = e.offset(out, e.add(e.mul(e.sub(loop.iv, within), rows), within), side.lane)
            e.store(side.load(e, e.offset(line, e.mul(loop.iv, along), side.memory), 1), place, kind.acc_bytes // kind.group)
    e.void("ret void")
    e.finish()
    return name


def whole_steps(e: Emitter, kind: Elements, k: Value | int) -> Value | int:
    """Words along a depth, in whole tiles."""
    wide = SIDE * kind.group
    if isinstance(k, int):
        return -(-k // wide) * SIDE
    return e.inst("i64", f"mul i64 {e.inst('i64', f'udiv i64 {e.i64(e.add(k, wide - 1)).text}, {wide}').text}, {SIDE}")


def clear_words(e: Emitter, kind: Elements, to: Value, first: Value | int, end: Value | int) -> None:
    with e.loop(first, end, name="clear") as loop:
        e.store(constant(kind.word, 0), e.offset(to, loop.iv, kind.word), kind.acc_bytes)
