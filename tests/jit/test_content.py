"""What counts as a library, and reads that nobody can see: refused with what to do instead."""

from __future__ import annotations

import collections
import dataclasses
import enum
import fractions
import json
import logging
import math
import os
import pickle
import re
import subprocess
import sys
import threading
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import TilejitError, UncacheableValueError, UnsupportedFeatureError
from tilejit.jit.reads.content import Content
from tilejit.jit.reads.encode import encode_value, is_library


def content() -> Content:
    return Content(lambda *_: None)


@pytest.mark.parametrize(
    ("module", "file", "known"),
    [
        ("json", json.__file__, True),
        ("math", None, True),
        ("collections.abc", "<frozen _collections_abc>", True),
        ("numpy.linalg", "/anywhere/numpy/linalg/__init__.py", True),
        ("profile", "/home/somebody/profile.py", False),
        ("mine", "/home/somebody/mine.py", False),
        (None, None, False),
    ],
)
def test_a_file_called_like_a_standard_module_is_no_library(module: str | None, file: str | None, known: bool) -> None:
    assert is_library(module, file) is known


def imports_while_it_runs() -> float:
    import tests.jit.read_rows as reads

    return float(len(reads.ROWS))


def asks_globals() -> float:
    return globals()["SCALE"]


def asks_eval() -> float:
    return eval("SCALE")


def imports_a_library() -> float:
    import math as maths

    return maths.floor(2.5)


SCALE = 2.0
HELPERS: dict[str, Callable[[], float]] = {"imports": imports_while_it_runs, "globals": asks_globals, "eval": asks_eval}


def kernel_of(helper: Callable[[], float]) -> Any:
    @pl.jit
    def scaled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out[:] = x * helper()

    return scaled


SAYS = [("imports", "imports `tests.jit.read_rows` while it runs"), ("globals", "read any name"), ("eval", "read any name")]


@pytest.mark.parametrize(("name", "says"), SAYS)
def test_helpers_whose_reads_cannot_be_seen_are_refused(name: str, says: str) -> None:
    x = np.ones((2, 2), np.float32)
    with pytest.raises(UncacheableValueError, match=says):
        kernel_of(HELPERS[name])(x, x.copy())


def test_helpers_may_import_libraries() -> None:
    x, out = np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)
    kernel_of(imports_a_library)(x, out)
    assert (out == 2.0).all()


NUMPY_OF_A_TENSOR = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = np.exp(x)
"""


@pl.jit
def numpy_of_a_constant(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = x * float(np.sqrt(16.0)) + math.floor(0.5)


def test_a_function_of_numpy_on_a_tensor_is_refused_where_it_stands(make_kernel: Callable[..., Any]) -> None:
    x = np.ones((2, 2), np.float32)
    with pytest.raises(UnsupportedFeatureError, match="exp") as caught:
        make_kernel(NUMPY_OF_A_TENSOR, np=np)(x, x.copy())
    assert caught.value.span is not None


def test_a_function_of_numpy_on_constants_is_computed() -> None:
    x, out = np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)
    numpy_of_a_constant(x, out)
    assert (out == 4.0).all()


def test_modules_are_no_values_unless_they_are_libraries() -> None:
    import tests.jit.read_rows as reads

    assert encode_value(math, "m", content()) != encode_value(np, "m", content())
    with pytest.raises(UncacheableValueError, match="a module as a value"):
        encode_value(reads, "m", content())


def test_a_default_factory_counts() -> None:
    one, other = collections.defaultdict(lambda: 3), collections.defaultdict(lambda: 4)
    assert encode_value(one, "d", content()) != encode_value(other, "d", content())
    assert encode_value(collections.defaultdict(int), "d", content()) != encode_value(collections.defaultdict(float), "d", content())


def test_symbols_of_one_name_are_told_apart() -> None:
    first, second = pl.dynamic("M"), pl.dynamic("M")
    whole = content()
    assert encode_value((first, first), "t", whole) != encode_value((first, second), "t", whole)
    assert os.path.dirname(os.__file__) in json.__file__


# what must not be refused ------------------------------------------------------------------------------------------------------

LOG = logging.getLogger("tests")


@dataclasses.dataclass(frozen=True)
class Config:
    """A class with much in it that no kernel reads."""

    n: int = 3
    lock: typing.ClassVar[Any] = threading.Lock()
    Alias = int | float

    def report(self) -> None:
        LOG.info("n is %d", self.n)

    def load(self) -> object:
        import tests.jit.read_rows as reads

        return reads.ROWS

    def __lt__(self, other: object) -> bool:
        return self.n < other.n if isinstance(other, Config) else NotImplemented


class Access(enum.Flag):
    NONE = 0
    READ = 1


def tripled(config: Config) -> float:
    return config.n * 3.0


def is_none(access: Access) -> float:
    return 2.0 if access is Access.NONE else 5.0


CONFIG, ACCESS = Config(), Access(0)


@pl.jit
def configured(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = x * tripled(CONFIG) + is_none(ACCESS)


def test_members_that_nobody_reads_are_no_reason_to_refuse() -> None:
    x, out = np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)
    for _ in range(3):
        configured(x, out)
    assert (out == 11.0).all()
    pickle.dumps(CONFIG)  # Python notes the names of slots in the class
    configured(x, out)


LIBRARY_VALUES = [np.dtype("f4"), typing.Literal["a"], list[int], int | str, fractions.Fraction(1, 3), re.compile("a+"), np.prod, NotImplemented]


@pytest.mark.parametrize("value", LIBRARY_VALUES)
def test_values_of_libraries_have_an_encoding(value: object) -> None:
    assert encode_value(value, "v", content()) == encode_value(value, "v", content())


def test_a_huge_result_is_no_raw_error() -> None:
    @pl.jit
    def made(n: pl.INDEX):
        t = pl.create_tensor([n, 1 << 20], dtype=pl.FP32)
        return t

    with pytest.raises(TilejitError):
        made(1 << 40)


LOCK = threading.Lock()


class Holder:
    def method(self, lock: Any = LOCK) -> float:
        """Its default has no encoding."""
        return 2.0


def test_what_a_class_may_hold_is_still_refused_as_a_helper() -> None:
    whole = content()
    assert encode_value(Holder, "Holder", whole)
    with pytest.raises(UncacheableValueError):
        encode_value(Holder.method, "Holder.method", whole)


INSTALLED = """
import numpy as np
import tilejit.language as pl
from installed_package import helper

@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = x * helper()

x, out = np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)
kernel(x, out)
print(out[0, 0], kernel.cache_info().loaded)
"""


def test_a_package_that_is_installed_again_under_its_version_is_noticed(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "site-packages" / "installed_package"
    package.mkdir(parents=True)
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "run.py").write_text(INSTALLED)

    def run() -> str:
        environment = {"PYTHONPATH": str(package.parent), "TILEJIT_CACHE": "1", "TILEJIT_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([sys.executable, tmp_path / "run.py"], capture_output=True, text=True, check=False, env={**environment, "PATH": "/usr/bin"})
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    (package / "__init__.py").write_text("def helper():\n    return 2.0\n")
    assert (run(), run()) == ("2.0 0", "2.0 1")
    (package / "__init__.py").write_text("def helper():\n    return 5.0\n")
    assert (run(), run()) == ("5.0 0", "5.0 1")
