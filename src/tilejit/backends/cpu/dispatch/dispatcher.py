"""The native dispatcher as LLVM text: guards the arguments of a call against tables, then runs the kernel without the GIL.

CPython calls it through the vectorcall pointer of a callable (runtime/call/native_type.py): a jit function, a compiled program, the launcher of a
source-backed kernel. Whatever it is not sure of goes to the Python dispatcher with the same arguments, so it decides about speed and never about
meaning. Object layouts are those of CPython and NumPy 2 on 64-bit machines, checked at start-up (runtime/call/layout.py); tensors of torch come
through DLPack's C exchange.
"""

from __future__ import annotations

from tilejit import float_mode
from tilejit.backends.cpu.dispatch.launches import add_launches
from tilejit.backends.cpu.dispatch.new import NewTensors
from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.cpu.llvm.text import Module, Value
from tilejit.runtime.call import abi
from tilejit.runtime.call.dispatch_abi import SLOW, Guard, Kind, Row, State
from tilejit.runtime.call.interrupt import Record

_SWAP_EVERY = 64
_FPCR_MASK = 0x1C80000
"""Of AArch64: rounding, and what is flushed."""


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
    "PyTuple_New": "declare ptr @PyTuple_New(i64)",
    "PyTuple_SetItem": "declare i32 @PyTuple_SetItem(ptr, i64, ptr)",
    "memset": "declare ptr @memset(ptr, i32, i64)",
    "PyErr_Clear": "declare void @PyErr_Clear()",
    "Py_IncRef": "declare void @Py_IncRef(ptr)",
    "Py_DecRef": "declare void @Py_DecRef(ptr)",
}


