"""What stands behind the colon: Tensor, Tile, Scalar, Out, InOut, Array, dynamic dims, and run-time markers."""

from __future__ import annotations

import keyword
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any, cast, get_args, get_origin

from tilejit.dtypes import DType
from tilejit.errors import ParserTypeError, TilejitError
from tilejit.frozen import of_the_language
from tilejit.kinds import is_a
from tilejit.optional import MayBeNone
from tilejit.types.enums import MemorySpace, TensorLayout
from tilejit.types.values import EXTENT_OPERATIONS
from tilejit.types.views import MemRef, TensorView, TileView


class DynVar:
    """A dynamic extent. Two symbols are the same one only if they are the same object; `name` is what text shows."""

    __slots__ = ("__weakref__", "_made", "name")

    def __init__(self, name: str) -> None:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(f"pl.dynamic needs an identifier, got {name!r}")
        self.name = name
        self._made: dict[tuple[str, object, bool], DynExpr] = {}

    def __repr__(self) -> str:
        return f"pl.dynamic({self.name!r})"

    def _with(self, op: str, other: object, first: bool = True) -> DynExpr:
        """`self op other`, or `other op self`; equal expressions of one symbol are one object, as they are one extent."""
        if isinstance(other, bool) or not isinstance(other, int | DynVar):
            return NotImplemented
        found = self._made.get((op, other, first))
        if found is None:
            found = self._made[op, other, first] = DynExpr(op, self if first else other, other if first else self)
        return found

    def __add__(self, other: object) -> DynExpr:
        return self._with("add", other)

    def __radd__(self, other: object) -> DynExpr:
        return self._with("add", other, first=False)

    def __sub__(self, other: object) -> DynExpr:
        return self._with("sub", other)

    def __rsub__(self, other: object) -> DynExpr:
        return self._with("sub", other, first=False)

    def __mul__(self, other: object) -> DynExpr:
        return self._with("mul", other)

    def __rmul__(self, other: object) -> DynExpr:
        return self._with("mul", other, first=False)

    def __floordiv__(self, other: object) -> DynExpr:
        return self._with("floordiv", other)

    def __mod__(self, other: object) -> DynExpr:
        return self._with("mod", other)


class DynExpr(DynVar):
    """An extent computed from dynamic ones, `M * 2`: an extent of its own, whose size is checked where the symbols are known."""

    __slots__ = ("left", "op", "right")

    def __init__(self, op: str, left: DynVar | int, right: DynVar | int) -> None:
        sides = [side.name if isinstance(side, DynVar) else str(side).replace("-", "minus_") for side in (left, right)]
        super().__init__(f"{'n_' if isinstance(left, int) else ''}{sides[0]}_{op}_{sides[1]}")
        self.op, self.left, self.right = op, left, right

    def __repr__(self) -> str:
        left, right = (f"({item!r})" if isinstance(item, DynExpr) else item.name if isinstance(item, DynVar) else str(item) for item in (self.left, self.right))
        return f"{left} {EXTENT_OPERATIONS[self.op].sign} {right}"


def dynamic(name: str) -> DynVar:
    """A new dynamic extent called `name`: any size, one compile."""
    return DynVar(name)


DimSpec = int | DynVar


def like(param: object) -> TensorAnnotation:
    """The shape and dtype of another parameter: `out: pl.Out[pl.like("x")]`; the name alone where annotations are not evaluated at once."""
    return TensorAnnotation(like=param if isinstance(param, str) else None)


def _dims(dims: object, what: str) -> tuple[DimSpec, ...]:
    if not isinstance(dims, Sequence) or isinstance(dims, str):
        raise ParserTypeError(f"{what} takes its shape as a list, got {dims!r}", help=f"write {what}[[64, 64], pl.FP32]")
    out: list[DimSpec] = []
    for dim in dims:  # pyright: ignore[reportUnknownVariableType]
        if is_a(dim, bool) or not is_a(dim, int, DynVar):
            raise ParserTypeError(f"an extent of {what} is an integer or a pl.dynamic symbol, got {dim!r}")
        if isinstance(dim, int) and dim <= 0:
            raise ParserTypeError(f"an extent of {what} must be positive, got {dim}", help="a run-time extent may be 0: use pl.dynamic")
        out.append(dim)
    return tuple(out)


