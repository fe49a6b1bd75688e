"""The ways a kernel can read a value, one row each: what test_captures.py changes between processes and within one."""

# ruff: noqa: E501 (the table of reads is one row per line)

from __future__ import annotations

from dataclasses import dataclass

KERNEL = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(x, float({expression}))
    return out
"""


@dataclass(frozen=True)
class Row:
    """One kind of read. `edit` changes the text for another process; `mutate` changes the value in this one."""

    name: str
    setup: str
    expression: str
    edit: tuple[str, str]
    mutate: str
    restore: str = ""
    helpers: str = ""
    """Text of a second module `other`."""
    kernel: str = KERNEL
    where: str = "other.py"
    """Where that module lies in the package."""


def closure(name: str, value: str, expression: str, edit: tuple[str, str], mutate: str, restore: str = "") -> Row:
    """A kernel made by a function, which reads a cell."""
    text = f"""
import collections, dataclasses, enum, types
OBJ = types.SimpleNamespace(block=3)
@dataclasses.dataclass
class Config:
    block: int = 3
class Colour(enum.Enum):
    RED = 3
    BLUE = 4
class Plain:
    pass
def make():
    captured = {value}
    def change(new):
        nonlocal captured
        captured = new
{{indented}}
    return kernel, change
kernel, change = make()
"""
    return Row(f"closure {name}", text, expression, edit, mutate, restore)


def world(
    name: str,
    setup: str,
    expression: str,
    edit: tuple[str, str],
    mutate: str,
    restore: str = "",
    helpers: str = "",
    kernel: str = KERNEL,
    where: str = "other.py",
) -> Row:
    return Row(name, setup, expression, edit, mutate, restore, helpers, kernel, where)


RELOAD = "import importlib, pathlib; o = sys.modules[m.__package__ + '.other']; pathlib.Path(o.__file__).write_text({text!r}); importlib.reload(o)"
ELSEWHERE = "import os, sys\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), 'elsewhere'))\nfrom {package}_lib import helper"
DTYPED = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.cast(pl.cast(x * 0.3, {expression}), pl.FP32)
    return out
"""
INLINE = """
@pl.jit.inline
def inner(t: pl.Tensor):
    return t + float({expression})

@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = inner(x)
    return out
"""
LOOPED = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x * 1.0
        for i in pl.range({expression}):
            t = t + 1.0
        out[:] = t
    return out
"""
DEFAULT = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor], n: int = {expression}):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + float(n)
    return out
"""


