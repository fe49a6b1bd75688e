"""The way from a call to an artifact on disk: trees of questions that heal, that nothing from disk is believed of, and that do not grow without end."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tilejit.errors import ArtifactError, TilejitWarning
from tilejit.jit.disk import kernels as disk
from tilejit.jit.disk import stores
from tilejit.jit.reads import facts, manifest
from tilejit.runtime.store import entry as entries
from tilejit.runtime.store.entry import CacheEntry

X = np.ones((2, 3), np.float32)
ADD = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + float({expression})
    return out
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEJIT_PLATFORM", "cpu")
    return tmp_path / "cache"


def called(kernel: Any) -> float:
    out = np.empty_like(X)
    kernel(X, out)
    return float(out[0, 0])


def trees() -> list[CacheEntry]:
    return [entry for entry in disk.entries() if disk.is_manifest(entry)]


def test_a_lost_manifest_heals_without_generating_code(make_kernel: MakeKernel) -> None:
    text = "N = 3\n" + ADD.format(expression="N")
    assert called(make_kernel(text)) == 4.0
    (tree,) = trees()
    disk.store().remove(tree.key)
    kernel = make_kernel(text)
    assert called(kernel) == 4.0
    assert kernel.cache_info().loaded == 1 and kernel.cache_info().compile_seconds == 0.0
    assert len(trees()) == 1


def test_answers_share_a_tree_and_each_leads_to_its_own_artifact(make_kernel: MakeKernel) -> None:
    for value in (3, 4, 3, 5, 4):
        assert called(make_kernel(f"N = {value}\n" + ADD.format(expression="N"))) == value + 1
    (tree,) = trees()
    assert len(manifest.read(tree.sections[disk.TREE])) == 3


PLANTED = [
    '["call",["builtin","open"],["tuple","/tmp/x"],["dict"]]', '["call",["#",0],3,4]', '["name",["#",0],"secret"]', '["exec",["#",0]]', '["attr",["#",99],"k"]',
    '["name",7,"N"]', '["operator","Exec",["#",0]]', "not JSON", '["name"]', '["item",["#",0]]', '["call",["pl","pl.jit"],["tuple"],["dict"]]',
]  # fmt: skip


@pytest.mark.parametrize("question", PLANTED)
def test_a_planted_question_is_not_asked(question: str, make_kernel: MakeKernel) -> None:
    text = "N = 3\n" + ADD.format(expression="N")
    assert called(make_kernel(text)) == 4.0
    (tree,) = trees()
    row = manifest.read(tree.sections[disk.TREE])[0]
    planted = manifest.Row(row.key, ((question, "1"), *row.log))
    disk.store().put(CacheEntry(tree.key, tree.fields, {disk.TREE: manifest.written([planted])}))
    stores._store.cache_clear()
    with pytest.warns(TilejitWarning, match="cannot be used"):
        assert called(make_kernel(text)) == 4.0
    again = make_kernel(text)
    assert called(again) == 4.0 and again.cache_info().loaded == 1, "and the tree is made anew"


def test_a_question_with_another_answer_each_time_is_given_up(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("TILEJIT_LOG", "recompile")
    for value in range(manifest.MAX_ANSWERS + 2):
        assert called(make_kernel(f"N = {value}\n" + ADD.format(expression="N % 2 + N * 0"))) == 1 + value % 2
    (tree,) = trees()
    assert len(manifest.read(tree.sections[disk.TREE])) == manifest.MAX_ANSWERS
    assert "has another answer each time" in capsys.readouterr().err


def test_a_question_whose_answers_were_of_use_is_kept(make_kernel: MakeKernel) -> None:
    for value in (0, 0, *range(1, manifest.MAX_ANSWERS + 3)):
        assert called(make_kernel(f"N = {value}\n" + ADD.format(expression="N % 2 + N * 0"))) == 1 + value % 2
    (tree,) = trees()
    assert len(manifest.read(tree.sections[disk.TREE])) == manifest.MAX_ANSWERS + 3


def test_of_too_many_leaves_the_least_recently_hit_go(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "MAX_LEAVES", 4)
    for value in (1, 2, 3, 4, 1, 2, 5, 1, 6, 2, 7, 1):
        assert called(make_kernel(f"N = {value}\n" + ADD.format(expression="N"))) == value + 1.0
        (tree,) = trees()
        rows = manifest.read(tree.sections[disk.TREE])
        assert len(rows) <= 4
    answers = [answer for row in rows for question, answer in row.log if '"N"' in question]
    assert answers == ["6", "2", "7", "1"], "1 and 2 were hit again and again, 3, 4 and 5 never"
    again = make_kernel("N = 3\n" + ADD.format(expression="N"))
    assert called(again) == 4.0 and again.cache_info().compile_seconds == 0.0, "its artifact is still there"


def test_run_only_names_the_question_whose_answer_is_unknown(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "N = {value}\n" + ADD.format(expression="N")
    assert called(make_kernel(text.format(value=3))) == 4.0
    monkeypatch.setenv("TILEJIT_RUN_ONLY", "1")
    assert called(make_kernel(text.format(value=3))) == 4.0
    with pytest.raises(ArtifactError, match="forbids") as caught:
        called(make_kernel(text.format(value=4)))
    assert "`N` is 4, and only 3 is known" in str(caught.value)
    with pytest.raises(ArtifactError, match="forbids") as caught:
        called(make_kernel(text.format(value=4.5)))
    assert "`N` is 4.5, and only 3 is known" in str(caught.value)


def test_entries_of_older_versions_are_misses_that_are_written_anew(make_kernel: MakeKernel, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "N = 3\n" + ADD.format(expression="N")
    with monkeypatch.context() as older:
        older.setattr(entries, "FORMAT", entries.FORMAT - 1)
        assert called(make_kernel(text)) == 4.0
    stores._store.cache_clear()
    with pytest.warns(TilejitWarning, match="format"):
        kernel = make_kernel(text)
        assert called(kernel) == 4.0
    assert kernel.cache_info().loaded == 0
    again = make_kernel(text)
    assert called(again) == 4.0 and again.cache_info().loaded == 1


MODULE = "import tilejit.language as pl\n@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = x + {value}.0\n"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path / "replaced_kernel.py"
    sys.modules.pop("replaced_kernel", None)
    facts.keep()


def test_a_reload_of_a_file_of_equal_size_and_time_is_read_anew(module: Path) -> None:
    module.write_text(MODULE.format(value=3))
    os.utime(module, (1_000_000_000, 1_000_000_000))
    loaded: Any = importlib.import_module("replaced_kernel")
    assert called(loaded.kernel) == 4.0
    module.write_text(MODULE.format(value=4))
    os.utime(module, (1_000_000_000, 1_000_000_000))
    assert called(importlib.reload(loaded).kernel) == 5.0


def test_a_file_replaced_by_an_older_one_is_not_taken_for_the_kernel(module: Path) -> None:
    module.write_text(MODULE.format(value=3))
    loaded: Any = importlib.import_module("replaced_kernel")
    older = module.with_suffix(".old")
    older.write_text(MODULE.format(value=4))
    os.utime(older, (900_000_000, 900_000_000))
    older.replace(module)
    assert called(loaded.kernel) == 4.0


def test_a_link_that_was_turned_is_not_taken_for_the_kernel(module: Path) -> None:
    first, second = module.with_name("first.txt"), module.with_name("second.txt")
    for path, value in ((first, 3), (second, 4)):
        path.write_text(MODULE.format(value=value))
        os.utime(path, (900_000_000, 900_000_000))
    module.symlink_to(first)
    loaded: Any = importlib.import_module("replaced_kernel")
    module.unlink()
    module.symlink_to(second)
    assert called(loaded.kernel) == 4.0


def test_the_artifact_itself_says_what_was_asked(make_kernel: MakeKernel) -> None:
    assert called(make_kernel("N = 3\n" + ADD.format(expression="N"))) == 4.0
    (artifact,) = (entry for entry in disk.entries() if disk.ASKED in entry.sections)
    rows = [line.split("\t") for line in artifact.sections[disk.ASKED].decode().split("\n")]
    assert [answer for question, answer in rows if json.loads(question)[-1] == "N"] == ["3"]
    assert artifact.fields["reads"] == {"global `N`": "3"}, "builtins are no news"
