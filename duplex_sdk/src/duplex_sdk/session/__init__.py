"""All that a session decides or counts, pure: no I/O, no threads, no clock, no randomness.

``DuplexEngineSession`` decides about one conversation, ``SessionTable`` about which exist,
``OutputQueue`` and ``ReplayJournal`` count what is on its way to a client. Shells elsewhere carry
out what they ask for.
"""

from __future__ import annotations

from .engine_session import DuplexEngineSession
from .ids import IdSource
from .output_queue import OutputQueue
from .replay_journal import ReplayJournal
from .session_table import SessionTable

__all__ = ["DuplexEngineSession", "IdSource", "OutputQueue", "ReplayJournal", "SessionTable"]
