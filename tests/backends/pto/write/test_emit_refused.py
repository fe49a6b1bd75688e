"""What PTO text cannot say is refused with exactly the message in refused/, with file, line and caret; other platforms do not mind.

After a change of a message: `UPDATE_GOLDEN=1 pytest tests/backends/pto/write/test_emit_refused.py`, then read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import ir
from tilejit.errors import TilejitError
from tilejit.runtime.config import RunConfig


@pl.jit
def power(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.pow(pl.abs(x), x)


@pl.jit
def long_integers(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.cast(pl.mul(pl.cast(x, pl.INT64), 3), pl.FP32)


@pl.jit
def directed_rounding(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.cast(pl.cast(x, pl.FP16, mode="floor"), pl.FP32)


@pl.jit
def integer_product(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = pl.cast(x, pl.INT32)
        out[:] = pl.cast(pl.matmul(y, y), pl.FP32)


@pl.jit
def partial_stack(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(pl.reshape(x, [4, 8, 32]), [0, 0, 0], [4, 8, 32], valid_shape=[4, 3, 32])
        pl.store(pl.reshape(pl.tile.fillpad(t), [32, 32]), [0, 0], out)


@pl.jit
def bits(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.cast(pl.reinterpret_view(x, pl.INT32), pl.FP32)


@pl.jit
def random_on_old_cores(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.random(1, 2, 0, 0, 0, 0, [32, 32])
        out[:] = x + pl.cast(pl.reinterpret_view(r, pl.INT32), pl.FP32)


@pl.jit
def blocks_meet(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(2):
        pl.store(pl.load(x, [i * 16, 0], [16, 32]), [i * 16, 0], out)
        pl.system.syncall()


HERE = Path(__file__).parent
REFUSED: dict[str, Any] = {
    kernel.__name__: kernel
    for kernel in (power, long_integers, directed_rounding, integer_product, partial_stack, bits, random_on_old_cores, blocks_meet)
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_message_is_the_golden_one_and_belongs_to_this_output_only(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    x = np.random.default_rng(3).standard_normal((32, 32)).astype(np.float32)
    program = REFUSED[name].lower(x, x.copy())
    with pytest.raises(TilejitError) as caught:
        ir.compile(program, config=RunConfig(platform="a2a3"))
    error = caught.value
    assert error.span is not None and error.span.filename == __file__ and error.source_lines and error.hint
    shown = f"{type(error).__name__}: {error}\n".replace(__file__, "test_emit_refused.py")
    golden = HERE / "refused" / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(shown)
    assert shown == golden.read_text()
    ir.compile(program, config=RunConfig(platform="cpu"))


def test_every_golden_has_its_kernel() -> None:
    assert sorted(path.stem for path in (HERE / "refused").glob("*.txt")) == sorted(REFUSED)
