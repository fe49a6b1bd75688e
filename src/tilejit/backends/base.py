"""What a target is: the one thing that the compiler, the caches and the tools ask about a backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tilejit.ops.spec import OpSpec
from tilejit.passes.pipeline import Pass
from tilejit.runtime.artifact.blob import Blob
from tilejit.runtime.artifact.directory import Stage
from tilejit.runtime.artifact.sections import Artifact
from tilejit.runtime.targets import DEFAULT, Runner, compiler_of
from tilejit.tile_ir.program import Program


class CodeCache(Protocol):
    """Machine code by the text it was generated from."""

    def find(self, text: str) -> Blob | None: ...

    def keep(self, text: str, blob: Blob) -> None: ...


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """What a target may assume and must do."""

    num_threads: int | None = None
    """Threads a call may use; None: decided per call."""
    check_bounds: bool = True
    """Check every window and index that is not provably inside."""
    fast_math: bool = True
    """Permit reassociation, contraction and the fast polynomials; never assumptions about NaN, infinity or signed zero."""
    strided: frozenset[tuple[str, str]] = frozenset()
    """(entry, parameter) of the tensors that may have any strides; all others are contiguous."""
    platform: str = DEFAULT
    """Which of the target's platforms is meant."""
    device: str = "cpu"
    """Where the code will run: `cpu`, `cuda:0`, …"""
    arch: str = ""
    """GPU architectures to compile for; empty: that of the device."""
    schedule: str = ""
    """Choices of the target to be replaced, as JSON by nest (see its schedule module)."""
    profile: bool = False
    """Put a clock around every region, where the target can."""
    known: CodeCache | None = None
    """Has the machine code of some texts already."""


@dataclass(frozen=True, slots=True)
class Built:
    """A program as its target made it."""

    artifact: Artifact
    """What runs: sections that the target's loader (see its row in runtime/targets.py) turns into runners, in this process or another."""
    stages: Sequence[Stage] = ()
    """Readable forms of the code."""
    runners: Mapping[str, Runner] | None = None
    """By entry: what runs it in this process; None: what the loader makes of the artifact."""


@dataclass(frozen=True, slots=True)
class Target:
    """A backend. What a call asks before it is needed stands in its row in runtime/targets.py: names, devices, loader, fingerprint."""

    passes: Callable[[CompileOptions], tuple[Pass, ...]]
    """What prepares a program for `build`."""
    hole: Callable[[OpSpec], str | None]
    """Why a row of the op table does not run here; None when it does."""
    build: Callable[[Program, Program, CompileOptions], Built]
    """Code of a program: as it was written, and as the passes prepared it."""


def target_of(platform: str) -> Target:
    """The target of a platform; PlatformError when it cannot be had here."""
    found = compiler_of(platform)
    assert isinstance(found, Target), platform
    return found
