"""Loop nests over boxes of elements: dims merged where memory permits, rows one by one, columns in vectors with a tail."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from tilejit.backends.cpu.lanes.casts import convert_lane
from tilejit.backends.cpu.lanes.patterns import Pattern, load_pattern, store_pattern
from tilejit.backends.cpu.llvm.text import Emitter, Index, Value
from tilejit.backends.cpu.llvm.vector import splat
from tilejit.backends.cpu.memory.storage import Array
from tilejit.dtypes import UINT8, UINT16, UINT32, UINT64, DType


@dataclass(slots=True)
class Walk:
    """A pointer that a nest moves: where it starts, and its stride in elements of `dtype` per dim of the nest."""

    pointer: Value
    dtype: DType
    strides: list[Index]
    inner: Index = 0
    """Its stride inside a short row, in a box that has them."""
    origin: tuple[str, int] | None = None
    """What tells how far it lies from others (`Emitter.origin`), where somebody asks."""


@dataclass(slots=True)
class Box:
    """The iteration space: extents per dim, last dim innermost, and everything that moves with it."""

    extents: list[Index]
    walks: list[Walk]
    short: int = 1
    """Elements of the short rows that the last dim consists of."""

    def merge(self, e: Emitter, keep_last: bool = False) -> None:
        """Join neighbouring dims over which every walk is one straight line; `keep_last` leaves the innermost dim alone."""
        axis = len(self.extents) - 2
        while axis >= 0:
            if not (keep_last and axis == len(self.extents) - 2) and self._joins(axis):
                self._join(e, axis)
            axis -= 1

    def _joins(self, axis: int) -> bool:
        outer, inner = self.extents[axis], self.extents[axis + 1]
        if outer == 1 or inner == 1:
            return True
        return all(_straight(walk.strides[axis], walk.strides[axis + 1], inner) for walk in self.walks)

    def _join(self, e: Emitter, axis: int) -> None:
        outer, inner = self.extents[axis], self.extents[axis + 1]
        self.extents[axis : axis + 2] = [e.mul(outer, inner)]
        for walk in self.walks:
            walk.strides[axis : axis + 2] = [walk.strides[axis] if inner == 1 else walk.strides[axis + 1]]

    def fold(self, e: Emitter, lanes: int) -> None:
        """Let one sweep go over many rows, if they are so short that a vector holds several of them."""
        if len(self.extents) < 2:
            return
        short = self.extents[-1]
        if isinstance(short, int) and 1 < short < lanes and short & (short - 1) == 0:
            self.short = short
            self.extents[-2:] = [e.mul(self.extents[-2], short)]
            for walk in self.walks:
                walk.inner = walk.strides.pop()

    def pattern(self, walk: int) -> Pattern:
        """Where the lanes of a vector along the last dim lie."""
        return Pattern(self.walks[walk].strides[-1], self.short, self.walks[walk].inner)

    def near(self, walk: int) -> list[tuple[int, int]]:
        """Walks whose lanes lie between each other's, in the order of memory: (cells behind the first of them, which walk)."""
        outer, places = self.walks[walk].strides[-1], self._alike(walk)
        if not isinstance(outer, int) or outer < 2 or not places:
            return [(0, walk)]
        start = next(cell for cell, other in places if other == walk) // outer * outer
        found = [(cell, other) for cell, other in places if start <= cell < start + outer]
        return [(cell - found[0][0], other) for cell, other in found]

    def beside(self, walk: int, reach: int) -> tuple[int, int] | None:
        """Of walks that lie less than `reach` cells apart, one in the middle, and the cells from there to this one; None: it is alone."""
        places = self._alike(walk)
        own = next((cell for cell, other in places if other == walk), 0)
        group: list[tuple[int, int]] = []
        for cell, other in places:
            if group and cell - group[0][0] >= reach:
                if group[0][0] <= own <= group[-1][0]:
                    break
                group = []
            group.append((cell, other))
        if not group or group[0][0] == group[-1][0]:
            return None
        middle, other = group[len(group) // 2]
        return other, own - middle

    def _alike(self, walk: int) -> list[tuple[int, int]]:
        """Walks that move as one does, some known distance away, in the order of memory: (cells behind what they all lie behind, which walk)."""
        own, found = self.walks[walk], list[tuple[int, int]]()
        if own.origin is None:
            return found
        size = own.dtype.get_byte()
        for at, other in enumerate(self.walks):
            alike = other.dtype is own.dtype and other.strides == own.strides and other.inner == own.inner
            if alike and other.origin is not None and other.origin[0] == own.origin[0] and other.origin[1] % size == own.origin[1] % size:
                found.append((other.origin[1] // size, at))
        return sorted(found)

    def narrow(self, e: Emitter, axis: int, begin: Index, end: Index) -> None:
        """Keep only [begin, end) of a dim."""
        for walk in self.walks:
            walk.pointer = e.offset(walk.pointer, e.mul(begin, walk.strides[axis]), walk.dtype.llvm)
        self.extents[axis] = e.sub(end, begin)

    @contextmanager
    def rows(self, e: Emitter) -> Generator[tuple[list[Index], list[Value]]]:
        """Loops over all dims but the last; yields their indices and the walks' pointers at the start of the row."""
        pointers = [walk.pointer for walk in self.walks]
        indices: list[Index] = []
        with ExitStack() as stack:
            for axis, extent in enumerate(self.extents[:-1]):
                index: Index = 0 if extent == 1 else stack.enter_context(e.loop(0, extent, name="row")).iv
                if not indices and not (isinstance(extent, int) and extent < _MANY_ROWS):
                    e.look()
                indices.append(index)
                pointers = [e.offset(pointer, e.mul(index, walk.strides[axis]), walk.dtype.llvm) for pointer, walk in zip(pointers, self.walks, strict=True)]
            yield indices, pointers


def _straight(outer: Index, inner: Index, extent: Index) -> bool:
    if isinstance(outer, int) and isinstance(inner, int) and isinstance(extent, int):
        return outer == inner * extent
    return (outer == 0 and inner == 0) or (inner == 1 and outer == extent)


_MANY_ROWS = 4096
"""Rows that may take long, however short they are."""
Body = Callable[[int, Index, list[Value]], list[Value]]
"""(lanes, column, accumulators) → accumulators."""
Start = Callable[[int], list[Value]]
"""The first accumulators of a width."""
Narrow = Callable[[list[Value], int, int], list[Value]]
"""Accumulators of one width combined into those of a smaller one."""


def sweep(
    e: Emitter, count: Index, widths: tuple[int, int], body: Body, start: Start | None = None, narrow: Narrow | None = None, skip: Index = 0, short: int = 1
) -> list[Value]:
    """Columns 0..count: vectors of both `widths`, then single elements, or the `short` rows that the columns consist of. Returns the accumulators as scalars.

    The first `skip` columns have been seen to: vectors start behind them.
    """
    accumulators: list[Value] | None = None
    width, middle = widths
    held = width
    done = skip
    for lanes in dict.fromkeys((width, max(min(width, middle), short), short)):
        if isinstance(count, int) and isinstance(done, int):
            end: Index = count - (count - done) % lanes
        elif lanes == short:
            end = count
        else:
            end = e.add(skip, e.inst("i64", f"and {e.i64(e.sub(count, skip))}, {-lanes}"))
        if isinstance(end, int) and isinstance(done, int) and end == done:
            continue
        if accumulators is None:
            accumulators = start(lanes) if start else []
        elif narrow is not None:
            accumulators = narrow(accumulators, held, lanes)
        held = lanes
        if isinstance(end, int) and isinstance(done, int) and end - done == lanes:
            accumulators = body(lanes, done, accumulators)
        else:
            with e.loop(done, end, lanes, accumulators, name="col") as loop:
                loop.next = body(lanes, loop.iv, loop.carried)
            accumulators = loop.results
        done = end
    if accumulators is None:
        accumulators = start(1) if start else []
        held = 1
    return narrow(accumulators, held, 1) if narrow is not None else accumulators


def sweep_again(e: Emitter, count: int, lanes: int, first: Index, body: Callable[[int, Index], object]) -> bool:
    """The same in whole vectors only, some of which overlap: one at the start, others from `first` on, one that ends with the row. False: that is no gain."""
    if count <= lanes or (first == 0 and count % lanes == 0):
        return False
    body(lanes, 0)
    begin = lanes if first == 0 else e.add(e.inst("i64", f"and {e.i64(e.sub(first, 1))}, {lanes - 1}"), 1)
    with e.loop(begin, count - lanes, lanes, name="col") as loop:
        body(lanes, loop.iv)
    body(lanes, count - lanes)
    return True


BITS = {1: UINT8, 2: UINT16, 4: UINT32, 8: UINT64}
"""Types that move elements of a size without looking at them."""

# copies -----------------------------------------------------------------------------------------------------------------


def each(e: Emitter, target: Array, sources: Sequence[Array], extents: Sequence[Index], compute: Callable[[list[Value], int], Value]) -> None:
    """target = compute(sources) for every cell of a box; lanes in register form of each array's dtype."""
    arrays = [*sources, target]
    box = Box(list(extents), [Walk(array.pointer, array.dtype, list(array.strides)) for array in arrays])
    box.merge(e)
    schedule = e.module.schedules.copies([array.dtype for array in arrays])
    box.fold(e, schedule.lanes)
    patterns = [box.pattern(walk) for walk in range(len(arrays))]
    with box.rows(e) as (_, pointers):

        def body(lanes: int, column: Index, _: list[Value]) -> list[Value]:
            at = [e.offset(pointer, pattern.at(e, column), array.dtype.llvm) for pointer, pattern, array in zip(pointers, patterns, arrays, strict=True)]
            values = [load_pattern(e, array.dtype, pointer, pattern, lanes) for array, pointer, pattern in zip(sources, at, patterns, strict=False)]
            store_pattern(e, target.dtype, at[-1], patterns[-1], compute(values, lanes), lanes)
            return []

        sweep(e, box.extents[-1], (schedule.lanes, schedule.middle), body, short=box.short)


def copy_box(e: Emitter, target: Array, source: Array, extents: Sequence[Index]) -> None:
    """Copy a box of elements of one dtype; the arrays are the same cells or do not overlap."""
    if target.strides == source.strides and e.origin(target.pointer) == e.origin(source.pointer):
        return
    # Bits are moved as they are: no conversion to register form and back.
    bits = BITS[target.dtype.get_byte()]
    each(e, replace(target, dtype=bits), [replace(source, dtype=bits)], extents, lambda values, _: values[0])


def convert_box(e: Emitter, target: Array, source: Array, extents: Sequence[Index]) -> None:
    """Copy a box of elements, converted to the target's dtype (floats to nearest even)."""
    if target.dtype is source.dtype:
        copy_box(e, target, source, extents)
    else:
        each(e, target, [source], extents, lambda values, lanes: convert_lane(e, values[0], source.dtype, target.dtype, lanes))


def fill_box(e: Emitter, target: Array, value: Value, extents: Sequence[Index]) -> None:
    """Set every element of a box to a scalar in register form."""
    each(e, target, [], extents, lambda _, lanes: splat(e, value, lanes))
