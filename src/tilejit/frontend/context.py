"""The state while one function is read: where we are in the source, what names hold, where ops go."""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, OpResult, SSAValue

from tilejit.errors import InternalError, ParserTypeError, SourceText, Span, TilejitError, UndefinedVariableError, did_you_mean, in_body
from tilejit.frontend.accumulators import STALE, Accumulators
from tilejit.frontend.aliases import Aliases, Place
from tilejit.frontend.comments import Comments, comments_of
from tilejit.frontend.fold import Recorder
from tilejit.frontend.handlers import raised_by_handler
from tilejit.frontend.names import COMPOUND, NameAnalysis, live_after_each
from tilejit.frontend.scalars import Scalars
from tilejit.frontend.source import span_of
from tilejit.frontend.values import (
    Binding,
    InlineFunction,
    NoValue,
    Perhaps,
    TaskHandle,
    Undefined,
    YieldRecord,
    shaped,
    user_name,
)
from tilejit.ops import table
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import Builder
from tilejit.tile_ir.program import Function
from tilejit.types.annotations import DynVar
from tilejit.types.enums import SplitMode
from tilejit.types.values import BufferType, TileType, Valid, ValueType


@dataclass(slots=True)
class Parameter:
    """A tensor parameter of the function being built."""

    name: str
    value: SSAValue
    direction: str
    node: ast.AST
    rebound: Span | None = None
    """Where the name was first bound to something that is not the tensor."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The function whose text is being read: the one being built, or an inline function spliced into it."""

    name: str
    source: SourceText
    namespace: Mapping[str, object]
    comments: Mapping[int, str] = field(default_factory=dict[int, str])
    site: Span | None = None
    """The call that is being expanded, for inline functions."""
    spans: dict[ast.AST, Span] = field(default_factory=dict[ast.AST, Span], repr=False, compare=False)
    """Where nodes stand that were asked for: an unrolled loop asks for each of its own in every turn."""


class ProgramScope(Protocol):
    """What reading a function needs of the program around it."""

    recorder: Recorder | None

    def resolve(self, name: str, site: Span) -> d.FuncOp | InlineFunction:
        """A function of the program, read now if it was not yet."""
        ...

    def inline(self, name: str) -> InlineFunction | None:
        """An inline function of the program, if it has one of that name."""
        ...

    def add_external(self, function: Function, site: Span) -> d.FuncOp:
        """A module-level function, added to the program once."""
        ...

    def symbol(self, symbol: DynVar) -> str:
        """The name of a dynamic extent in this program."""
        ...

    def with_region(self, function: str, param: str, type: TileType) -> TileType:
        """The type of a parameter, with the valid region that its tiles have."""
        ...

    def read_for(self, function: str, param: str, valid: Valid, site: Span) -> bool:
        """Let a function be read for tiles with this valid region; False: it was read elsewhere."""
        ...


SILENT = (ast.Name, ast.Constant, ast.Tuple, ast.List)
"""Expressions that make no ops of their own."""
Evaluate = Callable[["Context", ast.expr], object]


