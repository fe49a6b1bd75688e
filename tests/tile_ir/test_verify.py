"""The rules of the dialect: programs that keep them pass, every broken rule is found at its op."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import Rewriter

from tests.tile_ir.programs import CASES, FLOAT, INDEX_TYPE, Case, Code, block, program, tensor, tile
from tilejit.dtypes import BOOL, FP16, FP32, INDEX, INT8, INT32, UINT8
from tilejit.errors import SourceText, Span, VerificationError
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import function
from tilejit.tile_ir.verify import stores_as, verify
from tilejit.types.values import TileType, ValueType

Break = Callable[[Code, SSAValue, SSAValue], object]
"""Adds a broken op: gets a builder, a [4, 6] FP32 tensor and an INDEX scalar."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_correct_programs_pass(case: Case) -> None:
    verify(case.build())


def _loop(b: Code, n: SSAValue, handed: Callable[[Code], SSAValue]) -> None:
    body, c = block(INDEX_TYPE, INDEX_TYPE)
    c.yield_([handed(c)])
    b.for_(n, n, n, [n], body, [INDEX_TYPE])


def _branch(b: Code, condition: SSAValue, kinds: int) -> None:
    then, a = block()
    a.yield_([a.const(1)])
    orelse, e = block()
    e.yield_([e.const(2)] * kinds)
    b.if_(condition, then, orelse, [INDEX_TYPE])


def _wrong_types(b: Code, x: SSAValue) -> None:
    Rewriter.replace_value_with_new_type(b.op("add", "tensor", x, x), d.IRType(TileType((4, 5), FP32, (4, 5), "DDR")))


def _unended_loop(b: Code, n: SSAValue) -> None:
    body, c = block(INDEX_TYPE)
    c.const(1)
    b.for_(n, n, n, [], body, [])


BROKEN: dict[str, tuple[str, Break]] = {
    "const of another kind": ("no constant of type INT8", lambda b, x, n: b.const(300, INT8)),
    "flag as number": ("no constant of type BOOL", lambda b, x, n: b.const(1, BOOL)),
    "window rank": ("needs 2 offsets", lambda b, x, n: b.window(x, [n], [n], tensor(4))),
    "window dtype": ("is no", lambda b, x, n: b.window(x, [n, n], [n, n], tensor(4, 6, dtype=FP16))),
    "window drop": ("without dims", lambda b, x, n: b.window(x, [n, n], [n, n], tensor(4), drop=())),
    "load rank": ("needs 2 offsets", lambda b, x, n: b.load(x, [n], [n], tile(4))),
    "load dtype": ("cannot give", lambda b, x, n: b.load(x, [n, n], [n, n], tile(4, 6, dtype=FP16))),
    "store rank": ("needs 2 offsets", lambda b, x, n: b.store(x, x, [n])),
    "store float offsets": ("needs integers", lambda b, x, n: b.store(x, x, [n, b.const(1.0)])),
    "write dtype": ("needs 2 indices and a FP32", lambda b, x, n: b.write(x, [n, n], n)),
    "create extents": ("needs 1 extents, has 0", lambda b, x, n: b.create(tensor("M"), [])),
    "types of an op": ("add gives", lambda b, x, n: _wrong_types(b, x)),
    "yield of a loop": ("yielded values are", lambda b, x, n: _loop(b, n, lambda c: c.const(1.0))),
    "missing yield": ("must end in tile.yield", lambda b, x, n: _unended_loop(b, n)),
    "condition": ("is a BOOL", lambda b, x, n: _branch(b, n, 1)),
    "arms": ("yielded values are", lambda b, x, n: _branch(b, b.const(True), 2)),
    "unknown callee": ("has no function `nowhere`", lambda b, x, n: b.call("nowhere", [x], [])),
    "call arguments": ("`main` takes", lambda b, x, n: b.call("main", [n, x], [])),
    "call results": ("returns 0 values", lambda b, x, n: b.call("main", [x, n], [INDEX_TYPE])),
    "loop kind": ("unknown loop kind", lambda b, x, n: b.for_(n, n, n, [], _empty(INDEX_TYPE), [], kind="sideways")),
    "region argument": ("only a region with blocks", lambda b, x, n: b.region(_empty(INDEX_TYPE), [])),
}


def _empty(*types: ValueType) -> Block:
    body, c = block(*types)
    c.yield_([])
    return body


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_found_at_its_op(name: str) -> None:
    message, add = BROKEN[name]
    f, (x, n) = function("main", "incore", [("x", tensor(4, 6), "InOut"), ("n", INDEX_TYPE, "In")])
    b = Code(f.body.block)
    b.span = Span(SourceText("kernel.py"), 7, 3, 7, 9)
    add(b, x, n)
    b.return_([])
    with pytest.raises(VerificationError, match=message) as caught:
        verify(program(f))
    assert caught.value.span is not None and caught.value.span.line == 7


def test_a_value_used_before_it_is_made_is_found() -> None:
    f, (x, n) = function("main", "incore", [("x", tensor(4, 6), "InOut"), ("n", INDEX_TYPE, "In")])
    b = Code(f.body.block)
    sum_ = b.s("add", n, n)
    b.write(x, [sum_, sum_], b.const(1.0))
    b.return_([])
    made = sum_.owner
    made.detach()  # type: ignore[union-attr]
    f.body.block.insert_op_before(made, f.body.block.last_op)  # type: ignore[arg-type]
    with pytest.raises(VerificationError, match="before it is made"):
        verify(program(f))


@pytest.mark.parametrize("fact", ["kind", "params", "directions"])
def test_facts_of_a_function_are_checked(fact: str) -> None:
    f, _ = function("main", "incore", [("x", tensor(4), "In"), ("y", FLOAT, "In")])
    Code(f.body.block).return_([])
    f.attributes[fact] = d.Static({"kind": "unheard-of", "params": ("x", "x"), "directions": ("In", "Sideways")}[fact])
    with pytest.raises(VerificationError, match="main"):
        verify(program(f))


def test_an_op_that_the_table_lacks_is_found() -> None:
    f, (x,) = function("main", "incore", [("x", tensor(4), "In")])
    b = Code(f.body.block)
    b.op("neg", "tensor", x).owner.attributes["op"] = d.Static("negate_all")  # type: ignore[union-attr]
    b.return_([])
    with pytest.raises(VerificationError, match="negate_all"):
        verify(program(f))


def test_stores_convert_floats_and_widen_integers() -> None:
    assert stores_as(FP32, FP16) and stores_as(FP16, FP32) and stores_as(INT8, INT32) and stores_as(INDEX, INDEX)
    assert not stores_as(INT32, INT8) and not stores_as(UINT8, INT32) and not stores_as(FP32, INT32) and not stores_as(INT32, FP32)


def test_two_functions_of_one_name_are_refused() -> None:
    first, _ = function("main", "incore", [])
    second, _ = function("main", "incore", [])
    for f in (first, second):
        Code(f.body.block).return_([])
    second.attributes["sym_name"] = StringAttr("main")
    with pytest.raises(VerificationError):
        verify(program(first, second))
