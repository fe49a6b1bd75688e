"""An entry that only computes numbers, asks for memory and launches, as a list of launches whose numbers are terms over the entry's inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilejit.backends.cuda.plan import Allocate, Apply, Compute, EntryPlan, Expr, Launch, Move, Var
from tilejit.runtime.cuda.launch_abi import OPERATIONS
from tilejit.runtime.cuda.program import KernelRow, LaunchRow, Node

_ALIGN = 256
"""Of each piece of memory."""


class _NoTerm(Exception):
    """A number that is more than that."""


def launch_list(entry: EntryPlan, kernels: Sequence[KernelRow]) -> tuple[tuple[LaunchRow, ...], Node] | None:
    """The launches of an entry, and the bytes that all of it takes, which are taken at once; None when it does anything else."""
    made = _List(entry, kernels)
    try:
        return tuple(made.launches()), made.bytes
    except _NoTerm:
        return None


class _List:
    def __init__(self, entry: EntryPlan, kernels: Sequence[KernelRow]) -> None:
        self.steps, self.kernels = entry.steps, kernels
        self.names: dict[str, Node | None] = {given.name: ("input", position) for position, given in enumerate(entry.inputs)}
        self.bytes: Node = 0

    def launches(self) -> list[LaunchRow]:
        found: list[LaunchRow] = []
        for step in self.steps:
            match step:
                case Compute():
                    self.names[step.target] = _maybe(step.value, self.names)
                case Move():
                    self.names |= dict(zip(step.targets, [_maybe(value, self.names) for value in step.values], strict=True))
                case Allocate():
                    self.names[step.target] = self.take(_term(step.bytes, self.names))
                case Launch():
                    found.append(self.launch(step))
                case _:
                    raise _NoTerm
        return found

    def launch(self, step: Launch) -> LaunchRow:
        kernel, given = self.kernels[step.kernel], iter([_term(number, self.names) for number in step.arguments])
        grid = tuple(_term(number, self.names) for number in step.grid)
        if kernel.shared:
            grid = (("minimum", grid[0], ("resident", step.kernel)), *grid[1:])
        programs = _times(_times(grid[0], grid[1]), grid[2])
        arguments: list[Node] = []
        zeroed: tuple[Node, ...] = ()
        for parameter in kernel.parameters:
            if parameter.kind in ("pointer", "scalar"):
                arguments.append(next(given))
            elif parameter.kind == "scratch":
                arguments.append(self.take(_times(programs, kernel.scratch_bytes)))
            elif parameter.kind == "barrier" and kernel.meeting_bytes:
                size = _times(programs, kernel.meeting_bytes)
                zeroed = self.take(size), size
                arguments.append(zeroed[0])
            elif parameter.kind != "error":
                raise _NoTerm  # memory that the host looks at, or a lock
        own = max(row.facts.scratch * row.facts.clusters for row in kernel.cubins)
        return LaunchRow(step.kernel, grid, tuple(arguments), self.take(_times(programs, own)) if own else 0, zeroed)

    def take(self, size: Node) -> Node:
        """A place in the memory of the call."""
        place: Node = ("memory", self.bytes)
        whole = -(-size // _ALIGN) * _ALIGN if isinstance(size, int) else ("mul", ("ceildiv", size, _ALIGN), _ALIGN)
        self.bytes = self.bytes + whole if isinstance(self.bytes, int) and isinstance(whole, int) else ("add", whole, self.bytes)
        return place


def _times(left: Node, right: Node) -> Node:
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    return left if right == 1 else right if left == 1 else ("mul", left, right)


def _maybe(expression: Expr, names: Mapping[str, Node | None]) -> Node | None:
    """The term of a number, None where it has none: it may never be used."""
    try:
        return _term(expression, names)
    except _NoTerm:
        return None


def _term(expression: Expr, names: Mapping[str, Node | None]) -> Node:
    match expression:
        case bool() | float():
            raise _NoTerm
        case int():
            return expression
        case Var():
            found = names.get(expression.name)
            if found is None:
                raise _NoTerm
            return found
        case Apply():
            plain = expression.dtype == "INDEX" and all(operand == "INDEX" for operand in expression.operands) and not expression.statics
            if not plain or expression.op not in OPERATIONS:
                raise _NoTerm
            left, right = (_term(argument, names) for argument in expression.args)
            return expression.op, left, right
