"""A fixed sample of random programs agrees on reference and cpu, prints, parses back and lowers."""

from __future__ import annotations

import pytest

from tests.fuzz.__main__ import report
from tests.fuzz.program import generate
from tests.fuzz.runner import check

PROGRAMS, CHUNK = 300, 10


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_random_programs_agree(first: int) -> None:
    for seed in range(first, first + CHUNK):
        problem = check(generate(seed))
        assert problem is None, report(seed, problem, small=False)


def test_a_seed_always_gives_the_same_program() -> None:
    assert generate(42) == generate(42)
    assert generate(42).text != generate(43).text
