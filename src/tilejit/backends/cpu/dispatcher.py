"""The native dispatcher as LLVM text: guards the arguments of a call against tables, then runs the kernel without the GIL.

CPython calls it through the vectorcall pointer of the kernel object (runtime/call/native_type.py). Whatever it is not sure of goes to the Python dispatcher
with the same arguments, so it decides about speed and never about meaning. Object layouts are those of CPython and
NumPy 2 on 64-bit machines, checked at start-up (runtime/call/layout.py); tensors of torch come through DLPack's C exchange.
"""

from __future__ import annotations

from tilejit.backends.cpu.launches import add_launches
from tilejit.backends.cpu.llvm.text import Emitter, Index, Module, Value
from tilejit.runtime.call import abi
from tilejit.runtime.call.bindings import ARRAY, FLOAT_VALUE_AT
from tilejit.runtime.call.dispatch_abi import HERE, MAX_ARGS, MAX_RANK, SLOW, Argument, Entry, Guard, Kind, State
from tilejit.runtime.call.interrupt import Record
from tilejit.runtime.call.native_type import STATE_AT

SYMBOL = "tj_dispatch"

_DLTENSOR_SLOTS = 6
_SWAP_EVERY = 64
_STRIDED_BLOCK = MAX_ARGS * (1 + 2 * MAX_RANK)


def dispatcher_text() -> str:
    """LLVM text of the module."""
    module = Module()
    for name, text in _DECLARATIONS.items():
        module.declare(name, text)
    _Dispatcher(module).emit()
    add_launches(module)
    return module.text()


_DECLARATIONS = {
    "PyObject_Vectorcall": "declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)",
    "PyEval_SaveThread": "declare ptr @PyEval_SaveThread()",
    "PyEval_RestoreThread": "declare void @PyEval_RestoreThread(ptr)",
    "PyLong_FromLongLong": "declare ptr @PyLong_FromLongLong(i64)",
    "PyLong_AsLongLongAndOverflow": "declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)",
    "PyThread_get_thread_ident": "declare i64 @PyThread_get_thread_ident()",
    "PyErr_Clear": "declare void @PyErr_Clear()",
    "Py_IncRef": "declare void @Py_IncRef(ptr)",
    "Py_DecRef": "declare void @Py_DecRef(ptr)",
}


