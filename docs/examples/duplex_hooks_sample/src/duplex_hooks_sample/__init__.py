"""Two hooks of ``duplex serve``: who comes in, and what is kept of the sessions.

Each is at work when its environment variable is set. Imported by every ``duplex`` command, so this
module stays light.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from duplex_sdk.discovery import hookimpl

if TYPE_CHECKING:
    from .recorder import SessionRecorder
    from .users import UsersFile

__all__ = ["duplex_authenticator", "duplex_observers"]


@hookimpl
def duplex_authenticator() -> UsersFile | None:
    """Admit the users of the file that ``DUPLEX_SAMPLE_USERS`` names."""
    path = os.environ.get("DUPLEX_SAMPLE_USERS")
    if path is None:
        return None
    from .users import UsersFile

    return UsersFile(Path(path))


@hookimpl
def duplex_observers() -> list[SessionRecorder]:
    """Record sessions in the folder that ``DUPLEX_SAMPLE_RECORDINGS`` names."""
    path = os.environ.get("DUPLEX_SAMPLE_RECORDINGS")
    if path is None:
        return []
    from .recorder import SessionRecorder

    return [SessionRecorder(Path(path))]
