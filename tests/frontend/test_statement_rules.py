"""Each rule of the statement tables: what is accepted reads back equal from its own text, what is not is named."""

from __future__ import annotations

import textwrap
import warnings

import pytest

import tilejit.ir as ir
import tilejit.language as pl
from tilejit.errors import TilejitError

X = "x: pl.Tensor[[16, 32], pl.FP32]"
OUT = "out: pl.Out[pl.Tensor[[16, 32], pl.FP32]]"
FLAGS = "f: pl.Tensor[[4], pl.INT32]"

PROGRAM = """
import tilejit.language as pl

@pl.program
class Rules:
    @pl.function(type=pl.FunctionType.InCore)
    def k(self, a: pl.Tensor[[16, 32], pl.FP32], o: pl.Out[pl.Tensor[[16, 32], pl.FP32]]) -> pl.Tensor[[16, 32], pl.FP32]:
        o = pl.store(pl.add(pl.load(a, [0, 0], [16, 32]), 1.0), [0, 0], o)
        return o

    @pl.function(type=pl.FunctionType.InCore)
    def flags(self, o: pl.Out[pl.Tensor[[4], pl.INT32]]) -> pl.Tensor[[4], pl.INT32]:
        pl.write(o, [0], pl.const(1, pl.INT32))
        return o

    @pl.function(type=pl.FunctionType.Orchestration{options})
    def main(self, {params}) -> pl.Tensor[[16, 32], pl.FP32]:
{body}
        return out
"""

AT = "with pl.at(level=pl.Level.CORE_GROUP"
BLOCK = "\n    out = self.k(x, out)"
WRITE = "\n    out[:] = x"


def parse(body: str, params: str = f"{X}, {OUT}", options: str = "") -> ir.Program:
    program = pl.parse(PROGRAM.format(params=params, options=options, body=textwrap.indent(body, " " * 8)))
    assert not isinstance(program, ir.Function)
    return program


ACCEPTED = [
    "with pl.spmd(4):" + BLOCK,
    "with pl.spmd(core_num=4, sync_start=True, allow_early_resolve=False, name_hint='blocks'):" + BLOCK,
    f"with pl.spmd(4):\n    {AT}):\n        out[:] = x",
    "with pl.spmd(4):\n    i = pl.tile.get_block_idx()\n    out[4 * i:4 * i + 4] = x[4 * i:4 * i + 4]",
    f"{AT}) as first:{WRITE}\nwith pl.spmd(4, deps=[first, None]) as second:{BLOCK}",
    "with pl.cluster(name_hint='pair'):" + BLOCK,
    "with pl.manual_scope():" + BLOCK,
    "with pl.scope(mode=pl.ScopeMode.MANUAL):" + BLOCK,
    "with pl.at(level=pl.Level.HOST, role=pl.Role.Orchestrator):" + BLOCK,
    f"{AT}, optimizations=[pl.split(pl.SplitMode.UP_DOWN), pl.cross_core_slot(slot_num=4)], no_dep_args=[x], dumps=[x], windowize=True) as t:{WRITE}",
    "out, tid = pl.submit(self.k, x, out, predicate=0 < f[0])",
    "out, tid = pl.submit(self.k, x, out, predicate=pl.read(f, [1]) == -3)",
    "g, made = pl.submit(self.flags)\nout, tid = pl.submit(self.k, x, out, deps=[made], predicate=g[0] > 0)",
    "out, tid = pl.spmd_submit(self.k, x, out, core_num=4, sync_start=True, predicate=f[2] != 7)",
    "with pl.spmd(4, predicate=f[0] > 0):" + BLOCK,
]


@pytest.mark.parametrize("body", ACCEPTED)
def test_what_the_tables_allow_reads_back_equal(body: str) -> None:
    program = parse(body, f"{X}, {FLAGS}, {OUT}")
    ir.assert_structural_equal(program, pl.parse(program.as_python()))


