"""The benchmark suites: each module has `cases()`, which yields pairs to time."""