class Context(Scalars):
    """Reads one function. Expressions and statements come as functions, because they need each other."""

    def __init__(self, program: ProgramScope, builder: Builder, frame: Frame, evaluate: Evaluate, statement: Callable[[Context, ast.stmt], None]) -> None:
        self.program = program
        self.builder = builder
        self.frame = frame
        self.scope: dict[str, Binding] = {}
        self.latest: dict[str, object] = {}
        """What was bound to each name last, on whatever path."""
        self.accumulators = Accumulators()
        self.parameters = {}
        self.windows: dict[SSAValue, SSAValue] = {}
        """Parameters that are windows, and their groups."""
        self.analysis = NameAnalysis()
        self.aliases = Aliases(builder)
        self.in_memory: frozenset[Place] = frozenset()
        """Expressions whose results need memory, as an earlier reading showed."""
        self.live: frozenset[str] = frozenset()
        """Names that may be read after the current statement; kept for compound statements."""
        self.plane = "any"
        """"control", "execution", or "any" where the function's kind does not say."""
        self.core: str | None = None
        """ "aic" or "aiv" in a function of one kind of core."""
        self.strict = False
        self.strict_ssa = False
        self.in_loop: str | None = None
        """Kind of the innermost loop."""
        self.block: tuple[SSAValue, SSAValue] | None = None
        """Index and count of the blocks inside pl.spmd."""
        self.lane: int | None = None
        """The lane inside pl.split_aiv."""
        self.wanted: tuple[ast.expr, Callable[[], ValueType | None]] | None = None
        """The value of the latest annotated assignment, and the type that its annotation gives."""
        self.statement_call: ast.expr | None = None
        """The latest call whose result nobody takes, or only the name of one of its arguments."""
        self.split = SplitMode.NONE
        """How pl.split_aiv divides tiles that cross to the vector lanes."""
        self.split_hint = False
        """Whether the region has `pl.split` among its optimizations."""
        self.overhangs: dict[SSAValue, TilejitError | None] = {}
        """Windows that may reach beyond their tensors, and what to say of those that surely do: checked where all of them is read."""
        self.seen_through: set[SSAValue] = set()
        """Those of them of which only a part was read."""
        self.rounds: dict[SSAValue, range] = {}
        """The values that indices of loops with constant bounds take."""
        self.counts: set[SSAValue] = set()
        """Indices of loops and blocks, which are never negative."""
        self.certain = True
        """Whether control surely comes here, whatever the arguments."""
        self.local_symbols = {}
        self.in_inline: tuple[object, ...] = ()
        """Inline functions being expanded, outermost first."""
        self.yields: list[list[YieldRecord]] = []
        """One list per enclosing loop or branch."""
        self.result: object = NoValue(frame.name)
        self.prints: list[str] = []
        """Output of static_print, held back until the function is read for good."""
        self.auto_scope = True
        """Whether the function is a dependency scope of its own."""
        self.attributes: dict[str, object] = {}
        self.opening: frozenset[tuple[int, int]] = frozenset()
        """Line and column of the calls that the function begins with: the only place for its attributes."""
        self.tasks = 0
        self.producers: dict[SSAValue, TaskHandle] = {}
        """Which submitted task wrote a tensor last."""
        self._evaluate = evaluate
        self._statement = statement
        self.comments = Comments()

    # places -----------------------------------------------------------------------------------------------------------

    def span(self, node: ast.AST) -> Span:
        frame = self.frame
        found = frame.spans.get(node)
        if found is None:
            found = frame.spans[node] = span_of(node, frame.source, frame.name, frame.site)
        return found

    def fail(
        self, kind: type[TilejitError], message: str, node: ast.AST, help: str | None = None, where: Sequence[str] = (), note: str | None = None
    ) -> NoReturn:
        """Raise `kind` with a caret under `node`."""
        raise in_body(kind)(message, span=self.span(node), help=help, where=where, note=note)

    def locate(self, error: TilejitError, node: ast.AST) -> TilejitError:
        """`error` with a caret under `node`, unless it has a place already."""
        if error.span is not None:
            return error
        return in_body(type(error))(error.message, span=self.span(node), where=error.where, help=error.hint, note=error.note)

    # reading ----------------------------------------------------------------------------------------------------------

    def evaluate(self, node: ast.expr) -> object:
        """The value of an expression; ops it needs carry its span."""
        previous = self.builder.span
        if not isinstance(node, SILENT):
            self.builder.span = self.span(node)
        try:
            return self._evaluate(self, node)
        except TilejitError as error:
            if error.span is None:
                raise self.locate(error, node) from error.__cause__
            raise
        finally:
            self.builder.span = previous

    def value(self, node: ast.expr) -> object:
        """The value of an expression that must have one."""
        value = self.evaluate(node)
        if isinstance(value, NoValue):
            name = (self.span(node.func).text if isinstance(node, ast.Call) else "") or value.function
            self.fail(ParserTypeError, f"`{name}` has no return value", node, help="call it as a statement, or let it return something")
        return value

    def test(self, node: ast.expr, what: str) -> SSAValue | bool:
        """The condition that `node` computes."""
        try:
            return self.condition(self.value(node), what)
        except TilejitError as error:
            if error.span is None and error.hint is not None:
                error.hint = error.hint.replace("`x ", f"`{ast.unparse(node)} ")
            raise self.locate(error, node) from None

    def keyword(self, node: ast.keyword) -> object:
        """The value of a keyword argument. Dependencies may be listed by a comprehension, which need not be read: source order satisfies them."""
        return () if node.arg == "deps" and isinstance(node.value, ast.ListComp) else self.value(node.value)

    def run(self, body: Sequence[ast.stmt], live: Iterable[str]) -> None:
        """Read statements; `live` are the names that may be read after them."""
        after = live_after_each(self.analysis, body, live)
        outer = self.live
        ends = frozenset(live)
        for statement, live_now in zip(body, after, strict=True):
            self.live = live_now
            if self.accumulators.pending and isinstance(statement, COMPOUND):
                self._take_all(live_now | self.analysis.statement(statement).reads.keys())
            self._run_one(statement)
        self._take_all(ends)
        self.live = outer

    def _take_all(self, names: Set[str]) -> None:
        for depth, name in list(self.accumulators.pending):
            if name in names and depth == len(self.in_inline):
                self.take_parts(name)

    def _run_one(self, statement: ast.stmt) -> None:
        previous = self.builder.span
        self.builder.span = self.span(statement)
        block, last = self.builder.block, self.builder.block.last_op
        # What stands before a statement belongs to all of it, not to the first statement inside.
        held, self.comments.pending = self.comments.pending, []
        try:
            self._statement(self, statement)
        except TilejitError as error:
            if error.span is None:
                raise self.locate(error, statement) from error.__cause__
            raise
        except RecursionError:
            raise
        except Exception as error:
            if raised_by_handler(error):
                raise
            raise InternalError(f"{type(error).__name__}: {error}", span=self.span(statement)) from error
        finally:
            self.builder.span = previous
        if self.frame.comments:
            held += comments_of(statement, self.frame.comments, self.frame.source)
        if held:
            self.comments.attach(held, last.next_op if last is not None else block.first_op)

    # names ------------------------------------------------------------------------------------------------------------

    def bind(self, name: str, value: object, node: ast.AST) -> None:
        """Let `name` hold `value` from here on."""
        span = self.span(node)
        if self.strict_ssa and name in self.scope and not name.startswith(("$", "_")) and not isinstance(self.scope[name].value, Undefined):
            from tilejit.errors import SSAViolationError

            raise SSAViolationError(f"`{name}` is bound twice under strict_ssa", span=span, previous=self.scope[name].span, help="use a new name")
        parameter = self.parameters.get(name) if self.frame.site is None else None
        if parameter is not None and parameter.rebound is None and not isinstance(shaped(value), BufferType):
            parameter.rebound = span
        self.scope[name] = Binding(value, span)
        self.latest[name] = value
        self.accumulators.rebound((len(self.in_inline), name))
        self.hint(name, value)

    def hint(self, name: str, value: object) -> None:
        """Remember the user's name on the op that made `value`."""
        if isinstance(value, OpResult) and not name.startswith("$") and value.index == 0:
            value.op.attributes.setdefault("hint", StringAttr(user_name(name)))

    def lookup(self, node: ast.Name) -> object:
        """What a name holds."""
        binding = self.scope.get(node.id)
        if binding is not None:
            if isinstance(binding.value, Undefined):
                self.fail(UndefinedVariableError, binding.value.reason, node, help=binding.value.help)
            if isinstance(binding.value, Perhaps):
                return self._surely(node, binding.value, binding.span)
            self.take_parts(node.id)
            value = self.scope[node.id].value
            if isinstance(value, SSAValue) and (holds := self.accumulators.stale.get(value)) is not None:
                self.fail(UndefinedVariableError, f"`{user_name(node.id)}` {holds}", node, help=STALE)
            self.aliases.read(value)
            return value
        try:
            return self.frame.namespace[node.id]
        except KeyError:
            help = did_you_mean(user_name(node.id), [*self.scope, *self.frame.namespace])
            self.fail(UndefinedVariableError, f"`{user_name(node.id)}` is not defined", node, help=help)

    def _surely(self, node: ast.Name, held: Perhaps, span: Span) -> object:
        """The value of a name that may have none: the run checks that it has one."""
        value, bound, reason = held
        if bound is True:
            self.scope[node.id] = Binding(value, span)
            return value
        with self.builder.spanning(self.span(node)):
            self.builder.effect("device_assert", [self.scalar(bound)], {"message": reason})
        self.scope[node.id] = Binding(value, span)
        return value

    def take_parts(self, name: str) -> None:
        """Let an accumulator take what was added to its parts."""
        for result, offsets in self.accumulators.pending.pop((len(self.in_inline), name), ()):
            whole = self.scope[name]
            assert isinstance(whole.value, SSAValue)
            args = {"target": whole.value, "source": result, "offset": [self.index(offset) for offset in offsets]}
            self.scope[name] = Binding(self.builder.apply(table()["assemble"], "tile", args)[0], whole.span)
            self.accumulators.grown[self.scope[name].value] = whole.value

    def record(self, path: str, value: object) -> None:
        """Tell the recorder about a compile-time value that was read."""
        if self.program.recorder is not None:
            self.program.recorder(path, value)

    # planes and blocks ------------------------------------------------------------------------------------------------

    def needs_execution(self, what: str, level: str) -> None:
        """Refuse tile work (and under strict every operator) on the control plane."""
        if self.plane == "control" and (level == "tile" or self.strict):
            from tilejit.errors import InvalidOperationError

            raise InvalidOperationError(
                f"{what} works on {'tiles' if level == 'tile' else 'tensors'} and needs a region: this is the control plane",
                help="put it under `with pl.at(level=pl.Level.CORE_GROUP):`, or into an incore function",
            )

    @contextmanager
    def branch(self, block: Block) -> Generator[dict[str, Binding]]:
        """Read into `block` with a copy of the scope; the caller gets that copy."""
        outer = self.scope
        self.scope = dict(outer)
        inner = self.scope
        try:
            with self.builder.at(block):
                yield inner
        finally:
            self.scope = outer

    def snapshot(self) -> tuple[int, int, list[str]]:
        """What must be undone when a body is read again."""
        return len(self.prints), self.tasks, list(self.comments.pending)

    def restore(self, snapshot: tuple[int, int, list[str]]) -> None:
        del self.prints[snapshot[0] :]
        self.tasks = snapshot[1]
        self.comments.pending = list(snapshot[2])
