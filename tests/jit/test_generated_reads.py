"""Random host expressions over random state, with random changes between calls and between kernels: no result is ever a stale one.

The oracle evaluates the same expression in the same namespace and never keeps anything. A kernel that is made anew from the same text has only the
disk to go by, as a new process has.
"""

# ruff: noqa: E501 (the table of state is one form per line)

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tilejit.errors import StaleCaptureError

COUNT = int(os.environ.get("TILEJIT_TEST_READS", "300"))
PER_KERNEL = 4
CHUNK = 25
"""Kernels per test."""

HEAD = """
import collections, dataclasses, enum, functools, os, types
import numpy as np
NS = types.SimpleNamespace
class Thing:
    shared = 3
    def __init__(self, k):
        self.k = k
    @property
    def twice(self):
        return 2 * self.k
    def plus(self, n):
        return self.k + n + G0
    def __len__(self):
        return abs(self.k) % 5
    def __bool__(self):
        return self.k % 2 == 0
    def __getitem__(self, i):
        return self.k * (i + 1)
    def __add__(self, n):
        return self.k + n
    def __lt__(self, n):
        return self.k < n
    def __repr__(self):
        return "Thing"
class Slotted:
    __slots__ = ("k",)
    def __init__(self, k):
        self.k = k
def made(k):
    def get(n):
        return k * n
    def put(n):
        nonlocal k
        k = n
    return get, put
def globals_of():
    return globals()
G0 = 2
"""


@dataclass
class World:
    """State as text, expressions over it, and statements that change it."""

    rng: random.Random
    setup: list[str] = field(default_factory=list[str])
    values: list[str] = field(default_factory=lambda: ["G0"])
    tests: list[str] = field(default_factory=lambda: ["G0 > 2"])
    changes: list[str] = field(default_factory=lambda: ["G0 = 5", "G0 = 2", "G0 = True", "G0 = 2.0"])

    def number(self) -> int:
        return self.rng.randrange(9)

    def add(self, index: int) -> None:
        a, b, c = self.number(), self.number(), self.number()
        setup, values, tests, changes = self.rng.choice(KINDS)(index, a, b, c)
        self.setup.append(setup)
        self.values += values
        self.tests += tests
        self.changes += changes

    def expression(self, depth: int) -> str:
        if depth == 0:
            return self.rng.choice(self.values)
        left, right = self.expression(depth - 1), self.expression(depth - 1)
        test = self.rng.choice(self.tests)
        forms = ("({l} + {r})", "({l} * 3 - {r})", "({l} if {t} else {r})", "max({l}, {r})", "({l}, {r})[1 if {t} else 0]", "({l} % 7 + abs({r}))", "((not {t}) + {l})")
        return self.rng.choice(forms).format(l=left, r=right, t=test)


Kind = tuple[str, list[str], list[str], list[str]]


def plain(i: int, a: int, b: int, c: int) -> Kind:
    return f"P{i} = {a}", [f"P{i}"], [f"P{i} == {b}", f"P{i} is True"], [f"P{i} = {b}", f"P{i} = True", f"P{i} = {c}.0"]


def sequence(i: int, a: int, b: int, c: int) -> Kind:
    changes = [f"L{i}[0] = {c}", f"L{i}.append({a})", f"L{i}.reverse()", f"L{i}.sort()", f"L{i} = [{c}, {b}, 1]", f"del L{i}[2:]"]
    return f"L{i} = [{a}, {b}, 4]", [f"L{i}[0]", f"len(L{i})", f"sum(L{i})", f"L{i}[-1]", f"L{i}.index(L{i}[1])", f"sum([v * 2 for v in L{i}])", f"sum(v for v in L{i} if v > {b})"], [f"{a} in L{i}", f"L{i}"], changes


def mapping(i: int, a: int, b: int, c: int) -> Kind:
    values = [f"D{i}['a']", f"list(D{i}.values())[0]", f"D{i}.get('z', 6)", f"get{i}('b')", f"len(list(D{i})[0])", f"sum([v for k, v in D{i}.items() if k != 'a'])"]
    changes = [f"D{i}['a'] = {c}", f"D{i}['a'] = D{i}.pop('a')", f"D{i}['z'] = {b}", f"D{i}['b'] += 1"]
    return f"D{i} = {{'a': {a}, 'b': {b}}}\nget{i} = D{i}.get", values, [f"'z' in D{i}"], changes


