"""The thread pool as LLVM text: one piece of code that goes with every kernel; its state (abi.Team) lies in a block of the heap.

The first kernel of a process that wants it starts the pool, with a copy of the code that stays; the others find it running.

    i64 @tj_team_run.4(ptr team, ptr context, ptr arena, ptr phases, i64 count)

runs `count` phases (abi.Phase), one when the one before is over: of each the trips [0, trips) of its task, an

    i64 @task(ptr args, ptr context, ptr arena, i64 begin, i64 end)

on this thread and on workers, as many as its `crew` at most, which take `chunk` trips at a time. Every thread has a stretch of the trips that it takes from
first, and takes from those of others when its own is done; only then do threads write to the same memory. Of the trips that fail the lowest one counts: those
before it are still run, and no later phase. With `chunk` 0 nobody knows how long a trip takes: the first one is measured, and
workers that sleep are woken only if the others are worth it, or at once if they were the last time. With a negative one (-chunk) it is only where
workers may have to be woken that the estimate is not trusted. Work that is over before a worker arrives waits for none.

Where torch is in the process and has as many threads, its own do the work (they are OpenMP's, which can be asked): two pools that each keep every
processor busy while they look for work would be in each other's way. They come together, so that brief phases are simply cut into a part for each: a thread
then writes to memory that others write to once, when its part is over, and not even that in the last phase. Parts that nobody came for are the caller's.
OpenMP returns when the last of its threads has come, though, however late: where there are few and other programs want the processors, the pool's own threads
take over for a while.

Who finds the pool in use, by another Python thread or because the task itself shares out work, runs all trips alone.
"""

from __future__ import annotations

from string import Template

from tilejit.backends.cpu.llvm.look import LOOK, LOOK_TEXT
from tilejit.backends.cpu.teams.accesses import with_accesses
from tilejit.backends.cpu.teams.borrowed_text import BORROWED_TEXT
from tilejit.backends.cpu.teams.phases_text import PHASES_TEXT
from tilejit.backends.cpu.teams.workers_text import WORKERS_TEXT
from tilejit.runtime.call import abi
from tilejit.runtime.call.abi import Phase, Team, Worker

SPIN_CYCLES = 50_000
"""About 20 µs: how long a thread looks for work, or waits for its end, and does nothing else."""
LINGER_CYCLES = 500_000
"""About 200 µs: how long it goes on looking, now letting others have the processor, before it sleeps. To wake it takes its waker 10 to 30 µs."""
WORTH_CYCLES = 200_000
"""About 80 µs: measured work below this is not worth waking anybody."""
WORTH_AWAKE_CYCLES = 20_000
"""The same where threads of OpenMP would do it."""
CHUNK_CYCLES = 5_000
"""Work to take at once, where it was measured."""
WAKE_FACTOR = 8
"""A thread that sleeps must have so many times more to do than one that is awake."""
MANY = 4
"""With fewer threads OpenMP's are left alone for a while after they came late: waiting for them costs more than two pools that meet."""
PAUSE = 64
"""For so many times what the caller waited, so that waiting takes no more than a 64th of its time."""
FIXED = 8
"""Up to so many times what is worth a thread that is awake, the parts of a phase are for one thread each: what one could hand over is not worth looking for."""
_CLOSED = 1 << 30
_LARGEST = (1 << 63) - 1


