"""The tool chain as part of the key: our own sources, the code generator, the processor; found without importing any of them."""

from __future__ import annotations

import hashlib
import os
import sys
from functools import cache

from tilejit.runtime import machine


@cache
def toolchain() -> dict[str, str]:
    """What generated code depends on besides the kernel, in words."""
    return {"tilejit": _own_sources(), "llvmlite": _package_version("llvmlite"), "target": target()}


@cache
def target() -> str:
    """The processor: architecture and a digest of its features."""
    features = " ".join(sorted(machine.features()))
    return f"{machine.architecture()}-{hashlib.sha256(features.encode()).hexdigest()[:12]}"


def _own_sources() -> str:
    """A digest over name, size and time of our files: an edited compiler never serves what the old one made."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    digest = hashlib.sha256()
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            if name.endswith(".py"):
                found = os.stat(os.path.join(folder, name))
                digest.update(f"{folder[len(root) :]}/{name}:{found.st_size}:{found.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _package_version(package: str) -> str:
    """The version of an installed package, read from the name of its metadata folder."""
    prefix = package + "-"
    for entry in sys.path:
        try:
            names = os.listdir(entry or ".")
        except OSError:
            continue
        for name in names:
            if name.startswith(prefix) and name.endswith(".dist-info"):
                return name[len(prefix) : -len(".dist-info")]
    return "unknown"
