"""Requirements C1 to C11 of docs/spec/compile.md, in order: a compiled program as a function, as a path, as an artifact."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.programs import COLUMNS, ROWS, ScaleInPlace, TwoEntries, binary, compiled
from tilejit import CompiledProgram, RunConfig, ir, runtime
from tilejit.dtypes import DTYPES, FP32
from tilejit.errors import AliasError, ArgumentError, ArtifactError, DTypeError, ShapeError, TilejitWarning
from tilejit.runtime.arrays import DeviceTensor, allocate
from tilejit.runtime.artifact import blob as blobs
from tilejit.runtime.call.layout import supported

ROOT = Path(__file__).parents[2]
rng = np.random.default_rng(3)

pytestmark = pytest.mark.usefixtures("own_cache")


def data(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape or (ROWS, COLUMNS), np.float32)


@pytest.fixture(scope="module")
def add_directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("artifacts") / "add"
    ir.compile(binary("FP32"), platform="cpu", output_dir=path)
    return str(path)


# C1 ---------------------------------------------------------------------------------------------------------------------


def test_c1_the_number_of_arguments_decides_the_calling_style() -> None:
    program = ir.compile(ScaleInPlace, platform="cpu")
    x, state, out = data(4, 8), data(4, 8), data(4, 8)
    want = (state + x) * 3
    assert program(x, state.copy(), out, 3) is None
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(program(x, state, 3), want)


@pytest.mark.parametrize("count", [0, 1, 2, 5, 9])
def test_c1_another_number_of_arguments_is_answered_with_both_accepted_ones(count: int) -> None:
    program = ir.compile(ScaleInPlace, platform="cpu")
    with pytest.raises(TypeError, match=rf"4 \(in place\) or 3 \(the outputs are returned\) arguments, got {count}") as caught:
        program(*[data(4, 8)] * count)
    assert "x (In), state (InOut), out (Out), n (In)" in str(caught.value)


@pytest.mark.dispatch
@pytest.mark.skipif(not supported() or os.environ.get("TILEJIT_FASTPATH") == "0", reason="needs native dispatch")
def test_calls_like_earlier_ones_are_native_in_every_style() -> None:
    program, entries = ir.compile(ScaleInPlace, platform="cpu"), ir.compile(TwoEntries, platform="cpu")
    config = RunConfig(num_threads=1)
    x, out = data(4, 8), data(4, 8)
    calls: list[tuple[Any, Any, Any]] = [
        (program.only("call"), lambda: program(x, np.zeros_like(x), out, 3), 3 * x), (program.only("call"), lambda: program(x, np.zeros_like(x), 3), 3 * x),
        (program.only("call"), lambda: program(x, np.zeros_like(x), out, 3, config=config), 3 * x), (entries["double"], lambda: entries["double"](x), 2 * x),
        (entries["double"], lambda: entries.double(x, out), 2 * x),
    ]  # fmt: skip
    for entry, call, want in calls:
        for _ in range(3):
            call()
        before = entry.warm.hits
        for _ in range(4):
            out[:] = np.nan
            found = call()
            np.testing.assert_array_equal(out if found is None else found, want)
        assert entry.warm.hits - before == 4
    with pytest.raises(ShapeError):
        program(x[:2], x, out, 3)
    with pytest.raises(ArgumentError):
        program(x, x, out=out, n=3)


# C2 is tests/runtime/test_matrix.py: random data of every dtype, compared with NumPy ---------------------------------------


def test_c2_the_kernel_reads_the_callers_tensors_at_every_call(add: CompiledProgram) -> None:
    a, b = data(), data()
    first = add(a, b)
    a += 1
    np.testing.assert_array_equal(add(a, b), a + b)
    assert not np.array_equal(first, a + b)


# C3 ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extent", [1, 5, 300])
def test_c3_dynamic_outputs_are_allocated_with_the_extents_of_the_inputs(extent: int) -> None:
    a, b = data(extent, COLUMNS), data(extent, COLUMNS)
    out = compiled("FP32", rows="M")(a, b)
    assert out.shape == (extent, COLUMNS)
    np.testing.assert_array_equal(out, a + b)


def test_c3_an_extent_that_no_input_has_must_be_passed() -> None:
    program = ir.compile(_generator(), platform="cpu")
    with pytest.raises(ValueError, match="cannot allocate `out`: no argument has the extent `N` of its dim 0"):
        program(data(4))
    out = np.empty((6, 4), np.float32)
    row = data(4)
    program(row, out)
    np.testing.assert_array_equal(out, np.broadcast_to(row, (6, 4)))


def _generator() -> Any:
    import tilejit.language as pl

    return pl.parse("""
