"""What the CUDA emitter hands to the CUDA run time: kernels as Triton text, and per entry the steps that launch them.

The host side is a small register machine. Every variable is a number: a buffer is the address of its first element, extents and
strides are variables of their own. So steps only compute numbers, ask for memory, launch, read one element back, and branch.
Nothing here knows xDSL or Triton: a plan can be kept on disk and run by a process that has neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from tilejit.errors import Span
from tilejit.runtime.call.failures import Failure

# numbers on the host ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Var:
    """A variable of the host program."""

    name: str


@dataclass(frozen=True, slots=True)
class Apply:
    """A scalar op on numbers: the name of an elementwise row of the op table, with its meaning there, in `dtype` (the name of the result's data type).

    `statics` are the row's compile-time arguments ("cmp_type" of cmp, "mode" of cast). INDEX is by far the most frequent dtype. Besides those
    rows there are "ceildiv" of two INDEX numbers, rounded up, and the rows of small arrays, whose value is a tuple of integers.
    """

    op: str
    args: tuple[Expr, ...]
    dtype: str = "INDEX"
    operands: tuple[str, ...] = ()
    """Data types of the arguments, by name; left out where all are INDEX."""
    statics: tuple[tuple[str, object], ...] = ()


Expr = int | float | bool | Var | Apply
"""A number of the host program."""


# kernels ----------------------------------------------------------------------------------------------------------------

ParameterKind = Literal["pointer", "scalar", "scratch", "error", "barrier", "log"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel in the order of its text.

    "pointer": an address; "scalar": a number; both take the next argument of the launch. The run time supplies the others: "scratch" (start of
    `scratch_bytes` × programs bytes), "error" (the failure words), "barrier" (memory that is 0: `meeting_bytes` of each program, or an int32 that is
    a lock) and "log" (its prints).
    """

    name: str
    kind: ParameterKind
    type: str
    """Type in Triton's signature: "*fp32", "*bf16", "*u8", "i32", "i64", "fp32", …"""
    divisible: bool = False
    """In the aligned variant its value (the address in bytes, or the integer) is a multiple of 16; the launch looks and takes the general variant otherwise."""


@dataclass(frozen=True)
class Kernel:
    """One Triton function with everything that compiling and launching it needs."""

    name: str
    text: str
    """A module: imports of triton, helpers, and the function `name`."""
    parameters: tuple[Parameter, ...]
    num_warps: int = 4
    num_stages: int = 3
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    """Further options of Triton's backend, such as `enable_fp_fusion`."""
    scratch_bytes: int = 0
    """Scratch memory of each program, a multiple of 128."""
    gang: int = 1
    """Programs that wait for each other: whole gangs are launched, as many as run at once, and share the work."""
    meeting_bytes: int = 0
    """What each program has of the memory that is 0 at first, where the gangs meet."""
    lines: tuple[tuple[int, Span], ...] = ()
    """First line of the text (counted from 1) that belongs to each place in the source, ascending."""
    schedule: str = ""
    """In words, for people: blocks, warps, stages."""
    specialised: bool = False
    """Whether the warps of its loops have different work."""
    parts: int = 1
    """In how many parts it multiplies large tiles."""
    least_capability: int = 80
    """Compute capability it needs, times ten."""
    walkers: int = 0
    """Programs of each processor that share the blocks of the grid, whichever GPU it is; 0: each block is a program."""

    @property
    def signature(self) -> dict[str, str]:
        """Parameter types by name."""
        return {parameter.name: parameter.type for parameter in self.parameters}


# steps ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compute:
    """Give a variable a value."""

    target: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Allocate:
    """Memory on the device, at least 256-byte aligned, until the end of the block of steps it stands in, or of the call; content undefined.

    In a loop each turn may get the same memory again, unless `keep`.
    """

    target: str
    bytes: Expr
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Launch:
    """Run a kernel in `grid` programs; nothing happens when an extent of the grid is 0. `arguments` fill its pointers and scalars in order."""

    kernel: int
    """Position in `Program.kernels`."""
    grid: tuple[Expr, Expr, Expr]
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """Wait for the device and read one element at an address."""

    target: str
    address: Expr
    dtype: str


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the engine of ranks something, or let it do something: a method of runtime/ranks/asked.py, with numbers; its answer is a number."""

    target: str
    what: str
    arguments: tuple[Expr, ...]
    pauses: bool = False
    """Whether other blocks go on meanwhile."""


@dataclass(frozen=True, slots=True)
class Check:
    """Fail with row `failure` of the program's failures, filled in with `values`, unless `condition` holds."""

    condition: Expr
    failure: int
    values: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Move:
    """Give several variables new values at once: all are computed before the first is set (carried values of loops)."""

    targets: tuple[str, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class For:
    """`for target in range(lower, upper, step)`, as in Python; the bounds are computed once."""

    target: str
    lower: Expr
    upper: Expr
    step: Expr
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Blocks:
    """As For from 0 to `count`, but all turns are under way at once: where one waits for other ranks, the next one goes on."""

    target: str
    count: Expr
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class While:
    """Run `before`, end if `condition` is false, run `body`, and so on."""

    before: tuple[Step, ...]
    condition: Expr
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class If:
    """Run one of two lists of steps."""

    condition: Expr
    then: tuple[Step, ...]
    orelse: tuple[Step, ...]


Step = Compute | Allocate | Launch | Read | Ask | Check | Move | For | Blocks | While | If


# programs ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Input:
    """A variable that is set when an entry starts: a fact about one of its parameters."""

    name: str
    parameter: int
    """Position among the entry's parameters, in the order of its code."""
    fact: Literal["address", "extent", "stride", "value"]
    axis: int = 0
    """Of an extent or stride (strides count elements)."""


@dataclass(frozen=True, slots=True)
class EntryPlan:
    """What a call of one entry does."""

    name: str
    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Program:
    """Everything the run time needs: kernels, the failures they and the steps report by position, and the entries by name.

    A kernel reports a failure into int64 words: the smallest wins in word 0, preset to 2**63 - 1, packed as block << 40 | place << 20 | row; row r
    leaves its integers in the words 1 + 4 * r …
    """

    kernels: tuple[Kernel, ...]
    entries: Mapping[str, EntryPlan]
    failures: tuple[Failure, ...] = ()
    schedules: Callable[[], str] = "{}".__str__
    """What was chosen for each kernel, as JSON."""

    @property
    def error_words(self) -> int:
        """Length of the array that kernels report into."""
        return 1 + 4 * len(self.failures)
