"""What the random programs use of the language: statements of every kind, rows of the op table, data types."""

from __future__ import annotations

import ast
import collections
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tests.fuzz.program import generate
from tests.fuzz.public_coverage import forms_of
from tilejit import ops
from tilejit.dtypes import DTYPES

OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Pow: "pow",
    ast.MatMult: "matmul", ast.USub: "neg",
    ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "shr", ast.Invert: "not_",
    ast.And: "logical_and", ast.Or: "logical_or", ast.Not: "logical_not",
}  # fmt: skip
"""Rows that an operator of Python spells."""

UNREACHED: dict[str, str] = {
    "alloc": "it appears in printed IR only; nothing can be computed with a token",
    **dict.fromkeys(("lane_push", "lane_pop"), "made by the front end only, out of FIFOs in a pl.split_aiv: tests/ops/small_kernels.py"),
    **{
        name: "random programs of several ranks have a generator of their own: tests/ranks/test_random.py"
        for name, row in ops.table().items()
        if row.spellings and all(spelling.namespace.startswith("pld") for spelling in row.spellings)
    },
}
"""Rows that no random program has, and why."""

DTYPES_UNREACHED = {
    "HF4": "no array has this type: it is a name for Ascend",
    "HF8": "no array has this type: it is a name for Ascend",
}

Test = Callable[[ast.AST], bool]


def _marker(node: ast.AST | None) -> str:
    """`range` of `pl.range(…)`."""
    return node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""


def _loop(name: str, *, arguments: int | None = None, explicit: bool = False, keyword: str = "") -> Test:
    def test(node: ast.AST) -> bool:
        if not isinstance(node, ast.For) or _marker(node.iter) != name:
            return False
        call = node.iter
        assert isinstance(call, ast.Call)
        given = {item.arg for item in call.keywords}
        return (arguments is None or len(call.args) == arguments) and ("init_values" in given) == explicit and (not keyword or keyword in given)

    return test


def _descending(node: ast.AST) -> bool:
    return isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and len(node.iter.args) == 3 and isinstance(node.iter.args[2], ast.UnaryOp)


def _at_run_time(node: ast.AST) -> bool:
    return isinstance(node, ast.For) and _marker(node.iter) == "range" and any(isinstance(arg, ast.Name) for arg in node.iter.args)  # type: ignore[attr-defined]


def _with(name: str, *, keyword: str = "", named: bool = False) -> Test:
    def test(node: ast.AST) -> bool:
        if not isinstance(node, ast.With) or _marker(node.items[0].context_expr) != name:
            return False
        call = node.items[0].context_expr
        assert isinstance(call, ast.Call)
        return (not keyword or keyword in {item.arg for item in call.keywords}) and (not named or node.items[0].optional_vars is not None)

    return test


def _call(name: str, keyword: str = "") -> Test:
    return lambda node: _marker(node) == name and (not keyword or keyword in {item.arg for item in node.keywords})  # type: ignore[attr-defined]


def _yields(body: Iterable[ast.AST]) -> bool:
    return any(isinstance(item, ast.Assign) and _marker(item.value) == "yield_" for item in body)


def _indices(node: ast.AST, write: bool = False) -> set[type[ast.expr]]:
    """Which kinds of indices a subscript has: slices, expressions."""
    if not isinstance(node, ast.Subscript) or isinstance(node.ctx, ast.Store) != write:
        return set()
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return {ast.Slice if isinstance(item, ast.Slice) else ast.expr for item in items}


def _contains(node: ast.AST, kind: type[ast.AST]) -> bool:
    return isinstance(node, ast.For | ast.While) and any(isinstance(inner, kind) for item in node.body for inner in ast.walk(item))


def _decorated(text: str) -> Test:
    return lambda node: isinstance(node, ast.FunctionDef) and any(text in ast.unparse(item) for item in node.decorator_list)


