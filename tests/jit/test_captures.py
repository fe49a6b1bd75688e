"""Every way a kernel can read a value: changed between processes it is another key, changed in the process it is noticed, or it is refused."""

# ruff: noqa: E501 (the table of reads is one row per line)

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tests.jit import code_reads
from tilejit.errors import StaleCaptureError, UncacheableValueError
from tilejit.runtime.native_type import supported

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
    for name, setup, expression, edit, mutate, restore in code_reads.ROWS
)


def write(row: Row, root: Path, package: str, edited: bool) -> None:
    """The package of a row."""
    folder = root / package
    folder.mkdir(parents=True)
    kernel = row.kernel.format(expression=row.expression.replace("{package}", package))
    setup, helpers = row.setup.replace("{package}", package), row.helpers
    if edited and row.helpers:
        helpers = helpers.replace("3", "4")
        assert helpers != row.helpers
    elif edited:
        old, new = row.edit
        changed = setup.replace(old, new) if old else setup + "\n" + new
        assert changed != setup, row.name
        setup = changed
    indented = textwrap.indent(textwrap.dedent(kernel), "    ")
    body = setup.replace("{indented}", indented) if "{indented}" in setup else setup + "\n" + kernel
    (folder / "__init__.py").write_text("")
    other = folder / row.where.replace("{package}", package)
    other.parent.mkdir(parents=True, exist_ok=True)
    for place in [other.parent, *other.parent.parents]:
        if folder in place.parents and place.name != "elsewhere":
            (place / "__init__.py").write_text("")
    other.write_text(helpers)
    (folder / "main.py").write_text("import tilejit.language as pl\n" + body)


RUNNER = """
import importlib, json, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
found = {}
for name in sys.argv[2].split(","):
    module = importlib.import_module(name + ".main")
    x = np.ones((2, 3), np.float32)
    out = np.empty_like(x)
    kernel = module.kernel
    standing = kernel._current()
    key = kernel._key(standing, kernel._sample((x, out), {}), None)
    kernel(x, out)
    found[name] = [key.digest, repr(float(out[0, 0])), kernel.cache_info().loaded]
print(json.dumps(found))
"""


