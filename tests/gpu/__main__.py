"""`python -m tests.gpu --out DIR`: runs everything on the GPU of this machine, in worker processes, and writes what came out to a folder."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

os.environ.setdefault("TEST_PLATFORM", "cuda")

from tests.gpu.jobs import KINDS, REFUSED, ROOT
from tests.hardware import prepare

BROKEN = 3
"""Exit status of a worker whose context a kernel broke: another process goes on behind it."""
JOBS = "jobs.json"
HAZARD = 99
"""Exit status of a worker in which a sanitizer found something."""
SANITIZERS = ("memcheck", "racecheck", "synccheck")


def work(queue: Path) -> int:
    """Worker: takes one job after the other that no other process has, and says which it begins and what is wrong with it."""
    from tilejit.errors import DeviceError

    prepare()
    warnings.simplefilter("ignore")
    for place, (kind, number) in enumerate(json.loads((queue / JOBS).read_text())):
        try:
            (queue / str(place)).touch(exist_ok=False)
        except FileExistsError:
            continue
        print(json.dumps([kind, number, None]), flush=True)
        broken = False
        try:
            found = KINDS[kind].run(number)
        except DeviceError as error:
            found, broken = [f"job {number}: {error.message}"], True
        except Exception as error:
            found = [f"job {number}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"]
        print(json.dumps([kind, number, found]), flush=True)
        if broken or any("CUDA driver failed" in text for text in found):
            return BROKEN
    return 0


@dataclass
class Results:
    """What the jobs of one kind said."""

    kind: str
    planned: int
    file: TextIO
    found: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    ended: float = 0.0
    """When the last of them was done, in seconds from the start."""

    def add(self, number: int, found: list[str], now: float) -> None:
        """In the file at once: the command may be stopped."""
        self.found.setdefault(number, []).extend(found)
        self.file.writelines(f"{text}\n" for text in found)
        self.file.flush()
        self.ended = now

    @property
    def wrong(self) -> int:
        return sum(1 for found in self.found.values() if any(not text.startswith(REFUSED) for text in found))

    def summary(self) -> str:
        refused = sum(1 for found in self.found.values() if found and all(text.startswith(REFUSED) for text in found))
        right, ran = len(self.found) - refused - self.wrong, len(self.found)
        return f"{self.kind}: {right} right, {self.wrong} wrong, {refused} refused, of {ran} run and {self.planned} planned ({self.ended:.0f} s)"


class Workers:
    """Several processes that share out the jobs, of whatever kinds; each may run under another program."""

    def __init__(self, kinds: Sequence[str], jobs: int, every: int, seconds: float, out: Path, under: Sequence[str] = ()) -> None:
        self.under = tuple(under)
        numbers = {kind: range(0, KINDS[kind].count(), 1 if kind == "examples" else every) for kind in kinds}
        self.results = {kind: Results(kind, len(numbers[kind]), (out / f"{kind}.txt").open("w")) for kind in kinds}
        waiting = [(kind, number) for kind in kinds for number in numbers[kind]]
        self._begun: set[tuple[str, int]] = set()
        self._all = len(waiting)
        self._queue = Path(tempfile.mkdtemp())
        (self._queue / JOBS).write_text(json.dumps(waiting))
        self._lock = threading.Lock()
        self.threads = [threading.Thread(target=self._follow) for _ in range(min(jobs, len(waiting)))]
        self.started = time.monotonic()
        self.until = self.started + seconds

    def run(self) -> None:
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join()
        shutil.rmtree(self._queue)

    def _follow(self) -> None:
        while len(self._begun) < self._all and time.monotonic() < self.until:
            command = [*self.under, sys.executable, "-m", "tests.gpu", "--worker", str(self._queue)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT, start_new_session=True)
            stop = threading.Timer(max(0.0, self.until - time.monotonic()), os.killpg, (process.pid, signal.SIGKILL))
            stop.start()
            done: list[tuple[str, int]] = []
            said: list[str] = []
            job: tuple[str, int] | None = None
            for line in process.stdout or ():
                if line.startswith("["):
                    kind, number, found = json.loads(line)
                    job = (kind, number) if found is None else None
                    self._begun.add((kind, number))
                    if found is not None:
                        self._add(kind, number, found)
                        done.append((kind, number))
                elif line.startswith("========= "):
                    said.append(line.removeprefix("========= ").strip())
            if process.wait() == HAZARD and done:
                self._add(*done[0], [f"jobs {done[0]} to {done[-1]}: {' | '.join(said[:40])}"])
            elif job is not None:
                why = f"the process died with exit code {process.returncode}" if time.monotonic() < self.until else "not done when the time was up"
                self._add(*job, [f"job {job[1]}: {why}"])
            stop.cancel()

    def _add(self, kind: str, number: int, found: list[str]) -> None:
        with self._lock:
            self.results[kind].add(number, found, time.monotonic() - self.started)


def machine() -> str:
    """What it ran on."""
    from tilejit.runtime.cuda import devices

    gpu = devices.device(0)
    facts = {"GPU": gpu.name, "capability": gpu.capability / 10, "multiprocessors": gpu.multiprocessors, "Python": platform.python_version()}
    for name in ("torch", "triton", "numpy"):
        facts[name] = getattr(__import__(name), "__version__", "?")
    return "\n".join(f"{name}: {value}" for name, value in facts.items())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "gpu-results")), help="folder for the results")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=3600.0, help="for all of it")
    parser.add_argument("--every", type=int, help="take only every n-th job of kinds other than examples")
    parser.add_argument("--kinds", nargs="+", choices=tuple(KINDS), default=tuple(KINDS))
    parser.add_argument("--sanitize", choices=SANITIZERS, help="run under this tool of NVIDIA's compute-sanitizer; every 40th job unless said")
    parser.add_argument("--cache", help="folder for compiled kernels: what an earlier run compiled is not compiled under a sanitizer; none unless said")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.worker:  # which has it from us
        os.environ |= {"TILEJIT_CACHE": "0"} if options.cache is None else {"TILEJIT_CACHE": "1", "TILEJIT_CACHE_DIR": options.cache}
    if options.worker:
        return work(options.worker)
    under: list[str] = []
    if options.sanitize:
        tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
        if tool is None:
            sys.exit("compute-sanitizer is not here: it comes with the CUDA toolkit")
        under = [tool, "--tool", options.sanitize, "--error-exitcode", str(HAZARD), "--target-processes", "application-only"]
    every = options.every or (40 if under else 1)
    options.out.mkdir(parents=True, exist_ok=True)
    here = machine()
    workers = Workers(options.kinds, options.jobs, every, options.seconds, options.out, under)
    workers.run()
    lines = [results.summary() for results in workers.results.values()]
    print("\n".join(lines), flush=True)
    (options.out / "summary.txt").write_text("\n".join([here, "", *lines, ""]))
    return 1 if any(results.wrong for results in workers.results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
