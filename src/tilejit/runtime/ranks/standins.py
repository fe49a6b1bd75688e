"""What `pl` and `pld` are while a host function runs: the names that make sense there, and an error for every other one."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from importlib import import_module
from types import CellType, FunctionType, ModuleType
from typing import Any, cast

from tilejit.dtypes import DType
from tilejit.errors import AliasError, ArgumentError, InvalidOperationError, OptionError, ShapeError
from tilejit.kinds import is_a
from tilejit.ops.spec import OpFunction
from tilejit.runtime.ranks.codes import codes_in, is_full
from tilejit.runtime.ranks.host import Recorder
from tilejit.runtime.ranks.plan import GroupOf, HostTensor, Window, WindowBuffer
from tilejit.types.annotations import DynVar
from tilejit.types.enums import ReduceOp
from tilejit.types.scopes import Marker

_ON_A_RANK = ("notify", "wait", "defer_wait", "rank", "nranks", "put", "get", "remote_load", "remote_store", "peer_view")


class _Names:
    """A namespace with some names of its own; the others are looked up in the language."""

    def __init__(self, recorder: Recorder, module: object, spelled: str, own: Mapping[str, object]) -> None:
        self._recorder, self._module, self._spelled, self._own = recorder, module, spelled, own

    def __getattr__(self, name: str) -> object:
        if name in self._own:
            own = self._own[name]
            held = getattr(self._module, "__dict__", self._own).get(name, own)  # which the language makes when it is first asked for
            if held is own or isinstance(own, _Names) or is_a(held, OpFunction, Marker):
                return own
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._module, name)
        if is_a(found, OpFunction, Marker):
            return _Refused(self._recorder, f"{self._spelled}.{name}")
        return found  # a type, or what somebody put in place of an operator


class _Refused:
    """A name of the language that has no place in a host function."""

    def __init__(self, recorder: Recorder, spelled: str) -> None:
        self._recorder, self._spelled = recorder, spelled

    def __call__(self, *args: object, **named: object) -> object:
        name = self._spelled.rpartition(".")[2]
        if self._spelled.startswith("pld") and name in _ON_A_RANK:
            self._recorder.fail(InvalidOperationError, f"{self._spelled} runs on a rank, this is a host function", help="put it in a function that is launched")
        self._recorder.fail(InvalidOperationError, f"{self._spelled} computes, a host function does not", help="put it in a function that is launched")


class Language:
    """The stand-ins of one call."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        number = recorder.integer
        pl = import_module("tilejit.language")
        pld = import_module("tilejit.language.distributed")
        own: dict[str, object] = {
            "range": lambda *bounds: range(*(number(bound, "a bound") for bound in bounds)),
            "create_tensor": lambda shape, dtype, **_: recorder.create(shape, dtype),
            "const": lambda value, dtype: _converted(value, dtype),
            "cast": lambda value, dtype, **_: _converted(value, dtype),
            "min": builtins.min,
            "max": builtins.max,
        }
        self.pl = _Names(recorder, pl, "pl", own)
        host: dict[str, object] = {
            "world_size": lambda: recorder.plan.world,
            "alloc_window_buffer": recorder.alloc,
            "window": lambda buf, shape, *, dtype: recorder.window(buf, shape, dtype),
            "get_comm_ctx": self._group,
        }
        collectives = {name: getattr(self, f"_{name}") for name in _COLLECTIVES}
        system = _Names(recorder, cast("Any", pld).system, "pld.system", {name: host[name] for name in ("world_size", "get_comm_ctx")})
        tensor = _Names(recorder, cast("Any", pld).tensor, "pld.tensor", {**{name: host[name] for name in ("alloc_window_buffer", "window")}, **collectives})
        self.pld = _Names(recorder, pld, "pld", {**host, "system": system, "tensor": tensor})
        self._by_name = {**{f"pl.{name}": value for name, value in own.items()}, **{f"pld.{name}": value for name, value in host.items()}}

        self._names: dict[tuple[int, str], tuple[object, object]] = {}
        self._cells: dict[int, tuple[CellType, CellType]] = {}
        """Names and variables as they were when the first text of the call read them: other threads may bind them meanwhile."""

    def bound(self, function: FunctionType) -> FunctionType:
        """A function that sees stand-ins under the names that it reads, all of them as they were at the first look of the call."""
        own = function.__globals__
        names = {name: self._named(own, name) for code in codes_in(function.__code__) for name in code.co_names if name in own}
        space = {"__builtins__": builtins, "__name__": function.__module__, **names}
        cells = tuple(map(self._cell, function.__closure__ or ()))
        made = FunctionType(function.__code__, space, function.__name__, function.__defaults__, cells)
        made.__kwdefaults__ = function.__kwdefaults__
        return made

    def _named(self, space: dict[str, object], name: str) -> object:
        place = id(space), name
        if place not in self._names:
            self._names[place] = self.replaced(space[name]), space  # which lives as long as its number is known here
        return self._names[place][0]

    def _cell(self, cell: CellType) -> CellType:
        if id(cell) not in self._cells:
            self._cells[id(cell)] = CellType(self.replaced(cell.cell_contents)) if is_full(cell) else cell, cell
        return self._cells[id(cell)][0]

    def replaced(self, value: object) -> object:
        """What a name of the host function stands for while it runs."""
        if is_a(value, ModuleType):
            name = value.__name__
            if name in ("tilejit.language.distributed", "pypto.language.distributed"):
                return self.pld
            return self.pl if name in ("tilejit.language", "pypto.language") else value
        if is_a(value, DynVar):
            return self.recorder.symbols.get(value, value)
        if is_a(value, OpFunction, Marker):
            return self._by_name.get(repr(value), _Refused(self.recorder, repr(value)))
        return value

    def _group(self, window: object) -> GroupOf:
        if not is_a(window, Window):
            self.recorder.fail(ArgumentError, "pld.get_comm_ctx takes a window")
        return GroupOf(window)

    # collectives ----------------------------------------------------------------------------------------------------------

    def _windows(self, name: str, **operands: object) -> list[Window]:
        seen: dict[WindowBuffer, str] = {}
        out: list[Window] = []
        for label, value in operands.items():
            if not is_a(value, Window):
                self.recorder.fail(
                    ArgumentError, f"`{label}` of pld.tensor.{name} is a window, got {type(value).__name__}", help="pld.window(buf, […], dtype=…)"
                )
            if value.buffer in seen:
                self.recorder.fail(AliasError, f"pld.tensor.{name} needs different buffers: `{seen[value.buffer]}` and `{label}` are one")
            seen[value.buffer] = label
            out.append(value)
        return out

    def _source(self, name: str, label: str, value: object) -> Window | HostTensor:
        if is_a(value, HostTensor):
            if value.shape[0] != self.recorder.plan.world:
                self.recorder.fail(ShapeError, f"`{label}` of pld.tensor.{name} has a slice per rank: {self.recorder.plan.world}, got {list(value.shape)}")
            return value
        return self._windows(name, **{label: value})[0]

    def _barrier(self, signal: object) -> None:
        (window,) = self._windows("barrier", signal=signal)
        self.recorder.collective("barrier", [window], window)

    def _allreduce(self, target: object, signal: object = ..., *, op: object = ReduceOp.Sum, mode: object = "mesh", core_num: object = 1) -> object:
        fail = self.recorder.fail
        if isinstance(core_num, bool) or not isinstance(core_num, int):
            raise TypeError(f"core_num is an int, got {core_num!r}")
        if mode not in ("mesh", "ring"):
            fail(OptionError, f"pld.tensor.allreduce has no mode {mode!r}", help='mode="mesh" or mode="ring"')
        if core_num < 1 or (mode == "ring" and core_num > 1):
            fail(OptionError, f"core_num={core_num} with mode={mode!r}", help="core_num is at least 1, and more only for mesh")
        if signal is None:
            raise TypeError("signal of pld.tensor.allreduce is a window, or is left out")
        if signal is ...:
            if mode == "ring":
                raise ValueError("pld.tensor.allreduce with mode='ring' needs a signal")
            signal = self._private(self._windows("allreduce", target=target)[0])
        data, cells = self._windows("allreduce", target=target, signal=signal)
        self.recorder.collective("allreduce", [data, cells], cells, _reduce(op), ring=mode == "ring")
        return target

    def _private(self, target: Window) -> Window:
        """A signal of its own for a target that was given none: one buffer, however often."""
        recorder = self.recorder
        if target.buffer not in recorder.private:
            from tilejit.dtypes import INT32

            world = recorder.plan.world
            buffer = WindowBuffer(f"{target.buffer.name} signal", 4 * world, recorder.here(), viewed=True, everywhere=True)
            recorder.plan.buffers.append(buffer)
            recorder.private[target.buffer] = Window(buffer, (world, 1), INT32)
        return recorder.private[target.buffer]

    def _broadcast(self, target: object, signal: object, *, root: object) -> object:
        data, cells = self._windows("broadcast", target=target, signal=signal)
        if isinstance(root, bool) or not isinstance(root, int) or root < 0:
            self.recorder.fail(ArgumentError, f"`root` of pld.tensor.broadcast is a rank, got {root!r}", help="root=0")
        self.recorder.collective("broadcast", [data, cells], cells, root=root)
        return target

    def _allgather(self, local_data: object, target: object, signal: object) -> object:
        data, cells = self._windows("allgather", target=target, signal=signal)
        self.recorder.collective("allgather", [self._source("allgather", "local_data", local_data), data, cells], cells)
        return target

    def _reduce_scatter(self, target: object, signal: object, *, op: object = ReduceOp.Sum) -> object:
        data, cells = self._windows("reduce_scatter", target=target, signal=signal)
        self.recorder.collective("reduce_scatter", [data, cells], cells, _reduce(op))
        return target

    def _all_to_all(self, input: object, target: object, signal: object) -> object:
        data, cells = self._windows("all_to_all", target=target, signal=signal)
        self.recorder.collective("all_to_all", [self._source("all_to_all", "input", input), data, cells], cells)
        return target

    def _all_to_all_v(self, input: object, target: object, signal: object, send_counts: object, recv_counts: object) -> object:
        name = "all_to_all_v"
        data, cells, counts = self._windows(name, target=target, signal=signal, recv_counts=recv_counts)
        operands = [self._source(name, "input", input), data, cells, self._source(name, "send_counts", send_counts), counts]
        self.recorder.collective(name, operands, cells)
        return target


_COLLECTIVES = ("barrier", "allreduce", "broadcast", "allgather", "reduce_scatter", "all_to_all", "all_to_all_v")


def _reduce(op: object) -> int:
    if is_a(op, int) and not is_a(op, bool) and op in [member.value for member in ReduceOp]:
        return op
    if not isinstance(op, ReduceOp):
        choices = ", ".join(f"pld.ReduceOp.{member.name}" for member in ReduceOp)
        raise OptionError(f"op is one of {choices}, got {op!r}", help="op=pld.ReduceOp.Sum")
    return op.value


def _converted(value: Any, dtype: object) -> object:
    assert isinstance(dtype, DType)
    return float(value) if dtype.is_float else int(value)
