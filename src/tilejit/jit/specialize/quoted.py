"""Annotations in quotes, which all are under `from __future__ import annotations`: what they stand for, what they read for it, and what helps if they fail."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import keyword
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple, cast

from tilejit.errors import ParserTypeError, TilejitError, UndefinedVariableError, did_you_mean
from tilejit.frontend import fold
from tilejit.jit.reads.facts import Path, path_of
from tilejit.jit.reads.questions import MISSING, followed
from tilejit.jit.specialize.annotation_text import unquoted
from tilejit.jit.specialize.signature import JitParam, classify, described_symbol
from tilejit.types.python_text import expression


class Quoted:
    """The annotations in quotes of one function: what they stand for, and what they read to tell that."""

    def __init__(self, namespace: Mapping[str, object], params: frozenset[str] = frozenset()) -> None:
        self._namespace = namespace
        self._params = params
        self._texts: dict[str, str] = {}
        self._found: dict[str, object] = {}
        self._failed: dict[str, Exception] = {}
        self._later: dict[str, str] = {}
        self._read: dict[str, JitParam] = {}
        self.chains: dict[Path, object] = {}
        """Chains of names, with what they led to."""
        self.decided = True
        """Whether they put nothing but what the chains lead to together: no calls, no items of somebody's containers."""

    def evaluate(self, name: str, text: str) -> object | None:
        """The object that the annotation of `name` stands for, or None when a name in it cannot be found."""
        self._texts[name] = text
        try:
            written = _written(text)
            if not self._params.isdisjoint(written.names):
                self._later[name] = min(self._params & written.names)
                return None  # in terms of another parameter: known when the call is
            names = {root: self._namespace.get(root, MISSING) for root in written.names}
            self.chains |= {path: followed(names[path[0]], path[1:]) for path in written.chains}
            self.decided &= written.decided
            known = {root: value for root, value in names.items() if value is not MISSING}
            found = self._found[name] = written.value(known)
        except TilejitError:
            raise
        except Exception as error:
            self._failed[name] = error
            return None
        return found

    def require(self, name: str, guess: object | None) -> None:
        """Refuse an annotation in words of the language that Python cannot evaluate; `guess`: what its shape alone tells.

        Others' annotations may name what is imported for type checkers only, and say nothing here; so does a bare `Tensor`.
        """
        error, later = self._failed.get(name), self._later.get(name)
        if (error is None and (later is None or guess is not None)) or name in self._found:
            return
        text = self._texts[name]
        speaks = _says_more(text) if guess is not None else any(_is_ours(self._namespace.get(root)) for root in _written(text).names)
        if not speaks:
            return
        if error is None:
            help = "write pl.Tensor[[…], …] or pl.Out[pl.Tensor[[…], …]], or say it without parameters"
            raise ParserTypeError(f"the annotation of `{name}` speaks of the parameter `{later}`, which only that of a tensor may", help=help)
        what, help = _told(error, [*self._namespace, *self._params])
        kind = UndefinedVariableError if isinstance(error, NameError | AttributeError) else ParserTypeError
        raise kind(f"the annotation of `{name}` cannot be evaluated: {what}", help=help)

    def later(self) -> dict[str, str]:
        """Those in terms of other parameters, as written: what they stand for is not known yet."""
        return {name: self._texts[name] for name in self._later}

    def described(self) -> str:
        """What they stand for, in writing; symbols by number, classes by where they stand, which other processes know too."""
        symbols: dict[int, int] = {}
        rows = {name: param.described() for name, param in self._classified().items()}
        return json.dumps(rows, default=lambda symbol: described_symbol(symbol, symbols))

    def _classified(self) -> dict[str, JitParam]:
        self._read |= {name: classify(name, found, inspect.Parameter.empty) for name, found in list(self._found.items()) if name not in self._read}
        return dict(self._read)

    def is_changed(self) -> bool:
        """Whether they stand for something else by now."""
        return not self._leads_on() and (self.names_other_classes() or self.described_now() != self.described())

    def _leads_on(self) -> bool:
        """Whether nothing of what they put together has changed."""
        if not self._texts:
            return True
        ends = list(self.chains.items())  # other threads find more of them
        same = self.decided and all(followed(self._namespace.get(path[0], MISSING), path[1:]) is value for path, value in ends)
        return same and not any(hasattr(type(value), "__getitem__") and not isinstance(value, type | tuple) for _, value in ends)  # somebody's containers

    def names_other_classes(self) -> bool:
        """Whether classes that they name have been written again since, under the same names: by a cell of a notebook, or a module that is loaded again."""
        return not self._leads_on() and self.told_now() is None

    def described_now(self) -> str:
        """The same, evaluated again; an error is one more thing that it can be."""
        try:
            return self._again().described()
        except TilejitError as error:
            return f"error: {error}"

    def told_now(self) -> str | None:
        """The same in this process, where a class is itself and no other of its name: None where they name others than those that were read."""
        try:
            now = self._again()
            if not self._has_classes_of(now) and now._has_classes_of(self._again()):  # else each look makes new ones
                return None
            return now.described()
        except TilejitError as error:
            return f"error: {error}"

    def _again(self) -> Quoted:
        again = Quoted(self._namespace, self._params)
        for name, text in list(self._texts.items()):
            again.evaluate(name, text)
        return again

    def _has_classes_of(self, other: Quoted) -> bool:
        one, two = ([cls for param in quoted._classified().values() for cls in (param.wrap, *param.classes)] for quoted in (self, other))
        return len(one) == len(two) and all(map(operator.is_, one, two))


