"""Threads that ranks run on, call after call: a thread that starts costs more than a small kernel, and one that stays has its scratch memory already."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue


class Seat:
    """The thread of one rank."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._process = 0
        self._jobs: SimpleQueue[tuple[Callable[[], None], threading.Event]] = SimpleQueue()

    def run(self, job: Callable[[], None]) -> threading.Event:
        """Let the thread do something; what it raises is the job's own business. The event is set at the end."""
        if self._process != os.getpid():  # none yet, or it stayed behind in the process that forked this one
            self._process, self._jobs = os.getpid(), SimpleQueue()
            threading.Thread(target=_serve, args=(self._jobs,), name=f"tilejit rank {self._rank}", daemon=True).start()
        done = threading.Event()
        self._jobs.put((job, done))
        return done


def _serve(jobs: SimpleQueue[tuple[Callable[[], None], threading.Event]]) -> None:
    while True:
        job, done = jobs.get()
        try:
            job()
        finally:
            del job  # it holds the arrays of a call
            done.set()
            del done
