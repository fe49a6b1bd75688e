"""The disk cache where the system lacks what POSIX has: no file locks, no owners, no flags against links."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FOREIGN = """
import os, sys, warnings
import concurrent.futures, logging, random, tempfile, threading  # the standard library is another one there
import numpy as np
sys.modules["fcntl"] = None
for name in ("getuid", "O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "register_at_fork", "sched_getaffinity"):
    delattr(os, name)
warnings.simplefilter("error")
import kernels
x = np.arange(12, dtype=np.float32).reshape(3, 4)
out = np.empty_like(x)
for _ in range(3):
    kernels.doubled(x, out)
np.testing.assert_array_equal(out, 2 * x)
print(kernels.doubled.cache_info().loaded)
"""
KERNELS = """
import tilejit.language as pl

@pl.jit
def doubled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 2.0
"""


def test_without_locks_and_owners_kernels_are_kept_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS)
    path = os.pathsep.join([str(Path(__file__).parents[2] / "src"), str(tmp_path)])
    environment = {**os.environ, "PYTHONPATH": path, "TILEJIT_CACHE_DIR": str(tmp_path / "cache"), "TILEJIT_PLATFORM": "cpu", "TILEJIT_CACHE": "1"}

    def loaded() -> str:
        done = subprocess.run([sys.executable, "-c", FOREIGN], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert (loaded(), loaded()) == ("0", "1")
