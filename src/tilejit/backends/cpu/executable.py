"""A program as machine code of the CPU, ready to be loaded here or kept on disk."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tilejit.backends.base import CodeCache, CompileOptions
from tilejit.backends.cpu.dispatch.dispatcher import dispatcher_text
from tilejit.backends.cpu.llvm import listing
from tilejit.backends.cpu.llvm.compile import Compiled, compile_llvm, target_machine
from tilejit.backends.cpu.llvm.elf import UnsupportedObject, flatten
from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.cpu.llvm.parts import Cutter
from tilejit.backends.cpu.llvm.workshop import Workshop
from tilejit.backends.cpu.lower import Lowered, lower
from tilejit.backends.cpu.teams.pool import pool_text
from tilejit.backends.entries import declared_params
from tilejit.config import CPU, under
from tilejit.lazy import lazy
from tilejit.passes.clock import stage
from tilejit.runtime.artifact.blob import Blob, LoadedBlob, joined
from tilejit.runtime.artifact.directory import Stage
from tilejit.runtime.call.abi import TEAM_RUN, TEAM_YIELD
from tilejit.runtime.call.native import Code, NativeEntry
from tilejit.tile_ir.program import Program


def build(program: Program, options: CompileOptions) -> CpuExecutable:
    """Machine code of a program that the passes of this target prepared."""
    known = options.known
    with Workshop() as workshop:
        cutter = Cutter(workshop)
        with stage("write LLVM"):
            lowered = lower(program, options, cutter.grown)
        found = known.find(lowered.text) if known is not None else None
        with stage("LLVM"):
            objects = cutter.objects(lowered.module) if found is None else None
            executable = CpuExecutable(program, lowered, found, pool_blob(known) if lowered.threaded else None, objects)
            if found is None and (made := executable.own_blob) is not None and known is not None:
                known.keep(lowered.text, made)
    return executable


def dispatcher_blob() -> Blob | None:
    """The code of the native dispatcher; None where it would need a real linker."""
    try:
        return flatten(compile_llvm(dispatcher_text()).object_bytes)
    except UnsupportedObject:
        return None


_pools: dict[str, Blob] = {}
"""By what LLVM was allowed to use."""


def pool_blob(known: CodeCache | None) -> Blob | None:
    """The code of the thread pool, made once per process at most for what LLVM may use; None where it does not run."""
    here = host()
    if here.features not in _pools and sys.platform == "linux" and here.is_x86:
        text = pool_text()
        found = known.find(text) if known is not None else None
        if found is None:
            found = flatten(compile_llvm(text).object_bytes)
            if known is not None:
                known.keep(text, found)
        _pools[here.features] = Blob(found.code, {name: found.entries[name] for name in (TEAM_RUN, TEAM_YIELD)}, found.externals)
    return _pools.get(here.features)


@dataclass(frozen=True)
class CpuExecutable:
    """A program in machine code."""

    program: Program
    lowered: Lowered
    found: Blob | None = None
    """The code, where it was there already."""
    pool: Blob | None = None
    """The code of the thread pool, where it is needed."""
    objects: Sequence[bytes] | None = None
    """The object files, where it was compiled in parts."""
    level: str = field(default_factory=lambda: CPU.value)
    """The most that it may use, whenever LLVM is asked."""

    @lazy
    def compiled(self) -> Compiled:
        """What LLVM makes of it in one piece."""
        with under({CPU.name: self.level}):
            return compile_llvm(self.lowered.text)

    @lazy
    def blob(self) -> Blob | None:
        """All code as one position-independent piece; None where the platform needs a real linker."""
        return joined(self.own_blob, self.pool) if self.own_blob is not None and self.pool is not None else self.own_blob

    @lazy
    def own_blob(self) -> Blob | None:
        """What was generated for the program."""
        if self.found is not None:
            return self.found
        try:
            return flatten(*(self.objects or [self.compiled.object_bytes]))
        except UnsupportedObject:
            return None

    @property
    def features(self) -> str:
        """What LLVM was allowed to use."""
        with under({CPU.name: self.level}):
            return host().features

    @lazy
    def code(self) -> Code:
        """The code, loaded into this process."""
        return LoadedBlob(self.blob) if self.blob is not None else LinkedObject(self.compiled.object_bytes)

    @lazy
    def entries(self) -> dict[str, NativeEntry]:
        """The callable functions."""
        return {
            name: NativeEntry(self.code, self.lowered.entries[name], declared_params(function), self.lowered.failures, threaded=self.lowered.threaded)
            for name, function in self.program.entries.items()
        }


def kernel_stages(executable: CpuExecutable) -> list[Stage]:
    """The forms of each function by itself."""
    forms: tuple[tuple[str, Callable[[str], str]], ...] = (
        ("ll", lambda name: listing.llvm_of(executable.lowered.text, name)),
        ("opt.ll", lambda name: listing.llvm_of(executable.compiled.optimised, name)),
        ("s", lambda name: listing.assembly_of(executable.compiled.assembly, name)),
    )
    names = executable.program.functions
    return [Stage(f"{name}.{form}", f"kernels/{name}.{form}", lambda name=name, text=text: text(name)) for name in names for form, text in forms]


def versions() -> dict[str, str]:
    """The tools whose output the code is."""
    import llvmlite
    import llvmlite.binding as llvm

    return {"llvmlite": str(llvmlite.__version__), "llvm": ".".join(map(str, llvm.llvm_version_info))}


class LinkedObject:
    """An object file linked in process by LLVM: the way that works on every platform it knows."""

    def __init__(self, object_bytes: bytes) -> None:
        import llvmlite.binding as llvm

        target_machine()
        here = llvm.Target.from_default_triple().create_target_machine()
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), here)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(object_bytes))
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        return self._engine.get_function_address(name)

