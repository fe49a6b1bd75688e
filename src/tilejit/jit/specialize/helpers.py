"""Calls of helpers: what each parameter becomes, and the call as it stands in the specialised text."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard, cast

from tilejit.dtypes import INDEX
from tilejit.errors import ArgumentError, DTypeError, RangeError, ShapeError, UnsupportedFeatureError, in_body
from tilejit.jit.definition import Definition
from tilejit.jit.reads.handles import holds_handle, is_handle
from tilejit.jit.reads.natures import ARRAY
from tilejit.jit.specialize.compile_time import member_names
from tilejit.jit.specialize.dependencies import bind_call, may_omit_outputs, returned_params
from tilejit.jit.specialize.forms import ComputedDim, translated
from tilejit.jit.specialize.iterate import member_nodes
from tilejit.jit.specialize.meta import DynDim
from tilejit.jit.specialize.nodes import relocated
from tilejit.jit.specialize.scalars import as_declared
from tilejit.jit.specialize.signature import JitParam
from tilejit.jit.specialize.values import UNKNOWN, Abstract, Extent, Items, RuntimeValue, Static, Unknown, declared, literal, members_of, number_of
from tilejit.types.annotations import RuntimeMarker, TensorAnnotation
from tilejit.types.python_text import expression
from tilejit.types.values import ANY, BufferType, Dim, TileType

if TYPE_CHECKING:
    from tilejit.jit.specialize.calls import Calls
    from tilejit.jit.specialize.expressions import Expressions
    from tilejit.jit.specialize.walk import Folded


def specialise_call(caller: Calls, node: ast.Call, helper: Definition, submitted: bool = False) -> Folded:
    """The call of the specialisation of `helper` that fits its arguments; outputs that a submitted call leaves out are allocated."""
    given = caller.spread(node)
    bound = bind_call(helper, given, caller.definition, may_omit=submitted or may_omit_outputs(helper))
    written = {id(argument): place for place, argument in enumerate([*given.args, *(keyword.value for keyword in given.keywords)])}
    in_order = sorted(bound.arguments.items(), key=lambda item: written.get(id(item[1]), helper.positional))  # as Python computes them
    folded = {name: caller.fold(argument) for name, argument in in_order}
    held = {name: value for name, (_, value) in folded.items()}
    held.update({param.name: _default(param, caller, helper, node) for param in helper.params if param.name in bound.defaults})
    for param in helper.params:
        if param.name not in held:
            folded[param.name] = _new_output(caller, node, helper, param, folded, held)
    held.update({name: value for name, (_, value) in folded.items()})
    types: dict[str, Abstract] = {}
    taken: set[str] = set()
    arguments: list[ast.expr] = []
    for param in helper.params:
        type = _parameter_type(caller, helper, param, held, bound.arguments.get(param.name, node))
        if isinstance(type, Items):
            arguments += _taken_apart(caller, helper, param, param.name, folded[param.name][0], type, types, taken)
        else:
            types[param.name] = type
            arguments += [folded[param.name][0]] if param.name in folded and not isinstance(type, Static) else []
    types = {name: _with_own_extents(caller, type) for name, type in types.items()}
    built = caller.specializer.specialize(helper, types)
    function = ast.copy_location(ast.Attribute(ast.copy_location(ast.Name("self", ast.Load()), node.func), built.name, ast.Load()), node.func)
    for param, argument in bound.arguments.items():
        if isinstance(held[param], Unknown) and isinstance(argument, ast.Name):
            held[param] = caller.env.get(argument.id, UNKNOWN)  # found out while its type was looked for
    here: dict[int, object] = {}
    for name, inside in built.types.items():
        if isinstance(inside, Static) and isinstance(passed := types.get(name), Static):
            _note_same(inside.value, passed.value, here)
    result = _portable(built.result, _dims_here(built.types, {**types, **held}), here)
    named = returned_params(caller.specializer.reads(helper))
    if any(named):  # the caller may know more about what it gave than the helper's text says
        several = len(named) > 1 or any(isinstance(place.value, ast.Tuple) for place in helper.returns)
        parts = members_of(result) if several else (result,)
        parts = parts if len(parts) == len(named) else (UNKNOWN,) * len(named)
        passed = [held.get(name, UNKNOWN) if name is not None else UNKNOWN for name in named]
        parts = tuple(more if isinstance(more, BufferType | TileType) else part for more, part in zip(passed, parts, strict=True))
        known = [part for part in parts if isinstance(part, Static)]
        whole = Static(tuple(part.value for part in known), any(part.local for part in known)) if len(known) == len(parts) else Items(parts)
        result = whole if several else parts[0]
    return ast.copy_location(ast.Call(function, arguments, []), node), result


def _with_own_extents(caller: Expressions, type: Abstract) -> Abstract:
    """A parameter's type in the helper, which does not know what the caller computed its extents from."""
    if isinstance(type, Items):
        return replace(type, items=tuple(_with_own_extents(caller, item) for item in type.items))
    if not isinstance(type, BufferType | TileType) or not any(isinstance(dim, ComputedDim) for dim in type.shape):
        return type
    shape = tuple(caller.specializer.own_dim(dim) if isinstance(dim, ComputedDim) else dim for dim in type.shape)
    return replace(type, shape=shape) if isinstance(type, BufferType) else replace(type, shape=shape, valid=shape)


