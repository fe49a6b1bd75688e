"""From the arguments of a call to compiled code that runs."""
