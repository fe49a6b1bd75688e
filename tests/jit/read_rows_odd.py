"""More ways to read a value: state that no look at the text of a kernel or of its helpers would find."""

# ruff: noqa: E501 (the table of reads is one row per line)

from __future__ import annotations

from tests.jit.read_rows import CALLED, KERNEL, Row, world

LOCAL = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    c = {expression}
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + float(c.k)
    return out
"""
FILLED = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + pl.col_sum(pl.row_sum(pl.full({expression}, dtype=pl.FP32, value=1.0)))
    return out
"""
UNROLLED = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x * 1.0
        for i in pl.unroll(2):
            t = t + float({expression})
        out[:] = t
    return out
"""
UNPACKED = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    a, b = {expression}
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * float(a) + float(b)
    return out
"""
BRANCH = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        if {expression}:
            out[:] = x + 3.0
        else:
            out[:] = x + 4.0
    return out
"""
PATCHED = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.{expression}(x)
    return out
"""
GROUPED = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor], n: int = 0):
    ops, language = pl.tensor, pl
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = {expression}(x)
    return out
"""
QUOTED = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor], n: "{expression}" = 3):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + (3.0 if isinstance(n, float) else 4.0)
    return out
"""
PLAIN = "class C:\n    pass\nOBJ = C()\nOBJ.k = 3\n"

EVIL = "class Evil(str):\n    __hash__ = str.__hash__\n    def __eq__(self, other):\n        return True\n"
CONSTANT = "L = [3]\ndef f():\n    k = 111.0\n    return k[0]\nf.__code__ = f.__code__.replace(co_consts=tuple(L if c == 111.0 else c for c in f.__code__.co_consts))"
DESCRIBED = "class D:\n    pass\nclass G:\n    def __get__(self, owner, cls):\n        return 4\n    def __set__(self, owner, value):\n        pass\nBEFORE = D\nclass C:\n    k = D()\nOBJ = C()\nvars(OBJ)['k'] = 3\nvars(C)['k'].__class__ = BEFORE"
SUBCLASS = "import types\nclass G(dict):\n    def __getitem__(self, k):\n        return N if k == 'Q' else dict.__getitem__(self, k)\nN = 3\ndef g():\n    return Q\nf = types.FunctionType(g.__code__, G(Q=3, __builtins__=__builtins__))"
HELPERS = "def make():\n    @pl.jit.inline\n    def inner(t: pl.Tensor, k: int = 3):\n        return t + float(k)\n    return inner\nA = make()\nB = make()\n"
TWICE = "x = m.np.ones((2, 3), m.np.float32); [m.kernel(x, x + 1) for _ in range(3)]; "

