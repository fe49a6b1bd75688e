"""A compiled program as data: signatures, failure table and code, written to sections and read back without any compiler."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from tilejit.dtypes import DTYPES
from tilejit.errors import ArtifactError, SourceText, Span
from tilejit.runtime import machine
from tilejit.runtime.blob import Blob
from tilejit.runtime.failures import Failure
from tilejit.runtime.signature import ParamInfo, Signature

FORMAT = 1
"""Version of this layout; another one is refused."""
META, CODE = "meta.json", "kernel.bin"
"""Names of the two sections that are needed to run; further sections are texts to look at."""


@dataclass(frozen=True, slots=True)
class EntryInfo:
    """One callable function: how it is called and where its code is."""

    signature: Signature
    symbol: str
    needs_arena: bool = True
    brief: bool = False


@dataclass(frozen=True, slots=True)
class Artifact:
    """Everything a CompiledProgram needs to run."""

    name: str
    platform: str
    entries: Mapping[str, EntryInfo]
    failures: tuple[Failure, ...]
    blob: Blob
    architecture: str
    needs: tuple[str, ...]
    """Processor features the code uses."""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])

    def sections(self) -> dict[str, bytes]:
        """The artifact as named byte strings."""
        return {META: json.dumps(self._meta(), indent=1, sort_keys=True).encode(), CODE: self.blob.code}

    def _meta(self) -> dict[str, object]:
        return {
            "format": FORMAT,
            "name": self.name,
            "platform": self.platform,
            "architecture": self.architecture,
            "needs": list(self.needs),
            "versions": dict(self.versions),
            "entries": {name: _write_entry(entry) for name, entry in self.entries.items()},
            "failures": [_write_failure(failure) for failure in self.failures],
            "functions": dict(self.blob.entries),
            "externals": dict(self.blob.externals),
        }


def read_artifact(meta: bytes, code: bytes) -> Artifact:
    """The artifact of two sections, checked against this machine: ArtifactError says what does not fit."""
    try:
        fields = cast("dict[str, Any]", json.loads(meta))
        version = fields["format"]
    except (ValueError, KeyError, TypeError):
        raise ArtifactError("the artifact's description is not readable", help="compile the program again") from None
    if version != FORMAT:
        raise ArtifactError(f"the artifact has format {version}, this version of tilejit reads {FORMAT}", help="compile the program again")
    try:
        artifact = _read(fields, code)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(f"the artifact's description is malformed: {error!r}", help="compile the program again") from None
    check_machine(artifact)
    return artifact


def check_machine(artifact: Artifact) -> None:
    """Refuse code that this processor cannot run, naming what it lacks."""
    if artifact.architecture != machine.architecture():
        raise ArtifactError(f"{artifact.name} was compiled for {artifact.architecture}, this machine is {machine.architecture()}", help="compile it here")
    missing = machine.missing_features(artifact.needs)
    if missing:
        raise ArtifactError(f"{artifact.name} needs the processor feature {', '.join(missing)}, which this machine lacks", help="compile it here")


def _read(fields: dict[str, Any], code: bytes) -> Artifact:
    for offset in (*fields["functions"].values(), *fields["externals"].values()):
        if not isinstance(offset, int) or not 0 <= offset < len(code):
            raise ValueError(f"offset {offset} is outside the code")
    return Artifact(
        str(fields["name"]),
        str(fields["platform"]),
        {name: _read_entry(entry) for name, entry in fields["entries"].items()},
        tuple(_read_failure(failure) for failure in fields["failures"]),
        Blob(code, dict(fields["functions"]), dict(fields["externals"])),
        str(fields["architecture"]),
        tuple(fields["needs"]),
        dict(fields["versions"]),
    )


# ----------------------------------------------------------------------------------------------------------------------
# parts


def _write_entry(entry: EntryInfo) -> dict[str, object]:
    signature = entry.signature
    return {
        "name": signature.name,
        "params": [_write_param(param) for param in signature.params],
        "results": [_write_param(param) for param in signature.results],
        "order": list(signature.order) if signature.order is not None else None,
        "literals": signature.literals,
        "symbol": entry.symbol,
        "needs_arena": entry.needs_arena,
        "brief": entry.brief,
    }


def _read_entry(fields: dict[str, Any]) -> EntryInfo:
    order = fields["order"]
    signature = Signature(
        fields["name"],
        tuple(_read_param(param) for param in fields["params"]),
        tuple(_read_param(param) for param in fields["results"]),
        None if order is None else tuple(order),
        dict(fields["literals"]),
    )
    return EntryInfo(signature, fields["symbol"], bool(fields["needs_arena"]), bool(fields["brief"]))


def _write_param(param: ParamInfo) -> dict[str, object]:
    shape = list(param.shape) if param.shape is not None else None
    return {"name": param.name, "direction": param.direction, "dtype": param.dtype.name, "shape": shape}


def _read_param(fields: dict[str, Any]) -> ParamInfo:
    shape = fields["shape"]
    return ParamInfo(fields["name"], fields["direction"], DTYPES[fields["dtype"]], None if shape is None else tuple(shape))


def _write_failure(failure: Failure) -> dict[str, object]:
    return {"kind": failure.kind, "text": failure.text, "help": failure.help, "span": write_span(failure.span)}


def _read_failure(fields: dict[str, Any]) -> Failure:
    return Failure(fields["kind"], fields["text"], read_span(fields["span"]), fields["help"])


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
