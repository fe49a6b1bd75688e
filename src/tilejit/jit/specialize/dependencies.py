"""Which helpers a kernel calls, and which of their parameters each argument belongs to."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any, cast

from tilejit.errors import ArgumentError, Span, TilejitError, UnsupportedFeatureError, did_you_mean, in_body
from tilejit.frontend.source import unwrapped
from tilejit.jit.definition import Definition, Kernel
from tilejit.jit.reads.facts import SUBMITS, Path, calls_in, path_of
from tilejit.jit.reads.questions import MISSING
from tilejit.jit.reads.scope import Reads
from tilejit.jit.reads.trace import Trace
from tilejit.kinds import class_name, is_a, true_module


def resolve(node: ast.expr, reads: Reads) -> object:
    """What a name or attribute chain of the body stands for while compiling: a plain value, an object of ours, a handle, or MISSING."""
    path = path_of(node)
    return MISSING if path is None else resolve_path(path, reads)


def resolve_path(path: Path, reads: Reads) -> object:
    """The same, of names."""
    return MISSING if path[0] in reads.definition.local_names else reads.chain(path)


def is_language(node: ast.expr, reads: Reads) -> bool:
    """Whether a chain starts at our own package: then it names no helper, and nothing needs to be looked up."""
    path = path_of(node)
    return path is not None and _is_language_path(path, reads)


def _is_language_path(path: Path, reads: Reads) -> bool:
    return path[0] not in reads.definition.local_names and reads.is_language(path[0])


def definition_of(value: object) -> Definition | None:
    """The definition of a kernel, or of a `@pl.inline` function or its like, which is a helper as `@pl.jit.inline` is; None for anything else."""
    if is_a(value, Kernel):
        return value.definition
    # By name: the class of inline functions lives where the IR does, which a cache hit must not load.
    python = getattr(value, "python", None) if class_name(type(value)) == "InlineFunction" and true_module(value).startswith("tilejit.") else None
    if not is_a(python, FunctionType):
        return None
    options = {"auto_scope": False} if getattr(value, "auto_scope", None) is False else {}
    found, plain = vars(python).get(_kept_as(options)), unwrapped(python)
    if found is None or found.function is not plain:  # a copy of a function may have taken over its attributes
        found = vars(python)[_kept_as(options)] = Definition(plain, "inline", options)
    return found


def _kept_as(options: Mapping[str, object]) -> str:
    """The attribute of a function that holds its definition as an inline one: each choice of options has one of its own."""
    return "__".join(["__tilejit_inline", *options, ""])


def renew(value: object, anyway: bool = False) -> None:
    """Let a kernel or helper be read again if its code or its defaults were replaced since."""
    definition = definition_of(value)
    if definition is None or not (anyway or definition.is_replaced):
        return
    if isinstance(value, Kernel):
        value.definition = definition.anew()
    else:
        del vars(cast("Any", value).python)[_kept_as(definition.options)]


def renew_host(kernel: Kernel) -> None:
    """The same for a host function, which asks nothing: what its annotations in quotes stand for counts too."""
    renew(kernel, anyway=kernel.definition.quoted.is_changed())


_TASK_OPTIONS = ("deps", "dumps", "allow_early_resolve", "predicate", "core_num", "sync_start")


def kernel_call(call: ast.Call, reads: Reads) -> ast.Call:
    """The call itself; for `pl.submit(kernel, …)` the call of the kernel that it starts."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr in SUBMITS and call.args and is_language(call.func, reads)):
        return call
    if definition_of(resolve(call.args[0], reads)) is None:
        return call
    return ast.copy_location(ast.Call(call.args[0], call.args[1:], [keyword for keyword in call.keywords if keyword.arg not in _TASK_OPTIONS]), call)


def callee_of(call: ast.Call, reads: Reads) -> Definition | None:
    """The helper that a call names, or None when it calls something else."""
    call, definition = kernel_call(call, reads), reads.definition
    if is_language(call.func, reads):
        return None
    helper = definition_of(resolve(call.func, reads))
    if helper is not None:
        check_callee(helper, call, definition)
    return helper


