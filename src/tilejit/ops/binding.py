"""Binds a call of a public op name to one row of the table and its canonical parameters.

How a call is bound, in order:

1. Arguments meet the signature of the spelling (a `pl` dispatcher has one signature for all its rows).
2. Each signature parameter stands for a canonical parameter of the row: the one of the same name, else the one at the
   same position.
3. The level: `pl.tensor.x`, `pl.tile.x` and re-exports (`pl.x` = `pl.tile.x`) have that of their namespace; a dispatcher takes
   "tile" if a shaped operand is a tile, else "tensor". Without any shaped operand it is "scalar", for rows that have that level.
   Rows with `attrs["mixed"]` take tiles and tensors together; their first shaped operand decides.
4. The row: the first one that serves the level.
5. A dispatcher's arguments must be understood by the spelling of that level too: one that only the other level has may
   only be given its default value, one that the level requires must be there.
6. Each argument must be of the kind its parameter takes, and True or False where that is a flag; `scalar_only` parameters (`adds`) must be scalars. Scratch needs a tensor or tile
   beside it.
7. Parameters left out get the row's default, a plain Python value.

Arguments are opaque: `kind_of` classifies them and `value_of` reads compile-time ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from numbers import Number
from typing import Literal, NamedTuple

from tilejit.errors import ArgumentError, did_you_mean
from tilejit.ops.spec import OpFunction, OpSpec, Param, ParamKind, Spelling

Kind = Literal["tensor", "tile", "scalar", "number", "list", "array", "static", "none"]
"""What `kind_of` answers. "scalar": known at run time only; "number": a compile-time int, float or bool (serves as scalar and
as static); "list": a list or tuple of anything; "static": any other compile-time value (dtype, string, enum member); "none": None."""


class Bound(NamedTuple):
    """A bound call: the row, its level, and an argument (or plain default) for every canonical parameter."""

    row: OpSpec
    level: str
    args: dict[str, object]
    spelling: Spelling


_ACCEPTED: dict[ParamKind, tuple[Kind, ...]] = {
    ParamKind.Value: ("tensor", "tile"),
    ParamKind.Operand: ("tensor", "tile", "scalar", "number"),
    ParamKind.Scalar: ("scalar", "number"),
    ParamKind.Scalars: ("list",),
    ParamKind.Static: ("number", "list", "static", "none"),
    ParamKind.Scratch: ("tensor", "tile"),
    ParamKind.Array: ("array",),
}
_KIND_TEXT: dict[Kind, str] = {
    "tensor": "a tensor",
    "tile": "a tile",
    "scalar": "a run-time scalar",
    "number": "a number",
    "list": "a list",
    "array": "an on-core array",
    "static": "a compile-time value",
    "none": "None",
}


def _identity(arg: object) -> object:
    return arg


def bind(
    function: OpFunction,
    positional: Sequence[object],
    keywords: Mapping[str, object],
    kind_of: Callable[[object], Kind],
    value_of: Callable[[object], object] = _identity,
) -> Bound:
    """The row, level and canonical arguments of the call `function(*positional, **keywords)`; see the module's text."""
    function = _meant(function, positional, keywords, kind_of)
    first_spelling, first_row = function.rows[0]
    first_spelling = _formed(first_spelling, first_row, positional, keywords, kind_of)
    given = _meet_signature(function, first_spelling, positional, keywords)
    level = _level(function, first_spelling, first_row, given, kind_of)
    spelling, row = _row_for(function, level)
    spelling = _formed(spelling, row, positional, keywords, kind_of)
    names = canonical_names(spelling, row)
    if spelling.namespace == "pl" and spelling.same_as is None and "forms" not in row.attrs:
        _check_level(function, row, level, given, names, value_of)
    args: dict[str, object] = {}
    for written, arg in given.items():
        param, kind = row.param(names[written]), kind_of(arg)
        if kind == "none" and param.default is None:
            continue
        _check_kind(function, spelling, row, param, written, kind)
        if param.is_flag:
            _check_flag(function, written, kind, value_of(arg))
        args[param.name] = arg
    _check_scratch(function, level, row, args, kind_of)
    if not row.attrs.get("mixed"):
        _check_mixture(function, spelling, row, args, kind_of)
    for param in row.params:
        if param.name not in args and param.required:
            raise ArgumentError(f"{function!r} needs `{_written(names, param.name)}`", help=_shown(function, spelling))
        args.setdefault(param.name, param.default)
    return Bound(row, level, args, spelling)