def pool_text() -> str:
    """LLVM text of the module."""
    names = {f"{kind.__name__[0]}_{slot.name}": str(int(slot)) for kind in (Team, Worker, Phase) for slot in kind}
    numbers = {
        "SPIN": SPIN_CYCLES, "WAKE": WAKE_FACTOR, "BORROWED": abi.MAX_WORKERS - 1, "MANY": MANY, "PAUSE": PAUSE, "LINGER": LINGER_CYCLES,
        "WORTH": WORTH_CYCLES, "WORTH_AWAKE": WORTH_AWAKE_CYCLES, "CHUNK_CYCLES": CHUNK_CYCLES, "MEASURED_MASK": abi.MEASURED_COUNT - 1,
        "FIXED": FIXED, "STRETCHES_OF_PHASE": abi.STRETCHES_OF_PHASE, "CLOSED": _CLOSED, "LAST": _CLOSED + 1, "LARGEST": _LARGEST,
        "MAX_WORKERS": abi.MAX_WORKERS, "ARENA_BASE": abi.ARENA_BASE, "ARENA_END": abi.ARENA_END, "THREADS": abi.THREADS, "TEAM": abi.TEAM,
        "VALUES": abi.FAILURE_VALUES, "LOCKS": abi.LOCKS, "RUN": abi.TEAM_RUN, "YIELD": abi.TEAM_YIELD,
        "INTERRUPT": abi.INTERRUPT, "DUE": abi.DUE, "LOOK": LOOK,
    }  # fmt: skip
    text = Template(WORKERS_TEXT + PHASES_TEXT + BORROWED_TEXT + _RUN_TEXT).substitute(names, **{name: str(number) for name, number in numbers.items()})
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

; Where it is kept how long the first trip of a task took the last time.
define internal ptr @measured(ptr %team, ptr %task) noinline {
  %word = ptrtoint ptr %task to i64
  %hash = lshr i64 %word, 4
  %place = and i64 %hash, $MEASURED_MASK
  %pair = shl i64 %place, 1
  %index = add i64 %pair, $T_MEASURED
  %at = call ptr @slot(ptr %team, i64 %index)
  ret ptr %at
}

; How many helpers are worth waking for trips that take so many cycles each.
define internal i64 @worth(i64 %trips, i64 %took, i1 %borrowed) noinline {
  %rest = sub i64 %trips, 1
  %work = mul i64 %rest, %took
  ; Threads of OpenMP look for work much longer than ours.
  %least = select i1 %borrowed, i64 $WORTH_AWAKE, i64 $WORTH
  %enough = icmp ugt i64 %work, %least
  %each = select i1 %borrowed, i64 $WORTH_AWAKE, i64 $SPIN
  %helpers = udiv i64 %work, %each
  %some = select i1 %enough, i64 %helpers, i64 0
  ret i64 %some
}

; Run the first trip and see how long it takes: that decides how many are taken at once. 0: it is not there any more, or failed.
define internal i64 @measure(ptr %team, ptr %context, ptr %arena) noinline {
entry:
  %it = get ptr %team $T_PHASES
  %task = get ptr %it $P_TASK
  %next.at = call ptr @stretch(ptr %team, i64 0, i64 0)
  %end = get i64 %next.at 1
  %begin = atomicrmw add ptr %next.at, i64 1 monotonic, align 8
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %try, label %none
try:
  %t0 = call i64 @llvm.readcyclecounter()
  %begin.end = add i64 %begin, 1
  %ran = call i64 @run(ptr %team, ptr %it, ptr %context, ptr %arena, i64 %begin, i64 %begin.end)
  %t1 = call i64 @llvm.readcyclecounter()
  %good = icmp ne i64 %ran, 0
  br i1 %good, label %judge, label %none
none:
  ret i64 0
judge:
  %done.at = call ptr @done(ptr %team, i64 0)
  %old = atomicrmw add ptr %done.at, i64 1 monotonic, align 8
  %difference = sub i64 %t1, %t0
  %took = call i64 @llvm.smax.i64(i64 %difference, i64 1)
  %at_once = udiv i64 $CHUNK_CYCLES, %took
  %most = get i64 %team $T_MOST
  %least = get i64 %team $T_LEAST
  %fit = call i64 @llvm.smin.i64(i64 %at_once, i64 %most)
  %pieces = call i64 @llvm.smax.i64(i64 %fit, i64 %least)
  %chunk.at = call ptr @slot(ptr %it, i64 $P_CHUNK)
  store atomic i64 %pieces, ptr %chunk.at monotonic, align 8
  %known.at = call ptr @measured(ptr %team, ptr %task)
  put ptr %task %known.at 0
  put i64 %took %known.at 1
  ret i64 %took
}

; Take part, let nobody in any more, and wait for those who are inside.
define internal void @lead(ptr %team, ptr %context, ptr %arena) noinline {
entry:
  call void @take_phases(ptr %team, ptr %context, ptr %arena, i64 0, i1 false, i1 false)
  %gate = call ptr @slot(ptr %team, i64 $T_GATE)
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
  ret void
}

