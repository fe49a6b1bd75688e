"""How a loop finds out that it should stop: it looks at the clock now and then, and rarely asks Python whether a signal came.

Each function counts its turns down from a small number; at zero it calls `LOOK`, which returns how many turns to make before the next look, so that
looks lie some ten microseconds apart however long a turn takes, or 0: stop. Every POLL_CYCLES the thread that runs Python's signal handlers lets them
run (runtime/call/interrupt.py); what they raise sets a word that all threads of the call see. Such code leaves the function at once, with a result that
nobody looks at: after the call that word is what counts.
"""

from __future__ import annotations

from tilejit.runtime.call import abi
from tilejit.runtime.call.interrupt import Record

LOOK = "tj.look"
FIRST_TURNS = 4
"""Turns before the first look: short loops make none."""
MOST_TURNS = 4096
"""Turns between two looks, of a loop whose turns took next to nothing so far."""
APART_CYCLES = 50_000
"""About 20 µs: looks that are nearer to each other are too many."""
POLL_CYCLES = 100_000_000
"""Some 30 to 50 ms."""

LOOK_TEXT = f"""
define internal i64 @{LOOK}(ptr %context) noinline cold {{
entry:
  %nowhere = icmp eq ptr %context, null
  br i1 %nowhere, label %never, label %called
called:
  %record.at = getelementptr inbounds i64, ptr %context, i64 {abi.INTERRUPT}
  %record = load ptr, ptr %record.at, align 8
  %deaf = icmp eq ptr %record, null
  br i1 %deaf, label %never, label %look
never:
  ret i64 {1 << 62}
look:
  %stop.at = getelementptr inbounds i64, ptr %record, i64 {int(Record.STOP)}
  %word = load atomic i64, ptr %stop.at monotonic, align 8
  %stopped = icmp ne i64 %word, 0
  br i1 %stopped, label %stop, label %clock
stop:
  ret i64 0
clock:
  %now = call i64 @llvm.readcyclecounter()
  %looked.at = getelementptr inbounds i64, ptr %context, i64 {abi.LOOKED}
  %looked = load i64, ptr %looked.at, align 8
  store i64 %now, ptr %looked.at, align 8
  %apart = sub i64 %now, %looked
  %near = icmp ult i64 %apart, {APART_CYCLES}
  %turns.at = getelementptr inbounds i64, ptr %context, i64 {abi.TURNS}
  %before = load i64, ptr %turns.at, align 8
  %more = shl i64 %before, 1
  %fewer = lshr i64 %before, 2
  %chosen = select i1 %near, i64 %more, i64 %fewer
  %least = call i64 @llvm.smax.i64(i64 %chosen, i64 1)
  %turns = call i64 @llvm.smin.i64(i64 %least, i64 {MOST_TURNS})
  store i64 %turns, ptr %turns.at, align 8
  %due.at = getelementptr inbounds i64, ptr %context, i64 {abi.DUE}
  %due = load i64, ptr %due.at, align 8
  %late = icmp ugt i64 %now, %due
  br i1 %late, label %alarm, label %go_on
alarm:
  %next = add i64 %now, {POLL_CYCLES}
  store i64 %next, ptr %due.at, align 8
  %first = icmp eq i64 %due, 0
  %poll.at = getelementptr inbounds i64, ptr %record, i64 {int(Record.POLL)}
  %poll = load ptr, ptr %poll.at, align 8
  %busy = icmp eq ptr %poll, null
  %skip = or i1 %first, %busy
  br i1 %skip, label %go_on, label %ask
ask:
  ; A handler may call kernels itself: those do not ask.
  store ptr null, ptr %poll.at, align 8
  %answer = call i32 %poll()  ; what it has set counts: an error that gets past it leaves no answer
  store ptr %poll, ptr %poll.at, align 8
  %told = load atomic i64, ptr %stop.at monotonic, align 8
  %raised = icmp ne i64 %told, 0
  br i1 %raised, label %stop, label %go_on
go_on:
  ret i64 %turns
}}
"""
DECLARATIONS = {
    "llvm.readcyclecounter": "declare i64 @llvm.readcyclecounter()",
    "llvm.smin.i64": "declare i64 @llvm.smin.i64(i64, i64)",
    "llvm.smax.i64": "declare i64 @llvm.smax.i64(i64, i64)",
}
