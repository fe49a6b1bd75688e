"""What all tests share: platforms, skipping by need, the flag that rewrites golden files."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

PLATFORMS = ("reference", "cpu")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing with them")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--update-golden"):
        os.environ["UPDATE_GOLDEN"] = "1"  # inherited by test processes, read where a golden file is compared


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need what is not here are skipped, and say so."""
    needs = {"torch": _module_is_here("torch"), "gpu": _gpu_is_here()}
    for item in items:
        for need, here in needs.items():
            if not here and item.get_closest_marker(need):
                item.add_marker(pytest.mark.skip(reason=f"needs {need}"))


def _module_is_here(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _gpu_is_here() -> bool:
    return Path("/dev/nvidiactl").exists() and _module_is_here("triton")


@pytest.fixture(params=PLATFORMS)
def platform(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The test runs once per platform, with it as the default of every call."""
    name: str = request.param
    monkeypatch.setenv("TILEJIT_PLATFORM", name)
    return name
