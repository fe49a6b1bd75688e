"""A compile that takes long says so: on a terminal, or where the dial asks for it; and what its stages took, at a higher one."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

from tilejit import config
from tilejit.passes import clock

PATIENCE = 1.0
"""Seconds before a compile is mentioned, and between two times."""


@contextmanager
def watched_compile(name: str) -> Generator[None]:
    """What runs inside compiles `name`."""
    dial = config.DEBUG.value
    live = sys.stderr is not None and sys.stderr.isatty()
    if not live and not dial:
        yield
        return
    with clock.measured() as times, _Waiting(name, live) as waiting, clock.watched(waiting.stage):
        yield
    if dial >= 2:
        stages = ", ".join(f"{stage} {seconds * 1e3:.1f}" for stage, seconds in times)
        print(f"tilejit: stages of {name} in ms: {stages}", file=sys.stderr)


class _Waiting:
    """A thread that prints how long it has been, and at what."""

    def __init__(self, name: str, live: bool) -> None:
        self._name, self._live, self._stage = name, live, "front end"
        self._over = threading.Event()
        self._shown = False

    def stage(self, name: str) -> None:
        self._stage = name

    def __enter__(self) -> _Waiting:
        self._thread = threading.Thread(target=self._run, name="tilejit-waiting", daemon=True)
        self._thread.start()
        return self

    def _run(self) -> None:
        start = time.monotonic()
        while not self._over.wait(PATIENCE):
            text = f"tilejit: compiling {self._name}: {time.monotonic() - start:.0f} s, {self._stage}"
            sys.stderr.write(f"\r\x1b[K{text}" if self._live else f"{text}\n")
            sys.stderr.flush()
            self._shown = True

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._shown and self._live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
