"""The platform that tests compare with the reference: the CPU, or the one that TEST_PLATFORM names.

On `cuda` NumPy arrays are moved to the GPU before each call and back after it, so that every test written for arrays runs there.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests import matrix_unit
from tilejit.runtime.artifact.entry import CompiledEntry
from tilejit.runtime.call.warm import WarmCalls
from tilejit.runtime.config import RunConfig

PLATFORM = os.environ.get("TEST_PLATFORM", "cpu")


@functools.cache
def prepare() -> None:
    """Let CUDA programs take NumPy arrays in this process, if that is the platform to test; let there be a matrix unit, if the environment says so."""
    matrix_unit.begin_if_asked()
    if PLATFORM == "cuda":
        CompiledEntry.checked = _moving(CompiledEntry.checked)
        WarmCalls.serve = _nothing  # type: ignore[method-assign] # a warm way would look at the caller's own arrays.


def _nothing(*args: Any) -> None:
    pass


def _moving(call: Any) -> Any:
    from tilejit.runtime.cuda.arrays import DeviceArray
    from tilejit.runtime.cuda.entry import synchronise

    @functools.wraps(call)
    def moved(self: CompiledEntry, args: Sequence[Any], config: RunConfig | None) -> Any:
        if self.platform != "cuda" or not any(isinstance(value, np.ndarray) for value in args):
            return call(self, args, config)
        there = {id(value): DeviceArray.of(value) for value in args if isinstance(value, np.ndarray)}
        results = call(self, [there.get(id(value), value) for value in args], config)
        synchronise()
        for value in args:
            if isinstance(value, np.ndarray) and value.flags.writeable:
                value[...] = there[id(value)].numpy()
        return tuple(map(_back, results)) if isinstance(results, tuple) else _back(results)

    def _back(value: Any) -> Any:
        return value.numpy() if isinstance(value, DeviceArray) else value

    return moved
