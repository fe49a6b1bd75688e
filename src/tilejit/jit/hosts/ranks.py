"""`@pl.jit.host`: a host function is run on stand-ins to find out what the ranks do; functions that are launched compile themselves as usual."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol

from tilejit import config as settings
from tilejit import float_mode
from tilejit.errors import ArgumentError, ParserTypeError
from tilejit.frontend.hosts import named_values, speaks_of_ranks
from tilejit.jit.definition import Definition, Kernel
from tilejit.jit.hosts.given import Stacks, allocated, device_of, on_gpu, symbols_of, tensor_of, unstacked
from tilejit.jit.hosts.launching import launch_of, run_text
from tilejit.jit.hosts.replays import Key, Replay, Replays, key_of, replays_of
from tilejit.jit.specialize.arguments import bind_arguments
from tilejit.jit.specialize.dependencies import renew_host
from tilejit.kinds import is_a
from tilejit.runtime.arrays import ArrayView, first_array, number_of, view_of
from tilejit.runtime.call.autograd import GradNote
from tilejit.runtime.call.signature import check_output, check_writable
from tilejit.runtime.config import RunConfig
from tilejit.runtime.ranks.call import Call
from tilejit.runtime.ranks.config import DistributedConfig
from tilejit.runtime.ranks.engines import Held, world_of
from tilejit.runtime.ranks.host import Recorder
from tilejit.runtime.ranks.plan import Fact, GroupOf, HostTensor, Plan, StackedTensor, Step, Window, WindowBuffer
from tilejit.runtime.ranks.resident import Sharded, StackedDeviceTensor
from tilejit.runtime.targets import HOST
from tilejit.types.annotations import WindowAnnotation

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tilejit.jit.function import JITFunction
    from tilejit.runtime.ranks.engine import Engine
    from tilejit.runtime.ranks.launches import Launchable


Copies = Mapping[FunctionType, FunctionType] | None


class Worker(Protocol):
    """Ranks that were started for several calls."""

    def held(self, config: DistributedConfig | None) -> AbstractContextManager[Engine]: ...

    def keeps(self, plan: Plan) -> bool:
        """Whether windows keep what they hold from the last call."""
        ...


@dataclass(frozen=True)
class Compiled:
    """What a host function of a compiled program finds there."""

    me: Callable[[Recorder], object] | None = None
    """Its `self`."""
    methods: Collection[str] = ()
    """What that has."""
    kernels: Callable[[JITFunction], Launchable] | None = None
    """What the kernels that it names were compiled to."""


_NOT_COMPILED = Compiled()


def is_distributed(definition: Definition) -> bool:
    """Whether a host function speaks of ranks; others are orchestrations of one device."""
    return definition.kind == "host" and _speaks(definition, set())


def _speaks(definition: Definition, seen: set[Definition]) -> bool:
    function = definition.function
    assert isinstance(function, FunctionType)
    if definition in seen:
        return False
    seen.add(definition)
    hosts = [value.definition for value in named_values(function) if is_a(value, Kernel) and value.definition.kind == "host"]
    return speaks_of_ranks(function) or any(_speaks(host, seen) for host in hosts)


# calls ------------------------------------------------------------------------------------------------------------------


def distributed_config(config: RunConfig | None) -> DistributedConfig | None:
    found = config.distributed_config if config is not None else None
    if found is not None and not isinstance(found, DistributedConfig):
        raise ArgumentError(f"distributed_config is a DistributedConfig, got {type(found).__name__}", help="from tilejit.runtime import DistributedConfig")
    return found


def call_host(kernel: JITFunction, args: tuple[object, ...], named: Mapping[str, object], config: RunConfig | None) -> object:
    """One call of a host function: record, run, hand out."""
    renew_host(kernel)  # it is run anew at each call, so its defaults and annotations count as they are
    return run_host(kernel.definition, args, named, config, kernel._note)


def check_params(definition: Definition) -> None:
    """A host function takes no windows, and no objects that stand for tensors."""
    for param in definition.params:
        if param.wrap is not None:
            raise ParserTypeError(
                f"`{param.name}` of a host function is annotated {param.wrap.__name__}: it takes tensors and numbers, which ranks are given",
                span=definition.span(definition.node_of(param)),
                help=f"annotate the tensor that it stands for, {param.name}: pl.Tensor[[rows, columns], dtype], and pass that",
            )
        if isinstance(param.tensor, WindowAnnotation):
            raise ParserTypeError(
                f"`{param.name}` of a host function is a window: windows are made inside",
                span=definition.span(definition.node_of(param)),
                help="pld.alloc_window_buffer and pld.window make one",
            )


def run_host(
    definition: Definition,
    args: tuple[object, ...],
    named: Mapping[str, object],
    config: RunConfig | None,
    note: GradNote,
    compiled: Compiled = _NOT_COMPILED,
    worker: Worker | None = None,
) -> object:
    """A call of a host function, of a compiled program or as it is now; `worker` is what was prepared for it."""
    chosen = distributed_config(config)
    with worker.held(chosen) if worker is not None else Held(chosen) as engine:
        return record_host(definition, args, named, config, note, compiled, engine).run(engine, worker)


def record_host(
    definition: Definition,
    args: tuple[object, ...],
    named: Mapping[str, object],
    config: RunConfig | None,
    note: GradNote,
    compiled: Compiled,
    engine: Engine,
) -> HostCall:
    """Read the text, or know what it says; nothing runs."""
    check_params(definition)
    replays = replays_of(definition, compiled.methods)
    plain = definition.in_order(args, named) if not engine.several else None
    key = key_of(plain, engine.world)
    replay = replays.pop(key, config)
    if replay is not None and plain is not None:
        new = replay.take(plain)
    else:
        given = _Given(definition, args, named, engine.world, engine.here)
        copies = replays.names.copies if replays.names is not None and key is not None else None
        replay, new = _recorded(given, engine, config, compiled, copies), given.new
        given.announce(note, replay.plan)  # calls with arrays of torch are never done again without this
        key = key if plain is not None and replay.again(plain) else None
    return HostCall(replays, key, replay, new, distributed_config(config), float_mode.bits())


@dataclass(frozen=True)
class HostCall:
    """A call whose text was read, to be run once."""

    replays: Replays
    key: Key | None
    replay: Replay
    new: Mapping[str, object]
    chosen: DistributedConfig | None
    mode: int
    """How the thread that read the text computes with floats: its kernels are for that, whichever thread lets them run."""

    def run(self, engine: Engine, worker: Worker | None) -> object:
        """Let the ranks do it, and hand out what they made."""
        keep = worker is not None and worker.keeps(self.replay.plan)
        with float_mode.held(self.mode):
            Call(engine, self.replay.plan, self.chosen or DistributedConfig(list(range(engine.world))), keep).run()
        self.replays.keep(self.key, self.replay)
        if not self.new:
            return None
        order = [self.new[name] for name in self.replay.order]
        return order[0] if len(order) == 1 else tuple(order)


def is_copied(value: object) -> bool:
    """Whether reading a text takes something out of an argument: a number, or elements that do not lie in one piece."""
    if is_a(value, bool, int, float, StackedDeviceTensor, Sharded):
        return False
    view = view_of(value)
    return view is None or not view.shape or not view.contiguous


def _recorded(given: _Given, engine: Engine, config: RunConfig | None, compiled: Compiled, copies: Copies) -> Replay:
    """Run the text."""
    recorder, result = given.recorded(engine.world, config, compiled, copies)
    plan = recorder.finish()
    if engine.several:
        plan.facts = _facts(given.definition, recorder, given.values)
    return Replay(recorder, plan, given.tensors, given.new, _returned(result, given.tensors, given.new), config)


def recorded_only(definition: Definition, args: tuple[object, ...], named: Mapping[str, object], config: RunConfig | None) -> Recorder:
    """What a host function does with such arguments, or with arrays as its annotations describe; nothing runs."""
    check_params(definition)
    if not args and not named:
        args = tuple(allocated(param, None, {}) if param.tensor is not None else 0 for param in definition.params)
    world = world_of(distributed_config(config))
    recorder, _ = _Given(definition, args, named, world, range(world)).recorded(world, config, _NOT_COMPILED, None)
    return recorder


class _Given:
    """The arguments of one call of a host function."""

    def __init__(self, definition: Definition, args: tuple[object, ...], named: Mapping[str, object], world: int, here: Sequence[int]) -> None:
        stacks: Stacks = {}
        args = tuple(unstacked(value, stacks, world, here) for value in args)
        named = {name: unstacked(value, stacks, world, here) for name, value in named.items()}
        bound = bind_arguments(definition, args, named, running=True)
        tensors = {param.name for param in definition.params if param.tensor is not None}
        self.definition = definition
        self.values = {name: value if name in tensors else number_of(value) for name, value in bound.values.items()}
        views = {param.name: view_of(self.values[param.name]) for param in definition.params if param.tensor is not None and param.name in self.values}
        first = first_array([view for view in views.values() if view is not None])
        self.framework = first.framework if first is not None else "numpy"
        self.device = device_of(definition, views)
        self.symbols = symbols_of(definition.params, views)
        self.new = {name: allocated(definition.param(name), first, self.symbols) for name in bound.omitted}
        """Outputs that the caller left out."""
        shapes = {**views, **{name: view_of(array) for name, array in self.new.items()}}
        self.tensors = {name: tensor_of(definition, name, view, self.values.get(name), stacks) for name, view in shapes.items()}
        self._arrays = {name: stacks[id(value)].local if id(value := self.values[name]) in stacks else view for name, view in views.items()}
        """The caller's; None for those that stay with ranks."""

    def recorded(self, world: int, config: RunConfig | None, compiled: Compiled, copies: Copies) -> tuple[Recorder, object]:
        """Run the text on stand-ins; what the ranks will do, and what it returned."""
        recorder = Recorder(Plan(world, device=self.device), config, symbols=self.symbols, framework=self.framework, copies=copies, kernels=compiled.kernels)
        recorder.plan.tensors = [tensor for tensor in self.tensors.values() if tensor.home is None and not isinstance(tensor, StackedTensor)]
        values = {param.name: self.tensors.get(param.name, self.values.get(param.name)) for param in self.definition.params}
        named = {param.name: values.pop(param.name) for param in self.definition.params if param.keyword_only}
        with recorder:
            return recorder, run_text(self.definition, recorder, [*([compiled.me(recorder)] if compiled.me is not None else []), *values.values()], named)

    def announce(self, note: GradNote, plan: Plan) -> None:
        """The plan is about to run: the caller's arrays that it writes can be written, and autograd hears of it."""
        written = plan.written
        _announce(note, self.definition, self._arrays, {name for name, tensor in self.tensors.items() if not written.isdisjoint(tensor.pieces)})


