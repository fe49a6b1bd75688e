"""What a row of the op table is: parameters, spellings, type rule, meaning and facts. How a target runs it stands in that target's table.

How a call is bound to a row is in ops/binding.py; how a row runs on arrays in ops/evaluate.py.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec

from tilejit.dtypes import DType
from tilejit.errors import InvalidOperationError
from tilejit.frozen import of_the_language
from tilejit.lazy import lazy
from tilejit.ops.facts import PLAIN, Facts
from tilejit.types.scopes import parse_signature
from tilejit.types.values import Dim, ShapedType, ValueType

if TYPE_CHECKING:
    from tilejit.ops.terms import Term


class ParamKind(enum.Enum):
    """What an op's parameter takes; the annotation in the stub names it."""

    Value = "a tensor or tile"
    Operand = "a tensor, tile or scalar"
    Scalar = "a scalar"
    Scalars = "a list of scalars"
    Static = "a compile-time value"
    Scratch = "a scratch tile, without influence on the result"
    Array = "an on-core array"


# What stubs write as annotations: the text names the ParamKind, the type checker sees nothing but an object.
Value = Operand = Scalar = Scalars = Static = Scratch = Array = object


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of an op in canonical order."""

    name: str
    kind: ParamKind
    default: object = inspect.Parameter.empty

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def is_flag(self) -> bool:
        """Whether it takes True and False only."""
        return isinstance(self.default, bool)


@dataclass(frozen=True, slots=True)
class ScalarArg:
    """What a type rule sees of a scalar operand. An int literal is an INDEX constant and takes its partner's dtype."""

    dtype: DType
    const: int | float | bool | None = None
    symbol: Dim | None = None
    """The extent that it was read from, where it is one."""


Arg = ShapedType | ScalarArg | tuple[ScalarArg, ...] | object
"""What a type rule sees of an argument; static arguments are the Python value itself."""


@dataclass(frozen=True, slots=True)
class ExtentCheck:
    """Two extents that must agree at run time: (parameter, axis) on both sides."""

    left: tuple[str, int]
    right: tuple[str, int]


@dataclass(slots=True)
class Call:
    """One use of an op, as its type rule sees it."""

    row: OpSpec
    level: str
    """"tensor", "tile" or "scalar": which spelling applies."""
    args: Mapping[str, Arg]
    checks: list[ExtentCheck] = field(default_factory=list)
    """Filled by the rule; the front end turns them into run-time checks."""

    def arg(self, name: str) -> Arg:
        """An argument, or the parameter's default where it was left out."""
        return self.args[name] if name in self.args else self.row.param(name).default

    def shaped(self, name: str) -> ShapedType:
        """The type of an argument that binding already proved to be a tensor or tile."""
        arg = self.args[name]
        assert isinstance(arg, ShapedType), (self.row.name, name, arg)
        return arg


InferRule = Callable[[Call], tuple[ValueType, ...]]


@dataclass(frozen=True)
class Spelling:
    """One public name of an op: namespace ("pl", "tensor", "tile", "system", "array"), name, signature."""

    namespace: str
    name: str
    signature_text: str
    scalar_only: tuple[str, ...] = ()
    """Canonical parameters that must be scalars in this spelling (`adds`)."""
    same_as: str | None = None
    """For `pl` names: "tensor" or "tile" when it is a re-export; None when it dispatches on the operands."""

    @lazy
    def signature(self) -> inspect.Signature:
        return parse_signature(self.signature_text)

    @lazy
    def places(self) -> tuple[str, ...]:
        """Parameters that can be given by position."""
        return tuple(p.name for p in self.signature.parameters.values() if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD)

    @lazy
    def required(self) -> tuple[str, ...]:
        """Parameters without a default."""
        return tuple(p.name for p in self.signature.parameters.values() if p.default is inspect.Parameter.empty)


@dataclass(frozen=True)
class OpSpec:
    """A row of the table."""

    name: str
    family: str
    """"elementwise", "reduction", "expand", "matmul", "movement", …: who infers, evaluates and emits it."""
    params: tuple[Param, ...]
    spellings: tuple[Spelling, ...]
    infer: InferRule
    reference: Callable[..., object]
    """The meaning in NumPy; its calling convention belongs to the family (ops/evaluate.py)."""
    dtypes: frozenset[DType]
    """Element types the op takes."""
    doc: str
    levels: frozenset[str]
    """Levels the row serves: "tensor", "tile", "scalar"."""
    facts: Facts = PLAIN
    derived: Callable[..., object] | None = None
    """The op as a term over other rows (ops/terms.py), which takes its place in every program."""
    compose: Callable[..., object] | None = None
    """The op as calls of other ops (ops/compose.py), which take its place in every program."""
    attrs: Mapping[str, Any] = field(default_factory=dict[str, object])
    """What only the family reads (for a reduction: axis and combiner)."""

    @property
    def title(self) -> str:
        """The name in messages: one that a user can write."""
        return self.name if any(s.name == self.name for s in self.spellings) or not self.spellings else self.spellings[0].name

    @lazy
    def param_names(self) -> tuple[str, ...]:
        return tuple(param.name for param in self.params)

    @lazy
    def _by_name(self) -> dict[str, Param]:
        return {param.name: param for param in self.params}

    def param(self, name: str) -> Param:
        return self._by_name[name]

    @lazy
    def operands(self) -> tuple[str, ...]:
        """Parameters that take part in the result, in order."""
        return tuple(param.name for param in self.params if param.kind in (ParamKind.Value, ParamKind.Operand, ParamKind.Scalar))

    def takes_flags(self, compared: ShapedType) -> bool:
        """Whether it takes a comparison as BOOL elements: the packed bits of tiles wherever it folds, 0 and 1 of tensors where their sum might not fit."""
        if compared.level == "tile":
            return self.family == "reduction" or self.compose is not None
        return self.facts.counts and compared.dtype.is_integer and compared.dtype.bits < 32

    def __call__(self, *operands: Term | int | float) -> Term:
        """The row applied to terms: how derived rows are written."""
        from tilejit.ops.terms import Step

        return Step(self, operands)

    def __repr__(self) -> str:
        return f"OpSpec({self.name!r})"


