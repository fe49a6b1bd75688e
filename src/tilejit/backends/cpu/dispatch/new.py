"""Tensors that a return-style call gets back: made by the caller's framework, in the place the kernel writes to."""

from __future__ import annotations

from tilejit.backends.cpu.dispatch.guards import Guards
from tilejit.backends.cpu.llvm.text import Value
from tilejit.runtime.call.bindings import ARRAY
from tilejit.runtime.call.dispatch_abi import MAX_ARGS, Argument, Kind, New, Row, State


class NewTensors(Guards):
    """Allocation, and what becomes of the tensors when the kernel is done or fails."""

    def allocate(self, entry: Value) -> None:
        """Fill `made`. Making objects may run Python, so the entry counts as in use from here on."""
        e = self.e
        self.in_flight(1)
        rows = self.get(entry, Row.NEW, "ptr")
        with e.loop(0, self.get(entry, Row.NEW_COUNT), name="new") as loop:
            self.put(self.made, loop.iv, Value("0", "i64"))
        with e.loop(0, self.get(entry, Row.NEW_COUNT), name="new") as loop:
            row = e.offset(rows, e.mul(loop.iv, int(New.SIZE)), "i64")
            shape = self.shape(row)
            self.put(self.call_args, 0, self.e.address(shape))
            self.put(self.call_args, 1, self.get(row, New.SECOND))
            self.put(self.call_args, 2, self.get(row, New.THIRD))
            function, names = self.get(row, New.FUNCTION, "ptr"), self.get(row, New.NAMES, "ptr")
            made = e.inst("ptr", f"call ptr @PyObject_Vectorcall({function}, {self.call_args}, {self.get(row, New.POSITIONAL)}, {names})")
            e.void(f"call void @Py_DecRef({shape})")
            self.require(e.inst("i1", f"icmp ne ptr {made.text}, null"), "not_made")
            self.put(self.made, loop.iv, self.e.address(made))
            self.fill(row, made)

    def shape(self, row: Value) -> Value:
        """A tuple of the extents, a reference of ours. The extents go into the argument block too, with dense strides."""
        e = self.e
        rank, slot = self.get(row, New.RANK), self.get(row, New.SLOT)
        shape = e.inst("ptr", f"call ptr @PyTuple_New({rank})")
        self.require(e.inst("i1", f"icmp ne ptr {shape.text}, null"), "not_made")
        with e.loop(0, rank, carried=[Value("1", "i64")], name="extent") as loop:
            axis = e.sub(e.sub(rank, loop.iv), 1)
            symbol = self.get(row, e.add(int(New.SYMBOLS), axis))
            fixed = self.get(row, e.add(int(New.EXTENTS), axis))
            named = e.icmp("sge", symbol, 0)
            bound = self.get(self.symbols, e.inst("i64", f"select i1 {named.text}, {symbol}, i64 0"))
            extent = e.inst("i64", f"select i1 {named.text}, {bound}, {fixed}")
            number = e.inst("ptr", f"call ptr @PyLong_FromLongLong({extent})")
            e.void(f"call i32 @PyTuple_SetItem({shape}, {e.i64(axis)}, {number})")
            at = e.add(e.add(slot, 1), axis)
            self.put(self.block, at, extent)
            self.put(self.block, e.add(at, rank), loop.carried[0])
            loop.next = [e.i64(e.mul(loop.carried[0], extent))]
        return shape

    def fill(self, row: Value, made: Value) -> None:
        """The address of a new tensor's elements goes into the argument block."""
        e = self.e
        label = e.fresh("made")
        slot = self.get(row, New.SLOT)
        e.cbr(self.same(self.get(row, New.KIND), int(Kind.NUMPY)), f"{label}.numpy", f"{label}.torch")
        e.place(f"{label}.numpy")
        self.put(self.block, slot, self.field(made, ARRAY.DATA))
        e.br(f"{label}.done")
        e.place(f"{label}.torch")
        start = self.check_made(row, made, slot)
        self.put(self.block, slot, start)
        e.void(f"call ptr @memset({self.pointer(start)}, i32 0, {self.get(row, New.CLEAR_BYTES)})")
        e.br(f"{label}.done")
        e.place(f"{label}.done")

    def check_made(self, row: Value, made: Value, slot: Value) -> Value:
        """Where the elements of a new tensor of torch start. A mode of torch may have made anything: Python tells of what is not as it was asked for."""
        e, other = self.e, "made_in_vain"
        self.require(self.same(self.field(made, 8), self.get(self.state, State.TORCH_TYPE)), other)
        note = e.offset(self.notes, MAX_ARGS * int(Argument.SIZE), "i64")
        self.note_torch(made, note, MAX_ARGS, other, "made_unknown")
        for wanted, found in ((New.DTYPE, Argument.DTYPE), (New.DEVICE, Argument.DEVICE), (New.RANK, Argument.RANK)):
            self.require(self.same(self.get(row, wanted), self.get(note, found)), other)
        rank, extents, strides = self.get(row, New.RANK), self.get(note, Argument.EXTENTS, "ptr"), self.get(note, Argument.STRIDES, "ptr")
        with e.loop(0, rank, name="made_axis") as loop:
            at = e.add(e.add(slot, 1), loop.iv)
            extent = self.get(extents, loop.iv)
            self.require(self.same(extent, self.get(self.block, at)), other)
            dense = self.same(self.get(strides, loop.iv), self.get(self.block, e.add(at, rank)))
            self.require(e.inst("i1", f"or i1 {dense.text}, {e.icmp('sle', extent, 1).text}"), other)
        size = self.get(row, New.ITEM_SIZE)
        start = e.i64(e.add(self.get(note, Argument.DATA), e.mul(self.get(note, Argument.OFFSET), size)))
        between = e.inst("i64", f"and i64 {start.text}, {e.i64(e.sub(size, 1)).text}")  # sizes of elements are powers of two
        self.require(self.same(between, 0), other)
        return start

    def drop(self, entry: Value) -> None:
        """Give the new tensors back: nobody will get them."""
        e = self.e
        with e.loop(0, self.get(entry, Row.NEW_COUNT), name="drop") as loop:
            made = self.get(self.made, loop.iv, "ptr")
            with e.when(e.inst("i1", f"icmp ne ptr {made.text}, null"), e.fresh("dropped")):
                e.void(f"call void @Py_DecRef({made})")
        self.in_flight(-1)

    def in_flight(self, change: int) -> None:
        self.put(self.state, State.IN_FLIGHT, self.e.i64(self.e.add(self.get(self.state, State.IN_FLIGHT), change)))

    def result(self, entry: Value) -> None:
        """Return None, the new tensor, or a tuple of them."""
        e = self.e
        count = self.get(entry, Row.NEW_COUNT)
        self.in_flight(-1)
        none = self.get(self.state, State.NONE, "ptr")
        e.void(f"switch i64 {count.text}, label %several [ i64 0, label %nothing i64 1, label %single ]")
        e.place("nothing")
        e.void(f"call void @Py_IncRef({none})")
        e.void(f"ret {none}")
        e.place("single")
        e.void(f"ret {self.get(self.made, 0, 'ptr')}")
        e.place("several")
        whole = e.inst("ptr", f"call ptr @PyTuple_New({count})")
        with e.loop(0, count, name="several") as loop:
            e.void(f"call i32 @PyTuple_SetItem({whole}, {loop.iv}, {self.get(self.made, loop.iv, 'ptr')})")
        e.void(f"ret {whole}")
