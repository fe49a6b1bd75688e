"""The one file that holds an artifact: header, field list, checksummed sections. No pickle, no eval: JSON and bytes."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

MAGIC = b"TILEJIT\x01"
FORMAT = 1
"""Bumped when the layout changes; entries of another format are misses."""
MAX_HEADER = 16 << 20
MAX_ENTRY = 1 << 30

_PREFIX = struct.Struct("<8sII")  # magic, format, header length
_DIGEST = 32


class DamagedEntry(ValueError):
    """Bytes that are not a whole entry; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An artifact: the key fields it was made for, in words, and its named sections."""

    key: str
    fields: Mapping[str, object]
    sections: Mapping[str, bytes] = field(repr=False)


def encode(entry: Entry) -> bytes:
    """The bytes of an entry file."""
    header = json.dumps(
        {
            "key": entry.key,
            "fields": entry.fields,
            "sections": [[name, len(data), hashlib.sha256(data).hexdigest()] for name, data in entry.sections.items()],
        },
        sort_keys=True,
        ensure_ascii=True,
        allow_nan=False,
    ).encode()
    if len(header) > MAX_HEADER:
        raise ValueError(f"the field list of {entry.key} is too long ({len(header)} bytes)")
    prefix = _PREFIX.pack(MAGIC, FORMAT, len(header))
    return b"".join((prefix, header, hashlib.sha256(prefix + header).digest(), *entry.sections.values()))


def decode(data: bytes | memoryview, expected_key: str | None = None) -> Entry:
    """The entry in `data`; every length and checksum is verified before anything is believed."""
    view = memoryview(data)
    if len(view) > MAX_ENTRY:
        raise DamagedEntry("larger than an entry may be")
    if len(view) < _PREFIX.size + _DIGEST:
        raise DamagedEntry("truncated")
    magic, version, length = _PREFIX.unpack_from(view)
    if magic != MAGIC:
        raise DamagedEntry("not a cache entry")
    if version != FORMAT:
        raise DamagedEntry(f"format {version}, this version reads {FORMAT}")
    body = _PREFIX.size + length
    if length > MAX_HEADER or body + _DIGEST > len(view):
        raise DamagedEntry("header length out of range")
    if hashlib.sha256(view[:body]).digest() != bytes(view[body : body + _DIGEST]):
        raise DamagedEntry("header checksum does not match")
    key, fields, rows = _header(bytes(view[_PREFIX.size : body]))
    if expected_key is not None and key != expected_key:
        raise DamagedEntry("made for another key")
    sections: dict[str, bytes] = {}
    position = body + _DIGEST
    for name, size, digest in rows:
        if size < 0 or position + size > len(view):
            raise DamagedEntry(f"section {name!r} is cut off")
        section = bytes(view[position : position + size])
        if hashlib.sha256(section).hexdigest() != digest:
            raise DamagedEntry(f"section {name!r}: checksum does not match")
        sections[name] = section
        position += size
    if position != len(view):
        raise DamagedEntry("bytes after the last section")
    return Entry(key, fields, sections)


def _header(raw: bytes) -> tuple[str, dict[str, object], list[tuple[str, int, str]]]:
    try:
        parsed: object = json.loads(raw)
    except (ValueError, RecursionError):
        raise DamagedEntry("header is not JSON") from None
    if not isinstance(parsed, dict):
        raise DamagedEntry("header is not an object")
    header = cast("dict[str, object]", parsed)
    key, fields, rows = header.get("key"), header.get("fields"), header.get("sections")
    if not isinstance(key, str) or not isinstance(fields, dict) or not isinstance(rows, list):
        raise DamagedEntry("header lacks its parts")
    checked: list[tuple[str, int, str]] = []
    for row in cast("list[object]", rows):
        match row:
            case [str(name), int(size), str(digest)] if not isinstance(size, bool):
                checked.append((name, size, digest))
            case _:
                raise DamagedEntry("section table is malformed")
    return key, cast("dict[str, object]", fields), checked
