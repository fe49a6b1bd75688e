"""Kernels as operators of torch: what `torch.library` is told about one; imports torch, and only when such an operator is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import torch
from torch.library import custom_op

from tilejit.dtypes import DType, dtype_of_torch_name
from tilejit.errors import ArgumentError, ShapeError
from tilejit.runtime.arrays import DeviceTensor, unsupported_dtype
from tilejit.runtime.call.signature import ParamInfo, Signature, extent_of

_SAMPLE = 64
"""Stands for an extent that torch knows nothing about, where a kernel serves all of them; also an address that nobody reads."""


class Param(Protocol):
    """An argument."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...


class Op(Protocol):
    """A kernel as an operator."""

    @property
    def schema(self) -> str: ...
    @property
    def params(self) -> Sequence[Param]: ...
    @property
    def mutated(self) -> Sequence[str]: ...
    @property
    def results(self) -> Sequence[str]: ...
    def call(self, values: Mapping[str, object]) -> Any: ...
    def compiled(self, samples: Mapping[str, object]) -> Signature: ...
    def stays_runtime(self, name: str) -> bool: ...
    def default(self, name: str) -> object: ...
    def check_count(self, count: int) -> None: ...
    def warn_of_gradient(self, name: str) -> None: ...


class Gradient(Protocol):
    """The kernel that computes the gradients of another."""

    @property
    def sources(self) -> Sequence[tuple[str, str]]: ...
    @property
    def gradients(self) -> Mapping[str, int]: ...


def exists(name: str) -> bool:
    """Whether torch has an operator of that name."""
    space, _, short = name.partition("::")
    return hasattr(getattr(torch.ops, space), short)


@dataclass(slots=True)
class _Operator:
    """What torch calls under a name. A module that is loaded again changes what is called and not the operator: others hold on to that."""

    made: Any
    op: Op
    gradient: Gradient | None


_operators: dict[str, _Operator] = {}


def check_alike(name: str, op: Op, gradient: Gradient | None = None) -> None:
    """Refuse what torch cannot call in the place of the operator that there is, if there is one."""
    known = _operators.get(name)
    if known is None:
        return
    if (known.op.schema, tuple(known.op.mutated), known.gradient is None) == (op.schema, tuple(op.mutated), gradient is None):
        if len(op.results) < 2 or tuple(known.op.results) == tuple(op.results):
            if gradient is None or known.gradient is None or _roles(gradient) == _roles(known.gradient):
                return
            what = f"the backward of the operator `{name}` takes or gives something else now, and graphs know both by their places"
        else:
            what = f"the operator `{name}` returns {', '.join(op.results)} now, and graphs take what it returns for {', '.join(known.op.results)}"
    else:
        what = f"the operator `{name}` takes other arguments now, or has a gradient where it had none"
    raise ArgumentError(what, help="choose another name, or start a new process: torch and compiled graphs hold on to the one that there is")


def _roles(gradient: Gradient) -> object:
    """What a graph knows the arguments and results of a backward for; a single result has no name in the schema."""
    return tuple(gradient.sources), dict(gradient.gradients)


def register(name: str, op: Op, gradient: Gradient | None = None, backward: str = "") -> Callable[..., Any]:
    """An operator of torch that runs `op`; `backward` names the operator, registered before, that computes `gradient`."""
    check_alike(name, op, gradient)
    known = _operators.get(name)
    if known is not None:
        known.op, known.gradient = op, gradient
        return cast("Callable[..., Any]", known.made)

    def run(*values: object) -> Any:
        with torch.no_grad():  # what autograd does is settled before: a kernel need not warn that it has no gradient
            return this.op.call(_by_name(this.op, values))

    made = custom_op(name, run, mutates_args=tuple(op.mutated), schema=op.schema)
    this = _operators[name] = _Operator(made, op, gradient)
    made.register_fake(lambda *values: _fake(this.op, _by_name(this.op, values)))
    if gradient is not None:
        space, _, short = backward.partition("::")
        compute = getattr(getattr(torch.ops, space), short)

        def keep(ctx: Any, inputs: tuple[object, ...], output: object) -> None:
            _keep(this.op, cast("Gradient", this.gradient), ctx, inputs, output)

        made.register_autograd(lambda ctx, *grads: _backward(this.op, cast("Gradient", this.gradient), compute, ctx, grads), setup_context=keep)
    elif op.mutated:
        # Torch offers this to functional operators only. What others write in place is on no tape: no backward would ever say that a gradient is missing.
        made._setup_context_fn = lambda ctx, inputs, output: _warn(this.op, ctx)
    return cast("Callable[..., Any]", made)


def _warn(op: Op, ctx: Any) -> None:
    """Say that what was written carries no gradient."""
    wanted = [param.name for param, needed in zip(op.params, ctx.needs_input_grad, strict=False) if needed]
    if wanted:
        op.warn_of_gradient(wanted[0])


def _by_name(op: Op, values: Sequence[object]) -> dict[str, object]:
    """Arguments by name; those that are None, or that torch left out at the end, have their default."""
    given = dict(zip((param.name for param in op.params), values, strict=False))
    return {param.name: op.default(param.name) if (value := given.get(param.name)) is None else value for param in op.params}


# shapes without data --------------------------------------------------------------------------------------------------------------