def _announce(note: GradNote, definition: Definition, arrays: Mapping[str, ArrayView | None], written: Collection[str], copied: Collection[str] = ()) -> None:
    """A call is about to run on these arrays; `written`: which of them its steps write, whatever is declared; `copied`: to which it copies when it is over."""
    given = [
        (name, "InOut" if name in written or name in copied else definition.param(name).direction, view)
        for name, view in arrays.items()
        if view is not None
    ]
    for name, direction, view in given:
        if direction != "In":
            (check_writable if name in copied else check_output)(name, view)
    note.before(definition.name, given)


def _facts(definition: Definition, recorder: Recorder, values: Mapping[str, object]) -> dict[str, Fact]:
    """What the processes of a call compare."""
    version = import_module("tilejit").__version__
    coded = [(name, setting) for name, setting in settings.VARIABLES.items() if setting.affects_code]
    scalars = {param.name: values.get(param.name) for param in definition.params if param.tensor is None}
    return {
        "the version of tilejit": Fact(version, "install one version of tilejit for all processes"),
        **{f"the setting {name}": Fact(setting.value, f"set {name} to one value for all processes, or for none") for name, setting in coded},
        "how they compute with floats": Fact(float_mode.bits(), "set the rounding, and whether denormals are flushed, alike in the threads that make the call"),
        "the text of the host function": Fact(definition.facts.digest),
        "the kernels that are launched": Fact([launched.text() for launched in recorder.compiled.values()]),
        "the shapes of the arguments": Fact([(tensor.name, tensor.shape, str(tensor.dtype)) for tensor in recorder.plan.tensors]),
        "the scalars": Fact(scalars),
        "the launches": Fact([(step.rank, step.name, [*map(_shown, step.given)]) for step in recorder.plan.steps]),
    }


