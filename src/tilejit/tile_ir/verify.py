"""The rules of the tile dialect. What breaks one is a bug in a builder or pass, never a user's mistake."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from tilejit import ops
from tilejit.dtypes import BOOL, INT64, DType, integer_range
from tilejit.errors import TilejitError, VerificationError
from tilejit.ops.spec import Call, OpSpec, ParamKind
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, scalar_arg
from tilejit.tile_ir.flow import fail, flows, passes, rule, stores_as, texts, widens
from tilejit.tile_ir.program import Program
from tilejit.types.enums import ForKind, FunctionType
from tilejit.types.values import ArrayType, BufferType, ScalarType, ShapedType, TileType

_DIRECTIONS = ("In", "Out", "InOut")
_FUNCTION_KINDS = frozenset(kind.value for kind in FunctionType)
_LOOP_KINDS = frozenset(kind.value for kind in ForKind)


def verify(program: Program) -> None:
    """Check every rule; raises VerificationError at the op that breaks one."""
    functions = program.functions
    if len(functions) != sum(1 for _ in program.module.body.ops):
        raise VerificationError("a program holds functions with different names and nothing else")
    for function in functions.values():
        _Verifier(functions).function(function)
    try:
        program.module.verify()
    except VerifyException as error:
        raise VerificationError(f"the IR of `{program.name}` is broken: {error}") from error


class _Verifier:
    def __init__(self, functions: dict[str, d.FuncOp]) -> None:
        self.functions = functions
        self.visible: set[SSAValue] = set()
        """Values that the current op may use."""

    def function(self, op: d.FuncOp) -> None:
        args = op.body.block.args
        params, directions = op.static("params"), op.static("directions")
        rule(op, isinstance(params, tuple) and len(params) == len(args) == len(set(params)), f"`{op.symbol}` needs one distinct name per parameter")
        rule(
            op,
            isinstance(directions, tuple) and len(directions) == len(args) and all(way in _DIRECTIONS for way in directions),
            f"`{op.symbol}` needs one direction per parameter",
        )
        rule(op, op.static("kind") in _FUNCTION_KINDS, f"`{op.symbol}` has the unknown kind {op.static('kind')!r}")
        _ends_in(op, op.body.block, d.ReturnOp)
        self.block(op.body.block)

    def block(self, block: Block) -> None:
        outer = set(self.visible)
        self.visible.update(block.args)
        for op in block.ops:
            rule(op, self.visible.issuperset(op.operands), f"{op.name} uses a value before it is made, or outside its block")
            self.op(op)
            self.visible.update(op.results)
        self.visible = outer

    def op(self, op: Operation) -> None:
        rule(op, isinstance(op, d.TileOp), f"{op.name} is no op of the tile dialect")
        for value in [*op.operands, *op.results]:
            rule(op, isinstance(value.type, d.IRType), f"{op.name} has a value that is none of the dialect's types: {value.type}")
        check = _CHECKS.get(type(op))
        if check is not None:
            check(self, op)
        for region in op.regions:
            self.block(region.block)

    # values -------------------------------------------------------------------------------------------------------------

    def const(self, op: d.ConstOp) -> None:
        dtype, value = _scalar(op, op.result), op.static("value")
        if dtype is BOOL:
            fits = isinstance(value, bool)
        elif dtype.is_float:
            fits = isinstance(value, float)
        else:
            fits = isinstance(value, int) and not isinstance(value, bool) and integer_range(dtype)[0] <= value <= integer_range(dtype)[1]
        rule(op, fits, f"{value!r} is no constant of type {dtype}")

    def apply(self, op: d.ApplyOp) -> None:
        row = ops.table().get(op.op)
        if row is None:
            fail(op, f"the table has no op {op.op!r}")
        groups = op.static("groups")
        rule(
            op,
            isinstance(groups, tuple) and sum(1 if count < 0 else count for _, count in groups) == len(op.operands),
            f"{op.op}: its operand groups do not cover its operands",
        )
        args = apply_args(op)
        unknown = set(args) - set(row.param_names)
        rule(op, not unknown, f"{op.op} has no parameters {sorted(unknown)}")
        for param in row.params:
            rule(op, param.name in args or not param.required, f"{op.op} needs {param.name}")
            arg = args.get(param.name)
            if isinstance(arg, SSAValue | list) and param.kind is not ParamKind.Static:
                rule(op, _fits(param.kind, arg), f"{op.op}: {param.name} must be {param.kind.value}")
        self.inferred(op, row, args)

    def inferred(self, op: d.ApplyOp, row: OpSpec, args: dict[str, Any]) -> None:
        """The result types must be what the row infers; valid regions and extents may be known less well."""
        try:
            types = row.infer(Call(row, level_of(op), {name: _seen(arg) for name, arg in args.items()}))
        except TilejitError as error:
            fail(op, f"{op.op}: {error.message}")
        found = [d.type_of(result) for result in op.results]
        rule(
            op,
            len(types) == len(found) and all(widens(wide, narrow) for wide, narrow in zip(found, types, strict=True)),
            f"{op.op} gives {texts(types)}, the IR says {texts(found)}",
        )

    def of_axis(self, op: d.DimOp | d.ValidOp) -> None:
        axis = op.static("axis")
        rule(op, isinstance(axis, int) and 0 <= axis < _shaped(op, op.source).rank, f"{op.name} has no axis {axis}")
        _scalar(op, op.result)

    # memory -------------------------------------------------------------------------------------------------------------

    def create(self, op: d.CreateOp) -> None:
        self.extents(op, op.extents, _buffer(op, op.result))

    def extents(self, op: d.TileOp, operands: Sequence[SSAValue], type: ShapedType) -> None:
        dynamic = sum(not isinstance(dim, int) for dim in type.shape)
        rule(op, len(operands) == dynamic, f"{op.name} of {type} needs {dynamic} extents, has {len(operands)}")
        _indices(op, operands)

    def window(self, op: d.WindowOp) -> None:
        source, result, drop = _buffer(op, op.buffer), _buffer(op, op.result), op.static("drop", ())
        assert isinstance(drop, tuple)
        rule(op, len(op.offsets) == len(op.extents) == source.rank, f"a window of {source} needs {source.rank} offsets and extents")
        rule(
            op,
            all(0 <= axis < source.rank for axis in drop) and result.rank == source.rank - len(set(drop)),
            f"a window of {source} without dims {drop} is no {result}",
        )
        rule(op, result.dtype is source.dtype, f"a window of {source} is no {result}")
        _indices(op, [*op.offsets, *op.extents])

    def view(self, op: d.ViewOp) -> None:
        _buffer(op, op.buffer)
        self.extents(op, op.extents, _buffer(op, op.result))

    def comm(self, op: d.CommOp) -> None:
        _buffer(op, op.window)
        rule(op, _scalar(op, op.result) is INT64, "the context of a group is an INT64")

    def peer(self, op: d.PeerOp) -> None:
        rule(op, _buffer(op, op.buffer) == _buffer(op, op.result), "a peer's copy has the type of the own one")
        rule(op, _scalar(op, op.comm) is INT64, "the context of a group is an INT64")
        _indices(op, [op.peer])

    def strided(self, op: d.StridedOp) -> None:
        source, result = _buffer(op, op.buffer), _buffer(op, op.result)
        rule(op, source.rank == 1, f"a strided view looks into a buffer with one dim, got {source}")
        rule(op, len(op.extents) == len(op.strides) == result.rank, f"{op.name} of {result} needs {result.rank} extents and strides")
        _indices(op, [op.start, *op.extents, *op.strides])

    def load(self, op: d.LoadOp) -> None:
        source, result = _buffer(op, op.buffer), _shaped(op, op.result)
        rule(
            op,
            len(op.offsets) == len(op.valid) == source.rank == result.rank,
            f"a load from {source} into {result} needs {source.rank} offsets and valid extents",
        )
        rule(
            op,
            isinstance(result, TileType) and result.dtype is source.dtype and all(isinstance(dim, int) for dim in result.shape),
            f"a load from {source} cannot give {result}",
        )
        _indices(op, [*op.offsets, *op.valid])

    def store(self, op: d.StoreOp) -> None:
        value, buffer = _shaped(op, op.value), _buffer(op, op.buffer)
        rule(op, len(op.offsets) == buffer.rank >= value.rank, f"a store of {value} into {buffer} needs {buffer.rank} offsets")
        rule(op, stores_as(value.dtype, buffer.dtype), f"a store does not convert {value.dtype} to {buffer.dtype}")
        _indices(op, op.offsets)

    def read(self, op: d.ReadOp) -> None:
        source = _shaped(op, op.source)
        rule(
            op,
            len(op.indices) == source.rank and _scalar(op, op.result) is source.dtype,
            f"a read of {source} needs {source.rank} indices and gives {source.dtype}",
        )
        _indices(op, op.indices)

    def write(self, op: d.ElementWrite) -> None:
        buffer = _buffer(op, op.buffer)
        rule(
            op,
            len(op.indices) == buffer.rank and _scalar(op, op.value) is buffer.dtype,
            f"a write into {buffer} needs {buffer.rank} indices and a {buffer.dtype}",
        )
        _indices(op, op.indices)

    def atomic(self, op: d.AtomicOp) -> None:
        self.write(op)
        name = str(op.static("atomic"))
        params = ops.table()[name].param_names if name in ops.table() and "atomic" in ops.table()[name].attrs else None
        rule(op, params is not None, f"{name!r} is no atomic row")
        rule(op, (op.expected is not None) == ("expected" in (params or ())), f"the number that {name} expects, or none")

    # control flow ---------------------------------------------------------------------------------------------------------

    def for_(self, op: d.ForOp) -> None:
        rule(op, op.static("kind") in _LOOP_KINDS, f"unknown loop kind {op.static('kind')!r}")
        _indices(op, [op.lower, op.upper, op.step])
        args = op.body.block.args
        rule(op, len(args) == 1 + len(op.inits), "a loop body takes the induction variable and the carried values")
        _indices(op, args[:1])
        terminator = _ends_in(op, op.body.block, d.YieldOp)
        flows(op, "initial values", op.inits, args[1:])
        flows(op, "yielded values", terminator.operands, args[1:])
        flows(op, "carried values", args[1:], op.results)

    def while_(self, op: d.WhileOp) -> None:
        condition = _ends_in(op, op.before.block, d.ConditionOp)
        assert isinstance(condition, d.ConditionOp)
        rule(op, _scalar(op, condition.condition) is BOOL, "the condition of a loop is a BOOL")
        terminator = _ends_in(op, op.body.block, d.YieldOp)
        flows(op, "initial values", op.inits, op.before.block.args)
        flows(op, "values passed on", condition.values, op.body.block.args)
        flows(op, "values passed on", condition.values, op.results)
        flows(op, "yielded values", terminator.operands, op.before.block.args)

    def if_(self, op: d.IfOp) -> None:
        rule(op, _scalar(op, op.condition) is BOOL, "the condition of a branch is a BOOL")
        for region in (op.then, op.orelse):
            rule(op, not region.block.args, "a branch takes no arguments")
            flows(op, "yielded values", _ends_in(op, region.block, d.YieldOp).operands, op.results)

    def region(self, op: d.RegionOp) -> None:
        rule(op, op.static("kind") in ("at", "spmd"), f"unknown region kind {op.static('kind')!r}")
        args = op.body.block.args
        rule(op, len(args) <= (op.blocks is not None), "only a region with blocks has an argument, the block index")
        if op.blocks is not None:
            _indices(op, [op.blocks, *args])
        flows(op, "yielded values", _ends_in(op, op.body.block, d.YieldOp).operands, op.results)

    def call(self, op: d.CallOp | d.LaunchOp) -> None:
        callee = self.functions.get(op.callee.data)
        if callee is None:
            fail(op, f"the program has no function `{op.callee.data}`")
        passes(op, op.args, callee)
        returned = d.end_of(callee.body.block, d.ReturnOp)
        own = [value for value in returned.values if not (isinstance(value, BlockArgument) and value.block is callee.body.block)]
        if isinstance(op, d.CallOp):
            rule(
                op, len(own) == len(op.results), f"`{callee.symbol}` returns {len(own)} values that are no parameters, the call has {len(op.results)} results"
            )
        elif op.blocks is not None:
            _indices(op, [op.blocks])

    def check(self, op: d.CheckOp) -> None:
        _indices(op, [op.left, op.right])


def level_of(op: d.ApplyOp | d.EffectOp) -> str:
    """The level at which a row is applied: the one that it has, else "tile" if a tile takes part, else "tensor" or "scalar"."""
    types = [d.type_of(value) for value in [*op.results, *op.operands]]
    levels = ops.table()[op.op].levels
    if len(levels) == 1 or (levels and not levels & {"tensor", "tile", "scalar"}):
        return min(levels)
    if any(isinstance(type, TileType) and type.level == "tile" for type in types):
        return "tile"
    if any(isinstance(type, ShapedType) for type in types):
        return "tensor"
    return "scalar" if "scalar" in levels or not levels else "tile" if "tile" in levels else min(levels)


def _ends_in(op: Operation, block: Block, kind: type[Operation]) -> Operation:
    last = block.last_op
    if not isinstance(last, kind):
        fail(op, f"{op.name} must end in {kind.name}")
    return last


def _scalar(op: Operation, value: SSAValue) -> DType:
    type = d.type_of(value)
    if not isinstance(type, ScalarType):
        fail(op, f"{op.name} needs a scalar, got {type}")
    return type.dtype


def _shaped(op: Operation, value: SSAValue) -> ShapedType:
    type = d.type_of(value)
    if not isinstance(type, ShapedType):
        fail(op, f"{op.name} needs a tensor or tile, got {type}")
    return type


def _buffer(op: Operation, value: SSAValue) -> BufferType:
    type = d.type_of(value)
    if not isinstance(type, BufferType):
        fail(op, f"{op.name} needs a buffer, got {type}")
    return type


def _indices(op: Operation, values: Sequence[SSAValue]) -> None:
    for value in values:
        rule(op, _scalar(op, value).is_integer, f"{op.name} needs integers, got {d.type_of(value)}")


def _fits(kind: ParamKind, arg: SSAValue | list[SSAValue]) -> bool:
    if isinstance(arg, list):
        return kind is ParamKind.Scalars and all(isinstance(d.type_of(item), ScalarType) for item in arg)
    type = d.type_of(arg)
    if kind in (ParamKind.Value, ParamKind.Scratch):
        return isinstance(type, ShapedType)
    if kind is ParamKind.Scalar:
        return isinstance(type, ScalarType)
    return isinstance(type, ArrayType) if kind is ParamKind.Array else kind is ParamKind.Operand


def _seen(arg: object) -> object:
    if isinstance(arg, SSAValue):
        return scalar_arg(arg) if isinstance(d.type_of(arg), ScalarType) else d.type_of(arg)
    return tuple(scalar_arg(item) for item in arg) if isinstance(arg, list) else arg


_CHECKS: dict[type[Operation], Callable[[_Verifier, Any], None]] = {
    d.ConstOp: _Verifier.const,
    d.ApplyOp: _Verifier.apply,
    d.DimOp: _Verifier.of_axis,
    d.ValidOp: _Verifier.of_axis,
    d.CreateOp: _Verifier.create,
    d.WindowOp: _Verifier.window,
    d.ViewOp: _Verifier.view,
    d.CommOp: _Verifier.comm,
    d.PeerOp: _Verifier.peer,
    d.StridedOp: _Verifier.strided,
    d.LoadOp: _Verifier.load,
    d.StoreOp: _Verifier.store,
    d.ReadOp: _Verifier.read,
    d.WriteOp: _Verifier.write,
    d.AtomicOp: _Verifier.atomic,
    d.ForOp: _Verifier.for_,
    d.WhileOp: _Verifier.while_,
    d.IfOp: _Verifier.if_,
    d.RegionOp: _Verifier.region,
    d.CallOp: _Verifier.call,
    d.LaunchOp: _Verifier.call,
    d.CheckOp: _Verifier.check,
}
