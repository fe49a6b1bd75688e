"""The in-memory cache of a jit function: one compile per key, whatever the number of threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import NamedTuple

from tilejit.runtime.compiled import CompiledProgram


class CacheInfo(NamedTuple):
    """What `f.cache_info()` returns."""

    entries: int
    hits: int
    misses: int
    compile_seconds: float


class _Flight:
    """A compile in progress: others wait for its result or its exception."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.result: CompiledProgram | None = None
        self.error: BaseException | None = None


class MemoryCache(dict[Hashable, CompiledProgram]):
    """Key → compiled program. A plain dict to look at; `find` is how it is filled."""

    def __init__(self) -> None:
        super().__init__()
        self.hits = 0
        self.misses = 0
        self.compile_seconds = 0.0
        self._lock = threading.Lock()
        self._flights: dict[Hashable, _Flight] = {}

    def find(self, key: Hashable, make: Callable[[], CompiledProgram]) -> CompiledProgram:
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

    def _make(self, key: Hashable, make: Callable[[], CompiledProgram], flight: _Flight) -> CompiledProgram:
        start = time.perf_counter()
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
                    self.compile_seconds += time.perf_counter() - start
                del self._flights[key]
            flight.done.set()
        return made

    def _wait(self, flight: _Flight) -> CompiledProgram:
        flight.done.wait()
        if flight.error is not None:
            raise flight.error
        assert flight.result is not None
        self.hits += 1
        return flight.result

    def info(self) -> CacheInfo:
        return CacheInfo(len(self), self.hits, self.misses, self.compile_seconds)
