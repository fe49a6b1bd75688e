"""`tilejit launch -n N app.py`: one process per rank on this machine, with memory that they share."""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from types import FrameType
from typing import IO

from tilejit import config as settings
from tilejit.runtime.ranks.abi import State, Stop
from tilejit.runtime.ranks.engine import state_offset
from tilejit.tools.output import as_json

GRACE_S = 5.0
"""Seconds that the others have to end by themselves when one rank has failed."""
_DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--ranks", type=int, required=True, metavar="N", help="how many processes to start")
    parser.add_argument("--bind", choices=("cores", "numa", "none"), default="cores", help="how the CPUs are divided among them (default: cores)")
    parser.add_argument("--timeout", type=float, metavar="S", help="seconds a rank waits for another one while nothing changes")
    parser.add_argument("--log", metavar="DIR", help="write the output of rank r to DIR/r.log instead of the terminal")
    parser.add_argument("-m", "--module", action="store_true", help="APP is the name of a module")
    parser.add_argument("app", metavar="APP", help="the script, the same for all ranks")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="what the script is given")


def run(options: argparse.Namespace) -> int:
    if options.ranks < 1:
        print(f"tilejit launch: -n is at least 1, got {options.ranks}", file=sys.stderr)
        return 2
    status = Job(options).run()
    if options.json:
        print(as_json({"ranks": options.ranks, "status": status}))
    return status


class Job:
    """The processes of one launch."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.count = int(options.ranks)
        self.memory = os.memfd_create("tilejit", 0)  # without a name: nothing is left behind, whoever is killed
        self.size = state_offset(self.count) // mmap.PAGESIZE * mmap.PAGESIZE + mmap.PAGESIZE
        os.ftruncate(self.memory, self.size)
        self.lock = tempfile.NamedTemporaryFile(prefix="tilejit-lock-")  # noqa: SIM115 - as long as the job
        self.processes: list[subprocess.Popen[bytes]] = []
        self.readers: list[threading.Thread] = []

    def run(self) -> int:
        """Start all, wait for all; the first bad exit status, or 0."""
        for rank in range(self.count):
            self.processes.append(self._start(rank))
        for rank, process in enumerate(self.processes):
            if process.stdout is not None:
                thread = threading.Thread(target=_forward, args=(process.stdout, "" if rank == 0 else f"[{rank}] "), daemon=True)
                thread.start()
                self.readers.append(thread)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._forward_signal)
        try:
            status = self._wait()
        finally:
            self._end()
        for thread in self.readers:
            thread.join()
        return status

    def _start(self, rank: int) -> subprocess.Popen[bytes]:
        job = {settings.RANK: str(rank), settings.WORLD: str(self.count), settings.JOB: f"{self.memory}:{self.lock.name}"}
        environment = {**os.environ, **{setting.variable: text for setting, text in job.items()}}
        if self.options.timeout is not None:
            environment[settings.WAIT_TIMEOUT.variable] = str(self.options.timeout)
        command = [sys.executable, *(["-m"] if self.options.module else []), self.options.app, *self.options.arguments]
        log: int | IO[bytes] = subprocess.PIPE
        if self.options.log is not None:
            os.makedirs(self.options.log, exist_ok=True)
            log = open(os.path.join(self.options.log, f"{rank}.log"), "wb")  # noqa: SIM115 - the process has it
        cpus = self._cpus(rank)
        parent = os.getpid()

        def in_child() -> None:
            ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, int(signal.SIGKILL))
            if os.getppid() != parent:
                os._exit(1)
            if cpus:
                os.sched_setaffinity(0, cpus)

        return subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT, pass_fds=(self.memory,), preexec_fn=in_child)

    def _cpus(self, rank: int) -> Sequence[int]:
        """The CPUs of a rank: a share of those that this process has, all of them where there are too few."""
        cpus = sorted(os.sched_getaffinity(0))
        share = len(cpus) // self.count
        return cpus[rank * share : (rank + 1) * share] if self.options.bind != "none" and share else []

    def _forward_signal(self, number: int, _: FrameType | None) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(number)

    def _wait(self) -> int:
        until: float | None = None
        status = 0
        while True:
            codes = [process.poll() for process in self.processes]
            bad = next((rank for rank, code in enumerate(codes) if code not in (None, 0)), None)
            if bad is not None and until is None:
                code = codes[bad]
                assert code is not None
                status = code if code > 0 else 128 - code
                if code < 0:
                    print(f"tilejit launch: rank {bad} was ended by signal {-code}", file=sys.stderr)
                self._stop(bad)
                until = time.monotonic() + GRACE_S
            for rank, code in enumerate(codes):
                if code is not None:
                    self._say_left(rank)
            if all(code is not None for code in codes):
                return status
            if until is not None and time.monotonic() > until:
                return status
            time.sleep(0.02)

    def _stop(self, rank: int) -> None:
        """Let the ranks that are in a call give up: the first word of the shared memory says so."""
        with mmap.mmap(self.memory, mmap.PAGESIZE) as control:
            if int.from_bytes(control[:8], "little") == 0:
                control[:8] = (int(Stop.DEAD) | rank << 8).to_bytes(8, "little")

    def _say_left(self, rank: int) -> None:
        """Whoever waits for a rank that has ended need not, even if it never came to the job."""
        with mmap.mmap(self.memory, self.size) as control:
            control[state_offset(rank) : state_offset(rank) + 8] = int(State.LEFT).to_bytes(8, "little")

    def _end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        until = time.monotonic() + 1.0
        for process in self.processes:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _forward(stream: IO[bytes], prefix: str) -> None:
    """Output lines of a rank, with its number in front."""
    for line in stream:
        sys.stdout.write(prefix + line.decode(errors="replace"))
        sys.stdout.flush()
