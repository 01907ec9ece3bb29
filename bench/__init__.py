"""Benchmarks, one module a subject, each run beside the tools it compares with: ``python -m bench.NAME``."""
