"""The text of a source-backed kernel: given in the program, or in a file that is read again when it changed."""

from __future__ import annotations

import hashlib
import inspect
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from tilejit.errors import SourceNotFoundError
from tilejit.frontend.pto.decode import decoded


@dataclass(frozen=True)
class Source:
    """The text of a kernel and where it came from."""

    text: str
    kind: str
    path: str | None

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode("utf-8", "surrogateescape")).hexdigest()

    @property
    def name(self) -> str:
        """In messages: the path, or the start of the digest."""
        return self.path if self.path is not None else f"<inline pto source {self.digest[:12]}>"


def is_inline(source: str) -> bool:
    """Whether a source is text rather than a path."""
    if "\n" in source or "\r" in source:
        return True
    start = source.lstrip()
    return start.startswith(("module {", "builtin.module {")) or ("module {" in source and "func.func @" in source)


_SETTLED = 2_000_000_000
"""Nanoseconds after which a change of a file surely gets another time than the one before: file systems count in steps, of 2 s at the most."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """A file as it was when it was read: nothing changes its content without changing one of these numbers."""

    path: str
    numbers: tuple[int, ...]

    def holds(self) -> bool:
        """Whether the file is as it was."""
        return _numbers(self.path) == self.numbers


def _numbers(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def read_source(source: str, function: Callable[..., object]) -> Source:
    """The text now; relative paths start at the file that declares the function."""
    return read_stamped(source, function)[0]


def read_stamped(source: str, function: Callable[..., object]) -> tuple[Source, Stamp | None]:
    """The text now, and the stamp of its file; None where it has none, or one that could not tell the next change."""
    if is_inline(source):
        return Source(source, "inline", None), None
    path = source
    try:
        folder = None if os.path.isabs(source) else _folder(function)
        place = source if os.path.isabs(source) else os.path.join(folder or os.getcwd(), source)
        before, path = _numbers(place), os.path.realpath(place)
        with open(path, "rb") as file:
            raw = file.read()
    except FileNotFoundError:
        raise SourceNotFoundError(f"the source {source!r} of {function.__name__} ({path}): file does not exist") from None
    except (OSError, ValueError) as error:
        shown = f" ({path})" if isinstance(error, OSError) else ""
        raise SourceNotFoundError(f"the source {source!r} of {function.__name__}{shown}: {getattr(error, 'strerror', None) or error}") from None
    found = Source(decoded(raw, path), "path", path)
    # A place that starts at the working directory may be another one at the next call.
    stays = folder is not None or os.path.isabs(source)
    settled = before is not None and before == _numbers(place) and time.time_ns() - before[-1] > _SETTLED
    return found, Stamp(place, before) if before is not None and stays and settled else None


def _folder(function: Callable[..., object]) -> str | None:
    """The folder of the file that declares a function, if there is one."""
    try:
        declared = inspect.getsourcefile(function)
    except TypeError:
        declared = None
    return os.path.dirname(os.path.abspath(declared)) if declared and os.path.exists(declared) else None