def _fake(op: Op, values: Mapping[str, object]) -> Any:
    """The results as torch traces them: shapes and dtypes of the compiled program, symbols where it serves all extents."""
    signature = op.compiled({name: _sample(op, name, value) for name, value in values.items()})
    tensors = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
    first = next(iter(tensors.values()), None)
    if first is None:
        raise ArgumentError(f"{signature.name} cannot tell where to allocate its outputs: the call has no tensor", help="give it a tensor argument")
    extents = _extents(signature, tensors)
    scalars = {name: cast("int", value) for name, value in values.items() if name not in tensors}
    extents |= {symbol: extent_of(found, extents, scalars) for symbol, found in signature.computed.items()}
    new = [*[param for param in signature.params if param.direction == "Out" and param.name not in tensors], *signature.results]
    order = list(dict.fromkeys((*signature.returned, *(param.name for param in new))))
    made = [_empty(param, extents, first.device) for param in sorted(new, key=lambda param: order.index(param.name))]
    op.check_count(len(made))
    return None if not made else made[0] if len(made) == 1 else tuple(made)


def _sample(op: Op, name: str, value: object) -> object:
    """What the program is compiled for: extents and numbers that torch has as symbols are looked at, which makes no guard yet."""
    if isinstance(value, torch.Tensor):
        spelled = str(value.dtype).removeprefix("torch.")
        dtype = dtype_of_torch_name(spelled)
        if dtype is None:
            raise unsupported_dtype("torch", spelled)
        return DeviceTensor(_SAMPLE, tuple(_hint(extent) for extent in value.shape), dtype, "cpu" if value.device.type == "meta" else str(value.device))
    if isinstance(value, torch.SymInt):
        return _hint(value) if op.stays_runtime(name) else int(value)
    return float(value) if isinstance(value, torch.SymFloat) else value


def _hint(extent: object) -> int:
    if not isinstance(extent, torch.SymInt):
        return int(cast("int", extent))
    node = extent.node
    return int(node.hint) if node.has_hint() else _SAMPLE


def _extents(signature: Signature, given: Mapping[str, torch.Tensor]) -> dict[str, int]:
    """Symbols of the program as torch has them; an extent that the program was compiled for is pinned in torch's graph too."""
    found: dict[str, int] = {}
    for param in signature.params:
        tensor = given.get(param.name)
        if tensor is None or param.shape is None:
            continue
        for dim, extent in zip(param.shape, tensor.shape, strict=True):
            if isinstance(dim, str):
                found.setdefault(dim, extent)
            elif int(extent) != dim:
                raise ShapeError(f"`{param.name}` was traced with an extent of {dim} and has {extent}", help="declare the extent with pl.dynamic")
    return found


def _empty(param: ParamInfo, extents: Mapping[str, int], device: torch.device) -> torch.Tensor:
    assert param.shape is not None
    return torch.empty([extents[dim] if isinstance(dim, str) else dim for dim in param.shape], dtype=_torch_dtype(param.dtype), device=device)


def _torch_dtype(dtype: DType) -> torch.dtype:
    found = getattr(torch, dtype.torch_name or "", None)
    if found is None:
        raise unsupported_dtype("torch", dtype.name)
    return found


# gradients ------------------------------------------------------------------------------------------------------------------------


def _keep(op: Op, gradient: Gradient, ctx: Any, inputs: tuple[object, ...], output: object) -> None:
    """Save what the backward takes."""
    for param, needed in zip(op.params, ctx.needs_input_grad, strict=False):  # torch adds one of its own
        if needed and param.name not in gradient.gradients:
            help = f"give the backward a parameter grad_{param.name}: pl.Out[pl.Tensor], or pass {param.name}.detach()"
            raise ArgumentError(f"`{param.name}` requires grad, but the backward gives no gradient for it", help=help)
    outputs = output if isinstance(output, tuple) else (output,)
    given = dict(zip((param.name for param in op.params), inputs, strict=False))
    # A graph is traced once and runs later: what was left out is for the backward to find when it runs, as it is for the forward.
    inputs_now = given if _is_traced() else _by_name(op, inputs)
    there = {"input": inputs_now, "output": dict(zip(op.results, outputs, strict=True))}
    kept = [there[kind].get(name) for kind, name in gradient.sources if kind != "grad"]
    ctx.save_for_backward(*[value for value in kept if isinstance(value, torch.Tensor)])
    ctx.kept = [_SAVED if isinstance(value, torch.Tensor) else value for value in kept]


_SAVED = object()
"""Stands for a tensor, which autograd keeps."""
_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack  # type: ignore[attr-defined]


def _is_traced() -> bool:
    """Whether a call may be one that torch writes down, to run it later."""
    return _modes() > 0


def _backward(op: Op, gradient: Gradient, compute: Callable[..., Any], ctx: Any, grads: tuple[torch.Tensor, ...]) -> tuple[object, ...]:
    tensors = iter(ctx.saved_tensors)
    kept = iter([next(tensors) if value is _SAVED else value for value in ctx.kept])
    by_output = dict(zip(op.results, grads, strict=True))
    found = compute(*[by_output[name] if kind == "grad" else next(kept) for kind, name in gradient.sources])
    results = found if isinstance(found, tuple | list) else (found,)
    return tuple(results[gradient.gradients[param.name]] if param.name in gradient.gradients else None for param in op.params)
