"""Names of the language are frozen, and say so."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import tilejit.language as pl

NAMED: dict[str, Any] = {"pl.exp": pl.exp, "pl.tile.load": pl.tile.load, "pl.range": pl.range, "pl.FP32": pl.FP32, "pl.RUNTIME": pl.RUNTIME}


@pytest.mark.parametrize("attribute", ["zz", "name", "__doc__"])
@pytest.mark.parametrize("name", NAMED)
def test_who_sets_or_deletes_an_attribute_is_told_whose_it_is(name: str, attribute: str) -> None:
    with pytest.raises(AttributeError, match=f"^{name} is part of the language and frozen: `{attribute}` cannot be set; keep it in an object of your own$"):
        setattr(NAMED[name], attribute, 3)
    with pytest.raises(AttributeError, match=f"^{name} is part of the language and frozen: `{attribute}` cannot be deleted$"):
        delattr(NAMED[name], attribute)


def test_they_are_copied_and_pickled_all_the_same() -> None:
    for value in (pl.range, pl.FP32, pl.RUNTIME):
        assert copy.copy(value) == value
        assert pickle.loads(pickle.dumps(value)) == value
