"""Which names a statement reads and binds: decides what loops carry and branches merge."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tilejit.frontend.desugar import is_yield
from tilejit.ops import spelled

COMPOUND = (ast.For, ast.While, ast.If, ast.With)


@dataclass(slots=True)
class Facts:
    """Names of a statement or block. Dicts are ordered sets."""

    reads: dict[str, None] = field(default_factory=dict[str, None])
    """Read before the statement surely binds them."""
    binds: dict[str, None] = field(default_factory=dict[str, None])
    """Possibly bound, in order of appearance."""
    surely: dict[str, None] = field(default_factory=dict[str, None])
    """Bound whenever control reaches the end."""

    def then(self, other: Facts) -> None:
        """Continue with `other` after this."""
        for name in other.reads:
            if name not in self.surely:
                self.reads[name] = None
        self.binds.update(other.binds)
        self.surely.update(other.surely)


class NameAnalysis:
    """Facts of statements, each computed once."""

    def __init__(self) -> None:
        self._facts: dict[ast.stmt, Facts] = {}
        self._cut_from: dict[str, str] = {}
        """Names that were cut from another one: `part = acc[0:32]`."""

    def learn(self, body: Sequence[ast.stmt]) -> None:
        """Look for names that hold parts of others: an accumulation into such a part changes the other name too."""
        for statement in body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Assign | ast.AnnAssign) and (owner := cut_from(node.value)) is not None:
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    self._cut_from.update((target.id, owner) for target in targets if isinstance(target, ast.Name) and target.id != owner)

    def _accumulates_into(self, node: ast.stmt) -> list[str]:
        """Names whose parts a statement accumulates into."""
        found: list[str] = []
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr.endswith("_acc") and call.args:
                first = call.args[0]
                owner = first.id if isinstance(first, ast.Name) and first.id in self._cut_from else cut_from(first)
                while owner is not None and owner not in found:
                    found.append(owner)
                    owner = self._cut_from.get(owner)
        return found

    def block(self, body: Sequence[ast.stmt]) -> Facts:
        """Facts of statements in sequence."""
        out = Facts()
        for statement in body:
            out.then(self.statement(statement))
        return out

    def statement(self, node: ast.stmt) -> Facts:
        facts = self._facts.get(node)
        if facts is None:
            facts = self._facts[node] = self._compute(node)
        return facts

    def _compute(self, node: ast.stmt) -> Facts:
        out = Facts()
        if isinstance(node, ast.If):
            _read(out, node.test)
            then, orelse = self.block(node.body), self.block(node.orelse)
            both = Facts({**then.reads, **orelse.reads}, {**then.binds, **orelse.binds}, {n: None for n in then.surely if n in orelse.surely})
            out.then(both)
        elif isinstance(node, ast.For):
            _read(out, node.iter)
            body = Facts()
            _bind(body, node.target)
            body.then(self.block(node.body))
            out.then(Facts(body.reads, body.binds, _yielded(node.body) or _carried(node.target)))
        elif isinstance(node, ast.While):
            _read(out, node.test)
            body = self.block(node.body)
            out.then(Facts(body.reads, body.binds))
        elif isinstance(node, ast.With):
            for item in node.items:
                _read(out, item.context_expr)
                if item.optional_vars is not None:
                    _bind(out, item.optional_vars)
            out.then(self.block(node.body))
        else:
            _simple(out, node)
            for name in self._accumulates_into(node):
                out.binds[name] = None
                if name not in out.surely:
                    out.reads[name] = None
        if isinstance(node, ast.If | ast.For | ast.While):
            # A yield belongs to the innermost loop or branch.
            out.binds = {name: None for name in out.binds if not name.startswith("$yield")}
        return out


def cut_from(node: ast.expr | None) -> str | None:
    """The name that `name[…]`, `pl.slice(name, …)` or several of them take a part of."""
    whole: ast.expr | None = None
    if isinstance(node, ast.Subscript):
        whole = node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "slice":
        whole = node.args[0] if node.args else next((keyword.value for keyword in node.keywords if keyword.arg == "input"), None)
    return whole.id if isinstance(whole, ast.Name) else cut_from(whole) if whole is not None else None


def _yielded(body: Sequence[ast.stmt]) -> dict[str, None]:
    """Names that hold what an explicit loop yields: bound after it even when it makes no trip."""
    out = Facts()
    for statement in body:
        if isinstance(statement, ast.Assign) and is_yield(statement.value):
            for target in statement.targets:
                _bind(out, target)
    return out.surely


def _carried(target: ast.expr) -> dict[str, None]:
    """Names that an explicit loop without a yield carries: `(a, b)` of `for i, (a, b) in …`, `for (a, b) in …`."""
    out = Facts()
    if isinstance(target, ast.Tuple):
        _bind(out, target.elts[-1] if isinstance(target.elts[-1], ast.Tuple) else target)
    return out.surely


def _simple(out: Facts, node: ast.stmt) -> None:
    if isinstance(node, ast.Assign):
        _read(out, node.value)
        for target in node.targets:
            _bind(out, target)
        if is_yield(node.value):
            assert isinstance(node.value, ast.Call)
            out.binds.update((f"$yield{index}", None) for index in range(len(node.value.args)))
    elif isinstance(node, ast.AnnAssign):
        if node.value is not None:
            _read(out, node.annotation)
            _read(out, node.value)
            _bind(out, node.target)
    elif isinstance(node, ast.AugAssign):
        _read(out, node.target)
        _read(out, node.value)
        _bind(out, node.target)
    else:
        _read(out, node)


def _read(out: Facts, node: ast.AST) -> None:
    for child in ast.walk(node):
        if isinstance(child, ast.Name):
            if child.id not in out.surely:
                out.reads[child.id] = None
        elif isinstance(child, ast.Call) and (rebound := rebound_name(child)) is not None:
            out.binds[rebound] = None


def rebound_name(call: ast.Call) -> str | None:
    """The name that `pl.write(t, …)` or `pl.assemble(t, …)` rebinds if it holds a tile."""
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr in spelled("rebinds") and call.args and isinstance(call.args[0], ast.Name):
        return call.args[0].id
    return None


def _bind(out: Facts, target: ast.expr) -> None:
    if isinstance(target, ast.Name):
        out.binds[target.id] = None
        out.surely[target.id] = None
    elif isinstance(target, ast.Tuple | ast.List):
        for item in target.elts:
            _bind(out, item)
    elif isinstance(target, ast.Starred):
        _bind(out, target.value)
    elif isinstance(target, ast.Subscript):
        # A write into a tile gives its name a new value; into a buffer it does not. Both read the old one.
        _read(out, target)
        base = target.value
        if isinstance(base, ast.Name):
            out.binds[base.id] = None


def live_after_each(analysis: NameAnalysis, body: Sequence[ast.stmt], live: Iterable[str]) -> list[frozenset[str]]:
    """For each statement, the names that may be read after it; only compound statements get their own set."""
    empty: frozenset[str] = frozenset()
    if not any(isinstance(statement, COMPOUND) for statement in body):
        return [empty] * len(body)
    current = set(live)
    out: list[frozenset[str]] = []
    for statement in reversed(body):
        out.append(frozenset(current) if isinstance(statement, COMPOUND) else empty)
        facts = analysis.statement(statement)
        current.difference_update(facts.surely)
        current.update(facts.reads)
    out.reverse()
    return out
