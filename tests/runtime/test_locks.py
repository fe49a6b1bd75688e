"""Locks and forks: a child waits for no thread that it does not have."""

from __future__ import annotations

import multiprocessing
import re
import threading
from pathlib import Path

import tilejit
from tests.patience import HANG
from tilejit.runtime.locks import new_lock

LOCKING = re.compile(r"threading\.(R?Lock|Condition|Semaphore)\(")
MAY = {
    "runtime/locks.py": "makes them",
    "jit/cache.py": "a compile under way; the child forgets those of other threads",
    "jit/pto/untouched.py": "nobody waits for it: who does not get it compares bytes",
    "backends/reference/tasks.py": "the turns of the threads of one run",
    "backends/cuda/program/crossing.py": "the turns of the threads of one run",
}


def test_a_lock_that_another_thread_holds_is_free_in_a_child_and_one_of_the_thread_that_forks_stays_held() -> None:
    theirs, ours = new_lock(), new_lock()
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with theirs:
            held.set()
            release.wait(HANG)

    def in_child() -> None:
        ours.release()
        with theirs, ours:
            pass

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(HANG)
    with ours:
        child = multiprocessing.get_context("fork").Process(target=in_child)
        child.start()
    child.join(HANG)
    assert child.exitcode == 0
    assert not theirs.acquire(blocking=False), "in the parent it is held as before"
    release.set()
    thread.join()


def test_every_lock_is_one_that_knows_of_forks() -> None:
    root = Path(tilejit.__file__).parent
    naming = {path.relative_to(root).as_posix() for path in root.rglob("*.py") if LOCKING.search(path.read_text())}
    assert naming == set(MAY), naming ^ set(MAY)
