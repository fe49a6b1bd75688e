"""Code belongs to the settings in its key, whatever the environment says by the time it is made."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import tilejit.language as pl
from tests.jit.conftest import MakeKernel
from tilejit import config, pto
from tilejit.backends.cpu.executable import dispatcher_blob
from tilejit.backends.cpu.llvm.host import host
from tilejit.compiler import compile_program
from tilejit.errors import OptionError, OutOfBoundsError
from tilejit.jit.disk import pieces
from tilejit.jit.pto import source
from tilejit.passes.context import CallbackInstrument, PassContext
from tilejit.runtime.config import RunConfig

X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)
CHANGES = [("TILEJIT_FAST_MATH", "0"), ("TILEJIT_CPU", "sse")]
TEXT = """
import os
def helper():
    {change}
    return 1.0
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.exp(x) * helper()
"""
CELLS = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.range(64):
        pl.write(out, [0, i], pl.read(x, [0, i]) * 3.3 + 1.1)
"""
KERNELS = Path(__file__).parents[1] / "pto" / "kernels"
GM = pto.ptr(pto.f32, "gm")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEJIT_PLATFORM", "cpu")
    monkeypatch.setenv("TILEJIT_CACHE", "0")
    for variable, _ in CHANGES:
        monkeypatch.setenv(variable, "")


def code(kernel: Any) -> bytes:
    return kernel.compile(X, X.copy()).artifact.contents()["kernel.bin"]


@pytest.mark.parametrize(("variable", "value"), CHANGES)
def test_a_setting_that_changes_after_the_key_was_made_is_for_the_next_call(variable: str, value: str, make_kernel: MakeKernel) -> None:
    """Here by what the kernel asks while it is specialised; another thread may do it at any time."""
    wanted = code(make_kernel(TEXT.format(change="")))
    kernel = make_kernel(TEXT.format(change=f"os.environ[{variable!r}] = {value!r}"))
    out = np.zeros_like(X)
    kernel(X, out)
    assert os.environ[variable] == value
    assert [program.artifact.contents()["kernel.bin"] for program in kernel._cache.values()] == [wanted]
    assert code(make_kernel(TEXT.format(change=""))) != wanted


