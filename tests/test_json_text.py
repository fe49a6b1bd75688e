"""JSON from writers that are made once is what `json` writes."""

from __future__ import annotations

import json

import pytest

from tilejit.json_text import writer

TREE = {"a": [1, -2, 1 << 70, True, False, None, 0.1, 1e300, -0.0], "β\n\"": {"": [], "x": {}, "surrogate": "\udc80"}, "1": ("tuple", "é")}


def test_the_text_is_that_of_json() -> None:
    assert writer()(TREE) == json.dumps(TREE)
    assert writer(",", ":")(TREE) == json.dumps(TREE, separators=(",", ":"))
    assert [writer()(value) for value in ("text", 3, None, float("inf"))] == ['"text"', "3", "null", "Infinity"]


def test_what_json_refuses_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        writer(allow_nan=False)([float("nan")])
    with pytest.raises(TypeError, match="Object of type set is not JSON serializable"):
        writer()([set()])


def test_without_a_native_writer_the_usual_one_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("json.encoder.c_make_encoder", None)
    assert writer(",", ":")(TREE) == json.dumps(TREE, separators=(",", ":"))
