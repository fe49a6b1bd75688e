"""What one call of an entry costs, as far as the program says: arithmetic operations and bytes touched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from tilejit import ops
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, constant_of
from tilejit.tile_ir.program import Program
from tilejit.types.values import ANY, ShapedType

Product = tuple[str, ...]
"""Symbols that are multiplied, in order."""

BRIEF_BYTES = 4 << 10
BRIEF_OPERATIONS = 16 << 10
"""Work below these limits is over in a few microseconds."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Sums of products of extents; None: only the run can tell."""

    operations: Counter[Product] | None
    touched: Counter[Product] | None

    def __add__(self, other: Cost) -> Cost:
        return Cost(_add(self.operations, other.operations), _add(self.touched, other.touched))

    def __mul__(self, times: int) -> Cost:
        return Cost(_scale(self.operations, times), _scale(self.touched, times))

    @property
    def brief(self) -> bool:
        """Whether it is known to be over soon."""
        return _at_most(self.touched, BRIEF_BYTES) and _at_most(self.operations, BRIEF_OPERATIONS)

    @property
    def terms(self) -> tuple[tuple[int, Product], ...] | None:
        """The operations as (coefficient, symbols)."""
        return None if self.operations is None else tuple((count, product) for product, count in sorted(self.operations.items()) if count)


NOTHING = Cost(Counter(), Counter())
UNKNOWN = Cost(None, None)


def cost_of(program: Program, entry: str) -> Cost:
    """The cost of one call of `entry`."""
    return _Walk(program).function(entry)


def _add(a: Counter[Product] | None, b: Counter[Product] | None) -> Counter[Product] | None:
    return None if a is None or b is None else a + b


def _scale(a: Counter[Product] | None, times: int) -> Counter[Product] | None:
    return None if a is None else Counter({product: count * times for product, count in a.items()})


def _at_most(a: Counter[Product] | None, limit: int) -> bool:
    return a is not None and all(product == () for product in a) and a[()] <= limit


class _Walk:
    def __init__(self, program: Program) -> None:
        self.functions = program.functions
        self.known: dict[str, Cost] = {}

    def function(self, name: str) -> Cost:
        if name not in self.known:
            self.known[name] = UNKNOWN  # what a function that calls itself costs
            self.known[name] = self.block(self.functions[name].body.block)
        return self.known[name]

    def block(self, block: Block) -> Cost:
        total = NOTHING
        for op in block.ops:
            total += self.op(op)
        return total

    def op(self, op: Operation) -> Cost:
        if isinstance(op, d.ForOp):
            trips = _trips(op)
            return UNKNOWN if trips is None else self.block(op.body.block) * trips
        if isinstance(op, d.WhileOp):
            return UNKNOWN
        if isinstance(op, d.IfOp):
            # Branches may cost different amounts; the dearer one cannot be named, so both count for what is touched.
            both = self.block(op.then.block) + self.block(op.orelse.block)
            return Cost(both.operations if not both.operations else None, both.touched)
        if isinstance(op, d.CallOp):
            return self.function(op.callee.data)
        if isinstance(op, d.LaunchOp | d.RegionOp):
            inner = self.function(op.callee.data) if isinstance(op, d.LaunchOp) else self.block(op.body.block)
            blocks = 1 if op.blocks is None else constant_of(op.blocks)
            return inner * blocks if isinstance(blocks, int) else UNKNOWN
        if isinstance(op, d.GroupOp):
            return self.block(op.body.block)
        return Cost(_operations(op), _touched(op))


def _trips(op: d.ForOp) -> int | None:
    bounds = [constant_of(value) for value in (op.lower, op.upper, op.step)]
    if not all(isinstance(bound, int) for bound in bounds) or not bounds[2]:
        return None
    lower, upper, step = (int(bound) for bound in bounds if bound is not None)
    return len(range(lower, upper, step))


def _operations(op: Operation) -> Counter[Product] | None:
    if not isinstance(op, d.ApplyOp) or not any(isinstance(d.type_of(value), ShapedType) for value in op.results):
        return Counter()
    family = ops.table()[op.op].family
    if family in ("elementwise", "expand", "part", "mask"):
        return _elements(op.results[0])
    if family == "reduction":
        return _elements(op.args[0])
    if family in ("matmul", "mx"):
        return _scale(_elements(op.results[0], _inner(op)), 2)
    return Counter()


def _inner(op: d.ApplyOp) -> tuple[int | str, ...]:
    """The extent that a matrix product sums over."""
    args = apply_args(op)
    left = args["lhs"]
    assert isinstance(left, SSAValue)
    shape = d.shaped_type(left).shape
    return (shape[-2 if args.get("a_trans") and len(shape) > 1 else -1],)


def _touched(op: Operation) -> Counter[Product] | None:
    if isinstance(op, d.ConstOp | d.YieldOp | d.ReturnOp | d.WindowOp | d.ViewOp | d.DimOp):
        return Counter()
    values: Iterable[SSAValue] = op.results if isinstance(op, d.LoadOp) else (op.value,) if isinstance(op, d.StoreOp) else (*op.operands, *op.results)
    if isinstance(op, d.ReadOp | d.WriteOp):
        values = ()
    total: Counter[Product] | None = Counter({(): 8})
    for value in values:
        type = d.type_of(value)
        if isinstance(type, ShapedType):
            total = _add(total, _scale(_elements(value), type.dtype.get_byte()))
    return total


def _elements(value: SSAValue, more: tuple[int | str, ...] = ()) -> Counter[Product] | None:
    type = d.type_of(value)
    shape = (*(type.shape if isinstance(type, ShapedType) else ()), *more)
    if ANY in shape:
        return None
    count = 1
    for dim in shape:
        count *= dim if isinstance(dim, int) else 1
    return Counter({tuple(sorted(dim for dim in shape if isinstance(dim, str))): count})
