"""An artifact as a directory: what runs (meta.json and the sections of the target) and what people read (program.py, passes/, kernels/)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from tilejit.errors import ArtifactError
from tilejit.runtime.artifact.sections import META, Artifact, read_artifact, read_fields

_AGAIN = "compile the program again, or copy the directory again"


@dataclass(frozen=True, slots=True)
class Stage:
    """A readable form of a program; `file` is where the directory keeps it, None: nowhere."""

    name: str
    file: str | None
    text: Callable[[], str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Row:
    """What the description says about a file."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class _Opened:
    """A directory as its description was when it was read."""

    path: str
    rows: Mapping[str, _Row]

    def file(self, name: str) -> bytes:
        """A file, if it is what was written."""
        whole = os.path.join(self.path, name)
        try:
            with open(whole, "rb") as file:
                data = file.read()
        except OSError as error:
            raise self._unlike(name, f"{whole} cannot be read: {error.strerror}") from None
        row = self.rows.get(name)
        if row is None or len(data) != row.size or hashlib.sha256(data).hexdigest() != row.sha256:
            raise self._unlike(name, f"{whole} is damaged: its checksum does not match {META}")
        return data

    def _unlike(self, name: str, what: str) -> ArtifactError:
        """Why a file is not the one that was described: `what`, unless the description is another one by now."""
        with contextlib.suppress(ArtifactError, AttributeError, KeyError, TypeError, ValueError):
            now = _rows(read_fields(_content(os.path.join(self.path, META)) or b""))
            if now.get(name) != self.rows.get(name):
                return another(self.path)
        return ArtifactError(what, help=_AGAIN)


def _rows(fields: Mapping[str, Any]) -> dict[str, _Row]:
    return {str(name): _Row(int(row["size"]), str(row["sha256"])) for name, row in fields["files"].items()}


def another(path: str) -> ArtifactError:
    """The error for a directory into which another program was compiled than the one that is asked for."""
    return ArtifactError(f"{path} holds another program now", help="compile each program with an output_dir of its own, or leave output_dir out")


def write_directory(path: str, artifact: Artifact, stages: Iterable[Stage]) -> None:
    """Write the directory `path`. A new one appears at once with everything in it; one that exists is brought up to date."""
    contents = {name: fetch() for name, fetch in artifact.sections.items()}
    kept = [stage for stage in stages if stage.file is not None]
    contents |= {cast("str", stage.file): stage.text().encode() for stage in kept}
    rows = {name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in contents.items()}
    contents[META] = artifact.described(files=rows, stages=[[stage.name, stage.file] for stage in kept])
    if not os.path.isdir(path) or not os.listdir(path):
        _create(path, contents)
    elif not _has(path, contents):
        _update(path, contents)


def _has(path: str, contents: Mapping[str, bytes]) -> bool:
    """Whether the directory is one of the same program with at least these texts, none of them damaged."""
    try:
        there, ours = (read_fields(data or b"") for data in (_content(os.path.join(path, META)), contents[META]))
        files = there.pop("files")
        same = all(files.get(name) == row for name, row in ours.pop("files").items())
    except (ArtifactError, AttributeError, KeyError):
        return False
    for fields in (there, ours):
        for name in ("stages", "checksum"):
            fields.pop(name, None)
    if not same or there != ours or not all(os.path.exists(os.path.join(path, name)) for name in files):
        return False
    return all(_content(os.path.join(path, name)) == data for name, data in contents.items() if name != META)


def _create(path: str, contents: Mapping[str, bytes]) -> None:
    parent, name = os.path.split(path)
    os.makedirs(parent or ".", exist_ok=True)
    temporary = os.path.join(parent, f".{name}.tmp-{os.getpid()}-{os.urandom(6).hex()}")
    try:
        for file, data in contents.items():
            _put(os.path.join(temporary, file), data)
        os.replace(temporary, path)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        # Somebody else was first: what matters is that the directory holds what we would have put there.
        if not os.path.isdir(path):
            raise
        _update(path, contents)


