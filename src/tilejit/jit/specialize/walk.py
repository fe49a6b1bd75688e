"""The walk over the expressions of a kernel body: what the locals hold, which rule rewrites what, and lists and dicts that change on the way."""

from __future__ import annotations

import ast
import copy
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from tilejit.errors import TilejitError, UnsupportedFeatureError
from tilejit.jit.definition import Definition
from tilejit.jit.reads.handles import holds_handle, is_handle
from tilejit.jit.specialize.dependencies import helpers_of
from tilejit.jit.specialize.effects import ISSUE, acting_calls, calls_before
from tilejit.jit.specialize.meta import DynDim
from tilejit.jit.specialize.nodes import at, relocated
from tilejit.jit.specialize.objects import Objects
from tilejit.jit.specialize.order import reads_the_same_later
from tilejit.jit.specialize.symbols import Dynamic, Symbol
from tilejit.jit.specialize.values import UNKNOWN, Abstract, Static, as_local, literal

if TYPE_CHECKING:
    from tilejit.jit.specialize.program import Specializer

Folded = tuple[ast.expr, Abstract]


class NeedsTurns(UnsupportedFeatureError):
    """The turns of a `pl.unroll` loop, or the branch that is taken, must be known here: something in it runs while compiling."""


class Binding(NamedTuple):
    """Where a name was bound last."""

    blocks: tuple[int, ...]
    """The blocks around it that the run may skip or repeat."""
    bare: bool
    """Whether to an object, which leaves no text."""
    texted: bool
    """Whether the text has a binding of that name, this one or an earlier one."""

    def joined(self, other: Binding | None) -> Binding:
        """After two ways of the run."""
        return self if other is None else Binding(self.blocks, self.bare or other.bare, self.texted or other.texted)


class Issued(NamedTuple):
    """A call of a helper that does more than compute, as the text has it."""

    call: ast.Call
    kept: int
    """How many statements were to stand before this one then."""
    skippable: bool
    """Whether the run may leave it out."""


