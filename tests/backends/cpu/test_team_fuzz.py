"""Random programs with everything shared out that can be: the bits and the errors of one thread."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.fuzz import runner
from tests.fuzz.program import generate
from tilejit import RunConfig, ir
from tilejit.backends.cpu import schedule
from tilejit.errors import TilejitError
from tilejit.passes import cost

COUNTS = (1, 2, 3, 16)


@pytest.fixture
def _nothing_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WORTH_NS": 0, "CERTAIN_NS": 1, "CHUNK_NS": 1, "CREW_NS": 1}.items():
        monkeypatch.setattr(cost, name, value)
    nest, gemm = schedule.nest, schedule.gemm
    monkeypatch.setattr(schedule, "nest", lambda dtypes, wide, folds, light: replace(nest(dtypes, wide, folds, light), stretch=16 if folds else 64))
    monkeypatch.setattr(schedule, "gemm", lambda accumulator: replace(gemm(accumulator), least_columns=1, least_rows=1))


def outcome(program: Any, data: dict[str, Any], count: int) -> list[bytes] | str:
    """What a call leaves in its arguments, or the error it raises."""
    copies = [value.copy() if isinstance(value, np.ndarray) else value for value in data.values()]
    try:
        program(*copies, config=RunConfig(num_threads=count))
    except TilejitError as error:
        return str(error)
    return [value.tobytes() for value in copies if isinstance(value, np.ndarray)]


@pytest.mark.filterwarnings("ignore::tilejit.errors.TilejitWarning")
@pytest.mark.usefixtures("_nothing_is_too_small")
@pytest.mark.parametrize("first", range(70_000, 70_040, 10))
def test_random_programs_do_not_depend_on_the_number_of_threads(first: int, capfd: pytest.CaptureFixture[str]) -> None:
    for seed in range(first, first + 10):
        case = generate(seed)
        module = runner.load(case.text, str(seed))
        given = [runner.arguments(case, size) for size in case.sizes]
        program = ir.compile(runner.program_of(case, module, given[0]), platform="cpu")
        for data in given:
            tensors = {name: value for name, value in data.items() if not case.jit or isinstance(value, np.ndarray)}
            alone, *others = (outcome(program, tensors, count) for count in COUNTS)
            assert others == [alone] * 3, case.text
    capfd.readouterr()  # what the programs print
