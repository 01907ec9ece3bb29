"""Dagster sensors: what starts runs by itself. Wiring only."""
