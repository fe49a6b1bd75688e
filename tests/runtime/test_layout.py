"""The object layouts that native calls rely on are tried on the running interpreter, and a wrong one turns them off."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from tilejit.runtime.call import bindings, layout

pytestmark = pytest.mark.skipif(not layout.supported(), reason="native calls are not supported on this interpreter")


@pytest.mark.parametrize("check", layout._CHECKS, ids=lambda check: check.__name__.strip("_"))
def test_the_layouts_hold_here(check: object) -> None:
    assert callable(check) and check()


@pytest.mark.parametrize(
    ("offset", "wrong", "check"),
    [
        ("_MA_VERSION", 16, layout._dicts),
        ("_MA_VALUES", 16, layout._attributes),
        ("_SPLIT_VALUES_AT", bindings._SPLIT_VALUES_AT ^ 8, layout._instances),
        ("_MANAGED_DICT_AT", -16, layout._instances),
        ("_TP_FLAGS", 160, layout._objects),
        ("_TP_GETATTRO", 40, layout._objects),
        ("_TP_VERSION_TAG", 376, layout._classes),
        ("_FUNCTION_FIELDS", (48, 64, 56), layout._functions),
        ("FLOAT_VALUE_AT", 8, layout._arrays),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_offset_that_leads_elsewhere_is_noticed(monkeypatch: pytest.MonkeyPatch, offset: str, wrong: object, check: object) -> None:
    monkeypatch.setattr(bindings, offset, wrong)
    assert callable(check)
    try:
        held = check()
    except (ValueError, OverflowError, TypeError):  # what stands there is no such thing at all
        held = False
    assert not held


class _Named:
    def __init__(self) -> None:
        self.alpha, self.beta = object(), object()


@pytest.mark.parametrize("name", ["alpha", "gamma"])
@pytest.mark.parametrize("instance", [True, False])
def test_words_keep_what_they_look_into(name: str, instance: bool) -> None:
    """What lay where something else lies now would pass for it: names that were parsed, the names that instances of a class have."""
    names = vars(_Named()) if instance else {"".join(list(text)): object() for text in ("alpha", "beta")}
    key = next(iter(names))
    before = sys.getrefcount(names), sys.getrefcount(key)
    words = bindings.binding_words(names, name)
    kept = sys.getrefcount(names) > before[0], sys.getrefcount(key) > before[1]
    assert words and kept == (True, name == "alpha" and not instance)


def test_names_of_a_class_that_lie_where_those_of_another_lay() -> None:
    """Libraries for settings make a class for each file that they read."""

    def load(name: str) -> dict[str, object]:
        read = type("Read", (), {})()
        setattr(read, name, 1)
        holder.__dict__ = vars(read)
        return vars(holder)

    class Holder: ...

    holder = Holder()
    for _ in range(20):
        words = bindings.binding_words(load("gamma"), "alpha") or []
        where = bindings.dict_pointer(holder, vars(holder)) or []
        holder.__dict__ = {}
        gc.collect()
        load("alpha")
        assert where and words and layout._changed([*where, *words])


def test_a_dict_that_an_instance_may_change_past_it_has_no_version() -> None:
    assert bindings.dict_words(vars(_Named())) is None and bindings.dict_words(dict(vars(_Named()))) is not None


UNKNOWN = """
from tilejit.runtime.call import layout
layout.VERSIONS.clear()
import numpy as np
import tilejit.language as pl

@pl.jit
def double(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + x

assert not layout.supported()
x = np.random.default_rng(1).standard_normal((5, 7), dtype=np.float32)
for _ in range(4):
    out = np.full_like(x, np.nan)
    double(x, out)
    assert np.array_equal(out, x + x)
print("python path")
"""


def test_an_interpreter_that_nobody_knows_takes_the_python_path(tmp_path: Path) -> None:
    script = tmp_path / "unknown.py"
    script.write_text(UNKNOWN)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.stdout == "python path\n", done.stderr