class _Written(NamedTuple):
    """An annotation in quotes as text alone tells: names and chains in it, whether chains decide it, and how to evaluate it."""

    names: frozenset[str]
    chains: tuple[Path, ...]
    decided: bool
    value: Callable[[Mapping[str, object]], object]
    """What it stands for where names mean this."""


_DECIDED = (ast.Name, ast.Attribute, ast.Constant, ast.List, ast.Tuple, ast.Subscript, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context)


@lru_cache(1024)
def _written(text: str) -> _Written:
    return _chain_of(text) or _expression_of(text)


def _chain_of(text: str) -> _Written | None:
    """Of `pl.Tensor` and `pl.Out[pl.Tensor]`, as most are: no compiler has to look at them, which takes a tenth of a warm start. None: it is another one."""
    outer, bracket, rest = text.partition("[")
    chains = tuple(tuple(part.split(".")) for part in ((outer, rest.removesuffix("]")) if bracket else (outer,)))
    plain = all(name.isascii() and name.isidentifier() and not keyword.iskeyword(name) for chain in chains for name in chain)
    if not plain or text != (f"{outer}[{rest[:-1]}]" if bracket else outer):
        return None

    def value(names: Mapping[str, object]) -> object:
        missing = next((chain[0] for chain in chains if chain[0] not in names), None)
        if missing is not None:
            raise NameError(f"name '{missing}' is not defined", name=missing)  # as Python says it of others
        found = [functools.reduce(getattr, chain[1:], names[chain[0]]) for chain in chains]
        return cast("Any", found[0])[found[1]] if bracket else found[0]

    return _Written(frozenset(chain[0] for chain in chains), chains, True, value)


def _expression_of(text: str) -> _Written:
    while isinstance(tree := expression(text.strip()), ast.Constant) and isinstance(tree.value, str):
        text = tree.value
    nodes = list(ast.walk(tree))
    code = compile(ast.Expression(tree), "<annotation>", "eval")
    names = frozenset(node.id for node in nodes if isinstance(node, ast.Name))

    def value(names: Mapping[str, object]) -> object:
        return eval(code, {"__builtins__": {}}, names)  # the author's own annotation, as Python evaluates it

    return _Written(names, tuple(_chains(tree)), all(isinstance(node, _DECIDED) for node in nodes), value)


def _chains(node: ast.AST) -> list[Path]:
    path = path_of(node) if isinstance(node, ast.expr) else None
    return [path] if path is not None else [found for child in ast.iter_child_nodes(node) for found in _chains(child)]


def _says_more(text: str) -> bool:
    """Whether an annotation of a tensor speaks of extents or dtypes."""
    return any(isinstance(node, ast.List | ast.Tuple | ast.Call) for node in ast.walk(unquoted(expression(text.strip()))))


def _is_ours(value: object) -> bool:
    """Whether a name that an annotation begins with is the language, or one of its types."""
    name = value.__name__ if isinstance(value, ModuleType) else type(value).__module__ if not isinstance(value, type) else value.__module__
    return name.partition(".")[0] == "tilejit"


def _told(error: Exception, names: Iterable[str]) -> tuple[str, str]:
    """What Python says of an annotation in quotes that it cannot evaluate, and what helps."""
    what, _, close = str(error).partition("; did you mean ")  # as the language says of its own names
    if close:
        return what, f"did you mean {close}"
    if isinstance(error, AttributeError) and error.obj is not None:
        return what, did_you_mean(str(error.name), fold.members(error.obj)) or f"give it a `{error.name}`, or name something that it has"
    if "DynVar" in what or "DynExpr" in what:
        return "what it computes cannot be told of a pl.dynamic extent: " + what, "write it with +, -, *, // and %, or with a symbol of its own"
    if not isinstance(error, NameError):
        return what, "write it as Python evaluates it where the function stands"
    bind = f"bind `{error.name}` in the module, or in the function or class around this one: what only type checkers import is not there"
    return what, " ".join(filter(None, [did_you_mean(str(error.name), names), bind]))
