"""What a compiled program says about itself, and the options that it takes."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.programs import TwoEntries, binary, compiled
from tests.runtime.test_compiled import data
from tilejit import CompiledProgram, RunConfig, ir, runtime
from tilejit.errors import ArtifactError, OptionError
from tilejit.runtime.config import INERT_OPTIONS

pytestmark = pytest.mark.usefixtures("own_cache")


def test_it_describes_itself() -> None:
    program = compiled("FP32", rows="M")
    assert repr(program) == (
        "CompiledProgram(main(a: Tensor[[M, 37], FP32], b: Tensor[[M, 37], FP32], out: Out[Tensor[[M, 37], FP32]]), platform='cpu')"
    )
    shown = pydoc.plain(pydoc.render_doc(program))
    for part in ("main(a, b, [out]), compiled for cpu", "out  Out  [M, 37]  FP32", "without out it returns it", "decided by each call: M"):
        assert part in shown
    assert list(inspect.signature(program).parameters) == ["a", "b", "out", "config"]
    assert "<td>out</td><td>Out</td><td>[M, 37]</td><td>FP32</td>" in program._repr_html_()
    assert (program.output_indices, program.has_return) == ((2,), True)
    assert [str(info) for info in program.param_infos][2] == "out: Out[Tensor[[M, 37], FP32]]"


def test_its_stages_can_be_read(add: CompiledProgram) -> None:
    assert {"python", "ir", "ll", "s"} <= set(add.stages())
    assert "@pl.program" in add.stage("python")
    assert "define" in add.stage("ll")
    with pytest.raises(KeyError, match="no stage 'ptx'"):
        add.stage("ptx")


def test_entries_of_a_program_with_several_are_called_by_name() -> None:
    program = ir.compile(TwoEntries, platform="cpu")
    x = data(4, 8)
    np.testing.assert_array_equal(program["double"](x), 2 * x)
    np.testing.assert_array_equal(program.negate(x), -x)
    with pytest.raises(TypeError, match="several entries: double, negate"):
        program(x)
    with pytest.raises(KeyError, match="did you mean `negate`"):
        program["negat"]
    with pytest.raises(AttributeError, match="no attribute 'halve'"):
        _ = program.halve
    again = CompiledProgram.from_dir(program)
    np.testing.assert_array_equal(again.negate(x), -x)
    assert "compiled['double'](…), compiled['negate'](…)" in pydoc.plain(pydoc.render_doc(program))


def test_it_is_pickled_as_its_directory(add: CompiledProgram) -> None:
    again: CompiledProgram = pickle.loads(pickle.dumps(add))
    assert again == add
    a, b = data(), data()
    np.testing.assert_array_equal(again(a, b), a + b)


@pytest.mark.parametrize("platform", ["cpu", "a2a3", "reference"])
def test_of_two_programs_in_one_directory_none_is_taken_for_the_other(tmp_path: Path, platform: str) -> None:
    """The second one is there: a pickle of the first says so, the first one runs as itself, and neither is equal to the other though both are of one path."""
    first, first_text = ir.compile(binary("FP32"), platform=platform, output_dir=tmp_path), b""
    if platform != "reference":
        first_text = pickle.dumps(first)
        assert pickle.loads(first_text) == first
    second = ir.compile(binary("FP32", "pl.mul(a, b)"), platform=platform, output_dir=tmp_path)
    assert first != second and len({first, second}) == 2 and str(first) == str(second)
    if platform in ("cpu", "reference"):
        a, b = data(), data()
        np.testing.assert_array_equal(runtime.execute_compiled(first, (a, b)), a + b)
        np.testing.assert_array_equal(runtime.execute_compiled(second, (a, b)), a * b)
    assert copy.copy(first) is copy.deepcopy(first) is first
    if platform == "reference":
        return
    for attempt in (lambda: pickle.loads(first_text), lambda: pickle.dumps(first)):
        with pytest.raises(ArtifactError, match=r"holds another program now[\s\S]*an output_dir of its own"):
            attempt()
    assert pickle.loads(pickle.dumps(second)) == second == CompiledProgram.from_dir(tmp_path) != first
    again = ir.compile(binary("FP32"), platform=platform, output_dir=tmp_path)
    assert pickle.loads(first_text) == again == first


def test_a_program_of_the_reference_is_not_portable() -> None:
    program = ir.compile(binary("FP32"), platform="reference")
    a, b = data(), data()
    np.testing.assert_array_equal(program(a, b), a + b)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(program)
    assert (Path(program) / "program.py").exists()
    with pytest.raises(ArtifactError, match="without code that another process could load"):
        CompiledProgram.from_dir(program)


# options ----------------------------------------------------------------------------------------------------------------


def test_options_of_other_tile_compilers_are_accepted_and_change_nothing(add: CompiledProgram) -> None:
    accepted: dict[str, Any] = dict.fromkeys(INERT_OPTIONS, "anything")
    assert ir.compile(binary("FP32"), platform="cpu", skip_ptoas=True, **accepted) == add
    assert RunConfig(**accepted) == RunConfig()
    with pytest.raises(TypeError, match="did you mean `memory_planner`"):
        ir.compile(binary("FP32"), memory_planer=1)


def test_what_is_said_to_compile_goes_before_its_config_and_both_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PLATFORM", "reference")
    config = RunConfig(platform="cpu")
    assert ir.compile(binary("FP32")).platform == "reference"
    assert ir.compile(binary("FP32"), config=config).platform == "cpu"
    assert ir.compile(binary("FP32"), platform="reference", config=config).platform == "reference"
    assert ir.compile(binary("FP32"), platform="a5sim").platform == "cpu"


def test_without_a_home_programs_run_and_compare_but_have_no_directory(add: CompiledProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilejit.runtime.artifact.compiled.default_root", lambda: None)
    assert add == ir.compile(binary("FP32"), platform="cpu")
    with pytest.raises(ArtifactError, match="no home directory"):
        str(add)


def test_a_call_cannot_ask_for_other_code(tmp_path: Path) -> None:
    place = str(tmp_path / "exact")
    made = ir.compile(binary("FP32"), place, config=RunConfig(fast_math=False, schedule=""))
    x = data()
    for exact in (made, CompiledProgram.from_dir(place), pickle.loads(pickle.dumps(made))):
        for config in (RunConfig(), RunConfig(num_threads=1), RunConfig(fast_math=False), RunConfig(arch="sm_90")):  # a CPU has no such architectures
            np.testing.assert_array_equal(exact(x, x, config=config), x + x)
        for config in (RunConfig(fast_math=True), replace(RunConfig(), fast_math=True)):
            with pytest.raises(OptionError, match="main was compiled with fast_math=False, the call asks for fast_math=True"):
                exact(x, x, config=config)
        with pytest.raises(OptionError, match="main was compiled with check_bounds=True, the call asks for check_bounds=False"):
            exact["main"](x, x, config=RunConfig(check_bounds=False))


@pytest.mark.parametrize("platform", ["cpu", "reference"])
def test_where_compiling_is_forbidden_a_program_is_refused_and_its_directory_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    program, place, a, b = binary("FP32"), tmp_path / "add", data(), data()
    ir.compile(program, place, platform="cpu")
    monkeypatch.setenv("TILEJIT_RUN_ONLY", "1")
    with pytest.raises(ArtifactError, match="would have to be compiled, and TILEJIT_RUN_ONLY forbids it") as caught:
        ir.compile(program, platform=platform)
    assert program.name in str(caught.value) and "output_dir" in str(caught.value)
    with pytest.raises(ArtifactError, match="TILEJIT_RUN_ONLY"):
        runtime.run(program, a, b, data())
    np.testing.assert_array_equal(CompiledProgram.from_dir(place)(a, b), a + b)
