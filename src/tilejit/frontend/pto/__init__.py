"""PTO → tile IR: what makes machine code of `.pto` kernels. Each file raises one kind of op; raiser.py puts them together."""
