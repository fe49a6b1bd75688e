"""The code of a source-backed kernel: machine code from the disk cache, or built when it is first needed; else the interpreter."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from tilejit import config as settings
from tilejit.backends.pto.interpret.arguments import flat_arguments, flat_names
from tilejit.errors import ArtifactError
from tilejit.jit.disk import kernels as disk
from tilejit.jit.disk.fingerprint import sources_changed
from tilejit.lazy import lazy
from tilejit.runtime.artifact.compiled import CompiledProgram
from tilejit.runtime.config import forbidden
from tilejit.runtime.store.entry import CacheEntry
from tilejit.runtime.targets import DEFAULT, code_settings

if TYPE_CHECKING:
    from tilejit.jit.pto.program import PtoProgram

NOTES = "pto.json"
"""The section that says whether a checked text became machine code, and if not, why."""


def key_of(kernel: str, fields: Mapping[str, object]) -> disk.Key:
    """The key on disk: the digest of the text, how it was checked, the settings and the tool chain."""
    return disk.Key({"kernel": kernel, **fields, "settings": dict(code_settings(DEFAULT))})


def launched(native: CompiledProgram | None, names: Sequence[str], types: Sequence[str], arguments: Sequence[object], grid: int) -> bool:
    """Run a launch as machine code; False: there is none, or none for these arguments."""
    flat = None if native is None else flat_arguments(names, types, arguments, native.param_infos)
    if native is None or flat is None:
        return False
    native(*flat, grid)
    return True


@dataclass(eq=False)
class PtoCode:
    """A kernel whose text was checked: now, or when its entry on disk was written."""

    name: str
    key: disk.Key
    names: tuple[str, ...]
    types: tuple[str, ...]
    check: Callable[[], PtoProgram] = field(repr=False)
    """Reads and verifies the text."""

    def __post_init__(self) -> None:
        self._entry = disk.store().get(self.key.digest)
        self.from_disk = self._entry is not None
        if self._entry is None:
            _ = self.program

    @lazy
    def program(self) -> PtoProgram:
        """The text as a module."""
        with settings.under(cast("Mapping[str, object]", self.key.own["settings"])):
            return self.check()

    @property
    def backend(self) -> str:
        """"cpu": machine code; "interpreter": op by op."""
        return "interpreter" if self.native is None else self.native.platform

    @property
    def interpreted_because(self) -> str | None:
        """Why a kernel is interpreted; None when it is machine code."""
        return None if self.native is not None else self._because

    @lazy
    def native(self) -> CompiledProgram | None:
        """The machine code, loaded or built now; None when the kernel is interpreted."""
        self._because: str | None = None
        if self._entry is None:
            self._entry = disk.store().get_or_build(self.key.digest, self._build)
            if "_fresh" in self.__dict__:
                return self._fresh
        try:
            return self._loaded(self._entry)
        except (ArtifactError, ValueError, TypeError, LookupError) as error:
            # Whole, but it means nothing here: as good as not there, and written anew.
            disk.store().reject(self.key.digest, str(error))
            made = self._build()
            if made is not None:
                disk.store().put(made)
            return self._fresh

    def _build(self) -> CacheEntry | None:
        if settings.RUN_ONLY.value:
            raise forbidden(self.name)
        start = time.perf_counter()
        self._fresh = self.program.native
        self._because = self.program.interpreted_because
        if settings.tells_of_compiles():
            outcome = "machine code" if self._fresh is not None else f"interpreted: {self._because}"
            sys.stderr.write(f"tilejit: compiled {self.name} in {1e3 * (time.perf_counter() - start):.0f} ms: {outcome}\n")
        if sources_changed() or (self._fresh is not None and not self._fresh.artifact.portable):
            return None
        notes = json.dumps({"interpreted_because": self._because}).encode()
        return CacheEntry(self.key.digest, self.key.fields, {NOTES: notes, **(self._fresh.artifact.contents() if self._fresh is not None else {})})

    def _loaded(self, entry: CacheEntry | None) -> CompiledProgram | None:
        if entry is None:
            raise ArtifactError("no entry")
        if entry.text != self.key.text:
            raise ArtifactError("the cache entry was made for other fields than its key says")
        because = json.loads(entry.sections[NOTES])["interpreted_because"]
        if because is None:
            return CompiledProgram(disk.artifact_of_entry(entry))
        if not because or not isinstance(because, str):
            raise ArtifactError("the cache entry does not say why its kernel is interpreted")
        self._because = because
        return None

    def launch(self, arguments: Sequence[object], grid: int) -> CompiledProgram | None:
        """Run it; the machine code that it ran as."""
        if launched(self.native, self.names, self.types, arguments, grid):
            return self.native
        self.program.interpret(arguments, grid)
        return None

    def launch_names(self, native: CompiledProgram) -> list[str]:
        """What the machine code calls the arguments of a launch, in their order, and last the grid."""
        return flat_names(self.types, native.param_infos)
