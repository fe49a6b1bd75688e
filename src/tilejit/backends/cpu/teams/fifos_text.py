"""FIFOs between fibers as LLVM text."""

FIFOS_TEXT = r"""
; Room for a tile on its way, or null.
define internal ptr @fifo_slot(ptr %context, ptr %queue, i64 %bytes) noinline {
  %free = get ptr %queue $QUEUE_FREE
  %none = icmp eq ptr %free, null
  br i1 %none, label %new, label %again
again:
  %next = load ptr, ptr %free, align 8
  put ptr %next %queue $QUEUE_FREE
  ret ptr %free
new:
  %self = get ptr %context $CTX_FIBER
  %root = get ptr %self $FIBER_ROOT
  %slot = get ptr %root $FIBER_HEAP
  %end = get ptr %root $FIBER_HEAP_END
  %after = getelementptr i8, ptr %slot, i64 %bytes
  %full = icmp ugt ptr %after, %end
  br i1 %full, label %no, label %yes
no:
  ret ptr null
yes:
  put ptr %after %root $FIBER_HEAP
  ret ptr %slot
}

define internal void @fifo_push(ptr %context, ptr %queue, ptr %slot) noinline {
  store ptr null, ptr %slot, align 8
  %count = get i64 %queue $QUEUE_PUSHED
  %more = add i64 %count, 1
  put i64 %more %queue $QUEUE_PUSHED
  %taken = get i64 %queue $QUEUE_POPPED
  %empty = icmp eq i64 %count, %taken
  br i1 %empty, label %first, label %behind
first:
  put ptr %slot %queue $QUEUE_HEAD
  put ptr %slot %queue $QUEUE_TAIL
  ret void
behind:
  %tail = get ptr %queue $QUEUE_TAIL
  store ptr %slot, ptr %tail, align 8
  put ptr %slot %queue $QUEUE_TAIL
  %waiting = sub i64 %more, %taken
  %many = icmp sge i64 %waiting, $BACKLOG
  br i1 %many, label %pause, label %done
pause:
  %self = get ptr %context $CTX_FIBER
  put ptr %queue %self $FIBER_COUNTER
  put i64 0 %self $FIBER_TARGET
  call void @fiber_next(ptr %context, ptr %self)
  br label %done
done:
  ret void
}

; The oldest tile of a queue, once there is one. It stays in the queue. Another kernel that takes from it may be faster.
define internal ptr @fifo_head(ptr %context, ptr %queue, i64 %row) noinline {
entry:
  %pushed = getelementptr i8, ptr %queue, i64 $QUEUE_PUSHED
  br label %wait
wait:
  %count = get i64 %queue $QUEUE_POPPED
  %wanted = add i64 %count, 1
  call void @fiber_wait(ptr %context, ptr %pushed, i64 %wanted, i64 %row)
  %there = load i64, ptr %pushed, align 8
  %taken = get i64 %queue $QUEUE_POPPED
  %left = icmp sgt i64 %there, %taken
  br i1 %left, label %found, label %wait
found:
  %slot = get ptr %queue $QUEUE_HEAD
  ret ptr %slot
}

define internal void @fifo_drop(ptr %queue) noinline {
  %slot = get ptr %queue $QUEUE_HEAD
  %next = load ptr, ptr %slot, align 8
  put ptr %next %queue $QUEUE_HEAD
  %count = get i64 %queue $QUEUE_POPPED
  %more = add i64 %count, 1
  put i64 %more %queue $QUEUE_POPPED
  %free = get ptr %queue $QUEUE_FREE
  store ptr %free, ptr %slot, align 8
  put ptr %slot %queue $QUEUE_FREE
  ret void
}
"""
