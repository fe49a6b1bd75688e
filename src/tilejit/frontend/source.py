"""Source text of a function: its AST with the positions of the user's file, spans for any node, and comments by line."""

from __future__ import annotations

import ast
import inspect
import io
import tokenize
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from types import FunctionType as PythonFunction

from tilejit.errors import ParserSyntaxError, SourceNotFoundError, SourceText, Span, StaleCaptureError
from tilejit.frontend import texts
from tilejit.frontend.code_objects import digest_of
from tilejit.types.python_text import statements


@dataclass(frozen=True, slots=True)
class FunctionText:
    """A function definition as written: the AST (absolute lines, the file's columns) and the text it came from."""

    node: ast.FunctionDef
    source: SourceText
    comments: Mapping[int, str] = field(default_factory=dict[int, str])
    """Comment text (without `#`) by line."""


@dataclass(frozen=True, slots=True)
class FunctionBlock:
    """The lines of a definition, not parsed yet."""

    name: str
    filename: str
    whole: list[str] = field(repr=False)
    """Every line of the file."""
    first_line: int
    lines: list[str]


def function_text(function: Callable[..., object]) -> FunctionText:
    """The definition of a Python function. SourceNotFoundError when nobody has its text."""
    return parsed(block_of(unwrapped(function)))


def unwrapped(function: Callable[..., object]) -> Callable[..., object]:
    """What decorators with `functools.wraps` hide."""
    return inspect.unwrap(function, stop=_is_named_after_a_kernel) if hasattr(function, "__wrapped__") else function


def _is_named_after_a_kernel(function: object) -> bool:
    """Whether it took the name and the text of documentation of a kernel, `functools.wraps(kernel)`, and is one of its own: it has parameters."""
    if not isinstance(function, PythonFunction) or function.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return False
    return type(getattr(function, "__wrapped__", None)).__module__.startswith("tilejit.")


def block_of(function: Callable[..., object], known: Callable[[FunctionBlock], bool] | None = None) -> FunctionBlock:
    """The lines of a Python function's definition. SourceNotFoundError when they cannot be found, StaleCaptureError when they are not those it was made from.

    `known` says whether these very lines and this code were seen to belong together before: then nothing is compiled.
    """
    if not isinstance(function, PythonFunction):
        raise TypeError(f"expected a Python function, got {function!r}")
    code = function.__code__
    whole = texts.lines_of(function)
    if not 0 < code.co_firstlineno <= len(whole):
        raise SourceNotFoundError(
            f"the source of `{function.__qualname__}` cannot be found ({code.co_filename})",
            help="define it in a file or a notebook cell, run the file by its name instead of through a pipe, or register the text with linecache; "
            "without its source (TILEJIT_RUN_ONLY=1) a kernel is found if its .pyc was compiled under the file name that the cache was filled with "
            "and its body annotates no local names, which a .pyc does not keep",
        )
    block = _block(code, whole, code.co_firstlineno)
    if known is not None and known(block):
        return block
    line = _present_line(code, whole)
    if line is None:
        texts.forget(code)
        raise StaleCaptureError(
            f"the text of `{code.co_qualname}` is not what it was when it was imported: {code.co_filename} changed meanwhile",
            help="reload the module (importlib.reload) or start a new process, so that text and code agree",
        )
    return _block(code, whole, line)


def _block(code: CodeType, whole: list[str], line: int) -> FunctionBlock:
    return FunctionBlock(code.co_name, code.co_filename, whole, line, whole[line - 1 : _end(whole, line - 1)])


def _present_line(code: CodeType, whole: list[str]) -> int | None:
    """Where the text of a function begins now, whatever the times of the file say; None if it is not there."""
    own, codes = digest_of(code), texts.codes_of("".join(whole), code.co_filename)
    if not codes and not texts.has_file(code):
        return code.co_firstlineno  # a cell of a notebook that is not only Python
    there = [other for other in codes if other.co_qualname == code.co_qualname and digest_of(other) == own]
    if not there and any(name.startswith("@py") for name in (*code.co_names, *code.co_varnames)):
        return code.co_firstlineno  # pytest rewrote its assertions
    lines = [other.co_firstlineno for other in there]
    if len(lines) > 1 and code.co_firstlineno not in lines and len({_words(_block(code, whole, line)) for line in lines}) > 1:
        return None  # which of them it was cannot be told: annotations of locals leave no trace in code
    return min(lines, key=lambda line: abs(line - code.co_firstlineno), default=None)


