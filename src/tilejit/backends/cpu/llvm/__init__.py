"""LLVM text, and its way to machine code."""
