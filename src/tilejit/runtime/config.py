"""How a call or a compile is to be done: RunConfig, and the options accepted for the sake of existing scripts."""

from __future__ import annotations

import enum
import json
import os
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from types import MemberDescriptorType
from typing import NoReturn, cast, final

import numpy as np

from tilejit import config
from tilejit.errors import ArtifactError, OptionError, TilejitWarning, did_you_mean
from tilejit.runtime.targets import code_settings, resolve_platform

_CHIP = "counts or records on the chip"
_FILES = "writes or reads files of the vendor's tools"
_QUEUES = "sizes what the chip's scheduler works with"
_COMPILER = "steers another compiler"
INERT_OPTIONS = {
    **dict.fromkeys(("profiling", "enable_chip_swimlane", "enable_pmu", "enable_dump_args", "enable_dep_gen", "enable_scope_stats"), _CHIP),
    **dict.fromkeys(("save_data", "golden_dir", "golden_data_dir", "runtime_dir", "report"), _FILES),
    **dict.fromkeys(("block_dim", "aicpu_thread_num", "ring_task_window", "ring_heap", "ring_dep_pool"), _QUEUES),
    **dict.fromkeys(("backend_type", "memory_planner", "codegen_only", "pto_isa_commit", "diagnostic_phase", "disabled_diagnostics", "log_level"), _COMPILER),
    **dict.fromkeys(("compile_profiling", "analyze_auto_scopes_for_deps", "dump_ptoas_passes"), _COMPILER),
}
"""Options of other tile compilers, and what they do there: accepted so that existing scripts run, without effect."""


class OptimizationStrategy(enum.Enum):
    """How much to optimise."""

    Default = 0
    Debug = 1


def check_options(options: dict[str, object], known: tuple[str, ...], what: str) -> None:
    """Refuse options that neither we nor the table of inert ones know."""
    for name in options:
        if name not in INERT_OPTIONS:
            hint = did_you_mean(name, (*known, *INERT_OPTIONS))
            raise TypeError(f"{what} has no option `{name}`" + (f"; {hint}" if hint else ""))


@final
@dataclass(frozen=True, init=False, slots=True)
class RunConfig:
    """Options of a call, a compile or a lowering. Those of other tile compilers (`INERT_OPTIONS`) are taken and have no effect.

    Warm calls know one by its identity: nothing changes it, and no class is derived that could answer something else next time.
    """

    platform: str | None
    device_id: int
    rtol: float
    atol: float
    strategy: OptimizationStrategy
    dump_passes: bool
    save_kernels: bool
    save_kernels_dir: str | None
    num_threads: int | None
    check_bounds: bool
    fast_math: bool
    arch: str
    schedule: str
    stream: object
    distributed_config: object
    said: frozenset[str] = field(init=False, repr=False, compare=False)
    """The options for code that whoever made it gave; the others are what the settings were then."""

    def __init__(
        self,
        platform: str | None = None,
        device_id: int = 0,
        rtol: float = 1e-5,
        atol: float = 1e-5,
        strategy: OptimizationStrategy = OptimizationStrategy.Default,
        dump_passes: bool = False,
        save_kernels: bool = False,
        save_kernels_dir: str | None = None,
        num_threads: int | None = None,
        check_bounds: bool | None = None,
        fast_math: bool | None = None,
        arch: str | None = None,
        schedule: Mapping[str, Mapping[str, object]] | str | None = None,
        stream: object = None,
        distributed_config: object = None,
        **inert: object,
    ) -> None:
        check_options(inert, tuple(name for name, option in self.__dataclass_fields__.items() if option.init), "RunConfig")
        _check_values(platform, device_id, num_threads)
        values = {
            "platform": platform, "device_id": device_id, "rtol": rtol, "atol": atol, "strategy": strategy,
            "dump_passes": flag("dump_passes", dump_passes), "save_kernels": flag("save_kernels", save_kernels),
            "save_kernels_dir": save_kernels_dir, "num_threads": num_threads,
            "check_bounds": config.CHECK_BOUNDS.value if check_bounds is None else flag("check_bounds", check_bounds),
            "fast_math": config.FAST_MATH.value if fast_math is None else flag("fast_math", fast_math),
            "arch": config.ARCH.value if arch is None else arch and _architectures(arch),
            "schedule": config.SCHEDULE.value if schedule is None else schedule and _schedules(schedule),
            "stream": stream, "distributed_config": distributed_config,
        }  # fmt: skip
        code = {"check_bounds": check_bounds, "fast_math": fast_math, "arch": arch, "schedule": schedule}
        _fill(self, {**values, "said": frozenset(name for name, value in code.items() if value is not None)})

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("no class is derived from RunConfig; write a function that makes one")

    def __reduce__(self) -> tuple[Callable[..., RunConfig], tuple[dict[str, object]]]:
        return _restored, ({name: getattr(self, name) for name in _SLOTS},)


