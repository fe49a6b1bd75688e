"""Objects of the user are touched by questions only: a handle does nothing else, and passes reach no namespace."""

from __future__ import annotations

import ast
import copy
import math
import operator
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit
from tilejit.jit.reads.handles import Handle, holds_handle, is_handle, number_of
from tilejit.jit.reads.plain import decode, encode, is_plain, same, written

HANDLE: Any = Handle(7)
DEEDS: dict[str, Callable[[Any], object]] = {
    "truth": bool, "len": len, "hash": hash, "iter": iter, "next": next, "reversed": reversed, "repr": repr, "str": str, "bytes": bytes, "format": format,
    "int": int, "float": float, "complex": complex, "index": operator.index, "round": round, "abs": abs, "negative": operator.neg, "positive": operator.pos,
    "invert": operator.invert, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "dir": dir, "vars": vars, "copy": copy.copy,
    "deepcopy": copy.deepcopy, "pickle": pickle.dumps, "call": lambda item: item(), "attribute": lambda item: item.block, "number": lambda item: item._number,
    "dict": lambda item: item.__dict__, "set attribute": lambda item: setattr(item, "k", 1), "delete attribute": lambda item: delattr(item, "k"),
    "item": lambda item: item[0], "set item": lambda item: operator.setitem(item, 0, 1), "delete item": lambda item: operator.delitem(item, 0),
    "contains": lambda item: 1 in item, "inside": lambda item: item in (1, 2), "key": lambda item: {item: 1}, "f-string": lambda item: f"{item}",
    "percent": lambda item: f"{item}", "array": np.asarray, "sum": lambda item: sum([item]), "sorted": lambda item: sorted([item, item]),
    "unpack": lambda item: [*item], "context": lambda item: item.__enter__(), "condition": lambda item: 1 if item else 2, "and": lambda item: item and 1,
    "not": lambda item: not item, "size": lambda item: item.__sizeof__(), "divmod": lambda item: divmod(item, 2),
}  # fmt: skip
SYMBOLS = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow, operator.matmul, operator.lshift,
    operator.rshift, operator.and_, operator.or_, operator.xor, operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
    operator.iadd, operator.imul,
)  # fmt: skip


@pytest.mark.parametrize("name", DEEDS)
def test_whatever_is_done_with_a_handle_fails(name: str) -> None:
    with pytest.raises(AssertionError, match="without asking"):
        DEEDS[name](HANDLE)


@pytest.mark.parametrize("symbol", SYMBOLS, ids=lambda symbol: symbol.__name__)
def test_operators_fail_on_either_side(symbol: Callable[[Any, Any], object]) -> None:
    for operands in ((HANDLE, 1), (1, HANDLE), (HANDLE, HANDLE)):
        with pytest.raises(AssertionError, match="without asking"):
            symbol(*operands)


def test_every_special_method_that_object_has_is_closed() -> None:
    harmless = {"__class__", "__init__", "__new__", "__init_subclass__", "__subclasshook__", "__doc__", "__getattribute__"}
    own = set(vars(Handle))
    assert {name for name in dir(object) if name.startswith("__")} - harmless <= own


def test_a_handle_may_be_carried_about() -> None:
    assert is_handle(HANDLE) and number_of(HANDLE) == 7 and isinstance(HANDLE, Handle) and not isinstance(HANDLE, int)
    assert holds_handle((1, [HANDLE])) and holds_handle({"a": HANDLE}) and holds_handle(slice(None, HANDLE)) and not holds_handle((1, [2]))


def test_no_pass_reaches_a_namespace() -> None:
    """Only the questions read namespaces; the definition evaluates annotations, the words watch what was asked, and host functions, which Python runs,
    are replayed as long as what their text reads stays the same. A first call that goes straight to its artifact looks whether names are the language's.

    Under the name of an operator of torch stands what one namespace has; a relative path of PTO text starts beside the module of its kernel.
    A tuned choice stands on what the function reads that results were compared with, which is no kernel. Host functions
    are stored with what they hold."""
    root = Path(tilejit.__file__).parent / "jit"
    readers = {"definition.py", "torch_op.py", "disk/shortcuts.py", "pto/place.py", "tune/measure.py"}
    readers |= {f"hosts/{name}.py" for name in ("own_names", "steady_text", "stored_hosts")}
    readers |= {f"reads/{name}.py" for name in ("questions", "words", "watch", "pure", "trace")}
    found = set[str]()
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in ("namespace", "__globals__", "__closure__", "cell_contents"):
                found.add(str(path.relative_to(root)))
    assert found <= readers, found - readers


PLAIN: list[Any] = [
    0, 1, -1, True, False, 1.0, 0.0, -0.0, math.nan, math.inf, None, "", "1", b"1", (), (1,), (1, (2.0, "a")), slice(1, None, 2), range(3), ...,
    1j, complex(0.0, -0.0), np.float32(1), np.float64(1), np.int8(1), np.bool_(True), len, float, 10**30,
]  # fmt: skip


def test_plain_values_differ_by_type_and_survive_the_disk() -> None:
    texts = [written(value) for value in PLAIN]
    assert len(set(texts)) == len(PLAIN)
    for value in PLAIN:
        assert is_plain(value) and same(decode(encode(value)), value)
    for one in PLAIN:
        assert [same(one, other) for other in PLAIN].count(True) == 1


RECORD = np.zeros(1, "i4,i4")[0]


@pytest.mark.parametrize("value", [[], {}, set(), object(), np.zeros(2), type("I", (int,), {})(1), type("S", (str,), {})("a"), (1, []), RECORD, lambda: 1])
def test_what_may_change_or_carry_more_is_not_plain(value: object) -> None:
    assert not is_plain(value)
