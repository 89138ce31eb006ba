"""The one root of our exceptions: every error can say what to do about it."""

from __future__ import annotations

__all__ = [
    "DuplexError",
    "PluginBrokenError",
    "PluginConflictError",
    "PluginIncompatibleError",
    "PluginNotFoundError",
]


class DuplexError(Exception):
    """An error of this project.

    Attributes:
        hint: one sentence or command that mends it, or None. The CLI prints it under the error.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class PluginNotFoundError(DuplexError):
    """No installed distribution offers a plugin of that name."""


class PluginBrokenError(DuplexError):
    """A plugin is installed and cannot be used; the reason is the cause of this error."""


class PluginIncompatibleError(DuplexError):
    """A plugin was written for another plugin API than this SDK speaks."""


class PluginConflictError(DuplexError):
    """Several distributions offer a plugin of the same name, so nobody can say which is meant."""