def _update(path: str, contents: Mapping[str, bytes]) -> None:
    """Replace file after file, the description last: a reader in between sees checksums that do not match, never wrong code."""
    stale: list[str] = []
    with contextlib.suppress(ArtifactError, OSError, KeyError):
        old = read_fields(_content(os.path.join(path, META)) or b"")
        stale = [name for name in cast("dict[str, object]", old["files"]) if name not in contents]
    for name in sorted(contents, key=lambda name: name == META):
        final = os.path.join(path, name)
        temporary = f"{final}.tmp-{os.getpid()}-{os.urandom(6).hex()}"
        _put(temporary, contents[name])
        os.replace(temporary, final)
    for name in stale:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(path, name))


def _put(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "xb") as file:
        file.write(data)


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


# ----------------------------------------------------------------------------------------------------------------------
# upkeep

_TEMPORARY = re.compile(r"\..*\.tmp-\d+-[0-9a-f]+\Z")
_HOUR = 3600.0
_TOUCH_EVERY = 300.0


def note_use(path: str) -> None:
    """Artifacts of the cache directory that are used last are removed last."""
    meta = os.path.join(path, META)
    with contextlib.suppress(OSError):
        if time.time() - os.stat(meta).st_mtime > _TOUCH_EVERY:
            os.utime(meta)


def sweep_directories(parent: str, max_bytes: int, max_count: int) -> int:
    """Remove the least recently used artifacts of `parent` over the limits, and what dead writers left; how many."""
    kept: list[tuple[float, int, str]] = []
    removed = 0
    for name in os.listdir(parent) if os.path.isdir(parent) else ():
        path = os.path.join(parent, name)
        if os.path.islink(path) or not os.path.isdir(path):
            continue
        stamp, size = _stamp_and_size(path)
        if not _TEMPORARY.match(name):
            kept.append((stamp, size, path))
        elif time.time() - stamp > _HOUR:
            removed += _remove(path)
    total, count = sum(size for _, size, _ in kept), len(kept)
    for _, size, path in sorted(kept):
        if total <= max_bytes and count <= max_count:
            break
        removed += _remove(path)
        total, count = total - size, count - 1
    return removed


def _stamp_and_size(path: str) -> tuple[float, int]:
    """When an artifact was used last, and its bytes."""
    stamp, size = 0.0, 0
    with contextlib.suppress(OSError):
        stamp = os.stat(path).st_mtime
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                facts = os.stat(os.path.join(folder, name), follow_symlinks=False)
                size += facts.st_size
                stamp = facts.st_mtime if name == META and folder == path else stamp
    return stamp, size


def _remove(path: str) -> int:
    """Out of sight in one step, then file after file: nobody opens half an artifact."""
    parent, name = os.path.split(path)
    hidden = path if _TEMPORARY.match(name) else os.path.join(parent, f".{name}.tmp-{os.getpid()}-{os.urandom(6).hex()}")
    try:
        os.replace(path, hidden)
    except OSError:
        return 0
    shutil.rmtree(hidden, ignore_errors=True)
    return 1


# ----------------------------------------------------------------------------------------------------------------------
# reading


def open_directory(path: str) -> tuple[Artifact, tuple[Stage, ...]]:
    """The artifact in `path`; only its description is read now, each other file when it is needed, checked against its checksum."""
    if not os.path.isdir(path):
        raise ArtifactError(f"there is no artifact directory {path}", help="pass the directory that ir.compile(output_dir=…) wrote")
    meta = _content(os.path.join(path, META))
    if meta is None:
        raise ArtifactError(f"{path} is no artifact: it has no readable {META}", help="pass the directory that ir.compile(output_dir=…) wrote")
    fields = read_fields(meta, os.path.join(path, META))
    try:
        rows = _rows(fields)
        files = {str(name): str(file) for name, file in cast("list[Any]", fields["stages"])}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"{os.path.join(path, META)} is malformed: {error!r}", help=_AGAIN) from None
    opened = _Opened(path, rows)
    artifact = read_artifact(fields, opened.file, {name: row.sha256 for name, row in rows.items()})
    if not artifact.portable:
        raise ArtifactError(
            f"{artifact.name} was compiled for `{artifact.platform}` without code that another process could load",
            help="compile program.py of that directory here, or compile for platform='cpu' on x86-64 Linux",
        )
    return artifact, tuple(Stage(name, file, lambda file=file: opened.file(file).decode()) for name, file in files.items())