class Walk(Objects):
    """Expressions of one function under one set of argument types."""

    _turns = count(1)

    def __init__(self, specializer: Specializer, definition: Definition, dynamic: Dynamic, types: Mapping[str, Abstract]) -> None:
        super().__init__(specializer, definition)
        self.dynamic = dynamic
        self.env: dict[str, Abstract] = dict(types)
        """What the locals hold at this point."""
        self.params: dict[str, Abstract] = dict(types)
        self.inlined: dict[str, object] = {}
        """Locals whose assignment vanished because they only name a constant extent, or an object that no text can stand for."""
        self.dims: dict[Symbol, DynDim] = {}
        """The extents that the function's own symbols stand for."""
        self.extents: dict[DynDim, tuple[str, str, int]] = {}
        """Names for extents of parameters that the body binds anew, read at its start, each with its parameter and axis."""
        self.in_annotation = False
        self.substituted: dict[str, Folded | None] = {}
        """Names of comprehensions, by what they stand for in this turn; None: nothing yet."""
        self.folded: dict[int, Folded] = {}
        """Expressions of the new text, by identity, that somebody looks at as if they were the author's."""
        self.spelled: dict[str, ast.expr] = {}
        """Names bound once, to an index expression of names bound once."""
        self.bound_in: dict[str, Binding] = {}
        self.blocks: tuple[int, ...] = ()
        """The blocks around this place that the run may skip or repeat, from outside in."""
        self.loops: set[int] = set()
        """Those of the blocks so far that the run may repeat."""
        self.undecided = 0
        """How many loops and branches are around that run, or not, when the kernel does."""
        self.made: dict[int, tuple[object, int]] = {}
        """Lists and dicts that names were given to, by identity, with the number of such blocks around the first of them."""
        self.changed: list[object] = []
        """Lists and dicts that the text has as they were: names of theirs are bound anew before the next statement."""
        self.ever_changed: list[object] = []
        """All that were changed so far."""
        self.named: set[str] = set()
        """Names that the text has besides those of the author."""
        self.stepped: list[object] = []
        """Iterators of Python that were asked for what comes next."""
        self.lent: list[tuple[object, str]] = []
        """Lists and dicts of which a function of Python got a copy that it may have kept."""
        self.changes = 0
        """How often one was changed."""
        self.done: dict[tuple[object, ...], Folded] = {}
        """What came of expressions of this statement that change a list or dict: whoever looks at them again must not change it again."""
        self.given: dict[int, tuple[ast.expr, Folded]] = {}
        """What calls and attributes of this statement gave, by their nodes: it may be an iterator, and whoever asks again would get another."""
        self.fresh_lists: set[str] = set()
        """Names that this very block gave to a list it made."""
        self.listed: set[str] = set()
        """Names that some block did."""
        self.standing: ast.expr | None = None
        """The call that is a statement of its own."""
        self.regrown: str | None = None
        """The name of the list that it puts values of the run into: it is bound anew."""
        self.kept: list[ast.stmt] = []
        """Names for what is computed first: they stand before the statement."""
        self.first: set[int] = set()
        """Expressions, by identity, that this statement computes before all others."""
        self.in_order = False
        """Whether calls of this statement may change what it reads elsewhere: then all that it computes gets a name, in the order of Python."""
        self.outermost = 0
        """The expression, by identity, that the statement computes last."""
        self.issued: dict[object, Issued] = {}
        """The calls of this statement that do more than compute, in their order; who looks at one twice calls it once."""
        self.turn_number = 0
        """The statement, or the turn of a comprehension, that is looked at."""
        self.acts = False
        """Whether a tensor that may be the caller's is changed by an operator: `t += x`."""
        self.skippable = 0
        """How many expressions are around that the run may leave out."""
        self.follows_types = definition is not specializer.entry or _calls_unknown(definition) or _asks_of_locals(definition) or bool(helpers_of(self.reads))
        """Types of locals matter to the helpers that get them, those of a helper's results to its caller, and to who asks for a local's shape."""

    def fold(self, node: ast.expr) -> Folded:
        """The rewritten expression and what is known of its value. No node is shared with the original."""
        if self.done and (again := self.done.get(_place(node))) is not None:
            return copy.deepcopy(again[0]), again[1]
        if self.folded and (again := self.folded.get(id(node))) is not None:
            return copy.deepcopy(again[0]), again[1]
        if (known := self.given.get(id(node))) is not None:
            return copy.deepcopy(known[1][0]), known[1][1]
        changes = self.changes
        new, value = self._folded(node)
        if self.in_order and not self.skippable and id(node) != self.outermost and not isinstance(node, ast.JoinedStr):  # its parts are
            new = self._computed_now(new, value)
        if self.changes != changes:
            self.done[_place(node)] = new, value
        if isinstance(node, ast.Call | ast.Attribute) and isinstance(value, Static) and is_handle(value.value):
            self.given[id(node)] = node, (new, value)
        return new, value

    def _folded(self, node: ast.expr) -> Folded:
        rule = _RULES.get(type(node))
        try:
            new, value = getattr(self, rule)(node) if rule is not None else (copy.deepcopy(node), UNKNOWN)
        except TilejitError as error:
            raise self.located(error, node) from error.__cause__
        if isinstance(value, Static) and not isinstance(node, ast.Constant):
            if holds_handle(value.value):
                return self.placeholder(value.value, node), Static(value.value)
            if not value.local or self.changed or self._reads_outside(new):  # names of what changed are bound anew after the statement
                short = literal(value.value)
                if short is not None:
                    new = self.after_calls(new, relocated(short, node))
        return new, value

    def after_calls(self, dropped: ast.expr, known: ast.expr) -> ast.expr:
        """What an expression is known to give, behind the calls in it that do more than compute: `(self.helper(out), 5)[1]`."""
        calls = copy.deepcopy(list(acting_calls(dropped, self.specializer.acting)))
        if not calls:
            return known
        return at(ast.Subscript(at(ast.Tuple([*calls, known], ast.Load()), known), at(ast.Constant(len(calls)), known), ast.Load()), known)

    def _computed_now(self, text: ast.expr, value: Abstract) -> ast.expr:
        """An expression as the rest of the statement may read it, whatever that does before."""
        if isinstance(value, Static):
            calls, known = calls_before(text, self.specializer.acting)
            self.kept += [at(ast.Expr(call), call) for call in calls]
            self.changes += len(calls)
            return known if known is not None else text
        if reads_the_same_later(self, text):
            return text
        self.changes += 1  # who looks at it again is given the name
        return self.named_first(text, value)

    def issue(self, node: ast.Call, text: ast.expr) -> None:
        """Take note of a call of a helper: if it acts, the text of this statement must have it."""
        place = self.turn_number, *_place(node)
        for call in acting_calls(text, self.specializer.acting):
            if not hasattr(call, ISSUE):  # those in its arguments have one
                setattr(call, ISSUE, place)
                self.issued.setdefault(place, Issued(call, len(self.kept), bool(self.skippable)))

    def named_first(self, text: ast.expr, value: Abstract) -> ast.expr:
        """A name for what this statement computes first."""
        name = self.free_name("part")
        self.env[name] = as_local(value)
        self.kept.append(at(ast.Assign([at(ast.Name(name, ast.Store()), text)], text), text))
        return at(ast.Name(name, ast.Load()), text)

    def free_name(self, word: str) -> str:
        """A name for something that the author gave none."""
        number = next(number for number in count() if f"{word}_{number}" not in self.definition.local_names and f"{word}_{number}" not in self.named)
        self.named.add(f"{word}_{number}")
        return f"{word}_{number}"

    def note_change(self, value: object) -> None:
        """A list or dict was changed here: its names are bound anew in the text."""
        self.changed.append(value)
        self.ever_changed.append(value)
        self.changes += 1

    @contextmanager
    def turn(self) -> Generator[None]:
        """A statement, or a turn of a comprehension: what it changes is changed each time."""
        around = self.done, self.given, self.turn_number
        self.done, self.given, self.turn_number = {}, {}, next(self._turns)
        try:
            yield
        finally:
            self.done, self.given, self.turn_number = around

    def _reads_outside(self, node: ast.expr) -> bool:
        """Whether an expression still has names that the text does not: of the module, the closure, or of locals that vanished."""
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        return any(name in self.inlined or (name not in self.definition.local_names and name not in ("pl", "pld")) for name in names)


