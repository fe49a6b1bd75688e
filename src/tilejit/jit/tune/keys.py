"""What tells calls apart that may have different choices: by all that is compiled for, or by what `key=` names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import cast

import numpy as np

from tilejit import config as settings
from tilejit.errors import TuningError
from tilejit.jit.protocol import is_adapted
from tilejit.jit.reads.plain import is_plain, written
from tilejit.jit.specialize.arguments import BoundArguments, TensorArgument
from tilejit.runtime.arrays import DeviceTensor, scalar_of, view_of
from tilejit.runtime.config import RunConfig
from tilejit.runtime.threads import thread_count

ITEM = re.compile(r"(?P<name>\w+)(\.(shape(\[(?P<axis>-?\d+)\])?|dtype))?")
"""What an item of a key may be: `n`, `x`, `x.shape`, `x.shape[0]`, `x.dtype`."""


def signature_of(args: tuple[object, ...], kwargs: Mapping[str, object], config: RunConfig | None) -> object | None:
    """What tells calls apart that may have different choices, cheaply; None: only the key can say it."""
    try:
        seen: tuple[object, ...] = (config, threads_of(config), *settings.snapshot(), *map(_seen, args))
        if kwargs:
            seen += (tuple(kwargs), *map(_seen, kwargs.values()))
        hash(seen)
    except TypeError:
        return None
    return seen


def threads_of(config: RunConfig | None) -> int:
    """How many threads a call may use: as many as it says, else what the setting, torch or the system says now."""
    return config.num_threads if isinstance(config, RunConfig) and config.num_threads else thread_count()


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
    shape = getattr(value, "shape", None) if _is_array(kind) and not is_adapted(kind) else None
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


def coarse(fields: Mapping[str, object]) -> dict[str, object]:
    """Of an argument that the key does not name: its data type and rank."""
    shape = fields.get("shape")
    return {"dtype": fields["dtype"], "rank": len(cast("list[object]", shape))} if shape is not None else {"type": fields.get("type", "")}


def keyed(key: Sequence[str], bound: BoundArguments, given: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """What the items of a key say of the arguments; `given` has them as the compiler sees them. Of an object that is what it answers (`names_object`)."""
    return {item: _item(item, bound, given.get(_name_in(item), {})) for item in key}


def names_object(key: Sequence[str], objects: Mapping[str, object]) -> bool:
    """Whether a key names an argument that the kernel asks while it is compiled, or a container that holds one."""
    return any(is_part_of(name, _name_in(item)) for item in key for name in objects)


def is_part_of(name: str, param: str) -> bool:
    """Whether an object is that of a parameter, or in the container that is."""
    return name == param or name.startswith(f"{param}_")


def _name_in(item: str) -> str:
    found = ITEM.fullmatch(item)
    return found["name"] if found is not None else ""


def _item(item: str, bound: BoundArguments, fields: Mapping[str, object]) -> object:
    found, name = ITEM.fullmatch(item), _name_in(item)
    value, argument = bound.values.get(name), bound.arguments.get(name)
    view = view_of(value) if isinstance(argument, TensorArgument) else None  # an array may stand for a number
    if found is None or view is None:
        value = value if not _is_array(type(value)) else scalar_of(value)
        return written(value) if name in bound.values and is_plain(value) else fields
    if found["axis"] is not None:
        axis = int(found["axis"])
        if not -len(view.shape) <= axis < len(view.shape):
            raise TuningError(f"the key `{item}` names an axis that a tensor of rank {len(view.shape)} does not have", help="correct key=")
        return view.shape[axis]
    if item.endswith(".dtype"):
        return str(view.dtype)
    return list(view.shape) if "signature" not in fields else [*view.shape, fields["signature"]]
