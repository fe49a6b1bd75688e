"""The parameters of a jit function: what each annotation says, however it is spelled."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from types import FunctionType as PythonFunction
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, Union, cast, get_args, get_origin

from tilejit.dtypes import INT64, DType
from tilejit.errors import ArgumentError, ParserTypeError, TilejitError
from tilejit.frontend.source import FunctionText, span_of
from tilejit.jit.reads.facts import Facts
from tilejit.jit.specialize.annotation_text import by_syntax
from tilejit.kinds import is_a
from tilejit.optional import OptionalAnnotation
from tilejit.types.annotations import (
    ArrayAnnotation,
    CommCtx,
    ConstexprAnnotation,
    DirectedAnnotation,
    DistributedTensor,
    DynExpr,
    DynVar,
    RuntimeMarker,
    ScalarAnnotation,
    Tensor,
    TensorAnnotation,
    TileAnnotation,
    WindowAnnotation,
    constexpr,
    written_out,
)
from tilejit.types.python_text import expression

if TYPE_CHECKING:
    from tilejit.jit.specialize.quoted import Quoted

_EMPTY = inspect.Parameter.empty


class JitParam(NamedTuple):
    """One parameter of a jit function."""

    name: str
    kind: str
    """"tensor", "scalar", "static" (known while compiling), or "other" (tiles, arrays, no annotation)."""
    direction: str = "In"
    tensor: TensorAnnotation | None = None
    """What the annotation says of a tensor; empty for a bare `pl.Tensor`."""
    dtype: DType | None = None
    """Of a scalar."""
    default: object = _EMPTY
    wrap: type | None = None
    """A class of KernelArguments, if the annotation is one: other arguments are given to it."""
    keyword_only: bool = False
    """Whether it stands after a `*`."""
    optional: bool = False
    """Whether None may be given for a tensor: decided while compiling."""
    rest: bool = False
    """Whether it is `*args`: a tuple of all further arguments."""
    only: type | tuple[type, ...] | None = None
    """Of what class a compile-time argument must be."""
    stands_for: TileAnnotation | ArrayAnnotation | type | None = None
    """The annotation of a tile or an array, and the class that stands for a scalar."""

    @property
    def stays_runtime(self) -> bool:
        return is_a(self.default, RuntimeMarker)

    @property
    def classes(self) -> tuple[type, ...]:
        """Those that `pl.constexpr[…]` names; none: any."""
        return self.only if isinstance(self.only, tuple) else () if self.only is None else (self.only,)

    def described(self) -> list[object]:
        """What of it is part of the key, besides its default; symbols as they are."""
        tensor = self.tensor
        shape = None if tensor is None or tensor.shape is None else list(tensor.shape)
        facts: list[object] | None = None
        if tensor is not None:
            facts = [shape, str(tensor.dtype), tensor.layout.value, repr(tensor.view), repr(tensor.memref), type(tensor).__name__, tensor.like]
        only = list(map(_class_path, self.classes))
        own: list[object] = [self.kind, self.direction, facts, str(self.dtype), _class_path(self.wrap), self.keyword_only, self.optional, self.rest]
        own += [only, _described(self.stands_for)]
        assert len(own) == len(self) - 2, "all but name and default: an annotation that says more is another kernel"
        return own


def _described(annotation: TileAnnotation | ArrayAnnotation | type | None) -> object:
    if isinstance(annotation, TileAnnotation):
        return [list(annotation.shape), str(annotation.dtype), str(annotation.space), repr(annotation.view), repr(annotation.memref)]
    return repr(annotation) if isinstance(annotation, ArrayAnnotation) else _class_path(annotation)


def described_symbol(symbol: DynVar, numbers: dict[int, int]) -> list[object]:
    """A symbol in writing: by its number, as two may have one name; what is computed from symbols by how."""
    if isinstance(symbol, DynExpr):
        return [symbol.op, symbol.left, symbol.right]
    return [symbol.name, numbers.setdefault(id(symbol), len(numbers))]


def _class_path(cls: type | None) -> str | None:
    return f"{cls.__module__}.{cls.__qualname__}" if cls is not None else None


def read_params(
    function: Callable[..., object],
    facts: Facts,
    text: Callable[[], FunctionText],
    quoted: Quoted,
    drop_first: bool = False,
) -> tuple[JitParam, ...]:
    """The parameters of `function`; string annotations are evaluated where the function stands.

    `text` is asked only where `facts` do not do.
    """
    assert isinstance(function, PythonFunction)
    code = function.__code__
    if code.co_posonlyargcount or code.co_flags & inspect.CO_VARKEYWORDS:
        raise _unsupported(text())
    defaults = _defaults(function)
    annotations: Mapping[str, object] = getattr(function, "__annotations__", {})
    total = code.co_argcount + code.co_kwonlyargcount
    has_rest = bool(code.co_flags & inspect.CO_VARARGS)
    params = [
        _read(name, annotations.get(name), defaults.get(name, _EMPTY), quoted, text if name in facts.annotated else None)
        for name in code.co_varnames[: total + has_rest]
    ]
    if code.co_kwonlyargcount:
        params = [param._replace(keyword_only=code.co_argcount <= position < total) for position, param in enumerate(params)]
    if has_rest:
        rest = params.pop()
        params.insert(code.co_argcount, JitParam(rest.name, "other", rest.direction, default=(), rest=True))
    return tuple(params[1:] if drop_first else params)


def _unsupported(text: FunctionText) -> ParserTypeError:
    spec = text.node.args
    if spec.kwarg is not None:
        place = span_of(spec.kwarg, text.source, text.node.name)
        return ParserTypeError("a kernel has no **kwargs parameters", span=place, help="name every parameter, or take one dict: options: dict")
    place = span_of(spec.posonlyargs[0], text.source, text.node.name)
    return ParserTypeError("a kernel has no positional-only parameters", span=place, help="remove the `/`")


def argument_node(text: FunctionText, name: str) -> ast.arg:
    """Where a parameter stands."""
    spec = text.node.args
    return next(arg for arg in (*spec.args, *spec.kwonlyargs, *([spec.vararg] if spec.vararg is not None else [])) if arg.arg == name)


def _defaults(function: PythonFunction) -> dict[str, object]:
    """Default values by parameter; `inspect.signature` would build ten objects for each."""
    positional = function.__defaults__ or ()
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return {**dict(zip(names[len(names) - len(positional) :], positional)), **(function.__kwdefaults__ or {})}


def _read(name: str, annotation: object, default: object, quoted: Quoted, text: Callable[[], FunctionText] | None) -> JitParam:
    """One parameter; `text` of a function in which it has an annotation."""
    try:
        if isinstance(annotation, str):
            annotation = quoted.evaluate(name, annotation)
        if annotation is None and text is not None:
            later = quoted.later().get(name)
            annotation = by_syntax(expression(later.strip())) if later is not None else _by_text(name, quoted, text())
            quoted.require(name, annotation)
        return classify(name, annotation, default)
    except TilejitError as error:
        if text is None:
            raise
        node = argument_node(text(), name)
        raise error.located(span_of(node.annotation or node, text().source, text().node.name)) from None


def _by_text(name: str, quoted: Quoted, text: FunctionText) -> object | None:
    """What the annotation in the text stands for, where the function object has none or it cannot be evaluated."""
    written = argument_node(text, name).annotation
    if written is None:
        return None
    found = quoted.evaluate(name, ast.unparse(written))
    return by_syntax(written) if found is None else found


def classify(name: str, annotation: object, default: object) -> JitParam:
    """A parameter of which it is known what its annotation stands for."""
    direction, optional = "In", default is None
    *around, annotation = layers(annotation)
    for layer in around:
        optional |= isinstance(layer, OptionalAnnotation) or get_origin(layer) in _UNIONS
        direction = layer.direction if isinstance(layer, DirectedAnnotation) else direction
    if annotation is Tensor or annotation is DistributedTensor:
        annotation = TensorAnnotation() if annotation is Tensor else WindowAnnotation()
    if annotation is constexpr or isinstance(annotation, ConstexprAnnotation):
        return JitParam(name, "static", default=default, only=annotation.kind if isinstance(annotation, ConstexprAnnotation) else None)
    if isinstance(annotation, TensorAnnotation):
        if annotation.view is not None:
            help = "write the layout itself: pl.Tensor[[64, 64], pl.FP32, pl.NZ]"
            raise ArgumentError(f"the annotation of `{name}` has a pl.TensorView where @pl.jit takes a plain layout", help=help)
        return JitParam(name, "tensor", direction, tensor=annotation, default=default, optional=optional and direction != "Out")
    if isinstance(annotation, ScalarAnnotation):
        return JitParam(name, "scalar", dtype=annotation.dtype, default=default, optional=optional)
    if isinstance(annotation, DType):
        return JitParam(name, "scalar", dtype=annotation, default=default, optional=optional)
    if annotation is CommCtx:
        return JitParam(name, "scalar", dtype=INT64, default=default, stands_for=CommCtx)
    if annotation is int or annotation is float or annotation is bool:
        return JitParam(name, "scalar", default=default, optional=optional, stands_for=cast("type", annotation))
    wrap = annotation if isinstance(annotation, type) and takes_part(annotation) else None
    stands_for = annotation if isinstance(annotation, TileAnnotation | ArrayAnnotation) else None
    return JitParam(name, "other", direction, default=default, wrap=wrap, stands_for=stands_for)


def takes_part(cls: type) -> bool:
    """Whether objects of a class say themselves what they stand for in a call."""
    return hasattr(cls, "__abi_slots__")


_UNIONS = (Union, UnionType)


def layers(annotation: object) -> list[object]:
    """An annotation and what stands in it, from the outside: the last one says what is annotated."""
    found = [annotation]
    while (inner := _within(found[-1])) is not found[-1]:
        found.append(inner)
    return found


def _within(annotation: object) -> object:
    """What stands in another annotation: `X | None`, `Optional[X]`, `Annotated[X, …]`, `Final[X]`, `pl.Out[X]`, `type Y = X`; any other as it is."""
    if isinstance(annotation, OptionalAnnotation | DirectedAnnotation):
        return annotation.inner
    if (meant := written_out(annotation)) is not annotation:
        return meant
    origin, parts = get_origin(annotation), get_args(annotation)
    kinds = [part for part in parts if part is not type(None)]
    if origin in (Annotated, Final) or (origin in _UNIONS and len(kinds) == 1 < len(parts)):
        return kinds[0]
    return annotation


def annotated_result(function: Callable[..., object], quoted: Quoted) -> object | None:
    """What a function's return annotation stands for."""
    annotation = getattr(function, "__annotations__", {}).get("return")
    return written_out(quoted.evaluate("return", annotation) if isinstance(annotation, str) else annotation)
