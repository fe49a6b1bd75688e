"""`@pl.autotune`: a kernel that is tuned for whatever it is called with, once per machine."""

from __future__ import annotations

import functools
import hashlib
import inspect
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tilejit import config as settings
from tilejit.errors import StaleCaptureError, TilejitError, TuningError
from tilejit.jit.bound import bound_kernels
from tilejit.jit.definition import Kernel, replaced_part
from tilejit.jit.disk import kernels as disk
from tilejit.jit.explain import Explanation
from tilejit.jit.function import JITFunction
from tilejit.jit.reads.asking import asking
from tilejit.jit.reads.watch import asked_of
from tilejit.jit.specialize.arguments import bind_arguments
from tilejit.jit.tune.keys import coarse, keyed, names_object, signature_of, threads_of
from tilejit.jit.tune.measure import Measure
from tilejit.jit.tune.options import Options
from tilejit.jit.tune.progress import progress_of
from tilejit.jit.tune.reads import Standing, asked_by, digest_of
from tilejit.jit.tune.record import Record, load
from tilejit.jit.tune.result import Tuning
from tilejit.jit.tune.search import Search
from tilejit.jit.tune.searching import searching
from tilejit.jit.tune.space import Choice, Point, Space, space_of
from tilejit.jit.tune.trial import Call, KernelTrials, Timer
from tilejit.runtime.artifact.compiled import CompiledProgram
from tilejit.runtime.bench import BoundCall
from tilejit.runtime.call.graphs import untraced
from tilejit.runtime.config import RunConfig, forbidden
from tilejit.runtime.copies import in_numpy
from tilejit.runtime.locks import new_lock
from tilejit.runtime.ranks.recording import recording
from tilejit.runtime.targets import row_of
from tilejit.tracebacks import shortened

if TYPE_CHECKING:
    from tilejit.jit.reads.trace import Trace
    from tilejit.tile_ir.program import Program
    from tilejit.view.profile import Profile

_REMEMBERED = 4096
"""Signatures of calls whose choice is known without asking."""
_SAVE_EVERY = 0.5
"""Seconds between two times that a search is written to the disk."""


class Variant(NamedTuple):
    """A kernel with the choices of a candidate, and the arguments that a call has to add."""

    kernel: JITFunction
    arguments: Mapping[str, object]