def _place(node: ast.expr) -> tuple[object, ...]:
    return type(node), node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _calls_unknown(definition: Definition) -> bool:
    """Whether a body calls what only an argument or a local tells: it may be a helper."""
    open_ones = {param.name for param in definition.params if param.kind in ("static", "other")}
    return any(path is None or path[0] in (definition.local_names if len(path) == 1 else open_ones) for path, _ in definition.facts.calls)


_RULES: dict[type[ast.expr], str] = {
    ast.Constant: "constant",
    ast.Name: "name",
    ast.Attribute: "attribute",
    ast.Subscript: "subscript",
    ast.Slice: "slice",
    ast.Tuple: "sequence",
    ast.List: "sequence",
    ast.Dict: "mapping",
    ast.Set: "set_display",
    ast.Starred: "starred",
    ast.JoinedStr: "f_string",
    ast.BinOp: "binary",
    ast.UnaryOp: "unary",
    ast.Compare: "compare",
    ast.BoolOp: "logical",
    ast.IfExp: "conditional",
    ast.Call: "call",
    ast.ListComp: "comprehension",
    ast.SetComp: "comprehension",
    ast.DictComp: "comprehension",
    ast.GeneratorExp: "comprehension",
}
"""The method that rewrites each kind of expression; those of operators and calls are in operators.py and calls.py."""


def _asks_of_locals(definition: Definition) -> bool:
    """Whether the text asks something of a name that it binds: `x = pl.row_sum(x)` … `x.shape[1]`."""
    asked = (node.value for node in definition.tree.nodes if isinstance(node, ast.Attribute))
    return any(isinstance(owner, ast.Name) and owner.id in definition.stores for owner in asked)
