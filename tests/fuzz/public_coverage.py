"""Which forms of public programs the random programs have: one row per form, seen in the text of a program."""

from __future__ import annotations

import ast
import re

FORMS: dict[str, str] = {
    "1 inline helper with scopes of its own": r"@pl\.jit\.inline\(auto_scope=False\)",
    "2 window written by a valid region": r"\w+\[\d+:\d+, \d+:\d+\] = pl\.(tile\.|tensor\.)?set_validshape\(",
    "2 output written by a valid region": r"out\d+\[.*\] = pl\.slice\(.*valid_shape=",
    "4 valid region of a view": r"set_validshape\(\w+\[",
    "5 slot that the run knows": r"pl\.MemRef\(\"\w+\", slots=\d\)\[\w+ % \d\]",
    "6 name bound late in a counted loop": r"^( *)for \w+ in pl\.range\(\d.*:\n(?:\1 .*\n)*?\1    (z\d+) = \w+$",
    "6 name bound late in a loop of the run": r"^( *)for \w+ in pl\.range\(\w+ \+ 1\):\n(?:\1 .*\n)*?\1    (z\d+) = \w+$",
    "6 name bound late in a while": r"^( *)while \w+ < 3:\n(?:\1 .*\n)*?\1    (z\d+) = \w+$",
    "7 annotated yield of a tile": r": pl\.Tile\[.*\] = pl\.yield_\(",
    "7 annotated yield of a number": r": pl\.(Scalar\[pl\.INDEX\]|INDEX) = pl\.yield_\(",
    "7 annotated yield in a loop": r"r\d+: pl\.Tile\[.*\] = pl\.yield_\(",
    "8 vector that is valid in part": r"_expand\w*\(.*, pl\.(load|slice)\(.*valid_shape=\[(1, \d+|\d+, 1)\]\)\)",
    "9 slots of a split": r"pl\.split\(pl\.SplitMode\.NONE, slot_num=2\)",
    "9 split and slots of a region": r"split=pl\.SplitMode\.\w+, slot_num=4",
    "9 one optimization": r"optimization=pl\.split",
    "9 chunks of a loop": r"pl\.range\(3, chunk=2\)",
    "10 rows at a place from data": r"(p\d+) = pl\.read\((.|\n)*\w+\[\1:\1 \+ \d+, 0:\d+\]",
    "11 part of a tile stored": r"pl\.store\(.*, shapes=\[",
    "12 product of tiles names its dtype": r"pl\.matmul\(t\d+, .*, out_dtype=pl\.FP32\)",
    "12 spread copy writes its target": r"^ *pl\.expand_clone\(",
    "12 spread copy under the name of its target": r"(tmp\d+) = pl\.expand_clone\(\w+, \1\)",
    "12 barrier of vector cores": r"syncall\(core_type='aiv_only'\)",
    "12 barrier of cube cores": r"syncall\(core_type='aic_only'\)",
    "12 soft barrier of one kind": r"syncall\(core_type='ai._only', mode='soft'",
    "12 soft barrier of both kinds": r"syncall\(mode='soft'",
    "12 range of UINT32": r"\.(ci|arange)\(.*dtype=pl\.UINT32",
    "12 range of UINT16": r"\.(ci|arange)\(.*dtype=pl\.UINT16",
    "12 extent as INT64": r": pl\.Scalar\[pl\.INT64\] = pl\.tensor\.dim\(",
    "12 extent that an annotation computes": r"pl\.Tensor\[\[M \* 2, ",
    "12 vector without the leading dims": r"(row|col)_expand_\w+\((x\d+|pl\.load\(x\d+, \[0, 0, 0, 0\].*), (x\d+|pl\.load\()",
    "12 prefetch of a matrix": r"async_prefetch\(x\d+, ",
    "12 task id in an array": r"pl\.array\.update_element\(ids\d+, 1, tid\d+\)",
    "12 slice that overhangs": r"(w\d+) = pl\.slice\((.|\n)*(\1\[0:|pl\.load\(\1, )",
    "13 reshape of a slice with gaps": r"pl\.reshape\(x\d+\[:, \d+:\d+\], ",
    "14 scales in packed layouts": r"TensorLayout\.MX_A_ZZ(.|\n)*TensorLayout\.MX_B_NN",
    "14 product added to a part": r"pl\.matmul_acc\(acc\d+\[|(part\d+) = acc\d+\[|pl\.slice\(acc\d+",
}
"""By the number of the gap that each form once was; 3 is seen in the tree, 15 and 16 are no text of a kernel: tests/runtime/test_config.py, tests/compat."""

_PATTERNS = {name: re.compile(pattern, re.MULTILINE) for name, pattern in FORMS.items()}
HANDED_THROUGH = "3 output that is only handed through"
ALL = (*FORMS, HANDED_THROUGH)


def forms_of(text: str, nodes: list[ast.AST]) -> set[str]:
    """The forms that a program has."""
    found = {name for name, pattern in _PATTERNS.items() if pattern.search(text)}
    return found | {HANDED_THROUGH} if any(_hands_through(node) for node in nodes) else found


def _hands_through(node: ast.AST) -> bool:
    """Whether a kernel returns an output that nothing in it touches."""
    if not isinstance(node, ast.FunctionDef) or "ncore" not in " ".join(map(ast.unparse, node.decorator_list)).replace("InCore", "incore"):
        return False
    outputs = {arg.arg for arg in node.args.args if arg.annotation is not None and "pl.Out[" in ast.unparse(arg.annotation)}
    touched = {name.id for statement in node.body if not isinstance(statement, ast.Return) for name in ast.walk(statement) if isinstance(name, ast.Name)}
    returned = {name.id for statement in node.body if isinstance(statement, ast.Return) for name in ast.walk(statement) if isinstance(name, ast.Name)}
    return bool((outputs & returned) - touched)
