"""Work on the threads that torch works with, as LLVM text: they are OpenMP's, which can be asked to run a function on each of them."""

BORROWED_TEXT = r"""
; The function of OpenMP that runs something on the threads that torch works with; null: there are not enough of them, they are another thread's, or came late.
define internal ptr @openmp(ptr %team, i64 %wanted) noinline {
entry:
  %parallel = get ptr %team $T_OPENMP
  %is_there = icmp ne ptr %parallel, null
  br i1 %is_there, label %ask, label %none
ask:
  %owner = get i64 %team $T_OWNER
  %self = call i64 @pthread_self()
  %is_ours = icmp eq i64 %self, %owner
  br i1 %is_ours, label %count, label %none
count:
  %all = call i64 @openmp_count(ptr %team)
  %enough = icmp sge i64 %all, %wanted
  %in_range = icmp sle i64 %all, $MAX_WORKERS
  %fits = and i1 %enough, %in_range
  br i1 %fits, label %consider, label %none
consider:
  %many = icmp sge i64 %all, $MANY
  br i1 %many, label %some, label %trust
trust:
  %now = call i64 @llvm.readcyclecounter()
  %after = get i64 %team $T_BORROW_AFTER
  %in_time = icmp uge i64 %now, %after
  br i1 %in_time, label %some, label %none
some:
  ret ptr %parallel
none:
  ret ptr null
}

define internal i64 @openmp_count(ptr %team) noinline {
  %count = get ptr %team $T_COUNT
  %told = call i32 %count()
  %all = sext i32 %told to i64
  ret i64 %all
}

; Always as many as torch has: fewer would make OpenMP end the others, and start them again for torch.
; OpenMP waits for every one of them: where other programs have the processors the caller, who did their parts, waits for turns of the system to pass.
define internal void @run_borrowed(ptr %parallel, ptr %team, ptr %context, ptr %arena) noinline {
entry:
  %work = alloca [4 x i64], align 8
  put ptr %team %work 0
  put ptr %context %work 1
  put ptr %arena %work 2
  %all = call i64 @openmp_count(ptr %team)
  %count = trunc i64 %all to i32
  %begin = call i64 @llvm.readcyclecounter()
  call void %parallel(ptr @member, ptr %work, i32 %count, i32 0)
  %end = call i64 @llvm.readcyclecounter()
  ; It waits in the beginning too: until those of the last time have all been there.
  %worked = get i64 %work 3
  %all_in_all = sub i64 %end, %begin
  %waited = sub i64 %all_in_all, %worked
  %usual = add i64 %worked, $LINGER
  %late = icmp ugt i64 %waited, %usual
  br i1 %late, label %remember, label %done
remember:
  %pause = mul i64 %waited, $PAUSE
  %after = add i64 %end, %pause
  put i64 %after %team $T_BORROW_AFTER
  br label %done
done:
  ret void
}

; What each of the threads does; the first of them is the caller.
define internal void @member(ptr %work) noinline {
entry:
  %mode = alloca i32, align 4
  %team = get ptr %work 0
  %ask = get ptr %team $T_NUMBER
  %told = call i32 %ask()
  %is_caller = icmp eq i32 %told, 0
  br i1 %is_caller, label %caller, label %helper
caller:
  %context = get ptr %work 1
  %arena = get ptr %work 2
  %begin = call i64 @llvm.readcyclecounter()
  call void @take_phases(ptr %team, ptr %context, ptr %arena, i64 0, i1 true, i1 true)
  %end = call i64 @llvm.readcyclecounter()
  %worked = sub i64 %end, %begin
  put i64 %worked %work 3
  ret void
helper:
  %number = sext i32 %told to i64
  %limit.at = call ptr @slot(ptr %team, i64 $T_LIMIT)
  %limit = load atomic i64, ptr %limit.at monotonic, align 8
  %is_wanted = icmp sle i64 %number, %limit
  br i1 %is_wanted, label %help, label %done
help:
  %place = add i64 %number, $BORROWED
  %me = call ptr @record(ptr %team, i64 %place)
  put i64 %number %me $W_HOME
  ; Its next work may be torch's.
  call void @llvm.x86.sse.stmxcsr(ptr %mode)
  call void @work(ptr %team, ptr %me, i1 true)
  call void @llvm.x86.sse.ldmxcsr(ptr %mode)
  br label %done
done:
  ret void
}
"""
