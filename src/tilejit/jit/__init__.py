"""`@pl.jit`: specialise a generic kernel on its arguments, compile, call."""
