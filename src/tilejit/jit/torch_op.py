"""`kernel.as_torch_op(…)`: what torch must know of a kernel, read off the kernel: schema, mutated arguments, shapes of results, gradients."""

from __future__ import annotations

import inspect
import keyword
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

from tilejit.errors import ArgumentError, PlatformError, did_you_mean
from tilejit.jit.definition import Definition
from tilejit.jit.disk.kernels import kernel_name
from tilejit.jit.reads.plain import encode, is_plain
from tilejit.jit.specialize.arguments import stays_runtime
from tilejit.jit.specialize.signature import JitParam
from tilejit.jit.torch_results import check_one_order, results_of
from tilejit.runtime.call.signature import Signature
from tilejit.runtime.config import RunConfig

if TYPE_CHECKING:
    from tilejit.jit.function import JITFunction
    from tilejit.jit.tune.function import Autotuned

GRAD = "grad_"
"""What the name of a gradient starts with, in a kernel that is the backward of another."""


@dataclass(frozen=True)
class TorchOp:
    """A kernel as torch sees it: outputs are returned, or arguments like others with `in_place`."""

    kernel: JITFunction
    config: RunConfig | None
    params: tuple[JitParam, ...]
    """The arguments, in order."""
    results: tuple[str, ...]
    """Names of what is returned, in order."""
    tuned: Autotuned | None = None
    """What calls it with arguments that were found by trying; torch is told nothing of these."""
    forward: TorchOp | None = None
    """Of a backward: whose. What a call of that one left out is None for this one, and found when it runs."""

    @property
    def mutated(self) -> tuple[str, ...]:
        return tuple(param.name for param in self.params if param.direction != "In")

    @property
    def schema(self) -> str:
        """The signature in torch's own notation."""
        left_out = self.left_out
        given = [self._argument(param, param.name in left_out) for param in self.params]
        returned = ", ".join("Tensor" for _ in self.results)
        return f"({', '.join(given)}) -> {returned if len(self.results) == 1 else f'({returned})'}"

    @property
    def left_out(self) -> frozenset[str]:
        """Which arguments a call may leave out: those at the end that have a default."""
        needed = max((index for index, param in enumerate(self.params) if not _has_default(param)), default=-1)
        return frozenset(param.name for param in self.params[needed + 1 :])

    def _argument(self, param: JitParam, can_be_left_out: bool) -> str:
        """None stands for the default: torch leaves out what equals a default of the schema, as 0.0 equals -0.0, and the kernel's may be another by then."""
        kind = f"Tensor(a_{param.name}!)" if param.name in self.mutated else _torch_type(self.kernel.definition, param)
        if can_be_left_out:
            return f"{kind}? {param.name}=None"
        return f"{kind}? {param.name}" if self.forward is not None and param.name in self.forward.left_out else f"{kind} {param.name}"

    def default(self, name: str) -> object:
        """What the kernel takes where an argument was left out, now; a backward takes what its forward does."""
        if self.forward is not None and name in self.forward.left_out:
            return self.forward.default(name)
        self.kernel._follow(self.kernel._policy())
        return self.kernel.definition.param(name).default

    def call(self, values: Mapping[str, object]) -> Any:
        """The kernel itself."""
        found = (self.tuned or self.kernel)(config=self.config, **values)
        self.check_count(len(cast("tuple[object, ...]", found)) if isinstance(found, tuple) else 0 if found is None else 1)
        return found

    def compiled(self, samples: Mapping[str, object]) -> Signature:
        """The signature of the program for such arguments."""
        compile = self.kernel.compile if self.tuned is None else self.tuned.compile_untuned
        signature = compile(config=self.config, **samples).signature
        return replace(signature, returned=self.results) if self.kernel._ranks else signature

    def stays_runtime(self, name: str) -> bool:
        """Whether a number is a parameter of the compiled program, so that one program serves all its values."""
        return stays_runtime(self.kernel.definition, self.kernel.definition.param(name))

    def warn_of_gradient(self, name: str) -> None:
        """An argument requires grad, and what the kernel writes in place has none."""
        self.kernel._note.warn(self.kernel.definition.name, name)

    def check_count(self, count: int) -> None:
        """The kernel must return what its text seemed to say."""
        if count != len(self.results):
            name, results = self.kernel.definition.name, self.results
            raise ArgumentError(
                f"`{name}` returns {count} new tensors where its text seems to return {len(results)} ({', '.join(results) or 'none'})",
                help="name the outputs themselves in the return statement, such as `return out`",
            )


