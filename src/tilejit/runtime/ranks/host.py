"""Host functions: their Python text runs once per call, on stand-ins that record what the ranks will do."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType
from typing import Any, NoReturn

import numpy as np

from tilejit import float_mode
from tilejit.dtypes import DType
from tilejit.errors import (
    ArgumentError,
    DTypeError,
    OutOfBoundsError,
    ParserSyntaxError,
    ShapeError,
    SourceText,
    Span,
    TilejitError,
    TilejitWarning,
)
from tilejit.runtime.arrays import number_of
from tilejit.runtime.artifact.compiled import CompiledEntry
from tilejit.runtime.config import RunConfig
from tilejit.runtime.ranks.launches import (
    HostCollective,
    Launchable,
    Launched,
    LaunchParam,
    changed_between_launches,
    extents,
    in_framework,
    is_constant,
    on_rank,
    sample,
    shown,
    type_of,
)
from tilejit.runtime.ranks.places import assigned_name, is_nested, span_of
from tilejit.runtime.ranks.plan import GroupOf, HostTensor, Plan, StackedTensor, Step, Window, WindowBuffer
from tilejit.runtime.ranks.recording import record_into, recording
from tilejit.runtime.targets import HOST
from tilejit.types.annotations import DynVar


@dataclass
class Recorder:
    """One call of a host function while its text runs."""

    plan: Plan
    config: RunConfig | None
    codes: dict[CodeType, Callable[[], SourceText]] = field(default_factory=dict[CodeType, "Callable[[], SourceText]"])
    """The host functions that run now: their lines are where mistakes are."""
    symbols: dict[DynVar, int] = field(default_factory=dict[DynVar, int])
    names: set[str] = field(default_factory=set[str])
    turn: int = 0
    compiled: dict[object, Launched] = field(default_factory=dict[object, Launched])
    """By function and kind of arguments."""
    reads: dict[object, object] = field(default_factory=dict[object, object])
    """What the functions that were launched stand on."""
    private: dict[WindowBuffer, Window] = field(default_factory=dict[WindowBuffer, Window])
    """Signals of collectives that were given none, by target."""
    events: list[Step | HostCollective] = field(default_factory=list["Step | HostCollective"])
    framework: str = "numpy"
    parts: list[HostTensor] = field(default_factory=list[HostTensor])
    """What was cut from tensors, in order."""
    steady: bool = True
    """Whether nothing but the text and its arguments has decided what is done."""
    copies: Mapping[FunctionType, FunctionType] | None = None
    """What runs in the place of functions, so that the record is true of the names that it is kept for; None: it is not kept."""
    language: object = None
    """The stand-ins of the call, once its text runs."""
    kernels: Callable[[Any], Launchable] | None = None
    """What kernels were compiled to, where that stays; None: they are compiled as they are now."""

    def __enter__(self) -> Recorder:
        self._outer = recording()
        record_into(self)
        return self

    def __exit__(self, *_: object) -> None:
        record_into(self._outer)

    @contextmanager
    def paused(self) -> Generator[None]:
        """Calls of kernels inside are what they are elsewhere."""
        record_into(None)
        try:
            yield
        finally:
            record_into(self)

    # places ---------------------------------------------------------------------------------------------------------------

    def here(self) -> Span | None:
        """The place in the innermost host function that is running."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code not in self.codes:
            frame = frame.f_back
        return span_of(frame, self.codes[frame.f_code]()) if frame is not None else None

    def fail(self, kind: type[TilejitError], message: str, help: str | None = None, **more: Any) -> NoReturn:
        raise kind(message, span=self.here(), help=help, **more)

    def warn(self, message: str, span: Span | None) -> None:
        """Say something once for a place."""
        if span is not None and (span.filename, span.line, message) not in _WARNED:
            _WARNED.add((span.filename, span.line, message))
            warnings.warn_explicit(message, TilejitWarning, span.filename, span.line)

    # values ---------------------------------------------------------------------------------------------------------------

    def integer(self, value: object, what: str) -> int:
        """A number of the host function: an int, a symbol, or an expression of symbols."""
        found = self.symbols.get(value) if isinstance(value, DynVar) else value
        if isinstance(found, bool) or not isinstance(found, int | np.integer):
            self.fail(ArgumentError, f"{what} is an integer, got {value!r}", help="constants, scalars and extents are")
        return int(found)

    def alloc(self, size: object, dtype: object = None, name: str = "") -> WindowBuffer:
        """`pld.alloc_window_buffer`."""
        span = self.here()
        if name:
            self.fail(ArgumentError, "`name` of a window buffer is the name that it is assigned to", help="leave `name` out")
        if isinstance(size, list | tuple):
            if not isinstance(dtype, DType):
                self.fail(ArgumentError, "a window buffer of a shape needs a dtype", help="pld.alloc_window_buffer([8, 64], dtype=pl.FP32)")
            extents = [self.integer(item, "an extent") for item in size]
            if not extents or min(extents) <= 0:
                self.fail(ShapeError, f"a window buffer has positive extents, got {extents}")
            count = int(np.prod(extents, dtype=np.int64))
            bits = 8 * count * dtype.get_byte()
        else:
            if dtype is not None:
                self.fail(ArgumentError, "a size in bytes takes no dtype", help="pld.alloc_window_buffer([8, 64], dtype=pl.FP32) takes a shape")
            bits = 8 * self.integer(size, "the size in bytes")
            if bits <= 0:
                self.fail(ShapeError, f"a window buffer has at least a byte, got {bits // 8}")
        label = assigned_name(span) or ""
        if not label:
            self.fail(ParserSyntaxError, "a window buffer is assigned to a name of its own", help="write data_buf = pld.alloc_window_buffer(…)")
        known = next((buffer for buffer in self.plan.buffers if buffer.name == label), None)
        if known is not None:
            if known.span == span and known.size == (bits + 7) // 8:
                return known  # in a loop: one buffer per call
            self.fail(ArgumentError, f"there are two window buffers `{label}`", help="rename one of them")
        buffer = WindowBuffer(label, (bits + 7) // 8, span)
        self.plan.buffers.append(buffer)
        if span is not None and any(code.co_name == span.function and is_nested(code, span) for code in self.codes):
            self.warn(f"the window buffer `{label}` stands in a loop or a branch: there is one of it in every call", span)
        return buffer

    def window(self, buf: object, shape: object, dtype: object) -> Window:
        """`pld.window`."""
        if not isinstance(buf, WindowBuffer):
            self.fail(ArgumentError, f"pld.window takes what pld.alloc_window_buffer gave, got {type(buf).__name__}")
        if not isinstance(dtype, DType) or not isinstance(shape, list | tuple):
            self.fail(ArgumentError, "pld.window takes a shape and a dtype", help="pld.window(buf, [8, 64], dtype=pl.FP32)")
        extents = tuple(self.integer(item, "an extent") for item in shape)
        need = int(np.prod(extents, dtype=np.int64)) * dtype.numpy.itemsize
        if need > buf.size:
            self.fail(OutOfBoundsError, f"a window {list(extents)} of {dtype} has {need} bytes, its buffer `{buf.name}` {buf.size}", help="enlarge the buffer")
        buf.viewed = True
        return Window(buf, extents, dtype)

    def create(self, shape: object, dtype: object) -> HostTensor:
        """`pl.create_tensor`: a host tensor of zeros."""
        if not isinstance(dtype, DType) or not isinstance(shape, list | tuple):
            self.fail(ArgumentError, "pl.create_tensor takes a shape and a dtype")
        made = HostTensor(self._zeros([self.integer(item, "an extent") for item in shape], dtype), "a host tensor")
        self.plan.tensors.append(made)
        return made

    def _zeros(self, shape: Sequence[int], dtype: DType) -> Any:
        """New memory where the tensors of the call are."""
        if self.plan.device == HOST:
            return np.zeros(shape, dtype.numpy)
        from tilejit.runtime.cuda.ranks import zeros

        return zeros(self.plan, shape, dtype)

    # launches -------------------------------------------------------------------------------------------------------------

    def launch(self, target: Launchable, args: Sequence[object], named: Mapping[str, object]) -> object:
        """`f(…, device=r)`: recorded; gives the tensors that the function writes."""
        named = dict(named)
        device = named.pop("device", None)
        values = self._bound(target, args, named)
        windows = [value for value in values.values() if isinstance(value, Window | GroupOf)]
        if device is None:
            if windows:
                self.fail(ArgumentError, f"`{target.name}` takes windows: it must be launched on a rank", help="write device=r")
            rank, self.turn = self.turn % self.plan.world, self.turn + 1
        else:
            rank = self.integer(device, "`device`")
            if not 0 <= rank < self.plan.world:
                self.fail(ArgumentError, f"device={rank}: the world has the ranks 0 to {self.plan.world - 1}", help="loop over pl.range(pld.world_size())")
        for value in values.values():
            if isinstance(value, StackedTensor):
                self.fail(ArgumentError, f"the slices of `{value.name}` stay with different ranks", help=f"pass {value.name}[r]")
            if isinstance(value, HostTensor) and value.home not in (None, rank):
                self.fail(ArgumentError, f"`{value.name}` stays with rank {value.home}, the launch is on rank {rank}", help=f"launch with device={value.home}")
        for value in windows:
            (value.buffer if isinstance(value, Window) else value.window.buffer).ranks.add(rank)
        entry = self._entry(target, values)
        return self._record(target, entry, values, rank)

    def _record(self, target: Launchable, entry: CompiledEntry, values: dict[str, object], rank: int) -> object:
        signature, span = entry.signature, self.here()
        order = [values[param.name] for param in signature.params]
        tensors = [(param.direction, value) for param, value in zip(signature.params, order, strict=True) if isinstance(value, HostTensor)]
        new = [HostTensor(self._zeros(extents(result.shape, signature, order), result.dtype), result.name) for result in signature.results]
        self.plan.tensors += new
        reads = [value for direction, value in tensors if direction != "Out"]
        writes = [value for direction, value in tensors if direction != "In"]

        def run(call: Any, rank: int) -> None:
            given = [on_rank(call, rank, value) for value in order]
            made = call.launch(entry, given, rank)
            for tensor, array in zip(new, made if isinstance(made, tuple) else (made,), strict=True) if new else ():
                call.memory.take(rank, tensor.array, array)

        self.events.append(Step(rank, target.name, run, reads, [*writes, *new], span, order))
        results = [*new] if new else writes
        return None if not results else results[0] if len(results) == 1 else tuple(results)

    def _entry(self, target: Launchable, values: dict[str, object]) -> CompiledEntry:
        given = [(param, values[param.name]) for param in target.params]
        key = (target, *(type_of(param, value) for param, value in given))
        known = self.compiled.get(key)
        if known is not None and known.holds():
            return known.entry
        found = target.compiled({param.name: sample(param, value, self.plan.device) for param, value in given}, self.config)
        # One call has one program for equal arguments, as an artifact of it has, and one value for all ranks, whatever their arguments are.
        if (known is not None and found.entry is not known.entry) or any(self.reads.setdefault(read, answer) != answer for read, answer in found.reads.items()):
            raise changed_between_launches(target.name, self.here())
        self.compiled[key] = found
        return found.entry

    def _bound(self, target: Launchable, args: Sequence[object], named: dict[str, object]) -> dict[str, object]:
        params = target.params
        known = {param.name: param for param in params}
        if len(args) > len(params):
            self.fail(ArgumentError, f"`{target.name}` takes {len(params)} arguments, got {len(args)}", help=f"parameters: {', '.join(known)}")
        values = dict(zip(known, args, strict=False))
        for name, value in named.items():
            if name not in known or name in values:
                self.fail(ArgumentError, f"`{target.name}` has no free parameter `{name}`", help=f"parameters: {', '.join(known)}")
            values[name] = value
        for param in params:
            if param.name not in values:
                if param.default is ...:
                    self.fail(ArgumentError, f"`{target.name}` needs `{param.name}`", help=f"parameters: {', '.join(known)}")
                values[param.name] = param.default
        return {param.name: self._argument(target, param, values[param.name]) for param in params}

    def _argument(self, target: Launchable, param: LaunchParam, value: object) -> object:
        what = f"parameter `{param.name}` of `{target.name}`"
        if param.kind == "group":
            if not isinstance(value, GroupOf):
                self.fail(ArgumentError, f"{what} is a group, got {shown(value)}", help="pld.get_comm_ctx(window)")
            return value
        if param.kind == "window":
            if not isinstance(value, Window):
                self.fail(ArgumentError, f"{what} needs a window, got {shown(value)}", help="make it with pld.alloc_window_buffer and pld.window")
            return self._fitted(what, param, value)
        if param.kind == "tensor" or isinstance(value, HostTensor | Window):
            if not isinstance(value, HostTensor | Window):
                self.fail(ArgumentError, f"{what} is a tensor, got {shown(value)}", help="launches take tensors of the host function: give it as a parameter")
            return value
        number = self.symbols.get(value) if isinstance(value, DynVar) else number_of(value)
        self.steady = self.steady and (number is value or isinstance(value, DynVar))  # an array may hold another number at the next call
        if is_constant(param, number):
            return number
        if not isinstance(number, int | float | bool | np.generic):
            kinds = {"open": "a number, a text or None", "static": "a number, a text, a data type, None or a tuple of these in a launch"}
            self.fail(ArgumentError, f"{what} is {kinds.get(param.kind, 'a number')}, got {shown(value)}")
        return number.item() if isinstance(number, np.generic) else number

    def _fitted(self, what: str, param: LaunchParam, window: Window) -> Window:
        """A window in the shape of the annotation: its constant extents win, the number of elements stays."""
        if param.dtype is not None and param.dtype is not window.dtype:
            self.fail(DTypeError, f"{what} holds {param.dtype}, the window {window.dtype}", help="make the view with that dtype")
        wanted = param.shape
        if wanted is None or (len(wanted) == len(window.shape) and all(not isinstance(a, int) or a == b for a, b in zip(wanted, window.shape, strict=True))):
            return window
        known = [extent for extent in wanted if isinstance(extent, int)]
        count, fixed = int(np.prod(window.shape, dtype=np.int64)), int(np.prod(known, dtype=np.int64))
        fits = (len(known) == len(wanted) and fixed == count) or (len(known) == len(wanted) - 1 and bool(fixed) and count % fixed == 0)
        if fits:
            shape = tuple(extent if isinstance(extent, int) else count // fixed for extent in wanted)
            if _without_ones(shape) != _without_ones(window.shape):
                self.warn(f"{what} is {list(shape)}, the window {list(window.shape)}: the elements are taken in their order", self.here())
            return window.reshaped(shape)
        shown = ", ".join(str(getattr(extent, "name", extent)) for extent in wanted)
        self.fail(ShapeError, f"{what} is [{shown}], the window {list(window.shape)}", help="both must have as many elements")

    # other steps ----------------------------------------------------------------------------------------------------------

    def sub_worker(self, name: str, function: Callable[..., object], args: Sequence[object], directions: Sequence[str]) -> None:
        """A Python function on tensors, on rank 0 after the launches that made its arguments."""
        tensors = [(args[at], directions[at] if at < len(directions) else "InOut") for at in range(len(args)) if isinstance(args[at], HostTensor)]
        framework = self.framework
        self.steady = False
        reads = [tensor for tensor, _ in tensors if isinstance(tensor, HostTensor)]
        writes = [tensor for tensor, direction in tensors if isinstance(tensor, HostTensor) and direction != "In"]

        def run(call: Any, rank: int) -> None:
            access = call.memory.access(rank)
            arrays = {id(tensor): access.read(tensor.array) for tensor in reads}  # copies, where memory is that of a GPU
            with float_mode.held(float_mode.bits()):  # the kernels after it are for the caller's mode, whatever it sets
                function(*(in_framework(arrays[id(arg)], framework) if isinstance(arg, HostTensor) else arg for arg in args))
            for tensor in writes:
                if arrays[id(tensor)] is not tensor.array:
                    access.write(tensor.array, arrays[id(tensor)])

        self.events.append(Step(0, name, run, reads, writes, self.here()))

    def collective(self, name: str, operands: Sequence[Window | HostTensor], signal: Window, op: int = 0, root: int = 0, ring: bool = False) -> None:
        """One statement for all ranks of the group; it takes its place in each rank's order."""
        self.events.append(HostCollective(name, tuple(operands), signal, op, root, ring, self.here()))

    def finish(self) -> Plan:
        """The plan, once it is known which ranks have which windows."""
        for event in self.events:
            if isinstance(event, HostCollective):
                event.settle(self.plan.world)
        for event in self.events:
            for step in event.steps() if isinstance(event, HostCollective) else [event]:
                self.plan.add(step)
        self.check_buffers()
        self._check_slices()
        return self.plan

    def _check_slices(self) -> None:
        """A tensor with more slices than there are ranks is cut by rank: then some of it is left alone."""
        ranks = {step.rank for step in self.plan.steps}
        for tensor in self.plan.tensors:
            if tensor.taken and len(tensor.taken) == len(ranks) < tensor.shape[0]:
                self.warn(f"`{tensor.name}` has {tensor.shape[0]} slices, {len(ranks)} ranks were launched: the other slices stay as they are", tensor.cut_at)

    def check_buffers(self) -> None:
        """A buffer that no rank uses is a mistake."""
        for buffer in self.plan.buffers:
            if not buffer.ranks and not buffer.everywhere:
                raise ArgumentError(
                    f"the window buffer `{buffer.name}` is allocated but never used on a rank", span=buffer.span, help="pass a window of it to a launch"
                )


_WARNED: set[tuple[str, int, str]] = set()
"""What was said already."""


def _without_ones(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape without its leading ones."""
    first = next((axis for axis, extent in enumerate(shape) if extent != 1), len(shape))
    return tuple(shape[first:])
