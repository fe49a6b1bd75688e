"""PTO: the interpreter of parsed files, and the writer of PTO text."""