@dataclass(frozen=True)
class Backward:
    """The kernel that computes gradients: its parameters say by their names what they take and give."""

    op: TorchOp
    sources: tuple[tuple[str, str], ...]
    """For each argument: ("input", name), ("output", name) or ("grad", name of an output)."""
    gradients: Mapping[str, int]
    """By input of the forward kernel: which of the results is its gradient."""


def as_torch_op(kernel: JITFunction | Autotuned, name: str, backward: object, in_place: bool, config: RunConfig | None) -> Callable[..., Any]:
    """Register `kernel` with torch under `name`."""
    try:
        from tilejit.runtime import torch_op
    except ImportError as error:
        raise PlatformError(f"an operator of torch needs torch: {error}", help="pip install 'tilejit[torch]'") from None
    _check_name(kernel.definition, name)
    if config is not None and not isinstance(config, RunConfig):
        raise ArgumentError(f"config must be a RunConfig, got {type(config).__name__}", help="write config=RunConfig(…)")
    op = op_of(kernel, in_place, config)
    derived = backward_of(op, backward, config) if backward is not None else None
    wanted = {name: kernel} if derived is None else {name: kernel, f"{name}_backward": derived.op.tuned or derived.op.kernel}
    for each, owner in wanted.items():
        _check_free(each, owner, torch_op.exists(each))
        _check_config(each, owner, config)
    torch_op.check_alike(name, op, derived)
    if derived is not None:  # both before either is changed
        torch_op.check_alike(f"{name}_backward", derived.op)
    _registered.update({each: _Registered(owner, config, _is_of_module(owner.origin())) for each, owner in wanted.items()})
    if derived is None:
        return torch_op.register(name, op)
    torch_op.register(f"{name}_backward", derived.op)
    return torch_op.register(name, op, derived, f"{name}_backward")


@dataclass(frozen=True)
class _Registered:
    """What an operator runs."""

    kernel: JITFunction | Autotuned
    config: RunConfig | None
    of_module: bool
    """Whether its names were those of a module that could be imported, which may be loaded again."""


_registered: dict[str, _Registered] = {}
"""By the name of an operator."""


def _check_config(name: str, kernel: JITFunction | Autotuned, config: RunConfig | None) -> None:
    """One kernel that two places make the same operator of is called one way; that of a module that is loaded again is another one."""
    known = _registered.get(name)
    if known is not None and (known.kernel is kernel or _is_made_again(known.kernel, kernel)) and known.config != config:
        what = f"the operator `{name}` runs `{kernel.definition.name}` with another config=: whoever calls it would get this one unnoticed"
        raise ArgumentError(what, help="choose another name, or call as_torch_op once and keep the operator")


def _check_free(name: str, kernel: JITFunction | Autotuned, exists: bool) -> None:
    """A name has one kernel, and that of a module that is loaded again takes its place, for all who call it; another one would, unnoticed by them."""
    known = _registered.get(name)
    if not exists or (known is not None and _is_same(known, kernel)):
        return
    own, space = kernel.definition.name, "mylib" if known is None else name.partition("::")[0]
    if known is None:
        what = f"torch has an operator `{name}` that is no kernel"
    elif kernel_name(known.kernel.definition) != kernel_name(kernel.definition):
        what = f"the operator `{name}` is the kernel `{kernel_name(known.kernel.definition)}`: `{kernel_name(kernel.definition)}` would take its place"
    else:
        what = f"the operator `{name}` is another kernel `{kernel_name(kernel.definition)}`: functions, objects and other namespaces make a new one each time"
    raise ArgumentError(what, help=f'choose another name, such as {own}.as_torch_op("{space}::{own}_2"), or call as_torch_op once and keep the operator')


