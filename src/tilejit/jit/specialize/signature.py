"""The parameters of a jit function: what each annotation says, however it is spelled."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import keyword
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import FunctionType as PythonFunction
from types import ModuleType, UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, cast, get_args, get_origin

from tilejit.dtypes import INT64, DType
from tilejit.errors import ArgumentError, ParserTypeError, TilejitError, UndefinedVariableError, did_you_mean
from tilejit.frontend.source import FunctionText, span_of, unwrapped
from tilejit.jit.reads.facts import Facts, Path, path_of
from tilejit.jit.reads.questions import MISSING, followed
from tilejit.jit.specialize.annotation_text import by_syntax, unquoted
from tilejit.optional import OptionalAnnotation
from tilejit.types.annotations import (
    RUNTIME,
    ArrayAnnotation,
    CommCtx,
    ConstexprAnnotation,
    DirectedAnnotation,
    DistributedTensor,
    DynExpr,
    DynVar,
    RuntimeMarker,
    ScalarAnnotation,
    Tensor,
    TensorAnnotation,
    TileAnnotation,
    WindowAnnotation,
    constexpr,
)
from tilejit.types.python_text import expression

_EMPTY = inspect.Parameter.empty


class JitParam(NamedTuple):
    """One parameter of a jit function."""

    name: str
    kind: str
    """"tensor", "scalar", "static" (known while compiling), or "other" (tiles, arrays, no annotation)."""
    direction: str = "In"
    tensor: TensorAnnotation | None = None
    """What the annotation says of a tensor; empty for a bare `pl.Tensor`."""
    dtype: DType | None = None
    """Of a scalar."""
    default: object = _EMPTY
    wrap: type | None = None
    """A class of KernelArguments, if the annotation is one: other arguments are given to it."""
    keyword_only: bool = False
    """Whether it stands after a `*`."""
    optional: bool = False
    """Whether None may be given for a tensor: decided while compiling."""
    rest: bool = False
    """Whether it is `*args`: a tuple of all further arguments."""
    only: type | tuple[type, ...] | None = None
    """Of what class a compile-time argument must be."""
    stands_for: TileAnnotation | ArrayAnnotation | type | None = None
    """The annotation of a tile or an array, and the class that stands for a scalar."""

    @property
    def stays_runtime(self) -> bool:
        return isinstance(self.default, RuntimeMarker)

    def described(self) -> list[object]:
        """What of it is part of the key, besides its default; symbols as they are."""
        tensor = self.tensor
        shape = None if tensor is None or tensor.shape is None else list(tensor.shape)
        facts: list[object] | None = None
        if tensor is not None:
            facts = [shape, str(tensor.dtype), tensor.layout.value, repr(tensor.view), repr(tensor.memref), type(tensor).__name__, tensor.like]
        only = list(map(_class_path, kinds_of(self)))
        own: list[object] = [self.kind, self.direction, facts, str(self.dtype), _class_path(self.wrap), self.keyword_only, self.optional, self.rest]
        own += [only, _described(self.stands_for)]
        assert len(own) == len(self) - 2, "all but name and default: an annotation that says more is another kernel"
        return own


def _described(annotation: TileAnnotation | ArrayAnnotation | type | None) -> object:
    if isinstance(annotation, TileAnnotation):
        return [list(annotation.shape), str(annotation.dtype), str(annotation.space), repr(annotation.view), repr(annotation.memref)]
    return repr(annotation) if isinstance(annotation, ArrayAnnotation) else _class_path(annotation)


def described_symbol(symbol: DynVar, numbers: dict[int, int]) -> list[object]:
    """A symbol in writing: by its number, as two may have one name; what is computed from symbols by how."""
    if isinstance(symbol, DynExpr):
        return [symbol.op, symbol.left, symbol.right]
    return [symbol.name, numbers.setdefault(id(symbol), len(numbers))]


def kinds_of(param: JitParam) -> tuple[type, ...]:
    """The classes that `pl.constexpr[…]` names; none: any."""
    return param.only if isinstance(param.only, tuple) else () if param.only is None else (param.only,)


def _class_path(cls: type | None) -> str | None:
    return f"{cls.__module__}.{cls.__qualname__}" if cls is not None else None


def read_params(
    function: Callable[..., object],
    facts: Facts,
    text: Callable[[], FunctionText],
    quoted: Quoted,
    drop_first: bool = False,
) -> tuple[JitParam, ...]:
    """The parameters of `function`; string annotations are evaluated where the function stands.

    `text` is asked only where `facts` do not do.
    """
    plain = unwrapped(function)
    assert isinstance(plain, PythonFunction)
    code = plain.__code__
    if code.co_posonlyargcount or code.co_flags & inspect.CO_VARKEYWORDS:
        raise _unsupported(text())
    defaults = _defaults(plain)
    annotations: Mapping[str, object] = getattr(plain, "__annotations__", {})
    total = code.co_argcount + code.co_kwonlyargcount
    has_rest = bool(code.co_flags & inspect.CO_VARARGS)
    params = [
        _read(name, annotations.get(name), defaults.get(name, _EMPTY), quoted, text if name in facts.annotated else None)
        for name in code.co_varnames[: total + has_rest]
    ]
    if code.co_kwonlyargcount:
        params = [param._replace(keyword_only=code.co_argcount <= position < total) for position, param in enumerate(params)]
    if has_rest:
        rest = params.pop()
        params.insert(code.co_argcount, JitParam(rest.name, "other", rest.direction, default=(), rest=True))
    return tuple(params[1:] if drop_first else params)


def _unsupported(text: FunctionText) -> ParserTypeError:
    spec = text.node.args
    if spec.kwarg is not None:
        place = span_of(spec.kwarg, text.source, text.node.name)
        return ParserTypeError("a kernel has no **kwargs parameters", span=place, help="name every parameter, or take one dict: options: dict")
    place = span_of(spec.posonlyargs[0], text.source, text.node.name)
    return ParserTypeError("a kernel has no positional-only parameters", span=place, help="remove the `/`")


def argument_node(text: FunctionText, name: str) -> ast.arg:
    """Where a parameter stands."""
    spec = text.node.args
    return next(arg for arg in (*spec.args, *spec.kwonlyargs, *([spec.vararg] if spec.vararg is not None else [])) if arg.arg == name)


def _defaults(function: PythonFunction) -> dict[str, object]:
    """Default values by parameter; `inspect.signature` would build ten objects for each."""
    positional = function.__defaults__ or ()
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return {**dict(zip(names[len(names) - len(positional) :], positional)), **(function.__kwdefaults__ or {})}


def _read(name: str, annotation: object, default: object, quoted: Quoted, text: Callable[[], FunctionText] | None) -> JitParam:
    """One parameter; `text` of a function in which it has an annotation."""
    try:
        if isinstance(annotation, str):
            annotation = quoted.evaluate(name, annotation)
        if annotation is None and text is not None:
            annotation = _by_text(name, quoted, text())
            quoted.require(name, annotation)
        return _classify(name, annotation, default)
    except TilejitError as error:
        if text is None:
            raise
        node = argument_node(text(), name)
        raise error.located(span_of(node.annotation or node, text().source, text().node.name)) from None


def _by_text(name: str, quoted: Quoted, text: FunctionText) -> object | None:
    """What the annotation in the text stands for, where the function object has none or it cannot be evaluated."""
    written = argument_node(text, name).annotation
    if written is None:
        return None
    found = quoted.evaluate(name, ast.unparse(written))
    return by_syntax(written) if found is None else found


def _classify(name: str, annotation: object, default: object) -> JitParam:
    direction, optional = "In", default is None
    while (inner := _within(annotation)) is not annotation:
        optional |= isinstance(annotation, OptionalAnnotation) or get_origin(annotation) in _UNIONS
        direction = annotation.direction if isinstance(annotation, DirectedAnnotation) else direction
        annotation = inner
    if annotation is Tensor or annotation is DistributedTensor:
        annotation = TensorAnnotation() if annotation is Tensor else WindowAnnotation()
    if annotation is constexpr or isinstance(annotation, ConstexprAnnotation):
        return JitParam(name, "static", default=default, only=annotation.kind if isinstance(annotation, ConstexprAnnotation) else None)
    if isinstance(annotation, TensorAnnotation):
        if annotation.view is not None:
            help = "write the layout itself: pl.Tensor[[64, 64], pl.FP32, pl.NZ]"
            raise ArgumentError(f"the annotation of `{name}` has a pl.TensorView where @pl.jit takes a plain layout", help=help)
        return JitParam(name, "tensor", direction, tensor=annotation, default=default, optional=optional and direction != "Out")
    if isinstance(annotation, ScalarAnnotation):
        return JitParam(name, "scalar", dtype=annotation.dtype, default=default, optional=optional)
    if isinstance(annotation, DType):
        return JitParam(name, "scalar", dtype=annotation, default=default, optional=optional)
    if annotation is CommCtx:
        return JitParam(name, "scalar", dtype=INT64, default=default, stands_for=CommCtx)
    if annotation is int or annotation is float or annotation is bool:
        return JitParam(name, "scalar", default=default, optional=optional, stands_for=cast("type", annotation))
    wrap = annotation if isinstance(annotation, type) and hasattr(annotation, "__abi_slots__") else None
    stands_for = annotation if isinstance(annotation, TileAnnotation | ArrayAnnotation) else None
    return JitParam(name, "other", direction, default=default, wrap=wrap, stands_for=stands_for)


_UNIONS = (Union, UnionType)


def _within(annotation: object) -> object:
    """What stands in an annotation that adds to another: `X | None`, `Optional[X]`, `Annotated[X, …]`, `Final[X]`, `pl.Out[X]`; any other as it is."""
    if isinstance(annotation, OptionalAnnotation | DirectedAnnotation):
        return annotation.inner
    origin, parts = get_origin(annotation), get_args(annotation)
    kinds = [part for part in parts if part is not type(None)]
    if origin in (Annotated, Final) or (origin in _UNIONS and len(kinds) == 1 < len(parts)):
        return kinds[0]
    return annotation


def annotated_result(function: Callable[..., object], quoted: Quoted) -> object | None:
    """What a function's return annotation stands for."""
    annotation = getattr(function, "__annotations__", {}).get("return")
    return quoted.evaluate("return", annotation) if isinstance(annotation, str) else annotation


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

    def described(self) -> str:
        """What they stand for, in writing; symbols by number, classes by where they stand, which other processes know too."""
        symbols: dict[int, int] = {}
        rows = {name: param.described() for name, param in self._classified().items()}
        return json.dumps(rows, default=lambda symbol: described_symbol(symbol, symbols))

    def _classified(self) -> dict[str, JitParam]:
        self._read |= {name: _classify(name, found, _EMPTY) for name, found in list(self._found.items()) if name not in self._read}
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
        one, two = ([cls for param in quoted._classified().values() for cls in (param.wrap, *kinds_of(param))] for quoted in (self, other))
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
        return what, did_you_mean(str(error.name), dir(error.obj)) or f"give it a `{error.name}`, or name something that it has"
    if "DynVar" in what or "DynExpr" in what:
        return "what it computes cannot be told of a pl.dynamic extent: " + what, "write it with +, -, *, // and %, or with a symbol of its own"
    if not isinstance(error, NameError):
        return what, "write it as Python evaluates it where the function stands"
    bind = f"bind `{error.name}` in the module, or in the function or class around this one: what only type checkers import is not there"
    return what, " ".join(filter(None, [did_you_mean(str(error.name), names), bind]))


__all__ = ["RUNTIME", "ArrayAnnotation", "JitParam", "Path", "Quoted", "TileAnnotation", "read_params"]
