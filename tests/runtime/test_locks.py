"""Locks and forks: a child waits for no thread that it does not have."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

import tilejit
from tests.patience import HANG
from tilejit.runtime import locks
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


LATE = "tilejit.late_for_a_test"


class Slow:
    """Finds one module, whose import lasts until somebody lets it end."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(name, self) if name == LATE else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        self.begun.set()
        self.may_end.wait(HANG)
        module.__dict__["answer"] = 42


def test_a_fork_waits_for_what_another_thread_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child would wait for ever for a thread that it does not have."""
    slow = Slow()
    monkeypatch.setattr(sys, "meta_path", [slow, *sys.meta_path])
    monkeypatch.setattr(locks, "_pause", slow.may_end.set)  # the fork has noticed
    importer = threading.Thread(target=lambda: importlib.import_module(LATE))
    importer.start()
    try:
        assert slow.begun.wait(HANG)
        child = multiprocessing.get_context("fork").Process(target=lambda: sys.exit(importlib.import_module(LATE).answer))
        child.start()
        child.join(HANG)
        assert child.exitcode == 42
    finally:
        slow.may_end.set()
        importer.join()
        sys.modules.pop(LATE, None)


def test_what_forks_while_it_imports_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forking(Slow):
        def exec_module(self, module: ModuleType) -> None:
            child = os.fork()
            if child == 0:
                os._exit(7)
            module.__dict__["status"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def refuse() -> None:
        raise AssertionError("it waits for itself")

    monkeypatch.setattr(sys, "meta_path", [Forking(), *sys.meta_path])
    monkeypatch.setattr(locks, "_pause", refuse)
    try:
        assert importlib.import_module(LATE).status == 7
    finally:
        sys.modules.pop(LATE, None)


FORKS = f"""
import os, threading, time
import numpy as np
import tilejit.language as pl

@pl.jit
def double(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = x * 2.0

@pl.jit
def triple(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = x * 3.0

x = np.ones((2, 4), np.float32)
thread = threading.Thread(target=lambda: double(x))
thread.start()
children = []
for turn in range(8):
    time.sleep(0.03)
    child = os.fork()
    if child == 0:
        import signal
        signal.alarm({int(HANG) // 2})
        os._exit(int(triple(x)[0, 0]))
    children.append(child)
thread.join()
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
"""


def test_children_of_a_process_whose_other_thread_compiles_for_the_first_time_compute(tmp_path: Path) -> None:
    script = tmp_path / "forks.py"
    script.write_text(FORKS)
    environment = {**os.environ, "TILEJIT_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=HANG, check=False)
    assert done.stdout == f"{[3] * 8}\n", done.stderr
    assert "Error" not in done.stderr, done.stderr