def _meant(function: OpFunction, positional: Sequence[object], keywords: Mapping[str, object], kind_of: Callable[[object], Kind]) -> OpFunction:
    """The name with the rows it can mean: `pl.max` is the larger of two scalars, and the largest element of an array."""
    text = function.rows[0][0].signature_text
    if all(spelling.signature_text == text for spelling, _ in function.rows) or "forms" in function.rows[0][1].attrs:
        return function
    arrays = any(kind_of(arg) in ("tensor", "tile") for arg in (*positional, *keywords.values()))
    chosen = tuple((spelling, row) for spelling, row in function.rows if bool(spelling.scalar_only) != arrays)
    return replace(function, rows=chosen)


def formed(spelling: Spelling, row: OpSpec, form: int = 0) -> Spelling:
    """The spelling with one of the forms that stand behind a signature like `(input, *args, **kwargs)`."""
    forms = row.attrs.get("forms")
    return replace(spelling, signature_text=forms[form]) if isinstance(forms, tuple) else spelling


def _formed(
    spelling: Spelling, row: OpSpec, positional: Sequence[object], keywords: Mapping[str, object], kind_of: Callable[[object], Kind]
) -> Spelling:
    """The form that a call means: the first has `dim` in second place, or by name; the other an array."""
    if "forms" not in row.attrs:
        return spelling
    second = kind_of(positional[1]) in ("tensor", "tile") if len(positional) > 1 else "dim" not in keywords
    return formed(spelling, row, int(second))


@cache
def _canonical_names(spelling: Spelling, row_params: tuple[str, ...]) -> dict[str, str]:
    names: dict[str, str] = {}
    for position, written in enumerate(spelling.signature.parameters):
        names[written] = written if written in row_params else row_params[position]
    return names


def canonical_names(spelling: Spelling, row: OpSpec) -> dict[str, str]:
    """Canonical parameter for each parameter of the spelling's signature: the same name, else the same position."""
    return _canonical_names(spelling, row.param_names)


def _written(names: Mapping[str, str], canonical: str) -> str:
    return next((written for written, name in names.items() if name == canonical), canonical)


def _meet_signature(function: OpFunction, spelling: Spelling, positional: Sequence[object], keywords: Mapping[str, object]) -> dict[str, object]:
    signature, places = spelling.signature, spelling.places
    if len(positional) > len(places):
        keyword_only = len(signature.parameters) > len(places)
        raise ArgumentError(
            f"{function!r} takes {len(places)} {'positional ' if keyword_only else ''}argument{'s' * (len(places) != 1)}, got {len(positional)}",
            help=_shown(function, spelling),
        )
    given = dict(zip(places, positional, strict=False))
    for name, arg in keywords.items():
        if name not in signature.parameters:
            raise ArgumentError(f"{function!r} has no parameter `{name}`", help=did_you_mean(name, signature.parameters) or _shown(function, spelling))
        if name in given:
            raise ArgumentError(f"{function!r} got `{name}` twice", help=_shown(function, spelling))
        given[name] = arg
    for name in spelling.required:
        if name not in given:
            raise ArgumentError(f"{function!r} needs `{name}`", help=_shown(function, spelling))
    return given


def _shown(function: OpFunction, spelling: Spelling) -> str:
    text = f"the signature is {function!r}{spelling.signature_text}"
    return f"x.permute(1, 0, 2) takes a new order of all axes, and x.T turns it around; {text}" if function.rows[0][1].facts.swaps else text


def _level(function: OpFunction, spelling: Spelling, row: OpSpec, given: Mapping[str, object], kind_of: Callable[[object], Kind]) -> str:
    names = canonical_names(spelling, row)
    operands = {names[written]: kind_of(arg) for written, arg in given.items() if row.param(names[written]).kind in (ParamKind.Value, ParamKind.Operand)}
    shaped = [kind for kind in operands.values() if kind in ("tensor", "tile")]
    own = spelling.same_as or spelling.namespace
    scalar_form = set(operands) <= set(spelling.scalar_only) or not spelling.scalar_only
    if not shaped and scalar_form and any("scalar" in candidate.levels for _, candidate in function.rows):
        return "scalar"
    if own != "pl":
        return own
    if row.attrs.get("mixed") and shaped:
        return shaped[0]
    return "tile" if "tile" in shaped else "tensor"


def _row_for(function: OpFunction, level: str) -> tuple[Spelling, OpSpec]:
    for spelling, row in function.rows:
        if level in row.levels or not row.levels:
            return spelling, row
    served = sorted(set().union(*(row.levels for _, row in function.rows)))
    help = "load it into a tile with pl.load first" if level == "tensor" else "store it with pl.store and pass the tensor"
    raise ArgumentError(f"{function!r} works on {' and '.join(f'{name}s' for name in served)}, not on {level}s", help=help)