N = pl.dynamic("N")

@pl.program
class Spread:
    @pl.function
    def main(self, row: pl.Tensor[[4], pl.FP32], out: pl.Out[pl.Tensor[[N, 4], pl.FP32]]) -> pl.Tensor[[N, 4], pl.FP32]:
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(pl.tensor.dim(out, 0)):
                for j in pl.range(4):
                    pl.write(out, [i, j], pl.read(row, [j]))
        return out
""")


# C4 ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["complex128", "longdouble", "datetime64[s]", "U3"])
def test_c4_numpy_dtypes_without_a_counterpart_are_answered_with_the_list(add: CompiledProgram, name: str) -> None:
    with pytest.raises(TypeError, match="Unsupported NumPy dtype") as caught:
        add(np.zeros((ROWS, COLUMNS), name), data())
    assert all(dtype.numpy_name in str(caught.value) for dtype in DTYPES.values() if dtype.numpy_name is not None)


@pytest.mark.torch
def test_c4_torch_dtypes_without_a_counterpart_are_answered_with_the_list(add: CompiledProgram) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(DTypeError, match="Unsupported torch dtype complex128") as caught:
        add(torch.zeros(ROWS, COLUMNS, dtype=torch.complex128), torch.zeros(ROWS, COLUMNS))
    assert "bfloat16" in str(caught.value)


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES.values() if dtype.numpy_name is None], ids=str)
def test_c4_dtypes_that_numpy_lacks_cannot_be_allocated(dtype: Any) -> None:
    with pytest.raises(DTypeError, match=f"Unsupported NumPy dtype {dtype.name}"):
        allocate(None, (3, 4), dtype)


@pytest.mark.torch
def test_c4_packed_fp4_tensors_are_read_as_twice_as_many_elements() -> None:
    torch = pytest.importorskip("torch")
    if not hasattr(torch, "float4_e2m1fn_x2"):
        pytest.skip("this torch has no FP4")
    program = compiled("FP4", "a", "M")
    codes = rng.integers(0, 256, (3, 20), dtype=np.uint8)
    packed = torch.from_numpy(codes).view(torch.float4_e2m1fn_x2)
    with pytest.raises(ShapeError, match=r"got \[3, 40\]"):
        program(packed, packed)
    wide = ir.compile(_fp4(), platform="cpu")
    out = np.empty((3, 40), DTYPES["FP4"].numpy)
    wide(packed, out)
    np.testing.assert_array_equal(out.view(np.uint8), np.stack((codes & 15, codes >> 4), -1).reshape(3, 40))
    with pytest.raises(ArgumentError, match="packed, two elements per byte"):
        wide(out, packed)


def _fp4() -> Any:
    import tilejit.language as pl

    return pl.parse("""
@pl.program
class Copy:
    @pl.function
    def main(self, a: pl.Tensor[[3, 40], pl.FP4], out: pl.Out[pl.Tensor[[3, 40], pl.FP4]]) -> pl.Tensor[[3, 40], pl.FP4]:
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = a
        return out
