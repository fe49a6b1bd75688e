"""Products that a user wrote as loops over tiles: recognised, and run in blocks that suit the GPU whatever the tiles were.

The shape looked for: loops over rows and columns of tiles (or blocks of pl.spmd, divided into both); in them one loop over K that adds products of
loaded tiles to an accumulator; then cell-by-cell ops on the accumulator; then stores of the tile where the loops stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Block, Operation, SSAValue

from tilejit import ops
from tilejit.backends.cuda.control_plane import host
from tilejit.backends.cuda.control_plane.frame import Frame, Making
from tilejit.backends.cuda.control_plane.host import Memory, Number
from tilejit.backends.cuda.indexed import generated
from tilejit.backends.cuda.nests.members import folds, is_member, members_of
from tilejit.backends.cuda.products import gemm
from tilejit.backends.cuda.products.sides import Side, store_window, window
from tilejit.backends.cuda.program.body import Body
from tilejit.backends.cuda.text import numbers
from tilejit.backends.cuda.text.values import Buffer, Scalar, Tile, index
from tilejit.dtypes import INT8
from tilejit.ops.facts import PLAIN, Effect
from tilejit.ops.matmul import accumulator
from tilejit.passes.affine import Affine, Mismatch, demand
from tilejit.passes.rewriting import is_scalar_op
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, constant_of
from tilejit.types.values import ShapedType


@dataclass(frozen=True)
class Turn:
    """A variable of the grid: the value that counts, how often, and from where in which steps."""

    value: SSAValue
    trips: Number
    first: int
    step: int


def product_from_loops(frame: Frame, turns: Sequence[Turn], block: Block, name: str) -> bool:
    """Launch the product that a block of the grid computes; False where it is none."""
    try:
        found = Found(frame, turns, block)
    except Mismatch:
        return False
    found.launch(name)
    return True


class Found:
    """A recognised product."""

    def __init__(self, frame: Frame, turns: Sequence[Turn], block: Block) -> None:
        self.frame = frame
        self.turns = {turn.value: turn for turn in turns}
        self.block = block
        self.loop: d.ForOp | None = None
        work: list[Operation] = []
        for op in block.ops:
            if isinstance(op, d.YieldOp | d.ReturnOp | d.ConstOp | d.DimOp) or is_scalar_op(op) or _asks_place(op):
                continue
            if isinstance(op, d.ForOp):
                demand(self.loop is None)
                self.loop = op
            work.append(op)
        self.rest = [op for op in work if op is not self.loop]
        self._find_product()
        self._find_axes()
        self._check_epilogue()

    # the product ------------------------------------------------------------------------------------------------------------

    def _find_product(self) -> None:
        if self.loop is None:
            products = [op for op in self.rest if isinstance(op, d.ApplyOp) and op.op == "matmul"]
            demand(len(products) == 1)
            self.product = products[0]
            self.result = self.product.results[0]
            self.inner: Turn | None = None
            self.start: SSAValue | None = None
            left, right = (self._side(value) for value in self.product.args[:2])
        else:
            loop = self.loop
            body = loop.body.block
            demand(len(loop.results) == 1 and isinstance(d.type_of(loop.results[0]), ShapedType))
            lower, upper, step = (constant_of(item) for item in (loop.lower, loop.upper, loop.step))
            demand(isinstance(lower, int) and isinstance(step, int) and step > 0)
            trips = host.number(len(range(int(lower or 0), upper, int(step or 1)))) if isinstance(upper, int) else None
            demand(trips is not None)
            assert trips is not None
            self.inner = Turn(body.args[0], trips, int(lower or 0), int(step or 1))
            last = d.end_of(body, d.TileOp)
            self.product = self._accumulates(last.operands[0], body.args[1])
            self.result = loop.results[0]
            self.start = loop.inits[0]
            self._check_loop(body)
            self._check_start(loop)
            left, right = (self._side(value) for value in self._factors(self.product))
        self.left, self.right = left, right
        floats = self._dtype(left).is_float and self._dtype(right).is_float
        demand(self._dtype(left) is self._dtype(right) and (floats or self._dtype(left) is INT8) and self._dtype(left).get_byte() <= 4)
        demand(self._dtype(left).bits >= 8 and "E8M0" not in self._dtype(left).name)

    def _dtype(self, side: Side):
        return d.shaped_type(side.buffer).dtype

    def _factors(self, op: d.ApplyOp) -> tuple[SSAValue, SSAValue]:
        args = apply_args(op)
        left, right = args["lhs"], args["rhs"]
        assert isinstance(left, SSAValue) and isinstance(right, SSAValue)
        return left, right

    def _accumulates(self, value: SSAValue, acc: SSAValue) -> d.ApplyOp:
        """matmul_acc of the accumulator, or its sum with a product."""
        op = value.owner
        demand(isinstance(op, d.ApplyOp))
        assert isinstance(op, d.ApplyOp)
        row = ops.table()[op.op]
        if row.family == "matmul" and "acc" in row.operands:
            demand(apply_args(op)["acc"] is acc)
            return op
        demand(op.op == "add" and acc in op.args)
        other = next((arg for arg in op.args if arg is not acc), None)
        demand(other is not None and isinstance(other.owner, d.ApplyOp) and other.owner.op == "matmul")
        assert other is not None and isinstance(other.owner, d.ApplyOp)
        return other.owner

    def _check_loop(self, body: Block) -> None:
        """Nothing but loads, transpositions and the product."""
        allowed = (d.LoadOp, d.YieldOp, d.ConstOp, d.DimOp, d.WindowOp)
        last = d.end_of(body, d.TileOp)
        for op in body.ops:
            sum_ = isinstance(op, d.ApplyOp) and op.op == "add" and op.results[0] is last.operands[0]
            plain = sum_ or op is self.product or _passes_on(op)
            demand(isinstance(op, allowed) or is_scalar_op(op) or plain)
        demand(len(list(body.args[1].uses)) == 1)

    def _check_start(self, loop: d.ForOp) -> None:
        """The accumulator starts at 0, or the first turn overwrites it."""
        owner = loop.inits[0].owner
        demand(isinstance(owner, d.ApplyOp))
        assert isinstance(owner, d.ApplyOp)
        condition = apply_args(self.product).get("init_cond")
        if isinstance(condition, SSAValue):
            compare = condition.owner
            demand(isinstance(compare, d.ApplyOp) and compare.op == "cmp" and apply_args(compare).get("cmp_type") == 0)
            assert isinstance(compare, d.ApplyOp) and self.inner is not None
            sides = [arg for arg in compare.args if constant_of(arg) is None]
            constants = [constant_of(arg) for arg in compare.args if constant_of(arg) is not None]
            demand(sides == [self.inner.value] and constants == [self.inner.first])
            return
        value = apply_args(owner).get("value")
        demand(owner.op == "full" and isinstance(value, SSAValue) and constant_of(value) == 0)

    def _side(self, value: SSAValue) -> Side:
        """A loaded tile, perhaps turned, as a window that moves with the loops."""
        turned = False
        owner = value.owner
        while isinstance(owner, d.ApplyOp) and _passes_on(owner):
            turned ^= ops.table()[owner.op].facts.swaps
            owner = owner.args[0].owner
        demand(isinstance(owner, d.LoadOp))
        assert isinstance(owner, d.LoadOp)
        return window(owner, 1 if turned else 0)

    # where the loops stand --------------------------------------------------------------------------------------------------

    def _find_axes(self) -> None:
        """Which variable moves along the rows and which along the columns, and how far they get."""
        left, right = self.left, self.right
        k_left, k_right = 1 - left.outer, right.outer
        m_axis, n_axis = left.outer, 1 - right.outer
        self.m, self.m_first, self.m_size = self._moves(left.starts[m_axis], left.shape[m_axis])
        self.n, self.n_first, self.n_size = self._moves(right.starts[n_axis], right.shape[n_axis])
        demand(len(self.turns) == len({turn.value for turn in (self.m, self.n) if turn is not None}))
        demand(self.m is None or self.n is None or self.m.value is not self.n.value)
        depth = left.shape[k_left]
        demand(right.shape[k_right] == depth)
        firsts = [self._depth(side.starts[axis], depth) for side, axis in ((left, k_left), (right, k_right))]
        self.k_firsts = firsts
        self.depth = host.mul(self.inner.trips, host.number(depth)) if self.inner is not None else host.number(depth)
        self._limit()

    def _moves(self, start: Affine, size: int) -> tuple[Turn | None, int, int]:
        """The variable that moves a window by its own size with each turn, and where it begins."""
        terms, constant = start
        if not terms:
            return None, constant, size
        demand(len(terms) == 1)
        ((value, factor),) = terms.items()
        turn = self.turns.get(value)
        demand(turn is not None and factor * turn.step == size)
        assert turn is not None
        return turn, constant + turn.first * factor, size

    def _depth(self, start: Affine, size: int) -> int:
        terms, constant = start
        if self.inner is None:
            demand(not terms)
            return constant
        demand(set(terms) == {self.inner.value} and terms[self.inner.value] * self.inner.step == size)
        return constant + self.inner.first * terms[self.inner.value]

    def _total(self, turn: Turn | None, size: int) -> Number:
        return host.mul(turn.trips, host.number(size)) if turn is not None else host.number(size)

    def _limit(self) -> None:
        """Rows, columns and depth, cut where loads are clamped; what might lie outside is left to the checked form."""
        sizes = {"m": self._total(self.m, self.m_size), "n": self._total(self.n, self.n_size), "k": self.depth}
        left, right = self.left, self.right
        plan = [
            (left, left.outer, "m", self.m_first),
            (left, 1 - left.outer, "k", self.k_firsts[0]),
            (right, right.outer, "k", self.k_firsts[1]),
            (right, 1 - right.outer, "n", self.n_first),
        ]
        for side, axis, name, first in plan:
            extent = self._memory(side.buffer).shape[axis]
            room = host.sub(extent, host.number(first))
            demand(first >= 0)
            if side.clamped:
                sizes[name] = host.maximum(host.minimum(sizes[name], room), host.number(0))
                continue
            need = sizes[name]
            demand(host.same(need, room) or (need.bounds and room.bounds and need.bounds[1] <= room.bounds[0]))
        self.sizes = sizes

    def _memory(self, value: SSAValue) -> Memory:
        found = self.frame.values.get(value)
        demand(isinstance(found, Memory) and len(found.axes) == 2)
        assert isinstance(found, Memory)
        return found

    # what follows ---------------------------------------------------------------------------------------------------------

    def _check_epilogue(self) -> None:
        """Cell-by-cell ops and stores at the tile of the loops."""
        skipped = {self.product, *(value.owner for value in (self.start,) if value is not None)}
        self.epilogue: list[Operation] = []
        stored = False
        for op in self.rest:
            if op in skipped or (self.loop is None and isinstance(op, d.LoadOp | d.ApplyOp) and self._feeds(op)):
                continue
            for member in members_of(op) if isinstance(op, d.GroupOp) else [op]:
                self._check_member(member)
                stored |= isinstance(member, d.StoreOp)
            self.epilogue.append(op)
        demand(stored)

    def _feeds(self, op: d.LoadOp | d.ApplyOp) -> bool:
        """Whether an op only makes an operand of the product."""
        todo, seen = list(self.product.args), set[Operation]()
        while todo:
            owner = todo.pop().owner
            if isinstance(owner, d.LoadOp | d.ApplyOp) and owner not in seen:
                seen.add(owner)
                todo += [arg for arg in owner.operands if isinstance(d.type_of(arg), ShapedType)]
        return op in seen

    def _check_member(self, op: Operation) -> None:
        if isinstance(op, d.StoreOp):
            demand(not op.static("atomic"))
            self._placed(store_window(op))
        elif isinstance(op, d.LoadOp):
            self._placed(window(op, 0))
        elif isinstance(op, d.ApplyOp) and (_fills(op) or op.op == "move"):
            demand(all(constant_of(arg) is not None or isinstance(d.type_of(arg), ShapedType) for arg in op.args))
        else:
            demand(is_member(op) and folds(op) is None and isinstance(op, d.ApplyOp))
            assert isinstance(op, d.ApplyOp)
            for arg in op.args:
                demand(isinstance(d.type_of(arg), ShapedType) or constant_of(arg) is not None or arg in self.frame.values)
            type = d.shaped_type(op.results[0])
            demand(type.rank == 2 and type.shape[0] in (1, self.m_size) and type.shape[1] in (1, self.n_size))

    def _placed(self, side: Side) -> tuple[bool, bool]:
        """Whether a window moves with the rows and the columns; it must stand where the tile stands."""
        self._memory(side.buffer)
        moves: list[bool] = []
        for start, size, turn, _first, tile in (
            (side.starts[0], side.shape[0], self.m, self.m_first, self.m_size),
            (side.starts[1], side.shape[1], self.n, self.n_first, self.n_size),
        ):
            terms, _ = start
            if size == 1 and not terms and tile != 1:
                moves.append(False)
                continue
            found, _, _ = self._moves(start, size)
            demand(size == tile and found is turn)
            moves.append(True)
        return moves[0], moves[1]

    # writing --------------------------------------------------------------------------------------------------------------

    def launch(self, name: str) -> None:
        dtype = self._dtype(self.left)

        def make(kernel: Making, batch: Scalar) -> gemm.Product:
            kernel.out.span = self.product.span
            left = self._operand(kernel.body, self.left, (self.m_first, self.k_firsts[0]))
            right = self._operand(kernel.body, self.right, (self.k_firsts[1], self.n_first))
            rows, columns, inner = (host.take_number(kernel.out, self.sizes[key], key) for key in ("m", "n", "k"))
            return gemm.Product(left, right, rows, columns, inner, accumulator(dtype))

        gemm.launch(self.frame, name, make, (self.sizes["m"], self.sizes["k"], self.sizes["n"]), dtype, lambda kernel, batch: self._end, host.number(1))

    def _operand(self, body: Body, side: Side, firsts: tuple[int, int]) -> Buffer:
        buffer = body.buffer(side.buffer)
        if side.outer == 1:
            buffer = gemm.turned(buffer)
        return _from(buffer, firsts)

    def _end(self, body: Body, acc: Tile, row: Scalar, column: Scalar) -> None:
        body.values[self.result] = acc
        saved, body.nest = body.nest, True
        for op in self.epilogue:
            for member in members_of(op) if isinstance(op, d.GroupOp) else [op]:
                self._write(body, member, acc, row, column)
            if isinstance(op, d.GroupOp):
                last = d.end_of(op.body.block, d.TileOp)
                for value, result in zip(last.operands, op.results, strict=True):
                    body.values[result] = body[value]
        body.nest = saved

    def _write(self, body: Body, op: Operation, acc: Tile, row: Scalar, column: Scalar) -> None:
        from tilejit.backends.cuda.rules import ROWS

        if isinstance(op, d.TileOp) and op.span is not None:
            body.out.span = op.span
        if isinstance(op, d.StoreOp | d.LoadOp):
            side = store_window(op) if isinstance(op, d.StoreOp) else window(op, 0)
            moves = self._placed(side)
            firsts = tuple(
                start[1] + (turn.first * start[0].get(turn.value, 0) if turn is not None else 0)
                for start, turn in zip(side.starts, (self.m, self.n), strict=True)
            )
            target = _from(body.buffer(side.buffer), (firsts[0], firsts[1]))
            starts = (row if moves[0] else index(0), column if moves[1] else index(0))
            if isinstance(op, d.StoreOp):
                tile = body.tile(op.value)
                body.store_tile(tile, target, starts)
                return
            shape = (acc.shape[0] if moves[0] else 1, acc.shape[1] if moves[1] else 1)
            valid = (acc.valid[0] if moves[0] else index(1), acc.valid[1] if moves[1] else index(1))
            body.values[op.result] = body.load_tile(target, starts, shape, valid, op.hint)
            return
        assert isinstance(op, d.ApplyOp)
        for arg in op.args:
            if isinstance(arg.owner, d.ConstOp) and arg not in body.values:
                body.step(arg.owner)
        if _fills(op):
            self._constant(body, op, acc)
            return
        rule = ROWS[op.op]
        assert not isinstance(rule, str)
        for result, made in zip(op.results, rule(body, op), strict=True):
            body.define(result, made)

    def _constant(self, body: Body, op: d.ApplyOp, acc: Tile) -> None:
        from tilejit.backends.cuda.program.rows import filled

        value = apply_args(op).get("value")
        known = constant_of(value) if isinstance(value, SSAValue) else 0
        shape = tuple(block if extent != 1 else 1 for extent, block in zip(d.shaped_type(op.results[0]).shape, acc.shape, strict=True))
        dtype = d.shaped_type(op.results[0]).dtype
        valid = tuple(size if extent != 1 else index(1) for extent, size in zip(shape, acc.valid, strict=True))
        body.define(op.results[0], filled(body, shape, dtype, Scalar(repr(known or 0), dtype, None, known or 0), valid))


def _asks_place(op: Operation) -> bool:
    """Whether an op asks for the block, or how many there are."""
    facts = ops.table()[op.op].facts if isinstance(op, d.ApplyOp) else PLAIN
    return facts.effect is Effect.Place and not facts.varies_by_lane


def _passes_on(op: Operation) -> bool:
    """Whether an op gives its operand on, perhaps turned."""
    return isinstance(op, d.ApplyOp) and (op.op == "move" or ops.table()[op.op].facts.swaps)


def _fills(op: d.ApplyOp) -> bool:
    """Whether a tile is made of one number, or of nothing yet."""
    from tilejit.backends.cuda.rules import ROWS

    return ROWS.get(op.op) in (generated.full, generated.create_tile)


def _from(buffer: Buffer, firsts: tuple[int, int]) -> Buffer:
    """A buffer as it looks from some row and column on."""
    offset = numbers.total([buffer.offset, *(numbers.mul(index(first), dim.stride) for first, dim in zip(firsts, buffer.dims, strict=True))])
    return replace(buffer, offset=offset)
