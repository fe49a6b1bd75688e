"""The functions in which kernels wait for other ranks, as LLVM text: spin, let others run, then sleep longer and longer, with a record that says what for."""

from __future__ import annotations

from tilejit.backends.cpu.teams.accesses import with_accesses
from tilejit.backends.cpu.teams.fibers_layout import Fiber
from tilejit.runtime.call import abi
from tilejit.runtime.ranks.abi import LATER, Comm, Far, Record, State

WAIT, LOCK, TURNS = "rank.wait", "rank.lock", "rank.turns"
_YIELDS = 200
"""Looks between which other threads may run, before a wait sleeps."""
_SLEEP_US = 1000
"""The longest sleep between two looks."""
WAIT_TEXT = f"""
define internal i64 @{WAIT}(ptr %comm, ptr %cell, i32 %expected, i64 %ge, i64 %line) noinline {{
start:
  %asked.of = alloca [4 x i64], align 8
  %far.at = getelementptr i64, ptr %comm, i64 {int(Comm.FAR)}
  %far = load ptr, ptr %far.at, align 8
  %all.near = icmp eq ptr %far, null
  br i1 %all.near, label %entry, label %ask
ask:
  %ask.cell = ptrtoint ptr %cell to i64
  store i64 %ask.cell, ptr %asked.of, align 8
  %ask.expected = sext i32 %expected to i64
  %asked.1 = getelementptr i64, ptr %asked.of, i64 1
  store i64 %ask.expected, ptr %asked.1, align 8
  %asked.2 = getelementptr i64, ptr %asked.of, i64 2
  store i64 %ge, ptr %asked.2, align 8
  %asked.3 = getelementptr i64, ptr %asked.of, i64 3
  store i64 %line, ptr %asked.3, align 8
  %ask.comm = ptrtoint ptr %comm to i64
  %asked = call i64 %far(i64 %ask.comm, i64 {int(Far.WAIT)}, i64 0, ptr %asked.of)
  ret i64 %asked
entry:
  %spin.at = getelementptr i64, ptr %comm, i64 {int(Comm.SPIN)}
  %spins = load i64, ptr %spin.at, align 8
  %is.ge = icmp ne i64 %ge, 0
  br label %spin
spin:
  %n = phi i64 [ 0, %entry ], [ %n1, %again ]
  %v = load atomic i32, ptr %cell acquire, align 4
  %eq = icmp eq i32 %v, %expected
  %more = icmp sge i32 %v, %expected
  %there = select i1 %is.ge, i1 %more, i1 %eq
  br i1 %there, label %over, label %next
next:
  %n1 = add i64 %n, 1
  %long = icmp sge i64 %n1, %spins
  br i1 %long, label %block, label %again
again:
  ; pause
  br label %spin
over:
  ret i64 0
block:
  %stop.at = getelementptr i64, ptr %comm, i64 {int(Comm.STOP)}
  %stop = load ptr, ptr %stop.at, align 8
  %record.at = getelementptr i64, ptr %comm, i64 {int(Comm.RECORD)}
  %record = load ptr, ptr %record.at, align 8
  %pause.at = getelementptr i64, ptr %comm, i64 {int(Comm.PAUSE)}
  %sleep = load ptr, ptr %pause.at, align 8
  %yield.at = getelementptr i64, ptr %comm, i64 {int(Comm.YIELD)}
  %yield = load ptr, ptr %yield.at, align 8
  %rank.at = getelementptr i64, ptr %comm, i64 {int(Comm.RANK)}
  %rank = load i64, ptr %rank.at, align 8
  %bases = getelementptr i64, ptr %comm, i64 {int(Comm.BASES)}
  %base.at = getelementptr i64, ptr %bases, i64 %rank
  %base = load i64, ptr %base.at, align 8
  %address = ptrtoint ptr %cell to i64
  %offset = sub i64 %address, %base
  %buffer.at = getelementptr i64, ptr %comm, i64 {int(Comm.BUFFER)}
  %buffer = load i64, ptr %buffer.at, align 8
  %expected.64 = sext i32 %expected to i64
  %r.cell = getelementptr i64, ptr %record, i64 {int(Record.CELL)}
  store i64 %offset, ptr %r.cell, align 8
  %r.expected = getelementptr i64, ptr %record, i64 {int(Record.EXPECTED)}
  store i64 %expected.64, ptr %r.expected, align 8
  %r.cmp = getelementptr i64, ptr %record, i64 {int(Record.CMP)}
  store i64 %ge, ptr %r.cmp, align 8
  %r.buffer = getelementptr i64, ptr %record, i64 {int(Record.BUFFER)}
  store i64 %buffer, ptr %r.buffer, align 8
  %r.line = getelementptr i64, ptr %record, i64 {int(Record.LINE)}
  store i64 %line, ptr %r.line, align 8
  %r.turn = getelementptr i64, ptr %record, i64 {int(Record.TURN)}
  %turn = atomicrmw add ptr %r.turn, i64 1 seq_cst, align 8
  %r.state = getelementptr i64, ptr %record, i64 {int(Record.STATE)}
  store atomic i64 {int(State.WAITING)}, ptr %r.state seq_cst, align 8
  br label %look
look:
  %m = phi i64 [ 0, %block ], [ %m1, %yielded ], [ %m1, %slept ]
  %us = phi i64 [ 1, %block ], [ %us, %yielded ], [ %us.next, %slept ]
  %w = load atomic i32, ptr %cell acquire, align 4
  %w.eq = icmp eq i32 %w, %expected
  %w.more = icmp sge i32 %w, %expected
  %w.there = select i1 %is.ge, i1 %w.more, i1 %w.eq
  br i1 %w.there, label %awake, label %stopped
stopped:
  %word = load atomic i64, ptr %stop acquire, align 8
  %given.up = icmp ne i64 %word, 0
  br i1 %given.up, label %leave, label %rest
rest:
  %m1 = add i64 %m, 1
  %tired = icmp sgt i64 %m1, {_YIELDS}
  br i1 %tired, label %doze, label %let
let:
  %ignored = call i32 %yield()
  br label %yielded
yielded:
  br label %look
doze:
  %us.32 = trunc i64 %us to i32
  %ignored2 = call i32 %sleep(i32 %us.32)
  br label %slept
slept:
  %twice = shl i64 %us, 1
  %much = icmp sgt i64 %twice, {_SLEEP_US}
  %us.next = select i1 %much, i64 {_SLEEP_US}, i64 %twice
  br label %look
awake:
  store atomic i64 {int(State.RUNNING)}, ptr %r.state seq_cst, align 8
  %turn2 = atomicrmw add ptr %r.turn, i64 1 seq_cst, align 8
  ret i64 0
leave:
  store atomic i64 {int(State.RUNNING)}, ptr %r.state seq_cst, align 8
  ret i64 1
}}
"""
TURNS_TEXT = with_accesses(f"""
define internal i64 @{TURNS}(ptr %context, ptr %comm, ptr %cell, i32 %expected, i64 %ge, i64 %line) noinline {{
entry:
  %asked = alloca [3 x i64], align 8
  %self = get ptr %context {abi.FIBER}
  %alone = icmp eq ptr %self, null
  br i1 %alone, label %plain, label %start
plain:
  %answer = call i64 @{WAIT}(ptr %comm, ptr %cell, i32 %expected, i64 %ge, i64 %line)
  ret i64 %answer
start:
  %is.ge = icmp ne i64 %ge, 0
  %root = get ptr %self {int(Fiber.ROOT)}
  %far = get ptr %comm {int(Comm.FAR)}
  %stop = get ptr %comm {int(Comm.STOP)}
  %record = get ptr %comm {int(Comm.RECORD)}
  %sleep = get ptr %comm {int(Comm.PAUSE)}
  %yield = get ptr %comm {int(Comm.YIELD)}
  %rank = get i64 %comm {int(Comm.RANK)}
  %bases = getelementptr i64, ptr %comm, i64 {int(Comm.BASES)}
  %base = get i64 %bases %rank
  %address = ptrtoint ptr %cell to i64
  %offset = sub i64 %address, %base
  %buffer = get i64 %comm {int(Comm.BUFFER)}
  %expected.64 = sext i32 %expected to i64
  %state = getelementptr i64, ptr %record, i64 {int(Record.STATE)}
  %turn = getelementptr i64, ptr %record, i64 {int(Record.TURN)}
  %rounds = getelementptr i64, ptr %record, i64 {int(Record.ROUNDS)}
  %all.near = icmp eq ptr %far, null
  br label %look
look:
  %m = phi i64 [ 0, %start ], [ %m, %passed ], [ %m1, %yielded ], [ %m1, %slept ]
  %us = phi i64 [ 1, %start ], [ %us, %passed ], [ %us, %yielded ], [ %us.next, %slept ]
  br i1 %all.near, label %near, label %ask
ask:
  put i64 %address %asked 0
  put i64 %expected.64 %asked 1
  put i64 %ge %asked 2
  %comm.64 = ptrtoint ptr %comm to i64
  %said = call i64 %far(i64 %comm.64, i64 {int(Far.LOOK)}, i64 0, ptr %asked)
  %came = icmp eq i64 %said, 0
  br i1 %came, label %there, label %refused
refused:
  %later = icmp eq i64 %said, {LATER}
  br i1 %later, label %stopped, label %leave
near:
  %v = load atomic i32, ptr %cell acquire, align 4
  %eq = icmp eq i32 %v, %expected
  %more = icmp sge i32 %v, %expected
  %holds = select i1 %is.ge, i1 %more, i1 %eq
  br i1 %holds, label %there, label %stopped
stopped:
  %word = load atomic i64, ptr %stop acquire, align 8
  %given.up = icmp ne i64 %word, 0
  br i1 %given.up, label %leave, label %pass
pass:
  %vain = call i1 @fiber_pass(ptr %context, ptr %self)
  br i1 %vain, label %round, label %passed
passed:
  br label %look
round:
  put i64 %offset %record {int(Record.CELL)}
  put i64 %expected.64 %record {int(Record.EXPECTED)}
  put i64 %ge %record {int(Record.CMP)}
  put i64 %buffer %record {int(Record.BUFFER)}
  put i64 %line %record {int(Record.LINE)}
  store atomic i64 {int(State.LOOKING)}, ptr %state seq_cst, align 8
  %ignored0 = atomicrmw add ptr %rounds, i64 1 seq_cst, align 8
  %m1 = add i64 %m, 1
  %tired = icmp sgt i64 %m1, {_YIELDS}
  br i1 %tired, label %doze, label %let
let:
  %ignored1 = call i32 %yield()
  br label %yielded
yielded:
  br label %look
doze:
  %us.32 = trunc i64 %us to i32
  %ignored2 = call i32 %sleep(i32 %us.32)
  br label %slept
slept:
  %twice = shl i64 %us, 1
  %much = icmp sgt i64 %twice, {_SLEEP_US}
  %us.next = select i1 %much, i64 {_SLEEP_US}, i64 %twice
  br label %look
there:
  put i64 0 %root {int(Fiber.IDLE)}
  %was = load atomic i64, ptr %state seq_cst, align 8
  %waited = icmp eq i64 %was, {int(State.LOOKING)}
  br i1 %waited, label %awake, label %over
awake:
  store atomic i64 {int(State.RUNNING)}, ptr %state seq_cst, align 8
  %ignored3 = atomicrmw add ptr %turn, i64 1 seq_cst, align 8
  br label %over
over:
  ret i64 0
leave:
  store atomic i64 {int(State.RUNNING)}, ptr %state seq_cst, align 8
  ret i64 1
}}
""", "i64")
"""Where several blocks of a rank are under way: as long as others can go on, they do."""
LOCK_TEXT = f"""
define internal i64 @{LOCK}(ptr %comm, ptr %lock) noinline {{
entry:
  %stop.at = getelementptr i64, ptr %comm, i64 {int(Comm.STOP)}
  %stop = load ptr, ptr %stop.at, align 8
  %yield.at = getelementptr i64, ptr %comm, i64 {int(Comm.YIELD)}
  %yield = load ptr, ptr %yield.at, align 8
  br label %try
try:
  %old = atomicrmw xchg ptr %lock, i64 1 seq_cst, align 8
  %free = icmp eq i64 %old, 0
  br i1 %free, label %held, label %look
look:
  %n = phi i64 [ 0, %try ], [ %n1, %pause ]
  %now = load atomic i64, ptr %lock monotonic, align 8
  %seems.free = icmp eq i64 %now, 0
  br i1 %seems.free, label %try, label %wait
wait:
  %n1 = add i64 %n, 1
  %long = icmp ugt i64 %n1, 200
  br i1 %long, label %let, label %pause
pause:
  ; pause
  br label %look
let:
  %word = load atomic i64, ptr %stop acquire, align 8
  %given.up = icmp ne i64 %word, 0
  br i1 %given.up, label %leave, label %go
go:
  %ignored = call i32 %yield()
  br label %try
held:
  ret i64 0
leave:
  ret i64 1
}}
"""
