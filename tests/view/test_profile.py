"""`kernel.profile`: regions with what they count, the verdict about them, the roofline."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.view import profile as profiles
from tilejit.view.limits import Limits
from tilejit.view.profile import Part, Profile

ROOF = Limits(10e9, 40e9, 100e9, "FP32", 1 << 20)
X = np.random.default_rng(1).standard_normal((256, 64)).astype(np.float32)


@pl.jit
def steps(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows = pl.dynamic("ROWS")
    x.bind_dynamic(0, rows)
    out.bind_dynamic(0, rows)
    half = pl.create_tensor([256, 64], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        half[:] = pl.exp(x) * 0.5
    for i in pl.parallel(4):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.load(half, [i * 64, 0], [64, 64]) + 1.0, [i * 64, 0], out)
    for j in pl.spmd(8):
        out = pl.store(pl.load(out, [j * 32, 0], [32, 64]) * 3.0, [j * 32, 0], out)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Profile:
    monkeypatch.setattr(profiles, "limits", lambda *_: ROOF)
    out = np.empty_like(X)
    found = steps.profile(X, out, rounds=3)
    np.testing.assert_allclose(out, 3 * (np.exp(X) * 0.5 + 1), rtol=1e-5)
    return found


def test_every_region_is_counted_with_its_operations_and_bytes(measured: Profile) -> None:
    size = X.size
    assert [(part.name, part.calls, part.operations, part.bytes) for part in measured.parts] == [
        ("steps_k0", 1, 2 * size, 2 * X.nbytes),
        ("steps_k1", 4, size, 2 * X.nbytes),
        ("steps_k2", 1, size, X.nbytes),
    ]
    assert all(part.seconds > 0 for part in (measured.whole, *measured.parts))
    assert measured.whole.operations == 4 * size
    names = [name for name, _ in measured.passes]
    assert names.index("outline") < names.index("fuse") < names.index("LLVM")


def test_a_profile_is_a_table_a_picture_and_json(measured: Profile) -> None:
    assert [row[0] for row in measured.cells()] == ["", "whole call", "steps_k0", "steps_k1", "steps_k2"]
    picture = ElementTree.fromstring(measured.svg())
    texts = {str(element.text) for element in picture.iter() if element.tag.endswith("text")}
    assert {"steps_k0", "whole call", "operations per byte", "GFLOP/s"} <= texts
    assert json.loads(json.dumps(measured.as_json()))["limits"]["memory"] == 10e9
    assert "<svg" in measured._repr_html_() and "LLVM" in str(measured)


@pytest.mark.parametrize(
    ("part", "verdict"),
    [
        (Part("a", 1e-3, 1, 1000, 5 << 20), "memory: 52% of 10.0 GB/s"),
        (Part("b", 1e-4, 1, 1000, 1 << 20), "caches: 26% of 40.0 GB/s"),
        (Part("c", 1e-3, 1, 50_000_000, 1 << 20), "arithmetic: 50% of 100 GFLOP/s"),
        (Part("d", 1e-3, 1, None, 5 << 20), "memory: 52% of 10.0 GB/s"),
        (Part("e", 1e-3, 1, 10, None), "–"),
    ],
)
def test_what_a_part_waits_for_follows_from_the_limits(part: Part, verdict: str) -> None:
    assert part.bound(ROOF) == verdict


def test_the_limits_of_this_machine_are_numbers_that_make_sense(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilejit.dtypes import FP32
    from tilejit.view import limits

    monkeypatch.setattr(limits, "cache_bytes", lambda: (1 << 10, 1 << 16, 1 << 10))
    limits._limits.cache_clear()
    found = limits.limits(None, "cpu", FP32)
    assert found is limits.limits(None, "cpu", FP32), "measured once"
    limits._limits.cache_clear()
    assert found.memory > 0 and found.caches > 0 and found.arithmetic > 0
    assert found.roof(found.memory, 1e9) == found.arithmetic and found.roof(found.memory, 1e-9) == pytest.approx(found.memory * 1e-9)