; The most threads that any of the phases is worth, and those that it has trips for.
define internal { i64, i64 } @most(ptr %phases, i64 %count) noinline {
entry:
  br label %phase
phase:
  %number = phi i64 [ 0, %entry ], [ %number1, %phase ]
  %worth = phi i64 [ 1, %entry ], [ %worth1, %phase ]
  %useful = phi i64 [ 1, %entry ], [ %useful1, %phase ]
  %line = shl i64 %number, 3
  %it = call ptr @slot(ptr %phases, i64 %line)
  %crew = get i64 %it $P_CREW
  %trips = get i64 %it $P_TRIPS
  %own = call i64 @llvm.smin.i64(i64 %crew, i64 %trips)
  %worth1 = call i64 @llvm.smax.i64(i64 %worth, i64 %crew)
  %useful1 = call i64 @llvm.smax.i64(i64 %useful, i64 %own)
  %number1 = add i64 %number, 1
  %last = icmp eq i64 %number1, %count
  br i1 %last, label %done, label %phase
done:
  %r0 = insertvalue { i64, i64 } poison, i64 %worth1, 0
  %r1 = insertvalue { i64, i64 } %r0, i64 %useful1, 1
  ret { i64, i64 } %r1
}

; All phases on this thread.
define internal i64 @alone(ptr %context, ptr %arena, ptr %phases, i64 %count) noinline {
entry:
  br label %phase
phase:
  %number = phi i64 [ 0, %entry ], [ %number1, %good ]
  %line = shl i64 %number, 3
  %it = call ptr @slot(ptr %phases, i64 %line)
  %task = get ptr %it $P_TASK
  %args = get ptr %it $P_ARGS
  %trips = get i64 %it $P_TRIPS
  %code = call i64 %task(ptr %args, ptr %context, ptr %arena, i64 0, i64 %trips)
  %fine = icmp eq i64 %code, 0
  br i1 %fine, label %good, label %done
good:
  %number1 = add i64 %number, 1
  %last = icmp eq i64 %number1, %count
  br i1 %last, label %done, label %phase
done:
  ret i64 %code
}

