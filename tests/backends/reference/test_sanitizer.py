"""The sanitizer finds every planted mistake at its line, and nothing in kernels that are right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilejit.language as pl
from tests.backends.reference import planted
from tests.suite.harness import Case
from tests.suite.test_suite import CASES
from tilejit import RunConfig
from tilejit.errors import OutOfBoundsError, SanitizerError
from tilejit.jit.function import JITFunction
from tilejit.tools.demo import TOLERANCE, cases, load_example

SANITIZE = RunConfig(platform="sanitize")
LINES = Path(planted.__file__).read_text(encoding="utf-8").splitlines()
EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize(("kernel", "words"), planted.BUGS, ids=[kernel.__name__ for kernel, _ in planted.BUGS])
def test_a_planted_mistake_is_found_at_its_line(kernel: JITFunction, words: str) -> None:
    x = planted.data()
    with pytest.raises((SanitizerError, OutOfBoundsError)) as caught:
        kernel(x, np.zeros_like(x), config=SANITIZE)
    span = caught.value.span
    assert span is not None and LINES[span.line - 1].endswith("# here"), str(caught.value)
    assert words in caught.value.message
    assert "^^^" in str(caught.value) and caught.value.hint


def test_there_are_more_than_twenty() -> None:
    assert len({kernel.__name__ for kernel, _ in planted.BUGS}) >= 20


@pytest.mark.parametrize("case", CASES[::40])
def test_the_suite_has_no_findings(case: Case) -> None:
    """A sample; all of it: make sanitize."""
    case.check("sanitize")


@pytest.mark.parametrize("name", ["paged_attention", "ragged_tail"])
def test_examples_have_no_findings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_SANITIZE", "1")
    for case in cases(load_example(EXAMPLES / f"{name}.py"), seed=7):
        case.call()
        assert case.error() <= TOLERANCE


@pl.jit
def nearly_wrong(x: pl.Tensor, total: pl.Out[pl.Tensor], out: pl.Out[pl.Tensor]):
    """What looks like the planted mistakes and is right."""
    scratch = pl.create_tensor([8, 16], pl.FP32)
    for b in pl.spmd(8):
        pl.store(pl.load(x, [b, 0], [1, 16]), [b, 0], scratch)
        pl.system.syncall()
        pl.store(pl.load(scratch, [(b + 7) % 8, 0], [1, 16]), [b, 0], out)
    for i in pl.parallel(8):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.load(x, [i, 0], [1, 16]), [0, 0], total, atomic=pl.AtomicType.Add)
    with pl.at(level=pl.Level.CORE_GROUP):
        unset = pl.create_tile([8, 16], pl.FP32)
        chosen = pl.where(pl.load(x, [0, 0], [8, 16]) < 1e9, pl.load(out, [0, 0], [8, 16]), unset)
        part = pl.load(x, [0, 0], [8, 16], valid_shape=[5, 16])
        pl.store(pl.add(chosen, pl.set_validshape(pl.fillpad(part), 8, 16)), [0, 0], out)
        pl.store(pl.mul(unset, 0.0), [0, 0], scratch)


def test_what_never_reaches_anybody_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    x = planted.data()
    expected = np.roll(x, 1, axis=0) + np.where(np.arange(8)[:, None] < 5, x, 0)
    for setting in ("0", "1"):
        monkeypatch.setenv("TILEJIT_SANITIZE", setting)
        total, out = np.zeros((1, 16), np.float32), np.zeros_like(x)
        nearly_wrong(x, total, out)
        np.testing.assert_allclose(total[0], x.sum(axis=0), rtol=1e-5)
        np.testing.assert_allclose(out, expected, rtol=1e-6)


@pl.jit
def two_mistakes(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        unset = pl.create_tile([4, 16], pl.FP32)
        pl.store(pl.exp(unset), [0, 0], out)
        pl.store(pl.neg(unset), [4, 0], out)
        start = pl.cast(pl.read(x, [0, 0]), pl.INDEX) + 6
        pl.store(pl.load(x, [0, 0], [4, 16]), [start, 0], out)


def test_one_run_reports_every_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_SANITIZE", "1")
    x = planted.data()
    with pytest.raises(SanitizerError) as caught:
        two_mistakes(x, np.zeros_like(x))
    found = [(type(one).__name__, one.message) for one in caught.value.findings]
    assert [text.split()[0] for _, text in found] == ["exp", "neg", "store"]
    assert found[2][0] == "OutOfBoundsError"
    assert all(text in str(caught.value) for _, text in found)


@pl.jit
def copied_in_order(x: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor]):
    """Tensors copied to tensors as they should be."""
    scratch = pl.create_tensor([8, 16], pl.FP32)
    spare = pl.create_tensor([4, 16], pl.FP32)
    scratch[4:] = spare
    scratch[0] = x[0]
    scratch[1:] = scratch[:7]
    out[0] = scratch[1]
    for i in pl.range(1, 8):
        out[i] = out[i - 1]
    for i in pl.parallel(4):
        x[2 * i] = x[2 * i + 1]
        pl.print(out[i, 0], x[2 * i])


def test_copies_from_tensor_to_tensor_that_are_right_are_no_finding(capfd: pytest.CaptureFixture[str]) -> None:
    x, out = planted.data(), np.zeros((8, 16), np.float32)
    before = x.copy()
    copied_in_order(x, out, config=SANITIZE)
    np.testing.assert_array_equal(out, np.repeat(before[:1], 8, axis=0))
    np.testing.assert_array_equal(x, np.repeat(before[1::2], 2, axis=0))
    assert capfd.readouterr().out.count("[") == 4


@pl.jit
def bytes_of_a_scratch(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        scratch = pl.create_tensor([8, 16], pl.FP32)
        halves = pl.reinterpret_view(scratch, pl.INT16)
        words = pl.reinterpret_view(x, pl.INT16)
        for i in pl.range(8):
            pl.store(pl.load(words, [i, 0], [1, 30]), [i, 0], halves)
        out[:] = pl.add(scratch, 0.0)


def test_views_of_other_types_share_the_shadow() -> None:
    """Two of the 32 words of each row are never written: the last number of each row holds nothing."""
    x = planted.data()
    with pytest.raises(SanitizerError, match=r"add reads cells of `scratch` before they are written: the first is \[0, 15\]"):
        bytes_of_a_scratch(x, np.zeros_like(x), config=SANITIZE)
