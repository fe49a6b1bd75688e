"""The tool chain as part of the key: our own sources, the libraries that fold and generate code, the processor."""

from __future__ import annotations

import hashlib
import os
import sys
from functools import cache

from tilejit.runtime import machine

_LIBRARIES = ("llvmlite", "xdsl", "numpy", "ml_dtypes")
"""What compiling runs besides our own code; their versions are read from the names of their metadata folders, without importing them."""


def toolchain() -> dict[str, str]:
    """What generated code depends on besides the kernel, in words."""
    return _LOADED


@cache
def target() -> str:
    """The processor: architecture and a digest of its features."""
    features = " ".join(sorted(machine.features()))
    return f"{machine.architecture()}-{hashlib.sha256(features.encode()).hexdigest()[:12]}"


def sources_changed() -> bool:
    """Whether our files were edited since this process loaded them: what it compiles now belongs to neither version."""
    return _own_sources() != _LOADED["tilejit"]


def _own_sources() -> str:
    """A digest over name, size and time of our files: an edited compiler never serves what the old one made."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    digest = hashlib.sha256()
    folders = [root]
    while folders:
        folder = folders.pop()
        with os.scandir(folder) as rows:
            found = sorted(rows, key=lambda row: row.name)
        for row in found:
            if row.name.endswith(".py"):
                facts = row.stat()
                digest.update(f"{row.path[len(root) :]}:{facts.st_size}:{facts.st_mtime_ns}\n".encode())
            elif row.name != "__pycache__" and row.is_dir():
                folders.append(row.path)
    return digest.hexdigest()[:16]


def _library_versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in sys.path:
        try:
            names = os.listdir(entry or ".")
        except OSError:
            continue
        for name in names:
            if name.endswith(".dist-info"):
                package, _, version = name[: -len(".dist-info")].partition("-")
                if package in _LIBRARIES:
                    found.setdefault(package, version)
    return {package: found.get(package, "unknown") for package in _LIBRARIES}


# Taken when the package is loaded: it must describe the sources that run, not those that an editor wrote meanwhile.
_LOADED = {"tilejit": _own_sources(), **_library_versions(), "python": ".".join(map(str, sys.version_info[:3])), "target": target()}
