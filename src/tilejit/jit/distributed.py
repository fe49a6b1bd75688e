"""Compiled programs with host functions, and workers that run them again and again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tilejit.errors import ArgumentError
from tilejit.jit.definition import Definition
from tilejit.jit.ranks import distributed_config, run_host, run_text
from tilejit.runtime.artifact.compiled import CompiledEntry, CompiledProgram
from tilejit.runtime.config import RunConfig
from tilejit.runtime.ranks.config import DistributedConfig
from tilejit.runtime.ranks.engines import Held, world_of
from tilejit.runtime.ranks.host import Recorder
from tilejit.runtime.ranks.launches import LaunchParam
from tilejit.runtime.ranks.plan import Plan
from tilejit.runtime.ranks.resident import Residents

if TYPE_CHECKING:
    from tilejit.runtime.ranks.engine import Engine
    from tilejit.tile_ir.program import Program

_EMPTY: Mapping[str, Any] = {}


class _Launch:
    """A function of a compiled program as a recorder sees it."""

    def __init__(self, entry: CompiledEntry, windows: Sequence[str], text: Callable[[], str]) -> None:
        self._text = text
        self.name = entry.signature.name
        self._entry = entry
        declared = entry.info.signature.code_params[: len(entry.signature.params)]
        self.params = tuple(
            LaunchParam(p.name, "scalar" if p.shape is None else "window" if p.name in windows else "tensor", p.shape, p.dtype, ..., p.direction)
            for p in declared
        )

    def entry(self, values: Mapping[str, object], config: RunConfig | None) -> CompiledEntry:
        return self._entry

    def text(self) -> str:
        return f"{self.name}{self.params}{self._text()}"


class _Self:
    """`self` of a host function that runs now."""

    def __init__(self, program: DistributedCompiledProgram, recorder: Recorder, callbacks: Mapping[str, Callable[..., object]]) -> None:
        self._program, self._recorder, self._callbacks = program, recorder, callbacks

    def __getattr__(self, name: str) -> Callable[..., object]:
        program, recorder = self._program, self._recorder
        if name in program.launches:
            return lambda *args, **named: recorder.launch(program.launches[name], args, named)
        if name in program.hosts:
            return lambda *args, **named: run_text(program.hosts[name], recorder, [self, *args], named)
        if name in program.sub_workers:
            function = self._callbacks.get(name) or program.sub_workers[name]
            return lambda *args: recorder.sub_worker(name, function, args, program.directions_of(name))
        raise AttributeError(f"the program has no function `{name}`", name=name)


class DistributedCompiledProgram(CompiledProgram):
    """A compiled program whose host functions launch the others on ranks."""

    def __init__(self, compiled: CompiledProgram, program: Program, config: DistributedConfig | None, run: RunConfig | None) -> None:
        super().__init__(compiled.artifact, {name: entry.runner for name, entry in compiled.entries.items()}, program=program)
        self.chosen, self._run = config, run
        self.hosts = {name: Definition(host.python, "host", {}, {**host.enclosing, "self": None}) for name, host in program.hosts.items()}
        self.sub_workers = {name: worker.python for name, worker in program.sub_workers.items()}
        callable_ones = {name: function for name, function in program.functions.items() if name in self.entries}
        self.launches = {name: _Launch(self.entries[name], _windows(function), program.as_python) for name, function in callable_ones.items()}

    def __call__(self, *args: object, config: RunConfig | None = None, **named: object) -> Any:
        """The only host function, on all its parameters or without its outputs."""
        return self.run_host(self._only(), args, named, config, _EMPTY)

    def _only(self) -> str:
        if len(self.hosts) != 1:
            names = ", ".join(self.hosts)
            raise ArgumentError(f"cannot call {self.name}: it has several host functions: {names}", help=f"name one: compiled[{next(iter(self.hosts), '')!r}]")
        return next(iter(self.hosts))

    def run_host(
        self,
        name: str,
        args: Sequence[object],
        named: Mapping[str, object],
        config: RunConfig | None,
        callbacks: Mapping[str, Any],
        worker: DistributedWorker | None = None,
    ) -> Any:
        """One call of a host function."""
        unbound = [worker for worker, function in self.sub_workers.items() if worker not in callbacks and _is_empty(function)]
        if unbound:
            raise ValueError(f"the sub-worker `{unbound[0]}` has no body: bind it with prepare(callbacks={{{unbound[0]!r}: …}})")
        used = config or self._run
        chosen = distributed_config(config) or self.chosen
        settled = RunConfig(platform=self.platform, num_threads=used.num_threads if used is not None else None, distributed_config=chosen)
        return run_host(self.hosts[name], tuple(args), named, settled, lambda recorder: _Self(self, recorder, callbacks), worker)

    def __getitem__(self, name: str) -> Any:
        if name in self.hosts:
            return lambda *args, config=None, **named: self.run_host(name, args, named, config, _EMPTY)
        return super().__getitem__(name)

    def directions_of(self, worker: str) -> list[str]:
        """What a sub-worker does with its parameters, by its annotations."""
        return [param.direction for param in Definition(self.sub_workers[worker], "opaque").params]

    def prepare(
        self,
        config: RunConfig | None = None,
        *,
        extra_compiled: Sequence[DistributedCompiledProgram] = (),
        persistent: bool = False,
        reset_persistent_windows: bool | None = None,
        callbacks: Mapping[str, Callable[..., object]] | None = None,
        sub_worker_overrides: Mapping[str, Callable[..., object]] | None = None,
        startup_timeout_s: float | None = None,
    ) -> DistributedWorker:
        """Start the ranks once, for many calls."""
        if reset_persistent_windows and not persistent:
            raise ValueError("reset_persistent_windows needs persistent=True")
        bound = dict(callbacks or sub_worker_overrides or {})
        for name in bound:
            if name not in self.sub_workers:
                raise ValueError(f"there is no sub-worker `{name}`; the program has {', '.join(self.sub_workers) or 'none'}")
        missing = [name for name, function in self.sub_workers.items() if _is_empty(function) and name not in bound]
        if missing:
            raise ValueError(f"the sub-worker `{missing[0]}` has no body: bind it with callbacks={{{missing[0]!r}: …}}")
        return DistributedWorker((self, *extra_compiled), config, persistent, reset_persistent_windows is not False, bound)


def _windows(function: Any) -> tuple[str, ...]:
    """Parameters of a function that are windows."""
    return function.static("windows", ())


def _is_empty(function: Callable[..., object]) -> bool:
    """Whether the body of a function is `...`."""
    code = getattr(function, "__code__", None)
    return code is not None and not code.co_names and code.co_consts in ((None,), (Ellipsis,), (None, Ellipsis), (Ellipsis, None)) and len(code.co_code) <= 8


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
        super().__init__(lambda: world_of(distributed_config(config) or programs[0].chosen))
        self._persistent, self._reset, self._callbacks = persistent, reset, callbacks
        self._lock = threading.RLock()
        self._held: Held | None = None
        self._engine: Engine | None = None
        self._layout: object = None
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
        layout = [(buffer.name, buffer.size) for buffer in plan.buffers]
        kept = self._persistent and not self._reset and layout == self._layout
        self._layout = layout
        return kept

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
        future = self._queue.submit(self.run, compiled, *args)
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
