"""Whether the arguments fit a specialisation; its argument block is filled on the way."""

from __future__ import annotations

from tilejit.backends.cpu.dispatch.arguments import Arguments
from tilejit.backends.cpu.llvm.text import Index, Value
from tilejit.runtime.call.bindings import FLOAT_VALUE_AT
from tilejit.runtime.call.dispatch_abi import Argument, Guard, Kind, Row, State


class Guards(Arguments):
    """Guards of one entry against `notes`; what does not fit goes to the next entry, what Python must word goes to Python."""

    def guard(self, entry: Value) -> None:
        """All arguments fit the specialisation; the argument block is filled on the way."""
        e = self.e
        with e.loop(0, self.get(entry, Row.SYMBOLS), name="unset") as loop:
            self.put(self.symbols, loop.iv, Value("-1", "i64"))
        with e.loop(0, self.count, name="guard") as loop:
            guard = e.offset(entry, e.add(e.mul(loop.iv, int(Guard.SIZE)), int(Row.GUARDS)), "i64")
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
        cases = (
            (Kind.FLOAT, "float"), (Kind.OBJECT, "object"), (Kind.INTEGER, "integer"), (Kind.REAL32, "real32"), (Kind.REAL64, "real64"),
            (Kind.ABSENT, "not_given"),
        )  # fmt: skip
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
        e.place("not_given")
        slot = self.get(guard, Guard.SLOT)
        e.cbr(e.icmp("slt", slot, 0), "scalar_fits", "fixed")
        e.place("fixed")
        self.put(self.block, slot, wanted)
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
        rank, given = self.get(guard, Guard.RANK), self.get(note, Argument.RANK)
        flat = self.same(self.get(guard, Guard.FLAT), 1)
        self.require(self.same(self.get(guard, Guard.DTYPE), self.get(note, Argument.DTYPE)), "next_entry")
        self.require(e.inst("i1", f"or i1 {self.same(rank, given).text}, {flat.text}"), "next_entry")
        self.require(self.same(self.get(guard, Guard.DEVICE), self.get(note, Argument.DEVICE)), "next_entry")
        mask = self.get(guard, Guard.FLAGS)
        flags = e.inst("i64", f"and i64 {mask.text}, {self.get(note, Argument.FLAGS).text}")
        self.require(self.same(flags, mask), "next_entry")
        slot, size = self.get(guard, Guard.SLOT), self.get(guard, Guard.ITEM_SIZE)
        start = e.i64(e.add(self.get(note, Argument.DATA), e.mul(self.get(note, Argument.OFFSET), size)))
        self.require(self.same(e.inst("i64", f"and i64 {start.text}, {self.get(guard, Guard.BETWEEN).text}"), 0), "next_entry")
        self.put(note, Argument.START, start)
        self.put(self.block, slot, start)
        e.cbr(flat, "row", "shaped")
        e.place("row")
        count = self.guard_axes(guard, note, given, None)
        self.require(e.icmp("sgt", count, 0), "next_entry")
        self.guard_extent(guard, 0, count)
        self.put(self.block, e.add(slot, 1), count)
        self.put(self.block, e.add(slot, 2), Value("1", "i64"))
        in_row = e.label
        e.br("tensor_fits")
        e.place("shaped")
        cells = self.guard_axes(guard, note, rank, slot)
        in_shape = e.label
        e.br("tensor_fits")
        e.place("tensor_fits")
        whole = e.phi("i64", [(count, in_row), (cells, in_shape)])
        self.put(note, Argument.END, e.i64(e.add(start, e.mul(whole, size))))

    def guard_axes(self, guard: Value, note: Value, rank: Value, slot: Value | None) -> Value:
        """A dense tensor of so many axes, in the block at `slot` if there is one, each extent as the guard wants it; how many elements it has."""
        e = self.e
        extents, strides = self.get(note, Argument.EXTENTS, "ptr"), self.get(note, Argument.STRIDES, "ptr")
        is_torch = self.same(self.get(guard, Guard.KIND), int(Kind.TORCH))
        with e.loop(0, rank, carried=[Value("1", "i64")], name="axis") as loop:
            axis = e.sub(e.sub(rank, loop.iv), 1)
            extent = self.get(extents, axis)
            # NumPy's flags already told that the array is dense; torch's strides must be looked at.
            dense = self.same(self.get(strides, axis), loop.carried[0])
            single = e.icmp("sle", extent, 1)
            known = e.inst("i1", f"xor i1 {is_torch.text}, true")
            either = e.inst("i1", f"or i1 {dense.text}, {single.text}")
            self.require(e.inst("i1", f"or i1 {either.text}, {known.text}"), "next_entry")
            if slot is not None:
                self.guard_extent(guard, axis, extent)
                at = e.add(e.add(slot, 1), axis)
                self.put(self.block, at, extent)
                self.put(self.block, e.add(at, rank), loop.carried[0])
            loop.next = [e.i64(e.mul(loop.carried[0], extent))]
        return loop.results[0]

    def guard_extent(self, guard: Value, axis: Index, extent: Value) -> None:
        e = self.e
        wanted = self.get(guard, e.add(int(Guard.EXTENTS), axis))
        self.require(e.inst("i1", f"or i1 {self.same(wanted, -1).text}, {self.same(wanted, extent).text}"), "next_entry")
        self.check_symbol(self.get(guard, e.add(int(Guard.SYMBOLS), axis)), extent)

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
            low, high = self.range_of(outer.iv)
            with e.loop(0, self.count, name="against") as inner:
                other = self.guard_of(entry, inner.iv)
                is_tensor = e.icmp("sle", self.get(other, Guard.KIND), int(Kind.TORCH))
                differs = e.icmp("ne", inner.iv, outer.iv)
                both = e.inst("i1", f"and i1 {is_tensor.text}, {differs.text}")
                compare = e.fresh("compare")
                e.cbr(both, compare, "apart")
                e.place(compare)
                other_low, other_high = self.range_of(inner.iv)
                first = e.inst("i1", f"icmp ult i64 {low.text}, {other_high.text}")
                second = e.inst("i1", f"icmp ult i64 {other_low.text}, {high.text}")
                overlap = e.inst("i1", f"and i1 {first.text}, {second.text}")
                e.cbr(overlap, "slow", "apart")
                e.place("apart")
            e.br("not_output")
            e.place("not_output")

    def range_of(self, position: Value) -> tuple[Value, Value]:
        """First address of a tensor and first past it."""
        note = self.e.offset(self.notes, self.e.mul(position, int(Argument.SIZE)), "i64")
        return self.get(note, Argument.START), self.get(note, Argument.END)

    def check_grad(self, guard: Value, position: Value) -> None:
        e = self.e
        label = e.fresh("grad")
        e.cbr(self.same(self.get(guard, Guard.KIND), int(Kind.TORCH)), f"{label}.check", f"{label}.done")
        e.place(f"{label}.check")
        tensor, getter = self.get(self.given, position, "ptr"), self.get(self.state, State.REQUIRES_GRAD, "ptr")
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
        required = self.same(self.e.address(flag), self.get(self.state, State.TRUE))
        e.void(f"call void @Py_DecRef({flag})")
        e.cbr(required, "slow", f"{label}.done")
        e.place(f"{label}.done")
