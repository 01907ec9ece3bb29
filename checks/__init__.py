"""Dagster asset checks: the yield dashboard. Wiring and judgement of yields; what was counted is the library's."""
