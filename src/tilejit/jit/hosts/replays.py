"""Calls of host functions that are done again: what the text said of equal arguments is kept, and only arrays are other ones."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np

from tilejit import float_mode
from tilejit.dtypes import dtype_of_numpy
from tilejit.jit.definition import Definition
from tilejit.jit.hosts.steady_text import Names, names_of
from tilejit.runtime.arrays import allocate
from tilejit.runtime.config import RunConfig
from tilejit.runtime.locks import new_lock
from tilejit.runtime.ranks.host import Recorder
from tilejit.runtime.ranks.plan import HostTensor, NDArray, Plan, StackedTensor

_KEPT = 16
"""Kinds of arguments for which a host function keeps what it did."""
Key = tuple[object, ...]


def key_of(args: Sequence[object] | None, world: int) -> Key | None:
    """What a text, the order of its steps and the checks of a call can know of arguments, and how it computes; None where that could be more: where they are
    not just numbers, and arrays that lie in one piece each, apart from each other."""
    if args is None:
        return None
    parts: list[object] = [world, float_mode.bits(), sys.get_int_max_str_digits()]  # the last one decides which numbers have a text
    reaches: list[tuple[int, int]] = []
    for value in args:
        kind = type(value)
        if kind is np.ndarray:
            array: Any = value
            if not array.ndim or not array.flags.c_contiguous or not array.flags.writeable:  # without extents it may stand for a number
                return None
            first = array.__array_interface__["data"][0]
            parts.append((array.shape, array.strides, array.dtype, first % (array.itemsize or 1)))
            reaches.append((first, first + array.nbytes))
        elif kind is int or kind is bool:
            parts.append((kind, value))
        elif kind is float and isinstance(value, float):
            parts.append(value.hex())
        else:
            return None
    reaches.sort()
    return tuple(parts) if all(one[1] <= other[0] for one, other in pairwise(reaches)) else None


class Replay:
    """One call as it was recorded, for one call at a time."""

    def __init__(
        self, recorder: Recorder, plan: Plan, tensors: Mapping[str, HostTensor], new: Collection[str], order: Sequence[str], config: RunConfig | None
    ) -> None:
        self.plan, self.config, self.order = plan, config, tuple(order)
        self._steady = recorder.steady and not any(isinstance(tensor, StackedTensor) or tensor.home is not None for tensor in tensors.values())
        """No Python function of the user takes part, and no tensor stays with a rank."""
        self._launched = list(recorder.compiled.values())
        self._given = [tensor for name, tensor in tensors.items() if name not in new]
        self._new = {name: tensors[name] for name in new}
        self._empty: list[tuple[HostTensor, Any]] = []
        self._made, self._parts = [tensor for tensor in plan.tensors if tensor not in tensors.values()], recorder.parts

    def again(self, args: Sequence[object]) -> bool:
        """Whether it can be done again with other arrays: none of them is a number to the text."""
        return self._steady and len(self._given) == sum(type(value) is np.ndarray for value in args)

    def stands(self, config: RunConfig | None) -> bool:
        """Whether the kernels are still those that would be launched."""
        return (config is self.config or config == self.config) and all(launched.holds() for launched in self._launched)

    def take(self, args: Sequence[object]) -> dict[str, object]:
        """Put other arrays in; gives the new outputs by name."""
        arrays = [value for value in args if type(value) is np.ndarray]
        for tensor, array in zip(self._given, arrays, strict=True):
            tensor.array = array
        made: dict[str, object] = {}
        for name, tensor in self._new.items():
            dtype = dtype_of_numpy(tensor.dtype)
            assert dtype is not None
            made[name] = tensor.array = cast("NDArray", allocate(None, tensor.shape, dtype))
        for tensor in self._made:
            tensor.array = np.zeros(tensor.shape, tensor.dtype)
        for part in self._parts:
            assert part.whole is not None
            part.array = part.whole.array[part.at]
        return made

    def let_go(self) -> None:
        """The arrays are the caller's: hold on to their shapes only."""
        if not self._empty:
            tensors = (*self._given, *self._new.values(), *self._made, *self._parts)
            self._empty = [(tensor, np.broadcast_to(np.empty((), tensor.dtype), tensor.shape)) for tensor in tensors]
        for tensor, shape in self._empty:
            tensor.array = shape


class Replays:
    """What is kept of the calls of one host function."""

    def __init__(self, names: Names | None) -> None:
        self.names = names
        self._lock = new_lock()
        self._kept: dict[Key, list[Replay]] = {}

    def pop(self, key: Key | None, config: RunConfig | None) -> Replay | None:
        """A call like this one, if its kernels have not changed."""
        if key is None or self.names is None or key not in self._kept:
            return None
        with self._lock:
            found = self._kept.get(key)
            replay = found.pop() if found else None
        return replay if replay is not None and replay.stands(config) else None

    def keep(self, key: Key | None, replay: Replay) -> None:
        """A call has ended well: the next one like it may have its record."""
        if key is None or self.names is None:
            return
        replay.let_go()
        with self._lock:
            if key not in self._kept and len(self._kept) >= _KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept.setdefault(key, []).append(replay)


_replays: weakref.WeakKeyDictionary[Definition, Replays] = weakref.WeakKeyDictionary()


def replays_of(definition: Definition, methods: Collection[str]) -> Replays:
    """What is kept of a host function; `methods`: what it may call on `self`. Looked at anew when what its text reads has changed."""
    found = _replays.get(definition)
    if found is None or (found.names is not None and not found.names.hold()):
        found = _replays[definition] = Replays(names_of(definition, methods))
    return found
