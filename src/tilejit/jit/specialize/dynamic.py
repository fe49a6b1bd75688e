"""Which extents are dynamic: what annotations and bind_dynamic declare, carried up from helpers to the entry."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from tilejit.errors import ParserTypeError, ShapeError, Span, in_body
from tilejit.jit.definition import Definition
from tilejit.jit.reads.questions import MISSING
from tilejit.jit.reads.scope import Reads
from tilejit.jit.reads.trace import Trace
from tilejit.jit.specialize.dependencies import bind_call, callee_of, kernel_call, may_omit_outputs, reachable, resolve, resolve_path, returned_params
from tilejit.jit.specialize.signature import JitParam
from tilejit.jit.specialize.symbols import Dynamic, Place, Symbol
from tilejit.types.annotations import DynVar, dynamic


def dynamic_of(reads: Reads, known: dict[Definition, Dynamic]) -> Dynamic:
    """The dynamic extents of a function; those of its helpers are in `known` already."""
    walker = _Walker(reads, known)
    walker.annotations()
    walker.block(reads.definition.text.node.body)
    return walker.found


def may_be_dynamic(trace: Trace, definitions: Iterable[Definition]) -> bool:
    """Whether a body could make an extent dynamic: its own by naming `dynamic`, or that of a helper, which may have annotations that do."""
    return any(_names_dynamic(Reads(trace, definition)) or (definition is not trace.entry and _has_symbols(definition)) for definition in definitions)


def _names_dynamic(reads: Reads) -> bool:
    """Whether the text has the word `dynamic`, or calls the function under another name."""
    facts = reads.definition.facts
    return facts.mentions_dynamic or any(path is not None and len(path) == 1 and resolve_path(path, reads) is dynamic for path, _ in facts.calls)


def _has_symbols(definition: Definition) -> bool:
    return bool(definition.symbols)


def annotated(reads: Reads) -> Dynamic:
    """The dynamic extents that the annotations declare."""
    if not _has_symbols(reads.definition):
        return Dynamic()
    walker = _Walker(reads, {})
    walker.annotations()
    return walker.found


@dataclass(frozen=True, slots=True)
class _Extent:
    """The extent `axis` of parameter `param`."""

    param: str
    axis: int


@dataclass(frozen=True, slots=True)
class _Local:
    """A local tensor, by what its extents are."""

    dims: tuple[_Held, ...]


@dataclass(frozen=True, slots=True)
class _Several:
    """A tuple bound to one name: the results of a task and its id."""

    items: tuple[_Held, ...]


_Held = str | _Extent | _Local | _Several | Symbol | None
"""What an expression evaluates to, as far as dynamic extents care: a parameter's tensor (its name), an extent, a local tensor, a symbol."""


