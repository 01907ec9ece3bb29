"""What becomes of a process when the one that started it goes.

Belongs here: asking the kernel for a signal then, light enough for commands. Does not belong here: pools
(``workers.py``).
"""

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1
STARTER_VARIABLE = "GRISTMILL_STARTED_BY"  # process id of the command that started launch.py
_LIBC = ctypes.CDLL(None, use_errno=True)


def signal_at_death(number: int) -> None:
    """Have this process sent signal ``number`` when its parent (the thread that started it) ends, however it ends."""
    _LIBC.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)


def end_with_starter() -> None:
    """Be terminated when the command that started this process ends; nothing where a person started it directly."""
    starter = os.environ.pop(STARTER_VARIABLE, None)
    if starter is not None:
        signal_at_death(signal.SIGTERM)
        if os.getppid() != int(starter):  # it went before we asked
            os.kill(os.getpid(), signal.SIGTERM)
