"""The text of a source-backed kernel: given in the program, or in a file that is read again when it changed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass

from tilejit.errors import PtoSyntaxError, SourceNotFoundError
from tilejit.frontend.pto.decode import decoded
from tilejit.jit.pto import untouched
from tilejit.jit.pto.place import Place

_AGAIN = 256
"""Comparisons after which the system is asked once more to tell of a file."""


@dataclass(frozen=True)
class Source:
    """The text of a kernel and where it came from."""

    text: str
    kind: str
    path: str | None

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

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


class Content:
    """A file with what it held when it was read. Its times tell less: nothing of a writer who has it mapped, nor of two writes within a step of the clock."""

    __slots__ = ("_compared", "data", "path", "stands")

    def __init__(self, path: str, data: bytes) -> None:
        self.path, self.data = path, data
        self._compared = 0
        self.stands: Callable[[], bool] = bool
        """Whether the system watches the file and says that nobody touched it."""

    def holds(self) -> bool:
        """Whether the file holds that still; where the system does not tell, the bytes are compared."""
        if self.stands():
            return True
        self._compared = count = self._compared + 1
        if count > 1 and (count & (count - 1) == 0 or count % _AGAIN == 0):  # ever less often: somebody may open it all the time
            known = untouched.known(self.path, self.data)
            self.stands = bool if known is None else known.stands
            if known is not None and known.look():
                return True
        return self._holds_the_same_bytes()

    def _holds_the_same_bytes(self) -> bool:
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except (OSError, ValueError):
            return False
        try:
            return os.read(file, len(self.data) + 1) == self.data
        except OSError:
            return False
        finally:
            os.close(file)


def read_source(source: str, place: Place) -> Source:
    """The text now; relative paths start at the file that declares the kernel."""
    return read_content(source, place)[0]


def read_content(source: str, place: Place) -> tuple[Source, Content | None]:
    """The text now, and what its file holds; None where it has none, or where another file may be meant at the next call."""
    if is_inline(source):
        _check_encodes(source, place.kernel)
        return Source(source, "inline", None), None
    named = place.path_of(source)
    path = named
    try:
        path = os.path.realpath(named)
        with open(path, "rb") as file:
            raw = file.read()
    except (OSError, ValueError) as error:
        archived = place.archived(source)
        if archived is None:
            raise _not_found(source, place.kernel, path, error) from None
        return Source(decoded(archived, named), "path", named), None
    # A place that starts at the working directory may be another one at the next call.
    return Source(decoded(raw, path), "path", path), Content(named, raw) if os.path.isabs(named) else None


def _check_encodes(text: str, kernel: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        what = f"the source of {kernel} is no Unicode text: character {error.start} is {text[error.start]!r}, half of a pair of surrogates"
        raise PtoSyntaxError(what, help='decode the bytes of the text as what they are: .decode("utf-8")') from None


def _not_found(source: str, kernel: str, path: str, error: OSError | ValueError) -> SourceNotFoundError:
    shown = f" ({path})" if isinstance(error, OSError) else ""
    reason = "file does not exist" if isinstance(error, FileNotFoundError) else getattr(error, "strerror", None) or error
    help = None
    if isinstance(error, NotADirectoryError):
        help = "of what is in an archive give the text: source=importlib.resources.files(__package__).joinpath('kernel.pto').read_text()"
    return SourceNotFoundError(f"the source {source!r} of {kernel}{shown}: {reason}", help=help)
