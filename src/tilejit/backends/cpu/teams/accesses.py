"""Short forms of loads and stores for LLVM text that is written by hand."""

from __future__ import annotations


def with_accesses(text: str, unit: str) -> str:
    """Writes out `%x = get TYPE %p OFFSET` and `put TYPE VALUE %p OFFSET`: a load and a store, the offset in units of a type."""
    out: list[str] = []
    for number, line in enumerate(text.splitlines()):
        words = line.split()
        if len(words) == 6 and words[2] == "get":
            name, _, _, type, pointer, offset = words
            out += [f"  %g{number} = getelementptr {unit}, ptr {pointer}, i64 {offset}", f"  {name} = load {type}, ptr %g{number}, align 8"]
        elif len(words) == 5 and words[0] == "put":
            _, type, value, pointer, offset = words
            out += [f"  %g{number} = getelementptr {unit}, ptr {pointer}, i64 {offset}", f"  store {type} {value}, ptr %g{number}, align 8"]
        else:
            out.append(line)
    return "\n".join(out)