STATEMENTS: dict[str, Test] = {
    "assignment": lambda n: isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name),
    "annotated assignment": lambda n: isinstance(n, ast.AnnAssign),
    "tuple assignment": lambda n: isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Tuple),
    "nested tuple assignment": lambda n: isinstance(n, ast.Assign) and any(isinstance(e, ast.Tuple) for e in getattr(n.targets[0], "elts", ())),
    "chained assignment": lambda n: isinstance(n, ast.Assign) and len(n.targets) > 1,
    "augmented assignment": lambda n: isinstance(n, ast.AugAssign),
    "element write": lambda n: _indices(n, write=True) == {ast.expr},
    "window write": lambda n: _indices(n, write=True) == {ast.Slice},
    "element read": lambda n: _indices(n) == {ast.expr},
    "row read": lambda n: _indices(n) == {ast.expr, ast.Slice},
    "window read": lambda n: _indices(n) == {ast.Slice},
    "range(stop)": _loop("range", arguments=1),
    "range(start, stop)": _loop("range", arguments=2),
    "range(start, stop, step)": _loop("range", arguments=3),
    "descending range": _descending,
    "range with a bound from the run": _at_run_time,
    "range with init_values and yield": lambda n: _loop("range", explicit=True)(n) and _yields(n.body),  # type: ignore[attr-defined]
    "range with init_values without yield": lambda n: _loop("range", explicit=True)(n) and not _yields(n.body),  # type: ignore[attr-defined]
    "parallel": _loop("parallel"),
    "unroll": _loop("unroll"),
    "pipeline": _loop("pipeline", keyword="stage"),
    "pipeline with init_values": _loop("pipeline", explicit=True),
    "while": lambda n: isinstance(n, ast.While),
    "while_": _loop("while_", explicit=True),
    "break": lambda n: isinstance(n, ast.Break),
    "continue": lambda n: isinstance(n, ast.Continue),
    "break in while": lambda n: isinstance(n, ast.While) and _contains(n, ast.Break),
    "break in an explicit loop": lambda n: _loop("range", explicit=True)(n) and _contains(n, ast.Break),
    "continue in an explicit loop": lambda n: _loop("range", explicit=True)(n) and _contains(n, ast.Continue),
    "nested loops": lambda n: _contains(n, ast.For),
    "if": lambda n: isinstance(n, ast.If) and not n.orelse,
    "else": lambda n: isinstance(n, ast.If) and bool(n.orelse) and not isinstance(n.orelse[0], ast.If),
    "elif": lambda n: isinstance(n, ast.If) and len(n.orelse) == 1 and isinstance(n.orelse[0], ast.If),
    "if with yield": lambda n: isinstance(n, ast.If) and _yields(n.body),
    "loop in a branch": lambda n: isinstance(n, ast.If) and any(isinstance(i, ast.For | ast.While) for s in n.body for i in ast.walk(s)),
    "return": lambda n: isinstance(n, ast.Return) and isinstance(n.value, ast.Name),
    "return of a tuple": lambda n: isinstance(n, ast.Return) and isinstance(n.value, ast.Tuple),
    "no return": lambda n: isinstance(n, ast.FunctionDef) and not any(isinstance(i, ast.Return) for i in ast.walk(n)),
    "pass": lambda n: isinstance(n, ast.Pass),
    "docstring": lambda n: isinstance(n, ast.FunctionDef) and ast.get_docstring(n) is not None,
    "at": _with("at"),
    "at … as tid": _with("at", named=True),
    "at with deps": _with("at", keyword="deps"),
    "at with optimizations": _with("at", keyword="optimizations"),
    "at with name_hint": _with("at", keyword="name_hint"),
    "at of another level": lambda n: _with("at")(n) and "CORE_GROUP" not in ast.unparse(n.items[0].context_expr),  # type: ignore[attr-defined]
    "with spmd": _with("spmd"),
    "with spmd … as tid": _with("spmd", named=True),
    "with spmd and predicate": _with("spmd", keyword="predicate"),
    "for spmd": lambda n: isinstance(n, ast.For) and _marker(n.iter) == "spmd",
    "for spmd with predicate": lambda n: isinstance(n, ast.For) and _call("spmd", "predicate")(n.iter),
    "for spmd of two directions": lambda n: isinstance(n, ast.For) and _marker(n.iter) == "spmd" and len(getattr(n.target, "elts", ())) == 2,
    "for spmd of three directions": lambda n: isinstance(n, ast.For) and _marker(n.iter) == "spmd" and len(getattr(n.target, "elts", ())) == 3,
    "spmd with core_num": _call("spmd", "core_num"),
    "cluster": _with("cluster"),
    "split_aiv": lambda n: isinstance(n, ast.For) and _marker(n.iter) == "split_aiv",
    "manual_scope": _with("manual_scope"),
    "scope": _with("scope", keyword="mode"),
    "submit": _call("submit"),
    "submit with deps": _call("submit", "deps"),
    "submit with predicate": _call("submit", "predicate"),
    "submit bound to one name": lambda n: isinstance(n, ast.Assign) and _marker(n.value) == "submit" and isinstance(n.targets[0], ast.Name),
    "spmd_submit": _call("spmd_submit", "core_num"),
    "spmd_submit with predicate": _call("spmd_submit", "predicate"),
    "array of task ids": lambda n: _marker(n) == "create" and "TASK_ID" in ast.unparse(n),
    "deps from a comprehension": lambda n: isinstance(n, ast.ListComp),
    "static_print": _call("static_print"),
    "static_assert": _call("static_assert"),
    "atomic store": lambda n: _marker(n) == "store" and "atomic" in ast.unparse(n),
    "atomic assemble": lambda n: _marker(n) == "assemble" and "atomic" in ast.unparse(n),
    "incore function": _decorated("ncore"),
    "InCore method": _decorated("InCore"),
    "inline function": _decorated("jit.inline"),
    "inline function with scopes of its own": _decorated("auto_scope"),
    "part of a tile stored": _call("store", "shapes"),
    "slot of a buffer that the run knows": lambda n: isinstance(n, ast.AnnAssign) and "slots=" in ast.unparse(n.annotation),
    "annotated yield": lambda n: isinstance(n, ast.AnnAssign) and _marker(n.value) == "yield_",
    "Inline method": _decorated("FunctionType.Inline"),
    "opaque function": _decorated("jit.opaque"),
    "Orchestration method": _decorated("Orchestration"),
    "jit entry": lambda n: isinstance(n, ast.FunctionDef) and any(ast.unparse(item) == "pl.jit" for item in n.decorator_list),
    "program": lambda n: isinstance(n, ast.ClassDef),
    "dynamic extent": _call("dynamic"),
    "comparison chain": lambda n: isinstance(n, ast.Compare) and len(n.ops) > 1,
}  # fmt: skip
"""Kinds of statements and of their variants, and how to see them in a program's text."""


