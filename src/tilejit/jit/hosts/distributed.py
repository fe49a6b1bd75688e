"""Compiled programs with host functions, in memory and in artifact directories."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter
from typing import TYPE_CHECKING, Any, cast

from tilejit.dtypes import FP32
from tilejit.errors import ArgumentError, ArtifactError, TilejitError
from tilejit.frontend.source import unwrapped
from tilejit.jit.definition import Definition, Kernel
from tilejit.jit.hosts import stored_hosts
from tilejit.jit.hosts.found_kernels import which
from tilejit.jit.hosts.launching import JitLaunched, launch_of, run_text
from tilejit.jit.hosts.ranks import Compiled, HostCall, distributed_config, record_host, recorded_only, run_host
from tilejit.jit.hosts.stored_texts import described
from tilejit.jit.hosts.workers import DistributedWorker
from tilejit.runtime.artifact.compiled import CompiledEntry, CompiledProgram, DirectoryPath
from tilejit.runtime.artifact.directory import Stage
from tilejit.runtime.artifact.entry import check_config
from tilejit.runtime.artifact.sections import HOSTS, META, Artifact, read_artifact, read_fields
from tilejit.runtime.call.signature import ParamInfo, Signature
from tilejit.runtime.config import RunConfig, code_options
from tilejit.runtime.ranks.config import DistributedConfig
from tilejit.runtime.ranks.host import Recorder
from tilejit.runtime.ranks.launches import Fixed, LaunchParam, changed_between_launches
from tilejit.runtime.targets import place_of
from tilejit.tracebacks import shortened
from tilejit.types.annotations import DynVar

if TYPE_CHECKING:
    from tilejit.jit.function import JITFunction
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

    def compiled(self, values: Mapping[str, object], config: RunConfig | None) -> Fixed:
        return Fixed(self._entry, lambda: f"{self.name}{self.params}{self._text()}")


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


@dataclass(frozen=True)
class Parts:
    """What a program with host functions is made of."""

    name: str
    programs: Sequence[CompiledProgram]
    """The compiled functions that are launched."""
    hosts: Mapping[str, Definition]
    launches: Mapping[str, _Launch]
    """Those that host functions call on `self`."""
    windows: Mapping[str, Sequence[str]]
    """Their parameters that are windows."""
    sub_workers: Mapping[str, Callable[..., object]]
    programs_of: stored_hosts.ProgramsOf
    kernels: Callable[[Any], stored_hosts.StoredLaunch] | None = None
    """What the kernels that host functions name were compiled to, where they are not part of the program."""
    launched: Sequence[Kernel] = ()
    """Those that were compiled."""


class DistributedCompiledProgram(CompiledProgram):
    """A compiled program whose host functions launch the others on ranks."""

    def __init__(
        self, parts: Parts, config: DistributedConfig | None, run: RunConfig, artifact: Artifact | None = None,
        *, program: object = None, stages: Iterable[Stage] = (), output_dir: str | None = None,
    ) -> None:  # fmt: skip
        self.parts, self.chosen, self._run = parts, config, run
        self._refused: TilejitError | RecursionError | None = None
        """Why it cannot be stored."""
        super().__init__(artifact or self._joined(), {}, program=program, stages=stages, output_dir=output_dir)
        self.entries = {name: entry for each in parts.programs for name, entry in each.entries.items()}
        self.hosts, self.sub_workers, self.launches = parts.hosts, parts.sub_workers, parts.launches

    @classmethod
    def of_program(
        cls, compiled: CompiledProgram, program: Program, config: DistributedConfig | None, run: RunConfig, output_dir: str | None
    ) -> DistributedCompiledProgram:
        """A `@pl.program` with host functions."""
        hosts = {name: Definition(unwrapped(host.python), "host", {}, {**host.enclosing, "self": None}) for name, host in program.hosts.items()}
        windows = {name: cast("tuple[str, ...]", op.static("windows", ())) for name, op in program.functions.items() if name in compiled.entries}
        launches = {name: _Launch(compiled.entries[name], given, program.as_python) for name, given in windows.items()}
        workers = {name: worker.python for name, worker in program.sub_workers.items()}
        parts = Parts(compiled.name, [compiled], hosts, launches, windows, workers, lambda kernel: ())
        made = cls(parts, config, run, program=program, stages=compiled._stages.values(), output_dir=output_dir)
        if output_dir is not None:
            _ = made.output_dir
        return made

    @classmethod
    def opened(cls, artifact: Artifact, stages: Iterable[Stage], output_dir: str) -> DistributedCompiledProgram:
        """What an artifact directory has."""
        programs: list[CompiledProgram] = []
        while _inner(len(programs), META) in artifact.sections:
            number = len(programs)
            fields = read_fields(artifact.section(_inner(number, META)), _inner(number, META))
            programs.append(CompiledProgram(read_artifact(fields, lambda name, number=number: artifact.section(_inner(number, name)))))
        firsts = [next(iter(each.entries.values())) for each in programs]
        data = artifact.section(HOSTS)
        digest = lambda: hashlib.sha256(b"".join(artifact.section(name) for name in sorted(artifact.sections))).hexdigest()  # noqa: E731
        try:
            fields, reader = stored_hosts.read_fields(data, firsts, digest)
            hosts = {name: reader.definition(number) for name, number in fields["hosts"].items()}
            workers = {name: reader.function(number) for name, number in fields["sub_workers"].items()}
            launches = {name: _Launch(programs[0].entries[name], given, digest) for name, given in fields["windows"].items()}
            ids, run = fields["device_ids"], RunConfig(**fields["options"])
            parts = Parts(artifact.name, programs, hosts, launches, fields["windows"], workers, lambda kernel: (), reader.kernel)
        except (KeyError, ValueError, TypeError, IndexError, ImportError, SyntaxError) as error:
            raise ArtifactError(f"the host functions of {artifact.name} cannot be read: {error!r}", help="compile the program again") from None
        return cls(parts, None if ids is None else DistributedConfig(ids), run, artifact, stages=stages, output_dir=output_dir)

    def _joined(self) -> Artifact:
        """One artifact of the programs that are launched, and of the host functions; none if one of the programs stays in its process."""
        parts, first = self.parts, self.parts.programs[0].artifact if self.parts.programs else None
        platform = first.platform if first is not None else place_of(self._run.platform, 0)[0]
        sections: dict[str, Callable[[], bytes]] = {}
        if all(each.artifact.portable for each in parts.programs):
            stored = self._written_hosts(platform)
            sections[HOSTS] = lambda: stored
            for number, each in enumerate(parts.programs):
                sections[_inner(number, META)] = each.artifact.described
                sections |= {_inner(number, name): fetch for name, fetch in each.artifact.sections.items()}
        facts = {"hosts": {name: described(host) for name, host in parts.hosts.items()}}
        return Artifact(parts.name, platform, {}, (), first.versions if first is not None else {}, facts, sections)

    def _written_hosts(self, platform: str) -> bytes:
        """The host functions as they are when the programs were compiled: what names stand for when somebody stores them may be something else."""
        parts, writer = self.parts, stored_hosts.Writer(self.parts.programs_of)
        try:
            hosts = {name: writer.host(host) for name, host in parts.hosts.items()}
            workers = {name: writer.function(worker, {}) for name, worker in parts.sub_workers.items()}
            writer.launched(parts.launched)
        except (TilejitError, RecursionError) as error:
            self._refused = error  # it runs nevertheless
            return b""
        if writer.lost:
            help = "host functions read constants, symbols, modules and functions; give the rest as parameters"
            self._refused = ArtifactError(f"{parts.name} cannot be stored: {writer.lost[0]}, which no other process has", help=help)
        elif (why := self._reads_back(writer, hosts.values(), workers.values())) is not None:
            help = "give what annotations read a name that nobody binds again, and define the function anew"
            self._refused = ArtifactError(f"{parts.name} cannot be stored: {why}", help=help)
        ids = None if self.chosen is None else list(self.chosen.device_ids)
        fields = {
            "hosts": hosts, "sub_workers": workers, **writer.fields,
            "windows": {name: list(given) for name, given in parts.windows.items()}, "device_ids": ids,
            "options": {name: getattr(self._run, name) for name in code_options(platform)},
        }  # fmt: skip
        return json.dumps(fields, indent=1).encode()

    def _reads_back(self, writer: stored_hosts.Writer, hosts: Iterable[int], workers: Iterable[int]) -> str | None:
        """None: the annotations in the stored texts make of the parameters what those of the functions did; else why not."""
        try:
            reader = stored_hosts.Reader(json.loads(json.dumps(writer.fields)))
            read = [*map(reader.definition, hosts), *(Definition(unwrapped(reader.function(worker)), "opaque") for worker in workers)]
            found = stored_hosts.told(read)
        except Exception as error:  # whatever the names in annotations stand for by now
            return f"its annotations end in {error!r}"
        ours = [*self.parts.hosts.values(), *(Definition(unwrapped(worker), "opaque") for worker in self.parts.sub_workers.values())]
        return None if found == stored_hosts.told(ours) else "a name in an annotation stands for something else now than when it was read"

    @property
    def output_dir(self) -> DirectoryPath:
        if self._refused is not None and not self._written:
            raise self._refused
        return super().output_dir

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """The signature of every host function."""
        return tuple(_signature(host) for host in self.hosts.values())

    @property
    def signature(self) -> Signature:
        """The signature of the only host function."""
        return _signature(self.hosts[self._only()])

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
        host, settled, compiled = self._called(name, config, callbacks)
        try:
            return run_host(host, *_by_count(host, tuple(args), named), settled, self._shared.note, compiled, worker)
        except TilejitError as error:
            raise shortened(error)  # noqa: B904 (the same error)

    def record_host(self, args: tuple[object, ...], config: RunConfig | None, callbacks: Mapping[str, Any], engine: Engine) -> HostCall:
        """A call of the only host function, to be run later."""
        host, settled, compiled = self._called(self._only(), config, callbacks)
        try:
            return record_host(host, *_by_count(host, args, {}), settled, self._shared.note, compiled, engine)
        except TilejitError as error:
            raise shortened(error)  # noqa: B904 (the same error)

    def _called(self, name: str, config: RunConfig | None, callbacks: Mapping[str, Any]) -> tuple[Definition, RunConfig, Compiled]:
        """A host function, with how and on what it runs."""
        unbound = [worker for worker, function in self.sub_workers.items() if worker not in callbacks and _is_empty(function)]
        if unbound:
            raise ValueError(f"the sub-worker `{unbound[0]}` has no body: bind it with prepare(callbacks={{{unbound[0]!r}: …}})")
        chosen = distributed_config(config) or self.chosen
        options = {name: getattr(self._run, name) for name in code_options(self.platform)}
        if config is not None:
            check_config(self.name, self.platform, options, config)
        settled = replace(config or self._run, platform=self.platform, distributed_config=chosen, **options)
        host = self.hosts[name]
        me = (lambda recorder: _Self(self, recorder, callbacks)) if "self" in host.extra and host.receiver is None else None
        return host, settled, Compiled(me, (*self.launches, *self.hosts), self.parts.kernels)

    def __getitem__(self, name: str) -> Any:
        if name in self.hosts:
            return lambda *args, config=None, **named: self.run_host(name, args, named, config, _EMPTY)
        return super().__getitem__(name)

    def directions_of(self, worker: str) -> list[str]:
        """What a sub-worker does with its parameters, by its annotations."""
        return [param.direction for param in Definition(unwrapped(self.sub_workers[worker]), "opaque").params]

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


def _inner(number: int, section: str) -> str:
    """What a section of a program that is launched is called in the whole artifact."""
    return f"launched/{number}/{section}"


def _by_count(host: Definition, args: tuple[object, ...], named: Mapping[str, object]) -> tuple[tuple[object, ...], Mapping[str, object]]:
    """The arguments of a call: as many as there are inputs are the inputs, as for every compiled program, unless defaults could be meant."""
    inputs = [param for param in host.params if param.direction != "Out"]
    if named or not len(args) == len(inputs) < len(host.params) or any(param.default is not Parameter.empty or param.rest for param in host.params):
        return args, named
    return (), {param.name: value for param, value in zip(inputs, args, strict=True)}


def _signature(host: Definition) -> Signature:
    """A host function as callers see it; what its annotations leave open is open."""
    params: list[ParamInfo] = []
    for param in host.params:
        shape = None if param.tensor is None else tuple(str(dim.name) if isinstance(dim, DynVar) else dim for dim in param.tensor.shape or ())
        dtype = param.dtype if param.tensor is None else param.tensor.dtype
        params.append(ParamInfo(param.name, param.direction, dtype or FP32, shape))
    return Signature(host.name, tuple(params))


def compile_host(definition: Definition, args: tuple[object, ...], named: Mapping[str, object], config: RunConfig | None) -> DistributedCompiledProgram:
    """A host function with the programs that it launches for such arguments; nothing runs."""
    config = config or RunConfig()  # as the settings are now, also for its calls
    recorder = recorded_only(definition, args, named, config)
    launched = [each for each in recorder.compiled.values() if isinstance(each, JitLaunched)]
    programs = list({id(each.program): each.program for each in launched}.values())
    kernels: dict[object, list[stored_hosts.Stored]] = {}
    known: dict[object, stored_hosts.StoredLaunch] = {}

    def digest() -> str:
        return "\n".join(each.text() for each in launched)

    for each in launched:
        launch = each.launch
        stored = kernels.setdefault(which(launch.kernel), [])
        known.setdefault(which(launch.kernel), stored_hosts.StoredLaunch(launch.name, launch.params, stored, digest))
        number = stored_hosts.chosen(stored, each.values)
        if number is None:
            stored.append((each.entry, stored_hosts.constants_of(each.values)))
        elif stored[number][0] is not each.entry:  # one shape of a dynamic extent has the code of another one
            raise changed_between_launches(each.launch.name)

    def programs_of(kernel: Kernel) -> list[tuple[int, Mapping[str, object]]]:
        entries = [each.only("launch") for each in programs]
        return [(entries.index(entry), constants) for entry, constants in kernels.get(which(kernel), ())]

    def compiled_as(kernel: JITFunction) -> stored_hosts.StoredLaunch:
        return known.get(which(kernel)) or stored_hosts.StoredLaunch(kernel.definition.name, launch_of(kernel).params, (), digest)

    host = Definition(definition.function, definition.kind, definition.options, definition.extra, definition.around)  # its own calls follow what changes
    _ = host.params  # as they are now
    parts = Parts(definition.name, programs, {definition.name: host}, {}, {}, {}, programs_of, compiled_as, [each.launch.kernel for each in launched])
    return DistributedCompiledProgram(parts, distributed_config(config), config)


def _is_empty(function: Callable[..., object]) -> bool:
    """Whether the body of a function is `...`."""
    code = getattr(function, "__code__", None)
    return code is not None and not code.co_names and code.co_consts in ((None,), (Ellipsis,), (None, Ellipsis), (Ellipsis, None)) and len(code.co_code) <= 8
