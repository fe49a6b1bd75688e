"""Compiled kernels on disk: the key in words, the entry it names, and the way back to a program that runs."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tilejit import config as settings
from tilejit.errors import ArtifactError, Span, TilejitError
from tilejit.frontend.source import span_of
from tilejit.jit.captures import Captures
from tilejit.jit.definition import Definition
from tilejit.jit.dependencies import reachable
from tilejit.jit.fingerprint import toolchain
from tilejit.runtime.artifact import CODE, META, read_artifact
from tilejit.runtime.compiled import CompiledProgram
from tilejit.runtime.directory import Stage
from tilejit.runtime.entry import Entry
from tilejit.runtime.store import Store, default_root

PROGRAM, SPANS = "program.py", "spans.json"
"""Sections besides those of the artifact: the specialised program, and where its failures lie in the kernels' trees."""


@dataclass(frozen=True)
class Key:
    """What an artifact was made for: named fields, and their digest."""

    fields: Mapping[str, object]

    @functools.cached_property
    def digest(self) -> str:
        text = json.dumps(self.fields, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()


def key_of(definition: Definition, captures: Captures, arguments: Mapping[str, object], options: Mapping[str, object]) -> Key:
    """The key of one specialisation; every field is readable, because `explain` compares them."""
    return Key(
        {
            "kernel": kernel_name(definition),
            "definition": captures.digest,
            "arguments": dict(arguments),
            "options": dict(options),
            **toolchain(),
        }
    )


def kernel_name(definition: Definition) -> str:
    """The kernel by module and name."""
    return f"{definition.function.__module__}.{definition.function.__qualname__}"


# ----------------------------------------------------------------------------------------------------------------------
# the store


def store() -> Store:
    """The cache that the settings name now."""
    said = tuple(map(settings.raw_text, _NAMING)), os.environ.get("XDG_CACHE_HOME"), os.environ.get("HOME")
    if said not in _stores:
        _stores[said] = _named_store()
    return _stores[said]


_NAMING = ("cache", "cache_dir", "cache_path", "cache_bytes", "cache_entries")
"""Settings that decide which store it is."""
_stores: dict[object, Store] = {}


def _named_store() -> Store:
    layers = tuple(path for path in settings.CACHE_PATH.value.split(os.pathsep) if path)
    return _store(default_root() if settings.CACHE.value else None, layers, settings.CACHE_BYTES.value, settings.CACHE_ENTRIES.value)


@functools.cache
def _store(root: str | None, layers: tuple[str, ...], max_bytes: int, max_entries: int) -> Store:
    return Store(root, layers, max_bytes, max_entries)


def entries() -> Iterator[Entry]:
    """Everything that can be read in the cache."""
    there = store()
    for key, _ in there.entries():
        found = there.peek(key)
        if found is not None:
            yield found


# ----------------------------------------------------------------------------------------------------------------------
# entries


def entry_of(key: Key, compiled: CompiledProgram, captures: Captures) -> Entry | None:
    """What is kept of a compiled program; None when its code cannot leave the process."""
    if not compiled.artifact.portable:
        return None
    places = _Places(reachable(captures.entry))
    spans = [places.find(failure.span) for failure in compiled.artifact.failures]
    sections = {**compiled.artifact.sections(), PROGRAM: compiled.stage("python").encode(), SPANS: json.dumps(spans).encode()}
    return Entry(key.digest, {**key.fields, "reads": captures.described()}, sections)


def program_of_entry(entry: Entry, key: Key, definition: Definition) -> CompiledProgram:
    """The program of an entry; no compiler is loaded. Its failures point at the source as it is now."""
    sections = entry.sections
    if {name: value for name, value in entry.fields.items() if name != "reads"} != key.fields:
        raise ArtifactError("the cache entry was made for other fields than its key says")
    for name in (META, CODE, PROGRAM, SPANS):
        if name not in sections:
            raise ArtifactError(f"the cache entry lacks its section {name}")
    artifact = read_artifact(sections[META], sections[CODE])
    text = sections[PROGRAM].decode()
    compiled = CompiledProgram(artifact, program=lambda: _parsed(text), stages=[Stage("python", "program.py", lambda: text)])
    compiled.relocations = _Relocations(definition, cast("list[Any]", json.loads(sections[SPANS])), [failure.span for failure in artifact.failures])
    return compiled


def _parsed(text: str) -> object:
    from tilejit.frontend.text import parse

    return parse(text)


# ----------------------------------------------------------------------------------------------------------------------
# places

Place = list[list[int] | None]
"""Of a span and its call sites, outermost last: number of the function, ordinal of the node in its tree."""


def nodes_of(definition: Definition) -> Iterator[ast.AST]:
    """The nodes of a function that have a position, in an order that comments and layout do not change."""
    return (node for node in definition.tree.nodes if hasattr(node, "lineno"))


class _Places:
    """Spans as ordinals of nodes."""

    def __init__(self, definitions: Sequence[Definition]) -> None:
        self._found: dict[tuple[str, int, int, int, int], list[int]] = {}
        for number, definition in enumerate(definitions):
            for ordinal, node in enumerate(nodes_of(definition)):
                span = span_of(node, definition.text.source)
                self._found.setdefault((span.filename, span.line, span.column, span.end_line, span.end_column), [number, ordinal])

    def find(self, span: Span | None) -> Place:
        out: Place = []
        while span is not None:
            out.append(self._found.get((span.filename, span.line, span.column, span.end_line, span.end_column)))
            span = span.parent
        return out


class _Relocations:
    """Turns the spans that a cached program carries into spans of the present source."""

    def __init__(self, definition: Definition, places: list[Any], spans: Sequence[Span | None]) -> None:
        self._definition = definition
        self._places = {span: place for span, place in zip(spans, places, strict=False) if span is not None}

    def apply(self, error: TilejitError) -> None:
        """Point `error` at the source as it is now."""
        error.span = self._present(error.span)
        error.related = tuple((text, self._present(span)) for text, span in error.related)

    def _present(self, span: Span | None) -> Span | None:
        place = self._places.get(span) if span is not None else None
        return self._span(span, cast("Place", place), reachable(self._definition)) if span is not None and place is not None else span

    def _span(self, old: Span, place: Place, definitions: Sequence[Definition]) -> Span:
        parent = self._span(old.parent, place[1:], definitions) if old.parent is not None and len(place) > 1 else old.parent
        if place[0] is not None:
            number, ordinal = place[0]
            if number < len(definitions):
                definition = definitions[number]
                for position, node in enumerate(nodes_of(definition)):
                    if position == ordinal:
                        return span_of(node, definition.text.source, old.function, parent)
        return Span(old.source, old.line, old.column, old.end_line, old.end_column, old.function, parent)
