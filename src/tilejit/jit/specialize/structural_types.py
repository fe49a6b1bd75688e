"""Type rules of what the front end builds itself: tensors, loads and stores, views, extents."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilejit.dtypes import INDEX, DType
from tilejit.jit.specialize.meta import DynDim
from tilejit.jit.specialize.values import UNKNOWN, Abstract, Extent, RuntimeValue, Static, extent_of, items_of, value_of
from tilejit.types.enums import MemorySpace, TensorLayout
from tilejit.types.values import ANY, BufferType, Dim, TileType


class NotKnown(Exception):
    """An argument of which too little is known to tell the type of the result."""


FreshDim = Callable[[], DynDim]
"""Makes the symbol of an extent that nothing else has."""
Arguments = Mapping[str, object]


def _dims(arg: object, fresh: FreshDim) -> tuple[Dim, ...]:
    return tuple(extent if (extent := extent_of(item)) is not None else fresh() for item in items_of(arg))


def _create_tensor(args: Arguments, fresh: FreshDim) -> Abstract:
    dtype, layout = value_of(args["dtype"]), value_of(args.get("layout"))
    if not isinstance(dtype, DType):
        raise NotKnown
    return BufferType(_dims(args["shape"], fresh), dtype, layout.value if isinstance(layout, TensorLayout) else "ND")


def _load(args: Arguments, fresh: FreshDim) -> Abstract:
    tensor, space = args["tensor"], value_of(args["target_memory"])
    if not isinstance(tensor, BufferType) or not isinstance(space, MemorySpace):
        raise NotKnown
    shape = _dims(args["shapes"], fresh)
    wanted = args.get("valid_shape")
    valid = shape if wanted is None else tuple(dim if isinstance(dim := extent_of(item), int) else ANY for item in items_of(wanted))
    return TileType(shape, tensor.dtype, valid, space.value)


def _store(args: Arguments, fresh: FreshDim) -> Abstract:
    output = args["output_tensor"]
    return output if isinstance(output, BufferType) else UNKNOWN


def _dim(args: Arguments, fresh: FreshDim) -> Abstract:
    tensor, axis = args["tensor"], value_of(args["axis"])
    if not isinstance(tensor, (BufferType, TileType)) or not isinstance(axis, int) or not -len(tensor.shape) <= axis < len(tensor.shape):
        raise NotKnown
    extent = tensor.shape[axis]
    return Static(extent, local=True) if isinstance(extent, int) else Extent(extent) if isinstance(extent, DynDim) else RuntimeValue(INDEX)


def _read(args: Arguments, fresh: FreshDim) -> Abstract:
    source = args["src"] if "src" in args else args["tensor"]
    return RuntimeValue(source.dtype) if isinstance(source, (BufferType, TileType)) else UNKNOWN


def _no_dep(args: Arguments, fresh: FreshDim) -> Abstract:
    tensor = args["tensor"]
    return tensor if isinstance(tensor, (BufferType, TileType)) else UNKNOWN


def _view(args: Arguments, fresh: FreshDim) -> Abstract:
    tensor, layout = args["tensor"], value_of(args.get("layout"))
    if not isinstance(tensor, BufferType):
        raise NotKnown
    shape = tensor.shape if args.get("shape") is None else _dims(args["shape"], fresh)
    return BufferType(shape, tensor.dtype, layout.value if isinstance(layout, TensorLayout) else tensor.layout)


def structural(name: str) -> Callable[[Arguments, FreshDim], Abstract] | None:
    """The type rule of what the front end builds itself."""
    match name:
        case "create_tensor" | "create_l1":
            return _create_tensor
        case "load":
            return _load
        case "store":
            return _store
        case "dim":
            return _dim
        case "read":
            return _read
        case "no_dep":
            return _no_dep
        case "view":
            return _view
        case _:
            return None