define i64 @$RUN(ptr %team, ptr %context, ptr %arena, ptr %phases, i64 %count) {
entry:
  %threads = call i64 @thread_count(ptr %team, ptr %context)
  %most = call { i64, i64 } @most(ptr %phases, i64 %count)
  %crew = extractvalue { i64, i64 } %most, 0
  %useful = extractvalue { i64, i64 } %most, 1
  %wanted = call i64 @llvm.smin.i64(i64 %threads, i64 %useful)
  %several = icmp sgt i64 %wanted, 1
  br i1 %several, label %lock, label %alone
lock:
  %lock.at = call ptr @slot(ptr %team, i64 $T_LOCK)
  %old = atomicrmw xchg ptr %lock.at, i64 1 acquire, align 8
  %free = icmp eq i64 %old, 0
  br i1 %free, label %ours, label %alone
alone:
  %code.alone = call i64 @alone(ptr %context, ptr %arena, ptr %phases, i64 %count)
  ret i64 %code.alone

ours:
  %helpers = sub i64 %wanted, 1
  ; Scratch memory: as much as this thread has left, so that a trip finds the same everywhere.
  %arena.end = get i64 %context $ARENA_END
  %arena.top = ptrtoint ptr %arena to i64
  %left = sub i64 %arena.end, %arena.top
  %positive = call i64 @llvm.smax.i64(i64 %left, i64 0)
  ; A kernel that needs none may have been given no address.
  %nowhere = icmp eq ptr %arena, null
  %bytes = select i1 %nowhere, i64 0, i64 %positive
  put i64 %bytes %team $T_SCRATCH
  %openmp = call ptr @openmp(ptr %team, i64 %wanted)
  %borrowed = icmp ne ptr %openmp, null
  br i1 %borrowed, label %describe, label %start
start:
  call void @start_workers(ptr %team, i64 %helpers)
  br label %describe
describe:
  put ptr %phases %team $T_PHASES
  put i64 %count %team $T_PHASE_COUNT
  %record = get ptr %context $INTERRUPT
  put ptr %record %team $T_INTERRUPT
  %failed.at = call ptr @slot(ptr %team, i64 $T_FAILED_AT)
  store atomic i64 $LARGEST, ptr %failed.at monotonic, align 8
  %mode.at = call ptr @slot(ptr %team, i64 $T_FLOAT_MODE)
  call void @llvm.x86.sse.stmxcsr(ptr %mode.at)
  %task = get ptr %phases $P_TASK
  %trips = get i64 %phases $P_TRIPS
  %chunk = get i64 %phases $P_CHUNK
  %unknown = call i1 @is_unknown(i64 %chunk, i1 %borrowed)
  br label %cut
cut:
  %number = phi i64 [ 0, %describe ], [ %number1, %cut ]
  call void @cut(ptr %team, i64 %number, i64 %wanted, i1 %borrowed)
  %number1 = add i64 %number, 1
  %is_cut = icmp eq i64 %number1, %count
  br i1 %is_cut, label %begin, label %cut
begin:
  ; This thread takes part with its own context: work inside is not shared again, and atomic adds take locks.
  %team.at = call ptr @slot(ptr %context, i64 $TEAM)
  %locks.at = call ptr @slot(ptr %context, i64 $LOCKS)
  %locks = call ptr @slot(ptr %team, i64 $T_LOCKS)
  store i64 0, ptr %team.at, align 8
  store ptr %locks, ptr %locks.at, align 8
  %limit.at = call ptr @slot(ptr %team, i64 $T_LIMIT)
  store atomic i64 %helpers, ptr %limit.at monotonic, align 8
  %gate = call ptr @slot(ptr %team, i64 $T_GATE)
  br i1 %borrowed, label %announce, label %open
open:
  store atomic i32 0, ptr %gate release, align 4
  br label %announce
announce:
  %generation = call ptr @slot(ptr %team, i64 $T_GENERATION)
  %g = atomicrmw add ptr %generation, i32 1 seq_cst, align 4
  br i1 %unknown, label %probe, label %certain
certain:
  ; Threads that are awake come by themselves. To wake one takes time: it must have more to do.
  %worth_waking = udiv i64 %crew, $WAKE
  br label %call

probe:
  %task.word = ptrtoint ptr %task to i64
  %known.at = call ptr @measured(ptr %team, ptr %task)
  %known = get i64 %known.at 0
  %known.took = get i64 %known.at 1
  %is_known = icmp eq i64 %known, %task.word
  %past = select i1 %is_known, i64 %known.took, i64 0
  %early = call i64 @worth(i64 %trips, i64 %past, i1 %borrowed)
  %is_early = icmp ne i64 %early, 0
  %asleep = xor i1 %borrowed, true
  %wake_early = and i1 %is_early, %asleep
  br i1 %wake_early, label %call_early, label %measure
call_early:
  %early.count = trunc i64 %helpers to i32
  call void @wake(ptr %team, i32 %early.count)
  br label %measure
measure:
  %took = call i64 @measure(ptr %team, ptr %context, ptr %arena)
  %late = call i64 @worth(i64 %trips, i64 %took, i1 %borrowed)
  %known_late = select i1 %wake_early, i64 0, i64 %late
  %call_now = icmp ne i64 %known_late, 0
  br i1 %call_now, label %call, label %work

call:
  %useful.helpers = phi i64 [ %worth_waking, %certain ], [ %known_late, %measure ]
  br i1 %borrowed, label %borrow, label %wake_some
borrow:
  call void @run_borrowed(ptr %openmp, ptr %team, ptr %context, ptr %arena)
  br label %over
wake_some:
  %some.helpers = call i64 @llvm.smin.i64(i64 %useful.helpers, i64 %helpers)
  %some.count = trunc i64 %some.helpers to i32
  call void @wake(ptr %team, i32 %some.count)
  br label %work

work:
  call void @lead(ptr %team, ptr %context, ptr %arena)
  br label %over

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
