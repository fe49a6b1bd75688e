"""Atomic adds while several threads run a kernel: vectors are added under a lock that their address chooses.

One lock serves a vector of up to 32 elements, where an atomic instruction serves a single one, and every element type adds alike.
On one thread there are no locks, and the add is plain vector code behind a branch that always goes the same way.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.cpu.llvm.text import Emitter, Module, Value
from tilejit.runtime.call import abi
from tilejit.runtime.call.abi import Team
from tilejit.tile_ir import dialect as d

STRIPE_BITS = 10
"""Addresses that agree above these bits share a lock; longer than any vector, so that one has two locks at most."""


def locks_of(f: FunctionWriter) -> Value | None:
    """The locks of this call, null on one thread; None where no kernel of the program is ever shared out, or there is no pool."""
    if not host().is_x86 or not any(isinstance(op, d.ForOp | d.LaunchOp) and "share" in op.attributes for op in f.unit.program.module.walk()):
        return None
    return f.e.load("ptr", f.e.offset(f.context, abi.LOCKS, "i64"), 8)


@contextmanager
def locked(e: Emitter, locks: Value, pointer: Value, size: int) -> Generator[None]:
    """Around code that reads and writes `size` bytes at `pointer`."""
    take, release = _functions(e.module)
    shared = e.inst("i1", f"icmp ne ptr {locks.text}, null")
    with e.when(shared, "lock"):
        e.void(f"call void @{take}({locks}, {pointer}, i64 {size})")
    yield
    with e.when(shared, "unlock"):
        e.void(f"call void @{release}({locks}, {pointer}, i64 {size})")


def with_pause(module: Module, text: str) -> str:
    """LLVM text in which `; pause` stands where a thread spins: for processors that have an instruction for that."""
    if not host().is_x86:
        return text
    module.declare("llvm.x86.sse2.pause", "declare void @llvm.x86.sse2.pause()")
    return text.replace("; pause", "call void @llvm.x86.sse2.pause()")


def _functions(module: Module) -> tuple[str, str]:
    names = "atomic.take", "atomic.release"
    if names[0] not in module.functions:
        module.functions["atomic.lock_of"] = _LOCK_OF
        module.functions["atomic.take_one"] = with_pause(module, _TAKE_ONE)
        module.functions[names[0]] = _TAKE
        module.functions[names[1]] = _RELEASE
    return names


_LOCK_OF = f"""
define internal ptr @atomic.lock_of(ptr %locks, i64 %address) alwaysinline {{
  %line = lshr i64 %address, {STRIPE_BITS}
  %number = and i64 %line, {abi.LOCK_COUNT - 1}
  %slot = shl i64 %number, 6
  %lock = getelementptr i8, ptr %locks, i64 %slot
  ret ptr %lock
}}
"""


def take_text(name: str, parameters: str, result: str, held: str, tired: str) -> str:
    """A function that takes the lock `%lock` and then does `held`; after long spinning it does `tired`, which may go back to `%try`."""
    return f"""
define internal {result} @{name}({parameters}) noinline {{
entry:
  br label %try
try:
  %old = atomicrmw xchg ptr %lock, i64 1 seq_cst, align 8
  %free = icmp eq i64 %old, 0
  br i1 %free, label %held, label %look
look:
  %n = phi i64 [ 0, %try ], [ %n1, %pause ]
  %now = load atomic i64, ptr %lock monotonic, align 8
  %seems_free = icmp eq i64 %now, 0
  br i1 %seems_free, label %try, label %wait
wait:
  %n1 = add i64 %n, 1
  ; Its holder may have lost its processor.
  %long = icmp ugt i64 %n1, 200
  br i1 %long, label %tired, label %pause
pause:
  ; pause
  br label %look
held:
  {held}
tired:
{tired}
}}
"""


_TAKE_ONE = take_text("atomic.take_one", "ptr %locks, ptr %lock", "void", "ret void", f"""
  %yield.at = getelementptr i64, ptr %locks, i64 {Team.YIELD - Team.LOCKS}
  %let_others = load ptr, ptr %yield.at, align 8
  call void %let_others()
  br label %try
""")
_TAKE = """
define internal void @atomic.take(ptr %locks, ptr %pointer, i64 %size) noinline {
entry:
  %first = ptrtoint ptr %pointer to i64
  %past = add i64 %first, %size
  %last = sub i64 %past, 1
  %a = call ptr @atomic.lock_of(ptr %locks, i64 %first)
  %b = call ptr @atomic.lock_of(ptr %locks, i64 %last)
  ; In the order of their addresses, so that no two threads wait for each other.
  %ordered = icmp ule ptr %a, %b
  %low = select i1 %ordered, ptr %a, ptr %b
  %high = select i1 %ordered, ptr %b, ptr %a
  call void @atomic.take_one(ptr %locks, ptr %low)
  %one = icmp eq ptr %a, %b
  br i1 %one, label %done, label %second
second:
  call void @atomic.take_one(ptr %locks, ptr %high)
  br label %done
done:
  ret void
}
"""
_RELEASE = """
define internal void @atomic.release(ptr %locks, ptr %pointer, i64 %size) noinline {
  %first = ptrtoint ptr %pointer to i64
  %past = add i64 %first, %size
  %last = sub i64 %past, 1
  %a = call ptr @atomic.lock_of(ptr %locks, i64 %first)
  %b = call ptr @atomic.lock_of(ptr %locks, i64 %last)
  store atomic i64 0, ptr %a release, align 8
  ; A second store to one and the same lock would free it under whoever took it meanwhile.
  %one = icmp eq ptr %a, %b
  br i1 %one, label %done, label %second
second:
  store atomic i64 0, ptr %b release, align 8
  br label %done
done:
  ret void
}
"""