@of_the_language
@dataclass(frozen=True, slots=True)
class OpFunction:
    """A public name of the language (`pl.add`): the rows it may mean. Calling it outside a kernel is an error."""

    namespace: str
    name: str
    rows: tuple[tuple[Spelling, OpSpec], ...]
    """Rows in the order they were declared; for `pl` dispatchers each row says which levels it serves."""

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise InvalidOperationError(f"{self!r} has no meaning outside a kernel", help="use it in a function decorated with @pl.jit or @pl.function")

    def __repr__(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace.startswith("pl") else f"pl.{self.namespace}.{self.name}"

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        from tilejit.ops.help import help_text

        return "\n\n".join(f"{self!r}{spelling.signature_text}\n\n{help_text(spelling, row)}" for spelling, row in self.rows)

    @property
    def __signature__(self) -> inspect.Signature:
        return self.rows[0][0].signature


TABLE: dict[str, OpSpec] = {}
"""Every op by its canonical name. `ops.table()` makes sure that all rows are loaded."""


Stub = Callable[..., object]
"""Gives a row its name, its parameters and its docs."""
_Facts = ParamSpec("_Facts")


def declare(
    stub: Stub,
    *,
    family: str,
    infer: InferRule,
    reference: Callable[..., object],
    dtypes: Sequence[DType] | frozenset[DType],
    spellings: Sequence[Spelling],
    name: str | None = None,
    levels: Iterable[str] | None = None,
    attrs: Mapping[str, Any] | None = None,
    facts: Facts = PLAIN,
    derived: Callable[..., object] | None = None,
    compose: Callable[..., object] | None = None,
) -> OpSpec:
    """Add the row that `stub` (name, parameters, docstring) and the keyword facts describe.

    A parameter's annotation names its ParamKind; the first one of a composed row is its kit. Levels default to the namespaces in which the row is spelled.
    """
    parameters = list(inspect.signature(stub).parameters.values())[compose is not None :]
    params = tuple(Param(parameter.name, ParamKind[parameter.annotation], parameter.default) for parameter in parameters)
    row = OpSpec(
        name=name or stub.__name__,
        family=family,
        params=params,
        spellings=tuple(spellings),
        infer=infer,
        reference=reference,
        dtypes=frozenset(dtypes),
        doc=inspect.cleandoc(stub.__doc__ or ""),
        levels=frozenset(levels) if levels is not None else frozenset(s.namespace for s in spellings if s.namespace in ("tensor", "tile") or s.namespace.startswith("pld")),
        facts=facts,
        derived=derived,
        compose=compose,
        attrs=attrs or {},
    )
    assert row.name not in TABLE, f"op {row.name} is declared twice"
    assert row.doc, f"op {row.name} has no docstring"
    TABLE[row.name] = row
    return row


def declarator(declared: Callable[Concatenate[Stub, _Facts], OpSpec]) -> Callable[_Facts, Callable[[Stub], OpSpec]]:
    """What declares the rows of a family from stubs and further facts, as a decorator that takes those facts."""
    return lambda *args, **facts: lambda stub: declared(stub, *args, **facts)


def spell(
    name: str,
    signature: str | None = None,
    *,
    pl: str | None = None,
    tensor: str | None = None,
    tile: str | None = None,
    system: str | None = None,
    array: str | None = None,
    scalar_only: tuple[str, ...] = (),
) -> tuple[Spelling, ...]:
    """Spellings of one public name, with one `signature` in `pl`, `pl.tensor` and `pl.tile`, or with one for each.

    `pl` is a signature (dispatch) or "=tensor"/"=tile"/"=system" (re-export).
    """
    if signature is not None:
        pl = tensor = tile = signature
    own = {"tensor": tensor, "tile": tile, "system": system, "array": array}
    out = [Spelling(space, name, text, scalar_only) for space, text in own.items() if text is not None]
    if pl is not None and pl.startswith("="):
        source = own[pl[1:]]
        assert source is not None, f"pl.{name} re-exports a spelling that is not there"
        out.append(Spelling("pl", name, source, scalar_only, same_as=pl[1:]))
    elif pl is not None:
        out.append(Spelling("pl", name, pl, scalar_only))
    return tuple(out)
