"""The native dispatcher, as LLVM text."""
