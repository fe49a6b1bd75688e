"""Rewrites the statements of a kernel body in source order, following what the locals hold."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import cast

from tilejit.dtypes import INDEX
from tilejit.errors import StaticAssertionError, TilejitError, UncacheableValueError, UnsupportedFeatureError, in_body
from tilejit.jit.reads.facts import calls_in
from tilejit.jit.reads.handles import is_handle
from tilejit.jit.specialize.assignments import Assignments
from tilejit.jit.specialize.dependencies import definition_of, helpers_of, resolve
from tilejit.jit.specialize.dynamic import is_bind_dynamic
from tilejit.jit.specialize.effects import ISSUE, acting_calls, calls_before
from tilejit.jit.specialize.iterate import taken_apart, without_objects
from tilejit.jit.specialize.nodes import at, relocated
from tilejit.jit.specialize.order import computed_first, order_matters
from tilejit.jit.specialize.stores import is_member, taken_out
from tilejit.jit.specialize.turns import expanded, unrolled
from tilejit.jit.specialize.values import (
    UNKNOWN,
    Abstract,
    Items,
    RuntimeValue,
    Static,
    holds_object,
    joined,
    literal,
    number_of,
    reaches,
    without_value,
)
from tilejit.jit.specialize.walk import Folded, NeedsTurns
from tilejit.types.scopes import MARKERS, Marker
from tilejit.types.values import BufferType, TileType


class Statements(Assignments):
    """The body of one function under one set of argument types."""

    result: Abstract | None = None
    """What the last `return` gives back."""
    _block_numbers = count()

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The rewritten statements; a block that vanished is a `pass`."""
        return self.reached(body) or [at(ast.Pass(), body[0])]

    def reached(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The rewritten statements, up to one that leaves them: what stands behind it does nothing, while compiling too."""
        out: list[ast.stmt] = []
        for statement in body:
            out += self.statement(statement)
            if out and isinstance(out[-1], ast.Return | ast.Break | ast.Continue):
                break
        return out

    def whole(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """All statements of the function."""
        try:
            return self.block(body)
        except NeedsTurns as error:  # which nothing could show one by one
            raise in_body(UnsupportedFeatureError)(error.message, span=error.span, where=error.where, help=error.hint, note=error.note) from None

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        rule = _RULES.get(type(node))
        if isinstance(node, ast.Pass | ast.Break | ast.Continue):
            return [copy.deepcopy(node)]
        if rule is None:
            raise self.not_of_kernels(node)  # before what it was to bind is missed
        before = self._bound_anew(node)
        around = self.kept, self.issued, self.first, self.in_order, self.outermost
        self.kept, self.issued, start = [], {}, _start(node)
        self.first = set(map(id, computed_first(start))) if start is not None else set()
        alone = not isinstance(node, ast.Assign) or not any(isinstance(part, ast.Subscript) for target in node.targets for part in ast.walk(target))
        self.outermost = id(start) if alone else 0
        self.in_order = bool(helpers_of(self.reads)) and order_matters(self, _head(node), start)
        try:
            with self.turn():
                after = [*getattr(self, rule)(node), *self._bound_anew(node)]
            self._restore_lost_calls(after, node)
            return [*before, *(self.closed(part) for new in (*self.kept, *after) for part in self._calls_first(new))]
        finally:
            self.kept, self.issued, self.first, self.in_order, self.outermost = around

    def _restore_lost_calls(self, after: Sequence[ast.stmt], node: ast.stmt) -> None:
        """Let calls that have to run, and that nothing of the statement's text has, stand before it: `(helper(out), 5)[1]`."""
        if not self.issued:
            return
        there = {getattr(node, ISSUE) for new in (*self.kept, *after) for node in ast.walk(new) if hasattr(node, ISSUE)}
        lost = [issued for place, issued in self.issued.items() if place not in there]
        inside = {(part.lineno, part.col_offset) for part in getattr(node, "body", ())}  # the turns of an expanded loop: they come later
        own = [new for new in after if (new.lineno, new.col_offset) not in inside]
        for more, (call, kept, skippable) in enumerate(lost):
            what = f"`{ast.unparse(call).removeprefix('self.')}` does more than compute its result, and "
            if skippable:
                what += "only the run knows whether it is called here"
            elif not (read := self._read_by(own)):
                self.kept.insert(kept + more, at(ast.Expr(call), call))
                continue
            else:
                what += f"this statement also reads `{read}`"
            help = "call it in a statement of its own, under `if` where it has to be"
            raise in_body(UnsupportedFeatureError)(what, span=self.definition.span(call), help=help)

    def _read_by(self, own: Sequence[ast.stmt]) -> str | None:
        """Something in memory that the expressions of a statement read: a call that stands before it may change that."""
        nodes = (node for new in own for head in _head(new) for node in ast.walk(head))
        names = (node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
        return next((name for name in names if not isinstance(self.env.get(name, RuntimeValue()), Static | RuntimeValue)), None)

    def _calls_first(self, node: ast.stmt) -> list[ast.stmt]:
        """A statement that begins with calls whose results are known, as several: `n = (self.helper(out), 5)[1]`."""
        field = "test" if isinstance(node, ast.If | ast.Assert) else "value" if isinstance(node, ast.Assign | ast.AnnAssign | ast.Return | ast.Expr) else ""
        calls, known = calls_before(getattr(node, field, None), self.specializer.acting)
        if not calls:
            return [node]
        setattr(node, field, known)
        return [*(at(ast.Expr(call), call) for call in calls), *([] if isinstance(node, ast.Expr) else [node])]

    def _bound_anew(self, place: ast.stmt) -> list[ast.stmt]:
        """`values = [1, 2]` after `values.append(2)`, which was done here and leaves nothing in the text; the same for all names that it has."""
        changed, self.changed = self.changed, []
        held = {name: value.value for name, value in self.env.items() if isinstance(value, Static) and any(reaches(value.value, one) for one in changed)}
        shorts = [(name, short) for name, value in held.items() if name not in self.inlined and (short := literal(value)) is not None]
        return [at(ast.Assign([ast.Name(name, ast.Store())], relocated(short, place)), place) for name, short in shorts]

    def _undecided_block(self, body: Sequence[ast.stmt], turns: bool = False) -> list[ast.stmt]:
        """The statements of a loop (`turns`), or of a branch that the run decides."""
        self.undecided += 1
        outer, self.blocks = self.blocks, (*self.blocks, next(self._block_numbers))
        self.loops |= set(self.blocks[-1:] if turns else ())
        around, self.fresh_lists = self.fresh_lists, set()
        spelled = self.spelled
        try:
            out = self.block(body)
            around = around - self.fresh_lists  # whether those names hold these lists is for the run to say
            return out
        finally:
            self.undecided -= 1
            self.blocks, self.fresh_lists = outer, around
            self.spelled = {name: text for name, text in self.spelled.items() if spelled.get(name) is text}  # the others hold in this turn, on this way

    # blocks -----------------------------------------------------------------------------------------------------------------

    def loop(self, node: ast.stmt) -> list[ast.stmt]:
        assert isinstance(node, ast.For)
        turns = self._expanded(node)
        if turns is None:
            turns = unrolled(self, node)
        if turns is not None:
            return turns
        before, kept, inlined, changed = dict(self.env), list(self.kept), dict(self.inlined), len(self.ever_changed) - len(self.changed)
        try:
            return self._rolled(node)
        except (NeedsTurns, UncacheableValueError):
            self.env, self.kept, self.inlined = before, kept, inlined
            self.changed = self.ever_changed[changed:]  # its head is not done again, and what it changed has yet to be bound anew
            turns = self._expanded(node, turns=True)
            if turns is None:
                raise
            return turns

    def _rolled(self, node: ast.For) -> list[ast.stmt]:
        iterable = self.rewrite(node.iter)
        if self.changed and not all(isinstance(part, ast.Constant) for part in getattr(iterable, "args", [iterable])):
            what = f"`{ast.unparse(node.iter)}` changes what it may read too, before a loop of the run"
            raise in_body(UnsupportedFeatureError)(what, span=self.definition.span(node.iter), help="change it in a statement of its own before the loop")
        before = self._bound_anew(node)
        inlined = self._enter_loop(node)
        target = self._loop_target(node.target, node.iter)
        outside = dict(self.env)
        body = self._undecided_block(node.body, turns=True)
        self._refuse_other_types(node, outside)
        self._leave_loop(node, inlined)
        orelse = self.block(node.orelse) if node.orelse else []
        return [*before, at(ast.For(target, iterable, body, orelse), node)]

    def _refuse_other_types(self, node: ast.For, outside: dict[str, Abstract]) -> None:
        """`for i in pl.unroll(2): t = t[:, 1:]`: each turn has a type of its own, so that they are looked at one by one."""
        if not isinstance(node.iter, ast.Call) or node.iter.keywords or resolve(node.iter.func, self.reads) is not MARKERS["unroll"]:
            return
        for name in sorted(_stored_names(node) & outside.keys()):
            before, after = outside[name], self.env.get(name)
            if not isinstance(before, BufferType | TileType) or not isinstance(after, BufferType | TileType):
                continue
            if (before.shape, before.dtype) != (after.shape, after.dtype):
                help = "give what each turn makes a name of its own"
                raise NeedsTurns(f"`{name}` has another type after each turn", span=self.definition.span(node), help=help)

    def _expanded(self, node: ast.For, turns: bool = False) -> list[ast.stmt] | None:
        """The turns of a `pl.unroll` loop that calls helpers or Python functions: their arguments must be known here."""
        call = node.iter
        if not isinstance(call, ast.Call) or resolve(call.func, self.reads) is not MARKERS["unroll"] or not isinstance(node.target, ast.Name):
            return None
        name = node.target.id
        if call.keywords or not (turns or self._calls_what_runs_here(node.body)):
            return None
        bounds = [number_of(self.opened(self.fold(argument)[1])) for argument in call.args]
        whole = [bound for bound in bounds if isinstance(bound, int)]
        if len(whole) != len(bounds) or not 1 <= len(whole) <= 3 or 0 in whole[2:]:
            return None
        try:
            out = expanded(self, node, [(at(ast.Constant(value), node.target), Static(value)) for value in range(*whole)])
        except TilejitError:
            self.inlined.pop(name, None)  # an outer loop may have to be expanded first
            raise
        if self.undecided:
            self.inlined.pop(name, None)  # the run decides whether it has a value
        return out

    def _calls_what_runs_here(self, body: Sequence[ast.stmt]) -> bool:
        callees = [resolve(call.func, self.reads) for statement in body for call in calls_in(ast.walk(statement))]
        return any(is_handle(callee) or definition_of(callee) is not None for callee in callees)

    def is_marker(self, node: ast.expr) -> bool:
        """Whether an expression is one of the language's loops."""
        found = resolve(node, self.reads)
        return not is_handle(found) and isinstance(found, Marker)

    def bind_member(self, target: ast.expr, item: Folded) -> list[ast.stmt]:
        """Let the name of a loop over a container stand for a member of it."""
        node, value = item
        if isinstance(target, (ast.Tuple, ast.List)):
            return [new for part, found in taken_apart(self, target, item) for new in self.bind_member(part, found)]
        if isinstance(target, ast.Name):
            self.inlined.pop(target.id, None)  # it stood for another member before
        if isinstance(target, ast.Name) and isinstance(value, Static):
            if self.bindings_of(target.id) == 1:
                self.inlined[target.id] = value.value
                return []
            if literal(value.value) is None:
                self.bind(target, value)
                return []
        return [at(ast.Assign([self.target(target, value)], without_objects(copy.deepcopy(node), value)), target)]

    def _loop_target(self, target: ast.expr, iterable: ast.expr) -> ast.expr:
        """The induction variable is an INDEX; carried names start with what `init_values` holds."""
        if isinstance(target, ast.Tuple) and len(target.elts) == 2 and isinstance(iterable, ast.Call):
            if resolve(iterable.func, self.reads) is MARKERS["spmd"]:
                return self.target(target, Items((RuntimeValue(INDEX),) * len(target.elts)))
            inits = next((keyword.value for keyword in iterable.keywords if keyword.arg == "init_values"), None)
            carried = self.fold(inits)[1] if inits is not None else UNKNOWN
            new = [self.target(target.elts[0], RuntimeValue(INDEX)), self.target(target.elts[1], carried)]
            return at(ast.Tuple(new, ast.Store()), target)
        unrolled = isinstance(iterable, ast.Call) and resolve(iterable.func, self.reads) is MARKERS["unroll"]
        several = Items((RuntimeValue(INDEX),) * len(target.elts)) if isinstance(target, ast.Tuple) else UNKNOWN
        return self.target(target, RuntimeValue(INDEX, unrolled) if isinstance(target, ast.Name) else several)

    def while_loop(self, node: ast.stmt) -> list[ast.stmt]:
        assert isinstance(node, ast.While)
        inlined = self._enter_loop(node)
        test = self._perhaps(node.test)[0]
        body = self._undecided_block(node.body, turns=True)
        self._leave_loop(node, inlined)
        orelse = self.block(node.orelse) if node.orelse else []
        return [at(ast.While(test, body, orelse), node)]

    def _enter_loop(self, node: ast.For | ast.While) -> Mapping[str, object]:
        """A scalar that the loop rebinds has no fixed value in it; a tensor keeps its type from turn to turn. What names that it binds stood for before."""
        names = _stored_names(node)
        self._leave(names)
        self.forget_spellings(names)
        return {name: self.inlined.pop(name) for name in names & self.inlined.keys()}

    def _leave_loop(self, node: ast.For | ast.While, inlined: Mapping[str, object]) -> None:
        """`inlined`: what names stood for before it, which they still do where it has no turn."""
        self._leave(_stored_names(node))
        self.inlined = {name: value for name, value in self.inlined.items() if name not in inlined or _is_same(value, inlined[name])}

    def _leave(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self.env:
                self.env[name] = without_value(self.env[name])

    def branch(self, node: ast.stmt) -> list[ast.stmt]:
        assert isinstance(node, ast.If)
        test_node, test = self.fold(node.test)
        if self.changed and not isinstance(test, Static):
            test_node = self.named_first(test_node, test)  # it reads lists as they were before it changed them
        first = self._bound_anew(node)
        if isinstance(test, Static):
            calls: list[ast.stmt] = [at(ast.Expr(call), call) for call in acting_calls(test_node, self.specializer.acting)]
            return [*calls, *first, *self.reached(node.body if self.truth(test, node.test) else node.orelse)]
        before, inlined, bound = dict(self.env), dict(self.inlined), dict(self.bound_in)
        body = self._undecided_block(node.body)
        after_body, self.env = self.env, before
        inlined_in_body, self.inlined = self.inlined, dict(inlined)
        bound_in_body, self.bound_in = self.bound_in, bound
        orelse = self._undecided_block(node.orelse) if node.orelse else []
        self.bound_in |= {name: binding.joined(self.bound_in.get(name)) for name, binding in bound_in_body.items()}
        ways = (inlined_in_body, self.inlined)  # names that stand for one thing on both; the others have a value on one of the ways
        self.inlined = {name: value for name, value in inlined.items() if all(name in way and _is_same(way[name], value) for way in ways)}
        self.env = {name: joined(value, after_body[name]) for name, value in self.env.items() if name in after_body}
        return [*first, at(ast.If(test_node, body, orelse), node)]

    def scope(self, node: ast.stmt) -> list[ast.stmt]:
        assert isinstance(node, ast.With)
        items: list[ast.withitem] = []
        for item in node.items:
            expression = self.rewrite(item.context_expr)
            items.append(ast.withitem(expression, self.target(item.optional_vars, UNKNOWN) if item.optional_vars is not None else None))
        return [at(ast.With(items, self.block(node.body)), node)]

    # the rest ---------------------------------------------------------------------------------------------------------------

    def expression(self, node: ast.stmt) -> list[ast.stmt]:
        assert isinstance(node, ast.Expr)
        if isinstance(node.value, ast.Call) and is_bind_dynamic(node.value):
            return []
        if isinstance(node.value, ast.Constant):
            return [copy.deepcopy(node)]
        self.standing, self.regrown = node.value, None
        text, value = self.fold(node.value)
        if (name := self.regrown) is not None:
            self.regrown = None
            return [at(ast.Assign([self.target(at(ast.Name(name, ast.Store()), node), value)], text), node)]
        return [at(ast.Expr(text), node)]

    def asserted(self, node: ast.stmt) -> list[ast.stmt]:
        """`assert` of a compile-time condition is decided here; its message is then no read of the kernel."""
        assert isinstance(node, ast.Assert)
        test_node, test = self.fold(node.test)
        if isinstance(test, Static) and not test.local:
            if self.truth(test, node.test):
                return []
            message = self.fold(node.msg)[1] if node.msg is not None else None
            raise StaticAssertionError.of(ast.unparse(node.test), message.value if isinstance(message, Static) else None).located(self.definition.span(node))
        return [at(ast.Assert(test_node, self.rewrite(node.msg) if node.msg is not None else None), node)]

    def deleted(self, node: ast.stmt) -> list[ast.stmt]:
        assert isinstance(node, ast.Delete)
        if not all(is_member(self, target) for target in node.targets):
            return [copy.deepcopy(node)]
        return [new for target in node.targets for new in taken_out(self, cast("ast.Subscript", target), node)]

    def returned(self, node: ast.stmt) -> list[ast.stmt]:
        assert isinstance(node, ast.Return)
        if node.value is None:
            return [copy.deepcopy(node)]
        value_node, value = self.fold(node.value)
        before, self.result = self.result, value if self.result is None else joined(self.result, value)
        if not holds_object(self.result) and (holds_object(value) or (before is not None and holds_object(before))):
            what = f"which object of Python `{self.definition.name}` returns here is known only at run time"
            raise in_body(UnsupportedFeatureError)(what, span=self.definition.span(node), help="return what is read of it, or decide while compiling")
        if self.definition is not self.specializer.entry:
            value_node = without_objects(value_node, value)  # which its caller knows
        return [at(ast.Return(value_node), node)]


def _start(node: ast.stmt) -> ast.expr | None:
    """The expression that a statement computes before all else."""
    match node:
        case ast.For():
            return node.iter
        case ast.If() | ast.Assert():
            return node.test
        case ast.AugAssign(target=ast.Subscript()):
            return None  # what is there is read before
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Expr() | ast.Return():
            return node.value
        case _:
            return None


def _head(node: ast.stmt) -> list[ast.AST]:
    """The expressions of a statement, without those of the statements in it."""
    return [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


def _is_same(one: object, other: object) -> bool:
    """Whether a name stands for the same as before: a number of the same type, or the very object."""
    return one is other or (type(one) is type(other) and isinstance(one, int | float | str) and one == other)


def _stored_names(node: ast.AST) -> set[str]:
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)}


_RULES: dict[type[ast.stmt], str] = {
    ast.Assign: "assign",
    ast.AnnAssign: "annotated",
    ast.AugAssign: "augmented",
    ast.For: "loop",
    ast.While: "while_loop",
    ast.If: "branch",
    ast.With: "scope",
    ast.Expr: "expression",
    ast.Return: "returned",
    ast.Assert: "asserted",
    ast.Delete: "deleted",
}
"""The method that rewrites each kind of statement."""
