"""Tensors whose annotations speak of other parameters: `pl.like("x")`, `"pl.Tensor[[x.shape[0], 2 * x.shape[1]], x.dtype]"`."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from tilejit.dtypes import DType
from tilejit.errors import DTypeError, ParserTypeError, ShapeError, TilejitError, UnsupportedFeatureError, did_you_mean, in_body
from tilejit.jit.definition import Definition
from tilejit.jit.specialize.annotation_text import inner_annotation
from tilejit.jit.specialize.forms import Form, form_of, is_told
from tilejit.jit.specialize.meta import TensorMeta
from tilejit.jit.specialize.nodes import relocated
from tilejit.jit.specialize.signature import JitParam
from tilejit.jit.specialize.statements import Statements
from tilejit.jit.specialize.values import Abstract, Extent, Items, RuntimeValue, Static, items_of
from tilejit.types.python_text import expression
from tilejit.types.values import BufferType, TileType

_ASKED = ("shape", "dtype", "ndim")
"""What an annotation may ask of a tensor."""


@dataclass(frozen=True, slots=True)
class Description:
    """What an annotation in terms of other parameters says of a tensor."""

    extents: tuple[Form | None, ...] | None
    """None: what only the run knows."""
    dtype: DType | None
    late: str = ""
    """Why something is not known."""


def referred_to(definition: Definition, param: JitParam) -> frozenset[str]:
    """The parameters that the annotation of a tensor speaks of; what `pl.like` names may be none."""
    tensor = param.tensor
    if tensor is None or tensor.shape is not None:
        return frozenset()
    if tensor.like is not None:
        return frozenset({tensor.like})
    node = _written(definition, param)
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} if node is not None else set[str]()
    return frozenset(names & {other.name for other in definition.params})


def _written(definition: Definition, param: JitParam) -> ast.expr | None:
    """`pl.Tensor[…]` or `pl.like(…)`, where it stands; None: the annotation is no such text. One in quotes is that of the function: the text may be newer."""
    place, text = definition.node_of(param).annotation, definition.function.__annotations__.get(param.name)
    node = inner_annotation(expression(text.strip()) if isinstance(text, str) else place) if place is not None else None
    return relocated(copy.deepcopy(node), place) if place is not None and isinstance(node, ast.Subscript | ast.Call) else None


def described(body: Statements, param: JitParam) -> Description | None:
    """What the annotation says, in a call with the types that `body` has; None: it speaks of no other parameter."""
    definition, tensor = body.definition, param.tensor
    names = referred_to(definition, param)
    if tensor is None or not names:
        return None
    absent = sorted(name for name in names if body.params.get(name) == Static(None))
    if absent:
        return Description(None, None, f"`{absent[0]}` is None in this call")
    if tensor.like is not None:
        return _like(body, param, tensor.like)
    node = _written(definition, param)
    if isinstance(node, ast.Call):
        return _like(body, param, next(iter(names)))
    assert isinstance(node, ast.Subscript)
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if len(parts) < 2:
        _refuse(definition, param, "takes a shape and a data type", "write pl.Tensor[[64, 64], pl.FP32]")
    for name in sorted({part.id for part in ast.walk(node) if isinstance(part, ast.Name)} & definition.around.keys() - set(body.params)):
        body.place_around(name)
    shape, dtype = (_Asked(body, param).visit(part) for part in parts[:2])
    return _shaped(body, param, shape, _dtype(body, param, dtype))


def _like(body: Statements, param: JitParam, name: str) -> Description:
    definition, found = body.definition, body.params.get(name)
    tensors = [other.name for other in definition.params if other.kind == "tensor" and other.name != param.name]
    help = f"name a tensor: {', '.join(tensors)}"
    if all(other.name != name for other in definition.params):
        _refuse(definition, param, f"`pl.like({name!r})` names no parameter of `{definition.name}`", did_you_mean(name, tensors) or help, ShapeError)
    if not isinstance(found, BufferType | TileType):
        _refuse(definition, param, f"`pl.like({name!r})` names a parameter that is no tensor", help, ShapeError)
    return Description(tuple(form_of(dim) for dim in found.shape), found.dtype)


def _dtype(body: Statements, param: JitParam, node: ast.expr) -> DType:
    kind = body.fold(node)[1]
    if not isinstance(kind, Static) or not isinstance(kind.value, DType):
        _refuse(body.definition, param, f"`{ast.unparse(node)}` is no data type", "write pl.FP32, or the dtype of another parameter: x.dtype")
    return kind.value


def _shaped(body: Statements, param: JitParam, shape: ast.expr, dtype: DType) -> Description:
    """The shape as far as it is known: what takes a Python function of dynamic extents, or a run-time scalar, is not."""
    parts = shape.elts if isinstance(shape, ast.List | ast.Tuple) else [shape]
    extents: list[Form | None] = []
    late: list[str] = []
    for part in parts:
        try:
            value = body.fold(part.value if isinstance(part, ast.Starred) else part)[1]
        except UnsupportedFeatureError as error:
            value, reason = RuntimeValue(), error.message
        else:
            reason = f"`{ast.unparse(part)}` is known only at run time"
        several = isinstance(part, ast.Starred) or part is shape
        if isinstance(value, BufferType | TileType) or (several and form_of(value) is not None):
            _refuse(body.definition, param, f"`{ast.unparse(part)}` is no shape or extent", "write a list of extents: [x.shape[0], 4]")
        if several and not isinstance(value, Items) and not (isinstance(value, Static) and isinstance(value.value, tuple | list)):
            return Description(None, dtype, reason)
        for item in items_of(value) if several else (value,):
            extents.append(_extent(body, param, item, part))
            late += [reason] if extents[-1] is None else []
    return Description(tuple(extents), dtype, late[0] if late else "")


def _extent(body: Statements, param: JitParam, value: Abstract, node: ast.expr) -> Form | None:
    found = form_of(value) if not isinstance(value, Extent) or is_told(value.dim, body.params) else None
    kind = value.dtype if isinstance(value, RuntimeValue) else None
    if found is None and (isinstance(value, Static) or (kind is not None and kind.is_float)):
        what = repr(value.value) if isinstance(value, Static) else f"a number of {kind}"
        _refuse(body.definition, param, f"`{ast.unparse(node)}` is {what}, and an extent is an integer", "use // for what is divided")
    if found is not None and not found.terms and found.constant < 0:
        _refuse(body.definition, param, f"`{ast.unparse(node)}` is {found.constant} in this call", f"pass larger inputs, or `{param.name}`", ShapeError)
    return found


class _Asked(ast.NodeTransformer):
    """What is asked of tensors in words that bodies do not know: `x.ndim`, `len(x)`; what they do not have is refused."""

    def __init__(self, body: Statements, param: JitParam) -> None:
        self._body, self._param = body, param

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        tensor = self._tensor(node.value)
        if tensor is None:
            self.generic_visit(node)
        elif node.attr == "ndim":
            return relocated(ast.Constant(len(tensor.shape)), node)
        elif node.attr not in _ASKED:
            help = did_you_mean(node.attr, _ASKED) or f"an annotation may ask for {', '.join(_ASKED)}"
            _refuse(self._body.definition, self._param, f"of a tensor it is not known what `{ast.unparse(node)}` is", help)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        tensor = self._tensor(node.args[0]) if isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1 else None
        if tensor is None or not tensor.shape:
            self.generic_visit(node)
            return node
        return relocated(ast.Subscript(ast.Attribute(node.args[0], "shape", ast.Load()), ast.Constant(0), ast.Load()), node)

    def _tensor(self, node: ast.expr) -> BufferType | TileType | None:
        found = self._body.params.get(node.id) if isinstance(node, ast.Name) else None
        return found if isinstance(found, BufferType | TileType) else None


def _refuse(definition: Definition, param: JitParam, what: str, help: str, kind: type[TilejitError] = ParserTypeError) -> NoReturn:
    node = definition.node_of(param)
    raise in_body(kind)(f"the annotation of `{param.name}`: {what}", span=definition.span(node.annotation or node), help=help)


def whole_type(definition: Definition, param: JitParam, found: Description, types: Mapping[str, Abstract]) -> BufferType:
    """The type of an output that is left out; what is not known of it is an error."""
    shape = [extent.dim() for extent in found.extents or () if extent is not None]
    if found.extents is not None and len(shape) == len(found.extents) and found.dtype is not None:
        return BufferType(tuple(shape), found.dtype)
    node = definition.node_of(param)
    names = [part.id for part in ast.walk(inner_annotation(node.annotation) if node.annotation is not None else node) if isinstance(part, ast.Name)]
    late = [name for name in names if isinstance(types.get(name), RuntimeValue)]
    if late:
        what = f"output `{param.name}` of `{definition.name}` is declared by `{late[0]}`, which is known only at run time"
        help = f"pass `{param.name}`, or let `{late[0]}` be known while compiling: without runtime_scalars and pl.RUNTIME"
    else:
        what = f"the annotation of output `{param.name}` of `{definition.name}` does not tell its shape before it runs: {found.late}"
        other = "let its annotation speak of tensors that are given" if found.dtype is None else "write its extents with + - * // % and pl.cdiv of extents"
        help = f"pass `{param.name}`, or {other}"
    raise in_body(ShapeError)(what, span=definition.span(node.annotation or node), help=help)


def checked(definition: Definition, param: JitParam, found: Description, given: TensorMeta) -> TensorMeta:
    """A tensor that a call gives, as its annotation declares it: what follows from dynamic extents is for the run to check."""

    def refuse(kind: type[TilejitError], what: str, help: str) -> NoReturn:
        raise kind(f"@pl.jit function '{definition.name}': `{param.name}` {what}", help=help)

    if found.dtype is not None and given.dtype is not found.dtype:
        refuse(DTypeError, f"must hold {found.dtype}, got {given.dtype}", f"convert it to {found.dtype.numpy_name or found.dtype.name}")
    if found.extents is None:
        return given
    if len(found.extents) != len(given.shape):
        refuse(ShapeError, f"has rank {len(given.shape)}, its annotation {len(found.extents)}", "reshape the argument, or correct the annotation")
    shape = list(given.shape)
    for axis, (extent, dim) in enumerate(zip(found.extents, given.shape, strict=True)):
        if extent is None or extent.dim() == dim:
            continue
        if not extent.terms and isinstance(dim, int):
            refuse(ShapeError, f"has extent {dim} in dim {axis}, by its annotation {extent.constant}", "pass a tensor of that size, or correct the annotation")
        shape[axis] = extent.dim() if extent.terms else dim
    return TensorMeta(tuple(shape), given.dtype, given.contiguous)
