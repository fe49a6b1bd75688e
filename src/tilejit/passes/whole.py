"""Products that a user wrote as loops over tiles become whole products, which a backend blocks as suits the machine, whatever the tiles were.

The shape looked for: loops over rows and columns of tiles, or blocks of pl.spmd divided into both; in them one loop along the depth that adds
products of loaded tiles to an accumulator; then cell-by-cell ops; then stores where the loops stand. One loop is taken away at a time, the
inner ones first: the windows that it moves by their own size grow to all that it covers, and so do the values made from them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from math import prod

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from tilejit import ops
from tilejit.passes.affine import Mismatch, affine, demand
from tilejit.passes.rewriting import Before, has_uses, is_pure, is_scalar_op, remove, splice
from tilejit.passes.rewriting import replace as use_instead
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.alias import Aliases
from tilejit.tile_ir.build import apply_args, constant_of
from tilejit.tile_ir.program import Program
from tilejit.types.values import BufferType, ScalarType, Shape, ShapedType

_LARGEST = 1 << 28
"""Bytes of a product that is not only stored: it is held as a whole before the ops that follow."""
_SMALLEST = 128
"""Rows and columns from which on a product without a loop along the depth is worth it; below, its operands are better read tile by tile."""


def whole_products(program: Program) -> None:
    """Take away the loops around products, as far as they have the shape looked for."""
    calls = [op for function in program.functions.values() for op in function.walk() if isinstance(op, d.LaunchOp | d.CallOp)]
    for name, function in list(program.functions.items()):
        loops = [op for op in function.walk() if isinstance(op, d.ForOp)]
        own = [op for op in calls if op.callee.data == name]
        launch = own[0] if len(own) == 1 and isinstance(own[0], d.LaunchOp) and own[0].blocks is not None else None
        if not loops and launch is None:
            continue
        blocks = launch.blocks if launch is not None else None
        before = function.clone()
        made: list[d.ApplyOp] = []
        for op in reversed(loops):
            with suppress(Mismatch):
                made += [_take_depth(op)] if op.results else _take_loop(program, op)
        if launch is not None:
            with suppress(Mismatch):
                _take_blocks(program, launch)
        repeated = launch is not None and launch.blocks is not None and constant_of(launch.blocks) != 1
        if any((repeated or op.parent_op() is not function) and _is_small(op) for op in made):
            # Some loops are left around a small product: as it was.
            Before(function).insert(before)
            remove(function)
            if launch is not None and blocks is not None:
                launch.operands[0] = blocks


def _is_small(op: d.ApplyOp) -> bool:
    return min(extent for extent in d.shaped_type(op.results[0]).shape if isinstance(extent, int)) < _SMALLEST


def _count(op: d.ForOp) -> tuple[int, int, int]:
    """First value, step and number of trips of a loop where they are known."""
    lower, upper, step = (constant_of(item) for item in (op.lower, op.upper, op.step))
    demand(isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int) and step > 0)
    assert isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int)
    trips = len(range(lower, upper, step))
    demand(trips > 0)
    return lower, step, trips


# along the depth --------------------------------------------------------------------------------------------------------


def _take_depth(loop: d.ForOp) -> d.ApplyOp:
    """One product in place of a loop that adds products to its only carried value."""
    first, step, trips = _count(loop)
    body = loop.body.block
    last = body.last_op
    demand(len(loop.results) == 1 and isinstance(d.type_of(loop.results[0]), ShapedType))
    assert last is not None
    product, overwrites = _accumulated(last.operands[0], body, first)
    args = apply_args(product)
    left, right = args["lhs"], args["rhs"]
    assert isinstance(left, SSAValue) and isinstance(right, SSAValue)
    growth = _Growth(body.args[0], first, step, trips)
    inner = list(body.walk())
    demand(all(isinstance(op, d.ConstOp | d.LoadOp | d.WindowOp | d.YieldOp | d.ApplyOp | d.IfOp) for op in inner))
    demand(sum(isinstance(op, d.ApplyOp) and ops.table()[op.op].family == "matmul" for op in inner) == (2 if isinstance(last.operands[0].owner, d.IfOp) else 1))
    for op in inner:
        demand(not isinstance(op, d.ApplyOp) or is_scalar_op(op) or op is product or op is last.operands[0].owner or op.parent is not body)
    for side, axis in ((left, 0 if args.get("a_trans") else 1), (right, 1 if args.get("b_trans") else 0)):
        demand(side.owner.parent is body if isinstance(side.owner, Operation) else False)
        growth.look(side.owner)
        demand(growth.axes.get(side) == axis)
    zero = overwrites or _is_zero(loop.inits[0])
    growth.apply()
    args = apply_args(product)
    # What the body loads, at the first trip, stands before the loop now; the product takes the place of the loop.
    before = Before(loop)
    for op in list(body.ops):
        if isinstance(op, d.ConstOp | d.LoadOp | d.WindowOp) or (isinstance(op, d.ApplyOp) and is_scalar_op(op)):
            op.detach()
            before.insert(op)
    body.args[0].replace_all_uses_with(before.const(first))
    start: dict[str, object] = {} if zero else {"acc": loop.inits[0]}
    factors = {name: args[name] for name in ("lhs", "rhs", "a_trans", "b_trans") if name in args}
    result = before.apply_typed(ops.table()["matmul" if zero else "matmul_acc"], start | factors, [d.type_of(loop.results[0])])
    start_of = loop.inits[0].owner
    body.args[1].replace_all_uses_with(loop.inits[0])
    use_instead(loop, result)
    if isinstance(start_of, d.ApplyOp) and is_pure(start_of) and not any(map(has_uses, start_of.results)):
        remove(start_of)
    made = result[0].owner
    assert isinstance(made, d.ApplyOp)
    return made


def _accumulated(value: SSAValue, body: Block, first: int) -> tuple[d.ApplyOp, bool]:
    """The product that makes `value` from the carried one, and whether the first trip overwrites that."""
    op, acc = value.owner, body.args[1]
    demand(len(list(acc.uses)) == 1)
    if isinstance(op, d.IfOp):
        demand(_is_first(op.condition, body.args[0], first))
        fresh, added = (branch.block.last_op for branch in (op.then, op.orelse))
        assert fresh is not None and added is not None
        new, more = fresh.operands[0].owner, added.operands[0].owner
        demand(isinstance(new, d.ApplyOp) and new.op == "matmul" and isinstance(more, d.ApplyOp) and more.op == "matmul_acc")
        assert isinstance(new, d.ApplyOp) and isinstance(more, d.ApplyOp)
        one, other = apply_args(new), apply_args(more)
        demand(other["acc"] is acc and all(one.get(name) == other.get(name) for name in ("lhs", "rhs", "a_trans", "b_trans")))
        return more, True
    demand(isinstance(op, d.ApplyOp))
    assert isinstance(op, d.ApplyOp)
    if op.op == "add":
        demand(acc in op.args)
        product = next((arg.owner for arg in op.args if arg is not acc), None)
        demand(isinstance(product, d.ApplyOp) and product.op == "matmul" and len(list(product.results[0].uses)) == 1)
        assert isinstance(product, d.ApplyOp)
        demand(d.shaped_type(product.results[0]).dtype is d.shaped_type(acc).dtype)
        return product, False
    demand(op.op == "matmul_acc" and apply_args(op)["acc"] is acc)
    condition = apply_args(op).get("init_cond")
    demand(condition is None or (isinstance(condition, SSAValue) and _is_first(condition, body.args[0], first)))
    return op, condition is not None


def _is_first(condition: SSAValue, variable: SSAValue, first: int) -> bool:
    """Whether a condition says that this is the first trip."""
    op = condition.owner
    if not isinstance(op, d.ApplyOp) or op.op != "cmp" or apply_args(op).get("cmp_type") != 0:
        return False
    return [arg for arg in op.args if constant_of(arg) is None] == [variable] and first in [constant_of(arg) for arg in op.args]


def _is_zero(value: SSAValue) -> bool:
    op = value.owner
    if not isinstance(op, d.ApplyOp) or op.op != "full":
        return False
    number = apply_args(op)["value"]
    return isinstance(number, SSAValue) and constant_of(number) == 0


# over rows and columns --------------------------------------------------------------------------------------------------


def _take_loop(program: Program, loop: d.ForOp) -> list[d.ApplyOp]:
    """A loop whose trips make stretches of one product: straight code for all of them."""
    first, step, trips = _count(loop)
    body = loop.body.block
    growth = _Growth(body.args[0], first, step, trips)
    growth.look_at_all(body, Aliases(program), loop)
    growth.apply()
    splice(loop, body, [Before(loop).const(first)])
    return []


def _take_blocks(program: Program, launch: d.LaunchOp) -> None:
    """Blocks of a launch that make tiles of one product: first the columns, if the number of a block is divided, then what is left."""
    assert launch.blocks is not None
    count = constant_of(launch.blocks)
    function = program.functions[launch.callee.data]
    body = function.body.block
    numbers = [op for op in body.walk() if isinstance(op, d.ApplyOp) and op.op == "get_block_idx"]
    others = [op for op in body.walk() if isinstance(op, d.ApplyOp) and ops.table()[op.op].family == "place" and op not in numbers]
    demand(isinstance(count, int) and numbers and not others)
    assert isinstance(count, int)
    for extra in numbers[1:]:
        use_instead(extra, [numbers[0].results[0]])
    number = numbers[0].results[0]
    users = [use.operation for use in number.uses]
    if users and all(_divides(op) is not None and op.operands[0] is number for op in users):
        divisors = {constant_of(op.operands[1]) for op in users}
        across = divisors.pop()
        demand(not divisors and isinstance(across, int) and across > 0 and count % across == 0)
        assert isinstance(across, int)
        columns = [op for op in users if _divides(op) == "Mod"]
        demand(len(columns) == 1)
        _take_number(program, function, columns[0].results[0], across)
        for op in users:
            if op is not columns[0]:
                use_instead(op, [number])
        count //= across
        launch.operands[0] = Before(launch).const(count)
    _take_number(program, function, number, count)
    launch.operands[0] = Before(launch).const(1)


def _divides(op: Operation) -> str | None:
    """Which part of a division an op is."""
    operator = ops.table()[op.op].facts.operator if isinstance(op, d.ApplyOp) and is_scalar_op(op) else None
    return operator if operator in ("FloorDiv", "Mod") else None


def _take_number(program: Program, function: d.FuncOp, number: SSAValue, count: int) -> None:
    body = function.body.block
    growth = _Growth(number, 0, 1, count)
    growth.look_at_all(body, Aliases(program), function)
    growth.apply()
    owner = number.owner
    assert isinstance(owner, Operation)
    use_instead(owner, [Before(owner).const(0)])


class _Growth:
    """What grows along which axis when a variable is taken away: found first, done after everything was found fit."""

    def __init__(self, variable: SSAValue, first: int, step: int, trips: int) -> None:
        self.variable, self.first, self.step, self.trips = variable, first, step, trips
        self.axes: dict[SSAValue, int] = {}
        self.products = 0

    def look_at_all(self, body: Block, aliases: Aliases, around: Operation) -> None:
        """Every op of a block must be fit: one product, cell-by-cell ops after it, stores that together write each place once."""
        demand(not aliases.writes(around) & aliases.reads(around))
        stored: list[SSAValue] = []
        for op in body.ops:
            if isinstance(op, d.StoreOp):
                self._look_at_store(op)
                stored.append(op.buffer)
            elif isinstance(op, d.ApplyOp) and not is_scalar_op(op) and ops.table()[op.op].family != "place":
                self._look_at_value(op)
            elif isinstance(op, d.LoadOp | d.WindowOp):
                self.look(op)
            else:
                plain = isinstance(op, d.ConstOp | d.DimOp | d.YieldOp | d.ReturnOp | d.ApplyOp)
                demand(plain and not any(isinstance(d.type_of(value), ShapedType) for value in op.operands))
        roots = [aliases.roots(buffer) for buffer in stored]
        demand(roots and self.products == 1 and sum(map(len, roots)) == len(frozenset[SSAValue]().union(*roots)))

    def look(self, op: Operation | Block) -> None:
        """A window: moved by its own size along one axis, or not at all."""
        demand(isinstance(op, d.LoadOp | d.WindowOp))
        assert isinstance(op, d.LoadOp | d.WindowOp)
        demand(op.buffer not in self.axes and (isinstance(op, d.LoadOp) or not op.static("drop", ())))
        type, sizes = d.shaped_type(op.result), op.valid if isinstance(op, d.LoadOp) else op.extents
        demand(type.rank == 2 and d.shaped_type(op.buffer).rank == 2 and [constant_of(size) for size in sizes] == list(type.shape))
        axis = self._moves(op.buffer, list(op.offsets), type.shape)
        if axis is not None:
            self.axes[op.result] = axis

    def _moves(self, buffer: SSAValue, offsets: list[SSAValue], shape: Shape) -> int | None:
        """The axis along which a window moves by its size with each trip, always inside its buffer; None: it stays where it is."""
        found: int | None = None
        for axis, (offset, size, extent) in enumerate(zip(offsets, shape, d.shaped_type(buffer).shape, strict=True)):
            terms, constant = affine(offset)
            if self.variable not in terms:
                demand(not any(self._follows(term) for term in terms))
                continue
            demand(found is None and len(terms) == 1 and isinstance(size, int) and isinstance(extent, int))
            assert isinstance(size, int) and isinstance(extent, int)
            start = constant + self.first * terms[self.variable]
            demand(terms[self.variable] * self.step == size and start >= 0 and start + size * self.trips <= extent)
            found = axis
        return found

    def _follows(self, value: SSAValue) -> bool:
        """Whether a scalar is made from the variable."""
        owner = value.owner
        return value is self.variable or (isinstance(owner, d.ApplyOp) and any(self._follows(arg) for arg in owner.args))

    def _look_at_value(self, op: d.ApplyOp) -> None:
        row = ops.table()[op.op]
        demand(len(op.results) == 1 and isinstance(d.type_of(op.results[0]), ShapedType))  # a local array is none
        result = d.shaped_type(op.results[0])
        demand(result.rank == 2 and result.valid == result.shape)
        demand(not any(isinstance(d.type_of(arg), ScalarType) and self._follows(arg) for arg in op.args))
        if row.family == "matmul":
            self._look_at_product(op)
            return
        demand(row.family in ("elementwise", "expand") or row.name == "move")
        axes = {self.axes[arg] for arg in op.args if arg in self.axes}
        if not axes:
            return
        demand(len(axes) == 1)
        (axis,) = axes
        for arg in op.args:
            if isinstance(d.type_of(arg), ShapedType):
                shape = d.shaped_type(arg).shape
                demand(len(shape) == 2 and (shape[axis] == result.shape[axis] if arg in self.axes else shape[axis] == 1 != result.shape[axis]))
        self._grow(op.results[0], axis)

    def _look_at_product(self, op: d.ApplyOp) -> None:
        self.products += 1
        args = apply_args(op)
        demand(all(d.shaped_type(arg).rank == 2 for arg in op.args if isinstance(d.type_of(arg), ShapedType)))
        turned = [bool(args.get(name)) for name in ("a_trans", "b_trans")]
        left, right, acc, bias = (args.get(name) for name in ("lhs", "rhs", "acc", "bias"))
        assert isinstance(left, SSAValue) and isinstance(right, SSAValue)
        rows, columns = self.axes.get(left), self.axes.get(right)
        demand((rows is None) != (columns is None))
        demand(rows in (None, int(turned[0])) and columns in (None, 1 - int(turned[1])))
        axis = 0 if rows is not None else 1
        demand(acc is None or (isinstance(acc, SSAValue) and self.axes.get(acc) == axis))
        demand(bias is None or (isinstance(bias, SSAValue) and self.axes.get(bias) == (1 if axis == 1 else None)))
        self._grow(op.results[0], axis)

    def _grow(self, value: SSAValue, axis: int) -> None:
        stored = all(isinstance(use.operation, d.StoreOp) for use in value.uses)
        demand(stored or prod(extent for extent in self._grown(value, axis) if isinstance(extent, int)) * 4 <= _LARGEST)
        self.axes[value] = axis

    def _grown(self, value: SSAValue, axis: int) -> Shape:
        return tuple(extent * self.trips if place == axis and isinstance(extent, int) else extent for place, extent in enumerate(d.shaped_type(value).shape))

    def _look_at_store(self, op: d.StoreOp) -> None:
        type = d.shaped_type(op.value)
        demand(not op.static("atomic") and type.rank == 2 and len(op.offsets) == 2 and type.valid == type.shape and op.value in self.axes)
        if op.buffer in self.axes:
            demand(self.axes[op.buffer] == self.axes[op.value] and all(constant_of(offset) == 0 for offset in op.offsets))
            demand(d.shaped_type(op.buffer).shape == type.shape)
        else:
            demand(self._moves(op.buffer, list(op.offsets), type.shape) == self.axes[op.value])

    def apply(self) -> None:
        """Change the types of everything that grows, and the sizes that windows are given."""
        for value, axis in self.axes.items():
            type = d.shaped_type(value)
            shape = self._grown(value, axis)
            op = value.owner
            if isinstance(op, d.LoadOp | d.WindowOp):
                extent = shape[axis]
                assert isinstance(extent, int)
                op.operands[1 + len(op.offsets) + axis] = Before(op).const(extent)
            grown = replace(type, shape=shape) if isinstance(type, BufferType) else replace(type, shape=shape, valid=shape)
            Rewriter.replace_value_with_new_type(value, d.IRType(grown))
