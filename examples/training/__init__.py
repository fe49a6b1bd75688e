"""A small model of torch, trained through a kernel that has a backward of its own."""
