"""What work costs: the figures of one core and of a team of threads, and what the ops of a program come to.

All who decide whether something is worth a thread read the figures here: the pass that marks what may be shared out, and the CPU's nests, products and teams.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.ir import Block, Operation

from tilejit import ops
from tilejit.ops.facts import Effect
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.tile_ir.build import apply_args, constant_of
from tilejit.tile_ir.program import Program
from tilejit.types.values import ANY, Shape, ShapedType

Product = tuple[str, ...]
"""Symbols that are multiplied, in order."""

BRIEF_BYTES = 4 << 10
BRIEF_OPERATIONS = 16 << 10
"""Work below these limits is over in a few microseconds."""

OPERATIONS_PER_NS, BYTES_PER_NS = 32, 24
"""What one core does, within a factor of a few; a multiplication with an addition is one operation."""
CELL_PS, WORK_PS = 100, 1000 // OPERATIONS_PER_NS
"""Picoseconds of moving a cell through a nest, and of a unit of work on it (see `Facts.cost`)."""
CONTENDED_BYTES_PER_NS = 4
"""Trips that do little but add to the same memory only hand its cache lines to and fro: less work than this per byte stays on one thread."""
WORTH_NS = 12_000
"""Work below this stays on one thread."""
CREW_NS = 2_500
"""Work that is worth a thread that is awake."""
CERTAIN_NS = 100_000
"""Work above this wakes sleeping workers at once; between WORTH_NS and this, the first trip is measured."""
CHUNK_NS = 2_000
"""Work to take at once."""
SLICE_NS = 5_000_000
"""Work that one thread does between two looks whether it should stop."""

_PER_CELL = frozenset({"elementwise", "expand", "part", "mask"})
_UNTOUCHED = {d.ConstOp, d.YieldOp, d.ReturnOp, d.WindowOp, d.ViewOp, d.StridedOp, d.CommOp, d.PeerOp, d.DimOp}


@dataclass(frozen=True, slots=True)
class Cost:
    """Sums of products of extents; None: only the run can tell."""

    operations: dict[Product, int] | None
    touched: dict[Product, int] | None

    @property
    def brief(self) -> bool:
        """Whether it is known to be over soon."""
        return _at_most(self.touched, BRIEF_BYTES) and _at_most(self.operations, BRIEF_OPERATIONS)

    @property
    def terms(self) -> tuple[tuple[int, Product], ...] | None:
        """The operations as (coefficient, symbols)."""
        return None if self.operations is None else tuple((count, product) for product, count in sorted(self.operations.items()) if count)


def cost_of(program: Program, entry: str) -> Cost:
    """The cost of one call of `entry`."""
    walk = _Walk(program)
    walk.function(entry, 1)
    return Cost(None if walk.unknown_operations else walk.operations, None if walk.unknown_touched else walk.touched)


def estimate(program: Program, part: Iterable[Operation]) -> int | None:
    """Roughly how many nanoseconds one run of these ops takes, every branch counted; None: only the run can tell."""
    walk = _Walk(program, every_branch=True)
    for op in part:
        walk.op(op, 1)
    if walk.unknown_operations or walk.unknown_touched or any(product for product in (*walk.operations, *walk.touched)):
        return None
    return (walk.operations.get((), 0) - walk.fused) // OPERATIONS_PER_NS + walk.touched.get((), 0) // BYTES_PER_NS


def _at_most(sums: dict[Product, int] | None, limit: int) -> bool:
    return sums is not None and all(product == () for product in sums) and sums.get((), 0) <= limit


class _Walk:
    """Adds up what the ops cost, each as often as its loops turn."""

    def __init__(self, program: Program, every_branch: bool = False) -> None:
        self.functions = program.functions
        self.every_branch = every_branch
        self.operations: dict[Product, int] = {}
        self.touched: dict[Product, int] = {}
        self.fused = 0
        """Operations that are done together with another one."""
        self.unknown_operations = False
        self.unknown_touched = False
        self.inside: list[str] = []

    def function(self, name: str, times: int) -> None:
        if name in self.inside:
            self.unknown()
            return
        self.inside.append(name)
        self.block(self.functions[name].body.block, times)
        self.inside.pop()

    def unknown(self) -> None:
        self.unknown_operations = self.unknown_touched = True

    def block(self, block: Block, times: int) -> None:
        for op in block.ops:
            if self.unknown_operations and self.unknown_touched:
                return
            self.op(op, times)

    def op(self, op: Operation, times: int) -> None:
        match op:
            case d.ApplyOp():
                self.arithmetic(op, times)
                self.touch(op, times)
            case d.ForOp():
                self.repeated(op.body.block, trips_of(op), times)
            case d.WhileOp():
                self.unknown()
            case d.IfOp():
                # What a branch computes is known only if neither computes anything; what is touched is at most both.
                before = dict(self.operations)
                self.block(op.then.block, times)
                self.block(op.orelse.block, times)
                self.unknown_operations = self.unknown_operations or (self.operations != before and not self.every_branch)
            case d.CallOp():
                self.function(op.callee.data, times)
            case d.LaunchOp():
                blocks = 1 if op.blocks is None else constant_of(op.blocks)
                self.function(op.callee.data, times * int(blocks)) if blocks is not None else self.unknown()
            case d.RegionOp():
                self.repeated(op.body.block, 1 if op.blocks is None else constant_of(op.blocks), times)
            case d.GroupOp():
                self.block(op.body.block, times)
            case d.EffectOp() if ops.facts(op.op).effect is Effect.Ranks:
                self.unknown()
            case _:
                self.touch(op, times)

    def repeated(self, block: Block, trips: float | None, times: int) -> None:
        self.unknown() if trips is None else self.block(block, times * int(trips))

    def touch(self, op: Operation, times: int) -> None:
        if type(op) in _UNTOUCHED:
            return
        _add(self.touched, (), 8 * times)
        if isinstance(op, d.ReadOp | d.ElementWrite):
            return
        for value in op.results if isinstance(op, d.LoadOp) else (op.value,) if isinstance(op, d.StoreOp) else (*op.operands, *op.results):
            held = d.type_of(value)
            if isinstance(held, ShapedType):
                self.unknown_touched = not _add_extents(self.touched, held.shape, held.dtype.get_byte() * times) or self.unknown_touched

    def arithmetic(self, op: d.ApplyOp, times: int) -> None:
        type = d.type_of(op.results[0]) if op.results else None
        if not isinstance(type, ShapedType):
            return
        family = ops.table()[op.op].family
        if family in _PER_CELL:
            known = _add_extents(self.operations, type.shape, times)
        elif family == "reduction":
            known = _add_extents(self.operations, d.shaped_type(op.args[0]).shape, times)
        elif family in ("matmul", "mx"):
            before = self.operations.get((), 0)
            known = _add_extents(self.operations, (*type.shape, _inner(op)), 2 * times)
            self.fused += (self.operations.get((), 0) - before) // 2
        else:
            return
        self.unknown_operations = self.unknown_operations or not known


def trips_of(op: d.ForOp) -> int | None:
    """How often a loop turns, if that is known."""
    lower, upper, step = (constant_of(value) for value in (op.lower, op.upper, op.step))
    if not isinstance(lower, int) or not isinstance(upper, int) or not isinstance(step, int) or not step:
        return None
    return len(range(lower, upper, step))


def _inner(op: d.ApplyOp) -> int | str:
    """The extent that a matrix product sums over."""
    args = apply_args(op)
    shape = d.shaped_type(value_of(args["lhs"])).shape
    return shape[-2 if args.get("a_trans") and len(shape) > 1 else -1]


def _add(sums: dict[Product, int], product: Product, count: int) -> None:
    sums[product] = sums.get(product, 0) + count


def _add_extents(sums: dict[Product, int], shape: Shape, times: int) -> bool:
    """Add `times` the product of the extents; False when one has no name."""
    if ANY in shape:
        return False
    count, symbols = times, ()
    for dim in shape:
        if isinstance(dim, int):
            count *= dim
        else:
            symbols = tuple(sorted((*symbols, dim)))
    _add(sums, symbols, count)
    return True
