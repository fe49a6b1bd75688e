"""What a compile does, step by step: the program after every pass with the lines it came from, times, counts, memory, code; also when it fails."""

from __future__ import annotations

import difflib
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field

from xdsl.ir import Operation, SSAValue

from tilejit.compiler import compile_program
from tilejit.errors import SourceText, Span, TilejitError
from tilejit.passes import clock
from tilejit.passes.context import CallbackInstrument, PassContext
from tilejit.runtime.artifact.compiled import CompiledProgram
from tilejit.runtime.config import RunConfig
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir import names
from tilejit.tile_ir.program import Program
from tilejit.types.values import TileType
from tilejit.view.listing import listing

_NUMBERED = re.compile(r"%\d+\b")
_ALWAYS = ("python", "ir", "passes")
_SCHEDULE = "schedule"
_MOST = 400_000
"""Characters of one text that a page holds."""

SAME, NEW, GONE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Line:
    """A line of IR: its text, where in the sources it came from, and what happened to it in this step."""

    text: str
    file: int
    line: int
    mark: int


@dataclass(frozen=True, slots=True)
class Step:
    """The program after a pass."""

    name: str
    lines: list[Line]
    ops: dict[str, int]


@dataclass(frozen=True, slots=True)
class Source:
    """The part of a file that kernels of the program stand in."""

    file: str
    first: int
    lines: list[str]


@dataclass(frozen=True, slots=True)
class Life:
    """A tile in memory: from which op to which, where, how large."""

    name: str
    function: str
    start: int
    end: int
    offset: int
    bytes: int
    line: int


@dataclass
class Record:
    """Everything a page shows."""

    name: str
    platform: str = ""
    seconds: float = 0.0
    error: str = ""
    failed: str = ""
    """The stage that failed."""
    times: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    sources: list[Source] = field(default_factory=list[Source])
    steps: list[Step] = field(default_factory=list[Step])
    memory: list[Life] = field(default_factory=list[Life])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    """Further forms by name: the specialised source, the schedule, generated code."""

    def plain(self) -> dict[str, object]:
        """As JSON has it; lines are lists, of which there are many."""
        found = asdict(self)
        for step, own in zip(found["steps"], self.steps, strict=True):
            step["lines"] = [[line.text, line.file, line.line, line.mark] for line in own.lines]
        return found


def record(name: str, make: Callable[[], Program], config: RunConfig | None) -> Record:
    """Compile what `make` gives, from the beginning and past every cache; a failure is part of the record."""
    out = Record(name)
    watching = _Watching(out)
    start = time.perf_counter()
    with clock.measured() as times, PassContext([CallbackInstrument(before_pass=watching.before, after_pass=watching.after)]):
        try:
            with clock.stage("front end"):
                program = make()
            watching.after("front end", program)
            compiled = compile_program(program, config)
        except Exception as error:  # whatever it is, the page shows how far it came
            out.error = str(error) if isinstance(error, TilejitError) else f"{type(error).__name__}: {error}"
            out.failed = watching.running or (times[-1][0] if times else "front end")
            compiled = None
            watching.failed(error)
    out.seconds = time.perf_counter() - start - watching.spent
    out.times = [*times, ("other", max(0.0, out.seconds - sum(seconds for _, seconds in times)))]
    if compiled is not None:
        out.platform = compiled.platform
        out.texts |= _code(compiled, watching.functions)
    return out


def _code(compiled: CompiledProgram, functions: set[str]) -> dict[str, str]:
    """The target's own forms; those of single functions only where there is no whole."""
    own = [name for name in compiled.stages() if name not in _ALWAYS and not name.startswith("passes/")]
    whole = [name for name in own if name != _SCHEDULE and name.partition(".")[0] not in functions]
    return {name: _cut(compiled.stage(name)) for name in own if name in whole or not whole or name == _SCHEDULE}


def _cut(text: str) -> str:
    if len(text) <= _MOST:
        return text
    kept = text[:_MOST].rpartition("\n")[0]
    return f"{kept}\n… {text.count(chr(10)) - kept.count(chr(10))} more lines"


