"""`@pl.jit`: a generic kernel that is specialised, compiled and run for whatever it is called with."""

from __future__ import annotations

import functools
import html
import inspect
import textwrap
import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

from tilejit import config as settings
from tilejit.errors import ArgumentError, TilejitError, did_you_mean
from tilejit.jit.bound import bound_kernels
from tilejit.jit.cache import CacheInfo, MemoryCache
from tilejit.jit.definition import Definition, Kernel, with_defaults
from tilejit.jit.disk import kernels as disk
from tilejit.jit.disk.shortcuts import Way
from tilejit.jit.explain import Explanation, nearest
from tilejit.jit.first_calls import FirstCalls
from tilejit.jit.programs import Found
from tilejit.jit.reads.answers import Answers
from tilejit.jit.reads.asking import asking
from tilejit.jit.reads.plain import is_plain
from tilejit.jit.reads.watch import Watch, watch_of
from tilejit.jit.specialize.arguments import Argument, BoundArguments, annotated_argument, bind_arguments, bind_others, stays_runtime
from tilejit.runtime.arrays import devices_of, view_of
from tilejit.runtime.artifact.compiled import CompiledProgram
from tilejit.runtime.bench import BoundCall
from tilejit.runtime.call.graphs import keep_out_of_graphs, untraced
from tilejit.runtime.call.guards import MISS, CallForm
from tilejit.runtime.call.native_type import enable
from tilejit.runtime.call.warm import MAKING, WarmCalls
from tilejit.runtime.config import RunConfig
from tilejit.runtime.ranks.recording import recording
from tilejit.runtime.targets import place_of, row_of
from tilejit.tracebacks import shortened

if TYPE_CHECKING:
    import os

    from tilejit.jit.hosts.launching import JitLaunch
    from tilejit.jit.specialize.program import Specialization
    from tilejit.tile_ir.program import Program
    from tilejit.view.page import Trace as CompileTrace
    from tilejit.view.profile import Profile


