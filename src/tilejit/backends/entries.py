"""The entries of a compiled program: how they are called and what they cost, read off the IR for every target alike."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module

from tilejit.errors import TilejitError, UnsupportedFeatureError
from tilejit.passes import cost, pipeline
from tilejit.passes.in_place import in_place_pairs
from tilejit.runtime.artifact.sections import EntryInfo
from tilejit.runtime.call.signature import ParamInfo, Signature
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.program import Program
from tilejit.types.values import BufferType, ScalarType


def entry_infos(
    prepared: Program, fused: Program, symbols: Mapping[str, str] | None = None, needs_arena: bool = True, threaded: bool = False
) -> dict[str, EntryInfo]:
    """The entries of a program; `fused` is the same with its loops fused, where it can be seen what may happen in place."""
    found: dict[str, EntryInfo] = {}
    for name, function in prepared.entries.items():
        spent = cost.cost_of(prepared, name)
        signature = replace(signature_of(function), in_place=in_place_pairs(fused, name))
        found[name] = EntryInfo(signature, (symbols or {}).get(name, name), needs_arena, spent.brief, spent.terms, threaded)
    return found


def fused(program: Program) -> Program:
    """The program with its loops fused, so that every target allows the same calls; itself, which promises nothing, where that fails."""
    try:
        return pipeline.run_pipeline(program, pipeline.FUSED)
    except TilejitError:
        return program


def signature_of(function: d.FuncOp) -> Signature:
    """How an entry is called: tensors as declared, then scalars as declared; hidden outputs are returned."""
    attrs = function.attrs
    everything = declared_params(function)
    split = len(everything) - attrs.get("hidden", 0)
    declared, hidden = everything[:split], everything[split:]
    calling = sorted(range(split), key=lambda i: (not declared[i].is_tensor, i))
    order = tuple(calling.index(i) for i in range(split))
    returned = tuple(everything[index].name for _, index in attrs.get("returns") or ()) if hidden else ()
    return Signature(
        function.symbol,
        tuple(declared[i] for i in calling),
        tuple(hidden),
        None if order == tuple(range(split)) else order,
        returned=returned,
        computed=dict(attrs.get("extents", ())),
        numbers=attrs.get("numbers", ()),
    )


def declared_params(function: d.FuncOp) -> list[ParamInfo]:
    """The parameters in the order of the code."""
    out: list[ParamInfo] = []
    for name, direction, argument in zip(function.names, function.directions, function.body.block.args, strict=True):
        match d.type_of(argument):
            case ScalarType() as type:
                out.append(ParamInfo(name, "In", type.dtype))
            case BufferType() as type:
                out.append(ParamInfo(name, direction, type.dtype, type.shape))
            case type:
                what = f"`{function.symbol}` is called from outside, and its parameter `{name}` is a {type}: only tensors and scalars come from there"
                raise UnsupportedFeatureError(what, span=function.span, help="take a pl.Tensor, and load the tile from it")
    return out


def versions(**libraries: str) -> dict[str, str]:
    """What an artifact says it was made with."""
    return {"tilejit": str(import_module("tilejit").__version__), "python": ".".join(map(str, sys.version_info[:3])), **libraries}
