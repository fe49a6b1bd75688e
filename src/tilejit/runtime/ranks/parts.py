"""Parts of the tensors of a host function: `x[r]`, `x[a:b]`."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from tilejit.errors import ArgumentError, InvalidOperationError, OutOfBoundsError, ShapeError
from tilejit.runtime.ranks.host import Recorder
from tilejit.runtime.ranks.plan import HostTensor, StackedTensor
from tilejit.runtime.ranks.recording import recording


def _index(recorder: Recorder, tensor: HostTensor, axis: int, item: object) -> int:
    at, extent = recorder.integer(item, "an index"), tensor.shape[axis]
    if not -extent <= at < extent:
        message = f"index {at} of dim {axis} of `{tensor.name}`, which has extent {extent}"
        recorder.fail(OutOfBoundsError, message, help="as many slices as there are ranks are needed")
    return at


def refuse(name: str) -> NoReturn:
    """An operator on a tensor, or a question about what it holds."""
    recorder = recording()
    assert recorder is not None, "a host tensor outlived its call"
    recorder.fail(InvalidOperationError, f"this computes with `{name}`, a host function does not", help="put it in a function that is launched")


def part_of(tensor: HostTensor, index: Any) -> HostTensor:
    """`x[r]`, `x[a:b]`: a view that lies in one piece."""
    recorder = recording()
    assert recorder is not None, "a host tensor outlived its call"
    items = index if isinstance(index, tuple) else (index,)
    if isinstance(tensor, StackedTensor):
        if not items or isinstance(items[0], slice):
            recorder.fail(ArgumentError, f"the slices of `{tensor.name}` stay with different ranks", help=f"pass {tensor.name}[r]")
        shard = tensor.shards[_index(recorder, tensor, 0, items[0])]
        return part_of(shard, items[1:]) if items[1:] else shard
    if len(items) > tensor.array.ndim:
        recorder.fail(ShapeError, f"`{tensor.name}` has {tensor.array.ndim} dims, got {len(items)} indices")
    ready: list[Any] = []
    for axis, item in enumerate(items):
        if isinstance(item, slice):
            ready.append(slice(*(None if part is None else recorder.integer(part, "a bound") for part in (item.start, item.stop, item.step))))
            continue
        ready.append(_index(recorder, tensor, axis, item))
    found = tensor.array[tuple(ready)]
    if not isinstance(found, np.ndarray) or found.ndim == 0:
        recorder.fail(ArgumentError, f"an element of `{tensor.name}` is not known to a host function", help="read it in a function that is launched")
    if not found.flags.c_contiguous:
        recorder.fail(ArgumentError, f"this part of `{tensor.name}` does not lie in one piece", help="index leading dims only")
    if items and isinstance(ready[0], int):
        tensor.taken.add(ready[0] % tensor.shape[0])
        tensor.cut_at = tensor.cut_at or recorder.here()
    part = HostTensor(found, tensor.name, tensor.home, tensor, tuple(ready))
    recorder.parts.append(part)
    return part
