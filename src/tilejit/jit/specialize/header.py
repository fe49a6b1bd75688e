"""The head of a function of the program: its decorator, its parameters with their types, what it returns."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from tilejit.dtypes import DType
from tilejit.errors import ShapeError, UnsupportedFeatureError, in_body
from tilejit.frontend.reserved_names import RESERVED
from tilejit.jit.definition import Definition
from tilejit.jit.specialize.declared import annotation_of
from tilejit.jit.specialize.dependencies import returned_params
from tilejit.jit.specialize.expressions import Expressions
from tilejit.jit.specialize.meta import DynDim
from tilejit.jit.specialize.nodes import relocated
from tilejit.jit.specialize.signature import JitParam
from tilejit.jit.specialize.values import Abstract, Items, RuntimeValue, Static, literal
from tilejit.types.annotations import ScalarAnnotation, WindowAnnotation
from tilejit.types.enums import Level, Role
from tilejit.types.python_text import expression
from tilejit.types.values import BufferType, TileType

_KINDS = {"orchestration": "Orchestration", "incore": "InCore", "inline": "Inline", "opaque": "Opaque"}


def headed(name: str, kind: str, types: Mapping[str, Abstract], names: Mapping[DynDim, str], body: Expressions, statements: list[ast.stmt]) -> ast.FunctionDef:
    """The function with these statements as its body."""
    definition = body.definition
    args = [ast.arg("self")] + [node for param in definition.params for node in _parameters(param, param.name, types, names, body)]
    arguments = ast.arguments(posonlyargs=[], args=args, vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[])
    node = ast.FunctionDef(name, arguments, statements, [_decorator(definition, kind)], _returns(definition, types, names, body), None)
    ast.copy_location(args[0], definition.text.node)
    return ast.copy_location(node, definition.text.node)


def kind_in_program(definition: Definition, entry: Definition) -> str:
    """What it is there: the host function an entry, a chip program that it calls an opaque function."""
    if definition.kind == "host":
        return "orchestration"
    return "opaque" if definition.kind == "orchestration" and definition is not entry else definition.kind


def _decorator(definition: Definition, kind: str) -> ast.expr:
    options = "".join(f", {name}={_option(value)}" for name, value in function_attrs(definition).items())
    return relocated(expression(f"pl.function(type=pl.FunctionType.{_KINDS[kind]}{options})"), definition.text.node)


def function_attrs(definition: Definition) -> dict[str, object]:
    """The options of a decorator that are facts about the function in the program."""
    level, auto_scope = definition.options.get("level"), definition.options.get("auto_scope", True)
    host = {"level": Level.HOST, "role": Role.Orchestrator} if definition.kind == "host" else {}
    return {**({"level": level} if level is not None else {}), **host, **({"auto_scope": False} if auto_scope is False else {})}


def _option(value: object) -> str:
    node = literal(value)
    assert node is not None, value
    return ast.unparse(node)


def _parameters(param: JitParam, name: str, types: Mapping[str, Abstract], names: Mapping[DynDim, str], body: Expressions) -> list[ast.arg]:
    """A parameter as the program has it: none for what is known while compiling, several for a container."""
    type = types.get(name)
    if isinstance(type, Items) and type.names:
        return [node for flat in type.names for node in _parameters(param, flat, types, names, body)]
    if isinstance(type, Static):
        return []
    if name in RESERVED:
        what = f"a parameter called `{name}` would hide what the program of `{body.definition.name}` needs under that name"
        raise in_body(UnsupportedFeatureError)(what, span=body.definition.span(body.definition.node_of(param)), help="give it another name")
    return [_parameter(param, name, type, names, body)]


def _parameter(param: JitParam, name: str, type: Abstract | None, names: Mapping[DynDim, str], body: Expressions) -> ast.arg:
    node = body.definition.node_of(param)
    annotation: ast.expr | None
    if isinstance(type, BufferType):
        annotation = _tensor_annotation(type, param.direction if body.definition.kind != "inline" else "In", names, isinstance(param.tensor, WindowAnnotation))
    elif isinstance(type, RuntimeValue) and type.dtype is not None:
        annotation = expression(f"pl.Scalar[pl.{type.dtype.name}]")
    elif node.annotation is not None and (param.kind != "other" or param.stands_for is not None):
        annotation = annotation_of(param, body, node.annotation)
    elif isinstance(type, TileType):
        annotation = _shaped_annotation("pl.Tile", type.shape, type.dtype, names)
    else:
        annotation = None
    placed = relocated(annotation, node.annotation or node) if annotation is not None else None
    return ast.copy_location(ast.arg(name, placed), node)


def _returns(definition: Definition, types: Mapping[str, Abstract], names: Mapping[DynDim, str], body: Expressions) -> ast.expr | None:
    """The return annotation: types of the parameters that are returned, or a scalar that the author declared; else the front end infers."""
    returned = returned_params(body.reads)
    place = definition.text.node
    if place.returns is not None and isinstance(definition.result, ScalarAnnotation | DType):
        dtype = definition.result if isinstance(definition.result, DType) else definition.result.dtype
        return relocated(expression(f"pl.Scalar[pl.{dtype.name}]"), place.returns)
    found = [types.get(name) if name is not None else None for name in returned]
    tensors = [type for type in found if isinstance(type, BufferType)]
    if not tensors or len(tensors) != len(found) or not definition.returns:
        return None
    items = [ast.unparse(_tensor_annotation(type, "In", names)) for type in tensors]
    text = items[0] if len(items) == 1 else f"tuple[{', '.join(items)}]"
    return relocated(expression(text), place)


def _tensor_annotation(type: BufferType, direction: str, names: Mapping[DynDim, str], window: bool = False) -> ast.expr:
    kind = "pld.DistributedTensor" if window else "pl.Tensor"
    inner = _shaped_annotation(kind, type.shape, type.dtype, names, "" if type.layout == "ND" else f", pl.{type.layout}")
    return inner if direction == "In" else expression(f"pl.{direction}[{ast.unparse(inner)}]")


def _shaped_annotation(kind: str, shape: Sequence[int | str], dtype: DType, names: Mapping[DynDim, str], extra: str = "") -> ast.expr:
    if any(isinstance(dim, DynDim) and dim not in names for dim in shape):
        raise ShapeError("the shape of an output that the call leaves out is known only at run time", help="pass the output, or declare its shape")
    dims = ", ".join(names[dim] if isinstance(dim, DynDim) else str(dim) for dim in shape)
    return expression(f"{kind}[[{dims}], pl.{dtype.name}{extra}]")

