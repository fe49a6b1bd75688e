"""Plans written by hand, for tests of everything that comes after the emitter."""

from __future__ import annotations

from tilejit.backends.cuda.plan import Apply, EntryPlan, Input, Kernel, Launch, Parameter, Program, Var
from tilejit.runtime.call.failures import Failure

ADD = """import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n):
    at = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)
"""
POINTERS = tuple(Parameter(name, "pointer", "*fp32", divisible=True) for name in ("x", "y", "out"))
ADD_KERNEL = Kernel("add", ADD, (*POINTERS, Parameter("n", "scalar", "i32", divisible=True)))
BLOCKS = Apply("ceildiv", (Var("n"), 1024))
ADD_ENTRY = EntryPlan(
    "add",
    (Input("x", 0, "address"), Input("n", 0, "extent", 0), Input("y", 1, "address"), Input("out", 2, "address")),
    (Launch(0, (BLOCKS, 1, 1), (Var("x"), Var("y"), Var("out"), Var("n"))),),
)
ADD_PROGRAM = Program((ADD_KERNEL,), {"add": ADD_ENTRY})

PICK = """import triton
import triton.language as tl


@triton.jit
def pick(x, index, out, n, errors):
    block = tl.program_id(0)
    at = tl.load(index + block)
    inside = (at >= 0) & (at < n)
    if inside == 0:
        tl.store(errors + 1, at.to(tl.int64))
        tl.store(errors + 2, n.to(tl.int64))
        tl.atomic_min(errors, block.to(tl.int64) << 40, sem="relaxed")
    tl.store(out + block, tl.load(x + at, mask=inside, other=0.0), mask=inside)
"""
PICK_KERNEL = Kernel(
    "pick",
    PICK,
    (
        Parameter("x", "pointer", "*fp32"),
        Parameter("index", "pointer", "*i32"),
        Parameter("out", "pointer", "*fp32"),
        Parameter("n", "scalar", "i32"),
        Parameter("errors", "error", "*i64"),
    ),
)
PICK_PROGRAM = Program(
    (PICK_KERNEL,),
    {
        "pick": EntryPlan(
            "pick",
            (Input("x", 0, "address"), Input("n", 0, "extent", 0), Input("index", 1, "address"), Input("m", 1, "extent", 0), Input("out", 2, "address")),
            (Launch(0, (Var("m"), 1, 1), (Var("x"), Var("index"), Var("out"), Var("n"))),),
        )
    },
    (Failure("bounds", "index {0} is outside x, which has {1} elements"),),
)
