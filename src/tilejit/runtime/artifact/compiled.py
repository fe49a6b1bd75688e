"""A program that can be called, and is the path of its artifact directory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path, PurePath
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

from tilejit.errors import ArgumentError, ArtifactError, TilejitError, did_you_mean
from tilejit.lazy import lazy
from tilejit.runtime.artifact import describe, directory
from tilejit.runtime.artifact.directory import Stage
from tilejit.runtime.artifact.entry import CompiledEntry, Relocations, Shared
from tilejit.runtime.artifact.sections import HOSTS, Artifact
from tilejit.runtime.call.autograd import GradNote
from tilejit.runtime.call.graphs import keep_out_of_graphs, untraced
from tilejit.runtime.call.native import loading
from tilejit.runtime.call.native_type import NativeCallable, enable
from tilejit.runtime.call.signature import ParamInfo, Signature
from tilejit.runtime.config import RunConfig
from tilejit.runtime.store.directory import ARTIFACTS, default_root
from tilejit.runtime.targets import Runner, load

if TYPE_CHECKING:
    from tilejit.runtime.bench import BenchmarkStats
    from tilejit.runtime.cuda.graph import CapturedCall


class DirectoryPath(str):
    """A path as text, with everything that `pathlib.Path` can do: `p / "name"`, `p.exists()`, `p.iterdir()`, …"""

    __slots__ = ()

    def __fspath__(self) -> str:
        return str.__str__(self)

    def __truediv__(self, name: str | os.PathLike[str]) -> Path:
        return Path(self) / name

    def __rtruediv__(self, before: str | os.PathLike[str]) -> Path:
        return before / Path(self)

    def __eq__(self, other: object) -> bool:
        return Path(self) == other if isinstance(other, PurePath) else str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return Path(self) != other if isinstance(other, PurePath) else str.__ne__(self, other)

    __hash__ = str.__hash__

    def __getattr__(self, name: str) -> Any:
        return getattr(Path(self), name)


_CLASS_DOC = """A compiled program: call it with all parameters to work in place, or without its outputs to have them returned.

