"""The one file that holds an artifact: header, field list, checksummed sections. No pickle, no eval: JSON and bytes."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from typing import cast

from tilejit.json_text import writer

MAGIC = b"TILEJIT\x01"
FORMAT = 2
"""Bumped when the layout changes; entries of another format are misses."""
MAX_HEADER = 16 << 20
MAX_ENTRY = 1 << 30

_PREFIX = struct.Struct("<8sII")  # magic, format, header length
_DIGEST = 32


class DamagedCacheEntry(ValueError):
    """Bytes that are not a whole entry; the message says what is wrong."""


class CacheEntry:
    """An artifact: the key fields it was made for, in words, and its named sections."""

    __slots__ = ("_fields", "key", "sections")

    def __init__(self, key: str, fields: Mapping[str, object] | bytes, sections: Mapping[str, bytes]) -> None:
        self.key = key
        self._fields = fields
        self.sections = sections

    @property
    def text(self) -> bytes:
        """The fields as JSON, in their order."""
        return self._fields if isinstance(self._fields, bytes) else fields_text(self._fields).encode()

    @property
    def fields(self) -> Mapping[str, object]:
        """The fields, read when first asked for: a warm start needs only their text. DamagedCacheEntry when that is no JSON object."""
        if isinstance(self._fields, bytes):
            self._fields = _object(self._fields)
        return self._fields

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CacheEntry) and (self.key, self.fields, self.sections) == (other.key, other.fields, other.sections)

    def __repr__(self) -> str:
        return f"CacheEntry({self.key!r}, {self.fields!r})"


def fields_text(fields: Mapping[str, object]) -> str:
    """Fields as JSON on one line."""
    return _write(fields)


_write = writer(allow_nan=False)


def encode(entry: CacheEntry) -> bytes:
    """The bytes of an entry file. Its header is lines: the key, name, length and digest of each section, the fields as JSON."""
    rows = [f"{name} {len(data)} {hashlib.sha256(data).hexdigest()}" for name, data in entry.sections.items()]
    if any(len(row.split()) != 3 for row in rows):
        raise ValueError(f"the sections of {entry.key} have names with blanks")
    header = "\n".join([entry.key, *rows, ""]).encode() + entry.text
    if len(header) > MAX_HEADER:
        raise ValueError(f"the field list of {entry.key} is too long ({len(header)} bytes)")
    prefix = _PREFIX.pack(MAGIC, FORMAT, len(header))
    return b"".join((prefix, header, hashlib.sha256(prefix + header).digest(), *entry.sections.values()))


def decode(data: bytes, expected_key: str | None = None) -> CacheEntry:
    """The entry in `data`; every length and checksum is verified before anything is believed."""
    if len(data) > MAX_ENTRY:
        raise DamagedCacheEntry("larger than an entry may be")
    if len(data) < _PREFIX.size + _DIGEST:
        raise DamagedCacheEntry("truncated")
    magic, version, length = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise DamagedCacheEntry("not a cache entry")
    if version != FORMAT:
        raise DamagedCacheEntry(f"format {version}, this version reads {FORMAT}")
    body = _PREFIX.size + length
    if length > MAX_HEADER or body + _DIGEST > len(data):
        raise DamagedCacheEntry("header length out of range")
    if hashlib.sha256(data[:body]).digest() != data[body : body + _DIGEST]:
        raise DamagedCacheEntry("header checksum does not match")
    key, fields, rows = _header(data[_PREFIX.size : body])
    if expected_key is not None and key != expected_key:
        raise DamagedCacheEntry("made for another key")
    sections: dict[str, bytes] = {}
    position = body + _DIGEST
    for name, size, digest in rows:
        if size < 0 or position + size > len(data):
            raise DamagedCacheEntry(f"section {name!r} is cut off")
        section = data[position : position + size]
        if hashlib.sha256(section).hexdigest() != digest:
            raise DamagedCacheEntry(f"section {name!r}: checksum does not match")
        sections[name] = section
        position += size
    if position != len(data):
        raise DamagedCacheEntry("bytes after the last section")
    return CacheEntry(key, fields, sections)


def _header(raw: bytes) -> tuple[str, bytes, list[tuple[str, int, str]]]:
    try:
        key, *table, fields = raw.split(b"\n")
        rows = [row.decode().split(" ") for row in table]
        return key.decode(), fields, [(name, int(size), digest) for name, size, digest in rows]
    except ValueError:
        raise DamagedCacheEntry("section table is malformed") from None


def _object(raw: bytes) -> dict[str, object]:
    try:
        parsed: object = json.loads(raw)
    except (ValueError, RecursionError):
        raise DamagedCacheEntry("field list is not JSON") from None
    if not isinstance(parsed, dict):
        raise DamagedCacheEntry("field list is not an object")
    return cast("dict[str, object]", parsed)