class _Dispatcher(NewTensors):
    def emit(self) -> None:
        e = self.e
        self.put(self.asked, 0, Value("0", "i64"))
        e.br("start")
        e.place("start")
        self.require(self.same(self.float_mode(), self.get(self.state, State.FLOAT_MODE)), "slow")
        self.check_drift()
        self.arrange()
        self.note_arguments()
        self.try_entries()
        e.place("slow")
        target = self.get(self.state, State.SLOW, "ptr")
        result = e.inst("ptr", f"call ptr @PyObject_Vectorcall({target}, ptr %args, {self.positional}, ptr %names)")
        e.void(f"ret {result}")
        e.finish()

    def float_mode(self) -> Value:
        """The bits of this thread's processor that change what arithmetic gives; elsewhere than on x86-64 only the usual ones have a way here."""
        e = self.e
        if host().is_x86:
            e.module.declare("llvm.x86.sse.stmxcsr", "declare void @llvm.x86.sse.stmxcsr(ptr)")
            e.void(f"call void @llvm.x86.sse.stmxcsr({self.mode})")
            found, mask = e.inst("i64", f"zext {e.load('i32', self.mode, 4)} to i64"), float_mode.MASK
        else:
            e.module.declare("llvm.aarch64.get.fpcr", "declare i64 @llvm.aarch64.get.fpcr()")
            found, mask = e.inst("i64", "call i64 @llvm.aarch64.get.fpcr()"), _FPCR_MASK
        return e.inst("i64", f"and {found}, {mask}")

    def check_drift(self) -> None:
        """Every word that would tell of a changed captured value is as it was."""
        e = self.e
        pairs = self.get(self.state, State.DRIFT, "ptr")
        with e.loop(0, self.get(pairs, 0), name="drift") as loop:
            at = e.add(e.mul(loop.iv, 2), 2)
            known = self.get(pairs, e.add(at, 1))
            self.require(self.same(self.get(self.get(pairs, at, "ptr"), 0), known), "slow")

    def ask(self) -> None:
        """Let Python say whether the answers that no word can tell are what they were. It may have changed anything: then everything is looked at once more."""
        e = self.e
        ask = self.get(self.get(self.state, State.DRIFT, "ptr"), 1)
        e.cbr(self.same(ask, self.get(self.asked, 0)), "answered", "question")
        e.place("question")
        function = self.pointer(ask)
        e.void(f"call void @Py_IncRef({function})")
        answer = e.inst("ptr", f"call ptr @PyObject_Vectorcall({function}, {self.call_args}, i64 0, ptr null)")
        yes = self.same(self.e.address(answer), self.get(self.state, State.TRUE))
        valid = self.same(self.get(self.get(self.state, State.DRIFT, "ptr"), 1), ask)  # no other thread has made new tables meanwhile
        e.void(f"call void @Py_DecRef({function})")
        self.require(e.inst("i1", f"icmp ne ptr {answer.text}, null"), "raised")
        e.void(f"call void @Py_DecRef({answer})")
        self.require(e.inst("i1", f"and {yes}, {valid.text}"), "slow")
        self.put(self.asked, 0, ask)
        e.br("start")
        e.place("answered")

    def try_entries(self) -> None:
        e = self.e
        table = self.get(self.state, State.ROWS, "ptr")
        with e.loop(0, self.get(self.state, State.ROW_COUNT), name="entry") as loop:
            entry = self.get(table, loop.iv, "ptr")
            self.guard(entry)
            self.check_overlap(entry)
            self.ask()
            self.move_to_front(table, loop.iv, entry)
            self.run(entry)
            e.place("next_entry")
        e.br("slow")
        e.place("raised")
        e.void("ret ptr null")
        e.place("no_exchange")
        e.void("call void @PyErr_Clear()")
        e.br("slow")

    def note_writes(self, entry: Value) -> None:
        """Count the write of each output of torch, as its own operators do, so that a backward that needs the old content is an error."""
        e = self.e
        with e.loop(0, self.count, name="write") as loop:
            guard = self.guard_of(entry, loop.iv)
            output, of_torch = self.same(self.get(guard, Guard.IS_OUTPUT), 1), self.same(self.get(guard, Guard.KIND), int(Kind.TORCH))
            e.cbr(e.inst("i1", f"and i1 {output.text}, {of_torch.text}"), "write.tensor", "write.noted")
            e.place("write.tensor")
            inner = self.inner(self.get(self.given, loop.iv, "ptr"))
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
        self.put(table, before, self.e.address(entry))
        self.put(table, position, previous)
        e.br(f"{label}.done")
        e.place(f"{label}.done")

    # running --------------------------------------------------------------------------------------------------------------

    def run(self, entry: Value) -> None:
        e = self.e
        arena = self.get(self.state, State.ARENA, "ptr")
        needed = self.same(self.get(entry, Row.ARENA_NEEDED), 1)
        busy = e.inst("i1", f"and i1 {needed.text}, {self.same(self.get(arena, 0), 0).text}")
        e.cbr(busy, "slow", "free")
        e.place("free")
        self.allocate(entry)
        # Once more: what made the new tensors may have called a kernel.
        base, end = self.get(arena, 0), self.get(arena, 1)
        busy = e.inst("i1", f"and i1 {needed.text}, {self.same(base, 0).text}")
        e.cbr(busy, "made_in_vain", "go")
        e.place("go")
        self.note_writes(entry)
        # Kernels without scratch leave the arena alone, so that they run side by side.
        self.put(arena, 0, e.inst("i64", f"select i1 {needed.text}, i64 0, i64 {base.text}"))
        threads, team, table = (self.get(entry, slot) for slot in (Row.THREADS, Row.TEAM, Row.TABLE))
        for slot, value in ((abi.ARENA_BASE, base), (abi.ARENA_END, end), (abi.THREADS, threads), (abi.TEAM, team), (abi.TABLE, table)):
            self.put(self.context, slot, value)
        for slot in (abi.LOCKS, abi.INTERRUPT, abi.LOOKED, abi.DUE, abi.TURNS):
            self.put(self.context, slot, Value("0", "i64"))
        self.put(self.state, State.HITS, e.i64(e.add(self.get(self.state, State.HITS), 1)))
        status = self.call_kernel(entry, self.get(entry, Row.KERNEL, "ptr"))
        with e.when(needed, "restore"):
            self.put(arena, 0, base)
        e.cbr(self.same(status, 0), "done", "failed")
        e.place("done")
        self.result(entry)
        e.place("failed")
        self.drop(entry)
        self.require(e.icmp("ne", status, SLOW), "slow")
        self.raise_failure(entry, status)
        e.place("not_made")
        self.drop(entry)
        e.void("ret ptr null")
        e.place("made_unknown")
        e.void("call void @PyErr_Clear()")
        e.br("made_in_vain")
        e.place("made_in_vain")
        self.drop(entry)
        e.br("slow")

    def call_kernel(self, entry: Value, kernel: Value) -> Value:
        """Without the GIL, unless the kernel is over before another thread could take it. Launches on a GPU hear of no signals: they do not wait for it."""
        e = self.e
        brief, long, ran, there, here = (e.fresh(name) for name in ("brief", "long", "ran", "there", "here"))
        e.cbr(self.same(self.get(entry, Row.BRIEF), 1), brief, long)
        e.place(brief)
        first = e.inst("i64", f"call i64 {kernel.text}({self.block}, {self.context})")
        e.br(ran)
        e.place(long)
        e.cbr(self.same(self.get(entry, Row.TABLE), 0), here, there)
        e.place(there)
        thread = e.inst("ptr", "call ptr @PyEval_SaveThread()")
        launched = e.inst("i64", f"call i64 {kernel.text}({self.block}, {self.context})")
        e.void(f"call void @PyEval_RestoreThread({thread})")
        e.br(ran)
        e.place(here)
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
        e.br(ran)
        e.place(ran)
        return e.phi("i64", [(first, brief), (launched, there), (second, here)])

    def raise_failure(self, entry: Value, status: Value) -> None:
        """Hand the failure to Python, which raises."""
        e = self.e
        numbers = [self.get(entry, Row.ID), status, *(self.get(self.context, abi.FAILURE_VALUES + i) for i in range(4))]
        objects = [e.inst("ptr", f"call ptr @PyLong_FromLongLong({number})") for number in numbers]
        for position, thing in enumerate(objects):
            self.put(self.notes, position, self.e.address(thing))
        target = self.get(self.state, State.FAILED, "ptr")
        result = e.inst("ptr", f"call ptr @PyObject_Vectorcall({target}, {self.notes}, i64 {len(objects)}, ptr null)")
        for thing in objects:
            e.void(f"call void @Py_DecRef({thing})")
        e.void(f"ret {result}")
