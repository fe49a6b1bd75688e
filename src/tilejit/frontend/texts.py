"""The text of code. Python keeps only the code, so that of a file is read when a kernel is made of it, before anybody edits the file.

For code that came from no file (`python -c`, a script on stdin, the prompt, `exec`) places that may still hold the text are asked, and it counts if it
compiles to that very code."""

from __future__ import annotations

import ast
import codecs
import contextlib
import io
import linecache
import os
import stat
import sys
import tokenize
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import CodeType, FrameType
from types import FunctionType as PythonFunction

from tilejit.frontend.code_objects import digest_of, nested
from tilejit.kinds import is_a
from tilejit.types.python_text import module_code, statements

ANONYMOUS = ("<string>", "<stdin>")
"""File names that stand for many texts."""
_HISTORY = 2000
"""Lines of the prompt that are looked at."""
_LEVELS = 4
"""How many callers of the code of `exec` are asked for its text."""

_served: list[str] = []
"""Texts that were found, for other functions of the same text."""
_kept: dict[int, tuple[weakref.ref[CodeType], list[str]]] = {}
"""By the address of a code: the lines that it was found in. Two that are equal may have texts that are not: annotations leave no trace in code."""


def has_file(code: CodeType) -> bool:
    """Whether the text of a code is in a file; else it can be replaced by another one of that name, or be forgotten."""
    return os.path.isabs(code.co_filename) and os.path.exists(code.co_filename)


def remember(function: object) -> None:
    """Look for the text of a function now: those who made it are still running, and its file is as it was imported."""
    if isinstance(function, PythonFunction):
        lines_of(function)


def lines_of(function: PythonFunction) -> list[str]:
    """The lines of the text that a function was compiled from; none if nobody has it any more."""
    code = function.__code__
    kept = _kept.get(id(code))
    if kept is not None and kept[0]() is code:
        return kept[1]
    if code.co_filename in ANONYMOUS:
        lines = _anonymous(code)
    else:
        lines = _of_file(code.co_filename) or _of_loader(code.co_filename, function.__globals__) or _registered(code.co_filename)
    if lines is not None:  # whether they are those of the code is for whoever reads them
        _keep(code, lines)
    return lines or []


def keep(module: CodeType, lines: list[str]) -> None:
    """Take note of the text that code was compiled from, for all functions in it: a file of that name may say something else by now."""
    for code in nested(module):
        _keep(code, lines)


def _keep(code: CodeType, lines: list[str]) -> None:
    place = id(code)
    _kept[place] = weakref.ref(code, lambda _: _kept.pop(place, None)), lines


def forget(code: CodeType) -> None:
    """Look for the text of a code anew when it is needed: what was found is another one."""
    _kept.pop(id(code), None)


_files: dict[str, tuple[bytes, list[str]]] = {}
"""By name: what a file held, and its lines, for all functions of it. Its size and times would not tell: a clock of files may tick once a second."""


def _of_file(filename: str) -> list[str] | None:
    """The lines of a file as it is now; None if there is none. A text that somebody registered under its name is not that of the file."""
    registered = linecache.cache.get(filename)
    if registered is not None and len(registered) > 1 and registered[1] is None:
        return None
    try:
        with open(filename, "rb", buffering=0) as file:
            data = file.read()
        known = _files.get(filename)
        if known is None or known[0] != data:
            known = _files[filename] = data, python_lines(_text_of(data))
    except (OSError, ValueError, SyntaxError):  # no such file; its coding is unknown, or not what it says
        return None
    return known[1]


def _of_loader(filename: str, names: Mapping[str, object]) -> list[str] | None:
    """The lines of a module that is in no file of its own, in a zip for one, as whoever loads it has them now; `linecache` keeps those that it had first."""
    spec = names.get("__spec__")
    loader = getattr(spec, "loader", None) or names.get("__loader__")
    get_source = getattr(loader, "get_source", None)
    if names.get("__file__") != filename or get_source is None or os.path.exists(filename):
        return None
    try:
        text = get_source(getattr(spec, "name", None) or names.get("__name__"))
    except Exception:  # a loader may be anybody's; one of an archive that was replaced meanwhile reads whatever is there
        return None
    return python_lines(text) if isinstance(text, str) else None


def _registered(filename: str) -> list[str] | None:
    """The lines that somebody told `linecache`, as notebooks do; not those that it read from a file which is gone or changed."""
    linecache.checkcache(filename)
    return python_lines("".join(linecache.getlines(filename))) or None


def _text_of(data: bytes) -> str:
    """The text of a file of Python. Most are plain UTF-8 and need no search for their encoding, which would be a tenth of a warm start."""
    plain = not data.startswith(codecs.BOM_UTF8) and not any(b"coding" in line for line in data.split(b"\n", 2)[:2]) and b"\r" not in data
    return data.decode() if plain else data.decode(tokenize.detect_encoding(io.BytesIO(data).readline)[0])


def python_lines(text: str) -> list[str]:
    """The lines of a text as Python counts them; `str.splitlines` takes more characters, such as a form feed, for ends."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [line + "\n" for line in (lines if lines[-1] else lines[:-1])]


def _anonymous(code: CodeType) -> list[str] | None:
    """The lines of the text; none if it may be one of several, None if there is no such text."""
    for texts in _candidates(code):
        found = [text for text in texts if f"def {code.co_name}" in text and any(_is_same(other, code) for other in codes_of(text, code.co_filename))]
        if found:
            if len({_definition(text, code) for text in found}) > 1:
                return []
            if found[0] not in _served:
                _served.append(found[0])
            return python_lines(found[0])
    return None


def _is_same(other: CodeType, code: CodeType) -> bool:
    return (other.co_qualname, other.co_firstlineno) == (code.co_qualname, code.co_firstlineno) and digest_of(other) == digest_of(code)


def _definition(text: str, code: CodeType) -> str:
    """The definition of a code in a text, whatever stands around it."""
    functions = [node for node in ast.walk(statements(text)) if isinstance(node, ast.FunctionDef) and node.name == code.co_name]
    return " ".join(ast.dump(node) for node in functions if min([node.lineno, *(item.lineno for item in node.decorator_list)]) == code.co_firstlineno)


@lru_cache(maxsize=64)
def codes_of(text: str, filename: str) -> tuple[CodeType, ...]:
    """The code objects of a text; none if it is no Python."""
    try:
        return tuple(nested(module_code(text, filename)))
    except (SyntaxError, ValueError):
        return ()


def _candidates(code: CodeType) -> Iterator[Iterable[str]]:
    """Texts that it may come from, the likely ones first; of those in one row none is likelier than another."""
    yield from _callers(code)
    for text in ("".join(linecache.getlines(code.co_filename)), *_arguments(), *_stdin(), *_prompt()):
        yield (text,)
    yield _served


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


def _callers(code: CodeType) -> Iterator[Iterable[str]]:
    """Texts at hand where `exec` was called, caller by caller: in variables, in the code itself, in the module."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename == code.co_filename and frame.f_code.co_name == "<module>":
            caller = frame.f_back
            for _ in range(_LEVELS):
                if caller is not None:
                    for found in (caller.f_locals.values(), caller.f_code.co_consts, caller.f_globals.values()):
                        yield [text for text in list(found) if is_a(text, str)]
                    caller = caller.f_back
        frame = frame.f_back