class JITFunction(FirstCalls):
    """A kernel that compiles itself for the arguments of each call."""

    __slots__ = ("_bound_ones", "_class_caches", "_form", "_formed", "_launch", "_of_ranks", "_warm")
    __name__: str

    def __init__(self, definition: Definition, cache: MemoryCache | None = None) -> None:
        given = getattr(definition.function, "__dict__", {}).items()  # attributes of the function, which may have the names of ours
        vars(self).update({name: value for name, value in given if not hasattr(JITFunction, name)})
        functools.update_wrapper(self, definition.function, updated=())
        super().__init__(definition, cache)
        self._class_caches: dict[type, MemoryCache] = {}
        self._warm: WarmCalls | None = None
        self._formed: Definition | None = None
        """The definition whose parameters the warm ways are known to take."""
        self._of_ranks: Definition | None = None
        """The definition that is known to be for several ranks."""
        self._launch: JitLaunch | None = None
        """How host functions see it, once one has launched it."""
        """The kernel of a class that this one is, and the object it is bound to."""
        self._bound_ones = weakref.WeakSet[JITFunction]()
        if cache is None:
            self._cache.when_cleared(self, JITFunction._forget)
        policy = definition.options.get("on_drift")
        if policy is not None and policy not in settings.POLICIES:
            choices = ", ".join(map(repr, settings.POLICIES))
            raise ArgumentError(f"{definition.label}: on_drift is one of {choices}, got {policy!r}", help="write on_drift='recompile'")

    def __repr__(self) -> str:
        return f"JITFunction({self.definition.name!r}, func_type={self.definition.kind!r})"

    def _repr_html_(self) -> str:
        """The signature and the text, for notebooks."""
        rows = "".join(f"<tr><td>{html.escape(param.name)}</td><td>{param.kind}</td><td>{param.direction}</td></tr>" for param in self.definition.params)
        info = self.cache_info()
        caption = f"<code>{html.escape(self.definition.name)}</code>, a @pl.jit kernel, {info.entries} compiled"
        head = "<tr><th>parameter</th><th>kind</th><th>direction</th></tr>"
        text = html.escape(textwrap.dedent("".join(self.definition.block.lines)).strip())
        return f"<table><caption>{caption}</caption>{head}{rows}</table><pre>{text}</pre>"

    # calling ------------------------------------------------------------------------------------------------------------------

    @untraced
    def __call__(self, /, *args: object, config: RunConfig | None = None, **kwargs: object) -> Any:
        """Specialise, compile unless that was done before, run. In a kernel it stands for the helper's results, so its type is open."""
        keep_out_of_graphs()
        try:
            if (warm := self._warm) is not None and config is None:
                given = args if not kwargs and len(args) <= self.definition.positional else self.definition.in_order(args, kwargs)
                if given is not None and (found := warm.run(given)) is not MISS:
                    return found
            way = self._first_way(args) if self._untried and config is None and not kwargs and recording() is None else None
            if way is not None and (known := self._by_shortcut(way)) is not None:
                result = known.checked(args, None)
                known.called = self._called = True
                return result
            return self._on_ranks(args, kwargs, config) if self._ranks or recording() is not None else self._run(args, config, kwargs, way)
        except TilejitError as error:
            raise shortened(error)  # noqa: B904 (the same error)

    def _run(self, args: tuple[object, ...], config: RunConfig | None, kwargs: Mapping[str, object], way: Way | None = None) -> Any:
        """A call with all its checks; where there may be a shortcut to it, it is written."""
        if (own := self._of_object(args, kwargs)) is not None:
            return self.__get__(own[0])(*own[1], config=config, **own[2])
        seen = settings.snapshot()
        with asking(self) as ask:
            trace = ask(self._trace())  # first: a kernel that follows changes has new defaults after it
            bound = bind_arguments(self.definition, args, kwargs, running=True)
            trace.arguments = bound.asked
            found = self._compiled(trace, bound, config)
        if way is not None:
            way.keep(found.key, found.trace, found.before)
        compiled = found.program
        values = list(bound.in_order(param.name for param in compiled.param_infos).values())
        result = compiled.checked(values, config)
        names = (*(param.name for param in self.definition.params[: len(args)]), *kwargs)
        plain = bound.direct and not self.definition.classes  # which may come to take part
        if plain and _says_all(compiled, bound, names) and not (config is not None and config.save_kernels):  # whose texts are written in each call
            if compiled.called and self._called and found.key.seen == seen:  # a kernel that runs once pays nothing for warm calls
                self._serve(found, {name: bound.values[name] for name in names}, config, seen)
            compiled.called = self._called = True
        return result

    def _of_object(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> tuple[object, tuple[object, ...], dict[str, object]] | None:
        """`Class.kernel(instance, x)` as the instance and the other arguments; None: it is no such call."""
        first = self._first if self._bound_as is None else None
        if first is None or not (args or first in kwargs) or view_of(instance := args[0] if args else kwargs[first]) is not None:
            return None
        return instance, args[1:], {name: value for name, value in kwargs.items() if name != first}

    @property
    def _ranks(self) -> bool:
        """Whether a call is one of several ranks; a host function may come to be one when its names are bound to something else."""
        definition = self.definition
        if self._of_ranks is not definition and (_speaks_of_ranks(definition) or definition.takes_windows):
            self._of_ranks = definition
        return self._of_ranks is definition

    def _on_ranks(self, args: tuple[object, ...], kwargs: Mapping[str, object], config: RunConfig | None) -> Any:
        """A call in a host function that runs now, of a host function, or of a function that takes windows."""
        from tilejit.jit.hosts import launching, ranks

        if recording() is not None:
            return launching.launched(self, args, kwargs, config)
        if (own := self._of_object(args, kwargs)) is not None:
            return self.__get__(own[0])(*own[1], config=config, **own[2])
        return (ranks.call_host if self.definition.kind == "host" else ranks.call_alone)(self, args, kwargs, config)

    def compile(self, *args: object, config: RunConfig | None = None, **kwargs: object) -> CompiledProgram:
        """The compiled program for sample arguments, or for the annotations when there are none; nothing runs."""
        try:
            if self._ranks and self.definition.kind == "host":
                from tilejit.jit.hosts.distributed import compile_host
                from tilejit.jit.specialize.dependencies import renew_host

                renew_host(self)
                compiled = compile_host(self.definition, args, kwargs, config)
                compiled.share(note=self._note)
                return compiled
            return self._found(args, kwargs, config).program
        except TilejitError as error:
            raise shortened(error)  # noqa: B904 (the same error)

    def _found(self, args: tuple[object, ...], kwargs: Mapping[str, object], config: RunConfig | None) -> Found:
        """The compiled program for sample arguments, with what Python was asked for it."""
        try:
            with asking(self) as ask:
                trace, bound = ask(self._trace()), self._sample(args, kwargs)
                trace.arguments = bound.asked
                return self._compiled(trace, bound, config)
        except TilejitError as error:
            raise shortened(error)  # noqa: B904 (the same error)

    def lower(self, *args: object, config: RunConfig | None = None, **kwargs: object) -> Program:
        """The program after the passes that print as Python: one kernel per region."""
        from tilejit.compiler import lower_program

        return lower_program(self._program(self._specialized(args, kwargs)), config)

    def specialized_source(self, *args: object, config: RunConfig | None = None, **kwargs: object) -> str:
        """The concrete `@pl.program` of this specialisation, as text that `pl.parse` accepts."""
        from tilejit.jit.specialize.text import source_text

        return source_text(self._specialized(args, kwargs))

    def trace(self, *args: object, path: str | os.PathLike[str] | None = None, config: RunConfig | None = None, **kwargs: object) -> CompileTrace:
        """Compile for these arguments, past every cache, and write a page that shows each step; a compile that fails is shown as far as it came."""
        from tilejit.jit.specialize.text import source_text
        from tilejit.view.page import write
        from tilejit.view.record import record

        place = replace(config or RunConfig(), platform=place_of(*self._wanted(config), devices_of((*args, *kwargs.values())))[0])
        special: list[Specialization] = []

        def program() -> Program:
            special.append(self._specialized(args, kwargs))
            return self._program(special[0])

        made = record(self.__name__, program, place)
        if special:
            made.texts = {"specialised source": source_text(special[0]), **made.texts}
        return write(made, path)

    def bound_call(self, *args: object, config: RunConfig | None = None, **kwargs: object) -> BoundCall:
        """A call with these arguments, compiled and checked once, to be run and timed again and again."""
        compiled = self.compile(*args, config=config, **kwargs)  # first: a kernel that follows changes has new defaults after it
        bound = bind_arguments(self.definition, args, kwargs, running=True)
        values = list(bound.in_order(param.name for param in compiled.param_infos).values())
        call = BoundCall(compiled.only("time"), values, config.num_threads if config else None)
        call.announce()
        return call

    def profile(self, *args: object, rounds: int = 20, config: RunConfig | None = None, **kwargs: object) -> Profile:
        """Run on these arguments, and say where the time goes: region by region, against what this machine can do. Outputs are written, as by a call."""
        from tilejit.view.profile import profile

        call = self.bound_call(*args, config=config, **kwargs)
        place = replace(config or RunConfig(), platform=place_of(*self._wanted(config), devices_of((*args, *kwargs.values())))[0])
        return profile(self.__name__, self._program(self._specialized(args, kwargs)), call, place, rounds)

    def as_torch_op(self, name: str, *, backward: Kernel | None = None, in_place: bool = False, config: RunConfig | None = None) -> Callable[..., Any]:
        """This kernel as the operator `namespace::name` of torch: for `torch.compile`, `torch.export` and, with a `backward` kernel, autograd.

        Outputs are returned; with `in_place` they are arguments that the operator writes.
        """
        from tilejit.jit.torch_op import as_torch_op

        return as_torch_op(self, name, backward, in_place, config)

    def with_choices(self, defaults: Mapping[str, object], schedule: Mapping[str, Mapping[str, object]]) -> JITFunction:
        """This kernel with other defaults, and with choices of the backend replaced, by nest, as `RunConfig(schedule=…)` does for a call."""
        definition = self.definition
        options = {**definition.options, "schedule": RunConfig(schedule=schedule).schedule} if schedule else definition.options
        function = with_defaults(cast("FunctionType", definition.function), defaults)
        return JITFunction(Definition(function, definition.kind, options, definition.extra, definition.around))

    def _specialized(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Specialization:
        with asking(self) as ask:
            trace, bound = ask(self._trace()), self._sample(args, kwargs)
            trace.arguments = bound.asked
            return self._specialize(trace, self._extents_of(trace), bound)

    def explain(self, *args: object, config: RunConfig | None = None, **kwargs: object) -> Explanation:
        """Would this call hit a cache? If not: which fields of the key differ from the nearest entry. Asks everything that a call would ask."""
        with asking(self) as ask:
            trace = ask(self._begun(Answers(), {}, "ignore" if self._policy() == "ignore" else "recompile"))
            bound = self._sample(args, kwargs, trace.entry)
            trace.arguments = bound.asked
            extents = self._extents_of(trace)
            key = self._first_part(trace, extents, bound, config)
            walk = trace.fork()
            if self._cache.tree(key.digest).find(walk) is not None:
                return Explanation("memory", note=Watch(walk).described())
            if row_of(key.platform).cacheable and (there := disk.find_artifact(key, trace)) is not None:
                return Explanation("disk", note=Watch(there[1]).described())
            walk = trace.fork()
            self._specialize(walk, extents, bound)
        near = nearest({**key.fields, "reads": walk.described()}, self._entries())
        note = Watch(walk).described()
        return Explanation(None, near[1], near[0], note) if near else Explanation(None, note=note)

    def cache_info(self) -> CacheInfo:
        """Entries, hits, misses and seconds spent compiling."""
        info = self._cache.info()
        return info._replace(hits=info.hits + (self._warm.all_hits if self._warm is not None else 0))

    def cache_clear(self, disk: bool = False) -> None:
        """Forget every compiled program and what the captured values were; with `disk=True` on disk too. In a class: those of its objects, too."""
        if disk:
            self._clear_disk()
        with self._lock:
            caches, kernels = [self._cache, *self._class_caches.values()], [self, *self._bound_ones]
        for cache in caches:
            cache.clear()
        for kernel in kernels:
            kernel._start_anew()

    def _clear_disk(self) -> None:
        name = disk.kernel_name(self.definition)
        for key, fields in self._entries():
            if fields.get("kernel") == name:
                disk.store().remove(key)

    # warm calls ---------------------------------------------------------------------------------------------------------------

    def _serve(self, found: Found, values: Mapping[str, object], config: RunConfig | None, seen: list[object]) -> None:
        """Let calls like the one that just succeeded take a warm way."""
        compiled = found.program
        with MAKING:
            if self._warm is None or self._formed is not self.definition:
                stays = {param.name: stays_runtime(self.definition, param) for param in self.definition.params}
                form = (list(stays.items()), self.definition.positional)
                if self._warm is None:
                    self._warm, self._form = WarmCalls(self, functools.partial(JITFunction.__call__, self), CallForm(stays, self.definition.positional)), form
                elif form != self._form:
                    return  # the code was replaced, and has its parameters in another order or by other names: its warm ways are for those before
                self._formed = self.definition
        watch = watch_of(found.trace, self._warm.watches) if self._policy() != "ignore" else None
        if watch is not None:
            watch.warn_if_slow(disk.kernel_name(self.definition), found.trace.seconds, self._spent)
        self._warm.serve(compiled.only("call"), values, config, watch, seen)

    def _forget(self) -> None:
        if self._warm is not None:
            self._warm.forget()
        with self._lock:
            bound = list(self._bound_ones)
        for kernel in bound:
            kernel._forget()

    # methods ------------------------------------------------------------------------------------------------------------------

    def __get__(self, instance: object, owner: type | None = None) -> JITFunction:
        """A kernel in a class: `self` (or `cls`) is bound and read while compiling."""
        first = self._first
        if instance is None or first is None:
            return self
        kept = bound_kernels(instance)
        found = kept.get(self) if kept is not None else None
        if found is None:
            found = self._bound(instance, first)
            if kept is not None:
                kept[self] = found
        return found

    @property
    def _first(self) -> str | None:
        """The parameter that an object is bound to."""
        code = cast("FunctionType", self.definition.function).__code__
        first = code.co_varnames[0] if code.co_argcount else None
        return first if first in ("self", "cls") else None

    def _bound(self, instance: object, first: str) -> JITFunction:
        """The kernel with its first parameter bound; all objects of a class share what is compiled."""
        definition = self.definition
        owner = instance if isinstance(instance, type) else type(instance)
        with self._lock:
            cache = self._class_caches.get(owner)
            if cache is None:
                cache = self._class_caches[owner] = MemoryCache()
                cache.when_cleared(self, JITFunction._forget)
            extra = {**definition.extra, first: instance}
            bound = JITFunction(Definition(definition.function, definition.kind, definition.options, extra, definition.around), cache)
            bound._bound_as = (self, instance)
            self._bound_ones.add(bound)
        return bound

    # sample arguments ---------------------------------------------------------------------------------------------------------

    def _sample(self, args: tuple[object, ...], kwargs: Mapping[str, object], definition: Definition | None = None) -> BoundArguments:
        definition = definition or self.definition
        if args or any(view_of(value) is not None for value in kwargs.values()):
            return bind_arguments(definition, args, kwargs, running=False)
        return self._from_annotations(definition, kwargs)

    def _from_annotations(self, definition: Definition, kwargs: Mapping[str, object]) -> BoundArguments:
        names = [param.name for param in definition.params]
        unknown = [name for name in kwargs if name not in names]
        if unknown:
            help = did_you_mean(unknown[0], names) or f"options of the compiler go into config=RunConfig(…); parameters: {', '.join(names)}"
            raise ArgumentError(f"{definition.label}: got an unexpected keyword argument '{unknown[0]}'", help=help)
        arguments: dict[str, Argument] = {}
        values: dict[str, object] = {}
        for param in definition.params:
            if param.kind == "tensor":
                arguments[param.name] = annotated_argument(definition, param)
                continue
            value = kwargs.get(param.name, param.default)
            if value is inspect.Parameter.empty:
                help = f"pass {param.name}=… or {param.name}=pl.RUNTIME"
                raise ArgumentError(f"{definition.label}: the scalar `{param.name}` needs a value", help=help)
            values[param.name] = value
        others, parts = bind_others(definition, values)
        bound = {param.name: arguments.get(param.name) or others[param.name] for param in definition.params}
        return BoundArguments(values, bound, objects=parts.objects, of_classes=parts.of_classes)


def _speaks_of_ranks(definition: Definition) -> bool:
    if definition.kind != "host":  # most kernels: what only ranks need is not imported for them
        return False
    from tilejit.jit.hosts import ranks

    return ranks.is_distributed(definition)


def _says_all(compiled: CompiledProgram, bound: BoundArguments, names: Collection[str]) -> bool:
    """Whether a call gives all that the program takes: no output is given as None, no tensor or run-time scalar is the default of its parameter, and no
    default is an array, which may hold another number at the next call."""
    named = all(param.name in names for param in compiled.param_infos if param.name in bound.values)
    fixed = all(name in names or is_plain(value) for name, value in bound.values.items())
    return named and fixed and not bound.partial and all(name in bound.values for name in names)


enable(JITFunction)
