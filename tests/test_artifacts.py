"""Artifact directories: written whole, run in processes that have no compiler, refused when damaged or made for another machine."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.patience import HANG, older
from tests.runtime.programs import COLUMNS, ROWS, TwoEntries, binary
from tilejit import CompiledProgram, RunConfig, ir
from tilejit.errors import ArtifactError, OutOfBoundsError
from tilejit.runtime import machine
from tilejit.runtime.artifact.directory import Stage
from tilejit.runtime.artifact.sections import read_artifact, read_fields
from tilejit.runtime.store.directory import Store

rng = np.random.default_rng(11)
EXPRESSION = "pl.exp(pl.sub(a, b))"
"""Uses constants and enough code to be a fair example."""


def data(rows: int = ROWS) -> np.ndarray:
    return rng.standard_normal((rows, COLUMNS), np.float32)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("artifacts") / "dynamic"
    ir.compile(binary("FP32", EXPRESSION, "M"), path, platform="cpu", dump_passes=True)
    return path


@pytest.fixture
def copy(directory: Path, tmp_path: Path) -> Path:
    return shutil.copytree(directory, tmp_path / "copied" / "elsewhere")


def in_new_process(code: str, *arguments: str, flags: tuple[str, ...] = (), cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *flags, "-c", textwrap.dedent(code), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


# content ----------------------------------------------------------------------------------------------------------------


def test_the_directory_has_the_program_its_stages_and_its_code(directory: Path) -> None:
    files = sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())
    assert files == [
        "kernel.bin", *(f"kernels/{kernel}.{form}" for kernel in ("main", "main_k0", "whole-program") for form in ("ll", "opt.ll", "s")), "meta.json",
        "passes/00_frontend.mlir", "passes/01_simplify.mlir", "passes/02_returns.mlir", "passes/03_outline.mlir", "passes/04_pairs.mlir",
        "passes/05_simplify.mlir", "passes/06_whole.mlir", "passes/07_accumulate.mlir", "passes/08_edges.mlir", "passes/09_fuse.mlir", "passes/10_share.mlir",
        "program.py", "schedule.json",
    ]  # fmt: skip
    meta = json.loads((directory / "meta.json").read_text())
    assert set(meta["files"]) == set(files) - {"meta.json"}
    assert meta["platform"] == "cpu" and meta["facts"]["needs"] and {"tilejit", "llvm"} <= set(meta["versions"])
    (entry,) = meta["entries"]
    assert [param["direction"] for param in entry["params"]] == ["In", "In", "Out"]
    assert entry["params"][0]["shape"] == ["M", COLUMNS]


def test_every_kernel_has_its_code_in_files_of_its_own(directory: Path) -> None:
    llvm, assembly = ((directory / "kernels" / f"main_k0.{form}").read_text() for form in ("opt.ll", "s"))
    assert llvm.startswith("define internal i64 @k_main_k0(") and llvm.count("define") == 1 and llvm.endswith("}\n")
    assert "k_main_k0:" in assembly and assembly.count(".cfi_startproc") == 1
    assert llvm in (directory / "kernels" / "whole-program.opt.ll").read_text()


def test_the_program_of_the_directory_parses_back(directory: Path) -> None:
    import tilejit.language as pl

    ir.assert_structural_equal(pl.loads(directory / "program.py"), binary("FP32", EXPRESSION, "M"))
    text = (directory / "passes" / "09_fuse.mlir").read_text()
    assert ir.deserialize(text).entries


def test_a_program_from_a_directory_shows_its_stages(directory: Path) -> None:
    program = CompiledProgram.from_dir(directory)
    assert program.stages()[0] == "python" and "passes/03_outline" in program.stages()
    assert program.stage("main_k0.s") == (directory / "kernels" / "main_k0.s").read_text()


def test_compiling_into_a_directory_again_replaces_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "out"
    ir.compile(binary("FP32"), target, platform="cpu", dump_passes=True)
    (target / "notes.txt").write_text("mine")
    ir.compile(binary("FP32", "pl.sub(a, b)"), target, platform="cpu")
    a, b = data(), data()
    np.testing.assert_array_equal(CompiledProgram.from_dir(target)(a, b), a - b)
    assert (target / "notes.txt").read_text() == "mine"
    assert not list((target / "passes").glob("*"))
    assert not [path for path in tmp_path.rglob("*") if ".tmp-" in path.name]


def test_a_directory_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        what = rf"the artifact of Binary cannot be written to {re.escape(str(place))}: [\s\S]*help: give output_dir= a directory"
        with pytest.raises(ArtifactError, match=what):
            ir.compile(binary("FP32"), place, platform="cpu")
    assert os.listdir(tmp_path) == ["file"]


def test_threads_and_processes_may_write_the_same_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path))
    programs = [ir.compile(binary("FP32"), platform="cpu") for _ in range(6)]
    paths: list[str] = []
    threads = [threading.Thread(target=lambda program=program: paths.append(str(program))) for program in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(paths)) == 1
    assert os.listdir(tmp_path / "artifacts") == [os.path.basename(paths[0])]
    a, b = data(), data()
    np.testing.assert_array_equal(CompiledProgram.from_dir(paths[0])(a, b), a + b)


def test_the_description_comes_back_as_it_was_written(directory: Path) -> None:
    program = ir.compile(binary("FP32", EXPRESSION, "M"), platform="cpu")
    contents = program.artifact.contents()
    again = read_artifact(read_fields(contents["meta.json"]), contents.__getitem__)
    assert again.contents() == contents
    assert CompiledProgram(again, stages=[Stage("python", "program.py", lambda: program.stage("python"))]) == program


def test_a_program_known_with_fewer_texts_leaves_those_of_others_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path))
    full = ir.compile(binary("FP32"), platform="cpu")
    bare = CompiledProgram(full.artifact, stages=[Stage("python", "program.py", lambda: full.stage("python"))])
    assert not (Path(bare) / "kernels").exists()
    assert (Path(full) / "kernels" / "main_k0.s").exists()
    CompiledProgram(full.artifact, stages=[Stage("python", "program.py", lambda: full.stage("python"))]).output_dir
    assert (Path(bare) / "kernels" / "main_k0.s").exists()


def test_a_damaged_directory_in_the_cache_is_repaired_when_it_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path))
    path = Path(ir.compile(binary("FP32"), platform="cpu"))
    for file in ("meta.json", "kernels/whole-program.s"):
        (path / file).unlink()
        again = Path(ir.compile(binary("FP32"), platform="cpu"))
        assert again == path and (path / file).exists()
    good = (path / "kernel.bin").read_bytes()
    (path / "kernel.bin").write_bytes(good[:-1] + b"?")
    assert Path(ir.compile(binary("FP32"), path, platform="cpu")) == path and (path / "kernel.bin").read_bytes() == good


def test_code_that_is_no_blob_is_linked_in_the_process_and_stays_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilejit.backends.cpu import executable
    from tilejit.backends.cpu.llvm import elf

    def refuse(data: bytes) -> None:
        raise elf.UnsupportedObject("as on another platform")

    monkeypatch.setattr(executable, "flatten", refuse)
    program = ir.compile(binary("FP32", EXPRESSION), tmp_path / "linked", platform="cpu")
    a, b = data(), data()
    np.testing.assert_allclose(program(a, b), np.exp(a - b), rtol=1e-5)
    assert (tmp_path / "linked" / "program.py").exists() and not (tmp_path / "linked" / "kernel.bin").exists()
    with pytest.raises(ArtifactError, match="without code that another process could load"):
        CompiledProgram.from_dir(tmp_path / "linked")


def test_kernels_are_saved_where_the_config_says(tmp_path: Path) -> None:
    ir.compile(binary("FP32"), config=RunConfig(platform="cpu", save_kernels=True, save_kernels_dir=str(tmp_path / "kept")))
    assert {"main_k0.ll", "main_k0.s", "whole-program.s"} <= {path.name for path in (tmp_path / "kept").iterdir()}


# another process --------------------------------------------------------------------------------------------------------

RUN = """
    import sys
    import numpy as np
    from tilejit.runtime import CompiledProgram, execute_compiled
    a, b = np.load(sys.argv[2]), np.load(sys.argv[3])
    out = np.empty_like(a)
    CompiledProgram.from_dir(sys.argv[1])(a, b, out)
    np.testing.assert_array_equal(execute_compiled(sys.argv[1], (a, b)), out)
    np.save(sys.argv[4], out)
