"""The annotations of source-backed PTO kernels, and the parameters that a signature declares with them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tilejit.errors import ArgumentError

ELEMENT_NAMES = ("i1", "i8", "i16", "i32", "i64", "si8", "si16", "si32", "si64", "ui8", "ui16", "ui32", "ui64", "f16", "bf16", "f32", "index")

POINTED_NAMES = ("f8E4M3FN", "f8E4M3", "f8E5M2")
"""Element types that pointers have and scalars do not."""


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A number: element type of pointers, or a parameter by itself."""

    name: str

    def __repr__(self) -> str:
        return f"pto.{self.name}"

    @property
    def text(self) -> str:
        """As PTO text spells it."""
        return self.name


@dataclass(frozen=True, slots=True)
class PointerType:
    """A pointer to elements in a memory space."""

    element: ScalarType
    space: str

    def __repr__(self) -> str:
        return f"pto.ptr({self.element!r}, {self.space!r})"

    @property
    def text(self) -> str:
        return f"!pto.ptr<{self.element.name}, {self.space.lower()}>"


@dataclass(frozen=True, slots=True)
class Marker:
    """A kind of value that exists inside kernels only."""

    name: str

    def __repr__(self) -> str:
        return f"pto.{self.name}"


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """The former way to describe an argument."""

    described: tuple[object, ...] = ()


CONST_EXPR = Marker("const_expr")
MARKERS = {name: Marker(name) for name in ("Tile", "TensorView", "PartitionTensorView", "VReg", "mask")}
SCALARS = {name: ScalarType(name) for name in (*ELEMENT_NAMES, *POINTED_NAMES)}


def ptr(element: ScalarType, space: str = "ub") -> PointerType:
    """The type of a pointer; a parameter of an entry points into "gm"."""
    if not isinstance(element, ScalarType):
        raise ArgumentError(f"pto.ptr takes an element type like pto.f32, got {element!r}")
    if not isinstance(space, str):
        raise ArgumentError(f'pto.ptr takes the name of a memory space like "gm", got {space!r}')
    return PointerType(element, str.__str__(space))


def tensor_spec(*args: object, **options: object) -> TensorSpec:
    """The former way to describe an argument; entries take pointers."""
    return TensorSpec((*args, *sorted(options.items())))


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an entry: `type` is None for a compile-time constant."""

    name: str
    type: ScalarType | PointerType | None
    default: object = None

    @property
    def kind(self) -> str:
        return "const" if self.type is None else "ptr" if isinstance(self.type, PointerType) else "scalar"


def parameters_of(function: Callable[..., object], scope: Mapping[str, object] | None = None) -> tuple[Parameter, ...]:
    """The ABI that a Python signature declares; `scope`: names around the function that its annotations may use."""
    name = function.__name__
    try:
        signature = inspect.signature(function, locals=scope, eval_str=True)
    except Exception as error:
        raise ArgumentError(f"the annotations of {name} cannot be evaluated: {error}") from None
    return tuple(_parameter(name, parameter) for parameter in signature.parameters.values())


def _parameter(kernel: str, parameter: inspect.Parameter) -> Parameter:
    name, annotation = parameter.name, parameter.annotation

    def wrong(what: str, help: str | None = None) -> ArgumentError:
        return ArgumentError(f"parameter `{name}` of {kernel}: {what}", help=help)

    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise wrong("*args and **kwargs have no place in an ABI")
    if annotation is parameter.empty:
        raise wrong("it needs an annotation", 'write pto.ptr(pto.f32, "gm") or a scalar like pto.i32')
    if parameter.kind is parameter.KEYWORD_ONLY:
        if annotation != CONST_EXPR:
            raise wrong(f"keyword-only parameters are pto.const_expr, got {annotation!r}")
        if parameter.default is parameter.empty:
            raise wrong("a pto.const_expr needs a default")
        return Parameter(name, None, parameter.default)
    return Parameter(name, _annotated(annotation, wrong))


def _annotated(annotation: Any, wrong: Callable[..., ArgumentError]) -> ScalarType | PointerType:
    if isinstance(annotation, ScalarType):
        if annotation.name in POINTED_NAMES:
            raise wrong(f"there are no scalars of type {annotation!r}", f'write pto.ptr({annotation!r}, "gm")')
        return annotation
    if isinstance(annotation, PointerType):
        if annotation.space.lower() != "gm":
            raise wrong(f"a pointer of an entry is into gm, got {annotation!r}", f'write pto.ptr({annotation.element!r}, "gm")')
        return PointerType(annotation.element, "gm")
    if annotation == CONST_EXPR:
        raise wrong("a pto.const_expr is keyword-only", "put `*,` before it")
    if isinstance(annotation, TensorSpec):
        raise wrong("pto.tensor_spec(...) is the former way to describe an argument", 'write pto.ptr(pto.f32, "gm")')
    if isinstance(annotation, Marker):
        raise wrong(f"{annotation!r} exists inside kernels only: an entry takes pointers and scalars")
    raise wrong(f"an entry takes pointers and scalars, got {annotation!r}")