class _Dispatcher:
    def __init__(self, module: Module) -> None:
        self.kernel, self.args, self.packed_count, self.names = Value("%kernel", "ptr"), Value("%args", "ptr"), Value("%packed", "i64"), Value("%names", "ptr")
        self.e = Emitter(module, SYMBOL, "ptr", [self.kernel, self.args, self.packed_count, self.names])
        self.notes = self.e.alloca(f"[{MAX_ARGS * Argument.SIZE} x i64]")
        self.tensors = self.e.alloca(f"[{MAX_ARGS * _DLTENSOR_SLOTS} x i64]")
        self.block = self.e.alloca(f"[{_STRIDED_BLOCK} x i64]")
        self.symbols = self.e.alloca(f"[{MAX_ARGS * MAX_RANK} x i64]")
        self.context = self.e.alloca(f"[{abi.CONTEXT_SLOTS} x i64]")
        self.overflow = self.e.alloca("i32")

    # small steps ----------------------------------------------------------------------------------------------------------

    def get(self, base: Value, slot: Index, type: str = "i64") -> Value:
        return self.e.load(type, self.e.offset(base, slot, "i64"), 8)

    def put(self, base: Value, slot: Index, value: Value) -> None:
        self.e.store(value, self.e.offset(base, slot, "i64"), 8)

    def field(self, base: Value, offset: int, type: str = "i64") -> Value:
        """A field of a C struct at a byte offset."""
        return self.e.load(type, self.e.offset(base, offset, "i8"), 4 if type == "i32" else 8)

    def address(self, pointer: Value) -> Value:
        return self.e.inst("i64", f"ptrtoint ptr {pointer.text} to i64")

    def pointer(self, address: Value) -> Value:
        return self.e.inst("ptr", f"inttoptr i64 {address.text} to ptr")

    def require(self, condition: Value, otherwise: str) -> None:
        """Go on if `condition`, else to the block `otherwise`."""
        label = self.e.fresh("ok")
        self.e.cbr(condition, label, otherwise)
        self.e.place(label)

    def same(self, a: Index, b: Index) -> Value:
        return self.e.icmp("eq", a, b)

    # the function -----------------------------------------------------------------------------------------------------------

    def emit(self) -> None:
        e = self.e
        self.state = self.field(self.kernel, STATE_AT, "ptr")
        # The highest bit tells callees that they may overwrite args[-1]; nothing here wants to.
        self.count = e.inst("i64", "and i64 %packed, 9223372036854775807")
        self.require(e.inst("i1", "icmp eq ptr %names, null"), "slow")
        self.require(self.same(self.count, self.get(self.state, State.ARG_COUNT)), "slow")
        self.check_drift()
        self.note_arguments()
        self.try_entries()
        e.place("slow")
        target = self.get(self.state, State.SLOW, "ptr")
        result = e.inst("ptr", f"call ptr @PyObject_Vectorcall({target}, ptr %args, {self.count}, ptr %names)")
        e.void(f"ret {result}")
        e.finish()

    def check_drift(self) -> None:
        """Every word that would tell of a changed captured value is as it was."""
        e = self.e
        pairs = self.get(self.state, State.DRIFT, "ptr")
        with e.loop(0, self.get(pairs, 0), name="drift") as loop:
            at = e.add(e.mul(loop.iv, 2), 1)
            known = self.get(pairs, e.add(at, 1))
            self.require(self.same(self.get(self.get(pairs, at, "ptr"), 0), known), "slow")

    def note_arguments(self) -> None:
        """Read each argument's metadata once, into `notes`."""
        e = self.e
        numpy, torch = self.get(self.state, State.NUMPY_TYPE), self.get(self.state, State.TORCH_TYPE)
        with e.loop(0, self.count, name="note") as loop:
            argument = self.get(self.args, loop.iv, "ptr")
            note = e.offset(self.notes, e.mul(loop.iv, int(Argument.SIZE)), "i64")
            self.put(note, Argument.OBJECT, self.address(argument))
            type = self.field(argument, 8)
            e.cbr(self.same(type, numpy), "numpy", "other")
            e.place("numpy")
            self.note_numpy(argument, note)
            e.br("noted")
            e.place("other")
            e.cbr(self.same(type, torch), "torch", "plain")
            e.place("torch")
            self.note_torch(argument, note, loop.iv)
            e.br("noted")
            e.place("plain")
            is_float = self.same(type, self.get(self.state, State.FLOAT_TYPE))
            is_int = self.same(type, self.get(self.state, State.INT_TYPE))
            kind = e.inst("i64", f"select i1 {is_float.text}, i64 {int(Kind.FLOAT)}, i64 {int(Kind.OBJECT)}")
            kind = e.inst("i64", f"select i1 {is_int.text}, i64 {int(Kind.INTEGER)}, i64 {kind.text}")
            self.put(note, Argument.KIND, kind)
            e.br("noted")
            e.place("noted")

    def note_numpy(self, array: Value, note: Value) -> None:
        e = self.e
        rank = e.inst("i64", f"zext {self.field(array, ARRAY.RANK, 'i32')} to i64")
        flags = e.inst("i64", f"zext {self.field(array, ARRAY.FLAGS, 'i32')} to i64")
        self.put(note, Argument.KIND, Value(str(int(Kind.NUMPY)), "i64"))
        self.put(note, Argument.RANK, rank)
        self.put(note, Argument.FLAGS, flags)
        self.put(note, Argument.DEVICE, Value(str(HERE), "i64"))
        for slot, offset in (
            (Argument.DTYPE, ARRAY.DTYPE),
            (Argument.DATA, ARRAY.DATA),
            (Argument.EXTENTS, ARRAY.EXTENTS),
            (Argument.STRIDES, ARRAY.STRIDES),
        ):
            self.put(note, slot, self.field(array, offset))

    def note_torch(self, tensor: Value, note: Value, position: Value) -> None:
        """DLTensor: data, device, rank | dtype << 32, extents, strides, byte offset."""
        e = self.e
        # Views that torch negates when it reads them, functional and batched tensors look plain to DLPack; their dispatch keys tell.
        keys = e.load("i64", e.offset(self.inner(tensor), self.get(self.state, State.TORCH_KEYS_AT), "i8"), 8)
        here, elsewhere = (self.same(keys, self.get(self.state, slot)) for slot in (State.TORCH_KEYS, State.TORCH_DEVICE_KEYS))
        self.require(e.inst("i1", f"or i1 {here.text}, {elsewhere.text}"), "slow")
        view = e.offset(self.tensors, e.mul(position, _DLTENSOR_SLOTS), "i64")
        exchange = self.get(self.state, State.TORCH_EXCHANGE, "ptr")
        status = e.inst("i32", f"call i32 {exchange.text}({tensor}, {view})")
        self.require(e.inst("i1", f"icmp eq i32 {status.text}, 0"), "no_exchange")
        self.put(note, Argument.DEVICE, self.get(view, 1))
        self.require(self.same(self.get(view, 5), 0), "slow")
        self.require(e.icmp("ne", self.get(view, 0), 0), "slow")
        packed = self.get(view, 2)
        self.put(note, Argument.KIND, Value(str(int(Kind.TORCH)), "i64"))
        self.put(note, Argument.RANK, e.inst("i64", f"and i64 {packed.text}, 4294967295"))
        self.put(note, Argument.DTYPE, e.inst("i64", f"lshr i64 {packed.text}, 32"))
        self.put(note, Argument.FLAGS, Value("0", "i64"))
        for slot, source in ((Argument.DATA, 0), (Argument.EXTENTS, 3), (Argument.STRIDES, 4)):
            self.put(note, slot, self.get(view, source))

    def try_entries(self) -> None:
        e = self.e
        table = self.get(self.state, State.ENTRIES, "ptr")
        with e.loop(0, self.get(self.state, State.ENTRY_COUNT), name="entry") as loop:
            entry = self.get(table, loop.iv, "ptr")
            self.guard(entry)
            self.check_overlap(entry)
            self.move_to_front(table, loop.iv, entry)
            self.note_writes(entry)
            self.run(entry)
            e.place("next_entry")
        e.br("slow")
        e.place("no_exchange")
        e.void("call void @PyErr_Clear()")
        e.br("slow")

    def guard(self, entry: Value) -> None:
        """All arguments fit the specialisation; the argument block is filled on the way."""
        e = self.e
        with e.loop(0, self.get(entry, Entry.SYMBOLS), name="unset") as loop:
            self.put(self.symbols, loop.iv, Value("-1", "i64"))
        with e.loop(0, self.count, name="guard") as loop:
            guard = e.offset(entry, e.add(e.mul(loop.iv, int(Guard.SIZE)), int(Entry.GUARDS)), "i64")
            note = e.offset(self.notes, e.mul(loop.iv, int(Argument.SIZE)), "i64")
            kind = self.get(guard, Guard.KIND)
            self.require(self.same(self.get(guard, Guard.NOTED), self.get(note, Argument.KIND)), "next_entry")
            e.cbr(e.icmp("sle", kind, int(Kind.TORCH)), "tensor", "scalar")
            e.place("scalar")
            self.guard_scalar(guard, note, kind)
            e.br("fits")
            e.place("tensor")
            self.guard_tensor(guard, note)
            e.br("fits")
            e.place("fits")

    def guard_scalar(self, guard: Value, note: Value, kind: Value) -> None:
        e = self.e
        thing = self.get(note, Argument.OBJECT)
        wanted = self.get(guard, Guard.VALUE)
        cases = ((Kind.FLOAT, "float"), (Kind.OBJECT, "object"), (Kind.INTEGER, "integer"), (Kind.REAL32, "real32"), (Kind.REAL64, "real64"))
        rows = " ".join(f"i64 {int(case)}, label %{label}" for case, label in cases)
        e.void(f"switch i64 {kind.text}, label %next_entry [ {rows} ]")
        e.place("float")
        self.require(self.same(self.field(self.pointer(thing), FLOAT_VALUE_AT), wanted), "next_entry")
        e.br("scalar_fits")
        e.place("object")
        self.require(self.same(thing, wanted), "next_entry")
        e.br("scalar_fits")
        e.place("integer")
        self.guard_integer(guard, thing)
        e.br("scalar_fits")
        e.place("real32")
        number = self.field(self.pointer(thing), FLOAT_VALUE_AT, "double")
        single = e.inst("float", f"fptrunc {number} to float")
        bits = e.inst("i32", f"bitcast {single} to i32")
        self.put(self.block, self.get(guard, Guard.SLOT), e.inst("i64", f"zext {bits} to i64"))
        e.br("scalar_fits")
        e.place("real64")
        self.put(self.block, self.get(guard, Guard.SLOT), self.field(self.pointer(thing), FLOAT_VALUE_AT))
        e.br("scalar_fits")
        e.place("scalar_fits")

    def guard_integer(self, guard: Value, thing: Value) -> None:
        e = self.e
        number = e.inst("i64", f"call i64 @PyLong_AsLongLongAndOverflow({self.pointer(thing)}, {self.overflow})")
        self.require(e.inst("i1", f"icmp eq {e.load('i32', self.overflow, 4)}, 0"), "next_entry")
        self.require(e.icmp("sge", number, self.get(guard, Guard.EXTENTS)), "next_entry")
        self.require(e.icmp("sle", number, self.get(guard, int(Guard.EXTENTS) + 1)), "next_entry")
        slot = self.get(guard, Guard.SLOT)
        e.cbr(e.icmp("slt", slot, 0), "integer_fits", "integer_stays")
        e.place("integer_stays")
        self.put(self.block, slot, e.inst("i64", f"and i64 {number.text}, {self.get(guard, Guard.DTYPE).text}"))
        e.br("integer_fits")
        e.place("integer_fits")

    def guard_tensor(self, guard: Value, note: Value) -> None:
        e = self.e
        rank = self.get(guard, Guard.RANK)
        self.require(self.same(self.get(guard, Guard.DTYPE), self.get(note, Argument.DTYPE)), "next_entry")
        self.require(self.same(rank, self.get(note, Argument.RANK)), "next_entry")
        self.require(self.same(self.get(guard, Guard.DEVICE), self.get(note, Argument.DEVICE)), "next_entry")
        mask = self.get(guard, Guard.FLAGS)
        flags = e.inst("i64", f"and i64 {mask.text}, {self.get(note, Argument.FLAGS).text}")
        self.require(self.same(flags, mask), "next_entry")
        slot = self.get(guard, Guard.SLOT)
        self.put(self.block, slot, self.get(note, Argument.DATA))
        extents, strides = self.get(note, Argument.EXTENTS, "ptr"), self.get(note, Argument.STRIDES, "ptr")
        is_torch = self.same(self.get(guard, Guard.KIND), int(Kind.TORCH))
        one = Value("1", "i64")
        with e.loop(0, rank, carried=[one], name="axis") as loop:
            axis = e.sub(e.sub(rank, loop.iv), 1)
            extent = self.get(extents, axis)
            wanted = self.get(guard, e.add(int(Guard.EXTENTS), axis))
            fits = e.inst("i1", f"or i1 {self.same(wanted, -1).text}, {self.same(wanted, extent).text}")
            self.require(fits, "next_entry")
            self.check_symbol(self.get(guard, e.add(int(Guard.SYMBOLS), axis)), extent)
            # NumPy's flags already told that the array is dense; torch's strides must be looked at.
            dense = self.same(self.get(strides, axis), loop.carried[0])
            single = e.icmp("sle", extent, 1)
            known = e.inst("i1", f"xor i1 {is_torch.text}, true")
            either = e.inst("i1", f"or i1 {dense.text}, {single.text}")
            self.require(e.inst("i1", f"or i1 {either.text}, {known.text}"), "next_entry")
            at = e.add(e.add(slot, 1), axis)
            self.put(self.block, at, extent)
            self.put(self.block, e.add(at, rank), loop.carried[0])
            loop.next = [e.i64(e.mul(loop.carried[0], extent))]

    def check_symbol(self, symbol: Value, extent: Value) -> None:
        """All extents of one symbol agree; if not, the Python path raises the error."""
        e = self.e
        label = e.fresh("symbol")
        e.cbr(e.icmp("slt", symbol, 0), f"{label}.done", f"{label}.check")
        e.place(f"{label}.check")
        known = self.get(self.symbols, symbol)
        agrees = e.inst("i1", f"or i1 {self.same(known, -1).text}, {self.same(known, extent).text}")
        self.require(agrees, "slow")
        self.put(self.symbols, symbol, extent)
        e.br(f"{label}.done")
        e.place(f"{label}.done")

    def check_overlap(self, entry: Value) -> None:
        """No output shares memory with another argument and no tensor that requires grad is written, or read before the caller was told that the gradient
        ends here; the Python path knows what to say."""
        e = self.e
        with e.loop(0, self.count, name="output") as outer:
            guard = self.guard_of(entry, outer.iv)
            label = e.fresh("output_check")
            self.check_grad(guard, outer.iv)
            e.cbr(self.same(self.get(guard, Guard.IS_OUTPUT), 1), label, "not_output")
            e.place(label)
            low, high = self.range_of(guard)
            with e.loop(0, self.count, name="against") as inner:
                other = self.guard_of(entry, inner.iv)
                is_tensor = e.icmp("sle", self.get(other, Guard.KIND), int(Kind.TORCH))
                differs = e.icmp("ne", inner.iv, outer.iv)
                both = e.inst("i1", f"and i1 {is_tensor.text}, {differs.text}")
                compare = e.fresh("compare")
                e.cbr(both, compare, "apart")
                e.place(compare)
                other_low, other_high = self.range_of(other)
                first = e.inst("i1", f"icmp ult i64 {low.text}, {other_high.text}")
                second = e.inst("i1", f"icmp ult i64 {other_low.text}, {high.text}")
                overlap = e.inst("i1", f"and i1 {first.text}, {second.text}")
                e.cbr(overlap, "slow", "apart")
                e.place("apart")
            e.br("not_output")
            e.place("not_output")

    def guard_of(self, entry: Value, position: Value) -> Value:
        return self.e.offset(entry, self.e.add(self.e.mul(position, int(Guard.SIZE)), int(Entry.GUARDS)), "i64")

    def range_of(self, guard: Value) -> tuple[Value, Value]:
        """First address of a tensor and first past it."""
        e = self.e
        slot, rank = self.get(guard, Guard.SLOT), self.get(guard, Guard.RANK)
        with e.loop(0, rank, carried=[self.get(guard, Guard.ITEM_SIZE)], name="size") as loop:
            loop.next = [e.i64(e.mul(loop.carried[0], self.get(self.block, e.add(e.add(slot, 1), loop.iv))))]
        low = self.get(self.block, slot)
        return low, e.i64(e.add(low, loop.results[0]))

    def check_grad(self, guard: Value, position: Value) -> None:
        e = self.e
        label = e.fresh("grad")
        e.cbr(self.same(self.get(guard, Guard.KIND), int(Kind.TORCH)), f"{label}.check", f"{label}.done")
        e.place(f"{label}.check")
        tensor, getter = self.get(self.args, position, "ptr"), self.get(self.state, State.REQUIRES_GRAD, "ptr")
        known = e.load("i64", e.offset(self.inner(tensor), self.get(self.state, State.TORCH_GRAD_AT), "i8"), 8)
        e.cbr(self.same(known, 0), f"{label}.done", f"{label}.known")
        e.place(f"{label}.known")
        e.cbr(self.same(self.get(guard, Guard.IS_OUTPUT), 1), f"{label}.ask", f"{label}.read")
        e.place(f"{label}.read")
        e.cbr(self.same(self.get(self.state, State.GRAD_NOTED), 1), f"{label}.done", f"{label}.tell")
        e.place(f"{label}.tell")
        mode = self.get(self.state, State.GRAD_MODE, "ptr")
        e.cbr(e.inst("i1", f"icmp eq ptr {mode.text}, null"), f"{label}.ask", f"{label}.mode")
        e.place(f"{label}.mode")
        e.cbr(e.inst("i1", f"call zeroext i1 {mode.text}()"), f"{label}.ask", f"{label}.done")
        e.place(f"{label}.ask")
        closure = self.get(self.state, State.REQUIRES_GRAD_CLOSURE, "ptr")
        flag = e.inst("ptr", f"call ptr {getter.text}({tensor}, {closure})")
        found = e.fresh("attribute")
        e.cbr(e.inst("i1", f"icmp eq ptr {flag.text}, null"), "no_exchange", found)
        e.place(found)
        required = self.same(self.address(flag), self.get(self.state, State.TRUE))
        e.void(f"call void @Py_DecRef({flag})")
        e.cbr(required, "slow", f"{label}.done")
        e.place(f"{label}.done")

    def inner(self, tensor: Value) -> Value:
        """Address of torch's C++ tensor."""
        return self.e.load("ptr", self.e.offset(tensor, self.get(self.state, State.TORCH_IMPL_AT), "i8"), 8)

    def note_writes(self, entry: Value) -> None:
        """Count the write of each output of torch, as its own operators do, so that a backward that needs the old content is an error."""
        e = self.e
        with e.loop(0, self.count, name="write") as loop:
            guard = self.guard_of(entry, loop.iv)
            output, of_torch = self.same(self.get(guard, Guard.IS_OUTPUT), 1), self.same(self.get(guard, Guard.KIND), int(Kind.TORCH))
            e.cbr(e.inst("i1", f"and i1 {output.text}, {of_torch.text}"), "write.tensor", "write.noted")
            e.place("write.tensor")
            inner = self.inner(self.get(self.args, loop.iv, "ptr"))
            counter = e.load("ptr", e.offset(inner, self.get(self.state, State.TORCH_VERSIONS_AT), "i8"), 8)
            e.cbr(e.inst("i1", f"icmp eq ptr {counter.text}, null"), "write.noted", "write.count")
            e.place("write.count")
            number = e.offset(counter, self.get(self.state, State.TORCH_VERSION_AT), "i8")
            e.void(f"atomicrmw add {number}, i32 1 monotonic, align 4")
            e.br("write.noted")
            e.place("write.noted")

    def move_to_front(self, table: Value, position: Value, entry: Value) -> None:
        """A neighbour swap now and then: frequent entries drift to the front, and the order is as good as constant for the branch predictor."""
        e = self.e
        label = e.fresh("front")
        turn = e.inst("i64", f"and i64 {self.get(self.state, State.HITS).text}, {_SWAP_EVERY - 1}")
        wanted = e.inst("i1", f"and i1 {self.same(turn, 0).text}, {e.icmp('ne', position, 0).text}")
        e.cbr(wanted, f"{label}.swap", f"{label}.done")
        e.place(f"{label}.swap")
        before = e.sub(position, 1)
        previous = self.get(table, before)
        self.put(table, before, self.address(entry))
        self.put(table, position, previous)
        e.br(f"{label}.done")
        e.place(f"{label}.done")

    # running --------------------------------------------------------------------------------------------------------------

    def run(self, entry: Value) -> None:
        e = self.e
        arena = self.get(self.state, State.ARENA, "ptr")
        base, end = self.get(arena, 0), self.get(arena, 1)
        needed = self.same(self.get(entry, Entry.ARENA_NEEDED), 1)
        busy = e.inst("i1", f"and i1 {needed.text}, {self.same(base, 0).text}")
        free = e.fresh("free")
        e.cbr(busy, "slow", free)
        e.place(free)
        # Kernels without scratch leave the arena alone, so that they run side by side.
        taken = e.inst("i64", f"select i1 {needed.text}, i64 0, i64 {base.text}")
        self.put(arena, 0, taken)
        threads, team = self.get(entry, Entry.THREADS), self.get(entry, Entry.TEAM)
        given = ((abi.ARENA_BASE, base), (abi.ARENA_END, end), (abi.THREADS, threads), (abi.TEAM, team), (abi.TABLE, self.get(entry, Entry.TABLE)))
        for slot, value in given:
            self.put(self.context, slot, value)
        for slot in (abi.LOCKS, abi.INTERRUPT, abi.LOOKED, abi.DUE, abi.TURNS):
            self.put(self.context, slot, Value("0", "i64"))
        hits = self.get(self.state, State.HITS)
        self.put(self.state, State.HITS, e.i64(e.add(hits, 1)))
        kernel = self.get(entry, Entry.KERNEL, "ptr")
        status = self.call_kernel(entry, kernel)
        restore = e.fresh("restore")
        e.cbr(needed, restore, f"{restore}.done")
        e.place(restore)
        self.put(arena, 0, base)
        e.br(f"{restore}.done")
        e.place(f"{restore}.done")
        done, failed = e.fresh("done"), e.fresh("failed")
        e.cbr(self.same(status, 0), done, failed)
        e.place(done)
        none = self.get(self.state, State.NONE, "ptr")
        e.void(f"call void @Py_IncRef({none})")
        e.void(f"ret {none}")
        e.place(failed)
        self.require(e.icmp("ne", status, SLOW), "slow")
        self.raise_failure(entry, status)

    def call_kernel(self, entry: Value, kernel: Value) -> Value:
        """Without the GIL, unless the kernel is over before another thread could take it."""
        e = self.e
        brief, long, ran = e.fresh("brief"), e.fresh("long"), e.fresh("ran")
        e.cbr(self.same(self.get(entry, Entry.BRIEF), 1), brief, long)
        e.place(brief)
        first = e.inst("i64", f"call i64 {kernel.text}({self.block}, {self.context})")
        e.br(ran)
        e.place(long)
        self.put(self.state, State.IN_FLIGHT, e.i64(e.add(self.get(self.state, State.IN_FLIGHT), 1)))
        # Signals are for one thread; what another one runs is not stopped.
        record = self.get(self.state, State.INTERRUPT)
        mine = self.same(e.inst("i64", "call i64 @PyThread_get_thread_ident()"), self.get(self.pointer(record), int(Record.THREAD)))
        self.put(self.context, abi.INTERRUPT, e.inst("i64", f"select {mine}, {record}, i64 0"))
        thread = e.inst("ptr", "call ptr @PyEval_SaveThread()")
        finished = e.inst("i64", f"call i64 {kernel.text}({self.block}, {self.context})")
        e.void(f"call void @PyEval_RestoreThread({thread})")
        told = e.icmp("ne", self.get(self.pointer(record), int(Record.STOP)), 0)
        stopped = e.inst("i1", f"and {mine}, {told.text}")
        second = e.inst("i64", f"select {stopped}, i64 {abi.INTERRUPTED}, {finished}")
        self.put(self.state, State.IN_FLIGHT, e.i64(e.sub(self.get(self.state, State.IN_FLIGHT), 1)))
        e.br(ran)
        e.place(ran)
        return e.inst("i64", f"phi i64 [ {first.text}, %{brief} ], [ {second.text}, %{long} ]")

    def raise_failure(self, entry: Value, status: Value) -> None:
        """Hand the failure to Python, which raises."""
        e = self.e
        numbers = [self.get(entry, Entry.ID), status, *(self.get(self.context, abi.FAILURE_VALUES + i) for i in range(4))]
        objects = [e.inst("ptr", f"call ptr @PyLong_FromLongLong({number})") for number in numbers]
        for position, thing in enumerate(objects):
            self.put(self.notes, position, self.address(thing))
        target = self.get(self.state, State.FAILED, "ptr")
        result = e.inst("ptr", f"call ptr @PyObject_Vectorcall({target}, {self.notes}, i64 {len(objects)}, ptr null)")
        for thing in objects:
            e.void(f"call void @Py_DecRef({thing})")
        e.void(f"ret {result}")
