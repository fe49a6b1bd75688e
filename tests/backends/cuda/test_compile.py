"""Triton's stages run by us: cubins with their launch facts, and failures that are ours."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.backends.cuda.plans import ADD, ADD_KERNEL, PICK_KERNEL
from tests.patience import HANG
from tilejit.backends.cuda import compile as compiling
from tilejit.backends.cuda.compile import compile_all, compile_kernel
from tilejit.backends.cuda.plan import Kernel, Parameter
from tilejit.errors import PartialCodegenError, PlatformError

BAD = ADD_KERNEL.text.replace("tl.load(y + at, mask=inside)", "tl.load(y + at, mask=inside).nothing")
"""Triton's front end refuses it."""

BROKEN = """import triton
import triton.language as tl


@triton.jit
def broken(x):
    tl.store(x, tl.inline_asm_elementwise("no_such_instruction $0, $1;", "=r,r", [tl.load(x)], dtype=tl.int32, is_pure=True, pack=1))
"""


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Triton would write its cache here, and saved texts go here."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.mark.parametrize("arch", [80, 90])
def test_a_kernel_becomes_two_cubins_with_their_facts(arch: int, tmp_path: Path) -> None:
    ((general, aligned), (only,)) = compile_all([ADD_KERNEL, PICK_KERNEL], arch)
    assert general.code[:4] == aligned.code[:4] == only.code[:4] == b"\x7fELF"
    assert (general.aligned, aligned.aligned, only.aligned) == (False, True, False)
    assert aligned.facts.symbol == "add" and aligned.facts.warps == 4 and aligned.facts.shared == 0
    assert "ld.global.v4" in aligned.ptx and "ld.global.v4" not in general.ptx
    assert not (tmp_path / "triton").exists()


def test_every_stage_can_be_looked_at() -> None:
    cubin = compile_kernel(ADD_KERNEL, 90, aligned=True)
    assert "tt.load" in cubin.stage("ttir")
    assert "#blocked" in cubin.stage("ttgir")
    assert "define" in cubin.stage("llir")
    assert ".visible .entry add" in cubin.stage("ptx")
    assert "EXIT" in cubin.stage("sass")


DEEP = """import triton
import triton.language as tl


@triton.jit
def deep(x, y, out):
    i = tl.arange(0, 128)
    acc = tl.zeros((128, 128), tl.float32)
    for k in range(0, 1024, 128):
        acc = tl.dot(tl.load(x + i[:, None] * 1024 + k + i[None, :]), tl.load(y + (k + i)[:, None] * 128 + i[None, :]), acc)
    tl.store(out + i[:, None] * 128 + i[None, :], acc.to(tl.float16))
"""


@pytest.mark.parametrize(("arch", "stages"), [(86, 2), (90, 3)])
def test_as_many_stages_as_shared_memory_holds_and_ptxas_sees_no_others(arch: int, stages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[int, bool]] = []
    through = compiling._run  # pyright: ignore[reportPrivateUsage] # how far it comes is what is asked about

    def run(kernel: Kernel, *rest: Any) -> tuple[Any, dict[str, Any], str]:
        found = through(kernel, *rest)
        ran.append((kernel.num_stages, found[2] != ""))
        return found

    monkeypatch.setattr(compiling, "_run", run)
    kernel = Kernel("deep", DEEP, tuple(Parameter(name, "pointer", "*fp16", divisible=True) for name in ("x", "y", "out")), 8, 4)
    cubin = compile_kernel(kernel, arch, aligned=True)
    assert cubin.kernel.num_stages == stages and cubin.facts.shared <= compiling.shared_memory(arch)
    assert ran == [(more, more == stages) for more in range(4, stages - 1, -1)]


def test_large_tiles_are_multiplied_in_as_many_parts_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(kernel: Kernel, *rest: object) -> tuple[bytes, dict[str, object], str]:
        return b"", {"name": "k", "num_warps": 8, "shared": 500_000 // kernel.parts}, ""

    monkeypatch.setattr(compiling, "_run", run)
    found = [compile_kernel(replace(ADD_KERNEL, text=text, num_stages=2), arch, False).kernel for arch in (80, 90) for text in (ADD, f"PARTS = 1\n{ADD}")]
    assert [(kernel.num_stages, kernel.parts) for kernel in found] == [(1, 1), (1, 4), (1, 1), (1, 4)]


def test_options_reach_triton() -> None:
    cubin = compile_kernel(replace(ADD_KERNEL, num_warps=8, gang=2), 90, aligned=True)
    assert cubin.facts.warps == 8 and cubin.facts.cooperative


BROKEN_KERNEL = Kernel("broken", BROKEN, (Parameter("x", "pointer", "*i32"),))
"""ptxas does."""


@pytest.mark.parametrize(("kernel", "reason"), [(replace(ADD_KERNEL, text=BAD), "nothing"), (BROKEN_KERNEL, "ptxas")])
def test_what_triton_refuses_is_our_error_with_the_text_in_a_file(kernel: Kernel, reason: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PartialCodegenError, match=f"cannot compile kernel {kernel.name} for sm_90: .*") as caught:
        compile_kernel(kernel, 90, aligned=False)
    saved = Path(caught.value.files[0]).read_text()
    assert kernel.text in saved and reason in saved
    assert capfd.readouterr() == ("", "")


def test_what_other_threads_write_to_stderr_meanwhile_is_not_lost(capfd: pytest.CaptureFixture[str]) -> None:
    with compiling._Log():
        os.write(2, b"from elsewhere\n")
    assert capfd.readouterr().err == "from elsewhere\n"


def test_one_failure_among_others_leaves_the_terminal_clean(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        with contextlib.suppress(ZeroDivisionError), compiling._Log():
            os.write(2, b"the whole IR\n")
            raise ZeroDivisionError

    other, log = threading.Thread(target=fail), compiling._Log()
    with log:
        other.start()
        other.join()
    assert capfd.readouterr() == ("", "")
    assert "the whole IR" in log.text


def test_a_child_forked_meanwhile_has_its_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def compile_slowly() -> None:
        with compiling._Log():
            inside.set()
            go_on.wait(HANG)

    other = threading.Thread(target=compile_slowly)
    other.start()
    assert inside.wait(HANG)
    child = multiprocessing.get_context("fork").Process(target=os.write, args=(2, b"from the child\n"))
    child.start()
    child.join(HANG)
    said = capfd.readouterr().err
    go_on.set()
    other.join()
    assert said == "from the child\n"


def test_an_old_gpu_is_refused() -> None:
    with pytest.raises(PlatformError, match=r"kernels need compute capability 8.0 or newer, got 7.5"):
        compile_all([ADD_KERNEL], 75)
    with pytest.raises(PlatformError, match=r"kernel add needs compute capability 9.0 or newer, got 8.6"):
        compile_kernel(replace(ADD_KERNEL, least_capability=90), 86, aligned=False)


@pytest.mark.parametrize(("version", "reason"), [("3.1.0", "found 3.1.0"), ("4.0.1", "older than 4.0")])
def test_a_triton_whose_stages_we_do_not_know_is_refused(version: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triton.__version__", version)
    with pytest.raises(PlatformError, match=reason):
        compiling.check_triton.__wrapped__()


def test_without_triton_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "triton", None)
    with pytest.raises(PlatformError, match=r"(?s)Triton .*pip install 'tilejit\[cuda\]'"):
        compiling.check_triton.__wrapped__()
