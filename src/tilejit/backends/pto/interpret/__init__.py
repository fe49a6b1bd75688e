"""Runs parsed PTO files."""
