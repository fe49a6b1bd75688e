"""What a host function can launch, and how a rank gets the arguments of a launch or takes part in a collective."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

from tilejit.dtypes import DType, dtype_of_numpy
from tilejit.errors import RankStopped, Span, StaleCaptureError
from tilejit.ops.ranks import COLLECTIVES
from tilejit.runtime.arrays import DeviceTensor
from tilejit.runtime.artifact.compiled import CompiledEntry
from tilejit.runtime.config import RunConfig
from tilejit.runtime.ranks import meeting
from tilejit.runtime.ranks.plan import GroupOf, HostTensor, Step, Window
from tilejit.runtime.targets import HOST


@dataclass(frozen=True, slots=True)
class LaunchParam:
    """A parameter of a function that can be launched."""

    name: str
    kind: str
    """"tensor", "window", "scalar", "group", "open" for a number without a type of its own, a text or None, or "static" for what is known while compiling."""
    shape: tuple[object, ...] | None = None
    """Extents of the annotation: ints, or symbols."""
    dtype: DType | None = None
    default: object = ...
    direction: str = "In"


class Launched(Protocol):
    """What a function was compiled to for one kind of arguments."""

    @property
    def entry(self) -> CompiledEntry: ...

    @property
    def reads(self) -> Mapping[object, object]:
        """What it stands on: for all launches of a function in one call the same."""
        ...

    def holds(self) -> bool:
        """Whether arguments of that kind still lead to it. Other kinds may have led to the same code by other answers of Python."""
        ...

    def text(self) -> str:
        """Its program, to be compared between processes."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Code of an artifact, or of a program that was compiled whole: it stays what it is."""

    entry: CompiledEntry
    written: Callable[[], str]
    """Its program."""

    @property
    def reads(self) -> Mapping[object, object]:
        return {}

    def holds(self) -> bool:
        return True

    def text(self) -> str:
        return self.written()


class Launchable(Protocol):
    """A function that runs on a rank."""

    @property
    def name(self) -> str: ...

    @property
    def params(self) -> Sequence[LaunchParam]: ...

    def compiled(self, values: Mapping[str, object], config: RunConfig | None) -> Launched:
        """The compiled function for such arguments; scalars stay parameters."""
        ...


def changed_between_launches(name: str, span: Span | None = None) -> StaleCaptureError:
    """The error for a function that would have to be two programs for arguments that one program is for."""
    help = "let it be an argument of the kernel, or change it before the host function is called"
    return StaleCaptureError(f"what `{name}` reads changed between two launches of one call", span=span, help=help)


@dataclass(frozen=True, eq=False)
class HostCollective:
    """A collective of a host function."""

    name: str
    operands: tuple[Window | HostTensor, ...]
    signal: Window
    op: int
    root: int
    ring: bool
    span: Span | None

    def settle(self, world: int) -> None:
        """The group is that of the data; a barrier's is that of its signal, or everybody."""
        windows = [operand for operand in self.operands if isinstance(operand, Window)]
        members: set[int] = set().union(*(window.buffer.ranks for window in windows if window is not self.signal or len(windows) == 1)) or set(range(world))
        for window in windows:
            window.buffer.ranks |= members

    def steps(self) -> list[Step]:
        return [Step(rank, self.name, self._run, (), (), self.span) for rank in sorted(self.signal.buffer.ranks)]

    def _run(self, call: Any, rank: int) -> None:
        arrays = [call.window(item, rank) if isinstance(item, Window) else item.array[rank : rank + 1] for item in self.operands]
        if self.name.startswith("all_to_all"):
            arrays = [array[0] if isinstance(item, HostTensor) else array for array, item in zip(arrays, self.operands, strict=True)]
        comm, line = call.context(self.signal.buffer, rank), self.span.line if self.span is not None else 0
        if not meeting.meet(comm, COLLECTIVES.index(self.name), self.op, self.root, self.ring, line, arrays, False):
            raise RankStopped(f"is in {self.name}", span=self.span)


