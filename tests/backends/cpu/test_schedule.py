"""A schedule is data: it is shown, it can be given back or replaced, and whatever it says the numbers stay the same."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import ir
from tilejit.errors import OptionError
from tilejit.runtime import RunConfig

Choices = Mapping[str, Mapping[str, object]]


@pl.jit
def softmax(x: pl.Tensor, out: pl.Out[pl.Tensor], sums: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(pl.row_expand_sub(x, pl.row_max(x)))
        out[:] = pl.row_expand_div(e, pl.row_sum(e))
        sums[:] = pl.col_sum(e)


@pl.jit
def product(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor], turned: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.matmul(a, b)
        turned[:] = pl.transpose(b, 0, 1)


RNG = np.random.default_rng(11)
X = RNG.standard_normal((37, 101)).astype(np.float32)
A, B = RNG.standard_normal((61, 83)).astype(np.float32), RNG.standard_normal((83, 147)).astype(np.float32)


def results(kernel: Any, choices: Choices) -> tuple[Any, list[Any]]:
    """The compiled program, and what it computes."""
    inputs = (X,) if kernel is softmax else (A, B)
    shapes = [X.shape, (1, X.shape[1])] if kernel is softmax else [(61, 147), (147, 83)]
    outputs = [np.full(shape, 7, np.float32) for shape in shapes]
    program = pl.parse(kernel.specialized_source(*inputs, *outputs))
    compiled = ir.compile(program, config=RunConfig(platform="cpu", schedule=choices))  # type: ignore[arg-type]
    compiled(*inputs, *outputs, config=RunConfig(num_threads=2))
    return compiled, outputs


def check(kernel: Any, choices: Choices) -> None:
    _, outputs = results(kernel, choices)
    if kernel is softmax:
        e = np.exp(X - X.max(1, keepdims=True), dtype=np.float64)
        expected = [e / e.sum(1, keepdims=True), e.sum(0, keepdims=True)]
    else:
        expected = [A.astype(np.float64) @ B, B.T]
    for got, right in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(got, right, rtol=2e-5, atol=2e-5, err_msg=str(choices))


def shown(kernel: Any) -> dict[str, dict[str, Any]]:
    return json.loads(results(kernel, {})[0].stage("schedule"))


@pytest.mark.parametrize("kernel", [softmax, product], ids=["softmax", "product"])
def test_the_stage_shows_every_choice_and_giving_it_back_changes_nothing(kernel: Any) -> None:
    ours = shown(kernel)
    wanted = {"softmax_k0/nest0"} if kernel is softmax else {"gemm FP32", "product_k0/transpose0"}
    assert wanted <= set(ours)
    before, after = (results(kernel, choices)[0].stage("ll") for choices in ({}, ours))
    assert before == after


RANGES: dict[str, tuple[Any, ...]] = {
    "lanes": (1, 2, 4, 8, 16, 32, 64), "middle": (1, 4, 8, 16), "recompute": (0, 3, 50), "stream_bytes": (0, 1), "prefetch_bytes": (0, 1),
    "threads": (True, False),
    "stretch": (16, 64, 4096), "rows": (2, 4, 6, 8, 14), "vectors": (1, 2, 4), "kc": (1, 16, 61, 256), "nc": (64, 256, 1024), "unroll": (1, 2, 4),
    "direct_n": (0, 256), "direct_k": (0, 256), "few_rows": (0, 8, 64), "few_dots": (0, 32), "tile_rows": (1, 48), "tile_columns": (1, 128),
    "shared_bytes": (1, 1 << 24), "pieces": (1, 3, 16), "stream_pieces": (1, 4), "least_columns": (1, 64, 256), "least_rows": (1, 120),
    "in_registers": (True, False), "deep_bytes": (1, 1 << 40), "large_elements": (1, 1 << 18), "large_few_rows": (0, 64), "asks": (True, False),
    "in_place": (True, False),
}  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kernel", [softmax, product], ids=["softmax", "product"])
def test_any_schedule_computes_the_same(kernel: Any, seed: int) -> None:
    rng = random.Random(seed)
    choices = {name: {key: rng.choice(RANGES.get(key, (value,))) for key, value in fields.items()} for name, fields in shown(kernel).items()}
    for fields in choices.values():
        if "mc" in fields:
            fields["mc"] = fields["rows"] * rng.choice((1, 5, 40))
    check(kernel, choices)


def test_a_choice_changes_the_code() -> None:
    code = {lanes: results(softmax, {"softmax_k0/nest0": {"lanes": lanes}})[0].stage("ll") for lanes in (8, 32)}
    assert "vm.exp.32" in code[32] and "vm.exp.32" not in code[8]


@pytest.mark.parametrize("in_place", [True, False])
def test_packed_rows_of_a_lie_known_distances_apart(in_place: bool) -> None:
    code = results(product, {"gemm FP32": {"direct_n": 0, "few_rows": 0, "in_place": in_place}})[0].stage("ll")
    kernel = code.partition("@gemm.micro.FP32(")[2].partition("\n}")[0]
    assert kernel and (kernel.count("%a_row") > 1) is in_place


def test_calls_with_other_schedules_are_other_specialisations() -> None:
    outputs = [np.zeros_like(X), np.zeros((1, X.shape[1]), np.float32)]
    softmax.cache_clear()
    for choices in ({}, {"softmax_k0/nest0": {"lanes": 8}}, {"softmax_k0/nest0": {"lanes": 8}}):
        softmax(X, *outputs, config=RunConfig(schedule=choices))
    assert len(softmax._cache) == 2


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"softmax_k0/nest0": {"width": 8}}, "has no width=8"),
        ({"softmax_k0/nest0": {"lanes": 12}}, "has no lanes=12"),
        ({"softmax_k0/nest0": {"threads": 1}}, "has no threads=1"),
        ({"softmax_k0/nest0": {"stretch": 0}}, "has no stretch=0"),
        ({"gemm FP32": {"mc": 241}}, "mc=241, no multiple of rows=6"),
        ({"gemm FP32": {"nc": 1000}}, "nc=1000, no multiple"),
        ({"gemm FP32": {"rows": 5, "mc": 240}}, "has no rows=5"),
        ({"gemm FP32": {"stream_depth": 1 << 20}}, "has no stream_depth=1048576"),
    ],
)
def test_a_choice_that_there_is_not_is_refused(choices: Choices, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        results(product if "gemm FP32" in choices else softmax, choices)


@pytest.mark.parametrize("text", ["lanes=8", "[1]", '{"kernel/nest0": 8}'])
def test_what_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="expected JSON of choices by nest"):
        RunConfig(schedule=text)


def test_names_of_other_programs_do_not_matter_to_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_SCHEDULE", '{"somebody/nest0": {"lanes": 8}}')
    check(softmax, {"somebody/nest0": {"lanes": 8}})
    monkeypatch.delenv("TILEJIT_SCHEDULE")
    with pytest.raises(OptionError, match="has no 'somebody/nest0'"):
        check(softmax, {"somebody/nest0": {"lanes": 8}})
