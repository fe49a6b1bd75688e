"""A tree of questions: node a question, edge an answer, leaf what the answers lead to. In memory programs, on disk keys of artifacts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from tilejit.errors import ArtifactError
from tilejit.jit.reads.answers import Unanswered
from tilejit.jit.reads.spelling import told
from tilejit.jit.reads.trace import Trace

Leaf = TypeVar("Leaf")
MAX_LEAVES = 256
"""Leaves of one tree on disk; the least recently used go first."""
MAX_ANSWERS = 16
"""Answers to one question without a hit, after which no more are kept: it has another one each time."""


@dataclass(eq=False, slots=True)
class Node(Generic[Leaf]):
    """A place in the tree: a question with what follows each answer, or a leaf."""

    question: str | None = None
    edges: dict[str, Node[Leaf]] = field(default_factory=dict[str, "Node[Leaf]"])
    leaf: Leaf | None = None
    used: bool = False
    """Whether something below it was found by a later process."""

    def found(self, trace: Trace) -> tuple[Leaf | None, Trace]:
        """What the answers of now lead to, and a trace that goes on from `trace` with what was asked on the way; itself where nothing is kept yet."""
        if self.question is None and self.leaf is None:
            return None, trace
        walk = trace.fork()
        try:
            return self.find(walk), walk
        except ArtifactError:
            return None, trace  # nobody has damaged what this process wrote itself: compiling says what it is

    def find(self, trace: Trace) -> Leaf | None:
        """Walk down by asking; None where an answer is not known. Only what stands on the way is asked."""
        node: Node[Leaf] = self
        while node.question is not None:
            try:
                following = node.edges.get(trace.replay(node.question))
            except Unanswered:
                return None  # specialising says so where it is read
            if following is None:
                return None
            node = following
        return node.leaf

    def add(self, log: Iterable[tuple[str, str]], leaf: Leaf, used: bool = False) -> bool:
        """Keep a leaf behind its questions and answers; False: other questions stand there."""
        node: Node[Leaf] = self
        for question, answer in log:
            if node.question is None and node.leaf is None:
                node.question = question
            if node.question != question:
                return False
            node.used |= used
            node = node.edges.setdefault(answer, Node())
        if node.question is not None:
            return False
        node.leaf = leaf
        node.used |= used
        return True

    def refuses(self, row: Row) -> str | None:
        """The question that has another answer each time, so that nothing is kept behind it any more."""
        node: Node[Leaf] = self
        for question, answer in row.log:
            if node.question is None or answer not in node.edges:
                return question if len(node.edges) >= MAX_ANSWERS and not node.used else None
            node = node.edges[answer]
        return None

    def unknown(self, trace: Trace) -> tuple[str, str, list[str]] | None:
        """The first question whose answer is not known, its answer, and those that are known: what a kernel that may not compile says."""
        node: Node[Leaf] = self
        while node.question is not None:
            try:
                answer = trace.replay(node.question)
            except Unanswered:
                answer = "an error"
            if answer not in node.edges:
                return trace.paths[-1], told(answer), list(map(told, node.edges))
            node = node.edges[answer]
        return None


Log = tuple[tuple[str, str], ...]
"""Questions with their answers."""


@dataclass(frozen=True, slots=True)
class Row:
    """A leaf on disk, with what leads to it, and whether a later process used it."""

    key: str
    """Of an artifact; in the tree of a kernel's dynamic extents, which they are."""
    log: Log
    used: bool = False

    def hit(self) -> Row:
        return Row(self.key, self.log, True)


def written(rows: Sequence[Row]) -> bytes:
    """A tree on disk: one line per leaf, the one used last at the end."""
    lines = (json.dumps([row.key, row.used, *[part for pair in row.log for part in pair]]).encode() for row in rows[-MAX_LEAVES:])
    return b"\n".join(lines)


def is_key(leaf: str) -> bool:
    """Whether a leaf can name an artifact."""
    return len(leaf) == 64


def read(data: bytes, is_leaf: Callable[[str], bool] = is_key) -> list[Row]:
    """What `written` wrote; lines that are none are left out."""
    out: list[Row] = []
    for line in data.split(b"\n") if data else ():
        try:
            key, used, *parts = cast("list[Any]", json.loads(line))
        except (ValueError, TypeError, RecursionError):
            continue
        if isinstance(key, str) and is_leaf(key) and len(parts) % 2 == 0 and all(isinstance(part, str) for part in parts):
            out.append(Row(key, tuple(zip(parts[::2], parts[1::2], strict=True)), used is True))
    return out


def tree_of(rows: Iterable[Row]) -> Node[str]:
    """The tree of the rows."""
    root: Node[str] = Node()
    for row in rows:
        root.add(row.log, row.key, row.used)
    return root
