"""Which cells of a result depend on cells that hold nothing: found by computing it with several contents of those."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tilejit.dtypes import BOOL, COMPLEX64, DType
from tilejit.ops.elementwise import value_dtype
from tilejit.ops.evaluate import ArrayValue, poisoner, usual_poison

NDArray = npt.NDArray[Any]
_CONTENTS = 3
"""Large numbers above zero, large ones below, and zero: what one of them hides (a minimum, a comparison) another shows."""
_LARGE = 1e15
"""Not lost beside the numbers of a kernel when it is added to them, and its square is still a number."""


def fill(out: NDArray, dtype: DType, which: int) -> None:
    """Fill cells with the contents number `which`; no two cells alike, where the data type allows it."""
    rng = np.random.default_rng((out.size, which))
    if dtype is BOOL:
        out[...] = which == 0
    elif which == _CONTENTS - 1:
        out[...] = np.zeros((), dtype.numpy)
    elif dtype.is_float or dtype is COMPLEX64:
        scale = min(_LARGE, float(ml_dtypes.finfo(dtype.numpy).max) / 4)
        out[...] = ((1 - 2 * which) * scale * rng.uniform(0.5, 1.0, out.shape)).astype(dtype.numpy)
    else:
        low, high = int(ml_dtypes.iinfo(dtype.numpy).min), int(ml_dtypes.iinfo(dtype.numpy).max)
        ends = (high // 2, high) if which == 0 else (low, low // 2) if low < 0 else (1, high // 2)
        out[...] = rng.integers(*ends, out.shape, dtype=np.uint64 if ends[1] >= 1 << 63 else np.int64).astype(dtype.numpy)


class Poisoner:
    """Fills cells that mean nothing, and remembers that it was asked to."""

    def __init__(self, which: int | None = None) -> None:
        self.asked = False
        self._which = which

    def __call__(self, out: NDArray, dtype: DType) -> None:
        self.asked = True
        if self._which is None:
            usual_poison(out, dtype)
        else:
            fill(out, dtype, self._which)


@contextmanager
def poisoned(which: int | None = None) -> Generator[Poisoner]:
    """Cells that mean nothing hold contents number `which` inside, or the usual ones."""
    own = Poisoner(which)
    token = poisoner.set(own)
    try:
        yield own
    finally:
        poisoner.reset(token)


Arguments = Mapping[str, Any]
Unknown = Mapping[str, NDArray]
"""By parameter: where the cells of an argument hold nothing."""


def dependent(compute: Callable[[Arguments], Sequence[Any]], arguments: Arguments, unknown: Unknown, results: Sequence[Any]) -> list[NDArray]:
    """Of each of the `results` that `compute` gave: the valid cells that are others when cells of `unknown` are."""
    runs: list[Sequence[Any]] = []
    for which in range(_CONTENTS):
        filled = {name: _filled(value, unknown.get(name), which) for name, value in arguments.items()}
        with poisoned(which):
            try:
                runs.append(compute(filled))
            except Exception:  # an index, say, that does not exist: it depends
                return [np.ones(_cells(result).shape, bool) for result in results]
    return [_differs([_cells(run[at]) for run in runs], _cells(result).shape) for at, result in enumerate(results)]


def _filled(value: Any, unknown: NDArray | None, which: int) -> Any:
    if unknown is None:
        return value
    data = value.data.copy()
    cells = np.empty(int(unknown.sum()), data.dtype)
    fill(cells, value_dtype(data), which)
    data[unknown] = cells
    return ArrayValue(data, value.valid)


def _cells(result: Any) -> NDArray:
    return result.box if isinstance(result, ArrayValue) else np.asarray(result)


def _differs(runs: Sequence[NDArray], shape: tuple[int, ...]) -> NDArray:
    first, *others = runs
    out = np.zeros(shape, bool)
    for other in others:
        if other.shape != shape or first.shape != shape:
            return np.ones(shape, bool)
        with np.errstate(all="ignore"):
            out |= ~((first == other) | ((first != first) & (other != other)))
    return out