class _Walker:
    def __init__(self, reads: Reads, known: dict[Definition, Dynamic]) -> None:
        self.reads = reads
        self.definition = definition = reads.definition
        self.known = known
        self.found = Dynamic()
        self.held: dict[str, _Held] = {param.name: param.name for param in definition.params}
        """What the locals hold at this point; rebinding a name forgets what it held."""
        if _names_dynamic(reads):
            for statement in definition.tree.nodes:
                if isinstance(statement, ast.Assign):
                    self._symbol_statement(statement)

    def annotations(self) -> None:
        for param in self.definition.params:
            for axis, dim in enumerate(param.tensor.shape or () if param.tensor else ()):
                if isinstance(dim, DynVar):
                    place = partial(self._place_of, param)
                    self.found.declare(param.name, axis, self._object_symbol(dim, place), place)

    def _place_of(self, param: JitParam) -> Span:
        return self.definition.span(self.definition.node_of(param))

    def _object_symbol(self, symbol: DynVar, place: Place) -> Symbol:
        self.reads.symbol(symbol)
        return self.found.objects.setdefault(id(symbol), Symbol(symbol.name, place))

    def _symbol_statement(self, statement: ast.Assign) -> None:
        found = [pair for side in statement.targets for pair in symbols_of(side, statement.value, self.reads)]
        for target, literal in found:
            span = self.definition.span(statement)
            previous = self.found.names.get(target.id)
            if previous is not None and previous.literal != literal:
                raise in_body(ParserTypeError)(
                    f"`{target.id}` is bound to two dynamic extents: {previous.literal!r} and {literal!r}",
                    span=span,
                    note=f"the other one is at {previous.span}",
                    help="give each symbol a name of its own",
                )
            if previous is None:
                same = next((symbol for symbol in self.found.names.values() if symbol.literal == literal), None)
                self.found.names[target.id] = same or Symbol(literal, partial(self.definition.span, statement))

    # statements, in source order ------------------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and self._bind_dynamic(node.value):
            return
        if isinstance(node, ast.Assign):
            held = self._unpacked_shape(node) or self.expression(node.value)
            for target in node.targets:
                self._assign(target, held)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._assign(node.target, self.expression(node.value))
        elif isinstance(node, ast.AugAssign):
            self.expression(node.value)
            self._assign(node.target, (None,))
        elif isinstance(node, ast.For | ast.While | ast.If | ast.With):
            self._compound(node)
        else:
            self._children(node)

    def _compound(self, node: ast.For | ast.While | ast.If | ast.With) -> None:
        self._children(node)
        if isinstance(node, ast.For):
            self._assign(node.target, (None,))
        self.block(node.body)
        self.block(getattr(node, "orelse", []))

    def _children(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.expression(child)
            elif isinstance(child, ast.withitem):
                self._children(child)

    def _unpacked_shape(self, node: ast.Assign) -> tuple[_Held, ...] | None:
        """`M, N = a.shape`."""
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Attribute) and value.attr == "shape" and isinstance(value.value, ast.Name):
            return tuple(self._extent(self.held.get(value.value.id), axis) for axis in range(len(target.elts)))
        return None

    def _assign(self, target: ast.expr, held: tuple[_Held, ...]) -> None:
        if isinstance(target, ast.Name):
            self.held[target.id] = held[0] if len(held) == 1 else _Several(held)
        elif isinstance(target, ast.Tuple | ast.List):
            if len(held) == 1 and isinstance(held[0], _Several):
                held = held[0].items
            if len(target.elts) == 2 < len(held):  # `(a, b), tid = pl.submit(…)`: the results as one
                self._assign(target.elts[0], held[:-1])
                self._assign(target.elts[1], held[-1:])
                return
            matched = held if len(held) == len(target.elts) else (None,) * len(target.elts)
            for item, value in zip(target.elts, matched, strict=True):
                self._assign(item, (value,))

    # expressions ----------------------------------------------------------------------------------------------------------

    def expression(self, node: ast.expr) -> tuple[_Held, ...]:
        """What an expression evaluates to, one item per member of a tuple; helper calls below it are taken note of."""
        if isinstance(node, ast.Name):
            return (self._name(node),)
        if isinstance(node, ast.Tuple | ast.List):
            held = [self.expression(item) for item in node.elts]
            return tuple(item[0] if len(item) == 1 else None for item in held)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            owner = self.expression(node.value.value)
            return (self._extent(owner[0] if len(owner) == 1 else None, _known_integer(node.slice, self.reads)),)
        self._children(node)
        return (self._member(node),)

    def _member(self, node: ast.expr) -> _Held:
        """`results[0]` of several results that one name holds."""
        owner = self._name(node.value) if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) else None
        index = _known_integer(node.slice, self.reads) if isinstance(node, ast.Subscript) and isinstance(owner, _Several) else None
        return owner.items[index] if isinstance(owner, _Several) and index is not None and -len(owner.items) <= index < len(owner.items) else None

    def _name(self, node: ast.Name) -> _Held:
        if node.id in self.found.names:
            return self.found.names[node.id]
        if node.id in self.held or node.id in self.definition.local_names:
            return self.held.get(node.id)
        value = self.reads.name(node.id)
        return self._object_symbol(value, partial(self.definition.span, node)) if isinstance(value, DynVar) else None

    def _extent(self, owner: _Held, axis: int | None) -> _Held:
        if isinstance(owner, str) and axis is not None:
            return _Extent(owner, axis)
        if isinstance(owner, _Local) and axis is not None and -len(owner.dims) <= axis < len(owner.dims):
            return owner.dims[axis]
        return None

    def _call(self, node: ast.Call) -> tuple[_Held, ...]:
        arguments = [self.expression(argument) for argument in node.args if not isinstance(argument, ast.Starred)]
        keywords = {keyword.arg: self.expression(keyword.value) for keyword in node.keywords}
        helper = callee_of(node, self.reads)
        if helper is not None and (any(isinstance(argument, ast.Starred) for argument in node.args) or None in keywords):
            return (None,)  # what belongs to which parameter is known when the body is walked
        if helper is not None:
            call = kernel_call(node, self.reads)
            held = self._helper_call(helper, call, may_omit=call is not node or may_omit_outputs(helper))
            return held if call is node else (*held, None)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
        if method in ("create_tensor", "create"):
            dims = arguments[0] if arguments else keywords.get("shape", ())
            return (_Local(dims),)
        if method == "dim" and len(node.args) == 2 and len(arguments[0]) == 1:
            return (self._extent(arguments[0][0], _known_integer(node.args[1], self.reads)),)
        position = 2 if method == "store" else 0 if method == "assemble" or method == "no_dep" else None
        return arguments[position] if position is not None and position < len(arguments) else (None,)

    def _helper_call(self, helper: Definition, call: ast.Call, may_omit: bool) -> tuple[_Held, ...]:
        bound = bind_call(helper, call, self.definition, may_omit=may_omit)
        held = {name: self._name(item) if isinstance(item, ast.Name) else self._member(item) for name, item in bound.arguments.items()}
        here: dict[Symbol, Symbol] = {}
        for name, axes in self.known[helper].dims.items():
            for axis, symbol in axes.items():
                instance = here.setdefault(symbol.root(), Symbol(symbol.root().literal, symbol.root().place, declared=False))
                self._declare(self._extent(held.get(name), axis), instance, partial(self.definition.span, call))
        for param in helper.params:
            if param.direction != "In" and param.name not in held and param.tensor is not None and param.tensor.shape is not None:
                own = self.known[helper].axes(param.name, {param.name: len(param.tensor.shape)})
                held[param.name] = _Local(tuple(here.get(own[axis]) if axis in own else None for axis in range(len(param.tensor.shape))))
        returned = tuple(held.get(name) if name is not None else None for name in returned_params(Reads(self.reads.trace, helper)))
        return returned or (None,)

    def _declare(self, extent: _Held, symbol: Symbol, place: Place) -> None:
        if isinstance(extent, _Extent):
            self.found.declare(extent.param, extent.axis, symbol, place)
        elif isinstance(extent, Symbol):
            extent.unite(symbol)

    def _bind_dynamic(self, call: ast.Call) -> bool:
        if not is_bind_dynamic(call):
            return False
        assert isinstance(call.func, ast.Attribute)
        owner = call.func.value
        param = self._name(owner) if isinstance(owner, ast.Name) else None
        if not isinstance(param, str):
            help = "write x.bind_dynamic(0, M) for a parameter x"
            raise in_body(ParserTypeError)("bind_dynamic belongs to a tensor parameter", span=self.definition.span(call), help=help)
        if len(call.args) != 2 or call.keywords:
            help = 'write x.bind_dynamic(0, pl.dynamic("M"))'
            raise in_body(ParserTypeError)("bind_dynamic takes an axis and a symbol", span=self.definition.span(call), help=help)
        axis = _constant_axis(call.args[0], self.reads)
        self.found.declare(param, axis, self._symbol(call.args[1]), partial(self.definition.span, call))
        return True

    def _symbol(self, node: ast.expr) -> Symbol:
        if isinstance(node, ast.Name) and node.id in self.found.names:
            return self.found.names[node.id]
        literal = dynamic_literal(node, self.reads)
        if literal is not None:
            same = next((symbol for symbol in self.found.names.values() if symbol.literal == literal), None)
            return same or self.found.names.setdefault(f" {literal}", Symbol(literal, partial(self.definition.span, node)))
        value = resolve(node, self.reads)
        if isinstance(value, DynVar):
            return self._object_symbol(value, partial(self.definition.span, node))
        raise in_body(ParserTypeError)(
            f"`{ast.unparse(node)}` is not a dynamic symbol", span=self.definition.span(node), help='make one with M = pl.dynamic("M")'
        )


