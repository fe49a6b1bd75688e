"""The native part of a CUDA call as LLVM text: evaluates the launch list of an entry and hands each launch to the driver.

    i64 tj_launch(ptr block, ptr context)

It is called like a kernel of the CPU, with the same argument block (runtime/call/abi.py); the tables it works from are in
runtime/cuda/launch_abi.py. It is one piece of code for every entry: nothing is compiled to make a call fast.
"""

from __future__ import annotations

from collections.abc import Callable

from tilejit.backends.cpu.dispatch.steps import Words
from tilejit.backends.cpu.llvm.text import Emitter, Index, Module, Value
from tilejit.runtime.call import abi
from tilejit.runtime.call.dispatch_abi import SLOW
from tilejit.runtime.cuda.launch_abi import CUDA_DEVICE, ELSEWHERE, FAILED, HEAR, LAUNCH, MAX_DEPTH, MAX_PARAMETERS, Move, Op, Record, Table, Variant
from tilejit.runtime.cuda.words import CLEAR

_GRID = 3
_CONFIG_SLOTS = 7  # CUlaunchConfig: seven 32-bit numbers, padding, stream, attributes, their count
_BYTES_OF_ROW = 1 | (1 | 8 << 8 | 1 << 16) << 32
"""Rank and data type of a DLTensor: a vector of bytes."""
_DELETER, _DATA = 2, 4
"""Slots of DLManagedTensorVersioned, which starts with its version."""


def add_launches(module: Module) -> None:
    """Write the function into `module`."""
    _Launches(module).emit()
    unheard = Emitter(module, HEAR, "void", [Value(f"%{name}", "ptr") for name in ("context", "kind", "message")])
    unheard.void("ret void")
    unheard.finish()