It is also the path of its artifact directory: `str(c)`, `os.fspath(c)` and `c.output_dir` write that directory when it is not there yet.
Equality and hash are those of the path: a program equals a `str` or an `os.PathLike` with the same path, and hashes like the `str`; another program must
be the same code too. Comparing and hashing write nothing. Pickling stores the path and what must be found there. A copy of a program is the program.
"""


class CompiledProgram(NativeCallable):
    __doc__ = describe.docstring(_CLASS_DOC, lambda program: describe.program_text(program.name, program.signatures, program.platform))
    __slots__ = (
        "__dict__", "__weakref__",
        "_again", "_answered", "_artifact", "_forms", "_path", "_program", "_shared", "_stages", "_written", "called", "entries",
    )  # fmt: skip

    def __init__(
        self,
        artifact: Artifact,
        runners: Mapping[str, Runner] | None = None,
        *,
        program: object | Callable[[], object] | None = None,
        stages: Iterable[Stage] = (),
        output_dir: str | None = None,
    ) -> None:
        self._artifact = artifact
        self._stages = {stage.name: stage for stage in stages}
        self._forms: dict[str, Stage] | None = self._stages
        self._again: Callable[[object], Iterable[Stage]] | None = None
        self._path = output_dir
        self._written = False
        self.called = False
        """Whether a kernel has run it: from then on it is worth a warm way."""
        self._program = program
        self._shared = Shared(options=artifact.options)
        found = runners if runners is not None else load(artifact)
        self.entries = {name: CompiledEntry(info, found[name], artifact.platform, self._shared) for name, info in artifact.entries.items()}
        self._answered = False

    def share(self, note: GradNote | None = None, relocations: Relocations | None = None) -> None:
        """Let all programs of a kernel tell their callers once; turn the places of run-time failures into places of the present source."""
        if note is not None:
            self._shared.note = note
        if relocations is not None:
            self._shared.relocations = relocations

    @property
    def program(self) -> object | None:
        """The program this was compiled from, read back from its text when it comes from the disk cache; None when it comes from a directory."""
        if isinstance(self._program, FunctionType):
            self._program = self._program()
        return self._program

    @classmethod
    def from_dir(cls, path: str | os.PathLike[str]) -> CompiledProgram:
        """The program in an artifact directory. Only its description is read; the code is loaded at the first call.

        This runs native code from the directory. The checksums find damage; they do not authenticate: load only directories you trust.
        """
        whole = os.path.abspath(os.fspath(path))
        artifact, stages = directory.open_directory(whole)
        if os.path.dirname(whole) == _own_artifacts():
            directory.note_use(whole)
        if HOSTS in artifact.sections:
            compiled = cast("CompiledProgram", import_module("tilejit.jit.hosts.distributed").DistributedCompiledProgram.opened(artifact, stages, whole))
        else:
            compiled = CompiledProgram(artifact, stages=stages, output_dir=whole)
        compiled._written = True
        return compiled

    # calling --------------------------------------------------------------------------------------------------------------

    @untraced
    def __call__(self, *args: object, config: RunConfig | None = None, **named: object) -> Any:
        """All parameters: works in place, returns None. Without the outputs: allocates and returns them, in the caller's framework."""
        keep_out_of_graphs()
        entry = self.only("call")
        if not self._answered:
            entry.warm.answer_for(self)
            self._answered = True
        return entry(*args, config=config, **named)

    def checked(self, args: Sequence[object], config: RunConfig | None) -> Any:
        """A call with all its checks; its errors point at the source as it is now."""
        entry = self.only("call")
        try:
            return entry.checked(args, config)
        except TilejitError as error:
            entry.relocate(error)
            raise

    def graph(self, *args: object) -> CapturedCall:
        """A call captured into a CUDA graph, to be launched again and again on the same arrays."""
        return self.only("capture").graph(*args)

    def benchmark(self, *args: object, rounds: int = 100, warmup: int = 3) -> BenchmarkStats:
        """Time calls with these arguments."""
        return self.only("benchmark").benchmark(*args, rounds=rounds, warmup=warmup)

    def only(self, what: str) -> CompiledEntry:
        """The entry that a plain call means; `what` is to be done with it."""
        if len(self.entries) == 1:
            return next(iter(self.entries.values()))
        names = ", ".join(self.entries)
        raise ArgumentError(f"cannot {what} {self.name}: it has several entries: {names}", help=f"name one: compiled[{next(iter(self.entries), '')!r}]")

    def __getitem__(self, name: str) -> CompiledEntry:
        if name not in self.entries:
            hint = did_you_mean(name, self.entries)
            raise KeyError(f"{self.name} has no entry {name!r}; " + (hint or f"it has {', '.join(self.entries)}"))
        return self.entries[name]

    def __getattr__(self, name: str) -> CompiledEntry:
        entries = {} if name == "entries" else self.entries
        if name == "__signature__" and len(entries) == 1:
            return cast("CompiledEntry", describe.python_signature(self.signature))
        if name.startswith("_") or name not in entries:
            raise AttributeError(f"CompiledProgram has no attribute {name!r}", name=name, obj=self)
        return entries[name]

    # what it is -----------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._artifact.name

    @property
    def platform(self) -> str:
        """Where it runs."""
        return self._artifact.platform

    @property
    def artifact(self) -> Artifact:
        """What it is made of."""
        return self._artifact

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """The signature of every entry."""
        return tuple(entry.signature for entry in self.entries.values())

    @property
    def signature(self) -> Signature:
        """The signature of the only entry."""
        return self.only("describe").signature

    @property
    def param_infos(self) -> tuple[ParamInfo, ...]:
        """Name, direction, shape with symbols, and dtype of every parameter."""
        return self.signature.params

    @property
    def param_names(self) -> list[str]:
        """The names of the parameters, in order."""
        return [param.name for param in self.param_infos]

    @property
    def output_indices(self) -> tuple[int, ...]:
        """Parameters that a return-style call leaves out."""
        return self.signature.output_indices

    @property
    def has_return(self) -> bool:
        """Whether a call can return tensors."""
        return bool(self.signature.output_indices or self.signature.results)

    def stages(self) -> tuple[str, ...]:
        """Names of the intermediate forms that `stage` can show. Those that no cache keeps are made when somebody asks, by compiling once more."""
        return tuple(self._shown())

    def forms(self) -> tuple[Stage, ...]:
        """The intermediate forms themselves."""
        return tuple(self._shown().values())

    def stage(self, name: str) -> str:
        """The text of an intermediate form."""
        found = self._stages.get(name) or self._shown().get(name)
        if found is None:
            raise KeyError(f"{self.name} has no stage {name!r}; it has {', '.join(self._shown()) or 'none'}")
        return found.text()

    def kernel_stages(self) -> tuple[Stage, ...]:
        """The readable forms of the code itself."""
        return tuple(stage for stage in self.forms() if stage.file is not None and stage.file.startswith("kernels/"))

    def made_again(self, again: Callable[[object], Iterable[Stage]], lacks_forms: bool) -> None:
        """What compiles its program once more, for all forms, passes too; `lacks_forms`: it has only its text, because it was found on disk."""
        self._again = again
        self._forms = None if lacks_forms else self._forms

    def _shown(self) -> dict[str, Stage]:
        if self._forms is None:
            self.look_again()
        return self._forms or self._stages

    def look_again(self) -> None:
        """Have the program after every pass among the stages, as `RunConfig(dump_passes=True)` asks."""
        if self._again is not None and not any(name.startswith("passes/") for name in self._forms or ()):
            self._forms = {**{stage.name: stage for stage in self._again(self.program)}, **self._stages}

    def save_kernels(self, directory: str | None) -> None:
        """Keep the texts of the kernels: in `directory`, else with the artifact."""
        if directory is None:
            _ = self.output_dir
            return
        os.makedirs(directory, exist_ok=True)
        for stage in self.kernel_stages():  # each time: another program may have written its own there since
            assert stage.file is not None
            with open(os.path.join(directory, os.path.basename(stage.file)), "w", encoding="utf-8") as file:
                file.write(stage.text())

    def __repr__(self) -> str:
        shown = "; ".join(str(signature) for signature in self.signatures)
        return f"CompiledProgram({shown}, platform={self.platform!r})"

    def _repr_html_(self) -> str:
        return describe.program_html(self.name, self.signatures, self.platform)

    # a path ---------------------------------------------------------------------------------------------------------------

    @property
    def output_dir(self) -> DirectoryPath:
        """The artifact directory, written now if it was not: a `str` that is also a path, `output_dir / "kernels"`."""
        path = self._directory
        if not self._there(path):
            with loading():
                if not self._there(path):
                    self._write(path)
                    self._written = True
        return DirectoryPath(path)

    def _write(self, path: str) -> None:
        try:
            if self._path is None:
                _make_root()
            directory.write_directory(path, self._artifact, self._stages.values())
        except OSError as error:
            place = "TILEJIT_CACHE_DIR=" if self._path is None else "output_dir="
            what = f"the artifact of {self.name} cannot be written to {path}: {error.strerror or error}"
            raise ArtifactError(what, help=f"give {place} a directory that can be written, or a path where one can be made") from None

    def _there(self, path: str) -> bool:
        """Whether the directory is written; those in the cache may have been swept since."""
        return self._written and (self._path is not None or os.path.isdir(path))

    @lazy
    def _directory(self) -> str:
        """The path without writing anything."""
        if self._path is not None:
            return os.path.abspath(self._path)
        digest = hashlib.sha256()
        files = {stage.file: stage for stage in self._stages.values() if stage.file is not None}
        program = files["program.py"].text() if "program.py" in files else ""
        # The texts of the kernels follow from these; dumped passes are what somebody asked for.
        passes = ",".join(sorted(file for file in files if file.startswith("passes/")))
        for part in (*self._artifact.contents().values(), program.encode(), passes.encode()):
            digest.update(len(part).to_bytes(8, "little") + part)
        return os.path.join(_own_artifacts(), f"{self.name}_{digest.hexdigest()[:8]}")

    def __str__(self) -> str:
        return os.fspath(self.output_dir)

    def __fspath__(self) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, CompiledProgram):
            return self._directory == other._directory and self._identity == other._identity
        return self._directory == os.fspath(cast("str", other)) if isinstance(other, str | os.PathLike) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._directory)

    @lazy
    def _identity(self) -> str:
        """What it is, wherever it lies: one directory can be written by several programs, one after the other."""
        text = self._stages.get("python") if not self._artifact.portable else None
        return self._artifact.identity + (text.text() if text is not None else "")

    def __copy__(self) -> CompiledProgram:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> CompiledProgram:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        if not self._artifact.portable:
            raise TypeError(f"{self.name} cannot be pickled: on `{self.platform}` there is no code that another process could load")
        path = str(self)
        _check_holds(path, directory.open_directory(path)[0], self._artifact.identity)
        return (_from_pickle, (path, self._artifact.identity))


enable(CompiledProgram)


def _from_pickle(path: str, identity: str) -> CompiledProgram:
    """The program that was pickled."""
    found = CompiledProgram.from_dir(path)
    _check_holds(path, found.artifact, identity)
    return found


def _check_holds(path: str, there: Artifact, identity: str) -> None:
    if there.identity != identity:
        raise directory.another(path)


def _own_artifacts() -> str:
    """Where artifacts go that nobody chose a place for."""
    return os.path.join(os.path.abspath(default_root() or "no cache directory"), ARTIFACTS)


def _make_root() -> None:
    """The cache directory, for this user only."""
    root = default_root()
    if root is None:
        raise ArtifactError("there is no place for the artifact: no home directory", help="set TILEJIT_CACHE_DIR, or compile with output_dir=…")
    os.makedirs(root, mode=0o700, exist_ok=True)
