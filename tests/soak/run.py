"""Runs the calls on many threads for some seconds, and once round at least, and watches the memory of the process."""

from __future__ import annotations

import gc
import itertools
import threading
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.soak.kernels import CALLS, Call, every_specialisation

SLACK = 12 << 20
"""Growth that counts as none: pages that the allocator of C keeps per thread."""


def resident_bytes() -> int:
    """Memory of this process that is in RAM."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


@dataclass
class Soak:
    """One run: how many calls were made, what went wrong, how the memory went."""

    threads: int
    seconds: float
    calls: list[int] = field(default_factory=list[int])
    problems: list[str] = field(default_factory=list[str])
    memory: list[int] = field(default_factory=list[int])
    deadline: float = 0.0

    def run(self) -> None:
        """All threads first meet every kernel at once, compiling it; then each goes round them from another one on."""
        self.calls = [0] * self.threads
        self.ready = threading.Barrier(self.threads + 1)
        workers = [threading.Thread(target=self._work, args=(number,)) for number in range(self.threads)]
        for worker in workers:
            worker.start()
        self.ready.wait()
        self.deadline = time.monotonic() + self.seconds
        self.ready.wait()
        while any(worker.is_alive() for worker in workers):
            time.sleep(min(0.25, self.seconds / 20))
            self.memory.append(resident_bytes())
        for worker in workers:
            worker.join()
        gc.collect()
        self.memory.append(resident_bytes())

    def _work(self, number: int) -> None:
        rng = np.random.default_rng(number)
        self._try(number, every_specialisation, rng)
        self.ready.wait()
        self.ready.wait()
        order = CALLS[number % len(CALLS) :] + CALLS[: number % len(CALLS)]
        for call in itertools.cycle(order):
            if self.problems or (self.calls[number] >= len(CALLS) and time.monotonic() > self.deadline):
                return
            self._try(number, call, rng)
            self.calls[number] += 1

    def _try(self, number: int, call: Call, rng: np.random.Generator) -> None:
        try:
            call(rng)
        except Exception:
            self.problems.append(f"thread {number}, {call.__name__}:\n{traceback.format_exc()}")

    @property
    def growth(self) -> int:
        """How much more memory the last third of the run took than the second one."""
        third = len(self.memory) // 3
        return max(self.memory[2 * third :]) - max(self.memory[third : 2 * third]) if third else 0

    def report(self) -> str:
        low, high = min(self.memory) >> 20, max(self.memory) >> 20
        return f"{sum(self.calls)} calls on {self.threads} threads in {self.seconds:g} s; memory {low} to {high} MiB, growth {self.growth >> 10} KiB"
