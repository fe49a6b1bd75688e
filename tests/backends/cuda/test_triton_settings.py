"""What Triton was told is part of the key, by the environment or by a program; where it keeps its own files is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from tilejit.jit.disk.fingerprint import toolchain, toolchain_text
from tilejit.runtime.cuda.triton_settings import in_words

COUNTED = r"""
import json, os, re
import triton.knobs as knobs
from triton._C import libtriton
with open(libtriton.__file__, "rb") as file:
    names = {name.decode() for name in re.findall(rb"(?<=\x00)[A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+(?=\x00)", file.read())}
os.environ.update({name: "1" for name in names if name not in os.environ})
groups = (knobs.compilation, knobs.language, knobs.nvidia)
print(json.dumps([*libtriton.get_cache_invalidating_env_vars(), *(knob.key for group in groups for knob in group.knob_descriptors.values())]))
"""


@pytest.fixture(autouse=True)
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment, and a process, in which nobody told Triton anything."""
    for name in [line.partition("=")[0] for line in in_words().splitlines()]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(sys.modules, "triton.knobs", raising=False)
    assert in_words() == ""


def test_all_that_triton_counts_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The installed version is asked: which of the names that it knows invalidate its own cache, and which its compiler reads."""
    if find_spec("triton") is None:
        pytest.skip("needs triton")
    done = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True)
    names: list[str] = json.loads(done.stdout)
    assert {"DISABLE_PTXAS_OPT", "TRITON_PTXAS_PATH", "DISABLE_LLVM_OPT"} <= set(names), done.stderr
    for name in set(names) - {"TRITON_LIBCUDA_PATH"}:  # that of its launcher
        before = toolchain_text("cuda"), toolchain_text("cpu")
        monkeypatch.setenv(name, "1")
        assert toolchain_text("cuda") != before[0] and toolchain_text("cpu") == before[1], name


def test_another_compiler_at_the_same_path_is_another_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "ptxas"
    tool.write_text("one")
    os.utime(tool, (1_700_000_000, 1_700_000_000))
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(tool))
    before = toolchain("cuda")
    assert str(tool) in before["compiler settings"] and toolchain("cuda") == before
    tool.write_text("another")
    assert toolchain("cuda") != before


def test_where_triton_keeps_its_own_files_is_no_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = toolchain("cuda")
    for name in ("TRITON_CACHE_DIR", "TRITON_HOME", "TRITON_LIBCUDA_PATH"):
        monkeypatch.setenv(name, "/somewhere")
    assert toolchain("cuda") == before and "compiler settings" not in before


def test_what_a_program_sets_in_the_knobs_is_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    class Group(SimpleNamespace):
        debug = False
        add_stages_inspection_hook = None

    knobs = SimpleNamespace(nvidia=Group(), runtime=Group(debug=False, launch_enter_hook=print, add_stages_inspection_hook=None))
    monkeypatch.setitem(sys.modules, "triton.knobs", knobs)
    seen = [in_words()]
    assert seen == [""], "defaults and hooks of the launcher are nothing"
    knobs.nvidia.disable_ptxas_opt = True
    seen.append(in_words())
    knobs.runtime.debug = True
    seen.append(in_words())
    knobs.runtime.add_stages_inspection_hook = lambda: ("key of stages", "digest")
    seen.append(in_words())
    assert len(set(seen)) == 4 and "key of stages" in seen[-1]
