"""Calls in a kernel body: of operators, of helpers, and of Python functions that run while compiling."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import BuiltinMethodType
from typing import Any, cast

from tilejit.errors import ParserTypeError, TilejitError, UnsupportedFeatureError, in_body
from tilejit.frontend import fold
from tilejit.frontend.refusals import LISTS_IN_LOOPS
from tilejit.jit.definition import Definition, Kernel
from tilejit.jit.reads.facts import SUBMITS
from tilejit.jit.reads.handles import holds_handle, is_handle, is_made_here
from tilejit.jit.reads.natures import BLIND
from tilejit.jit.reads.plain import follows, is_plain
from tilejit.jit.reads.typed import untyped
from tilejit.jit.specialize import infer
from tilejit.jit.specialize.dependencies import callee_of, check_callee, definition_of, kernel_call
from tilejit.jit.specialize.growing import GROWING, grown
from tilejit.jit.specialize.iterate import check_order, copied, holds_nan, spread_out
from tilejit.jit.specialize.mappings import dict_of, dict_view, pairs
from tilejit.jit.specialize.nodes import at, dotted
from tilejit.jit.specialize.operators import Operators
from tilejit.jit.specialize.owned import LISTS, changed_by, given_to, is_fresh, made_in, makes_anew, only_moves, refuse_deed, taken_over
from tilejit.jit.specialize.typed import called
from tilejit.jit.specialize.values import UNKNOWN, Abstract, Items, RuntimeValue, Static, is_language, parts_of, reaches
from tilejit.jit.specialize.walk import Folded, NeedsTurns
from tilejit.kinds import true_module
from tilejit.ops.compose import INLINE_HELP
from tilejit.ops.spec import OpFunction
from tilejit.types.scopes import MARKERS, meant
from tilejit.types.values import BufferType, TileType

_BLIND = (len, sorted, min, max, sum, any, all, bool, isinstance, set, frozenset)
"""Functions that ask nothing about the order of a set."""
_COMPARING = (sorted, min, max)
"""Those that need an order among its members."""


class Calls(Operators):
    """Expressions of one function, calls among them."""

    def call(self, node: ast.expr) -> Folded:
        assert isinstance(node, ast.Call)
        if isinstance(node.func, ast.Attribute):
            owner_text, held = self.fold(node.func.value)
            view = dict_view(self, owner_text, held, node.func.attr, node) if isinstance(held, Items) else None
            if view is not None:
                return view
        function, callee = self.fold(node.func)
        helper = definition_of(callee.value) if isinstance(callee, Static) else None
        if isinstance(callee, Static) and isinstance(hidden := self.specializer.trace.untracked(callee.value), Kernel):
            raise self._unnamed(node.func, hidden.definition)
        if helper is not None:
            if callee_of(node, self.reads) is not helper:
                check_callee(helper, node, self.definition)
                if self.specializer.dynamic(helper).dims:
                    raise self._unnamed(node.func, helper)
            return self.helper_call(node, helper)
        started = kernel_call(node, self.reads)
        if started is not node:
            return self._submitted(node, function, started)
        if isinstance(callee, Static) and _is_program_function(callee.value):
            function = self._external(callee.value, function)
        if isinstance(callee, Static) and (callee.value is MARKERS["static_print"] or meant(callee.value) is MARKERS["print"]):
            return self._shown(node, function, asked=meant(callee.value) is MARKERS["print"])
        if isinstance(callee, Static) and meant(callee.value) is MARKERS["breakpoint"]:
            return node, UNKNOWN
        standing, node = node is self.standing, self._named_once(self.spread(node))
        args = [self.fold(argument) for argument in node.args]
        if isinstance(node.func, ast.Attribute) and node.func.attr in SUBMITS and args:
            text, task = args[0]
            if isinstance(task, Static) and (helper := definition_of(task.value)) is not None:
                raise self._unnamed(node.args[0], helper)
            if isinstance(task, Static) and _is_program_function(task.value) and isinstance(callee, Static) and _starts_tasks(callee.value):
                args[0] = self._external(task.value, text), task
        if isinstance(callee, Static) and isinstance(callee.value, OpFunction) and args:
            args[0] = self._handed_in(callee.value, node, args)
        keywords = [(keyword, *self.fold(keyword.value)) for keyword in node.keywords]
        new_keywords = [at(ast.keyword(keyword.arg, value), keyword) for keyword, value, _ in keywords]
        new = at(ast.Call(function, [argument for argument, _ in args], new_keywords), node)
        if standing and (longer := self._longer(node, callee, args)) is not None:
            return longer
        if isinstance(node.func, ast.Attribute) and isinstance(owner := self.opened(self.fold(node.func.value)[1]), (BufferType, TileType)):
            by_name = {keyword.arg: self.opened(value) for keyword, _, value in keywords if keyword.arg is not None}
            return new, infer.method(owner, node.func.attr, [self.opened(value) for _, value in args], by_name, self.specializer.fresh)
        if not isinstance(callee, Static):
            self._refuse_lost_change(node)
            return new, UNKNOWN
        return self._known_call(node, new, callee, args, keywords)

    def _known_call(
        self, node: ast.Call, new: ast.Call, callee: Static, args: Sequence[Folded], keywords: Sequence[tuple[ast.keyword, ast.expr, Abstract]]
    ) -> Folded:
        """A call of something that is known: an op, a function of Python, or what is neither."""
        positional = [value for _, value in args]
        named = {keyword.arg: value for keyword, _, value in keywords if keyword.arg is not None}
        if _is_program_function(callee.value):
            return new, _program_result(callee.value, positional)
        if isinstance(callee.value, OpFunction):
            if not self.follows_types:
                return new, UNKNOWN
            by_name = {name: self.opened(value) for name, value in named.items()}
            return new, infer.apply_op(callee.value, [*map(self.opened, positional)], by_name, self.specializer.fresh)
        if callee.value is MARKERS["yield_"]:
            return new, yielded(positional)
        if _starts_tasks(callee.value) and positional and isinstance(task := positional[0], Static) and _is_program_function(task.value):
            results = _program_result(task.value, positional[1:])
            return new, Items((*(results.items if isinstance(results, Items) else (results,)), UNKNOWN))
        if callee.value is len and len(positional) == 1 and not named and isinstance(positional[0], Items):
            return new, Static(len(positional[0].items))
        if any(callee.value is kind for kind in (list, tuple)) and len(positional) == 1 and isinstance(given := positional[0], Items):
            made = copied(self, args[0][0], given, node, callee.value is list)
            return made if made is not None else (new, UNKNOWN)
        if callee.value is dict and not positional and len(named) == len(keywords) and not all(isinstance(value, Static) for value in named.values()):
            rows = [((at(ast.Constant(keyword.arg), node), Static(keyword.arg)), (text, value)) for keyword, text, value in keywords]
            return dict_of(self, rows, node)
        if callee.value is abs and len(positional) == 1 and isinstance(whole := self.opened(positional[0]), (BufferType, TileType)):
            return new, infer.method(whole, "abs", [], {}, self.specializer.fresh)
        everything = [*positional, *named.values()]
        plain = len(named) == len(keywords) and not any(isinstance(argument, ast.Starred) for argument in node.args)
        if not plain or is_language(callee.value) or _is_ours(callee.value) or not (is_handle(callee.value) or callable(callee.value)):
            return new, UNKNOWN
        if all(isinstance(value, Static) for value in everything):
            return new, self._python_call(node, cast("Callable[..., object]", callee.value), positional, named)
        changed = changed_by(callee.value)
        if is_handle(callee.value) or changed is not None:
            if changed is None:
                raise self._runs_while_compiling(node, everything)
            raise self.kept_at_run_time(node, cast("ast.Attribute", node.func).value, type(changed).__name__, everything)
        return new, infer.builtin(callee.value, [*map(self.opened, everything)], self.specializer.fresh)

    def _refuse_lost_change(self, node: ast.Call) -> None:
        """`a.append(3)` of a list that the run decides on: nothing here could follow it."""
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in LISTS:
            return
        owner = self.fold(node.func.value)[1]
        if isinstance(owner, Items):
            kind = "dict" if owner.is_dict else "list"
            what = f"`{ast.unparse(node)}` changes a {kind} of values of the run, which has other names or is changed in ways that cannot be followed"
            raise self.located(NeedsTurns(what, help=self._made_anew(node.func.value, kind, node.func.attr in GROWING)), node)
        if not isinstance(owner, BufferType | TileType | RuntimeValue):
            what = f"`{ast.unparse(node)}` changes a list or dict of which only the run knows which it is, or what is in it"
            raise self.located(NeedsTurns(what, help="change it before the run decides, or make it in one expression"), node)

    def _longer(self, node: ast.Call, callee: Abstract, args: Sequence[Folded]) -> Folded | None:
        """`tiles.append(t)` of what only the run knows: the list that the name is bound to instead. None: it is another call."""
        owner = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr in GROWING else None
        if not isinstance(owner, ast.Name) or owner.id not in self.listed or node.keywords:
            return None
        if isinstance(callee, Static) and all(isinstance(value, Static) for _, value in args):
            return None
        found = grown(self, owner.id, cast("ast.Attribute", node.func).attr, args, node)
        if found is None:
            raise self.kept_at_run_time(node, owner, "list", [value for _, value in args])
        self.regrown = owner.id
        return found

    def kept_at_run_time(self, node: ast.expr | ast.stmt, owner: ast.expr, kind: str, values: Sequence[Abstract]) -> TilejitError:
        """A value of the run for a list that is known while compiling: that would no longer know what is in it."""
        turns = self.undecided or any(isinstance(value, RuntimeValue) and value.unrolled for value in values)
        what = f"`{ast.unparse(node)}` puts what only the run knows into a {kind} that is known while compiling"
        return self.located((NeedsTurns if turns else UnsupportedFeatureError)(what, help=self._made_anew(owner, kind, isinstance(node, ast.Call))), node)

    def _made_anew(self, owner: ast.expr, kind: str, grows: bool) -> str:
        """How to do without a change of a list or dict: by a new one, where no loop of the run stands between this place and where its name was bound."""
        name = ast.unparse(owner)
        binding = self.bound_in.get(owner.id) if isinstance(owner, ast.Name) else None
        around = self.blocks[len(binding.blocks) if binding is not None else 0 :]
        if not self.loops.isdisjoint(around):
            return LISTS_IN_LOOPS
        new = f"{{**{name}, …}}" if kind == "dict" else f"[*{name}, …]" if grows else "[…]"
        return f"make a new one, {name} = {new}, " + ("on all ways of the branch" if around else "and use that from then on; a helper returns it")

    def _runs_while_compiling(self, node: ast.Call, values: Sequence[Abstract]) -> TilejitError:
        """A Python function that is called with what only exists at run time."""
        position = next(index for index, value in enumerate(values) if not isinstance(value, Static))
        shown = node.args[position] if position < len(node.args) else node.keywords[position - len(node.args)].value
        value = values[position]
        what = f"`{ast.unparse(shown)}`" + (f" ({value})" if isinstance(value, (BufferType, TileType)) else "")
        error = fold.runtime_argument(dotted(node.func), what)
        turns = isinstance(value, RuntimeValue) and value.unrolled
        return self.located(NeedsTurns(error.message, help=error.hint) if turns else error, node)

    def spread(self, node: ast.Call) -> ast.Call:
        """A call with the members of `*SIZES` and `**OPTIONS` in their places, where they are known."""
        if not any(isinstance(argument, ast.Starred) for argument in node.args) and all(keyword.arg is not None for keyword in node.keywords):
            return node
        args = [new for argument in node.args for new in (self._spread(argument) if isinstance(argument, ast.Starred) else [argument])]
        keywords: list[ast.keyword] = []
        for keyword in node.keywords:
            rows = pairs(self, keyword.value) if keyword.arg is None else None
            if rows is None:
                keywords.append(keyword)
            for (_, key), item in rows or ():
                if not isinstance(key, Static) or not isinstance(key.value, str):
                    what = f"`**{ast.unparse(keyword.value)}` has a key that is no text, so it names no parameter"
                    raise in_body(ParserTypeError)(what, span=self.definition.span(keyword.value), help="let texts be the keys")
                keywords.append(at(ast.keyword(key.value, self._again(item, keyword.value)), keyword))
        return at(ast.Call(node.func, args, keywords), node)

    def _named_once(self, node: ast.Call) -> ast.Call:
        """The call itself; one that gives a parameter twice, as only `**OPTIONS` can, is refused as Python does it."""
        names = [keyword.arg for keyword in node.keywords if keyword.arg is not None]
        for keyword in node.keywords:
            if keyword.arg is not None and names.count(keyword.arg) > 1:
                what = f"`{ast.unparse(node.func)}` got multiple values for keyword argument '{keyword.arg}'"
                raise in_body(ParserTypeError)(what, span=self.definition.span(keyword.value), help=f"give `{keyword.arg}` once")
        return node

    def _spread(self, argument: ast.Starred) -> list[ast.expr]:
        found = spread_out(self, argument)
        return [argument] if len(found) == 1 and isinstance(found[0][0], ast.Starred) else [self._again(item, argument) for item in found]

    def _again(self, item: Folded, place: ast.expr) -> ast.expr:
        """A part of a call that was folded, as an expression to fold."""
        if isinstance(item[1], Static):
            return self.placeholder(item[1].value, place)
        self.folded[id(item[0])] = item
        return item[0]

    def _handed_in(self, function: OpFunction, node: ast.Call, args: Sequence[Folded]) -> Folded:
        """The first argument of an op: of one that calls it (`pl.scan`) the specialisation for pairs of the others."""
        first = args[0]
        if not function.rows[0][1].attrs.get("calls"):
            return first
        helper = definition_of(first[1].value) if isinstance(first[1], Static) else None
        if helper is None and not (isinstance(first[1], Static) and isinstance(first[1].value, OpFunction)):
            what = f"pl.{function.name} calls its first argument on tensors and tiles, which `{ast.unparse(node.args[0])}` does not take"
            raise self.located(UnsupportedFeatureError(what, help=INLINE_HELP), node.args[0])
        if helper is None:
            return first
        check_callee(helper, node, self.definition)
        if helper.kind != "inline":
            what = f"pl.{function.name} calls `{helper.name}` on parts of its operands, so it must be an inline function"
            raise self.located(UnsupportedFeatureError(what, help=INLINE_HELP), node.args[0])
        call = at(ast.Call(node.args[0], [*node.args[1:], *node.args[1:]], []), node.args[0])
        special, _ = self.helper_call(call, helper)
        assert isinstance(special, ast.Call)
        return special.func, first[1]

    def _shown(self, node: ast.Call, function: ast.expr, asked: bool) -> Folded:
        """`pl.static_print(…)`: what it shows is evaluated, and is no read; `pl.print(…)` prints it whenever the kernel runs."""
        args: list[ast.expr] = []
        for argument in node.args:
            new, value = self.fold(argument)
            if isinstance(value, Static) and holds_handle(value.value):
                trace = self.specializer.trace
                new = at(ast.Constant(trace.ask("text", value.value, ord("s"), "") if asked else str(trace.in_message(value.value))), argument)
            args.append(new)
        keywords = [at(ast.keyword(keyword.arg, self.rewrite(keyword.value)), keyword) for keyword in node.keywords]
        return at(ast.Call(function, args, keywords), node), UNKNOWN

    def _unnamed(self, node: ast.expr, helper: Definition) -> TilejitError:
        """Only helpers called by name are known when dynamic extents are looked for, before the body is walked."""
        return in_body(UnsupportedFeatureError)(
            f"`{ast.unparse(node)}` stands for the helper `{helper.name}`, which makes extents dynamic and so can only be called by its name",
            span=self.definition.span(node),
            help=f"write `{helper.name}` there, give it another name outside the kernel, or make the extents dynamic in `{self.definition.name}`",
            note="dynamic extents are looked for before the body is walked, in helpers by the names they are called by",
        )

    def _external(self, function: object, name: ast.expr) -> ast.expr:
        """A module-level function, by its name in the program."""
        return self.specializer.external(function, name, {*self.definition.local_names, *self.named, *self.params})

    def _submitted(self, node: ast.Call, function: ast.expr, started: ast.Call) -> Folded:
        """`pl.submit(kernel, …)`: the kernel is specialised as if it were called; the task's id is one more result."""
        _, callee = self.fold(started.func)
        helper = definition_of(callee.value) if isinstance(callee, Static) else None
        assert helper is not None
        call, value = self.helper_call(started, helper, submitted=True)
        assert isinstance(call, ast.Call)
        options = [at(ast.keyword(keyword.arg, self.rewrite(keyword.value)), keyword) for keyword in node.keywords if keyword not in started.keywords]
        results = value.items if isinstance(value, Items) else (value,)
        return at(ast.Call(function, [call.func, *call.args], options), node), Items((*results, UNKNOWN))

    def _python_call(self, node: ast.Call, function: Callable[..., object], positional: list[Abstract], named: Mapping[str, Abstract]) -> Static:
        args = [cast("Static", value) for value in positional]
        keywords = {name: cast("Static", value) for name, value in named.items()}
        given, names = tuple(arg.value for arg in args), {name: arg.value for name, arg in keywords.items()}
        changed = changed_by(function)
        if changed is not None:
            spread = cast("BuiltinMethodType", function).__name__ in ("extend", "update")
            self.refuse_change(node, changed, [*names.values(), *(item for value in given for item in (parts_of(value) if spread else (value,)))])
            self.note_change(changed)
            given = given_to(self, function, given, node)
        return Static(self._called(node, function, given, names), local=any(arg.local for arg in (*args, *keywords.values())))

    def _called(self, node: ast.Call, function: Callable[..., object], given: tuple[object, ...], names: Mapping[str, object]) -> object:
        trace, path = self.specializer.trace, dotted(node.func)
        own = _is_method_of_made(function)
        if function is getattr and len(given) == 2 and type(given[0]) in (list, dict, set) and isinstance(given[1], str):
            return fold.attribute(given[0], given[1], path)
        if only_moves(function, given) or makes_anew(function, given) or (function is isinstance and is_made_here(given[:1]) and is_plain(given[1:])):
            return fold.call(function, given, names, path)
        if type(made := changed_by(function)) is list and cast("BuiltinMethodType", function).__name__ == "sort" and not given:
            return self._sort(node, cast("list[object]", made), names)
        if not self._is_blind(function, given, names):
            check_order(self, (*given, *names.values(), cast("BuiltinMethodType", function).__self__ if own else None), node)
        if (computed := called(function, given, names)) is not NotImplemented:
            return computed
        key = names.get("key")
        known = {**names, "key": None} if _is_method_of_made(key) and changed_by(key) is None else names
        if (own or follows(function, given, known)) and not holds_handle(given) and not holds_handle(names):
            return fold.call(function, given, names, path)
        refuse_deed(self, node, function, given)
        given, names = cast("tuple[object, ...]", untyped(given)), {name: untyped(value) for name, value in names.items()}
        value = trace.ask("call", function, given, names, path=path)
        if is_fresh(self, function):
            return taken_over(self, value, node)
        if not is_plain(value):
            self.lent += [(made, path) for made in made_in((given, names))]
        return value

    def _sort(self, node: ast.Call, made: list[object], names: Mapping[str, object]) -> None:
        """`made.sort(…)`: of what `sorted` gives, which can be asked of Python where `key=` decides."""
        found = self._called(node, sorted, (made,), names)
        made[:] = [cast("Static", item).value for item in self.members(Static(found), node)]

    def _is_blind(self, function: object, given: Sequence[object], names: Mapping[str, object]) -> bool:
        """Whether a function gives the same for a set in whatever order. With `key=` the first of several that are alike counts, with a NaN which are compared,
        and tuples that are added to one are put in a row."""
        if BLIND in self.specializer.trace.nature(function):
            return True
        by_order = (function is sum and len(given) > 1) or (any(function is one for one in _COMPARING) and holds_nan(given))
        return not names and not by_order and any(function is one for one in _BLIND)

    def refuse_change(self, node: ast.AST, changed: object, put: Iterable[object] = ()) -> None:
        """A list or dict is changed once, while compiling: not where the run decides whether it is, or how often. Nothing with it inside is `put` into it."""
        if any(reaches(item, changed) for item in put):
            what = f"`{ast.unparse(node)}` puts a {type(changed).__name__} into itself"
            raise self.located(UnsupportedFeatureError(what, help=f"put a copy into it: {type(changed).__name__}(…)"), node)
        if self.undecided > self.made.get(id(changed), (None, 0))[1]:
            kind = type(changed).__name__
            what = f"`{ast.unparse(node)}` changes a {kind} while compiling, but whether it runs, or how often, is known only at run time"
            raise self.located(NeedsTurns(what, help=f"make the {kind} in one expression, or in a loop over a tuple or pl.unroll"), node)
        function = next((function for made, function in self.lent if made is changed), None)
        if function is not None:
            what = f"`{ast.unparse(node)}` changes a {type(changed).__name__} that `{function}` was given a copy of"
            raise self.located(UnsupportedFeatureError(what, help=f"change it before `{function}` is called, or give that a copy of your own"), node)
        if any(isinstance(value, Static) and reaches(value.value, changed) for value in self.params.values()):
            what = f"`{ast.unparse(node)}` changes a {type(changed).__name__} of the caller, which would not see it"
            raise self.located(UnsupportedFeatureError(what, help="work on a copy, and return it"), node)

    def helper_call(self, node: ast.Call, helper: Definition, submitted: bool = False) -> Folded:
        """A call of another kernel, specialised for what it is called with."""
        from tilejit.jit.specialize.helpers import specialise_call

        text, value = specialise_call(self, node, helper, submitted)
        if not submitted:  # a task is started by the call that hands it in, which the statement keeps
            self.issue(node, text)
        return text, value


