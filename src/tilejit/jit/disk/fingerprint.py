"""The tool chain as part of the key: our own sources, the libraries that fold and generate code, the processor."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from functools import cache

from tilejit.runtime.store.entry import fields_text
from tilejit.runtime.targets import DEFAULT, compiler_settings, device_facts, row_of

_LIBRARIES = ("xdsl", "numpy", "ml_dtypes")
"""What compiling runs besides our own code; targets name further ones."""


def toolchain(platform: str = DEFAULT, device: str = "cpu") -> dict[str, str]:
    """What generated code depends on besides the kernel, in words."""
    return _toolchain(platform, device, compiler_settings(platform))[0]


def toolchain_text(platform: str = DEFAULT, device: str = "cpu") -> str:
    """The same as JSON."""
    return _toolchain(platform, device, compiler_settings(platform))[1]


@cache
def _toolchain(platform: str, device: str, told: str) -> tuple[dict[str, str], str]:
    libraries = {name: _VERSIONS.get(name, "unknown") for name in (*row_of(platform).libraries, *_LIBRARIES)}
    found = {"tilejit": _SOURCES, **libraries, "python": ".".join(map(str, sys.version_info[:3])), "target": device_facts(platform, device)}
    found |= {"compiler settings": told} if told else {}
    return found, fields_text(found)


@cache
def reader_text() -> str:
    """What reading a kernel's text depends on: our own sources and Python, on whatever device it will run."""
    return f"{_SOURCES} {sys.version_info[:3]}"


def sources_changed() -> bool:
    """Whether our files were edited since this process loaded them: what it compiles now belongs to neither version."""
    return _own_sources() != _SOURCES


def _own_sources() -> str:
    return sources_digest(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def sources_digest(root: str) -> str:
    """A digest of the Python files below `root`: an edited compiler never serves what the old one made.

    An installed package is known by the contents that the installer recorded, so that kernels compiled here run where the same
    version is installed; files that somebody edited since, and source checkouts, by name, size and time.
    """
    found = dict(_python_files(root))
    rows = "".join(f"{name}:{facts.st_size}:{facts.st_mtime_ns}\n" for name, facts in sorted(found.items()))
    return hashlib.sha256((_recorded(root, found) or rows).encode()).hexdigest()[:16]


def _python_files(root: str) -> Iterator[tuple[str, os.stat_result]]:
    folders = [root]
    while folders:
        folder = folders.pop()
        with os.scandir(folder) as rows:
            for row in rows:
                if row.name.endswith(".py"):
                    yield row.path[len(root) + 1 :].replace(os.sep, "/"), row.stat()
                elif row.name != "__pycache__" and row.is_dir():
                    folders.append(row.path)


def _recorded(root: str, found: Mapping[str, os.stat_result]) -> str | None:
    """The hashes in the installer's RECORD, if it is about these very files: same names and sizes, none newer than it."""
    parent, package = os.path.split(root)
    folders = [name for name in os.listdir(parent) if name.startswith(f"{package}-") and name.endswith(".dist-info")]
    if len(folders) != 1:
        return None
    try:
        path = os.path.join(parent, folders[0], "RECORD")
        written = os.stat(path).st_mtime_ns
        with open(path, encoding="utf-8") as file:
            rows = [line.rstrip("\n").rsplit(",", 2) for line in file if line.startswith(f"{package}/")]
    except OSError:
        return None
    hashes = {name[len(package) + 1 :]: (digest, size) for name, digest, size in rows if name.endswith(".py")}
    if hashes.keys() != found.keys() or not all(digest for digest, _ in hashes.values()):
        return None
    if any(facts.st_mtime_ns > written or str(facts.st_size) != hashes[name][1] for name, facts in found.items()):
        return None
    return "".join(f"{name}:{digest}\n" for name, (digest, _) in sorted(hashes.items()))


def _versions() -> dict[str, str]:
    """Of every library, read from the names of the metadata folders, without importing them."""
    found: dict[str, str] = {}
    standard = os.path.dirname(os.__file__)
    empty = (standard, os.path.join(standard, "lib-dynload"))  # nothing is installed there, and they are long
    for entry in [entry for entry in sys.path if entry not in empty]:
        for name in [name for name in _names_in(entry or ".") if name.endswith(".dist-info")]:
            package, _, version = name.removesuffix(".dist-info").partition("-")
            found.setdefault(package, version)
    return found


def _names_in(folder: str) -> Collection[str]:
    """What is in a folder: as the import system listed it, unless it changed since."""
    try:
        finder = sys.path_importer_cache.get(folder)
        names = getattr(finder, "_path_cache", None)
        return names if names and getattr(finder, "_path_mtime", None) == os.stat(folder).st_mtime else os.listdir(folder)
    except OSError:
        return ()


_SOURCES, _VERSIONS = _own_sources(), _versions()
"""Taken when the package is loaded: they must describe what runs, not what an editor or an installer wrote meanwhile; and a first call has no time for it."""
