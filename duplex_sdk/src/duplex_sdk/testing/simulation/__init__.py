"""Random lives of sessions in virtual time, every law of theirs held after every step.

``draw`` makes a schedule of a seed, ``run`` lets it happen, ``shrink`` finds the shortest script
that still breaks the same law, ``soak`` does it for many seeds in several processes.
"""

from __future__ import annotations

from .interruption import Interruption
from .kinds import SCRIPTED_KINDS, Kind, kinds_of
from .schedule import Failure, Schedule, draw, run
from .shrink import shrink
from .soak import Soak, SoakResult, soak

__all__ = [
    "SCRIPTED_KINDS",
    "Failure",
    "Interruption",
    "Kind",
    "Schedule",
    "Soak",
    "SoakResult",
    "draw",
    "kinds_of",
    "run",
    "shrink",
    "soak",
]