""")


# C5 ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.torch
def test_c5_outputs_are_made_in_the_framework_and_on_the_device_of_the_inputs(add: CompiledProgram) -> None:
    torch = pytest.importorskip("torch")
    a, b = data(), data()
    tensor = add(torch.from_numpy(a), torch.from_numpy(b))
    assert isinstance(tensor, torch.Tensor)
    assert tensor.device.type == "cpu"
    np.testing.assert_array_equal(tensor.numpy(), a + b)
    assert isinstance(add(a, b), np.ndarray)
    with pytest.raises(ArgumentError, match="in which should the outputs be"):
        add(a, torch.from_numpy(b))


def test_c5_memory_of_the_caller_is_used_as_it_is(add: CompiledProgram) -> None:
    a, b, out = data(), data(), np.zeros((ROWS, COLUMNS), np.float32)
    add(*(DeviceTensor(array.ctypes.data, array.shape, FP32) for array in (a, b, out)))
    np.testing.assert_array_equal(out, a + b)


# C6 ---------------------------------------------------------------------------------------------------------------------


def test_c6_unknown_platforms_are_answered_with_the_valid_ones(add: CompiledProgram) -> None:
    for attempt in (
        lambda: ir.compile(binary("FP32"), platform="gpu"),
        lambda: add(data(), data(), config=RunConfig(platform="gpu")),
        lambda: runtime.execute_compiled(add, (data(), data()), platform="gpu"),
    ):
        with pytest.raises(ValueError, match="unknown platform `gpu`; valid: cpu, cuda, reference, eager, sanitize, a2a3, a5, a2a3sim, a5sim"):
            attempt()


def test_c6_a_program_runs_only_where_it_was_compiled_for(add: CompiledProgram) -> None:
    with pytest.raises(ValueError, match="compiled for cpu, not for reference"):
        add(data(), data(), config=RunConfig(platform="reference"))
    np.testing.assert_array_equal(add(a := data(), a, config=RunConfig(platform="a2a3sim")), a + a)


@pytest.mark.parametrize(("device", "error"), [(-1, ValueError), ("0", TypeError), (True, TypeError)])
def test_c6_device_ids_are_checked(device: Any, error: type[Exception], add: CompiledProgram) -> None:
    with pytest.raises(error, match="device_id"):
        ir.compile(binary("FP32"), device_id=device)
    with pytest.raises(error, match="device_id"):
        runtime.execute_compiled(add, (data(), data()), device_id=device)


@pytest.mark.torch
def test_c6_tensors_on_another_device_are_refused(add: CompiledProgram) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(ArgumentError, match="`a` is on meta, but main was compiled to run on cpu"):
        add(torch.empty(ROWS, COLUMNS, device="meta"), torch.empty(ROWS, COLUMNS, device="meta"))


# C7 ---------------------------------------------------------------------------------------------------------------------


def test_c7_a_program_equals_its_path_and_comparing_writes_nothing(add: CompiledProgram, own_cache: Path) -> None:
    again = ir.compile(binary("FP32"), platform="cpu")
    other = ir.compile(binary("FP32", "pl.sub(a, b)"), platform="cpu")
    assert add == again and hash(add) == hash(again) and add != other
    assert len({add, again, other}) == 2
    assert not own_cache.exists()
    path = str(add)
    assert Path(path).parent == own_cache / "artifacts"
    assert re.fullmatch(r"Binary_[0-9a-f]{8}", os.path.basename(path))
    assert add == path and add == Path(path) and hash(add) == hash(path)
    assert add != path + "x" and add != 7
    assert "Equality and hash" in (CompiledProgram.__doc__ or "")


def test_c7_it_is_a_path(add: CompiledProgram) -> None:
    assert os.path.join(add, "kernels") == add.output_dir + os.sep + "kernels"
    assert sorted(os.listdir(add)) == ["kernel.bin", "kernels", "meta.json", "program.py", "schedule.json"]
    assert not Path("kernels").exists()
    folder = add.output_dir
    assert folder == str(add) and folder.exists() and folder.is_dir() and (folder / "meta.json").is_file()
    assert folder == Path(str(add)) and Path(str(add)) == folder and folder != Path("elsewhere") and hash(folder) == hash(str(add))
    assert folder.name == os.path.basename(add) and Path("/x") / folder == Path(folder) and folder.parent == Path(folder).parent
    assert sorted(item.name for item in folder.iterdir()) == sorted(os.listdir(folder)) and isinstance(folder, os.PathLike)


# C8 ---------------------------------------------------------------------------------------------------------------------


def test_c8_only_the_description_is_read_until_the_first_call(add_directory: str, tmp_path: Path) -> None:
    import shutil

    copy = shutil.copytree(add_directory, tmp_path / "copy")
    code = (copy / "kernel.bin").read_bytes()
    (copy / "kernel.bin").unlink()
    program = CompiledProgram.from_dir(copy)
    assert program.param_names == ["a", "b", "out"]
    with pytest.raises(ArtifactError, match=re.escape(str(copy / "kernel.bin"))):
        program(data(), data())
    (copy / "kernel.bin").write_bytes(code)
    a, b = data(), data()
    np.testing.assert_array_equal(program(a, b), a + b)


def test_c8_the_code_is_mapped_once_whatever_the_number_of_threads(add_directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[object] = []
    original = blobs.LoadedBlob.__init__

    def counting(self: blobs.LoadedBlob, *args: Any, **kwargs: Any) -> None:
        loads.append(self)
        original(self, *args, **kwargs)

    monkeypatch.setattr(blobs.LoadedBlob, "__init__", counting)
    program = CompiledProgram.from_dir(add_directory)
    assert loads == []
    a, b = data(), data()
    barrier, results = threading.Barrier(16), []

    def call() -> None:
        barrier.wait()
        results.append(program(a, b))

    threads = [threading.Thread(target=call) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1
    assert len(results) == 16 and all(np.array_equal(result, a + b) for result in results)


# C9: see also tests/test_artifacts.py -----------------------------------------------------------------------------------


def test_c9_a_directory_runs_with_the_same_results_and_the_same_checks(add_directory: str) -> None:
    a, b = data(), data()
    np.testing.assert_array_equal(runtime.execute_compiled(add_directory, (a, b)), compiled("FP32")(a, b))
    out = np.empty_like(a)
    assert runtime.execute_compiled(add_directory, [a, b, out], platform="cpu", device_id=0) is None
    np.testing.assert_array_equal(out, a + b)
    with pytest.raises(ShapeError, match="dim 1 of `b` must be 37, got 36"):
        runtime.execute_compiled(add_directory, (a, b[:, 1:]))
    assert CompiledProgram.from_dir(add_directory).program is None


# C10 --------------------------------------------------------------------------------------------------------------------


def test_c10_outputs_may_not_overlap_inputs(add: CompiledProgram) -> None:
    memory = data(2 * ROWS, COLUMNS)
    before = memory.copy()
    with pytest.raises(AliasError, match="output `out` overlaps `a`"):
        add(memory[:ROWS], data(), memory[1 : ROWS + 1])
    np.testing.assert_array_equal(memory, before)
    add(memory[:ROWS], memory[:ROWS], memory[ROWS:])
    np.testing.assert_array_equal(memory[ROWS:], before[:ROWS] * 2)
    other = data()
    add(memory[:ROWS], other, memory[:ROWS])  # The identical buffer: each cell depends on itself alone.
    np.testing.assert_array_equal(memory[:ROWS], before[:ROWS] + other)


@pytest.mark.parametrize(
    "view",
    [
        lambda array: np.asfortranarray(array),
        lambda array: np.repeat(array, 2, axis=1)[:, ::2],
        lambda array: array[::-1].copy()[::-1],
        lambda array: np.broadcast_to(array[:1], array.shape),
        lambda array: np.frombuffer(b"x" + array.tobytes(), np.uint8)[1:].view(np.float32).reshape(array.shape),
    ],
    ids=["fortran", "strided", "negative", "broadcast", "unaligned"],
)
def test_c10_inputs_of_any_layout_are_read_right(view: Any, add: CompiledProgram) -> None:
    a, b = view(data()), data()
    np.testing.assert_array_equal(add(a, b), a + b)


def test_c10_outputs_of_another_layout_are_refused(add: CompiledProgram) -> None:
    wide, raw = np.zeros((ROWS, 2 * COLUMNS), np.float32), np.zeros(4 * ROWS * COLUMNS + 1, np.uint8)
    with pytest.raises(ArgumentError, match="`out` is not contiguous"):
        add(data(), data(), wide[:, ::2])
    with pytest.raises(ArgumentError, match="`out` is not aligned"):
        add(data(), data(), raw[1:].view(np.float32).reshape(ROWS, COLUMNS))
    assert not wide.any() and not raw.any()


def test_c10_nothing_happens_to_tensors_without_elements() -> None:
    empty = np.empty((0, COLUMNS), np.float32)
    program = compiled("FP32", rows="M")
    out = program(empty, empty)
    assert out.shape == (0, COLUMNS)
    assert program(empty, empty, empty) is None


def test_c10_read_only_outputs_are_refused_and_read_only_inputs_read(add: CompiledProgram) -> None:
    a, b, out = data(), data(), data()
    before = out.copy()
    for array in (a, out):
        array.flags.writeable = False
    with pytest.raises(ArgumentError, match="output `out` is read-only"):
        add(b, b, out)
    np.testing.assert_array_equal(out, before)
    np.testing.assert_array_equal(add(a, b), a + b)


@pytest.mark.torch
def test_c10_tensors_that_require_grad_are_read_but_never_written(add: CompiledProgram) -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.randn(ROWS, COLUMNS, requires_grad=True), torch.randn(ROWS, COLUMNS)
    with pytest.warns(TilejitWarning, match="carries no gradient"):
        out = add(a, b)
    assert not out.requires_grad
    torch.testing.assert_close(out, (a + b).detach(), rtol=0, atol=0)
    with pytest.raises(ArgumentError, match="output `out` requires grad"):
        add(b, b, a)


@pytest.mark.torch
def test_c10_views_that_torch_negates_lazily_are_read_right(add: CompiledProgram) -> None:
    torch = pytest.importorskip("torch")
    negated = torch.randn(ROWS, COLUMNS, dtype=torch.complex64).conj().imag
    assert negated.is_neg()
    zero = torch.zeros(ROWS, COLUMNS)
    torch.testing.assert_close(add(negated, zero), negated.clone(), rtol=0, atol=0)
    with pytest.raises(ArgumentError, match="negates"):
        add(zero, zero, negated)


# C11 --------------------------------------------------------------------------------------------------------------------


def test_c11_the_stub_of_the_runtime_declares_what_the_runtime_has() -> None:
    tree = ast.parse((ROOT / "src" / "tilejit" / "runtime" / "__init__.pyi").read_text(encoding="utf-8"))
    declared = {alias.asname: (node.module, alias.name) for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert sorted(name or "" for name in declared) == list(runtime.__all__)
    for name, (module, attribute) in declared.items():
        assert getattr(runtime, name or "") is getattr(import_module(module or ""), attribute)


@pytest.mark.parametrize("module", ["tilejit", "tilejit.ir", "tilejit.runtime"])
def test_c11_every_public_name_is_there_and_says_what_it_means(module: str) -> None:
    found = import_module(module)
    for name in found.__all__:
        value = getattr(found, name)
        assert name in dir(found)
        assert inspect.getdoc(value), f"{module}.{name} has no docstring"


def test_importing_the_runtime_loads_no_compiler() -> None:
    code = "import sys, tilejit.runtime as r; r.CompiledProgram, r.execute_compiled, r.benchmark, r.DeviceTensor; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"xdsl", "llvmlite", "torch", "tilejit.compiler"} & set(loaded)
