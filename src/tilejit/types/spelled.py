"""Annotations as their authors write them, for `help` and messages."""

from __future__ import annotations

from collections.abc import Iterable

from tilejit.types import annotations as a


def text(annotation: object) -> str:
    """`pl.Out[pl.Tensor[[M, 8], pl.FP32]]`."""
    match annotation:
        case a.TensorAnnotation(like=str()):
            return f"pl.like({annotation.like!r})"
        case a.TensorAnnotation():
            name = "pld.DistributedTensor" if isinstance(annotation, a.WindowAnnotation) else "pl.Tensor"
            return name if annotation.shape is None else f"{name}[{_dims(annotation.shape)}, {annotation.dtype!r}]"
        case a.TileAnnotation():
            return f"pl.Tile[{_dims(annotation.shape)}, {annotation.dtype!r}]"
        case a.ScalarAnnotation():
            return f"pl.Scalar[{annotation.dtype!r}]"
        case a.DirectedAnnotation():
            return f"pl.{annotation.direction}[{annotation.inner!r}]"
        case _:
            return object.__repr__(annotation)


def _dims(shape: Iterable[object]) -> str:
    return f"[{', '.join(dim.name if type(dim) is a.DynVar else repr(dim) for dim in shape)}]"
