"""`testing.bench` on a clock of its own, reports and their plots."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import errors
from tilejit.testing import bench, perf_report
from tilejit.view import measure
from tilejit.view.plot import Axis, Plot, Series

X = np.random.default_rng(3).standard_normal((16, 32)).astype(np.float32)


@pl.jit
def shifted(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 2.0 + 1.0


class Clock:
    """Stands still but for what functions say they take."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.order = 0.0, list[str]()
        monkeypatch.setattr(measure, "time", SimpleNamespace(perf_counter=lambda: self.now))

    def taking(self, name: str, seconds: float, call: Callable[..., object] = lambda *_: None) -> Callable[..., object]:
        def run(*args: object) -> object:
            self.now += seconds
            self.order.append(name)
            return call(*args)

        run.__name__ = name
        return run


def test_functions_are_timed_in_turns_and_compared_with_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    found = bench(clock.taking("ours", 1.0), X, peers={"theirs": clock.taking("theirs", 3.0)}, rounds=5, warmup=1)
    assert clock.order == ["ours"] * 2 + ["theirs"] * 2 + ["ours", "theirs"] * 5
    assert [(row.name, row.median, row.spread, len(row.seconds)) for row in found.rows] == [("ours", 1.0, 0.0, 5), ("theirs", 3.0, 0.0, 5)]
    assert found.ratio(found.rows[1]) == 3.0 and found.median == 1.0
    assert (found.bytes, found.operations) == (None, None)
    assert found.cells()[2] == ("theirs", "3000000.00 µs", "0%", "–", "–", "3.00 ×")


def test_short_functions_are_called_several_times_per_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    found = bench(clock.taking("short", 1e-5), X, rounds=3, warmup=0)
    assert clock.order.count("short") == 1 + 3 * 20
    assert found.median == pytest.approx(1e-5)


def test_rates_come_from_what_the_program_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    for function in (shifted, shifted.compile(X)):
        found = bench(function, X, peers={"numpy": clock.taking("numpy", 1.0, lambda x: x * 2 + 1)}, rounds=3)
        assert found.bytes == 2 * X.nbytes and found.operations == 2 * X.size
        assert found.rate(found.rows[1], "GB/s") == pytest.approx(2 * X.nbytes / 1e9)
        assert found.rate(found.rows[1], "GFLOP/s") == pytest.approx(2 * X.size / 1e9)
    assert json.loads(json.dumps(found.as_json()))["rows"][1]["name"] == "numpy"
    assert "<th>GFLOP/s</th>" in found._repr_html_() and "GB/s" in str(found)


def test_a_report_is_a_table_a_plot_and_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clock = Clock(monkeypatch)

    def made(size: int) -> tuple[np.ndarray]:
        return (np.ones((size, 4), np.float32),)

    ours = clock.taking("ours", 1e-3)
    found = perf_report(ours, "rows", [2, 8, 64], made, peers={"numpy": clock.taking("numpy", 2e-3)}, rounds=3)
    assert found.cells() == [("rows", "ours", "numpy"), ("2", "1000.00", "2000.00"), ("8", "1000.00", "2000.00"), ("64", "1000.00", "2000.00")]
    assert str(found).startswith("ours: microseconds per call\nrows")
    assert found.save(tmp_path / "a.csv").read_text() == "rows,ours,numpy\n2,1000.00,2000.00\n8,1000.00,2000.00\n64,1000.00,2000.00\n"
    picture = ElementTree.fromstring(found.save(tmp_path / "a.svg").read_text())
    lines = [element for element in picture.iter() if element.tag.endswith("polyline")]
    assert [len(str(line.get("points")).split()) for line in lines] == [3, 3]
    assert {"ours", "numpy", "rows"} <= {str(element.text) for element in picture.iter() if element.tag.endswith("text")}
    assert list(found.as_json()["sizes"]) == ["2", "8", "64"]  # type: ignore[call-overload]


def test_plots_place_points_by_their_axes_and_keep_odd_names_out_of_the_markup() -> None:
    plot = Plot("a < b & c", Axis("x", True), Axis("y"), [Series("<s>", [(1, 0.0), (10, 5.0), (100, 10.0)])])
    picture = ElementTree.fromstring(plot.svg())
    points = [tuple(map(float, point.split(","))) for line in picture.iter() if line.tag.endswith("polyline") for point in str(line.get("points")).split()]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2) and y0 - y1 == pytest.approx(y1 - y2, abs=0.2) and x0 < x2 and y0 > y2
    assert {"a < b & c", "<s>"} <= {str(element.text) for element in picture.iter()}
    flat = Plot("one", Axis("x"), Axis("y"), [Series("s", [(1, 2.0)], line=False, labels=["here"])])
    assert "here" in flat.svg() and "nan" not in flat.svg()


def test_wrong_uses_are_named() -> None:
    for use, text in (
        (lambda: bench(shifted, X, rounds=0), "rounds must be positive"),
        (lambda: bench(shifted, X, peers={"a": 3}), "the peer 'a' is no function"),  # type: ignore[dict-item]
        (lambda: perf_report(shifted, "n", [1], lambda n: (X,), unit="GB"), "unit is one of"),
        (lambda: perf_report(shifted, "n", [], lambda n: (X,)), "at least one size"),
    ):
        with pytest.raises(errors.ArgumentError, match=text) as caught:
            use()
        assert caught.value.hint
