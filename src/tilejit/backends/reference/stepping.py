"""The platform `eager`: the reference, run by Python code that has the lines of the kernel, so that debuggers stop and step there.

For every block that is entered a code object is made whose file and line numbers are the author's; each of its statements runs the ops of
one line. Loops and branches are Python's own, values stand in its locals under the author's names, and helpers are frames of their own.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from tilejit.backends import checks
from tilejit.backends.reference.call_names import Names, crossing_names
from tilejit.backends.reference.interpreter import Frame, ReferenceExecutable, Value, scalar
from tilejit.backends.reference.tasks import BlockPlace
from tilejit.errors import Span
from tilejit.runtime.call.failures import raise_failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir import names
from tilejit.tile_ir.cross_core import CrossCore

_Numbers = ParamSpec("_Numbers")
_Result = TypeVar("_Result")
_RUN = "__tilejit__"
_TERMINATORS = (d.ReturnOp, d.YieldOp, d.ConditionOp)


class SteppedExecutable(ReferenceExecutable):
    """A program that is interpreted line by line of its source."""

    def invoke(self, function: d.FuncOp, arguments: Sequence[Value], place: BlockPlace) -> list[Value]:
        return SteppedFrame(self, place, function.symbol).block(function.body.block, arguments)


class SteppedFrame(Frame):
    """One running function, whose named values are the locals of Python frames."""

    def __init__(self, machine: ReferenceExecutable, place: BlockPlace, function: str) -> None:
        super().__init__(machine, place, function)
        self.locals: dict[str, object] = {}
        self.scripts: dict[Block, Script] = {}
        self.carried: dict[Operation, list[Value]] = {}

    def block(self, block: Block, arguments: Sequence[Value]) -> list[Value]:
        """Run a block as Python code; the operands of its terminator."""
        script = self.scripts.get(block)
        if script is None:
            script = self.scripts[block] = Script(block, self.function, self.machine.cross)
        self.enter(block, arguments)
        exec(script.code, {**_globals_of(script.filename), _RUN: Steps(self, script, self.locals)}, self.locals)
        return self.leaving(block)

    def enter(self, block: Block, arguments: Sequence[Value]) -> None:
        """Bind the arguments of a block."""
        self._bind(block.args, arguments)
        self.show(block.args, self.locals)

    def leaving(self, block: Block) -> list[Value]:
        """What the terminator of a block hands out."""
        last = d.end_of(block, d.TileOp)
        return [self.values[operand] for operand in last.operands]

    def finish(self, op: Operation, values: Sequence[Value], where: dict[str, object]) -> None:
        """Bind the results of an op."""
        self._bind(op.results, values)
        self.show(op.results, where)

    def show(self, values: Sequence[SSAValue], where: dict[str, object]) -> None:
        """Let values appear under their names."""
        for value in values:
            owner = value.owner
            name = owner.hint if isinstance(owner, d.TileOp) and value is owner.results[0] and owner.hint else names.name_of(value)
            if name is not None and name.isidentifier():
                where[name] = self._shown(value)


def _untraced(step: Callable[Concatenate[Steps, _Numbers], _Result]) -> Callable[Concatenate[Steps, Any, None, _Numbers], _Result]:
    """A step that no debugger sees; the trace function comes back at its end."""

    def taken(self: Steps, trace: Any, _: None, *numbers: _Numbers.args, **none: _Numbers.kwargs) -> _Result:
        try:
            return step(self, *numbers, **none)
        finally:
            sys.settrace(trace)

    return taken


@dataclass
class Steps:
    """What the statements of a script call. The first two arguments of each method are the trace function, read, and set to None:
    no debugger steps into the interpreter, and it goes on in the next line of the kernel."""

    frame: SteppedFrame
    script: Script
    locals: dict[str, object]
    loops: dict[int, Iterator[object]] = field(default_factory=dict[int, "Iterator[object]"])
    inner: dict[int, dict[str, object]] = field(default_factory=dict[int, dict[str, object]])
    """The locals of inlined helpers."""

    @_untraced
    def run(self, first: int, last: int) -> None:
        """The ops `first` to `last` of the script, in order."""
        for op in self.script.ops[first:last]:
            self.frame.finish(op, self.frame.step(op), self.locals)

    def stop(self, trace: Any, _: None) -> Callable[[], object]:
        """`pl.breakpoint()`: what to call there."""
        sys.settrace(trace)
        return sys.breakpointhook

    @_untraced
    def start(self, index: int) -> None:
        """A loop begins."""
        op = self.script.ops[index]
        self.loops[index] = self._turns(op) if isinstance(op, d.ForOp) else self._blocks(op) if isinstance(op, d.RegionOp) else self._rounds(op)

    @_untraced
    def again(self, index: int) -> bool:
        """Whether a loop has another turn, whose values are bound then."""
        return next(self.loops[index], None) is not None

    @_untraced
    def holds(self, index: int) -> bool:
        """The condition of a branch."""
        op = self.script.ops[index]
        assert isinstance(op, d.IfOp)
        return bool(self.frame.values[op.condition])

    @_untraced
    def close(self, index: int, region: int) -> None:
        """A branch or scope is over: its results are what it yielded."""
        op = self.script.ops[index]
        self.frame.finish(op, self.frame.leaving(op.regions[region].block), self.locals)

    @_untraced
    def inside(self, index: int) -> tuple[CodeType, dict[str, object], dict[str, object]]:
        """The code of an inlined helper, to be executed."""
        script = self.script.helpers[index]
        seen = {**_globals_of(self.script.filename), **self.locals}
        own = self.inner[index] = {param: seen[name] for param, name in script.names.passed if name in seen}
        return script.code, {**_globals_of(script.filename), _RUN: Steps(self.frame, script, own)}, own

    @_untraced
    def back(self, index: int) -> None:
        """An inlined helper is over: what the caller named is there."""
        script, own = self.script.helpers[index], self.inner[index]
        self.locals.update({target: own[name] for target, name in script.names.returned if name in own})

    @_untraced
    def call(self, index: int) -> tuple[CodeType, dict[str, object], dict[str, object]]:
        """The code of a called kernel function, to be executed."""
        op = self.script.ops[index]
        assert isinstance(op, d.CallOp)
        frame = self.frame
        function = frame.machine.function(op.callee.data)
        callee = SteppedFrame(frame.machine, frame.place, function.symbol)
        frame.carried[op] = [callee]
        block = function.body.block
        script = callee.scripts[block] = Script(block, function.symbol, frame.machine.cross)
        callee.enter(block, [frame.values[arg] for arg in op.args])
        return script.code, {**_globals_of(script.filename), _RUN: Steps(callee, script, callee.locals)}, callee.locals

    @_untraced
    def returned(self, index: int) -> None:
        """A called kernel function is over."""
        op = self.script.ops[index]
        assert isinstance(op, d.CallOp)
        (callee,) = self.frame.carried.pop(op)
        function = self.frame.machine.function(op.callee.data)
        self.frame.finish(op, self.frame.machine.results_of(function, callee.leaving(function.body.block)), self.locals)

    def _turns(self, op: d.ForOp) -> Iterator[object]:
        frame, block = self.frame, op.body.block
        lower, upper, step = (int(frame.values[value]) for value in (op.lower, op.upper, op.step))
        if step == 0:
            raise_failure(checks.step_failure(op), ())
        type = d.type_of(block.args[0])
        carried = [frame.values[init] for init in op.inits]
        for index in range(lower, upper, step):
            self._enter(block, [scalar(index, type.dtype), *carried])
            yield True
            carried = frame.leaving(block)
        frame.finish(op, carried, self.locals)

    def _rounds(self, op: Operation) -> Iterator[object]:
        assert isinstance(op, d.WhileOp)
        frame = self.frame
        carried = [frame.values[init] for init in op.inits]
        while True:
            go_on, *carried = Frame.block(frame, op.before.block, carried)
            if not go_on:
                break
            self._enter(op.body.block, carried)
            yield True
            carried = frame.leaving(op.body.block)
        frame.finish(op, carried, self.locals)

    def _blocks(self, op: d.RegionOp) -> Iterator[object]:
        frame, block = self.frame, op.body.block
        assert op.blocks is not None
        outer, count = frame.place, int(frame.values[op.blocks])
        for index in range(count):
            frame.place = replace(outer, index=index, count=count)
            self._enter(block, [np.int64(index)][: len(block.args)])
            yield True
        frame.place = outer
        if count:
            frame.finish(op, frame.leaving(block), self.locals)

    def _enter(self, block: Block, values: Sequence[Value]) -> None:
        self.frame._bind(block.args, values)
        self.frame.show(block.args, self.locals)


class Script:
    """Python code with the lines of a block of the kernel, or of the part of one that an inlined helper is."""

    def __init__(self, ops: Block | Sequence[Operation], function: str, cross: CrossCore, depth: int = 0) -> None:
        self.ops: list[Operation] = []
        self.helpers: list[Script] = []
        self.names = Names()
        """Of an inlined helper: what its parameters and results are called on both sides."""
        self._cross = cross
        self._depth = depth
        """How many calls lie between the function and these lines."""
        self._line = 1
        content = list(ops.ops) if isinstance(ops, Block) else list(ops)
        chains = [chain for op in content if (chain := _chain(op))]
        first = next((chain[min(depth, len(chain) - 1)] for chain in chains), None)
        self.filename = first.filename if first is not None else f"<{function}>"
        self._line = first.line if first is not None else 1
        name = first.function if first is not None and first.function else function
        body = self._statements(content) or [ast.Pass(lineno=self._line, col_offset=0)]
        self.code = _compiled(body, self.filename, name)

    def _statements(self, content: Sequence[Operation]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        at = 0
        while at < len(content):
            op = content[at]
            site = self._site(op)
            if site is not None:
                end = at
                while end < len(content) and self._site(content[end]) == site:
                    end += 1
                out += self._helper(content[at:end], site)
                at = end
                continue
            out += self._statement(op)
            at += 1
        return out

    def _site(self, op: Operation) -> Span | None:
        """The call in these lines that an op belongs to; None: it stands here itself."""
        chain = _chain(op)
        return chain[self._depth] if len(chain) > self._depth + 1 else None

    def _helper(self, content: Sequence[Operation], site: Span) -> list[ast.stmt]:
        self._line = site.line
        self.helpers.append(Script(content, site.function, self._cross, self._depth + 1))
        self.helpers[-1].names = crossing_names(site, _chain(content[0])[self._depth + 1])
        index = len(self.helpers) - 1
        return [self._step(f"exec(*{_call('inside', index)})"), self._step(_call("back", index))]

    def _statement(self, op: Operation) -> list[ast.stmt]:
        if isinstance(op, _TERMINATORS):
            return []  # stands where its scope begins: no line to go back to
        chain = _chain(op)
        if chain:
            self._line = chain[min(self._depth, len(chain) - 1)].line
        index = len(self.ops)
        self.ops.append(op)
        match op:
            case d.ForOp() | d.WhileOp():
                return self._loop(index, op.body.block)
            case d.IfOp():
                line = self._line
                test = _expression(_call("holds", index), line)
                then, orelse = self._closed(op.then.block, index, 0), self._closed(op.orelse.block, index, 1)
                return [ast.If(test=test, body=then, orelse=orelse, lineno=line, col_offset=0)]
            case d.RegionOp() if not self._together(op) and op.blocks is not None:
                return self._loop(index, op.body.block)
            case d.RegionOp() | d.GroupOp() if not self._together(op):
                return [self._step(_call("run", index, index)), *self._closed(op.body.block, index, 0)]
            case d.CallOp() if not self._together(op):
                return [self._step(f"exec(*{_call('call', index)})"), self._step(_call("returned", index))]
            case d.EffectOp() if op.static("op") == "breakpoint":
                return [self._step(_call("stop") + "()")]
            case _:
                return [self._step(_call("run", index, index + 1))]

    def _together(self, op: Operation) -> bool:
        """Whether an op is one of several kernels that run side by side: those are started by the reference itself."""
        return self._cross.run_of(op) is not None

    def _closed(self, block: Block, index: int, region: int) -> list[ast.stmt]:
        return [*self._statements(list(block.ops)), self._step(_call("close", index, region))]

    def _loop(self, index: int, block: Block) -> list[ast.stmt]:
        line = self._line
        begin = self._step(_call("start", index))
        body = self._statements(list(block.ops)) or [ast.Pass(lineno=line, col_offset=0)]
        return [begin, ast.While(test=_expression(_call("again", index), line), body=body, orelse=[], lineno=line, col_offset=0)]

    def _step(self, text: str) -> ast.stmt:
        return ast.Expr(value=_expression(text, self._line), lineno=self._line, col_offset=0)


def _chain(op: Operation) -> tuple[Span, ...]:
    """Where an op stands: the outermost call first, its own place last."""
    span = op.span if isinstance(op, d.TileOp) else None
    found: list[Span] = []
    while span is not None:
        found.append(span)
        span = span.parent
    return tuple(reversed(found))


def _call(method: str, *numbers: int) -> str:
    return f"{_RUN}.{method}({', '.join(['__gettrace__()', '__settrace__(None)', *map(str, numbers)])})"


def _expression(text: str, line: int) -> ast.expr:
    from tilejit.types.python_text import expression

    found = expression(text)
    for node in ast.walk(found):
        if isinstance(node, ast.expr):
            node.lineno = node.end_lineno = line
            node.col_offset = node.end_col_offset = 0
    return found


def _compiled(body: list[ast.stmt], filename: str, name: str) -> CodeType:
    return compile(ast.Module(body=body, type_ignores=[]), filename, "exec").replace(co_name=name, co_qualname=name)


def _globals_of(filename: str) -> Mapping[str, object]:
    """The module that a kernel stands in, so that a debugger shows its names too."""
    tools = {"__gettrace__": sys.gettrace, "__settrace__": sys.settrace}
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == filename:
            return {**vars(module), **tools}
    return tools
