"""Forms of public programs about functions: scopes of inline helpers, outputs that are handed through, branches and loops that yield."""

from __future__ import annotations

from numpy import float32

import tilejit.language as pl
from tests.suite.harness import Cases, f32

CASES = Cases()


# an inline helper places its own scopes -------------------------------------------------------------------------------


@pl.jit.inline(auto_scope=False)
def scoped(x: pl.Tensor, out: pl.Tensor):
    with pl.scope():
        one = 1.0
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(x, one)
    return out


@CASES(f32(5, 9), expected=lambda x: x + float32(1))
@pl.jit
def a_helper_with_its_own_scope(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = scoped(x, out)
    return out


@pl.jit.inline(auto_scope=False)
def scoped_twice(x: pl.Tensor, out: pl.Tensor):
    middle = pl.create_tensor([5, 9], pl.FP32)
    with pl.scope(mode=pl.ScopeMode.AUTO):
        middle = scoped(x, middle)
    with pl.scope():
        out = scoped(middle, out)
    return out


@CASES(f32(5, 9), expected=lambda x: x + float32(1) + float32(1))
@pl.jit
def a_helper_that_calls_a_helper_with_a_scope(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = scoped_twice(x, out)
    return out


@pl.jit.inline
def without_scope(x: pl.Tensor, out: pl.Tensor):
    with pl.manual_scope():
        three = 3.0
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.mul(x, three)
    return out


@CASES(f32(5, 9), expected=lambda x: (x + float32(1)) * float32(3))
@pl.jit(auto_scope=False)
def scopes_of_the_caller_go_on_after_a_helper(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    middle = pl.create_tensor([5, 9], pl.FP32)
    with pl.scope():
        middle = scoped(x, middle)
        out = without_scope(middle, out)
    with pl.scope():
        pass
    return out


@pl.program
class ScopesOfMethods:
    @pl.function(type=pl.FunctionType.Inline, auto_scope=False)
    def scoped(self, x: pl.Tensor[[4, 6], pl.FP32], out: pl.Out[pl.Tensor[[4, 6], pl.FP32]]) -> pl.Tensor[[4, 6], pl.FP32]:
        with pl.scope():
            two = 2.0
            with pl.at(level=pl.Level.CORE_GROUP):
                out[:] = pl.mul(x, two)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[4, 6], pl.FP32], out: pl.Out[pl.Tensor[[4, 6], pl.FP32]]) -> pl.Tensor[[4, 6], pl.FP32]:
        for _ in pl.range(2):
            out = self.scoped(x, out)
        return out


CASES(f32(4, 6), expected=lambda x: x * float32(2))(ScopesOfMethods)


# an output that a kernel only hands through ---------------------------------------------------------------------------


@pl.program
class HandedThrough:
    @pl.function(type=pl.FunctionType.InCore)
    def through(self, x: pl.Tensor[[4, 6], pl.FP32], o: pl.Out[pl.Tensor[[4, 6], pl.FP32]]) -> pl.Tensor[[4, 6], pl.FP32]:
        return o

    @pl.function(type=pl.FunctionType.InCore)
    def half(
        self, x: pl.Tensor[[4, 6], pl.FP32], a: pl.Out[pl.Tensor[[4, 6], pl.FP32]], b: pl.Out[pl.Tensor[[4, 6], pl.FP32]]
    ) -> tuple[pl.Tensor[[4, 6], pl.FP32], pl.Tensor[[4, 6], pl.FP32]]:
        a = pl.store(pl.load(x, [0, 0], [4, 6]), [0, 0], a)
        return b, a

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self, x: pl.Tensor[[4, 6], pl.FP32], first: pl.Out[pl.Tensor[[4, 6], pl.FP32]], second: pl.InOut[pl.Tensor[[4, 6], pl.FP32]]
    ) -> tuple[pl.Tensor[[4, 6], pl.FP32], pl.Tensor[[4, 6], pl.FP32]]:
        second, first = self.half(x, first, second)
        first = self.through(x, first)
        return first, second


CASES(f32(4, 6), f32(4, 6), expected=lambda x, second: (x, second))(HandedThrough)


@pl.jit.incore
def through(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [5, 7])
    t = pl.neg(t)
    return o


@CASES(f32(5, 7), expected=lambda x: x + float32(2))
@pl.jit
def handed_through_a_helper_and_then_written(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    same = through(x, out)
    with pl.at(level=pl.Level.CORE_GROUP):
        same[:] = x + 2.0
    return same


@CASES(f32(5, 7), f32(5, 7), expected=lambda x, state: state * float32(2))
@pl.jit
def handed_through_in_and_out(x: pl.Tensor, state: pl.InOut[pl.Tensor]):
    for _ in pl.range(3):
        state = through(x, state)
    with pl.at(level=pl.Level.CORE_GROUP):
        state[:] = state + state
    return state


@CASES(f32(5, 7), expected=lambda x: -x)
@pl.jit
def a_submitted_kernel_that_hands_through(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out, first = pl.submit(through, x, out)
    with pl.at(level=pl.Level.CORE_GROUP, deps=[first]) as _:
        out[:] = pl.neg(x)
    return out
