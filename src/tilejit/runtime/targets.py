"""The targets: of each, what a call needs to know before, and without, its compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from tilejit import config
from tilejit.errors import ArtifactError, PlatformError, TilejitError, did_you_mean

if TYPE_CHECKING:
    from tilejit.runtime.artifact.sections import Artifact
    from tilejit.runtime.call.signature import Bound


class Runner(Protocol):
    """Runs one entry on checked arguments. One that also has `native`, a NativeEntry, is called by native code when it is warm."""

    def run(self, arguments: Sequence[Bound], num_threads: int | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class TargetRow:
    """A target as data; functions and the compiler itself stand here by name and are imported when they are needed."""

    name: str
    """What the support matrix calls it."""
    platforms: tuple[str, ...]
    """What `platform=` calls it; one target may write for several."""
    compiler: str
    """The module whose `TARGET` is its `tilejit.backends.base.Target`."""
    devices: tuple[str, ...] = ("cpu",)
    """Where the tensors are that it takes."""
    aliases: tuple[str, ...] = ()
    """Further spellings of its first platform."""
    loader: str | None = None
    """`module:function`, Artifact → runners by entry, which needs no compiler; None: what it builds stays in the process that built it."""
    cacheable: bool = False
    """Whether the disk cache keeps what it builds; needs a loader."""
    device_facts: str = "tilejit.runtime.machine:fingerprint"
    """`module:function`, device → what of that device generated code depends on."""
    compiler_settings: str | None = None
    """`module:function` → what its libraries were told that changes code, by the environment for one; read without loading them. None: nothing does."""
    libraries: tuple[str, ...] = ()
    """Whose versions generated code depends on, besides those that every target needs."""
    extra: str = ""
    """What to install, as `tilejit[extra]`, when its libraries are not there."""
    ignores: tuple[str, ...] = ()
    """Settings that change code of other targets only: no part of the key of what it builds."""
    health: str | None = None
    """`module:function` → the findings about what it needs; None: nothing but its compiler."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a target needs: what there is of it, and what to do where that is not enough."""

    what: str
    text: str
    help: str | None = None


EAGER = "eager"
"""The reference, run line by line of the kernel, for debuggers."""
SANITIZE = "sanitize"
"""The reference, which watches what cells hold and who touches them."""

_rows: list[TargetRow] = [
    TargetRow(
        "cpu", ("cpu",), "tilejit.backends.cpu.target", aliases=("a2a3sim", "a5sim"), loader="tilejit.runtime.call.native:runners", cacheable=True,
        libraries=("llvmlite",), ignores=("arch",), health="tilejit.backends.cpu.health:findings",
    ),
    TargetRow(
        "cuda", ("cuda",), "tilejit.backends.cuda.target", devices=("cuda",), loader="tilejit.runtime.cuda.entry:runners", cacheable=True,
        device_facts="tilejit.runtime.cuda.devices:fingerprint", compiler_settings="tilejit.runtime.cuda.triton_settings:in_words",
        libraries=("triton",), extra="cuda", ignores=("cpu",), health="tilejit.backends.cuda.health:findings",
    ),
    TargetRow("reference", ("reference", EAGER, SANITIZE), "tilejit.backends.reference.target", devices=("cpu", "cuda"), ignores=("arch", "cpu")),
    # No part of the disk cache: `ptoas` has its say about the text whenever a program is compiled. Directories can be loaded.
    TargetRow("pto", ("a2a3", "a5"), "tilejit.backends.pto.target", loader="tilejit.backends.pto.target:runners", ignores=("arch", "cpu")),
]  # fmt: skip
DEFAULT = "cpu"
"""The platform when nobody says another."""
HOST = "cpu"
"""The device of tensors in this process's own memory, which leaves the choice open: every target that takes them may be meant."""


def rows() -> tuple[TargetRow, ...]:
    """All targets."""
    return tuple(_rows)


def register(row: TargetRow) -> None:
    """Make a target known; one with the name of another takes its place."""
    _rows[:] = [*(known for known in _rows if known.name != row.name), row]


def row_of(platform: str) -> TargetRow:
    """The target of a platform."""
    for row in _rows:
        if platform in row.platforms:
            return row
    raise _unknown(platform)