def thing(i: int, a: int, b: int, c: int) -> Kind:
    values = [f"T{i}.k", f"T{i}.twice", f"T{i}.plus(2)", f"len(T{i})", f"T{i}[2]", f"(T{i} + 1)", f"T{i}.shared", f"getattr(T{i}, 'k')", f"len(f'{{T{i}}}')", f"vars(T{i})['k']"]
    changes = [f"T{i}.k = {c}", f"T{i} = Thing({b})", f"T{i}.shared = {a}", f"Thing.shared = {b}", f"Thing.__repr__ = lambda self: 'x' * {b}", f"T{i}.__dict__ = {{'k': {c}}}"]
    return f"T{i} = Thing({a})", values, [f"T{i}", f"T{i} < 4", f"isinstance(T{i}, Thing)"], changes


def space(i: int, a: int, b: int, c: int) -> Kind:
    changes = [f"N{i}.v = {c}", f"N{i}.inner.w = {c}", f"N{i}.inner = NS(w={a})", f"N{i} = NS(v={b}, inner=NS(w={c}))", f"M{i} = N{i}", f"M{i} = NS(v={a})"]
    return f"N{i} = NS(v={a}, inner=NS(w={b}))\nM{i} = N{i}", [f"N{i}.v", f"N{i}.inner.w", f"M{i}.v"], [f"M{i} is N{i}"], changes


def slotted(i: int, a: int, b: int, c: int) -> Kind:
    return f"S{i} = Slotted({a})\nQ{i} = (S{i}, {b})", [f"S{i}.k", f"Q{i}[0].k", f"Q{i}[1]"], [f"hasattr(S{i}, 'k')"], [f"S{i}.k = {c}", f"S{i} = Slotted({b})", f"Q{i} = (S{i}, {c})"]


def function(i: int, a: int, b: int, c: int) -> Kind:
    setup = f"def f{i}(n, m={a}):\n    return n * G0 + m\ndef g{i}(n):\n    return f{i}(n) + len(R{i})\nR{i} = [1] * {b}"
    changes = [f"f{i}.__defaults__ = ({c},)", f"f{i} = lambda n, m=1: n + {b}", f"R{i}.append(1)", f"g{i}.__code__ = (lambda n: n + {c}).__code__", f"f{i}.__kwdefaults__ = None"]
    return setup, [f"f{i}(2)", f"g{i}(3)", f"f{i}(1, m=G0)"], [f"f{i}(1) > 4"], changes


def closure(i: int, a: int, b: int, c: int) -> Kind:
    return f"get_{i}, put_{i} = made({a})", [f"get_{i}(2)", f"get_{i}(G0)"], [f"get_{i}(1) == {b}"], [f"put_{i}({c})", f"get_{i}, put_{i} = made({b})"]


def cached(i: int, a: int, b: int, c: int) -> Kind:
    setup = f"C{i} = {a}\n@functools.lru_cache\ndef c{i}():\n    return C{i}"
    return setup, [f"c{i}()"], [f"c{i}.cache_info().hits >= 0"], [f"C{i} = {c}", f"C{i} = {b}; c{i}.cache_clear()", f"c{i}.cache_clear()"]


def environment(i: int, a: int, b: int, c: int) -> Kind:
    return f"os.environ['READ_{i}'] = '{a}'", [f"int(os.environ['READ_{i}'])", f"int(os.getenv('READ_{i}', '7'))"], [f"'READ_{i}' in os.environ"], [f"os.environ['READ_{i}'] = '{c}'", f"os.environ['READ_{i}'] = '{b}'"]


def partial(i: int, a: int, b: int, c: int) -> Kind:
    setup = f"def p{i}(n, k):\n    return n * k\nh{i} = functools.partial(p{i}, k={a})"
    return setup, [f"h{i}(3)"], [f"h{i}.keywords['k'] > 3"], [f"h{i}.keywords['k'] = {c}", f"h{i} = functools.partial(p{i}, k={b})"]


def array(i: int, a: int, b: int, c: int) -> Kind:
    setup = f"A{i} = np.array([{a}.0, {b}.0, 4.0])\nV{i} = A{i}[::2]\nX{i} = np.float64({a})"
    changes = [f"A{i}[0] = {c}", f"A{i} *= 2", f"V{i}[1] = {b}", f"A{i} = A{i}[::-1]", f"X{i} = np.int32({b})", f"X{i} = {c}"]
    return setup, [f"A{i}[0]", f"A{i}.sum()", f"V{i}[1]", f"len(A{i})", f"A{i}.strides[0]", f"X{i}", f"len(f'{{X{i}!r}}')"], [f"A{i}[0] > A{i}[1]", f"X{i} == {b}"], changes