def check_callee(helper: Definition, call: ast.Call, caller: Definition) -> None:
    """Refuse to call what a kernel cannot call."""
    if helper.kind == "extern":
        raise _foreign(helper, caller.span(call))
    if not _may_be_called(helper, caller):
        kind = "@pl.jit.host" if helper.kind == "host" else "@pl.jit"
        raise in_body(UnsupportedFeatureError)(
            f"`{helper.name}` is an entry ({kind}) and cannot be called by `{caller.name}`, a @pl.jit.{caller.kind} function",
            span=caller.span(call),
            help="decorate it with @pl.jit.incore, @pl.jit.inline or @pl.jit.opaque",
        )


def _may_be_called(helper: Definition, caller: Definition) -> bool:
    """A whole kernel has regions of its own: it is called where regions may stand."""
    return helper.kind not in ("extern", "host") and (helper.kind != "orchestration" or caller.kind in ("host", "orchestration", "opaque", "inline"))


def may_omit_outputs(helper: Definition) -> bool:
    """Whether a call of it may leave out its outputs, as one from outside may: then it evaluates to them."""
    return helper.kind == "orchestration"


def _foreign(helper: Definition, place: Span) -> TilejitError:
    message = f"`{helper.name}` is C++ code for Ascend (@pl.jit.extern), which nothing here can run"
    return in_body(UnsupportedFeatureError)(message, span=place, help="write it in the language, as a @pl.jit.incore function")


def _called(reads: Reads) -> Iterator[Definition]:
    """The kernels that the body calls or starts."""
    for path, started in reads.definition.facts.calls:
        if path is None:
            continue
        # Functions of the language are not looked up: that would load the whole table.
        named = started if _is_language_path(path, reads) else path
        helper = definition_of(resolve_path(named, reads)) if named is not None else None
        if helper is not None:
            yield helper


def helpers_of(reads: Reads) -> list[Definition]:
    """Helpers the body calls, in order of first appearance."""
    found = list(dict.fromkeys(_called(reads)))
    if all(_may_be_called(helper, reads.definition) for helper in found):
        return found
    # One must not be called: the call itself says so, at its place.
    there = [callee_of(call, reads) for call in calls_in(reads.definition.tree.nodes)]
    return list(dict.fromkeys(helper for helper in there if helper is not None))


def reachable(trace: Trace, root: Definition | None = None) -> list[Definition]:
    """The entry, or another function that it calls, and everything that it calls, leaf first. A cycle is an error that names it."""
    entry = trace.entry if root is None else root
    if entry.kind == "extern":
        raise _foreign(entry, entry.span(entry.text.node))
    done: dict[Definition, None] = {}

    def visit(definition: Definition, path: tuple[Definition, ...]) -> None:
        if definition in done:
            return
        if definition in path:
            cycle = " → ".join(item.name for item in (*path[path.index(definition) :], definition))
            reads = Reads(trace, path[-1])
            call = next(call for call in calls_in(path[-1].tree.nodes) if callee_of(call, reads) is definition)
            raise in_body(UnsupportedFeatureError)(
                f"kernels cannot be recursive: {cycle}", span=path[-1].span(call), help="write a loop, or expand the recursion"
            )
        reads = Reads(trace, definition)
        reads.annotations()
        for helper in helpers_of(reads):
            visit(helper, (*path, definition))
        done[definition] = None

    visit(entry, ())
    return list(done)


@dataclass(frozen=True, slots=True)
class BoundCall:
    """Arguments of a helper call by parameter, in parameter order; a default is the Python value itself."""

    arguments: Mapping[str, ast.expr]
    defaults: Mapping[str, object]


