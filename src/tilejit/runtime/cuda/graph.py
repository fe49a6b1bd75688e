"""A call captured into a CUDA graph: everything it launches, replayed with one call of the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilejit.runtime.call.signature import Bound, NumberResult
from tilejit.runtime.cuda.driver import RELAXED
from tilejit.runtime.cuda.entry import CudaEntry, DeviceProgram, device_index
from tilejit.runtime.cuda.memory import DriverMemory, TorchMemory, memory_for
from tilejit.runtime.cuda.streams import stream_of

_NON_BLOCKING = 1


class CapturedCall:
    """A call on fixed arguments. Calling it launches all of it on the caller's stream; the arrays are read and written where they are."""

    def __init__(self, entry: CudaEntry, arguments: Sequence[Bound], new: tuple[object, ...], announce: Callable[[], None]) -> None:
        self._announce = announce
        """Tells autograd what a launch writes."""
        self._first = entry.first_array(arguments)
        self._kept = (tuple(arguments), new)
        made = tuple(item.array if isinstance(item, NumberResult) else item for item in new)
        self.results = None if not made else made[0] if len(made) == 1 else made
        """The arrays that were allocated for the outputs that the call left out, and for numbers; each replay writes them anew."""
        self._loaded: DeviceProgram = entry.program.on(device_index(self._first.device))
        self._memory = _Held(memory_for(self._loaded.device, stream_of(self._first), self._first.framework))
        self._graph = self._captured(entry, entry.inputs(arguments, self._loaded))

    def _captured(self, entry: CudaEntry, inputs: Sequence[int | float | bool]) -> int:
        driver, device = self._loaded.device.driver, self._loaded.device
        with device.active():
            stream = driver.word("cuStreamCreate", _NON_BLOCKING)
            try:
                driver("cuStreamBeginCapture_v2", stream, RELAXED)
                try:
                    self._loaded.function(entry.name)(stream, self._memory, *inputs)
                finally:
                    graph = driver.word_after("cuStreamEndCapture", stream)
                made = driver.word("cuGraphInstantiateWithFlags", graph, 0)
                driver("cuGraphDestroy", graph)
            finally:
                driver("cuStreamDestroy_v2", stream)
        return made

    def __call__(self) -> object:
        """Launch everything; returns before it is done."""
        self._loaded.words.check()
        self._announce()
        with self._loaded.device.active():
            self._loaded.device.driver("cuGraphLaunch", self._graph, stream_of(self._first))
        return self.results

    def __del__(self) -> None:
        if hasattr(self, "_graph"):
            self._loaded.device.driver.raw("cuGraphExecDestroy")(self._graph)


class _Held:
    """Memory of a captured call: what it takes stays its own, because every replay uses it again."""

    def __init__(self, memory: DriverMemory | TorchMemory) -> None:
        self._memory = memory

    def take(self, size: int) -> int:
        return self._memory.take(size)

    def keep(self, size: int) -> int:
        return self._memory.take(size)

    def mark(self) -> int:
        return 0

    def release(self, mark: int = 0) -> None:
        """Not before the graph goes."""

    def __del__(self) -> None:
        self._memory.close()