ROWS = [
    closure("int", "3", "captured", ("= 3\n    def", "= 4\n    def"), "m.change(4)", "m.change(3)"),
    closure("str", "'abc'", "len(captured)", ("'abc'", "'abcd'"), "m.change('abcd')", "m.change('abc')"),
    closure("tuple", "(1, 2)", "captured[1]", ("(1, 2)", "(1, 3)"), "m.change((1, 3))"),
    closure("dict", "{'a': 1}", "captured['a']", ("'a': 1", "'a': 2"), "m.change({'a': 2})"),
    closure("list", "[1, 2]", "captured[0]", ("[1, 2]", "[5, 2]"), "m.change([5, 2])"),
    closure("dataclass", "Config()", "captured.block", ("block: int = 3", "block: int = 4"), "m.change(m.Config(4))"),
    closure("enum", "Colour.RED", "captured.value", ("captured = Colour.RED", "captured = Colour.BLUE"), "m.change(m.Colour.BLUE)"),
    closure("object", "OBJ", "captured.block", ("block=3", "block=4"), "m.change(m.types.SimpleNamespace(block=4))"),
    closure("object in place", "OBJ", "captured.block", ("block=3", "block=4"), "m.OBJ.block = 4", "m.OBJ.block = 3"),
    closure("chain", "types.SimpleNamespace(a=OBJ)", "captured.a.block", ("block=3", "block=4"), "m.OBJ.block = 4", "m.OBJ.block = 3"),
    closure("namedtuple", "collections.namedtuple('P', 'a b')(3, 1)", "captured.a", ("(3, 1)", "(4, 1)"), "m.change(m.collections.namedtuple('P', 'a b')(4, 1))"),
    world("global bool", "N = False", "3.0 if N else 4.0", ("False", "True"), "m.N = True", "m.N = False"),
    world("global complex", "N = 3j", "N.imag", ("3j", "4j"), "m.N = 4j", "m.N = 3j"),
    world("global bytes", "N = b'ab'", "len(N)", ("b'ab'", "b'abc'"), "m.N = b'abc'", "m.N = b'ab'"),
    world("global range", "N = range(3)", "len(N)", ("range(3)", "range(4)"), "m.N = range(4)", "m.N = range(3)"),
    world("global frozenset", "N = frozenset({1, 2})", "len(N)", ("{1, 2}", "{1, 2, 3}"), "m.N = frozenset({1, 2, 3})"),
    world("global dtype", "DT = pl.BF16", "DT", ("BF16", "FP16"), "m.DT = m.pl.FP16", "m.DT = m.pl.BF16", kernel=DTYPED),
    world("loop bound", "N = 3", "N", ("N = 3", "N = 4"), "m.N = 4", "m.N = 3", kernel=LOOPED),
    world("global read by an inline kernel", "N = 3", "N", ("N = 3", "N = 4"), "m.N = 4", "m.N = 3", kernel=INLINE),
    world("comprehension of a helper", "N = (1, 2)\ndef helper():\n    return sum(2 * n for n in N)", "helper()", ("(1, 2)", "(1, 3)"), "m.N = (1, 3)", "m.N = (1, 2)"),
    world("conditional", "FLAG = True\nA = 3\nB = 9", "A if FLAG else B", ("A = 3", "A = 4"), "m.FLAG = False", "m.FLAG = True"),
    world("default of the kernel", "N = 3", "N", ("N = 3", "N = 4"), "m.kernel.__wrapped__.__defaults__ = (4,)", kernel=DEFAULT),
    world("torch scalar", "import torch\nN = torch.tensor(3.0)", "float(N)", ("3.0", "4.0"), "m.N.fill_(4.0)", "m.N.fill_(3.0)"),
    world("torch scalar of a narrow type", "import torch\nN = torch.tensor(3.0, dtype=torch.bfloat16)", "N.item()", ("3.0", "4.0"), "m.N = m.torch.tensor(4.0)"),
    world("numpy 0-d array", "import numpy as np\nN = np.array(3.0)", "float(N)", ("3.0", "4.0"), "m.N[()] = 4.0", "m.N[()] = 3.0"),
    world("reloaded constant", "import {package}.other as mod", "mod.X", ("", ""), RELOAD.format(text="X =  4"), RELOAD.format(text="X   = 3"), helpers="X = 3"),
    world("reloaded helper", "import {package}.other as mod", "mod.helper()", ("", ""), RELOAD.format(text="def helper():\n    return 4 + 0\n"), helpers="def helper():\n    return 3"),
    world("reloaded global of a helper", "from {package}.other import helper", "helper()", ("", ""), RELOAD.format(text="X =  4\ndef helper():\n    return X"), helpers="X = 3\ndef helper():\n    return X"),
    world("helper in another directory", ELSEWHERE, "helper(2)", ("", ""), "m.helper = lambda n: n * 7", helpers="def helper(n):\n    return n * 3", where="elsewhere/{package}_lib.py"),
    world("helper in another package", "from {package}.sub.deep.mod import helper", "helper(2)", ("", ""), "sys.modules[m.__package__ + '.sub.deep.mod'].X = 4", helpers="X = 3\ndef helper(n):\n    return n * X", where="sub/deep/mod.py"),
    world("helper of a helper", "from {package}.other import outer", "outer()", ("", ""), "sys.modules[m.__package__ + '.other'].inner = lambda: 4", helpers="def inner():\n    return 3\ndef outer():\n    return inner()"),
    world("static method", "class C:\n    @staticmethod\n    def f():\n        return 3", "C.f()", ("return 3", "return 4"), "m.C.f = staticmethod(lambda: 4)"),
    world("method of a dataclass", "import dataclasses\n@dataclasses.dataclass\nclass C:\n    k: int\n    def f(self):\n        return self.k\nOBJ = C(3)", "OBJ.f()", ("C(3)", "C(4)"), "m.OBJ.k = 4", "m.OBJ.k = 3"),
    world("global int", "N = 3", "N", ("N = 3", "N = 4"), "m.N = 4", "m.N = 3"),
    world("global float", "N = 3.5", "N", ("3.5", "4.5"), "m.N = 4.5"),
    world("global str", "N = 'ab'", "len(N)", ("'ab'", "'abc'"), "m.N = 'abc'"),
    world("global tuple", "N = (1, (2, 3))", "N[1][0]", ("(2, 3)", "(4, 3)"), "m.N = (1, (4, 3))"),
    world("global dict in place", "N = {'a': 1}", "N['a']", ("'a': 1", "'a': 2"), "m.N['a'] = 2", "m.N['a'] = 1"),
    world("global list in place", "N = [1, 2]", "N[0]", ("[1, 2]", "[7, 2]"), "m.N[0] = 7", "m.N[0] = 1"),
    world("global set size", "N = {1, 2}", "len(N)", ("{1, 2}", "{1, 2, 3}"), "m.N.add(3)", "m.N.discard(3)"),
    world("global enum", "import enum\nclass E(enum.Enum):\n    A = 1\n    B = 2\nN = E.A", "N.value", ("N = E.A", "N = E.B"), "m.N = m.E.B"),
    world("IntEnum", "import enum\nclass E(enum.IntEnum):\n    A = 1\n    B = 2\nN = E.A", "N", ("N = E.A", "N = E.B"), "m.N = m.E.B"),
    world("str subclass", "class S(str):\n    pass\nN = S('ab')", "len(N)", ("S('ab')", "S('abc')"), "m.N = m.S('abc')"),
    world("global dataclass", "import dataclasses\n@dataclasses.dataclass\nclass C:\n    b: int\nN = C(3)", "N.b", ("C(3)", "C(4)"), "m.N.b = 4", "m.N.b = 3"),
    world("object attribute", "class C:\n    pass\nOBJ = C()\nOBJ.attr = 3", "OBJ.attr", ("OBJ.attr = 3", "OBJ.attr = 4"), "m.OBJ.attr = 4", "m.OBJ.attr = 3"),
    world("slot", "class C:\n    __slots__ = ('a',)\nOBJ = C()\nOBJ.a = 3", "OBJ.a", ("OBJ.a = 3", "OBJ.a = 4"), "m.OBJ.a = 4", "m.OBJ.a = 3"),
    world("class attribute", "class C:\n    A = 3", "C.A", ("A = 3", "A = 4"), "m.C.A = 4", "m.C.A = 3"),
    world("inherited class attribute", "class B:\n    A = 3\nclass C(B):\n    pass", "C.A", ("A = 3", "A = 4"), "m.C.A = 4", "del m.C.A"),
    world("property", "class C:\n    v = 3\n    @property\n    def p(self):\n        return self.v\nOBJ = C()", "OBJ.p", ("v = 3", "v = 4"), "m.OBJ.v = 4", "m.OBJ.v = 3"),
    world("module attribute", "import {package}.other as mod", "mod.X", ("", ""), "m.mod.X = 4", "m.mod.X = 3", helpers="X = 3"),
    world("package module attribute", "import {package}\nimport {package}.other", "{package}.other.X", ("", ""), "sys.modules[m.__package__ + '.other'].X = 4", helpers="X = 3"),
    world("helper in another module", "from {package}.other import helper", "helper(2)", ("", ""), "m.helper = lambda n: n * 7", helpers="def helper(n):\n    return n * 3"),
    world("global read by a helper", "from {package}.other import helper", "helper(2)", ("", ""), "sys.modules[m.__package__ + '.other'].X = 4", helpers="X = 3\ndef helper(n):\n    return n * X"),
    world("monkeypatched helper", "def helper():\n    return 3", "helper()", ("return 3", "return 4"), "m.helper.__code__ = (lambda: 4).__code__"),
    world("helper default", "def helper(n=3):\n    return n", "helper()", ("n=3", "n=4"), "m.helper.__defaults__ = (4,)"),
    world("default argument object", "D = (3, 4)\ndef helper(n=D):\n    return n[0]", "helper()", ("(3, 4)", "(4, 4)"), "m.helper.__defaults__ = ((4, 4),)"),
    world("partial", "import functools\ndef f(a, b):\n    return a + b\nhelper = functools.partial(f, 3)", "helper(1)", ("partial(f, 3)", "partial(f, 4)"), "m.helper = m.functools.partial(m.f, 4)"),
    world("lambda", "helper = lambda n: n + 3", "helper(1)", ("n + 3", "n + 4"), "m.helper = lambda n: n + 4"),
    world("decorated helper", "import functools\ndef wrap(f):\n    @functools.wraps(f)\n    def inner(*a):\n        return f(*a)\n    return inner\n@wrap\ndef helper():\n    return 3", "helper()", ("return 3", "return 4"), "m.helper = lambda: 4"),
    world("numpy scalar", "import numpy as np\nN = np.float32(3)", "N", ("np.float32(3)", "np.float32(4)"), "m.N = m.np.float32(4)"),
    world("numpy array", "import numpy as np\nN = np.array([3, 4])", "N[0]", ("[3, 4]", "[5, 4]"), "m.N[0] = 5", "m.N[0] = 3"),
    world("shadowed builtin", "", "max(3, 4)", ("", "def max(a, b):\n    return 9\n"), "m.max = lambda a, b: 9", "del m.max"),
    world("nan", "N = float('nan')", "0.0 if N != N else 1.0", ("'nan'", "'inf'"), "m.N = float('inf')"),
    world("sign of zero", "import math\nN = 0.0", "math.copysign(3.0, N)", ("N = 0.0", "N = -0.0"), "m.N = -0.0", "m.N = 0.0"),
    world("one and True", "N = 1", "3.0 if N is True else 4.0", ("N = 1", "N = True"), "m.N = True", "m.N = 1"),
    world("one and 1.0", "N = 1", "3.0 if isinstance(N, int) else 4.0", ("N = 1", "N = 1.0"), "m.N = 1.0", "m.N = 1"),
    world("unhashable dict value", "N = {'a': [1, {'b': 2}]}", "N['a'][1]['b']", ("'b': 2", "'b': 3"), "m.N['a'][1]['b'] = 3"),
    world("deleted global", "N = 3", "N", ("N = 3", "N = 4"), "del m.N", "m.N = 3"),
    world("kernel in a class", "class K:\n    size = 3\n{indented}\nobj = K()\nkernel = obj.kernel", "self.size", ("size = 3", "size = 4"), "m.obj.size = 4", "del m.obj.size",
          kernel=KERNEL.replace("(x:", "(self, x:")),
    world("attribute of a metaclass", "class Meta(type):\n    K = 3\nclass C(metaclass=Meta):\n    pass", "C.K", ("K = 3", "K = 4"), "m.Meta.K = 4", "m.Meta.K = 3"),
    world("property set on a metaclass", "class Meta(type):\n    pass\nclass C(metaclass=Meta):\n    K = 3", "C.K", ("K = 3", "K = 4"), "m.Meta.K = property(lambda cls: 4)", "del m.Meta.K"),
    world("another metaclass", "class Meta(type):\n    pass\nclass Other(type):\n    K = property(lambda cls: 4)\nclass C(metaclass=Meta):\n    K = 3", "C.K", ("K = 3", "K = 5"), "m.C.__class__ = m.Other", "m.C.__class__ = m.Meta"),
    world("descriptor of a class", "N = 3\nclass Now:\n    def __get__(self, obj, cls):\n        return N\nclass C:\n    K = Now()", "C.K", ("N = 3", "N = 4"), "m.N = 4", "m.N = 3"),
    world("property set on a class", "class C:\n    pass\nOBJ = C()\nOBJ.k = 3", "OBJ.k", ("k = 3", "k = 4"), "m.C.k = property(lambda self: 4)", "del m.C.k"),
    world("lookup replaced", "class C:\n    pass\nOBJ = C()\nOBJ.k = 3", "OBJ.k", ("k = 3", "k = 4"), "m.C.__getattribute__ = lambda self, name: 4", "del m.C.__getattribute__"),
    world("object becomes a descriptor", "class P:\n    k = 3\nclass Q:\n    k = 4\nclass C:\n    part = P()", "C.part.k", ("k = 3", "k = 5"), "m.P.__get__ = lambda self, obj, cls: m.Q()", "del m.P.__get__"),
    world("bases replaced", "class A:\n    K = 3\nclass B:\n    K = 4\nclass C(A):\n    pass", "C.K", ("K = 3", "K = 5"), "m.C.__bases__ = (m.B,)", "m.C.__bases__ = (m.A,)"),
    world("bases replaced under an object", "class A:\n    K = 3\nclass B:\n    K = 4\nclass C(A):\n    pass\nOBJ = C()", "OBJ.K", ("K = 3", "K = 5"), "m.C.__bases__ = (m.B,)", "m.C.__bases__ = (m.A,)"),
    world("class replaced", "class A:\n    K = 3\nclass B:\n    K = 4\nOBJ = A()", "OBJ.K", ("K = 3", "K = 5"), "m.OBJ.__class__ = m.B", "m.OBJ.__class__ = m.A"),
    world("dict replaced", "class C:\n    pass\nOBJ = C()\nOBJ.k = 3", "OBJ.k", ("k = 3", "k = 4"), "m.OBJ.__dict__ = {'k': 4}", "m.OBJ.__dict__ = {'k': 3}"),
    world("dict replaced twice", "class C:\n    pass\nOBJ = C()\nOBJ.k = 3", "OBJ.k", ("k = 3", "k = 4"), "m.OBJ.__dict__ = {'k': 5}; m.OBJ.__dict__ = {'k': 4}", "m.OBJ.k = 3"),
    world("dict of an exception replaced", "OBJ = Exception()\nOBJ.k = 3", "OBJ.k", ("k = 3", "k = 4"), "m.OBJ.__dict__ = {'k': 4}", "m.OBJ.__dict__ = {'k': 3}"),
    world("module that computes its names", "import types\nN = [3]\nmod = types.ModuleType('mod')\nmod.__getattr__ = lambda name: N[0]", "mod.k", ("[3]", "[4]"), "m.N[0] = 4", "m.N[0] = 3"),
    world("property of a module", "import types\nN = [3]\nclass M(types.ModuleType):\n    k = property(lambda self: N[0])\nmod = M('mod')", "mod.k", ("[3]", "[4]"), "m.N[0] = 4", "m.N[0] = 3"),
    world("class of a module replaced", "import types\nclass M(types.ModuleType):\n    k = property(lambda self: 4)\nmod = types.ModuleType('mod')\nmod.k = 3", "mod.k", ("k = 3", "k = 5"), "m.mod.__class__ = m.M", "m.mod.__class__ = type(m)"),
    world("module in the place of another", "import types\ndef make(n):\n    made = types.ModuleType('mod')\n    made.k = n\n    return made\nmod = make(3)", "mod.k", ("make(3)", "make(4)"), "m.mod = None; m.mod = m.make(4)", "m.mod = m.make(3)"),
]  # fmt: skip


