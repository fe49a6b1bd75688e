"""What a call is given: arguments put in the order of the parameters, and each one's metadata read once."""

from __future__ import annotations

from tilejit.backends.cpu.dispatch.steps import DLTENSOR_SLOTS, Steps
from tilejit.backends.cpu.llvm.text import Index, Value
from tilejit.runtime.call.bindings import ARRAY, TUPLE
from tilejit.runtime.call.dispatch_abi import HERE, TORCH_INLINE, Argument, Kind, State


class Arguments(Steps):
    """From the arguments as CPython passes them to `given` and `notes`."""

    def arrange(self) -> None:
        """Put every argument where its parameter stands. Names are compared by address: those that a program spells out are interned."""
        e = self.e
        self.require(e.icmp("sle", self.positional, self.get(self.state, State.POSITIONAL)), "slow")
        with e.loop(0, self.count, name="absent") as loop:
            self.put(self.given, loop.iv, Value("0", "i64"))
        inputs_only = self.same(self.positional, self.get(self.state, State.INPUT_COUNT))
        whole, short = self.get(self.state, State.ORDER, "ptr"), self.get(self.state, State.INPUT_ORDER, "ptr")
        order = e.inst("ptr", f"select {inputs_only}, {short}, {whole}")
        with e.loop(0, self.positional, name="position") as loop:
            self.put(self.given, self.get(order, loop.iv), self.get(self.args, loop.iv))
        e.cbr(self.is_null(self.names), "arranged", "by_name")
        e.place("by_name")
        known = self.get(self.state, State.NAMES, "ptr")
        with e.loop(0, self.field(self.names, TUPLE.LENGTH), name="named") as named:
            name = self.get(e.offset(self.names, int(TUPLE.ITEMS), "i8"), named.iv)
            with e.loop(0, self.count, carried=[Value("-1", "i64")], name="parameter") as loop:
                found = self.same(self.get(known, loop.iv), name)
                loop.next = [e.inst("i64", f"select i1 {found.text}, {loop.iv}, {loop.carried[0]}")]
            position = loop.results[0]
            self.require(e.icmp("sge", position, 0), "slow")
            self.require(self.same(self.get(self.given, position), 0), "slow")
            self.put(self.given, position, self.get(self.args, e.add(self.positional, named.iv)))
        last = e.sub(self.count, 1)
        config = self.get(self.given, last)
        none = self.same(config, self.get(self.state, State.NONE))
        self.put(self.given, last, e.inst("i64", f"select i1 {none.text}, i64 0, {config}"))  # config=None is no config
        e.br("arranged")
        e.place("arranged")

    def note_arguments(self) -> None:
        """Read each argument's metadata once, into `notes`."""
        e = self.e
        numpy, torch = self.get(self.state, State.NUMPY_TYPE), self.get(self.state, State.TORCH_TYPE)
        with e.loop(0, self.count, name="note") as loop:
            argument = self.get(self.given, loop.iv, "ptr")
            note = e.offset(self.notes, e.mul(loop.iv, int(Argument.SIZE)), "i64")
            self.put(note, Argument.OBJECT, self.e.address(argument))
            e.cbr(self.is_null(argument), "missing", "there")
            e.place("missing")
            self.put(note, Argument.KIND, Value(str(int(Kind.ABSENT)), "i64"))
            e.br("noted")
            e.place("there")
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
        self.put(note, Argument.OFFSET, Value("0", "i64"))
        self.put(note, Argument.DEVICE, Value(str(HERE), "i64"))
        for slot, offset in (
            (Argument.DTYPE, ARRAY.DTYPE),
            (Argument.DATA, ARRAY.DATA),
            (Argument.EXTENTS, ARRAY.EXTENTS),
            (Argument.STRIDES, ARRAY.STRIDES),
        ):
            self.put(note, slot, self.field(array, offset))

    def note_torch(self, tensor: Value, note: Value, position: Index, other: str = "slow", failed: str = "no_exchange") -> None:
        """From torch's C++ tensor, or where that is not known from the exchange, which takes several times as long; on to `other` from a tensor that
        holds no elements as they are, and to `failed` with an error."""
        e = self.e
        exchange, look, noted = (e.fresh(name) for name in ("exchange", "look", "torch_noted"))
        inner = self.inner(tensor)
        # Views that torch negates when it reads them, functional and batched tensors look plain otherwise; their dispatch keys tell.
        keys = e.load("i64", e.offset(inner, self.get(self.state, State.TORCH_KEYS_AT), "i8"), 8)
        keys = e.inst("i64", f"or i64 {keys.text}, {self.get(self.state, State.TORCH_GRADED).text}")  # as if they were not made in inference mode
        here, elsewhere = (self.same(keys, self.get(self.state, slot)) for slot in (State.TORCH_KEYS, State.TORCH_DEVICE_KEYS))
        self.require(e.inst("i1", f"or i1 {here.text}, {elsewhere.text}"), other)
        self.put(note, Argument.KIND, Value(str(int(Kind.TORCH)), "i64"))
        self.put(note, Argument.FLAGS, Value("0", "i64"))
        e.cbr(self.same(self.get(self.state, State.TORCH_STORAGE_AT), 0), exchange, look)
        e.place(look)
        self.look(inner, note, here, other)
        e.br(noted)
        e.place(exchange)
        self.exchange(tensor, note, position, other, failed)
        e.br(noted)
        e.place(noted)

    def at(self, base: Value, offset: State, type: str = "i64") -> Value:
        """A field of a C++ object, of which the state knows where it is."""
        return self.e.load(type, self.e.offset(base, self.get(self.state, offset), "i8"), {"i8": 1, "i32": 4}.get(type, 8))

    def look(self, inner: Value, note: Value, here: Value, other: str) -> None:
        """The fields of a C++ tensor."""
        e = self.e
        storage = self.at(inner, State.TORCH_STORAGE_AT, "ptr")
        self.require(e.inst("i1", f"icmp eq {self.at(storage, State.TORCH_LAZY_AT, 'i8')}, 0"), other)
        data = self.at(storage, State.TORCH_DATA_AT)
        self.require(e.icmp("ne", data, 0), other)
        self.put(note, Argument.DATA, data)
        self.put(note, Argument.OFFSET, self.at(inner, State.TORCH_OFFSET_AT))
        rank = self.at(inner, State.TORCH_SIZES_AT)
        inside = e.offset(e.offset(inner, self.get(self.state, State.TORCH_SIZES_AT), "i8"), 1, "i64")
        few = e.icmp("sle", rank, TORCH_INLINE)  # more of them lie elsewhere, one after the other
        extents = e.inst("ptr", f"select i1 {few.text}, {inside}, {e.load('ptr', inside, 8)}")
        between = e.inst("i64", f"select i1 {few.text}, i64 {TORCH_INLINE}, {rank}")
        self.put(note, Argument.RANK, rank)
        self.put(note, Argument.EXTENTS, self.e.address(extents))
        self.put(note, Argument.STRIDES, self.e.address(e.offset(extents, between, "i64")))
        kind = e.inst("i64", f"zext {self.at(inner, State.TORCH_DTYPE_AT, 'i32')} to i64")
        self.put(note, Argument.DTYPE, e.inst("i64", f"and {kind}, 65535"))
        number = e.inst("i64", f"shl i64 {e.inst('i64', f'lshr {kind}, 24').text}, 32")
        device = e.inst("i64", f"or {number}, {self.get(self.state, State.TORCH_DEVICE_TYPE).text}")
        self.put(note, Argument.DEVICE, e.inst("i64", f"select {here}, i64 {HERE}, {device}"))

    def exchange(self, tensor: Value, note: Value, position: Index, other: str, failed: str) -> None:
        """DLTensor: data, device, rank | dtype << 32, extents, strides, byte offset."""
        e = self.e
        view = e.offset(self.tensors, e.mul(position, DLTENSOR_SLOTS), "i64")
        exchange = self.get(self.state, State.TORCH_EXCHANGE, "ptr")
        status = e.inst("i32", f"call i32 {exchange.text}({tensor}, {view})")
        self.require(e.inst("i1", f"icmp eq i32 {status.text}, 0"), failed)
        self.put(note, Argument.DEVICE, self.get(view, 1))
        self.require(self.same(self.get(view, 5), 0), other)
        self.require(e.icmp("ne", self.get(view, 0), 0), other)
        packed = self.get(view, 2)
        self.put(note, Argument.OFFSET, Value("0", "i64"))
        self.put(note, Argument.RANK, e.inst("i64", f"and i64 {packed.text}, 4294967295"))
        self.put(note, Argument.DTYPE, e.inst("i64", f"lshr i64 {packed.text}, 32"))
        for slot, source in ((Argument.DATA, 0), (Argument.EXTENTS, 3), (Argument.STRIDES, 4)):
            self.put(note, slot, self.get(view, source))
