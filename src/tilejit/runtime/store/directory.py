"""The disk cache: one checksummed file per artifact, written atomically, read without locks; every failure is a miss."""

from __future__ import annotations

import contextlib
import os
import random
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field

from tilejit.errors import TilejitWarning
from tilejit.runtime.artifact.directory import sweep_directories
from tilejit.runtime.store.entry import MAX_ENTRY, CacheEntry, DamagedCacheEntry, decode, encode
from tilejit.runtime.store.files import FileInfo, Files

_KEY = re.compile(r"[0-9a-f]{64}\Z")
_TEMPORARY = re.compile(r"\.tmp-(\d+)-[0-9a-f]+\Z")
_SUFFIX = ".tj"
ARTIFACTS = "artifacts"
"""Folder of the artifact directories that were written because somebody asked for their paths."""
_HOUR = 3600.0
_TOUCH_EVERY = 300.0
_QUARANTINE_KEEPS = 16
_SWEEP_EVERY = 256
_names = random.SystemRandom()
"""For names of files; the state of `random` itself is the user's."""


def is_key(text: object) -> bool:
    """Whether an entry can have this key."""
    return isinstance(text, str) and _KEY.match(text) is not None


@dataclass(slots=True)
class Counters:
    """What the cache did in this process, for tests and `tilejit cache`."""

    hits: int = 0
    misses: int = 0
    writes: int = 0
    damaged: int = 0
    waits: int = 0


