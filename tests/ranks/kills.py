"""`python -m tests.ranks.kills --rounds 100`: jobs of which one process is killed at some moment; the others must say who, and nothing may be left behind.

`python -m tests.ranks.kills SEED` is one process of such a job.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random

import numpy as np

from tests.patience import HANG
from tests.ranks import signals
from tilejit.errors import RankFailedError
from tilejit.runtime.ranks import engines

ROOT = Path(__file__).parent.parent.parent
WORLD = 3


def victim_of(seed: int) -> int:
    return Random(seed).randrange(WORLD)


def call_until_killed(seed: int) -> int:
    """A rank of the job: it calls programs until one of them dies, itself at some moment after the first call."""
    x = np.arange(WORLD * 128, dtype=np.float32).reshape(WORLD, 8, 16)
    signals.shift(x)
    with engines.Held(None) as engine:
        mine = engine.here[0]
    if mine == victim_of(seed):
        delay = Random(seed + 1).uniform(0, 0.03)

        def die() -> None:
            time.sleep(delay)
            print(f"killed at {time.monotonic()}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

        threading.Thread(target=die, daemon=True).start()
    try:
        while True:
            assert np.array_equal(signals.shift(x), np.roll(x, 1, axis=0))
    except RankFailedError as error:
        print(f"survivor {mine}: {error.ranks} {error.message}", flush=True)
        return 3


def left_behind(seed: int) -> list[str]:
    """Processes of the job, and memory that has a name."""
    here = f"tests.ranks.kills\0{seed}\0".encode()
    names = [name for name in os.listdir("/dev/shm") if name.startswith("tilejit")] if os.path.isdir("/dev/shm") else []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and here in Path(f"/proc/{entry}/cmdline").read_bytes():
                names.append(f"process {entry}")
        except OSError:
            continue
    return names


def kill_one(seed: int, launcher: list[str]) -> tuple[str | None, float]:
    """One job; what is wrong with how it ended, and the seconds from the kill to the end of the last process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    command = [*launcher, "-m", "tests.ranks.kills", str(seed)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=HANG, check=False)
    end = time.monotonic()
    said = done.stdout + done.stderr
    victim = victim_of(seed)
    killed = said.partition("killed at ")[2].split()
    return _wrong(seed, victim, done.returncode, said, "mpirun" in launcher[0]), end - float(killed[0]) if killed else 0.0


def _wrong(seed: int, victim: int, status: int, said: str, by_mpi: bool) -> str | None:
    named = said.count(f"({victim},) the process of rank {victim} ended")
    if status != 128 + signal.SIGKILL:
        return f"exit status {status}: {said}"
    if by_mpi:
        if f"process rank {victim} " not in said:
            return f"nobody says that rank {victim} died: {said}"
    elif named != WORLD - 1:
        return f"{named} of {WORLD - 1} survivors name rank {victim}: {said}"
    left = left_behind(seed)
    return f"left behind: {left}" if left else None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.ranks.kills", description=__doc__)
    parser.add_argument("seed", nargs="?", type=int, help="be one process of a job")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--mpirun", metavar="COMMAND", help="start jobs with this instead of `tilejit launch`")
    options = parser.parse_args()
    if options.seed is not None:
        return call_until_killed(options.seed)
    own = [sys.executable, "-m", "tilejit", "launch", "-n", str(WORLD)]
    launcher = [*options.mpirun.split(), "-n", str(WORLD), sys.executable] if options.mpirun else own
    longest = 0.0
    for seed in range(options.rounds):
        wrong, seconds = kill_one(seed, launcher)
        longest = max(longest, seconds)
        if wrong is not None:
            print(f"round {seed}: {wrong}")
            return 1
    outcome = "survivors named it, nothing was left behind"
    print(f"{options.rounds} jobs of {WORLD} processes, one killed in each: {outcome}; the last process ended at most {longest:.2f} s after the kill")
    return 0


if __name__ == "__main__":
    sys.exit(main())