def _is_same(registered: _Registered, kernel: JITFunction | Autotuned) -> bool:
    """Whether one is the other, or what its module has under that name since it was loaded again."""
    known = registered.kernel
    if known is kernel or getattr(known, "kernel", known) is getattr(kernel, "kernel", kernel):
        return known is kernel  # else one of the two is tuned, or both are in two ways
    if known._bound_as is not None or kernel._bound_as is not None or kernel_name(known.definition) != kernel_name(kernel.definition):
        return False
    if _names_of(known.origin()) is not _names_of(kernel.origin()) and not (registered.of_module and _is_of_module(kernel.origin())):
        return False
    return not _is_made_again(known, kernel) or _is_made_alike(known, kernel)


def _names_of(function: object) -> object:
    """The namespace that a function finds its names in."""
    return getattr(function, "__globals__", None)


def _is_of_module(function: object) -> bool:
    """Whether that is the one of the module that has its name now: a text that `exec` or `runpy` runs twice has two, which are both there."""
    names = _names_of(function)
    found = sys.modules.get(str(names.get("__name__"))) if isinstance(names, dict) else None
    return isinstance(names, dict) and getattr(found, "__dict__", None) is names and cast("dict[str, object]", names).get("__spec__") is not None


def _is_made_again(known: JITFunction | Autotuned, kernel: JITFunction | Autotuned) -> bool:
    """Whether a function makes such kernels, or both were made of one function: no module was loaded for it."""
    return known is not kernel and ("<locals>" in kernel.definition.function.__qualname__ or known.origin() is kernel.origin())


def _is_made_alike(known: JITFunction | Autotuned, kernel: JITFunction | Autotuned) -> bool:
    """Whether two kernels are made of the same: nothing can be in one of them that is not in the other."""
    first, second = _content(known), _content(kernel)
    return len(first) == len(second) and all(map(_is_alike, first, second))


def _content(kernel: JITFunction | Autotuned) -> list[object]:
    """What a kernel was made of, and what it chooses from when it is tuned."""
    own: list[object] = [kernel.definition.digest, kernel.origin()]
    space, options = getattr(kernel, "space", None), getattr(kernel, "options", None)
    if space is None or options is None:
        return own
    values = [value for axis in space.axes for choice in axis.choices for value in choice.arguments.values()]
    return [*own, space.digest(), *vars(options).values(), *values]


def _is_alike(first: object, second: object) -> bool:
    """Whether two values are the same; functions of one text are if nothing else is in them."""
    if first is second:
        return True
    if isinstance(first, FunctionType) and isinstance(second, FunctionType):
        return first.__code__ == second.__code__ and not (first.__closure__ or second.__closure__) and _is_alike(_defaults_of(first), _defaults_of(second))
    return is_plain(first) and is_plain(second) and encode(first) == encode(second)


def _defaults_of(function: FunctionType) -> tuple[object, ...]:
    """Those that it has by place and by name."""
    by_name = function.__kwdefaults__ or {}
    return function.__defaults__ or (), tuple(by_name), tuple(by_name.values())


def _check_name(definition: Definition, name: object) -> None:
    parts = name.split("::") if isinstance(name, str) else []
    if len(parts) != 2 or not all(part.isascii() and part.isidentifier() and not keyword.iskeyword(part) for part in parts):
        what = f"the name of an operator of torch is `namespace::name`, got {name!r}"
        raise ArgumentError(what, help=f'write {definition.name}.as_torch_op("mylib::{definition.name}")')


