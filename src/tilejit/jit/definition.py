"""A kernel as its author wrote it: the function, its kind and options, its text and parameters, read when first needed."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import unicodedata
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import cast

from tilejit import config as settings
from tilejit.errors import SourceNotFoundError, SourceText, Span, TilejitError, UnsupportedFeatureError
from tilejit.frontend.comprehension_names import set_apart
from tilejit.frontend.depth import too_deep, too_long
from tilejit.frontend.fold import Namespace
from tilejit.frontend.private_names import class_of, spell_out, spelled_out
from tilejit.frontend.reserved_names import make_way
from tilejit.frontend.source import FunctionBlock, FunctionText, block_of, parsed, span_of
from tilejit.jit.bound import ByReference
from tilejit.jit.reads.facts import Facts, block_of_code, facts_of, is_known
from tilejit.jit.reads.plain import NotPlain, encode
from tilejit.jit.specialize.quoted import Quoted
from tilejit.jit.specialize.signature import JitParam, annotated_result, argument_node, described_symbol, layers, read_params, takes_part
from tilejit.jit.specialize.tree import Tree, tree_of
from tilejit.json_text import writer
from tilejit.lazy import lazy
from tilejit.runtime.call.native_type import NativeCallable
from tilejit.types.annotations import DynVar, WindowAnnotation


def _last_line(code: CodeType) -> int:
    inner = [_last_line(const) for const in code.co_consts if isinstance(const, CodeType)]
    return max([code.co_firstlineno, *inner, *(line for *_, line in code.co_lines() if line is not None)])


@dataclass(eq=False)
class Definition:
    """One `@pl.jit…` function. Identity is the Python function."""

    function: Callable[..., object]
    """The plain one, out of what decorators wrapped around it."""
    kind: str
    """"orchestration", "host", "incore", "inline", "opaque" or "extern"."""
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    """Plain values."""
    extra: Mapping[str, object] = field(default_factory=dict[str, object])
    """`self` of a method, and the names around a host function of a program."""
    around: Mapping[str, object] = field(default_factory=dict[str, object])
    """Names of annotations in quotes that only the place of the definition knew, as they were then. The body does not see them."""

    @lazy
    def name(self) -> str:
        """What it was called when it was first asked: somebody may call it otherwise later, and texts that tell its name stay."""
        return self.function.__name__

    @lazy
    def block(self) -> FunctionBlock:
        """Its lines; what they say without being parsed is in `facts`."""
        try:
            return block_of(self.function, lambda block: is_known(block, self._code))
        except SourceNotFoundError:
            found = block_of_code(self._code) if settings.RUN_ONLY.value else None
            if found is None:
                raise
            return found

    @lazy
    def running(self) -> SourceText:
        """Its text by the lines that its code has, for places of a function that Python runs; empty if nobody has it."""
        try:
            block = self.block
        except TilejitError:
            return SourceText(self._code.co_filename)
        return SourceText(block.filename, tuple(line.rstrip("\n") for line in block.whole), 1 + self._code.co_firstlineno - block.first_line)

    @lazy
    def facts(self) -> Facts:
        return facts_of(self.block, self._code, lambda: (self.text, self.tree))

    @lazy
    def parts(self) -> tuple[CodeType, object, object, dict[str, object]]:
        """Those of the function as they were when it was read."""
        assert isinstance(self.function, FunctionType)
        return parts_of(self.function)

    @property
    def is_replaced(self) -> bool:
        """Whether the function has other code or other defaults than it was read with, or its annotations name classes that take part in calls by now."""
        return replaced_part(self.function, self.parts) is not None or any(takes_part(cls) is not did for cls, did in self.classes)

    @lazy
    def classes(self) -> tuple[tuple[type, bool], ...]:
        """The user's classes that parameters are annotated with, and whether their objects took part in calls when that was read."""
        annotated = [layers(self.parts[3].get(param.name))[-1] for param in self.params if param.kind == "other"]
        return tuple((kind, takes_part(kind)) for kind in annotated if isinstance(kind, type))

    @property
    def _code(self) -> CodeType:
        return self.parts[0]

    @lazy
    def text(self) -> FunctionText:
        found = parsed(self.block)
        spell_out(found.node, class_of(self._code.co_qualname))
        set_apart(found.node)
        make_way(found.node)
        return found

    @lazy
    def tree(self) -> Tree:
        """The definition without what changes nothing, walked once."""
        try:
            return tree_of(self.text.node)
        except RecursionError:
            raise self.too_deep() from None
        except ValueError:
            raise too_long(self.text.node, self.span) from None

    @property
    def receiver(self) -> object:
        """The object whose method it is; None: it is no method, or a program's own."""
        return receiver_of(self.function, self.extra)

    def too_deep(self) -> UnsupportedFeatureError:
        """The error for a text that is nested more deeply than Python can follow."""
        return too_deep(self.text.node, self.span)

    @lazy
    def params(self) -> tuple[JitParam, ...]:
        _ = self.parts
        first = self.facts.params[:1]
        drop = bool(first) and first[0] in self.extra
        params = read_params(self.function, self.facts, lambda: self.text, self.quoted, drop_first=drop)
        return self._without_directions(params) if self.kind == "inline" else params

    @property
    def takes_windows(self) -> bool:
        """Whether it can only run on a rank."""
        return any(isinstance(param.tensor, WindowAnnotation) for param in self.params)

    @lazy
    def result(self) -> object | None:
        """What the return annotation stands for."""
        return annotated_result(self.function, self.quoted)

    @lazy
    def quoted(self) -> Quoted:
        """The annotations in quotes, as they were when `params` and `result` were read."""
        return Quoted(self.annotation_namespace, frozenset(self.facts.params).difference(self.extra))  # what a method belongs to is known

    @lazy
    def digest(self) -> str:
        """What passes see of the definition, whoever asks: its text, parameters as classified, plain defaults, kind and options."""
        params = [[param.name, *param.described(), _default(param)] for param in self.params]
        rows = [self.facts.digest, self.name, self.kind, encode(dict(self.options)), params, repr(self.result)]
        rows += [self.quoted.later()] if self.quoted.later() else []  # which the text need not say: its file may be newer
        try:
            text = _json(rows)
        except TypeError:  # symbols, by number
            symbols: dict[int, int] = {}
            text = json.dumps(rows, default=lambda value: described_symbol(value, symbols))
        return hashlib.sha256(text.encode()).hexdigest()

    @lazy
    def symbols(self) -> Mapping[DynVar, str]:
        """The symbols of the annotations, each with the extent that it names first."""
        found: dict[DynVar, str] = {}
        for param in self.params:
            for axis, dim in enumerate(param.tensor.shape or () if param.tensor is not None else ()):
                if isinstance(dim, DynVar):
                    found.setdefault(dim, f"{param.name}.shape[{axis}]")
        return found

    @lazy
    def _names(self) -> tuple[str, ...]:
        return tuple(param.name for param in self.params)

    @lazy
    def positional(self) -> int:
        """How many parameters may be given by position: those before a `*`."""
        return sum(not (param.keyword_only or param.rest) for param in self.params)

    @property
    def label(self) -> str:
        """What messages call it."""
        return f"{'host' if self.kind == 'host' else '@pl.jit'} function '{self.name}'"

    def in_order(self, args: tuple[object, ...], named: Mapping[str, object]) -> tuple[object, ...] | None:
        """All arguments of a call, in the order of the parameters; None where that leaves a gap, a name means nothing or is missing."""
        if len(args) > self.positional:
            return None
        if not named:
            return args
        following = self._names[len(args) : len(args) + len(named)]
        try:
            return (*args, *[named[name] for name in following]) if len(following) == len(named) else None
        except KeyError:
            return None

    def _without_directions(self, params: tuple[JitParam, ...]) -> tuple[JitParam, ...]:
        """An inline function has no outputs of its own: it is spliced, and whatever it writes is the caller's."""
        directed = [param for param in params if param.direction != "In"]
        if directed:
            what = f"`{directed[0].name}` of the inline function `{self.name}`: pl.{directed[0].direction} is deprecated there and has no effect"
            warnings.warn(what, DeprecationWarning, stacklevel=2)
        return tuple(param._replace(direction="In") for param in params)

    @lazy
    def namespace(self) -> Mapping[str, object]:
        return Namespace(self.function, self.extra)

    @lazy
    def annotation_namespace(self) -> Mapping[str, object]:
        """What annotations in quotes see."""
        return Namespace(self.function, {**self.extra, **self.around}) if self.around else self.namespace

    def has_word(self, word: str) -> bool:
        """Whether its lines mention a name, `super()` the class that it stands in."""
        if self._mentions(word, self.block.lines) or self._mentions(word, self._all_lines):
            return True
        spelled = [unicodedata.normalize("NFKC", line) for line in self._all_lines if not line.isascii()]  # as Python reads names: µ has two numbers
        return bool(spelled) and self._mentions(word, spelled)

    def _mentions(self, word: str, lines: Sequence[str]) -> bool:
        if any(word in line or (word == "__class__" and "super" in line) for line in lines):
            return True
        owner = class_of(self._code.co_qualname)
        written = word.removeprefix(f"_{owner}")
        return word == spelled_out(written, owner) != written and any(written in line for line in lines)

    @lazy
    def _all_lines(self) -> Sequence[str]:
        """The lines of the whole function, also behind text at the margin; nothing is parsed where the code ends before."""
        if _last_line(self._code) - self._code.co_firstlineno < len(self.block.lines):
            return self.block.lines
        node = self.text.node
        return self.block.whole[node.lineno - 1 : node.end_lineno]

    def visible_names(self) -> list[str]:
        """Names of the module, for suggestions."""
        return list(self.namespace)

    @lazy
    def local_names(self) -> frozenset[str]:
        """Names that Python treats as local: parameters and whatever the body binds."""
        return frozenset((*self._names, *self.stores))

    @property
    def stores(self) -> Mapping[str, int]:
        """How often the body binds each name."""
        return self.facts.stores

    @lazy
    def returns(self) -> tuple[ast.Return, ...]:
        """The return statements, in source order."""
        found = [node for node in self.tree.nodes if isinstance(node, ast.Return)]
        return tuple(sorted(found, key=lambda node: node.lineno))

    def anew(self) -> Definition:
        """The same function, to be read again: its text and its defaults may have changed."""
        return Definition(self.function, self.kind, self.options, self.extra, self.around)

    def param(self, name: str) -> JitParam:
        return next(param for param in self.params if param.name == name)

    def node_of(self, param: JitParam) -> ast.arg:
        """Where a parameter stands."""
        return argument_node(self.text, param.name)

    def span(self, node: ast.AST) -> Span:
        """Where `node` of this function stands in the user's file."""
        return span_of(node, self.text.source, self.name)

    def place_of(self, name: str) -> Span | None:
        """Where the body reads a name first."""
        return next((self.span(node) for node in self.tree.nodes if isinstance(node, ast.Name) and node.id == name), None)

    def __repr__(self) -> str:
        return f"Definition({self.function.__module__}.{self.function.__qualname__}, {self.kind})"


