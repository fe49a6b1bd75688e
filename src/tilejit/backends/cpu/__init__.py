"""The CPU target: LLVM text with explicit vectors."""
