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
    return LOOK_TEXT + Template(_TEXT).substitute(names, **{name: str(number) for name, number in numbers.items()})


_TEXT = r"""
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i64 @syscall(i64, ...)
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @sched_yield()
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse2.pause()
declare i64 @llvm.readcyclecounter()
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

define internal ptr @slot(ptr %base, i64 %index) alwaysinline {
  %at = getelementptr inbounds i64, ptr %base, i64 %index
  ret ptr %at
}

define internal void @futex_wait(ptr %word, i32 %seen) noinline {
  %r = call i64 (i64, ...) @syscall(i64 202, ptr %word, i32 128, i32 %seen, ptr null, ptr null, i32 0)
  ret void
}

define internal void @futex_wake(ptr %word, i32 %count) noinline {
  %r = call i64 (i64, ...) @syscall(i64 202, ptr %word, i32 129, i32 %count, ptr null, ptr null, i32 0)
  ret void
}

; Some 20 ms at most.
define internal void @futex_wait_a_while(ptr %word, i32 %seen) noinline {
  %time = alloca [2 x i64], align 8
  store i64 0, ptr %time, align 8
  %nanoseconds = getelementptr inbounds i64, ptr %time, i64 1
  store i64 20000000, ptr %nanoseconds, align 8
  %r = call i64 (i64, ...) @syscall(i64 202, ptr %word, i32 128, i32 %seen, ptr %time, ptr null, i32 0)
  ret void
}

define void @$YIELD() {
  %r = call i32 @sched_yield()
  ret void
}

; A moment of waiting; true: it has been long enough to go to sleep.
define internal i1 @rest(i64 %start) noinline {
entry:
  %clock = call i64 @llvm.readcyclecounter()
  %waited = sub i64 %clock, %start
  %long = icmp ugt i64 %waited, $SPIN
  br i1 %long, label %polite, label %pause
pause:
  call void @llvm.x86.sse2.pause()
  ret i1 false
polite:
  %r = call i32 @sched_yield()
  %too_long = icmp ugt i64 %waited, $LINGER
  ret i1 %too_long
}

define internal void @wake(ptr %team, i32 %count) noinline {
entry:
  %sleepers.at = call ptr @slot(ptr %team, i64 $T_SLEEPERS)
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %some = icmp ne i32 %sleepers, 0
  br i1 %some, label %call, label %done
call:
  %generation = call ptr @slot(ptr %team, i64 $T_GENERATION)
  call void @futex_wake(ptr %generation, i32 %count)
  br label %done
done:
  ret void
}

; Take trips until there are none, or one failed.
define internal void @take_part(ptr %team, ptr %context, ptr %arena) noinline {
entry:
  %next.at = call ptr @slot(ptr %team, i64 $T_NEXT)
  %task.at = call ptr @slot(ptr %team, i64 $T_TASK)
  %args.at = call ptr @slot(ptr %team, i64 $T_ARGS)
  %trips.at = call ptr @slot(ptr %team, i64 $T_TRIPS)
  %chunk.at = call ptr @slot(ptr %team, i64 $T_CHUNK)
  %failed.at = call ptr @slot(ptr %team, i64 $T_FAILED_AT)
  %task = load ptr, ptr %task.at, align 8
  %args = load ptr, ptr %args.at, align 8
  %trips = load i64, ptr %trips.at, align 8
  br label %more
more:
  %chunk = load atomic i64, ptr %chunk.at monotonic, align 8
  %begin = atomicrmw add ptr %next.at, i64 %chunk monotonic, align 8
  %some = icmp slt i64 %begin, %trips
  br i1 %some, label %there, label %done
there:
  %failed = load atomic i64, ptr %failed.at monotonic, align 8
  %counts = icmp slt i64 %begin, %failed
  br i1 %counts, label %go, label %done
go:
  %past = add i64 %begin, %chunk
  %end = call i64 @llvm.smin.i64(i64 %past, i64 %trips)
  %code = call i64 %task(ptr %args, ptr %context, ptr %arena, i64 %begin, i64 %end)
  %good = icmp eq i64 %code, 0
  br i1 %good, label %more, label %bad
bad:
  call void @fail(ptr %team, ptr %context, i64 %begin, i64 %code)
  br label %done
done:
  ret void
}

define internal void @copy_values(ptr %to, ptr %from) alwaysinline {
  %values = load <4 x i64>, ptr %from, align 8
  store <4 x i64> %values, ptr %to, align 8
  ret void
}

; The failure of the lowest trip is kept.
define internal void @fail(ptr %team, ptr %context, i64 %begin, i64 %code) noinline {
entry:
  %lock = call ptr @slot(ptr %team, i64 $T_FAILURE_LOCK)
  %failed.at = call ptr @slot(ptr %team, i64 $T_FAILED_AT)
  br label %take
take:
  %old = atomicrmw xchg ptr %lock, i64 1 acquire, align 8
  %free = icmp eq i64 %old, 0
  br i1 %free, label %held, label %again
again:
  call void @llvm.x86.sse2.pause()
  br label %take
held:
  %lowest = load atomic i64, ptr %failed.at monotonic, align 8
  %lower = icmp slt i64 %begin, %lowest
  br i1 %lower, label %keep, label %release
keep:
  store atomic i64 %begin, ptr %failed.at monotonic, align 8
  %code.at = call ptr @slot(ptr %team, i64 $T_FAILURE_CODE)
  store i64 %code, ptr %code.at, align 8
  %to = call ptr @slot(ptr %team, i64 $T_FAILURE_VALUES)
  %from = call ptr @slot(ptr %context, i64 $VALUES)
  call void @copy_values(ptr %to, ptr %from)
  br label %release
release:
  store atomic i64 0, ptr %lock release, align 8
  ret void
}

; Scratch memory of at least `bytes`; false: there is none to be had.
define internal i1 @have_scratch(ptr %me, i64 %bytes) noinline {
entry:
  %base.at = call ptr @slot(ptr %me, i64 $W_SCRATCH)
  %size.at = call ptr @slot(ptr %me, i64 $W_SCRATCH_BYTES)
  %size = load i64, ptr %size.at, align 8
  %enough = icmp sge i64 %size, %bytes
  br i1 %enough, label %ready, label %grow
grow:
  %old = load ptr, ptr %base.at, align 8
  %is_some = icmp ne i64 %size, 0
  br i1 %is_some, label %drop, label %make
drop:
  %dropped = call i32 @munmap(ptr %old, i64 %size)
  br label %make
make:
  %new = call ptr @mmap(ptr null, i64 %bytes, i32 3, i32 16418, i32 -1, i64 0)
  %address = ptrtoint ptr %new to i64
  %failed = icmp eq i64 %address, -1
  br i1 %failed, label %none, label %keep
none:
  store i64 0, ptr %size.at, align 8
  ret i1 false
keep:
  store ptr %new, ptr %base.at, align 8
  store i64 %bytes, ptr %size.at, align 8
  br label %ready
ready:
  %base = load ptr, ptr %base.at, align 8
  %end = getelementptr i8, ptr %base, i64 %bytes
  %arena.at = call ptr @slot(ptr %me, i64 $ARENA_BASE)
  %end.at = call ptr @slot(ptr %me, i64 $ARENA_END)
  store ptr %base, ptr %arena.at, align 8
  store ptr %end, ptr %end.at, align 8
  ret i1 true
}

define internal ptr @worker(ptr %me) noinline {
entry:
  %team.at = call ptr @slot(ptr %me, i64 $W_TEAM)
  %team = load ptr, ptr %team.at, align 8
  %generation = call ptr @slot(ptr %team, i64 $T_GENERATION)
  %sleepers = call ptr @slot(ptr %team, i64 $T_SLEEPERS)
  %gate = call ptr @slot(ptr %team, i64 $T_GATE)
  %limit.at = call ptr @slot(ptr %team, i64 $T_LIMIT)
  %scratch.at = call ptr @slot(ptr %team, i64 $T_SCRATCH)
  br label %look
look:
  %found = load atomic i32, ptr %generation acquire, align 4
  br label %knock
knock:
  %inside = load atomic i32, ptr %gate acquire, align 4
  %limit64 = load atomic i64, ptr %limit.at monotonic, align 8
  %limit = trunc i64 %limit64 to i32
  ; A closed gate has a bit above every limit.
  %room = icmp ult i32 %inside, %limit
  br i1 %room, label %enter, label %idle
enter:
  %one_more = add i32 %inside, 1
  %pair = cmpxchg ptr %gate, i32 %inside, i32 %one_more acq_rel acquire, align 4
  %entered = extractvalue { i32, i1 } %pair, 1
  br i1 %entered, label %prepare, label %knock
prepare:
  %bytes = load i64, ptr %scratch.at, align 8
  %ready = call i1 @have_scratch(ptr %me, i64 %bytes)
  br i1 %ready, label %work, label %leave
work:
  %mode.at = call ptr @slot(ptr %team, i64 $T_FLOAT_MODE)
  call void @llvm.x86.sse.ldmxcsr(ptr %mode.at)
  %arena.at = call ptr @slot(ptr %me, i64 $ARENA_BASE)
  %arena = load ptr, ptr %arena.at, align 8
  ; It stops with the others, and never asks.
  %record.at = call ptr @slot(ptr %team, i64 $T_INTERRUPT)
  %record = load ptr, ptr %record.at, align 8
  %my.record.at = call ptr @slot(ptr %me, i64 $INTERRUPT)
  store ptr %record, ptr %my.record.at, align 8
  %due.at = call ptr @slot(ptr %me, i64 $DUE)
  store i64 -1, ptr %due.at, align 8
  call void @take_part(ptr %team, ptr %me, ptr %arena)
  br label %leave
leave:
  %before = atomicrmw sub ptr %gate, i32 1 acq_rel, align 4
  %last = icmp eq i32 %before, $LAST
  br i1 %last, label %report, label %idle
report:
  call void @futex_wake(ptr %gate, i32 1)
  br label %idle
idle:
  %start = call i64 @llvm.readcyclecounter()
  br label %spin
spin:
  %now = load atomic i32, ptr %generation acquire, align 4
  %new = icmp ne i32 %now, %found
  br i1 %new, label %look, label %wait
wait:
  %long = call i1 @rest(i64 %start)
  br i1 %long, label %sleep, label %spin
sleep:
  %s0 = atomicrmw add ptr %sleepers, i32 1 seq_cst, align 4
  call void @futex_wait(ptr %generation, i32 %found)
  %s1 = atomicrmw sub ptr %sleepers, i32 1 seq_cst, align 4
  br label %spin
}

; Start workers until there are `wanted`; signals are for the threads of Python.
define internal void @start_workers(ptr %team, i64 %wanted) noinline {
entry:
  %thread = alloca i64, align 8
  %all = alloca [16 x i64], align 16
  %old = alloca [16 x i64], align 16
  %workers.at = call ptr @slot(ptr %team, i64 $T_WORKERS)
  %have = load i64, ptr %workers.at, align 8
  %enough = icmp sge i64 %have, %wanted
  br i1 %enough, label %done, label %mask
mask:
  store <16 x i64> splat (i64 -1), ptr %all, align 16
  %m0 = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %old)
  br label %next
next:
  %n = phi i64 [ %have, %mask ], [ %n1, %started ]
  %more = icmp slt i64 %n, %wanted
  br i1 %more, label %start, label %unmask
start:
  %offset = mul i64 %n, $W_SIZE
  %at = add i64 %offset, $T_RECORDS
  %me = call ptr @slot(ptr %team, i64 %at)
  %my_team = call ptr @slot(ptr %me, i64 $W_TEAM)
  store ptr %team, ptr %my_team, align 8
  %threads.at = call ptr @slot(ptr %me, i64 $THREADS)
  store i64 1, ptr %threads.at, align 8
  %nested.at = call ptr @slot(ptr %me, i64 $TEAM)
  store i64 0, ptr %nested.at, align 8
  %locks.at = call ptr @slot(ptr %me, i64 $LOCKS)
  %locks = call ptr @slot(ptr %team, i64 $T_LOCKS)
  store ptr %locks, ptr %locks.at, align 8
  %rc = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %me)
  %good = icmp eq i32 %rc, 0
  br i1 %good, label %started, label %unmask
started:
  %id = load i64, ptr %thread, align 8
  %d = call i32 @pthread_detach(i64 %id)
  %n1 = add i64 %n, 1
  store i64 %n1, ptr %workers.at, align 8
  br label %next
unmask:
  %m1 = call i32 @pthread_sigmask(i32 2, ptr %old, ptr null)
  br label %done
done:
  ret void
}

define internal i64 @thread_count(ptr %team, ptr %context) noinline {
entry:
  %threads.at = call ptr @slot(ptr %context, i64 $THREADS)
  %threads = load i64, ptr %threads.at, align 8
  %known = icmp ne i64 %threads, 0
  br i1 %known, label %done, label %ask
ask:
  %count.at = call ptr @slot(ptr %team, i64 $T_COUNT)
  %count = load ptr, ptr %count.at, align 8
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
  %task.at = call ptr @slot(ptr %team, i64 $T_TASK)
  store ptr %task, ptr %task.at, align 8
  %args.at = call ptr @slot(ptr %team, i64 $T_ARGS)
  store ptr %args, ptr %args.at, align 8
  %record.from = call ptr @slot(ptr %context, i64 $INTERRUPT)
  %record = load ptr, ptr %record.from, align 8
  %record.at = call ptr @slot(ptr %team, i64 $T_INTERRUPT)
  store ptr %record, ptr %record.at, align 8
  %trips.at = call ptr @slot(ptr %team, i64 $T_TRIPS)
  store i64 %trips, ptr %trips.at, align 8
  %next.at = call ptr @slot(ptr %team, i64 $T_NEXT)
  store atomic i64 0, ptr %next.at monotonic, align 8
  %failed.at = call ptr @slot(ptr %team, i64 $T_FAILED_AT)
  store atomic i64 $LARGEST, ptr %failed.at monotonic, align 8
  %mode.at = call ptr @slot(ptr %team, i64 $T_FLOAT_MODE)
  call void @llvm.x86.sse.stmxcsr(ptr %mode.at)
  ; Scratch memory: as much as this thread has left, so that a trip finds the same everywhere.
  %end.at = call ptr @slot(ptr %context, i64 $ARENA_END)
  %arena.end = load i64, ptr %end.at, align 8
  %arena.top = ptrtoint ptr %arena to i64
  %left = sub i64 %arena.end, %arena.top
  %positive = call i64 @llvm.smax.i64(i64 %left, i64 0)
  ; A kernel that needs none may have been given no address.
  %nowhere = icmp eq ptr %arena, null
  %bytes = select i1 %nowhere, i64 0, i64 %positive
  %scratch.at = call ptr @slot(ptr %team, i64 $T_SCRATCH)
  store i64 %bytes, ptr %scratch.at, align 8
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
  %code.at = call ptr @slot(ptr %team, i64 $T_FAILURE_CODE)
  %code.failed = load i64, ptr %code.at, align 8
  br label %finish
finish:
  %code = phi i64 [ 0, %over ], [ %code.failed, %hand_over ]
  store atomic i64 0, ptr %lock.at release, align 8
  ret i64 %code
}
"""
