"""Kernels broken at random: whatever a user writes, the answer is a program or an error with a place, never a crash."""

from __future__ import annotations

import ast
import random

import pytest

from tests.frontend.kernels import checked
from tilejit.errors import InternalError, TilejitError
from tilejit.frontend.text import parse
from tilejit.tile_ir.program import Program

KERNEL = """
@pl.inline
def helper(t, s):
    if s > 3:
        return pl.mul(t, 2.0)
    return t

@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def k(self, x: pl.Tensor[[8, 16], pl.FP32], cfg: pl.Tensor[[4], pl.INT32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        n = pl.cast(cfg[0], pl.INDEX)
        t = pl.load(x, [0, 0], [8, 16], valid_shape=[n, 16])
        m = pl.tile.full([8, 1], dtype=pl.FP32, value=-1.0)
        tmp = pl.create_tile([8, 16], dtype=pl.FP32)
        for i, (acc, c) in pl.range(1, 4, init_values=(t, 0)):
            u = pl.add(acc, pl.row_expand_mul(t, m))
            if c == 2:
                v = pl.yield_(pl.mul(u, 3.0))
            else:
                v = pl.yield_(u)
            r, d = pl.yield_(v, c + i)
        for i in pl.range(n):
            if i == 5:
                break
            if i == 2:
                continue
            r = pl.add(r, 1.0)
        while d > 0:
            d = d - 1
            r = helper(r, d)
        for j in pl.unroll(3):
            r[j, 2] = 1.5 * j
        a, (b, e) = pl.row_sum(r, tmp), (r, 4.0)
        y: pl.Tile[[8, 1], pl.FP32] = pl.maximum(a, m)
        out[0:4, :] = pl.neg(x[4:8, :])
        out = pl.store(pl.row_expand_add(b, y), [0, 0], out)
        pl.write(out, [0, n - 1], x[1, 2] * e)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[8, 16], pl.FP32], cfg: pl.Tensor[[4], pl.INT32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        w = pl.create_tensor([8, 16], dtype=pl.FP32)
        w = self.k(x, cfg, w)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="post"):
            z = pl.exp(w)
            q = pl.reshape(z, [4, 32])
        for b in pl.spmd(4):
            out[b * 2 : b * 2 + 2, :] = pl.mul(z[b * 2 : (b + 1) * 2, :], 2.0)
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(out, pl.reshape(q, [8, 16]))
        return out
"""
STRANGERS = (
    """None 3 -1 2.5 True 's' x t out cfg n pl pl.FP32 [] [0,0] (1,2) x.shape pl.range i undefined x[0] pl.add 1<<40 x>0 {} self self.k -x t[0:2] n%0""".split()
)


def places(tree: ast.AST) -> list[tuple[ast.AST, str, int | None]]:
    """Where something can be replaced: expressions, arguments and statements of function bodies."""
    out: list[tuple[ast.AST, str, int | None]] = []
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for parent in [*functions, *(node for function in functions for statement in function.body for node in ast.walk(statement))]:
        for field, value in ast.iter_fields(parent):
            if isinstance(parent, ast.FunctionDef) and field != "body":
                continue
            items = enumerate(value) if isinstance(value, list) else [(None, value)]
            out += [
                (parent, field, index)
                for index, item in items
                if isinstance(item, ast.expr | ast.stmt) and not isinstance(getattr(item, "ctx", None), ast.Store)
            ]
    return out


def broken(seed: int) -> str:
    """The kernel with one to three random mistakes."""
    rng = random.Random(seed)
    tree = ast.parse(KERNEL)
    for _ in range(rng.choice((1, 1, 2, 3))):
        parent, field, index = rng.choice(places(tree))
        stranger = ast.parse(rng.choice(STRANGERS), mode="eval").body
        value = getattr(parent, field)
        if index is None:
            setattr(parent, field, stranger)
        elif isinstance(value[index], ast.expr):
            value[index : index + rng.choice((0, 1, 1, 1))] = rng.choice(([stranger], [stranger], []))
        elif rng.random() < 0.5 and len(value) > 1:
            del value[index]
        else:
            other = rng.randrange(len(value))
            value[index], value[other] = value[other], value[index]
    return ast.unparse(ast.fix_missing_locations(tree))


def outcome(text: str) -> Program | TilejitError:
    """The program that a text defines, or the error that refuses it."""
    try:
        program = parse(text)
    except TilejitError as error:
        return error
    assert isinstance(program, Program)
    return checked(program)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("batch", range(6))
def test_a_broken_kernel_gives_an_error_with_a_place_or_a_sound_program(batch: int) -> None:
    accepted = 0
    for seed in range(batch * 40, batch * 40 + 40):
        found = outcome(broken(seed))
        if isinstance(found, TilejitError):
            assert not isinstance(found, InternalError), (seed, str(found))
            assert found.span is not None, (seed, found.message)
        else:
            accepted += 1
    assert 0 < accepted < 40


def test_the_kernel_is_sound_before_it_is_broken() -> None:
    program = parse(KERNEL)
    assert isinstance(program, Program)
    checked(program)
