"""How one connection is spoken to: one class per profile, one object per session."""

from __future__ import annotations

from .base import ConnectionProfile, SocketEnding
from .duplex import DuplexProfile
from .openai import OpenAIProfile

__all__ = ["ConnectionProfile", "DuplexProfile", "OpenAIProfile", "SocketEnding"]
