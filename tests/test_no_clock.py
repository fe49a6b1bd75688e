"""No test looks at a clock: how long something takes is a question for bench/, and a busy machine fails nothing."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
CLOCK = re.compile(r"\b(perf_counter|process_time|thread_time|monotonic|clock_gettime|timeit|time\.time|from time import|datetime)(_ns)?\b")
MAY = {
    "backends/cuda/products.py": "how long to go on, of a command",
    "backends/cuda/sweep.py": "prints how long compiling took",
    "bench/test_measure.py": "gives the benchmarks a clock of its own",
    "gpu/__main__.py": "a worker that said nothing for minutes is stuck; prints how long the run took",
    "runtime/test_bench.py": "gives `benchmark` a clock of its own",
    "differential/__main__.py": "prints how long the run took",
    "fuzz/__main__.py": "prints how long the run took; a process that said nothing for minutes is stuck",
    "ranks/kills.py": "prints how soon after a kill the last process ended; a process is killed at some moment",
    "view/test_measure.py": "gives `bench` a clock of its own",
    "soak/run.py": "how long to go on, once every thread has done its share",
}
"""Files that name a clock, and why that decides nothing."""
SHORT = re.compile(r"(?:timeout=|\.join\(|\.wait\()(\d+(?:\.\d+)?)\)?")
LEAST = 120
"""Seconds: a shorter limit on a process or a thread may end what is only slow; `lock_timeout` is the limit under test, not one of these."""


def sources() -> list[tuple[str, str]]:
    found = [(path.relative_to(HERE).as_posix(), path.read_text()) for path in sorted(HERE.rglob("*.py"))]
    assert len(found) > 100
    return [(name, text) for name, text in found if name != "test_no_clock.py" and not name.startswith("kernels/")]


def test_no_test_reads_a_clock() -> None:
    naming = {name: found.group() for name, text in sources() if (found := CLOCK.search(text))}
    assert sorted(naming) == sorted(MAY), {name: word for name, word in naming.items() if name not in MAY}


def test_limits_that_end_a_hang_are_minutes() -> None:
    short = [
        (name, found.group())
        for name, text in sources()
        if name not in MAY
        for found in SHORT.finditer(text.replace("lock_timeout=", ""))
        if float(found.group(1)) < LEAST
    ]
    assert not short, short


def test_no_example_of_hypothesis_has_a_deadline() -> None:
    for name, text in sources():
        assert text.count("@given(") == text.count("deadline=None"), name
