"""The programs of a kernel: found by questions and answers in memory and on disk, else specialised and compiled."""

from __future__ import annotations

import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from tilejit import config as settings
from tilejit.errors import ArgumentError, ArtifactError
from tilejit.jit import looking
from tilejit.jit.cache import MemoryCache
from tilejit.jit.definition import Definition, Kernel
from tilejit.jit.disk import kernels as disk
from tilejit.jit.disk.code import CodeCache
from tilejit.jit.disk.fingerprint import sources_changed
from tilejit.jit.explain import Explanation, nearest
from tilejit.jit.extents import Extents
from tilejit.jit.reads import facts
from tilejit.jit.reads.answers import Answers, Table
from tilejit.jit.reads.asking import refuse_in_import
from tilejit.jit.reads.drift import replaced_part_of, unsteady
from tilejit.jit.reads.manifest import Node
from tilejit.jit.reads.scope import OldAnnotations, Reads
from tilejit.jit.reads.trace import Trace
from tilejit.jit.reads.watch import FunctionState
from tilejit.jit.specialize.arguments import BoundArguments, argument_fields
from tilejit.jit.specialize.dependencies import renew
from tilejit.kinds import is_a
from tilejit.runtime.arrays import devices_of
from tilejit.runtime.artifact.compiled import CompiledProgram
from tilejit.runtime.call.autograd import GradNote
from tilejit.runtime.config import RunConfig, check_settings, forbidden
from tilejit.runtime.locks import new_lock
from tilejit.runtime.store.entry import CacheEntry
from tilejit.runtime.targets import EAGER, code_settings, place_of, row_of

if TYPE_CHECKING:
    from tilejit.jit.specialize.program import Specialization
    from tilejit.tile_ir.program import Program

_READINGS = 4
"""How often a function is read because its annotations in quotes have changed since, by another thread."""


