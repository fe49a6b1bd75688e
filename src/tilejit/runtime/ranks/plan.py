"""What a call of a host function does: per rank a list of steps, the windows they use, and what each step waits for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy.typing as npt

from tilejit.dtypes import DType
from tilejit.errors import ArgumentError, Span
from tilejit.runtime.targets import HOST

NDArray = npt.NDArray[Any]


@dataclass(eq=False)
class WindowBuffer:
    """A block of bytes on every rank of its group."""

    name: str
    size: int
    span: Span | None = None
    ranks: set[int] = field(default_factory=set[int])
    """Who has one: those that are given a view of it."""
    viewed: bool = False
    everywhere: bool = False
    """Used by a collective that no launch names a group for."""
    number: int = -1
    """In the call, once it is planned."""


@dataclass(frozen=True, eq=False)
class Window:
    """A typed view of a block, on whatever rank it is used."""

    buffer: WindowBuffer
    shape: tuple[int, ...]
    dtype: DType

    def reshaped(self, shape: tuple[int, ...]) -> Window:
        return Window(self.buffer, shape, self.dtype)

    def __getitem__(self, index: object) -> object:
        raise ArgumentError("a window is passed whole from a host function", help="cut it in the function that is launched")


@dataclass(frozen=True, eq=False)
class GroupOf:
    """What pld.get_comm_ctx gives in a host function: the group of a window."""

    window: Window


@dataclass(eq=False, repr=False)
class HostTensor:
    """A tensor of the host function, or a part of one that lies in one piece. What it holds when the text runs is not what it holds at a launch: no text of it
    tells that."""

    array: NDArray
    name: str
    home: int | None = None
    """The rank that it stays with, if it does."""
    whole: HostTensor | None = None
    """What it is a part of, and which one."""
    at: Any = ()
    taken: set[int] = field(default_factory=set[int])
    """Which slices of it were taken by a first index, and where."""
    cut_at: Span | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    @property
    def pieces(self) -> Sequence[HostTensor]:
        """What of it is memory."""
        return (self,)

    @property
    def root(self) -> HostTensor:
        """The tensor that it is, or is a part of a part of."""
        return self if self.whole is None else self.whole.root

    @property
    def reach(self) -> tuple[int, int]:
        """The bytes it takes: first and past the last."""
        first = int(self.array.__array_interface__["data"][0])
        return first, first + self.array.nbytes

    def __repr__(self) -> str:
        return f"Tensor[{list(self.shape)}, {self.dtype}]"

    def __getitem__(self, index: Any) -> HostTensor:
        from tilejit.runtime.ranks.parts import part_of

        return part_of(self, index)


def _refused(self: HostTensor | Window, *_: object) -> NoReturn:
    from tilejit.runtime.ranks.parts import refuse

    refuse(self.name if isinstance(self, HostTensor) else self.buffer.name)


for _operator in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"):
    for _spelled in (f"__{_operator}__", f"__r{_operator}__", f"__i{_operator}__"):
        setattr(HostTensor, _spelled, _refused)
        setattr(Window, _spelled, _refused)
for _operator in ("neg", "pos", "abs", "invert", "lt", "le", "gt", "ge", "bool", "iter", "setitem", "float", "int"):
    setattr(HostTensor, f"__{_operator}__", _refused)
    setattr(Window, f"__{_operator}__", _refused)


@dataclass(eq=False, repr=False)
class StackedTensor(HostTensor):
    """A tensor whose slices stay with ranks: only they are memory."""

    shards: Sequence[HostTensor] = ()

    @property
    def pieces(self) -> Sequence[HostTensor]:
        return self.shards


@dataclass(eq=False)
class Step:
    """One thing that a rank does."""

    rank: int
    name: str
    run: Callable[[Any, int], None]
    """Given the call and the rank."""
    reads: Sequence[HostTensor] = ()
    writes: Sequence[HostTensor] = ()
    span: Span | None = None
    given: Sequence[object] = ()
    """What a launch gives to its kernel, in order."""
    number: int = 0
    """Among the steps of its rank."""
    after: list[Step] = field(default_factory=list["Step"])
    """Steps of other ranks that come first."""


@dataclass(frozen=True)
class Fact:
    """What all processes of a call must agree about."""

    value: object
    help: str = "every process makes the same calls, of the same code, on arguments of the same shapes"
    """What to do where they do not."""


@dataclass(eq=False)
class Plan:
    """The whole of a call."""

    world: int
    steps: list[Step] = field(default_factory=list[Step])
    buffers: list[WindowBuffer] = field(default_factory=list[WindowBuffer])
    tensors: list[HostTensor] = field(default_factory=list[HostTensor])
    """What the caller gave and the host function made."""
    facts: dict[str, Fact] = field(default_factory=dict[str, Fact])
    """By what they are called in messages."""
    memory: object = None
    """Where its windows lay in the last call."""
    device: str = HOST
    """Where its tensors and windows are."""
    held: list[object] = field(default_factory=list[object])
    """What keeps the memory of tensors that the host function made."""

    def add(self, step: Step) -> None:
        """Take up a step; it comes after those of other ranks that touched what it writes, or wrote what it touches."""
        step.number = sum(other.rank == step.rank for other in self.steps)
        for other in self.steps:
            if other.rank != step.rank and (_meet(other.writes, (*step.reads, *step.writes)) or _meet(step.writes, other.reads)):
                step.after.append(other)
        self.steps.append(step)

    @property
    def written(self) -> set[HostTensor]:
        """The tensors that steps write, or write parts of."""
        return {tensor.root for step in self.steps for tensor in step.writes}

    def groups(self) -> list[tuple[int, ...]]:
        """Number the buffers, and the groups that they belong to."""
        found: dict[tuple[int, ...], None] = {}
        for number, buffer in enumerate(self.buffers):
            buffer.number = number
            if buffer.everywhere and not buffer.ranks:
                buffer.ranks = set(range(self.world))
            found[tuple(sorted(buffer.ranks))] = None
        return list(found)


def _meet(some: Sequence[HostTensor], others: Sequence[HostTensor]) -> bool:
    return any(a.reach[0] < b.reach[1] and b.reach[0] < a.reach[1] for a in some for b in others)


def owner_of(plan: Plan, start: int, stop: int) -> list[tuple[int, int, int]]:
    """Which rank wrote each part of a stretch of memory last: (rank, first byte, past the last)."""
    marks: list[tuple[int, int, int]] = []
    for step in plan.steps:
        for tensor in step.writes:
            low, high = max(tensor.reach[0], start), min(tensor.reach[1], stop)
            if low < high:
                left = [(r, a, b) for r, a, b in marks if b <= low or a >= high]
                for r, a, b in marks:
                    if b > low and a < high:
                        left += [(r, a, low)] * (a < low) + [(r, high, b)] * (b > high)
                marks = [*left, (step.rank, low, high)]
    return sorted(marks, key=lambda mark: mark[1])
