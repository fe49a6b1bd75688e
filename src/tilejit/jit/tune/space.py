"""What there is to choose from: compile-time arguments and choices of the backend, as axes with a few values each."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from tilejit.errors import TuningError, did_you_mean
from tilejit.jit.definition import Definition
from tilejit.jit.reads.plain import encode
from tilejit.jit.specialize.arguments import stays_runtime
from tilejit.jit.specialize.signature import JitParam

SCHEDULE = "schedule"
"""In a configuration: the choices of the backend, by nest."""

Point = tuple[int, ...]
"""Which value is taken on each axis."""
Schedule = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Choice:
    """A part of a candidate: compile-time arguments by name, and what the backend is to choose, by nest."""

    arguments: Mapping[str, object] = field(default_factory=dict[str, object])
    schedule: Schedule = field(default_factory=dict[str, Mapping[str, object]])

    def __or__(self, other: Choice) -> Choice:
        nests = {*self.schedule, *other.schedule}
        schedule = {nest: {**self.schedule.get(nest, {}), **other.schedule.get(nest, {})} for nest in sorted(nests)}
        return Choice({**self.arguments, **other.arguments}, schedule)

    def __str__(self) -> str:
        parts = [f"{name}={_shown(value)}" for name, value in self.arguments.items()]
        return ", ".join([*parts, *(f"{nest}.{name}={value}" for nest, rows in self.schedule.items() for name, value in rows.items())]) or "as it is"


def _shown(value: object) -> str:
    return getattr(value, "__qualname__", None) or repr(value)


@dataclass(frozen=True, slots=True)
class Axis:
    """Values of which a candidate has one."""

    name: str
    choices: tuple[Choice, ...]
    first: int = 0
    """Which one is meant where nothing is tuned."""


@dataclass(frozen=True, slots=True)
class Space:
    """All candidates: one value of each axis."""

    axes: tuple[Axis, ...]

    def __len__(self) -> int:
        return math.prod(len(axis.choices) for axis in self.axes)

    def __getitem__(self, point: Point) -> Choice:
        out = Choice()
        for axis, at in zip(self.axes, point, strict=True):
            out = out | axis.choices[at]
        return out

    @property
    def first(self) -> Point:
        """What a kernel does untuned: defaults where they are among the values, else the first ones."""
        return tuple(axis.first for axis in self.axes)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The parameters that are chosen here."""
        return tuple(dict.fromkeys(name for axis in self.axes for choice in axis.choices for name in choice.arguments))

    @property
    def nests(self) -> tuple[str, ...]:
        """The nests whose schedules are chosen here."""
        return tuple(dict.fromkeys(nest for axis in self.axes for choice in axis.choices for nest in choice.schedule))

    def points(self) -> Iterator[Point]:
        """All of them, the untuned one first."""
        yield self.first
        for number in range(len(self)):
            point = self._at(number)
            if point != self.first:
                yield point

    def _at(self, number: int) -> Point:
        out: list[int] = []
        for axis in reversed(self.axes):
            number, at = divmod(number, len(axis.choices))
            out.append(at)
        return tuple(reversed(out))

    def digest(self) -> str:
        """Equal for spaces with the same values in the same order."""
        rows = [[axis.name, [[encode(dict(choice.arguments), _named), choice.schedule] for choice in axis.choices]] for axis in self.axes]
        return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()


def _named(value: object) -> object:
    """What is not plain, by name: a space whose values changed behind equal names has the same digest, and its candidates are still its own."""
    return [type(value).__qualname__, getattr(value, "__module__", ""), getattr(value, "__qualname__", "") or str(value).partition(" at 0x")[0]]


