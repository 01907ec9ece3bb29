"""Dagster resources: places and connections. A resource never knows another."""