def keys(root: Path, names: list[str], cache: Path, seed: str = "0") -> dict[str, list[Any]]:
    environment = {**os.environ, "TILEJIT_CACHE_DIR": str(cache), "PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", RUNNER, str(root), ",".join(names)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_value_changed_between_processes_is_another_key_and_nothing_else_is(tmp_path: Path) -> None:
    names = [f"row{number}" for number in range(len(ROWS))]
    for name, row in zip(names, ROWS, strict=True):
        write(row, tmp_path / "old", name, edited=False)
        write(row, tmp_path / "new", name, edited=True)
    cache = tmp_path / "cache"
    first = keys(tmp_path / "old", names, cache)
    second = keys(tmp_path / "old", names, cache, seed="1")
    third = keys(tmp_path / "new", names, cache, seed="77")
    for name, row in zip(names, ROWS, strict=True):
        assert first[name][0] == second[name][0], f"{row.name}: the key depends on the hash seed"
        assert first[name][1] == second[name][1]
        assert second[name][2] == 1, f"{row.name}: the second process compiled again"
        assert first[name][0] != third[name][0], f"{row.name}: the change went unnoticed"
        assert third[name][2] == 0
        assert first[name][1] != third[name][1], f"{row.name}: the edit of the test changes nothing"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    yield tmp_path / "packages"
    for name in [name for name in sys.modules if name.startswith("drift_row")]:
        del sys.modules[name]


@pytest.mark.dispatch
@pytest.mark.parametrize("fast", [True, False], ids=["native", "python"])
@pytest.mark.parametrize("number", range(len(ROWS)), ids=[row.name for row in ROWS])
def test_a_value_changed_in_the_process_is_noticed(number: int, fast: bool, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", "1" if fast else "0")
    row, name = ROWS[number], f"drift_row{number}"
    write(row, package, name, edited=False)
    importlib.invalidate_caches()
    module: ModuleType = importlib.import_module(f"{name}.main")
    kernel: Any = module.kernel
    x = np.ones((2, 3), np.float32)
    out = np.empty_like(x)
    for _ in range(3):
        kernel(x, out)
    before = float(out[0, 0])
    out[:] = 0.5
    exec(row.mutate, {"m": module, "sys": sys})
    with pytest.raises(StaleCaptureError) as caught:
        kernel(x, out)
    assert (out == 0.5).all(), "a refused call leaves outputs alone"
    assert "on_drift" in str(caught.value)
    if row.restore:
        exec(row.restore, {"m": module, "sys": sys})
        kernel(x, out)
        assert repr(float(out[0, 0])) == repr(before), "a value restored to what it was is no drift"


def test_recompile_follows_the_value_and_ignore_keeps_it(package: Path) -> None:
    for policy, expected in (("recompile", 5.0), ("ignore", 4.0)):
        name = f"drift_row_{policy}"
        text = KERNEL.format(expression="N").replace("@pl.jit", f"@pl.jit(on_drift={policy!r})")
        folder = package / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("")
        (folder / "main.py").write_text("import tilejit.language as pl\nN = 3\n" + text)
        importlib.invalidate_caches()
        module: Any = importlib.import_module(f"{name}.main")
        x = np.ones((2, 3), np.float32)
        out = np.empty_like(x)
        for _ in range(3):
            module.kernel(x, out)
        module.N = 4
        for _ in range(3):
            module.kernel(x, out)
            assert out[0, 0] == expected
        module.N = 3
        module.kernel(x, out)
        assert out[0, 0] == 4.0


def test_other_names_of_the_module_may_change_freely(package: Path) -> None:
    write(ROWS[7], package, "drift_row_other", edited=False)
    importlib.invalidate_caches()
    module: Any = importlib.import_module("drift_row_other.main")
    x = np.ones((2, 3), np.float32)
    out = np.empty_like(x)
    for step in range(200):
        module.kernel(x, out)
        setattr(module, f"unrelated_{step % 7}", step)
    assert out[0, 0] == 4.0


WATCHED = """
import types
class Meta(type):
    pass
class Base:
    A = 1
class C(Base, metaclass=Meta):
    B = 2
OBJ = C()
OBJ.c = 3
SPACE = types.SimpleNamespace(part=OBJ)
mod = types.ModuleType("mod")
mod.D = 4
"""


@pytest.mark.dispatch
@pytest.mark.skipif(not supported() or os.environ.get("TILEJIT_FASTPATH") == "0", reason="needs native dispatch")
def test_classes_and_objects_that_change_elsewhere_are_learnt_again(make_kernel: Any) -> None:
    kernel = make_kernel(WATCHED + KERNEL.format(expression="C.A + C.B + OBJ.c + SPACE.part.A + mod.D"))
    names = kernel.definition.function.__globals__
    x = np.ones((2, 3), np.float32)
    out = np.empty_like(x)
    for change in ("C.other = 1", "Meta.other = 1", "Base.other = 1", "OBJ.other = 1", "SPACE.other = 1", "mod.other = 1", "C.B = 3; C.B = 2", "del C.other"):
        for _ in range(4):
            kernel(x, out)
        before = kernel._warm.hits
        kernel(x, out)
        assert kernel._warm.hits == before + 1, f"before `{change}` calls are native"
        exec(change, names)
        out[:] = 0
        kernel(x, out)
        assert (out == 12).all(), change


@pytest.mark.dispatch
@pytest.mark.parametrize("fast", [True, False], ids=["native", "python"])
def test_a_value_in_the_memory_of_one_that_is_gone_is_noticed(fast: bool, make_kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", "1" if fast else "0")
    kernel = make_kernel("N = 3.5\n" + KERNEL.format(expression="N"))
    names = kernel.definition.function.__globals__
    x = np.ones((2, 3), np.float32)
    out = np.empty_like(x)
    kernel(x, out)
    names["N"] = float("3.5")  # equal, but another object
    for _ in range(3):
        kernel(x, out)
    for text in ("7.5", "8.5", "9.5"):  # one of them may get the place of that object
        names["N"] = float(text)
        with pytest.raises(StaleCaptureError, match="N"):
            kernel(x, out)
    names["N"] = float("4.5")
    names["N"] = float("5.5")
    with pytest.raises(StaleCaptureError, match=r"to 5\.5"):
        kernel(x, out)


def test_objects_without_content_are_refused_when_compiling(package: Path) -> None:
    folder = package / "drift_row_refused"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    text = "import tilejit.language as pl\nclass C:\n    pass\nOBJ = C()\ndef helper(o):\n    return 3\n" + KERNEL.format(expression="helper(OBJ)")
    (folder / "main.py").write_text(text)
    importlib.invalidate_caches()
    module: Any = importlib.import_module("drift_row_refused.main")
    x = np.ones((2, 3), np.float32)
    with pytest.raises(UncacheableValueError, match="`OBJ`"):
        module.kernel(x, np.empty_like(x))


def test_an_inherited_kernel_stands_on_what_its_own_class_reads(package: Path) -> None:
    folder = package / "drift_row_classes"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    kernel = textwrap.indent(KERNEL.format(expression="self.amount()").replace("(x:", "(self, x:"), "    ")
    text = f"""import tilejit.language as pl
EXTRA = 5
class Base:
    def __cache_signature__(self):
        return type(self).__name__
    def amount(self):
        return 3
{kernel}
class Sub(Base):
    def amount(self):
        return EXTRA
"""
    (folder / "main.py").write_text(text)
    importlib.invalidate_caches()
    module: Any = importlib.import_module("drift_row_classes.main")
    base, sub = module.Base(), module.Sub()
    x = np.ones((2, 3), np.float32)
    out = np.empty_like(x)
    base.kernel(x, out)
    assert out[0, 0] == 4.0
    sub.kernel(x, out)
    assert out[0, 0] == 6.0
    module.EXTRA = 6
    base.kernel(x, out)
    assert out[0, 0] == 4.0
    with pytest.raises(StaleCaptureError, match="EXTRA"):
        sub.kernel(x, out)


def test_a_comment_in_a_helper_two_levels_down_compiles_nothing_and_an_edit_changes_the_result(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    deep = "X = 2\ndef deep(n):\n    return n * X\n"
    (root / "deepest.py").write_text(deep)
    (root / "middle.py").write_text("import deepest\ndef middle(n):\n    return deepest.deep(n) + 1\n")
    (root / "top").mkdir()
    (root / "top" / "__init__.py").write_text("")
    (root / "top" / "main.py").write_text("import tilejit.language as pl\nimport middle\n" + KERNEL.format(expression="middle.middle(3)"))
    first = keys(root, ["top"], tmp_path / "cache")["top"]
    (root / "deepest.py").write_text("# a comment\n" + deep.replace("return", "# another\n    return"))
    second = keys(root, ["top"], tmp_path / "cache")["top"]
    assert second == [first[0], first[1], 1]
    (root / "deepest.py").write_text(deep.replace("n * X", "n * X * 10"))
    third = keys(root, ["top"], tmp_path / "cache")["top"]
    assert third[0] != first[0] and float(third[1]) == 62.0 and third[2] == 0


def test_many_threads_that_call_first_compile_once(package: Path) -> None:
    write(ROWS[7], package, "drift_row_threads", edited=False)
    importlib.invalidate_caches()
    module: Any = importlib.import_module("drift_row_threads.main")
    x = np.ones((2, 3), np.float32)
    outputs = [np.empty_like(x) for _ in range(16)]
    barrier = threading.Barrier(16)

    def call(out: np.ndarray) -> None:
        barrier.wait()
        for _ in range(50):
            module.kernel(x, out)

    threads = [threading.Thread(target=call, args=(out,)) for out in outputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((out == 4.0).all() for out in outputs)
    assert module.kernel.cache_info().misses == 1


class Settings:
    factor = 2.0


@pytest.mark.parametrize("platform", ["cpu", "reference"])
def test_a_value_that_changes_after_compile_or_a_returning_call_is_noticed(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PLATFORM", platform)
    x = np.ones((2, 3), np.float32)
    for first in ("compile", "call"):
        monkeypatch.setattr(Settings, "factor", 2.0)

        @pl.jit
        def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            out[:] = x * Settings.factor

        getattr(kernel, "compile" if first == "compile" else "__call__")(x)
        monkeypatch.setattr(Settings, "factor", 3.0)
        with pytest.raises(StaleCaptureError, match=r"Settings\.factor"):
            kernel(x)


@pytest.mark.parametrize("remedy", ["recompile", "cache_clear"])
def test_replaced_defaults_of_a_kernel_are_followed_by_both_remedies(remedy: str, make_kernel: Any) -> None:
    kernel = make_kernel(f"""
    @pl.jit{"(on_drift='recompile')" if remedy == "recompile" else ""}
    def shifted(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.FP32 = 3.0):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x + n
    """)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    out = np.empty_like(x)
    for _ in range(3):
        kernel(x, out)
    np.testing.assert_array_equal(out, x + 3)
    kernel.definition.function.__defaults__ = (4.0,)
    if remedy == "cache_clear":
        kernel.cache_clear()
    for _ in range(3):
        kernel(x, out)
        np.testing.assert_array_equal(out, x + 4)
