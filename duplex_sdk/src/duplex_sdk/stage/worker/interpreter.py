"""Running another Python environment's interpreter without mixing ours into it."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["environment_for"]

# They say where this interpreter finds its libraries; another one has its own.
_OF_THIS_INTERPRETER = ("PYTHONHOME", "PYTHONPATH", "PYTHONUSERBASE", "__PYVENV_LAUNCHER__")


def environment_for(python: Path | None) -> dict[str, str]:
    """A copy of the process's environment variables, fit to run an interpreter.

    Args:
        python: the interpreter; None: the one that runs this, which keeps them all.
    """
    environment = dict(os.environ)
    if python is not None:
        for name in _OF_THIS_INTERPRETER:
            environment.pop(name, None)
    return environment
