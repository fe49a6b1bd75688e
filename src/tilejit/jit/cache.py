"""The in-memory cache of a jit function: one compile per key, whatever the number of threads."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tilejit.jit.disk.kernels import Key
from tilejit.jit.reads.manifest import Node
from tilejit.runtime.artifact.compiled import CompiledProgram
from tilejit.runtime.locks import new_lock

_forked: list[tuple[weakref.ref[Any], Callable[[Any], None]]] = []


def when_forked(owner: Any, action: Callable[[Any], None]) -> None:
    """Run `action(owner)` in every child process, as long as `owner` lives."""
    if len(_forked) >= 64 and len(_forked).bit_count() == 1:  # now and then: kernels of functions that ended are gone
        _forked[:] = [row for row in _forked if row[0]() is not None]
    _forked.append((weakref.ref(owner), action))


def _in_child() -> None:
    for reference, action in _forked:
        owner = reference()
        if owner is not None:
            action(owner)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


class CacheInfo(NamedTuple):
    """What `f.cache_info()` returns."""

    entries: int
    hits: int
    misses: int
    compile_seconds: float
    loaded: int = 0
    """How many of the misses came from disk instead of being compiled."""


class _Flight:
    """A compile in progress: others wait for its result or its exception."""

    def __init__(self) -> None:
        self._flying = threading.Lock()  # an Event would cost four times as much
        self._flying.acquire()
        self.result: CompiledProgram | None = None
        self.error: BaseException | None = None

    def land(self) -> None:
        """Let the others go on."""
        self._flying.release()

    def wait(self) -> None:
        with self._flying:
            pass


class MemoryCache(dict[str, CompiledProgram]):
    """Digest of the key → compiled program. A plain dict to look at; `find` is how it is filled."""

    def __init__(self) -> None:
        super().__init__()
        self.hits = 0
        self.misses = 0
        self.compile_seconds = 0.0
        self.loaded = 0
        self.asked: dict[str, tuple[Key, Mapping[str, str]]] = {}
        """Everything that was looked for, by digest: its key and the values it captured, for explanations."""
        self.trees: dict[str, Node[CompiledProgram]] = {}
        """By digest of the first part of the key: questions, answers, programs."""
        self._listeners: list[tuple[weakref.ref[Any], Callable[[Any], None]]] = []
        self._lock = new_lock()
        self._flights: dict[str, _Flight] = {}
        when_forked(self, MemoryCache._land)

    def find(self, key: str, make: Callable[[], CompiledProgram]) -> CompiledProgram:
        """The program of `key`, made once if it is not there."""
        found = self.get(key)
        if found is not None:
            self.hits += 1
            return found
        with self._lock:
            found = self.get(key)
            if found is not None:
                self.hits += 1
                return found
            flight = self._flights.get(key)
            mine = flight is None
            if flight is None:
                flight = self._flights[key] = _Flight()
        return self._make(key, make, flight) if mine else self._wait(flight)

    def tree(self, first: str) -> Node[CompiledProgram]:
        """The questions and answers behind a first part of the key."""
        return self.trees.setdefault(first, Node())

    def _make(self, key: str, make: Callable[[], CompiledProgram], flight: _Flight) -> CompiledProgram:
        try:
            flight.result = made = make()
        except BaseException as error:
            flight.error = error
            raise
        finally:
            with self._lock:
                if flight.result is not None:
                    self[key] = flight.result
                    self.misses += 1
                self._flights.pop(key, None)
            flight.land()
        return made

    def _wait(self, flight: _Flight) -> CompiledProgram:
        flight.wait()
        if flight.error is not None:
            raise flight.error
        assert flight.result is not None
        self.hits += 1
        return flight.result

    def _land(self) -> None:
        """In the child of a fork: whoever was compiling is in the parent."""
        self._flights = {}

    def compiled(self, seconds: float) -> None:
        """Count time spent compiling."""
        self.compile_seconds += seconds

    def when_cleared(self, owner: Any, action: Callable[[Any], None]) -> None:
        """Run `action(owner)` whenever the cache is cleared, as long as `owner` lives."""
        self._listeners.append((weakref.ref(owner), action))

    def clear(self) -> None:
        """Forget every program, and whatever was derived from it."""
        super().clear()
        self.asked.clear()
        self.trees.clear()
        for reference, action in self._listeners:
            owner = reference()
            if owner is not None:
                action(owner)

    def info(self) -> CacheInfo:
        return CacheInfo(len(self), self.hits, self.misses, self.compile_seconds, self.loaded)
