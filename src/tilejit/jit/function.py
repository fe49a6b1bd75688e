"""`@pl.jit`: a generic kernel that is specialised, compiled and run for whatever it is called with."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tilejit import config as settings
from tilejit.errors import ArgumentError, ArtifactError, TilejitError, did_you_mean
from tilejit.jit.cache import CacheInfo, MemoryCache, when_forked
from tilejit.jit.definition import Definition, Kernel
from tilejit.jit.disk import kernels as disk
from tilejit.jit.disk.code import CodeCache
from tilejit.jit.disk.fingerprint import sources_changed
from tilejit.jit.explain import Explanation, nearest
from tilejit.jit.fast import WarmCalls
from tilejit.jit.reads import facts
from tilejit.jit.reads.captures import uncovered
from tilejit.jit.reads.standing import Standing
from tilejit.jit.specialize.arguments import (
    Argument,
    BoundArguments,
    TensorArgument,
    annotated_argument,
    argument_fields,
    bind_arguments,
    stays_runtime,
)
from tilejit.jit.specialize.meta import RuntimeScalar
from tilejit.runtime.arrays import devices_of, view_of
from tilejit.runtime.artifact.compiled import CompiledProgram
from tilejit.runtime.call.autograd import GradNote
from tilejit.runtime.call.native_type import enable
from tilejit.runtime.call.straight import MISS
from tilejit.runtime.config import RunConfig
from tilejit.runtime.store.entry import Entry, fields_text
from tilejit.runtime.targets import place_of, row_of
from tilejit.types.annotations import RuntimeMarker

if TYPE_CHECKING:
    from tilejit.jit.specialize.program import Specialization
    from tilejit.tile_ir.program import Program


class JITFunction(Kernel):
    """A kernel that compiles itself for the arguments of each call."""

    __name__: str

    def __init__(self, definition: Definition, cache: MemoryCache | None = None) -> None:
        functools.update_wrapper(self, definition.function)
        self.definition = definition
        self._cache = MemoryCache() if cache is None else cache
        self._lock = threading.RLock()
        self._outputs: dict[str, Mapping[str, TensorArgument]] = {}
        self._standing: Standing | None = None
        self._class_caches: dict[type, MemoryCache] = {}
        self._warm: WarmCalls | None = None
        self._called = False
        self._note = GradNote()
        self._bound_as: tuple[JITFunction, object] | None = None
        """The kernel of a class that this one is, and the object it is bound to."""
        self._bound_ones = weakref.WeakSet[JITFunction]()
        if cache is None:
            self._cache.when_cleared(self, JITFunction._forget)
        when_forked(self, JITFunction._new_lock)
        policy = definition.options.get("on_drift")
        if policy is not None and policy not in settings.POLICIES:
            choices = ", ".join(map(repr, settings.POLICIES))
            raise ArgumentError(f"@pl.jit function '{definition.name}': on_drift is one of {choices}, got {policy!r}", help="write on_drift='recompile'")

    def __repr__(self) -> str:
        return f"JITFunction({self.definition.name!r}, func_type={self.definition.kind!r})"

    # calling ------------------------------------------------------------------------------------------------------------------

    def __call__(self, *args: object, config: RunConfig | None = None, **kwargs: object) -> Any:
        """Specialise, compile unless that was done before, run. In a kernel it stands for the helper's results, so its type is open."""
        given = None if config is not None else self.definition.in_order(args, kwargs)
        if given is not None and self._warm is not None and (found := self._warm.run(given)) is not MISS:
            return found
        seen = settings.snapshot()
        standing = self._current()  # first: a kernel that follows changes has new defaults after it
        bound = bind_arguments(self.definition, args, kwargs, running=True)
        compiled = self._compiled(standing, bound, config)
        values = [bound.values[param.name] for param in compiled.param_infos if param.name in bound.values]
        try:
            result = compiled(*values, config=config)
        except TilejitError as error:
            compiled.relocate(error)
            raise
        if given is not None and len(given) + len(bound.omitted) == len(self.definition.params) and not bound.signatures:
            if compiled.called and self._called:  # a kernel that runs once pays nothing for warm calls
                self._serve(standing, compiled, bound.values, seen)
            compiled.called = self._called = True
        return result

    def compile(self, *args: object, config: RunConfig | None = None, **kwargs: object) -> CompiledProgram:
        """The compiled program for sample arguments, or for the annotations when there are none; nothing runs."""
        return self._compiled(self._current(), self._sample(args, kwargs), config)

    def lower(self, *args: object, config: RunConfig | None = None, **kwargs: object) -> Program:
        """The program after the passes that print as Python: one kernel per region."""
        from tilejit.compiler import lower_program

        return lower_program(self._program(self._specialise(self._sample(args, kwargs))), config)

    def specialized_source(self, *args: object, config: RunConfig | None = None, **kwargs: object) -> str:
        """The concrete `@pl.program` of this specialisation, as text that `pl.parse` accepts."""
        from tilejit.jit.specialize.text import source_text

        return source_text(self._specialise(self._sample(args, kwargs)))

    def explain(self, *args: object, config: RunConfig | None = None, **kwargs: object) -> Explanation:
        """Would this call hit a cache? If not: which fields of the key differ from the nearest entry."""
        standing = self._current(check=False)
        bound = self._with_outputs(self._sample(args, kwargs))
        note = standing.cost()
        key = self._key(standing, bound, config)
        if key.digest in self._cache:
            return Explanation("memory", note=note)
        if row_of(key.platform).cacheable and disk.store().get(key.digest) is not None:
            return Explanation("disk", note=note)
        found = nearest({**key.fields, "reads": standing.captures.described()}, self._entries())
        return Explanation(None, found[1], found[0], note) if found else Explanation(None, note=note)

    def cache_info(self) -> CacheInfo:
        """Entries, hits, misses and seconds spent compiling."""
        info = self._cache.info()
        return info._replace(hits=info.hits + (self._warm.all_hits if self._warm is not None else 0))

    def cache_clear(self, disk: bool = False) -> None:
        """Forget every compiled program and what the captured values were; with `disk=True` on disk too."""
        if disk:
            self._clear_disk()
        self._cache.clear()
        self._outputs.clear()
        self._standing = None
        self.definition = self.definition.anew()

    def _clear_disk(self) -> None:
        name = disk.kernel_name(self.definition)
        for key, fields in self._entries():
            if fields.get("kernel") == name:
                disk.store().remove(key)

    def _entries(self) -> list[tuple[str, Mapping[str, object]]]:
        """Keys that are there already, in memory and on disk."""
        here = [(digest, {**key.fields, "reads": reads}) for digest, (key, reads) in self._cache.asked.items()]
        return [*here, *((entry.key, entry.fields) for entry in disk.entries())]

    # warm calls ---------------------------------------------------------------------------------------------------------------

    def _serve(self, standing: Standing, compiled: CompiledProgram, values: Mapping[str, object], seen: list[object]) -> None:
        """Let calls like the one that just succeeded take a short way."""
        if self._warm is None:
            stays = [stays_runtime(self.definition, param) for param in self.definition.params]
            ways = WarmCalls if self.definition.positional == len(stays) else _NamedCalls
            self._warm = ways(self, functools.partial(JITFunction.__call__, self), stays)
        self._warm.serve(compiled, values, standing.baseline if self._policy() != "ignore" else None, seen)

    def _new_lock(self) -> None:
        self._lock = threading.RLock()

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
        first = next(iter(inspect.signature(self.definition.function).parameters), None)
        if instance is None or first not in ("self", "cls"):
            return self
        kept = _bound_kernels(instance)
        found = kept.get(self) if kept is not None else None
        if found is None:
            found = self._bound(instance, first)
            if kept is not None:
                kept[self] = found
        return found

    def _bound(self, instance: object, first: str) -> JITFunction:
        """The kernel with its first parameter bound; all objects of a class share what is compiled."""
        definition = self.definition
        owner = instance if isinstance(instance, type) else type(instance)
        with self._lock:
            cache = self._class_caches.get(owner)
            if cache is None:
                cache = self._class_caches[owner] = MemoryCache()
                cache.when_cleared(self, JITFunction._forget)
            bound = JITFunction(Definition(definition.function, definition.kind, definition.options, {**definition.extra, first: instance}), cache)
            bound._bound_as = (self, instance)
            self._bound_ones.add(bound)
        return bound

    def __reduce__(self) -> tuple[object, ...]:
        if self._bound_as is not None:
            return (getattr, (self._bound_as[1], self.__name__))
        return (_by_reference, (self.definition.function.__module__, self.definition.function.__qualname__))

    # compiling ----------------------------------------------------------------------------------------------------------------

    def _policy(self) -> str:
        return str(self.definition.options.get("on_drift") or settings.ON_DRIFT.value)

    def _current(self, check: bool = True) -> Standing:
        """What the kernel stands on: its helpers, its dynamic extents, the values it captured; checked for drift."""
        standing = self._standing
        if standing is None:
            with self._lock:
                standing = self._standing = self._standing or Standing(self.definition)
        elif check and self._policy() != "ignore":
            changed = standing.baseline.drifts()
            if changed:
                if self._policy() == "raise":
                    raise changed[0].error(disk.kernel_name(self.definition))
                with self._lock:
                    self.definition = self.definition.anew()
                    standing = self._standing = Standing(self.definition)
                self._forget()
                self._outputs.clear()
        return standing

    def _sample(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> BoundArguments:
        if args or any(view_of(value) is not None for value in kwargs.values()):
            return bind_arguments(self.definition, args, kwargs, running=False)
        return self._from_annotations(kwargs)

    def _from_annotations(self, kwargs: Mapping[str, object]) -> BoundArguments:
        definition = self.definition
        names = [param.name for param in definition.params]
        unknown = [name for name in kwargs if name not in names]
        if unknown:
            help = did_you_mean(unknown[0], names) or f"options of the compiler go into config=RunConfig(…); parameters: {', '.join(names)}"
            raise ArgumentError(f"@pl.jit function '{definition.name}': got an unexpected keyword argument '{unknown[0]}'", help=help)
        arguments: dict[str, Argument] = {}
        values: dict[str, object] = {}
        for param in definition.params:
            if param.kind == "tensor":
                arguments[param.name] = annotated_argument(definition, param)
                continue
            value = kwargs.get(param.name, param.default)
            if value is inspect.Parameter.empty:
                help = f"pass {param.name}=… or {param.name}=pl.RUNTIME"
                raise ArgumentError(f"@pl.jit function '{definition.name}': the scalar `{param.name}` needs a value", help=help)
            values[param.name] = value
        scalars = bind_scalars(definition, values)
        return BoundArguments(values, {param.name: arguments.get(param.name) or scalars[param.name] for param in definition.params})

    def _compiled(self, standing: Standing, bound: BoundArguments, config: RunConfig | None) -> CompiledProgram:
        standing.baseline  # noqa: B018 - a value without content is what is wrong with a kernel before anything that follows from it
        bound = self._with_outputs(bound)
        key = self._key(standing, bound, config)
        return self._cache.find(key.digest, lambda: self._load_or_compile(standing, bound, config, key))

    def _load_or_compile(self, standing: Standing, bound: BoundArguments, config: RunConfig | None, key: disk.Key) -> CompiledProgram:
        """From disk if it is there, else compiled, once per host, and kept there; what fails is no entry that others are compared with."""
        made = self._found_or_made(standing, bound, config, key)
        made.share_note(self._note)
        self._cache.asked[key.digest] = (key, standing.captures.described())
        return made

    def _found_or_made(self, standing: Standing, bound: BoundArguments, config: RunConfig | None, key: disk.Key) -> CompiledProgram:
        if not row_of(key.platform).cacheable:
            return self._compile(standing, bound, config, key)
        fresh: list[CompiledProgram] = []

        def build() -> Entry | None:
            fresh.append(self._compile(standing, bound, config, key))
            return disk.entry_of(key, fresh[0], standing.captures) if not standing.unseen and not sources_changed() else None

        store = disk.store()
        entry = store.get_or_build(key.digest, build)
        facts.keep()
        if fresh:
            return fresh[0]
        assert entry is not None
        try:
            loaded = disk.program_of_entry(entry, key, self.definition)
        except (ArtifactError, ValueError, TypeError, LookupError) as error:
            # Whole, but it means nothing here: as good as not there, and written anew.
            store.reject(key.digest, str(error))
            made = build()
            if made is not None:
                store.put(made)
            return fresh[0]
        self._cache.loaded += 1
        return loaded

    def _compile(self, standing: Standing, bound: BoundArguments, config: RunConfig | None, key: disk.Key) -> CompiledProgram:
        from tilejit.compiler import compile_program

        self._refuse_if_run_only(key, standing)
        start = time.perf_counter()
        found: list[tuple[str, str, object]] = []
        special = self._specialise(bound, lambda definition, path, value: found.append((disk.kernel_name(definition), path, value)))
        place = replace(config or RunConfig(), platform=key.platform, device_id=int(key.device.partition(":")[2] or 0))
        compiled = compile_program(self._program(special), place, known=CodeCache(disk.store()))
        standing.unseen = uncovered(standing.captures, found)
        spent = time.perf_counter() - start
        self._cache.compiled(spent)
        if settings.LOG.value == "recompile":
            self._log(key, standing, spent)
        return compiled

    def _refuse_if_run_only(self, key: disk.Key, standing: Standing) -> None:
        if settings.RUN_ONLY.value:
            name = disk.kernel_name(self.definition)
            found = self._nearest(key, standing)
            reason = "; ".join(str(row) for row in found[1]) if found else "no entry of this kernel"
            raise ArtifactError(
                f"{name} would have to be compiled, and {settings.RUN_ONLY.variable} forbids it",
                note=f"nearest entry: {found[0][:12]}: {reason}" if found else reason,
                help="compile it where that is allowed and ship the cache (`tilejit cache export`), or unset the variable",
            )

    def _nearest(self, key: disk.Key, standing: Standing) -> tuple[str, tuple[Any, ...]] | None:
        others = ((digest, fields) for digest, fields in self._entries() if digest != key.digest)
        return nearest({**key.fields, "reads": standing.captures.described()}, others)

    def _log(self, key: disk.Key, standing: Standing, seconds: float) -> None:
        found = self._nearest(key, standing)
        reason = Explanation(None, found[1], found[0]).reason if found else "first specialisation of this kernel"
        print(f"tilejit: compiled {disk.kernel_name(self.definition)} in {seconds * 1e3:.0f} ms: {reason}", file=sys.stderr)

    # keys ---------------------------------------------------------------------------------------------------------------------

    def _options(self, config: RunConfig | None, platform: str) -> dict[str, object]:
        """What of the settings, and of the call's options where it has them, changes code; read now."""
        return {name: getattr(config, name, value) for name, value in settings.code_settings()} | {"platform": platform}

    def _key(self, standing: Standing, bound: BoundArguments, config: RunConfig | None) -> disk.Key:
        """What the compiled program is kept under, in memory and on disk."""
        arguments = _described(standing, bound)
        for name, signature in bound.signatures:
            arguments[name]["signature"] = signature
        if config is not None and not isinstance(config, RunConfig):
            raise ArgumentError(f"config must be a RunConfig, got {type(config).__name__}", help="write config=RunConfig(…)")
        platform, device = place_of(*((config.platform, config.device_id) if config is not None else (None, 0)), devices_of(bound.values.values()))
        return disk.key_of(self.definition, standing.captures, arguments, self._options(config, platform), device)

    # specialising -------------------------------------------------------------------------------------------------------------

    def _with_outputs(self, bound: BoundArguments) -> BoundArguments:
        """A return-style call with the outputs it leaves out described like arguments."""
        if not bound.omitted or all(name in bound.arguments for name in bound.omitted):
            return bound
        standing = self._current(check=False)
        key = fields_text(_described(standing, bound))
        if key not in self._outputs:
            from tilejit.jit.specialize.requests import find_outputs

            self._outputs[key] = find_outputs(self.definition, standing.known, bound)
        found = self._outputs[key]
        arguments = {param.name: bound.arguments.get(param.name) or found[param.name] for param in self.definition.params}
        return BoundArguments(bound.values, arguments, bound.omitted, bound.signatures)

    def _specialise(self, bound: BoundArguments, record: Callable[[Definition, str, object], None] | None = None) -> Specialization:
        from tilejit.jit.specialize.requests import ignore, specialise

        try:
            return specialise(self.definition, self._current(check=False).known, self._with_outputs(bound), record or ignore)
        except RecursionError:
            raise self.definition.too_deep() from None

    def _program(self, special: Specialization) -> Program:
        from tilejit.jit.specialize.build import program_of

        return program_of(special)


enable(JITFunction)


def _described(standing: Standing, bound: BoundArguments) -> dict[str, dict[str, object]]:
    """What the compiled program depends on of each argument."""
    return {name: argument_fields(argument, standing.dynamic_axes(name, argument)) for name, argument in bound.arguments.items()}


def bind_scalars(definition: Definition, values: Mapping[str, object]) -> Mapping[str, Argument]:
    """Scalars given to compile() without tensors."""
    from tilejit.dtypes import INDEX
    from tilejit.jit.specialize.meta import Constant
    from tilejit.jit.specialize.signature import as_declared

    out: dict[str, Argument] = {}
    for name, value in values.items():
        param = definition.param(name)
        if isinstance(value, RuntimeMarker) or stays_runtime(definition, param):
            out[name] = RuntimeScalar(param.dtype or INDEX)
        elif isinstance(value, bool | int | float):
            out[name] = Constant(as_declared(value, param))
        else:
            what = f"`{name}` must be a number or pl.RUNTIME, got {type(value).__name__}"
            raise ArgumentError(f"@pl.jit function '{definition.name}': {what}", help=f"pass {name}=1, or {name}=pl.RUNTIME to keep it a parameter")
    return out


class _NamedCalls(WarmCalls):
    """Of a kernel with keyword-only parameters: native code takes positions, and would take them for these too."""

    def _serve_natively(self, *args: object, **kwargs: object) -> bool:
        return False


class _BoundKernels(dict[JITFunction, JITFunction]):
    """The kernels bound to one object. A copy of the object is another one: it starts without."""

    def __init__(self, owner: object = None) -> None:
        super().__init__()
        self.owner = owner

    def __reduce__(self) -> tuple[object, ...]:
        return (_BoundKernels, ())


_BOUND = "__tilejit_kernels__"


def _bound_kernels(instance: object) -> _BoundKernels | None:
    """Where the kernels bound to an object are kept: in the object, so that they live as long as it does; None: it has no place for them."""
    attributes = getattr(instance, "__dict__", None)
    found = attributes.get(_BOUND) if isinstance(attributes, Mapping) else None
    if isinstance(found, _BoundKernels) and found.owner is instance:
        return found
    made = _BoundKernels(instance)
    if isinstance(attributes, dict):
        attributes[_BOUND] = made
    elif isinstance(instance, type):
        type.__setattr__(instance, _BOUND, made)
    else:
        return None
    return made


def _by_reference(module: str, qualified: str) -> object:
    """The kernel that a pickle names."""
    found: object = import_module(module)
    for part in qualified.split("."):
        found = getattr(found, part)
    return found