def _taken_apart(
    caller: Expressions, helper: Definition, param: JitParam, name: str, node: ast.expr, value: Items, types: dict[str, Abstract], taken: set[str]
) -> list[ast.expr]:
    """The arguments that a container with run-time members becomes, and their types."""
    nodes = member_nodes(caller, node, value, node)
    if nodes is None:
        raise in_body(ArgumentError)(
            f"`{param.name}` of `{helper.name}` takes the members of this apart", span=caller.definition.span(node), help="give it a name first, and pass that"
        )
    names = member_names(helper, name, value.keys or tuple(range(len(value.items))), taken)
    out: list[ast.expr] = []
    kept: list[Abstract] = []
    for flat, item, part in zip(names, nodes, value.items, strict=True):
        if isinstance(part, Items):
            out += _taken_apart(caller, helper, param, flat, item, part, types, taken)
        else:
            types[flat] = RuntimeValue(INDEX) if isinstance(part, Extent) else _in_memory(caller, part) if _goes_through_memory(part, helper) else part
            out += [] if isinstance(part, Static) else [item]
        kept.append(types[flat])
    types[name] = replace(value, items=tuple(kept), names=names)
    return out


def _new_output(
    caller: Expressions, node: ast.Call, helper: Definition, param: JitParam, folded: Mapping[str, Folded], held: Mapping[str, Abstract]
) -> Folded:
    """A zero-filled tensor for an output that the call leaves out."""
    from tilejit.jit.specialize.outputs import left_out_type

    found = left_out_type(caller.specializer, helper, param, held)
    extents = [_extent_text(dim, folded) for dim in found.shape] if found is not None else []
    if found is None or None in extents:
        raise in_body(ShapeError)(
            f"the shape of `{param.name}` of `{helper.name}`, which this call leaves out, is not known",
            span=caller.definition.span(node),
            help=f"pass a tensor for it, or annotate the parameter: {param.name}: pl.{param.direction}[pl.Tensor[[rows, columns], dtype]]",
        )
    text = f"pl.create_tensor([{', '.join(map(str, extents))}], dtype=pl.{found.dtype.name}, init_value=0)"
    return relocated(expression(text), node), found


def _extent_text(dim: Dim, folded: Mapping[str, Folded]) -> str | None:
    """An extent as the caller can write it: a number, or a dimension of another argument."""
    if isinstance(dim, int):
        return str(dim)
    for argument, value in folded.values():
        again = not any(isinstance(node, ast.Call) for node in ast.walk(argument))  # Evaluating it twice is evaluating it once.
        if isinstance(value, (BufferType, TileType)) and dim in value.shape and again:
            return f"pl.tensor.dim({ast.unparse(argument)}, {value.shape.index(dim)})"
    return None


def _default(param: JitParam, caller: Expressions, helper: Definition, node: ast.AST) -> Abstract:
    if isinstance(param.default, RuntimeMarker):
        raise in_body(ArgumentError)(f"the call lacks its argument `{param.name}`", span=caller.definition.span(node))
    value = caller.specializer.reads(helper).default(param)
    if is_handle(value) and ARRAY in caller.specializer.trace.nature(value):
        what = f"`{param.name}` of `{helper.name}` has an array as default, which only calls from Python can leave out: a program holds no arrays"
        help = f"let `{caller.definition.name}` have a parameter with that default, and pass it on"
        raise in_body(ArgumentError)(what, span=caller.definition.span(node), help=help)
    return Static(value)


