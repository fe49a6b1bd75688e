"""Products of few rows with a transposed B: every cell is a dot product of contiguous numbers, of which some rows and columns are computed together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from tilejit.backends.cpu.llvm.text import Emitter, Index, Module, Value
from tilejit.backends.cpu.llvm.vector import binary, extract, joined, picked, pieces_of, shuffle, splat
from tilejit.backends.cpu.products.elements import Elements
from tilejit.backends.cpu.products.few import TOGETHER
from tilejit.backends.cpu.products.kernels import PARAMS, ask_beyond, function_emitter, params_of
from tilejit.backends.cpu.products.packed import clear_without_depth

_COLUMNS = 4
"""Columns of B that share what was read of A; where there are fewer left, each has as many vectors of sums instead.

They lie far apart, a quarter of B: memory is fetched ahead along four long lines then, and not along four pieces of one page.
"""
_AHEAD = 2048
"""Bytes to ask for ahead, into the second cache: what the processor itself asks for comes too late."""
_NEAR = 512
"""The same, into the first cache, where B is turned, which keeps the processor from running ahead by itself; asking for both costs as much as turning."""
_DEPTH = 4096
"""Numbers along the depth that A is put in order for at a time."""


def scratch_bytes(kind: Elements, m: int, k: int | None) -> int:
    """Bytes of `m` rows of A in the order in which B is turned."""
    return -(-m // TOGETHER) * TOGETHER * min(_DEPTH, k or _DEPTH) * kind.operand.get_byte() if kind.b.order else 0


def dots(module: Module, kind: Elements) -> str:
    """Rows of A and columns of B are contiguous."""
    name = f"gemm.{kind.name}.dots"
    if name in module.functions:
        return name
    params = params_of(PARAMS)
    a, a_row, _, b, _, b_col, c, c_row, m, n, k, accumulate, scratch, _ = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    if kind.b.order:
        clear_without_depth(e, kind, (c, c_row), (m, n, k), accumulate)
    with e.loop(0, k, _DEPTH, name="pc") if kind.b.order else nullcontext() as part:
        if part is not None:
            a, b = e.offset(a, part.iv, kind.a.memory), e.offset(b, part.iv, kind.b.memory)
            k = e.i64(e.min(e.sub(k, part.iv), _DEPTH))
            accumulate = binary(e, "or", accumulate, e.icmp("sgt", part.iv, 0))
            _put_in_order(e, kind, (a, a_row), (m, k), scratch)
        _Dots(e, kind, (a, a_row), (b, b_col), (c, c_row), scratch).write((m, n, k), accumulate)
    e.void("ret void")
    e.finish()
    return name


def _put_in_order(e: Emitter, kind: Elements, a: tuple[Value, Value], sizes: tuple[Value, Value], to: Value) -> None:
    """Rows of A, some together step by step, the last one in the place of those that are missing; what is no whole step is read where it lies."""
    wide = len(kind.b.order)
    whole = e.inst("i64", f"and i64 {sizes[1].text}, {-wide}")
    with e.loop(0, sizes[0], TOGETHER, name="i") as i, e.loop(0, whole, wide, name="k") as step:
        place = e.offset(to, e.add(e.mul(i.iv, whole), e.mul(step.iv, TOGETHER)), kind.a.lane)
        for r in range(TOGETHER):
            row = e.offset(a[0], e.mul(e.min(e.add(i.iv, r), e.sub(sizes[0], 1)), a[1]), kind.a.memory)
            lanes = kind.a.load(e, e.offset(row, step.iv, kind.a.memory), wide)
            e.store(shuffle(e, lanes, None, kind.b.order), e.offset(place, r * wide, kind.a.lane), kind.operand.get_byte())


@dataclass(frozen=True, slots=True)
class _Dots:
    """Where the operands lie."""

    e: Emitter
    kind: Elements
    a: tuple[Value, Value]
    b: tuple[Value, Value]
    c: tuple[Value, Value]
    ordered: Value
    """A in the order in which B is turned, where it has one."""

    def write(self, sizes: tuple[Value, Value, Value], accumulate: Value) -> None:
        """Two or three rows that are left take as long as four: the last one is there more than once then, and written once."""
        e = self.e
        m, n, k = sizes
        wide = e.inst("i64", f"and i64 {n.text}, {-_COLUMNS}")
        together = e.inst("i64", f"and {e.i64(e.add(m, TOGETHER // 2))}, {-TOGETHER}")
        apart = e.inst("i64", f"sdiv i64 {wide.text}, {_COLUMNS}")
        for left, right, columns in ((0, apart, _COLUMNS), (wide, n, 1)):
            with e.loop(left, right, 1, name="j") as j:
                places = [e.add(j.iv, e.mul(apart, v)) for v in range(columns)] if columns > 1 else [j.iv]
                for lower, upper, rows in ((0, together, TOGETHER), (together, m, 1)):
                    with e.loop(lower, upper, rows, name="i") as i:
                        e.look()
                        self._put(i.iv, places, self._sums(i.iv, rows, places, m, k), m, accumulate)

    def _put(self, first: Index, columns: Sequence[Index], totals: Sequence[Value], m: Value, accumulate: Value) -> None:
        """Sums to the rows of C that there are, or on top of what is there."""
        e, kind, (c, c_row) = self.e, self.kind, self.c
        stem = e.fresh("put")
        e.cbr(accumulate, f"{stem}.add", f"{stem}.set")
        for label in ("add", "set"):
            e.place(f"{stem}.{label}")
            for r, total in enumerate(totals):
                row = e.add(first, r)
                with e.when(e.icmp("slt", row, m), "row") if r >= TOGETHER // 2 else nullcontext():
                    for v, at in enumerate(columns):
                        place, found = e.offset(c, e.add(e.mul(row, c_row), at), kind.acc), extract(e, total, v)
                        e.store(kind.add(e, kind.load_acc(e, place, 1), found) if label == "add" else found, place, kind.acc_bytes)
            e.br(f"{stem}.done")
        e.place(f"{stem}.done")

    def _sums(self, first: Index, rows: int, columns: Sequence[Index], m: Value, k: Value) -> list[Value]:
        """Rows of A times columns of B: a vector for each row; a sum has the same order however many rows there are."""
        e, kind = self.e, self.kind
        lefts = [e.offset(self.a[0], e.mul(e.min(e.add(first, r), e.sub(m, 1)), self.a[1]), kind.a.memory) for r in range(rows)]
        rights = [e.offset(self.b[0], e.mul(at, self.b[1]), kind.b.memory) for at in columns]
        vector = kind.lanes * kind.group
        width = max(vector, kind.b.together)
        whole = e.inst("i64", f"and i64 {k.text}, {-width}")
        panel = e.offset(self.ordered, e.mul(first, whole), kind.a.lane)

        def left(r: int, at: Index, part: int) -> Value:
            if not kind.b.order:
                return e.offset(lefts[r], e.add(at, part * vector), kind.a.memory)
            return e.offset(panel, e.add(e.mul(at, TOGETHER), r * width + part * vector), kind.a.lane)

        totals, done = _vector_sums(e, kind, left, rows, rights, k, width)
        single = replace(kind, dot=None)
        with e.loop(done, k, 1, totals, name="k") as loop:
            shared = joined(e, [single.b.load(e, e.offset(right, loop.iv, single.b.memory), 1) for right in rights])
            own = [splat(e, single.a.load(e, e.offset(left, loop.iv, single.a.memory), 1), len(rights)) for left in lefts]
            loop.next = [single.multiply_add(e, one, shared, total) for one, total in zip(own, loop.carried, strict=True)]
        return loop.results


def _vector_sums(
    e: Emitter, kind: Elements, left: Callable[[int, Index, int], Value], rows: int, rights: Sequence[Value], k: Value, width: int
) -> tuple[list[Value], Value]:
    """The sums over whole vectors, and how far that is; `left(r, at, part)`: where a row has what is multiplied by a vector of B from `at` on."""
    columns = len(rights)
    chains = _COLUMNS // columns
    deep = e.inst("i64", f"and i64 {k.text}, {-chains * width}")
    cells = rows * columns
    each = cells + (columns if kind.corrected else 0)

    def step(at: Index, sums: Sequence[Value]) -> list[Value]:
        places = [e.offset(right, at, kind.b.memory) for right in rights]
        for place in places:
            if kind.right is kind.operand:
                ask_beyond(e, place, "i8", _AHEAD, near=2)
            else:
                ask_beyond(e, place, "i8", _NEAR)
        columns_of_b = [pieces_of(e, kind.words(e, kind.b.load(e, place, width, in_order=False)), kind.lanes) for place in places]
        for part, shared in enumerate(zip(*columns_of_b, strict=True)):
            own = [kind.words(e, kind.a.load(e, left(r, at, part), kind.lanes * kind.group)) for r in range(rows)]
            extra = [kind.correction(e, word, total) for word, total in zip(shared, sums[cells:], strict=True)] if kind.corrected else []
            sums = [*(kind.multiply_add(e, own[r], shared[v], sums[r * columns + v]) for r in range(rows) for v in range(columns)), *extra]
        return list(sums)

    with e.loop(0, deep, chains * width, [kind.zero(kind.lanes)] * (chains * each), name="k") as loop:
        loop.next = []
        for chain in range(chains):
            loop.next += step(e.add(loop.iv, chain * width), loop.carried[chain * each : (chain + 1) * each])
    sums = loop.results
    while len(sums) > each:
        half = len(sums) // 2
        sums = [kind.add(e, one, other) for one, other in zip(sums[:half], sums[half:], strict=True)]
    if kind.corrected:
        sums = [kind.sub(e, sums[cell], sums[cells + cell % columns]) for cell in range(cells)]
    # Column by column: what is collapsed comes out across, and so each row side by side.
    total, owners = collapsed(e, kind, [sums[r * columns + v] for v in range(columns) for r in range(rows)])
    return [picked(e, total, None, [owners.index(v * rows + r) for v in range(columns)]) for r in range(rows)], deep


_QUARTER = 4
"""Lanes that are mixed at little cost: those of 128 bits."""


def collapsed(e: Emitter, kind: Elements, vectors: list[Value]) -> tuple[Value, list[int]]:
    """The sums of all lanes of some vectors in one vector, and which of them each lane has.

    Halves are added to halves, of two vectors at a time as long as there are two: side by side, but in turns where they are parts of 128 bits.
    """
    held = [(vector, [number] * kind.lanes) for number, vector in enumerate(vectors)]
    size = kind.lanes
    while size > 1:
        size //= 2
        if len(held) == 1:
            (vector, owners), starts = held[0], range(0, len(held[0][1]), 2 * size)
            lower, upper = ([first + lane for first in starts for lane in range(at, at + size)] for at in (0, size))
            held = [(kind.add(e, picked(e, vector, None, lower), picked(e, vector, None, upper)), [owners[lane] for lane in lower])]
            continue
        step = min(_QUARTER, kind.lanes) if size < _QUARTER else kind.lanes
        lower, upper = (
            [from_other + first for start in range(0, kind.lanes, step) for from_other in (0, kind.lanes) for begin in range(start, start + step, 2 * size)
             for first in range(begin + at, begin + at + size)] for at in (0, size)
        )  # fmt: skip
        held = [
            (kind.add(e, shuffle(e, one, other, lower), shuffle(e, one, other, upper)), [(mine + others)[lane] for lane in lower])
            for (one, mine), (other, others) in zip(held[::2], held[1::2], strict=True)
        ]
    return joined(e, [vector for vector, _ in held]), [owner for _, owners in held for owner in owners]
