"""Structural equality and hash."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects.builtin import StringAttr

from tests.tile_ir.programs import CASES, Case, Code, block, program, ragged, tensor, tile
from tilejit import ir
from tilejit import language as pl
from tilejit.dtypes import FP16, FP32, INDEX, INT32
from tilejit.errors import SourceText, Span
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import function
from tilejit.tile_ir.equal import assert_structural_equal, structural_equal, structural_hash
from tilejit.tile_ir.program import Program
from tilejit.types.values import ScalarType, TileType


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_program_equals_itself_built_again(case: Case) -> None:
    first, second = case.build(), case.build()
    assert_structural_equal(first, second)
    assert structural_hash(first) == structural_hash(second)


def test_different_programs_differ() -> None:
    programs = {case.build.__name__: case.build() for case in CASES}
    hashes = [structural_hash(item) for item in programs.values()]
    assert len(set(hashes)) == len(hashes)
    first, *others = programs.values()
    assert not any(structural_equal(first, other) for other in others)


def small(
    op: str = "sub",
    swap: bool = False,
    offset: int = 0,
    scale: int | float = 2.0,
    scale_type: Any = FP32,
    names: tuple[str, str] = ("x", "out"),
    symbol: str = "M",
    clamp: bool = False,
    kind: str = "orchestration",
    early: bool = False,
    space: str = "Vec",
    direction: str = "Out",
    dtype: Any = FP32,
) -> Program:
    """out[0:4] = (x[0:4] - y) * scale, with one thing to vary at a time."""
    f, (x, out) = function("main", kind, [(names[0], tensor(symbol, 6, dtype=dtype), "In"), (names[1], tensor(symbol, 6, dtype=dtype), direction)])
    b = Code(f.body.block)
    region, r = block()
    if early:
        constant = r.const(scale, scale_type)
    type = tile(4, 6, dtype=dtype)
    t = r.load(x, [r.const(offset), r.const(0)], [r.const(4), r.const(6)], TileType(type.shape, type.dtype, type.valid, space), clamp)
    e = r.op("exp", "tile", t)
    if not early:
        constant = r.const(scale, scale_type)
    v = r.op(op, "tile", *((e, t) if swap else (t, e)))
    r.store(r.op("mul", "tile", v, constant), out, r.zeros(2))
    r.yield_([])
    b.region(region, [])
    b.return_([out])
    return program(f)


@pytest.mark.parametrize(
    "change",
    [
        {"op": "add"},
        {"swap": True},
        {"offset": 1},
        {"scale": 3.0},
        {"scale": 2, "scale_type": INDEX},
        {"scale": 2, "scale_type": INT32},
        {"scale_type": FP16},
        {"clamp": True},
        {"kind": "opaque"},
        {"space": "Mat"},
        {"direction": "InOut"},
        {"dtype": FP16},
    ],
    ids=str,
)
def test_any_change_of_meaning_is_a_difference(change: dict[str, Any]) -> None:
    assert not structural_equal(small(), small(**change))
    assert structural_hash(small()) != structural_hash(small(**change))


@pytest.mark.parametrize("change", [{"names": ("a", "b")}, {"symbol": "ROWS"}, {"early": True}], ids=str)
def test_names_and_the_place_of_constants_do_not_matter(change: dict[str, Any]) -> None:
    assert_structural_equal(small(), small(**change))
    assert structural_hash(small()) == structural_hash(small(**change))


def test_spans_hints_and_comments_do_not_matter() -> None:
    other = small()
    for op in other.module.walk():
        op.attributes["span"] = d.SpanAttr(Span(SourceText("k.py"), 1, 1, 1, 2))
        op.attributes["hint"] = StringAttr("name")
        op.attributes["comment"] = d.Static(("a comment",))
    assert_structural_equal(small(), other)


def test_symbols_are_matched_one_to_one() -> None:
    def two(first: str, second: str) -> Program:
        f, (_, out) = function("main", "incore", [("x", tensor(first, 4), "In"), ("out", tensor(second, 4), "Out")])
        Code(f.body.block).return_([out])
        return program(f)

    assert structural_equal(two("M", "N"), two("A", "B"))
    assert not structural_equal(two("M", "N"), two("A", "A"))
    assert not structural_equal(two("M", "M"), two("A", "B"))


def test_the_order_of_stores_matters() -> None:
    def stores(swap: bool) -> Program:
        f, (x, y, out) = function("main", "incore", [("x", tensor(4), "In"), ("y", tensor(4), "In"), ("out", tensor(4), "Out")])
        b = Code(f.body.block)
        for source in (y, x) if swap else (x, y):
            b.store(source, out, [b.const(0)])
        b.return_([out])
        return program(f)

    assert not structural_equal(stores(False), stores(True))


def test_functions_are_matched_by_name() -> None:
    def part(name: str) -> d.FuncOp:
        f, (x,) = function(name, "incore", [("x", tensor(4), "InOut")])
        b = Code(f.body.block)
        b.store(b.op("neg" if name == "a" else "abs", "tensor", x), x, [b.const(0)])
        b.return_([x])
        return f

    assert structural_equal(program(part("a"), part("b")), program(part("b"), part("a")))
    with pytest.raises(AssertionError, match="only the second program has a function `b`"):
        assert_structural_equal(program(part("a")), program(part("a"), part("b")))


def test_a_difference_is_told_in_words_with_its_place() -> None:
    changed = small(offset=1)
    load = next(op for op in changed.module.walk() if isinstance(op, d.LoadOp))
    load.attributes["span"] = d.SpanAttr(Span(SourceText("kernel.py"), 12, 5, 12, 9))
    place = r"function `main` differs at body\[0\]\.region\.body\[0\]\.load \(step \d+\)"
    with pytest.raises(AssertionError, match=place + r":\n.*tile.load.*\n.*tile.load.*kernel.py:12:5"):
        assert_structural_equal(small(), changed)


def test_a_difference_deep_inside_has_its_path() -> None:
    def nested(op: str) -> object:
        return pl.parse(
            "@pl.function(type=pl.FunctionType.InCore)\ndef main(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):\n"
            "    for i in pl.range(3):\n        t = pl.load(x, [i, 0], [4, 16])\n        if x[0, 0] > 1.0:\n            pass\n        else:\n"
            f"            pl.store(pl.{op}(t, 2.0), [i, 0], out)"
        )

    with pytest.raises(AssertionError, match=r"function `main` differs at body\[0\]\.for\.body\[\d\]\.if\.else\[0\]\.apply"):
        ir.assert_structural_equal(nested("add"), nested("mul"))  # type: ignore[arg-type]


def test_a_longer_program_is_a_difference() -> None:
    def calls(count: int) -> Program:
        f, (x,) = function("main", "incore", [("x", tensor(4), "InOut")])
        b = Code(f.body.block)
        for _ in range(count):
            b.effect("print", [x])
        b.return_([])
        return program(f)

    with pytest.raises(AssertionError, match=r"differs at body\[1\]\.return \(step 2\)"):
        assert_structural_equal(calls(1), calls(2))


def test_carried_values_keep_their_order() -> None:
    def swapped(order: Callable[[Any, Any], tuple[Any, Any]]) -> Program:
        index = ScalarType(INDEX)
        f, (x, n) = function("main", "incore", [("x", tensor(4, dtype=INT32), "InOut"), ("n", index, "In")])
        b = Code(f.body.block)
        body, c = block(index, index, index)
        c.yield_(order(body.args[1], body.args[2]))
        loop = b.for_(b.const(0), n, b.const(1), [b.const(1), b.const(2)], body, [index, index])
        b.write(x, [loop.results[0]], b.s("cast", loop.results[1], target_type=INT32))
        b.return_([x])
        return program(f)

    assert not structural_equal(swapped(lambda a, b: (a, b)), swapped(lambda a, b: (b, a)))


def test_the_hash_is_the_same_in_another_process() -> None:
    code = "from tests.tile_ir.programs import ragged; from tilejit.tile_ir.equal import structural_hash; print(structural_hash(ragged()))"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env={"PYTHONPATH": "src:.", "PYTHONHASHSEED": "7"})
    assert int(found.stdout) == structural_hash(ragged())


COUNTED = """
import tilejit.language as pl
@pl.program
class p:
    @pl.function
    def main(self, x: pl.Tensor[[8], pl.INT32], out: pl.Out[pl.Tensor[[9], pl.INT32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
{lines}
            out[:] = pl.full([9], dtype=pl.INT32, value=1)
"""
FORMS = {
    "nothing": [],
    "clipped": ["a = pl.bincount(pl.clip(x, 0, 8), 9)"],
    "as it is": ["a = pl.bincount(x, 9)"],
    "used by what is not used": ["a = pl.bincount(x, 9) + 1"],
}


def test_what_may_fail_counts_though_nobody_uses_it() -> None:
    programs: dict[str, Any] = {name: pl.parse(COUNTED.format(lines="\n".join(f"            {line}" for line in lines))) for name, lines in FORMS.items()}
    equal = [(one, other) for one in FORMS for other in FORMS if one < other and structural_equal(programs[one], programs[other])]
    assert equal == [("as it is", "used by what is not used")]
