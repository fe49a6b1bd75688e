"""Kernels that host functions launch: how a recorder sees them, and how the text of a host function is run for it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tilejit import config as settings
from tilejit.errors import ArgumentError
from tilejit.jit.definition import Definition
from tilejit.jit.hosts.own_names import check_names
from tilejit.jit.reads.plain import is_plain, written
from tilejit.jit.reads.watch import Watch, watch_of
from tilejit.jit.specialize.signature import JitParam
from tilejit.kinds import is_a
from tilejit.runtime.arrays import DeviceTensor, view_of
from tilejit.runtime.config import RunConfig
from tilejit.runtime.ranks.host import Recorder
from tilejit.runtime.ranks.launches import LaunchParam
from tilejit.runtime.ranks.plan import GroupOf, HostTensor, Window
from tilejit.runtime.ranks.recording import recording
from tilejit.runtime.ranks.standins import Language
from tilejit.types.annotations import WindowAnnotation

if TYPE_CHECKING:
    from tilejit.jit.function import JITFunction
    from tilejit.jit.programs import Found


class JitLaunched:
    """A program that a kernel was compiled to for one kind of arguments, as long as nothing that it stands on has changed; in doubt it is looked up again."""

    def __init__(
        self, launch: JitLaunch, generation: object, found: Found, values: Mapping[str, object], config: RunConfig | None, watch: Watch | None
    ) -> None:
        self.launch, self.program, self.config = launch, found.program, config
        self.entry = found.program.only("launch")
        self.values = {name: _without_memory(value) for name, value in values.items()}
        self._generation, self._seen, self._watch = generation, found.key.seen, watch
        self._ask = watch.asker([watch.questions], set()) if watch is not None else None
        rows = found.trace.log if watch is not None else ()
        self.reads: Mapping[object, object] = {(launch.kernel, asked.identity): asked.shared for asked in rows if not asked.given}

    def holds(self) -> bool:
        """First what is in memory, then what has to be asked, then what asking may have changed."""
        launch, watch = self.launch, self._watch
        if watch is None or self._generation is not launch.generation or launch.kernel.definition is not launch.definition:
            return False
        if settings.snapshot() != self._seen or not watch.same_words():
            return False
        return self._ask is None or (self._ask() and watch.same_words())

    def text(self) -> str:
        program: Any = self.program.program
        return program.as_python() if program is not None else self.launch.definition.digest


class JitLaunch:
    """A kernel as a recorder sees it."""

    def __init__(self, kernel: JITFunction) -> None:
        self.kernel, self.definition = kernel, kernel.definition
        self.generation: dict[object, JitLaunched] = {}
        """What is known since the cache was cleared, by kind of arguments."""
        kernel._cache.when_cleared(self, JitLaunch._forget)
        self.name = kernel.definition.name
        self.params = tuple(_param(param) for param in kernel.definition.params)

    def compiled(self, values: Mapping[str, object], config: RunConfig | None) -> JitLaunched:
        key, generation = tuple(map(_kind, values.values())), self.generation
        known = generation.get(key)
        config = replace(config, distributed_config=None) if config is not None else None  # the same code for every world
        if known is None or known.config != config or not known.holds():
            found = self.kernel._found((), values, config)
            watch = watch_of(found.trace, ()) if self.kernel._policy() != "ignore" else None
            known = generation[key] = JitLaunched(self, generation, found, values, config, watch)
        return known

    def _forget(self) -> None:
        self.generation = {}


def _without_memory(value: object) -> object:
    """An argument by its shape and dtype only, where it is an array."""
    return np.broadcast_to(np.empty((), value.dtype), value.shape) if is_a(value, np.ndarray) else value


def _kind(value: object) -> object:
    """What a program depends on of an argument."""
    if is_a(value, np.ndarray, DeviceTensor):
        return value.shape, value.dtype, value.device
    return written(value) if is_plain(value) else (type(value), id(value))  # which the kernel refuses


def _param(param: JitParam) -> LaunchParam:
    default = ... if param.default is inspect.Parameter.empty or param.stays_runtime else param.default
    if param.tensor is None:
        kind = "scalar" if param.dtype is not None or param.stays_runtime else "static" if param.kind == "static" else "open"
        return LaunchParam(param.name, kind, dtype=param.dtype, default=default)
    kind = "window" if isinstance(param.tensor, WindowAnnotation) else "tensor"
    return LaunchParam(param.name, kind, param.tensor.shape, param.tensor.dtype, default, param.direction)


def launch_of(kernel: JITFunction) -> JitLaunch:
    """One per kernel and definition, so that recorders know it again; what was replaced in the kernel since is read again, or an error."""
    kernel._follow(kernel._policy())
    found = kernel._launch
    if found is None or found.definition is not kernel.definition:
        found = kernel._launch = JitLaunch(kernel)
    return found


def launched(kernel: JITFunction, args: Sequence[object], named: Mapping[str, object], config: RunConfig | None) -> object:
    """A call of a kernel in a host function that runs now: a launch, unless it is on arrays of somebody else, of which the ranks know nothing."""
    recorder = recording()
    assert recorder is not None
    given = (*args, *named.values())
    if kernel.definition.kind != "host" and "device" not in named and any(map(_is_array, given)) and not any(map(_stands_in, given)):
        recorder.steady = False
        with recorder.paused():
            return kernel(*args, config=config, **named)
    if kernel.definition.kind == "host":
        return run_text(kernel.definition, recorder, list(args), dict(named))
    if kernel.definition.kind == "inline":
        recorder.fail(ArgumentError, f"`{kernel.definition.name}` is an inline function and cannot be launched", help="call it in a function that is launched")
    return recorder.launch((recorder.kernels or launch_of)(kernel), args, named)


def run_text(definition: Definition, recorder: Recorder, args: list[object], named: Mapping[str, object] | None = None) -> object:
    """Run the text of a host function on stand-ins."""
    function = definition.function
    assert isinstance(function, FunctionType)
    check_names(definition, function)
    if (receiver := definition.receiver) is not None:
        args = [receiver, *args]
    if recorder.codes:
        _check_inner(definition, function, recorder, args, named or {})
    if recorder.copies is not None:
        recorder.steady = recorder.steady and function in recorder.copies
        function = recorder.copies.get(function, function)
    recorder.codes[function.__code__] = lambda: definition.running
    if recorder.language is None:
        recorder.language = Language(recorder)
    return cast("Language", recorder.language).bound(function)(*args, **(named or {}))


def _check_inner(definition: Definition, function: FunctionType, recorder: Recorder, args: Sequence[object], named: Mapping[str, object]) -> None:
    """A host function that another one calls is given all its parameters, and nothing that the ranks do not know."""
    if any(map(_is_array, (*args, *named.values()))):
        what = f"the host function `{definition.name}` is called on an array while the text of another one is read"
        recorder.fail(ArgumentError, what, help="call it before, and pass what it gives as an argument")
    try:
        inspect.signature(function).bind(*args, **named)
    except TypeError as error:
        help = f"pass all its parameters, outputs too: {', '.join(param.name for param in definition.params)}"
        recorder.fail(ArgumentError, f"the host function `{definition.name}` cannot be called so: {error}", help=help)


def _stands_in(value: object) -> bool:
    return is_a(value, HostTensor, Window, GroupOf)


def _is_array(value: object) -> bool:
    return not _stands_in(value) and view_of(value) is not None
