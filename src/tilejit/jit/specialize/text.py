"""The text of a specialisation: readable Python that parses to the same program, with the user's names and comments."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from tilejit.jit.specialize.program import ProgramFunction, SpecialFunction, Specialization


def source_text(special: Specialization) -> str:
    """`import tilejit.language as pl`, the dynamic symbols, then one `@pl.program` class."""
    lines = ["import tilejit.language as pl"]
    if any(isinstance(part, ast.Name) and part.id == "pld" for function in special.functions for part in ast.walk(function.node)):
        lines.append("import tilejit.language.distributed as pld")
    lines += ["", *(f'{name} = pl.dynamic("{text}")' for name, text in special.symbols.items())] if special.symbols else []
    for function in special.externals.values():
        lines += ["", "", *_definition_of(function)]
    lines += ["", "", "@pl.program", f"class {special.name}:"]
    for index, function in enumerate(special.functions):
        lines += [""] if index else []
        lines += _function(function)
    return "\n".join(lines) + "\n"


def _definition_of(function: ProgramFunction) -> list[str]:
    """A module-level function without the lines that stand at the top already."""
    lines = function.as_python().splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("@"))
    return lines[first:]


def _function(function: SpecialFunction) -> list[str]:
    node = function.node
    comments = _Comments(function.definition.text.comments)
    out = [f"    @{ast.unparse(decorator)}" for decorator in node.decorator_list]
    comments.skip(min((statement.lineno for statement in node.body), default=node.lineno) - 1, keep_after=node.lineno)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    out.append(f"    def {node.name}({ast.unparse(node.args)}){returns}:")
    return out + _block(node.body, comments, "        ")


def _block(body: Sequence[ast.stmt], comments: _Comments, indent: str) -> list[str]:
    out: list[str] = []
    for statement in body:
        out += [f"{indent}# {comment}" for comment in comments.before(statement.lineno)]
        out += _statement(statement, comments, indent)
    return out


def _statement(node: ast.stmt, comments: _Comments, indent: str) -> list[str]:
    if isinstance(node, ast.For):
        return _compound(f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}:", node, comments, indent)
    if isinstance(node, ast.While):
        return _compound(f"while {ast.unparse(node.test)}:", node, comments, indent)
    if isinstance(node, ast.With):
        return _compound(f"with {', '.join(ast.unparse(item) for item in node.items)}:", node, comments, indent)
    if isinstance(node, ast.If):
        return _branch(node, comments, indent, "if")
    lines = _docstring(node, indent) or [indent + line for line in ast.unparse(node).splitlines()]
    trailing = comments.until(node.end_lineno or node.lineno)
    if trailing and lines:
        lines[-1] += "  # " + "; ".join(trailing)
    return lines


def _docstring(node: ast.stmt, indent: str) -> list[str] | None:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant) or not isinstance(node.value.value, str):
        return None
    text = node.value.value
    if '"""' in text or "\\" in text or text.endswith('"'):
        return None
    return f'{indent}"""{text}"""'.splitlines()


def _compound(header: str, node: ast.For | ast.While | ast.With, comments: _Comments, indent: str) -> list[str]:
    out = [indent + header + _trailing(comments, node.lineno), *_block(node.body, comments, indent + "    ")]
    orelse: list[ast.stmt] = getattr(node, "orelse", [])
    return out + ([f"{indent}else:", *_block(orelse, comments, indent + "    ")] if orelse else [])


def _branch(node: ast.If, comments: _Comments, indent: str, word: str) -> list[str]:
    out = [f"{indent}{word} {ast.unparse(node.test)}:" + _trailing(comments, node.lineno), *_block(node.body, comments, indent + "    ")]
    if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        return out + _branch(node.orelse[0], comments, indent, "elif")
    return out + ([f"{indent}else:", *_block(node.orelse, comments, indent + "    ")] if node.orelse else [])


def _trailing(comments: _Comments, line: int) -> str:
    found = comments.until(line)
    return "  # " + "; ".join(found) if found else ""


class _Comments:
    """Comments of the user's function, handed out once, in order of lines."""

    def __init__(self, comments: Mapping[int, str]) -> None:
        self._left = sorted(comments.items())

    def skip(self, line: int, keep_after: int) -> None:
        """Drop comments of the decorator and signature, but keep those that stand before the first statement."""
        self._left = [(number, text) for number, text in self._left if number > keep_after or number > line]

    def before(self, line: int) -> list[str]:
        return self.until(line - 1)

    def until(self, line: int) -> list[str]:
        found = [text for number, text in self._left if number <= line]
        self._left = [(number, text) for number, text in self._left if number > line]
        return found