def _dtype(dtype: object, what: str) -> DType:
    if not is_a(dtype, DType):
        raise ParserTypeError(f"{what} takes a data type such as pl.FP32, got {dtype!r}")
    return dtype


class _Spelled:
    """Shown as it is written."""

    __slots__ = ()

    def __repr__(self) -> str:
        from tilejit.types.spelled import text

        return text(self)


@dataclass(frozen=True, slots=True, repr=False)
class TensorAnnotation(_Spelled, MayBeNone):
    """`pl.Tensor[[...], dtype, ...]`; shape and dtype are None for a bare `pl.Tensor`."""

    shape: tuple[DimSpec, ...] | None = None
    dtype: DType | None = None
    layout: TensorLayout = TensorLayout.ND
    view: TensorView | None = None
    memref: MemRef | None = None
    like: str | None = None
    """The parameter whose shape and dtype it has."""


@dataclass(frozen=True, slots=True, repr=False)
class WindowAnnotation(TensorAnnotation):
    """`pld.DistributedTensor[[...], dtype, ...]`: a tensor of which every rank of a group has a copy."""


@dataclass(frozen=True, slots=True, repr=False)
class TileAnnotation(_Spelled):
    """`pl.Tile[[...], dtype, ...]`."""

    shape: tuple[DimSpec, ...]
    dtype: DType
    space: MemorySpace | None = None
    view: TileView | None = None
    memref: MemRef | None = None


