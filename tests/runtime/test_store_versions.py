"""Entries of other versions in the cache: they are misses, are replaced by the next write, and never run."""

from __future__ import annotations

import hashlib
import struct
import warnings
from pathlib import Path

import pytest

from tilejit.runtime.store.directory import Store
from tilejit.runtime.store.entry import FORMAT, MAGIC, CacheEntry, DamagedCacheEntry, decode, encode

KEY = hashlib.sha256(b"kernel").hexdigest()
ENTRY = CacheEntry(KEY, {"kernel": "new"}, {"code": b"\x90" * 300})


def of_format(number: int, magic: bytes = MAGIC) -> bytes:
    """A whole entry of another format, with checksums that are right for it."""
    data = encode(CacheEntry(KEY, {"kernel": "old"}, {"code": b"\xcc" * 300}))
    (length,) = struct.unpack_from("<I", data, 12)
    head = magic + struct.pack("<II", number, length) + data[16 : 16 + length]
    return head + hashlib.sha256(head).digest() + data[16 + length + 32 :]


def test_the_bytes_are_an_entry_but_for_their_format() -> None:
    assert decode(of_format(FORMAT)).fields == {"kernel": "old"}


@pytest.mark.parametrize("number", [0, 1, FORMAT - 1, FORMAT + 1, 2**32 - 1])
def test_an_entry_of_another_format_is_a_miss_and_is_replaced(tmp_path: Path, number: int) -> None:
    with pytest.raises(DamagedCacheEntry, match=f"format {number}, this version reads {FORMAT}"):
        decode(of_format(number))
    root = tmp_path / "cache"
    assert Store(str(root)).put(ENTRY)
    (path,) = root.rglob("*.tj")
    path.write_bytes(of_format(number))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert Store(str(root)).get(KEY) is None
        assert Store(str(root)).get_or_build(KEY, lambda: ENTRY) == ENTRY
    assert Store(str(root)).get(KEY) == ENTRY


def test_a_file_of_another_program_is_none_of_ours(tmp_path: Path) -> None:
    with pytest.raises(DamagedCacheEntry, match="not a cache entry"):
        decode(of_format(FORMAT, b"SOMEBODY"))
