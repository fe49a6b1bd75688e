"""The phases of shared work as LLVM text: how their trips are cut into stretches, taken by threads, counted, and waited for between phases.

A phase is a line of eight words (abi.Phase) that the caller has on its stack.
"""

PHASES_TEXT = r"""
declare i64 @llvm.abs.i64(i64, i1)

define internal ptr @phase(ptr %team, i64 %number) alwaysinline {
  %all = get ptr %team $T_PHASES
  %line = shl i64 %number, 3
  %at = call ptr @slot(ptr %all, i64 %line)
  ret ptr %at
}

; The stretch of a part of a phase: its first trip that nobody took yet and its end.
define internal ptr @stretch(ptr %team, i64 %phase, i64 %number) alwaysinline {
  %before = mul i64 %phase, $STRETCHES_OF_PHASE
  %all = add i64 %before, %number
  %line = shl i64 %all, 3
  %index = add i64 %line, $T_STRETCHES
  %at = call ptr @slot(ptr %team, i64 %index)
  ret ptr %at
}

; Trips of a phase that are over.
define internal ptr @done(ptr %team, i64 %phase) alwaysinline {
  %line = shl i64 %phase, 3
  %index = add i64 %line, $T_DONE
  %at = call ptr @slot(ptr %team, i64 %index)
  ret ptr %at
}

; The trips of one part, of so many of about the same length.
define internal { i64, i64 } @part(i64 %trips, i64 %parts, i64 %number) alwaysinline {
  %each = udiv i64 %trips, %parts
  %longer = urem i64 %trips, %parts
  %base = mul i64 %number, %each
  %extra = call i64 @llvm.smin.i64(i64 %number, i64 %longer)
  %begin = add i64 %base, %extra
  %is_longer = icmp slt i64 %number, %longer
  %one = zext i1 %is_longer to i64
  %length = add i64 %each, %one
  %end = add i64 %begin, %length
  %r0 = insertvalue { i64, i64 } poison, i64 %begin, 0
  %r1 = insertvalue { i64, i64 } %r0, i64 %end, 1
  ret { i64, i64 } %r1
}

; Whether the first trip is measured.
define internal i1 @is_unknown(i64 %chunk, i1 %together) alwaysinline {
  %none = icmp eq i64 %chunk, 0
  %guess = icmp slt i64 %chunk, 0
  %known = xor i1 %together, true
  %wary = and i1 %guess, %known
  %unknown = or i1 %none, %wary
  ret i1 %unknown
}

; Describe a phase for `wanted` threads. `together`: they come at the same time; brief phases then need no stretches that others could take from.
define internal void @cut(ptr %team, i64 %phase, i64 %wanted, i1 %together) noinline {
entry:
  %it = call ptr @phase(ptr %team, i64 %phase)
  %trips = get i64 %it $P_TRIPS
  %crew = get i64 %it $P_CREW
  %chunk = get i64 %it $P_CHUNK
  %done.at = call ptr @done(ptr %team, i64 %phase)
  store atomic i64 0, ptr %done.at monotonic, align 8
  %useful = call i64 @llvm.smin.i64(i64 %crew, i64 %trips)
  %some = call i64 @llvm.smax.i64(i64 %useful, i64 1)
  %parts = call i64 @llvm.smin.i64(i64 %some, i64 %wanted)
  put i64 %parts %it $P_PARTS
  ; Not so many trips at once that a thread could be left without, nor more chunks than balance needs.
  %portions = mul i64 %parts, 4
  %share = udiv i64 %trips, %portions
  %most = call i64 @llvm.smax.i64(i64 %share, i64 1)
  %eighth = udiv i64 %most, 8
  %least = call i64 @llvm.smax.i64(i64 %eighth, i64 1)
  put i64 %most %team $T_MOST
  put i64 %least %team $T_LEAST
  %size = call i64 @llvm.abs.i64(i64 %chunk, i1 false)
  %fit = call i64 @llvm.smin.i64(i64 %size, i64 %most)
  %sized = call i64 @llvm.smax.i64(i64 %fit, i64 %least)
  %unknown = call i1 @is_unknown(i64 %chunk, i1 %together)
  %first = select i1 %unknown, i64 1, i64 %sized
  %chunk.at = call ptr @slot(ptr %it, i64 $P_CHUNK)
  store atomic i64 %first, ptr %chunk.at monotonic, align 8
  %limit = mul i64 %parts, $FIXED
  %brief = icmp sle i64 %crew, %limit
  %known = xor i1 %unknown, true
  %may = and i1 %brief, %together
  %fixed = and i1 %may, %known
  %old = get i64 %team $T_TICKET
  %one = zext i1 %fixed to i64
  %new = add i64 %old, %one
  put i64 %new %team $T_TICKET
  %ticket = select i1 %fixed, i64 %new, i64 0
  put i64 %ticket %it $P_FIXED
  br i1 %fixed, label %over, label %each
each:
  %number = phi i64 [ 0, %entry ], [ %number1, %each ]
  %range = call { i64, i64 } @part(i64 %trips, i64 %parts, i64 %number)
  %begin = extractvalue { i64, i64 } %range, 0
  %end = extractvalue { i64, i64 } %range, 1
  %next.at = call ptr @stretch(ptr %team, i64 %phase, i64 %number)
  store atomic i64 %begin, ptr %next.at monotonic, align 8
  put i64 %end %next.at 1
  %number1 = add i64 %number, 1
  %last = icmp eq i64 %number1, %parts
  br i1 %last, label %over, label %each
over:
  ret void
}

; Run trips; how many of them are over now.
define internal i64 @run(ptr %team, ptr %it, ptr %context, ptr %arena, i64 %begin, i64 %end) noinline {
entry:
  %task = get ptr %it $P_TASK
  %args = get ptr %it $P_ARGS
  %code = call i64 %task(ptr %args, ptr %context, ptr %arena, i64 %begin, i64 %end)
  %good = icmp eq i64 %code, 0
  br i1 %good, label %fine, label %bad
fine:
  %count = sub i64 %end, %begin
  ret i64 %count
bad:
  call void @fail(ptr %team, ptr %context, i64 %begin, i64 %code)
  ret i64 0
}

; Run a part of a phase whose parts are fixed, unless somebody else does. How many trips it ran.
define internal i64 @take_whole(ptr %team, i64 %phase, ptr %context, ptr %arena, i64 %number) noinline {
entry:
  %it = call ptr @phase(ptr %team, i64 %phase)
  %ticket = get i64 %it $P_FIXED
  %stretch = call ptr @stretch(ptr %team, i64 %phase, i64 %number)
  %taken.at = call ptr @slot(ptr %stretch, i64 2)
  %seen = load atomic i64, ptr %taken.at monotonic, align 8
  %early = icmp eq i64 %seen, %ticket
  br i1 %early, label %gone, label %try
try:
  %last = atomicrmw xchg ptr %taken.at, i64 %ticket monotonic, align 8
  %late = icmp eq i64 %last, %ticket
  br i1 %late, label %gone, label %ours
gone:
  ret i64 0
ours:
  %trips = get i64 %it $P_TRIPS
  %parts = get i64 %it $P_PARTS
  %range = call { i64, i64 } @part(i64 %trips, i64 %parts, i64 %number)
  %begin = extractvalue { i64, i64 } %range, 0
  %end = extractvalue { i64, i64 } %range, 1
  %ran = call i64 @run(ptr %team, ptr %it, ptr %context, ptr %arena, i64 %begin, i64 %end)
  ret i64 %ran
}

; Run the parts that nobody came for.
define internal void @take_left(ptr %team, i64 %phase, ptr %context, ptr %arena) noinline {
entry:
  %it = call ptr @phase(ptr %team, i64 %phase)
  %parts = get i64 %it $P_PARTS
  %done.at = call ptr @done(ptr %team, i64 %phase)
  br label %part
part:
  %number = phi i64 [ 0, %entry ], [ %number1, %part ]
  %ran = call i64 @take_whole(ptr %team, i64 %phase, ptr %context, ptr %arena, i64 %number)
  %old = atomicrmw add ptr %done.at, i64 %ran release, align 8
  %number1 = add i64 %number, 1
  %last = icmp eq i64 %number1, %parts
  br i1 %last, label %over, label %part
over:
  ret void
}

; Take trips of a phase until there are none: of the own stretch, in order, then of the others, so that the same thread has the same trips in call after call,
; with what they need in its caches. After a failure only the trips before it count. How many it ran.
define internal i64 @take_part(ptr %team, i64 %phase, ptr %context, ptr %arena, i64 %home) noinline {
entry:
  %it = call ptr @phase(ptr %team, i64 %phase)
  %failed.at = call ptr @slot(ptr %team, i64 $T_FAILED_AT)
  %chunk.at = call ptr @slot(ptr %it, i64 $P_CHUNK)
  %parts = get i64 %it $P_PARTS
  %fixed.word = get i64 %it $P_FIXED
  %fixed = icmp ne i64 %fixed.word, 0
  br i1 %fixed, label %own_part, label %several
own_part:
  %has = icmp slt i64 %home, %parts
  br i1 %has, label %only, label %nothing
nothing:
  ret i64 0
only:
  %whole = call i64 @take_whole(ptr %team, i64 %phase, ptr %context, ptr %arena, i64 %home)
  ret i64 %whole
several:
  %own = urem i64 %home, %parts
  br label %part
part:
  %visited = phi i64 [ 0, %several ], [ %visited1, %next ]
  %number = phi i64 [ %own, %several ], [ %following, %next ]
  %sum = phi i64 [ 0, %several ], [ %after, %next ]
  %next.at = call ptr @stretch(ptr %team, i64 %phase, i64 %number)
  %end = get i64 %next.at 1
  br label %more
more:
  %before = phi i64 [ %sum, %part ], [ %total, %go ]
  %seen = load atomic i64, ptr %next.at monotonic, align 8
  %left = icmp slt i64 %seen, %end
  br i1 %left, label %take, label %next
take:
  %chunk = load atomic i64, ptr %chunk.at monotonic, align 8
  %begin = atomicrmw add ptr %next.at, i64 %chunk monotonic, align 8
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %there, label %next
there:
  %failed = load atomic i64, ptr %failed.at monotonic, align 8
  %counts = icmp slt i64 %begin, %failed
  br i1 %counts, label %go, label %next
go:
  %past = add i64 %begin, %chunk
  %stop = call i64 @llvm.smin.i64(i64 %past, i64 %end)
  %ran = call i64 @run(ptr %team, ptr %it, ptr %context, ptr %arena, i64 %begin, i64 %stop)
  %total = add i64 %before, %ran
  br label %more
next:
  %after = phi i64 [ %before, %more ], [ %before, %take ], [ %before, %there ]
  %visited1 = add i64 %visited, 1
  %up = add i64 %number, 1
  %following = urem i64 %up, %parts
  %over = icmp eq i64 %visited1, %parts
  br i1 %over, label %done, label %part
done:
  ret i64 %after
}

; Wait until all trips of a phase are over; false: one failed. Whoever called the kernel sees to parts that nobody came for, and asks whether it should stop.
define internal i1 @wait_for(ptr %team, i64 %phase, ptr %context, ptr %arena, i1 %is_caller) noinline {
entry:
  %it = call ptr @phase(ptr %team, i64 %phase)
  %trips = get i64 %it $P_TRIPS
  %ticket = get i64 %it $P_FIXED
  %fixed = icmp ne i64 %ticket, 0
  %cares = and i1 %fixed, %is_caller
  %done.at = call ptr @done(ptr %team, i64 %phase)
  %failed.at = call ptr @slot(ptr %team, i64 $T_FAILED_AT)
  %start = call i64 @llvm.readcyclecounter()
  br label %spin
spin:
  %done = load atomic i64, ptr %done.at acquire, align 8
  %all = icmp eq i64 %done, %trips
  br i1 %all, label %over, label %look
look:
  %failed = load atomic i64, ptr %failed.at monotonic, align 8
  %fine = icmp eq i64 %failed, $LARGEST
  br i1 %fine, label %wait, label %bad
wait:
  %long = call i1 @rest(i64 %start)
  br i1 %is_caller, label %caller, label %spin
caller:
  %now = call i64 @llvm.readcyclecounter()
  %waited = sub i64 %now, %start
  %late = icmp ugt i64 %waited, $SPIN
  %left = and i1 %late, %cares
  br i1 %left, label %help, label %stop
help:
  call void @take_left(ptr %team, i64 %phase, ptr %context, ptr %arena)
  br label %stop
stop:
  br i1 %long, label %ask, label %spin
ask:
  %turns = call i64 @$LOOK(ptr %context)
  br label %spin
over:
  ret i1 true
bad:
  ret i1 false
}

; Wait until somebody has come for each part of the last phase, which is brief: that they are over is what OpenMP waits for.
define internal void @wait_for_all(ptr %team, i64 %phase, ptr %context, ptr %arena) noinline {
entry:
  %it = call ptr @phase(ptr %team, i64 %phase)
  %parts = get i64 %it $P_PARTS
  %ticket = get i64 %it $P_FIXED
  %start = call i64 @llvm.readcyclecounter()
  br label %look
look:
  br label %part
part:
  %number = phi i64 [ 0, %look ], [ %number1, %next ]
  %stretch = call ptr @stretch(ptr %team, i64 %phase, i64 %number)
  %taken.at = call ptr @slot(ptr %stretch, i64 2)
  %seen = load atomic i64, ptr %taken.at monotonic, align 8
  %taken = icmp eq i64 %seen, %ticket
  br i1 %taken, label %next, label %wait
next:
  %number1 = add i64 %number, 1
  %last = icmp eq i64 %number1, %parts
  br i1 %last, label %over, label %part
wait:
  %long = call i1 @rest(i64 %start)
  %now = call i64 @llvm.readcyclecounter()
  %waited = sub i64 %now, %start
  %late = icmp ugt i64 %waited, $SPIN
  br i1 %late, label %help, label %look
help:
  call void @take_left(ptr %team, i64 %phase, ptr %context, ptr %arena)
  br label %over
over:
  ret void
}

; Take part in phase after phase, each when the one before is over. `stays`: until the last is over too.
define internal void @take_phases(ptr %team, ptr %context, ptr %arena, i64 %home, i1 %counted, i1 %stays) noinline {
entry:
  %count = get i64 %team $T_PHASE_COUNT
  %is_caller = icmp eq i64 %home, 0
  br label %phase
phase:
  %number = phi i64 [ 0, %entry ], [ %number1, %follows ]
  %ran = call i64 @take_part(ptr %team, i64 %number, ptr %context, ptr %arena, i64 %home)
  %number1 = add i64 %number, 1
  %last = icmp eq i64 %number1, %count
  %some = icmp ne i64 %ran, 0
  %middle = xor i1 %last, true
  %it = call ptr @phase(ptr %team, i64 %number)
  %ticket = get i64 %it $P_FIXED
  %fixed = icmp ne i64 %ticket, 0
  %silent = and i1 %last, %fixed
  %loud = xor i1 %silent, true
  %asked = or i1 %middle, %counted
  %matters = and i1 %asked, %loud
  %add = and i1 %some, %matters
  br i1 %add, label %tell, label %told
tell:
  %done.at = call ptr @done(ptr %team, i64 %number)
  %old = atomicrmw add ptr %done.at, i64 %ran release, align 8
  br label %told
told:
  %waits = or i1 %middle, %stays
  br i1 %waits, label %which, label %over
which:
  br i1 %silent, label %coming, label %wait
coming:
  call void @wait_for_all(ptr %team, i64 %number, ptr %context, ptr %arena)
  br label %over
wait:
  %fine = call i1 @wait_for(ptr %team, i64 %number, ptr %context, ptr %arena, i1 %is_caller)
  %goes_on = and i1 %fine, %middle
  br i1 %goes_on, label %follows, label %over
follows:
  br label %phase
over:
  ret void
}
"""