class Autotuned(Kernel):
    """A kernel whose compile-time arguments and schedule are chosen by trying them. Called by another kernel, it is a helper with its defaults."""

    __slots__ = ("_bound_as", "_bound_ones", "_decided", "_function", "_known", "_lock", "_parts", "_variants", "definition", "kernel", "options", "space")
    __name__: str

    def __init__(self, kernel: JITFunction, space: Space, options: Options) -> None:
        functools.update_wrapper(cast("Callable[..., object]", self), kernel.definition.function)
        self.kernel, self.space, self.options = kernel, space, options
        self.definition = kernel.definition
        self._function = cast("FunctionType", kernel.definition.function)
        self._parts = kernel.definition.parts
        self._variants: dict[object, Variant] = {}
        self._known: dict[object, tuple[Variant, Standing]] = {}
        self._decided: dict[str, Record] = {}
        self._bound_as = None
        self._bound_ones = weakref.WeakSet[Autotuned]()
        self._lock = new_lock()

    def __repr__(self) -> str:
        return f"Autotuned({self.kernel!r}, {len(self.space)} candidates)"

    # calling ------------------------------------------------------------------------------------------------------------------

    @untraced
    def __call__(self, *args: object, config: RunConfig | None = None, **kwargs: object) -> Any:
        """Run with the best arguments and schedule for such a call; the first one finds them."""
        if (own := self.kernel._of_object(args, kwargs)) is not None:
            return self.__get__(own[0])(*own[1], config=config, **own[2])
        kernel, chosen = self._chosen(args, kwargs, config)
        named: dict[str, Any] = {**kwargs, **chosen} if config is None else {**kwargs, **chosen, "config": config}
        return kernel(*args, **named)

    def _chosen(self, args: tuple[object, ...], kwargs: Mapping[str, object], config: RunConfig | None) -> Variant:
        """What a call runs."""
        if replaced_part(self._function, self._parts) is not None:  # edited while the process runs: choices and variants are of the old text
            self._forget()
        seen = signature_of(args, kwargs, config)
        known = self._known.get(seen) if seen is not None else None
        if known is not None and known[1].holds():
            return known[0]
        if any(name in kwargs for name in self.space.arguments) or len(args) > self._first_tuned or recording() is not None:
            return Variant(self.kernel, {})  # as the caller says
        try:
            call = Call(args, kwargs, config)
            record = self._decide(call)
            standing = self._standing(record, call) if seen is not None else None
        except TilejitError as error:
            raise shortened(error)  # noqa: B904 (the same error)
        found = self.variant(record.choice)
        if standing is not None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[seen] = found, standing
        return found

    def _standing(self, record: Record, call: Call) -> Standing | None:
        """What calls like this one have to look at before they take the same choice; None: they have to decide again."""
        bound = bind_arguments(self.kernel.definition, call.args, {**call.kwargs, **record.choice.arguments}, running=True)
        compared = Measure(self.options.reference)
        if bound.signatures or compared.told != record.key.own["measure"]:
            return None  # objects of foreign classes say themselves what they are, at every call; what results are compared with changed meanwhile
        policy = self.kernel._policy()
        if policy == "ignore" or not row_of(record.key.platform).cacheable:
            return Standing((), compared)
        first, best = (asked_by(self.variant(choice), call) for choice in (self.space[self.space.first], record.choice))
        same = (record.key.own["reads"], record.reads.get(cast("Point", record.best))) == (self._digest(first), self._digest(best))
        if not same or any(asked.given for trace in (first, best) for asked in trace.log):
            return None  # changed meanwhile, or an argument was asked, which may answer something else next time
        if asked_of(first) <= asked_of(best):
            return Standing((best,) if policy == "recompile" else (), compared)  # else the call itself says what changed
        return Standing((first, best), compared)

    @property
    def _first_tuned(self) -> int:
        """How many arguments by position leave the choice open."""
        places = [at for at, param in enumerate(self.kernel.definition.params) if param.name in self.space.arguments]
        return min(places, default=len(self.kernel.definition.params))

    def variant(self, choice: Choice) -> Variant:
        """The kernel with a candidate as its defaults, so that calls need not name it, or with arguments to add where defaults cannot be."""
        key = tuple((name, id(value)) for name, value in choice.arguments.items()), repr(choice.schedule)  # alike, yet two: the space keeps them
        with self._lock:
            found = self._variants.get(key)
            if found is None:
                late = self._late(choice)
                kernel = self.kernel.with_choices({name: value for name, value in choice.arguments.items() if name not in late}, choice.schedule)
                found = self._variants[key] = Variant(kernel, {name: choice.arguments[name] for name in late})
        return found

    def _late(self, choice: Choice) -> set[str]:
        """Arguments that cannot be defaults: something that must be given stands behind them."""
        params = self.kernel.definition.params
        needed = [at for at, param in enumerate(params) if param.name not in choice.arguments and param.direction != "Out" and not param.keyword_only]
        last = max((at for at in needed if params[at].default is inspect.Parameter.empty and not params[at].rest), default=-1)
        return {param.name for at, param in enumerate(params) if param.name in choice.arguments and at < last and not param.keyword_only}

    def _forget(self) -> None:
        with self._lock:
            self.kernel._start_anew()
            self._parts = self.kernel.definition.parts
            self._known.clear()
            self._decided.clear()
            self._variants.clear()

    # choosing -----------------------------------------------------------------------------------------------------------------

    def best(self, *args: object, config: RunConfig | None = None, **kwargs: object) -> Choice:
        """What a call like this one runs with; found now if it is not known."""
        return self._decide(Call(args, kwargs, config)).choice

    def tune(self, *args: object, effort: str | None = None, budget: float | None = None, config: RunConfig | None = None, **kwargs: object) -> Tuning:
        """Search, also where a choice is known: what was timed before is not timed again."""
        known = self.options
        options = replace(known, effort=effort or known.effort, budget=known.budget if budget is None else budget).check(self.kernel.definition)
        call = Call(args, kwargs, config)
        key = self._key(call)
        if not row_of(key.platform).cacheable:
            what = f"{self.kernel.__name__} runs on `{key.platform}`, where there is nothing to be gained"
            raise TuningError(what, help="tune it where it is to be fast: platform='cpu'")
        with self._lock, searching(self.kernel.__name__, key):
            self._known.clear()
            return self._search(load(key, self.space), call, options)

    def _decide(self, call: Call) -> Record:
        """The search that decides for such a call, made now unless there is one for the answers of now."""
        key = self._key(call)
        if not row_of(key.platform).cacheable:
            return Record(key, self.space, best=self.space.first)
        found = self._decided.get(key.digest)
        if found is not None and self._stands(found, call):
            return found
        with self._lock:
            record = load(key, self.space)
            if not self._stands(record, call):
                with searching(self.kernel.__name__, key):
                    record = load(key, self.space)  # another process may have searched meanwhile
                    if not self._stands(record, call):
                        self._search(record, call, self.options)
            self._decided[key.digest] = record
            return record

    def _stands(self, record: Record, call: Call) -> bool:
        """Whether a search is finished, and its choice was made for what Python answers now; what the first candidate is answered is in the key."""
        return record.best is not None and record.reads.get(record.best) == self._reads(record.choice, call)

    def _reads(self, choice: Choice, call: Call) -> str:
        return self._digest(asked_by(self.variant(choice), call))

    def _digest(self, trace: Trace) -> str:
        key = self.options.key
        return digest_of(trace, None if key is None or names_object(key, trace.arguments) else self.space.arguments)

    def _search(self, record: Record, call: Call, options: Options) -> Tuning:
        if settings.RUN_ONLY.value:
            raise forbidden(disk.kernel_name(self.kernel.definition), "tune")
        start = saved = time.monotonic()
        if any(record.reads.get(point) != self._reads(self.space[point], call) for point in record.timings):
            record.start_anew()  # something that one of them read is another now: it may be right or wrong now, and so may those that were compared with it
        trials = KernelTrials(self.variant, self.space, call, options.timer, record.timings)
        shown = progress_of(f"tuning {self.kernel.__name__}", len(self.space), options.progress)

        def tried(point: Point) -> None:
            nonlocal saved
            if point not in record.reads:
                record.reads[point] = self._reads(self.space[point], call)
            shown.update(len(record.timings), str(self.space[point]))
            if time.monotonic() - saved > _SAVE_EVERY:
                record.save()
                saved = time.monotonic()

        def over() -> bool:
            enough = options.budget is not None and time.monotonic() - start >= options.budget
            return enough and any(timing.median < float("inf") for timing in record.timings.values())

        trials.tried = tried
        summary = ""
        try:
            if callable(options.reference):
                trials.expected = _as_arrays(options.reference(*call.args, **call.kwargs))
            elif options.reference == "numpy":
                trials.expected = trials.reference()
            best = Search(self.space, trials, over, options.seed).run(options.effort)
            if best is None:
                raise self._none_right(trials)
            record.best, record.effort = best, options.effort
            done = Tuning(self.kernel.__name__, self.space, best, record.timings, options.effort, trials.compiled, trials.timed, time.monotonic() - start)
            self._decided[record.key.digest] = record
            summary = done.summary
            return done
        finally:
            record.save()  # also when it is stopped: the next search goes on from here
            shown.close(summary)

    def _none_right(self, trials: KernelTrials) -> TuningError:
        reasons = [f"{self.space[point]}: {timing.rejected}" for point, timing in trials.timings.items()]
        more = f"; … {len(reasons) - 3} more" if len(reasons) > 3 else ""
        what = f"none of the {len(reasons)} candidates of '{self.kernel.__name__}' runs and is right"
        made = TuningError(what, note="; ".join(reasons[:3]) + more, help="call the kernel with one of them to see its error in full, or give others")
        made.__cause__ = next(iter(trials.errors.values()), None)
        return made

    # keys ---------------------------------------------------------------------------------------------------------------------

    def _key(self, call: Call) -> disk.Key:
        """What a choice stands on: the kernel with its helpers and reads, the candidates, the machine, of the arguments what `key` names, else all."""
        kernel, tuned = self.kernel, self.space[self.space.first].arguments
        with asking(kernel) as ask:
            trace = ask(kernel._trace())
            bound = bind_arguments(kernel.definition, call.args, {**call.kwargs, **tuned}, running=True)
            trace.arguments = bound.asked
            extents = kernel._extents_of(trace)
            whole = kernel._first_part(trace, extents, bound, call.config)
        given = cast("Mapping[str, Mapping[str, object]]", whole.own["arguments"])
        arguments = {name: fields for name, fields in given.items() if name not in self.space.arguments}
        if self.options.key is not None:
            arguments = {name: coarse(fields) for name, fields in arguments.items()} | keyed(self.options.key, bound, given)
        helpers = sorted(definition.digest for definition in extents.definitions)
        own = {
            "kernel": f"tuning of {whole.own['kernel']}",
            "definition": hashlib.sha256("".join([str(whole.own["definition"]), *helpers]).encode()).hexdigest(),
            "arguments": arguments,
            "options": whole.own["options"],
            "space": self.space.digest(),
            "measure": Measure(self.options.reference).told,
            "threads": threads_of(call.config),
        }
        if row_of(whole.platform).cacheable:
            own["reads"] = self._reads(self.space[self.space.first], call)
        return disk.Key(own, whole.platform, whole.device)

    def keep_for(self, module: str, *args: object, config: RunConfig | None = None, **kwargs: object) -> None:
        """Let the choice for such a call serve where the kernel's file has another name, as a script or as a part of a package."""
        key = self._key(Call(args, kwargs, config))
        record = load(key, self.space)
        record.key = disk.Key({**key.own, "kernel": f"tuning of {module}.{self.kernel.definition.function.__qualname__}"}, key.platform, key.device)
        record.save()

    # like any kernel ----------------------------------------------------------------------------------------------------------

    def compile(self, *args: object, config: RunConfig | None = None, **kwargs: object) -> CompiledProgram:
        """The compiled program of the best candidate."""
        kernel, chosen = self._chosen(args, kwargs, config)
        return kernel.compile(*args, config=config, **kwargs, **chosen)

    def compile_untuned(self, *, config: RunConfig | None = None, **kwargs: object) -> CompiledProgram:
        """The first candidate that compiles, where there is nothing to be timed: what is right returns the same shapes."""
        refused: TilejitError | None = None
        for point in self.space.points():
            kernel, chosen = self.variant(self.space[point])
            try:
                return kernel.compile(config=config, **kwargs, **chosen)
            except StaleCaptureError:
                raise
            except TilejitError as error:
                refused = refused or error
        assert refused is not None  # a space has a candidate
        raise refused

    def lower(self, *args: object, config: RunConfig | None = None, **kwargs: object) -> Program:
        """The program of the best candidate after the passes that print as Python."""
        kernel, chosen = self._chosen(args, kwargs, config)
        return kernel.lower(*args, config=config, **kwargs, **chosen)

    def specialized_source(self, *args: object, config: RunConfig | None = None, **kwargs: object) -> str:
        """The concrete program of the best candidate, as text."""
        kernel, chosen = self._chosen(args, kwargs, config)
        return kernel.specialized_source(*args, config=config, **kwargs, **chosen)

    def explain(self, *args: object, config: RunConfig | None = None, **kwargs: object) -> Explanation:
        """Would a call of the best candidate hit a cache?"""
        kernel, chosen = self._chosen(args, kwargs, config)
        return kernel.explain(*args, config=config, **kwargs, **chosen)

    def bound_call(self, *args: object, config: RunConfig | None = None, **kwargs: object) -> BoundCall:
        """A call of the best candidate, to be timed."""
        kernel, chosen = self._chosen(args, kwargs, config)
        return kernel.bound_call(*args, config=config, **kwargs, **chosen)

    def profile(self, *args: object, rounds: int = 20, config: RunConfig | None = None, **kwargs: object) -> Profile:
        """Where the time of the best candidate goes."""
        kernel, chosen = self._chosen(args, kwargs, config)
        return kernel.profile(*args, rounds=rounds, config=config, **kwargs, **chosen)

    def as_torch_op(self, name: str, *, backward: Kernel | None = None, in_place: bool = False, config: RunConfig | None = None) -> Callable[..., Any]:
        """As `as_torch_op` of any kernel; what is tuned is no argument of the operator, and is found when that first runs."""
        from tilejit.jit.torch_op import as_torch_op

        return as_torch_op(self, name, backward, in_place, config)

    def cache_clear(self, disk_too: bool = False) -> None:
        """Forget every choice and every compiled program of this process; with `disk_too` on disk as well."""
        for kernel in (self.kernel, *(found.kernel for found in self._variants.values()), *self._bound_ones):
            kernel.cache_clear(disk_too)
        self._forget()
        name = f"tuning of {disk.kernel_name(self.kernel.definition)}"
        for entry in disk.entries() if disk_too else ():
            if entry.fields.get("kernel") == name:
                disk.store().remove(entry.key)

    def __get__(self, instance: object, owner: type | None = None) -> Autotuned:
        """In a class: the kernel is bound, choices are those of the object."""
        bound = self.kernel.__get__(instance, owner)
        if bound is self.kernel:
            return self
        kept = bound_kernels(instance)
        found = kept.get(self) if kept is not None else None
        if found is None or found.kernel is not bound:
            found = Autotuned(bound, self.space, self.options)
            found._bound_as = (self, instance)
            self._bound_ones.add(found)
            if kept is not None:
                kept[self] = found  # where there is no disk cache, another one would search at every call
        return found


