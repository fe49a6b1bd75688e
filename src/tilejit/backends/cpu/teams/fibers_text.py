"""Fibers and FIFOs as LLVM text: the part of the generated code that is the same for every kernel.

A fiber is a kernel with a stack of its own; one runs at a time, until it waits. Everything that can be waited for is a counter that
must reach a target, so the scheduler is one loop: the next fiber of the ring whose counter has got there goes on. No fiber left
that can go on is a deadlock, which leaves through the root: the code that began to run kernels side by side.
"""

from __future__ import annotations

import enum

from tilejit.backends.cpu.llvm.host import Host
from tilejit.backends.cpu.llvm.text import Module
from tilejit.backends.cpu.teams.accesses import with_accesses
from tilejit.backends.cpu.teams.fibers_layout import BARRIER_CLASSES, Fiber, Queue
from tilejit.backends.cpu.teams.fifos_text import FIFOS_TEXT
from tilejit.errors import UnsupportedFeatureError
from tilejit.ops.sync import MIXED_CORES
from tilejit.runtime.call import abi
from tilejit.tile_ir.transfers import BACKLOG

_SAVED = ("rbp", "rbx", "r12", "r13", "r14", "r15")
_X86 = [*(f"pushq %{name}" for name in _SAVED), "movq %rsp, (%rdi)", "movq (%rsi), %rsp", *(f"popq %{name}" for name in reversed(_SAVED)), "retq"]
_PAIRS = [*((f"x{i}", f"x{i + 1}") for i in range(19, 31, 2)), *((f"d{i}", f"d{i + 1}") for i in range(8, 16, 2))]
_ARM = [
    "sub sp, sp, #160",
    *(f"stp {a}, {b}, [sp, #{16 * i}]" for i, (a, b) in enumerate(_PAIRS)),
    "mov x9, sp",
    "str x9, [x0]",
    "ldr x9, [x1]",
    "mov sp, x9",
    *(f"ldp {a}, {b}, [sp, #{16 * i}]" for i, (a, b) in enumerate(_PAIRS)),
    "add sp, sp, #160",
    "ret",
]


class Machine(enum.Enum):
    """How a processor changes stacks: the code, bytes saved on the stack, where in them the first return address lies."""

    X86 = (_X86, 64, 48)
    ARM = (_ARM, 160, 88)


def machine_of(host: Host) -> Machine:
    """The way of changing stacks on this processor."""
    if "windows" not in host.triple:
        if host.is_x86:
            return Machine.X86
        if host.triple.startswith(("aarch64", "arm64")):
            return Machine.ARM
    raise UnsupportedFeatureError(
        f"kernels that wait for each other do not run on {host.triple}: only on x86-64 and AArch64, with Linux or macOS",
        help="run them with platform='reference'",
    )


def define(module: Module, machine: Machine, stack_bytes: int) -> None:
    """Add the functions to a module."""
    code, saved, address = machine.value
    values: dict[str, object] = {f"FIBER_{slot.name}": 8 * slot for slot in Fiber}
    values |= {f"QUEUE_{slot.name}": 8 * slot for slot in Queue}
    values |= {"SAVED": saved, "ADDRESS": address, "CODE": r"\0A".join(code), "STACK": stack_bytes}
    values |= {"CTX_FIBER": 8 * abi.FIBER, "CTX_END": 8 * abi.ARENA_END, "CTX_VALUES": 8 * abi.FAILURE_VALUES}
    values |= {"CLASSES": len(BARRIER_CLASSES), "BACKLOG": BACKLOG, "MIXED_CORES": MIXED_CORES}
    text = _TEXT + FIFOS_TEXT
    for name in sorted(values, key=len, reverse=True):
        text = text.replace(f"${name}", str(values[name]))
    module.functions["fibers"] = with_accesses(text, "i8")


