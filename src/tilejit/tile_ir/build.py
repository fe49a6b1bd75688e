"""Builds tile IR: one method per op, types inferred from the op table, the current span attached to everything."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from tilejit import ops
from tilejit.dtypes import BOOL, FP32, INDEX, INT64, DType
from tilejit.errors import Span, TilejitError, in_body
from tilejit.ops.dtype_rules import as_float, as_index
from tilejit.ops.sizes import check_size
from tilejit.ops.spec import Call, OpSpec, ParamKind, ScalarArg
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import ApplyArg, _user_name, gathered, in_user_names, refuse_masks, value_of, values_of
from tilejit.tile_ir.derive import counted, expand
from tilejit.tile_ir.names import name_value
from tilejit.types.values import BufferType, ScalarType, ShapedType, TileType, ValueType


def constant_of(value: SSAValue) -> int | float | bool | None:
    """The value of a scalar that is a constant, else None."""
    return value.owner.value if isinstance(value.owner, d.ConstOp) else None


def scalar_arg(value: SSAValue) -> ScalarArg:
    """What a type rule sees of a scalar operand."""
    dtype = d.type_of(value).dtype
    if isinstance(value.owner, d.DimOp):
        return ScalarArg(dtype, symbol=d.shaped_type(value.owner.source).shape[value.owner.axis])
    return ScalarArg(dtype, constant_of(value))


_Op = TypeVar("_Op", bound=Operation)


class Builder:
    """Appends ops to a block."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.span: Span | None = None
        self.hint: str | None = None

    @contextmanager
    def at(self, block: Block) -> Generator[Block]:
        """Append to `block` for a while."""
        previous, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = previous

    @contextmanager
    def spanning(self, span: Span | None) -> Generator[None]:
        """Give new ops this span for a while."""
        previous, self.span = self.span, span or self.span
        try:
            yield
        finally:
            self.span = previous

    def insert(self, op: _Op) -> _Op:
        """Append any op, with the current span."""
        if self.span is not None and "span" not in op.attributes:
            op.attributes["span"] = d.SpanAttr(self.span)
        self._put(op)
        return op

    def _put(self, op: Operation) -> None:
        self.block.add_op(op)

    def _attributes(self, statics: Mapping[str, object]) -> dict[str, Attribute]:
        attributes = d.statics(statics)
        if self.hint is not None:
            attributes["hint"] = StringAttr(self.hint)
        return attributes

    # scalars ----------------------------------------------------------------------------------------------------------

    def const(self, value: int | float | bool, dtype: DType | None = None) -> SSAValue:
        """A scalar constant: INDEX for ints, FP32 for floats, BOOL for flags, unless a dtype is given."""
        if dtype is None:
            dtype = BOOL if isinstance(value, bool) else INDEX if isinstance(value, int) else FP32
        if dtype.is_float:
            value = as_float(value, dtype)
        elif dtype is INDEX:
            value = as_index(value) if isinstance(value, int) else value
        return self.insert(d.ConstOp.create(result_types=[d.IRType(ScalarType(dtype))], attributes=d.statics({"value": value}))).results[0]

    def index(self, value: SSAValue | int) -> SSAValue:
        """`value` as an SSA scalar."""
        return self.const(value) if isinstance(value, int) else value

    # ops of the table -------------------------------------------------------------------------------------------------

    def apply(self, row: OpSpec, level: str, args: Mapping[str, ApplyArg]) -> list[SSAValue]:
        """Apply a row of the table; types come from its rule, run-time extent checks are emitted before it."""
        return self.apply_typed(row, args, self._inferred(row, level, args))

    def perform(self, row: OpSpec, level: str, args: Mapping[str, ApplyArg]) -> None:
        """A row of the table as a statement: it is checked like an application, and changes what its fact "writes" names."""
        self._inferred(row, level, args)
        operands, groups, statics = gathered(row, args)
        self.insert(d.EffectOp.build(operands=[operands], attributes=d.statics({"op": row.name, "groups": groups, "statics": statics})))

    def _inferred(self, row: OpSpec, level: str, args: Mapping[str, ApplyArg]) -> Sequence[ValueType]:
        call = Call(row, level, {name: self._seen(row, name, arg) for name, arg in args.items()})
        try:
            refuse_masks(row, args)
            results = row.infer(call)
            for type in results:
                check_size(type)
        except TilejitError as error:
            raise self.misuse(error, args) from None
        for check in call.checks:
            self.check(
                self.dim(value_of(args[check.left[0]]), check.left[1]),
                self.dim(value_of(args[check.right[0]]), check.right[1]),
                f"{row.name}: dim {check.left[1]} of {check.left[0]} and dim {check.right[1]} of {check.right[0]}",
            )
        return results

    def copy(self, buffer: SSAValue) -> SSAValue:
        """The cells of a buffer now, as a tensor-level value."""
        return self.apply(ops.table()["expand_clone"], "tensor", {"src": buffer, "target": buffer})[0]

    def apply_typed(self, row: OpSpec, args: Mapping[str, ApplyArg], results: Sequence[ValueType]) -> list[SSAValue]:
        """Apply a row with result types already known (passes); a derived row becomes its term."""
        if row.derived is not None:
            return [expand(self, row, args, results[0])]
        operands, groups, statics = gathered(row, counted(self, row, args))
        # Nearly every op of a program is made here: without sorting operands and results into groups, of which there is one each.
        op = d.ApplyOp.create(
            operands=operands,
            result_types=d.ir_types(results),
            attributes=self._attributes({"op": row.name, "groups": groups, "statics": statics}),
        )
        return list(self.insert(op).results)

    def _seen(self, row: OpSpec, name: str, arg: ApplyArg) -> object:
        if isinstance(arg, SSAValue):
            type = d.type_of(arg)
            return scalar_arg(arg) if isinstance(type, ScalarType) else type
        if row.param(name).kind is ParamKind.Scalars and arg is not None:
            return tuple(map(scalar_arg, values_of(arg)))
        return arg

    def misuse(self, error: TilejitError, args: Mapping[str, ApplyArg]) -> TilejitError:
        """`error` as an in-body error at the current span, with the types of the shaped operands."""
        if self.span is None:
            return error
        kind = in_body(type(error))
        shaped = {name: arg for name, arg in args.items() if isinstance(arg, SSAValue) and isinstance(d.type_of(arg), ShapedType)}
        where = list(dict.fromkeys(f"{_user_name(arg) or name}: {d.type_of(arg)}" for name, arg in shaped.items()))
        return kind(error.message, span=error.span or self.span, where=error.where or where, help=in_user_names(error.hint, args), note=error.note)

    # buffers ----------------------------------------------------------------------------------------------------------

    def _check_size(self, type: ShapedType) -> None:
        try:
            check_size(type)
        except TilejitError as error:
            raise self.misuse(error, {}) from None

    def _value(self, kind: type[d.TileOp], operands: Sequence[SSAValue | Sequence[SSAValue] | None], result: ValueType, **statics: object) -> SSAValue:
        """Append an op with one result."""
        return self.insert(kind.build(operands=operands, result_types=[d.IRType(result)], attributes=self._attributes(statics))).results[0]

    def create(self, type: BufferType, extents: Sequence[SSAValue], init: int | float | None = None) -> SSAValue:
        self._check_size(type)
        return self._value(d.CreateOp, [extents], type, init=init)

    def window(
        self, buffer: SSAValue, offsets: Sequence[SSAValue], extents: Sequence[SSAValue], type: BufferType, drop: Sequence[int] = (), clamp: bool = False
    ) -> SSAValue:
        return self._value(d.WindowOp, [buffer, offsets, extents], type, drop=tuple(drop), clamp=clamp)

    def view(self, buffer: SSAValue, extents: Sequence[SSAValue], type: BufferType) -> SSAValue:
        self._check_size(type)
        return self._value(d.ViewOp, [buffer, extents], type)

    def comm(self, window: SSAValue) -> SSAValue:
        return self._value(d.CommOp, [window], ScalarType(INT64))

    def peer(self, buffer: SSAValue, comm: SSAValue, peer: SSAValue) -> SSAValue:
        return self._value(d.PeerOp, [buffer, comm, peer], d.type_of(buffer))

    def strided(self, buffer: SSAValue, start: SSAValue, extents: Sequence[SSAValue], strides: Sequence[SSAValue], type: BufferType) -> SSAValue:
        return self._value(d.StridedOp, [buffer, start, extents, strides], type)

    def load(self, buffer: SSAValue, offsets: Sequence[SSAValue], valid: Sequence[SSAValue], type: TileType, clamp: bool = False) -> SSAValue:
        self._check_size(type)
        return self._value(d.LoadOp, [buffer, offsets, valid], type, clamp=clamp)

    def store(self, value: SSAValue, buffer: SSAValue, offsets: Sequence[SSAValue], atomic: bool = False) -> None:
        self.insert(d.StoreOp.build(operands=[value, buffer, list(offsets)], attributes=d.statics({"atomic": atomic})))

    def fill(self, buffer: SSAValue, value: SSAValue) -> None:
        """A value, or a number, into a buffer of its shape."""
        zeros = [self.const(0) for _ in d.shaped_type(buffer).shape]
        if isinstance(d.type_of(value), ScalarType):
            self.write(buffer, zeros, value)
        else:
            self.store(value, buffer, zeros)

    def read(self, source: SSAValue, indices: Sequence[SSAValue]) -> SSAValue:
        return self._value(d.ReadOp, [source, indices], ScalarType(d.shaped_type(source).dtype))

    def write(self, buffer: SSAValue, indices: Sequence[SSAValue], value: SSAValue) -> None:
        self.insert(d.WriteOp.build(operands=[buffer, value, list(indices)]))

    def atomic(self, row: OpSpec, buffer: SSAValue, indices: Sequence[SSAValue], value: SSAValue, expected: SSAValue | None = None) -> SSAValue:
        return self._value(d.AtomicOp, [expected, buffer, value, indices], ScalarType(d.shaped_type(buffer).dtype), atomic=row.name)

    def dim(self, source: SSAValue, axis: int) -> SSAValue:
        """Extent of `axis`: a constant when the type knows it."""
        extent = d.shaped_type(source).shape[axis]
        return self.const(extent) if isinstance(extent, int) else self._value(d.DimOp, [source], ScalarType(INDEX), axis=axis)

    def valid(self, source: SSAValue, axis: int) -> SSAValue:
        """Valid extent of `axis`: a constant when the type knows it."""
        extent = d.shaped_type(source).valid[axis]
        return self.const(extent) if isinstance(extent, int) else self._value(d.ValidOp, [source], ScalarType(INDEX), axis=axis)

    # control flow -----------------------------------------------------------------------------------------------------

    def for_(
        self,
        lower: SSAValue,
        upper: SSAValue,
        step: SSAValue,
        inits: Sequence[SSAValue],
        body: Block,
        results: Sequence[ValueType],
        kind: str = "range",
        stage: int | None = None,
    ) -> d.ForOp:
        """`body` has arguments (iv, carried…) and ends in tile.yield."""
        op = d.ForOp.build(
            operands=[lower, upper, step, list(inits)],
            result_types=[d.ir_types(results)],
            regions=[Region(body)],
            attributes=d.statics({"kind": kind, "stage": stage}),
        )
        return self.insert(op)

    def while_(self, inits: Sequence[SSAValue], before: Block, body: Block, results: Sequence[ValueType]) -> d.WhileOp:
        return self.insert(d.WhileOp.build(operands=[list(inits)], result_types=[d.ir_types(results)], regions=[Region(before), Region(body)]))

    def if_(self, condition: SSAValue, then: Block, orelse: Block, results: Sequence[ValueType]) -> d.IfOp:
        return self.insert(d.IfOp.build(operands=[condition], result_types=[d.ir_types(results)], regions=[Region(then), Region(orelse)]))

    def region(
        self,
        body: Block,
        results: Sequence[ValueType],
        blocks: SSAValue | None = None,
        kind: str = "at",
        name_hint: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> d.RegionOp:
        op = d.RegionOp.build(
            operands=[blocks],
            result_types=[d.ir_types(results)],
            regions=[Region(body)],
            attributes=d.statics({"kind": kind, "name_hint": name_hint, "options": dict(options or {})}),
        )
        return self.insert(op)

    def yield_(self, values: Sequence[SSAValue]) -> None:
        self.insert(d.YieldOp.build(operands=[list(values)]))

    def condition(self, condition: SSAValue, values: Sequence[SSAValue]) -> None:
        self.insert(d.ConditionOp.build(operands=[condition, list(values)]))

    # functions and effects --------------------------------------------------------------------------------------------

    def call(self, callee: str, args: Sequence[SSAValue], results: Sequence[ValueType]) -> list[SSAValue]:
        op = d.CallOp.build(operands=[list(args)], result_types=[d.ir_types(results)], attributes={"callee": StringAttr(callee), **self._attributes({})})
        return list(self.insert(op).results)

    def launch(self, callee: str, args: Sequence[SSAValue], blocks: SSAValue | None = None) -> None:
        self.insert(d.LaunchOp.build(operands=[blocks, list(args)], attributes={"callee": StringAttr(callee)}))

    def check(self, left: SSAValue, right: SSAValue, message: str) -> None:
        self.insert(d.CheckOp.build(operands=[left, right], attributes=d.statics({"message": message})))

    def effect(self, op: str, args: Sequence[SSAValue], statics: Mapping[str, object] | None = None) -> None:
        self.insert(d.EffectOp.build(operands=[list(args)], attributes=d.statics({"op": op, "statics": dict(statics or {})})))

    def return_(self, values: Sequence[SSAValue]) -> None:
        self.insert(d.ReturnOp.build(operands=[list(values)]))


def function(
    name: str, kind: str, params: Sequence[tuple[str, ValueType, str]], attrs: Mapping[str, object] | None = None
) -> tuple[d.FuncOp, list[BlockArgument]]:
    """An empty function with parameters (name, type, direction), and its arguments."""
    body = Block(arg_types=d.ir_types([type for _, type, _ in params]))
    for argument, (param, _, _) in zip(body.args, params, strict=True):
        name_value(argument, param)
    op = d.FuncOp.build(
        regions=[Region(body)],
        attributes={
            "sym_name": StringAttr(name),
            **d.statics(
                {
                    "kind": kind,
                    "params": tuple(param for param, _, _ in params),
                    "directions": tuple(direction for _, _, direction in params),
                    "attrs": dict(attrs or {}),
                }
            ),
        },
    )
    return op, list(body.args)


def apply_args(op: d.RowOp) -> dict[str, SSAValue | list[SSAValue] | object]:
    """The arguments of an apply op by parameter name: operands, lists of operands, statics."""
    out: dict[str, SSAValue | list[SSAValue] | object] = dict(op.statics)
    args, position = op.operands, 0
    for name, count in op.groups:
        if count < 0:
            out[name] = args[position]
            position += 1
        else:
            out[name] = list(args[position : position + count])
            position += count
    return out


def operand(op: d.RowOp, name: str) -> SSAValue:
    """The operand that a parameter of the row takes."""
    return value_of(apply_args(op)[name])


def operands(op: d.RowOp, name: str) -> list[SSAValue]:
    """The operands that a parameter of the row takes which is a list; empty where it was left out."""
    found = apply_args(op).get(name)
    return values_of(found) if isinstance(found, list) else []
