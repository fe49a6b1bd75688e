"""Machine code by the LLVM text it comes from: renamed and moved kernels whose code is the same are not generated again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import cast

from tilejit.config import CPU
from tilejit.errors import ArtifactError
from tilejit.jit.disk.fingerprint import sources_changed, toolchain
from tilejit.runtime.artifact.blob import Blob
from tilejit.runtime.store.directory import Store
from tilejit.runtime.store.entry import CacheEntry

_DEFINED = re.compile(r"^define [^@\n]*@([\w.$]+)\(", re.MULTILINE)
_SYMBOL = re.compile(r"@([\w.$]+)")


class CodeCache:
    """Looks machine code up in a store; functions count by their order in the text, so that their names do not matter."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, text: str) -> Blob | None:
        """The code of this LLVM text, if it was ever generated."""
        names, digest = _canonical(text)
        found = self._store.get(_key(digest))
        if found is None:
            return None
        try:
            blob = blob_of(found)
            return Blob(blob.code, {names[int(number)]: at for number, at in blob.entries.items()}, blob.externals)
        except (ArtifactError, IndexError, ValueError) as error:
            self._store.reject(found.key, str(error))
            return None

    def keep(self, text: str, blob: Blob) -> None:
        """Remember freshly generated code."""
        if sources_changed() or not self._store.ready():
            return
        names, digest = _canonical(text)
        numbers = {name: str(number) for number, name in enumerate(names)}
        if all(name in numbers for name in blob.entries):
            renamed = Blob(blob.code, {numbers[name]: at for name, at in blob.entries.items()}, blob.externals)
            self._store.put(entry_of_blob(_key(digest), {"kernel": "machine code", "llvm": digest, **toolchain()}, renamed))


def _canonical(text: str) -> tuple[list[str], str]:
    """Names of the functions in the order of their definition, and a digest of the text in which they are numbers."""
    names = _DEFINED.findall(text)
    numbers = {name: number for number, name in enumerate(names)}
    plain = _SYMBOL.sub(lambda found: f"@{numbers[found[1]]}" if found[1] in numbers else found[0], text)
    return names, hashlib.sha256(plain.encode()).hexdigest()


def _key(digest: str) -> str:
    """With the setting that says which instructions it may have: the text does not."""
    return hashlib.sha256(repr(["machine code", digest, CPU.value, sorted(toolchain().items())]).encode()).hexdigest()


def entry_of_blob(key: str, fields: Mapping[str, object], blob: Blob) -> CacheEntry:
    """Code as an entry of the disk cache."""
    return CacheEntry(key, {**fields, "functions": dict(blob.entries), "externals": dict(blob.externals)}, {"code": blob.code})


def blob_of(entry: CacheEntry) -> Blob:
    """The code in an entry; ArtifactError unless every offset lies in it."""
    code = entry.sections.get("code")
    if code is None:
        raise ArtifactError("the cache entry has no code")
    return Blob(code, _offsets(entry, "functions", len(code)), _offsets(entry, "externals", len(code) - 7))


def _offsets(entry: CacheEntry, name: str, end: int) -> dict[str, int]:
    table = entry.fields.get(name)
    if not isinstance(table, dict):
        raise ArtifactError(f"the cache entry lacks its table of {name}")
    rows = cast("dict[str, object]", table)
    if not all(type(at) is int and 0 <= at < end for at in rows.values()):
        raise ArtifactError(f"the cache entry has {name} outside its code")
    return cast("dict[str, int]", rows)