class _Launches(Words):
    def __init__(self, module: Module) -> None:
        self.block, self.context = Value("%block", "ptr"), Value("%context", "ptr")
        super().__init__(Emitter(module, LAUNCH, "i64", [self.block, self.context]))
        self.values = self.e.alloca(f"[{_GRID + MAX_PARAMETERS} x i64]")
        self.places = self.e.alloca(f"[{_GRID + MAX_PARAMETERS} x i64]")
        self.config = self.e.alloca(f"[{_CONFIG_SLOTS} x i64]")
        self.stack = self.e.alloca(f"[{MAX_DEPTH} x i64]")
        self.out = self.e.alloca("i64")
        self.wanted = self.e.alloca("[7 x i64]")
        """A DLTensor, and its only extent."""
        self.taken = self.e.alloca("i64")
        """The memory of the call as DLPack hands it out; 0: none."""
        self.base = self.e.alloca("i64")
        self.begun = self.e.alloca("i64")
        """1: something was launched."""

    # the function -----------------------------------------------------------------------------------------------------------

    def emit(self) -> None:
        e = self.e
        table = self.get(self.context, abi.TABLE, "ptr")
        self.require(e.icmp("eq", self.get(self.get(table, Table.WORD, "ptr"), 0), CLEAR), "slow")
        number = e.inst("i32", f"trunc {self.get(table, Table.DEVICE)} to i32")
        status = e.inst("i32", f"call i32 {self.get(table, Table.STREAM, 'ptr').text}(i32 {CUDA_DEVICE}, {number}, {self.out})")
        self.require(e.inst("i1", f"icmp eq i32 {status.text}, 0"), "slow")
        self.put(self.config, 4, self.get(self.out, 0))
        self.allocate(table)
        self.put(self.begun, 0, 0)
        records = self.get(table, Table.RECORDS, "ptr")
        with e.loop(0, self.get(table, Table.COUNT), name="launch") as loop:
            self.launch(self.get(records, loop.iv, "ptr"), table)
        done = e.label
        e.br("end")
        e.place("failed")
        e.br("end")
        e.place("end")
        result = e.phi("i64", [(e.i64(0), done), (self.failure, "failed")])
        self.release()
        e.void(f"ret {result}")
        e.place("slow")
        e.void(f"ret i64 {SLOW}")
        e.finish()

    # memory -----------------------------------------------------------------------------------------------------------------

    def allocate(self, table: Value) -> None:
        """What the launches need, at once, from the allocator of the caller's framework."""
        e = self.e
        self.put(self.taken, 0, 0)
        tape = self.get(table, Table.BYTES, "ptr")
        e.cbr(self.is_null(tape), "placed", "wanted")
        e.place("wanted")
        size, _ = self.evaluate(tape)
        device = e.inst("i64", f"or i64 {CUDA_DEVICE}, {e.inst('i64', f'shl {self.get(table, Table.DEVICE)}, 32').text}")
        extent = e.offset(self.wanted, 6, "i64")
        for slot, value in enumerate((e.i64(0), device, e.i64(_BYTES_OF_ROW), e.address(extent), e.i64(0), e.i64(0), size)):
            self.put(self.wanted, slot, value)
        allocate, hear = (self.get(table, slot, "ptr") for slot in (Table.ALLOCATE, Table.HEAR))
        status = e.inst("i32", f"call i32 {allocate.text}({self.wanted}, {self.taken}, ptr null, {hear})")
        self.require(e.inst("i1", f"icmp eq i32 {status.text}, 0"), "slow")  # Python asks again, and has the words for it
        self.put(self.base, 0, self.get(self.get(self.taken, 0, "ptr"), _DATA))
        e.br("placed")
        e.place("placed")

    def release(self) -> None:
        """The framework gives it to nobody who works on another stream before this one is done."""
        e = self.e
        taken = self.get(self.taken, 0, "ptr")
        e.cbr(self.is_null(taken), "released", "release")
        e.place("release")
        e.void(f"call void {self.get(taken, _DELETER, 'ptr').text}({taken})")
        e.br("released")
        e.place("released")

    def launch(self, record: Value, table: Value) -> None:
        e, driver = self.e, self.get(table, Table.LAUNCH, "ptr")
        variant = e.offset(record, self.numbers(record), "i64")
        whole = [e.icmp("sgt", self.get(self.values, axis), 0) for axis in range(_GRID)]
        some = e.inst("i1", f"and i1 {whole[0].text}, {e.inst('i1', f'and i1 {whole[1].text}, {whole[2].text}').text}")
        launch, launched = e.fresh("go"), e.fresh("launched")
        e.cbr(some, launch, launched)
        e.place(launch)
        self.fill(variant)
        function, parameters = self.get(variant, Variant.FUNCTION, "ptr"), e.offset(self.places, _GRID, "i64")
        zero, ready, said = e.fresh("zero"), e.fresh("ready"), e.fresh("said")
        place = self.get(record, Record.ZEROED)
        e.cbr(e.icmp("eq", place, 0), ready, zero)
        e.place(zero)
        address, size = self.get(self.values, place), self.get(self.values, e.add(place, 1))
        zeroed = e.inst("i32", f"call i32 {self.get(table, Table.ZERO, 'ptr').text}({address}, i8 0, {size}, {self.get(self.config, 4, 'ptr')})")
        e.cbr(e.inst("i1", f"icmp eq i32 {zeroed.text}, 0"), ready, said)
        e.place(ready)
        started = e.inst("i32", f"call i32 {driver.text}({self.config}, {function}, {parameters}, ptr null)")
        e.br(said)
        e.place(said)
        status = e.phi("i32", [(zeroed, zero), (started, ready)])
        self.failure = self.failed(e.inst("i64", f"zext i32 {status.text} to i64"))
        self.put(self.begun, 0, 1)
        e.cbr(e.inst("i1", f"icmp eq i32 {status.text}, 0"), launched, "failed")
        e.place(launched)

    def failed(self, status: Value) -> Value:
        """What a status of the driver means: the first launch of a thread that works elsewhere is left to Python, which goes where the kernel is."""
        e = self.e
        first, second = (e.icmp("eq", status, number) for number in ELSEWHERE)
        elsewhere = e.inst("i1", f"or i1 {first.text}, {second.text}")
        again = e.inst("i1", f"and i1 {elsewhere.text}, {e.icmp('eq', self.get(self.begun, 0), 0).text}")
        return e.inst("i64", f"select i1 {again.text}, i64 {SLOW}, i64 {e.i64(e.add(status, FAILED)).text}")

    def numbers(self, record: Value) -> Value:
        """All numbers of a launch, into `values`; the variant to take: the aligned one if everything that must be is a multiple of 16."""
        e = self.e
        given, moves = self.get(record, Record.GIVEN, "ptr"), self.get(record, Record.MOVES, "ptr")
        with e.loop(0, self.get(record, Record.NUMBERS), name="given") as loop:
            self.put(self.values, loop.iv, self.get(given, loop.iv))
            self.put(self.places, loop.iv, e.address(e.offset(self.values, loop.iv, "i64")))
        with e.loop(0, self.get(record, Record.MOVE_COUNT), carried=[self.get(record, Record.REST)], name="move") as loop:
            move = e.offset(moves, e.mul(loop.iv, int(Move.SIZE)), "i64")
            number = self.get(self.block, self.get(move, Move.SLOT))
            self.put(self.values, self.get(move, Move.PLACE), number)
            loop.next = [self.rest(loop.carried[0], number, self.get(move, Move.MASK))]
        tapes = self.get(record, Record.TAPES, "ptr")
        with e.loop(0, self.get(record, Record.TAPE_COUNT), carried=[loop.results[0], tapes], name="tape") as loop:
            before, start = loop.carried
            number, end = self.evaluate(e.offset(start, 2, "i64"))
            self.put(self.values, self.get(start, 0), number)
            loop.next = [self.rest(before, number, self.get(start, 1)), end]
        return e.inst("i64", f"select i1 {e.icmp('eq', loop.results[0], 0).text}, i64 {int(Record.ALIGNED)}, i64 {int(Record.GENERAL)}")

    def rest(self, before: Value, number: Value, mask: Value) -> Value:
        kept = self.e.inst("i64", f"and i64 {number.text}, {mask.text}")
        return self.e.inst("i64", f"or i64 {before.text}, {kept.text}")

    def fill(self, variant: Value) -> None:
        """CUlaunchConfig; the stream is there already."""
        e = self.e
        grid = e.i64(e.mul(self.get(self.values, 0), self.get(variant, Variant.CLUSTERS)))
        numbers = [grid, self.get(self.values, 1), self.get(self.values, 2), self.get(variant, Variant.THREADS), e.i64(1), e.i64(1)]
        for at, value in enumerate([*numbers, self.get(variant, Variant.SHARED)]):
            e.store(e.inst("i32", f"trunc {value} to i32"), e.offset(self.config, at, "i32"), 4)
        self.put(self.config, 5, self.get(variant, Variant.ATTRIBUTES))
        self.put(self.config, 6, self.get(variant, Variant.ATTRIBUTE_COUNT))

    # numbers ----------------------------------------------------------------------------------------------------------------

    def evaluate(self, tape: Value) -> tuple[Value, Value]:
        """The number of a tape, and where that ends."""
        e = self.e
        stem = e.fresh("tape")
        head, end = f"{stem}.head", f"{stem}.end"
        before = e.label
        e.br(head)
        e.place(head)
        mark = e.mark()
        at, depth = Value(f"%{stem}.at", "ptr"), Value(f"%{stem}.depth", "i64")
        steps: list[tuple[str, Value, Value]] = []
        rows = " ".join(f"i64 {int(op)}, label %{stem}.{op.name}" for op in Op if op is not Op.END)
        e.void(f"switch i64 {self.get(at, 0).text}, label %{end} [ {rows} ]")
        for op in (Op.CONSTANT, Op.SLOT, Op.MEMORY):
            e.place(f"{stem}.{op.name}")
            word = self.get(self.base, 0) if op is Op.MEMORY else self.get(at, 1)
            self.put(self.stack, depth, self.get(self.block, word) if op is Op.SLOT else word)
            steps.append((e.label, e.offset(at, 1 if op is Op.MEMORY else 2, "i64"), e.i64(e.add(depth, 1))))
            e.br(head)
        for op, form in self.operators().items():
            e.place(f"{stem}.{op.name}")
            left, right = e.i64(e.sub(depth, 2)), e.i64(e.sub(depth, 1))
            self.put(self.stack, left, form(self.get(self.stack, left), self.get(self.stack, right)))
            steps.append((e.label, e.offset(at, 1, "i64"), right))
            e.br(head)
        tapes = ", ".join([f"[ {tape.text}, %{before} ]", *(f"[ {step.text}, %{label} ]" for label, step, _ in steps)])
        depths = ", ".join([f"[ 0, %{before} ]", *(f"[ {step.text}, %{label} ]" for label, _, step in steps)])
        e.insert_at(mark, [f"{at.text} = phi ptr {tapes}", f"{depth.text} = phi i64 {depths}"])
        e.place(end)
        return self.get(self.stack, 0), e.offset(at, 1, "i64")

    def operators(self) -> dict[Op, Callable[[Value, Value], Index]]:
        e = self.e

        def floor(a: Index, b: Value) -> Value:
            """Rounded down, for a positive divisor."""
            quotient = e.inst("i64", f"sdiv i64 {e.i64(a).text}, {b.text}")
            rest = e.sub(a, e.mul(quotient, b))
            return e.inst("i64", f"add i64 {quotient.text}, {e.inst('i64', f'ashr i64 {e.i64(rest).text}, 63').text}")

        return {
            Op.ADD: e.add,
            Op.SUB: e.sub,
            Op.MUL: e.mul,
            Op.MINIMUM: e.min,
            Op.MAXIMUM: e.max,
            Op.FLOORDIV: floor,
            Op.CEILDIV: lambda a, b: e.sub(0, floor(e.sub(0, a), b)),
            Op.MOD: lambda a, b: e.sub(a, e.mul(floor(a, b), b)),
        }