def _dims_here(inside: Mapping[str, Abstract], held: Mapping[str, Abstract]) -> Mapping[Dim, Dim]:
    """What the symbols in a helper's parameters are for the caller."""
    out: dict[Dim, Dim] = {}
    for name, type in inside.items():
        outside = held[name]
        if isinstance(type, (BufferType, TileType)) and isinstance(outside, (BufferType, TileType)):
            out.update({dim: here for dim, here in zip(type.shape, outside.shape, strict=True) if isinstance(dim, DynDim)})
    return out


def _portable(value: Abstract, dims: Mapping[Dim, Dim], here: dict[int, object]) -> Abstract:
    """A helper's result as its caller may see it: other symbols of the helper mean nothing there."""
    if isinstance(value, Items):
        return replace(value, items=tuple(_portable(item, dims, here) for item in value.items), names=())
    if isinstance(value, (BufferType, TileType)):
        shape = tuple(dim for extent in value.shape if (dim := translated(extent, dims)) is not None)
        if len(shape) != len(value.shape):
            return UNKNOWN
        if isinstance(value, BufferType):
            return replace(value, shape=shape)
        return replace(value, shape=shape, valid=tuple(ANY if (dim := translated(extent, dims)) is None else dim for extent in value.valid))
    if isinstance(value, Extent):
        dim = translated(value.dim, dims)
        return Static(dim, local=True) if isinstance(dim, int) else Extent(dim) if isinstance(dim, DynDim) else RuntimeValue(INDEX)
    if isinstance(value, Static):
        return replace(value, value=_made_anew(value.value, here))
    return value if isinstance(value, RuntimeValue) else UNKNOWN


def _note_same(inside: object, given: object, here: dict[int, object]) -> None:
    """Let lists and dicts that a helper was specialised with stand for those that this call gives it."""
    if type(inside) not in (list, dict, tuple):
        return
    here[id(inside)] = given
    both = [(cast("dict[object, object]", one).values() if type(one) is dict else cast("list[object]", one)) for one in (inside, given)]
    for one, other in zip(*both, strict=True):
        _note_same(one, other, here)


def _made_anew(value: object, here: dict[int, object]) -> object:
    """A container as another call of the helper makes it, each once: what changes that of one call leaves the others alone. `here`: what the caller gave."""
    if type(value) not in (list, dict, tuple) or id(value) in here:
        return here.get(id(value), value)
    if type(value) is tuple:
        return tuple(_made_anew(item, here) for item in cast("tuple[object, ...]", value))
    if type(value) is list:
        new: object = [_made_anew(item, here) for item in cast("list[object]", value)]
    else:
        new = {key: _made_anew(item, here) for key, item in cast("dict[object, object]", value).items()}
    here[id(value)] = new
    return new


def _parameter_type(caller: Expressions, helper: Definition, param: JitParam, held: Mapping[str, Abstract], place: ast.AST) -> Abstract:
    """What the parameter is in the specialisation: a literal, a run-time scalar, or a tensor type."""
    value = held[param.name]
    if param.kind in ("scalar", "tensor"):
        value = caller.opened(value)
        if param.optional and isinstance(value, Static) and value.value is None:
            return Static(None)
    if param.kind == "static" and isinstance(place, ast.Lambda):
        raise in_body(UnsupportedFeatureError)(
            "a kernel cannot contain a lambda", span=caller.definition.span(place), help="define the function outside the kernel"
        )
    if param.kind == "static" and not isinstance(value, Static):
        raise in_body(ArgumentError)(
            f"`{param.name}` of `{helper.name}` must be known while compiling (pl.constexpr), got {_described(value)}",
            span=caller.definition.span(place),
            help=f"pass a constant, or drop pl.constexpr from `{param.name}`",
        )
    if param.only is not None and isinstance(value, Static) and not caller.specializer.reads(helper).is_kind(value.value, param):
        wanted = " or ".join(kind.__name__ for kind in param.classes)
        shown = "" if holds_handle(value.value) else f", got {type(value.value).__name__}: {value.value!r}"
        what = f"`{param.name}` of `{helper.name}` is a compile-time {wanted}{shown}"
        raise in_body(ArgumentError)(what, span=caller.definition.span(place), help=f"pass a value of {wanted}, or change the annotation")
    if param.kind == "scalar":
        number = number_of(value)
        if number is not None:
            try:
                return declared(as_declared(number, param), param.dtype or cast("Static", value).dtype)
            except (ArgumentError, RangeError) as error:
                raise caller.located(error, place) from None
        if isinstance(value, (BufferType, TileType)):
            raise in_body(ArgumentError)(
                f"`{param.name}` of `{helper.name}` is a scalar, got {value}", span=caller.definition.span(place), help="read one element: x[i, j]"
            )
        return RuntimeValue(param.dtype or (value.dtype if isinstance(value, RuntimeValue) else None) or INDEX)
    if param.kind == "tensor" or isinstance(value, BufferType) or _goes_through_memory(value, helper):
        return _tensor_type(caller, helper, param, held, place)
    if isinstance(value, Static) and (literal(value.value) is not None or holds_handle(value.value)):
        return replace(value, local=False)
    if isinstance(value, Extent):
        return RuntimeValue(INDEX)
    return value