# rows in which code decides: closures, classes, methods, scopes, kernels made by functions

FROZEN = "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass C:\n    k: int = 1\n"
WRAPPED = "import functools\ndef wrap(k):\n    def deco(f):\n        @functools.wraps(f)\n        def inner(*a):\n            return f(*a) * k\n        return inner\n    return deco\ndef base():\n    return 3\nhelper = wrap(2)(base)"
NONLOCAL = "def make():\n    s = 3\n    def f():\n        def g():\n            nonlocal s\n            return s\n        return g()\n    def change(n):\n        nonlocal s\n        s = n\n    return f, change\nf, change = make()"

CODE_ROWS = [
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
    ("cached helper", "import functools\nN = 3\n@functools.lru_cache\ndef f():\n    return N", "f()", ("N = 3", "N = 4"), "m.N = 4; m.f.cache_clear()", "m.N = 3; m.f.cache_clear()"),
    ("op under another name", "OP = pl.exp", "1.0", ("pl.exp", "pl.tanh"), "m.OP = m.pl.tanh", "m.OP = m.pl.exp"),
    ("inline kernel of another closure", "def make(k):\n    @pl.jit.inline\n    def inner(t: pl.Tensor):\n        return t + float(k)\n    return inner\ninner = make(3)", "inner", ("make(3)", "make(4)"), "m.inner = m.make(4)", "m.inner = m.make(3)"),
    ("two inline kernels of a factory", "def make(k):\n    @pl.jit.inline\n    def inner(t: pl.Tensor):\n        return t + float(k)\n    return inner\nfirst = make(1)\ninner = make(3)", "inner", ("make(3)", "make(4)"), "m.inner = m.make(4)", "m.inner = m.make(3)"),
]  # fmt: skip
CALLED = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = {expression}(x)
    return out
"""
RENAMED = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = OP(x * {expression})
    return out
"""
KERNELS = {"op under another name": RENAMED, "inline kernel of another closure": CALLED, "two inline kernels of a factory": CALLED.replace("(x)", "(first(x))")}
ROWS.extend(
    world(name, setup, expression, edit, mutate, restore, kernel=KERNELS.get(name, KERNEL))
    for name, setup, expression, edit, mutate, restore in CODE_ROWS
)
