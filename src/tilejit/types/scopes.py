"""Markers that only mean something to the front end: loops, scopes, tasks, static statements."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import NoReturn

from tilejit.errors import InvalidOperationError
from tilejit.frozen import of_the_language


@of_the_language
@dataclass(frozen=True, slots=True)
class Marker:
    """A name of the language that the front end interprets; calling it outside a kernel is an error."""

    name: str
    parameters: str
    doc: str

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise InvalidOperationError(f"pl.{self.name} has no meaning outside a kernel", help="use it in a function decorated with @pl.jit or @pl.function")

    def __repr__(self) -> str:
        return f"pl.{self.name}"

    @property
    def signature(self) -> Signature:
        return parse_signature(self.parameters)


def parse_signature(text: str) -> Signature:
    """The signature of `(a, b=None, *, c)`; defaults are kept as literals, names of the language as their text."""
    import ast

    from .python_text import statements

    arguments = statements(f"def f{text}: ...").body[0]
    assert isinstance(arguments, ast.FunctionDef)
    spec = arguments.args
    positional = [*spec.posonlyargs, *spec.args]
    pad: list[ast.expr | None] = [None] * (len(positional) - len(spec.defaults))
    rows: list[Parameter] = []
    for arg, default in zip(positional, [*pad, *spec.defaults], strict=True):
        rows.append(Parameter(arg.arg, Parameter.POSITIONAL_OR_KEYWORD, default=_default(default)))
    if spec.vararg:
        rows.append(Parameter(spec.vararg.arg, Parameter.VAR_POSITIONAL))
    for arg, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        rows.append(Parameter(arg.arg, Parameter.KEYWORD_ONLY, default=_default(default)))
    if spec.kwarg:
        rows.append(Parameter(spec.kwarg.arg, Parameter.VAR_KEYWORD))
    return Signature(rows)


def _default(node: object) -> object:
    import ast

    if node is None:
        return Parameter.empty
    assert isinstance(node, ast.expr)
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)


_LOOP = "(start, stop=None, step=None, *, init_values=None)"
_MARKERS = (
    Marker("range", _LOOP, "A counted loop, in order."),
    Marker("parallel", _LOOP, "A counted loop whose iterations are independent."),
    Marker("unroll", "(start, stop=None, step=None)", "A loop expanded while compiling."),
    Marker("pipeline", "(start, stop=None, step=None, *, stage, init_values=None)", "A counted loop that may overlap its iterations."),
    Marker("while_", "(*, init_values)", "A while loop with explicit carried values."),
    Marker("cond", "(condition)", "The condition of `pl.while_`, first in its body."),
    Marker("yield_", "(*values)", "Hand values to the enclosing loop or branch."),
    Marker("at", "(level, role=None, *, optimizations=None, deps=None, no_dep_args=None, dumps=None, allow_early_resolve=False, name_hint=None, windowize=None)", "A region that becomes a kernel of its own."),
    Marker("incore", "()", "Older spelling of `pl.at(level=pl.Level.CORE_GROUP)`."),
    Marker("spmd", "(core_num, *, sync_start=False, name_hint=None, optimizations=None, deps=None, allow_early_resolve=False, predicate=None)", "The same kernel on several blocks; on a grid of them with one index per extent: `for i, j in pl.spmd((m, n))`."),
    Marker("cluster", "(*, name_hint=None)", "Groups kernels that are scheduled together."),
    Marker("split_aiv", "(n, *, mode)", "Runs the body on two vector lanes."),
    Marker("manual_scope", "()", "Tasks in this scope depend only on what `deps=` says."),
    Marker("scope", "(*, mode=None)", "A dependency scope."),
    Marker("split", "(mode, *, slot_num=None)", "Optimisation hint of `pl.at`."),
    Marker("cross_core_slot", "(*, slot_num)", "Optimisation hint of `pl.at`."),
    Marker("submit", "(kernel, *args, deps=None, dumps=None, allow_early_resolve=False, predicate=None)", "Launch a kernel as a task."),
    Marker("spmd_submit", "(kernel, *args, core_num, sync_start=False, deps=None, dumps=None, allow_early_resolve=False, predicate=None)", "Launch a kernel on several blocks as a task."),
    Marker("static_print", "(*values)", "Print while compiling."),
    Marker("static_assert", "(condition, message='')", "Check while compiling."),
    Marker("func_attr", "(attributes)", "Attributes of the enclosing function."),
    Marker("const", "(value, dtype)", "A constant of a given data type."),
    Marker("print", "(*values)", "Print values while the kernel runs; compiled code keeps them until the call is over."),
    Marker("breakpoint", "()", "Stop in the debugger; the kernel then runs line by line."),
    Marker("device_assert", "(condition, message='')", "Check a condition while the kernel runs."),
)  # fmt: skip

MARKERS: dict[str, Marker] = {marker.name: marker for marker in _MARKERS}
"""All markers by name."""

BUILTINS: dict[object, Marker] = {print: MARKERS["print"], breakpoint: MARKERS["breakpoint"]}
"""Builtins that mean a marker in a kernel."""


def meant(function: object) -> object:
    """What a kernel that calls `function` calls."""
    return next((marker for builtin, marker in BUILTINS.items() if builtin is function), function)
