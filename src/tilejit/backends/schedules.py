"""What a target chooses before it writes code, by name, and what somebody asked for in its place: the stage `schedule` of a program."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypeVar

from tilejit.dtypes import DTYPES, DType
from tilejit.errors import OptionError

COPIES = "copies"
"""The choice for all copies of a program."""


def products_of(accumulator: DType) -> str:
    """The choice for all products of a program that are summed in a type."""
    return f"gemm {accumulator.name}"


def shared_names() -> tuple[str, ...]:
    """Choices that no kernel has for itself: a schedule may name them whether a program needs them or not."""
    return COPIES, *map(products_of, DTYPES.values())


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
