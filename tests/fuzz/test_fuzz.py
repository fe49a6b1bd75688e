"""A fixed sample of random programs agrees on reference and cpu, prints, parses back and lowers."""

from __future__ import annotations

import pytest

from tests.fuzz.__main__ import report
from tests.fuzz.mistakes import mistakes
from tests.fuzz.program import generate
from tests.fuzz.runner import check

PROGRAMS, CHUNK = 120, 10


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_random_programs_agree(first: int) -> None:
    for seed in range(first, first + CHUNK):
        problem = check(generate(seed))
        assert problem is None, report(seed, problem, small=False)


def test_a_seed_always_gives_the_same_program() -> None:
    assert generate(42) == generate(42)
    assert generate(42).text != generate(43).text


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_a_mistake_is_answered_with_one_of_our_errors(first: int) -> None:
    for seed, number, text, problem in mistakes(first, 20, each=2):
        pytest.fail(f"seed {seed}, mistake {number}: {problem.stage}: {problem.kind}: {problem.message}\n{text}")
