"""Dagster assets, one a stage of the funnel. Wiring only: bodies are in the library's ``stages.py`` modules."""
