"""Ranks that stay for many calls of compiled programs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilejit.jit.hosts.ranks import distributed_config
from tilejit.runtime.call.autograd import recording_as_here
from tilejit.runtime.config import RunConfig
from tilejit.runtime.locks import new_lock
from tilejit.runtime.ranks.call import Call
from tilejit.runtime.ranks.config import DistributedConfig
from tilejit.runtime.ranks.engines import Held, world_of
from tilejit.runtime.ranks.plan import HostTensor, Plan, Step, WindowBuffer
from tilejit.runtime.ranks.resident import Residents

if TYPE_CHECKING:
    from tilejit.jit.hosts.distributed import DistributedCompiledProgram
    from tilejit.runtime.ranks.engine import Engine

NDArray = npt.NDArray[Any]

class DistributedRunHandle:
    """A call under way."""

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def result(self, timeout: float | None = None) -> Any:
        """What the call returned, or raised."""
        if timeout is not None and not 0 <= timeout < float("inf"):
            raise ValueError(f"timeout is a number of seconds from 0 on, got {timeout}")
        return self._future.result(timeout)

    def wait(self, timeout: float | None = None) -> None:
        self.result(timeout)

    @property
    def done(self) -> bool:
        return self._future.done()


class DistributedWorker(Residents):
    """Ranks that stay for many calls, and tensors that stay with them; a context manager."""

    def __init__(
        self,
        programs: Sequence[DistributedCompiledProgram],
        config: RunConfig | None,
        persistent: bool,
        reset: bool,
        callbacks: Mapping[str, Callable[..., object]],
    ) -> None:
        self._programs, self._config = list(programs), config
        self._chosen = distributed_config(config) or programs[0].chosen
        super().__init__(lambda: world_of(self._chosen), self._has, self._fetch)
        self._persistent, self._reset, self._callbacks = persistent, reset, callbacks
        self._lock = new_lock()
        self._held: Held | None = None
        self._engine: Engine | None = None
        self._layout: object = None
        self._running: DistributedCompiledProgram | None = None
        self._buffers: Sequence[WindowBuffer] = ()
        """Those of the last call."""
        self._closed = False
        self._queue = ThreadPoolExecutor(1)
        self._under_way: list[Future[Any]] = []

    def __enter__(self) -> DistributedWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # what a call asks ---------------------------------------------------------------------------------------------------

    @contextmanager
    def held(self, config: DistributedConfig | None) -> Generator[Engine]:
        """The engine of this worker."""
        with self._lock:
            if self._engine is None:
                self._held = Held(config)
                self._engine = self._held.__enter__()
            try:
                yield self._engine
            except BaseException:
                self._layout = None  # windows are zeroed before the next call
                raise

    def keeps(self, plan: Plan) -> bool:
        layout = (id(self._running), [(buffer.name, buffer.size) for buffer in plan.buffers])  # programs share ranks, never windows
        kept = self._persistent and not self._reset and layout == self._layout
        self._layout, self._buffers = layout, plan.buffers
        return kept

    def _has(self, rank: int) -> bool:
        """Whether a rank is in this process."""
        with self.held(self._chosen) as engine:
            return rank in engine.here

    def _fetch(self, copies: Sequence[tuple[NDArray, int, NDArray]]) -> None:
        """Fill arrays of this process with what ranks have: a call in which they write them."""
        with self.held(self._chosen) as engine:
            if not engine.several:
                for source, _, target in copies:
                    target[...] = source
                return
            plan = Plan(engine.world, facts={"what is copied": [(source.shape, str(source.dtype), home) for source, home, _ in copies]})
            plan.buffers = [WindowBuffer(buffer.name, buffer.size) for buffer in self._buffers]  # what is copied lies behind them
            arrays = [np.empty_like(source) for source, _, _ in copies]
            for array, (source, home, _) in zip(arrays, copies, strict=True):
                tensor = HostTensor(array, "a copy")
                plan.tensors.append(tensor)
                plan.add(Step(home, "copy_from", lambda call, rank, array=array, source=source: np.copyto(array, source), (), [tensor]))
            timeout = self._chosen.timeout_s if self._chosen is not None else None
            Call(engine, plan, DistributedConfig(list(range(engine.world)), timeout_s=timeout), keep=True).run()
            for array, (_, _, target) in zip(arrays, copies, strict=True):
                target[...] = array

    # calls ----------------------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._closed:
            raise RuntimeError("this worker is closed")

    def __call__(self, *args: object, config: RunConfig | None = None) -> Any:
        if len(self._programs) > 1:
            raise TypeError("this worker has several programs: name one with run(compiled, …)")
        return self.run(self._programs[0], *args, config=config)

    def run(self, compiled: DistributedCompiledProgram, *args: object, config: RunConfig | None = None) -> Any:
        """One call of a prepared program."""
        self._check()
        if not any(compiled is program for program in self._programs):
            raise ValueError(f"{compiled.name} is not among the programs that were prepared")
        with self._lock:
            self._running = compiled
            return compiled.run_host(compiled._only(), args, {}, config or self._config, self._callbacks, self)

    def register(self, compiled: DistributedCompiledProgram) -> Callable[..., Any]:
        """A prepared program as a function."""
        if not any(compiled is program for program in self._programs):
            raise ValueError(f"{compiled.name} is not among the programs that were prepared")
        return lambda *args, config=None: self.run(compiled, *args, config=config)

    def submit(self, compiled: DistributedCompiledProgram, *args: object) -> DistributedRunHandle:
        """Start a call; at most two are under way."""
        self._check()
        while len(self._under_way) >= 2:
            first = self._under_way.pop(0)
            first.exception()
        future = self._queue.submit(recording_as_here(self.run), compiled, *args)
        self._under_way.append(future)
        return DistributedRunHandle(future)

    def close(self) -> None:
        """Wait for what is under way, and let the ranks go."""
        if self._closed:
            return
        self._queue.shutdown(wait=True)
        self._closed = True
        self.free_all()
        if self._held is not None:
            self._held.__exit__(None, None, None)
