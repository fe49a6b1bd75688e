"""Runs the calls on many threads for some seconds and watches the memory of the process."""

from __future__ import annotations

import gc
import itertools
import threading
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.soak.kernels import CALLS

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

    def run(self) -> None:
        """Every thread goes round all kernels, each from another one on."""
        self.calls = [0] * self.threads
        deadline = time.monotonic() + self.seconds
        workers = [threading.Thread(target=self._work, args=(number, deadline)) for number in range(self.threads)]
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers):
            time.sleep(min(0.25, self.seconds / 20))
            self.memory.append(resident_bytes())
        for worker in workers:
            worker.join()
        gc.collect()
        self.memory.append(resident_bytes())

    def _work(self, number: int, deadline: float) -> None:
        rng = np.random.default_rng(number)
        order = CALLS[number % len(CALLS) :] + CALLS[: number % len(CALLS)]
        for call in itertools.cycle(order):
            if time.monotonic() > deadline or self.problems:
                return
            try:
                call(rng)
            except Exception:
                self.problems.append(f"thread {number}, {call.__name__}:\n{traceback.format_exc()}")
            self.calls[number] += 1

    @property
    def growth(self) -> int:
        """How much more memory the last third of the run took than the second one."""
        third = len(self.memory) // 3
        return max(self.memory[2 * third :]) - max(self.memory[third : 2 * third]) if third else 0

    def report(self) -> str:
        low, high = min(self.memory) >> 20, max(self.memory) >> 20
        return f"{sum(self.calls)} calls on {self.threads} threads in {self.seconds:g} s; memory {low} to {high} MiB, growth {self.growth >> 10} KiB"
