"""Enumerations of the language. Those marked hardware-only are accepted and kept, without numerical meaning off Ascend."""

from __future__ import annotations

import enum


class MemorySpace(enum.Enum):
    """Where a tile lives; a placement hint everywhere but in PTO output."""

    DDR = "DDR"
    Vec = "Vec"
    Mat = "Mat"
    Left = "Left"
    Right = "Right"
    Acc = "Acc"
    Bias = "Bias"
    LeftScale = "LeftScale"
    RightScale = "RightScale"


class PadValue(enum.Enum):
    """What `fillpad` writes outside the valid region."""

    null = 0
    zero = 1
    max = 2
    min = 3


class AtomicType(enum.Enum):
    """How a store combines with what is there."""

    None_ = 0
    Add = 1


class FunctionType(enum.Enum):
    """The role of a function in a program."""

    Opaque = "opaque"
    Orchestration = "orchestration"
    InCore = "incore"
    AIC = "aic"
    AIV = "aiv"
    Group = "group"
    Spmd = "spmd"
    Inline = "inline"
    Graph = "graph"


class Level(enum.Enum):
    """Levels of the machine hierarchy, innermost first."""

    AIV = 0
    AIC = 1
    CORE_GROUP = 2
    CHIP_DIE = 3
    CHIP = 4
    HOST = 5
    CLUSTER_0 = 6
    CLUSTER_1 = 7
    CLUSTER_2 = 8
    GLOBAL = 9


class Role(enum.Enum):
    """Who runs a function at its level."""

    Orchestrator = 0
    SubWorker = 1


class SplitMode(enum.Enum):
    """How work is divided between two vector lanes."""

    NONE = 0
    UP_DOWN = 1
    LEFT_RIGHT = 2


class ForKind(enum.Enum):
    """How a counted loop may run."""

    Sequential = "range"
    Parallel = "parallel"
    Unroll = "unroll"
    Pipeline = "pipeline"


class PipeType(enum.Enum):
    """Hardware pipes named by sync ops (hardware-only)."""

    MTE1 = "MTE1"
    MTE2 = "MTE2"
    MTE3 = "MTE3"
    M = "M"
    V = "V"
    S = "S"
    FIX = "FIX"
    ALL = "ALL"


class TileLayout(enum.Enum):
    """Block layouts of a tile (hardware-only)."""

    none_box = "none_box"
    row_major = "row_major"
    col_major = "col_major"


class CompactMode(enum.Enum):
    """Compaction of a tile buffer (hardware-only)."""

    null = 0
    normal = 1
    row_plus_one = 2


class TensorLayout(enum.Enum):
    """Layouts of a tensor in global memory."""

    ND = "ND"
    DN = "DN"
    NZ = "NZ"
    MX_A_ZZ = "MX_A_ZZ"
    MX_B_NN = "MX_B_NN"


class ScopeMode(enum.Enum):
    """Who tracks dependencies between tasks of a scope."""

    AUTO = 0
    MANUAL = 1


class MaskPattern(enum.IntEnum):
    """Column patterns of the mask forms, read right to left."""

    P0101 = 1
    P1010 = 2
    P0001 = 3
    P0010 = 4
    P0100 = 5
    P1000 = 6
    P1111 = 7


class NotifyOp(enum.Enum):
    """What a notify does to the cell of a signal."""

    AtomicAdd = 0
    Set = 1


class WaitCmp(enum.Enum):
    """When a wait is over."""

    Eq = 0
    Ge = 1


class ReduceOp(enum.Enum):
    """How a collective combines the contributions of the ranks."""

    Sum = 0
    Max = 1
    Min = 2
    Prod = 3


ENUMS: dict[str, type[enum.Enum]] = {
    cls.__name__: cls
    for cls in (
        MemorySpace, PadValue, AtomicType, FunctionType, Level, Role, SplitMode, ForKind,
        PipeType, TileLayout, CompactMode, TensorLayout, ScopeMode, MaskPattern,
        NotifyOp, WaitCmp, ReduceOp,
    )
}  # fmt: skip
"""All enums by name, for text that has to find them again."""
