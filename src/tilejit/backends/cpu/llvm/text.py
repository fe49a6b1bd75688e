"""Writes LLVM text: a function under construction, with constant folding of index arithmetic and structured loops."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.cpu.llvm.look import DECLARATIONS, FIRST_TURNS, LOOK, LOOK_TEXT
from tilejit.backends.cpu.schedule import Book
from tilejit.runtime.call import abi

_RARELY = 1
"""Number of the metadata that marks a branch as rarely taken."""


_SIZES = {"i8": 1, "i16": 2, "half": 2, "bfloat": 2, "i32": 4, "float": 4, "i64": 8, "double": 8}
"""Bytes of the types that memory is counted in."""


_LONGEST_TERM = 200
"""Characters of a term that is remembered."""


class Value(NamedTuple):
    """An LLVM operand: its text (`%12`, `3`, `null`) and type (`i64`, `<16 x float>`, `ptr`)."""

    text: str
    type: str

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


Index = int | Value
"""An i64: known now, or at run time."""


@dataclass(slots=True)
class Module:
    """LLVM text of one artifact: declarations and finished functions."""

    declarations: dict[str, str] = field(default_factory=dict[str, str])
    functions: dict[str, str] = field(default_factory=dict[str, str])
    looks: bool = False
    """Whether a function looks now and then if it should stop."""
    precise: bool = False
    """Whether functions must be within 1 ULP and sums in the order of the reference (`fast_math=False`)."""
    stack_bytes: int = 0
    """What all functions together reserve on the stack."""
    schedules: Book = field(default_factory=Book)
    """What was chosen for their nests."""

    def declare(self, name: str, text: str) -> str:
        """Make sure that `declare … @name` is there; returns `@name`."""
        self.declarations.setdefault(name, text)
        return f"@{name}"

    def text(self) -> str:
        return "\n".join([*self.declarations.values(), "", *self.functions.values(), *([LOOK_TEXT] if self.looks else [])]) + "\n"


@dataclass(slots=True)
class Loop:
    """An open loop: its induction variable, carried values in, what they become, and (after it) what they became."""

    iv: Value
    carried: list[Value]
    next: list[Value] = field(default_factory=list[Value])
    results: list[Value] = field(default_factory=list[Value])


def _bytes_of(type: str) -> int:
    """No fewer bytes than a type of numbers takes."""
    return 8 * math.prod(int(count) for count in re.findall(r"(\d+) x ", type))


CONTEXT = Value("%context", "ptr")
"""The context block of a call (runtime/call/abi.py), in functions that are given it."""


class Emitter:
    """The body of one LLVM function."""

    def __init__(self, module: Module, name: str, result: str, params: Sequence[Value], attributes: str = "", linkage: str = "") -> None:
        self.module = module
        self.name = name
        self._leave = "ret void" if result == "void" else f"ret i64 {abi.INTERRUPTED}"
        self._context = next((param for param in params if param.text == CONTEXT.text), None)
        self._turns: Value | None = None
        self._header = f"define {linkage + ' ' if linkage else ''}{result} @{name}({', '.join(f'{p.type} {p.text}' for p in params)}) {attributes}"
        self._allocas: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self._origins: dict[str, tuple[str, int]] = {}
        self._terms: dict[str, str] = {}
        """What index arithmetic computes, as text that is the same for the same number."""
        self.label = "entry"

    # text -------------------------------------------------------------------------------------------------------------

    def fresh(self, stem: str = "") -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def void(self, text: str) -> None:
        """An instruction without a result."""
        self._lines.append(f"  {text}")

    def inst(self, type: str, text: str) -> Value:
        """An instruction with a result of `type`."""
        self._count += 1
        name = f"%v{self._count}"
        self._lines.append(f"  {name} = {text}")
        return Value(name, type)

    def comment(self, text: str) -> None:
        self._lines.append(f"  ; {text}")

    def alloca(self, type: str, align: int = 64) -> Value:
        """Stack memory, reserved once at function entry."""
        name = f"%{self.fresh('s')}"
        self._allocas.append(f"  {name} = alloca {type}, align {align}")
        self.module.stack_bytes += _bytes_of(type) + align
        return Value(name, "ptr")

    def place(self, label: str) -> None:
        """Start the block `label`; the previous one must have ended."""
        self._lines.append(f"{label}:")
        self.label = label

    def br(self, label: str) -> None:
        self.void(f"br label %{label}")

    def cbr(self, condition: Value, then: str, orelse: str) -> None:
        self.void(f"br i1 {condition.text}, label %{then}, label %{orelse}")

    def finish(self) -> None:
        """Add the function to its module."""
        self.module.functions[self.name] = "\n".join([self._header + " {", "entry:", *self._allocas, *self._lines, "}", ""])

    @contextmanager
    def begun_by(self) -> Generator[Callable[[], None]]:
        """What is written inside after a call of what this gives comes before all that was written until then."""
        self.label = later = self.fresh("begin")
        lines = self._lines

        def before() -> None:
            self._lines, self.label = [], "entry"

        yield before
        self.br(later)
        self._lines += [f"{later}:", *lines]

    def mark(self) -> int:
        """The present position, for lines that can only be written later (phis of a loop head)."""
        return len(self._lines)

    def insert_at(self, mark: int, lines: Sequence[str]) -> None:
        """Write lines at a marked position. Marks behind it are no longer good."""
        self._lines[mark:mark] = [f"  {line}" for line in lines]

    def phi(self, type: str, incoming: Sequence[tuple[Value, str]]) -> Value:
        """A value that depends on the block control came from; only at the start of a block."""
        return self.inst(type, f"phi {type} {', '.join(f'[ {value.text}, %{label} ]' for value, label in incoming)}")

    # index arithmetic, folded when known --------------------------------------------------------------------------------

    def i64(self, value: Index) -> Value:
        return Value(int.__repr__(value), "i64") if isinstance(value, int) else value  # str() of an IntEnum is its name in a 3.12 subinterpreter

    def _index(self, op: str, a: Index, b: Index) -> Value:
        found = self.inst("i64", f"{op} i64 {self.i64(a).text}, {self.i64(b).text}")
        term = f"({op} {self._term(a)} {self._term(b)})"
        if len(term) < _LONGEST_TERM:
            self._terms[found.text] = term
        return found

    def _term(self, value: Index) -> str:
        text = self.i64(value).text
        return self._terms.get(text, text)

    def add(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0:
            return b
        if b == 0:
            return a
        return self._index("add nsw", a, b)

    def sub(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if b == 0 else self._index("sub nsw", a, b)

    def mul(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 0 or b == 0:
            return 0
        if a == 1:
            return b
        return a if b == 1 else self._index("mul nsw", a, b)

    def min(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        self.module.declare("llvm.smin.i64", "declare i64 @llvm.smin.i64(i64, i64)")
        return self.inst("i64", f"call i64 @llvm.smin.i64({self.i64(a)}, {self.i64(b)})")

    def max(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        self.module.declare("llvm.smax.i64", "declare i64 @llvm.smax.i64(i64, i64)")
        return self.inst("i64", f"call i64 @llvm.smax.i64({self.i64(a)}, {self.i64(b)})")

    def icmp(self, predicate: str, a: Index, b: Index) -> Value:
        return self.inst("i1", f"icmp {predicate} i64 {self.i64(a).text}, {self.i64(b).text}")

    # memory -------------------------------------------------------------------------------------------------------------

    def address(self, pointer: Value) -> Value:
        """A pointer as an integer."""
        return self.inst("i64", f"ptrtoint ptr {pointer.text} to i64")

    def offset(self, pointer: Value, elements: Index, type: str) -> Value:
        """The address `elements` elements of `type` further on."""
        if elements == 0:
            return pointer
        moved = self.inst("ptr", f"getelementptr inbounds {type}, ptr {pointer.text}, {self.i64(elements)}")
        if type in _SIZES:
            root, distance = self.origin(pointer)
            if isinstance(elements, int):
                self._origins[moved.text] = root, distance + elements * _SIZES[type]
            else:
                self._origins[moved.text] = f"{root} + {self._term(elements)} {type}", distance
        return moved

    def origin(self, pointer: Value) -> tuple[str, int]:
        """An address that another one lies a known number of bytes behind, and that number: how far two addresses lie apart, if the first is equal."""
        return self._origins.get(pointer.text, (pointer.text, 0))

    def load(self, type: str, pointer: Value, align: int) -> Value:
        return self.inst(type, f"load {type}, ptr {pointer.text}, align {align}")

    def store(self, value: Value, pointer: Value, align: int) -> None:
        self.void(f"store {value}, ptr {pointer.text}, align {align}")

    def stream(self, value: Value, pointer: Value, align: int) -> None:
        """A store past the caches; needs the alignment of a whole vector register."""
        self.module.declare("nontemporal", "!0 = !{i32 1}")
        self.void(f"store {value}, ptr {pointer.text}, align {align}, !nontemporal !0")

    # structure ----------------------------------------------------------------------------------------------------------

    @contextmanager
    def loop(self, lower: Index, upper: Index, step: Index = 1, carried: Sequence[Value] = (), name: str = "loop") -> Generator[Loop]:
        """`for iv in range(lower, upper, step)` with step > 0. Set `loop.next` inside; read `loop.results` after."""
        stem = self.fresh(name)
        head, body, done = f"{stem}.head", f"{stem}.body", f"{stem}.done"
        before = self.label
        self.br(head)
        self.place(head)
        iv = Value(f"%{stem}.iv", "i64")
        phis = [Value(f"%{stem}.c{i}", value.type) for i, value in enumerate(carried)]
        slot = len(self._lines)
        stay = self.icmp("slt", iv, upper)
        self.cbr(stay, body, done)
        self.place(body)
        state = Loop(iv, phis, list(phis), phis)
        yield state
        after = self.label
        following = self._index("add nsw", iv, step)
        self.br(head)
        rows = [f"  {iv.text} = phi i64 [ {self.i64(lower).text}, %{before} ], [ {following.text}, %{after} ]"]
        for phi, start, end in zip(phis, carried, state.next, strict=True):
            rows.append(f"  {phi.text} = phi {phi.type} [ {start.text}, %{before} ], [ {end.text}, %{after} ]")
        self._lines[slot:slot] = rows
        self.place(done)

    @property
    def context(self) -> Value:
        """The context block, null in a function that has none."""
        return self._context or Value("null", "ptr")

    def look(self) -> None:
        """In a loop: leave the function if somebody wants the call to end. (look.py; costs a turn of the loop one decrement.)"""
        if self._context is None or not host().is_x86:
            return
        if self._turns is None:
            self._turns = self.alloca("i64", 8)
            self._allocas.append(f"  store i64 {FIRST_TURNS}, ptr {self._turns.text}, align 8")
            for name, text in DECLARATIONS.items():
                self.module.declare(name, text)
            self.module.declare("rarely", f"!{_RARELY} = !{{!\"branch_weights\", i32 1, i32 4096}}")
            self.module.looks = True
        stem = self.fresh("look")
        left = self._index("sub", self.load("i64", self._turns, 8), 1)
        self.store(left, self._turns, 8)
        over = self.icmp("sle", left, 0)
        self.void(f"br i1 {over.text}, label %{stem}.now, label %{stem}.on, !prof !{_RARELY}")
        self.place(f"{stem}.now")
        turns = self.inst("i64", f"call i64 @{LOOK}({self._context})")
        self.store(turns, self._turns, 8)
        self.cbr(self.icmp("eq", turns, 0), f"{stem}.leave", f"{stem}.on")
        self.place(f"{stem}.leave")
        self.void(self._leave)
        self.place(f"{stem}.on")

    @contextmanager
    def when(self, condition: Value, name: str = "when") -> Generator[None]:
        """Code that runs only if `condition`; it defines no values for later."""
        stem = self.fresh(name)
        self.cbr(condition, f"{stem}.then", f"{stem}.done")
        self.place(f"{stem}.then")
        yield
        self.br(f"{stem}.done")
        self.place(f"{stem}.done")