def symbols_of(target: ast.expr, value: ast.expr, reads: Reads) -> list[tuple[ast.Name, str]]:
    """The names that an assignment binds to symbols, `M = pl.dynamic("M")` and `M, N = pl.dynamic("M"), pl.dynamic("N")`; none: it is another one."""
    if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List) and len(target.elts) == len(value.elts):
        found = [symbols_of(part, item, reads) for part, item in zip(target.elts, value.elts, strict=True)]
        return [pair for pairs in found for pair in pairs] if all(found) else []
    literal = dynamic_literal(value, reads) if isinstance(target, ast.Name) else None
    return [(target, literal)] if isinstance(target, ast.Name) and literal is not None else []


def is_bind_dynamic(call: ast.Call) -> bool:
    """Whether a call is `x.bind_dynamic(…)`."""
    return isinstance(call.func, ast.Attribute) and call.func.attr == "bind_dynamic"


def dynamic_literal(node: ast.expr, reads: Reads) -> str | None:
    """The literal of `pl.dynamic("M")`, else None."""
    if not isinstance(node, ast.Call) or (isinstance(node.func, ast.Attribute) and node.func.attr != "dynamic"):
        return None  # decided by the name alone: looking every op up would load the whole table
    if resolve(node.func, reads) is not dynamic:
        return None
    definition = reads.definition
    argument = node.args[0] if len(node.args) == 1 and not node.keywords else None
    value = argument.value if isinstance(argument, ast.Constant) else resolve(argument, reads) if argument is not None else MISSING
    if not isinstance(value, str):
        raise in_body(ParserTypeError)("pl.dynamic takes its name as a string", span=definition.span(node), help='write M = pl.dynamic("M")')
    try:
        return DynVar(value).name
    except ValueError as error:
        raise in_body(ShapeError)(str(error), span=definition.span(node), help='write M = pl.dynamic("M")') from None


def _known_integer(node: ast.expr, reads: Reads) -> int | None:
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    inner = node.operand if isinstance(node, ast.UnaryOp) and negative else node
    value = inner.value if isinstance(inner, ast.Constant) else resolve(inner, reads)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return -value if negative else value


def _constant_axis(node: ast.expr, reads: Reads) -> int:
    axis = _known_integer(node, reads)
    if axis is None:
        help = "write the number of the dimension: x.bind_dynamic(0, M)"
        raise in_body(ParserTypeError)("the axis of bind_dynamic must be a constant integer", span=reads.definition.span(node), help=help)
    return axis


def analyse(trace: Trace) -> dict[Definition, Dynamic]:
    """The dynamic extents of the entry and its helpers: one walk, leaf first, independent of any call."""
    known: dict[Definition, Dynamic] = {}
    analyse_late(trace, trace.entry, known)
    return known


def analyse_late(trace: Trace, root: Definition, known: dict[Definition, Dynamic]) -> None:
    """Those of a function and its helpers, as far as they are not `known`."""
    for definition in reachable(trace, root):
        if definition not in known:
            known[definition] = dynamic_of(Reads(trace, definition), known)
