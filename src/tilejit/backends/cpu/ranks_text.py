"""The functions in which kernels wait for other ranks, as LLVM text: spin, let others run, then sleep longer and longer, with a record that says what for."""

from __future__ import annotations

from tilejit.backends.cpu.teams.accesses import with_accesses
from tilejit.backends.cpu.teams.atomic import take_text
from tilejit.backends.cpu.teams.fibers_layout import Fiber
from tilejit.runtime.call import abi
from tilejit.runtime.ranks.abi import LATER, Comm, Far, Record, State

WAIT, LOCK, TURNS, _HOLDS, _SAYS, _RESTS = "rank.wait", "rank.lock", "rank.turns", "rank.holds", "rank.says", "rank.rests"
_YIELDS = 200
"""Looks between which other threads may run, before a wait sleeps."""
_SLEEP_US = 1000
"""The longest sleep between two looks."""
_HELPERS = with_accesses(f"""
define internal i1 @{_HOLDS}(ptr %cell, i32 %expected, i64 %ge) alwaysinline {{
  %v = load atomic i32, ptr %cell acquire, align 4
  %eq = icmp eq i32 %v, %expected
  %more = icmp sge i32 %v, %expected
  %is.ge = icmp ne i64 %ge, 0
  %there = select i1 %is.ge, i1 %more, i1 %eq
  ret i1 %there
}}
define internal void @{_SAYS}(ptr %comm, ptr %cell, i32 %expected, i64 %ge, i64 %line) noinline {{
  %record = get ptr %comm {int(Comm.RECORD)}
  %rank = get i64 %comm {int(Comm.RANK)}
  %bases = getelementptr i64, ptr %comm, i64 {int(Comm.BASES)}
  %base = get i64 %bases %rank
  %address = ptrtoint ptr %cell to i64
  %offset = sub i64 %address, %base
  %buffer = get i64 %comm {int(Comm.BUFFER)}
  %expected.64 = sext i32 %expected to i64
  put i64 %offset %record {int(Record.CELL)}
  put i64 %expected.64 %record {int(Record.EXPECTED)}
  put i64 %ge %record {int(Record.CMP)}
  put i64 %buffer %record {int(Record.BUFFER)}
  put i64 %line %record {int(Record.LINE)}
  ret void
}}
define internal void @{_RESTS}(ptr %comm, i64 %looks) noinline {{
  %yield = get ptr %comm {int(Comm.YIELD)}
  %sleep = get ptr %comm {int(Comm.PAUSE)}
  %tired = icmp sgt i64 %looks, {_YIELDS}
  br i1 %tired, label %doze, label %let
let:
  %ignored = call i32 %yield()
  ret void
doze:
  %times = sub i64 %looks, {_YIELDS + 1}
  %often = icmp ugt i64 %times, {_SLEEP_US.bit_length()}
  %doubled = select i1 %often, i64 {_SLEEP_US.bit_length()}, i64 %times
  %long = shl i64 1, %doubled
  %too.long = icmp ugt i64 %long, {_SLEEP_US}
  %us = select i1 %too.long, i64 {_SLEEP_US}, i64 %long
  %us.32 = trunc i64 %us to i32
  %ignored2 = call i32 %sleep(i32 %us.32)
  ret void
}}
""", "i64")
WAIT_TEXT = _HELPERS + with_accesses(f"""
define internal i64 @{WAIT}(ptr %comm, ptr %cell, i32 %expected, i64 %ge, i64 %line) noinline {{
start:
  %asked.of = alloca [4 x i64], align 8
  %far = get ptr %comm {int(Comm.FAR)}
  %all.near = icmp eq ptr %far, null
  br i1 %all.near, label %entry, label %ask
ask:
  %ask.cell = ptrtoint ptr %cell to i64
  %ask.expected = sext i32 %expected to i64
  put i64 %ask.cell %asked.of 0
  put i64 %ask.expected %asked.of 1
  put i64 %ge %asked.of 2
  put i64 %line %asked.of 3
  %ask.comm = ptrtoint ptr %comm to i64
  %asked = call i64 %far(i64 %ask.comm, i64 {int(Far.WAIT)}, i64 0, ptr %asked.of)
  ret i64 %asked
entry:
  %spins = get i64 %comm {int(Comm.SPIN)}
  br label %spin
spin:
  %n = phi i64 [ 0, %entry ], [ %n1, %again ]
  %there = call i1 @{_HOLDS}(ptr %cell, i32 %expected, i64 %ge)
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
  call void @{_SAYS}(ptr %comm, ptr %cell, i32 %expected, i64 %ge, i64 %line)
  %stop = get ptr %comm {int(Comm.STOP)}
  %record = get ptr %comm {int(Comm.RECORD)}
  %r.turn = getelementptr i64, ptr %record, i64 {int(Record.TURN)}
  %turn = atomicrmw add ptr %r.turn, i64 1 seq_cst, align 8
  %r.state = getelementptr i64, ptr %record, i64 {int(Record.STATE)}
  store atomic i64 {int(State.WAITING)}, ptr %r.state seq_cst, align 8
  br label %look
look:
  %m = phi i64 [ 0, %block ], [ %m1, %rest ]
  %came = call i1 @{_HOLDS}(ptr %cell, i32 %expected, i64 %ge)
  br i1 %came, label %awake, label %stopped
stopped:
  %word = load atomic i64, ptr %stop acquire, align 8
  %given.up = icmp ne i64 %word, 0
  br i1 %given.up, label %leave, label %rest
rest:
  %m1 = add i64 %m, 1
  call void @{_RESTS}(ptr %comm, i64 %m1)
  br label %look
awake:
  store atomic i64 {int(State.RUNNING)}, ptr %r.state seq_cst, align 8
  %turn2 = atomicrmw add ptr %r.turn, i64 1 seq_cst, align 8
  ret i64 0
leave:
  store atomic i64 {int(State.RUNNING)}, ptr %r.state seq_cst, align 8
  ret i64 1
}}
""", "i64")
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
  %root = get ptr %self {int(Fiber.ROOT)}
  %far = get ptr %comm {int(Comm.FAR)}
  %stop = get ptr %comm {int(Comm.STOP)}
  %record = get ptr %comm {int(Comm.RECORD)}
  %state = getelementptr i64, ptr %record, i64 {int(Record.STATE)}
  %turn = getelementptr i64, ptr %record, i64 {int(Record.TURN)}
  %rounds = getelementptr i64, ptr %record, i64 {int(Record.ROUNDS)}
  %all.near = icmp eq ptr %far, null
  br label %look