@dataclass(eq=False)
class Store:
    """A cache directory and the read-only layers behind it."""

    root: str | None
    """None: there is no usable directory; everything is a miss."""
    layers: Sequence[str] = ()
    max_bytes: int = 2 << 30
    max_entries: int = 50_000
    lock_timeout: float = 120.0
    files: Files = field(default_factory=Files)
    counters: Counters = field(default_factory=Counters)

    def __post_init__(self) -> None:
        self._warned: set[str] = set()
        self._usable: bool | None = None
        self._writes_since_sweep = 0
        self._asked = False

    # reading ------------------------------------------------------------------------------------------------------------

    def get(self, key: str) -> CacheEntry | None:
        """The entry of `key`, from the directory or a layer, or None. Damaged files are set aside."""
        assert is_key(key), key
        entry = self._read(self._path(key), key, own=True) if self.ready() else None
        for layer in self.layers:
            if entry is not None:
                break
            entry = self._read(os.path.join(layer, key[:2], key + _SUFFIX), key, own=False)
        if entry is None:
            self.counters.misses += 1
        else:
            self.counters.hits += 1
        return entry

    def versions(self, key: str) -> Iterator[tuple[CacheEntry, bool]]:
        """The entry of `key` in the directory and in each layer that has one, and whether it is the directory's own."""
        own = self._read(self._path(key), key, own=True) if self.ready() else None
        if own is not None:
            yield own, True
        for layer in self.layers:
            found = self._read(os.path.join(layer, key[:2], key + _SUFFIX), key, own=False)
            if found is not None:
                yield found, False

    def _read(self, path: str, key: str, own: bool) -> CacheEntry | None:
        try:
            data, stamp = self.files.read(path, MAX_ENTRY)
            entry = decode(data, key)
        except FileNotFoundError:
            return None
        except DamagedCacheEntry as damage:
            self.counters.damaged += 1
            self._warn("damaged", f"ignored a damaged cache entry ({damage}): {path}")
            if own:
                self._set_aside(path)
            return None
        except OSError as error:
            if own and error.errno is not None and os.path.lexists(path) and (os.path.islink(path) or not os.path.isfile(path)):
                self._set_aside(path)
            self._warn("read", f"cannot read the cache: {error}")
            return None
        if own and time.time() - stamp > _TOUCH_EVERY:
            with contextlib.suppress(OSError):
                self.files.touch(path)
        return entry

    # writing ------------------------------------------------------------------------------------------------------------

    def put(self, entry: CacheEntry) -> bool:
        """Write an entry; False (and one warning) when it cannot be written."""
        if not self.ready():
            return False
        path = self._path(entry.key)
        temporary = os.path.join(os.path.dirname(path), f".tmp-{os.getpid()}-{_names.getrandbits(64):016x}")
        try:
            self.files.make_directory(os.path.dirname(path))
            self.files.write_new(temporary, encode(entry))
            self.files.rename(temporary, path)
        except (OSError, ValueError) as error:
            with contextlib.suppress(OSError):
                self.files.remove(temporary)
            self._warn("write", f"cannot write the cache: {error}")
            return False
        self.counters.writes += 1
        self._writes_since_sweep += 1
        if self._writes_since_sweep >= _SWEEP_EVERY or self._overdue():
            self._writes_since_sweep = 0
            with contextlib.suppress(RuntimeError):  # no thread to be had here: the next process sweeps
                threading.Thread(target=self.sweep, name="tilejit-cache-sweep", daemon=True).start()
        return True

    def _overdue(self) -> bool:
        """Whether nobody swept for an hour; asked once, because thousands of processes that write a little each fill a disk too."""
        if self._asked or self.root is None:
            return False
        self._asked = True
        stamp = os.path.join(self.root, "swept")
        with contextlib.suppress(OSError):
            if time.time() - os.stat(stamp, follow_symlinks=False).st_mtime < _HOUR:
                return False
            self.files.remove(stamp)
        with contextlib.suppress(OSError):
            self.files.write_new(stamp, b"swept\n")
        return True

    def reject(self, key: str, why: str) -> None:
        """Set an entry aside that is whole but means nothing; the next write of its key replaces it."""
        self.counters.damaged += 1
        self._warn("damaged", f"ignored a cache entry that cannot be used ({why}): {key}")
        if self.ready() and os.path.lexists(self._path(key)):
            self._set_aside(self._path(key))

    def peek(self, key: str) -> CacheEntry | None:
        """The entry of `key` in the directory, for looking at: nothing is counted, stamped or set aside."""
        try:
            entry = decode(self.files.read(self._path(key), MAX_ENTRY)[0], key) if self.ready() else None
            return entry if entry is not None and entry.fields else None
        except (OSError, DamagedCacheEntry):
            return None

    def get_or_build(self, key: str, build: Callable[[], CacheEntry | None]) -> CacheEntry | None:
        """The entry of `key`; if there is none, `build` makes it, once per host whatever the number of processes.

        What `build` made but cannot be kept is None."""
        entry = self.get(key)
        if entry is not None:
            return entry
        with self.building(key) as waited:
            if waited and (entry := self.get(key)) is not None:
                return entry
            entry = build()
            if entry is not None:
                self.put(entry)
            return entry

    @contextlib.contextmanager
    def building(self, key: str) -> Generator[bool]:
        """Hold the lock of `key`; yields whether somebody may have written the entry meanwhile.

        Whoever waits does so as long as the holder lives and computes; when it did nothing for `lock_timeout`, the caller compiles for itself.
        """
        descriptor, waited = self._lock(key)
        try:
            yield waited
        finally:
            if descriptor is not None:
                with contextlib.suppress(OSError):
                    self.files.unlock(descriptor)

    def _lock(self, key: str) -> tuple[int | None, bool]:
        if not self.ready() or self.root is None:
            return None, False
        path = os.path.join(self.root, "locks", key + ".lock")
        deadline, pause, done = 0.0, 0.001, None
        try:
            self.files.make_directory(os.path.dirname(path))
            while (descriptor := self.files.try_lock(path)) is None:
                self.counters.waits += 1
                if time.monotonic() > deadline:
                    before, done = done, self.files.progress(path)
                    if deadline and (done is None or done == before):
                        return None, True
                    deadline = time.monotonic() + self.lock_timeout
                time.sleep(pause)
                pause = min(pause * 1.5, 0.05)
        except OSError as error:
            self._warn("lock", f"cannot lock the cache: {error}")
            return None, True
        # Even without waiting, another process may have finished between our miss and this lock.
        return descriptor, True

    # upkeep -------------------------------------------------------------------------------------------------------------

    def sweep(self) -> int:
        """Remove what is over the limits, least recently used first, and leftovers of dead writers. Never raises."""
        if not self.ready() or self.root is None:
            return 0
        try:
            return self._sweep()
        except OSError as error:
            self._warn("sweep", f"cannot sweep the cache: {error}")
            return 0

    def _sweep(self) -> int:
        assert self.root is not None
        removed = 0
        kept: list[tuple[float, int, str]] = []
        now = time.time()
        for shard in self._shards():
            for found in self.files.scan(shard):
                path = os.path.join(shard, found.name)
                if _orphan(found, now):
                    removed += self._drop(path)
                elif found.name.endswith(_SUFFIX):
                    kept.append((found.stamp, found.size, path))
        kept.sort()
        total, count = sum(size for _, size, _ in kept), len(kept)
        for _, size, path in kept:
            if total <= self.max_bytes and count <= self.max_entries:
                break
            removed += self._drop(path)
            total, count = total - size, count - 1
        self._sweep_locks(now)
        return removed + sweep_directories(os.path.join(self.root, ARTIFACTS), self.max_bytes, self.max_entries)

    def _sweep_locks(self, now: float) -> None:
        assert self.root is not None
        locks = os.path.join(self.root, "locks")
        if not os.path.isdir(locks):
            return
        for found in list(self.files.scan(locks)):
            if now - found.stamp < _HOUR:
                continue
            path = os.path.join(locks, found.name)
            descriptor = self.files.try_lock(path)
            if descriptor is not None:
                self._drop(path)
                self.files.unlock(descriptor)

    def entries(self) -> Iterator[tuple[str, FileInfo]]:
        """(key, file) of everything in the directory, readable or not."""
        if not self.ready():
            return
        try:
            for shard in self._shards():
                for found in self.files.scan(shard):
                    if found.name.endswith(_SUFFIX) and _KEY.match(found.name.removesuffix(_SUFFIX)):
                        yield found.name.removesuffix(_SUFFIX), found
        except OSError as error:
            self._warn("list", f"cannot list the cache: {error}")

    def remove(self, key: str) -> bool:
        """Forget one entry."""
        return self.ready() and bool(self._drop(self._path(key)))

    def clear(self) -> int:
        """Forget everything in the directory (layers stay)."""
        removed = sum(self.remove(key) for key, _ in list(self.entries()))
        return removed + (sweep_directories(os.path.join(self.root, ARTIFACTS), 0, 0) if self.ready() and self.root is not None else 0)

    def _shards(self) -> list[str]:
        assert self.root is not None
        return [os.path.join(self.root, name) for name in self.files.subdirectories(self.root) if len(name) == 2]

    def _drop(self, path: str) -> int:
        try:
            self.files.remove(path)
        except OSError:
            return 0
        return 1

    def _set_aside(self, path: str) -> None:
        """Move a bad file out of the way, so that the next write of its key succeeds; keep the newest few for study."""
        assert self.root is not None
        quarantine = os.path.join(self.root, "quarantine")
        try:
            self.files.make_directory(quarantine)
            self.files.rename(path, os.path.join(quarantine, f"{os.path.basename(path)}-{_names.getrandbits(32):08x}"))
            files = sorted(self.files.scan(quarantine), key=lambda found: found.stamp)
            for found in files[:-_QUARANTINE_KEEPS]:
                self._drop(os.path.join(quarantine, found.name))
        except OSError:
            self._drop(path)

    # the directory --------------------------------------------------------------------------------------------------------

    def _path(self, key: str) -> str:
        assert self.root is not None
        return os.path.join(self.root, key[:2], key + _SUFFIX)

    def ready(self) -> bool:
        """Whether the directory may be used; checked once, complained about once."""
        if self._usable is None:
            self._usable = self._prepare()
        return self._usable

    def _prepare(self) -> bool:
        if self.root is None:
            return False
        try:
            try:
                self.files.check_directory(self.root)
            except FileNotFoundError:
                self.files.make_directory(self.root)
                self.files.check_directory(self.root)
        except OSError as error:
            self._warn("directory", f"the cache directory cannot be used, compiled kernels stay in memory: {error}")
            return False
        return True

    def _warn(self, cause: str, text: str) -> None:
        if cause not in self._warned:
            self._warned.add(cause)
            try:
                warnings.warn(text, TilejitWarning, stacklevel=2)
            except TilejitWarning:
                # Where warnings are errors: a cache that fails is still no failure of the call.
                sys.stderr.write(f"tilejit: warning: {text}\n")


def default_root() -> str | None:
    """`$TILEJIT_CACHE_DIR`, else `$XDG_CACHE_HOME/tilejit`, else `~/.cache/tilejit`; None without a home. From the root of the file system on: each directory
    that a relative name stands for in turn is looked at before it is used."""
    if explicit := os.environ.get("TILEJIT_CACHE_DIR"):
        return os.path.abspath(explicit)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return os.path.abspath(os.path.join(base, "tilejit"))
    home = os.path.expanduser("~")
    return os.path.join(home, ".cache", "tilejit") if os.path.isabs(home) else None


def _orphan(found: FileInfo, now: float) -> bool:
    """A temporary older than an hour whose writer is dead."""
    match = _TEMPORARY.match(found.name)
    return bool(match) and now - found.stamp > _HOUR and not _alive(int(match[1]))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