@dataclass(frozen=True, slots=True, repr=False)
class ScalarAnnotation(_Spelled, MayBeNone):
    """`pl.Scalar[dtype]` or a bare dtype."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class ArrayAnnotation:
    """`pl.Array[extent, dtype]`."""

    extent: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class TupleAnnotation:
    """`pl.Tuple[...]` or `tuple[...]` as a return annotation."""

    items: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Several:
    """`list[pl.Tensor]`, `tuple[pl.Tensor, ...]` in `pl.Out[…]`: as many tensors as the call gives."""


@dataclass(frozen=True, slots=True, repr=False)
class DirectedAnnotation(_Spelled, MayBeNone):
    """`pl.Out[T]` or `pl.InOut[T]`."""

    direction: str
    inner: TensorAnnotation | TileAnnotation | Several


@dataclass(frozen=True, slots=True)
class ConstexprAnnotation:
    """`pl.constexpr`, or `pl.constexpr[int]`: known while compiling, of this class where one is named."""

    kind: type | tuple[type, ...] | None = None


class constexpr:
    """A compile-time argument: `BLOCK: pl.constexpr`, or `BLOCK: pl.constexpr[int]`."""

    def __class_getitem__(cls, item: object) -> ConstexprAnnotation:
        if item is Any:
            return ConstexprAnnotation()
        kinds: tuple[object, ...] = get_args(item) if isinstance(item, UnionType) else (item,)
        plain = tuple(kind for found in kinds if isinstance(kind := get_origin(found) or found, type))
        if len(plain) != len(kinds):
            raise ParserTypeError(f"pl.constexpr takes a class, got {item!r}", help="write pl.constexpr[int], or pl.constexpr for any compile-time value")
        return ConstexprAnnotation(plain[0] if len(plain) == 1 else plain)


class Tensor:
    """A tensor in global memory: `pl.Tensor[[64, M], pl.FP32]`, or bare when the call supplies shape and dtype."""

    def __class_getitem__(cls, item: object) -> TensorAnnotation:
        parts = item if isinstance(item, tuple) else (item,)
        if len(parts) < 2:
            raise ParserTypeError("pl.Tensor takes a shape and a data type", help="write pl.Tensor[[64, 64], pl.FP32]")
        layout, view, memref = TensorLayout.ND, None, None
        for extra in parts[2:]:
            if extra is TensorLayout.DN:
                raise ParserTypeError("the layout pl.DN alone does not say how a tensor lies in memory", help="write pl.TensorView(stride=[…], layout=pl.DN)")
            if isinstance(extra, TensorLayout):
                layout = extra
            elif isinstance(extra, TensorView):
                view, layout = extra, extra.layout
            elif isinstance(extra, MemRef):
                memref = extra
            else:
                raise ParserTypeError(f"pl.Tensor does not take {extra!r} here", help="a layout, pl.TensorView(...) or pl.MemRef(...)")
        return TensorAnnotation(_dims(parts[0], "pl.Tensor"), _dtype(parts[1], "pl.Tensor"), layout, view, memref)

    def bind_dynamic(self, axis: int, symbol: DynVar) -> None:
        """Inside a kernel: make extent `axis` dynamic. Elsewhere nothing happens."""


class DistributedTensor:
    """A window: a tensor of which every rank of a group has a copy that the others can reach."""

    def __class_getitem__(cls, item: object) -> WindowAnnotation:
        parts = item if isinstance(item, tuple) else (item,)
        kept = tuple(part for part in parts if not (isinstance(part, str) and part.startswith("window_buffer=")))
        if len(kept) < 2:
            raise ParserTypeError("pld.DistributedTensor takes a shape and a data type", help="write pld.DistributedTensor[[64, 64], pl.FP32]")
        plain = Tensor.__class_getitem__(kept)
        return WindowAnnotation(plain.shape, plain.dtype, plain.layout, plain.view, plain.memref)


class CommCtx:
    """The group of a window, as pld.system.get_comm_ctx gives it."""


class Ptr:
    """What pld.tensor.alloc_window_buffer gives: good for pld.tensor.window only."""


class Tile:
    """An on-chip tile: `pl.Tile[[16, 16], pl.FP32]`."""

    def __class_getitem__(cls, item: object) -> TileAnnotation:
        parts = item if isinstance(item, tuple) else (item,)
        if len(parts) < 2:
            raise ParserTypeError("pl.Tile takes a shape and a data type", help="write pl.Tile[[64, 64], pl.FP32]")
        space, view, memref = None, None, None
        for extra in parts[2:]:
            if isinstance(extra, MemorySpace):
                space = extra
            elif isinstance(extra, TileView):
                view = extra
            elif isinstance(extra, MemRef):
                memref = extra
            else:
                raise ParserTypeError(f"pl.Tile does not take {extra!r} here", help="a memory space, pl.TileView(...) or pl.MemRef(...)")
        return TileAnnotation(_dims(parts[0], "pl.Tile"), _dtype(parts[1], "pl.Tile"), space, view, memref)


class Scalar:
    """A number: `pl.Scalar[pl.FP32]`."""

    def __class_getitem__(cls, item: object) -> ScalarAnnotation:
        return ScalarAnnotation(_dtype(item, "pl.Scalar"))


class Array:
    """An on-core array: `pl.Array[8, pl.INT32]`."""

    def __class_getitem__(cls, item: object) -> ArrayAnnotation:
        if not isinstance(item, tuple) or len(item) != 2 or not isinstance(item[0], int):
            raise ParserTypeError("pl.Array takes a constant extent and a data type", help="write pl.Array[8, pl.INT32]")
        return ArrayAnnotation(item[0], _dtype(item[1], "pl.Array"))


class Tuple:
    """Several results: `pl.Tuple[pl.Tensor[...], pl.Tensor[...]]`."""

    def __class_getitem__(cls, item: object) -> TupleAnnotation:
        return TupleAnnotation(item if isinstance(item, tuple) else (item,))


def written_out(annotation: object) -> object:
    """What a name of a `type` statement stands for (Python 3.12); any other annotation as it is."""
    while isinstance(annotation, _ALIAS):
        try:
            annotation = cast("Any", annotation).__value__  # evaluated when somebody asks, then kept
        except TilejitError:
            raise
        except Exception as error:
            raise ParserTypeError(f"`type {annotation}` cannot be evaluated: {type(error).__name__}: {error}") from error
    return annotation


_ALIAS: type | tuple[()] = getattr(typing, "TypeAliasType", ())


def _directed(direction: str, item: object) -> DirectedAnnotation:
    item = written_out(item)
    if isinstance(item, UnionType) and len(kinds := [kind for kind in get_args(item) if kind is not type(None)]) == 1:
        item = kinds[0]  # `pl.Out[pl.Tensor | None]`: the default says whether it may be left out
    if item is Tensor or item is DistributedTensor:
        item = TensorAnnotation() if item is Tensor else WindowAnnotation()
    if item is list or item is tuple or get_origin(item) in (list, tuple):
        item = Several()
    if not isinstance(item, TensorAnnotation | TileAnnotation | Several):
        form = f"pl.{direction}[pl.Tensor]"
        raise ParserTypeError(f"pl.{direction} wraps a tensor, got {item!r}", help=f"write {form} or {form[:-1]}[[...], dtype]]")
    return DirectedAnnotation(direction, item)


class Out:
    """A tensor that the kernel writes and does not read."""

    def __class_getitem__(cls, item: object) -> DirectedAnnotation:
        return _directed("Out", item)


class InOut:
    """A tensor that the kernel reads and writes."""

    def __class_getitem__(cls, item: object) -> DirectedAnnotation:
        return _directed("InOut", item)


@of_the_language
@dataclass(frozen=True, slots=True)
class RuntimeMarker:
    """The type of `pl.RUNTIME`: keep this scalar a run-time parameter."""

    def __repr__(self) -> str:
        return "pl.RUNTIME"


RUNTIME = RuntimeMarker()
AUTO = -1
"""Let the compiler pick (hardware-only)."""


@dataclass(frozen=True, slots=True)
class Untracked:
    """A captured value that is left out of the key, at the author's risk."""

    value: object


