"""Writes `tilejit/language/__init__.pyi` from the op table, the markers and the enums; `--check` only compares."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from tilejit import ops
from tilejit.dtypes import DTYPES
from tilejit.ops.help import help_text
from tilejit.types.enums import ENUMS
from tilejit.types.scopes import MARKERS

pl = importlib.import_module("tilejit.language")  # as a module, not as what its stub says it is
pld = importlib.import_module("tilejit.language.distributed")
STUB = Path(str(pl.__file__)).with_suffix(".pyi")
DISTRIBUTED = Path(str(pld.__file__)).with_suffix(".pyi")

HEADER = """\
# Written by scripts/write_stubs.py from the op table; run `make stubs` instead of editing it.
# Inside a kernel values have no Python type that a checker could follow, so results are Any; names, signatures and docs are exact.

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Annotated, Any, Protocol, TypeAlias, TypeVar

from tilejit import dtypes as _dtypes
"""

VALUES = '''
_T = TypeVar("_T")

Out: TypeAlias = Annotated[_T, "Out"]
InOut: TypeAlias = Annotated[_T, "InOut"]
constexpr: TypeAlias = Annotated[_T, "constexpr"]

class _Shaped:
    shape: tuple[int, ...]
    dtype: _dtypes.DType
    def __class_getitem__(cls, item: Any) -> Any: ...
    def __getitem__(self, window: Any) -> Any: ...
    def __setitem__(self, window: Any, value: Any) -> None: ...
    def __add__(self, other: Any) -> Any: ...
    def __radd__(self, other: Any) -> Any: ...
    def __sub__(self, other: Any) -> Any: ...
    def __rsub__(self, other: Any) -> Any: ...
    def __mul__(self, other: Any) -> Any: ...
    def __rmul__(self, other: Any) -> Any: ...
    def __truediv__(self, other: Any) -> Any: ...
    def __rtruediv__(self, other: Any) -> Any: ...
    def __floordiv__(self, other: Any) -> Any: ...
    def __rfloordiv__(self, other: Any) -> Any: ...
    def __mod__(self, other: Any) -> Any: ...
    def __rmod__(self, other: Any) -> Any: ...
    def __pow__(self, other: Any) -> Any: ...
    def __matmul__(self, other: Any) -> Any: ...
    def __rmatmul__(self, other: Any) -> Any: ...
    def __and__(self, other: Any) -> Any: ...
    def __or__(self, other: Any) -> Any: ...
    def __xor__(self, other: Any) -> Any: ...
    def __lshift__(self, other: Any) -> Any: ...
    def __rshift__(self, other: Any) -> Any: ...
    def __invert__(self) -> Any: ...
    def __neg__(self) -> Any: ...
    def __pos__(self) -> Any: ...
    def __lt__(self, other: Any) -> Any: ...
    def __le__(self, other: Any) -> Any: ...
    def __gt__(self, other: Any) -> Any: ...
    def __ge__(self, other: Any) -> Any: ...
    @property
    def T(self) -> Any: ...
    @property
    def ndim(self) -> int: ...
METHODS
class Tensor(_Shaped):
    """A tensor in memory: `pl.Tensor[[64, M], pl.FP32]`, or bare when the call supplies shape and dtype."""
    def bind_dynamic(self, axis: int, symbol: Any) -> None: ...

class Tile(_Shaped):
    """An on-chip tile: `pl.Tile[[16, 16], pl.FP32]`."""

class Scalar(Any):
    """A number: `pl.Scalar[pl.FP32]`; it has the operators of Python's numbers."""
    def __class_getitem__(cls, item: Any) -> Any: ...

class _Blocks(AbstractContextManager[Any], Iterator[Any]): ...
'''

OWN = ("Tensor", "Tile", "Scalar", "Out", "InOut", "constexpr", "dynamic", "RUNTIME")
"""Names whose stub says more than a re-export would."""
DYNAMIC = '''
RUNTIME: Any
"""In `compile` and `lower`: a number that comes with the call."""