def record(i: int, a: int, b: int, c: int) -> Kind:
    setup = f"R{i}_ = collections.namedtuple('R{i}_', 'p q')\nR{i} = R{i}_({a}, {b})\n@dataclasses.dataclass\nclass B{i}_:\n    p: int = {a}\nB{i} = B{i}_()"
    changes = [f"R{i} = R{i}._replace(p={c})", f"B{i}.p = {c}", f"B{i}_.p = {b}", f"B{i} = B{i}_()", f"B{i}.extra = {c}", f"R{i}_.q = property(lambda self: {c})"]
    return setup, [f"R{i}.p", f"R{i}[1]", f"R{i}.q", f"B{i}.p", f"getattr(B{i}, 'extra', 5)", f"B{i}_.p"], [f"hasattr(B{i}, 'extra')", f"B{i} == B{i}_()"], changes


def members(i: int, a: int, b: int, c: int) -> Kind:
    setup = f"class E{i}(enum.Enum):\n    A = {a}\n    B = {a + 1}\nM{i}_ = E{i}.A"
    changes = [f"M{i}_ = E{i}.B", f"E{i}.A._value_ = {c}", f"E{i}.extra = {b}", f"E{i} = enum.IntEnum('E{i}', 'A B C')", f"M{i}_ = {c}"]
    return setup, [f"E{i}.A.value", f"len(E{i})", f"getattr(E{i}, 'extra', 6)", f"len(E{i}.B.name)"], [f"M{i}_ is E{i}.A", f"isinstance(M{i}_, E{i})"], changes


def language(i: int, a: int, b: int, c: int) -> Kind:
    return f"pl.Tensor.own_{i} = {a}\nT{i}_ = pl.FP32", [f"pl.Tensor.own_{i}", f"T{i}_.bits"], [f"T{i}_ is pl.FP32"], [f"pl.Tensor.own_{i} = {c}", f"T{i}_ = pl.FP16", f"T{i}_ = pl.BF16"]


def identity(i: int, a: int, b: int, c: int) -> Kind:
    """Helpers that look at which object they are given, of values that have equals."""
    setup = f"I{i} = 'text' * {a + 9}\nW{i} = I{i}\nJ{i} = (10 ** 12 + {b}, 1.5)\ndef i{i}(v):\n    return {c} if v is W{i} else 7\ndef j{i}(v):\n    return 3 if v is J{i} and v[0] is J{i}[0] else 5"
    changes = [f"W{i} = ''.join(list(W{i}))", f"W{i} = I{i}", f"I{i} = ''.join(list(I{i}))", f"J{i} = (10 ** 12 + {b}, 1.5)", f"W{i} = J{i}"]
    return setup, [f"i{i}(I{i})", f"j{i}(J{i})", f"i{i}(J{i})"], [f"i{i}(I{i}) == 7"], changes


def odd_keys(i: int, a: int, b: int, c: int) -> Kind:
    """Keys that say what they equal, beside names that are read."""
    setup = f"K{i} = 1\nON{i} = ['zz']\nclass Key{i}(str):\n    __hash__ = str.__hash__\n    def __eq__(self, other):\n        return other == ON{i}[0]\nglobals()[Key{i}('K{i}_')] = {a}\nO{i} = type('O{i}', (), {{'shared': {b}}})()\nO{i}.k = {b}\nvars(O{i})[Key{i}('shared')] = {c}"
    changes = [f"ON{i}[0] = 'K{i}_'", f"ON{i}[0] = 'shared'", f"ON{i}[0] = 'zz'", f"O{i}.k = {a}", f"type(O{i}).shared = {c}"]
    return setup, [f"globals_of().get('K{i}_', 6)", f"O{i}.shared", f"O{i}.k"], [f"hasattr(O{i}, 'other')"], changes


