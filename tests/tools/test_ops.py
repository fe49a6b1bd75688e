"""`tilejit ops` says what the op table says."""

from __future__ import annotations

import json

import pytest

from tilejit.backends.pto.write.rules import RULES, rule_of
from tilejit.ops import table
from tilejit.tools.cli import main


def test_json_has_every_row_with_names_dtypes_and_a_reason_for_each_hole(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert [entry["op"] for entry in entries] == list(table())
    for entry in entries:
        assert entry["doc"].endswith((".", ":")) or entry["doc"]
        for target in ("cpu", "cuda", "reference", "pto"):
            assert entry[target]["supported"] == (entry[target]["reason"] is None)
    exp = next(entry for entry in entries if entry["op"] == "exp")
    assert "pl.tile.exp(tile)" in exp["spellings"] and exp["dtypes"] == [d for d in exp["dtypes"] if d != "BOOL"]
    assert exp["reference"]["supported"] and exp["cpu"]["supported"] and exp["pto"]["supported"]
    pop = next(entry for entry in entries if entry["op"] == "tpop_from_aic")
    assert pop["cpu"]["supported"] and pop["reference"]["supported"]


def test_text_is_one_line_per_op_and_explains_its_marks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "mgather", "sort32"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:6] == ["op", "names", "cpu", "cuda", "reference", "pto"]
    assert [line.split()[0] for line in lines[1:3]] == ["sort32", "mgather"]
    assert lines[-1] == "2 rows: cpu 2 (100.0 %), cuda 2 (100.0 %), reference 2 (100.0 %), pto 2 (100.0 %)"
    main(["ops", "--json"])
    holes = [entry["op"] for entry in json.loads(capsys.readouterr().out) if not all(entry[name]["supported"] for name in ("cpu", "cuda", "pto"))]
    main(["ops", holes[0]])
    *_, reason, counts = capsys.readouterr().out.splitlines()
    assert reason.startswith("no") and reason.endswith(("row)", "rows)")) and " (100.0 %)" in counts


def test_cuda_runs_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    main(["ops", "--json"])
    assert not [entry["op"] for entry in json.loads(capsys.readouterr().out) if not entry["cuda"]["supported"]]


def test_an_unknown_word_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "frobnicate"]) == 1
    assert "no op's name contains frobnicate" in capsys.readouterr().err


def test_the_pto_column_is_what_the_writer_has_rules_for(capsys: pytest.CaptureFixture[str]) -> None:
    main(["ops", "--json"])
    supported = {entry["op"] for entry in json.loads(capsys.readouterr().out) if entry["pto"]["supported"]}
    assert {name for name, rule in RULES.items() if rule.hole is None} <= supported
    for name in supported:
        assert table()[name].derived is not None or table()[name].compose is not None or rule_of(table()[name]) is not None, name
