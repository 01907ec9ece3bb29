"""What the fork server imports before it forks workers: every stage's body, and with them Numba and Arrow.

Belongs here: imports. Nothing may run here that starts a thread (a query, a compiled kernel, a connection): a fork
would copy it in whatever state it is in.
"""

import importlib

from gristmill.funnel import FUNNEL

for _module in sorted({stage.body.partition(":")[0] for stage in FUNNEL}):
    importlib.import_module(_module)
