"""Values that an entry returns become outputs that the caller allocates (decision 3)."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tilejit.dtypes import TASK_ID
from tilejit.errors import NoWriteError, ShapeError, UnsupportedFeatureError
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import Builder
from tilejit.tile_ir.entry_extents import entry_extent
from tilejit.tile_ir.names import name_value, unique_name
from tilejit.tile_ir.program import Function, Program
from tilejit.types.values import ANY, BufferType, Dim, ScalarType, TileType


def as_program(node: Program | Function) -> Program:
    """A program that can be called; a function becomes one with itself as the entry."""
    if isinstance(node, Program):
        return node
    program = Program(node.program.module.clone())
    function = program.functions[node.name]
    if len(program.functions) > 1:
        function.attributes["kind"] = d.Static("orchestration")
    check_outputs(function)
    hide_results(function)
    return program


def handed_through(function: d.FuncOp) -> tuple[str, ...]:
    """The outputs that a function returns without writing them."""
    return function.attrs.get("handed_through", ())


def check_outputs(entry: d.FuncOp) -> None:
    """What a user calls writes its outputs: one that is only handed through would come back as it was."""
    for name in handed_through(entry):
        help = f"write `{name}[:] = …` or `pl.store(…, {name})`, or declare `{name}` pl.InOut"
        raise NoWriteError(f"the output `{name}` is never written: `{entry.symbol}` only hands it through", span=entry.span, help=help)


def hide_results(function: d.FuncOp) -> None:
    """Store each returned value that is no output of the caller's into an extra `Out` parameter; attribute `hidden` counts them."""
    block = function.body.block
    last = d.end_of(block, d.ReturnOp)
    values = list(last.values)
    ways = zip(block.args, function.directions, strict=True)
    given = [value for value, way in ways if way != "In" and not isinstance(d.type_of(value), ScalarType)]
    if all(value in given for value in values):
        return
    names, directions = list(function.names), list(function.directions)
    span = last.span
    last.detach()
    last.erase()
    builder = Builder(block)
    builder.span = span
    hidden = 0
    extents: dict[str, object] = {}
    numbers: list[str] = []
    for index, value in enumerate(values):
        if value in given:
            continue
        name = unique_name("result", names)
        type = _output_type(value, last, name, extents)
        argument = block.insert_arg(d.IRType(type), len(block.args))
        name_value(argument, name)
        if isinstance(d.type_of(value), ScalarType):
            builder.write(argument, [builder.const(0)], value)
            numbers.append(name)
        else:
            builder.store(value, argument, [builder.const(0) for _ in type.shape])
        names.append(name)
        directions.append("Out")
        values[index] = argument
        hidden += 1
    builder.return_(values)
    attrs = function.attrs
    returns = tuple(("param", [argument is value for argument in block.args].index(True)) for value in values)
    facts = {**attrs, "returns": returns, "hidden": hidden, **({"extents": (*attrs.get("extents", ()), *extents.items())} if extents else {})}
    facts |= {"numbers": tuple(numbers)} if numbers else {}
    function.attributes.update(d.statics({"params": tuple(names), "directions": tuple(directions), "attrs": facts}))


def _output_type(value: SSAValue, at: d.ReturnOp, name: str, extents: dict[str, object]) -> BufferType:
    """The type of the output that holds `value`; extents that a call can compute from its arguments get a symbol each, in `extents`."""
    type = d.type_of(value)
    if isinstance(type, ScalarType) and type.dtype is not TASK_ID:
        return BufferType((1,), type.dtype)  # the caller gets the number in it
    if not isinstance(type, BufferType | TileType):
        raise UnsupportedFeatureError(f"an entry returns tensors and numbers, got {type}", span=at.span, help="return what the caller can use")
    if isinstance(type, TileType) and type.level == "tile":
        raise UnsupportedFeatureError(f"an entry returns tensors, got {type}", span=at.span, help="store the tile into an output with pl.store")
    shape: list[Dim] = list(type.shape)
    for axis, dim in enumerate(type.shape):
        if dim != ANY:
            continue
        found = entry_extent(value, axis)
        if found is None:
            help = "pass an output parameter: out: pl.Out[pl.Tensor]"
            raise ShapeError(f"the shape of the returned {type} is known only at run time", span=at.span, help=help)
        shape[axis] = f"{name}_{axis}"
        extents[f"{name}_{axis}"] = found
    return BufferType(tuple(shape), type.dtype)