class Programs(Kernel):
    """A kernel with what was compiled of it, and what that stands on."""

    __slots__ = ("_bound_as", "_cache", "_called", "_extents", "_functions", "_lock", "_note", "_spent", "_table", "definition")

    def __init__(self, definition: Definition, cache: MemoryCache | None) -> None:
        self.definition = definition
        self._bound_as = None
        self._cache = MemoryCache() if cache is None else cache
        self._lock = new_lock()
        self._table: Table = {}
        """What the kernel stands on in this process: every question that a specialisation asked, with its answer."""
        self._functions = FunctionState()
        self._extents: dict[bytes, Node[Extents]] = {}
        """By the questions for annotations in quotes, with their answers."""
        self._spent: dict[str, float] = {}
        """How long each question took when it was asked before."""
        self._called = False
        self._note = GradNote()

    @abstractmethod
    def _forget(self) -> None:
        """Drop what warm calls know."""

    def _start_anew(self, definition: Definition | None = None) -> None:
        """Forget what the kernel stood on, and read it again unless somebody did."""
        with self._lock:
            self._table, self._functions, self._extents = {}, FunctionState(), {}
            self.definition = definition or self.definition.anew()

    def _entries(self) -> list[tuple[str, Mapping[str, object]]]:
        """Keys that are there already, in memory and on disk."""
        here = [(digest, {**key.fields, "reads": reads}) for digest, (key, reads) in self._cache.asked.items()]
        return [*here, *((entry.key, entry.fields) for entry in disk.entries())]

    # what it stands on --------------------------------------------------------------------------------------------------------

    def _policy(self) -> str:
        return str(self.definition.options.get("on_drift") or settings.ON_DRIFT.value)

    def _trace(self) -> Trace:
        """A new trace of questions, on what the kernel stands on; its own code is looked at first."""
        policy = self._policy()
        self._follow(policy)
        trace = self._begun(Answers(), self._table, policy)
        if trace.entry is not self.definition:
            self._start_anew(trace.entry)
            self._forget()
            trace.table = self._table
        return trace

    def _follow(self, policy: str) -> None:
        """Read the kernel again if its code, defaults or annotations were replaced, or refuse, as the policy says."""
        replaced = self._functions.replaced() if policy != "ignore" else None
        if replaced is not None:
            function, part, old = replaced
            if policy == "raise":
                raise replaced_part_of(disk.kernel_name(self.definition), function, part, old)
        if replaced is not None or (policy != "ignore" and self.definition.is_replaced):  # the latter: read before it was ever called, by one that failed
            self._start_anew()
            self._forget()

    def _begun(self, answers: Answers, table: Table, policy: str) -> Trace:
        """A trace that has asked what annotations in quotes stand for, of a definition that was read when they did."""
        definition = self.definition.anew() if policy != "ignore" and self.definition.is_replaced else self.definition
        for _ in range(_READINGS):
            trace = Trace(definition, answers, table, policy)
            try:
                Reads(trace, definition).annotations()
                return trace
            except OldAnnotations:
                definition = definition.anew()
        raise unsteady(definition)

    def _settle(self, trace: Trace) -> None:
        """From now on the kernel stands on these answers too."""
        if trace.changed:
            self._forget()
        trace.commit()
        if not self._called:
            self._spent.update(trace.seconds)
        self._functions.add(trace.definitions)

    # looking for a program ----------------------------------------------------------------------------------------------------

    def _compiled(self, trace: Trace, bound: BoundArguments, config: RunConfig | None) -> Found:
        """The program for these arguments and for what Python answers now: from memory, from disk, else compiled."""
        try:
            extents = self._extents_of(trace)
            key = self._first_part(trace, extents, bound, config)
            tree = self._cache.tree(key.digest)
            program, walk = tree.found(trace)
            there = self._on_disk(key, trace) if program is None else None
        except RecursionError:  # of a value that is nested as deeply
            raise self.definition.too_deep() from None
        if program is not None:
            self._cache.hits += 1
        else:
            program, walk = self._found_or_made(trace, extents, bound, config, key, there)
            program.share(note=self._note)
            if extents.is_new and row_of(key.platform).cacheable and not sources_changed():
                extents.keep()
            tree.add([(asked.question, asked.answer) for asked in walk.log[len(trace.log) :]], program)
        self._settle(walk)
        if config is not None:
            looking.keep_what_is_asked(program, config)
        return Found(program, walk, key, len(trace.log))

    def _on_disk(self, key: disk.Key, trace: Trace) -> tuple[CacheEntry, Trace] | None:
        check_settings()
        return disk.find_artifact(key, trace) if row_of(key.platform).cacheable else None

    def _found_or_made(
        self, trace: Trace, extents: Extents, bound: BoundArguments, config: RunConfig | None, key: disk.Key, there: tuple[CacheEntry, Trace] | None
    ) -> tuple[CompiledProgram, Trace]:
        """`there`: what the disk has for it."""
        if there is not None:
            program = self._from_disk(key, trace, *there)
            if program is not None:
                return program, there[1]
        refuse_in_import(self.definition)
        walk = trace.fork()
        start = time.perf_counter()
        whole = self._with_outputs(walk, extents, bound)
        if row_of(key.platform).cacheable and whole is not bound and (found := self._in_place(trace, extents, whole, key)) is not None:
            if len(walk.log) == len(trace.log):
                walk = found[1]
            else:
                self._specialize(walk, extents, whole)  # what the program stands on, in the order in which this call asks
                walk.text = found[1].text
            self._keep(found[0], key, walk, disk.asked_text(walk.log[len(trace.log) :]))  # so that the next process need not look for the outputs
            return found[0], walk
        special = self._specialize(walk, extents, whole)
        asked = disk.asked_text(walk.log[len(trace.log) :])
        made: list[CompiledProgram] = []

        def make() -> CompiledProgram:
            made.append(self._load_or_compile(special, walk, config, key, asked, start))
            return made[0]
        walk.text = disk.text_digest(special, key) or disk.artifact_key(key.text, asked)
        program = self._cache.find(walk.text, make)
        if not made and row_of(key.platform).cacheable:
            self._keep(program, key, walk, asked)  # the same program for another call: outputs left out, or other answers
        self._cache.asked[disk.artifact_key(key.text, asked)] = (key, walk.described())
        return program, walk

    def _in_place(self, trace: Trace, extents: Extents, whole: BoundArguments, asked: disk.Key) -> tuple[CompiledProgram, Trace] | None:
        """The program of the call that passes all outputs, with what led to it, if that is on disk: under the settings of this call it is the same."""
        key = disk.first_part(trace, _described(extents, whole), (), asked.options, asked.device, asked.seen)
        there = disk.find_artifact(key, trace)
        program = self._from_disk(key, trace, *there) if there is not None else None
        if there is None or program is None:
            return None
        there[1].text = disk.same_text(there[0])
        return program, there[1]

    def _from_disk(self, key: disk.Key, trace: Trace, entry: CacheEntry, walk: Trace) -> CompiledProgram | None:
        """The program of an entry; None if it means nothing here: as good as not there, and written anew."""
        asked = disk.asked_text(walk.log[len(trace.log) :])
        try:
            program = self._cache.find(disk.same_text(entry), lambda: self._loaded(entry, disk.program_of_entry(entry, key, walk, asked), lambda: key))
        except (ArtifactError, ValueError, TypeError, LookupError) as error:
            disk.store().reject(entry.key, str(error))
            return None
        self._cache.asked[entry.key] = (key, walk.described())
        return program

    def _keep(self, program: CompiledProgram, key: disk.Key, walk: Trace, asked: bytes) -> None:
        entry = disk.entry_of(key, program, walk, asked) if not sources_changed() else None
        if entry is not None and disk.store().put(entry):
            self._remember(entry)

    def _loaded(self, entry: CacheEntry, program: CompiledProgram, key: Callable[[], disk.Key]) -> CompiledProgram:
        """A program that was read from disk."""
        program.made_again(looking.again(key), lacks_forms=True)
        facts.keep()
        self._cache.loaded += 1
        if settings.DEBUG.value >= 2:
            print(f"tilejit: loaded {disk.kernel_name(self.definition)} from disk: {entry.key[:12]}", file=sys.stderr)
        return program

    def _load_or_compile(self, special: Specialization, walk: Trace, config: RunConfig | None, key: disk.Key, asked: bytes, start: float) -> CompiledProgram:
        """By its own key from disk if it is there (a manifest may be lost), else compiled, once per host, and kept there."""
        if not row_of(key.platform).cacheable:
            return self._compile(special, walk, config, key, start)
        fresh, store = list[CompiledProgram](), disk.store()

        def build() -> CacheEntry | None:
            fresh.append(self._compile(special, walk, config, key, start))
            return disk.entry_of(key, fresh[0], walk, asked) if not sources_changed() else None

        digest = disk.artifact_key(key.text, asked)
        entry = store.get_or_build(digest, build)
        facts.keep()
        if entry is not None:
            self._remember(entry)
        if fresh:
            return fresh[0]
        assert entry is not None
        try:
            return self._loaded(entry, disk.program_of_entry(entry, key, walk, asked), lambda: key)
        except (ArtifactError, ValueError, TypeError, LookupError) as error:
            # Whole, but it means nothing here: as good as not there, and written anew.
            store.reject(digest, str(error))
            made = build()
            if made is not None and store.put(made):
                self._remember(made)
            return fresh[0]

    def _remember(self, entry: CacheEntry) -> None:
        refused = disk.remember(entry)
        if refused is not None and settings.tells_of_compiles():
            print(f"tilejit: {disk.kernel_name(self.definition)} is not kept on disk: {refused} has another answer each time", file=sys.stderr)

    def _compile(self, special: Specialization, walk: Trace, config: RunConfig | None, key: disk.Key, start: float) -> CompiledProgram:
        from tilejit.backends.schedules import check_names
        from tilejit.compiler import compile_program
        from tilejit.jit.garbage import no_collections
        from tilejit.jit.watching import watched_compile

        self._refuse_if_run_only(key, walk)
        own = self._own_schedule(config)
        store = disk.store()
        known = CodeCache(store) if store.ready() or store.layers else None
        with watched_compile(disk.kernel_name(self.definition)), no_collections(), settings.under(key.options):
            place = replace(config or RunConfig(), platform=key.platform, device_id=int(key.device.partition(":")[2] or 0), **own)
            compiled = compile_program(self._program(special), place, known=known)
        compiled.made_again(looking.again(lambda: key), lacks_forms=False)
        of_setting = not own and (config is None or config.schedule == settings.values_in(key.seen)["schedule"])
        check_names(compiled, place.schedule, own=bool(own), of_setting=of_setting)
        spent = time.perf_counter() - start
        self._cache.compiled(spent)
        if settings.tells_of_compiles():
            self._log(key, walk, spent)
        return compiled

    def _refuse_if_run_only(self, key: disk.Key, walk: Trace) -> None:
        if settings.RUN_ONLY.value:
            name = disk.kernel_name(self.definition)
            found = self._nearest(key, walk)
            reason = "; ".join(str(row) for row in found[1]) if found else "no entry of this kernel"
            trace = self._begun(walk.answers, {}, "recompile")
            trace.arguments = walk.arguments
            self._extents_of(trace)
            unknown = disk.unknown_answer(key, trace)
            note = f"nearest entry: {found[0][:12]}: {reason}" if found else reason
            raise forbidden(name, note=f"{unknown}; {note}" if unknown is not None else note)

    def _nearest(self, key: disk.Key, walk: Trace) -> tuple[str, tuple[Any, ...]] | None:
        return nearest({**key.fields, "reads": walk.described()}, self._entries())

    def _log(self, key: disk.Key, walk: Trace, seconds: float) -> None:
        found = self._nearest(key, walk)
        reason = Explanation(None, found[1], found[0]).reason if found else "first specialisation of this kernel"
        print(f"tilejit: compiled {disk.kernel_name(self.definition)} in {seconds * 1e3:.0f} ms: {reason}", file=sys.stderr)

    # keys ---------------------------------------------------------------------------------------------------------------------

    def _wanted(self, config: RunConfig | None) -> tuple[str | None, int]:
        """Which platform and device the call or the kernel asks for."""
        platform, device = (config.platform, config.device_id) if config is not None else (None, 0)
        return platform or (EAGER if self.definition.options.get("eager") else None), device

    def _options(self, config: RunConfig | None, platform: str) -> dict[str, object]:
        """What of the settings, and of the call's options where it has them, changes code; read now."""
        return {name: getattr(config, name, value) for name, value in code_settings(platform)} | self._own_schedule(config) | {"platform": platform}

    def _own_schedule(self, config: RunConfig | None) -> dict[str, str]:
        """The schedule that the kernel itself was given, unless the call has one."""
        own = str(self.definition.options.get("schedule") or "")
        return {"schedule": own} if own and not (config is not None and config.schedule) else {}

    def _first_part(self, trace: Trace, extents: Extents, bound: BoundArguments, config: RunConfig | None) -> disk.Key:
        """What is known before anything is specialised; the compiled program is kept under it and what Python answers after it."""
        if config is not None and not is_a(config, RunConfig):
            raise ArgumentError(f"config must be a RunConfig, got {type(config).__name__}", help="write config=RunConfig(…)")
        seen = settings.snapshot()
        with settings.under(settings.values_in(seen)):
            platform, device = place_of(*self._wanted(config), devices_of(bound.passed))
            options = self._options(config, platform)
        return disk.first_part(trace, _described(extents, bound), bound.omitted, options, device, seen)

    # specialising -------------------------------------------------------------------------------------------------------------

    def _extents_of(self, trace: Trace) -> Extents:
        """The dynamic extents, as the answers of now have them; `trace` goes on from there."""
        for _ in range(_READINGS):
            try:
                found, walk = self._walked_extents(trace)
            except OldAnnotations as old:
                renew(old.owner, anyway=True)  # a helper
                continue
            trace.become(walk)
            Reads(trace, trace.entry).classes()
            return found
        raise unsteady(trace.entry)

    def _walked_extents(self, trace: Trace) -> tuple[Extents, Trace]:
        known = self._extents.setdefault(disk.asked_text(trace.log), Node()) if trace.entry is self.definition else Node[Extents]()
        found, walk = known.found(trace)
        for definition, number in walk.definitions.items():
            if number and trace.policy != "ignore" and definition.quoted.names_other_classes():
                raise OldAnnotations(walk.objects[number])
        if found is None or found.definitions != frozenset(walk.definitions):  # a helper of the same text may have taken another's place
            found = Extents(trace)
            walk = found.trace
            known.add([(asked.question, asked.answer) for asked in walk.log[len(trace.log) :]], found)
        return found, walk

    def _specialize(self, trace: Trace, extents: Extents, bound: BoundArguments) -> Specialization:
        from tilejit.jit.specialize.requests import specialize

        try:
            return specialize(trace, extents.known(trace), self._with_outputs(trace, extents, bound))
        except RecursionError:
            raise self.definition.too_deep() from None

    def _with_outputs(self, trace: Trace, extents: Extents, bound: BoundArguments) -> BoundArguments:
        """A return-style call with the outputs it leaves out described like arguments."""
        if not bound.omitted or all(name in bound.arguments for name in bound.omitted):
            return bound
        from tilejit.jit.specialize.requests import find_outputs

        try:
            found = find_outputs(trace, extents.known(trace), bound)
        except RecursionError:
            raise self.definition.too_deep() from None
        arguments = {param.name: bound.arguments.get(param.name) or found[param.name] for param in self.definition.params}
        return replace(bound, arguments=arguments)

    def _program(self, special: Specialization) -> Program:
        from tilejit.jit.specialize.build import program_of

        return program_of(special)


class Found(NamedTuple):
    """A program with the questions and answers that led to it in this call."""

    program: CompiledProgram
    trace: Trace
    key: disk.Key
    """The first part of its key."""
    before: int
    """How many of the questions that is made of."""


def _described(extents: Extents, bound: BoundArguments) -> dict[str, dict[str, Any]]:
    """The arguments of a call as its key has them."""
    arguments = {name: argument_fields(argument, extents.dynamic_axes(name, argument)) for name, argument in bound.arguments.items()}
    for name, signature in bound.signatures:
        arguments[name]["signature"] = signature
    return arguments
