"""One function of the program being written as LLVM: where each IR value is held, scratch memory, failures, and the walk over its ops."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xdsl.ir import Block, Operation, SSAValue

from tilejit.backends.base import CompileOptions
from tilejit.backends.cpu.lanes.casts import convert_lane
from tilejit.backends.cpu.lanes.registers import lane_constant
from tilejit.backends.cpu.llvm.text import Emitter, Index, Module, Value
from tilejit.backends.cpu.memory.storage import Array, Storage, checked_product, element_count, row_major
from tilejit.config import ARENA_BYTES
from tilejit.dtypes import INDEX, DType
from tilejit.errors import InternalError, Span
from tilejit.ops.sizes import HELP, MAX_BYTES, TOO_LARGE, bytes_of
from tilejit.runtime.call import abi
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.alias import Aliases
from tilejit.tile_ir.cross_core import CrossCore
from tilejit.tile_ir.program import Program
from tilejit.types.values import ArrayType, Dim, ShapedType

if TYPE_CHECKING:
    from tilejit.backends.cpu.memory.escape import Ring

ALIGNMENT = 64
"""Bytes to which scratch memory is aligned."""
_AT_ONCE = 1 << 16
"""Bytes of scratch memory that a function may ask for when it begins, be they needed in the end or not: what lies further on is asked for where it is taken."""


@dataclass
class Unit:
    """What the functions of one artifact share."""

    program: Program
    options: CompileOptions
    module: Module = field(default_factory=Module)
    failures: list[Failure] = field(default_factory=list[Failure])
    strided: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    """Parameters, by function, that some caller passes with gaps between their rows."""
    partly: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    """Parameters, by function, for which some caller passes a tile with other valid extents than their types know."""
    needs_arena: bool = False
    threaded: bool = False
    """Whether any function may share out work."""

    fibers: bool = False
    """Whether kernels run side by side."""

    def __post_init__(self) -> None:
        self.aliases = Aliases(self.program)
        self.cross = CrossCore(self.program)
        transfers = self.cross.every_transfer() if self.cross.active else []
        self.pushes = [transfer for transfer in transfers if transfer.pushes]
        self.fifos = sorted({transfer.fifo for transfer in transfers})
        """The FIFOs of the program; their index is their place in a set."""
        self._rows: dict[Failure, int] = {}

    def failure(self, failure: Failure) -> int:
        """The row of a failure in the table."""
        row = self._rows.get(failure)
        if row is None:
            row = self._rows[failure] = len(self.failures)
            self.failures.append(failure)
        return row


class FunctionWriter:
    """Writes one LLVM function. Ops are turned into code by the rules of `RULES` in lower.py."""

    def __init__(self, unit: Unit, emitter: Emitter, rules: dict[type[Operation], Callable[[FunctionWriter, Any], None]]) -> None:
        self.unit = unit
        self.e = emitter
        self.rules = rules
        self.context = Value("%context", "ptr")
        self.block_index = Value("%block", "i64")
        self.block_count = Value("%blocks", "i64")
        self.top = Value("%arena", "ptr")
        """First free byte of scratch memory."""
        self.places = {self.top.text: 0}
        """How far from the start of it places are, where that is known."""
        self.at_once: tuple[int, Span | None] | None = None
        """Bytes that are asked for when the function begins, and who takes the last of them; None: everybody asks."""
        self.values: dict[SSAValue, Storage] = {}
        self.targets: dict[SSAValue, Array] = {}
        """Where a value should be computed, decided before it is."""
        self.done: set[Operation] = set()
        """Ops whose effect an earlier op already had (stores that were forwarded)."""
        self.makers: dict[SSAValue, Callable[[], None]] = {}
        """Values that are not made where they stand: whoever needs them may do without, or makes them."""
        self.rings: dict[Operation, Ring] = {}
        """Where buffers that outlive their turn of a loop are made."""
        self.symbols: dict[str, Index] = {}
        self.waiting: list[d.LaunchOp] = []
        """Launches that run together with one that follows."""

    # walking ------------------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """Write the ops of a block, up to its terminator."""
        for op in block.ops:
            if isinstance(op, d.YieldOp | d.ReturnOp | d.ConditionOp):
                return
            if op in self.done:
                continue
            rule = self.rules.get(type(op))
            if rule is None:
                raise InternalError(f"the CPU backend does not know {op.name}", span=op.span if isinstance(op, d.TileOp) else None)
            rule(self, op)

    # values -------------------------------------------------------------------------------------------------------------

    def get(self, value: SSAValue) -> Storage:
        found = self.values.get(value)
        if found is None:
            # Constants may be asked for ahead of their place, when a later store decides where a result goes.
            assert isinstance(value.owner, d.ConstOp), f"no storage for {value}"
            found = self.values[value] = constant(value.owner)
        return found

    def known(self, value: SSAValue) -> bool:
        """Whether the value can be used at this point."""
        return value in self.values or isinstance(value.owner, d.ConstOp)

    def array(self, value: SSAValue) -> Array:
        found = self.get(value)
        assert isinstance(found, Array), value
        return found

    def scalar(self, value: SSAValue) -> Value:
        found = self.get(value)
        assert isinstance(found, Value), value
        return found

    def index(self, value: SSAValue) -> Index:
        """An integer scalar as an i64."""
        type = d.type_of(value)
        found = self.scalar(value)
        if found.text.lstrip("-").isdigit():
            return int(found.text)
        return convert_lane(self.e, found, type.dtype, INDEX, 1)

    def indices(self, values: Sequence[SSAValue]) -> list[Index]:
        return [self.index(value) for value in values]

    def tokens(self, value: SSAValue) -> frozenset[object]:
        """The memory a buffer may lie in."""
        return frozenset(self.unit.aliases.roots(value))

    # memory -------------------------------------------------------------------------------------------------------------

    def allocate(self, size: Index, span: Span | None) -> Value:
        """`size` bytes of scratch memory, until the enclosing scope ends."""
        e = self.e
        self.unit.needs_arena = True
        padded = e.add(size, ALIGNMENT - 1)
        rounded = padded // ALIGNMENT * ALIGNMENT if isinstance(padded, int) else e.inst("i64", f"and {padded}, {-ALIGNMENT}")
        start = self.top
        self.top = e.inst("ptr", f"getelementptr i8, ptr {start.text}, {e.i64(rounded)}")
        if isinstance(rounded, int) and (place := self.places.get(start.text)) is not None:
            reached = self.places[self.top.text] = place + rounded
            if self.at_once is not None and reached <= _AT_ONCE:
                self.at_once = max(self.at_once, (reached, span), key=lambda asked: asked[0])
                return start
        self._ask_for(rounded, start, span)
        return start

    def _ask_for(self, size: Index, start: Value, span: Span | None) -> None:
        """Fail where so many bytes are not there."""
        e = self.e
        end = e.load("ptr", e.offset(self.context, abi.ARENA_END, "i64"), 8)
        room = e.inst("i64", f"sub i64 {e.address(end).text}, {e.address(start).text}")
        self.fail_if(e.icmp("slt", room, size), memory_failure(span), [size, room])

    @contextmanager
    def asking_at_once(self) -> Generator[None]:
        """A function whose whole body is written inside asks for scratch memory once, as far as it takes it at known places."""
        arena, self.at_once = self.top, (0, None)
        with self.e.begun_by() as before:
            yield
            size, span = self.at_once
            before()
            if size:
                self._ask_for(size, arena, span)

    def new_array(self, dtype: DType, shape: Sequence[Index], valid: Sequence[Index] | None = None, span: Span | None = None) -> Array:
        """A dense array in scratch memory."""
        self._check_size(dtype, shape, span)
        size = self.e.mul(element_count(self.e, shape), dtype.get_byte())
        pointer = self.allocate(size, span)
        return Array(pointer, dtype, tuple(shape), row_major(self.e, shape), tuple(shape if valid is None else valid), frozenset({object()}), owned=True)

    def _check_size(self, dtype: DType, shape: Sequence[Index], span: Span | None) -> None:
        """Fail where run-time extents make more bytes than there can be: the product might not fit 64 bits."""
        e = self.e
        extents = [extent for extent in shape if isinstance(extent, Value)]
        known = bytes_of(tuple(extent for extent in shape if isinstance(extent, int)), dtype.get_byte())
        if not extents:
            return
        if len(extents) == 1:
            self.fail_if(e.icmp("ugt", extents[0], MAX_BYTES // known), Failure("memory", TOO_LARGE, span, HELP), [])
            return
        product, bad = checked_product(e, [known, *(e.max(extent, 1) for extent in extents)])
        bad = e.inst("i1", f"or {bad}, {e.icmp('ugt', product, MAX_BYTES).text}")
        self.fail_if(bad, Failure("memory", TOO_LARGE, span, HELP), [])

    def result_array(self, value: SSAValue, shape: Sequence[Index], valid: Sequence[Index], span: Span | None = None) -> Array:
        """Memory for a result: where a later op wants it, or new."""
        target = self.targets.pop(value, None)
        if target is not None:
            return target.with_valid(valid)
        type = d.type_of(value)
        assert isinstance(type, ShapedType | ArrayType)
        return self.new_array(type.dtype, shape, valid, span)

    @contextmanager
    def scope(self) -> Generator[None]:
        """Scratch memory taken inside is free again afterwards."""
        saved = self.top
        yield
        self.top = saved

    # failures -----------------------------------------------------------------------------------------------------------

    def fail_if(self, condition: Value, failure: Failure, values: Sequence[Index]) -> None:
        """Leave the function with `failure` when `condition` holds."""
        stem = self.e.fresh("check")
        self.e.cbr(condition, f"{stem}.bad", f"{stem}.good")
        self.e.place(f"{stem}.bad")
        self.fail(failure, values)
        self.e.place(f"{stem}.good")

    def fail(self, failure: Failure, values: Sequence[Index]) -> None:
        """Leave the function with `failure`; the current block ends."""
        e = self.e
        for i, value in enumerate(values):
            e.store(e.i64(value), e.offset(self.context, abi.FAILURE_VALUES + i, "i64"), 8)
        e.void(f"ret i64 {self.unit.failure(failure) + 1}")

    # extents ------------------------------------------------------------------------------------------------------------

    def extent(self, dim: Dim, otherwise: Callable[[], Index]) -> Index:
        """The extent that a type states, or the one that `otherwise` finds; equal symbols are one value."""
        if isinstance(dim, int):
            return dim
        if dim in self.symbols:
            return self.symbols[dim]
        return otherwise()


def constant(op: d.ConstOp) -> Value:
    return lane_constant(d.type_of(op.result).dtype, op.value, 1)


def memory_failure(span: Span | None) -> Failure:
    """Scratch memory is used up; integers: bytes needed, bytes left."""
    text = "the kernel needs {0} bytes of scratch memory more, {1} are left"
    return Failure("memory", text, span, f"use smaller tiles or tensors, or raise {ARENA_BYTES.variable}")
