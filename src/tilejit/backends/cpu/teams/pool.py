"""The thread pool as LLVM text: one piece of code that goes with every kernel; its state (abi.Team) lies in a block of the heap.

The first kernel of a process that wants it starts the pool, with a copy of the code that stays; the others find it running.

    i64 @tj_team_run.2(ptr team, ptr task, ptr args, ptr context, ptr arena, i64 trips, i64 chunk, i64 crew)

runs the trips [0, trips) of `task`, an

    i64 @task(ptr args, ptr context, ptr arena, i64 begin, i64 end)

on this thread and on workers, `crew` threads at most, which take `chunk` trips at a time. Of the trips that fail the lowest one counts: a thread takes trips
in order, so that all before it have run. With `chunk` 0 nobody knows how long a trip takes: the first one is measured, and
workers that sleep are woken only if the others are worth it, or at once if they were the last time. Work that is over before a
worker arrives waits for none.

Who finds the pool in use, by another Python thread or because the task itself shares out work, runs all trips alone.
"""

from __future__ import annotations

from string import Template

from tilejit.backends.cpu.llvm.look import LOOK, LOOK_TEXT
from tilejit.backends.cpu.teams.accesses import with_accesses
from tilejit.backends.cpu.teams.workers_text import WORKERS_TEXT
from tilejit.runtime.call import abi
from tilejit.runtime.call.abi import Team, Worker

SPIN_CYCLES = 50_000
"""About 20 µs: how long a thread looks for work, or waits for its end, and does nothing else."""
LINGER_CYCLES = 500_000
"""About 200 µs: how long it goes on looking, now letting others have the processor, before it sleeps. To wake it takes its waker 10 to 30 µs."""
WORTH_CYCLES = 200_000
"""About 80 µs: measured work below this is not worth waking anybody."""
CHUNK_CYCLES = 5_000
"""Work to take at once, where it was measured."""
_CLOSED = 1 << 30
_LARGEST = (1 << 63) - 1


def pool_text() -> str:
    """LLVM text of the module."""
    names = {f"T_{slot.name}": str(int(slot)) for slot in Team} | {f"W_{slot.name}": str(int(slot)) for slot in Worker}
    numbers = {
        "SPIN": SPIN_CYCLES, "LINGER": LINGER_CYCLES,
        "WORTH": WORTH_CYCLES, "CHUNK_CYCLES": CHUNK_CYCLES, "MEASURED_MASK": abi.MEASURED_COUNT - 1,
        "CLOSED": _CLOSED, "LAST": _CLOSED + 1, "LARGEST": _LARGEST,
        "MAX_WORKERS": abi.MAX_WORKERS, "ARENA_BASE": abi.ARENA_BASE, "ARENA_END": abi.ARENA_END, "THREADS": abi.THREADS, "TEAM": abi.TEAM,
        "VALUES": abi.FAILURE_VALUES, "LOCKS": abi.LOCKS, "RUN": abi.TEAM_RUN, "YIELD": abi.TEAM_YIELD,
        "INTERRUPT": abi.INTERRUPT, "DUE": abi.DUE, "LOOK": LOOK,
    }  # fmt: skip
    text = Template(WORKERS_TEXT + _RUN_TEXT).substitute(names, **{name: str(number) for name, number in numbers.items()})
    return LOOK_TEXT + with_accesses(text, "i64")


