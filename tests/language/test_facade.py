"""`import tilejit.language as pl`: every name is found when it is used, and what it is."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from tilejit import dtypes
from tilejit.errors import InvalidOperationError
from tilejit.types import annotations as spelled
from tilejit.types import enums
from tilejit.types.scopes import MARKERS

language = import_module("tilejit.language")


def loaded_by(code: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_language_reads_no_table() -> None:
    modules = loaded_by("import tilejit.language")
    assert {name for name in modules if name.startswith("tilejit")} == {"tilejit", "tilejit.language", "tilejit.types", "tilejit.types.groups"}
    assert "numpy" not in modules


def test_defining_a_kernel_needs_neither_ops_nor_a_compiler() -> None:
    modules = loaded_by("import tilejit.language as pl\n@pl.jit\ndef f(x: pl.Tensor[[2, 2], pl.FP32], out: pl.Out[pl.Tensor]): pass")
    assert not {"xdsl", "llvmlite", "torch", "tilejit.compiler", "tilejit.backends", "tilejit.passes", "tilejit.tile_ir"} & modules


def test_data_types_enums_and_markers_are_the_objects_of_their_tables() -> None:
    assert language.FP32 is dtypes.FP32
    assert language.Level is enums.Level
    assert language.range is MARKERS["range"]
    assert language.Tensor is spelled.Tensor
    assert language.RUNTIME is spelled.RUNTIME


def test_second_names_mean_the_first() -> None:
    assert language.Mem is language.MemorySpace
    assert language.DN is enums.TensorLayout.DN
    assert language.TaskId == spelled.ScalarAnnotation(dtypes.TASK_ID)


def test_namespaces_hold_their_own_spellings() -> None:
    assert repr(language.tile.full) == "pl.tile.full"
    assert repr(language.tensor.dim) == "pl.tensor.dim"
    assert language.tile.MaskPattern is enums.MaskPattern
    assert "full" in dir(language.tile)
    assert repr(language.tile) == "pl.tile"


def test_names_are_looked_up_once() -> None:
    assert language.exp is language.exp
    assert "exp" in vars(language)


@pytest.mark.parametrize(("owner", "name", "close"), [(language, "row_summ", "row_sum"), (language.tile, "fulll", "full"), (language, "Tensr", "Tensor")])
def test_a_misspelt_name_is_answered_with_the_closest_one(owner: object, name: str, close: str) -> None:
    with pytest.raises(AttributeError, match=f"has no `{name}`; did you mean `{close}`"):
        getattr(owner, name)


def test_ops_and_markers_have_no_meaning_outside_a_kernel() -> None:
    for name in ("add", "range", "at"):
        with pytest.raises(InvalidOperationError, match=rf"pl\.{name} has no meaning outside a kernel"):
            getattr(language, name)(1, 2)


def test_dir_lists_what_can_be_used() -> None:
    names = set(dir(language))
    assert {"jit", "program", "Tensor", "FP32", "add", "range", "tile", "Mem"} <= names
    assert all(hasattr(language, name) for name in names)
