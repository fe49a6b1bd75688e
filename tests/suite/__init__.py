"""Kernels as users write them, one file per topic; test_suite.py runs them all."""