def _fill(made: RunConfig, values: Mapping[str, object]) -> None:
    for name, slot in _SLOTS.items():
        slot.__set__(made, values[name])


def _restored(values: Mapping[str, object]) -> RunConfig:
    """A pickled or copied one."""
    made = object.__new__(RunConfig)
    _fill(made, values)
    return made


_SLOTS = {name: cast("MemberDescriptorType", RunConfig.__dict__[name]) for name in RunConfig.__dataclass_fields__}
for _name, _slot in _SLOTS.items():
    setattr(RunConfig, _name, property(_slot.__get__))  # without a way to set it, which `object` has for a frozen one


@cache
def code_options(platform: str) -> tuple[str, ...]:
    """What of a RunConfig changes the code of a platform."""
    return tuple(name for name, _ in code_settings(platform) if name in RunConfig.__dataclass_fields__ and name != "platform")


def _schedules(given: Mapping[str, Mapping[str, object]] | str) -> str:
    try:
        return config.schedules(given if isinstance(given, str) else json.dumps(given))
    except (ValueError, TypeError) as error:
        raise OptionError(f"schedule={given!r}: {error}", help="the stage `schedule` of a compiled program shows what there is") from None


def _architectures(text: str) -> str:
    try:
        return config.architectures(text)
    except (ValueError, AttributeError) as error:
        raise OptionError(f"arch={text!r}: {error}", help="write arch='sm_90'") from None


def flag(name: str, value: object) -> bool:
    """An option that is on or off. Texts are refused: "0" would be true."""
    if type(value) is bool:
        return value
    if isinstance(value, np.bool_) or (type(value) is int and value in (0, 1)):
        return bool(value)
    raise OptionError(f"{name} is True or False, got {value!r}", help=f"write {name}=True or {name}=False")


def _check_values(platform: str | None, device_id: int, num_threads: int | None) -> None:
    if platform is not None:
        resolve_platform(platform)
    if not isinstance(device_id, int) or isinstance(device_id, bool):
        raise TypeError(f"device_id must be an int, got {type(device_id).__name__}")
    if device_id < 0:
        raise ValueError(f"device_id must not be negative, got {device_id}")
    if num_threads is not None and (not isinstance(num_threads, int) or isinstance(num_threads, bool)):
        raise TypeError(f"num_threads must be an int, got {type(num_threads).__name__}")
    if num_threads is not None and num_threads < 1:
        raise ValueError(f"num_threads must be positive, got {num_threads}")


@contextmanager
def eager() -> Generator[None]:
    """Calls inside, on all threads, run their kernels line by line in Python: debuggers stop on kernel lines, and tiles are NumPy arrays there."""
    variable = config.EAGER.variable
    before = os.environ.get(variable)
    os.environ[variable] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before


def forbidden(name: str, verb: str = "compile", ship: str = "the cache (`tilejit cache export`)", note: str | None = None) -> ArtifactError:
    """What is raised where RUN_ONLY forbids what a call needs; what else there is to `ship` from where it is allowed."""
    help = f"{verb} it where that is allowed and ship {ship}, or unset the variable"
    return ArtifactError(f"{name} would have to be {verb}d, and {config.RUN_ONLY.variable} forbids it", note=note, help=help)


_OF_RUNS: tuple[config.Setting[int] | config.Setting[bool], ...] = (config.NUM_THREADS, config.ARENA_BYTES, config.FASTPATH)


def check_settings_of_runs() -> None:
    """The same for what running a program reads, before anything runs."""
    for setting in _OF_RUNS:
        _ = setting.value


_warned: set[str] = set()


def check_settings() -> None:
    """Name what makes no sense in the environment: a value that a setting does not take is an error, a TILEJIT_* variable that nothing reads a warning."""
    there = config.variables_set()
    for setting in [setting for variable in there if (setting := config.VARIABLES.get(variable)) is not None]:
        _ = setting.value
    for name, close in config.unknown_variables(there).items():
        if name not in _warned:
            _warned.add(name)
            hint = f"; did you mean {close}?" if close else ""
            warnings.warn(f"{name} is set, but tilejit has no such setting{hint}", TilejitWarning, stacklevel=3)
