"""Settings and options: read live, checked, with suggestions."""

from __future__ import annotations

import contextvars
import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tilejit import config as settings
from tilejit.errors import OptionError, PlatformError, TilejitWarning
from tilejit.runtime import DistributedConfig, config
from tilejit.runtime.config import RunConfig
from tilejit.runtime.targets import resolve_platform


def test_there_are_few_settings_each_with_its_own_variable_and_meaning() -> None:
    assert len([setting for setting in settings.SETTINGS if not setting.doc.startswith("set by `tilejit launch`")]) == 24
    assert len({setting.variable for setting in settings.SETTINGS}) == len(settings.SETTINGS)
    assert all(setting.doc and setting.variable.startswith("TILEJIT_") for setting in settings.SETTINGS)


def test_settings_are_read_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FAST_MATH", "0")
    assert settings.FAST_MATH.value is False
    assert ("fast_math", False) in settings.code_settings()
    monkeypatch.setenv("TILEJIT_FAST_MATH", "on")
    assert settings.FAST_MATH.value is True
    monkeypatch.delenv("TILEJIT_FAST_MATH")
    assert settings.FAST_MATH.value is True


@pytest.mark.parametrize(("variable", "text"), [("TILEJIT_FAST_MATH", "maybe"), ("TILEJIT_NUM_THREADS", "-1"), ("TILEJIT_ARENA_BYTES", "lots")])
def test_a_setting_that_makes_no_sense_names_its_variable(monkeypatch: pytest.MonkeyPatch, variable: str, text: str) -> None:
    monkeypatch.setenv(variable, text)
    setting = next(setting for setting in settings.SETTINGS if setting.variable == variable)
    with pytest.raises(OptionError, match=f"{variable}='{text}'.*\n.*help: {variable} is: "):
        _ = setting.value


def test_sizes_have_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_ARENA_BYTES", "3g")
    assert settings.ARENA_BYTES.value == 3 << 30


def test_an_unknown_variable_is_a_warning_with_a_suggestion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PLATFROM", "cpu")
    monkeypatch.setattr(config, "_warned", set())
    with pytest.warns(TilejitWarning, match="TILEJIT_PLATFROM is set.*did you mean TILEJIT_PLATFORM"):
        config.check_settings()


def test_platforms_are_named_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_platform(None) == "cpu"
    assert resolve_platform("a2a3sim") == "cpu"
    monkeypatch.setenv("TILEJIT_PLATFORM", "reference")
    assert resolve_platform(None) == "reference"
    assert resolve_platform("cpu") == "cpu"
    with pytest.raises(PlatformError, match=r"unknown platform `gpu`; valid: cpu, cuda, reference, eager, sanitize, a2a3, a5"):
        resolve_platform("gpu")


def test_an_unknown_field_of_run_config_is_a_type_error_with_a_suggestion() -> None:
    with pytest.raises(TypeError, match="no option `num_thread`; did you mean `num_threads`"):
        RunConfig(num_thread=2)


def test_options_of_other_tile_compilers_are_accepted() -> None:
    assert RunConfig(block_dim=24, platform="cpu") == RunConfig(platform="cpu")


def test_run_config_cannot_be_changed_and_takes_its_defaults_from_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_CHECK_BOUNDS", "0")
    made = RunConfig()
    assert made.check_bounds is False
    with pytest.raises(AttributeError):
        made.check_bounds = True  # type: ignore[misc]


def test_nothing_changes_a_run_config_that_was_made() -> None:
    made = RunConfig(fast_math=False, num_threads=2)
    with pytest.raises(AttributeError):
        object.__setattr__(made, "fast_math", True)
    with pytest.raises(TypeError):
        vars(made)
    with pytest.raises(TypeError, match="no class is derived from RunConfig"):
        type("Other", (RunConfig,), {})
    for again in (pickle.loads(pickle.dumps(made)), copy.copy(made), copy.deepcopy(made)):
        assert again == made and again.said == made.said and hash(again) == hash(made) and repr(again) == repr(made)
    assert replace(made, num_threads=3).fast_math is False


@pytest.mark.parametrize("value", [0, np.bool_(False)])
def test_flags_that_are_equal_are_one(value: Any) -> None:
    assert RunConfig(fast_math=value).fast_math is False


@pytest.mark.parametrize("name", ["fast_math", "check_bounds", "dump_passes", "save_kernels"])
@pytest.mark.parametrize("value", ["0", "", 0.0, 2, [], np.float32(0)])
def test_a_flag_is_no_text_and_no_other_number(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=f"{name} is True or False, got"):
        RunConfig(**{name: value})


@pytest.mark.parametrize("count", [True, 1.5, "2"])
def test_threads_are_counted_by_integers(count: Any) -> None:
    with pytest.raises(TypeError, match="num_threads must be an int"):
        RunConfig(num_threads=count)


def test_a_list_of_devices_may_change_after_a_config_was_made_of_it() -> None:
    ids = [0, 1]
    made = DistributedConfig(ids)
    ids.append(1)
    assert made.device_ids == (0, 1)


def test_what_a_compile_was_told_is_for_that_compile_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a context that was copied meanwhile, as tasks of asyncio have one, which outlives the compile or runs in another thread."""
    with settings.under({"fast_math": True}):
        context, other = contextvars.copy_context(), contextvars.copy_context()
        monkeypatch.setenv("TILEJIT_FAST_MATH", "0")
        assert settings.FAST_MATH.value is True
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(other.run, lambda: settings.FAST_MATH.value).result() is False
    assert context.run(lambda: settings.FAST_MATH.value) is False