def _check_level(
    function: OpFunction, row: OpSpec, level: str, given: Mapping[str, object], names: Mapping[str, str], value_of: Callable[[object], object]
) -> None:
    own = next((s for s in row.spellings if s.namespace == level and s.name == function.name), None)
    if own is None:
        return
    understood = canonical_names(own, row)
    for written, arg in given.items():
        name = names[written]
        if name in understood.values():
            continue
        default = row.param(name).default
        if row.param(name).kind is ParamKind.Static and value_of(arg) == default and type(value_of(arg)) is type(default):
            continue
        if value_of(arg) is None and default is None:
            continue
        raise ArgumentError(f"{function!r} on {level}s has no `{written}`", help=f"leave it out: pl.{level}.{own.name}{own.signature_text}")
    for required in own.required:
        name = understood[required]
        if all(names[written] != name or value_of(arg) is None for written, arg in given.items()):
            raise ArgumentError(
                f"{function!r} on {level}s needs `{_written(names, name)}`", help=f"the {level} form is pl.{level}.{own.name}{own.signature_text}"
            )


def _check_kind(function: OpFunction, spelling: Spelling, row: OpSpec, param: Param, written: str, kind: Kind) -> None:
    takes = ParamKind.Scalar if param.name in spelling.scalar_only else param.kind
    accepted, expected = _ACCEPTED[takes], takes.value
    if kind in accepted or (param.kind is ParamKind.Scalars and row.attrs.get("flat_index") and kind in ("scalar", "number")):
        return
    if kind == "list" and row.attrs.get("list_for") == param.name:
        return
    help = _shown(function, spelling)
    if param.name in spelling.scalar_only and kind in ("tensor", "tile"):
        if function.name.endswith("s"):
            help = "for two shaped operands use the form without the trailing s"
        elif set(row.param_names) == set(spelling.scalar_only):
            help = "it works on two scalars"
    elif param.kind is ParamKind.Static and kind == "scalar":
        help = "it must be known while compiling"
    elif param.kind in (ParamKind.Value, ParamKind.Operand) and kind == "list":
        help = "an array that a kernel computes with is one of its arguments; pl.full and pl.arange make others"
    elif param.kind is ParamKind.Scalars:
        help = f"write `{written}=[…]`, one entry per dimension"
    raise ArgumentError(f"{function!r} takes {expected} as `{written}`, got {_KIND_TEXT[kind]}", help=help)


def _check_flag(function: OpFunction, written: str, kind: Kind, value: object) -> None:
    if kind == "number" and (isinstance(value, bool) or not isinstance(value, Number)):  # NumPy's, or one that is known later
        return
    got = repr(value) if kind in ("number", "none") or isinstance(value, str) else _KIND_TEXT[kind]
    raise ArgumentError(f"{function!r} takes True or False as `{written}`, got {got}", help=f"write {written}=True or {written}=False")


def _check_scratch(function: OpFunction, level: str, row: OpSpec, args: Mapping[str, object], kind_of: Callable[[object], Kind]) -> None:
    """Scratch serves tensors and tiles: with scalars only there is nothing that it could be for."""
    kinds = {name: kind_of(arg) for name, arg in args.items()}
    given = next((name for name in kinds if row.param(name).kind is ParamKind.Scratch), None)
    if given is None or any(kind in ("tensor", "tile") for name, kind in kinds.items() if row.param(name).kind is not ParamKind.Scratch):
        return
    if level == "scalar":
        raise ArgumentError(f"{function!r} on scalars has no `{given}`", help="leave it out")
    raise ArgumentError(f"{function!r} works on {level}s, got scalars", help="scalars take Python's operators, such as a % b")


def _check_mixture(function: OpFunction, spelling: Spelling, row: OpSpec, args: Mapping[str, object], kind_of: Callable[[object], Kind]) -> None:
    kinds = {name: kind_of(arg) for name, arg in args.items() if row.param(name).kind in (ParamKind.Value, ParamKind.Operand)}
    shaped = {kind for kind in kinds.values() if kind in ("tensor", "tile")}
    if len(shaped) == 2:
        tile = next(name for name, kind in kinds.items() if kind == "tile")
        tensor = next(name for name, kind in kinds.items() if kind == "tensor")
        raise ArgumentError(
            f"{function!r} takes either tensors or tiles: `{tile}` is a tile, `{tensor}` is a tensor", help="bring the tensor into a tile with pl.load first"
        )
    own = spelling.same_as or spelling.namespace
    if own in ("tensor", "tile") and shaped and own not in shaped:
        other = "tile" if own == "tensor" else "tensor"
        if any(s.namespace == other and s.name == function.name for s in row.spellings):
            help = f"use pl.{other}.{function.name}"
        else:
            help = "load it into a tile with pl.load first" if own == "tile" else "store it with pl.store and pass the tensor"
        raise ArgumentError(f"{function!r} works on {own}s, got a {other}", help=help)
