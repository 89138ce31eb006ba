"""A setting that cannot be, told with its path."""

from __future__ import annotations

from duplex_sdk.errors import DuplexError

__all__ = ["SettingsError"]


class SettingsError(DuplexError):
    """A setting is unknown, malformed or contradicts another one: wrong usage."""