look:
  %m = phi i64 [ 0, %start ], [ %m, %passed ], [ %m1, %round ]
  br i1 %all.near, label %near, label %ask
ask:
  %address = ptrtoint ptr %cell to i64
  %expected.64 = sext i32 %expected to i64
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
  %holds = call i1 @{_HOLDS}(ptr %cell, i32 %expected, i64 %ge)
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
  call void @{_SAYS}(ptr %comm, ptr %cell, i32 %expected, i64 %ge, i64 %line)
  store atomic i64 {int(State.LOOKING)}, ptr %state seq_cst, align 8
  %ignored0 = atomicrmw add ptr %rounds, i64 1 seq_cst, align 8
  %m1 = add i64 %m, 1
  call void @{_RESTS}(ptr %comm, i64 %m1)
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
LOCK_TEXT = take_text(LOCK, "ptr %comm, ptr %lock", "i64", "ret i64 0", with_accesses(f"""
  %stop = get ptr %comm {int(Comm.STOP)}
  %word = load atomic i64, ptr %stop acquire, align 8
  %given.up = icmp ne i64 %word, 0
  br i1 %given.up, label %leave, label %go
leave:
  ret i64 1
go:
  %yield = get ptr %comm {int(Comm.YIELD)}
  %ignored = call i32 %yield()
  br label %try
""", "i64"))
