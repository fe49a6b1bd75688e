"""From a generic kernel and the arguments of a call to a concrete program."""