class _Watching:
    """Takes notes after every pass; its own time is no time of the compile."""

    def __init__(self, out: Record) -> None:
        self.out = out
        self.running = ""
        self.spent = 0.0
        self.functions: set[str] = set()
        self._files: dict[str, int] = {}
        self._reach: dict[str, tuple[int, int]] = {}
        self._texts: dict[str, SourceText] = {}

    def before(self, name: str, program: Program) -> None:
        self.running = name

    def after(self, name: str, program: Program) -> None:
        start = time.perf_counter()
        self.running = ""
        self.functions = set(program.functions)
        lines = self._lines(program)
        before = [line for line in self.out.steps[-1].lines if line.mark != GONE] if self.out.steps else None
        self.out.steps.append(Step(name, lines if before is None else _marked(before, lines), _counts(program)))
        self.out.sources = [self._source(file) for file in self._files]
        self.out.memory = list(_memory(program)) or self.out.memory
        self.spent += time.perf_counter() - start

    def _lines(self, program: Program) -> list[Line]:
        return [self._line(text, op.span if isinstance(op, d.TileOp) else None) for text, op in listing(program)]

    def _line(self, text: str, span: Span | None) -> Line:
        if span is None:
            return Line(text, -1, 0, SAME)
        file, line = span.filename, span.line
        low, high = self._reach.get(file, (line, line))
        self._reach[file] = min(low, line), max(high, line)
        self._texts[file] = span.source
        return Line(text, self._files.setdefault(file, len(self._files)), line, SAME)

    def failed(self, error: Exception) -> None:
        """Show the place of an error too."""
        if isinstance(error, TilejitError) and error.span is not None:
            self._line("", error.span)
            self.out.sources = [self._source(file) for file in self._files]

    def _source(self, file: str) -> Source:
        low, high = self._reach[file]
        first = max(1, low - 8)
        source = self._texts[file]
        last = min(high + 2, source.first_line + len(source.lines) - 1)
        return Source(file, first, [(source.line(number) or "").rstrip("\n") for number in range(first, last + 1)])


def _marked(before: list[Line], after: list[Line]) -> list[Line]:
    """The lines after a pass, with those that are new and those that are gone; numbers of values do not count."""
    old, new = ([_NUMBERED.sub("%", line.text) for line in lines] for lines in (before, after))
    out: list[Line] = []
    for kind, low, high, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            out += [Line(line.text, line.file, line.line, GONE) for line in before[low:high]]
        out += [Line(line.text, line.file, line.line, SAME if kind == "equal" else NEW) for line in after[start:end]]
    return out


def _counts(program: Program) -> dict[str, int]:
    ops = (op for op in program.module.walk() if isinstance(op, d.TileOp))
    return dict(Counter(op.op if isinstance(op, d.ApplyOp | d.EffectOp) else op.name.removeprefix("tile.") for op in ops).most_common())


def _memory(program: Program) -> Iterable[Life]:
    """Where tiles would lie if each took the first free place, op by op of each function."""
    for name, function in program.functions.items():
        ops = [op for op in function.walk() if op is not function]
        at = {op: index for index, op in enumerate(ops)}
        tiles = [value for op in ops for value in op.results if isinstance(d.type_of(value), TileType)]
        placed: list[Life] = []
        for value in tiles:
            size = _size(value)
            start, end = at[value.owner], max([at[value.owner], *(_outer(use.operation, value, at) for use in value.uses)])  # type: ignore[index]
            taken = sorted((life.offset, life.bytes) for life in placed if life.start <= end and start <= life.end)
            offset = 0
            for begin, length in taken:
                if offset + size <= begin:
                    break
                offset = max(offset, begin + length)
            span = value.owner.span if isinstance(value.owner, d.TileOp) else None
            placed.append(Life(_name(value), name, start, end, offset, size, span.line if span else 0))
        yield from placed


def _outer(user: Operation, value: SSAValue, at: dict[Operation, int]) -> int:
    """The op up to which a use keeps a value: the end of a loop that the value comes into from outside."""
    op, home = user, value.owner.parent if isinstance(value.owner, Operation) else None
    while op.parent is not home and (above := op.parent_op()) is not None and above in at:
        op = above
    return max((at[inner] for inner in op.walk() if inner in at), default=at.get(user, 0))


def _size(value: SSAValue) -> int:
    type = d.type_of(value)
    assert isinstance(type, TileType)
    size = type.dtype.get_byte()
    for dim in type.shape:
        size *= dim if isinstance(dim, int) else 1
    return size


def _name(value: SSAValue) -> str:
    owner = value.owner
    hint = owner.hint if isinstance(owner, d.TileOp) else None
    return hint or names.name_of(value) or (owner.op if isinstance(owner, d.ApplyOp) else "tile")
