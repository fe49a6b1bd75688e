"""A compiled program as data: a description and the sections that its target names, read back without any compiler."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, cast

from tilejit.dtypes import DTYPES
from tilejit.errors import ArtifactError, SourceText, Span
from tilejit.lazy import lazy
from tilejit.runtime.call.failures import Failure
from tilejit.runtime.call.signature import ParamInfo, Signature

FORMAT = 3
"""Version of this layout; another one is refused."""
META = "meta.json"
"""The section with the description; the others are the target's."""
HOSTS = "hosts.json"
"""The section of host functions, in artifacts of programs for several ranks."""
_AGAIN = "compile the program again"

Terms = tuple[tuple[int, tuple[str, ...]], ...]
"""A sum of products: (coefficient, extents by symbol)."""


@dataclass(frozen=True, slots=True)
class EntryInfo:
    """One callable function: how it is called, where its code is, and what it costs."""

    signature: Signature
    symbol: str
    needs_arena: bool = True
    """Whether it ever takes scratch memory."""
    brief: bool = False
    """Over so soon that a caller need not let go of the GIL."""
    operations: Terms | None = None
    """Arithmetic operations of one call; None when only the run can tell."""
    threaded: bool = False
    """Whether it may share out work to several threads."""


@dataclass(frozen=True)
class Artifact:
    """Everything a CompiledProgram needs to run."""

    name: str
    platform: str
    entries: Mapping[str, EntryInfo]
    failures: tuple[Failure, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the target's loader has to know about the sections, as JSON."""
    sections: Mapping[str, Callable[[], bytes]] = field(default_factory=dict[str, Callable[[], bytes]], repr=False)
    """Named byte strings, fetched only when they are to be loaded or written; none: nothing that another process could load."""
    digests: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, compare=False)
    """SHA-256 of sections, where it is known without fetching them."""
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    """What of a RunConfig the code was made for."""

    @lazy
    def identity(self) -> str:
        """A digest of all that it is; the same once it was written and read again."""
        known = {name: self.digests.get(name) or hashlib.sha256(fetch()).hexdigest() for name, fetch in self.sections.items()}
        fields = {**json.loads(self.described()), "digests": known}  # read back: JSON knows no tuples, and its keys are texts
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()

    @property
    def portable(self) -> bool:
        """Whether another process can load it."""
        return bool(self.sections)

    def section(self, name: str) -> bytes:
        """The bytes of a section."""
        if name not in self.sections:
            raise ArtifactError(f"{self.name} lacks its section {name}", help=_AGAIN)
        return self.sections[name]()

    def contents(self) -> dict[str, bytes]:
        """The artifact as named byte strings."""
        return {META: self.described(), **{name: fetch() for name, fetch in self.sections.items()}}

    def described(self, **more: object) -> bytes:
        """The description as JSON, which carries its own checksum; `more` are further fields."""
        body = json.dumps({**self._fields(), **more}, indent=1, sort_keys=True).encode()[2:]
        return _HEAD % hashlib.sha256(body).hexdigest().encode() + body

    def _fields(self) -> dict[str, object]:
        return {
            "format": FORMAT,
            "name": self.name,
            "platform": self.platform,
            "versions": dict(self.versions),
            "entries": [_write_entry(name, entry) for name, entry in self.entries.items()],
            "failures": [_write_failure(failure) for failure in self.failures],
            "facts": dict(self.facts),
            "options": dict(self.options),
            "sections": list(self.sections),
        }


_HEAD = b'{\n "checksum": "%s",\n'
_HEAD_SIZE = len(_HEAD) - 2 + 64


def read_fields(meta: bytes, where: str = META, sound: bool = False) -> dict[str, Any]:
    """The fields of a description, checked for its format and, unless it is known to be `sound`, for damage."""
    if not sound and meta[:_HEAD_SIZE] != _HEAD % hashlib.sha256(meta[_HEAD_SIZE:]).hexdigest().encode():
        raise ArtifactError(f"{where} is damaged: its checksum does not match", help=_AGAIN)
    fields = cast("dict[str, Any]", json.loads(meta.decode()))
    if fields.get("format") != FORMAT:
        raise ArtifactError(f"{where} has format {fields.get('format')}, this version of tilejit reads {FORMAT}", help=_AGAIN)
    return fields


