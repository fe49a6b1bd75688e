"""What a target chooses before it writes code, by name, and what somebody asked for in its place: the stage `schedule` of a program."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from tilejit.dtypes import DTYPES, DType
from tilejit.errors import OptionError, did_you_mean

if TYPE_CHECKING:
    from tilejit.runtime.artifact.compiled import CompiledProgram

COPIES = "copies"
"""The choice for all copies of a program."""


def products_of(accumulator: DType) -> str:
    """The choice for all products of a program that are summed in a type."""
    return f"gemm {accumulator.name}"


def shared_names() -> tuple[str, ...]:
    """Choices that no kernel has for itself: a schedule may name them whether a program needs them or not."""
    return COPIES, *map(products_of, DTYPES.values())


def check_names(compiled: CompiledProgram, schedule: str, *, own: bool = False, of_setting: bool = False) -> None:
    """Refuse a schedule for nests that a program does not have; one that is not its `own` may speak of all kinds of products at once, and that of the setting
    of other programs."""
    if not schedule:
        return
    shared = () if own else shared_names()
    known = list(json.loads(compiled.stage("schedule"))) if "schedule" in compiled.stages() else []
    name = compiled.name.removeprefix("_jit_")
    ours = {name, *(nest.partition("/")[0] for nest in known)}
    for nest in json.loads(schedule):
        function, _, rest = nest.partition("/")
        if nest in known or nest in shared or (of_setting and rest and function not in ours):
            continue
        help = did_you_mean(nest, (*known, *shared)) or (f"it has {', '.join(known)}" if known else f"on `{compiled.platform}` nothing can be replaced")
        raise OptionError(f"the schedule of {name} has no {nest!r}{' (TILEJIT_SCHEDULE)' if of_setting else ''}", help=help)


AnySchedule = TypeVar("AnySchedule", bound=Any)
"""A frozen dataclass."""


@dataclass
class Choices:
    """The choices of one program; `replaced` has others for some, as `RunConfig(schedule={"kernel/nest0": {"lanes": 16}})` says it."""

    replaced: Mapping[str, Mapping[str, object]] = field(default_factory=dict[str, Mapping[str, object]])
    made: dict[str, Any] = field(default_factory=dict[str, Any])

    def text(self) -> str:
        """All of them as JSON, in the form in which others can be given."""
        return json.dumps({name: asdict(schedule) for name, schedule in self.made.items()}, indent=1) + "\n"

    def numbered(self, function: str, kind: str) -> str:
        """The name of the next choice of that kind in a function."""
        stem = f"{function}/{kind}"
        return f"{stem}{sum(name.startswith(stem) for name in self.made)}"

    def entered(self, name: str, chosen: AnySchedule, takes: Callable[[AnySchedule, str, object], bool]) -> AnySchedule:
        """The choice, or what was asked for; `takes` says whether code can follow a value."""
        given = self.replaced.get(name, {})
        known = {item.name: getattr(chosen, item.name) for item in fields(chosen)}
        for key, value in given.items():
            if key not in known or type(value) is not type(known[key]) or not takes(chosen, key, value):
                ours = ", ".join(f"{known_name}={number}" for known_name, number in known.items())
                raise OptionError(f"the schedule of {name!r} has no {key}={value!r}", help=f"ours is {ours}")
        self.made[name] = replace(chosen, **given)
        return self.made[name]