ODD = [
    ("builtin that a helper has as a default", "N = 3\ndef f(look=globals):\n    return look()['N']", "f()", ("N = 3", "N = 4"), "m.N = 4", "m.N = 3"),
    ("builtin in a tuple that a helper reads", "N = 3\nWAYS = (eval,)\ndef f():\n    return WAYS[0]('N')", "f()", ("N = 3", "N = 4"), "m.N = 4", "m.N = 3"),
    ("builtin in a tuple that a helper is given", "N = 3\ndef f(ways):\n    return ways[0]('N')", "f((eval,))", ("N = 3", "N = 4"), "m.N = 4", "m.N = 3"),
    ("keyword defaults of a helper, in place", "def f(*, k=3):\n    return k", "f()", ("k=3", "k=4"), "m.f.__kwdefaults__['k'] = 4", "m.f.__kwdefaults__['k'] = 3"),
    ("keyword defaults of an inline kernel, in place", "@pl.jit.inline\ndef f(t: pl.Tensor, *, k=3):\n    return t + float(k)", "f", ("k=3", "k=4"), "m.f.__wrapped__.__kwdefaults__['k'] = 4", "m.f.__wrapped__.__kwdefaults__['k'] = 3"),
    ("object that is an index", "class C:\n    k = 0\n    def __index__(self):\n        return self.k\nOBJ = C()\nOBJ.k = 0\nT = (3.0, 4.0)", "T[OBJ]", ("OBJ.k = 0", "OBJ.k = 1"), "m.OBJ.k = 1", "m.OBJ.k = 0"),
    ("dict of an object, emptied and filled", "class C:\n    k = 3\nOBJ = C()\nOBJ.__dict__ = {'other': 4}", "OBJ.k", ("'other'", "'k'"), "vars(m.OBJ).clear(); vars(m.OBJ)['k'] = 4", "vars(m.OBJ).clear(); vars(m.OBJ)['other'] = 4"),
    ("attribute of a helper that is a kernel", "@pl.jit.inline\ndef f(t: pl.Tensor):\n    return t\nf.k = 3", "f.k", ("f.k = 3", "f.k = 4"), "m.f.k = 4", "m.f.k = 3"),
    ("order of a dict", "D = {'a': 3, 'b': 4}", "list(D.values())[0]", ("'a': 3, 'b': 4", "'b': 4, 'a': 3"), "m.D['a'] = m.D.pop('a')", "m.D['b'] = m.D.pop('b')"),
    ("first key of a dict", "D = {3: 'a', 4: 'b'}", "list(D)[0]", ("3: 'a', 4: 'b'", "4: 'b', 3: 'a'"), "m.D = {4: 'b', 3: 'a'}", ""),
    ("order of a set", "S = set()\nS.add(1)\nS.add(9)", "list(S)[0]", ("S.add(1)\nS.add(9)", "S.add(9)\nS.add(1)"), "m.S.clear(); m.S.add(9); m.S.add(1)", "m.S.clear(); m.S.add(1); m.S.add(9)"),
    ("bound method of a dict", "D = {'a': 3}\nget = D.get", "get('a')", ("'a': 3", "'a': 4"), "m.D['a'] = 4", "m.D['a'] = 3"),
    ("bound method of a list", "L = [1, 1, 1]\ncount = L.count", "count(1)", ("[1, 1, 1]", "[1, 1]"), "m.L.append(1)", "m.L.pop()"),
    ("attribute that a dataclass got later", "import dataclasses\n@dataclasses.dataclass\nclass C:\n    a: int = 1\nOBJ = C()\nOBJ.extra = 3", "OBJ.extra", ("extra = 3", "extra = 4"), "m.OBJ.extra = 4", "m.OBJ.extra = 3"),
    ("state of a dataclass outside its fields", "import dataclasses\n@dataclasses.dataclass\nclass C:\n    a: int = 1\n    def f(self):\n        return self.extra\nOBJ = C()\nOBJ.extra = 3", "OBJ.f()", ("extra = 3", "extra = 4"), "m.OBJ.extra = 4", "m.OBJ.extra = 3"),
    ("object in a class", "class P:\n    pass\nclass C:\n    part = P()\n    def f(self):\n        return self.part.k\nC.part.k = 3\nOBJ = C()", "OBJ.f()", ("k = 3", "k = 4"), "m.C.part.k = 4", "m.C.part.k = 3"),
    ("large array in a class", "import numpy as np\nclass C:\n    A = np.full(20000, 3.0)\n    def f(self):\n        return self.A[7]\nOBJ = C()", "OBJ.f()", ("3.0", "4.0"), "m.C.A[7] = 4.0", "m.C.A[7] = 3.0"),
    ("one cell of a large array", "import numpy as np\nA = np.full(20000, 3.0)", "A[9]", ("3.0", "4.0"), "m.A[9] = 4.0", "m.A[9] = 3.0"),
    ("method that reads a global", "N = 3\nclass C:\n    def f(self):\n        return N\nOBJ = C()", "OBJ.f()", ("N = 3", "N = 4"), "m.N = 4", "m.N = 3"),
    ("method that asks globals()", "N = 3\nclass C:\n    def f(self):\n        return globals()['N']\nOBJ = C()", "OBJ.f()", ("N = 3", "N = 4"), "m.N = 4", "m.N = 3"),
    ("helper that evaluates text", "N = 3\ndef f():\n    return eval('N')", "f()", ("N = 3", "N = 4"), "m.N = 4", "m.N = 3"),
    ("frame of a helper", "import sys\nN = 3\ndef f():\n    return sys._getframe().f_globals['N']", "f()", ("N = 3", "N = 4"), "m.N = 4", "m.N = 3"),
    ("environment", "import os\nos.environ['READ_ROW_A'] = '3'", "int(os.getenv('READ_ROW_A'))", ("'3'", "'4'"), "m.os.environ['READ_ROW_A'] = '4'", "m.os.environ['READ_ROW_A'] = '3'"),
    ("environment read by a helper", "import os\nos.environ['READ_ROW_B'] = '3'\ndef f():\n    return int(os.environ['READ_ROW_B'])", "f()", ("'3'", "'4'"), "m.os.environ['READ_ROW_B'] = '4'", "m.os.environ['READ_ROW_B'] = '3'"),
    ("file", "import pathlib\nP = pathlib.Path(__file__).with_suffix('.value')\nP.write_text('3')\ndef f():\n    return int(P.read_text())", "f()", ("'3'", "'4'"), "m.P.write_text('4')", "m.P.write_text('3')"),
    ("existence of a file", "import pathlib\nP = pathlib.Path(__file__).with_suffix('.there')\nP.write_text('') if True else None", "3 if P.exists() else 4", ("if True", "if False"), "m.P.unlink()", "m.P.write_text('')"),
    ("module by its name", "import sys, types\nsys.modules['row_mod'] = types.ModuleType('row_mod')\nsys.modules['row_mod'].k = 3\ndef f():\n    return sys.modules['row_mod'].k", "f()", ("k = 3", "k = 4"), "sys.modules['row_mod'].k = 4", "sys.modules['row_mod'].k = 3"),
    ("cached property", "import functools\nN = 3\nclass C:\n    @functools.cached_property\n    def v(self):\n        return N\nOBJ = C()", "OBJ.v", ("N = 3", "N = 4"), "m.N = 4; del m.OBJ.v", "m.N = 3; del m.OBJ.v"),
    ("single dispatch", "import functools\n@functools.singledispatch\ndef f(n):\n    return 3", "f(1)", ("return 3", "return 4"), "m.f.register(int, lambda n: 4)", ""),
    ("keywords of a partial", "import functools\ndef g(k):\n    return k\nf = functools.partial(g, k=3)", "f()", ("k=3", "k=4"), "m.f.keywords['k'] = 4", "m.f.keywords['k'] = 3"),
    ("attribute of a function", "def f():\n    return f.k\nf.k = 3", "f()", ("k = 3", "k = 4"), "m.f.k = 4", "m.f.k = 3"),
    ("annotation of a function", "def f(x: 3):\n    pass", "f.__annotations__['x']", ("x: 3", "x: 4"), "m.f.__annotations__['x'] = 4", "m.f.__annotations__['x'] = 3"),
    ("docstring", "def f():\n    'abc'", "len(f.__doc__)", ("'abc'", "'abcd'"), "m.f.__doc__ = 'abcd'", "m.f.__doc__ = 'abc'"),
    ("list with an attribute", "class L(list):\n    pass\nOBJ = L([1])\nOBJ.k = 3", "OBJ.k", ("k = 3", "k = 4"), "m.OBJ.k = 4", "m.OBJ.k = 3"),
    ("text with an attribute", "class S(str):\n    pass\nOBJ = S('a')\nOBJ.k = 3\ndef f(s):\n    return s.k", "f(OBJ)", ("k = 3", "k = 4"), "m.OBJ.k = 4", "m.OBJ.k = 3"),
    ("integer with a method", "class I(int):\n    def f(self):\n        return 3\nOBJ = I(1)", "OBJ.f()", ("return 3", "return 4"), "m.I.f = lambda self: 4", ""),
    ("missing key", "class D(dict):\n    def __missing__(self, key):\n        return 3\nOBJ = D()", "OBJ['a']", ("return 3", "return 4"), "m.D.__missing__ = lambda self, key: 4", ""),
    ("default factory", "import collections\nOBJ = collections.defaultdict(lambda: 3)", "OBJ['a']", ("lambda: 3", "lambda: 4"), "m.OBJ['a'] = 4", "m.OBJ['a'] = 3"),
    ("subscript of an object", PLAIN + "C.__getitem__ = lambda self, i: i + self.k", "OBJ[1]", ("k = 3", "k = 4"), "m.OBJ.k = 4", "m.OBJ.k = 3"),
    ("attribute that is computed", PLAIN.replace("OBJ.k = 3", "N = 3") + "C.__getattr__ = lambda self, name: N", "OBJ.any", ("N = 3", "N = 4"), "m.N = 4", "m.N = 3"),
    ("membership", PLAIN + "C.__contains__ = lambda self, i: i == self.k", "3.0 if 3 in OBJ else 4.0", ("k = 3", "k = 4"), "m.OBJ.k = 4", "m.OBJ.k = 3"),
    ("comparison", PLAIN + "C.__lt__ = lambda self, i: self.k < i", "3.0 if OBJ < 4 else 4.0", ("k = 3", "k = 4"), "m.OBJ.k = 4", "m.OBJ.k = 3"),
    ("equality", PLAIN + "C.__eq__ = lambda self, i: self.k == i", "3.0 if OBJ == 3 else 4.0", ("k = 3", "k = 4"), "m.OBJ.k = 4", "m.OBJ.k = 3"),
    ("two names of one object", PLAIN + "A = OBJ\nB = OBJ", "3.0 if A is B else 4.0", ("B = OBJ", "B = C()"), "m.B = m.C()", "m.B = m.A"),
    ("class of an object", PLAIN + "class D:\n    pass", "3.0 if isinstance(OBJ, C) else 4.0", ("OBJ = C()", "OBJ = type('E', (), {})()"), "m.OBJ.__class__ = m.D", "m.OBJ.__class__ = m.C"),
    ("length of an object", PLAIN + "C.__len__ = lambda self: self.k", "len(OBJ)", ("k = 3", "k = 4"), "m.OBJ.k = 4", "m.OBJ.k = 3"),
    ("sign of an object", PLAIN + "C.__neg__ = lambda self: -self.k", "-OBJ", ("k = 3", "k = 4"), "m.OBJ.k = 4", "m.OBJ.k = 3"),
    ("reflected operator", PLAIN + "C.__radd__ = lambda self, i: self.k + i", "1 + OBJ", ("k = 3", "k = 4"), "m.OBJ.k = 4", "m.OBJ.k = 3"),
    ("float of an object", PLAIN + "C.__float__ = lambda self: float(self.k)", "OBJ", ("k = 3", "k = 4"), "m.OBJ.k = 4", "m.OBJ.k = 3"),
    ("repr of an object", PLAIN + "C.__repr__ = lambda self: 'x' * self.k", "len(repr(OBJ))", ("k = 3", "k = 4"), "m.OBJ.k = 4", "m.OBJ.k = 3"),
    ("object in an f-string", PLAIN + "C.__format__ = lambda self, spec: 'x' * self.k + spec", "len(f'{OBJ:>9}')", ("k = 3", "k = 4"), "m.OBJ.k = 4", "m.OBJ.k = 3"),
    ("dict of an object", PLAIN, "vars(OBJ)['k']", ("k = 3", "k = 4"), "m.OBJ.k = 4", "m.OBJ.k = 3"),
    ("attribute getter", PLAIN + "import operator\nget = operator.attrgetter('k')", "get(OBJ)", ("k = 3", "k = 4"), "m.OBJ.k = 4", "m.OBJ.k = 3"),
    ("weak reference", PLAIN + "import weakref\nref = weakref.ref(OBJ)", "ref().k", ("k = 3", "k = 4"), "m.OBJ.k = 4", "m.OBJ.k = 3"),
    ("context variable", "import contextvars\nV = contextvars.ContextVar('V')\nV.set(3)", "V.get()", ("set(3)", "set(4)"), "m.V.set(4)", "m.V.set(3)"),
    ("thread's own value", "import threading\nT = threading.local()\nT.k = 3", "T.k", ("k = 3", "k = 4"), "m.T.k = 4", "m.T.k = 3"),
    ("chained maps", "import collections\nA = {'k': 3}\nM = collections.ChainMap({}, A)", "M['k']", ("'k': 3", "'k': 4"), "m.A['k'] = 4", "m.A['k'] = 3"),
    ("proxy of a dict", "import types\nA = {'k': 3}\nM = types.MappingProxyType(A)", "M['k']", ("'k': 3", "'k': 4"), "m.A['k'] = 4", "m.A['k'] = 3"),
    ("deque", "import collections\nQ = collections.deque([3, 5])", "Q[0]", ("[3, 5]", "[4, 5]"), "m.Q[0] = 4", "m.Q[0] = 3"),
    ("counter", "import collections\nQ = collections.Counter('aaab')", "Q.most_common(1)[0][1]", ("'aaab'", "'aaaab'"), "m.Q.update('a')", "m.Q.subtract('a')"),
    ("bytes in place", "B = bytearray([3])", "B[0]", ("[3]", "[4]"), "m.B[0] = 4", "m.B[0] = 3"),
    ("view of bytes", "B = bytearray([3])\nV = memoryview(B)", "V[0]", ("[3]", "[4]"), "m.B[0] = 4", "m.B[0] = 3"),
    ("strides of an array", "import numpy as np\nA = np.zeros((2, 3))", "A.strides[0]", ("np.zeros((2, 3))", "np.zeros((2, 3), order='F')"), "m.A = m.np.zeros((2, 3), order='F')", ""),
    ("mask of an array", "import numpy as np\nA = np.ma.array([1.0, 2.0], mask=[False, False])", "A.sum()", ("[False, False]", "[False, True]"), "m.A[1] = m.np.ma.masked", ""),
    ("member of a tuple", "class C:\n    k = 3\nT = (C(), 1)", "T[0].k", ("k = 3", "k = 4"), "m.T[0].k = 4", "del m.T[0].k"),
    ("named tuple of objects", "import collections\nclass C:\n    k = 3\nT = collections.namedtuple('P', 'a')(C())", "T.a.k", ("k = 3", "k = 4"), "m.T.a.k = 4", "del m.T.a.k"),
    ("result of a helper that is an object", "class C:\n    k = 3\nOBJ = C()\ndef f():\n    return OBJ", "f().k", ("k = 3", "k = 4"), "m.OBJ.k = 4", "del m.OBJ.k"),
    ("reduced by a lambda", "import functools\nK = 3\nadd = lambda a, b: a + b * K", "functools.reduce(add, (0, 1))", ("K = 3", "K = 4"), "m.K = 4", "m.K = 3"),
    ("function made from text", "NS = {'N': 3}\nexec('def f():\\n    return N', NS)\nf = NS['f']", "f()", ("'N': 3", "'N': 4"), "m.NS['N'] = 4", "m.NS['N'] = 3"),
    ("once per process", "N = 3\nf = pl.once(lambda: N)", "f()", ("N = 3", "N = 4"), "m.f = m.pl.once(lambda: 4)", ""),
    ("decimal context", "import decimal\ndecimal.getcontext().prec = 3\ndef f():\n    return len(str(decimal.Decimal(1) / 3))", "f()", ("prec = 3", "prec = 4"), "m.decimal.getcontext().prec = 4", "m.decimal.getcontext().prec = 3"),
    ("fraction", "import fractions\nF = fractions.Fraction(3, 1)", "F", ("(3, 1)", "(4, 1)"), "m.F = m.fractions.Fraction(4)", "m.F = m.fractions.Fraction(3)"),
    ("value of a cell two functions up", "def a():\n    k = 3\n    def b():\n        def c():\n            return k\n        return c\n    def change(n):\n        nonlocal k\n        k = n\n    return b(), change\nf, change = a()", "f()", ("k = 3", "k = 4"), "m.change(4)", "m.change(3)"),
    ("object in a local", PLAIN, "OBJ", ("k = 3", "k = 4"), "m.OBJ.k = 4", "m.OBJ.k = 3"),
    ("objects of an unrolled loop", PLAIN + "L = [OBJ, OBJ]", "L[i].k", ("k = 3", "k = 4"), "m.OBJ.k = 4", "m.OBJ.k = 3"),
    ("helper of an unrolled loop", "N = 3\ndef f(i):\n    return i * N", "f(i)", ("N = 3", "N = 4"), "m.N = 4", "m.N = 3"),
    ("list of an unrolled loop", "L = [3, 1]", "L[i]", ("[3, 1]", "[4, 1]"), "m.L[0] = 4", "m.L[0] = 3"),
    ("list that is unpacked", "L = [3, 1]", "L", ("[3, 1]", "[4, 1]"), "m.L[0] = 4", "m.L[0] = 3"),
    ("truth of an object", PLAIN + "C.__bool__ = lambda self: self.k == 3", "OBJ", ("k = 3", "k = 4"), "m.OBJ.k = 4", "m.OBJ.k = 3"),
    ("truth of a list", "L = [1]", "L", ("[1]", "[]"), "m.L.clear()", "m.L.append(1)"),
    ("condition of an object", "L = [1]", "3.0 if L else 4.0", ("[1]", "[]"), "m.L.clear()", "m.L.append(1)"),
    ("or of objects", "L = []\nM = [3]", "(L or M)[0]", ("M = [3]", "M = [4]"), "m.L.append(5)", "m.L.clear()"),
    ("name of the language that is assigned", "", "sin", ("", "pl.sin = pl.cos"), "m.OWN = m.pl.sin; m.pl.sin = m.pl.cos", "m.pl.sin = m.OWN"),
    ("operator of a group under a local name", "ROW = 3", "ops.sin", ("ROW = 3", "pl.tensor.sin = pl.tensor.cos"), "m.OWN = m.pl.tensor.sin; m.pl.tensor.sin = m.pl.tensor.cos", "m.pl.tensor.sin = m.OWN"),
    ("operator of a group in a tuple", "", "(pl.tensor,)[0].sin", ("", "pl.tensor.sin = pl.tensor.cos"), "m.OWN = m.pl.tensor.sin; m.pl.tensor.sin = m.pl.tensor.cos", "m.pl.tensor.sin = m.OWN"),
    ("operator of a group of the language under a local name", "", "language.tensor.sin", ("", "pl.tensor.sin = pl.tensor.cos"), "m.OWN = m.pl.tensor.sin; m.pl.tensor.sin = m.pl.tensor.cos", "m.pl.tensor.sin = m.OWN"),
    ("operator of a group beside another of its operators", "", "(pl.tensor.cos if n else ops.sin)", ("", "pl.tensor.sin = pl.tensor.cos"), "m.OWN = m.pl.tensor.sin; m.pl.tensor.sin = m.pl.tensor.cos", "m.pl.tensor.sin = m.OWN"),
    ("operator of a group in a helper", "@pl.jit.inline\ndef f(t):\n    return pl.tensor.sin(t)", "f", ("", "pl.tensor.sin = pl.tensor.cos"), "m.OWN = m.pl.tensor.sin; m.pl.tensor.sin = m.pl.tensor.cos", "m.pl.tensor.sin = m.OWN"),
    ("number that is put into a group and read by a helper", "pl.tile.ROW = 3.0\n@pl.jit.inline\ndef f(t):\n    return t + pl.tile.ROW", "f", ("3.0", "4.0"), "m.pl.tile.ROW = 4.0", "m.pl.tile.ROW = 3.0"),
    ("item of a list in a quoted annotation", "T = [pl.FP32]", "T[0]", ("pl.FP32", "pl.INT32"), "m.T[0] = m.pl.INT32", "m.T[0] = m.pl.FP32"),
    ("call in a quoted annotation", "T = pl.FP32\ndef f():\n    return T", "f()", ("T = pl.FP32", "T = pl.INT32"), "m.T = m.pl.INT32", "m.T = m.pl.FP32"),
    ("alias that a quoted annotation names", "T = pl.Scalar[pl.FP32]", "T", ("pl.FP32", "pl.INT32"), "m.T = m.pl.Scalar[m.pl.INT32]", "m.T = m.pl.Scalar[m.pl.FP32]"),
    ("alias or None in a quoted annotation", "T = pl.Scalar[pl.FP32]", "T | None", ("pl.FP32", "pl.INT32"), "m.T = m.pl.Scalar[m.pl.INT32]", "m.T = m.pl.Scalar[m.pl.FP32]"),
    ("alias of a class in a quoted annotation", "class S:\n    T = pl.Scalar[pl.FP32]", "S.T", ("pl.FP32", "pl.INT32"), "m.S.T = m.pl.Scalar[m.pl.INT32]", "m.S.T = m.pl.Scalar[m.pl.FP32]"),
    ("attribute set on a class of the language", "pl.Tensor.ROW = 3", "pl.Tensor.ROW", ("= 3", "= 4"), "m.pl.Tensor.ROW = 4", "m.pl.Tensor.ROW = 3"),
    ("attribute set on an enum of the language", "pl.Level.ROW = 3", "pl.Level.ROW", ("= 3", "= 4"), "m.pl.Level.ROW = 4", "m.pl.Level.ROW = 3"),
    ("attribute set on a member of an enum", "pl.Level.CORE_GROUP.row = 3\nL = pl.Level.CORE_GROUP", "L.row", ("row = 3", "row = 4"), "m.L.row = 4", "m.L.row = 3"),
    ("module emptied and filled again", "SPARE = 1", "max(3, 4)", ("SPARE = 1", "def max(a, b):\n    return 9"), "own = vars(m); kept = dict(own); del kept['SPARE']; own.clear(); own.update(kept); m.max = lambda a, b: 9", "del m.max; m.SPARE = 1"),
    ("cell that is filled later", "k = 3\nSTART = 1\ndef make():\n    if not START:\n        k = 4\n    def fill(n):\n        nonlocal k\n        k = n\n{indented}\n    return kernel, fill\nkernel, fill = make()", "k", ("START = 1", "START = 0"), "m.fill(4)", ""),
    ("text of a NumPy scalar", "import numpy as np\nN = np.float64(1 / 3)\nnp.set_printoptions(legacy=False)", "len(str(N))", ("legacy=False", "legacy='1.13'"), "m.np.set_printoptions(legacy='1.13')", "m.np.set_printoptions(legacy=False)"),
    ("NumPy scalar that a helper writes", "import numpy as np\nN = np.float64(1 / 3)\ndef f(n):\n    return len('%s' % n)\nnp.set_printoptions(legacy=False)", "f(N)", ("legacy=False", "legacy='1.13'"), "m.np.set_printoptions(legacy='1.13')", "m.np.set_printoptions(legacy=False)"),
    ("NumPy scalar in an f-string", "import numpy as np\nN = np.float64(1 / 3)\nnp.set_printoptions(legacy=False)", "len(f'{N!r}')", ("legacy=False", "legacy='1.13'"), "m.np.set_printoptions(legacy='1.13')", "m.np.set_printoptions(legacy=False)"),
    ("NumPy scalar written into bytes", "import numpy as np\nN = np.float64(1 / 3)\nnp.set_printoptions(legacy=False)", "len(b'%a' % N)", ("legacy=False", "legacy='1.13'"), "m.np.set_printoptions(legacy='1.13')", "m.np.set_printoptions(legacy=False)"),
    ("nested members of a list", "L = [(1, 2), [3, 4]]", "L", ("[3, 4]", "[7, 4]"), "m.L[1][0] = 7", "m.L[1][0] = 3"),
    ("annotation that is replaced", "T = pl.FP32", "T", ("pl.FP32", "pl.INT32"), "m.kernel.__wrapped__.__annotations__['n'] = m.pl.INT32", "m.kernel.__wrapped__.__annotations__['n'] = m.pl.FP32"),
    ("patched by a mock", "from unittest import mock\nclass C:\n    k = 3\nPATCH = mock.patch.object(C, 'k', 4)", "C.k", ("k = 3", "k = 4"), "m.PATCH.start()", "m.PATCH.stop()"),
    ("arguments of a partial replaced", "import functools\ndef g(k):\n    return k\nf = functools.partial(g, 3)", "f()", ("g, 3", "g, 4"), "m.f.__setstate__((m.g, (4,), {}, {}))", "m.f.__setstate__((m.g, (3,), {}, {}))"),
    ("class that is registered", "import abc\nclass A(abc.ABC):\n    pass\nclass C:\n    pass\nclass D:\n    pass\nOBJ = C()\nA.register(D)", "3 if isinstance(OBJ, A) else 4", ("A.register(D)", "A.register(C)"), "m.A.register(m.C)", ""),
    ("value of an enum member", "import enum\nclass E(enum.Enum):\n    A = 3", "E.A.value", ("A = 3", "A = 4"), "m.E.A._value_ = 4", "m.E.A._value_ = 3"),
    ("content of a cell", "def make(k):\n    def f():\n        return k\n    return f\nf = make(3)", "f()", ("make(3)", "make(4)"), "m.f.__closure__[0].cell_contents = 4", "m.f.__closure__[0].cell_contents = 3"),
    ("view of an array", "import numpy as np\nB = np.full(6, 3.0)\nA = B[::2]", "A[1]", ("3.0", "4.0"), "m.B[2] = 4.0", "m.B[2] = 3.0"),
    ("handler of errors of codecs", "import codecs\nN = 3\ncodecs.register_error('row_handler', lambda error: ('x' * N, error.end))", "len('é'.encode('ascii', 'row_handler'))", ("N = 3", "N = 4"), "m.N = 4", "m.N = 3"),
    ("builtins of a helper's own", "import types, builtins\nB = {**vars(builtins), 'len': lambda text: 3}\ndef g():\n    return len('abcdefg')\nf = types.FunctionType(g.__code__, {'__builtins__': B})", "f()", ("text: 3", "text: 4"), "m.B['len'] = lambda text: 4", "m.B['len'] = lambda text: 3"),
    ("globals of a helper that compute", SUBCLASS, "f()", ("N = 3", "N = 4"), "m.N = 4", "m.N = 3"),
    ("static method given another function", "class C:\n    @staticmethod\n    def f():\n        return 3", "C.f()", ("return 3", "return 4"), "vars(m.C)['f'].__init__(lambda: 4)", "vars(m.C)['f'].__init__(lambda: 3)"),
    ("global beside a key that equals anything", EVIL + "globals()[Evil('zz')] = 3\nNUMBER = 3", "NUMBER", ("NUMBER = 3", "NUMBER = 4"), "m.NUMBER = 4", "m.NUMBER = 3"),
    ("attribute beside a key that equals anything", EVIL + "class C:\n    pass\nOBJ = C()\nvars(OBJ)[Evil('zz')] = 3\nOBJ.k = 3", "OBJ.k", ("k = 3", "k = 4"), "m.OBJ.k = 4", "m.OBJ.k = 3"),
    ("default of a helper that took the place of its like", "import numpy as np\n" + HELPERS + "L = A", "L", ("= 3", "= 4"), "m.L = m.B; " + TWICE + "m.B.__wrapped__.__defaults__ = (4,)", ""),
    ("default of a helper in a list that took the place of its like", "import numpy as np\n" + HELPERS + "L = [A]", "L[0]", ("= 3", "= 4"), "m.L[0] = m.B; " + TWICE + "m.B.__wrapped__.__defaults__ = (4,)", ""),
    ("empty text of NumPy that a helper is given", "import numpy as np\nN = np.str_('')\nK = 3\ndef f(text):\n    return len(text) + K", "f(N)", ("K = 3", "K = 4"), "m.K = 4", "m.K = 3"),
    ("text of NumPy that ends in zeros", "import numpy as np\nN = np.str_('a\\0\\0')\ndef f(text):\n    return len(text)", "f(N)", ("0\\0'", "0\\0\\0'"), "m.N = m.np.str_('a\\0\\0\\0')", "m.N = m.np.str_('a\\0\\0')"),
    ("count of a NaN", "T = (float('nan'), 1.0)\nN = float('nan')", "3 + T.count(N) * T.index(N)", ("(float('nan'), 1.0)", "(1.0, float('nan'))"), "m.T = (1.0, float('nan'))", "m.T = (float('nan'), 1.0)"),
    ("codec that is registered", "import codecs\nN = 3\nCODEC = f'row_{id(globals())}'\ndef search(name):\n    return codecs.CodecInfo(lambda text, errors='strict': (b'x' * N, len(text)), None, name=name) if name == CODEC else None\ncodecs.register(search)\ndef f():\n    return len('ab'.encode(CODEC))", "f()", ("N = 3", "N = 4"), "m.N = 4", "m.N = 3"),
    ("limit of digits that a helper reads", "T = '1' * 1000\ndef f(text):\n    return int(text) % 7", "f(T)", ("1000", "1001"), "sys.set_int_max_str_digits(640)", "sys.set_int_max_str_digits(4300)"),
    ("limit of digits that a helper makes", "N = 1000\ndef f():\n    n = 10\n    return len('%d' % n ** N)", "f()", ("1000", "1001"), "sys.set_int_max_str_digits(640)", "sys.set_int_max_str_digits(4300)"),
    ("limit of digits that a kernel reads", "N = 1000", "int('1' * N) % 7", ("1000", "1001"), "sys.set_int_max_str_digits(640)", "sys.set_int_max_str_digits(4300)"),
    ("identity of a text that a helper is given", "TEXT = 'some text ' * 3\nWANTED = TEXT\ndef f(a):\n    return 3 if a is WANTED else 4", "f(TEXT)", ("= TEXT", "= ''.join(list(TEXT))"), "m.WANTED = ''.join(list(m.TEXT))", "m.WANTED = m.TEXT"),
    ("identity of a tuple that a helper is given", "T = tuple([1.5, 2])\nWANTED = {id(T): 3}\ndef f(a):\n    return WANTED.get(id(a), 4)", "f(T)", ("id(T): 3", "0: 3"), "m.T = tuple([1.5, 2])", ""),
    ("identity of a member of a tuple", "T = (tuple([1.5, 2]), 7)\nWANTED = {id(T[0]): 3}\ndef f(a):\n    return WANTED.get(id(a), 4)", "f(T[0])", ("id(T[0]): 3", "0: 3"), "m.T = (tuple([1.5, 2]), 7)", ""),
    ("identity of a number in a tuple in a tuple", "T = (7, (8, float('1.5')))\nWANTED = {id(T[1][1]): 3}\ndef f(a):\n    return WANTED.get(id(a), 4)", "f(T[1][1])", ("id(T[1][1]): 3", "0: 3"), "m.T = (7, (8, float('1.5')))", ""),
    ("identity of a number that is read anew", "N = 10 ** 12\nWANTED = N\ndef f(a):\n    return 3 if a is WANTED else 4", "f(N)", ("= N", "= N + 1"), "m.N = int('1' + '0' * 12)", "m.N = m.WANTED"),
    ("identity of what a helper chooses", "N = 10 ** 12\nCHOOSE = True\nL = [N]\ndef f(a):\n    return 3 if a is (N if CHOOSE else None) else 4", "f(L[0])", ("= [N]", "= [N + 1]"), "m.L[0] = int('1' + '0' * 12)", "m.L[0] = m.N"),
    ("list among the constants of a helper", CONSTANT, "f()", ("L = [3]", "L = [4]"), "m.L[0] = 4", "m.L[0] = 3"),
    ("array in a tuple that is a shape", "import numpy as np\nT = (np.array(3), 4)", "T", ("array(3)", "array(5)"), "m.T[0][...] = 5", "m.T[0][...] = 3"),
    ("class of an attribute that becomes a descriptor", DESCRIBED, "OBJ.k", ("BEFORE = D", "BEFORE = G"), "m.C.k.__class__ = m.G", "vars(m.C)['k'].__class__ = m.D"),
    ("key that equals another name later", EVIL.replace("True", "other == ON[0]") + "ON = ['zzz']\nglobals()[Evil('abs')] = lambda v: 9", "abs(-3)", ("'zzz'", "'abs'"), "m.ON[0] = 'abs'", "m.ON[0] = 'zzz'"),
    ("metaclass that answers everything", "N = 3\nclass M(type):\n    def __getattribute__(cls, name):\n        return N\nclass C(metaclass=M):\n    pass", "C.k", ("N = 3", "N = 4"), "m.N = 4", "m.N = 3"),
    ("instance of such a class", "class M(type):\n    def __getattribute__(cls, name):\n        return 5\nclass C(metaclass=M):\n    pass\nOBJ = C()\nOBJ.k = 3", "OBJ.k", ("k = 3", "k = 4"), "m.OBJ.k = 4", "m.OBJ.k = 3"),
    ("type of a NumPy scalar of the same size", "import numpy as np\nN = np.int64(3)", "5 if N.dtype.num == 7 else 6", ("np.int64", "np.longlong"), "m.N = m.np.longlong(3)", "m.N = m.np.int64(3)"),
    ("module without a name", "import types\nP = types.ModuleType('P')\nP.k = 3\ndel P.__name__", "P.k", ("k = 3", "k = 4"), "m.P.k = 4", "m.P.k = 3"),
    ("module whose name is no text", "import types\nP = types.ModuleType('P')\nP.k = 3\nP.__name__ = None", "P.k", ("k = 3", "k = 4"), "m.P.k = 4", "m.P.k = 3"),
    ("attribute of what decorates kernels", "pl.jit.ROW = 3", "pl.jit.ROW", ("= 3", "= 4"), "m.pl.jit.ROW = 4", "m.pl.jit.ROW = 3"),
    ("names of the language", "pl.ROW = 3", "pl.__dict__['ROW']", ("= 3", "= 4"), "m.pl.ROW = 4", "m.pl.ROW = 3"),
    ("names in a part of the language", "pl.tile.ROW = 3", "pl.tile.__dict__['ROW']", ("= 3", "= 4"), "m.pl.tile.ROW = 4", "m.pl.tile.ROW = 3"),
    ("part of the language that a function is given", "pl.tile.ROW_2 = 3", "getattr(pl.tile, 'ROW_2', 9)", ("= 3", "= 4"), "m.pl.tile.ROW_2 = 4", "m.pl.tile.ROW_2 = 3"),
    ("module of a builtin", "bin.__module__ = 'abc'", "len(bin.__module__)", ("'abc'", "'abcd'"), "bin.__module__ = 'abcd'", "bin.__module__ = 'abc'"),
    ("dtype in a quoted annotation", "T = pl.FP32", "T", ("pl.FP32", "pl.INT32"), "m.T = m.pl.INT32", "m.T = m.pl.FP32"),
]  # fmt: skip
KERNELS = {
    "object in a local": LOCAL,
    "array in a tuple that is a shape": FILLED,
    "objects of an unrolled loop": UNROLLED,
    "helper of an unrolled loop": UNROLLED,
    "list of an unrolled loop": UNROLLED,
    "list that is unpacked": UNPACKED,
    "annotation that is replaced": QUOTED.replace('"{expression}"', "{expression}"),
    "nested members of a list": UNPACKED.replace("a, b =", "(c, a), (d, b) =").replace("float(b)", "float(b) + float(c) + float(d)"),
    **dict.fromkeys((name for name, *_ in ODD if "place of its like" in name), CALLED),
    "truth of an object": BRANCH,
    "truth of a list": BRANCH,
    "name of the language that is assigned": PATCHED,
    **dict.fromkeys((name for name, *_ in ODD if "quoted annotation" in name), QUOTED),
    **dict.fromkeys((name for name, *_ in ODD if "of a group" in name or "into a group" in name), GROUPED),
    "keyword defaults of an inline kernel, in place": PATCHED.replace("pl.{", "{"),
}
ODD_ROWS: list[Row] = [
    world(name, setup, expression, edit, mutate, restore, kernel=KERNELS.get(name, KERNEL)) for name, setup, expression, edit, mutate, restore in ODD
]
