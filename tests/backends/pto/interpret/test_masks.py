"""Masks have one layout per architecture, the same for every op: padded rows on A2/A3, bits without a gap on A5."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.pto.harness import NDArray, Text, run_text

RNG = np.random.default_rng(20261115)
DTYPES = {"f32": np.float32, "i32": np.int32, "f16": np.float16, "i16": np.int16, "i8": np.int8, "bf16": ml_dtypes.bfloat16}
CARRIERS = {"ui8": np.uint8, "i8": np.int8, "i16": np.int16, "ui32": np.uint32}
SHAPES = ((32, 32), (4, 16), (3, 13), (1, 40), (12, 40), (5, 1))


def data(shape: tuple[int, int], element: str) -> NDArray:
    return RNG.integers(-3, 4, shape).astype(DTYPES[element])


def packed(bits: NDArray, arch: str, shape: tuple[int, int], element: str) -> NDArray:
    """The mask tile as the page says it: bit by bit."""
    size = np.dtype(CARRIERS[element]).itemsize
    out = np.zeros(shape[0] * shape[1] * size, np.uint8)
    for (row, col), bit in np.ndenumerate(bits):
        place = row * bits.shape[1] + col if arch == "a5" else row * shape[1] * size * 8 + col
        out[place // 8] |= np.uint8(int(bit) << (place % 8))
    return out.view(CARRIERS[element]).reshape(shape)


@pytest.mark.parametrize("arch", ["a3", "a5"])
@pytest.mark.parametrize("valid", SHAPES)
@pytest.mark.parametrize(("element", "carrier"), [("f32", "ui8"), ("i32", "i16"), ("f16", "ui32"), ("i8", "i8"), ("bf16", "ui8")])
def test_what_a_comparison_writes_a_selection_reads(arch: str, valid: tuple[int, int], element: str, carrier: str) -> None:
    if arch == "a3" and element in ("i8", "bf16"):
        element = "f32"
    selected = "i16" if element == "bf16" else element
    shape, mask = (valid[0] + 2, valid[1] + 3), (valid[0] + 1 if arch == "a3" else -(-valid[0] * valid[1] // 256), 32)
    text = Text(arch)
    types = {name: text.tile(name, shape, element, valid) for name in "ab"}
    types |= {name: text.tile(name, shape, selected, valid) for name in "xyd"}
    types["m"] = text.tile("m", mask, carrier)
    text.lines.append(f"pto.tcmp ins(%a, %b {{cmpMode = #pto<cmp lt>}} : {types['a']}, {types['b']}) outs(%m : {types['m']})")
    text.lines.append(f"pto.tsel ins(%m, %x, %y, %y : {types['m']}, {types['x']}, {types['y']}, {types['y']}) outs(%d : {types['d']})")
    text.store("m", types["m"], mask, carrier)
    text.store("d", types["d"], valid, selected)
    a, b, x, y, d = (data(valid, element if name in "ab" else selected) for name in "abxyd")
    m = RNG.integers(0, 99, mask).astype(CARRIERS[carrier])
    run_text(str(text), a, b, x, y, d, m, native=True)
    np.testing.assert_array_equal(m, packed(a < b, arch, mask, carrier))
    np.testing.assert_array_equal(d, np.where(a < b, x, y))


@pytest.mark.parametrize("arch", ["a3", "a5"])
@pytest.mark.parametrize("valid", SHAPES)
def test_masks_from_memory_choose_between_a_tile_and_a_number(arch: str, valid: tuple[int, int]) -> None:
    mask = (valid[0], 32)
    text = Text(arch)
    types = {"a": text.tile("a", valid, "f32"), "d": text.tile("d", valid, "f32"), "m": text.tile("m", mask, "ui8"), "n": text.tile("n", mask, "ui8")}
    text.lines.append("%s = arith.constant 1.500000e+00 : f32")
    text.lines.append(f"pto.tsels ins(%m, %a, %a, %s : {types['m']}, {types['a']}, {types['a']}, f32) outs(%d : {types['d']})")
    text.lines.append(f"pto.tcmps ins(%a, %s {{cmpMode = #pto<cmp ge>}} : {types['a']}, f32) outs(%n : {types['n']})")
    text.store("d", types["d"], valid, "f32")
    text.store("n", types["n"], mask, "ui8")
    a, d, bits, n = data(valid, "f32"), data(valid, "f32"), RNG.integers(0, 2, valid).astype(bool), np.full(mask, 7, np.uint8)
    run_text(str(text), a, d, packed(bits, arch, mask, "ui8"), n, native=True)
    np.testing.assert_array_equal(d, np.where(bits, a, np.float32(1.5)))
    np.testing.assert_array_equal(n, packed(a >= 1.5, arch, mask, "ui8"))