@dataclass
class Coverage:
    """How many programs use each thing."""

    programs: int = 0
    statements: collections.Counter[str] = field(default_factory=collections.Counter[str])
    rows: collections.Counter[str] = field(default_factory=collections.Counter[str])
    dtypes: collections.Counter[str] = field(default_factory=collections.Counter[str])
    forms: collections.Counter[str] = field(default_factory=collections.Counter[str])

    def add(self, text: str) -> None:
        """Count a program."""
        nodes = list(ast.walk(ast.parse(text)))
        self.programs += 1
        self.statements.update({name for name, test in STATEMENTS.items() if any(test(node) for node in nodes)} | ({"comment"} if "# " in text else set()))
        self.rows.update({row for node in nodes for row in rows_of(node)})
        self.dtypes.update({name for name in DTYPES if f"pl.{name}" in text})
        self.forms.update(forms_of(text, nodes))

    def missing(self) -> tuple[list[str], list[str], list[str]]:
        """Statements, rows and data types without a program."""
        return (
            [name for name in (*STATEMENTS, "comment") if not self.statements[name]],
            [name for name in ops.table() if not self.rows[name]],
            [name for name in DTYPES if not self.dtypes[name]],
        )

    def report(self) -> str:
        """The counts, and what no program has."""
        parts = [f"{self.programs} programs"]
        for title, counts in (("statements", self.statements), ("ops", self.rows), ("data types", self.dtypes)):
            parts.append(f"\n{title}:\n" + "\n".join(f"  {count:6} {name}" for name, count in sorted(counts.items(), key=lambda item: -item[1])))
        for title, names in zip(("statements", "ops", "data types"), self.missing(), strict=True):
            reasons = {**UNREACHED, **DTYPES_UNREACHED}
            parts.append(f"\n{title} never used:" + ("\n" + "\n".join(f"  {name}: {reasons.get(name, 'NO REASON')}" for name in names) if names else " none"))
        return "\n".join(parts)


def rows_of(node: ast.AST) -> Iterator[str]:
    """Rows of the op table that an expression surely means."""
    if isinstance(node, ast.BinOp | ast.UnaryOp | ast.BoolOp):
        name = OPERATORS.get(type(node.op))
        if name is not None:
            yield name
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner = node.func.value
        namespace = owner.attr if isinstance(owner, ast.Attribute) else "pl" if isinstance(owner, ast.Name) and owner.id == "pl" else ""
        function = ops.public(namespace, node.func.attr) if namespace else None
        if function is not None and len({row.name for _, row in function.rows}) == 1:
            yield function.rows[0][1].name


def measure(count: int, first: int = 0) -> Coverage:
    """What `count` programs use."""
    found = Coverage()
    for seed in range(first, first + count):
        found.add(generate(seed).text)
    return found
