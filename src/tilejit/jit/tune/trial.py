"""Trying candidates: each is compiled, run on copies of what the kernel writes, compared with the first, and timed."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tilejit.errors import StaleCaptureError, TilejitError
from tilejit.jit.specialize.arguments import bind_arguments
from tilejit.jit.tune.search import Timing, Timings
from tilejit.jit.tune.searching import CalledWhileTuned
from tilejit.jit.tune.space import Choice, Point, Space
from tilejit.runtime.artifact.compiled import CompiledProgram
from tilejit.runtime.bench import BoundCall
from tilejit.runtime.config import RunConfig
from tilejit.runtime.copies import copy_of, in_numpy, restore, spoil

if TYPE_CHECKING:
    from tilejit.jit.tune.function import Variant

Timer = Callable[[Choice, Callable[[], None]], float]
"""Seconds of one run of a candidate, given a function that runs it once."""

SHORTEST_SAMPLE = 5e-4
"""Seconds; faster kernels run several times per sample."""
_MOST_RUNS = 1000
_READY = 16
"""Candidates that stay in memory, with the outputs that a call leaves out; others are made ready again when they are needed."""
_TOLERANCE = {"float64": 1e-9, "float32": 1e-4}
"""How far results may differ, relative to the largest one, by data type; narrower floats are told apart by their own precision."""
_COARSEST = 1 / 16
"""What eight units of BF16 are."""


@dataclass(frozen=True, slots=True)
class Call:
    """The call that is tuned for."""

    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    config: RunConfig | None = None


class Prepared:
    """A candidate ready to run on copies: the caller's outputs are never written."""

    def __init__(self, variant: Variant, choice: Choice, call: Call) -> None:
        self.kernel, self.choice = variant.kernel, choice
        self._given = Call(call.args, {**call.kwargs, **variant.arguments}, call.config)
        self.compiled: CompiledProgram = self.kernel.compile(*call.args, config=call.config, **self._given.kwargs)

    def bind(self, copies: dict[str, object]) -> None:
        """Take copies of what is written, new ones where none were made for another candidate; raises what the caller did wrong."""
        call = self._given
        bound = bind_arguments(self.kernel.definition, call.args, call.kwargs, running=True)
        values = bound.in_order(param.name for param in self.compiled.param_infos)
        written = {param.name: param.direction for param in self.compiled.param_infos if param.direction != "In" and values.get(param.name) is not None}
        self._copies = {name: copies[name] if name in copies else copies.setdefault(name, copy_of(values[name])) for name in written}
        self._outputs = [name for name, direction in written.items() if direction == "Out"]
        self._changed = [(self._copies[name], values[name]) for name, direction in written.items() if direction == "InOut"]
        self._call = BoundCall(self.compiled.only("tune"), list({**values, **self._copies}.values()), call.config.num_threads if call.config else None)

    def run(self) -> None:
        """Once, on what the caller passed."""
        for copy, value in self._changed:
            restore(copy, value)
        self._call.run()

    def results(self) -> list[np.ndarray]:
        """What a run writes and returns; what it leaves as it was must not look right because another run was."""
        for name in self._outputs:
            spoil(self._copies[name])
        self.run()
        return [in_numpy(value).copy() for value in (*self._copies.values(), *(getattr(value, "array", value) for value in self._call.results))]

    def seconds(self) -> float:
        """Of one run, by the clock, or by the device's where the kernel runs on while Python does."""
        if self._call.on_device:
            return float(np.median(self._call.times(5, 1))) * 1e-6
        spent, runs = self._timed(), 1
        wanted = min(_MOST_RUNS, round(SHORTEST_SAMPLE / max(spent, 1e-7)))
        while runs < wanted:
            spent, runs = spent + self._timed(), runs + 1
        return spent / runs

    def _timed(self) -> float:
        for copy, value in self._changed:
            restore(copy, value)
        start = time.perf_counter()
        self._call.run()
        return time.perf_counter() - start

    def code(self) -> str:
        """Equal for candidates that are the same code."""
        artifact = self.compiled.artifact
        digest = hashlib.sha256(json.dumps(artifact.facts, sort_keys=True, default=str).encode())
        for name in sorted(artifact.sections):
            digest.update(artifact.section(name))
        return digest.hexdigest()


