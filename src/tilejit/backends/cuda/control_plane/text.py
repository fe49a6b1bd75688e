"""The host side of an entry as the text of a Python function: what is computed, allocated and launched, in order."""

from __future__ import annotations

import keyword
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tilejit.backends.cuda.plan import Allocate, Apply, Ask, Blocks, Check, Compute, EntryPlan, Expr, For, If, Launch, Move, Read, Step, Var, While
from tilejit.ops import COMPARISONS, table
from tilejit.ops.facts import Fails

_LOGIC = {"And": "({} and {})", "Or": "({} or {})", "Not": "(not {})"}
"""By Python's operator that a row is."""
_COMPARED = dict(zip(COMPARISONS.values(), ("==", "!=", "<", "<=", ">", ">="), strict=True))
_RESERVED = frozenset("stream memory words CLEAR failed read ask fail scalar_op call min max map range mark float".split())


def host_text(entry: EntryPlan) -> str:
    """A module whose function `call(stream, memory, inputs …)` does what the entry says; names it needs are supplied by runtime/cuda/entry.py."""
    writer = _Writer()
    inputs = [writer.name(given.name) for given in entry.inputs]
    writer.line(f"def call({', '.join(['stream', 'memory', *inputs])}):")
    writer.depth += 1
    writer.line(f"# {entry.name}")
    writer.line("if words[0] != CLEAR: failed()")
    writer.steps(entry.steps, own=False)
    return "\n".join([*writer.prelude, *writer.lines, ""])


def launched(steps: Sequence[Step]) -> Iterator[int]:
    """The kernels that a list of steps may launch."""
    for step in all_steps(steps):
        if isinstance(step, Launch):
            yield step.kernel


def all_steps(steps: Sequence[Step]) -> Iterator[Step]:
    """The steps and everything inside them."""
    for step in steps:
        yield step
        match step:
            case For() | Blocks():
                yield from all_steps(step.body)
            case While():
                yield from all_steps((*step.before, *step.body))
            case If():
                yield from all_steps((*step.then, *step.orelse))
            case _:
                pass


@dataclass
class _Writer:
    lines: list[str] = field(default_factory=list[str])
    prelude: list[str] = field(default_factory=list[str])
    depth: int = 0
    marks: int = 0
    names: dict[str, str] = field(default_factory=dict[str, str])
    ops: dict[str, str] = field(default_factory=dict[str, str])

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def name(self, wanted: str) -> str:
        """A Python name for a variable: its own where that is one."""
        found = self.names.get(wanted)
        if found is None:
            clean = "".join(letter if letter.isalnum() or letter == "_" else "_" for letter in wanted) or "v"
            if clean[0].isdigit() or keyword.iskeyword(clean) or clean in _RESERVED or clean.startswith(("launch_", "op_", "mark_", "block_")):
                clean = f"v_{clean}"
            taken = set(self.names.values())
            found = clean
            while found in taken:
                found += "_"
            self.names[wanted] = found
        return found

    # steps ------------------------------------------------------------------------------------------------------------------

    def steps(self, steps: Sequence[Step], own: bool = True) -> None:
        """A block of steps; memory that it takes goes back at its end, at the end of the call where the block is the whole of it."""
        marked = own and any(isinstance(step, Allocate) and not step.keep for step in steps)
        mark = f"mark_{self.marks}"
        if marked:
            self.marks += 1
            self.line(f"{mark} = memory.mark()")
        for step in steps:
            self.step(step)
        if marked:
            self.line(f"memory.release({mark})")
        if not steps:
            self.line("pass")

    def step(self, step: Step) -> None:
        match step:
            case Compute():
                self.line(f"{self.name(step.target)} = {self.value(step.value)}")
            case Allocate():
                self.line(f"{self.name(step.target)} = memory.{'keep' if step.keep else 'take'}({self.value(step.bytes)})")
            case Launch():
                arguments = [self.value(argument) for argument in (*step.grid, *step.arguments)]
                self.line(f"launch_{step.kernel}({', '.join(['stream', 'memory', *arguments])})")
            case Read():
                self.line(f"{self.name(step.target)} = read(stream, {self.value(step.address)}, {step.dtype!r})")
            case Ask():
                asked = f"ask.{step.what}({', '.join(['stream', *map(self.value, step.arguments)])})"
                self.line(f"{self.name(step.target)} = {'yield from ' if step.pauses else ''}{asked}")
            case Check():
                values = "".join(f", {self.value(value)}" for value in step.values)
                self.line(f"if not {self.value(step.condition)}: fail({step.failure}{values})")
            case Move():
                if step.targets:
                    targets = ", ".join(self.name(target) for target in step.targets)
                    self.line(f"{targets} = {', '.join(self.value(value) for value in step.values)}")
            case For():
                bounds = ", ".join(self.value(bound) for bound in (step.lower, step.upper, step.step))
                self.block(f"for {self.name(step.target)} in range({bounds}):", step.body)
            case Blocks():
                self.marks += 1
                made = f"block_{self.marks}"
                self.block(f"def {made}({self.name(step.target)}):", step.body)
                self.line(f"ask.all_blocks(stream, map({made}, range({self.value(step.count)})))")
            case While():
                self.line("while True:")
                self.depth += 1
                self.steps(step.before, own=False)
                self.line(f"if not {self.value(step.condition)}: break")
                self.steps(step.body)
                self.depth -= 1
            case If():
                self.block(f"if {self.value(step.condition)}:", step.then)
                if step.orelse:
                    self.block("else:", step.orelse)

    def block(self, head: str, steps: Sequence[Step]) -> None:
        self.line(head)
        self.depth += 1
        self.steps(steps)
        self.depth -= 1

    # numbers ----------------------------------------------------------------------------------------------------------------

    def value(self, expression: Expr) -> str:
        match expression:
            case Var():
                return self.name(expression.name)
            case Apply():
                return self.apply(expression)
            case float() if not math.isfinite(expression):
                return f"float({str(expression)!r})"
            case bool() | int() | float():
                return repr(expression) if expression >= 0 else f"({expression!r})"

    def apply(self, expression: Apply) -> str:
        arguments = [self.value(argument) for argument in expression.args]
        form = self.inline(expression)
        if form is not None:
            return form.format(*arguments)
        operands = expression.operands or ("INDEX",) * len(arguments)
        made = f"scalar_op({expression.op!r}, {expression.dtype!r}, {operands!r}, {expression.statics!r})"
        if made not in self.ops:
            self.ops[made] = f"op_{len(self.ops)}"
            self.prelude.append(f"{self.ops[made]} = {made}")
        return f"{self.ops[made]}({', '.join(arguments)})"

    def inline(self, expression: Apply) -> str | None:
        """Python's own form of an op, where it means the same."""
        from tilejit.backends.cuda.rules import HOST, INDICES

        if expression.op in HOST:
            return HOST[expression.op]
        facts = table()[expression.op].facts
        if expression.operands and all(operand == "BOOL" for operand in expression.operands):
            return _LOGIC.get(facts.operator or "")
        if any(operand != "INDEX" for operand in expression.operands):
            return None
        if expression.op == "cmp" and len(expression.statics) == 1:
            sign = _COMPARED.get(expression.statics[0][1])  # type: ignore[arg-type]
            return None if sign is None else f"({{}} {sign} {{}})"
        on_indices = INDICES.get(expression.op)
        if on_indices is None or expression.dtype != "INDEX" or expression.statics or (facts.fails is Fails.Divisor and not _nonzero(expression.args[1])):
            return None
        return on_indices.text


def _nonzero(expression: Expr) -> bool:
    return isinstance(expression, int) and expression != 0
