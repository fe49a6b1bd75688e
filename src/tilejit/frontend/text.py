"""Programs from text: `pl.parse` and `pl.loads`."""

from __future__ import annotations

import itertools
import linecache
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path

from tilejit.errors import ParserError, ParserSyntaxError, SourceText, Span, TilejitError
from tilejit.frontend import texts
from tilejit.frontend.aliases import PRINTED
from tilejit.tile_ir.program import Function, Program
from tilejit.tile_ir.python import HEAD
from tilejit.types.python_text import module_code

_COUNT = itertools.count()


def parse(code: str, filename: str = "<string>", namespace: Mapping[str, object] | None = None) -> Program | Function:
    """The one program (or the one function) that `code` defines; `pl` is imported for it."""
    lines = texts.python_lines(code)
    if filename.startswith("<") and filename.endswith(">"):
        # Each text has a name of its own, under which tracebacks find its lines. Those of a file are there, as it is when they look.
        filename = f"{filename[:-1]} {next(_COUNT)}>"
        linecache.cache[filename] = (len(code), None, lines, filename)
    names: dict[str, object] = {"__name__": "__tilejit_text__"}
    exec("import tilejit.language as pl", names)
    names.update(namespace or {})
    before = dict(names)
    printed = PRINTED.set(code.startswith(HEAD))
    try:
        module = module_code(code, filename)
        texts.keep(module, lines)
        exec(module, names)
    except SyntaxError as error:
        source = SourceText(filename, tuple(lines))
        line, column = error.lineno or 1, error.offset or 1
        span = Span(source, line, column, line, max(column + 1, error.end_offset or 0))
        raise ParserSyntaxError(f"this is not Python: {error.msg}", span=span, help="the text must parse as a Python module") from None
    except TilejitError as error:
        error.located(_place(error, filename, lines))
        raise
    except OSError:
        raise
    except Exception as error:
        raise ParserError(f"the text cannot be run: {type(error).__name__}: {error}", span=_place(error, filename, lines)) from error
    finally:
        PRINTED.reset(printed)
    new = [value for name, value in names.items() if before.get(name) is not value]
    programs = [value for value in new if isinstance(value, Program)]
    functions = [value for value in new if isinstance(value, Function)]
    called = {name for function in functions for name in function.program.functions if name != function.name}
    found: list[Program] | list[Function] = programs or [function for function in functions if function.name not in called]
    if len(found) != 1:
        raise ValueError(f"the text must define exactly one program or function, it defines {len(found)}")
    return found[0]


def _place(error: BaseException, filename: str, lines: list[str]) -> Span:
    """The line of the text that was running when `error` was raised."""
    numbers = [number for frame, number in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == filename]
    line = numbers[-1] if numbers else 1
    text = lines[line - 1].rstrip() if line <= len(lines) else ""
    column = len(text) - len(text.lstrip()) + 1
    return Span(SourceText(filename, tuple(lines)), line, column, line, len(text) + 1)


def loads(path: str | Path) -> Program | Function:
    """As `parse`, of a file."""
    file = Path(path)
    return parse(file.read_text(encoding="utf-8"), str(file))


def parse_program(code: str, filename: str = "<string>") -> Program | Function:
    """The older name of `parse`."""
    warnings.warn("pl.parse_program is deprecated, use pl.parse", DeprecationWarning, stacklevel=2)
    return parse(code, filename)


def loads_program(path: str | Path) -> Program | Function:
    """The older name of `loads`."""
    warnings.warn("pl.loads_program is deprecated, use pl.loads", DeprecationWarning, stacklevel=2)
    return loads(path)
