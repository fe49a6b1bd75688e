"""Rewrites the statements of a kernel body in source order, following what the locals hold."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Sequence

from tilejit.dtypes import INDEX
from tilejit.errors import ShapeError, StaticAssertionError, UncacheableValueError, UnsupportedFeatureError, in_body
from tilejit.jit.reads.facts import calls_in
from tilejit.jit.reads.handles import holds_handle, is_handle
from tilejit.jit.reads.questions import refusal
from tilejit.jit.specialize.calls import Calls, NeedsTurns
from tilejit.jit.specialize.dependencies import definition_of, resolve
from tilejit.jit.specialize.dynamic import is_bind_dynamic, symbols_of
from tilejit.jit.specialize.expressions import Folded
from tilejit.jit.specialize.infer import operator
from tilejit.jit.specialize.iterate import taken_apart, unrolled
from tilejit.jit.specialize.nodes import at, is_index_expression, relocated
from tilejit.jit.specialize.values import (
    UNKNOWN,
    Abstract,
    Items,
    RuntimeValue,
    Static,
    Unknown,
    as_local,
    joined,
    literal,
    lose_an_object,
    members_of,
    number_of,
    without_value,
)
from tilejit.ops.spec import OpFunction
from tilejit.types.scopes import MARKERS, Marker
from tilejit.types.values import BufferType, TileType


class Statements(Calls):
    """The body of one function under one set of argument types."""

    returns: tuple[Abstract, ...] = ()
    """What the last `return` gives back."""

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The rewritten statements; a block that vanished is a `pass`."""
        out = [new for statement in body for new in self.statement(statement)]
        return out or [at(ast.Pass(), body[0])]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        rule = _RULES.get(type(node))
        return [self.closed(new) for new in getattr(self, rule)(node)] if rule is not None else [copy.deepcopy(node)]

    # assignments ------------------------------------------------------------------------------------------------------------

    def assign(self, node: ast.stmt) -> list[ast.stmt]:
        assert isinstance(node, ast.Assign)
        if all(symbols_of(target, node.value, self.reads) for target in node.targets):
            return []
        self._refuse_swap(node)
        vanished = self._shape_assignment(node)
        if vanished is not None:
            return vanished
        value_node, value = self.fold(node.value)
        if isinstance(value, Unknown):
            value = self._kept(node)
        if self._names_an_object(node.targets, value):
            return []
        if isinstance(value, Static) and is_handle(value.value) and any(isinstance(target, (ast.Tuple, ast.List)) for target in node.targets):
            return [new for target in node.targets for new in self._unpacked(target, value, node)]
        targets = [self.target(target, value) for target in node.targets]
        self._note_spelling(node.targets, value_node)
        return [at(ast.Assign(targets, value_node), node)]

    def _refuse_swap(self, node: ast.Assign) -> None:
        """`u, w = w, u` of the caller's tensors: after an odd number of steps the result would be in the other one, without a word."""
        target, value = node.targets[0], node.value
        if self.definition is not self.specializer.entry or not (isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)):
            return
        names, values = ([item.id if isinstance(item, ast.Name) else "" for item in side.elts] for side in (target, value))
        outputs = {param.name for param in self.definition.params if param.direction != "In"}
        given = all(isinstance(self.params.get(name), BufferType) for name in names)
        if given and sorted(names) == sorted(values) and names != values and set(names) & outputs:
            first, second = next((a, b) for a, b in zip(names, values, strict=True) if a != b and {a, b} & outputs)
            raise in_body(UnsupportedFeatureError)(
                f"`{first}` and `{second}` are tensors of the caller: swapping their names leaves the result in one or the other",
                span=self.definition.span(node),
                help=f"swap local names, `a, b = {first}, {second}` before the loop, and write `{first}[:] = a` after it",
            )

    def _unpacked(self, target: ast.expr, value: Abstract, node: ast.Assign) -> list[ast.stmt]:
        """`a, (b, c) = SIZES`: one assignment per name, as some may be of objects."""
        if isinstance(target, (ast.Tuple, ast.List)):
            items = self.members(value, node.value)
            if len(target.elts) != len(items):
                message = f"`{ast.unparse(node.value)}` has {len(items)} members, this names {len(target.elts)}"
                raise in_body(ShapeError)(message, span=self.definition.span(target))
            return [new for name, item in zip(target.elts, items, strict=True) for new in self._unpacked(name, item, node)]
        if self._names_an_object([target], value):
            return []
        short = self.placeholder(value.value, node.value) if isinstance(value, Static) and holds_handle(value.value) else self._literal(value, node)
        return [at(ast.Assign([self.target(target, value)], short), node)]

    def _literal(self, value: Abstract, node: ast.Assign) -> ast.expr:
        short = literal(value.value) if isinstance(value, Static) else None
        if short is None:
            raise self.located(refusal(ast.unparse(node.value), "with members that have no literal"), node)
        return relocated(short, node.value)

    def _note_spelling(self, targets: Sequence[ast.expr], value: ast.expr) -> None:
        """`hi = lo + 16`: the width of `x[lo:hi]` can be told."""
        if self.follows_types and is_index_expression(value) and all(isinstance(target, ast.Name) for target in targets):
            names = {node.id for item in (*targets, value) for node in ast.walk(item) if isinstance(node, ast.Name)}
            if all(self.bindings_of(name) <= 1 for name in names):
                self.spelled.update({target.id: value for target in targets if isinstance(target, ast.Name)})

    def _names_an_object(self, targets: Sequence[ast.expr], value: Abstract) -> bool:
        """`c = CONFIGS[i]`: what the name stands for is read where it is used, as it has no literal."""
        if not isinstance(value, Static) or literal(value.value) is not None:
            return False
        if holds_handle(value.value) and all(isinstance(target, ast.Name) for target in targets):
            self.env.update({target.id: value for target in targets if isinstance(target, ast.Name)})
            return True
        if len(targets) != 1:
            return False
        target = targets[0]
        if not isinstance(target, ast.Name) or self.bindings_of(target.id) != 1:
            return False
        self.inlined[target.id] = value.value
        return True

    def _kept(self, node: ast.Assign) -> Abstract:
        """`v = pl.op(…)` whose result is not known here: what was known of `v` stays, as ops that rebind a name rarely change its type."""
        target = node.targets[0]
        if isinstance(target, ast.Name) and isinstance(node.value, ast.Call) and isinstance(resolve(node.value.func, self.reads), OpFunction):
            before = self.env.get(target.id)
            if isinstance(before, (BufferType, TileType)):
                return before
        return UNKNOWN

    def _shape_assignment(self, node: ast.Assign) -> list[ast.stmt] | None:
        """`K = a.shape[1]` and `M, N = a.shape`: constant extents become literals at their uses, dynamic ones dim reads."""
        source = node.value.value if isinstance(node.value, ast.Subscript) else node.value
        if not (isinstance(source, ast.Attribute) and source.attr == "shape" and isinstance(source.value, ast.Name) and source.value.id in self.params):
            return None
        value_node, value = self.fold(node.value)
        if len(node.targets) != 1:
            return None
        target = node.targets[0]
        if isinstance(target, ast.Name):
            return self._extent_assignment(target, value_node, value, node)
        items = members_of(value)
        if not isinstance(target, (ast.Tuple, ast.List)) or not all(isinstance(item, ast.Name) for item in target.elts):
            return None
        if len(items) != len(target.elts):
            names, owner = len(target.elts), source.value.id
            help = f"its shape is {owner}.shape[0]" + (f" to {owner}.shape[{len(items) - 1}]" if len(items) > 1 else "")
            raise in_body(ShapeError)(f"`{owner}` has rank {len(items)}, this names {names} extents", span=self.definition.span(target), help=help)
        nodes = value_node.elts if isinstance(value_node, ast.Tuple) else [_member(value_node, axis) for axis in range(len(items))]
        out: list[ast.stmt] = []
        for name, item_node, item in zip(target.elts, nodes, items, strict=True):
            assert isinstance(name, ast.Name)
            out += self._extent_assignment(name, item_node, item, node) or []
        return out

    def _extent_assignment(self, target: ast.Name, value_node: ast.expr, value: Abstract, node: ast.Assign) -> list[ast.stmt]:
        if isinstance(value, Static) and not value.local and self.bindings_of(target.id) == 1 and not isinstance(value.value, tuple):
            self.inlined[target.id] = value.value
            return []
        return [at(ast.Assign([self.target(target, value)], value_node), node)]

    def bindings_of(self, name: str) -> int:
        """How often the function binds a name."""
        return self.definition.stores.get(name, 0)

    def target(self, target: ast.expr, value: Abstract) -> ast.expr:
        """An assignment target, which from now on holds `value`."""
        if isinstance(target, ast.Name):
            self.env[target.id] = as_local(value)
            return at(ast.Name(target.id, ast.Store()), target)
        if isinstance(target, (ast.Tuple, ast.List)):
            items = members_of(value)
            if len(target.elts) == 2 < len(items):  # `(a, b), tid = pl.submit(…)`: the results as one
                items = (Items(items[:-1]), items[-1])
            matched = items if len(items) == len(target.elts) else (UNKNOWN,) * len(target.elts)
            new = [self.target(item, part) for item, part in zip(target.elts, matched, strict=True)]
            return at(type(target)(new, ast.Store()), target)
        if isinstance(target, ast.Subscript):
            base = self.rewrite(target.value)
            index, _ = self.indices(target.slice)
            self.note_window_write(target, value)
            return at(ast.Subscript(base, index, ast.Store()), target)
        return copy.deepcopy(target)

    def annotated(self, node: ast.stmt) -> list[ast.stmt]:
        assert isinstance(node, ast.AnnAssign)
        annotation = self.annotation(node.annotation)
        value_node, value = self.fold(node.value) if node.value is not None else (None, UNKNOWN)
        target = self.target(node.target, value)
        assert isinstance(target, (ast.Name, ast.Attribute, ast.Subscript))
        return [at(ast.AnnAssign(target, annotation, value_node, node.simple), node)]

    def augmented(self, node: ast.stmt) -> list[ast.stmt]:
        assert isinstance(node, ast.AugAssign)
        value_node, value = self.fold(node.value)
        if isinstance(node.target, ast.Name):
            before = self.env.get(node.target.id, UNKNOWN)
            if isinstance(before, Static) and holds_handle(before.value):
                name = node.target.id
                raise in_body(UnsupportedFeatureError)(
                    f"`{name}` stands for an object of Python, which a kernel cannot change", span=self.definition.span(node), help=f"write {name} = {name} …"
                )
            shaped = isinstance(before, (BufferType, TileType)) or isinstance(value, (BufferType, TileType))
            self.env[node.target.id] = operator(type(node.op).__name__, before, value, self.specializer.fresh) if shaped else RuntimeValue()
            target: ast.expr = copy.deepcopy(node.target)
        else:
            target = self.target(node.target, UNKNOWN)
        assert isinstance(target, (ast.Name, ast.Attribute, ast.Subscript))
        return [at(ast.AugAssign(target, node.op, value_node), node)]

    # blocks -----------------------------------------------------------------------------------------------------------------

    def loop(self, node: ast.stmt) -> list[ast.stmt]:
        assert isinstance(node, ast.For)
        expanded = self._expanded(node)
        if expanded is None:
            expanded = unrolled(self, node)
        if expanded is not None:
            return expanded
        before = dict(self.env)
        try:
            return self._rolled(node)
        except (NeedsTurns, UncacheableValueError):
            self.env = before
            expanded = self._expanded(node, turns=True)
            if expanded is None:
                raise
            return expanded

    def _rolled(self, node: ast.For) -> list[ast.stmt]:
        iterable = self.rewrite(node.iter)
        self._enter_loop(node)
        target = self._loop_target(node.target, node.iter)
        body = self.block(node.body)
        self._leave(_stored_names(node))
        orelse = self.block(node.orelse) if node.orelse else []
        return [at(ast.For(target, iterable, body, orelse), node)]

    def _expanded(self, node: ast.For, turns: bool = False) -> list[ast.stmt] | None:
        """The turns of a `pl.unroll` loop that calls helpers or Python functions: their arguments must be known here."""
        call = node.iter
        if not isinstance(call, ast.Call) or resolve(call.func, self.reads) is not MARKERS["unroll"] or not isinstance(node.target, ast.Name):
            return None
        name = node.target.id
        if self.bindings_of(name) != 1 or call.keywords or not (turns or self._calls_what_runs_here(node.body)):
            return None
        bounds = [number_of(self.opened(self.fold(argument)[1])) for argument in call.args]
        whole = [bound for bound in bounds if isinstance(bound, int)]
        if len(whole) != len(bounds) or not 1 <= len(whole) <= 3 or 0 in whole[2:]:
            return None
        out: list[ast.stmt] = []
        try:
            for value in range(*whole):
                self.inlined[name] = value
                out += [new for statement in node.body for new in self.statement(statement)]
        finally:
            self.inlined.pop(name, None)  # an outer loop may have to be expanded first
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
            parts = taken_apart(self, target, item, len(target.elts))
            return [new for part, found in zip(target.elts, parts, strict=True) for new in self.bind_member(part, found)]
        if isinstance(target, ast.Name) and isinstance(value, Static):
            self.inlined.pop(target.id, None)
            if self.bindings_of(target.id) == 1:
                self.inlined[target.id] = value.value
                return []
            if literal(value.value) is None:
                self.env[target.id] = value
                return []
        return [at(ast.Assign([self.target(target, value)], copy.deepcopy(node)), target)]

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
        self._enter_loop(node)
        test = self.rewrite(node.test)
        body = self.block(node.body)
        self._leave(_stored_names(node))
        orelse = self.block(node.orelse) if node.orelse else []
        return [at(ast.While(test, body, orelse), node)]

    def _enter_loop(self, node: ast.For | ast.While) -> None:
        """A scalar that the loop rebinds has no fixed value in it; a tensor keeps its type from turn to turn."""
        self._leave(_stored_names(node))

    def _leave(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self.env:
                self.env[name] = without_value(self.env[name])

    def branch(self, node: ast.stmt) -> list[ast.stmt]:
        assert isinstance(node, ast.If)
        test_node, test = self.fold(node.test)
        if isinstance(test, Static) and is_handle(test.value):
            test = Static(self.truth(test, node.test))
        if isinstance(test, Static) and isinstance(test.value, bool) and not test.local:
            taken = node.body if test.value else node.orelse
            return [new for statement in taken for new in self.statement(statement)]
        before = dict(self.env)
        body = self.block(node.body)
        after_body, self.env = self.env, dict(before)
        orelse = self.block(node.orelse) if node.orelse else []
        if isinstance(test, Static) and isinstance(test.value, bool) and lose_an_object(after_body, self.env):
            self.env = before  # no text can stand for an object: what holds one is decided here
            return [new for statement in (node.body if test.value else node.orelse) for new in self.statement(statement)]
        self.env = {name: joined(value, after_body[name]) for name, value in self.env.items() if name in after_body}
        return [at(ast.If(test_node, body, orelse), node)]

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
        return [at(ast.Expr(self.rewrite(node.value)), node)]

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

    def returned(self, node: ast.stmt) -> list[ast.stmt]:
        assert isinstance(node, ast.Return)
        if node.value is None:
            return [copy.deepcopy(node)]
        value_node, value = self.fold(node.value)
        self.returns = members_of(value) or (value,)
        return [at(ast.Return(value_node), node)]

    # writes into outputs whose shape is not known ---------------------------------------------------------------------------

    def note_window_write(self, target: ast.Subscript, value: Abstract) -> None:
        """Overridden where output shapes are looked for."""


def _member(node: ast.expr, axis: int) -> ast.expr:
    return relocated(ast.Subscript(copy.deepcopy(node), ast.Constant(axis), ast.Load()), node)


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
}
"""The method that rewrites each kind of statement; others are left to the front end, which refuses them."""
