"""What all commands have: JSON, exit statuses, settings that are checked; and `run`, `bench`, `tune` of a kernel."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilejit.tools import cli
from tilejit.tools.cli import COMMANDS, main

FILE = '''
import sys
import tilejit.language as pl

@pl.jit
def doubled(x: pl.Tensor, out: pl.Out[pl.Tensor], rows: int = 4):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(x.shape[0] // rows):
            pl.store(pl.load(x, [i * rows, 0], [rows, x.shape[1]]) * 2.0, [i * rows, 0], out)

@pl.jit
def fixed(x: pl.Tensor[[4, 4], pl.FP32], out: pl.Out[pl.Tensor[[4, 4], pl.FP32]]):
    out[:] = pl.add(x, x)

@pl.jit
def wrong(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.matmul(x, x)

tuned = pl.autotune({"rows": [4, 8]}, timer=lambda choice, run: run() or choice.arguments["rows"], progress=False)(doubled)

def peer(x):
    return 2 * x

if __name__ == "__main__":
    print("ran", sys.argv[1:])
    sys.exit(3 if "--fail" in sys.argv else 0)
'''
X = np.random.default_rng(2).standard_normal((8, 5)).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "kernels.py").write_text(FILE, encoding="utf-8")
    np.save(tmp_path / "x.npy", X)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> Any:
    """What a command says in JSON."""
    capsys.readouterr()
    assert main([*arguments, "--json"]) == status
    return json.loads(capsys.readouterr().out)


PTO = """module attributes {pto.target_arch = "a2a3"} {
}
"""


def test_every_command_answers_in_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "empty.pto").write_text(PTO, encoding="utf-8")
    kernel = ("kernels.py:doubled", "x=8x5")
    said = {
        "run": answer(capsys, "run", *kernel),
        "bench": answer(capsys, "bench", *kernel, "--rounds", "1"),
        "tune": answer(capsys, "tune", "kernels.py:tuned", "x=8x5"),
        "dump": answer(capsys, "dump", *kernel, "out=8x5", "--stage", "python"),
        "trace": answer(capsys, "trace", *kernel, "out=8x5"),
        "repro": answer(capsys, "repro", *kernel, "out=8x5"),
        "doctor": answer(capsys, "doctor"),
        "ops": answer(capsys, "ops", "exp"),
        "cache": answer(capsys, "cache", "ls"),
        "pto": answer(capsys, "pto", "check", "empty.pto"),
    }
    assert {*said, "demo", "launch"} == {command.name for command in COMMANDS}  # these two in processes of their own
    assert said["run"]["results"][0] == {"name": "out", "shape": [8, 5], "dtype": "float32", "file": None}
    assert said["bench"]["rows"][0]["name"] == "doubled" and said["bench"]["operations"] == 40
    assert said["tune"]["best"]["arguments"] == {"rows": 4} and len(said["tune"]["candidates"]) == 2
    assert "@pl.program" in said["dump"]["python"] and said["repro"]["zip"] == "repro-doubled.zip"
    assert {entry["kernel"].rpartition(".")[2] for entry in said["cache"]["entries"]} >= {"doubled"}
    assert said["pto"] == [{"file": "empty.pto", "problems": [], "entries": [], "architecture": "A2/A3", "level": said["pto"][0]["level"]}]


def test_a_launch_says_its_status_in_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilejit.tools.launch.Job.run", lambda self: 3)
    assert main(["launch", "--json", "-n", "2", "app.py"]) == 3
    assert json.loads(capsys.readouterr().out) == {"ranks": 2, "status": 3}


def test_the_actions_of_the_cache_answer_in_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(capsys, "run", "kernels.py:doubled", "x=8x5")
    answer(capsys, "run", "kernels.py:doubled", "x=8x6")
    entries = answer(capsys, "cache", "ls", "doubled")["entries"]
    assert len(entries) == 2
    key = entries[0]["key"]
    assert answer(capsys, "cache", "show", key)["sections"]["kernel.bin"] > 0
    assert answer(capsys, "cache", "why", key)["differences"]
    assert answer(capsys, "cache", "verify")["damaged"] == []
    shipped = answer(capsys, "cache", "export", str(folder / "out"))["exported"]
    assert shipped >= 2 and answer(capsys, "cache", "import", str(folder / "out"))["refused"] == {}
    assert answer(capsys, "cache", "gc") == {"removed": 0}
    assert answer(capsys, "cache", "clear")["removed"] >= 2


def test_run_takes_scripts_with_arguments_and_gives_their_status_back(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, status in (([], 0), (["a", "--", "--fail"], 3)):
        with pytest.raises(SystemExit) as ended:
            main(["run", "kernels.py", *arguments])
        assert ended.value.code == status
        assert capsys.readouterr().out == f"ran {[word for word in arguments if word != '--']}\n"


def test_run_takes_a_kernel_with_data_of_files_or_made_up_and_checks_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "kernels.py:doubled", "x=x.npy", "rows=8", "--out", "y.npy", "--check"]) == 0
    assert capsys.readouterr().out == "out → y.npy\nthe reference computes the same\n"
    np.testing.assert_array_equal(np.load("y.npy"), 2 * X)
    assert main(["run", "kernels.py:tuned", "x=8x5"]) == 0
    first = capsys.readouterr().out
    assert main(["run", "kernels.py:doubled", "x=8x5", "--platform", "reference"]) == 0
    assert capsys.readouterr().out == first, "made-up data is the same every time, and not nothing"
    assert "0. 0. 0." not in first
    assert answer(capsys, "run", "kernels.py:fixed")["results"][0]["shape"] == [4, 4]


def test_a_difference_from_the_reference_is_status_1(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilejit.jit.tune.trial.difference", lambda one, other: "wrong result: made up")
    assert answer(capsys, "run", "kernels.py:doubled", "x=8x5", "--check", status=1)["check"] == "out: wrong result: made up"


def test_bench_compares_with_functions_and_profiles(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from tilejit.view import profile
    from tilejit.view.limits import Limits

    rows = answer(capsys, "bench", "kernels.py:doubled", "x=8x5", "--peer", "kernels.py:peer", "--rounds", "2")["rows"]
    assert [(row["name"], row["samples"]) for row in rows] == [("doubled", 2), ("kernels.py:peer", 2)]
    monkeypatch.setattr(profile, "limits", lambda *_: Limits(1e9, 2e9, 3e9, "FP32", 1 << 20))
    found = answer(capsys, "bench", "kernels.py:doubled", "x=8x5", "--profile", "--svg", "roof.svg", "--rounds", "2")
    assert [region["name"] for region in found["regions"]] == ["doubled_k0"]
    assert Path("roof.svg").read_text(encoding="utf-8").startswith("<svg")


def test_what_tune_finds_serves_programs_that_run_or_import_the_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "__init__.py").write_text("", encoding="utf-8")
    assert answer(capsys, "tune", "kernels.py:tuned", "x=8x5", "--effort", "full")["timed"] > 0
    names = {entry["kernel"] for entry in answer(capsys, "cache", "ls", "tuning")["entries"]}
    assert names >= {"tuning of __main__.doubled", "tuning of kernels.doubled", f"tuning of {folder.name}.kernels.doubled"}
    assert answer(capsys, "tune", "kernels.py:tuned", "x=8x5", "--effort", "full")["timed"] == 0
    assert answer(capsys, "tune", "kernels.py:doubled", "x=8x5", "--space", "rows=4,8", "--space", "rows=4,8", "--budget", "0")["possible"] == 2


MISTAKES: dict[tuple[str, ...], tuple[int, str]] = {
    ("run",): (1, "takes a script, a kernel, a PTO file or an artifact directory"),
    ("run", "nowhere.py"): (1, "there is no script nowhere.py"),
    ("run", "kernels.py:nothing"): (1, "has no kernel `nothing`"),
    ("run", "kernels.py:doubled", "y=3"): (1, "`y=3` names no parameter"),
    ("run", "kernels.py:doubled", "x=none.npy"): (1, "there is no file none.npy"),
    ("run", "kernels.py:wrong", "x=3x5"): (1, "inner"),
    ("tune", "kernels.py:doubled", "x=8x5"): (1, "is no autotuned kernel"),
    ("tune", "kernels.py:tuned", "x=8x5", "--space", "rows=4"): (1, "names its own candidates"),
    ("tune", "kernels.py:doubled", "x=8x5", "--space", "rows"): (1, "names no values"),
    ("bench", "kernels.py:doubled", "x=8x5", "--rounds", "0"): (1, "--rounds is at least 1"),
    ("bench", "kernels.py:doubled", "x=8x5", "--svg", "a.svg"): (1, "--svg is the roofline"),
    ("bench", "kernels.py:doubled", "x=8x5", "--peer", "kernels.py:pear"): (1, "has no function `pear`"),
}


@pytest.mark.parametrize("arguments", MISTAKES, ids=" ".join)
def test_a_mistake_is_named_on_stderr_or_in_json_with_help(arguments: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = MISTAKES[arguments]
    assert main(list(arguments)) == status
    said = capsys.readouterr()
    assert text in said.err and said.out == "" and "\x1b" not in said.err
    error = answer(capsys, *arguments, status=status)["error"]
    assert text in error["message"] and (error["help"] or error["place"])


def test_a_setting_that_makes_no_sense_is_status_2_and_an_unknown_one_a_warning(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_DEBUG", "9")
    assert main(["ops", "exp"]) == cli.MISUSED
    assert "TILEJIT_DEBUG='9': expected 0, 1, 2 or 3" in capsys.readouterr().err
    monkeypatch.delenv("TILEJIT_DEBUG")
    monkeypatch.setenv("TILEJIT_DEBIG", "1")
    monkeypatch.setattr("tilejit.runtime.config._warned", set())
    assert main(["ops", "exp"]) == cli.DONE
    assert "warning: TILEJIT_DEBIG is set, but tilejit has no such setting; did you mean TILEJIT_DEBUG?" in capsys.readouterr().err
    assert {"what": "TILEJIT_DEBIG", "text": "there is no such setting", "help": "did you mean TILEJIT_DEBUG?"} in answer(capsys, "doctor")["machine"]


def test_ctrl_c_and_a_command_line_that_makes_no_sense_have_statuses_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("tilejit.tools.ops.run", stopped)
    assert main(["ops"]) == cli.INTERRUPTED == 130
    with pytest.raises(SystemExit) as ended:
        main(["dmeo"])
    assert ended.value.code == cli.MISUSED


def test_colours_are_for_terminals_that_want_them(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["run", "nowhere.py"]) == 1
    assert "\x1b[1m" in capsys.readouterr().err
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert main(["run", "nowhere.py"]) == 1
    assert "\x1b" not in capsys.readouterr().err
