"""Compiled kernels on disk: the key in words, the entry it names, and the way back to a program that runs."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tilejit.errors import ArtifactError, Span, TilejitError
from tilejit.frontend.source import span_of
from tilejit.jit.definition import Definition
from tilejit.jit.disk.fingerprint import toolchain, toolchain_text
from tilejit.jit.disk.stores import store
from tilejit.jit.reads.captures import Captures
from tilejit.jit.specialize.dependencies import reachable
from tilejit.runtime.artifact.compiled import CompiledProgram
from tilejit.runtime.artifact.directory import Stage
from tilejit.runtime.artifact.lazy import lazy
from tilejit.runtime.artifact.sections import META, Artifact, read_artifact, read_fields
from tilejit.runtime.store.entry import Entry, fields_text
from tilejit.runtime.targets import DEFAULT

PROGRAM, SPANS = "program.py", "spans.json"
"""Sections besides those of the artifact: the specialised program, and where its failures lie in the kernels' trees."""


@dataclass(frozen=True)
class Key:
    """What an artifact was made for: named fields, and their digest."""

    own: Mapping[str, object]
    """What is special about it; the tool chain comes on top."""
    platform: str = DEFAULT
    device: str = "cpu"

    @property
    def fields(self) -> Mapping[str, object]:
        return {**self.own, **toolchain(self.platform, self.device)}

    @lazy
    def text(self) -> bytes:
        """The fields as JSON."""
        return f"{fields_text(self.own)[:-1]}, {toolchain_text(self.platform, self.device)[1:]}".encode()

    @lazy
    def digest(self) -> str:
        return hashlib.sha256(self.text).hexdigest()


def key_of(definition: Definition, captures: Captures, arguments: Mapping[str, object], options: Mapping[str, object], device: str) -> Key:
    """The key of one specialisation; every field is readable, because `explain` compares them."""
    return Key(
        {
            "kernel": kernel_name(definition),
            "definition": captures.digest,
            "arguments": arguments,
            "options": options,
        },
        str(options["platform"]),
        device,
    )


def kernel_name(definition: Definition) -> str:
    """The kernel by module and name."""
    return f"{definition.function.__module__}.{definition.function.__qualname__}"


# ----------------------------------------------------------------------------------------------------------------------
# entries


def entries() -> Iterator[Entry]:
    """Everything that can be read in the cache."""
    there = store()
    for key, _ in there.entries():
        found = there.peek(key)
        if found is not None:
            yield found


def entry_of(key: Key, compiled: CompiledProgram, captures: Captures) -> Entry | None:
    """What is kept of a compiled program; None when it cannot leave the process."""
    if not compiled.artifact.portable:
        return None
    places = _Places(reachable(captures.entry))
    spans = [places.find(failure.span) for failure in compiled.artifact.failures]
    sections = {**compiled.artifact.contents(), PROGRAM: compiled.stage("python").encode(), SPANS: json.dumps(spans).encode()}
    return Entry(key.digest, {**key.fields, "reads": captures.described()}, sections)


def program_of_entry(entry: Entry, key: Key, definition: Definition) -> CompiledProgram:
    """The program of an entry; no compiler is loaded. Its failures point at the source as it is now."""
    sections = entry.sections
    if not entry.text.startswith(key.text[:-1] + b', "reads": {'):
        raise ArtifactError("the cache entry was made for other fields than its key says")
    artifact = artifact_of_entry(entry)
    for name in (*artifact.sections, PROGRAM, SPANS):
        if name not in sections:
            raise ArtifactError(f"the cache entry lacks its section {name}")
    text = sections[PROGRAM].decode()
    compiled = CompiledProgram(artifact, program=lambda: _parsed(text), stages=[Stage("python", "program.py", lambda: text)])
    compiled.relocations = _Relocations(definition, sections[SPANS], artifact)
    return compiled


def artifact_of_entry(entry: Entry) -> Artifact:
    """The artifact in an entry, which has checksums of its own."""
    if META not in entry.sections:
        raise ArtifactError(f"the cache entry lacks its section {META}")
    return read_artifact(read_fields(entry.sections[META], sound=True), entry.sections.__getitem__)


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

    def __init__(self, definition: Definition, places: bytes, artifact: Artifact) -> None:
        self._definition = definition
        self._read = places
        self._artifact = artifact

    @lazy
    def _places(self) -> dict[Span, Any]:
        spans = [failure.span for failure in self._artifact.failures]
        try:
            places = cast("list[Any]", json.loads(self._read))
            return {span: place for span, place in zip(spans, places, strict=False) if span is not None}
        except (ValueError, TypeError, RecursionError):
            return {}  # then the places of the text that was compiled have to do

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
