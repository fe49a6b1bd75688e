"""What is chosen for kernels of a GPU: shown as data, replaced on demand, refused where code cannot follow, and tuned."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilejit.language as pl
from tests.runtime.cuda.fake import FakeLibrary, Launched, install
from tilejit.backends.base import CompileOptions
from tilejit.backends.cuda import plan
from tilejit.backends.cuda.lower import lower
from tilejit.backends.cuda.schedule import pieces_of, product_of
from tilejit.backends.cuda.text.types import padded
from tilejit.dtypes import BF16, INT8
from tilejit.errors import OptionError
from tilejit.jit.function import JITFunction
from tilejit.jit.tune.space import Choice
from tilejit.passes import pipeline
from tilejit.runtime import DeviceArray
from tilejit.tile_ir.program import Program

Given = dict[str, dict[str, object]]


@pl.jit
def doubled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 2.0


@pl.jit
def product(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(a, b)


@pl.jit
def own_blocks(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for b in pl.spmd(4):
        pl.store(pl.load(x, [b * 16, 0], [16, 64]), [b * 16, 0], out)


SIDE = np.zeros((64, 64), np.float16)


def planned(kernel: JITFunction, schedule: Given, *arguments: np.ndarray) -> plan.Program:
    program = pl.parse(kernel.specialized_source(*arguments))
    assert isinstance(program, Program)
    return lower(pipeline.run_pipeline(program, pipeline.FUSED), CompileOptions(schedule=json.dumps(schedule)))


@pytest.mark.parametrize(
    ("kernel", "name", "given", "inside"),
    [
        (doubled, "doubled_k0/rows0", {"rows": 8, "warps": 2, "stages": 2}, "tl.arange(0, 8)"),
        (product, "product_k0/product0", {"rows": 32, "columns": 16, "inner": 16, "warps": 2, "stages": 5}, "range(0, 64, 16)"),
        (own_blocks, "own_blocks_k0/block0", {"warps": 8, "stages": 1}, "tl.arange(0, 16)"),
    ],
    ids=["rows", "product", "blocks"],
)
def test_what_was_chosen_is_shown_and_what_is_asked_for_is_followed(kernel: JITFunction, name: str, given: dict[str, object], inside: str) -> None:
    arguments = [SIDE] * len(kernel.definition.params)
    ours = json.loads(planned(kernel, {}, *arguments).schedules())
    assert list(ours) == [name] and {**ours[name], **given} != ours[name]
    made = planned(kernel, {name: given}, *arguments)
    assert json.loads(made.schedules()) == {name: {**ours[name], **given}}
    (used,) = made.kernels
    assert (used.num_warps, used.num_stages) == (given["warps"], given["stages"]) and inside in used.text


@pytest.mark.parametrize(
    ("kernel", "schedule", "said"),
    [
        (doubled, {"doubled_k0/rows0": {"rows": 3}}, "the schedule of 'doubled_k0/rows0' has no rows=3"),
        (doubled, {"doubled_k0/rows0": {"warps": 64}}, "has no warps=64"),
        (doubled, {"doubled_k0/rows0": {"lanes": 4}}, "has no lanes=4"),
        (doubled, {"doubled_k0/rows0": {"columns": 16}}, "has columns=16, but holds rows whole"),
        (doubled, {"doubled_k0/rows0": {"rows": 2048}}, "holds 131072 cells at once"),
        (product, {"product_k0/product0": {"rows": 8}}, "has no rows=8"),
        (product, {"product_k0/product0": {"precision": "tf32"}}, "has no precision='tf32'"),
        (own_blocks, {"own_blocks_k0/block0": {"stages": 0}}, "has no stages=0"),
    ],
)
def test_what_code_cannot_follow_is_refused(kernel: JITFunction, schedule: Given, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        planned(kernel, schedule, *[SIDE] * len(kernel.definition.params))


NAME = "tuned_k0/rows0"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeLibrary:
    """Doubles 8 × 64 numbers, wrongly with 16 warps."""
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path))

    def run(launched: Launched) -> None:
        x, out = launched.floats(0, 512), launched.floats(1, 512)
        out[:] = [value * (3 if launched.threads == 16 * 32 else 2) for value in x]

    return install(monkeypatch, FakeLibrary(parameters=4, kernels={"tuned_k0": run}))


def test_blocks_warps_and_stages_are_tuned_and_wrong_candidates_rejected(gpu: FakeLibrary) -> None:
    seconds = {4: 2.0, 16: 1.0}
    asked: list[int] = []

    def clock(choice: Choice, run: Callable[[], None]) -> float:
        run()
        asked.append(gpu.launches[-1].threads // 32)
        return seconds[asked[-1]] + gpu.launches[-1].grid[0]

    @pl.autotune(schedule={NAME: {"warps": [4, 16], "rows": [2, 8]}}, timer=clock, effort="full", progress=False)
    @pl.jit
    def tuned(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * 2.0

    x = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)
    found = tuned.tune(DeviceArray.of(x))
    assert dict(found.best.schedule[NAME]) == {"warps": 4, "rows": 8}
    assert all(("warps=16" in str(row)) == ("wrong result" in str(row)) for row in found.rows) and len(found.rows) == 4
    before = len(asked)
    np.testing.assert_array_equal(tuned(DeviceArray.of(x)).numpy(), 2 * x)
    assert (gpu.launches[-1].threads, gpu.launches[-1].grid) == (128, (1, 1, 1)) and len(asked) == before
    assert json.loads(tuned.compile(DeviceArray.of(x)).stage("schedule"))[NAME]["warps"] == 4


def test_tiles_of_products_of_few_rows_fit_into_shared_memory_and_fill_the_gpu_as_far_as_they_can() -> None:
    for rows, columns, inner, (dtype, read) in itertools.product(
        (1, 16, 17, 64), (33, 64, 1024, 11008, 32000), (16, 100, 2816, 11264), ((BF16, BF16), (BF16, INT8), (INT8, INT8))
    ):
        chosen = product_of(rows, inner, columns, 1, dtype, True, read)
        held = chosen.stages * chosen.inner * (chosen.rows * dtype.get_byte() + chosen.columns * read.get_byte())
        assert held <= 160 << 10 and chosen.rows >= rows and chosen.columns <= max(32, padded(columns)), (rows, columns, inner, dtype, read, chosen)
        assert chosen.columns == 32 or -(-columns // chosen.columns) >= 99, "wide blocks only where there are enough of them"
    tall = product_of(4096, 4096, 64, 1, BF16, True, BF16)
    assert pieces_of(64, 4096, tall) == 2 and pieces_of(200, 1 << 20, tall) == 1, "along K only what leaves processors idle is cut"
