"""Threads that ranks run on, call after call: a thread that starts costs more than a small kernel, and one that stays has its scratch memory already."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

from tilejit import float_mode

_Work = tuple[Callable[[], None], int, threading.Event]
"""What to do, how to compute with floats meanwhile, and what to set at the end."""


class Seat:
    """The thread of one rank."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._process = 0
        self._jobs: SimpleQueue[_Work] = SimpleQueue()

    def run(self, job: Callable[[], None]) -> threading.Event:
        """Let the thread do something, computing with floats as the caller does; what it raises is the job's own business. The event is set at the end."""
        if self._process != os.getpid():  # none yet, or it stayed behind in the process that forked this one
            self._process, self._jobs = os.getpid(), SimpleQueue()
            threading.Thread(target=_serve, args=(self._jobs,), name=f"tilejit rank {self._rank}", daemon=True).start()
        done = threading.Event()
        self._jobs.put((job, float_mode.bits(), done))
        return done


def _serve(jobs: SimpleQueue[_Work]) -> None:
    while True:
        job, mode, done = jobs.get()
        try:
            float_mode.take(mode)  # the thread has that of the call before, or of who started it
            job()
        finally:
            del job  # it holds the arrays of a call
            done.set()
            del done