def resolve_platform(name: str | None, devices: Sequence[str] = ()) -> str:
    """The platform called `name`; None: that of the devices where the tensors are, else the setting, else the default."""
    if name is None and (config.SANITIZE.value or config.EAGER.value):
        return SANITIZE if config.SANITIZE.value else EAGER
    if name is None:
        for device in devices:
            if device != HOST:
                return _platform_of_device(device)
    name = name or config.PLATFORM.value or DEFAULT
    for row in _rows:
        if name in row.platforms:
            return name
        if name in row.aliases:
            return row.platforms[0]
    raise _unknown(name)


def place_of(name: str | None, device_id: int = 0, devices: Sequence[str] = ()) -> tuple[str, str]:
    """The platform and the device of a call: as `platform=` and `device_id=` say, or as the devices where its tensors are."""
    platform = resolve_platform(name, devices)
    kinds = row_of(platform).devices
    if HOST in kinds:
        return platform, HOST
    return platform, next((device for device in devices if device.partition(":")[0] in kinds), f"{kinds[0]}:{device_id}")


def _platform_of_device(device: str) -> str:
    kind = device.partition(":")[0]
    for row in _rows:
        if kind in row.devices:
            return row.platforms[0]
    raise PlatformError(f"a tensor is on {device}, and no target takes tensors there", help="move it to the CPU: x.cpu()")


_MEANT = {"gpu": "cuda", "nvidia": "cuda", "triton": "cuda", "llvm": "cpu", "host": "cpu", "numpy": "reference", "interpreter": "reference", "debug": "eager"}
"""What other words for a platform stand for."""


def _unknown(name: str) -> PlatformError:
    known = [*(platform for row in _rows for platform in row.platforms), *(alias for row in _rows for alias in row.aliases)]
    help = f"did you mean `{_MEANT[name]}`?" if name in _MEANT else did_you_mean(name, known)
    return PlatformError(f"unknown platform `{name}`; valid: {', '.join(known)}", help=help)


def code_settings(platform: str) -> tuple[tuple[str, object], ...]:
    """Name and present value of the settings that change the code of a platform."""
    return config.code_settings(row_of(platform).ignores)


def compiler_of(platform: str) -> Any:
    """The `TARGET` of the platform's module, imported now; PlatformError when this installation lacks it or what it needs."""
    row = row_of(platform)
    try:
        return import_module(row.compiler).TARGET
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in row.libraries:
            raise PlatformError(f"platform `{platform}` needs {missing}, which is not installed", help=f"pip install 'tilejit[{row.extra}]'") from None
        if not row.compiler.startswith(error.name or "?"):
            raise
        others = ", ".join(name for other in _rows if other is not row for name in other.platforms)
        raise PlatformError(f"platform `{platform}` cannot run kernels in this version", help=f"use one of: {others}") from None


def findings(row: TargetRow) -> list[Finding]:
    """What a target needs, and whether it is here."""
    return [] if row.health is None else list(cast("Callable[[], Iterable[Finding]]", _named(row.health))())


def device_facts(platform: str, device: str) -> str:
    """What of the device the code of a platform depends on."""
    return cast("Callable[[str], str]", _named(row_of(platform).device_facts))(device)


def compiler_settings(platform: str) -> str:
    """What the libraries of a platform were told that changes code, now; empty: nothing."""
    named = row_of(platform).compiler_settings
    return "" if named is None else cast("Callable[[], str]", _named(named))()


def load(artifact: Artifact) -> Mapping[str, Runner]:
    """What runs the entries of an artifact; ArtifactError says what does not fit this machine."""
    loader = row_of(artifact.platform).loader
    if loader is None:
        raise ArtifactError(f"{artifact.name} was compiled for `{artifact.platform}`, whose programs stay in their process", help="compile it here")
    try:
        return cast("Callable[[Artifact], Mapping[str, Runner]]", _named(loader))(artifact)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, TilejitError):
            raise
        raise ArtifactError(f"the description of {artifact.name} is malformed: {error!r}", help="compile the program again") from None


def _named(path: str) -> object:
    """What `module:name` names."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
