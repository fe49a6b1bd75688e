"""What all tests share: platforms, skipping by need, golden messages."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

PLATFORMS = ("reference", "cpu")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing with them")


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


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """`golden(path, text)`: the file holds exactly this text; `--update-golden` writes it."""
    update: bool = request.config.getoption("--update-golden")

    def check(path: Path, text: str) -> None:
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n", encoding="utf-8")
            return
        assert path.exists(), f"{path} is missing: run pytest with --update-golden, then read what it wrote"
        assert text + "\n" == path.read_text(encoding="utf-8")

    return check
