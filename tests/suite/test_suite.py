"""Every kernel of every topic gives the numbers of its formula on both platforms, and its text parses back."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.suite.harness import Case, Cases

TORCH = find_spec("torch") is not None


def _is_a_topic(path: Path) -> bool:
    return path.stem not in ("__init__", "harness") and not path.stem.startswith("test_") and (TORCH or "import torch" not in path.read_text())


TOPICS = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if _is_a_topic(path))


def cases() -> list[object]:
    found: list[object] = []
    for topic in TOPICS:
        topic_cases: Cases = import_module(f"tests.suite.{topic}").CASES
        names = [case.name for case in topic_cases]
        assert len(set(names)) == len(names), f"two cases of {topic} have one name"
        found += [pytest.param(case, id=f"{topic}-{case.name}") for case in topic_cases]
    return found


CASES = cases()


@pytest.mark.parametrize("case", CASES)
def test_a_kernel_gives_the_numbers_of_its_formula(case: Case, platform: str) -> None:
    case.check(platform)


@pytest.mark.parametrize("case", CASES)
def test_the_text_of_a_kernel_parses_back(case: Case) -> None:
    case.check_text()
