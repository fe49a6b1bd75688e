"""What tuning found is kept: in the process, in the disk cache, and no longer than it holds."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tests.jit.tune.kernels import SECONDS, choices, data, forget, tuned
from tilejit import errors
from tilejit.jit.disk.stores import store
from tilejit.runtime.store.entry import CacheEntry


def test_a_search_that_was_stopped_goes_on_where_it_was() -> None:
    kernel, clock = tuned(effort="full")
    clock.stop_after = 4
    x = data()
    with pytest.raises(KeyboardInterrupt):
        kernel(x)
    again, second = tuned(effort="full")
    again(x)
    assert again.best(x).arguments == {"rows": 6}
    fresh, third = tuned(effort="full")
    forget()
    fresh(x)
    assert len(clock.asked) + len(second.asked) == len(third.asked), "nothing is timed twice"


def test_a_longer_search_goes_on_from_a_short_one() -> None:
    kernel, clock = tuned(budget=0.0)
    x = data()
    assert len(kernel.tune(x).timings) == 1
    first = len(clock.asked)
    found = kernel.tune(x, effort="full", budget=1e9)
    assert found.best.arguments == {"rows": 6} and found.speedup == 2.5
    assert len(found.timings) == len(SECONDS) and clock.asked[first:].count("rows=4") == 0
    assert kernel.tune(x, effort="full", budget=1e9).timed == 0


SECOND = """
import numpy as np
import tilejit.language as pl
from tests.jit.tune.kernels import SECONDS, data, scaled

asked = []
def timer(choice, run):
    asked.append(str(choice))
    run()
    return SECONDS[choice.arguments["rows"]]

kernel = pl.autotune({"rows": list(SECONDS)}, timer=timer, progress=False)(scaled)
x = data()
np.testing.assert_allclose(kernel(x), 2 * x, rtol=1e-6)
print(len(asked), kernel.best(x), scaled.cache_info().compile_seconds)
"""


def in_a_process(**settings: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), *sys.path]), **settings}
    done = subprocess.run([sys.executable, "-c", SECOND], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_another_process_uses_what_was_found_without_timing_or_compiling_and_so_does_one_with_exported_kernels(tmp_path: Path) -> None:
    kernel, clock = tuned()
    kernel(data())
    assert clock.asked
    assert in_a_process() == "0 rows=6 0.0"
    shipped = tmp_path / "shipped"
    from tilejit.tools.cli import main

    assert main(["cache", "export", str(shipped), "kernels.scaled"]) == 0
    assert in_a_process(TILEJIT_CACHE_DIR=str(tmp_path / "empty"), TILEJIT_CACHE_PATH=str(shipped), TILEJIT_RUN_ONLY="1") == "0 rows=6 0.0"


def test_where_nothing_may_be_compiled_nothing_is_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_RUN_ONLY", "1")
    kernel, _ = tuned()
    with pytest.raises(errors.ArtifactError, match="would have to be tuned"):
        kernel(data())


def test_clearing_the_cache_on_disk_forgets_choices_too() -> None:
    kernel, _ = tuned()
    kernel(data())
    assert len(choices()) == 1
    kernel.cache_clear()
    assert len(choices()) == 1
    kernel.cache_clear(True)
    assert choices() == []


def test_a_damaged_record_is_as_good_as_none() -> None:
    kernel, _ = tuned()
    kernel(data())
    (entry,) = choices()
    store().put(CacheEntry(entry.key, entry.fields, {"tuning.json": b'{"candidates": [{"point": [99]}]}'}))
    again, clock = tuned()
    with pytest.warns(errors.TilejitWarning, match="no search"):
        again(data())
    assert clock.asked


def times(factor: float, x: np.ndarray) -> np.ndarray:
    return x * factor


@pl.jit
def of_two_minds(x: pl.Tensor, out: pl.Out[pl.Tensor], mind: int = 2):
    out[:] = x * float(mind)


def test_a_choice_that_was_right_by_another_measure_is_none() -> None:
    x = data()

    def right_by(reference: Any) -> float:
        kernel = pl.autotune({"mind": [2, 3, 4]}, reference=reference, timer=lambda choice, run: run() or 1.0, progress=False)(of_two_minds)
        return float(kernel(x)[0, 0] / x[0, 0])

    def threefold(by: float) -> Any:
        return lambda x: x * by

    measures = ["first", "numpy", lambda x: x * 3.0, lambda x: x * 4.0, threefold(2.0), threefold(3.0), partial(times, 4.0), partial(times, 3.0)]
    assert [round(right_by(reference)) for reference in measures] == [2, 2, 3, 4, 2, 3, 4, 3]
