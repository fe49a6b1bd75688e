"""Which directory the disk cache is in, as the settings say now."""

from __future__ import annotations

import functools
import os

from tilejit import config as settings
from tilejit.runtime.store.directory import Store, default_root


def store() -> Store:
    """The cache that the settings name now."""
    said = tuple(_NAMING.now())
    found = _stores.get(said)
    if found is None:
        found = _stores[said] = _named_store()
    return found


_SETTINGS = (settings.CACHE, settings.CACHE_DIR, settings.CACHE_PATH, settings.CACHE_BYTES)
_NAMING = settings.Watched([*(setting.variable for setting in _SETTINGS), "XDG_CACHE_HOME", "HOME"])
"""What decides which store it is."""
_stores: dict[tuple[object, ...], Store] = {}


def _named_store() -> Store:
    layers = tuple(path for path in settings.CACHE_PATH.value.split(os.pathsep) if path)
    return _store(default_root() if settings.CACHE.value else None, layers, settings.CACHE_BYTES.value)


@functools.cache
def _store(root: str | None, layers: tuple[str, ...], max_bytes: int) -> Store:
    return Store(root, layers, max_bytes)