def yielded(values: Sequence[Abstract]) -> Abstract:
    """What a name holds that is bound by `pl.yield_`: types pass, constants do not, as each turn yields another value."""
    types = tuple(value if isinstance(value, (BufferType, TileType)) else UNKNOWN for value in values)
    return types[0] if len(types) == 1 else Items(types)


def _is_program_function(value: object) -> bool:
    """Whether a callee is a module-level `@pl.function`, told by name for the sake of cache hits."""
    return type(value).__name__ == "Function" and true_module(value) == "tilejit.tile_ir.program"


def _starts_tasks(value: object) -> bool:
    """Whether a callee is `pl.submit` or its like."""
    return any(value is MARKERS[name] for name in SUBMITS)


def _program_result(function: Any, arguments: Sequence[Abstract]) -> Abstract:
    """What a call of a module-level function evaluates to, where that is one of its arguments."""
    attrs, directions = function.op.attrs, function.op.directions
    outputs = [("param", index) for index, direction in enumerate(directions) if direction != "In"]
    items = [arguments[item[1]] if item[0] == "param" and item[1] < len(arguments) else UNKNOWN for item in attrs.get("returns", outputs)]
    return UNKNOWN if not items else items[0] if len(items) == 1 else Items(tuple(items))


def _is_method_of_made(value: object) -> bool:
    """Whether it is a method of a list or dict that the kernel made, without objects of Python."""
    return isinstance(value, BuiltinMethodType) and is_made_here(value.__self__)


def _is_ours(value: object) -> bool:
    """Objects of the front end (inline functions, functions of programs): it knows what calling them means."""
    return not is_handle(value) and true_module(value).startswith("tilejit.")