def _goes_through_memory(value: Abstract, helper: Definition) -> TypeGuard[TileType]:
    """Whether a value is what operators made of tensors, for a function of its own: it is in memory there."""
    return isinstance(value, TileType) and value.level == "tensor" and helper.kind != "inline"


def _in_memory(caller: Expressions, value: TileType) -> BufferType:
    return BufferType(tuple(dim if isinstance(dim, int | DynDim) else caller.specializer.fresh() for dim in value.shape), value.dtype)


def _described(value: Abstract) -> str:
    return str(value) if isinstance(value, (BufferType, TileType)) else "a value that is known only at run time"


def _tensor_type(caller: Expressions, helper: Definition, param: JitParam, held: Mapping[str, Abstract], place: ast.AST) -> Abstract:
    annotation, value = param.tensor or TensorAnnotation(), held[param.name]
    if isinstance(value, (BufferType, TileType)):
        shape, dtype = value.shape, value.dtype
        if annotation.dtype is not None and annotation.dtype is not dtype:
            message = f"`{param.name}` of `{helper.name}` holds {annotation.dtype}, got {dtype}"
            raise in_body(DTypeError)(message, span=caller.definition.span(place), help=f"pl.cast it to pl.{annotation.dtype}")
        if annotation.shape is not None and len(annotation.shape) != len(shape):
            message = f"`{param.name}` of `{helper.name}` has {len(annotation.shape)} dimensions, got {value}"
            raise in_body(ShapeError)(message, span=caller.definition.span(place), help="pass a slice or a reshape of it, or correct the annotation")
    elif isinstance(value, (Static, Extent, RuntimeValue)):
        help = f"declare it as a scalar in `{helper.name}`, e.g. {param.name}: pl.FP32"
        raise in_body(ArgumentError)(f"`{param.name}` of `{helper.name}` is a tensor, got a scalar", span=caller.definition.span(place), help=help)
    elif (known := caller.specializer.missing_type(caller, helper, param, held, place)) is not None:
        shape, dtype = known.shape, known.dtype
    elif annotation.shape is not None and annotation.dtype is not None:
        shape, dtype = tuple(dim if isinstance(dim, int) else dim.name for dim in annotation.shape), annotation.dtype
    else:
        raise in_body(ShapeError)(
            f"the shape of `{ast.unparse(place)}` is not known here, so `{helper.name}` cannot be specialised for `{param.name}`",
            span=caller.definition.span(place),
            help=f"annotate the parameter: {param.name}: pl.Tensor[[rows, columns], dtype]",
        )
    ranks = {name: len(other.shape) for name, other in held.items() if isinstance(other, (BufferType, TileType))}
    declared = caller.specializer.dynamic(helper).axes(param.name, ranks | {param.name: len(shape)})
    dims: list[int | DynDim] = []
    for axis, dim in enumerate(shape):
        if axis in declared:
            dims.append(caller.specializer.dim_of(declared[axis]))
        else:
            dims.append(dim if isinstance(dim, (int, DynDim)) else caller.specializer.fresh())
    return BufferType(tuple(dims), dtype, annotation.layout.value)
