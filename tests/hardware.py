"""The platform that tests compare with the reference: the CPU, or the one that TEST_PLATFORM names.

On `cuda` NumPy arrays are moved to the GPU before each call and back after it, so that every test written for arrays runs there.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np

from tilejit.runtime.artifact.entry import CompiledEntry

PLATFORM = os.environ.get("TEST_PLATFORM", "cpu")


@functools.cache
def prepare() -> None:
    """Let CUDA programs take NumPy arrays in this process, if that is the platform to test."""
    if PLATFORM == "cuda":
        CompiledEntry.__call__ = _moving(CompiledEntry.__call__)


def _moving(call: Any) -> Any:
    from tilejit.runtime.cuda.arrays import DeviceArray
    from tilejit.runtime.cuda.entry import synchronise

    @functools.wraps(call)
    def moved(self: CompiledEntry, *args: Any, **named: Any) -> Any:
        if self.platform != "cuda" or not any(isinstance(value, np.ndarray) for value in args):
            return call(self, *args, **named)
        there = {id(value): DeviceArray.of(value) for value in args if isinstance(value, np.ndarray)}
        results = call(self, *(there.get(id(value), value) for value in args), **named)
        synchronise()
        for value in args:
            if isinstance(value, np.ndarray) and value.flags.writeable:
                value[...] = there[id(value)].numpy()
        return tuple(map(_back, results)) if isinstance(results, tuple) else _back(results)

    def _back(value: Any) -> Any:
        return value.numpy() if isinstance(value, DeviceArray) else value

    return moved