_RUN_TEXT = r"""
define internal i64 @thread_count(ptr %team, ptr %context) noinline {
entry:
  %threads = get i64 %context $THREADS
  %known = icmp ne i64 %threads, 0
  br i1 %known, label %done, label %ask
ask:
  %count = get ptr %team $T_COUNT
  %told = call i32 %count()
  %wide = sext i32 %told to i64
  br label %done
done:
  %n = phi i64 [ %threads, %entry ], [ %wide, %ask ]
  %capped = call i64 @llvm.smin.i64(i64 %n, i64 $MAX_WORKERS)
  ret i64 %capped
}

define i64 @$RUN(ptr %team, ptr %task, ptr %args, ptr %context, ptr %arena, i64 %trips, i64 %chunk, i64 %crew) {
entry:
  %threads = call i64 @thread_count(ptr %team, ptr %context)
  %useful = call i64 @llvm.smin.i64(i64 %crew, i64 %trips)
  %wanted = call i64 @llvm.smin.i64(i64 %threads, i64 %useful)
  %several = icmp sgt i64 %wanted, 1
  br i1 %several, label %lock, label %alone
lock:
  %lock.at = call ptr @slot(ptr %team, i64 $T_LOCK)
  %old = atomicrmw xchg ptr %lock.at, i64 1 acquire, align 8
  %free = icmp eq i64 %old, 0
  br i1 %free, label %ours, label %alone
alone:
  %code.alone = call i64 %task(ptr %args, ptr %context, ptr %arena, i64 0, i64 %trips)
  ret i64 %code.alone

ours:
  %helpers = sub i64 %wanted, 1
  call void @start_workers(ptr %team, i64 %helpers)
  ; The work.
  put ptr %task %team $T_TASK
  put ptr %args %team $T_ARGS
  %record = get ptr %context $INTERRUPT
  put ptr %record %team $T_INTERRUPT
  put i64 %trips %team $T_TRIPS
  %next.at = call ptr @slot(ptr %team, i64 $T_NEXT)
  store atomic i64 0, ptr %next.at monotonic, align 8
  %failed.at = call ptr @slot(ptr %team, i64 $T_FAILED_AT)
  store atomic i64 $LARGEST, ptr %failed.at monotonic, align 8
  %mode.at = call ptr @slot(ptr %team, i64 $T_FLOAT_MODE)
  call void @llvm.x86.sse.stmxcsr(ptr %mode.at)
  ; Scratch memory: as much as this thread has left, so that a trip finds the same everywhere.
  %arena.end = get i64 %context $ARENA_END
  %arena.top = ptrtoint ptr %arena to i64
  %left = sub i64 %arena.end, %arena.top
  %positive = call i64 @llvm.smax.i64(i64 %left, i64 0)
  ; A kernel that needs none may have been given no address.
  %nowhere = icmp eq ptr %arena, null
  %bytes = select i1 %nowhere, i64 0, i64 %positive
  put i64 %bytes %team $T_SCRATCH
  ; Chunks: not so many trips at once that a thread could be left without, nor more chunks than balance needs.
  %portions = mul i64 %wanted, 4
  %share = udiv i64 %trips, %portions
  %most = call i64 @llvm.smax.i64(i64 %share, i64 1)
  %eighth = udiv i64 %most, 8
  %least = call i64 @llvm.smax.i64(i64 %eighth, i64 1)
  %fit = call i64 @llvm.smin.i64(i64 %chunk, i64 %most)
  %sized = call i64 @llvm.smax.i64(i64 %fit, i64 %least)
  %unknown = icmp eq i64 %chunk, 0
  %first = select i1 %unknown, i64 1, i64 %sized
  %chunk.at = call ptr @slot(ptr %team, i64 $T_CHUNK)
  store atomic i64 %first, ptr %chunk.at monotonic, align 8
  ; This thread takes part with its own context: work inside is not shared again, and atomic adds take locks.
  %team.at = call ptr @slot(ptr %context, i64 $TEAM)
  %locks.at = call ptr @slot(ptr %context, i64 $LOCKS)
  %locks = call ptr @slot(ptr %team, i64 $T_LOCKS)
  store i64 0, ptr %team.at, align 8
  store ptr %locks, ptr %locks.at, align 8
  ; Open the gate.
  %limit.at = call ptr @slot(ptr %team, i64 $T_LIMIT)
  store atomic i64 %helpers, ptr %limit.at monotonic, align 8
  %gate = call ptr @slot(ptr %team, i64 $T_GATE)
  store atomic i32 0, ptr %gate release, align 4
  %generation = call ptr @slot(ptr %team, i64 $T_GENERATION)
  %g = atomicrmw add ptr %generation, i32 1 seq_cst, align 4
  %count = trunc i64 %helpers to i32
  br i1 %unknown, label %probe, label %call

call:
  %called = phi i32 [ %count, %ours ], [ %measured.count, %judge ]
  call void @wake(ptr %team, i32 %called)
  br label %work

probe:
  %rest = sub i64 %trips, 1
  %task.word = ptrtoint ptr %task to i64
  %hash = lshr i64 %task.word, 4
  %place = and i64 %hash, $MEASURED_MASK
  %pair = shl i64 %place, 1
  %pair.at = add i64 %pair, $T_MEASURED
  %known.at = call ptr @slot(ptr %team, i64 %pair.at)
  %known.took.at = call ptr @slot(ptr %known.at, i64 1)
  %known = load i64, ptr %known.at, align 8
  %known.took = load i64, ptr %known.took.at, align 8
  %is_known = icmp eq i64 %known, %task.word
  %known.took1 = call i64 @llvm.smax.i64(i64 %known.took, i64 1)
  %known.needed = udiv i64 $WORTH, %known.took1
  %was_worth = icmp ugt i64 %rest, %known.needed
  %early = and i1 %is_known, %was_worth
  br i1 %early, label %call_early, label %measure
call_early:
  call void @wake(ptr %team, i32 %count)
  br label %measure
measure:
  %begin = atomicrmw add ptr %next.at, i64 1 monotonic, align 8
  %some = icmp slt i64 %begin, %trips
  br i1 %some, label %try, label %close
try:
  %t0 = call i64 @llvm.readcyclecounter()
  %begin.end = add i64 %begin, 1
  %code.first = call i64 %task(ptr %args, ptr %context, ptr %arena, i64 %begin, i64 %begin.end)
  %t1 = call i64 @llvm.readcyclecounter()
  %good = icmp eq i64 %code.first, 0
  br i1 %good, label %judge, label %bad
bad:
  call void @fail(ptr %team, ptr %context, i64 %begin, i64 %code.first)
  br label %close
judge:
  %took = sub i64 %t1, %t0
  %took1 = call i64 @llvm.smax.i64(i64 %took, i64 1)
  %at_once = udiv i64 $CHUNK_CYCLES, %took1
  %fit2 = call i64 @llvm.smin.i64(i64 %at_once, i64 %most)
  %pieces = call i64 @llvm.smax.i64(i64 %fit2, i64 %least)
  store atomic i64 %pieces, ptr %chunk.at monotonic, align 8
  store i64 %task.word, ptr %known.at, align 8
  store i64 %took1, ptr %known.took.at, align 8
  %needed = udiv i64 $WORTH, %took1
  %worth = icmp ugt i64 %rest, %needed
  %late = xor i1 %early, true
  %call_now = and i1 %worth, %late
  ; To wake a thread takes time: no more of them than have something to do.
  %work.left = mul i64 %rest, %took1
  %most.useful = udiv i64 %work.left, $SPIN
  %measured.helpers = call i64 @llvm.smin.i64(i64 %most.useful, i64 %helpers)
  %measured.count = trunc i64 %measured.helpers to i32
  br i1 %call_now, label %call, label %work

work:
  call void @take_part(ptr %team, ptr %context, ptr %arena)
  br label %close

close:
  %inside = atomicrmw or ptr %gate, i32 $CLOSED acq_rel, align 4
  %none = icmp eq i32 %inside, 0
  br i1 %none, label %over, label %linger
linger:
  %start = call i64 @llvm.readcyclecounter()
  br label %spin
spin:
  %now = load atomic i32, ptr %gate acquire, align 4
  %empty = icmp eq i32 %now, $CLOSED
  br i1 %empty, label %over, label %wait
wait:
  %long = call i1 @rest(i64 %start)
  br i1 %long, label %sleep, label %spin
sleep:
  call void @futex_wait_a_while(ptr %gate, i32 %now)
  ; Workers see for themselves that they should stop; this thread is the one to ask.
  %turns = call i64 @$LOOK(ptr %context)
  br label %spin

over:
  store ptr %team, ptr %team.at, align 8
  store i64 0, ptr %locks.at, align 8
  %failed = load atomic i64, ptr %failed.at monotonic, align 8
  %fine = icmp eq i64 %failed, $LARGEST
  br i1 %fine, label %finish, label %hand_over
hand_over:
  %from = call ptr @slot(ptr %team, i64 $T_FAILURE_VALUES)
  %to = call ptr @slot(ptr %context, i64 $VALUES)
  call void @copy_values(ptr %to, ptr %from)
  %code.failed = get i64 %team $T_FAILURE_CODE
  br label %finish
finish:
  %code = phi i64 [ 0, %over ], [ %code.failed, %hand_over ]
  store atomic i64 0, ptr %lock.at release, align 8
  ret i64 %code
}
"""