def bind_call(helper: Definition, call: ast.Call, caller: Definition, may_omit: bool = False) -> BoundCall:
    """Match arguments to parameters as Python would; what does not match is an error at the call.

    `may_omit`: a submitted kernel; outputs that are left out, or None, appear neither in `arguments` nor in `defaults`.
    """
    if may_omit:
        call = _with_outputs_named(helper, call)
    names = [param.name for param in helper.params]
    shown = f"{helper.name}({', '.join(names)})"

    def fail(message: str, node: ast.AST, help: str | None = None) -> ArgumentError:
        error = in_body(ArgumentError)(message, span=caller.span(node), help=help or f"the signature is {shown}")
        assert isinstance(error, ArgumentError)
        return error

    given: dict[str, ast.expr] = {}
    rest = next((param.name for param in helper.params if param.rest), None)
    if rest is not None:
        further = call.args[helper.positional :]
        given[rest] = ast.copy_location(ast.Tuple(further, ast.Load()), further[0] if further else call)
        call = ast.copy_location(ast.Call(call.func, call.args[: helper.positional], call.keywords), call)
    for position, argument in enumerate(call.args):
        if isinstance(argument, ast.Starred):
            raise fail(f"`{helper.name}` cannot be called with *arguments", argument, "its members must be known while compiling: a tuple or a list of them")
        if position >= len(names):
            raise fail(f"`{helper.name}` takes {len(names)} arguments, got {len(call.args)}", argument)
        if helper.params[position].keyword_only:
            raise fail(f"`{names[position]}` of `{helper.name}` is keyword-only", argument, f"write {names[position]}=…")
        given[names[position]] = argument
    for keyword in call.keywords:
        if keyword.arg is None:
            raise fail(f"`{helper.name}` cannot be called with **keywords", keyword.value)
        if keyword.arg not in names:
            raise fail(f"`{helper.name}` has no parameter `{keyword.arg}`", keyword, did_you_mean(keyword.arg, names))
        if keyword.arg in given:
            raise fail(f"`{helper.name}` got `{keyword.arg}` twice", keyword)
        given[keyword.arg] = keyword.value
    defaults: dict[str, object] = {}
    for param in helper.params:
        if param.direction == "Out" and _is_none(given.get(param.name)):
            del given[param.name]
        elif param.name not in given:
            if param.direction == "Out" and param.default is None:
                continue
            if param.default is inspect.Parameter.empty:
                if may_omit and param.direction != "In":
                    continue
                raise fail(f"the call of `{helper.name}` lacks its argument `{param.name}`", call)
            defaults[param.name] = param.default
    return BoundCall({name: given[name] for name in names if name in given}, defaults)


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _with_outputs_named(helper: Definition, call: ast.Call) -> ast.Call:
    """A call that leaves out exactly the pure outputs, or all outputs, with its arguments named, as others may stand after them."""
    named = {keyword.arg for keyword in call.keywords}
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return call
    for omitted in ((), ("Out",), ("Out", "InOut")):
        places = [param for param in helper.params if param.direction not in omitted and param.name not in named]
        given = {param.name for param in places[: len(call.args)]} | named
        lacking = [param for param in places if param.name not in given and param.default is inspect.Parameter.empty]
        if len(call.args) <= len(places) and not lacking:
            keywords = [ast.copy_location(ast.keyword(param.name, value), value) for param, value in zip(places, call.args, strict=False)]
            return ast.copy_location(ast.Call(call.func, [], [*keywords, *call.keywords]), call) if omitted else call
    return call  # Outputs at the end may be missing.


def returned_params(reads: Reads) -> tuple[str | None, ...]:
    """What a call of a helper evaluates to: parameter names, None for anything else; without a return, its outputs."""
    helper = reads.definition
    returns = [node for node in helper.returns if node.value is not None]
    names = {param.name for param in helper.params}
    if not returns:
        return tuple(param.name for param in helper.params if param.direction != "In")
    given = {name for name in names if not _holds_a_new_value(reads, name)}
    ways = [place.value.elts if isinstance(place.value, ast.Tuple) else [place.value] for place in returns]
    found = [[item.id if isinstance(item, ast.Name) and item.id in given else None for item in items] for items in ways]
    return tuple(name if all(name in way[place : place + 1] for way in found) else None for place, name in enumerate(found[-1]))


SAME_TENSOR = ("store", "assemble", "write", "mscatter", "scatter_update", "no_dep", "yield_", *SUBMITS)
"""Functions of the language whose result may be the very tensor that they are given; by name, as a cache hit must not load the table (a test compares them)."""


def _holds_a_new_value(reads: Reads, name: str) -> bool:
    """Whether the body binds the parameter `name` to something that is computed: `x = pl.exp(x)`, `x = x + 1`, `x = x[0:4]`."""
    if name not in reads.definition.stores:
        return False
    for node in reads.definition.tree.nodes:
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            return True
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple) and any(_names(target, name) for target in node.targets):
            return True
        if isinstance(node, ast.Assign) and any(isinstance(target, ast.Name) and target.id == name for target in node.targets):
            call = node.value.func if isinstance(node.value, ast.Call) else None
            if isinstance(node.value, ast.BinOp | ast.UnaryOp | ast.Compare | ast.Subscript | ast.IfExp):
                return True
            if isinstance(node.value, ast.Name) and node.value.id != name:
                return True
            if isinstance(call, ast.Attribute) and is_language(call, reads) and call.attr not in SAME_TENSOR:
                return True
    return False


def _names(target: ast.expr, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(target))