def autotune(
    configs: object = None,
    *,
    key: Sequence[str] | None = None,
    schedule: Mapping[str, Mapping[str, Sequence[object]]] | None = None,
    effort: str = "quick",
    budget: float | None = None,
    seed: int = 0,
    reference: str | Callable[..., object] = "first",
    timer: Timer | None = None,
    progress: bool = True,
) -> Callable[[JITFunction], Autotuned]:
    """Above `@pl.jit`: choose compile-time arguments and schedules by trying them, once for each kind of call and machine.

    `configs` is a list of dicts of arguments, or a dict of values by parameter, all combinations of which are candidates; `schedule` has values by nest.
    """

    def decorate(kernel: JITFunction) -> Autotuned:
        if not isinstance(kernel, JITFunction) or kernel.definition.kind != "orchestration":
            raise TuningError(f"@pl.autotune stands above @pl.jit, got {kernel!r}", help="write @pl.autotune(…) in the line before @pl.jit")
        if isinstance(key, str):
            raise TuningError(f"@pl.autotune of '{kernel.__name__}': key is a tuple of names", help=f"write key=({key!r},)")
        options = Options(None if key is None else tuple(key), effort, budget, seed, reference, timer, progress)
        return Autotuned(kernel, space_of(kernel.definition, configs, schedule), options.check(kernel.definition))

    return decorate


def _as_arrays(found: object) -> list[Any]:
    return [in_numpy(value) for value in (cast("tuple[object, ...]", found) if isinstance(found, tuple | list) else (found,))]
