"""Targets: what turns lowered tile IR into something that runs."""
