"""Lets functions that the control plane calls write their results: a returned value becomes one more output parameter."""

from __future__ import annotations

from xdsl.ir import BlockArgument, Operation, SSAValue

from tilejit.errors import UnsupportedFeatureError
from tilejit.passes.kernels import load_whole, name_hint, takes_values_only
from tilejit.passes.rewriting import Before, remove
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.names import name_value, unique_name
from tilejit.tile_ir.planes import called_outside
from tilejit.tile_ir.program import Program
from tilejit.types.values import ANY, BufferType, ScalarType, TileType, ValueType


def return_through_parameters(program: Program) -> None:
    """Rewrite each function that the control plane calls and that returns more than its parameters, and all calls of it."""
    entries = set(program.entries)
    for name in called_outside(program.functions):
        function = program.functions[name]
        returned = d.end_of(function.body.block, d.ReturnOp)
        if all(_is_parameter(value) for value in returned.values):
            continue
        calls = [op for op in program.module.walk() if isinstance(op, d.CallOp) and op.callee.data == name]
        for call in calls:
            _rewrite_call(call, function)
        _rewrite_function(function, returned, hidden=name in entries)


def _is_parameter(value: SSAValue) -> bool:
    return isinstance(value, BlockArgument) and isinstance(value.owner.parent_op(), d.FuncOp)


def _rewrite_function(function: d.FuncOp, returned: d.ReturnOp, hidden: bool) -> None:
    """`hidden`: whoever calls the function from outside gets the new parameters allocated and returned."""
    names, directions, attrs = (function.static(fact) for fact in ("params", "directions", "attrs"))
    assert isinstance(names, tuple) and isinstance(directions, tuple) and isinstance(attrs, dict)
    params, ways = [str(name) for name in names], list(directions)
    body = function.body.block
    end = Before(returned)
    for value in returned.values:
        if _is_parameter(value):
            continue
        buffer = body.insert_arg(d.IRType(_buffer_type(d.type_of(value), function)), len(body.args))
        params.append(unique_name(name_hint(value) or "result", params))
        ways.append("Out")
        name_value(buffer, params[-1])
        end.fill(buffer, value)
    kept = [value for value in returned.values if _is_parameter(value)]
    returned.operands = tuple(kept)
    items = tuple(("param", value.index) for value in kept if isinstance(value, BlockArgument))
    facts: dict[str, object] = {**attrs, "returns": items or None} if "returns" in attrs else dict(attrs)
    if hidden:
        facts["hidden"] = len(params) - len(names)
    function.attributes.update(d.statics({"params": tuple(params), "directions": tuple(ways), "attrs": facts}))


def _buffer_type(type: ValueType, function: d.FuncOp) -> BufferType:
    if isinstance(type, ScalarType):
        return BufferType((1,), type.dtype)
    if not isinstance(type, BufferType | TileType) or ANY in type.shape:
        raise UnsupportedFeatureError(
            f"`{function.symbol}` returns {type}, whose extents its caller cannot know",
            span=function.span,
            help="give the result to an output parameter",
        )
    return BufferType(type.shape, type.dtype)


def _rewrite_call(call: d.CallOp, function: d.FuncOp) -> None:
    """Allocate the results before the call and read them after it."""
    returned = d.end_of(function.body.block, d.ReturnOp)
    own = [value for value in returned.values if not _is_parameter(value)]
    builder = Before(call)
    buffers: list[SSAValue] = []
    for value in own:
        type, result = _buffer_type(d.type_of(value), function), d.type_of(call.results[len(buffers)])
        # The caller may know an extent that is a symbol in the callee.
        shape = result.shape if isinstance(result, BufferType | TileType) else type.shape
        extents = [_extent(builder, str(dim), call, function) for dim, known in zip(type.shape, shape, strict=True) if not isinstance(known, int)]
        buffers.append(builder.create(BufferType(shape, type.dtype), extents))
    builder.call(function.symbol, [*call.args, *buffers], [])
    for result, buffer in zip(call.results, buffers, strict=True):
        value = _read_back(builder, buffer, d.type_of(result), call)
        if value is buffer and isinstance(d.type_of(result), TileType):
            _copy_where_needed(result, buffer)
        result.replace_all_uses_with(value)
    remove(call)


def _copy_where_needed(result: SSAValue, buffer: SSAValue) -> None:
    """Ops that mean something else on a buffer get its cells as a value."""
    for use in list(result.uses):
        if takes_values_only(use.operation):
            use.operation.operands[use.index] = Before(use.operation).copy(buffer)


def _extent(builder: Before, symbol: str, call: d.CallOp, function: d.FuncOp) -> SSAValue:
    """The extent that a symbol of the callee has in this call."""
    for argument, parameter in zip(call.args, function.body.block.args, strict=True):
        type = d.type_of(parameter)
        if isinstance(type, BufferType) and symbol in type.shape:
            return builder.dim(argument, type.shape.index(symbol))
    raise UnsupportedFeatureError(f"`{function.symbol}` returns a tensor with the extent {symbol}, which no parameter has", span=call.span)


def _read_back(builder: Before, buffer: SSAValue, type: ValueType, call: Operation) -> SSAValue:
    if isinstance(type, ScalarType):
        return builder.read(buffer, [builder.const(0)])
    if isinstance(type, TileType) and not (type.level == "tensor" and type.fully_valid):
        if not all(isinstance(dim, int) for dim in type.valid):
            raise UnsupportedFeatureError(
                "a kernel cannot return a tile whose valid region is known only at run time", span=call.span if isinstance(call, d.TileOp) else None
            )
        return load_whole(builder, buffer, type, {})
    return buffer
