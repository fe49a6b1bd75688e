"""Ranks that stay for many calls of compiled programs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilejit.jit.hosts.ranks import HostCall, distributed_config, is_copied
from tilejit.runtime.artifact.compiled import CompiledProgram
from tilejit.runtime.config import RunConfig
from tilejit.runtime.locks import new_lock
from tilejit.runtime.ranks.call import Call
from tilejit.runtime.ranks.config import DistributedConfig
from tilejit.runtime.ranks.engines import Held, world_of
from tilejit.runtime.ranks.plan import Fact, HostTensor, Plan, Step, WindowBuffer
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
            plan = Plan(engine.world, facts={"what is copied": Fact([(source.shape, str(source.dtype), home) for source, home, _ in copies])})
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

    def _check_is_prepared(self, compiled: object) -> None:
        if not any(compiled is program for program in self._programs):
            given = compiled.name if isinstance(compiled, CompiledProgram) else f"an object of type {type(compiled).__name__}"
            prepared = ", ".join(program.name for program in self._programs)
            raise ValueError(f"{given} is not among the programs that were prepared ({prepared}), one of which comes before the arguments")

    def __call__(self, *args: object, config: RunConfig | None = None) -> Any:
        if len(self._programs) > 1:
            raise TypeError("this worker has several programs: name one with run(compiled, …)")
        return self.run(self._programs[0], *args, config=config)

    def run(self, compiled: DistributedCompiledProgram, *args: object, config: RunConfig | None = None) -> Any:
        """One call of a prepared program."""
        self._check()
        self._check_is_prepared(compiled)
        with self._lock:
            self._running = compiled
            return compiled.run_host(compiled._only(), args, {}, config or self._config, self._callbacks, self)

    def register(self, compiled: DistributedCompiledProgram) -> Callable[..., Any]:
        """A prepared program as a function."""
        self._check_is_prepared(compiled)
        return lambda *args, config=None: self.run(compiled, *args, config=config)

    def submit(self, compiled: DistributedCompiledProgram, *args: object) -> DistributedRunHandle:
        """Start a call; at most two are under way. Its text is read now; what is copied from arguments for it is copied after the calls before it."""
        self._check()
        while len(self._under_way) >= (1 if any(map(is_copied, args)) else 2):
            first = self._under_way.pop(0)
            first.exception()
        try:
            call = self._recorded(compiled, args)
        except Exception as error:
            future = Future[Any]()
            future.set_exception(error)
        else:
            future = self._queue.submit(self._run, compiled, call)
        self._under_way.append(future)
        return DistributedRunHandle(future)

    def _recorded(self, compiled: DistributedCompiledProgram, args: tuple[object, ...]) -> HostCall:
        self._check_is_prepared(compiled)
        if self._engine is None:
            with self.held(self._chosen):  # started; calls under way hold it
                pass
        assert self._engine is not None
        return compiled.record_host(args, self._config, self._callbacks, self._engine)

    def _run(self, compiled: DistributedCompiledProgram, call: HostCall) -> Any:
        with self._lock, self.held(self._chosen) as engine:
            self._running = compiled
            return call.run(engine, self)

    def close(self) -> None:
        """Wait for what is under way, and let the ranks go."""
        if self._closed:
            return
        self._queue.shutdown(wait=True)
        self._closed = True
        self.free_all()
        if self._held is not None:
            self._held.__exit__(None, None, None)