def dynamic(name: str) -> Any:
    """A symbol for an extent that is known only in the call."""
'''
NUMBER = "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow lt le gt ge"
INTEGER = "and rand or ror xor rxor lshift rlshift rshift rrshift"
"""What Python's numbers, and its integers, can do."""
RESULTS = {
    **dict.fromkeys(("range", "parallel", "unroll", "pipeline", "while_", "split_aiv"), "Iterator[Any]"),
    **dict.fromkeys(("at", "incore", "cluster", "manual_scope", "scope"), "AbstractContextManager[Any]"),
    **dict.fromkeys(("static_print", "static_assert", "func_attr", "print", "breakpoint", "device_assert", "cond"), "None"),
    "spmd": "_Blocks",
}
"""What a marker stands for; others are values."""


def stub() -> str:
    """The whole text."""
    values = VALUES.replace("METHODS\n", "".join(methods()))
    sections = (HEADER, *imports(), values, DYNAMIC, *dtypes(), *markers(), *namespaces(), *functions("pl"), *aliases())
    return "".join(sections)


def imports() -> Iterator[str]:
    places = pl._NAMES | dict.fromkeys(ENUMS, "tilejit.types.enums")
    by_module: dict[str, list[str]] = {}
    for name, module in places.items():
        if name not in OWN:
            by_module.setdefault(module, []).append(name)
    for module, names in sorted(by_module.items()):
        yield f"from {module} import " + ", ".join(f"{name} as {name}" for name in sorted(names)) + "\n"


def dtypes() -> Iterator[str]:
    """A dtype is a value (a DType) and, as in `n: pl.INT32 = 3`, a type: to a checker it is a class of Python's numbers whose own class is DType."""
    yield "\nclass _DType(type, _dtypes.DType):  # type: ignore\n    numpy: Any\n    is_float: Any\n    is_integer: Any\n    is_signed: Any\n"
    for kind, base, two, one in (("_Number", "", NUMBER, "neg abs"), ("_Integer", "_Number, ", INTEGER, "invert index")):
        yield f"\nclass {kind}({base}Protocol):\n"
        yield from (f"    def __{name}__(self, other: Any, /) -> Any: ...\n" for name in two.split())
        yield from (f"    def __{name}__(self) -> Any: ...\n" for name in one.split())
    yield "\n"
    for name, dtype in DTYPES.items():
        yield f"class {name}({'_Integer' if dtype.is_integer else '_Number'}, Protocol, metaclass=_DType): ...  # type: ignore\n"


def markers() -> Iterator[str]:
    for marker in MARKERS.values():
        yield declaration(marker.name, marker.signature, RESULTS.get(marker.name, "Any"), marker.doc)


def namespaces(prefix: str = "") -> Iterator[str]:
    if not prefix:
        yield "\nclass _shaped:" + "".join(function(name, "tensor", "    ") for name in shaped())
    for namespace in pld.NAMESPACES if prefix else pl.GROUPS:
        shares = not prefix and namespace in ("tensor", "tile")
        own = [name for name in ops.public_names(prefix + namespace) if not (shares and name in shaped())]
        yield f"\nclass _{namespace}{'(_shaped)' * shares}:"
        if namespace == "tile" and not prefix:
            yield "\n    from tilejit.types.enums import MaskPattern as MaskPattern\n"
        yield from (function(name, prefix + namespace, "    ") for name in own) if own else (" ...\n",)
        yield f"\n{namespace}: type[_{namespace}]\n"


def distributed() -> str:
    """The stub of `tilejit.language.distributed`."""
    head = HEADER.partition("from collections")[0] + "from typing import Any\n\nfrom tilejit.language import Tensor as _Tensor\n"
    enums = "from tilejit.types.annotations import CommCtx as CommCtx\nfrom tilejit.types.enums import " + ", ".join(
        f"{name} as {name}" for name, module in sorted(pld._NAMES.items()) if module == "tilejit.types.enums"
    )
    window = '\n\nclass DistributedTensor(_Tensor):\n    """A window: a tensor of which every rank of a group has a copy that the others can reach."""\n'
    return "".join((head, enums, window, *namespaces("pld."), *functions("pld")))


def functions(namespace: str) -> Iterator[str]:
    """The functions of a module; what is the same in `tensor` or `tile` is told there."""
    names = [name for name in ops.public_names(namespace) if namespace != "pl" or name not in MARKERS]
    owners = {name: owner for owner in ("tile", "tensor") for name in names if namespace == "pl" and same(name, "pl", owner)}
    yield "".join(("\n", *(f"{name} = _{owner}.{name}\n" for name, owner in sorted(owners.items())))) if owners else ""
    yield from (function(name, namespace) for name in names if name not in owners)


def same(name: str, first: str, second: str) -> bool:
    """Whether a name means the same row with the same parameters in two namespaces."""
    one, other = (ops.public(namespace, name) for namespace in (first, second))
    if one is None or other is None:
        return False
    (spelling, row), (others, others_row) = one.rows[0], other.rows[0]
    return row is others_row and parameters(spelling.signature) == parameters(others.signature)


@functools.cache
def shaped() -> list[str]:
    """What `pl.tensor` and `pl.tile` have in common."""
    return [name for name in ops.public_names("tensor") if same(name, "tensor", "tile")]


def function(name: str, namespace: str, indent: str = "") -> str:
    """An op; where the language itself has the same one, with its example."""
    found = ops.public("pl" if same(name, "pl", namespace) else namespace, name)
    assert found is not None
    spelling, row = found.rows[0]
    return declaration(name, spelling.signature, "Any", help_text(spelling, row), indent)


def methods() -> Iterator[str]:
    """Ops as methods: their first parameter is the value; a list may leave out its brackets."""
    for name in sorted({*ops.public_names("pl"), *ops.RENAMED}):
        found = ops.method(name)
        if found is None or name in ("abs", "round", "pow"):
            continue
        spelling, _ = found.rows[-1]
        rest = list(spelling.signature.parameters.values())[1:]
        listed = "*args: Any" if ops.takes_list(found) else ", ".join(_parameters(rest))
        yield f"    def {name}(self{', ' * bool(listed)}{listed}) -> Any: ...\n"
    yield "\n"


def aliases() -> Iterator[str]:
    yield "\n"
    for name, meaning in pl._ALIASES.items():
        yield f"{name}: Any\n" if "[" in meaning else f"{name} = {meaning}\n"


def declaration(name: str, signature: inspect.Signature, result: str, doc: str, indent: str = "") -> str:
    decorator = f"\n{indent}@staticmethod" if indent else ""
    quoted = doc.replace("\\", "\\\\")
    lines = quoted.splitlines()
    text = lines[0] if len(lines) == 1 else "\n".join([lines[0], *(f"{indent}    {line}".rstrip() for line in lines[1:]), f"{indent}    "])
    return f'{decorator}\n{indent}def {name}({parameters(signature)}) -> {result}:\n{indent}    """{text}"""\n'


def parameters(signature: inspect.Signature) -> str:
    return ", ".join(_parameters([*signature.parameters.values()]))


def _parameters(parameters: list[inspect.Parameter]) -> Iterator[str]:
    keyword_only = False
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            keyword_only = True
            yield f"*{parameter.name}: Any"
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            yield f"**{parameter.name}: Any"
        else:
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not keyword_only:
                keyword_only = True
                yield "*"
            yield f"{parameter.name}: Any" + ("" if parameter.default is inspect.Parameter.empty else " = ...")


if __name__ == "__main__":
    for path, text in ((STUB, stub()), (DISTRIBUTED, distributed())):
        if "--check" in sys.argv:
            current = path.read_text(encoding="utf-8") if path.exists() else ""
            if current != text:
                sys.exit(f"{path} does not match the op table: run `make stubs`")
        else:
            path.write_text(text, encoding="utf-8")
