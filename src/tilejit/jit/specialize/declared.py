"""What annotations declare, by the objects that Python made of them: names in their text may mean something else in the body, or by now."""

from __future__ import annotations

import ast
import copy
import dataclasses
from collections.abc import Iterator, Sequence

from tilejit.jit.specialize.expressions import Expressions
from tilejit.jit.specialize.forms import ComputedDim, Form, ast_class_of, combined, form_of
from tilejit.jit.specialize.meta import DynDim
from tilejit.jit.specialize.nodes import relocated
from tilejit.jit.specialize.signature import JitParam
from tilejit.jit.specialize.symbols import Symbol
from tilejit.jit.specialize.values import literal
from tilejit.types.annotations import ArrayAnnotation, DimSpec, DynExpr, DynVar, TensorAnnotation, TileAnnotation, WindowAnnotation
from tilejit.types.enums import TensorLayout
from tilejit.types.python_text import expression
from tilejit.types.values import EXTENT_OPERATIONS, BufferType
from tilejit.types.views import TileView


def form_of_extent(dim: DimSpec, body: Expressions) -> Form | None:
    """How large an annotated extent is, by the symbols that the parameters of `body` carry; None where they do not tell."""
    if isinstance(dim, int):
        return Form(dim)
    if isinstance(dim, DynExpr):
        found = combined(ast_class_of(dim.op), form_of_extent(dim.left, body), form_of_extent(dim.right, body))
        if found is not None:
            return found
    symbol = body.dynamic.objects.get(id(dim))
    held = body.dims.get(symbol.root()) if symbol is not None else None
    return form_of(held) if held is not None else None


def computed_names(body: Expressions) -> dict[DynDim, str]:
    """Extents of parameters that annotations compute from symbols which parameters carry, as text: the program checks them at each call."""
    out: dict[DynDim, str] = {}
    needed: set[DynDim] = set()
    for param in body.definition.params:
        type = body.params.get(param.name)
        shape = param.tensor.shape if param.tensor is not None else None
        for dim, extent in zip(type.shape, shape, strict=False) if isinstance(type, BufferType) and shape is not None else ():
            if isinstance(extent, DynExpr) and isinstance(dim, DynDim) and not isinstance(dim, ComputedDim) and dim not in needed:
                held = [_held(symbol, body) for symbol in _symbols_in(extent)]
                carried = [found for found in held if found is not None and found not in (dim, *out)]
                if len(carried) == len(held):
                    needed.update(carried)
                    out[dim] = _dim(extent, body)
    return out


def _symbols_in(extent: DimSpec) -> Iterator[DynVar]:
    if isinstance(extent, DynExpr):
        yield from _symbols_in(extent.left)
        yield from _symbols_in(extent.right)
    elif isinstance(extent, DynVar):
        yield extent


def _held(symbol: DynVar, body: Expressions) -> DynDim | None:
    """The extent of a parameter that a symbol stands for; None: no parameter has it as it is."""
    known = body.dynamic.objects.get(id(symbol))
    held = body.dims.get(known.root()) if known is not None else None
    return None if isinstance(held, ComputedDim) else held


def annotation_of(param: JitParam, body: Expressions, place: ast.expr) -> ast.expr:
    """The annotation of a parameter as its object says; its text where that says more than can be written of the object."""
    text = _text(param, body)
    if text is None:
        return body.annotation(copy.deepcopy(place))
    return relocated(expression(text if param.direction == "In" else f"pl.{param.direction}[{text}]"), place)


def _text(param: JitParam, body: Expressions) -> str | None:
    stands_for, tensor = param.stands_for, param.tensor
    if tensor is not None:
        return _tensor(tensor, body)
    if isinstance(stands_for, TileAnnotation):
        return _tile(stands_for, body)
    if isinstance(stands_for, ArrayAnnotation):
        return f"pl.Array[{stands_for.extent}, pl.{stands_for.dtype.name}]"
    if stands_for is not None:
        return stands_for.__name__ if stands_for in (int, float, bool) else None
    return f"pl.Scalar[pl.{param.dtype.name}]" if param.dtype is not None else None


def _tensor(tensor: TensorAnnotation, body: Expressions) -> str | None:
    kind = "pld.DistributedTensor" if isinstance(tensor, WindowAnnotation) else "pl.Tensor"
    if tensor.shape is None or tensor.dtype is None:
        return kind
    if tensor.view is not None or tensor.memref is not None:
        return None
    layout = "" if tensor.layout is TensorLayout.ND else f", pl.{tensor.layout.value}"
    return f"{kind}[{_dims(tensor.shape, body)}, pl.{tensor.dtype.name}{layout}]"


def _tile(tile: TileAnnotation, body: Expressions) -> str | None:
    parts = [_dims(tile.shape, body), f"pl.{tile.dtype.name}"]
    for part in (tile.space, tile.view, tile.memref):
        node = None if part is None else _view(part) if isinstance(part, TileView) else literal(part)
        if part is not None and node is None:
            return None
        parts += [ast.unparse(node)] if node is not None else []
    return f"pl.Tile[{', '.join(parts)}]"


def _view(view: TileView) -> ast.expr | None:
    given = {field.name: getattr(view, field.name) for field in dataclasses.fields(view)}
    nodes = {name: literal(value) for name, value in given.items() if value is not None}
    if view.valid_shape is not None and nodes["valid_shape"] is None:  # an extent that the run decides has no name that counts
        dims = [str(dim) if isinstance(dim, int) else "pl.dynamic('valid')" for dim in view.valid_shape]
        nodes["valid_shape"] = expression(f"[{', '.join(dims)}]")
    keywords = [ast.keyword(name, node) for name, node in nodes.items() if node is not None]
    return ast.Call(expression("pl.TileView"), [], keywords) if len(keywords) == len(nodes) else None


def _dims(shape: Sequence[DimSpec], body: Expressions) -> str:
    return f"[{', '.join(_dim(dim, body) for dim in shape)}]"


def _dim(dim: DimSpec, body: Expressions) -> str:
    """An extent with the names that symbols have in the program."""
    if isinstance(dim, DynExpr):
        return f"({_dim(dim.left, body)}) {EXTENT_OPERATIONS[dim.op].sign} ({_dim(dim.right, body)})"
    return body.symbol_text(body.dynamic.objects.get(id(dim)) or Symbol(dim.name)) if isinstance(dim, DynVar) else str(dim)
