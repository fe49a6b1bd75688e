"""Matrix products: batches as loops, each one a call of the gemm that the generator makes for the operand type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from xdsl.ir import OpResult, SSAValue

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.llvm.text import Index, Value
from tilejit.backends.cpu.memory.movement import result_of
from tilejit.backends.cpu.memory.storage import Array, aligned, permuted, sub_box
from tilejit.backends.cpu.memory.views import is_last_use
from tilejit.backends.cpu.nests.nest import convert_box, copy_box
from tilejit.backends.cpu.products import dots
from tilejit.backends.cpu.products.elements import Elements, accumulator_of
from tilejit.backends.cpu.products.gemm import Gemm, call_dots, call_gemm, schedule_of, scratch_bytes
from tilejit.backends.cpu.products.looked_up import LookedUp, looked_up
from tilejit.backends.cpu.teams.copies import share_copy
from tilejit.backends.cpu.teams.product import Product
from tilejit.backends.cpu.teams.products import share_product
from tilejit.dtypes import FP64, INT8, UINT8, DType, promote
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args


def write_matmul(f: FunctionWriter, op: d.ApplyOp) -> None:
    """lhs @ rhs, + acc or + bias, for 1-D, 2-D and batched operands."""
    args = apply_args(op)
    left, right = _side(f, op, "lhs", bool(args.get("a_trans"))), _right(f, op)
    one_d = (left.rank == 1, right.rank == 1)
    if one_d[0]:
        left = aligned(left, 2)
    if one_d[1]:
        right = permuted(aligned(right, 2), [1, 0])
    _check_inner(f, op, left.valid[-1], right.valid[-2])
    rank = max(left.rank, right.rank)
    left, right = aligned(left, rank), aligned(right, rank)
    batch = [_larger(a, b) for a, b in zip(left.shape[:-2], right.shape[:-2], strict=True)]
    batch_valid = [_larger(a, b) for a, b in zip(left.valid[:-2], right.valid[:-2], strict=True)]
    shape: list[Index] = [*batch, left.shape[-2], right.shape[-1]]
    valid: list[Index] = [*batch_valid, left.valid[-2], right.valid[-1]]
    drop = [axis for axis, gone in ((rank - 2, one_d[0]), (rank - 1, one_d[1])) if gone]
    if len(drop) == rank:
        drop = drop[:1]
    _Product(f, op, left, right, shape, valid, drop).write()


def _side(f: FunctionWriter, op: d.ApplyOp, name: str, turned: bool) -> Array:
    value = apply_args(op)[name]
    assert isinstance(value, SSAValue)
    array = f.array(value)
    if not turned or array.rank < 2:
        return array
    axes = list(range(array.rank))
    axes[-2:] = [axes[-1], axes[-2]]
    return permuted(array, axes)


def _right(f: FunctionWriter, op: d.ApplyOp) -> Array:
    """The right operand; where it is a function of bytes that is not made, those."""
    value = apply_args(op)["rhs"]
    assert isinstance(value, SSAValue)
    if value in f.makers:
        f.values[value] = replace(f.array(_found(f, value).source), dtype=d.shaped_type(value).dtype, owned=False)
    return _side(f, op, "rhs", bool(apply_args(op).get("b_trans")))


def _found(f: FunctionWriter, value: SSAValue) -> LookedUp:
    assert isinstance(value.owner, d.ApplyOp | d.GroupOp)
    found = looked_up(f, value.owner)
    assert found is not None
    return found


def _larger(a: Index, b: Index) -> Index:
    return b if a == 1 else a


def _check_inner(f: FunctionWriter, op: d.ApplyOp, needed: Index, there: Index) -> None:
    if needed == there or (isinstance(needed, int) and isinstance(there, int)):
        return
    text = f"{op.op} contracts over {{0}} valid columns of `lhs`, of which `rhs` covers {{1}}"
    f.fail_if(f.e.icmp("slt", there, needed), Failure("shape", text, op.span), [needed, there])


class _Product:
    """One product while it is written."""

    def __init__(
        self, f: FunctionWriter, op: d.ApplyOp, left: Array, right: Array, shape: Sequence[Index], valid: Sequence[Index], drop: Sequence[int]
    ) -> None:
        self.f = f
        self.op = op
        self.args = apply_args(op)
        self.left, self.right = left, right
        self.shape, self.valid, self.drop = shape, valid, drop
        self.result = d.shaped_type(op.results[0])
        self.operand = self._operand_dtype()
        value = self.args["rhs"]
        assert isinstance(value, SSAValue)
        self.maker = f.makers.pop(value, None)
        self.looked_up = _found(f, value) if self.maker is not None else None

    def _operand_dtype(self) -> DType:
        common = promote(self.left.dtype, self.right.dtype)
        return FP64 if common.is_float and self.result.dtype is FP64 else common

    def write(self) -> None:
        f = self.f
        keep = [axis for axis in range(len(self.shape)) if axis not in self.drop]
        out_shape, out_valid = [self.shape[axis] for axis in keep], [self.valid[axis] for axis in keep]
        accumulate: Value | bool = False
        acc = self.args.get("acc")
        if isinstance(acc, SSAValue):
            target, accumulate = self._into_accumulator(acc)
        else:
            target = result_of(f, self.op, out_shape, out_valid)
        with f.scope():
            if self.looked_up is not None and not self._can_be_looked_up(target):
                self._make_right()
            left, right = (self._converted(side, target) for side in (self.left, self.right))
            sum_dtype = accumulator_of(self.operand)
            work = target
            # gemm writes rows of its own accumulator type without gaps between columns.
            if target.dtype is not sum_dtype or target.strides[-1] != 1 or self.drop:
                work = f.new_array(sum_dtype, self.shape, self.valid, self.op.span)
                if accumulate is not False:
                    share_copy(f, convert_box, work, target, target.valid)
            bias = self.args.get("bias")
            if isinstance(bias, SSAValue):
                accumulate = True
                self._spread_bias(work, f.array(bias))
            self._multiply(work, left, right, accumulate, target)

    def _into_accumulator(self, acc: SSAValue) -> tuple[Array, Value | bool]:
        """Memory that holds acc: its own when nobody needs it afterwards, else a copy."""
        f, op = self.f, self.op
        source = f.array(acc)
        result = op.results[0]
        assert isinstance(result, OpResult)
        aimed = f.targets.get(result)
        if aimed is not None and aimed.same_place(source):
            f.targets.pop(result)
            target = aimed.with_valid(source.valid)
        elif aimed is None and source.owned and is_last_use(acc, op):
            target = source
        else:
            target = f.result_array(result, source.shape, source.valid, op.span)
            share_copy(f, copy_box, target, source, source.valid)
        f.values[result] = target
        self.valid = target.valid
        condition = self.args.get("init_cond")
        if not isinstance(condition, SSAValue):
            return target, True
        overwrite = f.scalar(condition)
        return target, f.e.inst("i1", f"xor i1 {overwrite.text}, true")

    def _converted(self, side: Array, target: Array) -> Array:
        """The operand in the common dtype, apart from what is being written (`matmul_acc(x, x, y)`).

        Bytes on the right of floats stay what they are: products turn them as they are read, exactly, which is what weights of 8 bits are for.
        """
        as_read = side is self.right and side.dtype in (INT8, UINT8) and self.operand.is_float
        if (side.dtype is self.operand or as_read) and not side.tokens & target.tokens:
            return side
        copy = self.f.new_array(self.operand, side.shape, side.valid, self.op.span)
        share_copy(self.f, convert_box, copy, side, side.valid)
        return copy

    def _spread_bias(self, work: Array, bias: Array) -> None:
        rows = sub_box(self.f.e, bias, [0, 0], [1, bias.shape[1]])
        spread = Array(rows.pointer, bias.dtype, work.shape, (0, rows.strides[1]), work.valid, bias.tokens)
        convert_box(self.f.e, work, spread, work.valid)

    def _multiply(self, work: Array, left: Array, right: Array, accumulate: Value | bool, target: Array) -> None:
        """The products of the batch, on several threads if they are large; what comes of it is converted to the target."""
        sizes = (self.valid[-2], self.valid[-1], self.left.valid[-1])
        rounded = None if work is target or self.drop else target.with_valid(self.valid)
        product = Product(self.operand, work, left, right, self.valid[:-2], sizes, accumulate, self.op.span, rounded)

        def convert() -> None:
            if work is not target:
                view = sub_box(self.f.e, work, [0] * work.rank, self.valid, drop=self.drop)
                share_copy(self.f, convert_box, target, view, view.valid)

        def multiply() -> None:
            made = product if self.maker is None else replace(product, b=self._make_right())
            if not share_product(self.f, made, lambda: self._one_by_one(made), convert):
                self._one_by_one(made)
                convert()

        if self.looked_up is None:
            multiply()
        else:
            self._few_or_many(self.looked_up.kind, product, convert, multiply)

    def _few_or_many(self, kind: Elements, product: Product, convert: Callable[[], None], multiply: Callable[[], None]) -> None:
        """A right operand that is looked up, for few rows; `multiply` makes it for more."""
        f, e, few = self.f, self.f.e, schedule_of(self.f.e.module, self.operand).few_dots
        (m, n, k), (left, right, target) = product.sizes, (product.a, product.b, product.c)
        stem = e.fresh("rows")
        e.cbr(e.icmp("sle", m, few), f"{stem}.few", f"{stem}.many")
        e.place(f"{stem}.few")
        with f.scope():
            a, b = ((side.pointer, side.strides[-2], side.strides[-1]) for side in (left, right))
            scratch = f.allocate(dots.scratch_bytes(kind, few, k if isinstance(k, int) else None), self.op.span)
            call_dots(e, kind, Gemm(a, b, (target.pointer, target.strides[-2]), (m, n, k), product.accumulate, scratch))
            convert()
        e.br(f"{stem}.done")
        e.place(f"{stem}.many")
        with f.scope():
            multiply()
        e.br(f"{stem}.done")
        e.place(f"{stem}.done")

    def _can_be_looked_up(self, target: Array) -> bool:
        """Rows of both operands lie one number behind the other, apart from what is written; and there may be few rows."""
        few, m = schedule_of(self.f.e.module, self.operand).few_dots, self.valid[-2]
        apart = not self.right.tokens & target.tokens and not self.left.tokens & target.tokens
        return apart and self.right.strides[-2] == 1 == self.left.strides[-1] and not (isinstance(m, int) and m > few)

    def _make_right(self) -> Array:
        """The right operand after all, from now on."""
        assert self.maker is not None
        self.maker()
        self.right, self.looked_up, self.maker = _side(self.f, self.op, "rhs", bool(self.args.get("b_trans"))), None, None
        return self.right

    def _one_by_one(self, product: Product) -> None:
        f, e = self.f, self.f.e
        target, left, right, batch, sizes = product.c, product.a, product.b, product.batch, product.sizes
        known = [size if isinstance(size, int) else None for size in sizes]
        need = scratch_bytes(e.module, self.operand, right.dtype, *known)
        scratch = f.allocate(need, self.op.span) if need else Value("null", "ptr")
        with ExitStack() as stack:
            pointers = [target.pointer, left.pointer, right.pointer]
            for axis, extent in enumerate(batch):
                index: Index = 0 if extent == 1 else stack.enter_context(e.loop(0, extent, name="batch")).iv
                e.look()
                arrays = (target, left, right)
                steps = [0 if array.shape[axis] == 1 else array.strides[axis] for array in arrays]
                pointers = [e.offset(pointer, e.mul(index, step), array.dtype.llvm) for pointer, step, array in zip(pointers, steps, arrays, strict=True)]
            a = (pointers[1], left.strides[-2], left.strides[-1])
            b = (pointers[2], right.strides[-2], right.strides[-1])
            call_gemm(e, self.operand, Gemm(a, b, (pointers[0], target.strides[-2]), sizes, product.accumulate, scratch), right.dtype)
