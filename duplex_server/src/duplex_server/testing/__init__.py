"""What tests borrow from the server: a running engine, and both transports to it."""

from __future__ import annotations

from .harness import Harness, RunningServer, RunningTurnServer

__all__ = ["Harness", "RunningServer", "RunningTurnServer"]