_json = writer()


def receiver_of(function: Callable[..., object], extra: Mapping[str, object]) -> object:
    """What a function's first parameter stands for, where the names around it say so."""
    code = getattr(function, "__code__", None)
    return extra.get(code.co_varnames[0]) if code is not None and code.co_argcount else None


def parts_of(function: FunctionType) -> tuple[CodeType, object, object, dict[str, object]]:
    """Code, defaults, keyword defaults and annotations of a function; they can be replaced, the last two in place."""
    keywords = dict(function.__kwdefaults__) if function.__kwdefaults__ is not None else None
    return function.__code__, function.__defaults__, keywords, dict(function.__annotations__)


def replaced_part(function: object, parts: tuple[object, ...]) -> tuple[str, object] | None:
    """Which of its parts a function has no longer, and what that was; dicts can be changed, `parts` has copies of them."""
    for name, old in zip(("__code__", "__defaults__", "__kwdefaults__", "__annotations__"), parts, strict=True):
        now = getattr(function, name)
        if isinstance(now, dict) and isinstance(old, dict):
            names, known = cast("dict[str, object]", now), cast("dict[str, object]", old)
            same = names.keys() == known.keys() and all(names[key] is known[key] for key in known)
        else:
            same = now is old
        if not same:
            return name, old
    return None


