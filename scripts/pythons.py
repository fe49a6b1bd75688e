"""Runs tests on the other versions of Python that are on this machine, each in an environment of its own (`.venv-3.12`), without torch.

    scripts/pythons.py                 the tests that call kernels; what cannot be installed is an error
    scripts/pythons.py --sample        those of the dispatcher, which depend on the version; without the packages a version is left out
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tilejit.runtime.call.layout import VERSIONS

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("hypothesis", "pytest", "pytest-xdist")
SAMPLE = ("runtime/test_dispatch.py", "runtime/test_native.py", "runtime/test_layout.py", "jit/test_calls.py", "jit/test_misuse.py", "jit/test_warm.py")
PATIENCE = 120
"""Seconds for installing packages, where they may be left out."""


def candidates(version: str) -> Iterator[str]:
    """Where an interpreter may be: on the path, or among those of pyenv and uv, which are not on it."""
    found = shutil.which(f"python{version}")
    if found is not None:
        yield found
    homes = (Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions", Path.home() / ".local/share/uv/python")
    for home in homes:
        for pattern in (f"{version}.*", f"cpython-{version}.*"):
            yield from (str(path / "bin" / f"python{version}") for path in sorted(home.glob(pattern)))


def interpreter(version: str) -> str | None:
    """One that is of that version and has what environments are made of: what is on the path may be a stand-in for something that is not here."""
    test = f"import sys, ensurepip, venv; sys.exit('%d.%d' % sys.version_info[:2] != '{version}')"
    for path in candidates(version):
        try:
            if subprocess.run([path, "-c", test], capture_output=True, timeout=PATIENCE).returncode == 0:
                return path
        except (OSError, subprocess.TimeoutExpired):
            continue
    return None


@dataclass(frozen=True, slots=True)
class Outcome:
    version: str
    text: str
    good: bool


def run(version: str, python: str, tests: Sequence[str], *, sample: bool) -> Outcome:
    """Make the environment, unless it is newer than what it is made from, and run the tests in it."""
    home = ROOT / f".venv-{version}"
    own, stamp = home / "bin" / "python", home / (".sampled" if sample else ".installed")
    if not stamp.exists() or stamp.stat().st_mtime < (ROOT / "pyproject.toml").stat().st_mtime:
        hurry = ["--retries", "0", "--timeout", "15"] if sample else []
        packages = [f"--editable={ROOT}", *NEEDED] if sample else [f"--editable={ROOT}[tests]"]
        steps = ([python, "-m", "venv", str(home)], [str(own), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *hurry, *packages])
        for step in steps:
            try:
                done = subprocess.run(step, capture_output=True, text=True, timeout=PATIENCE if sample else None)
            except subprocess.TimeoutExpired:
                return Outcome(version, f"left out: no packages after {PATIENCE} s", good=sample)
            if done.returncode:
                return Outcome(version, f"{'left out' if sample else 'failed'}: its packages cannot be installed here\n{done.stderr[-1000:]}", good=sample)
        stamp.touch()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(own), "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], cwd=ROOT, env=environment, capture_output=True, text=True)
    text = done.stdout.strip().splitlines()
    return Outcome(version, "\n".join(text[-1:] if done.returncode == 0 else text[-60:]) + done.stderr[-1000:], good=done.returncode == 0)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=[f"{major}.{minor}" for major, minor in sorted(VERSIONS)])
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--jobs", default="2")
    options = parser.parse_args(arguments)
    tests = [str(ROOT / "tests" / name) for name in SAMPLE] if options.sample else ["-n", options.jobs, "-m", "dispatch and not slow"]
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    found = {version: python for version in options.versions if version != own and (python := interpreter(version)) is not None}
    for version in options.versions:
        if version != own and version not in found:
            print(f"Python {version}: not here")
    with ThreadPoolExecutor(max_workers=len(found) or 1 if options.sample else 1) as pool:
        outcomes = list(pool.map(lambda version: run(version, found[version], tests, sample=options.sample), found))
    for outcome in outcomes:
        print(f"Python {outcome.version}: {outcome.text}")
    return 0 if all(outcome.good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
