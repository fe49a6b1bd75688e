"""The types of a matrix product, and the instructions that multiply and add them: one number at a time, or words of several along the depth.

Where the processor has an instruction for it, a panel of an operand holds *words*: 2 BF16 or 4 bytes that follow each other along the depth.
One instruction then multiplies two vectors of words and adds what belongs together to a vector of sums.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilejit.backends.cpu.lanes.bytes import ORDER, bytes_as_bf16, hash_of, numbers_as_bf16, together
from tilejit.backends.cpu.lanes.registers import from_memory
from tilejit.backends.cpu.lanes.vmath_blocks import fma
from tilejit.backends.cpu.llvm.host import Host, host
from tilejit.backends.cpu.llvm.text import Emitter, Module, Value
from tilejit.backends.cpu.llvm.vector import binary, constant, convert, element_of, typed, width_of
from tilejit.dtypes import BF16, FP32, INT8, INT16, INT32, INT64, UINT8, DType


def accumulator_of(operand: DType) -> DType:
    """The type in which products of `operand` are summed and C is held."""
    if operand.is_float:
        return FP32 if operand.bits <= FP32.bits else operand
    return INT32 if operand.bits <= INT32.bits else INT64


@dataclass(frozen=True, slots=True)
class Dot:
    """An instruction that multiplies words."""

    feature: str
    intrinsic: str
    """`{bits}` is the width of the vectors."""
    lane: str
    """LLVM type of what the words consist of."""
    group: int
    """How many of them a word has."""
    widths: tuple[int, ...]
    """Of the vectors in bits."""
    mixed: bool = False
    """One factor must be signed and the other not: the numbers of A are moved by 128, and what that adds is taken off again."""
    right_first: bool = False
    """The factor from B is the unsigned one, which comes first."""
    tiles: bool = False
    """It multiplies whole tiles of words, of 16 rows and 16 columns (tiles.py)."""


_BUSD = "llvm.x86.avx512.vpdpbusd.{bits}"
_DOTS: dict[DType, tuple[Dot, ...]] = {
    BF16: (
        Dot("avx512bf16", "llvm.x86.avx512bf16.dpbf16ps.{bits}", "bfloat", 2, (512,)),
        Dot("bf16", "llvm.aarch64.neon.bfdot.v4f32.v8bf16", "bfloat", 2, (128,)),
    ),
    INT8: (
        Dot("avx512vnni", _BUSD, "i8", 4, (512,), mixed=True),
        Dot("avxvnni", _BUSD, "i8", 4, (256,), mixed=True),
        Dot("dotprod", "llvm.aarch64.neon.sdot.v4i32.v16i8", "i8", 4, (128,)),
    ),
    UINT8: (
        Dot("avx512vnni", _BUSD, "i8", 4, (512,), mixed=True, right_first=True),
        Dot("avxvnni", _BUSD, "i8", 4, (256,), mixed=True, right_first=True),
        Dot("dotprod", "llvm.aarch64.neon.udot.v4i32.v16i8", "i8", 4, (128,)),
    ),
    INT16: (Dot("avx512vnni", "llvm.x86.avx512.vpdpwssd.{bits}", "i16", 2, (512,)), Dot("avxvnni", "llvm.x86.avx512.vpdpwssd.{bits}", "i16", 2, (256,))),
}
"""By the type of the operands, in the order of choice. All sums are exact for integers; BF16 is summed in FP32, where numbers below 2⁻¹²⁶ count as 0."""


_TILES = {
    BF16: Dot("amx-bf16", "llvm.x86.tdpbf16ps", "bfloat", 2, (512,), tiles=True),
    INT8: Dot("amx-int8", "llvm.x86.tdpbssd", "i8", 4, (512,), tiles=True),
    UINT8: Dot("amx-int8", "llvm.x86.tdpbuud", "i8", 4, (512,), tiles=True),
}
"""Instructions for packed products on processors with a matrix unit."""


def dot_for(here: Host, operand: DType) -> Dot | None:
    """The instruction of a processor for words of `operand`."""
    return next((dot for dot in _DOTS.get(operand, ()) if here.has(dot.feature) and here.vector_bits in dot.widths), None)


@dataclass(frozen=True, slots=True)
class Side:
    """How an operand is read: memory of `dtype` becomes lanes of a panel."""

    dtype: DType
    accumulator: DType
    dot: Dot | None
    moved: bool = False
    """Numbers are moved by 128, from signed to unsigned or back."""
    numbers: tuple[int, ...] = ()
    """What bytes stand for, where that is not themselves."""

    @property
    def name(self) -> str:
        return f"{self.dtype.name}.{self.accumulator.llvm}{f'.{self.dot.lane}' if self.dot else ''}{'.moved' if self.moved else ''}"

    @property
    def memory(self) -> str:
        """LLVM type of an element where it lies."""
        return self.dtype.llvm

    @property
    def lane(self) -> str:
        """LLVM type of an element in a panel."""
        return self.accumulator.llvm if self.dot is None else {"bfloat": "i16"}.get(self.dot.lane, self.dot.lane)

    @property
    def together(self) -> int:
        """How many elements are loaded best at a time; 1: any number."""
        return 1 if self.dot is None or self.memory == self.lane else together()

    @property
    def order(self) -> tuple[int, ...]:
        """Which of the elements that are loaded together each lane has, where they come out of order when nobody minds."""
        return ORDER if self.together == len(ORDER) else ()

    def load(self, e: Emitter, pointer: Value, width: int, *, in_order: bool = True) -> Value:
        """Elements as lanes of a panel."""
        value = e.load(typed(self.memory, width), pointer, self.dtype.get_byte())
        if self.numbers:
            assert width == 1 or not in_order
            words = numbers_as_bf16(e, self.numbers, value)
            return words if self.dot is not None else from_memory(e, BF16, words)
        if self.dot is None:
            return self._as_sums(e, value)
        if self.moved:
            return binary(e, "xor", value, constant(value.type, -128))
        return value if self.memory == self.lane else bytes_as_bf16(e, self.dtype, value, in_order=in_order)

    def _as_sums(self, e: Emitter, raw: Value) -> Value:
        value = from_memory(e, self.dtype, raw)
        if self.dtype.is_float:
            return value if element_of(value.type) == self.accumulator.llvm else convert(e, "fpext", value, self.accumulator.llvm)
        to_float, to_integer = ("sitofp", "sext") if self.dtype.is_signed else ("uitofp", "zext")
        return convert(e, to_float if self.accumulator.is_float else to_integer, value, self.accumulator.llvm)


@dataclass(frozen=True, slots=True)
class Elements:
    """The types of one kind of product."""

    operand: DType
    right: DType
    """The type of B: where it is another one, B is turned as it is read."""
    dot: Dot | None = None
    numbers: tuple[int, ...] = ()
    """What the bytes of B stand for, where that is not themselves (looked_up.py)."""

    @staticmethod
    def of(module: Module, operand: DType, right: DType | None = None) -> Elements:
        """A product on this processor; without fast maths numbers are multiplied one by one."""
        right = right or operand
        known = right is operand or (operand is BF16 and right.is_integer)
        return Elements(operand, right, dot_for(host(), operand) if known and not module.precise else None)

    @property
    def packed(self) -> Elements:
        """The same for packed operands: by tiles, where the processor has them."""
        tiles = _TILES.get(self.operand) if self.dot is not None else None
        return replace(self, dot=tiles) if tiles is not None and host().has(tiles.feature) and host().vector_bits in tiles.widths else self

    @property
    def tiles(self) -> bool:
        return self.dot is not None and self.dot.tiles

    @property
    def a(self) -> Side:
        return Side(self.operand, self.accumulator, self.dot, self.corrected)

    @property
    def b(self) -> Side:
        return Side(self.right, self.accumulator, self.dot, numbers=self.numbers)

    @property
    def corrected(self) -> bool:
        """Whether the numbers of A are moved, so that sums start from a correction: 128 times the sum of a column of B."""
        return self.dot is not None and self.dot.mixed

    @property
    def name(self) -> str:
        types = self.operand.name if self.right is self.operand else f"{self.operand.name}.{self.right.name}"
        types += f".{hash_of(self.numbers)}" if self.numbers else ""
        return types if self.dot is None else f"{types}.{self.dot.feature}"

    @property
    def accumulator(self) -> DType:
        return accumulator_of(self.operand)

    @property
    def acc(self) -> str:
        """LLVM type of a sum."""
        return self.accumulator.llvm

    @property
    def acc_bytes(self) -> int:
        return self.accumulator.get_byte()

    @property
    def group(self) -> int:
        """Steps along the depth in one word of a panel."""
        return 1 if self.dot is None else self.dot.group

    @property
    def word(self) -> str:
        """LLVM type of a word of a panel; it has as many bytes as a sum."""
        return self.acc if self.dot is None else "i32"

    @property
    def lanes(self) -> int:
        """Words, or sums, of a vector."""
        return host().vector_bits // (8 * self.acc_bytes)

    @property
    def plain(self) -> bool:
        """Whether operands are held in memory as they are summed."""
        return self.operand.llvm == self.acc and self.right is self.operand

    def load_acc(self, e: Emitter, pointer: Value, width: int) -> Value:
        return e.load(typed(self.acc, width), pointer, self.acc_bytes)

    def load_words(self, e: Emitter, pointer: Value, width: int) -> Value:
        return e.load(typed(self.word, width), pointer, self.acc_bytes)

    def words(self, e: Emitter, lanes: Value) -> Value:
        """Lanes that follow each other along the depth as words."""
        if self.dot is None:
            return lanes
        type = typed(self.word, width_of(lanes.type) // self.group)
        return e.inst(type, f"bitcast {lanes} to {type}")

    def multiply_add(self, e: Emitter, a: Value, b: Value, addend: Value) -> Value:
        """Sums plus the products of words of A and B, which are vectors where there is an instruction for words."""
        if self.dot is not None:
            return self._multiply_words(e, self.dot, *((b, a) if self.dot.right_first else (a, b)), addend)
        if self.accumulator.is_float:
            return fma(e, a, b, addend)
        return binary(e, "add", binary(e, "mul", a, b), addend)

    def _multiply_words(self, e: Emitter, dot: Dot, first: Value, second: Value, addend: Value) -> Value:
        assert width_of(addend.type) == self.lanes, "words are multiplied by whole vectors"
        name = dot.intrinsic.format(bits=host().vector_bits)
        type = typed(dot.lane, self.lanes * self.group)
        e.module.declare(name, f"declare {addend.type} @{name}({addend.type}, {type}, {type})")
        pair = [e.inst(type, f"bitcast {factor} to {type}") for factor in (first, second)]
        return e.inst(addend.type, f"call {addend.type} @{name}({addend}, {pair[0]}, {pair[1]})")

    def correction(self, e: Emitter, b: Value, addend: Value) -> Value:
        """What the moved numbers of A add to the sums of a column of B, on top of `addend`."""
        return self.multiply_add(e, constant(b.type, -0x7F7F7F80), b, addend)

    def add(self, e: Emitter, a: Value, b: Value) -> Value:
        return binary(e, "fadd" if self.accumulator.is_float else "add", a, b)

    def sub(self, e: Emitter, a: Value, b: Value) -> Value:
        return binary(e, "fsub" if self.accumulator.is_float else "sub", a, b)

    def zero(self, width: int) -> Value:
        return constant(typed(self.acc, width), 0)