def test_a_call_that_leaves_its_outputs_out_takes_the_settings_once(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the program of the other setting is on disk already, for calls that pass all outputs."""
    text = TEXT.format(change='os.environ.update({"TILEJIT_FAST_MATH": "0"} if "TEST_CHANGES" in os.environ else {})')
    wanted = code(make_kernel(text))
    monkeypatch.setenv("TILEJIT_CACHE", "1")
    monkeypatch.setenv("TILEJIT_FAST_MATH", "0")
    make_kernel(text)(X, np.zeros_like(X))
    monkeypatch.setenv("TILEJIT_FAST_MATH", "")
    monkeypatch.setenv("TEST_CHANGES", "")
    kernel = make_kernel(text)
    kernel(X)
    assert os.environ["TILEJIT_FAST_MATH"] == "0"
    assert [program.artifact.contents()["kernel.bin"] for program in kernel._cache.values()] == [wanted]


def test_a_program_is_compiled_under_the_settings_of_its_beginning(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = make_kernel(CELLS).compile(X, X.copy())
    wanted = compiled.artifact.contents()["kernel.bin"]
    with PassContext([CallbackInstrument(after_pass=lambda *_: monkeypatch.setenv("TILEJIT_CPU", "sse"))]):
        found = compile_program(cast("Any", compiled.program))
    assert os.environ["TILEJIT_CPU"] == "sse"
    assert found.artifact.contents()["kernel.bin"] == wanted


def test_the_assembly_that_is_shown_is_that_of_the_code(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, late = make_kernel(CELLS).compile(X, X.copy()).stage("s"), make_kernel(CELLS).compile(X, X.copy())
    monkeypatch.setenv("TILEJIT_CPU", "sse")
    assert late.stage("s") == wanted


def test_a_kernel_from_source_belongs_to_the_settings_of_before_its_text_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    @pto.jit(source=(KERNELS / "scale2.pto").read_text())
    def scale2(src: GM, dst: GM) -> None: ...  # type: ignore[valid-type]

    read = source.read_content
    monkeypatch.setattr(source, "read_content", lambda *given: (monkeypatch.setenv("TILEJIT_CPU", "sse"), read(*given))[1])
    assert cast("Any", scale2.compile().code.key.own["settings"])["cpu"] == ""
    assert cast("Any", scale2.compile().code.key.own["settings"])["cpu"] == "sse"


@pytest.mark.parametrize("look", [lambda compiled: compiled.backend, lambda compiled: compiled.program.native])
def test_a_kernel_from_source_becomes_the_code_that_it_was_checked_for(look: Callable[[Any], object], monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled() -> Any:
        @pto.jit(source=(KERNELS / "scale2.pto").read_text())
        def scale2(src: GM, dst: GM) -> None: ...  # type: ignore[valid-type]

        return scale2.compile()

    wanted, late = compiled().code.native.artifact.contents()["kernel.bin"], compiled()
    monkeypatch.setenv("TILEJIT_CPU", "sse")
    look(late)
    assert late.code.native.artifact.contents()["kernel.bin"] == wanted != compiled().code.native.artifact.contents()["kernel.bin"]


def test_a_launcher_that_is_kept_runs_code_of_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of another thread's moment, while the code is looked up, do not make it the code of those before."""

    @pto.jit(source=(KERNELS / "scale2.pto").read_text())
    def scale2(src: GM, dst: GM) -> None: ...  # type: ignore[valid-type]

    monkeypatch.setenv("TILEJIT_CPU", "sse")
    kept = scale2[1, None]
    monkeypatch.setenv("TILEJIT_CPU", "")
    seen, key = config.snapshot(), scale2._key
    monkeypatch.setattr(scale2, "_key", lambda text: (monkeypatch.setenv("TILEJIT_CPU", "sse"), key(text))[1])
    assert scale2.compiled_from(kept.compiled.source, seen).code.key.own["settings"] == dict(kept.compiled.code.key.own["settings"], cpu="")  # pyright: ignore
    assert os.environ["TILEJIT_CPU"] == "sse"


def test_code_is_kept_for_the_instructions_that_it_may_have(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops over cells are one LLVM text for all processors."""
    if not host().is_x86:
        pytest.skip("TILEJIT_CPU is for x86-64")
    monkeypatch.setenv("TILEJIT_CPU", "sse")
    wanted = code(make_kernel(CELLS))
    monkeypatch.setenv("TILEJIT_CACHE", "1")
    monkeypatch.setenv("TILEJIT_CPU", "")
    every = code(make_kernel(CELLS))
    monkeypatch.setenv("TILEJIT_CPU", "sse")
    assert code(make_kernel(CELLS)) == wanted != every


def test_the_dispatcher_is_kept_for_the_instructions_that_it_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    if not host().is_x86:
        pytest.skip("TILEJIT_CPU is for x86-64")
    pieces._code_for.cache_clear()
    monkeypatch.setenv("TILEJIT_CACHE", "1")
    every = pieces.dispatcher_code()
    monkeypatch.setenv("TILEJIT_CPU", "sse")
    wanted = dispatcher_blob()
    assert pieces.dispatcher_code() == wanted != every
    pieces._code_for.cache_clear()
    assert pieces.dispatcher_code() == wanted  # from disk


def test_settings_of_a_compile_are_those_of_its_thread_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures import ThreadPoolExecutor

    seen = config.snapshot()
    monkeypatch.setenv("TILEJIT_FAST_MATH", "0")
    assert config.values_in(seen)["fast_math"] and not config.values_in(config.snapshot())["fast_math"]
    with ThreadPoolExecutor(1) as other, config.under(config.values_in(seen)):
        assert RunConfig().fast_math and not other.submit(RunConfig).result().fast_math
        with config.under({"fast_math": False}):
            assert not RunConfig().fast_math
        assert RunConfig().fast_math
    assert not RunConfig().fast_math


@pytest.mark.parametrize("setting", [row for row in config.SETTINGS if row.affects_code and row is not config.PLATFORM], ids=lambda setting: setting.name)
def test_a_text_that_a_setting_does_not_take_is_our_error(setting: config.Setting[object], make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = make_kernel(CELLS)
    monkeypatch.setenv(setting.variable, "no such value")
    with pytest.raises(OptionError, match=f"(?s){setting.variable}='no such value': expected.*{setting.variable} is: "):
        kernel(X, np.empty_like(X))


@pytest.mark.parametrize("setting", [config.NUM_THREADS, config.FASTPATH], ids=lambda setting: setting.name)
def test_a_value_that_no_setting_takes_is_named_before_a_warm_kernel_runs(setting: config.Setting[object], monkeypatch: pytest.MonkeyPatch) -> None:
    @pl.jit
    def doubled(x: pl.InOut[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            x[:] = x * 2

    x = np.ones((4, 4), np.float32)
    for _ in range(4):
        doubled(x)
    monkeypatch.setenv(setting.variable, "no such value")
    for _ in range(2):
        with pytest.raises(OptionError, match=f"{setting.variable}='no such value': expected"):
            doubled(x)
    assert (x == 16).all()
    monkeypatch.delenv(setting.variable)
    monkeypatch.setenv("TILEJIT_NUM_THREADS", "0")  # as if it were not set
    doubled(x)
    assert (x == 32).all()


IN_A_SCRIPT = """
import numpy as np
import tilejit.language as pl
TEXT, FLAG = b"ab", True
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * float({expression})
print(kernel(np.ones((2, 4), np.float32))[0, 0], kernel.cache_info().loaded)
"""


def said_by(script: Path, *options: str) -> str:
    done = subprocess.run([sys.executable, *options, str(script)], env={**os.environ, "TILEJIT_CACHE": "1"}, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else done.stderr


def test_a_python_that_refuses_texts_of_bytes_is_served_no_kernel_of_one_that_does_not(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(IN_A_SCRIPT.format(expression="4 if TEXT == 'ab' else 3"))
    assert [said_by(script), said_by(script)] == ["3.0 0\n", "3.0 1\n"]
    assert "BytesWarning" in said_by(script, "-bb")


def test_where_warnings_are_errors_a_flag_is_inverted_as_elsewhere(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(IN_A_SCRIPT.format(expression="~FLAG"))
    assert [said_by(script, "-W", "error"), said_by(script)] == ["-2.0 0\n", "-2.0 1\n"]


@pytest.mark.parametrize("fast", ["1", "0"])
@pytest.mark.parametrize("way", ["object", "dict"])
def test_settings_of_an_environment_that_stood_in_place_of_the_true_one_end_with_it(way: str, fast: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", fast)

    @pl.jit(runtime_scalars=("i",))
    def scaled_by_row(x: pl.Tensor, i: pl.INT32, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.mul(x, pl.read(x, [i, 0]))

    memory = np.arange(800, dtype=np.float32).reshape(100, 8) + 1
    inside: Any = {**os.environ, "TILEJIT_CHECK_BOUNDS": "0", "TILEJIT_FASTPATH": fast}
    place = (os, "environ", inside) if way == "object" else (os.environ, "_data", {os.fsencode(name): os.fsencode(value) for name, value in inside.items()})
    for _ in range(2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(*place)
            for _ in range(4):
                assert scaled_by_row(memory[:4], 50)[0, 0] == 401.0
        for _ in range(4):
            with pytest.raises(OutOfBoundsError):
                scaled_by_row(memory[:4], 50)
