"""Comments of a kernel's text, which go with the ops of the statements that they stand before."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from xdsl.ir import Block, Operation

from tilejit.errors import SourceText
from tilejit.tile_ir import dialect as d


def comments_of(statement: ast.stmt, comments: Mapping[int, str], source: SourceText) -> list[str]:
    """The comments that stand before a statement and on its first line; on all its lines, if it has no body."""
    line = statement.lineno - 1
    above: list[str] = []
    while line in comments and _only_comment(source, line):
        above.append(comments[line])
        line -= 1
    end = statement.end_lineno if not hasattr(statement, "body") else statement.lineno
    return above[::-1] + [comments[number] for number in range(statement.lineno, (end or statement.lineno) + 1) if number in comments]


def _only_comment(source: SourceText, line: int) -> bool:
    text = source.line(line)
    return text is not None and text.lstrip().startswith("#")


class Comments:
    """Those that wait for an op."""

    def __init__(self) -> None:
        self.pending: list[str] = []

    def attach(self, comments: list[str], op: Operation | None) -> None:
        """Give comments to the first op that a statement made, before those of statements inside; without an op they wait for the next one."""
        while isinstance(op, d.ConstOp) and op.next_op is not None:
            op = op.next_op
        if op is None:
            self.pending = comments + self.pending
            return
        own = op.attributes.get("comment")
        inner = own.data if isinstance(own, d.Static) and isinstance(own.data, tuple) else ()
        op.attributes["comment"] = d.Static((*comments, *inner))

    def hand_on(self, op: Operation) -> None:
        """Comments of an op that goes away stand before the next one."""
        own = op.attributes.get("comment")
        if isinstance(own, d.Static) and isinstance(own.data, tuple):
            self.attach(list(own.data), op.next_op)

    def attach_last(self, block: Block) -> None:
        """Comments behind the last op of a function stand before its end."""
        if self.pending and block.first_op is not block.last_op:
            self.attach(self.pending, block.last_op)
