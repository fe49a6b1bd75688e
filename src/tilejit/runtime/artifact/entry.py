"""One function of a compiled program, as it is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from tilejit import config as settings
from tilejit.errors import ArgumentError, OptionError, PlatformError, TilejitError
from tilejit.runtime.arrays import Promised
from tilejit.runtime.artifact import describe
from tilejit.runtime.artifact.sections import EntryInfo
from tilejit.runtime.call.autograd import GradNote
from tilejit.runtime.call.graphs import keep_out_of_graphs, untraced
from tilejit.runtime.call.guards import MISS, CallForm
from tilejit.runtime.call.native import NativeEntry
from tilejit.runtime.call.native_type import NativeCallable, enable, weakly
from tilejit.runtime.call.signature import Bound, Signature, as_results
from tilejit.runtime.call.warm import MAKING, WarmCalls
from tilejit.runtime.config import RunConfig, check_settings_of_runs
from tilejit.runtime.cuda.streams import on_stream
from tilejit.runtime.targets import Runner, resolve_platform, row_of

if TYPE_CHECKING:
    from tilejit.runtime.bench import BenchmarkStats
    from tilejit.runtime.cuda.graph import CapturedCall

_COLD_CALLS = 2
"""Calls before one is worth a warm way: what is called once or twice pays nothing for it."""


class Relocations(Protocol):
    """Knows where the source of a cached program is now."""

    def apply(self, error: TilejitError) -> None: ...


@dataclass(slots=True)
class Shared:
    """What all entries of a program have in common."""

    note: GradNote = field(default_factory=GradNote)
    relocations: Relocations | None = None
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    """What the code was made for."""


class CompiledEntry(NativeCallable):
    """One callable function of a compiled program."""

    __doc__ = describe.docstring("One callable function of a compiled program.", lambda entry: describe.entry_text(entry.signature, entry.platform))
    __slots__ = ("__dict__", "__weakref__", "_calls", "_shared", "_warm", "info", "platform", "runner")

    def __init__(self, info: EntryInfo, runner: Runner, platform: str, shared: Shared) -> None:
        self.info = info
        self.runner = runner
        self.platform = platform
        self._shared = shared
        self._calls = 0
        self._warm: WarmCalls | None = None

    @property
    def signature(self) -> Signature:
        """How it is called."""
        return self.info.signature

    @property
    def note(self) -> GradNote:
        """Whether the callers know that results carry no gradient."""
        return self._shared.note

    def relocate(self, error: TilejitError) -> None:
        """Point the error of a call at the source as it is now."""
        if self._shared.relocations is not None:
            self._shared.relocations.apply(error)

    @property
    def native(self) -> NativeEntry | None:
        """The machine code, loaded now if it was not; None when this entry is not machine code."""
        return cast("NativeEntry | None", getattr(self.runner, "native", None))

    @untraced
    def __call__(self, *args: object, config: RunConfig | None = None, **named: object) -> Any:
        """All parameters: works in place, returns None. Without the outputs: allocates and returns them, in the caller's framework."""
        keep_out_of_graphs()
        if config is not None or named:
            self._check_options(config, named)
        elif self._warm is not None and (found := self._warm.run(args)) is not MISS:
            return found
        seen = settings.snapshot()
        result = self.checked(args, config)
        self._calls += 1
        if self._calls > _COLD_CALLS and self.native is not None:
            self.warm.serve(self, dict(zip(self._given(len(args)), args, strict=True)), config, None, seen)
        return result

    def checked(self, args: Sequence[object], config: RunConfig | None) -> Any:
        """The call with all its checks."""
        check_settings_of_runs()
        bound, new = self.bind(args)
        self.announce(bound)
        with on_stream(config.stream if config else None):
            self.runner.run(bound, config.num_threads if config else None)
        return as_results(tuple(value.made() if isinstance(value, Promised) else value for value in new))

    @property
    def warm(self) -> WarmCalls:
        """The warm ways of calls like earlier ones."""
        with MAKING:
            if self._warm is None:
                params, inputs = self.signature.params, tuple(self._given(-1))
                form = CallForm({param.name: param.shape is None for param in params}, len(params), named=False, inputs=inputs)
                self._warm = WarmCalls(self, weakly(self), form)
            return self._warm

    def _given(self, count: int) -> list[str]:
        """Names of the arguments of a call with so many: all of them, or those that are no outputs."""
        params = self.signature.params
        return [param.name for index, param in enumerate(params) if count == len(params) or index not in self.signature.output_indices]

    def graph(self, *args: object) -> CapturedCall:
        """This call captured into a CUDA graph: calling the result launches all of it at once, on the same arrays; outputs left out are in its `results`."""
        capture = getattr(self.runner, "capture", None)
        if capture is None:
            raise PlatformError(f"{self.signature.name} was compiled for {self.platform}, which has no graphs", help="compile it for cuda")
        bound, new = self.bind(args)
        return cast("CapturedCall", capture(bound, new, lambda: self.announce(bound)))

    def bind(self, args: Sequence[object]) -> tuple[list[Bound], tuple[object, ...]]:
        """Checked arguments, and the arrays that were allocated for the caller."""
        return self.signature.bind(args, row_of(self.platform).devices)

    def announce(self, bound: Sequence[Bound]) -> None:
        """A call on checked arguments is about to run: autograd hears of it."""
        self.note.before(self.signature.name, ((param.name, param.direction, view) for param, view in zip(self.signature.code_params, bound, strict=True)))

    def _check_options(self, config: RunConfig | None, named: Mapping[str, object]) -> None:
        name = self.signature.name
        if named:
            help = f"write {describe.call_text(self.signature)}"
            raise ArgumentError(f"{name} takes its arguments by position, got {', '.join(f'{key}=' for key in named)}", help=help)
        if config is not None:
            check_config(name, self.platform, self._shared.options, config)

    def benchmark(self, *args: object, rounds: int = 100, warmup: int = 3) -> BenchmarkStats:
        """Time calls with these arguments."""
        from tilejit.runtime.bench import benchmark

        return benchmark(self, args, rounds, warmup)

    def __getattr__(self, name: str) -> object:
        # Looked up on the object only: the class keeps the signature of its constructor.
        if name == "__signature__":
            return describe.python_signature(self.signature)
        raise AttributeError(f"CompiledEntry has no attribute {name!r}", name=name, obj=self)

    def __repr__(self) -> str:
        return f"CompiledEntry({self.signature}, platform={self.platform!r})"

    def _repr_html_(self) -> str:
        return describe.entry_html(self.signature, self.platform)


enable(CompiledEntry)


def check_config(name: str, platform: str, options: Mapping[str, object], config: object) -> None:
    """Whether the config of a call is one, for what a program was compiled for: it runs, and a call cannot ask for other code."""
    if not isinstance(config, RunConfig):
        raise ArgumentError(f"config must be a RunConfig, got {type(config).__name__}", help="write config=RunConfig(…)")
    if config.platform is not None and resolve_platform(config.platform) != platform:
        raise PlatformError(f"{name} was compiled for {platform}, not for {config.platform}", help="compile it for that platform")
    for option, compiled in options.items():
        asked = getattr(config, option)
        if option in config.said and asked != compiled:
            what = f"{name} was compiled with {option}={compiled!r}, the call asks for {option}={asked!r}"
            raise OptionError(what, help=f"leave {option} out of the config of the call, or compile with {option}={asked!r}")