"""


def test_a_new_process_runs_a_moved_directory_without_compiler_and_source(copy: Path, directory: Path, tmp_path: Path) -> None:
    a, b = data(101), data(101)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    (copy / "program.py").unlink()
    arguments = [str(copy), *(str(tmp_path / f"{name}.npy") for name in ("a", "b", "out"))]
    done = in_new_process(RUN, *arguments, flags=("-X", "importtime"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "tilejit" in imported
    assert not imported & {"xdsl", "llvmlite", "torch", "triton", "tests"}
    assert not [line for line in done.stderr.splitlines() if re.search(r"tilejit\.(compiler|frontend|passes|backends|tile_ir|jit)", line)]
    here = ir.compile(binary("FP32", EXPRESSION, "M"), platform="cpu")(a, b)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy").view(np.uint32), np.asarray(here).view(np.uint32))


def test_the_shell_runs_a_directory(copy: Path, tmp_path: Path) -> None:
    a, b = data(3), data(3)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    command = [sys.executable, "-X", "importtime", "-m", "tilejit", "run", str(copy), "--inputs", "a.npy", "b.npy", "--out", "c.npy"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not re.search(r"\| +(xdsl|llvmlite)", done.stderr)
    np.testing.assert_allclose(np.load(tmp_path / "c.npy"), np.exp(a - b), rtol=1e-5)


def test_the_shell_says_what_is_wrong(copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tilejit.tools.cli import main

    np.save(tmp_path / "a.npy", data(3))
    file = str(tmp_path / "a.npy")
    for arguments, message in (
        (["--inputs", file], r"takes 2 inputs \(a, b\), got 1"),
        (["--inputs", file, str(tmp_path / "missing.npy")], "there is no file"),
        (["--inputs", file, file, "--out", "x.npy", "y.npy"], "got 2 files for --out"),
        (["--inputs", file, file, "--entry", "other"], "has no entry 'other'"),
        (["--inputs", file, file, "--platform", "cuda"], "compiled for cpu, not for cuda"),
    ):
        assert main(["run", str(copy), *arguments]) == 1
        assert re.search(message, capsys.readouterr().err)
    assert main(["run", str(tmp_path / "nowhere")]) == 1
    assert "there is no artifact directory" in capsys.readouterr().err


def test_the_shell_names_an_entry_and_prints_without_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tilejit.tools.cli import main

    ir.compile(TwoEntries, tmp_path / "two", platform="cpu")
    np.save(tmp_path / "x.npy", np.full((4, 8), 2.5, np.float32))
    assert main(["run", str(tmp_path / "two"), "--inputs", str(tmp_path / "x.npy"), "--entry", "negate"]) == 0
    assert "out = [[-2.5 -2.5" in capsys.readouterr().out
    assert main(["run", str(tmp_path / "two"), "--inputs", str(tmp_path / "x.npy")]) == 1


def test_errors_at_run_time_show_the_source_line_without_the_source(tmp_path: Path) -> None:
    source = tmp_path / "kernel.py"
    source.write_text(
        textwrap.dedent("""
        import tilejit.language as pl

        N = pl.dynamic("N")

        @pl.program
        class Pick:
            @pl.function
            def main(self, x: pl.Tensor[[N], pl.FP32], i: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor[[4], pl.FP32]]) -> pl.Tensor[[4], pl.FP32]:
                with pl.at(level=pl.Level.CORE_GROUP):
                    t = pl.load(x, [i], [4])
                    out = pl.store(t, [0], out)
                return out
        """)
    )
    import tilejit.language as pl

    program = pl.loads(source)
    assert isinstance(program, ir.Program)
    ir.compile(program, tmp_path / "pick", platform="cpu")
    source.unlink()
    loaded = CompiledProgram.from_dir(tmp_path / "pick")
    x = rng.standard_normal(9).astype(np.float32)
    np.testing.assert_array_equal(loaded(x, 3), x[3:7])
    with pytest.raises(OutOfBoundsError, match=r"outside|beyond|past") as caught:
        loaded(x, 6)
    assert "t = pl.load(x, [i], [4])" in str(caught.value)
    assert "kernel.py:11" in str(caught.value)


# damage and other machines ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["kernel.bin", "meta.json"])
def test_any_flipped_byte_is_found_and_the_file_named(copy: Path, file: str) -> None:
    original = (copy / file).read_bytes()
    a, b = data(), data()
    for position in rng.integers(0, len(original), 40):
        damaged = bytearray(original)
        damaged[position] ^= 1 << int(rng.integers(8))
        (copy / file).write_bytes(bytes(damaged))
        with pytest.raises(ArtifactError, match=re.escape(str(copy / file))):
            CompiledProgram.from_dir(copy)(a, b)
    (copy / file).write_bytes(original)
    np.testing.assert_allclose(np.asarray(CompiledProgram.from_dir(copy)(a, b)), np.exp(a - b), rtol=1e-5)


@pytest.mark.parametrize("file", ["kernel.bin", "meta.json"])
def test_a_truncated_file_is_found(copy: Path, file: str) -> None:
    original = (copy / file).read_bytes()
    for length in (0, 1, len(original) // 2, len(original) - 1):
        (copy / file).write_bytes(original[:length])
        with pytest.raises(ArtifactError, match=file):
            CompiledProgram.from_dir(copy)(data(), data())


def test_a_program_that_is_loaded_when_another_one_is_there_says_so(tmp_path: Path) -> None:
    """Its files do not match its description, but nothing is damaged."""
    ir.compile(binary("FP32"), tmp_path, platform="cpu")
    late = CompiledProgram.from_dir(tmp_path)
    ir.compile(binary("FP32", EXPRESSION), tmp_path, platform="cpu")
    for attempt in (lambda: late(data(), data()), lambda: late.stage("python")):
        with pytest.raises(ArtifactError, match=rf"{re.escape(str(tmp_path))} holds another program now[\s\S]*an output_dir of its own"):
            attempt()
    (tmp_path / "kernel.bin").unlink()
    with pytest.raises(ArtifactError, match="holds another program now"):
        late(data(), data())
    with pytest.raises(ArtifactError, match=r"kernel\.bin cannot be read: No such file"):
        CompiledProgram.from_dir(tmp_path)(data(), data())


def test_a_damaged_text_is_found_when_it_is_read(copy: Path) -> None:
    (copy / "program.py").write_text((copy / "program.py").read_text().replace("a", "b", 1))
    program = CompiledProgram.from_dir(copy)
    with pytest.raises(ArtifactError, match=re.escape(str(copy / "program.py"))):
        program.stage("python")


def test_a_directory_without_description_is_no_artifact(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"no readable meta.json"):
        CompiledProgram.from_dir(tmp_path)


def test_a_missing_processor_feature_is_named(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = json.loads((directory / "meta.json").read_text())["facts"]["needs"]
    here = machine.features()
    monkeypatch.setattr(machine, "features", lambda: here - {"avx2"})
    assert "avx2" in needed, "the tests run on machines with AVX2"
    with pytest.raises(ArtifactError, match="Binary needs the processor feature avx2, which this machine lacks"):
        CompiledProgram.from_dir(directory)


def test_another_architecture_is_refused(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "architecture", lambda: "riscv64")
    with pytest.raises(ArtifactError, match="compiled for x86_64, this machine is riscv64"):
        CompiledProgram.from_dir(directory)


def test_another_format_is_refused(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilejit.runtime.artifact import sections as artifact

    monkeypatch.setattr(artifact, "FORMAT", 99)
    with pytest.raises(ArtifactError, match="has format 3, this version of tilejit reads 99"):
        CompiledProgram.from_dir(copy)


# fork -------------------------------------------------------------------------------------------------------------------


def _call(arguments: tuple[CompiledProgram, np.ndarray, np.ndarray]) -> Any:
    program, a, b = arguments
    return program(a, b)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_programs_work_in_worker_processes(method: str, directory: Path) -> None:
    program = CompiledProgram.from_dir(directory)
    a, b = data(), data()
    here = np.asarray(program(a, b))
    with multiprocessing.get_context(method).Pool(2) as pool:
        for result in pool.map(_call, [(program, a, b)] * 4):
            np.testing.assert_array_equal(result, here)


def test_a_child_forked_while_a_thread_loads_code_can_load_code(directory: Path) -> None:
    from tilejit.runtime.call.native import loading

    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with loading():
            held.set()
            release.wait(HANG)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    program = CompiledProgram.from_dir(directory)
    a, b = data(), data()
    process = multiprocessing.get_context("fork").Process(target=program, args=(a, b))
    process.start()
    process.join(HANG)
    release.set()
    thread.join()
    assert process.exitcode == 0


def test_artifacts_in_the_cache_are_bounded_and_the_ones_in_use_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "cache"))
    for age in range(4):
        path = tmp_path / "cache" / "artifacts" / f"program_{age}"
        path.mkdir(parents=True, mode=0o700)
        (path / "meta.json").write_text("{}")
        (path / "kernel.bin").write_bytes(bytes(1000))
        older(path / "meta.json", 1000 * (4 - age))
    leftover = tmp_path / "cache" / "artifacts" / ".program.tmp-4194303-00ff"
    leftover.mkdir()
    os.utime(leftover, (1, 1))
    (tmp_path / "cache").chmod(0o700)
    assert Store(str(tmp_path / "cache"), max_bytes=2500).sweep() == 3
    assert sorted(os.listdir(tmp_path / "cache" / "artifacts")) == ["program_2", "program_3"]
    assert Store(str(tmp_path / "cache")).clear() == 2


def test_a_path_that_was_swept_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "cache"))
    compiled = ir.compile(binary("FP32", EXPRESSION, "M"), platform="cpu")
    path = str(compiled)
    assert Store(str(tmp_path / "cache")).clear() >= 1 and not os.path.exists(path)
    assert str(compiled) == path
    assert CompiledProgram.from_dir(path).name == compiled.name