def odd_classes(i: int, a: int, b: int, c: int) -> Kind:
    """Attributes whose class is replaced, metaclasses that answer, numbers and tuples of classes of their own."""
    setup = (
        f"class Bare{i}:\n    pass\nclass Set{i}:\n    def __get__(self, owner, cls):\n        return {a}\n    def __set__(self, owner, value):\n        pass\n"
        f"class H{i}:\n    k = Bare{i}()\nY{i} = H{i}()\nvars(Y{i})['k'] = {b}\nclass Meta{i}(type):\n    n = {c}\n    def __getattribute__(cls, name):\n        return type.__getattribute__(type(cls), 'n')\n"
        f"class Z{i}(metaclass=Meta{i}):\n    pass\nclass Int{i}(int):\n    def __int__(self):\n        return G0\n    __index__ = __int__\nU{i} = (Int{i}({a}), np.array({b}))"
    )
    changes = [f"vars(H{i})['k'].__class__ = Set{i}", f"vars(H{i})['k'].__class__ = Bare{i}", f"type.__setattr__(Meta{i}, 'n', {a})", f"U{i}[1][...] = {c}", f"Y{i}.__dict__['k'] = {c}"]
    return setup, [f"Y{i}.k", f"Z{i}.anything", f"int(U{i}[0])", f"U{i}[1]", f"sum(U{i})"], [f"U{i}[1] > {a}"], changes


def constants(i: int, a: int, b: int, c: int) -> Kind:
    """Functions whose code was put together by hand, with a list where a number stood."""
    setup = f"CL{i} = [{a}, {b}]\ndef q{i}(n=0):\n    k = 111.5\n    return k[n]\nq{i}.__code__ = q{i}.__code__.replace(co_consts=tuple(CL{i} if v == 111.5 else v for v in q{i}.__code__.co_consts))"
    return setup, [f"q{i}()", f"q{i}(1)", f"q{i}(n=1)"], [f"q{i}() > {b}"], [f"CL{i}[0] = {c}", f"CL{i}[1] = {c}", f"q{i}.__kwdefaults__ = {{'n': 1}}", f"q{i}.__defaults__ = (1,)"]


KINDS = (plain, sequence, mapping, thing, space, slotted, function, closure, cached, environment, partial, array, record, members, language, identity, odd_keys, odd_classes, constants)


def world_of(seed: int) -> tuple[str, str, list[str]]:
    """The text of a module, the expression that its kernel reads, and what may change."""
    world = World(random.Random(seed))
    for index in range(world.rng.randrange(2, 5)):
        world.add(index)
    parts = [world.expression(world.rng.randrange(3)) for _ in range(PER_KERNEL)]
    # Results are few, so that the code of most of them is known already.
    expression = " + ".join(f"10 ** {place} * (int({part}) % 4)" for place, part in enumerate(parts))
    return HEAD + "\n".join(world.setup), expression, world.changes


KERNEL = """
@pl.jit(on_drift={policy!r})
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + float({expression})
    return out
"""
X = np.zeros((1, 2), np.float32)


def expected(expression: str, names: dict[str, Any]) -> float | None:
    """What Python says now; None where it is an error."""
    try:
        return float(eval(expression, names))
    except Exception:
        return None


def follow(seed: int, make_kernel: MakeKernel) -> None:
    text, expression, changes = world_of(seed)
    rng = random.Random(seed + 1)
    kernels = [make_kernel(text + KERNEL.format(policy="recompile", expression=expression))]
    history: list[str] = []
    for _ in range(4):
        kernel = kernels[-1]
        names: dict[str, Any] = kernel.definition.function.__globals__
        wanted = expected(expression, names)
        for call in range(3):
            problem, out = "", np.full_like(X, -1.0)
            try:
                kernel(X, out)
                found: float | None = float(out[0, 0])
            except StaleCaptureError:
                raise
            except Exception as error:
                found, problem = None, str(error)
            assert found == wanted, f"seed {seed}, call {call} after {history}: {expression}\n{text}\n{problem}"
        for change in rng.sample(changes, min(len(changes), rng.randrange(1, 3))):
            history.append(change)
            try:
                exec(change, names)
            except Exception:
                history.append("failed")
        if rng.random() < 0.3:  # as a new process: the same text, the same changes
            fresh = make_kernel(text + KERNEL.format(policy="recompile", expression=expression))
            for change in history:
                if change != "failed":
                    try:
                        exec(change, fresh.definition.function.__globals__)
                    except Exception:
                        continue
            kernels.append(fresh)


@pytest.mark.parametrize("chunk", range((COUNT // PER_KERNEL + CHUNK - 1) // CHUNK))
def test_no_result_is_stale(chunk: int, make_kernel: MakeKernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEJIT_PLATFORM", "cpu")
    monkeypatch.setenv("TILEJIT_FASTPATH", str(chunk % 2))
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        follow(seed, make_kernel)