class KernelTrials:
    """The candidates of one call, tried as the search asks for them."""

    def __init__(self, variant: Callable[[Choice], Variant], space: Space, call: Call, timer: Timer | None, timings: Timings) -> None:
        self.timings = timings
        self.errors: dict[Point, TilejitError] = {}
        self.timed = 0
        """Samples that were taken."""
        self.expected: Sequence[np.ndarray] | None = None
        """What candidates must compute; the first one says it if nobody else does."""
        self.tried: Callable[[Point], None] = lambda point: None
        """Told of every candidate that something new is known about."""
        self._variant, self._space, self._call, self._timer = variant, space, call, timer
        self._compiled: set[Point] = set()
        self._copies: dict[str, object] = {}
        self._ready: dict[Point, Prepared] = {}
        self._same: dict[str, Point] = {}

    @property
    def compiled(self) -> int:
        """How many candidates were compiled."""
        return len(self._compiled)

    def ensure(self, point: Point, samples: int) -> None:
        timing = self.timings.setdefault(point, Timing())
        if timing.rejected or len(timing.seconds) >= samples:
            return
        ready = self._prepared(point, timing)
        timing = self.timings[point]
        while ready is not None and len(timing.seconds) < samples:
            spent = self._timer(ready.choice, ready.run) if self._timer is not None else ready.seconds()
            self.timed += 1
            if not math.isfinite(spent):
                timing.rejected = f"the timer says {spent}"
                break
            timing.seconds.append(spent)
        self.tried(point)

    def _prepared(self, point: Point, timing: Timing) -> Prepared | None:
        """The candidate, compiled and found right; None when it is not, or when it is the same code as another one."""
        found = self._ready.pop(point, None)
        if found is not None:
            self._ready[point] = found  # used just now
            return found
        choice = self._space[point]
        try:
            made = Prepared(self._variant(choice), choice, self._call)
        except (StaleCaptureError, CalledWhileTuned):
            raise  # no fault of the candidate: none of them may be compiled for what is read now, or a signal handler called the kernel
        except TilejitError as error:
            return self._refused(point, error)
        self._compiled.add(point)
        made.bind(self._copies)
        try:
            twin = self._same.setdefault(made.code(), point)
            if twin != point:
                self.timings[point] = self.timings[twin]  # the same code is timed once
            elif (wrong := self._compare(point, made.results())) is not None:
                timing.rejected = wrong
                return None
        except CalledWhileTuned:
            raise
        except TilejitError as error:
            return self._refused(point, error)
        if self.timings[point].rejected:
            return None
        self._ready[point] = made
        if len(self._ready) > _READY:
            del self._ready[next(iter(self._ready))]
        return made

    def _refused(self, point: Point, error: TilejitError) -> None:
        self.errors[point] = error
        self.timings[point].rejected = f"{type(error).__name__}: {error.message}"

    def _compare(self, point: Point, found: Sequence[np.ndarray]) -> str | None:
        if self.expected is None:
            before = next((known for known, timing in self.timings.items() if known != point and timing.seconds and not timing.rejected), None)
            choice = self._space[before] if before is not None else None  # of a search that goes on: its first candidate still says what is right
            self.expected = found if choice is None else self._results(choice, self._call)
        return next((wrong for one, other in zip(found, self.expected, strict=True) if (wrong := difference(one, other)) is not None), None)

    def reference(self) -> Sequence[np.ndarray]:
        """What the NumPy reference computes, with the untuned arguments."""
        choice = Choice(self._space[self._space.first].arguments)
        config = replace(self._call.config or RunConfig(), platform="reference", schedule="")
        return self._results(choice, Call(self._call.args, self._call.kwargs, config))

    def _results(self, choice: Choice, call: Call) -> Sequence[np.ndarray]:
        made = Prepared(self._variant(choice), choice, call)
        made.bind({})
        return made.results()


def difference(found: np.ndarray, expected: np.ndarray) -> str | None:
    """Where two results differ by more than rounding; None: nowhere."""
    if found.shape != expected.shape:
        return f"wrong result: shape {list(found.shape)} instead of {list(expected.shape)}"
    if not found.size:
        return None
    if np.iscomplexobj(expected):
        found, expected = (np.stack([np.real(array), np.imag(array)], axis=-1) for array in (found, expected))
    tolerance = _tolerance(expected.dtype)
    if tolerance is None:
        apart = found != expected
    else:
        one, other = found.astype(np.float64), expected.astype(np.float64)
        finite = np.isfinite(other)
        scale = float(np.max(np.abs(other[finite]), initial=0.0))
        close = np.abs(np.where(finite, one - np.where(finite, other, 0), 0)) <= tolerance * scale
        apart = ~np.where(finite, close, (one == other) | (np.isnan(one) & np.isnan(other)))
    count = int(np.count_nonzero(apart))
    if not count:
        return None
    at = tuple(int(index) for index in np.unravel_index(int(np.argmax(apart)), apart.shape))
    return f"wrong result: {found[at]} instead of {expected[at]} at {list(at)}, {count} of {apart.size} elements differ"


def _tolerance(dtype: np.dtype) -> float | None:
    """None: equal or not. Eight units of the last place, of types that have few of them fewer: everything would be close to everything else."""
    import ml_dtypes

    if dtype.kind in "iub":
        return None
    try:
        unit = float(ml_dtypes.finfo(dtype).eps)
    except ValueError:  # whole numbers of four bits
        return None
    return _TOLERANCE.get(dtype.name) or min(8 * unit, max(unit, _COARSEST))
