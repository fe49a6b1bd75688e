"""What all tests share: platforms, skipping by need, the flag that rewrites golden files."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

import pytest

from tests import hardware

WITHOUT_TORCH = ("ops/test_reference.py", "pto/test_emit_suite.py", "suite/test_generation.py", "test_llama.py")
"""Test files that cannot be read where torch is missing: they take their expected numbers from it."""

CALL_ROOMS = ("jit", "runtime", "ranks")
"""Folders whose subject is the call: their tests that call kernels run on both paths of it, others only where they are marked."""

PLATFORMS = ("reference", "cpu") if hardware.PLATFORM == "cpu" else (hardware.PLATFORM,)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing with them")


def pytest_configure(config: pytest.Config) -> None:
    # Each test process starts with an empty disk cache of its own, which its children share; the user's is left alone.
    os.environ["TILEJIT_CACHE_DIR"] = tempfile.mkdtemp(prefix="tilejit-tests-")
    hardware.prepare()
    if config.getoption("--update-golden"):
        os.environ["UPDATE_GOLDEN"] = "1"  # inherited by test processes, read where a golden file is compared


def pytest_unconfigure() -> None:
    shutil.rmtree(os.environ.pop("TILEJIT_CACHE_DIR"), ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need what is not here are skipped, and say so; tests of calls that call kernels are dispatch tests."""
    needs = {"torch": _module_is_here("torch"), "triton": _module_is_here("triton"), "gpu": _gpu_is_here()}
    for item in items:
        if "backends/cuda" in item.path.as_posix():
            item.add_marker(pytest.mark.triton)
        for need, here in needs.items():
            if not here and item.get_closest_marker(need):
                item.add_marker(pytest.mark.skip(reason=f"needs {need}"))
        if item.path.parent.name in CALL_ROOMS and _calls_kernels(item.path):
            item.add_marker(pytest.mark.dispatch)
    if os.environ.get("TILEJIT_FASTPATH") == "0":
        items[:] = [item for item in items if not _tries_both_paths(item)]


def _tries_both_paths(item: pytest.Item) -> bool:
    """Whether a test sets TILEJIT_FASTPATH itself, for each of its values: then once is enough."""
    return isinstance(item, pytest.Function) and hasattr(item, "callspec") and "fast" in item.callspec.params


@cache
def _calls_kernels(path: Path) -> bool:
    return any(text in path.read_text() for text in ("@pl.jit\n", "make_kernel"))


def _module_is_here(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


collect_ignore = [] if _module_is_here("torch") else list(WITHOUT_TORCH)


def pytest_report_header() -> list[str]:
    return [f"no torch here: tests/{name} is left out" for name in collect_ignore]


def _gpu_is_here() -> bool:
    return Path("/dev/nvidiactl").exists() and _module_is_here("triton")


@pytest.fixture(params=PLATFORMS)
def platform(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The test runs once per platform, with it as the default of every call."""
    name: str = request.param
    monkeypatch.setenv("TILEJIT_PLATFORM", name)
    return name
