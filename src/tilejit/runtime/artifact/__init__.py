"""Compiled programs as data and as things to call."""
