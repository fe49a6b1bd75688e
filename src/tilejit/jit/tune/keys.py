"""What tells calls apart that may have different choices: by all that is compiled for, or by what `key=` names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from types import CellType, FunctionType
from typing import cast

import numpy as np

from tilejit import config as settings
from tilejit.errors import TuningError
from tilejit.frontend.code_objects import digest_of
from tilejit.jit.reads.plain import is_plain, written
from tilejit.jit.specialize.arguments import BoundArguments, TensorArgument
from tilejit.runtime.arrays import DeviceTensor, scalar_of, view_of
from tilejit.runtime.config import RunConfig

ITEM = re.compile(r"(?P<name>\w+)(\.(shape(\[(?P<axis>-?\d+)\])?|dtype))?")
"""What an item of a key may be: `n`, `x`, `x.shape`, `x.shape[0]`, `x.dtype`."""


def signature_of(args: tuple[object, ...], kwargs: Mapping[str, object], config: RunConfig | None) -> object | None:
    """What tells calls apart that may have different choices, cheaply; None: only the key can say it."""
    try:
        seen: tuple[object, ...] = (config, *settings.snapshot(), *map(_seen, args))
        if kwargs:
            seen += (tuple(kwargs), *map(_seen, kwargs.values()))
        hash(seen)
    except TypeError:
        return None
    return seen


def _seen(value: object) -> object:
    """Of an array its kind, of a plain value all that a kernel could tell: -0.0 is not 0.0, True is not 1; TypeError for any other object, an array without
    extents among them: it may stand for a number."""
    if type(value) is np.ndarray and value.shape:
        return value.shape, value.dtype
    kind = type(value)
    if kind in _EXACT:
        return kind, value
    if kind is float:
        return cast("float", value).hex()
    if kind is tuple and _EXACT.issuperset(kinds := tuple(map(type, cast("tuple[object, ...]", value)))):
        return kinds, value
    shape = getattr(value, "shape", None) if _is_array(kind) else None
    if shape:
        return kind, shape, getattr(value, "dtype", None), str(getattr(value, "device", ""))
    if not is_plain(value):
        raise TypeError(kind)
    return written(value)


_EXACT = frozenset({int, bool, str})
"""Types whose values are the same where they are equal."""


@lru_cache(64)
def _is_array(kind: type) -> bool:
    """Whether a class is one of arrays, torch's among them; NumPy's scalars have an interface too."""
    names = ("__dlpack__", "__cuda_array_interface__", "__array_interface__")
    return kind is DeviceTensor or (not issubclass(kind, np.generic) and any(hasattr(kind, name) for name in names))


def measure(reference: object) -> object:
    """What results are compared with: a choice that was right by another measure is none. A function counts by its code and the plain values it holds."""
    if isinstance(reference, partial):
        return ["partial", measure(reference.func), *(_held(value) for value in (*reference.args, *sorted(reference.keywords.items())))]
    if not isinstance(reference, FunctionType):
        return reference if isinstance(reference, str) else [type(reference).__qualname__, getattr(reference, "__qualname__", "")]
    cells = [cell.cell_contents for cell in reference.__closure__ or () if cell != CellType()]
    held = (*cells, *(reference.__defaults__ or ()), *(reference.__kwdefaults__ or {}).values())
    return ["function", digest_of(reference.__code__), *map(_held, held)]


def _held(value: object) -> str:
    return written(value) if is_plain(value) else type(value).__qualname__


def coarse(fields: Mapping[str, object]) -> dict[str, object]:
    """Of an argument that the key does not name: its data type and rank."""
    shape = fields.get("shape")
    return {"dtype": fields["dtype"], "rank": len(cast("list[object]", shape))} if shape is not None else {"type": fields.get("type", "")}


def keyed(key: Sequence[str], bound: BoundArguments) -> dict[str, object]:
    """What the items of a key say of the arguments."""
    out: dict[str, object] = {}
    for item in key:
        found = ITEM.fullmatch(item)
        name = found["name"] if found is not None else ""
        value = bound.values.get(name)
        view = view_of(value) if isinstance(bound.arguments.get(name), TensorArgument) else None  # an array may stand for a number
        value = value if view is not None or not _is_array(type(value)) else scalar_of(value)
        if found is None or view is None:
            out[item] = written(value) if is_plain(value) else repr(value)
        elif found["axis"] is not None:
            axis = int(found["axis"])
            if not -len(view.shape) <= axis < len(view.shape):
                raise TuningError(f"the key `{item}` names an axis that a tensor of rank {len(view.shape)} does not have", help="correct key=")
            out[item] = view.shape[axis]
        else:
            out[item] = str(view.dtype) if item.endswith(".dtype") else list(view.shape)
    return out
