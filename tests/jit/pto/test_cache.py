"""Source-backed kernels in the disk cache: the digest of the text is part of the key, and a warm start loads no compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilejit import pto
from tilejit.errors import ArtifactError
from tilejit.jit.disk import kernels as disk
from tilejit.jit.pto import code as pto_code
from tilejit.tools.cli import main

KERNELS = Path(__file__).parents[2] / "pto" / "kernels"
KERNEL = (KERNELS / "scale2.pto").read_text()
GM = pto.ptr(pto.f32, "gm")
RNG = np.random.default_rng(31)


@pytest.fixture
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(pto_code, "sources_changed", lambda: False)  # Somebody may edit the package while its tests run.
    return tmp_path / "cache"


def declared(source: str, **options: Any) -> pto.SourceKernel:
    @pto.jit(source=source, **options)
    def scale2(src: GM, dst: GM) -> None: ...  # type: ignore[valid-type]

    return scale2


def run(kernel: pto.SourceKernel, factor: float) -> pto.CompiledKernel:
    x, y = RNG.standard_normal((2, 16, 16)).astype(np.float32)
    compiled = kernel.compile()
    compiled[1, None](x, y)
    np.testing.assert_array_equal(y, np.float32(factor) * x)
    return compiled


def entries(cache: Path) -> int:
    return len(list(cache.rglob("*.tj")))


SCRIPT = """
import sys, json
import numpy as np
from tilejit import pto
GM = pto.ptr(pto.f32, "gm")
@pto.jit(source=sys.argv[1])
def scale2(src: GM, dst: GM): ...
x = np.arange(256, dtype=np.float32)
y = np.ones(256, np.float32)
compiled = scale2.compile()
compiled[1, None](x, y)
loaded = sorted({name.partition(".")[0] for name in sys.modules} & {"xdsl", "llvmlite"})
print(json.dumps([loaded, compiled.backend, compiled.code.from_disk, float(y[3])]))
"""


def in_new_process(path: Path) -> list[Any]:
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(path)], capture_output=True, text=True, check=True, env=dict(os.environ))
    return json.loads(done.stdout)


def test_a_warm_start_loads_neither_the_reader_nor_the_compiler(cache_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "scale2.pto"
    path.write_text(KERNEL)
    assert in_new_process(path) == [["llvmlite", "xdsl"], "cpu", False, 6.0]
    assert in_new_process(path) == [[], "cpu", True, 6.0]
    path.write_text(KERNEL.replace("2.000000e+00", "5.000000e+00"))
    assert in_new_process(path) == [["llvmlite", "xdsl"], "cpu", False, 15.0]


def test_the_digest_of_the_text_decides_which_entry_is_used(cache_dir: Path) -> None:
    for factor in ("2", "3", "2"):
        run(declared(KERNEL.replace("2.000000e+00", f"{factor}.000000e+00")), float(factor))
    assert entries(cache_dir) >= 2
    fields = [entry.fields for entry in disk.entries() if "source" in entry.fields]
    assert len({field["source"] for field in fields}) == 2


@pytest.mark.parametrize("options", [{"mode": "explicit"}, {"insert_sync": True}, {"backend": "emitc"}, {"target": "a3"}, {"kernel_kind": "vector"}])
def test_every_option_is_part_of_the_key(cache_dir: Path, options: dict[str, Any]) -> None:
    plain, special = (declared(KERNEL, **chosen).compile() for chosen in ({}, options))
    assert plain.code.key.digest != special.code.key.digest
    assert plain.specialization_key != special.specialization_key


@pytest.mark.parametrize("variable", ["TILEJIT_CHECK_BOUNDS", "TILEJIT_FAST_MATH"])
def test_settings_that_change_code_are_part_of_the_key(cache_dir: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    kernel = declared(KERNEL)
    first = run(kernel, 2)
    monkeypatch.setenv(variable, "0")
    other = run(kernel, 2)
    assert other is not first and not other.code.from_disk
    monkeypatch.delenv(variable)
    assert kernel.compile() is first


def test_nothing_is_kept_before_a_kernel_was_built(cache_dir: Path) -> None:
    declared(KERNEL).compile()
    assert entries(cache_dir) == 0


def test_a_damaged_entry_is_built_anew(cache_dir: Path) -> None:
    first = run(declared(KERNEL), 2)
    (path,) = [path for path in cache_dir.rglob("*.tj") if path.stem == first.code.key.digest]
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.warns(UserWarning, match="damaged"):
        again = run(declared(KERNEL), 2)
    assert not again.code.from_disk
    assert run(declared(KERNEL), 2).code.from_disk


def test_an_entry_without_code_is_as_good_as_none(cache_dir: Path) -> None:
    first = run(declared(KERNEL), 2)
    disk.store().put(disk.CacheEntry(first.code.key.digest, first.code.key.fields, {"pto.json": b"{}"}))
    with pytest.warns(UserWarning, match="cannot be used"):
        assert run(declared(KERNEL), 2).backend == "cpu"
    assert run(declared(KERNEL), 2).code.from_disk


def test_interpreted_kernels_are_remembered_with_the_reason(cache_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for expected in (False, True):

        @pto.jit(source=str(KERNELS / "printed.pto"))
        def printed(a: GM, o: GM) -> None: ...  # type: ignore[valid-type]

        compiled = printed.compile()
        compiled[1, None](np.ones((2, 8), np.float32), np.ones((2, 8), np.float32))
        assert compiled.backend == "interpreter" and "print" in (compiled.interpreted_because or "")
        assert compiled.code.from_disk is expected
    assert capsys.readouterr().out


def test_a_passing_failure_of_the_compiler_is_not_remembered(cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched, pytest.raises(MemoryError):
        patched.setattr("tilejit.jit.pto.program.compile_program", fails)
        run(declared(KERNEL), 2)
    assert entries(cache_dir) == 0
    assert run(declared(KERNEL), 2).backend == "cpu"


@pytest.mark.parametrize(("because", "versions"), [("", {}), ("an old compiler", {"llvmlite": "0.1"})])
def test_a_refusal_without_its_reason_or_of_other_versions_is_as_good_as_none(cache_dir: Path, because: str, versions: dict[str, str]) -> None:
    key = run(declared(KERNEL), 2).code.key
    notes = json.dumps({"interpreted_because": because}).encode()
    disk.store().put(disk.CacheEntry(key.digest, {**key.fields, **versions}, {"pto.json": notes}))
    with pytest.warns(UserWarning, match="cannot be used"):
        assert run(declared(KERNEL), 2).backend == "cpu"
    assert run(declared(KERNEL), 2).code.from_disk


def test_the_shell_lists_source_backed_kernels(cache_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(declared(KERNEL), 2)
    assert main(["cache", "ls", "scale2"]) == 0
    assert "scale2(src: !pto.ptr<f32, gm>, dst: !pto.ptr<f32, gm>)" in capsys.readouterr().out


def test_run_only_refuses_to_build(cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_RUN_ONLY", "1")
    x, y = RNG.standard_normal((2, 16, 16)).astype(np.float32)
    with pytest.raises(ArtifactError, match="scale2 would have to be compiled"):
        declared(KERNEL)[1, None](x, y)
    monkeypatch.delenv("TILEJIT_RUN_ONLY")
    run(declared(KERNEL), 2)
    monkeypatch.setenv("TILEJIT_RUN_ONLY", "1")
    run(declared(KERNEL), 2)


def test_the_log_says_how_a_kernel_runs(cache_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TILEJIT_LOG", "recompile")
    run(declared(KERNEL), 2)
    assert "scale2 in " in (line := capsys.readouterr().err) and line.endswith("ms: machine code\n")


def test_errors_of_loaded_code_point_into_the_text(cache_dir: Path) -> None:
    run(declared(KERNEL), 2)
    kernel = declared(KERNEL)
    with pytest.raises(Exception, match="`src`") as caught:
        kernel[1, None](np.ones(255, np.float32), np.ones(256, np.float32))
    assert kernel.compile().code.from_disk
    assert "make_tensor_view" in caught.value.source_lines[0]  # type: ignore[attr-defined]
