"""Dagster partitions: the one grid, and the keys of crawls and dataset versions. Wiring only."""
