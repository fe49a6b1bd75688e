"""Machine code that all kernels share, the dispatcher: from the disk cache, else generated and kept there."""

from __future__ import annotations

import hashlib
from functools import cache

from tilejit import config as settings
from tilejit.errors import ArtifactError
from tilejit.jit.disk.code import blob_of, entry_of_blob
from tilejit.jit.disk.fingerprint import sources_changed, toolchain
from tilejit.jit.disk.kernels import store
from tilejit.runtime.artifact.blob import Blob

DISPATCHER = "native dispatcher"
"""Name of the cache entry that every kernel needs."""


def dispatcher_code() -> Blob | None:
    """The dispatcher's machine code, of the instructions that it may have; None where it cannot be made."""
    return _code_for(settings.CPU.value)


@cache
def _code_for(level: str) -> Blob | None:
    fields: dict[str, object] = {"kernel": DISPATCHER, settings.CPU.name: level, **toolchain()}
    key = hashlib.sha256(repr(sorted(fields.items())).encode()).hexdigest()
    found = store().get(key)
    if found is not None:
        try:
            return blob_of(found)
        except ArtifactError as error:
            store().reject(key, str(error))
    if settings.RUN_ONLY.value:
        return None  # nothing is compiled: calls go through Python, on one thread
    from tilejit.backends.cpu.executable import dispatcher_blob

    with settings.under({settings.CPU.name: level}):
        blob = dispatcher_blob()
    if blob is not None and not sources_changed():
        store().put(entry_of_blob(key, fields, blob))
    return blob
