"""Programs that come and go leave nothing behind: no memory, no mapping, no file handle."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(("cycle", "count"), [("load", 1000), ("compile", 200)])
def test_memory_mappings_and_handles_stay_flat(cycle: str, count: int) -> None:
    command = [sys.executable, "-m", "tests.runtime.cycles", cycle, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    early, late = json.loads(done.stdout)
    assert late["resident"] <= 1.05 * early["resident"]
    assert late["mappings"] <= early["mappings"] + 2
    assert late["handles"] <= early["handles"]
