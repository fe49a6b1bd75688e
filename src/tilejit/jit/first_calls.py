"""The first call of a kernel in a process: straight to what the disk has, where there is a shortcut (disk/shortcuts.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from tilejit.errors import ArtifactError
from tilejit.jit.cache import MemoryCache
from tilejit.jit.definition import Definition
from tilejit.jit.disk import kernels as disk
from tilejit.jit.disk import shortcuts
from tilejit.jit.programs import Programs
from tilejit.jit.reads.scope import Reads
from tilejit.jit.reads.trace import Trace
from tilejit.runtime.artifact.compiled import CompiledProgram
from tilejit.runtime.config import check_settings


class FirstCalls(Programs):
    """A kernel that asks nothing for its first call if the answers can only be those that its program on disk was made for."""

    __slots__ = ("_remembered", "_untried")

    def __init__(self, definition: Definition, cache: MemoryCache | None) -> None:
        super().__init__(definition, cache)
        self._untried = True
        """Whether no call was made yet."""
        self._remembered: shortcuts.Roots | None = None
        """What a call by a shortcut relied on, until the next call."""

    def _first_way(self, args: tuple[object, ...]) -> shortcuts.Way | None:
        """Where a shortcut to the first call in this process would be; None: it has none."""
        self._untried = False
        return shortcuts.way_of(self.definition, args)

    def _by_shortcut(self, way: shortcuts.Way) -> CompiledProgram | None:
        """The program that a shortcut leads to; None: there is none yet."""
        found = way.found()
        if found is None:
            return None
        check_settings()
        entry, roots = found
        try:
            program = self._cache.find(
                disk.same_text(entry), lambda: self._loaded(entry, disk.program_in(entry, [way.definition]), lambda: way.key_of(entry))
            )
        except (ArtifactError, ValueError, TypeError, LookupError) as error:
            disk.store().reject(entry.key, str(error))
            return None
        program.share(note=self._note)
        reads = cast("Mapping[str, str]", entry.fields.get("reads") or {})
        self._cache.asked[entry.key] = way.key_of(entry), reads
        self._remembered = roots
        return program

    def _trace(self) -> Trace:
        """On what a call by a shortcut relied on, too, as if that had been asked then."""
        roots, self._remembered = self._remembered, None
        if roots is not None:
            self._functions.add([self.definition])
            if not self.definition.is_replaced:
                trace = self._begun(shortcuts.Remembered(roots), self._table, self._policy())
                for root in roots:
                    Reads(trace, self.definition).name(root)
                self._settle(trace)
        return super()._trace()

    def _start_anew(self, definition: Definition | None = None) -> None:
        self._remembered = None
        super()._start_anew(definition)
