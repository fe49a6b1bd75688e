"""What a warm start needs to know of a function's text: a pure function of the text, kept on disk so that nothing is parsed again.

One entry of the disk cache holds the facts of the functions of one source file, each under the digest of its exact lines. A fact cannot be
stale: other lines are another digest.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, cast

from tilejit.frontend.code_objects import digest_of
from tilejit.frontend.private_names import class_of
from tilejit.frontend.source import FunctionBlock, FunctionText
from tilejit.jit.disk.fingerprint import reader_text, toolchain
from tilejit.jit.disk.stores import store
from tilejit.jit.specialize.tree import Tree
from tilejit.runtime.store.directory import Store
from tilejit.runtime.store.entry import CacheEntry
from tilejit.types.python_text import expression

Step = tuple[str, object]
"""One step of a chain: ("attr", name) or ("item", constant)."""
Path = tuple[str, ...]
"""`a.b.c` as names."""

SUBMITS = ("submit", "spmd_submit")
"""Functions of the language whose first argument is a kernel to start."""
_HANDED = (*SUBMITS, "scan")
"""Those, and functions whose first argument may be a helper to call."""


@dataclass(frozen=True, slots=True)
class Facts:
    """A function without its tree."""

    digest: str
    """Equal for two functions if and only if their code is; comments, layout, docstring and decorators do not count."""
    params: tuple[str, ...]
    annotated: frozenset[str]
    """Parameters with an annotation."""
    stores: Mapping[str, int]
    """How often the body binds each name."""
    chains: Mapping[str, Sequence[Sequence[Step]]]
    """Attribute and item chains by the name they start at, parameters and locals included; the longest form of each."""
    calls: Sequence[tuple[Path | None, Path | None]]
    """What is called, in source order, as far as it is a chain of names; after it what a call of `submit` starts, or `scan` calls."""
    mentions_dynamic: bool
    """Whether the word `dynamic` appears at all."""


# ----------------------------------------------------------------------------------------------------------------------
# from the tree


def read_facts(text: FunctionText, tree: Tree) -> Facts:
    """The facts of a parsed function."""
    arguments = text.node.args
    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    both = [arg for arg in (arguments.vararg, arguments.kwarg) if arg is not None]
    found: dict[str, dict[tuple[Step, ...], None]] = {}
    for nodes in (*(ast.walk(annotation) for annotation in _string_annotations(given)), tree.nodes):
        for root, steps in _chains(nodes):
            found.setdefault(root, {})[steps] = None
    return Facts(
        hashlib.sha256(tree.text.encode()).hexdigest(),
        tuple(arg.arg for arg in (*given, *both)),
        frozenset(arg.arg for arg in given if arg.annotation is not None),
        Counter(node.id for node in tree.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)),
        {root: tuple(steps) for root, steps in found.items()},
        tuple(_call(call) for call in calls_in(tree.nodes)),
        "dynamic" in tree.text,
    )


def calls_in(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    """The calls among `nodes`, in source order."""
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    return iter(sorted(calls, key=lambda call: (call.lineno, call.col_offset)))


def _call(call: ast.Call) -> tuple[Path | None, Path | None]:
    starts = isinstance(call.func, ast.Attribute) and call.func.attr in _HANDED and bool(call.args)
    return path_of(call.func), path_of(call.args[0]) if starts else None


def path_of(node: ast.expr) -> Path | None:
    """A chain of names, or None for any other expression."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return (node.id, *reversed(names)) if isinstance(node, ast.Name) else None


_LINKS = frozenset({ast.Name, ast.Attribute, ast.Subscript})


def _chains(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, tuple[Step, ...]]]:
    """Every chain among `nodes` (parents before children); the longest form of each."""
    inner: set[int] = set()
    for child in nodes:
        if type(child) not in _LINKS or id(child) in inner or not isinstance((child := cast("ast.Name | ast.Attribute | ast.Subscript", child)).ctx, ast.Load):
            continue
        steps: list[Step] = []
        base: ast.expr = child
        while isinstance(base, ast.Attribute | ast.Subscript):
            inner.add(id(base.value))
            if isinstance(base, ast.Attribute):
                steps.append(("attr", base.attr))
            elif isinstance(base.slice, ast.Constant):
                steps.append(("item", base.slice.value))
            else:
                # An index known only later may reach any item: what counts is the whole container.
                steps.clear()
            base = base.value
        if isinstance(base, ast.Name):
            yield base.id, tuple(reversed(steps))