def _shown(value: object) -> object:
    """What a launch gives to its kernel, as other processes would say it: parts of tensors by their places, numbers as they are."""
    if is_a(value, HostTensor):
        return (_shown(value.whole), value.at) if value.whole is not None else (value.name, value.shape)
    if is_a(value, Window, GroupOf):
        window = value.window if is_a(value, GroupOf) else value
        return window.buffer.name, window.shape, type(value).__name__
    return type(value).__name__, repr(value)


def _returned(result: object, tensors: Mapping[str, HostTensor], new: Mapping[str, object]) -> list[str]:
    """New outputs, in the order of the return statement where it names them."""
    items = result if isinstance(result, tuple) else (result,)
    named = [name for item in items for name, tensor in tensors.items() if item is tensor and name in new]
    return list(dict.fromkeys((*named, *new)))


def call_alone(kernel: JITFunction, args: tuple[object, ...], named: Mapping[str, object], config: RunConfig | None) -> object:
    """A function that takes windows, called directly: a world of one whose windows are the arrays that were given."""
    target = launch_of(kernel)  # first: a kernel that follows changes has new defaults after it
    definition = target.definition
    given = bind_arguments(definition, args, named, running=True)
    values: dict[str, object] = {}
    copies: list[tuple[Window, Any]] = []
    views = {param.name: view_of(given.values.get(param.name)) if param.kind in ("tensor", "window") else None for param in target.params}
    plan = Plan(1, device=device_of(definition, views))
    for param in target.params:
        view = views[param.name]
        array = None if view is None else view.numpy() if view.device == HOST else on_gpu(definition, param.name, view)
        if param.kind == "window" and view is not None and array is not None:
            buffer = WindowBuffer(param.name, max(array.nbytes, 1), viewed=True, ranks={0})
            plan.buffers.append(buffer)
            window = Window(buffer, view.shape, view.dtype)
            copies.append((window, array))
            values[param.name] = window
        else:
            values[param.name] = HostTensor(array, param.name) if array is not None else given.values.get(param.name)
    with Held(DistributedConfig([0], engine="local")) as engine:
        recorder = Recorder(plan, config)
        with recorder:
            recorder.launch(target, [], {**values, "device": 0})
        (step,) = recorder.events
        assert isinstance(step, Step)

        def run(call: Any, rank: int, inner: Any = step.run) -> None:
            access = call.memory.access(rank)
            for window, array in copies:
                access.copy(call.window(window, rank), array)
            inner(call, rank)
            for window, array in copies:
                access.copy(array, call.window(window, rank))

        step.run, whole = run, recorder.finish()
        _announce(kernel._note, definition, views, {tensor.name for tensor in whole.written}, {window.buffer.name for window, _ in copies})
        Call(engine, whole, DistributedConfig([0])).run()
    return None
