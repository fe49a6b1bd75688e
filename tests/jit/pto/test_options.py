"""What `@pto.jit` is told: kept as it was, whatever its class says later, and refused in words where it has no meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pto.test_jit import GM, KERNEL, arrays, declared
from tilejit import pto


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