def on_rank(call: Any, rank: int, value: object) -> object:
    """An argument as the launched function gets it."""
    if isinstance(value, Window):
        return call.memory.argument(call.window(value, rank))
    if isinstance(value, GroupOf):
        return call.context(value.window.buffer, rank)
    return call.memory.argument(value.array) if isinstance(value, HostTensor) else value


def tensor_at(array: Any, device: str) -> DeviceTensor:
    """Memory of a GPU that an array describes, as a kernel takes it."""
    dtype = dtype_of_numpy(array.dtype)
    assert dtype is not None
    return DeviceTensor(int(array.__array_interface__["data"][0]), array.shape, dtype, device)


def is_constant(param: LaunchParam, value: object) -> bool:
    """Whether an argument becomes part of the compiled function, as in a call of it alone; integers, which count ranks, stay parameters,
    unless the kernel declares that it has to know them."""
    if param.kind == "static":
        return is_settled(value)
    return param.kind == "open" and (value is None or isinstance(value, bool | float | str))


def is_settled(value: object) -> bool:
    """Whether a value is a number, a text, None, a data type, or a tuple of such."""
    if type(value) is tuple:
        return all(map(is_settled, cast("tuple[object, ...]", value)))
    return value is None or isinstance(value, int | float | str | DType)


_WRITTEN: dict[type, Callable[[Any], str]] = {
    type(None): repr, bool: repr, int: hex, float: float.hex, str: str.__str__, np.float64: float.hex, np.str_: str.__str__,
}  # fmt: skip
"""How constants are written so that two differ if and only if they do."""


class _Itself:
    """A constant of a class of the user's, which may write different values alike: known as the object, which lives as long as what knows it."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other._value is self._value

    def __hash__(self) -> int:
        return id(self._value)


def type_of(param: LaunchParam, value: object) -> object:
    """What the compiled function depends on."""
    if is_constant(param, value):
        write = _WRITTEN.get(type(value))
        return (type(value), write(value)) if write is not None else _Itself(value)
    if isinstance(value, Window):
        return ("window", value.shape, value.dtype)
    if isinstance(value, HostTensor):
        return ("tensor", value.shape, value.array.dtype)
    return type(value)


def sample(param: LaunchParam, value: object, device: str) -> object:
    """What a compile needs of an argument: its shape and dtype, and where it is."""
    if is_constant(param, value):
        return value
    if isinstance(value, Window | HostTensor):
        array = np.empty(value.shape, value.dtype.numpy) if isinstance(value, Window) else value.array
        return array if device == HOST else tensor_at(array, device)
    if isinstance(value, float) and param.dtype is None:
        return 0.5  # any: a parameter of the run without a type has that of what it is given
    from tilejit.types.annotations import RUNTIME

    return RUNTIME


def extents(shape: Sequence[object] | None, signature: Any, order: Sequence[object]) -> list[int]:
    """The shape of a result that is no parameter."""
    symbols: dict[object, int] = {}
    for param, value in zip(signature.params, order, strict=True):
        if isinstance(value, HostTensor | Window) and param.shape is not None:
            symbols.update({dim: extent for dim, extent in zip(param.shape, value.shape, strict=True) if isinstance(dim, str)})
    return [dim if isinstance(dim, int) else symbols[dim] for dim in shape or ()]


def shown(value: object) -> str:
    """An argument in a message."""
    if isinstance(value, HostTensor):
        return repr(value)
    if isinstance(value, Window):
        return "a window"
    return f"an array of shape {list(shape)}" if isinstance(shape := getattr(value, "shape", None), tuple) and shape else repr(value)


def in_framework(array: Any, framework: str) -> object:
    """An array as the caller's framework has it."""
    if framework != "torch":
        return array
    from tilejit.runtime import torch

    return torch.on_device(array, "cpu")
