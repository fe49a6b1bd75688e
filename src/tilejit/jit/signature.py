"""The parameters of a jit function: what each annotation says, however it is spelled."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tilejit.dtypes import BOOL, DType, integer_range
from tilejit.errors import ArgumentError, ParserTypeError, RangeError, TilejitError
from tilejit.frontend.fold import Namespace
from tilejit.frontend.source import FunctionText, span_of
from tilejit.types.annotations import (
    RUNTIME,
    ArrayAnnotation,
    DirectedAnnotation,
    InOut,
    Out,
    RuntimeMarker,
    ScalarAnnotation,
    Tensor,
    TensorAnnotation,
    TileAnnotation,
)

_EMPTY = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class JitParam:
    """One parameter of a jit function."""

    name: str
    kind: str
    """"tensor", "scalar", or "other" (tiles, arrays, no annotation)."""
    direction: str = "In"
    tensor: TensorAnnotation | None = None
    """What the annotation says of a tensor; empty for a bare `pl.Tensor`."""
    dtype: DType | None = None
    """Of a scalar."""
    default: object = _EMPTY
    node: ast.arg = field(default_factory=lambda: ast.arg("?"), repr=False)
    wrap: type | None = None
    """A class of KernelArguments, if the annotation is one: other arguments are given to it."""

    @property
    def stays_runtime(self) -> bool:
        return isinstance(self.default, RuntimeMarker)


def read_params(function: Callable[..., object], text: FunctionText, extra: Mapping[str, object], drop_first: bool = False) -> tuple[JitParam, ...]:
    """The parameters of `function`; string annotations are evaluated where the function stands."""
    spec = text.node.args
    for node, what in ((spec.vararg, "*args"), (spec.kwarg, "**kwargs")):
        if node is not None:
            raise ParserTypeError(f"a kernel has no {what} parameters", span=span_of(node, text.source, text.node.name), help="name every parameter")
    if spec.posonlyargs:
        raise ParserTypeError(
            "a kernel has no positional-only parameters", span=span_of(spec.posonlyargs[0], text.source, text.node.name), help="remove the `/`"
        )
    names = [*spec.args, *spec.kwonlyargs]
    plain = inspect.unwrap(function)
    defaults = _defaults(plain)
    annotations: Mapping[str, object] = getattr(plain, "__annotations__", {})
    namespace = Namespace(plain, extra)
    params = [_read(arg, annotations.get(arg.arg), defaults.get(arg.arg, _EMPTY), namespace, text) for arg in names]
    return tuple(params[1:] if drop_first else params)


def _defaults(function: Callable[..., object]) -> dict[str, object]:
    """Default values by parameter; `inspect.signature` would build ten objects for each."""
    positional: tuple[object, ...] = getattr(function, "__defaults__", None) or ()
    code = getattr(function, "__code__")  # noqa: B009 - a Callable has none for the type checker
    names = code.co_varnames[: code.co_argcount]
    return {**dict(zip(names[len(names) - len(positional) :], positional)), **(getattr(function, "__kwdefaults__", None) or {})}


def _read(arg: ast.arg, annotation: object, default: object, namespace: Namespace, text: FunctionText) -> JitParam:
    try:
        if isinstance(annotation, str):
            annotation = evaluate_annotation(annotation, namespace)
        elif annotation is None and arg.annotation is not None:
            annotation = evaluate_annotation(ast.unparse(arg.annotation), namespace)
    except TilejitError as error:
        raise error.located(span_of(arg.annotation or arg, text.source, text.node.name)) from None
    if annotation is None and arg.annotation is not None:
        annotation = _by_syntax(arg.annotation)
    try:
        return _classify(arg, annotation, default)
    except ArgumentError as error:
        raise error.located(span_of(arg.annotation or arg, text.source, text.node.name)) from None


def _classify(arg: ast.arg, annotation: object, default: object) -> JitParam:
    direction = "In"
    if isinstance(annotation, DirectedAnnotation):
        direction, annotation = annotation.direction, annotation.inner
    if annotation is Tensor:
        annotation = TensorAnnotation()
    if isinstance(annotation, TensorAnnotation):
        if annotation.view is not None:
            help = "write the layout itself: pl.Tensor[[64, 64], pl.FP32, pl.NZ]"
            raise ArgumentError(f"the annotation of `{arg.arg}` has a pl.TensorView where @pl.jit takes a plain layout", help=help)
        return JitParam(arg.arg, "tensor", direction, tensor=annotation, default=default, node=arg)
    if isinstance(annotation, ScalarAnnotation):
        return JitParam(arg.arg, "scalar", dtype=annotation.dtype, default=default, node=arg)
    if isinstance(annotation, DType):
        return JitParam(arg.arg, "scalar", dtype=annotation, default=default, node=arg)
    if annotation is int or annotation is float or annotation is bool:
        return JitParam(arg.arg, "scalar", default=default, node=arg)
    wrap = annotation if isinstance(annotation, type) and hasattr(annotation, "__abi_slots__") else None
    return JitParam(arg.arg, "other", direction, default=default, node=arg, wrap=wrap)


def as_declared(number: int | float | bool, param: JitParam) -> int | float | bool:
    """A scalar argument as the parameter declares it: floats for float types, integers for integer types."""
    dtype: DType | None = param.dtype
    if dtype is None:
        return number
    if dtype.is_float:
        return float(number)
    if dtype is BOOL:
        return bool(number)
    if isinstance(number, float):
        if not number.is_integer():
            raise ArgumentError(f"`{param.name}` is an integer ({dtype}), got {number!r}", help=f"round it, or declare `{param.name}` as a float type")
        number = int(number)
    low, high = integer_range(dtype)
    if not low <= number <= high:
        help = f"pass a number in that range, or declare `{param.name}` with a wider dtype"
        raise RangeError(f"`{param.name}` = {number} is outside the range of {dtype}: {low} to {high}", help=help)
    return int(number)


def annotated_result(function: Callable[..., object], namespace: Mapping[str, object]) -> object | None:
    """What a function's return annotation stands for."""
    annotation = getattr(function, "__annotations__", {}).get("return")
    return evaluate_annotation(annotation, namespace) if isinstance(annotation, str) else annotation


def evaluate_annotation(text: str, namespace: Mapping[str, object]) -> object | None:
    """The object a string annotation stands for, or None when a name in it cannot be found."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
        if isinstance(tree.body, ast.Constant) and isinstance(tree.body.value, str):
            return evaluate_annotation(tree.body.value, namespace)
        names = {node.id: namespace[node.id] for node in ast.walk(tree) if isinstance(node, ast.Name)}
        return eval(compile(tree, "<annotation>", "eval"), {"__builtins__": {}}, names)  # the author's own annotation, as Python evaluates it
    except TilejitError:
        raise
    except Exception:
        return None


def _by_syntax(node: ast.expr) -> object | None:
    """What can be told from the shape of an annotation whose names are unknown: `x.Tensor[...]`, `Out[Tensor]`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        node = ast.parse(node.value, mode="eval").body
    head = node.value if isinstance(node, ast.Subscript) else node
    last = head.attr if isinstance(head, ast.Attribute) else head.id if isinstance(head, ast.Name) else ""
    if last == "Tensor":
        return TensorAnnotation()
    if last in ("Out", "InOut") and isinstance(node, ast.Subscript) and _by_syntax(node.slice) is not None:
        return (Out if last == "Out" else InOut)[Tensor]  # type: ignore[index]
    return None


__all__ = ["RUNTIME", "ArrayAnnotation", "JitParam", "TileAnnotation", "evaluate_annotation", "read_params"]
