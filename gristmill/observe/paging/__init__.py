"""Paging: what failed reaches people, once, wherever they read.

A problem (``problem.py``) is noted in the store's ledger (``ledger.py``), grouped by run into a page, shaped for each
target (``shapes.py``) and delivered (``deliver.py``), as the site's configuration says (``config.py``). Does not belong
here: finding problems in Dagster's event log (``sensors/pages.py``) and judging yields (``checks/``).
"""
