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
import threading
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("TEST_PLATFORM", "cuda")

from tests.gpu.jobs import KINDS, REFUSED, ROOT
from tests.hardware import prepare

BROKEN = 3
"""Exit status of a worker whose context a kernel broke: another process goes on behind it."""
HAZARD = 99
"""Exit status of a worker in which a sanitizer found something."""
SANITIZERS = ("memcheck", "racecheck", "synccheck")


def work(kind: str, first: int, step: int, end: int) -> int:
    """Worker: a line per job, its number and what is wrong with it."""
    from tilejit.errors import DeviceError

    prepare()
    warnings.simplefilter("ignore")
    for number in range(first, end, step):
        broken = False
        try:
            found = KINDS[kind].run(number)
        except DeviceError as error:
            found, broken = [f"job {number}: {error.message}"], True
        except Exception as error:
            found = [f"job {number}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"]
        print(json.dumps([number, found]), flush=True)
        if broken or any("CUDA driver failed" in text for text in found):
            return BROKEN
    return 0


class Workers:
    """Several processes that share out the jobs of one kind; each may run under another program."""

    def __init__(self, kind: str, jobs: int, every: int, seconds: float, out: Path, under: Sequence[str] = ()) -> None:
        self.kind, self.every, self.under = kind, every, tuple(under)
        self.until = time.monotonic() + seconds
        self.end = KINDS[kind].count()
        self.results: dict[int, list[str]] = {}
        self._file = (out / f"{kind}.txt").open("w")
        self.threads = [threading.Thread(target=self._follow, args=(first * every, jobs * every)) for first in range(jobs)]

    def run(self) -> None:
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join()

    def _follow(self, first: int, step: int) -> None:
        while first < self.end and time.monotonic() < self.until:
            command = [*self.under, sys.executable, "-m", "tests.gpu", "--worker", self.kind, str(first), str(step), str(self.end)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT, start_new_session=True)
            stop = threading.Timer(max(0.0, self.until - time.monotonic()), os.killpg, (process.pid, signal.SIGKILL))
            stop.start()
            started, said = first, list[str]()
            for line in process.stdout or ():
                if line.startswith("["):
                    number, found = json.loads(line)
                    self._add(number, found)
                    first = number + step
                elif line.startswith("========= "):
                    said.append(line.removeprefix("========= ").strip())
            if process.wait() == HAZARD:
                self._add(started, [f"jobs {started} to {first - step}: {' | '.join(said[:40])}"])
            elif process.returncode not in (0, BROKEN) and time.monotonic() < self.until:
                self._add(first, [f"job {first}: the process died with exit code {process.returncode}"])
                first += step
            stop.cancel()

    def _add(self, number: int, found: list[str]) -> None:
        """What a job said, in the file at once: the command may be stopped."""
        self.results[number] = found
        self._file.writelines(f"{text}\n" for text in found)
        self._file.flush()

    def summary(self) -> str:
        refused = sum(1 for found in self.results.values() if found and all(text.startswith(REFUSED) for text in found))
        wrong = sum(1 for found in self.results.values() if any(not text.startswith(REFUSED) for text in found))
        planned = len(range(0, self.end, self.every))
        return f"{self.kind}: {len(self.results) - refused - wrong} right, {wrong} wrong, {refused} refused, of {len(self.results)} run and {planned} planned"


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
    parser.add_argument("--seconds", type=float, default=3600.0, help="for each kind of jobs")
    parser.add_argument("--every", type=int, help="take only every n-th job of kinds other than examples")
    parser.add_argument("--kinds", nargs="+", choices=tuple(KINDS), default=tuple(KINDS))
    parser.add_argument("--sanitize", choices=SANITIZERS, help="run under this tool of NVIDIA's compute-sanitizer; every 40th job unless said")
    parser.add_argument("--cache", help="folder for compiled kernels: what an earlier run compiled is not compiled under a sanitizer; none unless said")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.worker:  # which has it from us
        os.environ |= {"TILEJIT_CACHE": "0"} if options.cache is None else {"TILEJIT_CACHE": "1", "TILEJIT_CACHE_DIR": options.cache}
    if options.worker:
        kind, *numbers = options.worker
        return work(kind, *map(int, numbers))
    under: list[str] = []
    if options.sanitize:
        tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
        if tool is None:
            sys.exit("compute-sanitizer is not here: it comes with the CUDA toolkit")
        under = [tool, "--tool", options.sanitize, "--error-exitcode", str(HAZARD), "--target-processes", "application-only"]
    every = options.every or (40 if under else 1)
    options.out.mkdir(parents=True, exist_ok=True)
    lines = [machine(), ""]
    wrong = False
    for kind in options.kinds:
        workers = Workers(kind, options.jobs, 1 if kind == "examples" else every, options.seconds, options.out, under)
        started = time.monotonic()
        workers.run()
        lines.append(f"{workers.summary()} ({time.monotonic() - started:.0f} s)")
        wrong |= any(not text.startswith(REFUSED) for found in workers.results.values() for text in found)
        print(lines[-1], flush=True)
    (options.out / "summary.txt").write_text("\n".join([*lines, ""]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
