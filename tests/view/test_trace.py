"""The page of a compile: complete without a browser, usable in one, also for a compile that failed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tests.view import browser
from tilejit import RunConfig
from tilejit.backends.cpu.target import PASSES
from tilejit.errors import InternalError
from tilejit.passes import pipeline
from tilejit.tools.demo import load_example
from tilejit.view.record import GONE, NEW

EXAMPLE = Path(__file__).parents[2] / "examples" / "flash_attention.py"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Any:
    q = np.zeros((64, 32), np.float32)
    kernel = load_example(EXAMPLE).kernel
    assert isinstance(kernel, pl.JITFunction)
    return kernel.trace(q, q, q, q.copy(), path=tmp_path_factory.mktemp("trace") / "page.html")


def test_the_record_has_every_step_with_lines_that_lead_to_the_source(trace: Any) -> None:
    record = trace.record
    assert [step.name for step in record.steps] == ["front end", *(step.name for step in PASSES)]
    source = record.sources[0]
    product = [line for line in record.steps[-1].lines if " matmul(" in line.text and line.mark != GONE]
    assert len(product) == 2 and all("pl.matmul" in source.lines[line.line - source.first] for line in product)
    assert record.steps[0].ops["matmul"] == 2
    outlined = next(step for step in record.steps if step.name == "outline").lines
    assert any(line.mark == NEW and line.text.startswith("func flash_attention_k0") for line in outlined) and any(line.mark == GONE for line in outlined)
    assert {"specialised source", "schedule", "ll", "opt.ll", "s"} <= record.texts.keys()
    assert "vfmadd" in record.texts["s"] or "fmla" in record.texts["s"]


@pytest.mark.triton
def test_a_compile_for_a_gpu_shows_schedule_source_and_code(tmp_path: Path) -> None:
    x = np.zeros((64, 128), np.float32)
    kernel = load_example(EXAMPLE.with_name("silu.py")).kernel
    assert isinstance(kernel, pl.JITFunction)
    texts = kernel.trace(x, x.copy(), path=tmp_path / "page.html", config=RunConfig(platform="cuda", arch="sm_90")).record.texts
    forms = {name.partition(".")[2] for name in texts}
    assert {"host.py", "py", "ttir", "ttgir", "ptx"} <= forms and '"warps"' in texts["schedule"]


def test_times_are_those_of_named_stages(trace: Any) -> None:
    times = dict(trace.record.times)
    assert {"front end", "load the target", "fuse", "write LLVM", "LLVM", "other"} <= times.keys()
    assert sum(seconds for _, seconds in trace.record.times) == pytest.approx(trace.record.seconds)


def test_tiles_that_live_at_once_lie_apart(trace: Any) -> None:
    lives = trace.record.memory
    assert {"tq", "tk", "tv", "s", "p"} <= {life.name for life in lives}
    for index, one in enumerate(lives):
        for other in lives[:index]:
            together = one.function == other.function and one.start <= other.end and other.start <= one.end
            assert not together or one.offset >= other.offset + other.bytes or other.offset >= one.offset + one.bytes


def test_the_page_is_one_small_file_that_asks_for_nothing(trace: Any) -> None:
    text = trace.path.read_text(encoding="utf-8")
    assert len(text) < 2_000_000
    assert not re.search(r"(?:src|href)=|@import|fetch\(|https?://(?!www\.w3\.org/2000/svg)", text.replace(json.dumps(trace.record.plain()), ""))
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, flags=re.DOTALL)
    assert data is not None and json.loads(data.group(1))["name"] == "flash_attention"
    assert "<iframe" in trace._repr_html_()


def test_a_compile_that_fails_is_shown_up_to_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @pl.jit
    def wrong(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out[:] = pl.matmul(x, x)

    @pl.jit
    def right(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out[:] = pl.exp(x)

    x = np.ones((3, 5), np.float32)
    record = wrong.trace(x, x, path=tmp_path / "wrong.html").record
    assert record.failed == "front end" and "pl.matmul(x, x)" in record.error
    assert any("pl.matmul(x, x)" in line for line in record.sources[0].lines)

    def broken(program: object) -> None:
        raise InternalError("a pass that fails")

    monkeypatch.setattr("tilejit.backends.cpu.target.PASSES", (*pipeline.LOWER, pipeline.Pass("broken", broken)))
    record = right.trace(x, path=tmp_path / "right.html").record
    assert (record.failed, [step.name for step in record.steps]) == ("broken", ["front end", *(step.name for step in pipeline.LOWER)])
    assert "a pass that fails" in record.error


def test_every_trace_compiles_anew(tmp_path: Path) -> None:
    @pl.jit
    def again(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out[:] = pl.exp(x)

    x = np.ones((3, 5), np.float32)
    again(x)
    for platform in ("cpu", "reference", "a5"):
        record = again.trace(x, path=tmp_path / "page.html", config=RunConfig(platform=platform)).record
        assert record.platform == platform and record.steps and not record.error
    assert len(again._cache) == 1


def test_the_command_writes_a_page_or_says_what_is_wrong(tmp_path: Path) -> None:
    def trace(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "tilejit", "trace", *arguments], capture_output=True, text=True, check=False, cwd=tmp_path)

    done = trace(f"{EXAMPLE}:flash_attention", *(f"{name}=64x32:FP32" for name in ("q", "k", "v", "out")))
    assert (done.returncode, done.stdout) == (0, "trace-flash_attention.html\n"), done.stderr
    assert (tmp_path / "trace-flash_attention.html").is_file()
    assert "did you mean `flash_attention`" in trace(f"{EXAMPLE}:flash_atention").stderr
    failed = trace(f"{EXAMPLE}:flash_attention", "q=64x32:FP33")
    assert failed.returncode == 1 and "q=64x128:FP32" in failed.stderr


@pytest.mark.skipif(browser.COMMAND is None, reason="needs chromium")
def test_clicks_keys_and_search_work_in_a_browser(trace: Any, tmp_path: Path) -> None:
    with browser.Browser(trace.path, tmp_path) as page:
        assert page.run("document.querySelector('#name').textContent") == "flash_attention"
        assert page.run("document.querySelectorAll('#tabs button').length") == len(trace.record.steps) + 3 + len(trace.record.texts)
        page.run("[...document.querySelectorAll('#left .row')].find(node => node.textContent.includes('pl.row_max')).click()")
        assert page.run("[...document.querySelectorAll('#view .lit')].some(node => node.textContent.includes('row_max('))")
        page.run("[...document.querySelectorAll('#view .linked')].find(node => node.textContent.includes('= exp(')).click()")
        assert "pl.exp" in page.run("document.querySelector('#left .lit').textContent")
        for _ in range([step.name for step in trace.record.steps].index("outline")):
            page.press("j")
        assert page.run("document.querySelector('#tabs .on').textContent").startswith("outline")
        assert page.run("document.querySelectorAll('#view .new').length") > 5
        assert page.run("getComputedStyle(document.querySelector('#view .gone')).display") == "none"
        page.press("d")
        assert page.run("getComputedStyle(document.querySelector('#view .gone')).display") == "block"
        page.press("/")
        for key in "matmul":
            page.press(key)
        found = page.run("document.querySelector('#found').textContent")
        assert found == f"{page.run('document.querySelectorAll(`.hit`).length')} lines" and int(found.split()[0]) >= 4
        page.press("Escape")
        before = page.run("getComputedStyle(document.body).backgroundColor")
        page.press("t")
        assert page.run("getComputedStyle(document.body).backgroundColor") != before
        for title, wanted in (("memory", "svg rect"), ("times", ".bar"), ("ops", "td.number"), ("s", ".row")):
            page.run(f"[...document.querySelectorAll('#tabs button')].find(node => node.firstChild.textContent.trim() === '{title}').click()")
            assert page.run(f"document.querySelectorAll('#view {wanted}').length") > 3, title
        assert page.run("performance.getEntriesByType('navigation')[0].domComplete") > 0
