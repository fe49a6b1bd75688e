"""The threads of the pool as LLVM text: how they wait, join, how a failure is kept, how they are started."""

WORKERS_TEXT = r"""
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i64 @pthread_self()
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
  put i64 %code %team $T_FAILURE_CODE
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
  put ptr %base %me $ARENA_BASE
  put ptr %end %me $ARENA_END
  ret i1 true
}

; Do a share of the present work, with memory of its own; without any there is none to do.
define internal void @work(ptr %team, ptr %me, i1 %counted) noinline {
entry:
  %bytes = get i64 %team $T_SCRATCH
  %ready = call i1 @have_scratch(ptr %me, i64 %bytes)
  br i1 %ready, label %go, label %done
go:
  %mode.at = call ptr @slot(ptr %team, i64 $T_FLOAT_MODE)
  call void @llvm.x86.sse.ldmxcsr(ptr %mode.at)
  %arena = get ptr %me $ARENA_BASE
  ; It stops with the others, and never asks.
  %record = get ptr %team $T_INTERRUPT
  put ptr %record %me $INTERRUPT
  put i64 -1 %me $DUE
  %home = get i64 %me $W_HOME
  call void @take_phases(ptr %team, ptr %me, ptr %arena, i64 %home, i1 %counted, i1 false)
  br label %done
done:
  ret void
}

define internal void @leave(ptr %gate) noinline {
entry:
  %before = atomicrmw sub ptr %gate, i32 1 acq_rel, align 4
  %last = icmp eq i32 %before, $LAST
  br i1 %last, label %report, label %done
report:
  call void @futex_wake(ptr %gate, i32 1)
  br label %done
done:
  ret void
}

; Take part in the present work, unless there is no room or it is over.
define internal void @join(ptr %team, ptr %me) noinline {
entry:
  %gate = call ptr @slot(ptr %team, i64 $T_GATE)
  %limit.at = call ptr @slot(ptr %team, i64 $T_LIMIT)
  br label %knock
knock:
  %count = load atomic i32, ptr %gate acquire, align 4
  %limit64 = load atomic i64, ptr %limit.at monotonic, align 8
  %limit = trunc i64 %limit64 to i32
  ; A closed gate has a bit above every limit.
  %room = icmp ult i32 %count, %limit
  br i1 %room, label %enter, label %done
enter:
  %one_more = add i32 %count, 1
  %pair = cmpxchg ptr %gate, i32 %count, i32 %one_more acq_rel acquire, align 4
  %entered = extractvalue { i32, i1 } %pair, 1
  br i1 %entered, label %inside, label %knock
inside:
  call void @work(ptr %team, ptr %me, i1 false)
  call void @leave(ptr %gate)
  br label %done
done:
  ret void
}

define internal ptr @worker(ptr %me) noinline {
entry:
  %team = get ptr %me $W_TEAM
  %generation = call ptr @slot(ptr %team, i64 $T_GENERATION)
  %sleepers = call ptr @slot(ptr %team, i64 $T_SLEEPERS)
  br label %look
look:
  %found = load atomic i32, ptr %generation acquire, align 4
  call void @join(ptr %team, ptr %me)
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

; The record of a worker.
define internal ptr @record(ptr %team, i64 %number) noinline {
  %offset = mul i64 %number, $W_SIZE
  %at = add i64 %offset, $T_RECORDS
  %me = call ptr @slot(ptr %team, i64 %at)
  put ptr %team %me $W_TEAM
  put i64 1 %me $THREADS
  put i64 0 %me $TEAM
  %locks = call ptr @slot(ptr %team, i64 $T_LOCKS)
  put ptr %locks %me $LOCKS
  %home = add i64 %number, 1
  put i64 %home %me $W_HOME
  ret ptr %me
}

; Start workers until there are `wanted`. Signals are for the threads of Python, but for those that a thread's own instructions raise (SIGILL, SIGTRAP,
; SIGABRT, SIGBUS, SIGFPE and SIGSEGV): one that blocks them ends the process before anybody, such as faulthandler, can tell of it. They are bits 3 to 7
; and 10 of the mask; all the others are -1273.
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
  store i64 -1273, ptr %all, align 16
  %m0 = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %old)
  br label %next
next:
  %n = phi i64 [ %have, %mask ], [ %n1, %started ]
  %more = icmp slt i64 %n, %wanted
  br i1 %more, label %start, label %unmask
start:
  %me = call ptr @record(ptr %team, i64 %n)
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
"""
