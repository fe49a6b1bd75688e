"""Sorting lines, and finding their first cells: keys of cells are whole numbers in the order of the cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilejit.backends.cuda.indexed.lines import CHUNK, Lines, Share, guarded, place_of
from tilejit.backends.cuda.program import memory
from tilejit.backends.cuda.program.body import Body
from tilejit.backends.cuda.text import elementwise, numbers
from tilejit.backends.cuda.text.types import padded
from tilejit.backends.cuda.text.values import Buffer, Scalar
from tilejit.dtypes import INT32, INT64, DType
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args


def _key(body: Body, text: str, dtype: DType, descending: bool) -> str:
    """Integers whose lowest bits are in the order of the elements."""
    out, bits = body.out, dtype.bits
    carrier = "tl.int64" if bits == 64 else "tl.int32"
    if dtype.is_float:
        wide = out.let("number", elementwise.widen(out, text, dtype))
        raw = f"{text}.to(tl.int{bits}, bitcast=True).to({carrier})"
        number = f"tl.where({wide} == 0, 0, {raw})"  # both zeros are one
        made = f"{out.helper('order_of_bits')}(tl.where({wide} != {wide}, {_NAN[bits]}, {number}).to({carrier}), {bits})"
    else:
        made = f"{text}.to({carrier})" if dtype.kind == "uint" else f"({text}.to({carrier}) ^ {elementwise.constant(-(1 << (bits - 1)), _CARRIERS[bits])})"
    return f"(~{made})" if descending else made


_NAN = {16: 0x7FFF, 32: 0x7FFFFFFF, 64: "tl.full((), 0x7FFFFFFFFFFFFFFF, tl.int64)"}
"""Bits behind those of every number."""
_CARRIERS = {8: INT32, 16: INT32, 32: INT32, 64: INT64}


def sort(body: Body, op: d.ApplyOp, given: Sequence[Buffer], rooms: Sequence[Buffer], share: Share, work: Buffer | None) -> None:
    """Line by line: the indices of its cells are put in order by two bits of their keys at a time, the lowest first; equal ones keep their order."""
    assert work is not None
    args, out, source = apply_args(op), body.out, given[0]
    count, length, stride = numbers.product(source.shape[:-1]), source.shape[-1], source.dims[-1].stride
    kept = rooms[0].shape[-1]
    descending = bool(args.get("largest", True) if op.op == "topk_rows" else args.get("descending", False))
    size = padded(min(length.const if isinstance(length.const, int) else CHUNK, CHUNK))
    line = out.fresh("line")
    with out.block(f"for {line} in {share.blocks(count, 1)}:"):
        row = out.let("row", f"{source.start} + {place_of(f'tl.full((), {line}, tl.int64)', source.dims[:-1])}")
        order = out.let("order_here", f"{work.start} + tl.full((), {share.first}, tl.int64) * {work.dims[0].stride.text}")
        sorter = _Sorter(body, source, row, order, length, size, descending)
        sorter.emit()
        at = out.fresh("at")
        with out.block(f"for {at} in range(0, {kept.text}, {size}):"):
            cell = out.let("cell", f"{at} + {out.arange(size)}")
            there = out.let("there", guarded(f"({cell} < {kept.text})", source))
            where = out.let("where", f"tl.load({order} + {cell}, mask={there}, other=0)")
            picked = memory.load_text(out, f"{row} + {where} * {stride.text}", there, source.dtype)
            for room, value in zip(rooms, (picked, where), strict=True):
                begin = f"{room.start} + {place_of(f'tl.full((), {line}, tl.int64)', room.dims[:-1])}"
                out.line(memory.store_line(out, f"{begin} + {cell} * {room.dims[-1].stride.text}", value, there, room.dtype))
        body.order.barrier(out)


FIRST = 32
"""Cells of a line that are found one after the other: more of them take longer than to sort it."""


def first_cells(body: Body, op: d.ApplyOp, given: Sequence[Buffer], rooms: Sequence[Buffer], share: Share, work: Buffer | None) -> None:
    """Line by line: a few cells in order, each the least of those behind the one before it; a key and the index of its cell are one number."""
    out, source = body.out, given[0]
    count, length, stride = numbers.product(source.shape[:-1]), source.shape[-1], source.dims[-1].stride
    size = padded(min(length.const if isinstance(length.const, int) else 8 * CHUNK, 8 * CHUNK))
    whole = isinstance(length.const, int) and length.const <= size
    line, turn, least, last = (out.fresh(name) for name in ("line", "turn", "least", "last"))
    none = out.once("none", "tl.full((), 0x7FFFFFFFFFFFFFFF, tl.int64)")

    def cells(at: str) -> str:
        cell = out.let("cell", f"{at} + {out.arange(size)}")
        there = out.let("there", guarded(f"({cell} < {length.text})", source))
        loaded = out.let("loaded", memory.load_text(out, f"{row} + {cell} * {stride.text}", there, source.dtype))
        key = f"({_key(body, loaded, source.dtype, bool(apply_args(op).get('largest', True)))}).to(tl.int64) & {(1 << source.dtype.bits) - 1}"
        return out.let("cells", f"tl.where({there}, (({key}) << 31) | {cell}, {none})")

    with out.block(f"for {line} in {share.blocks(count, 1)}:"):
        row = out.let("row", f"{source.start} + {place_of(f'tl.full((), {line}, tl.int64)', source.dims[:-1])}")
        held = cells("0") if whole else ""
        out.line(f"{last} = tl.full((), -1, tl.int64)")
        with out.block(f"for {turn} in range({rooms[0].shape[-1].text}):"):
            if whole:
                out.line(f"{least} = tl.where({held} > {last}, {held}, {none})")
            else:
                at = out.fresh("at")
                out.line(f"{least} = tl.full(({size},), 0x7FFFFFFFFFFFFFFF, tl.int64)")
                with out.block(f"for {at} in range(0, {length.text}, {size}):"):
                    here = cells(at)
                    out.line(f"{least} = tl.minimum({least}, tl.where({here} > {last}, {here}, {none}))")
            out.line(f"{last} = tl.min({least}, 0)")
            where = out.let("where", f"tl.where({last} == {none}, 0, {last} & 0x7FFFFFFF)")
            picked = memory.load_text(out, f"{row} + {where} * {stride.text}", source.good, source.dtype)
            for room, value in zip(rooms, (picked, where), strict=True):
                begin = f"{room.start} + {place_of(f'tl.full((), {line}, tl.int64)', room.dims[:-1])}"
                out.line(memory.store_line(out, f"{begin} + {turn} * {room.dims[-1].stride.text}", value, source.good, room.dtype))


@dataclass
class _Sorter:
    """The text that puts the indices of one line in order: two halves of memory take turns."""

    body: Body
    source: Buffer
    row: str
    order: str
    length: Scalar
    size: int
    descending: bool

    def emit(self) -> None:
        out, body, bits = self.body.out, self.body, self.source.dtype.bits
        at, turn = out.fresh("at"), out.fresh("turn")
        with out.block(f"for {at} in range(0, {self.length.text}, {self.size}):"):
            cell = out.let("cell", f"{at} + {out.arange(self.size)}")
            out.line(f"tl.store({self.order} + {cell}, {cell}.to(tl.int32), mask={cell} < {self.length.text})")
        body.order.barrier(out)
        with out.block(f"for {turn} in range(0, {bits // 2}):"):
            old = out.let("old", f"{self.order} + ({turn} % 2) * {self.length.text}")
            new = out.let("new", f"{self.order} + (({turn} + 1) % 2) * {self.length.text}")
            ends = [out.fresh(f"end{digit}") for digit in range(4)]
            for end in ends:
                out.line(f"{end} = tl.full((), 0, tl.int32)")
            with out.block(f"for {at} in range(0, {self.length.text}, {self.size}):"):
                _, ones, _, _ = self._digits(at, old, turn)
                self._add(ends, f"tl.sum({ones}, 0)")
            starts = [out.fresh(f"start{digit}") for digit in range(4)]
            for digit, start in enumerate(starts):
                out.line(f"{start} = {' + '.join(ends[:digit]) or f'{ends[0]} * 0'}")
            with out.block(f"for {at} in range(0, {self.length.text}, {self.size}):"):
                where, ones, digit, there = self._digits(at, old, turn)
                rank = f"((tl.cumsum({ones}, 0) >> (16 * {digit}).to(tl.int64)) & 65535).to(tl.int32) - 1"
                begin = f"tl.where({digit} == 0, {starts[0]}, tl.where({digit} == 1, {starts[1]}, tl.where({digit} == 2, {starts[2]}, {starts[3]})))"
                out.line(f"tl.store({new} + {begin} + {rank}, {where}, mask={there})")
                self._add(starts, f"tl.sum({ones}, 0)")
            body.order.barrier(out)

    def _digits(self, at: str, old: str, turn: str) -> tuple[str, str, str, str]:
        """Of a chunk: the indices, a 1 in the 16 bits that count for the digit of each, the digits, and which exist."""
        out = self.body.out
        cell = out.let("cell", f"{at} + {out.arange(self.size)}")
        there = out.let("there", guarded(f"({cell} < {self.length.text})", self.source))
        where = out.let("where", f"tl.load({old} + {cell}, mask={there}, other=0)")
        loaded = out.let("loaded", memory.load_text(out, f"{self.row} + {where} * {self.source.dims[-1].stride.text}", there, self.source.dtype))
        key = out.let("key", _key(self.body, loaded, self.source.dtype, self.descending))
        digit = out.let("digit", f"(({key} >> (2 * {turn})) & 3).to(tl.int32)")
        ones = out.let("ones", f"tl.where({there}, tl.full((), 1, tl.int64) << (16 * {digit}).to(tl.int64), 0)")
        return where, ones, digit, there

    def _add(self, counts: Sequence[str], packed: str) -> None:
        out = self.body.out
        here = out.let("here", packed)
        for digit, count in enumerate(counts):
            out.line(f"{count} += (({here} >> {16 * digit}) & 65535).to(tl.int32)")


SORT = Lines(sort, warps=8, works_in=True)
FIRST_CELLS = Lines(first_cells, warps=16)


def _few(op: d.ApplyOp) -> Lines | None:
    """Another way than to sort, where few cells are wanted."""
    kept = d.shaped_type(op.results[0]).shape[-1]
    return FIRST_CELLS if isinstance(kept, int) and kept <= FIRST and d.shaped_type(op.args[0]).dtype.bits <= 32 else None


TOPK = replace(SORT, instead=_few)