REFUSED = [
    ("with pl.spmd(4):" + WRITE, "nothing in it asks for the block index"),
    ("with pl.spmd(4):" + BLOCK + BLOCK, "starts one kernel"),
    (f"{AT}) as t:{WRITE}\nwith pl.spmd(4, deps=[t]):{BLOCK}", "`deps` of pl.spmd needs a task id of its own"),
    (f"{AT}) as t:{WRITE}\nfor i in pl.spmd(4, deps=[t]):{BLOCK}", "`deps` of pl.spmd belongs to its `with` form"),
    ("with pl.spmd(4, sync_start=3):" + BLOCK, "`sync_start` is True or False, got 3"),
    ("with pl.cluster(mode=3):" + BLOCK, "pl.cluster has no parameter `mode`"),
    ("with pl.manual_scope(3):" + BLOCK, "pl.manual_scope takes 0 arguments, got 1"),
    ("with pl.scope(mode='manual'):" + BLOCK, "`mode` takes a pl.ScopeMode"),
    ("with pl.scope():" + BLOCK, "an automatic pl.scope in a function that is one itself"),
    ("with pl.at(level=pl.Level.HOST, role=3):" + BLOCK, "`role` takes a pl.Role, got 3"),
    (f"{AT}, allow_early_resolve=1):{WRITE}", "`allow_early_resolve` is True or False, got 1"),
    (f"{AT}, dumps=[3]):{WRITE}", "`dumps` lists tensors, got 3"),
    (f"{AT}, no_dep_args=x):{WRITE}", "`no_dep_args` must be a list"),
    (f"{AT}, deps=[3]):{WRITE}", "`deps` takes task ids, got 3"),
    (
        f"{AT}, optimizations=[pl.split(pl.SplitMode.UP_DOWN)]):\n    for l in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):\n        out[:] = x",
        "pl.split_aiv in a region that pl.split divides",
    ),
    ("out[:] = x\npl.func_attr({'a': 1})", "pl.func_attr comes first in a function"),
    ("pl.func_attr({'a': 1})\npl.func_attr({'a': 1})\nout[:] = x", "function attribute `a` is given twice"),
    ("open('x')\nout[:] = x", "plain `open` in a kernel"),
    ("out, t = pl.submit(self.k, x, out, predicate=x[0, 0] > 0)", "`predicate` must read a tensor of signed integers"),
    ("out, t = pl.submit(self.k, x, out, predicate=f[0] > 0 and f[1] > 0)", "`predicate` must be one comparison"),
    ("out, t = pl.submit(self.k, x, out, predicate=f[0] > f[1])", "compare one element of a tensor with an integer literal"),
    ("out, t = pl.submit(self.k, x, out, predicate=True)", "`predicate` must be one comparison, got True"),
    ("g, made = pl.submit(self.flags)\nout, t = pl.submit(self.k, x, out, predicate=g[0] > 0)", "a submitted task that is not in `deps`"),
    ("out, t = pl.submit(self.k, x, out, deps=3)", "`deps` must be a list, got 3"),
]


@pytest.mark.parametrize(("body", "message"), REFUSED)
def test_what_the_tables_forbid_is_named(body: str, message: str) -> None:
    with pytest.raises(TilejitError) as caught:
        parse(body, f"{X}, {FLAGS}, {OUT}")
    assert message in caught.value.message
    assert caught.value.span is not None


def test_scopes_are_placed_by_hand_where_the_function_has_none() -> None:
    program = parse("with pl.scope():" + BLOCK, options=", auto_scope=False")
    ir.assert_structural_equal(program, pl.parse(program.as_python()))


def test_a_parameter_is_named_bare_in_the_attributes_of_its_function() -> None:
    program = parse("'''Doc.'''\npl.func_attr({'a': 1})\npl.func_attr({'b': [x, 2]})\nout = self.k(x, out)")
    text = program.as_python()
    assert "'b': [x, 2]" in text and "'a': 1" in text
    ir.assert_structural_equal(program, pl.parse(text))


def test_an_array_cannot_cross_into_a_function() -> None:
    with pytest.raises(TilejitError, match="on-core array, which cannot cross"):
        parse("out[:] = x", f"{X}, s: pl.Array[4, pl.INT32], {OUT}")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.NONE, slot_num=2)]):", "slot_num"),
        ("with pl.at(level=pl.Level.CORE_GROUP, split=pl.SplitMode.UP_DOWN):", "split"),
        ("with pl.at(level=pl.Level.CORE_GROUP, optimization=pl.split(pl.SplitMode.UP_DOWN)):", "optimization"),
        ("for i in pl.range(1, chunk=4):", "chunk"),
        ("for i in pl.parallel(1, chunk=4, chunk_policy='even'):", "chunk_policy"),
    ],
)
def test_options_of_earlier_versions_are_taken_with_one_warning(line: str, name: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        parse(f"for _ in pl.range(2):\n    {line}\n        out[0, 0] = 1.0")
    deprecated = [str(warning.message) for warning in caught if issubclass(warning.category, DeprecationWarning)]
    assert sum(f"`{name}` of pl." in message for message in deprecated) == 1