def read_artifact(fields: dict[str, Any], fetch: Callable[[str], bytes], digests: Mapping[str, str] = MappingProxyType({})) -> Artifact:
    """The artifact of a description; `fetch` gets its other sections when they are needed, of which `digests` are known."""
    try:
        return Artifact(
            fields["name"],
            fields["platform"],
            {entry["name"]: _read_entry(entry) for entry in fields["entries"]},
            tuple(_read_failure(failure) for failure in fields["failures"]),
            fields["versions"],
            dict(fields["facts"]),
            {str(name): partial(fetch, str(name)) for name in fields["sections"]},
            digests,
            dict(fields["options"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(f"the artifact's description is malformed: {error!r}", help=_AGAIN) from None


# ----------------------------------------------------------------------------------------------------------------------
# parts


def _write_entry(name: str, entry: EntryInfo) -> dict[str, object]:
    signature = entry.signature
    return {
        "name": name,
        "function": signature.name,
        "params": [_write_param(param) for param in signature.params],
        "results": [_write_param(param) for param in signature.results],
        "order": list(signature.order) if signature.order is not None else None,
        "literals": signature.literals,
        "in_place": [list(pair) for pair in signature.in_place],
        "returned": list(signature.returned),
        "computed": signature.computed,
        "numbers": list(signature.numbers),
        "symbol": entry.symbol,
        "needs_arena": entry.needs_arena,
        "brief": entry.brief,
        "operations": entry.operations,
        "threaded": entry.threaded,
    }


def _read_entry(fields: dict[str, Any]) -> EntryInfo:
    order, operations = fields["order"], fields["operations"]
    signature = Signature(
        fields["function"],
        tuple(map(_read_param, fields["params"])),
        tuple(map(_read_param, fields["results"])),
        None if order is None else tuple(order),
        fields["literals"],
        tuple((str(output), str(source)) for output, source in fields["in_place"]),
        tuple(fields["returned"]),
        fields["computed"],
        tuple(fields["numbers"]),
    )
    terms = None if operations is None else tuple((coefficient, tuple(symbols)) for coefficient, symbols in operations)
    return EntryInfo(signature, fields["symbol"], bool(fields["needs_arena"]), bool(fields["brief"]), terms, bool(fields["threaded"]))


def _write_param(param: ParamInfo) -> dict[str, object]:
    shape = list(param.shape) if param.shape is not None else None
    return {"name": param.name, "direction": param.direction, "dtype": param.dtype.name, "shape": shape}


def _read_param(fields: dict[str, Any]) -> ParamInfo:
    shape = fields["shape"]
    return ParamInfo(fields["name"], fields["direction"], DTYPES[fields["dtype"]], None if shape is None else tuple(shape))


def _write_failure(failure: Failure) -> dict[str, object]:
    fields: dict[str, object] = {"kind": failure.kind, "text": failure.text, "help": failure.help, "span": write_span(failure.span)}
    return {**fields, "related": True} if failure.related else fields


def _read_failure(fields: dict[str, Any]) -> Failure:
    return Failure(fields["kind"], fields["text"], read_span(fields["span"]), fields["help"], bool(fields.get("related")))


def write_span(span: Span | None) -> dict[str, object] | None:
    """A place in source with the text it covers, so that it can be shown where the file is not."""
    if span is None:
        return None
    lines = [span.source.line(number) or "" for number in range(span.line, span.end_line + 1)]
    return {
        "file": span.filename,
        "at": [span.line, span.column, span.end_line, span.end_column],
        "function": span.function,
        "lines": lines,
        "parent": write_span(span.parent),
    }


def read_span(fields: dict[str, Any] | None) -> Span | None:
    """What `write_span` wrote."""
    if fields is None:
        return None
    line, column, end_line, end_column = fields["at"]
    source = SourceText(fields["file"], tuple(fields["lines"]), line)
    return Span(source, line, column, end_line, end_column, fields["function"], read_span(fields["parent"]))
