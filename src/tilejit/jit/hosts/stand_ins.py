"""What stands for a kernel or a host function in the texts of an artifact: it can be launched, and tells nothing else of itself."""

from __future__ import annotations

from collections.abc import Callable

from tilejit.errors import ArtifactError


class StandIn:
    """Whatever a text asks of it but its name and to run would be answered otherwise than by what it stands for: that is an error."""

    __slots__ = ("_name", "_run")

    def __init__(self, name: str, run: Callable[..., object]) -> None:
        self._name, self._run = name, run

    def __call__(self, *args: object, **named: object) -> object:
        return _run_of(self)(*args, **named)

    def __getattribute__(self, name: str) -> object:
        from tilejit.jit.function import JITFunction

        if name == "__name__":
            return _name_of(self)
        if name != "__wrapped__" and hasattr(JITFunction, name):  # which Python asks of whatever is wrapped in a function
            raise _told_nothing(self, f".{name}")
        raise AttributeError(f"'JITFunction' object has no attribute {name!r}")  # kernels with attributes of somebody's are not stored

    def __repr__(self) -> str:
        raise _told_nothing(self, " as text")

    def __format__(self, spec: str) -> str:
        raise _told_nothing(self, " as text")


_name_of: Callable[[StandIn], str] = vars(StandIn)["_name"].__get__
_run_of: Callable[[StandIn], Callable[..., object]] = vars(StandIn)["_run"].__get__
StandIn.__name__ = StandIn.__qualname__ = "JITFunction"
StandIn.__module__ = "tilejit.jit.function"


def _told_nothing(stand_in: StandIn, what: str) -> ArtifactError:
    name = _name_of(stand_in)
    what = f"`{name}{what}` is asked for by a stored program, which has no more of `{name}` than what it runs"
    return ArtifactError(what, help="give the answer as a parameter")
