"""Annotations evaluated on the real objects, as types of parameters, results and locals."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import GenericAlias
from typing import get_origin

from tilejit.dtypes import INT64, DType
from tilejit.errors import ParserTypeError, Span, TilejitError
from tilejit.types.annotations import (
    ArrayAnnotation,
    CommCtx,
    DimSpec,
    DirectedAnnotation,
    DynVar,
    InOut,
    Out,
    Scalar,
    ScalarAnnotation,
    Tensor,
    TensorAnnotation,
    Tile,
    TileAnnotation,
    TupleAnnotation,
    written_out,
)
from tilejit.types.enums import MemorySpace
from tilejit.types.values import ANY, ArrayType, BufferType, Dim, ScalarType, TileType, ValueType

SymbolName = Callable[[DynVar], str]


@dataclass(frozen=True, slots=True)
class ParamSpec:
    """A parameter: its name, type and direction ("In", "Out", "InOut")."""

    name: str
    type: ValueType
    direction: str = "In"
    window: bool = False
    """Whether each rank of a group has one."""


class _Overlay(Mapping[str, object]):
    """Two mappings as one, the first wins."""

    def __init__(self, first: Mapping[str, object], second: Mapping[str, object]) -> None:
        self._first, self._second = first, second

    def __getitem__(self, name: str) -> object:
        return self._first[name] if name in self._first else self._second[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._first, **self._second})

    def __len__(self) -> int:
        return sum(1 for _ in self)


def annotation_value(node: ast.expr, namespace: Mapping[str, object], span: Span, local: Mapping[str, object] | None = None) -> object:
    """The object that an annotation denotes; text annotations are read too."""
    names = _Overlay(local, namespace) if local else namespace
    try:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return written_out(eval(node.value, {"__builtins__": builtins}, names))  # type: ignore[arg-type]
        code = compile(ast.fix_missing_locations(ast.Expression(node)), span.filename, "eval")
        return written_out(eval(code, {"__builtins__": builtins}, names))  # type: ignore[arg-type]
    except TilejitError as error:
        raise error.located(span) from None
    except Exception as error:
        raise ParserTypeError(f"this annotation cannot be evaluated: {type(error).__name__}: {error}", span=span) from error


def directed(annotation: object) -> tuple[object, str]:
    """An annotation without `pl.Out`/`pl.InOut`, and its direction."""
    annotation = written_out(annotation)
    if isinstance(annotation, DirectedAnnotation):
        return annotation.inner, annotation.direction
    return annotation, "In"


def is_of_python(annotation: object) -> bool:
    """Whether it speaks of Python's types or the user's own: `int`, `list[int]`, `str | None`, `Any`. At a local they say as much as in Python: nothing."""
    kind = get_origin(annotation) or annotation
    named = isinstance(kind, type) and kind.__module__.partition(".")[0] not in _WITH_DATA_TYPES
    return named or annotation is None or type(kind).__module__ == "typing"


_WITH_DATA_TYPES = ("tilejit", "numpy", "ml_dtypes", "torch")
"""Packages whose types somebody may take for those of the language."""


def value_type(annotation: object, symbol: SymbolName, span: Span) -> ValueType:
    """The type that an annotation describes completely."""
    if isinstance(annotation, TensorAnnotation) and annotation.shape is not None and annotation.dtype is not None:
        return BufferType(_dims(annotation.shape, symbol), annotation.dtype, annotation.layout.value)
    if isinstance(annotation, TileAnnotation):
        shape = _dims(annotation.shape, symbol)
        valid = shape
        if annotation.view is not None and annotation.view.valid_shape is not None:
            valid = tuple(item if isinstance(item, int) else ANY for item in annotation.view.valid_shape)
        return TileType(shape, annotation.dtype, valid, (annotation.space or MemorySpace.Vec).value)
    if isinstance(annotation, ScalarAnnotation | DType):
        return ScalarType(annotation if isinstance(annotation, DType) else annotation.dtype)
    if annotation is CommCtx:
        return ScalarType(INT64)
    if isinstance(annotation, ArrayAnnotation):
        return ArrayType(annotation.extent, annotation.dtype)
    if annotation is Tensor or annotation is Tile or annotation is Out or annotation is InOut or isinstance(annotation, TensorAnnotation):
        raise ParserTypeError(
            "this annotation needs a shape and a data type", span=span, help="write pl.Tensor[[64, 64], pl.FP32]; only @pl.jit takes bare pl.Tensor"
        )
    if annotation is Scalar:
        raise ParserTypeError("this annotation needs a data type", span=span, help="write pl.Scalar[pl.FP32]")
    raise ParserTypeError(
        f"{annotation!r} is not a type of the language", span=span, help="use pl.Tensor[…], pl.Tile[…], pl.Scalar[…], pl.Out[…] or pl.InOut[…]"
    )


def _dims(shape: tuple[DimSpec, ...], symbol: SymbolName) -> tuple[Dim, ...]:
    return tuple(extent if isinstance(extent, int) else symbol(extent) for extent in shape)


def result_items(annotation: object) -> tuple[object, ...]:
    """The annotations of the single results of a return annotation."""
    annotation = written_out(annotation)
    if annotation is None:
        return ()
    if isinstance(annotation, TupleAnnotation):
        return annotation.items
    if isinstance(annotation, GenericAlias) and annotation.__origin__ is tuple:
        return tuple(annotation.__args__)
    return (annotation,)


def agrees(declared: ValueType, actual: ValueType) -> bool:
    """Whether a value of type `actual` may bear the annotation `declared`: same kind, dtype and extents where both are known."""
    if isinstance(declared, BufferType | TileType) and isinstance(actual, BufferType | TileType):
        if declared.dtype is not actual.dtype or declared.rank != actual.rank or declared.level != actual.level:
            return False
        return all(not (isinstance(a, int) and isinstance(b, int)) or a == b for a, b in zip(declared.shape, actual.shape, strict=True))
    return declared == actual