class Once:
    """A function that is asked once per process, of which those that it forks are a part: what it returned then counts, in the key on disk too."""

    __slots__ = ("_answers", "function")

    def __init__(self, function: Callable[..., object]) -> None:
        if not callable(function):
            raise ParserTypeError(f"pl.once takes a function, got {function!r}", help="write read = pl.once(lambda: config.size) and call read() in the kernel")
        self.function = function
        self._answers: dict[tuple[object, ...], tuple[object, ...]] = {}
        """By arguments, which are kept alive: those that are no plain values count by identity."""

    def __call__(self, *args: object, **kwargs: object) -> object:
        key = (*map(_token, args), *((name, _token(value)) for name, value in sorted(kwargs.items())))
        if key not in self._answers:
            self._answers.setdefault(key, (self.function(*args, **kwargs), args, kwargs))  # no lock is held: the first answer stays
        return self._answers[key][0]

    def __repr__(self) -> str:
        return f"pl.once({getattr(self.function, '__qualname__', self.function)})"


def _token(value: object) -> tuple[object, ...]:
    if isinstance(value, tuple) and type(value) is tuple:  # pyright: ignore[reportUnknownArgumentType]
        return tuple(_token(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    plain = type(value) in (int, float, bool, str, bytes, type(None))
    return (type(value), repr(value)) if plain else ("object", id(value))


def once(function: Callable[..., object]) -> Once:
    """Ask a Python function once per process instead of at each call of the kernels that call it."""
    return Once(function)


def untracked(value: object) -> Untracked:
    """Leave a captured value out of the cache key: a change of it goes unnoticed."""
    return Untracked(value)
