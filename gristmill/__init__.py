"""Gristmill: web crawls and other text in, training-ready tokens out.

This package is a plain library: pure functions on Arrow data, a store, and a loader. It never imports Dagster;
the wiring lives in the repository's ``assets/``, ``checks/``, ``partitions/``, ``resources/`` and ``sensors/``.
"""

__version__ = "0.1.0"
