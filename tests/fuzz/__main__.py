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

from tests.fuzz.coverage import measure
from tests.fuzz.problem import Problem
from tests.fuzz.program import generate
from tests.fuzz.runner import check
from tests.fuzz.shrink import shrink


def report(seed: int, problem: Problem, small: bool = True) -> str:
    """Seed, program, difference."""
    case = generate(seed)
    text = shrink(case.text, lambda candidate: problem.same_as(check(case, candidate))) if small else case.text
    final = check(case, text) or problem
    rule = "-" * 100
    return f"{rule}\nseed {seed}: {final.stage}: {final.kind}\n{final.message}\n{rule}\n{text}\n{rule}"


def work(first: int, count: int, small: bool) -> None:
    """Worker: one line per program, `ok` or `fail`, a report after the latter."""
    # What a program leaves behind is much and lives short: look for it rarely.
    gc.set_threshold(50_000, 20, 100)
    warnings.simplefilter("ignore")
    for seed in range(first, first + count):
        problem = check(generate(seed))
        if problem is None:
            print(f"ok {seed}", flush=True)
        else:
            print(f"fail {seed}", flush=True)
            print(report(seed, problem, small), flush=True)
            print("end", flush=True)


class Worker(threading.Thread):
    """A process that checks a range of seeds; after a crash the next one goes on behind the culprit."""

    def __init__(self, first: int, count: int, small: bool, results: queue.Queue[str | None]) -> None:
        super().__init__(daemon=True)
        self.next, self.end, self.small, self.results = first, first + count, small, results
        self.process: subprocess.Popen[str] | None = None

    def run(self) -> None:
        """Puts "" per good program and a report per bad one."""
        while self.next < self.end:
            command = [sys.executable, "-m", "tests.fuzz", "--worker", str(self.next), str(self.end - self.next)]
            self.process = subprocess.Popen(command + ([] if self.small else ["--no-shrink"]), stdout=subprocess.PIPE, text=True)
            self.follow(self.process)
            if self.next < self.end:
                self.results.put(f"seed {self.next}: the process died with exit code {self.process.wait()}\n{generate(self.next).text}")
                self.next += 1

    def follow(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            word, _, seed = line.strip().partition(" ")
            if word == "ok":
                self.results.put("")
                self.next = int(seed) + 1
            elif word == "fail":
                lines = list(iter(process.stdout.readline, "end\n"))
                self.results.put("".join(lines))
                self.next = int(seed) + 1


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
    share = -(-programs // jobs)
    results: queue.Queue[str | None] = queue.Queue()
    workers = [Worker(first + job * share, min(share, programs - job * share), small, results) for job in range(jobs) if programs > job * share]
    for worker in workers:
        worker.start()
    done, failures, started = 0, 0, time.monotonic()
    while done < programs and failures < max_failures:
        outcome = results.get()
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