def _words(block: FunctionBlock) -> str:
    """A definition without its place."""
    return ast.dump(parsed(block).node)


def parsed(block: FunctionBlock) -> FunctionText:
    """The definition in a block of lines."""
    source, lines, first_line = SourceText(block.filename, tuple(block.whole)), block.lines, block.first_line
    try:
        module = parse_lines(lines, first_line, source)
    except ParserSyntaxError:
        # Text at the margin: a string, or an open bracket.
        lines = inspect.getblock(block.whole[first_line - 1 :])
        module = parse_lines(lines, first_line, source)
    return FunctionText(_definition(module, block.name, source), source, comments_of(lines, first_line))


def _end(lines: Sequence[str], start: int) -> int:
    """The index after the last line of the definition that begins at `start`, judged by indentation. Decorators may take several lines."""
    indent = len(lines[start]) - len(lines[start].lstrip())
    inside = False
    if lines[start][indent : indent + 1] == "@":
        while start < len(lines) and not lines[start][indent:].startswith(("def ", "async ")):
            start += 1
    for number in range(start, len(lines)):
        line = lines[number]
        stripped = line.lstrip()
        if not stripped or stripped[0] == "#":
            continue
        if len(line) - len(stripped) > indent:
            inside = True
        elif inside and stripped[0] not in ")]}":
            return number
    return len(lines)


def parse_lines(lines: list[str], first_line: int, source: SourceText) -> ast.Module:
    """The AST of a block of lines as they stand in the file, whatever their indentation."""
    # An indented block parses under a header line; both keep the lines and columns of the file.
    indented = lines[0][:1] in (" ", "\t")
    header = "\n" * (first_line - 2) + "if True:\n" if indented else "\n" * (first_line - 1)
    try:
        module = statements(header + "".join(lines), source.filename)
    except SyntaxError as error:
        line, column = error.lineno or first_line, error.offset or 1
        end = max(column + 1, error.end_offset or 0)
        raise ParserSyntaxError(f"this is not Python: {error.msg}", span=Span(source, line, column, line, end)) from None
    if indented:
        block = module.body[0]
        assert isinstance(block, ast.If)
        module.body = block.body
    return module


def _definition(module: ast.Module, name: str, source: SourceText) -> ast.FunctionDef:
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    what = "an async function" if module.body and isinstance(module.body[0], ast.AsyncFunctionDef) else "not a function definition"
    span = span_of(module.body[0], source, name) if module.body else None
    raise ParserSyntaxError(f"`{name}` is {what}", span=span, help="kernels are plain `def` functions")


def comments_of(lines: list[str], first_line: int) -> dict[int, str]:
    """Comments by absolute line."""
    if not any("#" in line for line in lines):
        return {}
    found: dict[int, str] = {}
    if not any(("#" in line and ("'" in line or '"' in line)) or '"""' in line or "'''" in line for line in lines):
        return {number + first_line: line[line.index("#") + 1 :].strip() for number, line in enumerate(lines) if "#" in line}
    try:
        for token in tokenize.generate_tokens(io.StringIO("".join(lines)).readline):
            if token.type == tokenize.COMMENT:
                found[token.start[0] + first_line - 1] = token.string[1:].strip()
    except (tokenize.TokenError, IndentationError):
        pass  # Text that parses inside its file may end oddly on its own; only comments are lost.
    return found


def span_of(node: ast.AST, source: SourceText, function: str = "", parent: Span | None = None) -> Span:
    """Where `node` stands: 1-based columns counted in characters."""
    line: int = getattr(node, "lineno", 1)
    end_line: int = getattr(node, "end_lineno", None) or line
    column = _characters(source, line, getattr(node, "col_offset", 0))
    end = _characters(source, end_line, getattr(node, "end_col_offset", None) or column)
    if isinstance(node, ast.FunctionDef | ast.For | ast.While | ast.If | ast.With | ast.ClassDef | ast.Try):
        # The header is what a message about a block points at, not its whole body.
        end_line, text = line, source.line(line)
        end = len(text.split("#")[0].rstrip()) if text else end
    return Span(source, line, column + 1, end_line, end + 1, function, parent)


def _characters(source: SourceText, line: int, column: int) -> int:
    """The AST counts columns in UTF-8 bytes."""
    text = source.line(line)
    if text is None or text.isascii():
        return column
    return len(text.encode()[:column].decode(errors="replace"))
