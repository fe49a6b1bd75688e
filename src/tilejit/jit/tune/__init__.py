"""Autotuning: candidates, the search among them, their trials, and what is kept of it."""
