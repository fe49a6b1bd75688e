"""The text of code that came from no file: `python -c`, a script on stdin, the prompt, `exec`. Python keeps only the code, so
places that may still hold the text are asked, and it counts if it compiles to that very code."""

from __future__ import annotations

import contextlib
import linecache
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import CodeType, FrameType
from types import FunctionType as PythonFunction

from tilejit.frontend.code_objects import digest_of, nested

ANONYMOUS = ("<string>", "<stdin>")
"""File names that stand for many texts."""
_HISTORY = 2000
"""Lines of the prompt that are looked at."""
_LEVELS = 4
"""How many callers of the code of `exec` are asked for its text."""

_served: list[str] = []
"""Texts that were found, for other functions of the same text."""


def is_anonymous(code: CodeType) -> bool:
    """Whether the file name of the code says nothing about its text."""
    return code.co_filename in ANONYMOUS


def remember(function: object) -> None:
    """Look for the text of a function now, while those who made it are still running."""
    if isinstance(function, PythonFunction) and is_anonymous(function.__code__):
        lines_of(function.__code__)


def lines_of(code: CodeType) -> list[str]:
    """The lines of the text that the code was compiled from; none if nobody has it any more."""
    own = digest_of(code)
    for text in _candidates(code):
        if any(_same(other, code) and digest_of(other) == own for other in _codes_of(text, code.co_filename)):
            if text not in _served:
                _served.append(text)
            return text.splitlines(keepends=True)
    return []


def _same(other: CodeType, code: CodeType) -> bool:
    return (other.co_qualname, other.co_firstlineno) == (code.co_qualname, code.co_firstlineno)


@lru_cache(maxsize=64)
def _codes_of(text: str, filename: str) -> tuple[CodeType, ...]:
    try:
        return tuple(nested(compile(text, filename, "exec", dont_inherit=True)))
    except (SyntaxError, ValueError):
        return ()


def _candidates(code: CodeType) -> Iterator[str]:
    name = f"def {code.co_name}"
    for text in (*reversed(_served), "".join(linecache.getlines(code.co_filename)), *_arguments(), *_stdin(), *_prompt(), *_callers(code)):
        if name in text:
            yield text


def _arguments() -> Iterator[str]:
    """What stands after `python -c`."""
    for option, text in zip(sys.orig_argv[1:], sys.orig_argv[2:], strict=False):
        if option.startswith("-") and not option.startswith("--") and option.endswith("c"):
            yield text


def _stdin() -> Iterator[str]:
    """A file that Python reads its program from; what comes through a pipe is gone."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        facts = os.fstat(0)
        if stat.S_ISREG(facts.st_mode):
            yield os.pread(0, facts.st_size, 0).decode()


def _prompt() -> Iterator[str]:
    """Definitions among the lines that were typed, the last first; the history has no empty ones."""
    readline = sys.modules.get("readline")
    if readline is None:
        return
    last = readline.get_current_history_length()
    lines = [f"{readline.get_history_item(at) or ''}\n" for at in range(max(1, last - _HISTORY), last + 1)]
    for start in reversed(range(len(lines))):
        if lines[start].startswith(("@", "def ", "class ")):
            yield "".join(lines[start : _end(lines, start)])


def _end(lines: Sequence[str], start: int) -> int:
    """Where a definition ends: at the first line at the margin after its body."""
    inside = False
    for at in range(start, len(lines)):
        indented = lines[at][0] in " \t"
        if inside and not indented and lines[at][0] not in ")]}":
            return at
        inside = inside or indented
    return len(lines)


def _callers(code: CodeType) -> Iterator[str]:
    """Texts at hand where `exec` was called: in variables, and in the code itself."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename == code.co_filename and frame.f_code.co_name == "<module>":
            caller = frame.f_back
            for _ in range(_LEVELS):
                if caller is not None:
                    found = [*caller.f_code.co_consts, *caller.f_locals.values(), *caller.f_globals.values()]
                    yield from dict.fromkeys(text for text in found if isinstance(text, str))
                    caller = caller.f_back
        frame = frame.f_back