def op_of(made: JITFunction | Autotuned, in_place: bool, config: RunConfig | None) -> TorchOp:
    """What torch must know of a kernel."""
    from tilejit.jit.tune.function import Autotuned

    definition = made.definition
    tuned, kernel = (made, made.kernel) if isinstance(made, Autotuned) else (None, made)
    chosen = tuned.space.arguments if tuned is not None else ()
    given = tuple(param for param in definition.params if (in_place or param.direction != "Out") and param.name not in chosen)
    outputs = _returned(definition, given)
    for param in given:
        _torch_type(definition, param)
    results = results_of(definition, outputs, kernel._ranks)
    if not results and all(param.direction == "In" for param in given):
        raise ArgumentError(f"`{definition.name}` neither returns nor writes a tensor: torch would never run it", help="give it a pl.Out parameter")
    return TorchOp(kernel, config, given, results, tuned)


def _returned(definition: Definition, given: Sequence[JitParam]) -> list[str]:
    """The outputs that are no arguments."""
    return [param.name for param in definition.params if param.direction == "Out" and param not in given]


_PYTHON = {int: "SymInt", float: "float", bool: "bool"}


def _torch_type(definition: Definition, param: JitParam) -> str:
    if param.kind == "tensor":
        return "Tensor"
    if param.dtype is not None:
        return "float" if param.dtype.is_float else "bool" if param.dtype.kind == "bool" else "SymInt"
    annotation = inspect.get_annotations(definition.function).get(param.name)
    named = {kind.__name__: kind for kind in _PYTHON}
    found = named.get(annotation) if isinstance(annotation, str) else annotation
    kind = found if found in _PYTHON else type(param.default)
    if kind not in _PYTHON:
        help = f"write {param.name}: pl.Tensor, or {param.name}: int, float or bool"
        raise ArgumentError(f"torch must know what `{param.name}` of `{definition.name}` is", span=definition.span(definition.node_of(param)), help=help)
    return _PYTHON[cast("type[int]", kind)]


def _has_default(param: JitParam) -> bool:
    return isinstance(param.default, bool | int | float)


# gradients -----------------------------------------------------------------------------------------------------------------------


def backward_of(op: TorchOp, kernel: object, config: RunConfig | None) -> Backward:
    """How a kernel serves as the backward of `op`."""
    from tilejit.jit.function import JITFunction
    from tilejit.jit.tune.function import Autotuned

    forward = op.kernel.definition
    if not isinstance(kernel, JITFunction | Autotuned):
        raise ArgumentError(f"backward= takes a kernel, got {type(kernel).__name__}", help="decorate it with @pl.jit")
    if op.mutated:
        what = f"`{forward.name}` writes its argument `{op.mutated[0]}`: torch has no gradients through what is written in place"
        raise ArgumentError(what, help="make it a pl.Out parameter, which is returned")
    derived = replace(op_of(kernel, in_place=False, config=config), forward=op)
    if derived.mutated:
        raise ArgumentError(f"the backward `{kernel.definition.name}` writes its argument `{derived.mutated[0]}`", help="make it a pl.Out parameter")
    for each in (op, derived):
        check_one_order(each.kernel.definition, _returned(each.kernel.definition, each.params), each.results, each.kernel._ranks)
    inputs = {param.name: param for param in op.params}
    known = {**{name: ("input", name) for name in inputs}, **{name: ("output", name) for name in op.results}}
    known |= {GRAD + name: ("grad", name) for name in op.results}
    for param in derived.params:
        if param.name not in known:
            raise _unknown(kernel.definition, param.name, known, f"takes `{param.name}`, which is neither an argument, a result nor the gradient of a result")
    wanted = {GRAD + name: name for name, param in inputs.items() if param.kind == "tensor"}
    for name in derived.results:
        if name not in wanted:
            raise _unknown(kernel.definition, name, wanted, f"gives `{name}`, which is the gradient of no tensor")
    return Backward(derived, tuple(known[param.name] for param in derived.params), {wanted[name]: index for index, name in enumerate(derived.results)})


def _unknown(definition: Definition, name: str, known: Mapping[str, object], what: str) -> ArgumentError:
    help = did_you_mean(name, known) or f"it may use {', '.join(known)}"
    named = [param for param in definition.params if param.name == name]
    return ArgumentError(f"the backward `{definition.name}` {what}", span=definition.span(definition.node_of(named[0])) if named else None, help=help)
