"""The disk cache where there is no room, where warnings are errors, and in an interpreter inside a process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.patience import HANG

KERNEL = """
import os, resource, signal, sys, warnings
import numpy as np
import tilejit.language as pl

@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(32):
        out = pl.store(pl.exp(pl.load(x, [i * 8, 0], [8, 256])), [i * 8, 0], out)
    return out

x = np.random.default_rng(0).uniform(-1, 1, (256, 256)).astype(np.float32)
out = np.empty_like(x)

def check():
    out[:] = np.nan
    kernel(x, out)
    assert np.allclose(out, np.exp(x), rtol=1e-5)
"""


def run(folder: Path, code: str, *flags: str, start: str = KERNEL, **environment: str) -> subprocess.CompletedProcess[str]:
    path = folder / "script.py"
    path.write_text(start + textwrap.dedent(code))
    settings = {**os.environ, "TILEJIT_CACHE": "1", "TILEJIT_CACHE_DIR": str(folder / "cache"), "TILEJIT_PLATFORM": "cpu", **environment}
    done = subprocess.run([sys.executable, *flags, str(path)], capture_output=True, text=True, check=False, timeout=HANG, env=settings)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done


def files_of(folder: Path) -> list[Path]:
    return [path for path in (folder / "cache").rglob("*") if path.is_file() and path.suffix == ".tj"]


def leftovers(folder: Path) -> list[Path]:
    return list((folder / "cache").rglob(".tmp-*"))


@pytest.mark.parametrize("room", [0, 100])
def test_no_room_left_in_the_middle_of_an_entry_is_a_warning_and_nothing_stays_behind(tmp_path: Path, room: int) -> None:
    """A limit on the size of files: the system writes what fits, and refuses the rest."""
    limit = f"""
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, resource.RLIM_INFINITY))
        check()
        check()
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    """
    done = run(tmp_path, limit)
    assert done.stderr.count("TilejitWarning: cannot write the cache") == 1
    assert not leftovers(tmp_path)
    assert "compiled" in run(tmp_path, "check()", TILEJIT_LOG="recompile").stderr
    assert run(tmp_path, "check()", TILEJIT_LOG="recompile").stderr == "", "with room again, the entry is there"


def test_a_full_device_is_a_warning_too(tmp_path: Path) -> None:
    """ENOSPC after a part was written, from the system call that writes."""
    code = """
        import errno
        from tilejit.runtime.store import files
        real, written = os.write, []

        def full(descriptor, data):
            if len(data) < 500 or written:
                if written:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return real(descriptor, data)
            written.append(real(descriptor, data[: len(data) // 2]))
            return written[0]

        files.os = type("", (), {**vars(os), "write": staticmethod(full)})
        check()
        assert written
    """
    done = run(tmp_path, code)
    assert done.stderr.count("TilejitWarning: cannot write the cache") == 1 and "No space left" in done.stderr
    assert not leftovers(tmp_path)


@pytest.mark.parametrize("harm", ["file", "readonly", "damaged"])
def test_where_warnings_are_errors_a_failing_cache_still_fails_no_call(tmp_path: Path, harm: str) -> None:
    if harm == "file":
        (tmp_path / "cache").write_text("not a directory")
    elif harm == "damaged":
        run(tmp_path, "check()")
        for path in files_of(tmp_path):
            path.write_bytes(b"damaged")
    limit = "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))\n"
    done = run(tmp_path, (limit if harm == "readonly" else "") + "check()\ncheck()\nprint('done')", "-W", "error")
    assert done.stdout == "done\n"
    assert done.stderr.count("tilejit: warning: ") >= 1, "it is said all the same"


def test_an_interpreter_that_is_never_destroyed_does_not_keep_the_process(tmp_path: Path) -> None:
    pytest.importorskip("_xxsubinterpreters")
    (tmp_path / "inner.py").write_text(KERNEL + "for _ in range(5):\n    check()\nprint('inner', flush=True)\n")
    code = f"""
        import _xxsubinterpreters
        inner = _xxsubinterpreters.create(isolated=False)
        _xxsubinterpreters.run_string(inner, "import sys; sys.path.insert(0, {str(tmp_path)!r}); import inner")
        print("outer")
    """
    assert run(tmp_path, code, "-W", "ignore", start="", TILEJIT_NUM_THREADS="2").stdout == "inner\nouter\n"


CROWD = """
import multiprocessing, sys
from script import check, kernel

def one(barrier, results):
    barrier.wait()
    check()
    results.put(kernel.cache_info().misses)

context = multiprocessing.get_context("fork")
count = int(sys.argv[1])
barrier, results = context.Barrier(count), context.SimpleQueue()
workers = [context.Process(target=one, args=(barrier, results)) for _ in range(count)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
assert [worker.exitcode for worker in workers] == [0] * count
print(count)
"""


def test_processes_that_start_at_once_compile_once_without_faults(tmp_path: Path) -> None:
    """A sample of the 200 that `make faults` starts."""
    count = 200 if "TILEJIT_TEST_FAULTS" in os.environ else 12
    (tmp_path / "script.py").write_text(KERNEL)
    (tmp_path / "crowd.py").write_text(CROWD)
    python = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    environment = {
        **os.environ, "PYTHONPATH": python, "TILEJIT_CACHE": "1", "TILEJIT_CACHE_DIR": str(tmp_path / "cache"), "TILEJIT_LOG": "recompile",
        "TILEJIT_NUM_THREADS": "1", "TILEJIT_PLATFORM": "cpu",
    }  # fmt: skip
    done = subprocess.run([sys.executable, str(tmp_path / "crowd.py"), str(count)], capture_output=True, text=True, check=False, timeout=HANG, env=environment)
    assert done.returncode == 0 and done.stdout == f"{count}\n", done.stderr
    assert done.stderr.count("tilejit: compiled") == 1, done.stderr
    assert not leftovers(tmp_path)
