"""A program that can be called: CompiledProgram and its entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tilejit.errors import ArgumentError, did_you_mean
from tilejit.runtime.config import RunConfig, resolve_platform
from tilejit.runtime.signature import Bound, ParamInfo, Signature


class Runner(Protocol):
    """Runs one entry on checked arguments."""

    def run(self, arguments: Sequence[Bound], num_threads: int | None = None) -> None: ...


@dataclass(frozen=True)
class CompiledEntry:
    """One callable function of a compiled program."""

    signature: Signature
    runner: Runner = field(repr=False)

    def __call__(self, *args: object, config: RunConfig | None = None) -> object:
        bound, new = self.signature.bind(args)
        self.runner.run(bound, config.num_threads if config else None)
        return None if not new else new[0] if len(new) == 1 else new


class CompiledProgram:
    """A compiled program: call it with all parameters to work in place, or without its outputs to have them returned."""

    def __init__(
        self,
        name: str,
        entries: Mapping[str, CompiledEntry],
        platform: str,
        program: object | None = None,
        stages: Mapping[str, Callable[[], str]] | None = None,
    ) -> None:
        self.name = name
        self.entries = dict(entries)
        self.platform = platform
        self.program = program
        """The program this was compiled from."""
        self._stages = dict(stages or {})

    def __call__(self, *args: object, config: RunConfig | None = None) -> object:
        if config is not None and config.platform is not None and resolve_platform(config.platform) != self.platform:
            raise ArgumentError(f"{self.name} was compiled for {self.platform}, not for {config.platform}", help="compile it for that platform")
        return self._only("call")(*args, config=config)

    def _only(self, what: str) -> CompiledEntry:
        if len(self.entries) == 1:
            return next(iter(self.entries.values()))
        names = ", ".join(self.entries)
        raise ArgumentError(f"cannot {what} {self.name}: it has several entries: {names}", help=f"name one: compiled[{next(iter(self.entries), '')!r}]")

    def __getitem__(self, name: str) -> CompiledEntry:
        if name not in self.entries:
            hint = did_you_mean(name, self.entries)
            raise KeyError(f"{self.name} has no entry {name!r}" + (f"; {hint}" if hint else f"; it has {', '.join(self.entries)}"))
        return self.entries[name]

    def __getattr__(self, name: str) -> CompiledEntry:
        if name.startswith("_") or name not in self.__dict__.get("entries", {}):
            raise AttributeError(f"CompiledProgram has no attribute {name!r}", name=name, obj=self)
        return self.entries[name]

    # what it is -----------------------------------------------------------------------------------------------------------

    @property
    def signature(self) -> Signature:
        """The signature of the only entry."""
        return self._only("describe").signature

    @property
    def param_infos(self) -> tuple[ParamInfo, ...]:
        """Name, direction, shape with symbols, and dtype of every parameter."""
        return self.signature.params

    @property
    def param_names(self) -> tuple[str, ...]:
        return tuple(param.name for param in self.param_infos)

    @property
    def output_indices(self) -> tuple[int, ...]:
        """Parameters that a return-style call leaves out."""
        return self.signature.output_indices

    @property
    def has_return(self) -> bool:
        """Whether a call can return tensors."""
        return bool(self.signature.output_indices or self.signature.results)

    def stages(self) -> tuple[str, ...]:
        """Names of the intermediate forms that `stage` can show."""
        return tuple(self._stages)

    def stage(self, name: str) -> str:
        """The text of an intermediate form."""
        if name not in self._stages:
            raise KeyError(f"{self.name} has no stage {name!r}; it has {', '.join(self._stages) or 'none'}")
        return self._stages[name]()

    def __repr__(self) -> str:
        shown = "; ".join(str(entry.signature) for entry in self.entries.values())
        return f"CompiledProgram({shown}, platform={self.platform!r})"
