"""Compiled kernels on disk: the key in words, the entry it names, and the way back to a program that runs."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from tilejit.errors import ArtifactError, Span, TilejitError
from tilejit.frontend.source import span_of
from tilejit.jit.definition import Definition
from tilejit.jit.disk.fingerprint import toolchain, toolchain_text
from tilejit.jit.disk.stores import store
from tilejit.jit.reads import manifest as manifests
from tilejit.jit.reads.answers import Asked
from tilejit.jit.reads.trace import Trace
from tilejit.lazy import lazy
from tilejit.runtime.artifact.compiled import CompiledProgram
from tilejit.runtime.artifact.directory import Stage
from tilejit.runtime.artifact.sections import META, Artifact, read_artifact, read_fields
from tilejit.runtime.store.entry import CacheEntry, fields_text
from tilejit.runtime.targets import DEFAULT

if TYPE_CHECKING:
    from tilejit.jit.specialize.program import Specialization

PROGRAM, SPANS, ASKED, TEXT = "program.py", "spans.json", "asked", "text"
"""Sections besides those of the artifact: the specialised program, where its failures lie in the kernels' trees, questions and answers,

and a digest of the specialised text: equal for calls that share a program in memory."""
READS = b', "reads": {'


@dataclass(frozen=True)
class Key:
    """What an artifact was made for: named fields, and their digest."""

    own: Mapping[str, object]
    """What is special about it; the tool chain comes on top."""
    platform: str = DEFAULT
    device: str = "cpu"
    seen: Sequence[object] = ()
    """The snapshot of the settings that it was made from."""

    @property
    def fields(self) -> Mapping[str, object]:
        return {**self.own, **toolchain(self.platform, self.device)}

    @property
    def options(self) -> Mapping[str, object]:
        """The settings and options that change code, as they were when the call began."""
        return cast("Mapping[str, object]", self.own["options"])

    @lazy
    def text(self) -> bytes:
        """The fields as JSON."""
        return f"{fields_text(self.own)[:-1]}, {toolchain_text(self.platform, self.device)[1:]}".encode()

    @lazy
    def digest(self) -> str:
        return hashlib.sha256(self.text).hexdigest()


def text_digest(special: Specialization, key: Key) -> str | None:
    """Equal for two specialisations of a kernel that are the same program, for the same options and tools; None: nested too deeply to be written."""
    from tilejit.jit.specialize.text import source_text

    try:
        text = source_text(special)
    except RecursionError:
        return None  # the front end says where
    parts = [text, fields_text(key.options), key.device, toolchain_text(key.platform, key.device)]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def first_part(
    trace: Trace, arguments: Mapping[str, object], omitted: Sequence[str], options: Mapping[str, object], device: str, seen: Sequence[object]
) -> Key:
    """What is known of a call before anything is specialised: the definition, what the pass for dynamic extents was answered, arguments, options.

    Every field is readable, because `explain` compares them.
    """
    fields: dict[str, object] = {
        "kernel": kernel_name(trace.entry),
        "definition": trace.entry.digest,
        "extents": hashlib.sha256(asked_text(trace.log)).hexdigest(),
        "arguments": arguments,
        "options": options,
    }
    if omitted:
        fields["returned"] = list(omitted)
    return Key(fields, str(options["platform"]), device, seen)


def asked_text(log: Sequence[Asked]) -> bytes:
    """Questions with their answers, a row each."""
    return "\n".join(f"{asked.question}\t{asked.answer}" for asked in log).encode()


def artifact_key(first: bytes, asked: bytes) -> str:
    """The key of an artifact: the first part and what Python answered after it."""
    return hashlib.sha256(b"%d\n%s\n%s" % (len(first), first, asked)).hexdigest()


def kernel_name(definition: Definition) -> str:
    """The kernel by module and name."""
    return f"{definition.function.__module__}.{definition.function.__qualname__}"


# ----------------------------------------------------------------------------------------------------------------------
# entries


def entries() -> Iterator[CacheEntry]:
    """Everything that can be read in the cache."""
    there = store()
    for key, _ in there.entries():
        found = there.peek(key)
        if found is not None:
            yield found


def entry_of(key: Key, compiled: CompiledProgram, trace: Trace, asked: bytes) -> CacheEntry | None:
    """What is kept of a compiled program; None when its code cannot leave the process, or nothing is kept."""
    if not compiled.artifact.portable or not store().ready():
        return None
    places = _Places(list(trace.definitions))
    spans = [places.find(failure.span) for failure in compiled.artifact.failures]
    own = {PROGRAM: compiled.stage("python").encode(), SPANS: json.dumps(spans).encode(), ASKED: asked, TEXT: trace.text.encode()}
    return CacheEntry(artifact_key(key.text, asked), {**key.fields, "reads": trace.described()}, {**compiled.artifact.contents(), **own})


def program_of_entry(entry: CacheEntry, key: Key, trace: Trace, asked: bytes) -> CompiledProgram:
    """The program of an entry; no compiler is loaded. Its failures point at the source as it is now."""
    if not entry.text.startswith(key.text[:-1] + READS) or entry.sections.get(ASKED) != asked:
        raise ArtifactError("the cache entry was made for other fields than its key says")
    return program_in(entry, list(trace.definitions))


def program_in(entry: CacheEntry, definitions: Sequence[Definition]) -> CompiledProgram:
    """The same of an entry that is known to be the right one."""
    artifact, sections = artifact_of_entry(entry), entry.sections
    for name in (*artifact.sections, PROGRAM, SPANS):
        if name not in sections:
            raise ArtifactError(f"the cache entry lacks its section {name}")
    text = sections[PROGRAM].decode()
    compiled = CompiledProgram(artifact, program=lambda: _parsed(text), stages=[Stage("python", "program.py", lambda: text)])
    compiled.share(relocations=_Relocations(definitions, sections[SPANS], artifact))
    return compiled


def artifact_of_entry(entry: CacheEntry) -> Artifact:
    """The artifact in an entry, which has checksums of its own."""
    if META not in entry.sections:
        raise ArtifactError(f"the cache entry lacks its section {META}")
    return read_artifact(read_fields(entry.sections[META], sound=True), entry.sections.__getitem__)


def same_text(entry: CacheEntry) -> str:
    """What a loaded program is kept under in memory."""
    return entry.sections.get(TEXT, entry.key.encode()).decode("ascii", "replace")


# ----------------------------------------------------------------------------------------------------------------------
# manifests

TREE = "questions"
_MANIFEST = "questions of "


def find_artifact(key: Key, trace: Trace) -> tuple[CacheEntry, Trace] | None:
    """The entry that the answers of now lead to, with what was asked on the way; questions are asked once for all layers."""
    there = store()
    alone = there.get(artifact_key(key.text, b""))
    if alone is not None:
        return alone, trace.fork()
    for manifest, own in there.versions(_manifest_key(key.text)):
        rows = manifests.read(manifest.sections.get(TREE, b""))
        walk = trace.fork()
        try:
            leaf = manifests.tree_of(rows).find(walk)
        except ArtifactError as error:
            there.reject(manifest.key, str(error))
            continue
        entry = there.get(leaf) if leaf is not None else None
        if entry is not None:
            if own:
                _mark(manifest, rows, entry.key)
            return entry, walk
    return None


def unknown_answer(key: Key, trace: Trace) -> str | None:
    """The first question whose answer leads to no artifact, with the answers that do, in words."""
    for manifest, _ in store().versions(_manifest_key(key.text)):
        try:
            found = manifests.tree_of(manifests.read(manifest.sections.get(TREE, b""))).unknown(trace.fork())
        except ArtifactError:
            continue
        if found is not None:
            path, answer, known = found
            return f"`{path}` is {answer}, and only {', '.join(sorted(known))} {'is' if len(known) == 1 else 'are'} known"
    return None


def _mark(manifest: CacheEntry, rows: Sequence[manifests.Row], leaf: str) -> None:
    """Take note that an artifact was used: what nobody ever uses again is not collected without end, and what is used does not go for it.

    Not at each start of a process, which would cost a write: the first time, and when it stands among the older half of a tree that fills up."""
    place = next((place for place, row in enumerate(rows) if row.key == leaf), None)
    if place is not None and (not rows[place].used or place < len(rows) - manifests.MAX_LEAVES // 2):
        latest = [*rows[:place], *rows[place + 1 :], rows[place].hit()]
        store().put(CacheEntry(manifest.key, manifest.fields, {TREE: manifests.written(latest)}))


def remember(entry: CacheEntry) -> str | None:
    """Add an artifact to the tree of its first part, from what the entry itself says; the question that has too many answers, if one has."""
    found = entry.text.find(READS)
    log = [tuple(line.split("\t")) for line in entry.sections[ASKED].decode().split("\n") if line]
    if found < 0 or not all(len(row) == 2 for row in log):
        return None
    first = entry.text[:found] + b"}"
    key = _manifest_key(first)
    own = next((manifest for manifest, own in store().versions(key) if own), None)
    rows = [row for row in manifests.read(own.sections.get(TREE, b"") if own is not None else b"") if row.key != entry.key]
    new = manifests.Row(entry.key, cast("manifests.Log", tuple(log)))
    refused = manifests.tree_of(rows).refuses(new)
    if refused is None:
        name = _MANIFEST + str(entry.fields.get("kernel"))
        store().put(CacheEntry(key, {"kernel": name, **toolchain()}, {TREE: manifests.written([*rows, new])}))
    return refused


def is_manifest(entry: CacheEntry) -> bool:
    """Whether an entry only leads to others."""
    return TREE in entry.sections


def _manifest_key(first: bytes) -> str:
    return hashlib.sha256(b"questions\n" + first).hexdigest()


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

    def __init__(self, definitions: Sequence[Definition], places: bytes, artifact: Artifact) -> None:
        self._definitions = definitions
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
        return self._span(span, cast("Place", place), self._definitions) if span is not None and place is not None else span

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