def _string_annotations(args: Iterable[ast.arg]) -> Iterator[ast.expr]:
    """Annotations written in quotes."""
    for arg in args:
        if isinstance(arg.annotation, ast.Constant) and isinstance(arg.annotation.value, str):
            try:
                yield expression(arg.annotation.value)
            except SyntaxError:
                continue  # the front end says what is wrong with it


# ----------------------------------------------------------------------------------------------------------------------
# from the disk

_FUNCTIONS, _TEXTS, _SHORTCUTS = "functions", "texts", "shortcuts"
_KEPT = 1000
"""Functions of one file that are remembered; edits leave old ones behind."""
_known: dict[tuple[Store, str], dict[str, bytes]] = {}
"""What the disk says of the functions of a file: digest of the lines → facts as JSON."""
_ways: dict[tuple[Store, str], dict[str, bytes]] = {}
"""The same of shortcuts (disk/shortcuts.py)."""
_new: dict[tuple[Store, str], dict[str, tuple[bytes, bytes]]] = {}
"""What was read from trees since and is not on disk yet: facts, and the text for processes that have no source file."""


def is_known(block: FunctionBlock, code: CodeType) -> bool:
    """Whether these very lines and this code were seen to belong together before."""
    return os.path.isabs(block.filename) and lines_key(block, code) in _known_of((store(), block.filename))


def lines_key(block: FunctionBlock, code: CodeType) -> str:
    """Of lines and code that belong together; asked twice for each function, so the last one is kept."""
    global _last
    before, by, key = _last
    if before is not block or by is not code:
        key = _new_lines_key(block, code)
        _last = block, code, key
    return key


_last: tuple[FunctionBlock | None, CodeType | None, str] = None, None, ""


def _new_lines_key(block: FunctionBlock, code: CodeType) -> str:
    owner = class_of(code.co_qualname)  # by which private names in annotations of locals are told, which leave no trace in code
    return hashlib.sha256(f"{block.name}\0{owner}\0{digest_of(code)}\0{''.join(block.lines)}".encode("utf-8", "surrogatepass")).hexdigest()


def _known_of(file: tuple[Store, str]) -> dict[str, bytes]:
    known = _known.get(file)
    if known is None:
        known, _ways[file] = _on_disk(*file)
        _known[file] = known
    return known


def facts_of(block: FunctionBlock, code: CodeType, parse: Callable[[], tuple[FunctionText, Tree]]) -> Facts:
    """The facts of a function, from disk if they are there; else `parse` makes its tree. Cells of notebooks have no place on disk."""
    if not os.path.isabs(block.filename):
        return read_facts(*parse())
    key = lines_key(block, code)
    file = (store(), block.filename)
    known = _known_of(file)
    if key in known and (found := _decoded(known[key])) is not None:
        return found
    text, tree = parse()
    facts = read_facts(text, tree)
    # Lines at the margin may belong to a string or a bracket: then the block has only a part of the function.
    is_whole = (text.node.end_lineno or 0) < block.first_line + len(block.lines)
    encoded = _encoded(facts) if is_whole else None
    if encoded is not None and file[0].root is not None:
        told = not any(isinstance(node, ast.AnnAssign) for node in tree.nodes)  # by its code: annotations of locals leave no trace in it
        row = json.dumps([_code_key(code), facts.digest, block.lines]).encode() if told else b""
        known[key], _new.setdefault(file, {})[key] = encoded, (encoded, row)
    return facts


def block_of_code(code: CodeType) -> FunctionBlock | None:
    """The lines that a function had when it was compiled, by its code alone; None unless all that is known under it is one text."""
    found: dict[str, list[str]] = {}
    for entry, _ in store().versions(_key(code.co_filename)):
        for row in entry.sections.get(_TEXTS, b"").split(b"\n"):
            try:
                owner, digest, lines = cast("list[Any]", json.loads(row))
            except (ValueError, TypeError):
                continue
            if owner == _code_key(code):
                found[digest] = lines
    if len(found) != 1:
        return None
    lines = next(iter(found.values()))
    first = code.co_firstlineno
    return FunctionBlock(code.co_name, code.co_filename, ["\n"] * (first - 1) + lines, first, lines)