def space_of(definition: Definition, configs: object, schedule: object) -> Space:
    """The space that `@pl.autotune` was given: a list of configurations, or values by parameter; and values of schedules by nest."""
    where = f"@pl.autotune of '{definition.name}'"
    if isinstance(configs, Mapping):
        axes = [_axis(definition, where, str(name), values) for name, values in cast("Mapping[object, object]", configs).items()]
    elif configs is None:
        axes = []
    elif isinstance(configs, Iterable) and not isinstance(configs, str):
        axes = [_listed(definition, where, list(cast("Iterable[object]", configs)))]
    else:
        help = "write [{'BM': 32}, {'BM': 64}], or {'BM': [32, 64]} for all combinations"
        raise TuningError(f"{where} takes configurations or values by parameter, got {configs!r}", help=help)
    axes += _scheduled(where, schedule)
    if not axes:
        raise TuningError(f"{where} has nothing to choose from", help="name parameters with their values: @pl.autotune({'BM': [32, 64]})")
    return Space(tuple(axes))


def _axis(definition: Definition, where: str, name: str, values: object) -> Axis:
    if name == SCHEDULE and not any(param.name == SCHEDULE for param in definition.params):
        raise TuningError(f"{where}: values of schedules stand beside those of parameters", help="write @pl.autotune({…}, schedule={'nest': {'name': [1, 2]}})")
    param = _tunable(definition, where, name)
    listed = _values(where, f"`{name}`", values)
    first = next((i for i, value in enumerate(listed) if type(value) is type(param.default) and value == param.default), 0)
    return Axis(name, tuple(Choice({name: value}) for value in listed), first)


def _values(where: str, what: str, values: object) -> list[object]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TuningError(f"{where}: {what} needs a list of values, got {values!r}", help=f"write [{values!r}]")
    listed = list(cast("Iterable[object]", values))
    if not listed:
        raise TuningError(f"{where}: {what} has no values to choose from", help="give at least one")
    return listed


def _tunable(definition: Definition, where: str, name: str) -> JitParam:
    names = [param.name for param in definition.params]
    param = next((param for param in definition.params if param.name == name), None)
    if param is None:
        raise TuningError(f"{where}: there is no parameter `{name}`", help=did_you_mean(name, names) or f"it has {', '.join(names)}")
    if param.kind == "tensor" or stays_runtime(definition, param):
        what = "a tensor" if param.kind == "tensor" else "known only when the kernel runs"
        raise TuningError(f"{where}: `{name}` is {what}, not a compile-time argument", help=f"choose among values of another parameter, or declare {name}: int")
    return param


def _listed(definition: Definition, where: str, configs: Sequence[object]) -> Axis:
    if not configs:
        raise TuningError(f"{where} has no configurations to choose from", help="give at least one: @pl.autotune([{'BM': 32}, {'BM': 64}])")
    return Axis("configuration", tuple(_configuration(definition, where, config) for config in configs))


def _configuration(definition: Definition, where: str, config: object) -> Choice:
    if not isinstance(config, Mapping):
        raise TuningError(f"{where}: a configuration is a dict of arguments, got {config!r}", help="write {'BM': 32}")
    rows = {str(name): value for name, value in cast("Mapping[object, object]", config).items()}
    chosen = rows.pop(SCHEDULE, {}) if not any(param.name == SCHEDULE for param in definition.params) else {}
    for name in rows:
        _tunable(definition, where, name)
    return Choice(rows, {nest: dict(fields) for nest, fields in _by_nest(where, chosen).items()})


def _by_nest(where: str, schedule: object) -> Schedule:
    given = cast("Mapping[object, object]", schedule) if isinstance(schedule, Mapping) else {None: None}
    if not all(isinstance(nest, str) and isinstance(fields, Mapping) for nest, fields in given.items()):
        help = "the stage `schedule` of a compiled program shows what there is: kernel.compile(…).stage('schedule')"
        raise TuningError(f"{where}: a schedule is a dict of dicts by nest, got {schedule!r}", help=help)
    return cast("Schedule", given)


def _scheduled(where: str, schedule: object) -> Iterator[Axis]:
    for nest, fields in _by_nest(where, schedule or {}).items():
        for name, values in fields.items():
            yield Axis(f"{nest}.{name}", tuple(Choice({}, {nest: {name: value}}) for value in _values(where, f"{name} of {nest!r}", values)))
