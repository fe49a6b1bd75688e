"""`python -m tests.fuzz --programs N --seed S`: random programs in worker processes, a report for each failure."""

from __future__ import annotations

import argparse
import gc
import os
import queue
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator

from tests.fuzz.coverage import measure
from tests.fuzz.mistakes import check_mistake, spoiled
from tests.fuzz.problem import Problem
from tests.fuzz.program import generate
from tests.fuzz.runner import check
from tests.fuzz.shrink import shrink

CHUNK = 250
"""Programs per process, at most: what one of them leaves behind does not pile up."""
PATIENCE = 180.0
"""Seconds without a word after which a process counts as stuck."""
MISTAKES = 2
"""Spoiled variants of each program."""
RULE = "-" * 100


def report(seed: int, problem: Problem, small: bool = True) -> str:
    """Seed, program, difference."""
    case = generate(seed)
    text = shrink(case.text, lambda candidate: problem.same_as(check(case, candidate))) if small else case.text
    final = check(case, text) or problem
    return f"{RULE}\nseed {seed}: {final.stage}: {final.kind}\n{final.message}\n{RULE}\n{text}\n{RULE}"


def problems_of(seed: int, small: bool) -> Iterator[str]:
    """Reports about a program, and about what it becomes with a mistake in it."""
    case = generate(seed)
    problem = check(case)
    if problem is not None:
        yield report(seed, problem, small)
    for number in range(MISTAKES):
        text = spoiled(case, number)
        problem = check_mistake(case, text) if text is not None else None
        if problem is not None and text is not None:
            short = shrink(text, lambda candidate, seen=problem: seen.same_as(check_mistake(case, candidate)), 100) if small else text
            yield f"{RULE}\nseed {seed}, mistake {number}: {problem.stage}: {problem.kind}\n{problem.message}\n{RULE}\n{short}\n{RULE}"


def work(first: int, count: int, small: bool) -> None:
    """Worker: one line per program, `ok` or `fail`, reports after the latter."""
    # What a program leaves behind is much and lives short: look for it rarely.
    gc.set_threshold(50_000, 20, 100)
    warnings.simplefilter("ignore")
    for seed in range(first, first + count):
        found = list(problems_of(seed, small))
        print(f"{'fail' if found else 'ok'} {seed}", flush=True)
        if found:
            print("\n".join(found), "end", sep="\n", flush=True)


class Worker(threading.Thread):
    """Takes ranges of seeds and has a process check each; after a crash the next process goes on behind the culprit."""

    def __init__(self, ranges: queue.Queue[range], small: bool, results: queue.Queue[str]) -> None:
        super().__init__(daemon=True)
        self.ranges, self.small, self.results = ranges, small, results
        self.process: subprocess.Popen[str] | None = None
        self.heard = time.monotonic()

    def run(self) -> None:
        """Puts "" per good program and a report per bad one."""
        while True:
            try:
                seeds = self.ranges.get_nowait()
            except queue.Empty:
                return
            self.next = seeds.start
            while self.next < seeds.stop:
                self._check(seeds.stop)

    def _check(self, end: int) -> None:
        command = [sys.executable, "-m", "tests.fuzz", "--worker", str(self.next), str(end - self.next), *([] if self.small else ["--no-shrink"])]
        self.heard = time.monotonic()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._follow(self.process)
        if self.next < end:
            code = self.process.wait()
            how = "was stuck" if self.is_stuck() else f"died with exit code {code}"
            self.results.put(f"{RULE}\nseed {self.next}: the process {how}\n{generate(self.next).text}\n{RULE}")
            self.next += 1

    def _follow(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.heard = time.monotonic()
            word, _, seed = line.strip().partition(" ")
            if word in ("ok", "fail") and seed.isdecimal():
                self.results.put("" if word == "ok" else "".join(iter(process.stdout.readline, "end\n")))
                self.next = int(seed) + 1

    def is_stuck(self) -> bool:
        return time.monotonic() - self.heard > PATIENCE


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1, help="the first seed; programs use consecutive ones")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--max-failures", type=int, default=20)
    parser.add_argument("--coverage", type=int, metavar="N", help="print what N programs use of the language, and what none uses")
    parser.add_argument("--show", action="store_true", help="print the program of the seed and stop")
    parser.add_argument("--worker", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    # Thousands of kernels that are never called again have no place in the user's disk cache.
    os.environ["TILEJIT_CACHE"] = "0"
    if options.coverage:
        print(measure(options.coverage, options.seed).report())
        return 0
    if options.show:
        print(generate(options.seed).text)
        return 0
    if options.worker:
        work(*options.worker, small=not options.no_shrink)
        return 0
    return supervise(options.seed, options.programs, options.jobs, not options.no_shrink, options.max_failures)


def supervise(first: int, programs: int, jobs: int, small: bool, max_failures: int) -> int:
    """Run the workers, show progress and failures; the exit code."""
    ranges: queue.Queue[range] = queue.Queue()
    size = max(1, min(CHUNK, -(-programs // jobs)))
    for start in range(first, first + programs, size):
        ranges.put(range(start, min(start + size, first + programs)))
    results: queue.Queue[str] = queue.Queue()
    workers = [Worker(ranges, small, results) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    done, failures, started = 0, 0, time.monotonic()
    while done < programs and failures < max_failures:
        try:
            outcome = results.get(timeout=10)
        except queue.Empty:
            for worker in workers:
                if worker.process is not None and worker.is_stuck():
                    worker.process.kill()
            continue
        done += 1
        if outcome:
            failures += 1
            print(outcome, flush=True)
        if done % 100 == 0 or done == programs:
            elapsed = time.monotonic() - started
            print(f"{done}/{programs} programs, {failures} failures, {1000 * elapsed * len(workers) / done:.0f} ms of one core each", flush=True)
    for worker in workers:
        if worker.process is not None:
            worker.process.terminate()
    print(f"{done} programs: {'all agree' if not failures else f'{failures} failures'}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