_TEXT = r"""
define internal void @fiber_switch(ptr %from, ptr %to) naked noinline nounwind {
  call void asm sideeffect "$CODE", "~{memory}"()
  unreachable
}

; The next fiber that can go on, after %self.
define internal void @fiber_next(ptr %context, ptr %self) noinline {
entry:
  %start = get ptr %self $FIBER_NEXT
  br label %look
look:
  %fiber = phi ptr [ %start, %entry ], [ %following, %busy ]
  %counter = get ptr %fiber $FIBER_COUNTER
  %reached = load i64, ptr %counter, align 8
  %target = get i64 %fiber $FIBER_TARGET
  %ready = icmp sge i64 %reached, %target
  br i1 %ready, label %found, label %busy
busy:
  %following = get ptr %fiber $FIBER_NEXT
  %round = icmp eq ptr %following, %start
  br i1 %round, label %stuck, label %look
stuck:
  call void @fiber_stuck(ptr %context, ptr %self)
  %root = get ptr %self $FIBER_ROOT
  br label %found
found:
  %to = phi ptr [ %fiber, %look ], [ %root, %stuck ]
  %same = icmp eq ptr %to, %self
  br i1 %same, label %back, label %change
change:
  put ptr %to %context $CTX_FIBER
  call void @fiber_switch(ptr %self, ptr %to)
  br label %back
back:
  %end = get i64 %self $FIBER_ARENA_END
  put i64 %end %context $CTX_END
  ret void
}

; Nobody can go on: the first fiber that waits for something says where, another one is named beside it.
define internal void @fiber_stuck(ptr %context, ptr %self) noinline {
entry:
  %root = get ptr %self $FIBER_ROOT
  br label %look
look:
  %fiber = phi ptr [ %root, %entry ], [ %following, %next ]
  %first = phi i64 [ 0, %entry ], [ %first.now, %next ]
  %second = phi i64 [ 0, %entry ], [ %second.now, %next ]
  %missing = phi i64 [ 0, %entry ], [ %missing.now, %next ]
  %row = get i64 %fiber $FIBER_ROW
  %none = icmp eq i64 %row, 0
  br i1 %none, label %next, label %waits
waits:
  %new = icmp eq i64 %first, 0
  %counter = get ptr %fiber $FIBER_COUNTER
  %reached = load i64, ptr %counter, align 8
  %target = get i64 %fiber $FIBER_TARGET
  %lack = sub i64 %target, %reached
  %first.then = select i1 %new, i64 %row, i64 %first
  %missing.then = select i1 %new, i64 %lack, i64 %missing
  %other = icmp ne i64 %row, %first.then
  %unset = icmp eq i64 %second, 0
  %takes = and i1 %other, %unset
  %second.then = select i1 %takes, i64 %row, i64 %second
  br label %next
next:
  %first.now = phi i64 [ %first, %look ], [ %first.then, %waits ]
  %second.now = phi i64 [ %second, %look ], [ %second.then, %waits ]
  %missing.now = phi i64 [ %missing, %look ], [ %missing.then, %waits ]
  %following = get ptr %fiber $FIBER_NEXT
  %round = icmp eq ptr %following, %root
  br i1 %round, label %done, label %look
done:
  put i64 %first.now %root $FIBER_FAILURE
  %beside = sub i64 %second.now, 1
  put i64 %beside %context $CTX_VALUES
  %at = getelementptr i8, ptr %context, i64 $CTX_VALUES
  put i64 %missing.now %at 8
  ret void
}

; Go on when the counter has reached the target.
define internal void @fiber_wait(ptr %context, ptr %counter, i64 %target, i64 %row) noinline {
  %reached = load i64, ptr %counter, align 8
  %ready = icmp sge i64 %reached, %target
  br i1 %ready, label %done, label %wait
wait:
  %self = get ptr %context $CTX_FIBER
  put ptr %counter %self $FIBER_COUNTER
  put i64 %target %self $FIBER_TARGET
  put i64 %row %self $FIBER_ROW
  call void @fiber_next(ptr %context, ptr %self)
  br label %done
done:
  ret void
}

; Where a fiber begins: reached by the return of the first switch to it, with the switch's own arguments.
define internal void @fiber_main(ptr %from, ptr %self) noinline {
  %function = get ptr %self $FIBER_FUNCTION
  %args = get ptr %self $FIBER_ARGS
  %context = get ptr %self $FIBER_CONTEXT
  %end = get i64 %self $FIBER_ARENA_END
  put i64 %end %context $CTX_END
  %arena = get ptr %self $FIBER_ARENA
  %block = get i64 %self $FIBER_BLOCK
  %blocks = get i64 %self $FIBER_BLOCKS
  %status = call i64 %function(ptr %args, ptr %context, ptr %arena, i64 %block, i64 %blocks)
  %good = icmp eq i64 %status, 0
  br i1 %good, label %ended, label %failed
failed:
  %root = get ptr %self $FIBER_ROOT
  put i64 %status %root $FIBER_FAILURE
  put ptr %root %context $CTX_FIBER
  call void @fiber_switch(ptr %self, ptr %root)
  unreachable
ended:
  %done = get ptr %self $FIBER_DONE
  %count = load i64, ptr %done, align 8
  %more = add i64 %count, 1
  store i64 %more, ptr %done, align 8
  %next = get ptr %self $FIBER_NEXT
  %previous = get ptr %self $FIBER_PREVIOUS
  put ptr %next %previous $FIBER_NEXT
  put ptr %previous %next $FIBER_PREVIOUS
  call void @fiber_next(ptr %context, ptr %self)
  unreachable
}

; The first free scratch memory for fibers; the caller becomes the root unless it is a fiber already.
define internal ptr @fiber_enter(ptr %context, ptr %root, ptr %top) noinline {
  %running = get ptr %context $CTX_FIBER
  %outermost = icmp eq ptr %running, null
  br i1 %outermost, label %begin, label %inside
inside:
  ret ptr %top
begin:
  put ptr %root %context $CTX_FIBER
  put ptr %root %root $FIBER_NEXT
  put ptr %root %root $FIBER_PREVIOUS
  put ptr %root %root $FIBER_ROOT
  put ptr %context %root $FIBER_CONTEXT
  put i64 0 %root $FIBER_ROW
  put i64 0 %root $FIBER_LANE
  put i64 0 %root $FIBER_FIFOS
  put i64 0 %root $FIBER_BARRIERS
  put i64 0 %root $FIBER_FAILURE
  put i64 0 %root $FIBER_IDLE
  %end = get i64 %context $CTX_END
  put i64 %end %root $FIBER_ARENA_END
  %first = ptrtoint ptr %top to i64
  %room = sub i64 %end, %first
  %quarter = lshr i64 %room, 2
  %whole = and i64 %quarter, -4096
  %rest = getelementptr i8, ptr %top, i64 %whole
  put ptr %top %root $FIBER_HEAP
  put ptr %rest %root $FIBER_HEAP_END
  ret ptr %rest
}

; What the run ended with; the root stops to be one.
define internal i64 @fiber_leave(ptr %context, ptr %root) noinline {
  %self = get ptr %context $CTX_FIBER
  %failure = get i64 %self $FIBER_FAILURE
  %outermost = icmp eq ptr %self, %root
  br i1 %outermost, label %end, label %done
end:
  put ptr null %context $CTX_FIBER
  br label %done
done:
  ret i64 %failure
}

define internal i64 @fiber_room() {
  ret i64 $STACK
}

; A new fiber in memory of its own; it runs once the caller waits.
define internal void @fiber_spawn(ptr %context, ptr %memory, i64 %size, ptr %function, ptr %args, i64 %block, i64 %blocks,
                                  i64 %lane, ptr %fifos, ptr %barriers, ptr %done) noinline {
  %parent = get ptr %context $CTX_FIBER
  put ptr %function %memory $FIBER_FUNCTION
  put ptr %args %memory $FIBER_ARGS
  put i64 %block %memory $FIBER_BLOCK
  put i64 %blocks %memory $FIBER_BLOCKS
  put i64 %lane %memory $FIBER_LANE
  put ptr %fifos %memory $FIBER_FIFOS
  put ptr %barriers %memory $FIBER_BARRIERS
  put ptr %done %memory $FIBER_DONE
  put ptr %context %memory $FIBER_CONTEXT
  put i64 0 %memory $FIBER_ROW
  put i64 0 %memory $FIBER_FAILURE
  put ptr %done %memory $FIBER_COUNTER
  put i64 0 %memory $FIBER_TARGET
  %root = get ptr %parent $FIBER_ROOT
  put ptr %root %memory $FIBER_ROOT
  %stack = getelementptr i8, ptr %memory, i64 $STACK
  put ptr %stack %memory $FIBER_ARENA
  %end = getelementptr i8, ptr %memory, i64 %size
  put ptr %end %memory $FIBER_ARENA_END
  %saved = getelementptr i8, ptr %stack, i64 -$SAVED
  put ptr %saved %memory $FIBER_STACK
  put ptr @fiber_main %saved $ADDRESS
  put i64 0 %stack -8
  %last = get ptr %root $FIBER_PREVIOUS
  put ptr %last %memory $FIBER_PREVIOUS
  put ptr %root %memory $FIBER_NEXT
  put ptr %memory %last $FIBER_NEXT
  put ptr %memory %root $FIBER_PREVIOUS
  ret void
}

define internal i64 @fiber_lane(ptr %context) {
  %self = get ptr %context $CTX_FIBER
  %none = icmp eq ptr %self, null
  br i1 %none, label %alone, label %inside
alone:
  ret i64 0
inside:
  %lane = get i64 %self $FIBER_LANE
  ret i64 %lane
}

; Let others go on; this one can too, in its turn. The answer: whether all have looked for something in vain since one last found it.
define internal i1 @fiber_pass(ptr %context, ptr %self) noinline {
entry:
  %root = get ptr %self $FIBER_ROOT
  %before = get i64 %root $FIBER_IDLE
  %idle = add i64 %before, 1
  br label %walk
walk:
  %fiber = phi ptr [ %root, %entry ], [ %following, %walk ]
  %count = phi i64 [ 0, %entry ], [ %more, %walk ]
  %more = add i64 %count, 1
  %following = get ptr %fiber $FIBER_NEXT
  %round = icmp eq ptr %following, %root
  br i1 %round, label %counted, label %walk
counted:
  %all = icmp sge i64 %idle, %more
  %kept = select i1 %all, i64 0, i64 %idle
  put i64 %kept %root $FIBER_IDLE
  %done = get ptr %self $FIBER_DONE
  put ptr %done %self $FIBER_COUNTER
  put i64 0 %self $FIBER_TARGET
  put i64 0 %self $FIBER_ROW
  call void @fiber_next(ptr %context, ptr %self)
  ret i1 %all
}

; Wait until all that take part are here; %count: how many cores those are in soft mode, else 0.
define internal void @fiber_sync(ptr %context, i64 %class, i64 %soft, i64 %count, i64 %row) noinline {
  %self = get ptr %context $CTX_FIBER
  %none = icmp eq ptr %self, null
  br i1 %none, label %alone, label %fiber
fiber:
  %barriers = get ptr %self $FIBER_BARRIERS
  %nothing = icmp eq ptr %barriers, null
  br i1 %nothing, label %alone, label %meet
meet:
  %shift = mul i64 %soft, $CLASSES
  %index = add i64 %class, %shift
  %arrived = getelementptr i64, ptr %barriers, i64 %index
  %known.index = add i64 %class, $CLASSES
  %known.index2 = add i64 %known.index, $CLASSES
  %known.at = getelementptr i64, ptr %barriers, i64 %known.index2
  %known = load i64, ptr %known.at, align 8
  %share.index = add i64 %known.index2, $CLASSES
  %share.at = getelementptr i64, ptr %barriers, i64 %share.index
  %share = load i64, ptr %share.at, align 8
  %cores = mul i64 %count, %share
  %tasks = sdiv i64 %cores, $MIXED_CORES
  %is.soft = icmp ne i64 %soft, 0
  %wanted = select i1 %is.soft, i64 %tasks, i64 %known
  %few = icmp slt i64 %wanted, 1
  %all = select i1 %few, i64 1, i64 %wanted
  %before = load i64, ptr %arrived, align 8
  %now = add i64 %before, 1
  store i64 %now, ptr %arrived, align 8
  %phase = sdiv i64 %before, %all
  %next = add i64 %phase, 1
  %target = mul i64 %next, %all
  call void @fiber_wait(ptr %context, ptr %arrived, i64 %target, i64 %row)
  br label %alone
alone:
  ret void
}
"""
