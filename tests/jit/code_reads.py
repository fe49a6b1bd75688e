"""Rows of the value-read matrix (test_captures.py) in which code decides: closures, classes, methods, scopes, kernels made by functions.

Name, setup, expression, edit for another process, change in this one, and what takes the change back.
"""

# ruff: noqa: E501 (one row per line)

from __future__ import annotations

FROZEN = "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass C:\n    k: int = 1\n"
WRAPPED = "import functools\ndef wrap(k):\n    def deco(f):\n        @functools.wraps(f)\n        def inner(*a):\n            return f(*a) * k\n        return inner\n    return deco\ndef base():\n    return 3\nhelper = wrap(2)(base)"
NONLOCAL = "def make():\n    s = 3\n    def f():\n        def g():\n            nonlocal s\n            return s\n        return g()\n    def change(n):\n        nonlocal s\n        s = n\n    return f, change\nf, change = make()"

ROWS = [
    ("two closures of a factory", "def make(k):\n    def f():\n        return k\n    return f\nA = make(1)\nB = make(2)", "A() + B()", ("make(2)", "make(5)"), "m.B = m.make(5)", "m.B = m.make(2)"),
    ("closure of a decorator", WRAPPED, "helper()", ("wrap(2)", "wrap(5)"), "m.helper = m.wrap(5)(m.base)", "m.helper = m.wrap(2)(m.base)"),
    ("class given to a helper", "class C:\n    S = 3\ndef f(c):\n    return c.S", "f(C)", ("S = 3", "S = 4"), "m.C.S = 4", "m.C.S = 3"),
    ("attribute by its name", "class C:\n    S = 3", "getattr(C, 'S')", ("S = 3", "S = 4"), "m.C.S = 4", "m.C.S = 3"),
    ("class in a dict", "class C:\n    S = 3\nD = {'a': C}\nN = 'a'", "D[N].S", ("S = 3", "S = 4"), "m.C.S = 4", "m.C.S = 3"),
    ("class method", "class C:\n    Z = 3\n    @classmethod\n    def f(cls):\n        return cls.Z", "C.f()", ("Z = 3", "Z = 4"), "m.C.Z = 4", "m.C.Z = 3"),
    ("object made in a helper", "class C:\n    def __init__(self):\n        self.v = 3\ndef f():\n    return C().v", "f()", ("v = 3", "v = 4"), "m.C.__init__ = lambda self: setattr(self, 'v', 4)", ""),
    ("method that calls another", FROZEN + "    def g(self):\n        return 3\n    def f(self):\n        return self.g() * self.k\nOBJ = C()", "OBJ.f()", ("return 3", "return 4"), "m.C.g = lambda self: 4", ""),
    ("class attribute read by a method", FROZEN + "    def f(self):\n        return self.Z\nC.Z = 3\nOBJ = C()", "OBJ.f()", ("Z = 3", "Z = 4"), "m.C.Z = 4", "m.C.Z = 3"),
    ("method of a base", "class B:\n    def f(self):\n        return 3\n" + FROZEN.replace("class C:", "class C(B):") + "    def g(self):\n        return super().f()\nOBJ = C()", "OBJ.g()", ("return 3", "return 4"), "m.B.f = lambda self: 4", ""),
    ("object that is called", FROZEN + "    def __call__(self, n):\n        return n + 3\nOBJ = C()", "OBJ(1)", ("n + 3", "n + 4"), "m.C.__call__ = lambda self, n: n + 4", ""),
    ("operator of an object", FROZEN + "    def __mul__(self, n):\n        return n + 3\nOBJ = C()", "OBJ * 2", ("n + 3", "n + 4"), "m.C.__mul__ = lambda self, n: n + 4", ""),
    ("property of an enum", "import enum\nclass E(enum.Enum):\n    A = 1\n    @property\n    def p(self):\n        return 3\ndef f(e):\n    return e.p", "f(E.A)", ("return 3", "return 4"), "m.E.p = property(lambda self: 4)", ""),
    ("order of a named tuple", "import collections\nN = collections.namedtuple('P', 'a b')(3, 1)\ndef f(p):\n    return p.a", "f(N)", ("'a b'", "'b a'"), "m.N = m.collections.namedtuple('P', 'b a')(3, 1)", ""),
    ("constant of a nested lambda", "helper = lambda n: (lambda q: q + 3)(n)", "helper(1)", ("q + 3", "q + 4"), "m.helper = lambda n: (lambda q: q + 4)(n)", ""),
    ("generator in a lambda", "helper = lambda: sum(3 * i for i in (1, 2))", "helper()", ("3 * i", "4 * i"), "m.helper = lambda: sum(4 * i for i in (1, 2))", ""),
    ("attribute in a lambda", "class C:\n    S = 3\nhelper = lambda: C.S", "helper()", ("S = 3", "S = 4"), "m.C.S = 4", "m.C.S = 3"),
    ("shadowed by a comprehension", "S = 3\ndef f():\n    a = [S for S in (1,)]\n    return S + a[0]", "f()", ("S = 3", "S = 4"), "m.S = 4", "m.S = 3"),
    ("shadowed by an inner function", "S = 3\ndef f():\n    def g(S):\n        return S\n    return S + g(1)", "f()", ("S = 3", "S = 4"), "m.S = 4", "m.S = 3"),
    ("global statement", "S = 3\ndef f():\n    global S\n    return S", "f()", ("S = 3", "S = 4"), "m.S = 4", "m.S = 3"),
    ("nonlocal statement", NONLOCAL, "f()", ("s = 3", "s = 4"), "m.change(4)", "m.change(3)"),
    ("default changed in place", "def f(d={'a': 3}):\n    return d['a']", "f()", ("'a': 3", "'a': 4"), "m.f.__defaults__[0]['a'] = 4", "m.f.__defaults__[0]['a'] = 3"),
    ("cached helper", "import functools\nN = 3\n@functools.lru_cache\ndef f():\n    return N", "f()", ("N = 3", "N = 4"), "m.N = 4", "m.N = 3"),
    ("op under another name", "OP = pl.exp", "1.0", ("pl.exp", "pl.tanh"), "m.OP = m.pl.tanh", "m.OP = m.pl.exp"),
    ("inline kernel of another closure", "def make(k):\n    @pl.jit.inline\n    def inner(t: pl.Tensor):\n        return t + float(k)\n    return inner\ninner = make(3)", "inner", ("make(3)", "make(4)"), "m.inner = m.make(4)", "m.inner = m.make(3)"),
    ("two inline kernels of a factory", "def make(k):\n    @pl.jit.inline\n    def inner(t: pl.Tensor):\n        return t + float(k)\n    return inner\nfirst = make(1)\ninner = make(3)", "inner", ("make(3)", "make(4)"), "m.inner = m.make(4)", "m.inner = m.make(3)"),
]  # fmt: skip