def with_defaults(function: FunctionType, defaults: Mapping[str, object]) -> FunctionType:
    """A copy of a function with other defaults. Parameters before which one has a default get one too if they can be left out: None."""
    code, own = function.__code__, inspect.signature(function, follow_wrapped=False).parameters
    places = list(own)[: code.co_argcount]
    first = min((at for at, name in enumerate(places) if name in defaults or own[name].default is not inspect.Parameter.empty), default=len(places))
    values = [defaults.get(name, None if own[name].default is inspect.Parameter.empty else own[name].default) for name in places[first:]]
    made = FunctionType(code, function.__globals__, function.__name__, tuple(values) or None, function.__closure__)
    made.__kwdefaults__ = {**(function.__kwdefaults__ or {}), **{name: value for name, value in defaults.items() if name not in places}} or None  # type: ignore[assignment]
    for name in ("__module__", "__qualname__", "__doc__", "__annotations__"):
        setattr(made, name, getattr(function, name))
    return made


def _written(value: object) -> object:
    """A default in the key; what is not plain is a question of its own."""
    try:
        return encode(value)
    except NotPlain:
        return ["object"]


def _default(param: JitParam) -> object:
    return None if param.default is inspect.Parameter.empty else [_written(param.default)]


class Kernel(NativeCallable, ByReference):
    """Base of what the decorators return, so that a callee can be recognised."""

    definition: Definition

    def origin(self) -> Callable[..., object]:
        return self.definition.function
