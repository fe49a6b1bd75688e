"""What `@pto.jit` is told: kept as it was, whatever its class says later, and refused in words where it has no meaning."""

from __future__ import annotations

import copy
import functools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pto.test_jit import GM, KERNEL, arrays, declared
from tilejit import pto
from tilejit.errors import ArgumentError, OptionError, PtoSyntaxError


class Says(str):
    """A text that says it is another one, to whomever it asks."""

    def encode(self, *args: object, **named: object) -> bytes:
        return b"the same for all"

    def lower(self) -> str:
        return "nowhere"

    def lstrip(self, *args: object) -> str:
        return "no text of a module"

    def __contains__(self, part: object) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1

    def __repr__(self) -> str:
        return "the same for all"


def test_text_with_a_class_of_its_own_is_the_text_that_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path))
    for number in (2, 3):
        x, y = arrays()
        declared(Says(KERNEL.replace("2.000000e+00", f"{number}.000000e+00")))[1, None](x, y)
        np.testing.assert_array_equal(y, np.float32(number) * x)


@pytest.mark.parametrize("option", [{"mode": "fast"}, {"backend": "llvm"}])
def test_an_option_that_is_equal_to_everything_is_what_it_holds(option: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=f"unknown .* '{next(iter(option.values()))}'"):
        declared(KERNEL, **{name: Says(text) for name, text in option.items()})


def test_options_that_say_they_are_the_same_are_told_apart() -> None:
    first, second = (declared(KERNEL, kernel_kind=Says(kind)).compile() for kind in ("cube", "vector"))
    assert first.specialization_key != second.specialization_key and first.code.key.digest != second.code.key.digest


def test_the_space_of_a_pointer_is_what_it_holds() -> None:
    gm = pto.ptr(pto.f32, Says("GM"))

    @pto.jit(Says("scale2"), source=KERNEL)
    def kernel(src: GM, dst: gm) -> Any: ...  # type: ignore[valid-type]

    assert kernel.compile().ir_function_name == "scale2"


def test_text_that_is_no_unicode_is_an_error_in_the_text() -> None:
    with pytest.raises(PtoSyntaxError, match=r"the source of scale2 is no Unicode text: character 3 is '\\ud800', half of a pair of surrogates"):
        declared("// \ud800\n" + KERNEL).compile()


ODD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"kernel_kind": [1]}, ArgumentError, r"kernel_kind of scale2 \(.*test_jit.py:\d+\) is a text like \"vector\", got \[1\]"),
    ({"target": [1]}, OptionError, r"unknown target \[1\] of scale2 \(.*test_jit.py:\d+\): it is one of a2, a3, a2a3, a5"),
    ({"target": "zz"}, OptionError, "unknown target 'zz'"),
    ({"target": None}, OptionError, "unknown target None"),
    ({"mode": [1]}, OptionError, r"unknown mode \[1\]"),
    ({"backend": np.zeros(3)}, OptionError, "unknown backend array"),
    ({"insert_sync": np.zeros(3)}, ArgumentError, "insert_sync of scale2 .* is True, False or None"),
    ({"entry": [1]}, ArgumentError, r"entry of scale2 .* is True or False, got \[1\]"),
    ({"name": 3}, ArgumentError, "the name of .* is the text of a symbol, got 3"),
    ({"frontend_options": {"rewrite_part": [[1]]}}, OptionError, r"rewrite_part is {'control_flow'}, got \[\[1\]\]"),
]


@pytest.mark.parametrize(("option", "error", "message"), ODD, ids=lambda value: next(iter(value)) if isinstance(value, dict) else "")
def test_options_of_odd_types_are_errors_of_ours(option: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        declared(KERNEL, **option)


@pytest.mark.parametrize("target", ["a2", "a3", "a2a3", "a5", "A5"])
def test_targets_are_the_names_of_architectures(target: str) -> None:
    text = KERNEL.replace(' attributes {pto.target_arch = "a3"}', "")
    assert declared(text, target=target).compile().program.file.arch == ("a5" if target.lower() == "a5" else "a3")


class Unhashable(int):
    __hash__ = None  # type: ignore[assignment]


def test_a_grid_of_a_class_of_its_own_is_the_number_that_it_holds() -> None:
    compiled = declared(KERNEL).compile()
    assert compiled[Unhashable(2), None] is compiled[2, None]


@pytest.mark.parametrize("odd", [int, functools.partial(print)])
def test_only_functions_are_decorated(odd: Any) -> None:
    with pytest.raises(ArgumentError, match=f"decorates a function, whose signature is the ABI, got {type(odd).__name__}"):
        pto.jit(source=KERNEL)(odd)


def test_what_is_compiled_is_its_own_copy_and_has_no_pickle() -> None:
    compiled = declared(KERNEL).compile()
    for held in (compiled, compiled[1, None]):
        assert copy.copy(held) is copy.deepcopy(held) is held
        with pytest.raises(ArgumentError, match="scale2, compiled, cannot be pickled"):
            pickle.dumps(held)
