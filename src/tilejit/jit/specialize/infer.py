"""Types of local values while specialising: enough to know what helpers are called with and how large outputs are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from tilejit import ops
from tilejit.dtypes import BOOL, COMPLEX64, FP32, INDEX
from tilejit.errors import TilejitError
from tilejit.jit.reads.handles import holds_handle
from tilejit.jit.reads.typed import TypedFloat
from tilejit.jit.specialize.forms import combined, form_of
from tilejit.jit.specialize.meta import DynDim
from tilejit.jit.specialize.structural_types import FreshDim, NotKnown, structural
from tilejit.jit.specialize.typed import computed
from tilejit.jit.specialize.values import (
    UNKNOWN,
    Abstract,
    Extent,
    Items,
    RuntimeValue,
    Static,
    extent_of,
    holds_object,
    items_of,
    number_of,
    value_of,
    without_value,
)
from tilejit.ops.binding import Bound, Kind, bind
from tilejit.ops.reshaping import left_over
from tilejit.ops.spec import Call, OpFunction, OpSpec, ParamKind, ScalarArg
from tilejit.types.values import ANY, BufferType, Dim, ScalarType, TileType


@dataclass(frozen=True, slots=True)
class Compared(TileType):
    """What a comparison of tensors or tiles gives, and the type it has where a mask is wanted."""

    flags: TileType | None = None


def _as_masks(row: OpSpec, args: Mapping[str, object]) -> Mapping[str, object]:
    """Arguments with comparisons as the masks that the front end makes of them (frontend/masks.py)."""
    compared = [arg for arg in args.values() if isinstance(arg, Compared)]
    takes = row.facts.bitwise or any((arg.level == "tile" and row.name == "where") or row.takes_flags(arg) for arg in compared)
    return {name: arg.flags if takes and isinstance(arg, Compared) else arg for name, arg in args.items()}


def apply_op(function: OpFunction, positional: Sequence[Abstract], keywords: Mapping[str, Abstract], fresh: FreshDim) -> Abstract:
    """The type of `function(…)`, or UNKNOWN; mistakes are left to the front end, which says them better."""
    try:
        bound = bind(function, positional, keywords, _kind_of, value_of)
        bound = bound._replace(args=dict(_as_masks(bound.row, bound.args)))
        special = structural("read" if "atomic" in bound.row.attrs else bound.row.name)
        if special is not None:
            return special(bound.args, fresh)
        if bound.row.compose is not None:
            return _composed(bound, fresh)
        if bound.row.family == "structural":
            return UNKNOWN
        if bound.level == "scalar" and (number := _of_numbers(bound)) is not None:
            return number
        mask = bound.args.get("mask")
        if isinstance(mask, TileType) and mask.dtype is BOOL:
            where = ops.table()["where"]
            chosen = [bound.args[name] for name in bound.row.param_names if name != "tmp"]
            bound = bound._replace(row=where, args=dict(zip(where.param_names, chosen, strict=True)))
        given = {**bound.args, "shape": _without_rest(bound.args, fresh)} if bound.row.name == "reshape" else bound.args
        args = {name: _seen(bound.row.param(name).kind, arg) for name, arg in given.items()}
        results = bound.row.infer(Call(bound.row, bound.level, args))
    except (TilejitError, NotKnown):
        return UNKNOWN
    known = [_named(_result(type), fresh) for type in results]
    return known[0] if len(known) == 1 else Items(tuple(known))


def _of_numbers(bound: Bound) -> Abstract | None:
    """What a scalar op makes of numbers that the front end knows, which computes it; None: they are of the run, or complex."""
    given = [arg for name in bound.row.operands if isinstance(arg := bound.args[name], Static | RuntimeValue)]
    known = [arg.unrolled if isinstance(arg, RuntimeValue) else number_of(arg) is not None for arg in given]
    if not known or not all(known) or len(known) < len(bound.row.operands) or bound.row.facts.of_pairs:
        return None
    if any(isinstance(arg, RuntimeValue) for arg in given):
        (type,) = bound.row.infer(Call(bound.row, bound.level, {name: _seen(bound.row.param(name).kind, arg) for name, arg in bound.args.items()}))
        return RuntimeValue(type.dtype, unrolled=True) if isinstance(type, ScalarType) else None
    number = computed(bound.row, {name: value_of(arg) for name, arg in bound.args.items()})
    if isinstance(number, TypedFloat) and not number.dtype.is_float:
        return None  # a whole number with a type of its own: only types carry that on
    return Static(number, local=True) if number_of(Static(number)) is not None else None


class TypeKit:
    """Follows the types of the steps of a composed row."""

    def __init__(self, row: OpSpec, level: str, fresh: FreshDim) -> None:
        self.title, self.level, self.fresh = row.title, level, fresh

    def __call__(self, name: str, *args: object, **keywords: object) -> object:
        function = ops.step(self.level, name)
        found = apply_op(function, [_abstract(arg) for arg in args], {key: _abstract(arg) for key, arg in keywords.items()}, self.fresh)
        if found is UNKNOWN:
            raise NotKnown
        return found.items if isinstance(found, Items) else found.value if isinstance(found, Static) else found

    def call(self, function: object, *args: object) -> tuple[object, ...]:
        """A function that is handed in makes as many values as it takes of one side; the front end checks that."""
        return args[: len(args) // 2]

    def type(self, value: object) -> BufferType | TileType:
        if not isinstance(value, (BufferType, TileType)):
            raise NotKnown
        return value

    def extent(self, value: object, axis: int) -> object:
        dim = self.type(value).shape[axis]
        return dim if isinstance(dim, int) else Extent(dim) if isinstance(dim, DynDim) else RuntimeValue(INDEX)

    def valid(self, value: object, axis: int) -> object:
        dim = self.type(value).valid[axis]
        return dim if isinstance(dim, int) else RuntimeValue(INDEX)


def _abstract(arg: object) -> Abstract:
    """An argument of a step: what is known is a constant."""
    if isinstance(arg, (BufferType, TileType, Static, Extent, RuntimeValue, Items)):
        return arg
    if isinstance(arg, (list, tuple)) and any(isinstance(item, (Extent, RuntimeValue, Static)) for item in arg):
        return Items(tuple(_abstract(item) for item in arg))
    return Static(arg)


def _composed(bound: Bound, fresh: FreshDim) -> Abstract:
    row = bound.row
    assert row.compose is not None
    given = [item for arg in bound.args.values() for item in (arg, *items_of(arg))]
    if not row.attrs.get("calls") and any(isinstance(item, Static) and holds_handle(item.value) for item in given):
        raise NotKnown  # an object of Python's where the row counts on a value: the front end says so
    args = {name: _plain(row.param(name).kind, arg) for name, arg in bound.args.items()}
    found = row.compose(TypeKit(row, bound.level, fresh), **args)
    return Items(tuple(_abstract(item) for item in found)) if isinstance(found, tuple) else _abstract(found)


def _plain(kind: ParamKind, arg: object) -> object:
    """An argument as a composed row sees it."""
    if isinstance(arg, (Items, Static)) and _kind_of(arg) == "list":
        return [item.value if isinstance(item, Static) else item for item in items_of(arg)]
    return value_of(arg)


def method(owner: Abstract, name: str, positional: Sequence[Abstract], keywords: Mapping[str, Abstract], fresh: FreshDim) -> Abstract:
    """The type of `owner.name(…)`."""
    function = ops.method(name)
    if function is None:
        return UNKNOWN
    if ops.takes_list(function) and positional and positional[0] is not UNKNOWN and _kind_of(positional[0]) != "list":
        positional = [Items(tuple(positional))]
    return apply_op(function, [owner, *positional], keywords, fresh)


def operator(name: str, left: Abstract, right: Abstract, fresh: FreshDim) -> Abstract:
    """The type of a binary operator on run-time values; `name` is that of the `ast` class."""
    row = ops.operators().get(name)
    if not (isinstance(left, (BufferType, TileType)) or isinstance(right, (BufferType, TileType))):
        if not (_is_scalar(left) and _is_scalar(right)):
            return UNKNOWN  # it may be a tensor
        if name == "Div" and _is_whole(left) and _is_whole(right):
            return RuntimeValue(FP32, unrolled=_is_unrolled(left, right))
        if any(isinstance(side, RuntimeValue) and side.dtype is None for side in (left, right)):
            return RuntimeValue()
        typed = [_scalar(side).dtype for side in (left, right) if isinstance(side, RuntimeValue) or isinstance(number_of(side), float)]
        if (isinstance(left, Extent) or isinstance(right, Extent)) and not any(dtype.is_float for dtype in typed):
            found = combined(name, form_of(left), form_of(right))
            extent = found.dim() if found is not None else fresh()
            return Static(extent, local=True) if isinstance(extent, int) else Extent(extent)
        if any(dtype is not INDEX for dtype in typed) and row is not None:
            found = _apply_row(ops.table()[row], left, right)
            return found if isinstance(found, RuntimeValue) else RuntimeValue()
        return RuntimeValue(INDEX, unrolled=_is_unrolled(left, right))
    if row == "matmul" and any(isinstance(side, TileType) and side.level == "tile" and len(side.shape) > 2 for side in (left, right)):
        row = "batch_matmul"
    return _apply_row(ops.table()[row], left, right) if row is not None else UNKNOWN


def builtin(function: object, values: Sequence[Abstract], fresh: FreshDim) -> Abstract:
    """The type of `min`, `max`, `abs` or `sum` of what the run decides on; of other functions of Python nothing is known but that they give a scalar."""
    first = values[0] if values else UNKNOWN
    if function not in (min, max, abs, sum) or (function is sum and not isinstance(first, Items)):
        return RuntimeValue()
    if isinstance(first, Items):
        start = (values[1:] or (Static(0),)) if function is sum else ()
        values = (*start, *first.items)
    found = without_value(reduce(lambda one, other: operator("Add", one, other, fresh), values))
    return found if isinstance(found, RuntimeValue) or function in (sum, abs) else RuntimeValue()


def _is_scalar(side: Abstract) -> bool:
    return isinstance(side, (Extent, RuntimeValue)) or (isinstance(side, Static) and _kind_of(side) in ("number", "scalar"))


def _is_unrolled(*sides: Abstract) -> bool:
    return all(isinstance(side, Static) or (isinstance(side, RuntimeValue) and side.unrolled) for side in sides)


def _is_whole(side: Abstract) -> bool:
    """Whether a scalar is known to be an integer."""
    return isinstance(side, Extent) or type(number_of(side)) is int or (isinstance(side, RuntimeValue) and side.dtype is not None and side.dtype.is_integer)


def comparison(name: str, left: Abstract, right: Abstract) -> Abstract:
    """The type of a comparison of run-time values; `name` is that of the `ast` class."""
    shaped = [side for side in (left, right) if isinstance(side, (BufferType, TileType))]
    if name in ops.COMPARISONS and UNKNOWN in (left, right):
        return UNKNOWN  # a mask, if it is a tensor
    if not shaped or name not in ops.COMPARISONS:
        return RuntimeValue(BOOL)
    row = "cmp_mask" if any(side.level == "tile" for side in shaped) else "cmp"
    found, flags = (_apply_row(ops.table()[name], left, right) for name in (row, "compare"))
    if not isinstance(found, TileType) or not isinstance(flags, TileType):
        return found
    return Compared(found.shape, found.dtype, found.valid, found.space, flags)


def chained(first: Abstract, second: Abstract) -> Abstract:
    """The type of a chained comparison, of the types of its parts."""
    if isinstance(first, Compared) or isinstance(second, Compared):
        return _apply_row(ops.table()["and_"], first, second)
    return second if second is UNKNOWN else first


def inverted(operand: Abstract) -> Abstract:
    """The type of `~operand`."""
    return operand.flags if isinstance(operand, Compared) and operand.flags is not None else operand


def _apply_row(row: OpSpec, left: Abstract, right: Abstract) -> Abstract:
    """The type of a row with two operands; some operators (`//`, `%`) have no other name."""
    try:
        level = "tile" if "tile" in (_kind_of(left), _kind_of(right)) else "tensor"
        sides = _as_masks(row, {param.name: side for param, side in zip(row.params[:2], (left, right), strict=True)})
        args = {name: _seen(row.param(name).kind, side) for name, side in sides.items()}
        if any(row.param(name).kind is ParamKind.Value and not isinstance(side, (BufferType, TileType)) for name, side in sides.items()):
            return UNKNOWN  # no tensor, where rules count on one: the front end says so
        args |= {param.name: param.default for param in row.params[2:]}
        return _result(row.infer(Call(row, level, args))[0])
    except (TilejitError, NotKnown):
        return UNKNOWN


def _kind_of(arg: object) -> Kind:
    if isinstance(arg, Static):
        if arg.value is None:
            return "none"
        if isinstance(arg.value, (tuple, list)):
            return "list"
        if isinstance(arg.value, complex):
            return "scalar"
        return "number" if number_of(arg) is not None else "static"
    if isinstance(arg, (BufferType, TileType)):
        return "tensor" if arg.level == "tensor" else "tile"
    if isinstance(arg, Items):
        return "list"
    if isinstance(arg, RuntimeValue):
        return "number" if arg.unrolled else "scalar"
    if isinstance(arg, Extent):
        return "scalar"
    raise NotKnown


def _seen(kind: ParamKind, arg: object) -> object:
    """An argument as type rules see it."""
    if isinstance(arg, (BufferType, TileType)):
        return arg
    if kind is ParamKind.Scalars:
        return tuple(_scalar(item) for item in items_of(arg)) if isinstance(arg, (Items, Static)) else arg
    if kind in (ParamKind.Scalar, ParamKind.Operand) and isinstance(arg, (Static, Extent, RuntimeValue)):
        return _scalar(arg)
    no_tensor = isinstance(arg, Static) and arg.value is not None and (kind is ParamKind.Value or holds_handle(arg.value))
    if no_tensor or (isinstance(arg, Items) and holds_object(arg)):
        raise NotKnown  # no tensor, or an object of Python's: the front end says so
    return value_of(arg)


def _scalar(arg: Abstract) -> ScalarArg:
    number = number_of(arg)
    if number is not None and isinstance(arg, Static) and arg.dtype is not None:
        return ScalarArg(arg.dtype, number)
    if number is not None:
        return ScalarArg(FP32 if isinstance(number, float) else INDEX, number)
    if isinstance(arg, Static) and isinstance(arg.value, complex):
        return ScalarArg(COMPLEX64)
    if isinstance(arg, RuntimeValue) and arg.unrolled:
        return ScalarArg(arg.dtype or INDEX, 1)  # any number: rules look at its kind only
    dtype = arg.dtype if isinstance(arg, RuntimeValue) else None
    return ScalarArg(dtype or INDEX, symbol=arg.dim if isinstance(arg, Extent) else None)


def _result(type: object) -> Abstract:
    if isinstance(type, (BufferType, TileType)):
        return type
    return RuntimeValue(type.dtype) if isinstance(type, ScalarType) else UNKNOWN


def _named(type: Abstract, fresh: FreshDim) -> Abstract:
    """A result of which only the run knows an extent: that is an extent of its own, as annotations need one."""
    if not isinstance(type, TileType) or ANY not in type.shape or type.level != "tensor":
        return type
    shape = tuple(fresh() if dim == ANY else dim for dim in type.shape)
    return replace(type, shape=shape, valid=tuple(dim if own == ANY else part for own, dim, part in zip(type.shape, shape, type.valid, strict=True)))


def _without_rest(args: Mapping[str, object], fresh: FreshDim) -> Items:
    """The new shape of a reshape with what is left in place of -1."""
    items, input = items_of(args["shape"]), args["input"]
    places = [place for place, item in enumerate(items) if number_of(item) == -1]
    if not places or not isinstance(input, (BufferType, TileType)):
        return Items(items)
    sizes = [extent if (extent := extent_of(item)) is not None else ANY for item in items]
    left = left_over(input.shape, tuple(sizes))
    whole = _product(left.factor, [input.shape[axis] for axis in left.axes], fresh)
    rest = _product(left.divisor, [sizes[place] for place in left.places], fresh)
    found = operator("FloorDiv", whole, rest, fresh) if isinstance(whole, Extent) or isinstance(rest, Extent) else Static(left.factor // left.divisor)
    return Items(tuple(found if place in places else item for place, item in enumerate(items)))


def _product(factor: int, extents: Sequence[Dim], fresh: FreshDim) -> Abstract:
    total: Abstract = Static(factor)
    for extent in extents:
        total = operator("Mult", total, Extent(extent if isinstance(extent, DynDim) else fresh()), fresh)
    return total