def _code_key(code: CodeType) -> str:
    """By what it does and by where in its lines each part stands, which annotations of locals move."""
    return f"{code.co_qualname} {digest_of(code)} {hashlib.sha256(code.co_linetable).hexdigest()}"


def keep() -> None:
    """Write what is not on disk yet. Failing is no harm: it is read from the tree again."""
    for there, filename in list(_new):
        rows = _new.pop((there, filename), None)
        if rows is None:
            continue  # another thread has it
        new = {key: encoded for key, (encoded, _) in rows.items()}
        _write(there, filename, new, [text for _, text in rows.values() if text], {})


def shortcut(filename: str, key: str) -> bytes | None:
    """What is known under the key of a shortcut of that file."""
    file = store(), filename
    _known_of(file)
    return _ways.get(file, {}).get(key)


def keep_shortcut(filename: str, key: str, row: bytes) -> None:
    """Write one. Failing is no harm: there are other ways."""
    there = store()
    if there.root is not None and os.path.isabs(filename) and shortcut(filename, key) != row:
        _ways.setdefault((there, filename), {})[key] = row
        _write(there, filename, {}, [], {key: row})


def _write(there: Store, filename: str, functions: dict[str, bytes], texts: list[bytes], shortcuts: dict[str, bytes]) -> None:
    """Add rows to those on disk; who writes at the same time may lose some."""
    found = there.get(_key(filename))
    before = found.sections if found is not None else {}
    rows = {name: _rows(before.get(name, b"")) | new for name, new in ((_FUNCTIONS, functions), (_SHORTCUTS, shortcuts))}
    sections = {name: b"\n".join(key.encode() + b" " + row for key, row in list(latest.items())[-_KEPT:]) for name, latest in rows.items()}
    sections[_TEXTS] = b"\n".join(list(dict.fromkeys([*before.get(_TEXTS, b"").split(b"\n"), *texts]))[-_KEPT:])
    there.put(CacheEntry(_key(filename), {"kernel": f"functions of {filename}", **toolchain()}, sections))


def _on_disk(there: Store, filename: str) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The functions and the shortcuts in the entry of a file."""
    found = there.get(_key(filename))
    sections = found.sections if found is not None else {}
    return _rows(sections.get(_FUNCTIONS, b"")), _rows(sections.get(_SHORTCUTS, b""))


def _rows(section: bytes) -> dict[str, bytes]:
    """Digest, blank, content."""
    return {row[:64].decode("ascii", "replace"): row[65:] for row in section.split(b"\n") if row}


def _key(filename: str) -> str:
    return hashlib.sha256(f"functions of {filename}\n{reader_text()}".encode("utf-8", "surrogatepass")).hexdigest()


_PLAIN = (str, int, bool, type(None))


def _encoded(facts: Facts) -> bytes | None:
    """Facts as JSON; None when an index in them is no JSON value of its own type."""
    if any(type(key) not in _PLAIN for chains in facts.chains.values() for steps in chains for _, key in steps):
        return None
    rows = [facts.digest, facts.params, sorted(facts.annotated), facts.stores, facts.chains, facts.calls, facts.mentions_dynamic]
    return json.dumps(rows, ensure_ascii=True).encode()


def _decoded(data: bytes) -> Facts | None:
    """What `_encoded` wrote; None for anything else."""
    try:
        digest, params, annotated, stores, chains, calls, dynamic = cast("list[Any]", json.loads(data.decode()))
        names = [digest, *params, *annotated, *stores]
        for forms in chains.values():
            for form in forms:
                for kind, _ in form:
                    names.append(kind)
        for path, started in calls:
            names += [path[0], *path] if path is not None else ()
            names += [started[0], *started] if started is not None else ()
        if not _STRING.issuperset(map(type, names)) or not _COUNT.issuperset(map(type, stores.values())):
            return None
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
        return None
    return Facts(digest, tuple(params), frozenset(annotated), stores, chains, calls, dynamic is True)


_STRING, _COUNT = frozenset({str}), frozenset({int})
