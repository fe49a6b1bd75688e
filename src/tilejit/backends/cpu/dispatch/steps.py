"""The function that the dispatcher is: its memory, and the small steps that everything in it is made of."""

from __future__ import annotations

from tilejit.backends.cpu.llvm.text import Emitter, Index, Module, Value
from tilejit.runtime.call import abi
from tilejit.runtime.call.dispatch_abi import MAX_ARGS, MAX_NEW, MAX_RANK, Argument, Guard, Row, State
from tilejit.runtime.call.native_type import STATE_AT

SYMBOL = "tj_dispatch"
DLTENSOR_SLOTS = 6
_BLOCK_SLOTS = (MAX_ARGS + MAX_NEW) * (1 + 2 * MAX_RANK)


class Words:
    """Steps over memory of 64-bit words."""

    def __init__(self, e: Emitter) -> None:
        self.e = e

    def get(self, base: Value, slot: Index, type: str = "i64") -> Value:
        return self.e.load(type, self.e.offset(base, slot, "i64"), 8)

    def put(self, base: Value, slot: Index, value: Index) -> None:
        self.e.store(self.e.i64(value), self.e.offset(base, slot, "i64"), 8)

    def require(self, condition: Value, otherwise: str) -> None:
        """Go on if `condition`, else to the block `otherwise`."""
        label = self.e.fresh("ok")
        self.e.cbr(condition, label, otherwise)
        self.e.place(label)

    def is_null(self, pointer: Value) -> Value:
        return self.e.inst("i1", f"icmp eq ptr {pointer.text}, null")


class Steps(Words):
    """`ptr tj_dispatch(kernel, args, packed count, names)`: what CPython calls a kernel through."""

    def __init__(self, module: Module) -> None:
        self.kernel, self.args, self.packed_count, self.names = Value("%kernel", "ptr"), Value("%args", "ptr"), Value("%packed", "i64"), Value("%names", "ptr")
        super().__init__(Emitter(module, SYMBOL, "ptr", [self.kernel, self.args, self.packed_count, self.names]))
        self.given = self.e.alloca(f"[{MAX_ARGS} x ptr]")
        """The arguments in the order of the parameters; null where one was not given."""
        self.notes = self.e.alloca(f"[{(MAX_ARGS + 1) * Argument.SIZE} x i64]")
        """What is read of each argument, and at the end of a new tensor."""
        self.tensors = self.e.alloca(f"[{(MAX_ARGS + 1) * DLTENSOR_SLOTS} x i64]")
        """What torch tells of each argument, and at the end of a new tensor."""
        self.block = self.e.alloca(f"[{_BLOCK_SLOTS} x i64]")
        self.symbols = self.e.alloca(f"[{MAX_ARGS * MAX_RANK} x i64]")
        self.context = self.e.alloca(f"[{abi.CONTEXT_SLOTS} x i64]")
        self.overflow = self.e.alloca("i32")
        self.made = self.e.alloca(f"[{MAX_NEW} x ptr]")
        """New tensors."""
        self.mode = self.e.alloca("i32")
        """Where the processor says how it computes."""
        self.call_args = self.e.alloca("[4 x ptr]")
        self.asked = self.e.alloca("i64")
        """Address of the function that said that all answers are what they were; 0: not asked yet."""
        self.state = self.field(self.kernel, STATE_AT, "ptr")
        self.count = self.get(self.state, State.ARG_COUNT)
        # The highest bit tells callees that they may overwrite args[-1]; nothing here wants to.
        self.positional = self.e.inst("i64", "and i64 %packed, 9223372036854775807")

    def field(self, base: Value, offset: int, type: str = "i64") -> Value:
        """A field of a C struct at a byte offset."""
        return self.e.load(type, self.e.offset(base, offset, "i8"), 4 if type == "i32" else 8)

    def pointer(self, address: Value) -> Value:
        return self.e.inst("ptr", f"inttoptr i64 {address.text} to ptr")

    def same(self, a: Index, b: Index) -> Value:
        return self.e.icmp("eq", a, b)

    def guard_of(self, entry: Value, position: Value) -> Value:
        return self.e.offset(entry, self.e.add(self.e.mul(position, int(Guard.SIZE)), int(Row.GUARDS)), "i64")

    def inner(self, tensor: Value) -> Value:
        """Address of torch's C++ tensor."""
        return self.e.load("ptr", self.e.offset(tensor, self.get(self.state, State.TORCH_IMPL_AT), "i8"), 8)
